//! One view as cells. It fits any size: what there is no room for is left out, the least
//! important first.

use super::columns::{CHANNELS, PARTICIPANTS};
use super::keys::Shown;
use super::layout::{Column, fit, is_bar};
use crate::terminal::escaped;
use crate::terminal::fit::{cut, width_of, wrapped};
use crate::watch::format::{
    about_rate, age, behind, messages, percent, rate, role, seconds, share, who,
};
use crate::watch::view::{ChannelView, Participant, Severity, State, View};
use olivine_bench::text::{self, plural};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

/// Least height with a line of keys, and with heads of tables.
const ROOMY: u16 = 10;

const KEYS: &str = "q quit  ↑↓ channel  Enter detail  s sort  / filter  p pause  ? help";
/// Keys, and what they do.
const HELP: [(&str, &str); 6] = [
    ("q Ctrl-C", "quit: what is wrong stays on the terminal"),
    (
        "↑ ↓ PgUp PgDn",
        "select a channel; move in a detail and in this help",
    ),
    ("Enter", "all about its participants, and back"),
    ("s", "sort by: held, behind, rate, name"),
    (
        "/",
        "filter by channel, name, command or process; Esc clears it",
    ),
    ("p", "pause, and go on"),
];
const WORDS: [&str; 7] = [
    "",
    "STOPPED: by a signal or a debugger   gone: dead, or absent",
    "evicted: lost its place   held: waits for room   stuck: released nothing",
    "moving: published or released   parked: sleeps",
    "spinning: polls, nothing came   idle: neither",
    "HELD: part of the last interval in which a publisher had no room",
    "~ is estimated from some messages; > may be older",
];
const HELP_KEYS: &str = "↑↓ more  any other key: back";
/// Least width with what keys do in a second column.
const HELP_WIDTH: u16 = 76;

/// The lines of the help.
fn help(width: u16) -> Vec<String> {
    let keys = HELP.iter().map(|(keys, text)| match width {
        HELP_WIDTH.. => format!("{keys:<16}{text}"),
        _ => format!("{keys}: {text}"),
    });
    let all = keys.chain(WORDS.iter().map(|line| (*line).to_owned()));
    let fit = |line: String| match line.is_empty() {
        true => vec![line],
        false => wrapped(&line, width.into(), usize::MAX),
    };
    all.flat_map(fit).collect()
}

/// Where the next line goes.
struct Page<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    y: u16,
    colored: bool,
}

/// Draws `view`.
pub(super) fn draw(buffer: &mut Buffer, view: &View, shown: &mut Shown) {
    draw_with(
        buffer,
        view,
        shown,
        std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty()),
    );
}

/// The same, with or without colours.
fn draw_with(buffer: &mut Buffer, view: &View, shown: &mut Shown, colored: bool) {
    let area = buffer.area;
    let mut page = Page {
        buffer,
        area,
        y: area.top(),
        colored,
    };
    if shown.help {
        if area.height >= ROOMY {
            page.headline(view);
        }
        let lines = help(area.width).into_iter();
        page.scrolled(lines.map(|line| (line, Style::new())).collect(), shown);
        page.keys(HELP_KEYS);
        return;
    }
    page.headline(view);
    if area.height >= ROOMY {
        page.summary(view, shown);
    }
    let channels = shown.channels(view);
    let selected = shown.index(&channels);
    if shown.detail {
        if let Some(channel) = channels.get(selected) {
            page.detail(channel, shown);
        }
    } else {
        page.tables(&channels, selected, shown);
    }
    page.keys(if shown.typing {
        "Enter keeps the filter, Esc clears it"
    } else {
        KEYS
    });
}

impl Page<'_> {
    /// Rows that are left, without that of the keys.
    fn left(&self) -> usize {
        let keys = u16::from(self.area.height >= ROOMY);
        usize::from(
            self.area
                .bottom()
                .saturating_sub(keys)
                .saturating_sub(self.y),
        )
    }

    fn style(&self, color: Color) -> Style {
        if self.colored {
            Style::new().fg(color)
        } else {
            Style::new()
        }
    }

    /// Writes at `x`, cut to `width`; a control character that came so far is shown, not sent.
    fn put(&mut self, x: u16, width: u16, text: &str, style: Style) {
        if self.y >= self.area.bottom() || x >= self.area.right() {
            return;
        }
        let shown = escaped(text).replace('\t', "\\t");
        let shown = cut(&shown, width.min(self.area.right() - x).into());
        self.buffer
            .set_stringn(x, self.y, shown, usize::from(width), style);
    }

    fn line(&mut self, text: &str, style: Style) {
        self.put(self.area.left(), self.area.width, text, style);
        self.y = self.y.saturating_add(1);
    }

    /// The worst finding, and the command that helps.
    fn headline(&mut self, view: &View) {
        let Some(worst) = view.findings.first() else {
            let calm = if self.area.width < 40 {
                "nothing is held"
            } else {
                CALM
            };
            self.line(calm, self.style(Color::Green));
            return;
        };
        let style = match worst.severity {
            Severity::Held => self.style(Color::Red).add_modifier(Modifier::BOLD),
            _ => self.style(Color::Yellow).add_modifier(Modifier::BOLD),
        };
        // A row for the command comes before a row of the tables, and behind the first of the text.
        let others = if self.area.height > 3 { 2 } else { 1 };
        let most = usize::from(self.area.height.saturating_sub(others).clamp(1, 3));
        for line in wrapped(&worst.text, self.area.width.into(), most) {
            self.line(&line, style);
        }
        if self.area.height > 1 {
            let most = if self.area.height >= ROOMY { 2 } else { 1 };
            for line in wrapped(&worst.remedy, self.area.width.into(), most) {
                self.line(&line, Style::new().add_modifier(Modifier::BOLD));
            }
        }
    }

    /// How much is shown, and what the keys changed.
    fn summary(&mut self, view: &View, shown: &Shown) {
        let participants: usize = view.channels.iter().map(|one| one.participants.len()).sum();
        let mut parts = vec![
            plural(view.channels.len() as u64, "channel"),
            plural(participants as u64, "participant"),
            format!("sorted by {}", shown.order.word()),
        ];
        if let more @ 1.. = view.findings.len().saturating_sub(1) {
            parts.push(format!("{} more", plural(more as u64, "finding")));
        }
        if shown.typing || !shown.filter.is_empty() {
            let cursor = if shown.typing { "_" } else { "" };
            parts.push(format!("filter /{}{cursor}", shown.filter));
        }
        if shown.paused {
            parts.push("PAUSED".to_owned());
        }
        let style = Style::new().add_modifier(Modifier::DIM);
        self.line(&parts.join(", "), style);
    }

    /// The channels, and the participants of the selected one.
    fn tables(&mut self, channels: &[&ChannelView], selected: usize, shown: &Shown) {
        if channels.is_empty() {
            self.line("no channels", Style::new());
            return;
        }
        let participants = channels.get(selected).map(|one| shown.participants(one));
        let participants = participants.unwrap_or_default();
        let heads = self.left() >= 6;
        let spare = self.left().saturating_sub(if heads { 3 } else { 0 });
        // The participants get what they need, the channels a third at least.
        let least = (spare / 3).max(1);
        let rows = channels
            .len()
            .min(least.max(spare.saturating_sub(participants.len())));
        self.table(CHANNELS, channels, Some(selected), rows, heads);
        if heads {
            self.y = self.y.saturating_add(1);
        }
        let rows = self.left().saturating_sub(usize::from(heads));
        if rows > 0 && !participants.is_empty() {
            self.table(PARTICIPANTS, &participants, None, rows, heads);
        }
        if let Some(error) = channels.get(selected).and_then(|one| one.error.as_ref()) {
            for line in wrapped(&escaped(error), self.area.width.into(), self.left().min(4)) {
                self.line(&line, self.style(Color::Red));
            }
        }
    }

    fn table<T: Row>(
        &mut self,
        columns: &[Column<T>],
        items: &[&T],
        selected: Option<usize>,
        rows: usize,
        heads: bool,
    ) {
        let names = columns.iter().find(|column| column.width == 0);
        let names = names.map(|column| items.iter().map(|item| width_of(&(column.cell)(item))));
        let longest = names.and_then(Iterator::max).unwrap_or(0);
        let placed = fit(columns, self.area.width, longest);
        if heads {
            for (column, x, width) in &placed {
                let head = aligned(column.head.to_owned(), column.right, *width);
                self.put(*x, *width, &head, Style::new().add_modifier(Modifier::BOLD));
            }
            self.y = self.y.saturating_add(1);
        }
        let first = selected.map_or(0, |at| (at + 1).saturating_sub(rows));
        for (at, item) in items.iter().enumerate().skip(first).take(rows) {
            let style = match item.color() {
                Some(color) => self.style(color),
                None => Style::new(),
            };
            let style = if selected == Some(at) && items.len() > 1 {
                style.add_modifier(Modifier::REVERSED)
            } else {
                style
            };
            self.put(
                self.area.left(),
                self.area.width,
                &" ".repeat(self.area.width.into()),
                style,
            );
            for (column, x, width) in &placed {
                let cell = aligned((column.cell)(item), column.right, *width);
                // A full bar would look empty.
                let style = match cell.starts_with(is_bar) {
                    true => style.remove_modifier(Modifier::REVERSED),
                    false => style,
                };
                self.put(*x, *width, &cell, style);
            }
            self.y = self.y.saturating_add(1);
        }
    }

    /// Everything about the participants of one channel.
    fn detail(&mut self, channel: &ChannelView, shown: &mut Shown) {
        let head = format!(
            "{}: ring {}, {} full, {}, {} messages, held {}",
            channel.name,
            text::bytes(channel.capacity_bytes),
            percent(channel.ring_fill),
            rate(channel.bytes_per_s),
            about_rate(channel.messages_per_s_estimate),
            share(channel.held_share),
        );
        for line in wrapped(&head, self.area.width.into(), 2) {
            self.line(&line, Style::new().add_modifier(Modifier::BOLD));
        }
        let mut lines = Vec::new();
        for one in shown.participants(channel) {
            let color = one
                .color()
                .map_or_else(Style::new, |color| self.style(color));
            let title = format!(
                "{} {} {} {} {}",
                role(one),
                one.index,
                who(one),
                one.process_id,
                one.state.word()
            );
            lines.push((title, color.add_modifier(Modifier::BOLD)));
            let indented = self.area.width.saturating_sub(2);
            for line in wrapped(&facts(one), indented.into(), 4) {
                lines.push((format!("  {line}"), Style::new()));
            }
        }
        self.scrolled(lines, shown);
    }

    /// As many of these lines as there is room for, from where the person is on.
    fn scrolled(&mut self, lines: Vec<(String, Style)>, shown: &mut Shown) {
        let rows = self.left();
        shown.scrolled = shown.scrolled.min(lines.len().saturating_sub(rows));
        for (line, style) in lines.into_iter().skip(shown.scrolled).take(rows) {
            self.line(&line, style);
        }
    }

    /// The last row, where there is room for it.
    fn keys(&mut self, text: &str) {
        if self.area.height >= ROOMY {
            self.y = self.area.bottom() - 1;
            self.line(text, Style::new().add_modifier(Modifier::DIM));
        }
    }
}

const CALM: &str = "no subscriber holds a publisher back";

/// What the detail says of a participant.
fn facts(one: &Participant) -> String {
    let mut facts = vec![format!(
        "command {}",
        one.command.as_deref().unwrap_or("not visible")
    )];
    // Not of a process that is gone, or of another PID namespace.
    facts.extend(one.cpu.map(|cpu| format!("CPU {cpu}")));
    if one.cpu_share.is_some() {
        facts.push(format!("{} of a CPU", share(one.cpu_share)));
    }
    facts.push(rate(one.bytes_per_s));
    let held = format!("held {}", share(one.held_share));
    facts.push(match one.held_ns {
        0 => held,
        ns => format!("{held}, {} in all", seconds(ns)),
    });
    if let Some(delivery) = one.delivery {
        facts.push(match one.behind_bytes {
            0 => "not behind".to_owned(),
            _ if one.behind_messages_estimate.is_none() => {
                format!("behind {}, {}", behind(one), age(one))
            }
            _ => format!(
                "behind {}, {} messages, {}",
                behind(one),
                messages(one),
                age(one)
            ),
        });
        facts.push(format!("lost {}", text::bytes(one.lost_bytes)));
        facts.push(plural(one.overruns_count, "overrun"));
        facts.push(plural(one.parks_count, "park"));
        facts.push(delivery.to_owned());
    }
    if one.absent_ns > 0 {
        facts.push(format!("absent for {}", seconds(one.absent_ns)));
    }
    let ago = one.since_last_failure_ns.map(seconds);
    if let (Some(reason), Some(last)) = (&one.last_failure, ago) {
        let failures = plural(one.failures_count, "failure");
        let first = one
            .since_first_failure_ns
            .filter(|_| one.failures_count > 1);
        let first = first.map_or_else(String::new, |ns| format!("the first {} and ", seconds(ns)));
        let reason = escaped(reason);
        facts.push(format!("{failures}, {first}the last {last} ago: {reason}"));
    }
    facts.join("; ")
}

/// A row of a table.
trait Row {
    fn color(&self) -> Option<Color>;
}

impl Row for ChannelView {
    fn color(&self) -> Option<Color> {
        match self.held_share {
            _ if self.error.is_some() => Some(Color::Red),
            Some(share) if share >= 0.5 => Some(Color::Red),
            Some(share) if share >= 0.05 => Some(Color::Yellow),
            _ => None,
        }
    }
}

impl Row for Participant {
    fn color(&self) -> Option<Color> {
        match self.state {
            State::Stopped | State::Evicted => Some(Color::Red),
            State::Gone | State::NotReading | State::Held => Some(Color::Yellow),
            _ => None,
        }
    }
}

/// `text` at the right end of its column.
fn aligned(text: String, right: bool, width: u16) -> String {
    if !right {
        return text;
    }
    let missing = usize::from(width).saturating_sub(width_of(&text));
    " ".repeat(missing) + &text
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
