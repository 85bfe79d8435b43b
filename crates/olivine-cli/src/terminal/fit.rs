//! Text that fits a width, which is counted in columns of a terminal: `日` takes two.

use unicode_width::UnicodeWidthStr;

/// Columns that a text takes on a terminal.
pub(crate) fn width_of(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Bytes of the longest start of `text` that takes `width` columns at most.
fn fitting(text: &str, width: usize) -> usize {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let fit = ends.take_while(|end| width_of(&text[..*end]) <= width);
    fit.last().unwrap_or(0)
}

/// `text`, cut at its end if it is wider than `width`.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    match width.checked_sub(1) {
        Some(width) => format!("{}…", &text[..fitting(text, width)]),
        None => String::new(),
    }
}

/// `text`, cut in its middle if it is wider than `width`: names differ at their ends.
pub(crate) fn cut_middle(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(1) else {
        return String::new();
    };
    let head = &text[..fitting(text, room.div_ceil(2))];
    let room = room - width_of(head);
    let mut ends = text.char_indices().map(|(at, _)| &text[at..]);
    let tail = ends.find(|tail| width_of(tail) <= room).unwrap_or("");
    format!("{head}…{tail}")
}

/// `text` in at most `lines` lines, broken at spaces and in words that are wider than a line; the
/// last one is cut.
pub(crate) fn wrapped(text: &str, width: usize, lines: usize) -> Vec<String> {
    let mut done: Vec<String> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() && done.len() < lines {
        if done.len() + 1 == lines || width_of(rest) <= width {
            done.push(cut(rest, width));
            break;
        }
        let full = fitting(rest, width);
        // A figure keeps its `%`.
        let spaces = rest.match_indices(' ').map(|(at, _)| at);
        let spaces = spaces.filter(|at| *at > 0 && !rest[*at..].starts_with(" %"));
        let end = spaces.take_while(|at| *at <= full).last().unwrap_or(full);
        if end == 0 {
            // Not even one character fits.
            done.push(cut(rest, width));
            break;
        }
        done.push(rest[..end].trim_end().to_owned());
        rest = rest[end..].trim_start();
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_its_end_and_wrapped_at_spaces() {
        assert_eq!(cut("audit-log", 9), "audit-log");
        assert_eq!(cut("audit-log", 6), "audit…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(
            (cut("ab", 1), cut("ab", 0)),
            ("…".to_owned(), String::new())
        );
        assert_eq!(cut_middle("market.eu.1", 11), "market.eu.1");
        assert_eq!(cut_middle("market.eu.1", 8), "mark…u.1");
        assert_eq!(cut_middle("market.eu.1", 2), "m…");
        assert_eq!(cut_middle("日本語日本語", 6), "日…語");
        assert_eq!(cut_middle("ab", 0), "");
        let line = "ticks: held 2.1 s by 'audit' (pid 6388, STOPPED), ring 100 %";
        let lines = [
            "ticks: held 2.1 s by",
            "'audit' (pid 6388,",
            "STOPPED), ring 100 %",
        ];
        assert_eq!(wrapped(line, 20, 3), lines);
        assert_eq!(
            wrapped(line, 20, 2),
            ["ticks: held 2.1 s by", "'audit' (pid 6388, …"]
        );
        assert_eq!(wrapped(line, 80, 3), [line]);
        assert_eq!(wrapped(line, 59, 3)[1], "100 %");
        assert_eq!(wrapped("", 20, 3), Vec::<String>::new());
        assert_eq!(wrapped("日本語 by x", 5, 3), ["日本", "語 by", "x"]);
        assert_eq!(wrapped("日本", 1, 3), ["…"]);
    }
}
