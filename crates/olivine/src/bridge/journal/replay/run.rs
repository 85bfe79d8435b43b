//! A run: frames of one lane that were recorded together, and their messages.

use crate::bridge::journal::{format, lane::Lane};
use core::fmt;

/// Frames of one lane that were recorded together.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Run<'a> {
    /// Their lane.
    pub lane: &'a Lane,
    /// Position of the first frame in its lane.
    pub position: u64,
    /// Position of the first frame in the journal: frame bytes recorded before it.
    pub journal_position: u64,
    /// Recording time in nanoseconds since 1970. Of a bridge: when it had found the last of these
    /// frames, so not before any of them was published, unless the clock was set back between. Of
    /// a [`Recorder`](crate::journal::Recorder): what the program gave. Never decreases from run
    /// to run.
    pub time_ns: u64,
    /// The frames, unchanged from the ring.
    pub frames: &'a [u8],
    /// Bytes of its lane that are missing before the first frame. They were published while no
    /// recorder kept them: it was stopped without a durable name, or evicted. A replay that begins
    /// inside the run reports 0.
    pub missed_bytes: u64,
    /// Why the recordings before it failed, where this run is the first of a later one: oldest
    /// first, each one line of text, which may be empty. Several failed if no message was recorded
    /// between them. A replay that begins inside the run has none.
    pub failed_before: &'a [String],
}

/// A message of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunMessage<'a> {
    /// The number that the publisher gave; 0 if none.
    pub tag: u32,
    /// Its topic; empty for a message without a topic.
    pub topic: &'a str,
    /// Its payload, without the topic.
    pub payload: &'a [u8],
    /// Start of its frame in its lane.
    pub position: u64,
}

impl<'a> Run<'a> {
    /// The messages of the run.
    pub fn messages(&self) -> impl Iterator<Item = RunMessage<'a>> + use<'a> {
        let (frames, align, first) = (self.frames, self.lane.align(), self.position);
        let mut at = 0;
        std::iter::from_fn(move || {
            if at >= frames.len() {
                return None;
            }
            // Validated when the block was read.
            let frame = format::frame(frames, at, align).ok()?;
            let position = first + at as u64;
            at = frame.end;
            Some(RunMessage {
                tag: frame.tag,
                topic: std::str::from_utf8(frame.topic).unwrap_or_default(),
                payload: frame.payload,
                position,
            })
        })
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("channel", &self.lane.channel)
            .field("publisher", &self.lane.publisher)
            .field("position", &self.position)
            .field("time_ns", &self.time_ns)
            .field("bytes", &self.frames.len())
            .field("missed_bytes", &self.missed_bytes)
            .field("failed_before", &self.failed_before)
            .finish_non_exhaustive()
    }
}
