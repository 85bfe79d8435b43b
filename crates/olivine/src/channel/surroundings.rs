//! What a subscriber touches only when nothing is there to read: new lanes, evictions, the end of the stream.

use super::attached::Attached;
use super::join::consumer;
use super::slots::{self, Missed};
use super::status::Durable;
use super::watch::Watch;
use crate::error::{LinkError, ReceiveError};
use crate::fork::ForkPage;
use crate::link::Link;
use crate::liveness::LockReader;
use crate::region::Word;
use crate::ring::consume::Consumer;
use crate::ring::ending;
use crate::ring::layout::{lane, lane_entry, lock_byte, slot};
use crate::sync::Ordering;
use crate::uri::{Config, Delivery, Scheme};
use crate::wait::{Reliance, Sleeper, warden};

/// That a durable name lost its place before this subscriber opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It did not, or that was said.
    None,
    /// The next call says so.
    Untold,
    /// A call said so; the next one, or closing, means that it was heard.
    Told,
}

/// What is touched only when nothing is there to read.
#[derive(Debug)]
pub(super) struct SubscriberSlowState {
    pub(super) attached: Attached,
    pub(super) config: Config,
    pub(super) slot: usize,
    pub(super) page: ForkPage,
    pub(super) sleeper: Sleeper,
    /// Counts lanes.
    pub(super) epoch: Word,
    pub(super) lanes_epoch: u64,
    /// The lanes as they were when we joined.
    pub(super) joined: Vec<Joined>,
    /// Something was received, so that a closed lane is the end and not a start.
    pub(super) heard: bool,
    pub(super) lost_bytes: u64,
    /// What a durable subscriber found of its name.
    pub(super) durable: Option<Durable>,
    /// That the name lost its place, until that was said and heard.
    pub(super) news: News,
    /// A call said that this subscriber is evicted.
    pub(super) told_evicted: bool,
    pub(super) watch: Option<Watch>,
    /// The bridge behind the ring, where the channel is elsewhere.
    pub(super) link: Option<Link>,
    pub(super) closed: bool,
    /// Which end of the stream was told last ([`end_mark`]): waiting goes on past it, to the next publisher. 0 for none.
    pub(super) told_end: u64,
}

/// What a lane was when we joined, or began to see it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Joined {
    /// Its state word.
    pub(super) state: u64,
    /// The newest failure of what fed it that needs not be told: [`ending::failed_state`].
    told: u64,
}

impl Joined {
    /// For a lane that was there when we joined. A failure that lies before us is not ours.
    pub(super) fn of(consumer: &Consumer) -> Self {
        let words = consumer.lane();
        let failure = ending::failure(words);
        let before_us = failure.filter(|failure| failure.position <= consumer.position());
        Self {
            state: ending::state(words),
            told: before_us.map_or(0, |failure| failure.state),
        }
    }
}

impl SubscriberSlowState {
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
                // Its publisher will wait for us: silence would hang both.
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
            self.heard = true;
        }
        Ok(())
    }

    /// The publisher of a lane, to be watched.
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

    /// The error of a subscriber that is evicted.
    pub(super) fn evicted(&mut self) -> ReceiveError {
        self.told_evicted = true;
        ReceiveError::Evicted
    }

    /// What a call has to say before it does anything.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Forked`] in a forked child. [`ReceiveError::Evicted`] at the first call after a durable name was
    /// opened again that had lost its place.
    #[cold]
    #[inline(never)]
    pub(super) fn say_first(&mut self) -> Result<(), ReceiveError> {
        if !self.page.is_ours() {
            return Err(ReceiveError::Forked);
        }
        if self.news == News::Untold {
            self.news = News::Told;
            return Err(ReceiveError::Evicted);
        }
        self.heard_news();
        self.page.set_plain(true);
        Ok(())
    }

    /// Whoever was told does something else by now: the name does not have to say it again.
    pub(super) fn heard_news(&mut self) {
        if self.news == News::Told {
            let Attached {
                control, geometry, ..
            } = &self.attached;
            Missed::of(control, geometry, self.slot).tell();
            self.news = News::None;
        }
    }

    /// Whoever was told the end of the stream does something else by now: its durable name remembers that.
    pub(super) fn heard_end(&self) {
        if self.told_end != 0 && self.durable.is_some() {
            self.end_word().store(self.told_end, Ordering::Relaxed);
        }
    }

    /// Which end of the stream a durable name was told. Relaxed: only the holder of the slot's lock uses it.
    fn end_word(&self) -> Word {
        let Attached {
            control, geometry, ..
        } = &self.attached;
        control.resolve(geometry.slot(self.slot) + slot::TOLD_END)
    }

    /// Whether a durable name that comes back was told nothing yet of the end that it finds: who had it before was
    /// killed between the last message and the end, or was away. An end before its first subscriber is none of its own.
    pub(super) fn owes_end(&self, lanes: &[Consumer]) -> bool {
        let states = || lanes.iter().map(|lane| ending::state(lane.lane()));
        let is_ended = !lanes.is_empty() && states().all(|state| state & 1 == 0);
        match self.durable {
            Some(Durable::Created) if is_ended => {
                self.end_word().store(end_mark(lanes), Ordering::Relaxed);
                false
            }
            None | Some(Durable::Created) => false,
            // A failure is told by other words.
            Some(_) if lanes.iter().any(|lane| ending::is_failed(lane.lane())) => false,
            Some(_) => is_ended && self.end_word().load(Ordering::Relaxed) != end_mark(lanes),
        }
    }

    /// Whether this subscriber may be overrun, so that it copies messages out and checks the copies. A sealed publisher
    /// is not trusted.
    pub(super) fn is_checked(&self) -> bool {
        self.config.scheme() == Scheme::Sealed
            || self.config.delivery == Delivery::Latest
            || self.attached.geometry.evict_after_ns != 0
    }

    /// Whether a poll of this lane finds something: a frame, or that it overran us.
    pub(super) fn has_more(&self, lane: &Consumer) -> bool {
        lane.has_next() || self.is_checked() && lane.is_lapped()
    }

    /// Whether the bridge behind the ring gave up.
    pub(super) fn link_has_failed(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.control().has_failed())
    }

    /// Says that the bridge behind the ring gave up, once everything that it had brought is read.
    pub(super) fn link_failure(&self, lanes: &[Consumer]) -> Result<(), ReceiveError> {
        if lanes.iter().any(|lane| self.has_more(lane)) {
            return Ok(());
        }
        let failure = self.link.as_ref().and_then(|link| link.control().failure());
        failure.map_or(Ok(()), |failure| Err(ReceiveError::Failed(failure)))
    }

    /// Whether a bridge's thread of ours is behind the ring, which then says why it failed.
    fn has_own_link(&self) -> bool {
        self.link.is_some() && self.config.scheme() != Scheme::Sealed
    }

    /// Tells each failure of what fed a lane once, when everything before it is read.
    pub(super) fn lane_failures(&mut self, lanes: &[Consumer]) -> Result<(), ReceiveError> {
        let Some(place) = self.untold_failure(lanes) else {
            return Ok(());
        };
        let words = lanes[place].lane();
        self.joined[place].told = ending::failed_state(words);
        failure_of(&lanes[place]).map_or(Ok(()), Err)
    }

    /// The place of a lane with a failure that is to be told now.
    fn untold_failure(&self, lanes: &[Consumer]) -> Option<usize> {
        let mut lanes = lanes.iter().zip(&self.joined);
        let place = lanes.position(|(consumer, joined)| {
            let failed = ending::failed_state(consumer.lane());
            failed != joined.told
                && failed != 0
                && consumer.position() >= ending::failed_position(consumer.lane())
        });
        place.filter(|_| !self.has_own_link())
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
            self.evicted()
        } else {
            ReceiveError::Overrun { lost_bytes }
        }
    }

    /// What the end of the stream is, given that it was found: closed, or failed where a lane's newest publisher was.
    pub(super) fn end(&self, lanes: &[Consumer]) -> Result<(), ReceiveError> {
        let failed = lanes.iter().find(|lane| ending::is_failed(lane.lane()));
        match failed.and_then(failure_of) {
            // The link says it, any moment now.
            Some(_) if self.has_own_link() => Ok(()),
            Some(failure) => Err(failure),
            None => Err(ReceiveError::Closed),
        }
    }

    /// Whether every publisher has closed and everything was read, given that there was something to end.
    pub(super) fn is_at_end(&self, lanes: &[Consumer]) -> bool {
        let mut heard = self.heard;
        for (consumer, joined) in lanes.iter().zip(&self.joined) {
            // END: closed comes after the last frame and the last limit, so the look for them below is the last word.
            let state = ending::state(consumer.lane());
            if state & 1 == 1 || self.has_more(consumer) {
                return false;
            }
            heard |= state != joined.state || consumer.has_moved();
        }
        heard && !lanes.is_empty()
    }
}

/// Whether this subscriber may sleep long: each living publisher of the lanes that it knows is watched. A new one wakes it.
pub(super) fn rely(
    around: &SubscriberSlowState,
    lanes: &[Consumer],
    watches: &mut warden::Watches,
    park: &Word,
) -> Reliance {
    let locks = around.attached.locks.reader();
    let peers: Vec<_> = lanes.iter().map(|lane| around.publisher_of(lane)).collect();
    rely_on(&locks, watches, park, &peers)
}

/// Whether a sleeper may sleep long that waits for `peers`.
pub(super) fn rely_on(
    locks: &LockReader,
    watches: &mut warden::Watches,
    park: &Word,
    peers: &[warden::Peer],
) -> Reliance {
    if locks.is_inside() {
        return Reliance::Sure;
    }
    watches.rely_on(park, peers, |byte| locks.is_held(byte))
}

/// Whether there is something to look at: what a poll would find, or a new lane.
pub(super) fn is_ready(around: &SubscriberSlowState, lanes: &[Consumer]) -> bool {
    around.epoch.load(Ordering::Acquire) != around.lanes_epoch || has_news(around, lanes)
}

/// Whether a poll of these lanes would find something: a message, an overrun, an eviction, a failure or the end of the
/// stream.
pub(super) fn has_news(around: &SubscriberSlowState, lanes: &[Consumer]) -> bool {
    lanes.iter().any(|lane| around.has_more(lane))
        || around.news == News::Untold
        || around.is_evicted()
        || around.is_at_end(lanes) && around.told_end != end_mark(lanes)
        || around.untold_failure(lanes).is_some()
        || around.link_has_failed()
}

/// Tells an end of the stream from others: by how often lanes were opened, and what was read.
pub(super) fn end_mark(lanes: &[Consumer]) -> u64 {
    let marks = lanes
        .iter()
        .map(|lane| ending::state(lane.lane()).wrapping_add(lane.position()));
    marks.fold(1, u64::wrapping_add)
}

/// What a lane's newest failure is told as.
pub(super) fn failure_of(consumer: &Consumer) -> Option<ReceiveError> {
    let failure = ending::failure(consumer.lane())?;
    Some(ReceiveError::Failed(LinkError::Upstream {
        lane: consumer.index(),
        reason: failure.reason,
    }))
}

#[cfg(all(test, not(loom)))]
mod tests;
