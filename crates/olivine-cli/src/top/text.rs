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
