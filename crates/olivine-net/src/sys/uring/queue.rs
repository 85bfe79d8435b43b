//! Operations of the shard: each becomes an entry of the submission queue.

use std::{io, os::fd::AsRawFd};

use io_uring::{
    opcode, squeue,
    types::{Fd, Fixed},
};

use super::{GROUP, SlotState, Uring};
use crate::driver::Slot;

// What a completion belongs to: the low byte of its user data, the slot above it.
pub(super) const ACCEPT: u64 = 1;
pub(super) const RECEIVE: u64 = 2;
pub(super) const SEND: u64 = 3;
pub(super) const CONNECT: u64 = 4;
pub(super) const WAKE: u64 = 5;
pub(super) const CANCEL: u64 = 6;
pub(super) const WATCH: u64 = 7;

/// The user data of the accept of a listener.
pub(super) fn accept_tag(index: usize) -> u64 {
    (index as u64) << 8 | ACCEPT
}

/// The user data of an operation on a connection.
pub(super) fn tag(kind: u64, slot: Slot) -> u64 {
    u64::from(slot) << 8 | kind
}

impl Uring {
    /// Queues an operation; enters the kernel first if the queue is full.
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: every entry is built in this file and points to nothing, or into bytes that
            // `SlotState::sending` owns and keeps in place until the entry's completion is seen.
            let pushed = unsafe { self.ring.submission().push(entry) };
            if pushed.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    pub(super) fn arm_wake(&mut self) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(self.wake.as_raw_fd()), libc::POLLIN as u32).build();
        self.push(&entry.user_data(WAKE))?;
        self.wake_armed = true;
        Ok(())
    }

    /// Submits an empty operation, and checks that it completes.
    pub(super) fn probe(&mut self) -> io::Result<()> {
        self.push(&opcode::Nop::new().build().user_data(CANCEL))?;
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.take_completions();
        Ok(())
    }

    /// Queues the operations that the state of a connection needs; tries again later what cannot be
    /// queued now.
    pub(super) fn settle(&mut self, slot: Slot) {
        if self.try_settle(slot).is_err() {
            self.unsettled.push_back(slot);
        }
    }

    fn try_settle(&mut self, slot: Slot) -> io::Result<()> {
        let Some(state) = self.state(slot) else {
            return Ok(());
        };
        if state.detached || state.taken {
            let operations = [
                (state.receiving, RECEIVE),
                (state.connecting, CONNECT),
                (state.watching, WATCH),
                (state.sending.is_some(), SEND),
            ];
            for (_, kind) in operations.into_iter().filter(|(under_way, _)| *under_way) {
                self.cancel(tag(kind, slot))?;
            }
            return Ok(());
        }
        let renews = state.broken && !state.renewed;
        if state.receiving && (!state.reading || renews) {
            self.cancel(tag(RECEIVE, slot))?;
        }
        if let Some(state) = self.state(slot) {
            state.renewed |= renews;
        }
        self.arm_watch(slot)?;
        self.arm_receive(slot)
    }

    pub(super) fn arm_accept(&mut self, index: usize) -> io::Result<()> {
        let Some(acceptor) = &self.acceptors[index].acceptor else {
            return Ok(());
        };
        if self.acceptors[index].accepting || self.stopped {
            return Ok(());
        }
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let fd = Fd(acceptor.listener.fd.as_raw_fd());
        let entry = opcode::AcceptMulti::new(fd).flags(flags).build();
        self.push(&entry.user_data(accept_tag(index)))?;
        self.acceptors[index].accepting = true;
        Ok(())
    }

    pub(super) fn arm_receive(&mut self, slot: Slot) -> io::Result<()> {
        let Some(state) = self.state(slot) else {
            return Ok(());
        };
        let idle = !state.receiving && !state.ended && !state.detached && !state.connecting;
        if !idle || !state.reading || state.taken {
            return Ok(());
        }
        state.receiving = true;
        let entry = if state.registered {
            opcode::RecvMulti::new(Fixed(slot), GROUP).build()
        } else {
            opcode::RecvMulti::new(Fd(state.socket.as_raw_fd()), GROUP).build()
        };
        let pushed = self.push(&entry.user_data(tag(RECEIVE, slot)));
        if pushed.is_err()
            && let Some(state) = self.state(slot)
        {
            state.receiving = false;
        }
        pushed
    }

    /// Asks for an event when the outcome of a connection attempt is known.
    pub(super) fn arm_connect(&mut self, slot: Slot) -> io::Result<()> {
        let Some(state) = self.state(slot) else {
            return Ok(());
        };
        let entry =
            opcode::PollAdd::new(Fd(state.socket.as_raw_fd()), libc::POLLOUT as u32).build();
        self.push(&entry.user_data(tag(CONNECT, slot)))
    }

    /// Asks for an event at each end of the peer's direction and each loss of the connection. A
    /// poll that ends with its first event would miss the reset behind an end. A receive does not
    /// replace it: if it takes bytes, it may miss a reset right behind them (Linux 6.18).
    fn arm_watch(&mut self, slot: Slot) -> io::Result<()> {
        let Some(state) = self.state(slot) else {
            return Ok(());
        };
        if state.taken || state.watching || state.broken || state.lost || state.connecting {
            return Ok(());
        }
        let events = (libc::POLLERR | libc::POLLRDHUP) as u32;
        let entry = opcode::PollAdd::new(Fd(state.socket.as_raw_fd()), events).multi(true);
        self.push(&entry.build().user_data(tag(WATCH, slot)))?;
        if let Some(state) = self.state(slot) {
            state.watching = true;
        }
        Ok(())
    }

    /// Queues the send of what is left of `SlotState::sending`.
    pub(super) fn submit_send(&mut self, slot: Slot) -> io::Result<()> {
        let Some(SlotState {
            sending: Some((buffer, start)),
            socket,
            registered,
            ..
        }) = self.states.get(slot as usize).and_then(Option::as_ref)
        else {
            return Ok(());
        };
        if buffer.is_file() {
            // The kernel has no operation that sends a file: it says when the socket takes bytes.
            let fd = Fd(socket.as_raw_fd());
            let entry = opcode::PollAdd::new(fd, libc::POLLOUT as u32).build();
            return self.push(&entry.user_data(tag(SEND, slot)));
        }
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

    /// Cancels an operation of a connection, or of the listener.
    pub(super) fn cancel(&mut self, target: u64) -> io::Result<()> {
        let slot = Slot::try_from(target >> 8).unwrap_or(Slot::MAX);
        let is_accept = target & 0xff == ACCEPT;
        let slot = if is_accept { Slot::MAX } else { slot };
        let entry = opcode::AsyncCancel::new(target).build();
        self.push(&entry.user_data(tag(CANCEL, slot)))
    }
}
