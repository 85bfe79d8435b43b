//! The plain form of a view: for pipes, for `--once`, and for builds without the screen.

use crate::output::rows_of_a_line;
use crate::terminal::escaped;
use crate::terminal::fit::{cut, width_of, wrapped};
use crate::watch::format::{about_rate, age, behind, messages, percent, rate, role, share, who};
use crate::watch::view::{ChannelView, Role, State, View};
use olivine_bench::text;
use std::path::Path;

/// The findings, the channels, and the participants of each; with `reasons` also why a channel
/// cannot be read.
pub(super) fn text(view: &View, dir: &Path, reasons: bool) -> String {
    let mut out = findings(view);
    if view.channels.is_empty() {
        out.push_str(&format!("no channels in {}\n", dir.display()));
        return out;
    }
    let is_any_readable = view.channels.iter().any(|one| one.error.is_none());
    if view.findings.is_empty() && is_any_readable {
        out.push_str("no subscriber holds a publisher back\n");
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(&channels(view));
    let participants = participants(view);
    if !participants.is_empty() {
        let heads = [
            "CHANNEL", "ROLE", "PID", "NAME", "STATE", "%CPU", "BEHIND", "MESSAGES", "AGE", "HELD",
        ];
        out.push('\n');
        let right = [2, 5, 6, 7, 8, 9];
        out.push_str(&rows_of_a_line(&heads, &right, &[0, 3], participants));
    }
    for channel in view.channels.iter().filter(|_| reasons) {
        if let Some(error) = &channel.error {
            out.push_str(&format!("\n{}: {}\n", channel.name, escaped(error)));
        }
    }
    out
}

/// The first lines of `shown`, as many as a terminal of this size has room for: the worst finding,
/// which may take three rows, and its remedy are first, and must not leave at the top. If there are
/// rows for more, the last one says how many lines are left out.
pub(super) fn fitted(shown: &str, rows: usize, columns: usize) -> String {
    // The cursor stands in the last row.
    let rows = rows.saturating_sub(1).max(1);
    let height = |line: &str| width_of(line).div_ceil(columns).max(1);
    if shown.lines().map(height).sum::<usize>() <= rows {
        return shown.to_owned();
    }
    let mut lines = shown.lines();
    let first = lines.next().unwrap_or_default();
    let mut kept = wrapped(first, columns, rows.saturating_sub(1).clamp(1, 3));
    let (spare, others) = (rows - kept.len(), lines.clone().count());
    let note = spare > 1 && others > spare;
    let room = spare - usize::from(note);
    kept.extend(lines.take(room).map(|line| cut(line, columns)));
    if note {
        let more = text::plural((others - room) as u64, "more line");
        kept.push(cut(&format!("… {more}: --once prints all"), columns));
    }
    kept.join("\n") + "\n"
}

/// Each finding, and the command that helps.
pub(super) fn findings(view: &View) -> String {
    let line = |one: &crate::watch::view::Finding| format!("{}\n  {}\n", one.text, one.remedy);
    view.findings.iter().map(line).collect()
}

fn channels(view: &View) -> String {
    let heads = [
        "CHANNEL", "RATE", "MESSAGES", "RING", "FULL", "HELD", "PUBS", "SUBS",
    ];
    let rows = view.channels.iter().map(|one| {
        if one.error.is_some() {
            let mut row = vec![one.name.clone(), "unreadable".to_owned()];
            row.resize(heads.len(), "-".to_owned());
            return row;
        }
        vec![
            one.name.clone(),
            rate(one.bytes_per_s),
            about_rate(one.messages_per_s_estimate),
            match one.capacity_bytes {
                0 => "open".to_owned(),
                bytes => text::bytes(bytes),
            },
            percent(one.ring_fill),
            share(one.held_share),
            with_gone(one, Role::Publisher, one.publishers_count),
            with_gone(one, Role::Subscriber, one.subscribers_count),
        ]
    });
    rows_of_a_line(&heads, &[1, 2, 3, 4, 5, 6, 7], &[0], rows.collect())
}

/// The living participants of a role, and those that are gone.
fn with_gone(channel: &ChannelView, role: Role, living: usize) -> String {
    let of_role = channel.participants.iter().filter(|one| one.role == role);
    match of_role.filter(|one| one.state == State::Gone).count() {
        0 => living.to_string(),
        gone => format!("{living} (+{gone} gone)"),
    }
}

fn participants(view: &View) -> Vec<Vec<String>> {
    let all = view.channels.iter().flat_map(|channel| {
        let shown = channel.participants.iter();
        shown.map(|one| (channel.name.clone(), one))
    });
    let row = |(channel, one): (String, &crate::watch::view::Participant)| {
        vec![
            channel,
            role(one).to_owned(),
            one.process_id.to_string(),
            who(one),
            one.state.word().to_owned(),
            share(one.cpu_share),
            behind(one),
            messages(one),
            age(one),
            share(one.held_share),
        ]
    };
    all.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str =
        "ticks: held 2.1 s by 'audit'\n  kill -CONT 7\n\nCHANNEL  RATE\nticks    0 B/s\n";

    #[test]
    fn text_is_cut_at_its_end_to_the_rows_of_the_terminal() {
        assert_eq!(fitted(SHOWN, 6, 80), SHOWN);
        assert_eq!(
            fitted(SHOWN, 5, 80),
            "ticks: held 2.1 s by 'audit'\n  kill -CONT 7\n\n… 2 more lines: --once prints all\n"
        );
        // The first line takes two rows of 20 columns.
        assert_eq!(
            fitted(SHOWN, 5, 20),
            "ticks: held 2.1 s by\n'audit'\n  kill -CONT 7\n… 3 more lines: --o…\n"
        );
        // The remedy comes before the number of lines.
        assert_eq!(
            fitted(SHOWN, 4, 20),
            "ticks: held 2.1 s by\n'audit'\n  kill -CONT 7\n"
        );
        assert_eq!(
            fitted(SHOWN, 3, 20),
            "ticks: held 2.1 s b…\n  kill -CONT 7\n"
        );
        assert_eq!(fitted(SHOWN, 2, 20), "ticks: held 2.1 s b…\n");
        for (rows, columns) in (0..4).flat_map(|rows| (1..4).map(move |columns| (rows, columns))) {
            let text = fitted(SHOWN, rows, columns);
            assert!(text.starts_with(['t', '…']), "{text}");
            assert!(text.lines().count() <= rows.saturating_sub(1).max(1));
        }
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let shown = "価格: held\n  kill -CONT 7\n";
        assert_eq!(fitted(shown, 3, 14), shown);
        assert_eq!(fitted(shown, 3, 9), "価格: he…\n  kill -…\n");
        assert_eq!(fitted("日本語\n", 3, 3), "日本語\n");
        assert_eq!(fitted("日本語\n", 2, 5), "日本…\n");
    }
}
