//! Looking for messages: lane after lane, in place or copied out and checked.

use super::subscriber::Subscriber;
use crate::error::ReceiveError;
use crate::message::Message;
use crate::ring::consume::{Consumer, Frame};
use core::marker::PhantomData;

/// Messages taken from one lane before the next gets its turn.
const LANE_BUDGET: usize = 256;

/// Looks between two looks for new lanes while there is always something to read in the old ones.
const NEW_LANES_EVERY: u32 = 64;

impl<T: ?Sized> Subscriber<T> {
    #[inline(always)]
    pub(super) fn poll_frames(
        &mut self,
        mut handler: impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        self.begin()?;
        loop {
            let total = self.poll_lanes(&mut handler, limit)?;
            if total > 0 || limit == 0 {
                self.dry = 0;
                return Ok(total);
            }
            if !self.found_new_lanes()? {
                return self.found_nothing().map(|()| 0);
            }
        }
    }

    #[inline(always)]
    fn poll_lanes(
        &mut self,
        handler: &mut impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        if self.checked {
            return self.poll_checked(handler, limit);
        }
        if let [only] = &mut self.lanes[..] {
            return drain(only, handler, limit);
        }
        let mut total = 0;
        let lanes = self.lanes.len();
        for _ in 0..lanes {
            if self.turn >= lanes {
                self.turn = 0;
            }
            let budget = LANE_BUDGET.min(limit - total);
            total += drain(&mut self.lanes[self.turn], handler, budget)?;
            self.turn += 1;
            if total == limit {
                break;
            }
        }
        Ok(total)
    }

    fn poll_checked(
        &mut self,
        handler: &mut impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        let mut total = 0;
        while total < limit {
            let Some((lane, frame)) = self.next_copied()? else {
                break;
            };
            let consumer = &mut self.lanes[lane];
            handler(message_of(&self.copy, consumer.index(), &frame));
            consumer.advance(&frame);
            total += 1;
        }
        Ok(total)
    }

    /// What every call starts with: refuses in a forked child, goes past the message handed out last, and
    /// now and then looks for new lanes, so that busy old ones do not keep them waiting for ever.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> Result<(), ReceiveError> {
        if !self.core.page.is_ours() {
            return Err(ReceiveError::Forked);
        }
        if let Some((lane, frame)) = self.pending.take() {
            self.lanes[lane].advance(&frame);
        }
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(NEW_LANES_EVERY) {
            self.found_new_lanes()?;
        }
        Ok(())
    }

    /// The next frame of any lane; it stays in place until the next call.
    #[inline]
    pub(super) fn next_frame(&mut self) -> Result<Option<(usize, Frame)>, ReceiveError> {
        self.begin()?;
        loop {
            let found = if self.checked {
                let found = self.next_copied()?;
                if let Some((lane, frame)) = &found {
                    self.lanes[*lane].advance(frame);
                }
                found
            } else {
                self.next_in_place()?
            };
            if found.is_some() {
                self.dry = 0;
                return Ok(found);
            }
            if !self.found_new_lanes()? {
                return self.found_nothing().map(|()| None);
            }
        }
    }

    #[inline(always)]
    fn next_in_place(&mut self) -> Result<Option<(usize, Frame)>, ReceiveError> {
        let lanes = self.lanes.len();
        for _ in 0..lanes {
            if self.turn >= lanes {
                self.turn = 0;
            }
            let turn = self.turn;
            self.turn += 1;
            if let Some(frame) = self.lanes[turn].next()? {
                self.pending = Some((turn, frame));
                return Ok(Some((turn, frame)));
            }
            self.lanes[turn].at_tail();
        }
        Ok(None)
    }

    /// The next frame of any lane, copied out and checked. The caller goes past it.
    fn next_copied(&mut self) -> Result<Option<(usize, Frame)>, ReceiveError> {
        for _ in 0..self.lanes.len() {
            if self.turn >= self.lanes.len() {
                self.turn = 0;
            }
            let turn = self.turn;
            self.turn += 1;
            let consumer = &mut self.lanes[turn];
            match consumer.next_checked(&mut self.copy) {
                Ok(None) => consumer.at_tail(),
                Ok(Some(frame)) => return Ok(Some((turn, frame))),
                Err(ReceiveError::Overrun { lost_bytes }) => {
                    return Err(self.core.overrun(lost_bytes));
                }
                Err(other) => return Err(other),
            }
        }
        Ok(None)
    }

    /// The message in `frame`, which `next_frame` just found.
    #[inline(always)]
    pub(super) fn message(&self, lane: usize, frame: &Frame) -> Message<'_> {
        let bytes = if self.checked {
            &self.copy
        } else {
            self.lanes[lane].view(frame)
        };
        message_of(bytes, self.lanes[lane].index(), frame)
    }

    /// Whether lanes appeared since the last look; they are mapped now. Costs one load of a word that hardly ever
    /// changes.
    #[inline(always)]
    pub(super) fn found_new_lanes(&mut self) -> Result<bool, ReceiveError> {
        self.core.attach_new_lanes(&mut self.lanes)
    }

    /// A look found nothing. Now and then that is the time to look for what changed: the end of the stream, an
    /// eviction. Not at the first looks: a spinning subscriber whose next message is on its way is
    /// not kept from it.
    #[inline(always)]
    fn found_nothing(&mut self) -> Result<(), ReceiveError> {
        self.dry = self.dry.wrapping_add(1);
        if self.dry == 4 || self.dry.is_multiple_of(32) {
            self.look_around()?;
        }
        if let Some(watch) = &self.core.watch {
            // The watch tells of what changes from here on: what has ended or was taken before is told now.
            watch.arm(&self.lanes, self.core.lanes_epoch);
            self.look_around()?;
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn look_around(&mut self) -> Result<(), ReceiveError> {
        if self.core.is_evicted() {
            return Err(ReceiveError::Evicted);
        }
        self.core.link_failure(&mut self.lanes)?;
        if self.core.is_at_end(&self.lanes) {
            return Err(ReceiveError::Closed);
        }
        Ok(())
    }
}

#[inline(always)]
fn message_of<'a>(bytes: &'a [u8], lane: usize, frame: &Frame) -> Message<'a> {
    Message {
        bytes,
        tag: frame.tag,
        position: frame.position,
        lane,
        borrow: PhantomData,
    }
}

/// Hands up to `limit` messages of one lane to `handler`.
#[inline(always)]
fn drain(
    consumer: &mut Consumer,
    handler: &mut impl FnMut(Message<'_>),
    limit: usize,
) -> Result<usize, ReceiveError> {
    let lane = consumer.index();
    consumer.walk(limit, |frame, bytes| {
        handler(message_of(bytes, lane, frame))
    })
}
