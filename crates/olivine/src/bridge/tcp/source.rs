//! The sending end of one connection: frames out of a ring, acknowledgements back.

use super::pipe::{ConnectionEnd, Pipe};
use super::socket::{NAP, wait};
use super::waker::SocketWaker;
use super::{IdlePolls, LinkCounters, greet};
use crate::bridge::egress::Egress;
use crate::bridge::wire::hello::Hello;
use crate::bridge::wire::{self, Arrived, Close, FRAMES_MAX, HEADER_BYTES, WireError};
use crate::error::{LinkError, ReceiveError};
use crate::link::{Control, Stop};
use crate::uri::WaitStrategy;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of one lane's frames before the next lane's turn.
const RUN_MAX: u64 = 1 << 20;
/// The same if frames are copied out first, because they may be overwritten.
const RUN_COPIED_MAX: u64 = 1 << 16;
/// Polls of the ring between two polls of the socket, while no input is expected.
const SOCKET_EVERY: u32 = 8;

/// One lane as this connection knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// The far side knows that the lane is open.
    open: bool,
    /// End of the whole frames that have room there.
    room: u64,
    /// The far side knows that the next message has no room.
    wanting: bool,
}

/// A run of frames that is sent in blocks. Without frames left it is none.
///
/// No part is an `Option`: compilers compare the bytes of a `None` before they look whether there
/// is a value. The result is right, but valgrind reports it.
#[derive(Debug, Default)]
struct Run {
    place: usize,
    begin: u64,
    /// Next byte to write.
    at: u64,
    block_end: u64,
    end: u64,
    header: [u8; HEADER_BYTES],
    header_written: usize,
    /// The frames had to be copied out, from `begin` on.
    is_copied: bool,
}

/// Sends from `egress` until everything is delivered and nothing more will come (`Ok`), or the
/// connection ends. With `until_end` it also ends once every publisher has closed. The far side
/// gets the end of the stream last, unless it said that it has the end.
pub(super) struct Sending<'a> {
    pub(super) pipe: &'a mut Pipe,
    pub(super) egress: &'a mut Egress,
    pub(super) control: &'a Control,
    pub(super) counters: LinkCounters<'a>,
    pub(super) strategy: WaitStrategy,
    pub(super) until_end: bool,
    /// Lanes that are open at the far side and wait for their end: announced even if they have
    /// ended.
    pub(super) open_there: Vec<u32>,
    pub(super) theirs: &'a Hello,
}

/// State of a sending end.
#[derive(Debug, Default)]
struct State {
    lanes: Vec<Lane>,
    run: Run,
    copy: Vec<u8>,
    turn: usize,
    /// [`Egress::fields_check`] of the fields that were compared with those of the far side.
    compared: Option<u64>,
    /// The socket accepts no more for now.
    full: bool,
    polls: u32,
    /// The last read left the socket empty, and the waker has not reported since.
    is_socket_drained: bool,
    /// Started at the first sleep on the ring.
    waker: Option<SocketWaker>,
}

impl Sending<'_> {
    /// Runs until the end.
    pub(super) fn run(&mut self) -> Result<(), ConnectionEnd> {
        let mut state = State::default();
        let carried = self.carry(&mut state).map_err(|broken| match broken {
            ConnectionEnd::Io(_) => self.close_of_peer(&mut state).unwrap_or(broken),
            broken => broken,
        });
        let outcome = match carried {
            Ok(()) => return self.pipe.send_end(self.control),
            // It needs no answer.
            Err(ConnectionEnd::ByPeer { .. }) if self.pipe.has_end && self.may_end() => {
                return Ok(());
            }
            outcome => outcome,
        };
        let is_gone = |broken: &ConnectionEnd| {
            matches!(
                broken,
                ConnectionEnd::Cut
                    | ConnectionEnd::Io(_)
                    | ConnectionEnd::Tls { .. }
                    | ConnectionEnd::ByPeer { .. }
            )
        };
        if !outcome.as_ref().is_err_and(is_gone) {
            self.finish_block(&mut state);
        }
        outcome
    }

    /// Writes the rest of a partly written block, if the far side takes it in time: otherwise the
    /// next block would be taken for frames.
    fn finish_block(&mut self, state: &mut State) {
        let until = self.pipe.close_deadline();
        while state.run.has_frames() && self.pipe.is_block_partial {
            let Ok(count) = state.run.write(self.egress, self.pipe, &state.copy) else {
                return;
            };
            let left = until.saturating_duration_since(Instant::now());
            let socket = self.pipe.socket.as_fd();
            if left.is_zero()
                || (count == 0 && wait(self.control, &[(socket, true)], left.min(NAP)).is_err())
            {
                return;
            }
        }
    }

    fn carry(&mut self, state: &mut State) -> Result<(), ConnectionEnd> {
        let mut idle = IdlePolls::new(self.strategy);
        loop {
            if self.control.must_stop() {
                return Err(ConnectionEnd::Stopped);
            }
            if self.control.stopping().is_some() {
                self.egress.set_goal().map_err(ring)?;
            }
            let mut moved = self.read_input(state)?;
            moved |= self.write_output(state)?;
            if moved {
                idle.reset();
                continue;
            }
            if self.is_done(state)? {
                return Ok(());
            }
            if self.may_leave(state)? {
                return Err(ConnectionEnd::Stopped);
            }
            self.pipe.keep_alive()?;
            if idle.poll_again() {
                continue;
            }
            self.sleep(state)?;
            idle.woke();
        }
    }

    /// Handles input of the far side; `true` if there was any.
    fn read_input(&mut self, state: &mut State) -> Result<bool, ConnectionEnd> {
        state.polls = state.polls.wrapping_add(1);
        let awaited =
            state.full || state.run.has_frames() || state.lanes.iter().any(|lane| lane.wanting);
        if !awaited && !state.polls.is_multiple_of(SOCKET_EVERY) {
            return Ok(false);
        }
        // The handshake may have read blocks behind its last one, and then the connection may end:
        // these blocks come first.
        let read = self.pipe.read();
        self.take_input(state)?;
        let moved = read?;
        state.is_socket_drained |= !moved;
        Ok(moved)
    }

    /// The close block of a far side that hung up before we read it, after an error of writing.
    fn close_of_peer(&mut self, state: &mut State) -> Option<ConnectionEnd> {
        let until = self.pipe.close_deadline();
        while !self.control.must_stop() && Instant::now() < until {
            let Ok(true) = self.pipe.read() else {
                return None;
            };
            match self.take_input(state) {
                Ok(()) => {}
                Err(broken @ ConnectionEnd::ByPeer { .. }) => return Some(broken),
                // What follows cannot be read.
                Err(_) => return None,
            }
        }
        None
    }

    /// Handles the blocks that were read.
    fn take_input(&mut self, state: &mut State) -> Result<(), ConnectionEnd> {
        while let Some(arrived) = self.pipe.decoder.next()? {
            match arrived {
                Arrived::Ack {
                    lane,
                    position,
                    room,
                } => self.acknowledge(state, lane, position, room)?,
                Arrived::Beat => {}
                Arrived::Close { close, reason } => {
                    self.pipe.has_end = close == Close::End && self.is_over(state)?;
                    return Err(ConnectionEnd::ByPeer { close, reason });
                }
                other => {
                    let text = format!("a source does not expect {other:?}");
                    return Err(WireError::Invalid(text).into());
                }
            }
        }
        Ok(())
    }

    fn acknowledge(
        &mut self,
        state: &mut State,
        lane: u32,
        position: u64,
        room: u64,
    ) -> Result<(), ConnectionEnd> {
        let place = (0..state.lanes.len()).find(|place| self.egress.lane(*place) == lane);
        let Some(place) = place else {
            return Err(WireError::Invalid(format!("lane {lane} was never opened")).into());
        };
        let before = self.egress.acknowledged(place);
        // A run that is still being written may be acknowledged in parts.
        let is_of_run = state.run.has_frames() && state.run.place == place;
        let written = if is_of_run { state.run.at } else { 0 };
        let taken = self.egress.acknowledge_checked(place, position, written);
        if !taken.map_err(ring)? {
            let text = format!(
                "position {position} of lane {lane} is not the end of a frame that was sent"
            );
            return Err(WireError::Invalid(text).into());
        }
        let gained = self.egress.acknowledged(place) - before;
        self.counters.acknowledged(gained);
        let own = &mut state.lanes[place];
        if room > own.room {
            own.room = room;
            own.wanting = false;
        }
        Ok(())
    }

    /// Writes what can be written; `true` if anything was written.
    fn write_output(&mut self, state: &mut State) -> Result<bool, ConnectionEnd> {
        self.announce(state)?;
        let mut moved = false;
        loop {
            if !state.run.has_frames() && !self.next_run(state)? {
                if self.pipe.pending().is_empty() {
                    state.full = !self.pipe.flush()?;
                    return Ok(moved);
                }
                let flushed = self.pipe.flush()?;
                state.full = !flushed;
                return Ok(moved | flushed);
            }
            let run = &mut state.run;
            let count = run.write(self.egress, self.pipe, &state.copy)?;
            moved |= count > 0;
            if count == 0 {
                state.full = true;
                return Ok(moved);
            }
            state.full = false;
            if run.at == run.block_end {
                if run.at == run.end {
                    self.egress.advance(run.place, run.end);
                } else {
                    run.next_block(self.egress, &state.copy);
                }
            }
        }
    }

    /// Announces opened lanes, and lanes that are still open at the far side: their end follows.
    fn announce(&mut self, state: &mut State) -> Result<(), ConnectionEnd> {
        let lanes = self.egress.look().map_err(ring)?;
        state.lanes.resize_with(lanes, Lane::default);
        for (place, lane) in state.lanes.iter_mut().enumerate() {
            if lane.open {
                continue;
            }
            let index = self.egress.lane(place);
            let there = self.open_there.iter().position(|there| *there == index);
            if there.is_some() || !self.egress.is_lane_ended(place) {
                if let Some(there) = there {
                    self.open_there.swap_remove(there);
                }
                let position = self.egress.position(place);
                wire::put_lane(&mut self.pipe.out, index, position);
                *lane = Lane {
                    open: true,
                    room: position,
                    wanting: false,
                };
            }
        }
        Ok(())
    }

    /// Begins the next run, of the next lane, if there are frames to send; also sends ends of lanes
    /// and requests for room.
    fn next_run(&mut self, state: &mut State) -> Result<bool, ConnectionEnd> {
        if self.pipe.is_backlogged() {
            return Ok(false);
        }
        for _ in 0..state.lanes.len() {
            let place = state.turn % state.lanes.len();
            state.turn = place + 1;
            let lane = &mut state.lanes[place];
            if !lane.open {
                continue;
            }
            let position = self.egress.position(place);
            let goal = self.egress.goal(place);
            if goal <= position && goal != u64::MAX && !self.egress.is_lane_ended(place) {
                continue;
            }
            let checked = self.egress.is_checked();
            let most = if checked { RUN_COPIED_MAX } else { RUN_MAX };
            let end = self
                .egress
                .frames_end(place, lane.room.min(position + most).min(goal))
                .map_err(ring)?;
            let end = if end > position {
                end
            } else {
                let next = self.egress.next_frame(place).map_err(ring)?;
                let Some((end, length)) = next else {
                    if self.egress.is_lane_ended(place) {
                        // END: a publisher that opened before this one closed is announced first.
                        self.announce(state)?;
                        state.lanes[place].open = false;
                        wire::put_lane_end(&mut self.pipe.out, self.egress.lane(place));
                    }
                    continue;
                };
                if end > lane.room {
                    if !lane.wanting {
                        lane.wanting = true;
                        let index = self.egress.lane(place);
                        wire::put_want(&mut self.pipe.out, index, length);
                    }
                    continue;
                }
                end
            };
            // A publisher may have stated fields that our hello did not have, before its first
            // message.
            let fields = self.egress.fields_check().value();
            if state.compared != Some(fields) {
                greet::fit_types(&self.egress.known_type(), self.theirs)?;
                state.compared = Some(fields);
            }
            if checked {
                self.egress
                    .copy_frames(place, end, &mut state.copy)
                    .map_err(ring)?;
            }
            state.run = Run {
                place,
                begin: position,
                at: position,
                block_end: position,
                end,
                header: [0; HEADER_BYTES],
                header_written: 0,
                is_copied: checked,
            };
            state.run.next_block(self.egress, &state.copy);
            self.counters.carried(end - position);
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether everything is delivered and nothing more will come.
    fn is_done(&mut self, state: &State) -> Result<bool, ConnectionEnd> {
        Ok(self.may_end() && self.is_over(state)?)
    }

    /// Whether it ends with the stream.
    fn may_end(&self) -> bool {
        self.until_end || matches!(self.control.stopping(), Some(Stop::Delivered(_)))
    }

    /// Whether every publisher has closed, and everything is delivered.
    fn is_over(&mut self, state: &State) -> Result<bool, ConnectionEnd> {
        // If no publisher has come, or one continues, the stream has no end to report: see
        // `may_leave`.
        let quiet = self.egress.is_ended()
            && !state.run.has_frames()
            && state.lanes.iter().all(|lane| !lane.open)
            && self.pipe.pending().is_empty();
        Ok(quiet && self.egress.is_delivered().map_err(ring)?)
    }

    /// Whether an end is requested and everything is delivered, though publishers may continue.
    fn may_leave(&mut self, state: &State) -> Result<bool, ConnectionEnd> {
        let asked = matches!(self.control.stopping(), Some(Stop::Delivered(_)));
        let quiet = asked && !state.run.has_frames() && self.pipe.pending().is_empty();
        // If every publisher has closed, this end is sent first.
        Ok(quiet && !self.egress.is_ended() && self.egress.is_delivered().map_err(ring)?)
    }

    fn sleep(&mut self, state: &mut State) -> Result<(), ConnectionEnd> {
        if self.pipe.socket.has_arrived() {
            state.polls = 0_u32.wrapping_sub(1);
            return Ok(());
        }
        let nap = self.control.until_deadline(self.pipe.nap());
        let idle = !state.full && !state.lanes.iter().any(|lane| lane.wanting);
        if !idle {
            let socket = self.pipe.socket.as_fd();
            return Ok(wait(self.control, &[(socket, state.full)], nap)?);
        }
        // Sleeps on the ring, so that published messages are found at once; the waker reports the
        // rest.
        if !state.is_socket_drained {
            state.polls = 0_u32.wrapping_sub(1);
            return Ok(());
        }
        let waker = match state.waker.take() {
            Some(waker) => waker,
            None => {
                let socket = self.pipe.socket.as_fd();
                SocketWaker::start(socket, self.control, self.egress.sleeper())?
            }
        };
        // The next look at the ring reports its errors.
        let this = std::cell::RefCell::new(&mut *self);
        let signalled = waker.wait(
            nap,
            |watches, park| this.borrow().egress.watch_publishers(watches, park),
            || this.borrow_mut().has_more(state).unwrap_or(true),
        );
        if signalled {
            state.is_socket_drained = false;
            state.polls = 0_u32.wrapping_sub(1);
        }
        state.waker = Some(waker);
        Ok(())
    }

    /// Whether the ring has frames that were not handed over.
    fn has_more(&mut self, state: &State) -> Result<bool, ConnectionEnd> {
        let lanes = self.egress.look().map_err(ring)?;
        if lanes != state.lanes.len() {
            return Ok(true);
        }
        for place in 0..lanes {
            let more = self.egress.reachable(place).map_err(ring)? != self.egress.position(place);
            if more || state.lanes[place].open == self.egress.is_lane_ended(place) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Run {
    /// Whether frames are left: this is a run.
    fn has_frames(&self) -> bool {
        self.at < self.end
    }

    /// What is left of the block.
    fn block<'a>(&self, egress: &'a mut Egress, copy: &'a [u8]) -> &'a [u8] {
        if self.is_copied {
            let [at, end] = [self.at, self.block_end].map(|position| position - self.begin);
            &copy[usize_of(at)..usize_of(end)]
        } else {
            egress.bytes(self.place, self.at, self.block_end)
        }
    }

    /// Writes as much of the block as the socket accepts; returns how many bytes that were.
    fn write(
        &mut self,
        egress: &mut Egress,
        pipe: &mut Pipe,
        copy: &[u8],
    ) -> Result<usize, ConnectionEnd> {
        let bytes = self.block(egress, copy);
        let header = &self.header[self.header_written..];
        let count = pipe.write([header, bytes])?;
        let of_header = count.min(header.len());
        self.header_written += of_header;
        self.at += (count - of_header) as u64;
        pipe.is_block_partial = self.header_written > 0 && self.at < self.block_end;
        Ok(count)
    }

    /// Begins the next block: all that is left, or as much as a block may hold.
    fn next_block(&mut self, egress: &mut Egress, copy: &[u8]) {
        let length = (self.end - self.at).min(FRAMES_MAX as u64);
        self.block_end = self.at + length;
        let lane = egress.lane(self.place);
        let bytes = self.block(egress, copy);
        self.header = wire::frames_header(lane, self.at, bytes);
        self.header_written = 0;
    }
}

/// Sends the failure of our channel's publisher, if that ended this connection.
pub(super) fn send_failure(
    outcome: Result<(), ConnectionEnd>,
    pipe: &mut Pipe,
    egress: &mut Egress,
    control: &Control,
) -> Result<(), ConnectionEnd> {
    if let Err(ConnectionEnd::Failed(error)) = &outcome
        && let Some(failure) = error.of_source()
    {
        // Before the wait for the answer: a failure during that wait is not sent. A failure that
        // came after `error` is sent.
        let due = egress.due_failures();
        let reason = match egress.error_of(due.clone()) {
            Some(ReceiveError::Failed(newest)) => newest.reason(),
            _ => failure.reason(),
        };
        pipe.send_failure(control, &reason);
        egress.mark_failure_sent(&due, pipe.failure_confirmed() == Some(true));
    }
    outcome
}

/// Converts the errors of reading our own ring.
pub(super) fn ring(error: ReceiveError) -> ConnectionEnd {
    match error {
        ReceiveError::Evicted => ConnectionEnd::ByUs {
            close: Close::Evicted,
            reason: "evicted: it was in the way of a publisher that had no room for longer than \
            'slow=evict:' allows; open the channel again"
                .into(),
        },
        other => ConnectionEnd::Failed(LinkError::Receive {
            source: Arc::new(other),
        }),
    }
}

/// A number of bytes that one of our rings holds.
fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
