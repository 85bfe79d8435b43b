//! `olivine inspect` of a journal: its lanes, their sizes and times, and its ending.

use crate::args::Common;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json, table};
use olivine::Start;
use olivine::journal::{JournalError, Replay, ReplayState};
use olivine_bench::error::chain;
use olivine_bench::text;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// What one publisher recorded on one channel.
#[derive(Debug, Default)]
struct LaneContents {
    type_name: String,
    messages: u64,
    payload_bytes: u64,
    first_ns: u64,
    last_ns: u64,
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

/// What a journal holds.
struct Contents {
    lanes: BTreeMap<(String, u32), LaneContents>,
    holes: Vec<Hole>,
    position: u64,
    end: End,
}

/// The ending of a journal.
enum End {
    State(ReplayState),
    Damaged(JournalError),
}

impl End {
    fn word(&self) -> &'static str {
        match self {
            Self::State(ReplayState::Growing) => "recording",
            Self::State(ReplayState::Ended { is_sealed: true }) => "complete",
            Self::State(ReplayState::Ended { .. }) => "unfinished",
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
            Self::State(_) => {
                "not closed: its recorder died, or the file was cut behind a whole block".to_owned()
            }
            Self::Damaged(error) => chain(error),
        }
    }
}

/// Reads the whole journal at `path` and prints its contents.
///
/// # Errors
///
/// A journal that cannot be opened; damage, after printing what precedes it.
pub(crate) fn inspect(path: &Path, common: Common) -> Outcome {
    let mut replay = Replay::open(path).map_err(|error| Failure::Failed(error.into()))?;
    let contents = read(&mut replay);
    if common.json {
        print_json(&contents.as_json(path))?;
    } else {
        print(&contents.as_text(path))?;
    }
    match contents.end {
        End::State(_) => Ok(()),
        End::Damaged(_) => Err(Failure::BadResult),
    }
}

fn read(replay: &mut Replay) -> Contents {
    let mut lanes: BTreeMap<(String, u32), LaneContents> = BTreeMap::new();
    let mut holes = Vec::new();
    let end = loop {
        let run = match replay.next_run() {
            Ok(Some(run)) => run,
            Ok(None) => break End::State(replay.state()),
            Err(error) => break End::Damaged(error),
        };
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
            lane.first_ns = run.time_ns;
            lane.type_name.clone_from(&run.lane.type_name);
        }
        lane.last_ns = run.time_ns;
        for message in run.messages() {
            lane.messages += 1;
            lane.payload_bytes += message.payload.len() as u64;
        }
    };
    Contents {
        position: replay.position(),
        lanes,
        holes,
        end,
    }
}

fn date(time_ns: u64) -> String {
    let start = Start::Time(time_ns).to_string();
    start.strip_prefix("time:").unwrap_or(&start).to_owned()
}

impl Contents {
    fn word(&self) -> &'static str {
        match self.end.word() {
            "complete" if !self.holes.is_empty() => "incomplete",
            word => word,
        }
    }

    fn sentence(&self) -> String {
        let end = self.end.sentence();
        if self.holes.is_empty() {
            return end;
        }
        let bytes: u64 = self.holes.iter().map(|hole| hole.bytes).sum();
        format!(
            "{end}; {bytes} bytes of frames were never recorded, in {} places",
            self.holes.len()
        )
    }

    fn as_text(&self, path: &Path) -> String {
        let messages: u64 = self.lanes.values().map(|lane| lane.messages).sum();
        let mut out = format!(
            "journal      {}\nstate        {}: {}\nmessages     {messages}\n\
             position     {} bytes of frames\n",
            path.display(),
            self.word(),
            self.sentence(),
            self.position,
        );
        let heads = ["CHANNEL", "PUBLISHER", "MESSAGES", "BYTES", "FIRST", "LAST"];
        let row = |((channel, publisher), lane): (&(String, u32), &LaneContents)| {
            vec![
                channel.clone(),
                publisher.to_string(),
                lane.messages.to_string(),
                text::bytes(lane.payload_bytes),
                date(lane.first_ns),
                date(lane.last_ns),
            ]
        };
        if !self.lanes.is_empty() {
            out.push('\n');
            let rows = self.lanes.iter().map(row).collect();
            out.push_str(&table(&heads, &[1, 2, 3], rows));
        }
        let heads = [
            "MISSING BYTES",
            "CHANNEL",
            "PUBLISHER",
            "FROM",
            "AT",
            "BEFORE",
        ];
        let row = |hole: &Hole| {
            vec![
                hole.bytes.to_string(),
                hole.channel.clone(),
                hole.publisher.to_string(),
                hole.lane_position.to_string(),
                hole.position.to_string(),
                date(hole.next_ns),
            ]
        };
        if !self.holes.is_empty() {
            out.push('\n');
            let rows = self.holes.iter().map(row).collect();
            out.push_str(&table(&heads, &[0, 2, 3, 4], rows));
        }
        out
    }

    fn as_json(&self, path: &Path) -> Value {
        let lane = |((channel, publisher), lane): (&(String, u32), &LaneContents)| {
            json!({
                "channel": channel,
                "publisher": publisher,
                "type_name": lane.type_name,
                "messages": lane.messages,
                "payload_bytes": lane.payload_bytes,
                "first_unix_ns": lane.first_ns,
                "last_unix_ns": lane.last_ns,
            })
        };
        let hole = |hole: &Hole| {
            json!({
                "channel": hole.channel,
                "publisher": hole.publisher,
                "missed_bytes": hole.bytes,
                "lane_position_bytes": hole.lane_position,
                "position_bytes": hole.position,
                "next_unix_ns": hole.next_ns,
            })
        };
        json!({
            "path": path,
            "state": self.word(),
            "reason": self.sentence(),
            "position_bytes": self.position,
            "lanes": self.lanes.iter().map(lane).collect::<Vec<_>>(),
            "holes": self.holes.iter().map(hole).collect::<Vec<_>>(),
        })
    }
}
