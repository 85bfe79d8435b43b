//! The portable back end: mio, which is epoll on Linux and kqueue on macOS.
//!
//! Every socket is registered once, edge-triggered, for reading and writing. What is ready is then
//! kept here: pausing and resuming cost no system call. A connection that fills a whole receive
//! buffer goes to the end of the ready queue, so that one fast sender cannot starve the rest.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use mio::{Events, Interest, Poll, Token, unix::SourceFd};

use super::{
    ARRIVALS_PER_WAIT, Acceptor, Driver, Event, FILE_BYTES_PER_TURN, HEADROOM, Outgoing, SendState,
    Slot, Waker,
};
use crate::{listen::ListenSocket, sys::socket};

const WAKER: Token = Token(usize::MAX);
/// Listeners have the numbers below it.
const LISTENERS: usize = usize::MAX - 1;
const LISTENERS_END: usize = LISTENERS - u16::MAX as usize;
/// Kernel events taken per wait; more of them stay with the kernel until the next one.
const EVENTS_MAX: usize = 1024;

/// While only one connection is heard from, a spinning shard reads it directly: one failing receive
/// costs less than asking the poll and then receiving. So many such reads happen between two polls,
/// so that the other connections wait only briefly.
const HOT_ROUNDS: u32 = 16;

/// The mio back end of one shard.
#[derive(Debug)]
pub(crate) struct Readiness {
    poll: Poll,
    events: Events,
    acceptors: Vec<Acceptor>,
    /// Connections that may still be accepted before the next wait.
    arrivals_left: usize,
    states: Vec<Option<SocketState>>,
    /// Slots to be looked at by `next`, each once.
    ready: VecDeque<Slot>,
    /// Slots that send a long file: they are ready again after the next wait.
    later: Vec<Slot>,
    /// Events that are already complete.
    done: VecDeque<Event>,
    buffers: Vec<Box<[u8]>>,
    buffer_bytes: usize,
    /// The connection last heard from.
    hot: Slot,
    hot_rounds: u32,
    /// The last poll found other ready connections than the hot one.
    crowded: bool,
}

#[derive(Debug)]
struct SocketState {
    socket: OwnedFd,
    connecting: bool,
    reading: bool,
    /// Bytes, an end or an error may be waiting.
    readable: bool,
    /// The kernel has seen the end of the stream or an error: read on after a short read.
    ending: bool,
    /// The connection is gone in both directions, or reset.
    broken: bool,
    /// The end or an error was reported; there is nothing more to read.
    ended: bool,
    /// The peer's end was reported while reading was off.
    end_told: bool,
    /// The loss of the connection was reported.
    lost: bool,
    writable: bool,
    queued: bool,
    sending: Option<(Outgoing, usize)>,
    /// Bytes that the kernel has taken since the last call of `take_progress`.
    progress: u64,
}

/// What the back end keeps for each connection.
#[cfg(test)]
pub(crate) const STATE_BYTES: usize = size_of::<Option<SocketState>>();

impl SocketState {
    /// Whether to report the loss of the connection here, because no receive would report it.
    fn owes_loss(&self) -> bool {
        self.broken && !self.lost && (!self.reading || self.ended)
    }

    /// Whether to report the peer's end, because reading is off.
    fn owes_end(&self) -> bool {
        self.ending && !self.end_told && !self.reading && !self.ended
    }
}

impl Readiness {
    /// Makes a back end whose receive buffers hold `buffer_bytes` each, and what wakes it.
    pub(crate) fn new(buffer_bytes: usize) -> io::Result<(Self, Waker)> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        let driver = Self {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            acceptors: Vec::new(),
            arrivals_left: ARRIVALS_PER_WAIT,
            states: Vec::new(),
            ready: VecDeque::with_capacity(EVENTS_MAX),
            later: Vec::new(),
            done: VecDeque::with_capacity(64),
            buffers: Vec::new(),
            buffer_bytes,
            hot: 0,
            hot_rounds: 0,
            crowded: false,
        };
        Ok((driver, Waker::Mio(waker)))
    }

    fn state(&mut self, slot: Slot) -> Option<&mut SocketState> {
        self.states.get_mut(slot as usize)?.as_mut()
    }

    fn enqueue(&mut self, slot: Slot) {
        if let Some(state) = self.states.get_mut(slot as usize).and_then(Option::as_mut)
            && !state.queued
        {
            state.queued = true;
            self.ready.push_back(slot);
        }
    }

    /// Whether a round may do without the poll, because the hot connection will be tried directly.
    fn try_hot(&mut self) -> bool {
        if self.crowded || self.hot_rounds >= HOT_ROUNDS {
            self.hot_rounds = 0;
            return false;
        }
        let slot = self.hot;
        let Some(state) = self.state(slot) else {
            return false;
        };
        if !state.reading || state.ended || state.connecting || state.sending.is_some() {
            return false;
        }
        state.readable = true;
        self.hot_rounds += 1;
        self.enqueue(slot);
        true
    }

    /// Does what one ready connection can do; at most one event comes of it.
    fn serve(&mut self, slot: Slot) -> Option<Event> {
        let state = self.states.get_mut(slot as usize)?.as_mut()?;
        state.queued = false;
        if state.connecting {
            if !state.writable {
                return None;
            }
            state.connecting = false;
            let result = socket::outcome(state.socket.as_fd());
            if result.is_ok() {
                self.enqueue(slot);
            }
            return Some(Event::Connected { slot, result });
        }
        if state.writable
            && let Some((buffer, start)) = state.sending.take()
        {
            match push(state, buffer, start) {
                SendState::Done(buffer, result) => {
                    self.enqueue(slot);
                    return Some(Event::Sent {
                        slot,
                        buffer,
                        result,
                    });
                }
                SendState::UnderWay if state.writable => self.later.push(slot),
                SendState::UnderWay => {}
            }
        }
        let state = self.states.get_mut(slot as usize)?.as_mut()?;
        if state.owes_loss() {
            (state.lost, state.ended) = (true, true);
            let error = socket::outcome(state.socket.as_fd()).err();
            let error = error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
            return Some(Event::Broken { slot, error });
        }
        if state.owes_end() {
            state.end_told = true;
            return Some(Event::PeerEnded { slot });
        }
        if !state.readable || !state.reading || state.ended {
            return None;
        }
        let mut buffer = self
            .buffers
            .pop()
            .unwrap_or_else(|| vec![0; HEADROOM + self.buffer_bytes].into_boxed_slice());
        match socket::receive(state.socket.as_fd(), &mut buffer[HEADROOM..]) {
            Ok(length) => {
                if length == 0 {
                    state.ended = true;
                } else if length == self.buffer_bytes || state.ending {
                    self.enqueue(slot);
                } else {
                    // A short read has emptied the socket; the next arrival makes a new edge.
                    state.readable = false;
                }
                self.hot = slot;
                Some(Event::Received {
                    slot,
                    buffer,
                    length,
                })
            }
            Err(error) => {
                self.buffers.push(buffer);
                if error.kind() == io::ErrorKind::WouldBlock {
                    state.readable = false;
                    return None;
                }
                (state.lost, state.ended) = (true, true);
                Some(Event::Broken { slot, error })
            }
        }
    }
}

/// Sends from `start` on until all is gone, the kernel is full (then the socket is no longer
/// writable), or other connections get their turn.
fn push(state: &mut SocketState, buffer: Outgoing, mut start: usize) -> SendState {
    let turn = match &buffer {
        Outgoing::File { .. } => start + FILE_BYTES_PER_TURN,
        _ => usize::MAX,
    };
    loop {
        if start >= buffer.length() {
            return SendState::Done(buffer, Ok(()));
        }
        if start >= turn {
            state.sending = Some((buffer, start));
            return SendState::UnderWay;
        }
        match buffer.send_from(start, state.socket.as_fd()) {
            Ok(length) => {
                start += length;
                state.progress += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                state.writable = false;
                state.sending = Some((buffer, start));
                return SendState::UnderWay;
            }
            Err(error) => return SendState::Done(buffer, Err(error)),
        }
    }
}

impl Driver for Readiness {
    fn name(&self) -> &'static str {
        "mio"
    }

    fn listen(&mut self, listener: Arc<ListenSocket>) -> io::Result<()> {
        let source = listener.fd.as_raw_fd();
        let token = Token(LISTENERS - self.acceptors.len());
        self.poll
            .registry()
            .register(&mut SourceFd(&source), token, Interest::READABLE)?;
        self.acceptors.push(Acceptor::new(listener));
        Ok(())
    }

    fn stop_listening(&mut self) {
        for mut acceptor in self.acceptors.drain(..) {
            if acceptor.listener.shared.get() {
                // Closing would not take it out of the poll: others have it open.
                let source = acceptor.listener.fd.as_raw_fd();
                let _ = self.poll.registry().deregister(&mut SourceFd(&source));
                continue;
            }
            while let Some(event) = acceptor.accept() {
                self.done.push_back(event);
            }
        }
    }

    fn has_arrivals(&self) -> bool {
        let accepted = |event: &Event| matches!(event, Event::Accepted(..));
        self.acceptors.is_empty() && self.done.iter().any(accepted)
    }

    fn retry_accept(&mut self) {
        for acceptor in &mut self.acceptors {
            (acceptor.starved, acceptor.acceptable) = (false, true);
        }
    }

    fn is_starved(&self) -> bool {
        self.acceptors.iter().any(|acceptor| acceptor.starved)
    }

    fn attach(&mut self, slot: Slot, socket: OwnedFd, connecting: bool) -> io::Result<()> {
        let source = socket.as_raw_fd();
        self.poll.registry().register(
            &mut SourceFd(&source),
            Token(slot as usize),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        if self.states.len() <= slot as usize {
            self.states.resize_with(slot as usize + 1, || None);
        }
        self.states[slot as usize] = Some(SocketState {
            socket,
            connecting,
            reading: true,
            readable: false,
            ending: false,
            broken: false,
            ended: false,
            end_told: false,
            lost: false,
            // A fresh socket takes bytes; if not, the first send finds out.
            writable: !connecting,
            queued: false,
            sending: None,
            progress: 0,
        });
        Ok(())
    }

    fn set_reading(&mut self, slot: Slot, reading: bool) {
        let Some(state) = self.state(slot) else {
            return;
        };
        state.reading = reading;
        if (reading && state.readable) || state.owes_loss() || state.owes_end() {
            self.enqueue(slot);
        }
    }

    fn send(&mut self, slot: Slot, buffer: Outgoing) -> SendState {
        match self.state(slot) {
            Some(state) if state.writable => {
                let outcome = push(state, buffer, 0);
                if matches!(outcome, SendState::UnderWay) && state.writable {
                    self.later.push(slot);
                }
                outcome
            }
            Some(state) => {
                state.sending = Some((buffer, 0));
                SendState::UnderWay
            }
            None => SendState::Done(buffer, Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn take_progress(&mut self, slot: Slot) -> u64 {
        self.state(slot)
            .map_or(0, |state| std::mem::take(&mut state.progress))
    }

    fn send_now(&mut self, slot: Slot, bytes: &[u8]) -> io::Result<usize> {
        let state = self.state(slot).ok_or(io::ErrorKind::NotConnected)?;
        let result = socket::send(state.socket.as_fd(), bytes);
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            state.writable = false;
        }
        result
    }

    fn finish(&mut self, slot: Slot) {
        if let Some(state) = self.state(slot) {
            socket::finish(state.socket.as_fd());
        }
    }

    fn detach(&mut self, slot: Slot, reset: bool) {
        if let Some(state) = self.states.get_mut(slot as usize).and_then(Option::take) {
            if reset {
                socket::reset_on_close(state.socket.as_fd());
            }
            // Closing the only descriptor also takes it out of the poll. Events that were already
            // taken name an empty slot, which `serve` skips.
            drop(state);
            self.done.push_back(Event::Released { slot });
        }
    }

    fn take(&mut self, slot: Slot) {
        if let Some(state) = self.states.get_mut(slot as usize).and_then(Option::take) {
            let source = state.socket.as_raw_fd();
            // The socket stays open, so it must be taken out of the poll.
            let _ = self.poll.registry().deregister(&mut SourceFd(&source));
            let socket = state.socket;
            self.done.push_back(Event::Taken { slot, socket });
        }
    }

    fn is_watched(&self, slot: Slot) -> bool {
        // Registered for as long as the socket is there; the shard has acted upon a reported loss.
        let state = self.states.get(slot as usize).and_then(Option::as_ref);
        state.is_some_and(|state| !state.lost)
    }

    fn has_unread(&self, slot: Slot) -> bool {
        let state = self.states.get(slot as usize).and_then(Option::as_ref);
        state.is_some_and(|state| socket::unread(state.socket.as_fd()) > 0)
    }

    fn peer_address(&self, slot: Slot) -> Option<SocketAddr> {
        socket::peer_address(self.states.get(slot as usize)?.as_ref()?.socket.as_fd())
    }

    fn recycle(&mut self, buffer: Box<[u8]>) {
        self.buffers.push(buffer);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.arrivals_left = ARRIVALS_PER_WAIT;
        while let Some(slot) = self.later.pop() {
            self.enqueue(slot);
        }
        let acceptable = self.acceptors.iter().any(|acceptor| acceptor.acceptable);
        let busy = !self.ready.is_empty() || !self.done.is_empty() || acceptable;
        if !busy && timeout == Some(Duration::ZERO) && self.try_hot() {
            return Ok(());
        }
        let timeout = if busy { Some(Duration::ZERO) } else { timeout };
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        }
        self.crowded = false;
        for event in &self.events {
            match event.token() {
                WAKER => {}
                Token(number) if number > LISTENERS_END => {
                    if let Some(acceptor) = self.acceptors.get_mut(LISTENERS - number) {
                        acceptor.acceptable = true;
                    }
                }
                Token(index) => {
                    let Some(state) = self.states.get_mut(index).and_then(Option::as_mut) else {
                        continue;
                    };
                    self.crowded |= index != self.hot as usize;
                    let failed = event.is_error();
                    state.readable |= event.is_readable() || event.is_read_closed() || failed;
                    state.writable |= event.is_writable() || event.is_write_closed() || failed;
                    state.ending |= event.is_read_closed() || failed;
                    state.broken |= failed || (event.is_read_closed() && event.is_write_closed());
                    let useful = state.connecting
                        || state.owes_loss()
                        || state.owes_end()
                        || (state.readable && state.reading && !state.ended)
                        || state.sending.is_some();
                    if useful && !state.queued {
                        state.queued = true;
                        // Slots are u32 and tokens were made from them.
                        self.ready.extend(Slot::try_from(index));
                    }
                }
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.done.pop_front() {
            return Some(event);
        }
        for acceptor in &mut self.acceptors {
            if acceptor.acceptable && self.arrivals_left > 0 {
                if let Some(event) = acceptor.accept() {
                    self.arrivals_left -= 1;
                    return Some(event);
                }
                acceptor.acceptable = false;
            }
        }
        while let Some(slot) = self.ready.pop_front() {
            if let Some(event) = self.serve(slot) {
                return Some(event);
            }
        }
        None
    }
}
