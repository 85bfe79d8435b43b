//! The plain form of a view: for pipes, for `--once`, and for builds without the screen.

use crate::output::table;
use crate::terminal::escaped;
use crate::watch::format::{about_rate, age, behind, messages, percent, rate, role, share, who};
use crate::watch::view::View;
use olivine_bench::text;
use std::path::Path;

/// The findings, the channels, and the participants of each.
pub(super) fn text(view: &View, dir: &Path) -> String {
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
        out.push_str(&table(&heads, &[2, 5, 6, 7, 8, 9], participants));
    }
    for channel in &view.channels {
        if let Some(error) = &channel.error {
            out.push_str(&format!("\n{}: {}\n", channel.name, escaped(error)));
        }
    }
    out
}

/// The first lines of `shown`, as many as a terminal of this size has room for: the worst finding
/// is the first line, and must not leave it at the top. A last line says how many are left out.
pub(super) fn fitted(shown: &str, rows: usize, columns: usize) -> String {
    // The cursor stands in the last row.
    let rows = rows.saturating_sub(1).max(1);
    let height = |line: &str| line.chars().count().div_ceil(columns).max(1);
    if shown.lines().map(height).sum::<usize>() <= rows {
        return shown.to_owned();
    }
    let cut = |line: &str, rows: usize| -> String {
        let room = rows * columns;
        match line.chars().count() > room {
            true => line.chars().take(room - 1).chain(['…']).collect(),
            false => line.to_owned(),
        }
    };
    let mut left = rows - 1;
    let mut kept = Vec::new();
    for line in shown.lines() {
        match left.checked_sub(height(line)) {
            Some(rest) => left = rest,
            None => break,
        }
        kept.push(line.to_owned());
    }
    if kept.is_empty() {
        kept.push(cut(
            shown.lines().next().unwrap_or_default(),
            rows.max(2) - 1,
        ));
    }
    if rows > 1 {
        let more = (shown.lines().count() - kept.len()) as u64;
        kept.push(cut(
            &format!("… {}: --once prints all", text::plural(more, "more line")),
            1,
        ));
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
            one.publishers_count.to_string(),
            match one.gone_count {
                0 => one.subscribers_count.to_string(),
                gone => format!("{} (+{gone} gone)", one.subscribers_count),
            },
        ]
    });
    table(&heads, &[1, 2, 3, 4, 5, 6, 7], rows.collect())
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
            "ticks: held 2.1 s by 'audit'\n  kill -CONT 7\n… 3 more lines: --o…\n"
        );
        assert_eq!(
            fitted(SHOWN, 3, 20),
            "ticks: held 2.1 s b…\n… 4 more lines: --o…\n"
        );
        for rows in 0..4 {
            for columns in 1..4 {
                assert!(fitted(SHOWN, rows, columns).starts_with(['t', '…']));
            }
        }
    }
}
