//! A view as one picture to share: the sentence, the ranking around this library, the conditions.
//!
//! Colours and fonts are attributes, so every viewer shows them. Its figures are those of the
//! figure with the ranking, to the letter.

use super::svg::{escape, width_of};
use crate::view::{Dot, Plot, Section, View};
use std::fmt::Write as _;

/// The size that sites show.
const SIZE: (f64, f64) = (1200.0, 630.0);
/// Room at each side.
const SIDE: f64 = 56.0;
/// Most rows.
const ROWS_MAX: usize = 8;
/// Left end of the bars, and the room for the longest.
const BARS: (f64, f64) = (400.0, 560.0);
/// Top of the rows, and the room for all.
const ROWS: (f64, f64) = (222.0, 306.0);

const INK: &str = "#1d2410";
const SOFT: &str = "#5c6450";
const OURS: &str = "#5b7f0a";
const THEIRS: &str = "#9aa3ad";
const BAD: &str = "#b3261e";

/// The most important ranking of `view` as a picture; `None` if there is none with this library.
#[must_use]
pub fn card(view: &View) -> Option<String> {
    let (section, dots, floor) = ranking(view)?;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" \
         height=\"{1}\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\">\n\
         <rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n\
         <rect width=\"{0}\" height=\"10\" fill=\"{OURS}\"/>\n",
        SIZE.0, SIZE.1
    );
    let count = dots.len();
    let chosen = chosen(&dots);
    let what = match count - chosen.len() {
        0 => section.heading.clone(),
        _ => format!("{}: {} of {count}", section.heading, chosen.len()),
    };
    text(&mut out, (SIDE, 56.0), 22.0, SOFT, "", &what);
    let sentence = view.sentence.as_deref().unwrap_or(&view.title);
    for (line, top) in wrapped(sentence, 30.0, SIZE.0 - 2.0 * SIDE)
        .iter()
        .zip([100.0, 138.0, 176.0])
    {
        let weight = " font-weight=\"600\"";
        text(&mut out, (SIDE, top), 30.0, INK, weight, line);
    }
    rows(&mut out, &chosen, floor);
    let command = shortened(&section.command, 18.0, SIZE.0 - 2.0 * SIDE);
    let mono = " font-family=\"ui-monospace, 'DejaVu Sans Mono', monospace\"";
    text(&mut out, (SIDE, 570.0), 18.0, INK, mono, &command);
    let machine = view.machines.iter().take(1);
    let conditions: Vec<String> = machine.chain(&section.facts).cloned().collect();
    let conditions = shortened(&conditions.join(", "), 16.0, SIZE.0 - 2.0 * SIDE);
    text(&mut out, (SIDE, 602.0), 16.0, SOFT, "", &conditions);
    if let Some(stamp) = view.stamp {
        let wide = width_of(stamp, 22.0) + 28.0;
        let left = SIZE.0 - SIDE - wide;
        let _ = writeln!(
            out,
            "<rect x=\"{left:.0}\" y=\"30\" width=\"{wide:.0}\" height=\"36\" rx=\"6\" \
                 fill=\"none\" stroke=\"{BAD}\" stroke-width=\"2\"/>"
        );
        text(&mut out, (left + 14.0, 56.0), 22.0, BAD, "", stamp);
    }
    out.push_str("</svg>\n");
    Some(out)
}

/// The first ranking with this library: its section, rows and floor. If the sentence is about a
/// section, it is looked for there.
fn ranking(view: &View) -> Option<(&Section, Vec<&Dot>, Option<f64>)> {
    let sections = match view.told {
        Some(told) => &view.sections[told..=told],
        None => &view.sections[..],
    };
    let figures = sections
        .iter()
        .flat_map(|section| section.figures.iter().map(move |figure| (section, figure)));
    figures.into_iter().find_map(|(section, figure)| {
        let Plot::Dots { dots, floor, .. } = &figure.plot else {
            return None;
        };
        let is_ours = dots.iter().any(|dot| dot.is_ours);
        is_ours.then(|| (section, dots.iter().collect(), *floor))
    })
}

/// The best row of this library among the first of others; its further rows where there is room.
fn chosen<'a>(dots: &[&'a Dot]) -> Vec<&'a Dot> {
    let best = dots.iter().position(|dot| dot.is_ours);
    let mut places: Vec<usize> = (0..dots.len()).collect();
    places.sort_by_key(|place| match (Some(*place) == best, dots[*place].is_ours) {
        (true, _) => 0,
        (false, false) => 1,
        (false, true) => 2,
    });
    places.truncate(ROWS_MAX);
    places.sort_unstable();
    places.into_iter().map(|place| dots[place]).collect()
}

#[allow(clippy::cast_precision_loss, reason = "a few rows")]
fn rows(out: &mut String, dots: &[&Dot], floor: Option<f64>) {
    let most = dots.iter().map(|dot| dot.value).fold(0.0, f64::max);
    let high = (ROWS.1 / dots.len().max(1) as f64).min(44.0);
    let x = |value: f64| BARS.0 + BARS.1 * value / most.max(f64::MIN_POSITIVE);
    let place = |index: usize| ROWS.0 + high * index as f64;
    let colour = |dot: &Dot| if dot.is_ours { OURS } else { THEIRS };
    for (index, dot) in dots.iter().enumerate() {
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill=\"{}\"/>",
            BARS.0,
            place(index) + high * 0.14,
            x(dot.value) - BARS.0,
            high * 0.72,
            colour(dot)
        );
    }
    if let Some(floor) = floor.filter(|floor| *floor <= most) {
        let (x, bottom) = (x(floor), place(dots.len()));
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" \
                 stroke=\"{INK}\" stroke-width=\"2\" stroke-dasharray=\"3 4\"/>",
            ROWS.0 - 4.0
        );
        let label = "floor: bare cache line";
        text(out, (x + 6.0, ROWS.0 - 8.0), 15.0, SOFT, "", label);
    }
    for (index, dot) in dots.iter().enumerate() {
        let base = place(index) + high * 0.66;
        let weight = if dot.is_ours {
            " font-weight=\"600\""
        } else {
            ""
        };
        let name = shortened(&dot.name, 18.0, BARS.0 - SIDE - 14.0);
        let end = format!("{weight} text-anchor=\"end\"");
        text(out, (BARS.0 - 14.0, base), 18.0, INK, &end, &name);
        // The line of the floor may be behind it.
        let halo = format!(
            "{weight} paint-order=\"stroke\" stroke=\"#ffffff\" stroke-width=\"6\" \
             stroke-linejoin=\"round\""
        );
        text(
            out,
            (x(dot.value) + 10.0, base),
            18.0,
            INK,
            &halo,
            &dot.text,
        );
    }
}

fn text(out: &mut String, at: (f64, f64), size: f64, colour: &str, more: &str, words: &str) {
    let words = escape(words);
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" \
             fill=\"{colour}\"{more}>{words}</text>",
        at.0, at.1
    );
}

/// Lines of words no wider than `room`.
fn wrapped(words: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split(' ') {
        let line = lines.last().map_or("", String::as_str);
        let longer = format!("{line} {word}").trim_start().to_owned();
        if width_of(&longer, size) <= room || line.is_empty() {
            lines.pop();
            lines.push(longer);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// The start of a text that is wider than `room`.
fn shortened(words: &str, size: f64, room: f64) -> String {
    let mut short = words.to_owned();
    while width_of(&short, size) > room && short.pop().is_some() {}
    if short.len() < words.len() {
        short.pop();
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_broken_between_words_and_long_texts_are_cut() {
        assert_eq!(wrapped("aa bb cc", 10.0, 6.0 * 5.6), ["aa bb", "cc"]);
        assert_eq!(wrapped("aaaaaaaaaa b", 10.0, 20.0), ["aaaaaaaaaa", "b"]);
        assert_eq!(shortened("abcdef", 10.0, 20.0), "ab…");
        assert_eq!(shortened("abc", 10.0, 20.0), "abc");
    }

    /// A regression: six rows of this library hid all others but two.
    #[test]
    fn further_rows_of_this_library_make_room_for_others() {
        let rows = |count: usize, ours: &[usize]| -> Vec<Dot> {
            let row = |place| Dot {
                is_ours: ours.contains(&place),
                name: place.to_string(),
                ..Dot::default()
            };
            (0..count).map(row).collect()
        };
        let names = |rows: &[Dot]| -> Vec<String> {
            let all: Vec<&Dot> = rows.iter().collect();
            chosen(&all).iter().map(|dot| dot.name.clone()).collect()
        };
        let many = rows(20, &[2, 3, 4, 5, 6, 7]);
        assert_eq!(names(&many), ["0", "1", "2", "8", "9", "10", "11", "12"]);
        assert_eq!(names(&rows(20, &[15]))[7], "15");
        assert_eq!(names(&rows(3, &[0, 1])), ["0", "1", "2"]);
    }
}
