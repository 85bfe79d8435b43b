//! Empty messages among self-describing ones: an empty one is identified by its predecessor in the
//! lane.

use crate::common::Random;
use crate::common::message;
use std::collections::HashMap;

/// Whether message `sequence` of `session` is empty: never the first, which identifies the lane,
/// and never two in a row.
pub(crate) fn is_empty(session: u64, sequence: u64) -> bool {
    let mut random = Random(!(session << 32 ^ sequence));
    sequence % 2 == 1 && random.below(8) == 0
}

/// Fills `into` with message `sequence` of `session`; it may be empty.
pub(crate) fn fill(session: u64, sequence: u64, into: &mut Vec<u8>) {
    if is_empty(session, sequence) {
        into.clear();
    } else {
        message::fill(session, sequence, into);
    }
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Message `sequence` of `session`, valid. `is_first`: its lane was unknown before.
    Whole {
        session: u64,
        sequence: u64,
        is_first: bool,
    },
    /// An empty message in an unknown lane.
    Unknown,
    Torn,
}

/// What a subscriber has seen of each lane.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    last: HashMap<usize, (u64, u64)>,
    scratch: Vec<u8>,
}

impl Lanes {
    /// Takes the next message of `lane`.
    pub(crate) fn take(&mut self, lane: usize, message: &[u8]) -> Found {
        if message.is_empty() {
            return self.take_empty(lane);
        }
        let Some((session, sequence)) = message::check(message, &mut self.scratch) else {
            return Found::Torn;
        };
        if is_empty(session, sequence) {
            return Found::Torn;
        }
        let is_first = self.last.insert(lane, (session, sequence)).is_none();
        Found::Whole {
            session,
            sequence,
            is_first,
        }
    }

    fn take_empty(&mut self, lane: usize) -> Found {
        let Some((session, last)) = self.last.get_mut(&lane) else {
            return Found::Unknown;
        };
        let session = *session;
        // The next one, the same one again, or the one after a lost one, so that the fault gets its
        // name.
        let may_be = [*last + 1, *last, *last + 2];
        let Some(sequence) = may_be.into_iter().find(|one| is_empty(session, *one)) else {
            return Found::Torn;
        };
        *last = sequence;
        Found::Whole {
            session,
            sequence,
            is_first: false,
        }
    }
}
