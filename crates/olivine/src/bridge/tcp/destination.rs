//! The receiving end of one connection: frames into a ring, acknowledgements back.

use super::pipe::{Broken, Pipe};
use super::socket::wait;
use super::{Looks, Tally};
use crate::bridge::ingress::{Ingress, NotTaken};
use crate::bridge::ring_error;
use crate::bridge::wire::{self, Arrived, Close, WireError};
use crate::error::LinkError;
use crate::link::Control;
use crate::uri::WaitStrategy;
use std::os::fd::AsFd;
use std::time::Duration;

/// Longest sleep while the source waits for room in the ring: no event reports room.
const ROOM_NAP: Duration = Duration::from_micros(100);

/// Receives until the source has ended (`Ok`), or the connection does.
pub(super) struct Receiving<'a> {
    pub(super) pipe: &'a mut Pipe,
    pub(super) ingress: &'a mut Ingress,
    pub(super) control: &'a Control,
    pub(super) tally: Tally<'a>,
    pub(super) strategy: WaitStrategy,
    /// Incarnation of the source's channel.
    pub(super) incarnation: u64,
}

/// What the source was told of a lane.
#[derive(Clone, Copy, Debug)]
struct Told {
    lane: u32,
    position: u64,
    room: u64,
    /// The source asked for room.
    wanting: bool,
}

/// Result of handling one piece of input.
enum Step {
    Done,
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
    pub(super) fn run(&mut self) -> Result<(), Broken> {
        let capacity = self.ingress.geometry().capacity;
        let mut told: Vec<Told> = Vec::new();
        let mut looks = Looks::new(self.strategy);
        loop {
            if self.control.must_stop() || self.control.stopping().is_some() {
                return Err(Broken::Stopped);
            }
            let before = self.ingress.messages();
            let mut moved = self.pipe.read()?;
            let mut blocked = false;
            loop {
                match self.step(&mut told)? {
                    Some(Step::Done) => moved = true,
                    Some(Step::NoRoom) => {
                        blocked = true;
                        break;
                    }
                    Some(Step::Close { close, reason }) => {
                        // A leaving source first gets the last acknowledgement: it need not send
                        // these messages again.
                        self.tally.messages(self.ingress.messages() - before);
                        self.acknowledge(&mut told, 0);
                        // Best effort: a source that is gone learns it when it comes back.
                        let _ = self.pipe.flush();
                        return match close {
                            Close::End => {
                                // Close the lanes first: a kill after the reply then leaves no lane
                                // open.
                                self.ingress.close_lanes();
                                self.pipe.say(self.control, Close::End, "heard");
                                Ok(())
                            }
                            close => Err(Broken::Told { close, reason }),
                        };
                    }
                    None => break,
                }
            }
            self.tally.messages(self.ingress.messages() - before);
            blocked |= self.ingress.press();
            self.acknowledge(&mut told, capacity / 8);
            self.pipe.flush()?;
            if moved {
                looks.reset();
                continue;
            }
            self.pipe.live()?;
            if looks.again() {
                continue;
            }
            // Small amounts are acknowledged before we sleep: no message waits for them until then.
            self.acknowledge(&mut told, 0);
            let flushed = self.pipe.flush()?;
            if self.pipe.socket.has_arrived() && !self.pipe.decoder.is_full() {
                continue;
            }
            let nap = if blocked { ROOM_NAP } else { self.pipe.nap() };
            // Frames without room stay in the socket: its bytes must not wake us.
            let socket = (self.pipe.socket.as_fd(), !flushed);
            let fds = if self.pipe.decoder.is_full() {
                &[][..]
            } else {
                std::slice::from_ref(&socket)
            };
            wait(self.control, fds, nap)?;
            looks.woke();
        }
    }

    /// Handles the next piece of input; `None` if there is none.
    fn step(&mut self, told: &mut Vec<Told>) -> Result<Option<Step>, Broken> {
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
                self.tally.carried(count as u64);
                return Ok(Some(if full { Step::NoRoom } else { Step::Done }));
            }
            Arrived::Lane { lane, position } => {
                let opened = self.ingress.open_from(self.incarnation, lane, position);
                opened.map_err(not_taken)?;
                told.retain(|told| told.lane != lane);
                // Nothing was sent yet: with a room of 0 the next check sends it.
                told.push(Told {
                    lane,
                    position,
                    room: 0,
                    wanting: false,
                });
            }
            Arrived::LaneEnd { lane } => self.ingress.close_lane(lane),
            Arrived::Want { lane, length } => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                self.ingress.want(lane, length);
                if let Some(told) = told.iter_mut().find(|told| told.lane == lane) {
                    told.wanting = true;
                }
            }
            Arrived::Beat => {}
            Arrived::Close { close, reason } => return Ok(Some(Step::Close { close, reason })),
            other => {
                let text = format!("a destination does not expect {other:?}");
                return Err(WireError::Nonsense(text).into());
            }
        }
        Ok(Some(Step::Done))
    }

    /// Sends what is committed, and the room if the source is short of it, for lanes where either
    /// moved by more than `least` bytes.
    fn acknowledge(&mut self, told: &mut [Told], least: u64) {
        if self.pipe.is_clogged() {
            return;
        }
        for told in told {
            let Some(position) = self.ingress.acknowledged(told.lane) else {
                continue;
            };
            let room = self.ingress.room(told.lane).unwrap_or(position);
            let moved = position.wrapping_sub(told.position) > least;
            let short = told.room.saturating_sub(position) < self.ingress.geometry().capacity / 2;
            let more = room.saturating_sub(told.room);
            let gained = (short && more > least) || (told.wanting && more > 0);
            if moved || gained {
                wire::put_ack(&mut self.pipe.out, told.lane, position, room);
                self.tally
                    .acknowledged(position.wrapping_sub(told.position));
                (told.position, told.room, told.wanting) = (position, room, false);
            }
        }
    }
}

fn not_taken(error: NotTaken) -> Broken {
    match error {
        NotTaken::Wrong(text) => WireError::Nonsense(text).into(),
        NotTaken::Ring(source) => Broken::Failed(ring_error(source)),
        other => Broken::Failed(LinkError::Protocol {
            far: "the ring of this side".into(),
            problem: other.to_string(),
        }),
    }
}
