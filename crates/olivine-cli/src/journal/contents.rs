//! What a journal holds: its lanes, times, topics, holes, files and ending. Read in whole, or in
//! outline.

use super::damage::Damage;
use crate::args::Common;
use crate::failure::{Failure, Outcome, with_id};
use crate::output::{print, print_json};
use crate::stop::Stop;
use olivine::journal::{JournalError, Outline, Replay, ReplayState};
use std::collections::BTreeMap;
use std::path::Path;

#[path = "contents/show.rs"]
mod show;

/// Most different topics that are counted separately.
const TOPICS_MAX: usize = 1024;
/// A journal of at most as many bytes is read in whole.
const READ_BYTES: u64 = 16 << 20;

/// What one publisher recorded on one channel.
#[derive(Debug, Default)]
struct LaneContents {
    type_name: String,
    messages: u64,
    payload_bytes: u64,
    /// Times of the first and the last run, unless only an outline was read.
    times: Option<(u64, u64)>,
}

/// Messages of a lane that were never recorded.
#[derive(Debug)]
struct Hole {
    channel: String,
    publisher: u32,
    /// Position in its lane at which they begin.
    lane_position: u64,
    /// Position in the journal between the messages before and behind it.
    position: u64,
    /// When the message behind it was recorded.
    next_ns: u64,
    bytes: u64,
}

/// A recording that failed before a later one.
#[derive(Debug)]
pub(super) struct FailedRecording {
    /// Position in the journal between the two.
    position: u64,
    reason: String,
}

impl FailedRecording {
    /// The recordings that failed before `position`, for these reasons.
    pub(super) fn all(reasons: &[String], position: u64) -> impl Iterator<Item = Self> {
        reasons.iter().map(move |reason| Self {
            position,
            reason: JournalError::given(reason).to_owned(),
        })
    }
}

/// How many earlier recordings failed, and where and why the last of them did.
pub(super) fn failures_sentence(failures: &[FailedRecording]) -> Option<String> {
    let last = failures.last()?;
    let text = format!("at position {}: {}", last.position, last.reason);
    Some(JournalError::earlier_failures(failures.len() as u64, &text))
}

/// How much was never recorded.
pub(super) fn missed_sentence(holes: u64, bytes: u64) -> Option<String> {
    let noun = if holes == 1 { "place" } else { "places" };
    (holes > 0).then(|| format!("{bytes} bytes of frames were never recorded, in {holes} {noun}"))
}

/// What a journal holds.
struct Contents {
    outline: Outline,
    /// Whether every byte was read. If not, messages, payload bytes and topics are estimated.
    is_exact: bool,
    lanes: BTreeMap<(String, u32), LaneContents>,
    topics: BTreeMap<String, u64>,
    /// Messages of further topics.
    other_topics: u64,
    holes: Vec<Hole>,
    /// `None` if only an outline was read.
    failures: Option<Vec<FailedRecording>>,
    /// Damage that was read over, and the error of the first place; `None` if only an outline was
    /// read.
    damage: Option<Damage>,
    first_damage: Option<String>,
    position: u64,
    end: End,
}

impl Contents {
    /// Whether damage was found.
    fn is_damaged(&self) -> bool {
        self.first_damage.is_some() || matches!(self.end, End::Damaged(_))
    }
}

/// The ending of a journal.
enum End {
    State(ReplayState),
    Damaged(String),
}

impl End {
    fn word(&self) -> &'static str {
        match self {
            Self::State(ReplayState::Growing) => "recording",
            Self::State(ReplayState::Ended { is_sealed: true }) => "complete",
            Self::State(ReplayState::Ended { .. } | ReplayState::NextMissing { .. }) => {
                "unfinished"
            }
            Self::State(ReplayState::Failed { .. }) => "failed",
            Self::State(ReplayState::Torn(_)) => "torn",
            Self::State(_) => "unknown",
            Self::Damaged(_) => "damaged",
        }
    }

    fn sentence(&self) -> String {
        match self {
            Self::State(ReplayState::Growing) => "a recorder is at work".to_owned(),
            Self::State(ReplayState::Ended { is_sealed: true }) => {
                "closed by its recorder".to_owned()
            }
            Self::State(ReplayState::Torn(torn)) => format!(
                "the last block is not whole: {}, byte {}; the recorder died, or the file was cut",
                torn.path.display(),
                torn.offset
            ),
            Self::State(ReplayState::Failed { reason }) if reason.is_empty() => {
                "its recorder failed, and gave no reason".to_owned()
            }
            Self::State(ReplayState::Failed { reason }) => {
                format!("its recorder failed: {reason}")
            }
            Self::State(ReplayState::NextMissing { path }) => {
                format!("not closed: the next file {} is missing", path.display())
            }
            Self::State(_) => {
                "not closed: its recorder died, or the file was cut behind a whole block".to_owned()
            }
            Self::Damaged(problem) => problem.clone(),
        }
    }
}

/// Prints the contents of the journal at `path`: in outline if it is long and `exact` is not asked
/// for.
///
/// # Errors
///
/// A journal that cannot be opened; damage, after printing what can be read before and behind it.
pub(crate) fn inspect(path: &Path, exact: bool, common: Common) -> Outcome {
    let failed = |error: JournalError| Failure::Failed(error.into());
    let stop = Stop::install()?;
    let journal = path.to_owned();
    let look = move || {
        let outline = Outline::read(&journal).map_err(failed)?;
        if exact || outline.file_bytes() <= READ_BYTES {
            let mut replay = Replay::open(&journal).map_err(failed)?;
            return Ok(read(&mut replay, outline));
        }
        Ok(estimate(outline))
    };
    let contents = stop.done(&path.display().to_string(), "read", look)?;
    if common.json {
        print_json(&contents.as_json(path))?;
    } else {
        print(&contents.as_text(path))?;
    }
    match contents.is_damaged() {
        false => Ok(()),
        true => Err(Failure::BadResult),
    }
}

/// Reads every byte, also behind damage.
fn read(replay: &mut Replay, mut outline: Outline) -> Contents {
    let mut lanes: BTreeMap<(String, u32), LaneContents> = BTreeMap::new();
    let (mut holes, mut failures) = (Vec::new(), Vec::new());
    let (mut topics, mut other_topics) = (BTreeMap::<String, u64>::new(), 0);
    (outline.first_ns, outline.last_ns) = (None, None);
    let (mut damage, mut first_damage) = (Damage::default(), None);
    let end = loop {
        let run = match replay.next_run() {
            Ok(Some(run)) => run,
            Ok(None) => {
                failures.extend(FailedRecording::all(
                    replay.failed_before(),
                    replay.position(),
                ));
                break End::State(replay.state());
            }
            Err(error @ JournalError::Damaged { .. }) => match replay.skip_damage() {
                Ok(Some(skipped)) => {
                    damage.add(&error, skipped.lost_bytes, Some(replay.position()));
                    first_damage.get_or_insert_with(|| with_id(&error.into()));
                    continue;
                }
                // Nothing whole follows.
                Ok(None) => {
                    damage.add_last(&error);
                    break End::Damaged(with_id(&error.into()));
                }
                Err(other) => break End::Damaged(with_id(&other.into())),
            },
            Err(error) => break End::Damaged(with_id(&error.into())),
        };
        failures.extend(FailedRecording::all(
            run.failed_before,
            run.journal_position,
        ));
        outline.first_ns.get_or_insert(run.time_ns);
        outline.last_ns = Some(run.time_ns);
        if run.missed_bytes > 0 {
            holes.push(Hole {
                channel: run.lane.channel.clone(),
                publisher: run.lane.publisher,
                lane_position: run.position - run.missed_bytes,
                position: run.journal_position,
                next_ns: run.time_ns,
                bytes: run.missed_bytes,
            });
        }
        let lane = lanes
            .entry((run.lane.channel.clone(), run.lane.publisher))
            .or_default();
        if lane.messages == 0 {
            lane.type_name.clone_from(&run.lane.message_type.name);
        }
        let first = lane.times.map_or(run.time_ns, |(first, _)| first);
        lane.times = Some((first, run.time_ns));
        for message in run.messages() {
            lane.messages += 1;
            lane.payload_bytes += message.payload.len() as u64;
            if let Some(count) = topics.get_mut(message.topic) {
                *count += 1;
            } else if topics.len() < TOPICS_MAX {
                topics.insert(message.topic.to_owned(), 1);
            } else {
                other_topics += 1;
            }
        }
    };
    outline.missed_bytes = Some(holes.iter().map(|hole| hole.bytes).sum());
    Contents {
        position: replay.position(),
        outline,
        is_exact: true,
        lanes,
        topics,
        other_topics,
        holes,
        failures: Some(failures),
        damage: Some(damage),
        first_damage,
        end,
    }
}

/// Scales the counts of the blocks that were read to the whole journal.
fn estimate(outline: Outline) -> Contents {
    let recorded = outline.end.saturating_sub(outline.start);
    let read = u128::from(outline.read.frame_bytes.max(1));
    let scaled = |count: u64| {
        let scaled = u128::from(count) * u128::from(recorded) / read;
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    let mut lanes: BTreeMap<(String, u32), LaneContents> = BTreeMap::new();
    for found in &outline.lanes {
        let key = (found.lane.channel.clone(), found.lane.publisher);
        let lane = lanes.entry(key).or_default();
        lane.type_name.clone_from(&found.lane.message_type.name);
        lane.messages += scaled(found.messages);
        lane.payload_bytes += scaled(found.payload_bytes);
    }
    let topics = outline.read.topics.iter();
    let topics = topics.map(|(topic, count)| (topic.clone(), scaled(*count)));
    let end = match &outline.damage {
        Some(problem) => End::Damaged(problem.clone()),
        None => End::State(outline.state.clone()),
    };
    Contents {
        is_exact: false,
        lanes,
        topics: topics.collect(),
        other_topics: scaled(outline.read.other_topics),
        holes: Vec::new(),
        failures: None,
        damage: None,
        first_damage: None,
        position: outline.end,
        end,
        outline,
    }
}
