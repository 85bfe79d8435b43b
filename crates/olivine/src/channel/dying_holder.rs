//! Waits of an opener for a lock that a dying process still holds. The kernel releases its locks
//! milliseconds after the signal that kills it.

use super::attached::Attached;
use super::slots;
use crate::error::OpenError;
use crate::liveness::{Life, life_of};
use crate::ring::layout::{lane_entry, lock_byte, slot};
use crate::sync::Ordering;
use std::time::{Duration, Instant};

/// Longest wait if the holder is known to be dying. The kernel frees the memory of a process before
/// it releases its locks, so a large process takes longer.
const DYING_MAX: Duration = Duration::from_secs(1);
/// Longest wait if the holder cannot be seen, as in another PID namespace.
const UNSEEN_MAX: Duration = Duration::from_millis(100);
/// Pause between two tries.
const STEP: Duration = Duration::from_millis(1);

/// The waits of one opener for dying lock holders.
#[derive(Debug, Default)]
pub(super) struct HolderWait {
    since: Option<Instant>,
}

impl HolderWait {
    /// Whether to try again after `refused`: a holder of the refused lock may be dying.
    pub(super) fn is_worth_a_wait(&mut self, attached: &Attached, refused: &OpenError) -> bool {
        let bound = match holders(attached, refused).into_iter().map(life_of).max() {
            Some(Life::Dying) => DYING_MAX,
            Some(Life::Unseen) => UNSEEN_MAX,
            Some(Life::Lives) | None => return false,
        };
        self.since.get_or_insert_with(Instant::now).elapsed() < bound
    }

    /// Pauses before the next try.
    pub(super) fn step() {
        #[allow(
            clippy::disallowed_methods,
            reason = "a lock of the kernel's has no other bounded wait"
        )]
        std::thread::sleep(STEP);
    }
}

/// Processes that hold the refused locks.
fn holders(attached: &Attached, refused: &OpenError) -> Vec<u64> {
    let Attached {
        control,
        geometry,
        locks,
        ..
    } = attached;
    let held = |byte: u64| locks.held_by_others(byte, byte + 1);
    // Relaxed: process ids, which prove nothing.
    let word = |at: usize| control.word(at).load(Ordering::Relaxed);
    match refused {
        OpenError::NameInUse { pid, .. } => vec![*pid],
        OpenError::PublishersFull { .. } => (0..geometry.lanes())
            .filter(|lane| held(lock_byte::LANE + *lane as u64))
            .map(|lane| word(geometry.lane_entry(lane) + lane_entry::PID))
            .collect(),
        OpenError::SubscribersFull { .. } => (0..geometry.slots())
            .filter(|index| slots::state(control, geometry, *index) != slot::FREE)
            .filter(|index| held(lock_byte::SLOT + *index as u64))
            .map(|index| word(geometry.slot(index) + slot::PID))
            .collect(),
        _ => Vec::new(),
    }
}
