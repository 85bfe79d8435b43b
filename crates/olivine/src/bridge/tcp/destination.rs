//! The receiving end of one connection: frames into a ring, acknowledgements back.
//!
//! An acknowledgement wakes two threads of the source. So small amounts are acknowledged once in
//! [`ACK_PAUSE`], and at once after a pause of the messages or at the end of a lane.

use super::pipe::{ConnectionEnd, Pipe};
use super::socket::wait;
use super::{IdlePolls, LinkCounters};
use crate::bridge::ingress::{AfterFailure, Ingress, NotTaken};
use crate::bridge::ring_error;
use crate::bridge::wire::{self, Arrived, Close, WireError};
use crate::error::LinkError;
use crate::link::Control;
use crate::uri::WaitStrategy;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Shortest time between two acknowledgements of small amounts.
const ACK_PAUSE: Duration = Duration::from_millis(1);
/// Longest sleep while the source waits for room in the ring: no event reports room.
const ROOM_NAP: Duration = Duration::from_micros(100);

/// Receives until the source has ended (`Ok`), or the connection does.
pub(super) struct Receiving<'a> {
    pub(super) pipe: &'a mut Pipe,
    pub(super) ingress: &'a mut Ingress,
    pub(super) control: &'a Control,
    pub(super) counters: LinkCounters<'a>,
    pub(super) strategy: WaitStrategy,
    /// Incarnation of the source's channel.
    pub(super) incarnation: u64,
    /// Whether this link has only this source, and fails with it.
    pub(super) fails_with_source: bool,
}

/// What the source knows of a lane.
#[derive(Clone, Copy, Debug)]
struct Announced {
    lane: u32,
    position: u64,
    room: u64,
    /// The source asked for room.
    wanting: bool,
}

/// Limits how often small amounts are acknowledged.
#[derive(Debug, Default)]
struct AckLimit {
    /// When the last acknowledgement was sent.
    last: Option<Instant>,
    /// A lane has ended: its source waits for the acknowledgement.
    is_awaited: bool,
}

impl AckLimit {
    /// How long small amounts wait; zero if they are due.
    fn rest(&self, now: Instant) -> Duration {
        match self.last {
            Some(last) if !self.is_awaited => {
                ACK_PAUSE.saturating_sub(now.saturating_duration_since(last))
            }
            _ => Duration::ZERO,
        }
    }

    /// An acknowledgement was sent.
    fn sent(&mut self, now: Instant) {
        (self.last, self.is_awaited) = (Some(now), false);
    }
}

/// Result of handling one piece of input.
enum Step {
    Done,
    /// A lane has ended.
    LaneEnd,
    /// Frames wait for room.
    NoRoom,
    /// The source's last message.
    Close {
        close: Close,
        reason: String,
    },
}

impl Receiving<'_> {
    /// Runs until the end.
    pub(super) fn run(&mut self) -> Result<(), ConnectionEnd> {
        let capacity = self.ingress.geometry().capacity;
        let mut announced: Vec<Announced> = Vec::new();
        let mut idle = IdlePolls::new(self.strategy);
        let mut limit = AckLimit::default();
        loop {
            if self.control.must_stop() || self.control.stopping().is_some() {
                // A source without it would wait for us to come back. The close block flushes it.
                self.acknowledge(&mut announced, 0);
                self.pipe.has_end = self.ingress.has_ended();
                return Err(ConnectionEnd::Stopped);
            }
            let before = self.ingress.messages();
            // What comes later, or the end of the connection, ends the sleep below at once.
            let is_drained = std::mem::take(&mut self.pipe.is_drained);
            // What was read before the connection ended comes first.
            let read = if is_drained {
                Ok(false)
            } else {
                self.pipe.read()
            };
            let (mut moved, mut blocked) = (false, false);
            loop {
                match self.step(&mut announced)? {
                    Some(Step::Done) => moved = true,
                    Some(Step::LaneEnd) => (moved, limit.is_awaited) = (true, true),
                    Some(Step::NoRoom) => {
                        blocked = true;
                        break;
                    }
                    Some(Step::Close { close, reason }) => {
                        // A leaving source first gets the last acknowledgement: it need not send
                        // these messages again.
                        self.counters.messages(self.ingress.messages() - before);
                        self.acknowledge(&mut announced, 0);
                        // Best effort: a source that is gone learns it when it comes back.
                        let _ = self.pipe.flush();
                        return match close {
                            Close::End => {
                                // Close the lanes first: a kill after the reply then leaves no lane
                                // open.
                                self.ingress.close_lanes();
                                self.pipe.answer_end(self.control);
                                Ok(())
                            }
                            Close::Upstream => Err(self.end_failed(reason)),
                            close => Err(ConnectionEnd::ByPeer { close, reason }),
                        };
                    }
                    None => break,
                }
            }
            self.counters.messages(self.ingress.messages() - before);
            moved |= read?;
            blocked |= self.ingress.retry_room();
            let now = Instant::now();
            let rest = limit.rest(now);
            let least = if rest.is_zero() { 0 } else { capacity / 8 };
            if self.acknowledge(&mut announced, least) {
                limit.sent(now);
            }
            // Only a read that found nothing shows silence.
            if !moved && !is_drained {
                self.pipe.keep_alive()?;
            }
            let flushed = self.pipe.flush()?;
            if moved {
                idle.reset();
                continue;
            }
            if idle.poll_again() {
                continue;
            }
            if self.pipe.socket.has_arrived() && !self.pipe.decoder.is_full() {
                continue;
            }
            let mut nap = if blocked { ROOM_NAP } else { self.pipe.nap() };
            // A backlogged pipe wakes us once it can be written.
            let is_backlogged = self.pipe.is_backlogged();
            if !is_backlogged && announced.iter().any(|lane| self.due(lane, 0).is_some()) {
                nap = nap.min(rest.max(ROOM_NAP));
            }
            // Frames without room stay in the socket: its bytes must not wake us.
            let socket = (self.pipe.socket.as_fd(), !flushed);
            let fds = if self.pipe.decoder.is_full() {
                &[][..]
            } else {
                std::slice::from_ref(&socket)
            };
            wait(self.control, fds, nap)?;
            idle.woke();
        }
    }

    /// Stores the failure of the source, and confirms it. A kill between the two may repeat it, but
    /// does not lose it.
    fn end_failed(&mut self, reason: String) -> ConnectionEnd {
        let far = self.pipe.socket.far().to_owned();
        let failure = LinkError::FarFailed {
            far,
            reason: reason.clone(),
        };
        let after = if self.fails_with_source {
            // Before the lanes: the handle of this link reports it once, as that of the link.
            self.control.give_up(&failure);
            AfterFailure::Kept
        } else {
            AfterFailure::Freed
        };
        if let Err(error) = self.ingress.fail_lanes(&failure.reason(), after) {
            return ConnectionEnd::Failed(ring_error(error));
        }
        self.pipe
            .close_with(self.control, Close::Upstream, "this side has the failure");
        ConnectionEnd::ByPeer {
            close: Close::Upstream,
            reason,
        }
    }

    /// Handles the next piece of input; `None` if there is none.
    fn step(&mut self, announced: &mut Vec<Announced>) -> Result<Option<Step>, ConnectionEnd> {
        let Some(arrived) = self.pipe.decoder.next()? else {
            return Ok(None);
        };
        match arrived {
            Arrived::Frames {
                lane,
                position,
                bytes,
            } => {
                let length = bytes.len();
                let (count, full) = match self.ingress.take(lane, position, bytes) {
                    Ok(()) => (length, false),
                    Err(NotTaken::NoRoom { taken }) => (taken, true),
                    Err(other) => return Err(not_taken(other)),
                };
                self.pipe.decoder.took(count);
                self.counters.carried(count as u64);
                return Ok(Some(if full { Step::NoRoom } else { Step::Done }));
            }
            Arrived::Lane { lane, position } => {
                let opened = self.ingress.open_from(self.incarnation, lane, position);
                opened.map_err(not_taken)?;
                announced.retain(|announced| announced.lane != lane);
                // Nothing was sent yet: with a room of 0 the next check sends it.
                announced.push(Announced {
                    lane,
                    position,
                    room: 0,
                    wanting: false,
                });
            }
            Arrived::LaneEnd { lane } => {
                self.ingress.close_lane(lane);
                return Ok(Some(Step::LaneEnd));
            }
            Arrived::Want { lane, length } => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                self.ingress.request_room(lane, length);
                if let Some(announced) = announced
                    .iter_mut()
                    .find(|announced| announced.lane == lane)
                {
                    announced.wanting = true;
                }
            }
            Arrived::Beat => {}
            Arrived::Close { close, reason } => return Ok(Some(Step::Close { close, reason })),
            other => {
                let text = format!("a destination does not expect {other:?}");
                return Err(WireError::Invalid(text).into());
            }
        }
        Ok(Some(Step::Done))
    }

    /// Sends what is committed, and the room if the source is short of it, for lanes where either
    /// moved by more than `least` bytes; `true` if anything was sent.
    fn acknowledge(&mut self, announced: &mut [Announced], least: u64) -> bool {
        if self.pipe.is_backlogged() {
            return false;
        }
        let mut is_sent = false;
        for announced in announced {
            let Some((position, room)) = self.due(announced, least) else {
                continue;
            };
            wire::put_ack(&mut self.pipe.out, announced.lane, position, room);
            self.counters
                .acknowledged(position.wrapping_sub(announced.position));
            (announced.position, announced.room, announced.wanting) = (position, room, false);
            is_sent = true;
        }
        is_sent
    }

    /// What is committed of a lane, and its room, if either is to be sent.
    fn due(&mut self, announced: &Announced, least: u64) -> Option<(u64, u64)> {
        let position = self.ingress.acknowledged(announced.lane)?;
        let room = self.ingress.room(announced.lane).unwrap_or(position);
        let moved = position.wrapping_sub(announced.position) > least;
        let short = announced.room.saturating_sub(position) < self.ingress.geometry().capacity / 2;
        let more = room.saturating_sub(announced.room);
        let gained = (short && more > least) || (announced.wanting && more > 0);
        (moved || gained).then_some((position, room))
    }
}

fn not_taken(error: NotTaken) -> ConnectionEnd {
    match error {
        NotTaken::Wrong { problem } => WireError::Invalid(problem).into(),
        NotTaken::Ring(source) => ConnectionEnd::Failed(ring_error(source)),
        other => ConnectionEnd::Failed(LinkError::Protocol {
            far: "the ring of this side".into(),
            problem: other.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_amounts_are_due_after_a_pause_or_at_the_end_of_a_lane() {
        let start = Instant::now();
        let mut limit = AckLimit::default();
        assert_eq!(limit.rest(start), Duration::ZERO);
        limit.sent(start);
        assert_eq!(limit.rest(start), ACK_PAUSE);
        assert_eq!(limit.rest(start + ACK_PAUSE / 4), ACK_PAUSE * 3 / 4);
        assert_eq!(limit.rest(start + ACK_PAUSE), Duration::ZERO);
        limit.is_awaited = true;
        assert_eq!(limit.rest(start), Duration::ZERO);
        limit.sent(start);
        assert_eq!(limit.rest(start), ACK_PAUSE);
    }
}
