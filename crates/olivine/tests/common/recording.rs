//! Shared parts of journal tests: frames as in a ring, and a list of recorded messages.

#![allow(dead_code, reason = "no test needs all of it")]

use super::common::Random;
use olivine::journal::{
    JournalError, KnownType, Lane, Recorder, RecorderSettings, Replay, ReplayState, Skipped,
};
use olivine::{Compression, SyncPolicy};
use std::path::Path;

/// A message and its recorded position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) channel: String,
    pub(crate) publisher: u32,
    pub(crate) position: u64,
    pub(crate) time_ns: u64,
    pub(crate) tag: u32,
    pub(crate) payload: Vec<u8>,
}

/// One frame as in a ring, padded to `align` with random bytes.
pub(crate) fn frame(tag: u32, payload: &[u8], align: usize) -> Vec<u8> {
    let length = u32::try_from(8 + payload.len()).unwrap();
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(tag.to_le_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(align), 0xa5);
    bytes
}

/// Settings for tests that do not check the disk.
pub(crate) fn fast() -> RecorderSettings {
    RecorderSettings::default().sync(SyncPolicy::Never)
}

/// Every packing that this build supports.
pub(crate) fn packings() -> Vec<Compression> {
    if cfg!(feature = "zstd") {
        vec![Compression::No, Compression::Zstd(3)]
    } else {
        vec![Compression::No]
    }
}

/// The recorded lanes: two publishers of one channel, and one of a channel with frames padded to 64
/// bytes.
pub(crate) fn lanes() -> [Lane; 3] {
    [
        Lane::new("ticks", 0, 8, 11),
        Lane::new("ticks", 1, 8, 11),
        Lane::new("orders", 0, 64, 12).typed(KnownType::new(
            99,
            "order v1",
            "price i64, size u32, name text[8]",
        )),
    ]
}

/// Appends random runs and lists them.
pub(crate) struct Account {
    pub(crate) random: Random,
    pub(crate) lanes: [Lane; 3],
    pub(crate) ends: [u64; 3],
    pub(crate) time_ns: u64,
    pub(crate) messages: Vec<Recorded>,
    /// Journal position of each message, and after the last.
    pub(crate) positions: Vec<u64>,
}

impl Account {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            lanes: lanes(),
            ends: [0; 3],
            time_ns: 1_000,
            messages: Vec::new(),
            positions: vec![0],
        }
    }

    /// A run of up to `messages_max` messages of up to `bytes_max` bytes on a random lane.
    pub(crate) fn append(
        &mut self,
        recorder: &mut Recorder,
        messages_max: u64,
        bytes_max: u64,
    ) -> Result<(), JournalError> {
        let choice = usize::try_from(self.random.below(3)).unwrap();
        let lane = self.lanes[choice].clone();
        let id = recorder.lane(&lane)?;
        let mut end = self.ends[choice];
        self.time_ns += self.random.below(3) * 1_000;
        let (mut run, mut messages, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        let mut behind = *self.positions.last().unwrap();
        for _ in 0..1 + self.random.below(messages_max) {
            let length = self.random.below(bytes_max + 1);
            let payload: Vec<u8> = (0..length)
                .map(|_| self.random.next().to_le_bytes()[0])
                .collect();
            let tag = self.random.next().to_le_bytes()[0].into();
            let bytes = frame(tag, &payload, lane.align as usize);
            messages.push(Recorded {
                channel: lane.channel.clone(),
                publisher: lane.publisher,
                position: end + run.len() as u64,
                time_ns: self.time_ns,
                tag,
                payload,
            });
            behind += bytes.len() as u64;
            positions.push(behind);
            run.extend(bytes);
        }
        recorder.append(id, end, self.time_ns, &run)?;
        end += run.len() as u64;
        self.ends[choice] = end;
        self.messages.append(&mut messages);
        self.positions.append(&mut positions);
        Ok(())
    }
}

/// The messages of a replay, and how it ended.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) messages: Vec<Recorded>,
    pub(crate) end: Result<ReplayState, JournalError>,
}

/// Everything that `replay` delivers from its position on.
pub(crate) fn deliver(replay: &mut Replay) -> Delivered {
    let mut messages = Vec::new();
    let end = loop {
        match replay.next_run() {
            Ok(Some(run)) => messages.extend(run.messages().map(|message| Recorded {
                channel: run.lane.channel.clone(),
                publisher: run.lane.publisher,
                position: message.position,
                time_ns: run.time_ns,
                tag: message.tag,
                payload: message.payload.to_vec(),
            })),
            Ok(None) => break Ok(replay.state()),
            Err(error) => break Err(error),
        }
    };
    Delivered { messages, end }
}

/// Everything that the journal at `path` delivers.
pub(crate) fn replay_all(path: &Path) -> Delivered {
    match Replay::open(path) {
        Ok(mut replay) => deliver(&mut replay),
        Err(error) => Delivered {
            messages: Vec::new(),
            end: Err(error),
        },
    }
}

/// As [`replay_all`], across every damage.
pub(crate) fn replay_past_damage(path: &Path) -> (Vec<Recorded>, Vec<Skipped>) {
    let (mut messages, mut skips) = (Vec::new(), Vec::new());
    if let Ok(mut replay) = Replay::open(path) {
        loop {
            let part = deliver(&mut replay);
            messages.extend(part.messages);
            let told = match part.end {
                Ok(_) => break,
                Err(JournalError::Damaged { lost_bytes, .. }) => lost_bytes,
                Err(_) => None,
            };
            match replay.skip_damage().expect("nothing but damage") {
                Some(skip) => {
                    assert!(told.is_none() || told == skip.lost_bytes, "{skip:?}");
                    skips.push(skip);
                }
                None => break,
            }
        }
    }
    (messages, skips)
}
