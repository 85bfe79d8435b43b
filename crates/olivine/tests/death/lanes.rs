//! Messages of 0 B among those that prove themselves: which one it is, is told by what came before
//! it in its lane.

use crate::common::Random;
use crate::message;
use std::collections::HashMap;

/// Whether message `sequence` of `session` has no bytes: never the first, by which a lane is known,
/// and never two in a row.
pub(crate) fn is_empty(session: u64, sequence: u64) -> bool {
    let mut random = Random(!(session << 32 ^ sequence));
    sequence % 2 == 1 && random.below(8) == 0
}

/// Fills `into` with message `sequence` of `session`, which may have no bytes.
pub(crate) fn fill(session: u64, sequence: u64, into: &mut Vec<u8>) {
    if is_empty(session, sequence) {
        into.clear();
    } else {
        message::fill(session, sequence, into);
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Message `sequence` of `session`, whole. `is_first`: nothing was known of its lane before.
    Whole {
        session: u64,
        sequence: u64,
        is_first: bool,
    },
    /// An empty one, before which nothing was seen of its lane.
    Unknown,
    Torn,
}

/// What a reader has seen of each lane.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    last: HashMap<usize, (u64, u64)>,
    scratch: Vec<u8>,
}

impl Lanes {
    /// Takes the message that comes next in `lane`.
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
        // The next one; the same one again; or the one behind a lost one, so that the fault gets
        // its name.
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
