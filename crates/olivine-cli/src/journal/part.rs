//! A part of a journal: which messages it has, and whether all of them could be read.

use super::contents::{FailedRecording, failures_sentence, missed_sentence};
use super::damage::Damage;
use crate::args::journal::{PartArgs, Unfinished};
use crate::failure::{Failure, Outcome, complain, with_id};
use crate::log;
use crate::progress::Progress;
use crate::stop::Stop;
use olivine::Start;
use olivine::journal::{JournalError, Lane, Outline, Replay, Run, RunMessage};
use olivine_bench::text;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Runs between two updates of the progress bar.
const RUNS_A_LOOK: u64 = 256;

/// A message of the part.
pub(super) struct Selected<'a> {
    pub(super) run: Run<'a>,
    pub(super) message: RunMessage<'a>,
    /// Its whole frame.
    pub(super) frame: &'a [u8],
    /// Bytes of its lane that were never recorded, since the message of the lane before.
    pub(super) missed_bytes: u64,
}

/// How reading ended.
pub(super) struct Ended {
    /// Messages taken.
    pub(super) messages: u64,
    /// Their payload bytes.
    pub(super) payload_bytes: u64,
    /// Why the part is not complete. `None` if it is.
    pub(super) problem: Option<String>,
    /// Whether everything that was recorded was read: then the problem is a recording that failed.
    has_all: bool,
    /// Places with damage that were skipped, and the bytes of frames that were lost there, if they
    /// are known.
    pub(super) damaged_places: u64,
    pub(super) lost_bytes: Option<u64>,
    /// The problem, if the caller accepts it.
    pub(super) accepted: Option<String>,
    /// Whether a signal stopped it.
    pub(super) stopped: bool,
}

impl Ended {
    /// Whether everything that was asked for was read.
    pub(super) fn is_complete(&self) -> bool {
        self.problem.is_none() && !self.stopped && self.damaged_places == 0
    }

    /// Says what is missing, and sets the exit code.
    pub(super) fn conclude(&self, done: &str, stop: &Stop) -> Outcome {
        if let Some(accepted) = &self.accepted {
            log::warn(&format!("accepted: {accepted}"));
        }
        if let Some(problem) = &self.problem {
            complain(&format!(
                "{done} of {} messages, {}: {problem}",
                text::count(self.messages),
                match self.has_all {
                    true => "all that were recorded",
                    false => "and not all",
                }
            ));
            return Err(Failure::BadResult);
        }
        if self.stopped {
            stop.cut_short()
        } else {
            Ok(())
        }
    }
}

/// The part, at its first message.
pub(super) struct Part<'a> {
    args: &'a PartArgs,
    replay: Replay,
    /// Bytes of frames up to the end of the journal.
    bytes: u64,
}

impl<'a> Part<'a> {
    /// Opens the journal at `path`.
    ///
    /// # Errors
    ///
    /// The journal cannot be opened, or has none of the lanes.
    pub(super) fn open(path: &Path, args: &'a PartArgs, stop: &Stop) -> Outcome<Self> {
        let (journal, asked) = (path.to_owned(), args.clone());
        let look = move || {
            let failed = |error: JournalError| Failure::Failed(error.into());
            let outline = Outline::read(&journal).map_err(failed)?;
            check_lanes(&outline, &asked)?;
            check_range(&journal, &outline, &asked)?;
            let mut replay = Replay::open(&journal).map_err(failed)?;
            match asked.from {
                Some(Start::Time(time)) => replay.seek_time(time).map_err(failed)?,
                Some(Start::Position(position)) => {
                    replay.seek_position(position).map_err(failed)?
                }
                _ => {}
            }
            Ok((outline.end, replay))
        };
        let place = path.display().to_string();
        let (end, mut replay) = stop.done(&place, "looked for the part in", look)?;
        let asked = stop.flag();
        // Relaxed: the flag carries no other data.
        replay.stop_when(move || asked.load(Ordering::Relaxed));
        let bytes = end.saturating_sub(replay.position());
        Ok(Self {
            args,
            replay,
            bytes,
        })
    }
}

/// Refuses a part that has no message in any journal, or begins behind the end of this one.
fn check_range(path: &Path, outline: &Outline, args: &PartArgs) -> Outcome {
    let is_reversed = match (args.from, args.to) {
        (Some(Start::Time(from)), Some(Start::Time(to))) => from >= to,
        (Some(Start::Position(from)), Some(Start::Position(to))) => from >= to,
        _ => false,
    };
    if is_reversed {
        return Err(Failure::usage(
            "--from is not before --to, so there is no message between them: give --to a later \
             time or position",
        ));
    }
    match args.from {
        // Behind damage its end is not known.
        Some(Start::Position(position)) if position > outline.end && outline.damage.is_none() => {
            let (path, end) = (path.to_owned(), outline.end);
            let error = JournalError::NoPosition {
                path,
                position,
                end,
            };
            Err(Failure::Failed(error.into()))
        }
        _ => Ok(()),
    }
}

/// Hands each message of the part to `take`, in the order of the recording.
///
/// # Errors
///
/// Those of `take`.
pub(super) fn read(
    part: Part<'_>,
    stop: &Stop,
    mut take: impl FnMut(&Selected<'_>) -> Outcome,
) -> Outcome<Ended> {
    let Part {
        args: part,
        mut replay,
        bytes,
    } = part;
    let begin = replay.position();
    let progress = Progress::new(bytes);
    progress.phase("journal");
    let mut ended = Ended {
        messages: 0,
        payload_bytes: 0,
        problem: None,
        has_all: false,
        damaged_places: 0,
        lost_bytes: None,
        accepted: None,
        stopped: false,
    };
    let mut missed = Missed::default();
    let mut damage = Damage::default();
    let mut failures = Vec::new();
    // Of lanes of which no message behind the hole was selected yet.
    let mut pending: HashMap<Lane, u64> = HashMap::new();
    let mut runs = 0_u64;
    let end = loop {
        if stop.now() {
            ended.stopped = true;
            break None;
        }
        let run = match replay.next_run() {
            Ok(Some(run)) => run,
            Ok(None) => {
                failures.extend(FailedRecording::all(
                    replay.failed_before(),
                    replay.position(),
                ));
                break replay.check_finished().err();
            }
            Err(JournalError::Io { source, .. })
                if stop.interrupted() && source.kind() == ErrorKind::Interrupted =>
            {
                continue;
            }
            Err(error) => {
                if part.ends_before(&error, replay.position()) {
                    break None;
                }
                if !part.skip_damage || !matches!(error, JournalError::Damaged { .. }) {
                    break Some(error);
                }
                match replay.skip_damage() {
                    Ok(Some(skipped)) => {
                        damage.add(&error, skipped.lost_bytes, Some(replay.position()));
                    }
                    Ok(None) => break Some(error),
                    // A request to stop comes first there, too.
                    Err(_) if stop.interrupted() => {}
                    Err(error) => break Some(error),
                }
                continue;
            }
        };
        if part.is_behind(run.time_ns, run.journal_position) {
            break None;
        }
        failures.extend(FailedRecording::all(
            run.failed_before,
            run.journal_position,
        ));
        runs += 1;
        if runs.is_multiple_of(RUNS_A_LOOK) && progress.is_shown() {
            let done = run.journal_position.saturating_sub(begin);
            progress.show(done, text::bytes(done));
        }
        if !part.has_lane(run.lane) {
            continue;
        }
        if run.missed_bytes > 0 {
            missed.add(run.missed_bytes);
            *pending.entry(run.lane.clone()).or_insert(0) += run.missed_bytes;
        }
        let mut messages = run.messages().peekable();
        while let Some(message) = messages.next() {
            let at = message.position - run.position;
            if part.is_behind(run.time_ns, run.journal_position + at) {
                break;
            }
            let end = messages.peek().map(|next| next.position - run.position);
            // A run is shorter than a block, so its bytes fit.
            let frame = usize::try_from(at)
                .ok()
                .zip(end.map_or(Some(run.frames.len()), |end| usize::try_from(end).ok()));
            let frame = frame.and_then(|(at, end)| run.frames.get(at..end));
            if !part.has_topic(message.topic) {
                continue;
            }
            let missed_bytes = if pending.is_empty() {
                0
            } else {
                pending.remove(run.lane).unwrap_or(0)
            };
            let selected = Selected {
                run,
                message,
                frame: frame.unwrap_or_default(),
                missed_bytes,
            };
            take(&selected)?;
            ended.messages += 1;
            ended.payload_bytes += message.payload.len() as u64;
        }
    };
    progress.clear();
    let unfinished = matches!(
        end,
        Some(JournalError::Unfinished { .. } | JournalError::Failed { .. })
    );
    ended.has_all = missed.holes == 0
        && damage.places == 0
        && !ended.stopped
        && matches!(end, None | Some(JournalError::Failed { .. }));
    let holes = missed
        .sentence()
        .into_iter()
        .chain(failures_sentence(&failures));
    let holes = Some(holes.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty());
    let accepts = part.unfinished == Unfinished::Accept;
    let end = end.map(|error| with_id(&error.into()));
    let joined = |parts: [Option<String>; 3]| {
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        Some(parts.join("; ")).filter(|text| !text.is_empty())
    };
    let (hard, soft) = if unfinished { (None, end) } else { (end, None) };
    (ended.damaged_places, ended.lost_bytes) = (damage.places, damage.bytes());
    let skipped = damage.skipped_sentence();
    if accepts {
        ended.problem = hard;
        ended.accepted = joined([skipped, holes, soft]);
    } else {
        ended.problem = joined([holes.map(|text| text + ACCEPT), hard.or(soft), None]);
        ended.accepted = skipped;
    }
    Ok(ended)
}

const ACCEPT: &str = " (accept this with '--unfinished accept')";

/// What was never recorded.
#[derive(Default)]
struct Missed {
    holes: u64,
    bytes: u64,
}

impl Missed {
    fn add(&mut self, bytes: u64) {
        self.holes += u64::from(bytes > 0);
        self.bytes += bytes;
    }

    fn sentence(&self) -> Option<String> {
        missed_sentence(self.holes, self.bytes)
    }
}

impl PartArgs {
    /// Whether a message of this time and journal position is behind the end of the part.
    fn is_behind(&self, time_ns: u64, position: u64) -> bool {
        match self.to {
            Some(Start::Time(end)) => time_ns >= end,
            Some(Start::Position(end)) => position >= end,
            _ => false,
        }
    }

    /// Whether this error is damage that begins behind the end of the part, or at it. `position` is
    /// where reading stopped.
    fn ends_before(&self, error: &JournalError, position: u64) -> bool {
        let JournalError::Damaged {
            next, lost_bytes, ..
        } = error
        else {
            return false;
        };
        let begin = match (next, lost_bytes) {
            (Some(next), Some(lost)) => next.checked_sub(*lost),
            // The oldest file: it is not known where it began.
            (Some(_), None) => None,
            (None, _) => Some(position),
        };
        // Its time is not known.
        matches!((self.to, begin), (Some(Start::Position(end)), Some(begin)) if begin >= end)
    }

    fn has_lane(&self, lane: &Lane) -> bool {
        let has_channel = self
            .channel
            .as_ref()
            .is_none_or(|name| *name == lane.channel);
        has_channel && (self.lane.is_empty() || self.lane.contains(&lane.publisher))
    }

    fn has_topic(&self, topic: &str) -> bool {
        let filter = self.topic.as_ref();
        filter.is_none_or(|filter| !topic.is_empty() && filter.matches(topic.as_bytes()))
    }
}

/// Refuses a channel or lane that the journal does not have.
fn check_lanes(outline: &Outline, part: &PartArgs) -> Outcome {
    if !outline.has_all_lanes || (part.channel.is_none() && part.lane.is_empty()) {
        return Ok(());
    }
    let lanes = || outline.lanes.iter().map(|lane| &lane.lane);
    let of_channel = |lane: &&Lane| {
        part.channel
            .as_ref()
            .is_none_or(|name| *name == lane.channel)
    };
    let has = |number: u32| {
        lanes()
            .filter(of_channel)
            .any(|lane| lane.publisher == number)
    };
    let lost = match part.lane.iter().find(|number| !has(**number)) {
        Some(number) => format!("--lane {number}"),
        None if lanes().any(|lane| of_channel(&lane)) => return Ok(()),
        None => format!("--of {}", part.channel.as_deref().unwrap_or_default()),
    };
    let mut there: Vec<String> = lanes()
        .map(|lane| format!("{} of '{}'", lane.publisher, lane.channel))
        .collect();
    there.sort();
    there.dedup();
    Err(Failure::failed(format!(
        "the journal has nothing of {lost}: its lanes are {}",
        there.join(", ")
    )))
}
