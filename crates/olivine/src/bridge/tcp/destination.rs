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

/// Longest sleep while somebody waits for room in the ring, which nothing tells of.
const ROOM_NAP: Duration = Duration::from_micros(100);

/// Takes what the source sends until it has ended (`Ok`), or the connection does.
pub(super) struct Receiving<'a> {
    pub(super) pipe: &'a mut Pipe,
    pub(super) ingress: &'a mut Ingress,
    pub(super) control: &'a Control,
    pub(super) tally: Tally<'a>,
    pub(super) strategy: WaitStrategy,
    /// Of the source's channel.
    pub(super) incarnation: u64,
}

/// A lane as the source was told.
#[derive(Clone, Copy, Debug)]
struct Told {
    lane: u32,
    position: u64,
    room: u64,
    /// The source asked for more.
    wanting: bool,
}

/// What dealing with a piece of what arrived came to.
enum Step {
    Done,
    /// Frames wait for room.
    NoRoom,
    /// The source's last word.
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
                        // A source that leaves hears first what it need not send again.
                        self.tally.messages(self.ingress.messages() - before);
                        self.acknowledge(&mut told, 0);
                        // Best effort: it may be gone, and finds out when it comes back.
                        let _ = self.pipe.flush();
                        return match close {
                            Close::End => {
                                // Closed first: who is killed after the answer leaves no lane open.
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
            // What is small is acknowledged before we sleep: nobody waits for it meanwhile.
            self.acknowledge(&mut told, 0);
            let flushed = self.pipe.flush()?;
            if self.pipe.socket.has_arrived() && !self.pipe.decoder.is_full() {
                continue;
            }
            let nap = if blocked { ROOM_NAP } else { self.pipe.nap() };
            // Frames that have no room are left in the socket: its bytes must not keep us awake.
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

    /// Deals with the next thing that arrived; `None` if there is none.
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
                // Nothing was told yet: a room of 0 makes the next look tell it.
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

    /// Says what is committed, and what has room where the source is short of it, for lanes where either has moved
    /// by more than `least` bytes.
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
