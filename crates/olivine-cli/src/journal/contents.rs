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
    let mut lanes: BTreeMap<(String, u32), LaneContents> = BTreeMap::new();
    let end = loop {
        let run = match replay.next_run() {
            Ok(Some(run)) => run,
            Ok(None) => break End::State(replay.state()),
            Err(error) => break End::Damaged(error),
        };
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
    if common.json {
        print_json(&as_json(path, &lanes, replay.position(), &end))?;
    } else {
        print(&as_text(path, lanes, replay.position(), &end))?;
    }
    match end {
        End::State(_) => Ok(()),
        End::Damaged(_) => Err(Failure::BadResult),
    }
}

fn date(time_ns: u64) -> String {
    let start = Start::Time(time_ns).to_string();
    start.strip_prefix("time:").unwrap_or(&start).to_owned()
}

fn as_text(
    path: &Path,
    lanes: BTreeMap<(String, u32), LaneContents>,
    position: u64,
    end: &End,
) -> String {
    let messages: u64 = lanes.values().map(|lane| lane.messages).sum();
    let mut out = format!(
        "journal      {}\nstate        {}: {}\nmessages     {messages}\n\
         position     {position} bytes of frames\n",
        path.display(),
        end.word(),
        end.sentence(),
    );
    let heads = ["CHANNEL", "PUBLISHER", "MESSAGES", "BYTES", "FIRST", "LAST"];
    let rows: Vec<Vec<String>> = lanes
        .into_iter()
        .map(|((channel, publisher), lane)| {
            vec![
                channel,
                publisher.to_string(),
                lane.messages.to_string(),
                text::bytes(lane.payload_bytes),
                date(lane.first_ns),
                date(lane.last_ns),
            ]
        })
        .collect();
    if !rows.is_empty() {
        out.push('\n');
        out.push_str(&table(&heads, &[1, 2, 3], rows));
    }
    out
}

fn as_json(
    path: &Path,
    lanes: &BTreeMap<(String, u32), LaneContents>,
    position: u64,
    end: &End,
) -> Value {
    let lanes: Vec<Value> = lanes
        .iter()
        .map(|((channel, publisher), lane)| {
            json!({
                "channel": channel,
                "publisher": publisher,
                "type_name": lane.type_name,
                "messages": lane.messages,
                "payload_bytes": lane.payload_bytes,
                "first_unix_ns": lane.first_ns,
                "last_unix_ns": lane.last_ns,
            })
        })
        .collect();
    json!({
        "path": path,
        "state": end.word(),
        "reason": end.sentence(),
        "position_bytes": position,
        "lanes": lanes,
    })
}
