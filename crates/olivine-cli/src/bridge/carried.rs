//! What bridges carry, as a line that is written over each second, where a person at a terminal
//! waits for them.

use super::{Running, place};
use crate::{log, progress};
use olivine::journal::{Outline, ReplayState};
use olivine::{Config, LinkStatus, Scheme};
use olivine_bench::text;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// Messages and bytes of frames, and how far a replay is in its journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    /// A side that sends counts bytes only.
    messages: u64,
    bytes: u64,
    journal_position: u64,
}

impl Amount {
    /// The sum of these bridges.
    fn of(bridges: impl Iterator<Item = LinkStatus>) -> Self {
        bridges.fold(Self::default(), |sum, status| Self {
            messages: sum.messages + status.messages,
            bytes: sum.bytes + status.bytes,
            journal_position: sum.journal_position + status.journal_position,
        })
    }
}

/// The progress of all bridges of a command.
#[derive(Debug)]
pub(super) struct Carried {
    is_shown: bool,
    /// From where to where.
    way: String,
    journal: Journal,
    since: Instant,
    before: Amount,
}

/// The journal that is replayed, of whose positions a part is done.
#[derive(Debug)]
enum Journal {
    /// There is none, or it may grow.
    None,
    Unread(PathBuf),
    Read(Range<u64>),
}

impl Carried {
    pub(super) fn new(running: &[Running]) -> Self {
        let is_shown = log::says(log::Level::Info) && progress::has_line();
        let (way, journal) = match running {
            [one] => {
                let (from, to) = (place(&one.pair.source), place(&one.pair.destination));
                let journal = Journal::of(&one.source, one.pair.keep);
                (format!("{from} to {to}"), journal)
            }
            _ => (format!("{} bridges", running.len()), Journal::None),
        };
        Self::begin(is_shown, way, journal, Instant::now())
    }

    fn begin(is_shown: bool, way: String, journal: Journal, now: Instant) -> Self {
        Self {
            is_shown,
            way,
            journal,
            since: now,
            before: Amount::default(),
        }
    }

    /// Writes the line that is due.
    pub(super) fn show(&mut self, running: &[Running]) {
        let bridges = running.iter().map(|one| one.bridge.status());
        if let Some(line) = self.line(bridges, Instant::now()) {
            progress::show_line(&line);
        }
    }

    /// The line that is due. `None` too soon after the last one, before the first message, and
    /// where no person sees it.
    fn line(&mut self, bridges: impl Iterator<Item = LinkStatus>, now: Instant) -> Option<String> {
        let elapsed = now.saturating_duration_since(self.since);
        if !self.is_shown || elapsed < EVERY {
            return None;
        }
        let carried = Amount::of(bridges);
        let before = std::mem::replace(&mut self.before, carried);
        self.since = now;
        if carried.bytes == 0 {
            return None;
        }
        let part = self.journal.part(carried.journal_position);
        let part = part.map_or_else(String::new, |percent| format!("{percent} %, "));
        Some(format!(
            "{part}{}: {}",
            figures(before, carried, elapsed),
            self.way
        ))
    }
}

/// The outline of the journal at `path`, unless it cannot be read, or not soon.
pub(super) fn outline(path: &Path) -> Option<Outline> {
    let until = Instant::now() + EVERY;
    Outline::read_until(path, move || Instant::now() >= until).ok()
}

impl Journal {
    /// That of a source. A bridge that is kept, or follows the journal, waits for more of it.
    fn of(source: &Config, keep: bool) -> Self {
        let file = source.get_file();
        let ends = source.scheme() == Scheme::File && !keep && !file.get_follow();
        let path = file.get_path().filter(|_| ends);
        path.map_or(Self::None, |path| Self::Unread(path.to_owned()))
    }

    /// The per cent of the journal before this position.
    fn part(&mut self, position: u64) -> Option<u64> {
        if let Self::Unread(path) = self {
            let outline = outline(path);
            let whole = outline.filter(|outline| outline.state != ReplayState::Growing);
            *self = whole.map_or(Self::None, |outline| Self::Read(outline.start..outline.end));
        }
        let Self::Read(Range { start, end }) = *self else {
            return None;
        };
        let done = position.clamp(start, end) - start;
        (u128::from(done) * 100)
            .checked_div(u128::from(end - start))
            .and_then(|percent| u64::try_from(percent).ok())
    }
}

#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn figures(before: Amount, carried: Amount, elapsed: Duration) -> String {
    let per_s = |before: u64, now: u64| now.saturating_sub(before) as f64 / elapsed.as_secs_f64();
    let mut line = String::new();
    if carried.messages > 0 {
        let rate = text::rate(per_s(before.messages, carried.messages));
        let messages = text::plural(carried.messages, "message");
        line.push_str(&format!("{messages}, {rate}, "));
    }
    let rate = text::byte_rate(per_s(before.bytes, carried.bytes));
    line.push_str(&format!("{}, {rate}", text::bytes(carried.bytes)));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(messages: u64, bytes: u64) -> LinkStatus {
        let mut status = LinkStatus::default();
        (status.messages, status.bytes) = (messages, bytes);
        status.journal_position = 1_000 + bytes;
        status
    }

    #[test]
    fn line_comes_each_second_once_something_was_carried_and_on_a_terminal_only() {
        let start = Instant::now();
        let begin =
            |is_shown, journal| Carried::begin(is_shown, "a to b".to_owned(), journal, start);
        let line = |carried: &mut Carried, ms, messages, bytes| {
            let now = start + Duration::from_millis(ms);
            carried.line([status(messages, bytes)].into_iter(), now)
        };
        let mut carried = begin(true, Journal::None);
        let mut line_of = |ms, messages, bytes| line(&mut carried, ms, messages, bytes);
        assert_eq!(line_of(999, 5, 80), None);
        assert_eq!(
            line_of(1_000, 1_500, 3_072).as_deref(),
            Some("1,500 messages, 1.50 K/s, 3 KiB, 3.07 kB/s: a to b")
        );
        assert_eq!(line_of(1_500, 9_000, 9_000), None);
        assert_eq!(
            line_of(3_000, 2_500, 5_072).as_deref(),
            Some("2,500 messages, 500 /s, 4.95 KiB, 1.00 kB/s: a to b")
        );
        // Nothing came in the last second.
        assert_eq!(
            line_of(4_000, 2_500, 5_072).as_deref(),
            Some("2,500 messages, 0 /s, 4.95 KiB, 0 B/s: a to b")
        );
        // A side that sends.
        assert_eq!(
            line_of(5_000, 0, 6_072).as_deref(),
            Some("5.93 KiB, 1.00 kB/s: a to b")
        );
        let mut nothing = begin(true, Journal::None);
        assert_eq!(line(&mut nothing, 2_000, 0, 0), None);
        let mut hidden = begin(false, Journal::None);
        assert_eq!(line(&mut hidden, 2_000, 5, 80), None);
        // Journals whose older files were removed do not start at 0.
        let mut replay = begin(true, Journal::Read(1_000..3_000));
        assert_eq!(
            line(&mut replay, 1_000, 1, 1_999).as_deref(),
            Some("99 %, 1 message, 1.00 /s, 1.95 KiB, 2.00 kB/s: a to b")
        );
        assert_eq!(Journal::Read(7..7).part(7), None);
    }

    #[test]
    fn journal_that_may_grow_has_no_per_cent() {
        let is_known = |uri: &str, keep| {
            let journal = Journal::of(&Config::parse(uri).unwrap(), keep);
            matches!(journal, Journal::Unread(_))
        };
        assert!(is_known("file:///j.olv", false));
        assert!(is_known("file:///j.olv?follow=no", false));
        assert!(!is_known("file:///j.olv?follow=yes", false));
        assert!(!is_known("file:///j.olv", true));
        assert!(!is_known("shm://j", false));
    }

    #[test]
    fn several_bridges_are_one_line() {
        let sum = Amount::of([status(2, 30), status(3, 40)].into_iter());
        assert_eq!((sum.messages, sum.bytes), (5, 70));
    }
}
