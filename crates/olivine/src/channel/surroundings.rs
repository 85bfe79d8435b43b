//! What a subscriber touches only when nothing is there to read: new lanes, evictions, the end of the stream.

use super::attached::Attached;
use super::join::consumer;
use super::slots;
use super::watch::Watch;
use crate::error::{OpenError, ReceiveError};
use crate::fork::ForkPage;
use crate::link::Link;
use crate::region::Word;
use crate::ring::consume::Consumer;
use crate::ring::layout::{lane, lane_entry, slot};
use crate::sync::Ordering;
use crate::uri::Config;
use crate::wait::Sleeper;

/// What is touched only when nothing is there to read.
#[derive(Debug)]
pub(super) struct Surroundings {
    pub(super) attached: Attached,
    pub(super) config: Config,
    pub(super) slot: usize,
    pub(super) page: ForkPage,
    pub(super) sleeper: Sleeper,
    /// Counts lanes.
    pub(super) epoch: Word,
    pub(super) lanes_epoch: u64,
    /// State words of the lanes as they were when we joined.
    pub(super) joined_states: Vec<u64>,
    /// Something was received, so that a closed lane is the end and not a start.
    pub(super) heard: bool,
    pub(super) lost_bytes: u64,
    pub(super) watch: Option<Watch>,
    /// The bridge behind the ring, where the channel is elsewhere.
    pub(super) link: Option<Link>,
    pub(super) closed: bool,
}

impl Surroundings {
    /// Maps lanes that appeared since the last look; `true` if there are any. We have held them at their origin
    /// since we joined.
    #[inline(always)]
    pub(super) fn attach_new_lanes(
        &mut self,
        lanes: &mut Vec<Consumer>,
    ) -> Result<bool, ReceiveError> {
        // Acquire: the lanes that the number counts are in place.
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch == self.lanes_epoch {
            return Ok(false);
        }
        let before = lanes.len();
        self.map_new_lanes(lanes)?;
        self.lanes_epoch = epoch;
        Ok(lanes.len() > before)
    }

    #[cold]
    #[inline(never)]
    fn map_new_lanes(&mut self, lanes: &mut Vec<Consumer>) -> Result<(), ReceiveError> {
        let Attached {
            place,
            control,
            geometry,
            ..
        } = &self.attached;
        for index in 0..geometry.lanes() {
            let present = control
                .word(geometry.lane_entry(index) + lane_entry::PRESENT)
                .load(Ordering::Acquire);
            if present == 0 || lanes.iter().any(|lane| lane.index() == index) {
                continue;
            }
            let mapped = place.open_lane(geometry, index, false, self.config.hugepages);
            let mapped = mapped.map_err(|source| ReceiveError::Lane {
                lane: index,
                source: Box::new(source),
            })?;
            let Some((words, ring)) = mapped else {
                // Its publisher will wait for us: silence would hang both.
                return Err(ReceiveError::Lane {
                    lane: index,
                    source: Box::new(OpenError::Missing {
                        channel: self.attached.channel.clone(),
                        path: place.path().to_owned(),
                    }),
                });
            };
            lanes.push(consumer(
                &self.attached,
                &self.config,
                self.slot,
                index,
                words,
                ring,
                geometry.origin,
            ));
            self.joined_states.push(0);
            self.heard = true;
        }
        Ok(())
    }

    pub(super) fn is_evicted(&self) -> bool {
        let Attached {
            control, geometry, ..
        } = &self.attached;
        slots::state(control, geometry, self.slot) == slot::EVICTED
    }

    /// Whether the bridge behind the ring gave up.
    fn link_has_failed(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.control().has_failed())
    }

    /// Says that the bridge behind the ring gave up, once everything that it had brought is read.
    pub(super) fn link_failure(&mut self, lanes: &mut Vec<Consumer>) -> Result<(), ReceiveError> {
        if !self.link_has_failed()
            || self.attach_new_lanes(lanes)?
            || lanes.iter().any(Consumer::has_next)
        {
            return Ok(());
        }
        let failure = self.link.as_ref().and_then(|link| link.control().failure());
        failure.map_or(Ok(()), |failure| Err(ReceiveError::Link(failure)))
    }

    /// An overrun was found: counts it, and says what it means.
    pub(super) fn overrun(&mut self, lost_bytes: u64) -> ReceiveError {
        let Attached {
            control, geometry, ..
        } = &self.attached;
        self.lost_bytes += lost_bytes;
        // Relaxed: for display; only we write it.
        control
            .word(geometry.slot(self.slot) + slot::LOST_BYTES)
            .store(self.lost_bytes, Ordering::Relaxed);
        if self.is_evicted() {
            ReceiveError::Evicted
        } else {
            ReceiveError::Overrun { lost_bytes }
        }
    }

    /// Whether every publisher has closed and everything was read, given that there was something to end.
    pub(super) fn is_at_end(&self, lanes: &[Consumer]) -> bool {
        let mut heard = self.heard;
        for (consumer, joined) in lanes.iter().zip(&self.joined_states) {
            // Acquire: closed comes after the last frame, so the look for a frame below is the last word.
            let state = consumer.lane().word(lane::STATE).load(Ordering::Acquire);
            if state & 1 == 1 || consumer.has_next() {
                return false;
            }
            heard |= state != *joined || consumer.has_moved();
        }
        heard && !lanes.is_empty()
    }
}

/// Whether a poll would find something: a message, a new lane, an eviction or the end of the stream.
pub(super) fn is_ready(around: &Surroundings, lanes: &[Consumer]) -> bool {
    lanes.iter().any(Consumer::has_next)
        || around.epoch.load(Ordering::Acquire) != around.lanes_epoch
        || around.is_evicted()
        || around.is_at_end(lanes)
        || around.link_has_failed()
}
