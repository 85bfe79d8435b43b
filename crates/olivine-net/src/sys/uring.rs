//! The io_uring back end: multishot accept and receive, provided buffers, registered descriptors.
//!
//! The kernel holds raw pointers into buffers while an operation runs, so each buffer is owned by
//! this module until the operation's completion has been seen: bytes being sent in
//! `SlotState::sending`, receive buffers in [`Buffers`]. A slot keeps its state until its last
//! completion. What the kernel might still hold when the driver is dropped is leaked rather than
//! freed.
//!
//! This file has the interface of the shard. `queue` submits operations to the kernel, `complete`
//! reads their completions.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use io_uring::{
    EnterFlags, IoUring,
    types::{CancelBuilder, SubmitArgs, Timespec},
};
use rustix::io::Errno;

use super::{buffers::Buffers, socket};
use crate::{
    driver::{ARRIVALS_PER_WAIT, Acceptor, Driver, Event, Outgoing, SendState, Slot, Waker},
    listen::ListenSocket,
};

mod complete;
mod queue;

use queue::accept_tag;

/// Submissions that fit before the kernel must be entered.
const SUBMISSIONS: u32 = 1024;
const COMPLETIONS: u32 = 8192;
/// Receive buffers of a shard; a power of two.
const BUFFERS: u16 = 64;
const GROUP: u16 = 0;
/// Time until an operation that could not be queued is tried again.
const RETRY: Duration = Duration::from_millis(10);
/// Connections with a registered descriptor; the others use plain ones.
const REGISTERED_MAX: u32 = 16_384;

/// The io_uring back end of one shard.
pub(crate) struct Uring {
    ring: IoUring,
    /// `None` only while dropping.
    buffers: Option<Buffers>,
    wake: OwnedFd,
    registered: u32,
    acceptors: Vec<Listening>,
    /// The listeners are given up.
    stopped: bool,
    /// Events of the listeners, and how many of them may still be reported before the next wait.
    arrivals: VecDeque<Event>,
    arrivals_left: usize,
    states: Vec<Option<SlotState>>,
    completions: VecDeque<(u64, i32, u32)>,
    /// What the listeners' completions said, while they are being taken.
    listeners_said: Vec<(u64, i32, u32)>,
    done: VecDeque<Event>,
    /// Slots with something still to be asked of the kernel: a receive that ran out of buffers, or
    /// an operation that could not be queued.
    unsettled: VecDeque<Slot>,
    /// The poll for the waker is with the kernel.
    wake_armed: bool,
}

/// A listener of this shard; its accept names it by its place in the list.
#[derive(Debug)]
struct Listening {
    /// `None` once it is closed permanently.
    acceptor: Option<Acceptor>,
    /// An accept is with the kernel.
    accepting: bool,
}

#[derive(Debug)]
struct SlotState {
    socket: OwnedFd,
    registered: bool,
    reading: bool,
    ended: bool,
    /// A receive is with the kernel.
    receiving: bool,
    connecting: bool,
    /// A poll for the peer's end and the connection's loss is with the kernel.
    watching: bool,
    /// The poll has seen the peer's end.
    ending: bool,
    /// The poll has seen the loss of the connection.
    broken: bool,
    /// A receive that was armed before the loss was cancelled: the next one reports it.
    renewed: bool,
    /// The peer's end was reported while reading was off.
    end_told: bool,
    /// The loss of the connection was reported.
    lost: bool,
    sending: Option<(Outgoing, usize)>,
    /// Bytes that the kernel has taken since the last call of `take_progress`.
    progress: u64,
    /// The shard has given it up; the last completion releases it.
    detached: bool,
    /// The shard wants the socket back, once the last completion is seen.
    taken: bool,
    reset: bool,
}

/// What the back end keeps for each connection.
#[cfg(test)]
pub(crate) const STATE_BYTES: usize = size_of::<Option<SlotState>>();

impl SlotState {
    fn in_flight(&self) -> bool {
        self.receiving || self.connecting || self.watching || self.sending.is_some()
    }

    /// Whether no receive will report the end or the loss of the connection.
    fn is_unread(&self) -> bool {
        !self.reading || self.ended
    }
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring")
            .field("registered", &self.registered)
            .finish_non_exhaustive()
    }
}

impl Uring {
    /// Makes a ring whose receive buffers hold `buffer_bytes` each, and what wakes it.
    ///
    /// Fails where the kernel is too old (before 6.1) or forbids io_uring.
    pub(crate) fn new(buffer_bytes: usize) -> io::Result<(Self, Waker)> {
        use rustix::event::{EventfdFlags, eventfd};
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .setup_clamp()
            .build(SUBMISSIONS)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let waker = Waker::Eventfd(wake.try_clone()?);
        let buffers = Buffers::register(&ring.submitter(), GROUP, BUFFERS, buffer_bytes)?;
        // Costs speed only: without a table every connection uses its plain descriptor. Its size is
        // bound by the descriptor limit.
        let registered = [REGISTERED_MAX, 1024, 128]
            .into_iter()
            .find(|count| ring.submitter().register_files_sparse(*count).is_ok())
            .unwrap_or(0);
        let mut driver = Self {
            ring,
            buffers: Some(buffers),
            wake,
            registered,
            acceptors: Vec::new(),
            stopped: false,
            arrivals: VecDeque::with_capacity(64),
            arrivals_left: ARRIVALS_PER_WAIT,
            states: Vec::new(),
            completions: VecDeque::with_capacity(COMPLETIONS as usize),
            listeners_said: Vec::new(),
            done: VecDeque::with_capacity(64),
            unsettled: VecDeque::new(),
            wake_armed: false,
        };
        driver.arm_wake()?;
        // A profile may allow making a ring and forbid its use: the shard would get no events.
        driver.probe()?;
        Ok((driver, waker))
    }

    fn state(&mut self, slot: Slot) -> Option<&mut SlotState> {
        self.states.get_mut(slot as usize)?.as_mut()
    }
}

impl Driver for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn listen(&mut self, listener: Arc<ListenSocket>) -> io::Result<()> {
        self.acceptors.push(Listening {
            acceptor: Some(Acceptor::new(listener)),
            accepting: false,
        });
        self.arm_accept(self.acceptors.len() - 1)
    }

    fn stop_listening(&mut self) {
        self.stopped = true;
        for index in 0..self.acceptors.len() {
            let Some(acceptor) = &self.acceptors[index].acceptor else {
                continue;
            };
            // Others go on with a shared one.
            if !acceptor.listener.shared.get() {
                self.drain_acceptor(index);
                if let Some(acceptor) = &self.acceptors[index].acceptor {
                    // This ends the accept as well.
                    socket::stop_listening(acceptor.listener.fd.as_fd());
                }
            }
            if self.acceptors[index].accepting {
                let _ = self.cancel(accept_tag(index));
            } else {
                self.acceptors[index].acceptor = None;
            }
        }
    }

    fn has_arrivals(&self) -> bool {
        let accepting = self.acceptors.iter().any(|listening| listening.accepting);
        !self.arrivals.is_empty() || (self.stopped && accepting)
    }

    fn retry_accept(&mut self) {
        for index in 0..self.acceptors.len() {
            if let Some(acceptor) = &mut self.acceptors[index].acceptor {
                acceptor.starved = false;
            }
            self.drain_acceptor(index);
            self.accept_again(index);
        }
    }

    fn is_starved(&self) -> bool {
        let acceptors = self.acceptors.iter();
        acceptors
            .filter_map(|listening| listening.acceptor.as_ref())
            .any(|acceptor| acceptor.starved)
    }

    fn attach(&mut self, slot: Slot, socket: OwnedFd, connecting: bool) -> io::Result<()> {
        let descriptor = socket.as_raw_fd();
        let registered = slot < self.registered
            && self
                .ring
                .submitter()
                .register_files_update(slot, &[descriptor])
                .is_ok();
        if self.states.len() <= slot as usize {
            self.states.resize_with(slot as usize + 1, || None);
        }
        self.states[slot as usize] = Some(SlotState {
            socket,
            registered,
            reading: true,
            ended: false,
            receiving: false,
            connecting,
            watching: false,
            ending: false,
            broken: false,
            renewed: false,
            end_told: false,
            lost: false,
            sending: None,
            progress: 0,
            detached: false,
            taken: false,
            reset: false,
        });
        let armed = if connecting {
            self.arm_connect(slot)
        } else {
            self.arm_receive(slot)
        };
        if armed.is_err() {
            self.states[slot as usize] = None;
            if registered {
                // The table would hold the socket open.
                let _ = self.ring.submitter().register_files_update(slot, &[-1]);
            }
        }
        self.settle(slot);
        armed
    }

    fn set_reading(&mut self, slot: Slot, reading: bool) {
        let Some(state) = self.state(slot) else {
            return;
        };
        state.reading = reading;
        self.settle(slot);
        // The poll may have seen it while the end was still to be read.
        let event = self.noticed(slot);
        self.done.extend(event);
    }

    fn send(&mut self, slot: Slot, buffer: Outgoing) -> SendState {
        match self.state(slot) {
            Some(state) if !state.detached => state.sending = Some((buffer, 0)),
            _ => return SendState::Done(buffer, Err(io::ErrorKind::NotConnected.into())),
        }
        match self.submit_send(slot) {
            Ok(()) => SendState::UnderWay,
            Err(error) => match self.fail_send(slot, error) {
                Some(Event::Sent { buffer, result, .. }) => SendState::Done(buffer, result),
                _ => SendState::UnderWay,
            },
        }
    }

    fn take_progress(&mut self, slot: Slot) -> u64 {
        self.state(slot)
            .map_or(0, |state| std::mem::take(&mut state.progress))
    }

    fn send_now(&mut self, slot: Slot, bytes: &[u8]) -> io::Result<usize> {
        let state = self.state(slot).ok_or(io::ErrorKind::NotConnected)?;
        socket::send(state.socket.as_fd(), bytes)
    }

    fn finish(&mut self, slot: Slot) {
        if let Some(state) = self.state(slot) {
            socket::finish(state.socket.as_fd());
        }
    }

    fn detach(&mut self, slot: Slot, reset: bool) {
        let Some(state) = self.state(slot) else {
            return;
        };
        state.detached = true;
        state.reset = reset;
        self.settle(slot);
        let event = self.release_if_quiet(slot);
        self.done.extend(event);
    }

    fn take(&mut self, slot: Slot) {
        let Some(state) = self.state(slot) else {
            return;
        };
        (state.taken, state.reading) = (true, false);
        self.settle(slot);
        let event = self.release_if_quiet(slot);
        self.done.extend(event);
    }

    fn is_watched(&self, slot: Slot) -> bool {
        let state = self.states.get(slot as usize).and_then(Option::as_ref);
        // A noticed loss is among the events that are still to be reported.
        state.is_some_and(|state| state.in_flight() || state.lost || self.unsettled.contains(&slot))
    }

    fn has_unread(&self, slot: Slot) -> bool {
        let state = self.states.get(slot as usize).and_then(Option::as_ref);
        !self.completions.is_empty()
            || state.is_some_and(|state| socket::unread(state.socket.as_fd()) > 0)
    }

    fn peer_address(&self, slot: Slot) -> Option<SocketAddr> {
        socket::peer_address(self.states.get(slot as usize)?.as_ref()?.socket.as_fd())
    }

    fn recycle(&mut self, buffer: Box<[u8]>) {
        if let Some(buffers) = &mut self.buffers {
            buffers.provide(buffer);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.arrivals_left = ARRIVALS_PER_WAIT;
        // In the order in which they ran out of buffers: there may be enough for the first of them
        // only.
        for _ in 0..self.unsettled.len() {
            if let Some(slot) = self.unsettled.pop_front() {
                self.settle(slot);
            }
        }
        if !self.wake_armed {
            // Tried again at the next wait, which comes soon.
            let _ = self.arm_wake();
        }
        let busy =
            !self.done.is_empty() || !self.completions.is_empty() || !self.arrivals.is_empty();
        let unsettled = !self.unsettled.is_empty() || !self.wake_armed;
        let timeout = match timeout {
            _ if busy => Some(Duration::ZERO),
            _ if unsettled => Some(timeout.map_or(RETRY, |timeout| timeout.min(RETRY))),
            timeout => timeout,
        };
        let entered = match timeout {
            Some(Duration::ZERO) => {
                let queued = u32::try_from(self.ring.submission().len()).unwrap_or(u32::MAX);
                let flags = EnterFlags::GETEVENTS.bits();
                // SAFETY: no argument is passed, and the entries queued are those `push` vouches
                // for.
                unsafe {
                    self.ring
                        .submitter()
                        .enter::<libc::sigset_t>(queued, 0, flags, None)
                }
            }
            Some(span) => {
                let span = Timespec::from(span);
                self.ring
                    .submitter()
                    .submit_with_args(1, &SubmitArgs::new().timespec(&span))
            }
            None => self.ring.submit_and_wait(1),
        };
        match entered {
            Ok(_) => {}
            Err(error) => match Errno::from_io_error(&error) {
                // The time is over, a signal came, or completions must be taken first.
                Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => {}
                _ => return Err(error),
            },
        }
        self.take_completions();
        Ok(())
    }

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.done.pop_front() {
                return Some(event);
            }
            if self.arrivals_left > 0
                && let Some(event) = self.arrivals.pop_front()
            {
                self.arrivals_left -= 1;
                return Some(event);
            }
            let (user_data, result, flags) = self.completions.pop_front()?;
            if let Some(event) = self.complete(user_data, result, flags) {
                return Some(event);
            }
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        for listening in &mut self.acceptors {
            if let Some(acceptor) = listening.acceptor.take()
                && !acceptor.listener.shared.get()
            {
                socket::stop_listening(acceptor.listener.fd.as_fd());
            }
        }
        // Cancels what runs, and reports it only after it has ended.
        let submitter = self.ring.submitter();
        let quiet = match submitter.register_sync_cancel(None, CancelBuilder::any()) {
            Ok(()) => true,
            Err(error) => Errno::from_io_error(&error) == Some(Errno::NOENT),
        };
        // Unreported connections must not stay open: they are closed with `arrivals`.
        self.take_completions();
        let submitter = self.ring.submitter();
        let unregistered = submitter.unregister_buf_ring(GROUP).is_ok();
        if let Some(buffers) = self.buffers.take()
            && quiet
            && unregistered
        {
            buffers.free();
        }
        if !quiet {
            for state in self.states.iter_mut().flatten() {
                // Leaked: the kernel may still read these bytes.
                let _leaked = std::mem::ManuallyDrop::new(state.sending.take());
            }
        }
    }
}
