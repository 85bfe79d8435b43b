//! `olivine journal cut`: a part of a journal becomes a new journal.

use super::part::{self, Part, Selected};
use crate::args::Common;
use crate::args::journal::CutArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::stop::Stop;
use olivine::SyncPolicy;
use olivine::journal::{JournalError, Lane, LaneId, Recorder, RecorderSettings};
use olivine_bench::text;
use serde_json::json;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// A lane of the new journal.
struct NewLane {
    id: LaneId,
    /// Frames that belong together and are not handed over yet, their position and time.
    frames: Vec<u8>,
    position: u64,
    time_ns: u64,
    /// Position behind them.
    end: u64,
}

/// Bytes of frames that are handed over at once.
const TOGETHER: usize = 64 << 10;

/// Cuts.
pub(crate) fn run(args: &CutArgs, common: Common) -> Outcome {
    let source = super::path_of(&args.file)?;
    let stop = Stop::install()?;
    let failed = |error: JournalError| Failure::Failed(error.into());
    // First, so that a journal that cannot be read makes no file.
    let part = Part::open(&source, &args.part, &stop)?;
    let settings = RecorderSettings::default()
        .sync(SyncPolicy::Never)
        .only_new(true)
        // It copies what is there.
        .mixed_types(true);
    let mut recorder = Recorder::open(&args.new, &settings).map_err(failed)?;
    // An end that was not reached in order looks unfinished.
    recorder.finish_only_by_close();
    let mut cut = Cut {
        recorder,
        squeezed: args.part.topic.is_some().then(RandomState::new),
        lanes: HashMap::new(),
        order: None,
    };
    let read = part::read(part, &stop, |selected| cut.take(selected).map_err(failed));
    let ended = match read {
        Ok(ended) => ended,
        Err(error) => {
            drop(cut.recorder);
            return Err(error);
        }
    };
    cut.hand_over().map_err(failed)?;
    cut.recorder.flush().map_err(failed)?;
    let frame_bytes = cut.recorder.stats().frame_bytes;
    match &ended.problem {
        // Readers of the new journal get the reason.
        Some(problem) => drop(cut.recorder.close_failed(&told(problem)).map_err(failed)?),
        None if ended.stopped => drop(cut.recorder),
        None => drop(cut.recorder.close().map_err(failed)?),
    }
    // The copy is on the disk before the source may be removed.
    std::fs::File::open(&args.new)
        .and_then(|file| file.sync_all())
        .map_err(|error| {
            let context = format!("cannot force {} to the disk", args.new.display());
            Failure::Failed(anyhow::Error::new(error).context(context))
        })?;
    if common.json {
        print_json(&json!({
            "path": args.new,
            "messages": ended.messages,
            "payload_bytes": ended.payload_bytes,
            "frame_bytes": frame_bytes,
            "complete": ended.is_complete(),
            "damaged_places": ended.damaged_places,
            "lost_bytes": ended.lost_bytes,
            "problem": ended.problem.as_deref().or(ended.accepted.as_deref()),
        }))?;
    } else {
        print(&format!(
            "cut {} messages ({}) into {}\n",
            text::count(ended.messages),
            text::bytes(ended.payload_bytes),
            args.new.display()
        ))?;
    }
    ended.conclude("a cut", &stop)
}

/// Why the new journal is not complete.
fn told(problem: &str) -> String {
    format!("the part that was cut is not complete: {problem}")
}

/// The new journal.
struct Cut {
    recorder: Recorder,
    /// With messages left out inside lanes, lanes get new positions without gaps for them, and
    /// another incarnation, made from theirs by this: they are not parts of the same lane any more.
    /// One incarnation for all would join lanes that began again at position 0, and the recorder
    /// leaves out what it takes for repeated.
    squeezed: Option<RandomState>,
    lanes: HashMap<Lane, NewLane>,
    /// The lane with frames that are not handed over yet.
    order: Option<Lane>,
}

impl Cut {
    fn take(&mut self, selected: &Selected<'_>) -> Result<(), JournalError> {
        let run = &selected.run;
        if self.order.as_ref() != Some(run.lane) {
            self.hand_over()?;
            self.order = Some(run.lane.clone());
        }
        if !self.lanes.contains_key(run.lane) {
            let mut described = run.lane.clone();
            if let Some(made) = &self.squeezed {
                described.incarnation = made.hash_one(described.incarnation);
            }
            let lane = NewLane {
                id: self.recorder.lane(&described)?,
                frames: Vec::new(),
                position: 0,
                time_ns: 0,
                end: 0,
            };
            self.lanes.insert(run.lane.clone(), lane);
        }
        let Some(lane) = self.lanes.get_mut(run.lane) else {
            return Ok(());
        };
        // The first message of a lane has no gap before it.
        let position = match &self.squeezed {
            Some(_) if lane.end > 0 => lane.end + selected.missed_bytes,
            Some(_) => 0,
            None => selected.message.position,
        };
        let goes_on = position == lane.end && run.time_ns == lane.time_ns;
        if !goes_on || lane.frames.is_empty() || lane.frames.len() >= TOGETHER {
            append(&mut self.recorder, lane)?;
            (lane.position, lane.time_ns) = (position, run.time_ns);
        }
        lane.frames.extend_from_slice(selected.frame);
        lane.end = position + selected.frame.len() as u64;
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), JournalError> {
        if let Some(lane) = self.order.take()
            && let Some(lane) = self.lanes.get_mut(&lane)
        {
            append(&mut self.recorder, lane)?;
        }
        Ok(())
    }
}

fn append(recorder: &mut Recorder, lane: &mut NewLane) -> Result<(), JournalError> {
    if !lane.frames.is_empty() {
        recorder.append(lane.id, lane.position, lane.time_ns, &lane.frames)?;
        lane.frames.clear();
    }
    Ok(())
}
