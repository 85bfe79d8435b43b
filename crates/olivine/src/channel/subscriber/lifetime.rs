//! Opening and leaving a channel.

use super::{Pending, Subscriber};
use crate::channel::attach::{self, ShapeRole, TypeTag};
use crate::channel::attached::{Attached, wake_publishers};
use crate::channel::backing::private_page;
use crate::channel::join::{Admission, join};
use crate::channel::sealed;
use crate::channel::slots::{self, MissedBytes};
use crate::channel::slow_state::{Joined, LossNotice, SubscriberSlowState};
use crate::channel::status::Durable;
use crate::error::OpenError;
use crate::region::Copied;
use crate::ring::consume::Row;
use crate::ring::gate::{clear_slot, set_bit};
use crate::ring::layout::{control, lock_byte, slot};
use crate::sync::Ordering;
use crate::uri::topic::TopicFilter;
use crate::uri::{Config, Scheme};
use crate::wait::{ParkLooks, Sleeper};
use core::marker::PhantomData;

impl<T: ?Sized> Subscriber<T> {
    /// Opens a channel whose ring is on this machine: `shm://`, `shm+fd://` or `inproc://`.
    pub(crate) fn open_as(
        config: &Config,
        typed: &TypeTag,
        part: ShapeRole,
    ) -> Result<Self, OpenError> {
        attach::pin(config)?;
        let page = private_page(config.channel())?;
        let sealed = config.scheme() == Scheme::Sealed;
        let (attached, joined, link) = if sealed {
            let joined_channel = sealed::join(config, typed)?;
            let joined = Admission {
                slot: 0,
                lanes: vec![joined_channel.lane],
                durable: None,
                must_report: false,
            };
            (joined_channel.attached, joined, Some(joined_channel.link))
        } else {
            let (mut attached, joined) =
                attach::open(config, typed, part, |attached| join(attached, config))?;
            attached.slot = Some(joined.slot);
            wake_publishers(&attached.control, &attached.geometry);
            (attached, joined, None)
        };
        let Admission {
            slot: index,
            lanes,
            durable,
            must_report,
        } = joined;
        page.set_plain(!must_report);
        let [due, _] = page.fast_path();
        let row = Row::new(due, attached.control.resolve(control::LANES_EPOCH));
        let lost_bytes = match durable {
            Some(Durable::LostPlace { bytes }) => bytes,
            _ => 0,
        };
        let own = |at: usize| {
            let base = attached.geometry.slot(index);
            attached.control.resolve(base + at)
        };
        let counters = [
            (slot::LOST_BYTES, lost_bytes),
            (slot::PARKS, 0),
            (slot::OVERRUNS, 0),
        ];
        for (at, count) in counters {
            // Relaxed: for display; only we write it.
            own(at).store(count, Ordering::Relaxed);
        }
        let hint = attached.control.resolve(control::SLEEPERS);
        let sleeper = Sleeper::new(own(slot::PARK), Some(hint), Some(own(slot::PARKS)));
        let joined: Vec<Joined> = lanes.iter().map(Joined::of).collect();
        let mut slow_state = Box::new(SubscriberSlowState {
            sleeper,
            park_looks: ParkLooks::default(),
            epoch: attached.control.resolve(control::LANES_EPOCH),
            lanes_epoch: 0,
            stream_started: joined.iter().any(|joined| joined.state & 1 == 1),
            joined,
            slot: index,
            page,
            config: config.clone(),
            lost_bytes,
            durable,
            loss_notice: if must_report {
                LossNotice::Pending
            } else {
                LossNotice::None
            },
            eviction_reported: false,
            watch: None,
            link,
            closed: false,
            reported_end: 0,
            has_reported_failure: false,
            passes_failures: false,
            has_reported_link: false,
            never_joined: false,
            attached,
        });
        slow_state.recall_reports(&lanes);
        slow_state.stop_at_failures(&lanes);
        // If the publisher is not trusted, a returned message must not change any more, so it is
        // copied.
        let checked = slow_state.is_checked();
        // `validate` has checked it.
        let filter = config.topic.as_deref().and_then(TopicFilter::read);
        Ok(Self {
            lanes,
            next_lane: 0,
            pending: Pending::none(row),
            slow: checked || filter.is_some(),
            checked,
            filter: filter.map(Box::new),
            payload: 0,
            copy: Copied::default(),
            empty_calls: 0,
            map_failures: 0,
            slow_state,
            typed: PhantomData,
        })
    }

    pub(super) fn finish(&mut self, forget: bool) {
        if !self.slow_state.page.is_ours() {
            // Its thread lives in the parent: nothing can be stopped or joined here.
            let _theirs = core::mem::ManuallyDrop::new(self.slow_state.watch.take());
            if let Some(link) = self.slow_state.link.take() {
                link.forget();
            }
            return;
        }
        self.slow_state.watch = None;
        if self.slow_state.closed {
            return;
        }
        self.slow_state.closed = true;
        self.slow_state.confirm_loss_notice();
        self.slow_state.store_reports();
        // The message returned last is not consumed here: only the next call or `close` consumes
        // it.
        self.release();
        // The bridge stops while we still hold the channel.
        if let Some(link) = self.slow_state.link.take() {
            if forget {
                link.control().forget_name();
            }
            drop(link);
            // A lane that cannot be mapped stays unreported: the name's next call reports it.
            let _ = self.found_new_lanes();
            self.slow_state.link_stopped(&self.lanes);
        }
        let slow_state = &mut self.slow_state;
        let (keep, slot) = (slow_state.config.name.is_some() && !forget, slow_state.slot);
        let eviction_reported = slow_state.eviction_reported;
        let never_joined = slow_state.never_joined;
        slow_state.attached.leave(|attached| {
            let Attached {
                control,
                geometry,
                locks,
                ..
            } = attached;
            if keep {
                if eviction_reported && slots::state(control, geometry, slot) == slot::EVICTED {
                    MissedBytes::of(control, geometry, slot).mark_eviction_reported();
                }
                slots::note_absence(control, geometry, slot);
                set_bit(control, control::ATTACHED, slot, false);
            } else {
                clear_slot(control, geometry, slot);
            }
            if never_joined {
                // Two openings: only then no other subscriber has joined. Relaxed: as in `join`.
                let ever = control.word(control::SUBSCRIBERS_EVER);
                let _ = ever.compare_exchange(2, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
            locks.unlock(lock_byte::SLOT + slot as u64);
        });
        slow_state.attached.wake_publishers();
    }
}

impl<T: ?Sized> Drop for Subscriber<T> {
    fn drop(&mut self) {
        self.finish(false);
    }
}
