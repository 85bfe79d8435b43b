//! Byte streams of the kernel: pipes, FIFOs, stream sockets. Messages have one size, so they need
//! no header.
//!
//! Both sides sleep in `read`. One `write` and one `read` per message if the kernel accepts it
//! whole; in streams, one `write` per batch, and one `read` of the available bytes.

use super::{Driven, Driver, End, Method, Rendezvous, Side, drive};
use crate::sys::vm;
use olivine_arena::error::{ArenaError, Result, io};
use olivine_arena::rendezvous::await_readable;
use olivine_arena::sys::mapping::{Mapping, page};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use rustix::pipe::{PipeFlags, pipe_with};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

/// Most bytes of one `read` of a stream: what a pipe holds.
const READ_MAX: usize = 64 << 10;

pub(super) const PIPE: Method = Method::new(
    "pipe",
    "two pipes, blocking",
    "block",
    |side, rendezvous, size, _settings| Ok(open(pipes(side, rendezvous)?, size)),
)
.batching();
pub(super) const FIFO: Method = Method::new(
    "fifo",
    "two named pipes, blocking",
    "block",
    |side, rendezvous, size, _settings| Ok(open(fifos(side, rendezvous)?, size)),
)
.batching();
// A page passed to a pipe must stay unchanged until it is read; only a reply shows that.
pub(super) const VMSPLICE: Method = Method::new(
    "vmsplice",
    "two pipes with vmsplice: pages are passed, not copied; blocking",
    "block",
    open_splice,
);
pub(super) const UNIX_STREAM: Method = Method::new(
    "unix-stream",
    "named UNIX stream socket, blocking",
    "block",
    |side, rendezvous, size, _settings| open_socket(unix_stream(side, rendezvous)?, size),
)
.batching();
pub(super) const UNIX_BUSY: Method = Method::new(
    "unix-stream-busy",
    "named UNIX stream socket, polling the socket",
    "spin",
    |side, rendezvous, size, _settings| open_busy(unix_stream(side, rendezvous)?, size),
)
.batching();
pub(super) const SOCKET_PAIR: Method = Method::new(
    "socketpair",
    "socketpair of stream sockets, blocking",
    "block",
    |side, rendezvous, size, _settings| {
        open_socket(pair_of(SocketType::STREAM, side, rendezvous)?, size)
    },
)
.batching();
pub(super) const TCP: Method = Method::new(
    "tcp",
    "TCP over loopback, NODELAY on, blocking",
    "block",
    |side, rendezvous, size, _settings| open_tcp(true, side, rendezvous, size),
)
.batching();
pub(super) const TCP_DELAYED: Method = Method::new(
    "tcp-delayed",
    "TCP over loopback, NODELAY off, blocking",
    "block",
    |side, rendezvous, size, _settings| open_tcp(false, side, rendezvous, size),
)
.batching();
pub(super) const TCP_BUSY: Method = Method::new(
    "tcp-busy",
    "TCP over loopback, NODELAY on, polling the socket",
    "spin",
    |side, rendezvous, size, _settings| {
        let socket = tcp(side, rendezvous)?;
        sockopt::set_tcp_nodelay(&socket, true).map_err(refused("set NODELAY"))?;
        open_busy(socket, size)
    },
)
.batching();

fn open((from, to): (OwnedFd, OwnedFd), size: usize) -> Box<dyn Driver> {
    let streams = Streams {
        from,
        to,
        message: vec![0; size],
        outgoing: Vec::new(),
        incoming: Vec::new(),
        filled: 0,
    };
    drive(streams, size)
}

/// Both directions of a socket.
fn open_socket(socket: OwnedFd, size: usize) -> Driven {
    Ok(open((again(&socket)?, socket), size))
}

/// Both directions of a socket whose reader does not sleep.
fn open_busy(socket: OwnedFd, size: usize) -> Driven {
    rustix::io::ioctl_fionbio(&socket, true).map_err(refused("make a socket non-blocking"))?;
    open_socket(socket, size)
}

fn open_tcp(no_delay: bool, side: Side, rendezvous: &mut Rendezvous, size: usize) -> Driven {
    let socket = tcp(side, rendezvous)?;
    sockopt::set_tcp_nodelay(&socket, no_delay).map_err(refused("set NODELAY"))?;
    open_socket(socket, size)
}

fn open_splice(side: Side, rendezvous: &mut Rendezvous, size: usize, _settings: &str) -> Driven {
    let (from, to) = pipes(side, rendezvous)?;
    let pages = Mapping::private(size.next_multiple_of(page())).map_err(io("map memory"))?;
    let message = vec![0; size];
    let splice = Splice {
        from,
        to,
        message,
        pages,
    };
    Ok(drive(splice, size))
}

/// Adds the action to an error number.
pub(super) fn refused(action: &'static str) -> impl Fn(rustix::io::Errno) -> ArenaError {
    move |error| io(action)(error.into())
}

fn again(socket: &OwnedFd) -> Result<OwnedFd> {
    socket.try_clone().map_err(io("copy a descriptor"))
}

/// Two pipes: (what we read from, what we write to).
pub(super) fn pipes(side: Side, rendezvous: &mut Rendezvous) -> Result<(OwnedFd, OwnedFd)> {
    match side {
        Side::Client => {
            let make = || pipe_with(PipeFlags::CLOEXEC).map_err(refused("make a pipe"));
            let (their_end, to) = make()?;
            let (from, their_start) = make()?;
            rendezvous.give(&their_end)?;
            rendezvous.give(&their_start)?;
            Ok((from, to))
        }
        Side::Server => Ok((rendezvous.take()?, rendezvous.take()?)),
    }
}

fn fifos(side: Side, rendezvous: &mut Rendezvous) -> Result<(OwnedFd, OwnedFd)> {
    let paths = ["there", "back"].map(|name| rendezvous.folder().join(name));
    if side == Side::Client {
        for path in &paths {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
                .map_err(refused("make a FIFO"))?;
        }
    }
    let [there, back] = &paths;
    let open = |path, flags| {
        rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
            .map_err(refused("open a FIFO"))
    };
    match side {
        Side::Client => rendezvous.tell("made")?,
        Side::Server => drop(rendezvous.hear()?),
    }
    // Held open for both until both sides have theirs, so that no open blocks and none sees an end.
    let _held = [open(there, OFlags::RDWR)?, open(back, OFlags::RDWR)?];
    let (from, to) = side.from_to(there, back);
    let opened = (open(from, OFlags::RDONLY)?, open(to, OFlags::WRONLY)?);
    rendezvous.exchange("open")?;
    Ok(opened)
}

/// One end of a socketpair.
pub(super) fn pair_of(
    kind: SocketType,
    side: Side,
    rendezvous: &mut Rendezvous,
) -> Result<OwnedFd> {
    match side {
        Side::Client => {
            let flags = SocketFlags::CLOEXEC;
            let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None)
                .map_err(refused("make a socketpair"))?;
            rendezvous.give(&theirs)?;
            Ok(ours)
        }
        Side::Server => rendezvous.take(),
    }
}

fn unix_stream(side: Side, rendezvous: &mut Rendezvous) -> Result<OwnedFd> {
    let path = rendezvous.folder().join("stream");
    if side == Side::Server {
        rendezvous.hear()?;
        return Ok(UnixStream::connect(&path)
            .map_err(io("connect to a UNIX socket"))?
            .into());
    }
    let listener = UnixListener::bind(&path).map_err(io("bind a UNIX socket"))?;
    rendezvous.tell("listening")?;
    await_readable(&listener)?;
    let (stream, _) = listener.accept().map_err(io("accept at a UNIX socket"))?;
    Ok(stream.into())
}

fn tcp(side: Side, rendezvous: &mut Rendezvous) -> Result<OwnedFd> {
    let local = Ipv4Addr::LOCALHOST;
    if side == Side::Server {
        let port: u16 = rendezvous.hear_number()?;
        let stream = TcpStream::connect((local, port)).map_err(io("connect over TCP"))?;
        return Ok(stream.into());
    }
    let listener = TcpListener::bind((local, 0)).map_err(io("listen on 127.0.0.1"))?;
    let address = listener.local_addr().map_err(io("look at a socket"))?;
    rendezvous.tell(address.port())?;
    await_readable(&listener)?;
    let (stream, _) = listener.accept().map_err(io("accept over TCP"))?;
    Ok(stream.into())
}

struct Streams {
    from: OwnedFd,
    to: OwnedFd,
    message: Vec<u8>,
    /// A batch to send.
    outgoing: Vec<u8>,
    /// What was read of a stream, and how many bytes of it: less than a message between two calls.
    incoming: Vec<u8>,
    filled: usize,
}

impl End for Streams {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        fill(&mut self.message);
        write_whole(&self.to, &self.message)
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        read_whole(&self.from, &mut self.message)?;
        Ok(handle(&self.message))
    }

    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        read_whole(&self.from, &mut self.message)?;
        let fits = check(&self.message);
        if fits {
            write_whole(&self.to, &self.message)?;
        }
        Ok(fits)
    }

    fn send_many(&mut self, count: usize, mut fill: impl FnMut(usize, &mut [u8])) -> Result<()> {
        let size = self.message.len();
        let length = size * count;
        if self.outgoing.len() < length {
            self.outgoing.resize(length, 0);
        }
        let batch = &mut self.outgoing[..length];
        for (number, message) in batch.chunks_exact_mut(size).enumerate() {
            fill(number, message);
        }
        write_whole(&self.to, batch)
    }

    fn receive_many(&mut self, limit: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
        let size = self.message.len();
        let room = size.saturating_mul(limit).min(READ_MAX.max(size));
        if self.incoming.len() < room {
            self.incoming.resize(room, 0);
        }
        while self.filled < size {
            self.filled += read_some(&self.from, &mut self.incoming[self.filled..room])?;
        }
        let whole = self.filled - self.filled % size;
        self.incoming[..whole]
            .chunks_exact(size)
            .for_each(&mut handle);
        // The start of the next message, usually empty.
        self.incoming.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        Ok(whole / size)
    }
}

/// Writes all of `message`; polls a socket that does not block.
fn write_whole(to: &impl AsFd, message: &[u8]) -> Result<()> {
    let mut left = message;
    while !left.is_empty() {
        match rustix::io::write(to, left) {
            Ok(written) => left = &left[written..],
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => {
                return Err(ArenaError::EndClosed);
            }
            Err(error) => return Err(refused("write a message")(error)),
        }
    }
    Ok(())
}

/// Fills `message`.
fn read_whole(from: &impl AsFd, message: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < message.len() {
        filled += read_some(from, &mut message[filled..])?;
    }
    Ok(())
}

/// Reads what is there, or waits for it; returns how many bytes.
fn read_some(from: &impl AsFd, place: &mut [u8]) -> Result<usize> {
    loop {
        match rustix::io::read(from, &mut *place) {
            Ok(0) | Err(rustix::io::Errno::CONNRESET) => return Err(ArenaError::EndClosed),
            Ok(length) => return Ok(length),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(refused("read a message")(error)),
        }
    }
}

/// Pipes that get pages. A message stays in the pages until its reply.
struct Splice {
    from: OwnedFd,
    to: OwnedFd,
    message: Vec<u8>,
    pages: Mapping,
}

impl End for Splice {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let size = self.message.len();
        // SAFETY: private memory, borrowed mutably through `self`; the pipe's part of it has been
        // read, because each message has a reply.
        fill(unsafe { self.pages.bytes_mut(0, size) });
        let mut given = 0;
        while given < size {
            match vm::splice(self.to.as_fd(), &self.pages, given, size - given) {
                Ok(length) => given += length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io("give pages to a pipe")(error)),
            }
        }
        Ok(())
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        read_whole(&self.from, &mut self.message)?;
        Ok(handle(&self.message))
    }
}
