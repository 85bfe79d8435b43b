//! The part of a subscriber that it reads only when no frame is waiting: new lanes, evictions, the
//! end of the stream.

mod ends;
#[cfg(all(test, not(loom)))]
mod tests;

pub(super) use ends::{Joined, end_mark};

use super::attached::Attached;
use super::join::consumer;
use super::slots::{self, MissedBytes};
use super::status::Durable;
use super::watch::Watch;
use crate::error::ReceiveError;
use crate::fork::ForkPage;
use crate::link::Link;
use crate::liveness::LockReader;
use crate::region::Word;
use crate::ring::consume::Consumer;
use crate::ring::ending;
use crate::ring::layout::{lane, lane_entry, lock_byte, slot};
use crate::ring::publish::add_to_counter;
use crate::sync::Ordering;
use crate::uri::{Config, Delivery, Scheme};
use crate::wait::{LongNaps, ParkLooks, Sleeper, warden};

/// Whether the next call must report that the durable name lost its place before it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossNotice {
    /// The name did not lose its place, or the loss is confirmed.
    None,
    /// The next call reports the loss.
    Pending,
    /// A call has reported the loss. The next call, or closing, confirms it.
    Reported,
}

/// How a stream has ended: every publisher has closed and everything was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// No lane failed.
    Closed,
    /// The newest publisher of the lane at this place failed.
    Failed { place: usize },
}

/// The state that a subscriber reads only when no frame is waiting.
#[derive(Debug)]
pub(super) struct SubscriberSlowState {
    pub(super) attached: Attached,
    pub(super) config: Config,
    pub(super) slot: usize,
    pub(super) page: ForkPage,
    pub(super) sleeper: Sleeper,
    pub(super) park_looks: ParkLooks,
    /// The word that counts lanes.
    pub(super) epoch: Word,
    pub(super) lanes_epoch: u64,
    /// The lanes as they were when this subscriber joined.
    pub(super) joined: Vec<Joined>,
    /// A publisher was open, or a message was received. Only then a closed lane is an end of the
    /// stream.
    pub(super) stream_started: bool,
    pub(super) lost_bytes: u64,
    /// The state of the durable name when it was opened.
    pub(super) durable: Option<Durable>,
    /// Whether the loss of the name's place must still be reported or confirmed.
    pub(super) loss_notice: LossNotice,
    /// A call has returned `Evicted`.
    pub(super) eviction_reported: bool,
    pub(super) watch: Option<Watch>,
    /// The bridge behind the ring, if the channel is remote.
    pub(super) link: Option<Link>,
    pub(super) closed: bool,
    /// The mark ([`end_mark`]) of the end of the stream that was reported last; 0 for none. After
    /// the report, a wait lasts until the next publisher comes.
    pub(super) reported_end: u64,
    /// A failure of a lane's source was reported.
    pub(super) has_reported_failure: bool,
    /// A lane that is closed with a failure that was reported counts as closed in order.
    pub(super) passes_failures: bool,
    /// The failure of this handle's bridge was reported.
    pub(super) has_reported_link: bool,
    /// Leaving takes back that it joined, and that the opening before it did.
    pub(super) never_joined: bool,
}

impl SubscriberSlowState {
    /// Maps lanes that appeared since the last check; `true` if there are any. Our position has
    /// held their publishers at the origin since the join.
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
        let mapped = self.map_new_lanes(lanes);
        self.stop_at_failures(lanes);
        mapped?;
        self.lanes_epoch = epoch;
        Ok(lanes.len() > before)
    }

    /// Whether publishers came since the last check. One load of a word that hardly ever changes.
    #[inline(always)]
    pub(super) fn has_new_publishers(&self) -> bool {
        // Acquire: the lanes that the number counts are in place.
        self.epoch.load(Ordering::Acquire) != self.lanes_epoch
    }

    #[cold]
    #[inline(never)]
    fn map_new_lanes(&mut self, lanes: &mut Vec<Consumer>) -> Result<(), ReceiveError> {
        // The first lane comes with the shape that its publisher has fixed.
        let refreshed = self.attached.refresh();
        refreshed.map_err(|source| ReceiveError::Lane {
            lane: 0,
            source: Box::new(source),
        })?;
        let Attached {
            backing,
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
            let mapped =
                backing.open_lane(&self.attached.lane(index), false, self.config.hugepages);
            let mapped = mapped.map_err(|source| ReceiveError::Lane {
                lane: index,
                source: Box::new(source),
            })?;
            let Some((words, ring)) = mapped else {
                // Its publisher will wait for us. Without this error both would wait for ever.
                return Err(ReceiveError::Lane {
                    lane: index,
                    source: Box::new(backing.lane_file_missing(index)),
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
            self.joined.push(Joined::default());
            self.stream_started = true;
        }
        Ok(())
    }

    /// The publisher of a lane, for the warden.
    pub(super) fn publisher_of(&self, consumer: &Consumer) -> warden::Peer {
        let Attached {
            control, geometry, ..
        } = &self.attached;
        let entry = geometry.lane_entry(consumer.index());
        warden::Peer {
            byte: lock_byte::LANE + consumer.index() as u64,
            pid: control.resolve(entry + lane_entry::PID),
            space: control.resolve(entry + lane_entry::PID_SPACE),
            open: Some(consumer.lane().resolve(lane::STATE)),
        }
    }

    pub(super) fn is_evicted(&self) -> bool {
        let Attached {
            control, geometry, ..
        } = &self.attached;
        slots::state(control, geometry, self.slot) == slot::EVICTED
    }

    /// Notes that the eviction is reported, and returns the error.
    pub(super) fn evicted(&mut self) -> ReceiveError {
        self.eviction_reported = true;
        ReceiveError::Evicted
    }

    /// Checks what every call must report before it does anything.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Forked`] in a forked child. [`ReceiveError::Evicted`] once, at the first
    /// call after a durable name that had lost its place was opened.
    #[cold]
    #[inline(never)]
    pub(super) fn check_before_call(&mut self) -> Result<(), ReceiveError> {
        if !self.page.is_ours() {
            return Err(ReceiveError::Forked);
        }
        if self.loss_notice == LossNotice::Pending {
            self.loss_notice = LossNotice::Reported;
            return Err(ReceiveError::Evicted);
        }
        self.confirm_loss_notice();
        self.store_reports();
        self.page.set_plain(true);
        Ok(())
    }

    /// Stores that the loss was reported, once a call follows the report. The name does not report
    /// it again.
    pub(super) fn confirm_loss_notice(&mut self) {
        if self.loss_notice == LossNotice::Reported {
            let Attached {
                control, geometry, ..
            } = &self.attached;
            MissedBytes::of(control, geometry, self.slot).mark_reported();
            self.loss_notice = LossNotice::None;
        }
    }

    /// Whether a publisher may overwrite frames that this subscriber reads. Then it copies each
    /// message and checks the copy. A sealed publisher is not trusted.
    pub(super) fn is_checked(&self) -> bool {
        self.config.scheme() == Scheme::Sealed
            || self.config.delivery == Delivery::Latest
            || self.attached.geometry.evict_after_ns != 0
    }

    /// Whether a poll of this lane returns a frame or an overrun.
    pub(super) fn has_more(&self, lane: &Consumer) -> bool {
        lane.has_next() || self.is_checked() && lane.is_lapped()
    }

    /// Whether the bridge behind the ring failed.
    pub(super) fn link_has_failed(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.control().has_failed())
    }

    /// Returns the failure of the bridge behind the ring, after every message that it published was
    /// read.
    pub(super) fn link_failure(&mut self, lanes: &[Consumer]) -> Result<(), ReceiveError> {
        if lanes.iter().any(|lane| self.has_more(lane)) {
            return Ok(());
        }
        let failure = self.link.as_ref().and_then(|link| link.control().failure());
        let Some(failure) = failure else {
            return Ok(());
        };
        self.has_reported_link = true;
        Err(ReceiveError::Failed(failure))
    }

    /// Whether our own bridge fills the ring and has failed: it reports that itself. It fails
    /// before it closes its lanes. A bridge that listens goes on after a failure of one far side.
    fn own_link_has_failed(&self) -> bool {
        self.config.scheme() != Scheme::Sealed && self.link_has_failed()
    }

    /// Whether our own bridge replays a journal: behind a recording that failed it goes on.
    fn goes_on_behind_failures(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| is_replay(link) && !link.control().has_failed())
    }

    /// Counts an overrun, and returns its error.
    pub(super) fn overrun(&mut self, lost_bytes: u64) -> ReceiveError {
        let Attached {
            control, geometry, ..
        } = &self.attached;
        self.lost_bytes += lost_bytes;
        let base = geometry.slot(self.slot);
        // Relaxed: for display; only we write it.
        control
            .word(base + slot::LOST_BYTES)
            .store(self.lost_bytes, Ordering::Relaxed);
        add_to_counter(control, base + slot::OVERRUNS, 1);
        if self.is_evicted() {
            self.evicted()
        } else {
            ReceiveError::Overrun { lost_bytes }
        }
    }

    /// Whether every publisher has closed and everything was read. `false` if no stream has started
    /// yet.
    pub(super) fn is_at_end(&self, lanes: &[Consumer]) -> bool {
        self.stream_end(lanes).is_some()
    }

    /// Whether the failure with which this lane is closed, as its state says, is passed over.
    pub(super) fn passes_failure(&self, place: usize, state: u64) -> bool {
        let reported = self.joined.get(place).map(|joined| joined.reported_failure);
        self.passes_failures && reported == Some(state)
    }

    /// How the stream has ended; `None` if [`SubscriberSlowState::is_at_end`] is false.
    pub(super) fn stream_end(&self, lanes: &[Consumer]) -> Option<StreamEnd> {
        let mut stream_started = self.stream_started;
        let mut end = StreamEnd::Closed;
        for (place, (consumer, joined)) in lanes.iter().zip(&self.joined).enumerate() {
            // END: "closed" comes after the last frame and the last limit. So the check for more
            // below finds all of them.
            let state = ending::state(consumer.lane());
            if state & 1 == 1 || self.has_more(consumer) {
                return None;
            }
            stream_started |= state != joined.state || consumer.has_moved();
            // Of this state: the next publisher of the lane may open it meanwhile.
            let is_passed = self.passes_failure(place, state);
            if ending::has_failed_as(consumer.lane(), state) && !is_passed {
                if self.goes_on_behind_failures() && joined.reported_failure == state {
                    return None;
                }
                if end == StreamEnd::Closed {
                    end = StreamEnd::Failed { place };
                }
            }
        }
        // After the loads of the states and failures: of two publishers of which one opened before
        // the other closed, either the number or a state shows the first. A newer failure shows the
        // number of its publisher.
        let is_end = stream_started && !lanes.is_empty() && !self.has_new_publishers();
        crate::points::look("end.counted");
        is_end.then_some(end)
    }
}

/// Whether this bridge replays a journal.
fn is_replay(link: &Link) -> bool {
    link.uri().starts_with("file:")
}

/// Whether this subscriber may sleep long: the warden watches each living publisher of the known
/// lanes. A new publisher wakes the subscriber.
pub(super) fn watch_publishers(
    slow_state: &SubscriberSlowState,
    lanes: &[Consumer],
    watches: &mut warden::Watches,
    park: &Word,
) -> LongNaps {
    let locks = slow_state.attached.locks.reader();
    let peers: Vec<_> = lanes
        .iter()
        .map(|lane| slow_state.publisher_of(lane))
        .collect();
    watch_peers(&locks, watches, park, &peers)
}

/// Whether a sleeper that waits for `peers` may sleep long.
pub(super) fn watch_peers(
    locks: &LockReader,
    watches: &mut warden::Watches,
    park: &Word,
    peers: &[warden::Peer],
) -> LongNaps {
    if locks.is_inproc() {
        return LongNaps::Safe;
    }
    watches.watch(park, peers, |byte| locks.is_held(byte))
}

/// Whether a poll would return something, or a lane is new.
pub(super) fn is_ready(slow_state: &SubscriberSlowState, lanes: &[Consumer]) -> bool {
    slow_state.has_new_publishers() || would_find(slow_state, lanes)
}

/// Whether a poll of these lanes would return something: a message, an overrun, an eviction, a
/// failure or the end of the stream.
pub(super) fn would_find(slow_state: &SubscriberSlowState, lanes: &[Consumer]) -> bool {
    lanes.iter().any(|lane| slow_state.has_more(lane))
        || slow_state.loss_notice == LossNotice::Pending
        || slow_state.is_evicted()
        || slow_state.is_at_end(lanes) && slow_state.reported_end != end_mark(lanes)
        || slow_state.unreported_failure(lanes).is_some()
        || slow_state.link_has_failed()
}
