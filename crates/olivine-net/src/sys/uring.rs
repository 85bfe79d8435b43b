//! The io_uring back end: multishot accept and receive, provided buffers, registered descriptors.
//!
//! The kernel holds raw pointers into buffers while an operation runs, so each buffer is owned by
//! this file until the operation's completion has been seen: bytes being sent in `Link::sending`,
//! receive buffers in [`Buffers`]. A link is kept until its last completion. What the kernel might
//! still hold when the driver is dropped is leaked rather than freed.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    time::Duration,
};

use io_uring::{
    EnterFlags, IoUring, cqueue, opcode, squeue,
    types::{CancelBuilder, Fd, Fixed, SubmitArgs, Timespec},
};
use rustix::io::Errno;

use super::{buffers::Buffers, socket};
use crate::driver::{Acceptor, Driver, Event, Outgoing, SendState, Slot, Waker};

/// Submissions that fit before the kernel must be entered.
const SUBMISSIONS: u32 = 1024;
const COMPLETIONS: u32 = 8192;
/// Receive buffers of a shard; a power of two.
const BUFFERS: u16 = 64;
const GROUP: u16 = 0;
/// Connections with a registered descriptor; the others use plain ones.
const REGISTERED_MAX: u32 = 16_384;

// What a completion belongs to: the low byte of its user data, the slot above it.
const ACCEPT: u64 = 1;
const RECEIVE: u64 = 2;
const SEND: u64 = 3;
const CONNECT: u64 = 4;
const WAKE: u64 = 5;
const CANCEL: u64 = 6;
const WATCH: u64 = 7;

/// The io_uring back end of one shard.
pub(crate) struct Uring {
    ring: IoUring,
    /// `None` only while dropping.
    buffers: Option<Buffers>,
    wake: OwnedFd,
    registered: u32,
    acceptor: Option<Acceptor>,
    accepting: bool,
    links: Vec<Option<Link>>,
    completions: VecDeque<(u64, i32, u32)>,
    done: VecDeque<Event>,
    /// Slots whose receive ran out of buffers.
    hungry: Vec<Slot>,
    /// A listener that is closed for good once its accept has ended.
    closing_listener: Option<OwnedFd>,
}

#[derive(Debug)]
struct Link {
    socket: OwnedFd,
    registered: bool,
    reading: bool,
    ended: bool,
    /// A receive is with the kernel.
    receiving: bool,
    connecting: bool,
    /// A poll for the connection's loss is with the kernel, because nobody may be reading.
    watching: bool,
    sending: Option<(Outgoing, usize)>,
    progressed: bool,
    /// The shard has given it up; the last completion releases it.
    detached: bool,
    reset: bool,
}

impl Link {
    fn in_flight(&self) -> bool {
        self.receiving || self.connecting || self.watching || self.sending.is_some()
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
            acceptor: None,
            accepting: false,
            links: Vec::new(),
            completions: VecDeque::with_capacity(COMPLETIONS as usize),
            done: VecDeque::with_capacity(64),
            hungry: Vec::new(),
            closing_listener: None,
        };
        driver.arm_wake()?;
        Ok((driver, waker))
    }

    /// Queues an operation; enters the kernel first if the queue is full.
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: every entry built in this file points to nothing, or into bytes that
            // `Link::sending` owns and keeps in place until the entry's completion is seen.
            let pushed = unsafe { self.ring.submission().push(entry) };
            if pushed.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    fn arm_wake(&mut self) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(self.wake.as_raw_fd()), libc::POLLIN as u32).build();
        self.push(&entry.user_data(WAKE))
    }

    fn arm_accept(&mut self) -> io::Result<()> {
        let Some(acceptor) = &self.acceptor else {
            return Ok(());
        };
        if self.accepting {
            return Ok(());
        }
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let fd = Fd(acceptor.listener.as_raw_fd());
        let entry = opcode::AcceptMulti::new(fd).flags(flags).build();
        self.push(&entry.user_data(ACCEPT))?;
        self.accepting = true;
        Ok(())
    }

    fn link(&mut self, slot: Slot) -> Option<&mut Link> {
        self.links.get_mut(slot as usize)?.as_mut()
    }

    fn arm_receive(&mut self, slot: Slot) -> io::Result<()> {
        let Some(link) = self.link(slot) else {
            return Ok(());
        };
        let idle = !link.receiving && !link.ended && !link.detached && !link.connecting;
        if !idle || !link.reading {
            return Ok(());
        }
        link.receiving = true;
        let entry = if link.registered {
            opcode::RecvMulti::new(Fixed(slot), GROUP).build()
        } else {
            opcode::RecvMulti::new(Fd(link.socket.as_raw_fd()), GROUP).build()
        };
        let pushed = self.push(&entry.user_data(tag(RECEIVE, slot)));
        if pushed.is_err()
            && let Some(link) = self.link(slot)
        {
            link.receiving = false;
        }
        pushed
    }

    /// Has the kernel tell when the connection is lost.
    fn arm_watch(&mut self, slot: Slot) {
        let Some(link) = self.link(slot) else { return };
        link.watching = true;
        // Loss and reset are reported unasked.
        let entry = opcode::PollAdd::new(Fd(link.socket.as_raw_fd()), libc::POLLERR as u32).build();
        if self.push(&entry.user_data(tag(WATCH, slot))).is_err()
            && let Some(link) = self.link(slot)
        {
            link.watching = false;
        }
    }

    /// Queues the send of what is left of `Link::sending`.
    fn submit_send(&mut self, slot: Slot) -> io::Result<()> {
        let Some(Link {
            sending: Some((buffer, start)),
            socket,
            registered,
            ..
        }) = self.links.get(slot as usize).and_then(Option::as_ref)
        else {
            return Ok(());
        };
        let rest = &buffer.bytes()[*start..];
        // More than 1 GiB goes in several sends.
        let length = u32::try_from(rest.len().min(1 << 30)).unwrap_or(1 << 30);
        let (from, flags) = (rest.as_ptr(), libc::MSG_NOSIGNAL);
        let entry = if *registered {
            opcode::Send::new(Fixed(slot), from, length)
                .flags(flags)
                .build()
        } else {
            opcode::Send::new(Fd(socket.as_raw_fd()), from, length)
                .flags(flags)
                .build()
        };
        self.push(&entry.user_data(tag(SEND, slot)))
    }

    /// Gives a slot up whose operations have all completed.
    fn release_if_quiet(&mut self, slot: Slot) -> Option<Event> {
        let place = self.links.get_mut(slot as usize)?;
        let link = place.as_ref()?;
        if !link.detached || link.in_flight() {
            return None;
        }
        let link = place.take()?;
        if link.reset {
            socket::reset_on_close(link.socket.as_fd());
        }
        if link.registered {
            // The table holds the socket open as a descriptor would. Fails for no slot in range.
            let _ = self.ring.submitter().register_files_update(slot, &[-1]);
        }
        Some(Event::Released { slot })
    }

    fn complete(&mut self, user_data: u64, result: i32, flags: u32) -> Option<Event> {
        let slot = Slot::try_from(user_data >> 8).unwrap_or(Slot::MAX);
        match user_data & 0xff {
            ACCEPT => self.accepted(result, flags),
            RECEIVE => self.received(slot, result, flags),
            SEND => self.sent(slot, result),
            CONNECT => {
                let link = self.link(slot)?;
                link.connecting = false;
                if link.detached {
                    return self.release_if_quiet(slot);
                }
                let result = match result {
                    0.. => socket::outcome(link.socket.as_fd()),
                    code => Err(io::Error::from_raw_os_error(-code)),
                };
                let result = result.and_then(|()| self.arm_receive(slot));
                Some(Event::Connected { slot, result })
            }
            WATCH => {
                let link = self.link(slot)?;
                link.watching = false;
                if link.detached {
                    return self.release_if_quiet(slot);
                }
                // Whoever reads learns of it by reading.
                // The peer's mere end is told too; that is for the reader to see, when reading resumes.
                let lost = result & i32::from(libc::POLLERR | libc::POLLHUP) != 0;
                if link.reading || link.ended || result < 0 || !lost {
                    return None;
                }
                link.ended = true;
                let error = socket::outcome(link.socket.as_fd()).err();
                let error = error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
                Some(Event::Broken { slot, error })
            }
            WAKE => {
                let mut count = [0; 8];
                // Would block if two wakes were read as one; either way the loop is awake.
                let _ = rustix::io::read(&self.wake, &mut count);
                // Without it this shard would still wake up for events and timers.
                let _ = self.arm_wake();
                None
            }
            _ => None,
        }
    }

    fn accepted(&mut self, result: i32, flags: u32) -> Option<Event> {
        if !cqueue::more(flags) {
            self.accepting = false;
            self.closing_listener = None;
        }
        if result >= 0 {
            // SAFETY: a successful accept returns a fresh descriptor that nobody else owns.
            let socket = unsafe { OwnedFd::from_raw_fd(result) };
            if !self.accepting {
                self.accept_again();
            }
            return Some(Event::Accepted(socket));
        }
        if self.accepting || self.acceptor.is_none() {
            return None;
        }
        if socket::is_exhaustion(&io::Error::from_raw_os_error(-result)) {
            self.drain_acceptor();
        }
        self.accept_again();
        self.done.pop_front()
    }

    /// Empties the listener's queue by plain calls, turning away what descriptors do not suffice for.
    fn drain_acceptor(&mut self) {
        if let Some(acceptor) = &mut self.acceptor {
            while let Some(event) = acceptor.accept() {
                self.done.push_back(event);
            }
        }
    }

    fn accept_again(&mut self) {
        if !self.is_starved()
            && self.arm_accept().is_err()
            && let Some(acceptor) = &mut self.acceptor
        {
            acceptor.starved = true;
        }
    }

    fn received(&mut self, slot: Slot, result: i32, flags: u32) -> Option<Event> {
        let buffer = cqueue::buffer_select(flags)
            .and_then(|id| self.buffers.as_mut().and_then(|buffers| buffers.take(id)));
        let Some(link) = self.link(slot) else {
            return self.keep(buffer);
        };
        if !cqueue::more(flags) {
            link.receiving = false;
        }
        if link.detached {
            self.keep(buffer);
            return self.release_if_quiet(slot);
        }
        let event = match result {
            1.. => {
                let length = usize::try_from(result).unwrap_or(0);
                buffer.map(|buffer| Event::Received {
                    slot,
                    buffer,
                    length,
                })
            }
            0 => {
                link.ended = true;
                self.keep(buffer);
                Some(Event::Received {
                    slot,
                    buffer: Box::default(),
                    length: 0,
                })
            }
            code => {
                let error = Errno::from_raw_os_error(-code);
                match error {
                    Errno::NOBUFS => self.hungry.push(slot),
                    Errno::CANCELED | Errno::INTR | Errno::AGAIN => {}
                    _ => {
                        link.ended = true;
                        return Some(Event::Broken {
                            slot,
                            error: error.into(),
                        });
                    }
                }
                None
            }
        };
        let hungry = self.hungry.last() == Some(&slot);
        if !hungry && self.arm_receive(slot).is_err() {
            // The connection can no longer be read; better broken than silent.
            self.done.push_back(Event::Broken {
                slot,
                error: io::ErrorKind::OutOfMemory.into(),
            });
        }
        event
    }

    /// Returns a buffer that no event will carry to the kernel.
    fn keep(&mut self, buffer: Option<Box<[u8]>>) -> Option<Event> {
        if let Some(buffer) = buffer {
            self.recycle(buffer);
        }
        None
    }

    fn sent(&mut self, slot: Slot, result: i32) -> Option<Event> {
        let link = self.link(slot)?;
        let (buffer, start) = link.sending.take()?;
        if link.detached {
            return self.release_if_quiet(slot);
        }
        let result = match result {
            0.. => {
                link.progressed = true;
                let start = start + usize::try_from(result).unwrap_or(0);
                if start < buffer.bytes().len() {
                    link.sending = Some((buffer, start));
                    return match self.submit_send(slot) {
                        Ok(()) => None,
                        Err(error) => self.fail_send(slot, error),
                    };
                }
                Ok(())
            }
            code if matches!(Errno::from_raw_os_error(-code), Errno::INTR | Errno::AGAIN) => {
                link.sending = Some((buffer, start));
                return match self.submit_send(slot) {
                    Ok(()) => None,
                    Err(error) => self.fail_send(slot, error),
                };
            }
            code => Err(io::Error::from_raw_os_error(-code)),
        };
        Some(Event::Sent {
            slot,
            buffer,
            result,
        })
    }

    /// A send that could not even be queued.
    fn fail_send(&mut self, slot: Slot, error: io::Error) -> Option<Event> {
        let (buffer, _) = self.link(slot)?.sending.take()?;
        Some(Event::Sent {
            slot,
            buffer,
            result: Err(error),
        })
    }

    fn cancel(&mut self, target: u64) {
        let entry = opcode::AsyncCancel::new(target).build().user_data(CANCEL);
        // If even this cannot be queued, the operation ends with its connection instead.
        let _ = self.push(&entry);
    }
}

/// The user data of an operation on a connection.
fn tag(kind: u64, slot: Slot) -> u64 {
    u64::from(slot) << 8 | kind
}

impl Driver for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn listen(&mut self, listener: OwnedFd) -> io::Result<()> {
        self.acceptor = Some(Acceptor::new(listener));
        self.arm_accept()
    }

    fn stop_listening(&mut self) {
        self.drain_acceptor();
        if let Some(acceptor) = self.acceptor.take() {
            socket::stop_listening(acceptor.listener.as_fd());
            if self.accepting {
                self.closing_listener = Some(acceptor.listener);
                self.cancel(ACCEPT);
            }
        }
    }

    fn retry_accept(&mut self) {
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.starved = false;
        }
        self.drain_acceptor();
        self.accept_again();
    }

    fn is_starved(&self) -> bool {
        self.acceptor
            .as_ref()
            .is_some_and(|acceptor| acceptor.starved)
    }

    fn attach(&mut self, slot: Slot, socket: OwnedFd, connecting: bool) -> io::Result<()> {
        let descriptor = socket.as_raw_fd();
        let registered = slot < self.registered
            && self
                .ring
                .submitter()
                .register_files_update(slot, &[descriptor])
                .is_ok();
        if self.links.len() <= slot as usize {
            self.links.resize_with(slot as usize + 1, || None);
        }
        self.links[slot as usize] = Some(Link {
            socket,
            registered,
            reading: true,
            ended: false,
            receiving: false,
            connecting,
            watching: false,
            sending: None,
            progressed: false,
            detached: false,
            reset: false,
        });
        let armed = if connecting {
            let entry = opcode::PollAdd::new(Fd(descriptor), libc::POLLOUT as u32).build();
            self.push(&entry.user_data(tag(CONNECT, slot)))
        } else {
            self.arm_receive(slot)
        };
        if armed.is_err() {
            self.links[slot as usize] = None;
        }
        armed
    }

    fn set_reading(&mut self, slot: Slot, reading: bool) {
        let Some(link) = self.link(slot) else { return };
        link.reading = reading;
        if reading {
            // Fails only if the ring itself is gone, which the next wait reports.
            let _ = self.arm_receive(slot);
            return;
        }
        let (receiving, watch) = (link.receiving, !link.watching && !link.ended);
        if receiving {
            self.cancel(tag(RECEIVE, slot));
        }
        if watch {
            self.arm_watch(slot);
        }
    }

    fn send(&mut self, slot: Slot, buffer: Outgoing) -> SendState {
        match self.link(slot) {
            Some(link) if !link.detached => link.sending = Some((buffer, 0)),
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

    fn take_progress(&mut self, slot: Slot) -> bool {
        self.link(slot)
            .is_some_and(|link| std::mem::take(&mut link.progressed))
    }

    fn send_now(&mut self, slot: Slot, bytes: &[u8]) -> io::Result<usize> {
        let link = self.link(slot).ok_or(io::ErrorKind::NotConnected)?;
        socket::send(link.socket.as_fd(), bytes)
    }

    fn finish(&mut self, slot: Slot) {
        if let Some(link) = self.link(slot) {
            socket::finish(link.socket.as_fd());
        }
    }

    fn detach(&mut self, slot: Slot, reset: bool) {
        let Some(link) = self.link(slot) else { return };
        link.detached = true;
        link.reset = reset;
        let operations = [
            (link.receiving, RECEIVE),
            (link.connecting, CONNECT),
            (link.watching, WATCH),
            (link.sending.is_some(), SEND),
        ];
        for (_, kind) in operations.into_iter().filter(|(under_way, _)| *under_way) {
            self.cancel(tag(kind, slot));
        }
        let event = self.release_if_quiet(slot);
        self.done.extend(event);
    }

    fn has_unread(&self, slot: Slot) -> bool {
        let link = self.links.get(slot as usize).and_then(Option::as_ref);
        !self.completions.is_empty()
            || link.is_some_and(|link| socket::unread(link.socket.as_fd()) > 0)
    }

    fn peer_address(&self, slot: Slot) -> Option<SocketAddr> {
        socket::peer_address(self.links.get(slot as usize)?.as_ref()?.socket.as_fd())
    }

    fn recycle(&mut self, buffer: Box<[u8]>) {
        if let Some(buffers) = &mut self.buffers {
            buffers.provide(buffer);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        while let Some(slot) = self.hungry.pop() {
            self.arm_receive(slot)?;
        }
        let busy = !self.done.is_empty() || !self.completions.is_empty();
        let timeout = if busy { Some(Duration::ZERO) } else { timeout };
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
        let completions = self.ring.completion();
        self.completions
            .extend(completions.map(|c| (c.user_data(), c.result(), c.flags())));
        Ok(())
    }

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.done.pop_front() {
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
        if let Some(acceptor) = &self.acceptor {
            socket::stop_listening(acceptor.listener.as_fd());
        }
        // Ends whatever runs, and says so only once it has ended.
        let submitter = self.ring.submitter();
        let quiet = match submitter.register_sync_cancel(None, CancelBuilder::any()) {
            Ok(()) => true,
            Err(error) => Errno::from_io_error(&error) == Some(Errno::NOENT),
        };
        let unregistered = submitter.unregister_buf_ring(GROUP).is_ok();
        if let Some(buffers) = self.buffers.take()
            && quiet
            && unregistered
        {
            buffers.free();
        }
        if !quiet {
            for link in self.links.iter_mut().flatten() {
                // Leaked: the kernel may still read these bytes.
                let _leaked = std::mem::ManuallyDrop::new(link.sending.take());
            }
        }
    }
}
