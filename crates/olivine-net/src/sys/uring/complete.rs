//! Completions of the kernel: each becomes an event of the driver, or the next operation.

use std::{
    io,
    os::fd::{AsFd, FromRawFd, OwnedFd},
};

use io_uring::cqueue;
use rustix::io::Errno;

use super::{
    Uring,
    queue::{ACCEPT, CANCEL, CONNECT, RECEIVE, SEND, WAKE, WATCH},
};
use crate::{
    driver::{Driver, Event, Slot},
    sys::socket,
};

/// Connections that a drain of a listener's queue takes: the largest queue.
const DRAINED_MAX: u32 = 65_536;

impl Uring {
    /// Frees a slot whose operations have all completed.
    pub(super) fn release_if_quiet(&mut self, slot: Slot) -> Option<Event> {
        let place = self.states.get_mut(slot as usize)?;
        let state = place.as_ref()?;
        if !(state.detached || state.taken) || state.in_flight() {
            return None;
        }
        let state = place.take()?;
        if state.reset {
            socket::reset_on_close(state.socket.as_fd());
        }
        if state.registered {
            // The table holds the socket open as a descriptor would. Fails for no slot in range.
            let _ = self.ring.submitter().register_files_update(slot, &[-1]);
        }
        if state.detached {
            return Some(Event::Released { slot });
        }
        let socket = state.socket;
        Some(Event::Taken { slot, socket })
    }

    pub(super) fn complete(&mut self, user_data: u64, result: i32, flags: u32) -> Option<Event> {
        let slot = Slot::try_from(user_data >> 8).unwrap_or(Slot::MAX);
        match user_data & 0xff {
            RECEIVE => self.received(slot, result, flags),
            SEND => self.sent(slot, result),
            CONNECT => {
                let state = self.state(slot)?;
                state.connecting = false;
                if state.detached {
                    return self.release_if_quiet(slot);
                }
                let result = match result {
                    0.. => socket::outcome(state.socket.as_fd()),
                    code => Err(io::Error::from_raw_os_error(-code)),
                };
                if result.is_ok() {
                    self.settle(slot);
                }
                Some(Event::Connected { slot, result })
            }
            WATCH => {
                let state = self.state(slot)?;
                state.watching &= cqueue::more(flags);
                if state.detached || state.taken {
                    return self.release_if_quiet(slot);
                }
                let seen = result.max(0);
                state.ending |= seen & i32::from(libc::POLLRDHUP) != 0;
                state.broken |= seen & i32::from(libc::POLLERR | libc::POLLHUP) != 0;
                if state.broken {
                    self.settle(slot);
                } else if !state.watching {
                    // The kernel has ended the poll, not the connection.
                    self.unsettled.push_back(slot);
                }
                self.noticed(slot)
            }
            WAKE => {
                self.wake_armed = false;
                let mut count = [0; 8];
                // Would block if two wakes were read as one; either way the loop is awake.
                let _ = rustix::io::read(&self.wake, &mut count);
                // Tried again by the next wait.
                let _ = self.arm_wake();
                None
            }
            CANCEL if result < 0 => {
                // What it was for is over, or runs where no cancel reaches it: a send that a worker
                // of the kernel has taken over ends with the socket. Receives and polls end alone,
                // and an end of the socket here would send a FIN before the reset of an abort.
                let state = self.state(slot)?;
                if state.detached && state.sending.is_some() {
                    socket::end_both(state.socket.as_fd());
                }
                None
            }
            _ => None,
        }
    }

    /// Events that the poll has seen and no receive will report.
    pub(super) fn noticed(&mut self, slot: Slot) -> Option<Event> {
        let state = self.state(slot)?;
        if state.detached || state.lost || !state.is_unread() {
            return None;
        }
        if state.broken {
            (state.ended, state.lost) = (true, true);
            let error = socket::outcome(state.socket.as_fd()).err();
            let error = error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
            return Some(Event::Broken { slot, error });
        }
        if state.ending && !state.ended && !state.end_told {
            state.end_told = true;
            return Some(Event::PeerEnded { slot });
        }
        None
    }

    /// Collects completions; those of the listener apart from the rest.
    pub(super) fn take_completions(&mut self) {
        let mut listeners = std::mem::take(&mut self.listeners_said);
        for completion in self.ring.completion() {
            let (result, flags) = (completion.result(), completion.flags());
            if completion.user_data() & 0xff == ACCEPT {
                listeners.push((completion.user_data() >> 8, result, flags));
            } else {
                self.completions
                    .push_back((completion.user_data(), result, flags));
            }
        }
        for (index, result, flags) in listeners.drain(..) {
            self.accepted(usize::try_from(index).unwrap_or(usize::MAX), result, flags);
        }
        self.listeners_said = listeners;
    }

    fn accepted(&mut self, index: usize, result: i32, flags: u32) {
        let Some(listening) = self.acceptors.get_mut(index) else {
            return;
        };
        let number = match &listening.acceptor {
            Some(acceptor) => acceptor.listener.index,
            None => u16::MAX,
        };
        if !cqueue::more(flags) {
            listening.accepting = false;
            if self.stopped {
                // The kernel wakes one of those that wait at a shared listener. What it has woken
                // this accept for is taken, because no other process will look for it.
                self.drain_acceptor(index);
                self.acceptors[index].acceptor = None;
            }
        }
        let accepting = self.acceptors[index].accepting;
        if result >= 0 {
            // SAFETY: a successful accept returns a fresh descriptor without another owner.
            let socket = unsafe { OwnedFd::from_raw_fd(result) };
            self.arrivals.push_back(Event::Accepted(socket, number));
            if !accepting {
                self.accept_again(index);
            }
            return;
        }
        if accepting || self.acceptors[index].acceptor.is_none() {
            return;
        }
        if socket::is_exhaustion(&io::Error::from_raw_os_error(-result)) {
            self.drain_acceptor(index);
        }
        self.accept_again(index);
    }

    /// Empties the listener's queue by plain calls; closes connections for which descriptors do not
    /// suffice.
    pub(super) fn drain_acceptor(&mut self, index: usize) {
        if let Some(acceptor) = &mut self.acceptors[index].acceptor {
            // No more than wait now: others may come as fast as they are taken.
            for _ in 0..DRAINED_MAX {
                let Some(event) = acceptor.accept() else {
                    break;
                };
                self.arrivals.push_back(event);
            }
        }
    }

    pub(super) fn accept_again(&mut self, index: usize) {
        if !self.is_starved()
            && self.arm_accept(index).is_err()
            && let Some(acceptor) = &mut self.acceptors[index].acceptor
        {
            acceptor.starved = true;
        }
    }

    fn received(&mut self, slot: Slot, result: i32, flags: u32) -> Option<Event> {
        let buffer = cqueue::buffer_select(flags)
            .and_then(|id| self.buffers.as_mut().and_then(|buffers| buffers.take(id)));
        let Some(state) = self.state(slot) else {
            return self.keep(buffer);
        };
        if !cqueue::more(flags) {
            state.receiving = false;
        }
        if state.detached {
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
                state.ended = true;
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
                    Errno::NOBUFS => {
                        self.unsettled.push_back(slot);
                        None
                    }
                    Errno::CANCELED | Errno::INTR | Errno::AGAIN => None,
                    _ => {
                        (state.ended, state.lost) = (true, true);
                        Some(Event::Broken {
                            slot,
                            error: error.into(),
                        })
                    }
                }
            }
        };
        // After the end the shard decides what is next: most connections are then closed.
        let ended = self.state(slot).is_none_or(|state| state.ended);
        if !ended && self.unsettled.back() != Some(&slot) {
            self.settle(slot);
        }
        if self.state(slot).is_some_and(|state| state.taken) {
            // Behind this event.
            let taken = self.release_if_quiet(slot);
            self.done.extend(taken);
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
        let state = self.state(slot)?;
        let (buffer, start) = state.sending.take()?;
        if state.detached {
            return self.release_if_quiet(slot);
        }
        let result = match result {
            // Of a file it says that the socket takes bytes.
            0.. if buffer.is_file() => {
                let sent = buffer.send_from(start, state.socket.as_fd());
                state.progress += sent.as_ref().map_or(0, |sent| *sent as u64);
                match sent {
                    Ok(sent) if start + sent >= buffer.length() => Ok(()),
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                    sent => {
                        state.sending = Some((buffer, start + sent.unwrap_or(0)));
                        return match self.submit_send(slot) {
                            Ok(()) => None,
                            Err(error) => self.fail_send(slot, error),
                        };
                    }
                }
            }
            0.. => {
                let sent = usize::try_from(result).unwrap_or(0);
                state.progress += sent as u64;
                let start = start + sent;
                if start < buffer.bytes().len() {
                    state.sending = Some((buffer, start));
                    return match self.submit_send(slot) {
                        Ok(()) => None,
                        Err(error) => self.fail_send(slot, error),
                    };
                }
                Ok(())
            }
            code if matches!(Errno::from_raw_os_error(-code), Errno::INTR | Errno::AGAIN) => {
                state.sending = Some((buffer, start));
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
    pub(super) fn fail_send(&mut self, slot: Slot, error: io::Error) -> Option<Event> {
        let (buffer, _) = self.state(slot)?.sending.take()?;
        Some(Event::Sent {
            slot,
            buffer,
            result: Err(error),
        })
    }
}
