//! What an event loop needs from the kernel, shaped as completions over owned buffers.
//!
//! An operation takes ownership of its buffer and an [`Event`] gives it back, because that is the
//! only shape in which io_uring can be safe; readiness (epoll, kqueue) fits underneath, the reverse
//! does not. A back end supplies one [`Driver`] per shard, used by that shard's thread alone.
//!
//! | back end | file | kernel interface |
//! |---|---|---|
//! | `readiness` | `driver/readiness.rs` | mio: epoll, kqueue |
//! | `uring` | `sys/uring.rs` | io_uring: multishot accept and receive, provided buffers |
//!
//! Contract, for every back end:
//!
//! * A slot is the shard's name for a connection. After `attach(slot)` the driver reports
//!   `Received` events for it while reading is on (it is at first), in order, until one of length 0
//!   or an error.
//! * At most one send per slot is in flight. It completes whole, or with an error, or the
//!   `Released` after `detach` gives it back.
//! * While reading is off, and after an end was received, the loss of the connection is still
//!   reported (`Broken`), and the peer's end too (`PeerEnded`), even with bytes to be read: a
//!   connection always has an armed event.
//! * After `detach(slot)` no event but `Released` appears for the slot, and then never another
//!   until it is attached again; only then has the kernel released every buffer.

use std::{
    fs::File,
    io,
    net::SocketAddr,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use crate::{listen::ListenSocket, sys::socket};

pub(crate) mod readiness;

/// A connection as the driver knows it.
pub(crate) type Slot = u32;

/// Bytes left free at the start of every receive buffer: unconsumed bytes of the last batch are put
/// there, in front of the new bytes, so that the new bytes need not be copied.
pub(crate) const HEADROOM: usize = 4096;

/// Connections taken in after one wait, before those that are open get their turn again: a flood of
/// new connections must not delay the open ones.
pub(crate) const ARRIVALS_PER_WAIT: usize = 64;

/// Bytes on their way out, owned by the driver while it sends them.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A buffer from the shard's pool, which goes back there.
    Owned(Vec<u8>),
    /// Bytes that many connections may send at once, never copied.
    Shared(Arc<[u8]>),
    /// A part of a file.
    File {
        file: Arc<File>,
        offset: u64,
        length: usize,
    },
}

impl Outgoing {
    /// The bytes in memory; none of a file.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::File { .. } => &[],
        }
    }

    pub(crate) fn length(&self) -> usize {
        match self {
            Self::File { length, .. } => *length,
            _ => self.bytes().len(),
        }
    }

    /// Whether io_uring has no operation for it.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// Sends from `start` on as much as the kernel takes now.
    pub(crate) fn send_from(&self, start: usize, socket: BorrowedFd<'_>) -> io::Result<usize> {
        match self {
            Self::File {
                file,
                offset,
                length,
            } => {
                let most = (length - start).min(FILE_BYTES_PER_TURN);
                match socket::send_file(socket, file, offset + start as u64, most)? {
                    // It was longer when it was queued.
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    sent => Ok(sent),
                }
            }
            _ => socket::send(socket, &self.bytes()[start..]),
        }
    }
}

/// Bytes of a file that are sent before other connections get their turn.
pub(crate) const FILE_BYTES_PER_TURN: usize = 1 << 20;

/// What the kernel has done.
#[derive(Debug)]
pub(crate) enum Event {
    /// A connection arrived at the listener with this number; its socket is non-blocking and has
    /// no options set.
    Accepted(OwnedFd, u16),
    /// A connection arrived and was closed at once, because descriptors or memory ran out.
    TurnedAway,
    /// `length` bytes arrived, in `buffer` from [`HEADROOM`] on; `length` 0 is the end of
    /// the stream. The buffer goes back by [`Driver::recycle`].
    Received {
        slot: Slot,
        buffer: Box<[u8]>,
        length: usize,
    },
    /// The connection broke: while reading, or while nothing is read.
    Broken { slot: Slot, error: io::Error },
    /// The peer has ended its direction while reading is off; reported once. What it sent before is
    /// still to be read.
    PeerEnded { slot: Slot },
    /// A send ended, wholly (`Ok`) or not.
    Sent {
        slot: Slot,
        buffer: Outgoing,
        result: io::Result<()>,
    },
    /// A connection attempt ended.
    Connected { slot: Slot, result: io::Result<()> },
    /// The kernel holds nothing of this slot any more and its socket is closed.
    Released { slot: Slot },
    /// As `Released`, with the socket, which is open.
    Taken { slot: Slot, socket: OwnedFd },
}

/// The outcome of a send that was tried at once.
#[derive(Debug)]
pub(crate) enum SendState {
    /// It is over; no `Sent` event follows.
    Done(Outgoing, io::Result<()>),
    /// A `Sent` event will follow.
    UnderWay,
}

/// One shard's interface to the kernel.
pub(crate) trait Driver {
    /// The name users see: `mio` or `io_uring`.
    fn name(&self) -> &'static str;

    /// Starts accepting from one more listener.
    fn listen(&mut self, listener: Arc<ListenSocket>) -> io::Result<()>;

    /// Stops accepting: takes what the queues still hold (`Accepted` events follow), then closes.
    /// What waits at a listener that other processes have as well is left to them.
    fn stop_listening(&mut self);

    /// Whether connections wait here that were accepted, or will have been once a stop has gone
    /// through; `Accepted` events for them follow.
    fn has_arrivals(&self) -> bool;

    /// Tries to accept again after descriptors ran out. Called about every 50 ms while
    /// [`Driver::is_starved`].
    fn retry_accept(&mut self);

    /// Whether accepting is suspended because descriptors ran out and none was left to turn
    /// connections away with.
    fn is_starved(&self) -> bool;

    /// Takes over a socket: a connected socket (reading starts) or a `connecting` one (a
    /// `Connected` event follows, then reading starts).
    fn attach(&mut self, slot: Slot, socket: OwnedFd, connecting: bool) -> io::Result<()>;

    /// Stops or resumes reading. A few `Received` events may still follow a stop.
    fn set_reading(&mut self, slot: Slot, reading: bool);

    /// Sends all of `buffer`.
    fn send(&mut self, slot: Slot, buffer: Outgoing) -> SendState;

    /// Bytes of sends, finished or not, that the kernel has taken since the last call.
    fn take_progress(&mut self, slot: Slot) -> u64;

    /// Sends what the kernel takes of `bytes` now. Only while no send is in flight.
    fn send_now(&mut self, slot: Slot, bytes: &[u8]) -> io::Result<usize>;

    /// Ends our direction of the connection.
    fn finish(&mut self, slot: Slot);

    /// Gives the connection up: closes the socket (by a reset if `reset`), then `Released` follows.
    fn detach(&mut self, slot: Slot, reset: bool);

    /// Gives the connection up and its socket back: `Taken` follows. What was received before it is
    /// still reported; nothing is being sent.
    fn take(&mut self, slot: Slot);

    /// Whether the loss of this connection would be reported: the kernel holds an operation of it.
    fn is_watched(&self, slot: Slot) -> bool;

    /// Whether bytes wait in the kernel to be read.
    fn has_unread(&self, slot: Slot) -> bool;

    /// The peer's address.
    fn peer_address(&self, slot: Slot) -> Option<SocketAddr>;

    /// Gives back the buffer of a `Received` event.
    fn recycle(&mut self, buffer: Box<[u8]>);

    /// Waits for events: not at all for a zero time-out, without limit for `None`.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// The next event of those the last [`Driver::wait`] found, or that followed from calls since.
    fn next(&mut self) -> Option<Event>;
}

/// Wakes a shard that waits in [`Driver::wait`], from any thread.
#[derive(Debug)]
pub(crate) enum Waker {
    /// Of the readiness back end.
    Mio(mio::Waker),
    /// An eventfd that the io_uring back end reads.
    #[cfg(target_os = "linux")]
    Eventfd(OwnedFd),
}

impl Waker {
    pub(crate) fn wake(&self) {
        match self {
            // Fails only if the shard's poll is gone, and then no thread is left to wake.
            Self::Mio(waker) => drop(waker.wake()),
            #[cfg(target_os = "linux")]
            Self::Eventfd(fd) => drop(rustix::io::write(fd, &1_u64.to_ne_bytes())),
        }
    }
}

/// A listener that outlives descriptor exhaustion.
///
/// While `accept` fails for want of a descriptor, the connection stays in the queue and the
/// listener stays readable: a loop that just tries again spins, and a loop that waits for the next
/// edge hangs. So one descriptor is kept in reserve. Closing it for a moment lets the connection be
/// accepted and closed, and its peer sees that at once.
#[derive(Debug)]
pub(crate) struct Acceptor {
    pub(crate) listener: Arc<ListenSocket>,
    /// Whether the queue may hold connections.
    pub(crate) acceptable: bool,
    spare: Option<OwnedFd>,
    /// Whether the reserve did not help either; accepting pauses until the next try.
    pub(crate) starved: bool,
}

impl Acceptor {
    pub(crate) fn new(listener: Arc<ListenSocket>) -> Self {
        Self {
            listener,
            acceptable: true,
            spare: socket::spare(),
            starved: false,
        }
    }

    /// Takes the next connection; `None` when the queue is empty or accepting is suspended.
    pub(crate) fn accept(&mut self) -> Option<Event> {
        use std::os::fd::AsFd;
        loop {
            match socket::accept(self.listener.fd.as_fd()) {
                Ok(socket) => {
                    self.starved = false;
                    return Some(Event::Accepted(socket, self.listener.index));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if socket::is_exhaustion(&error) => return self.turn_away(),
                // The connection died in the queue; the next one may be alive.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted
                            | io::ErrorKind::ConnectionReset
                            | io::ErrorKind::Interrupted
                    ) => {}
                Err(_) => {
                    // Network errors of the dead connection surface here on Linux (accept(2)); none
                    // is about the listener, but a loop must not trust that.
                    self.starved = true;
                    return None;
                }
            }
        }
    }

    fn turn_away(&mut self) -> Option<Event> {
        use std::os::fd::AsFd;
        self.spare = None;
        let refused = socket::accept(self.listener.fd.as_fd());
        let turned = refused.is_ok();
        if let Ok(refused) = refused {
            socket::reset_on_close(refused.as_fd());
            drop(refused);
        }
        self.spare = socket::spare();
        self.starved = !turned;
        turned.then_some(Event::TurnedAway)
    }
}
