//! A place that a dying process still holds: its locks go milliseconds after the signal that kills it.

use super::attached::Attached;
use super::slots;
use crate::error::OpenError;
use crate::liveness::{Life, life_of};
use crate::ring::layout::{lane_entry, lock_byte, slot};
use crate::sync::Ordering;
use std::time::{Duration, Instant};

/// How long a newcomer waits for a place whose holder is dying for sure. The larger a process, the longer its death takes:
/// the kernel frees its memory first.
const DYING_MAX: Duration = Duration::from_secs(1);
/// How long where the holder cannot be seen, as in another PID namespace.
const UNSEEN_MAX: Duration = Duration::from_millis(100);
/// Between two tries.
const STEP: Duration = Duration::from_millis(1);

/// Waits of one opening for the places of the dying.
#[derive(Debug, Default)]
pub(super) struct Handover {
    since: Option<Instant>,
}

impl Handover {
    /// Whether `refused` is worth another try after a step, because a holder of what was refused may be dying.
    pub(super) fn is_worth_a_wait(&mut self, attached: &Attached, refused: &OpenError) -> bool {
        let bound = match holders(attached, refused).into_iter().map(life_of).max() {
            Some(Life::Dying) => DYING_MAX,
            Some(Life::Unseen) => UNSEEN_MAX,
            Some(Life::Lives) | None => return false,
        };
        self.since.get_or_insert_with(Instant::now).elapsed() < bound
    }

    /// Waits for a step.
    pub(super) fn step() {
        #[allow(
            clippy::disallowed_methods,
            reason = "a lock of the kernel's has no other bounded wait"
        )]
        std::thread::sleep(STEP);
    }
}

/// Processes that hold what was refused.
fn holders(attached: &Attached, refused: &OpenError) -> Vec<u64> {
    let Attached {
        control,
        geometry,
        locks,
        ..
    } = attached;
    let held = |byte: u64| locks.held_by_others(byte, byte + 1);
    // Relaxed: numbers of processes, which prove nothing.
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
