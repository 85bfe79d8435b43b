//! Plain loops without an engine: what the kernel alone costs.

use super::error::{LoadError, io};
use super::server::LOOK;
use crate::cpus;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes per receive.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Failed receives between two checks of the end.
const TRIES: u32 = 1 << 20;
/// Events taken with one call.
const EVENTS: usize = 1024;

/// Pins this thread and listens.
fn listen(cpu: u32, announce: impl FnOnce(SocketAddr)) -> Result<TcpListener, LoadError> {
    cpus::pin(cpu).map_err(|source| LoadError::Pin { cpu, source })?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(io("listen"))?;
    listener
        .set_nonblocking(true)
        .map_err(io("make a socket non-blocking"))?;
    announce(listener.local_addr().map_err(io("ask for the address"))?);
    Ok(listener)
}

fn prepare(socket: &TcpStream) -> Result<(), LoadError> {
    socket.set_nodelay(true).map_err(io("set TCP_NODELAY"))?;
    socket
        .set_nonblocking(true)
        .map_err(io("make a socket non-blocking"))?;
    Ok(())
}

/// Echoes all input, one connection after the other, without ever sleeping.
pub(super) fn echo(
    cpu: u32,
    announce: impl FnOnce(SocketAddr),
    mut until: impl FnMut() -> bool,
) -> Result<(), LoadError> {
    let listener = listen(cpu, announce)?;
    let mut buffer = vec![0; RECEIVE_BYTES];
    while !until() {
        let Ok((mut socket, _)) = listener.accept() else {
            std::thread::park_timeout(LOOK);
            continue;
        };
        prepare(&socket)?;
        let mut tries = 0_u32;
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    // Ping-pong messages are smaller than any socket buffer.
                    if socket.write_all(&buffer[..length]).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    tries = tries.wrapping_add(1);
                    if tries.is_multiple_of(TRIES) && until() {
                        return Ok(());
                    }
                }
                Err(_) => break,
            }
        }
    }
    Ok(())
}

/// A connection of [`answer`].
struct Asking {
    socket: TcpStream,
    /// Bytes of a request; 0 until the first has come, and all others must be as long.
    request: usize,
    /// Bytes that came of the next request.
    left: usize,
}

/// Sends `answer` for each request of any number of connections.
///
/// The first request of a connection is looked at for its length alone, and the others are counted
/// by it. A batch costs a receive and a send of bytes that are there already.
pub(super) fn answer(
    cpu: u32,
    answer: &[u8],
    announce: impl FnOnce(SocketAddr),
    mut until: impl FnMut() -> bool,
) -> Result<(), LoadError> {
    let listener = listen(cpu, announce)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)
        .map_err(|error| io("make an epoll")(error.into()))?;
    watch(&poll, &listener, epoll::EventFlags::IN)?;
    let listener_fd = listener.as_raw_fd();
    let mut asking: Vec<Option<Asking>> = Vec::new();
    let mut events = Vec::with_capacity(EVENTS);
    let (mut buffer, mut answers) = (vec![0; RECEIVE_BYTES], Vec::new());
    let look = Timespec::try_from(LOOK).unwrap_or_default();
    while !until() {
        events.clear();
        let room = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&poll, room, Some(&look)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io("wait for events")(error.into()).into()),
        }
        for event in &events {
            let data = event.data;
            if data.u64() == u64::try_from(listener_fd).unwrap_or_default() {
                while let Ok((socket, _)) = listener.accept() {
                    prepare(&socket)?;
                    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
                    let index = watch(&poll, &socket, flags)?;
                    if asking.len() <= index {
                        asking.resize_with(index + 1, || None);
                    }
                    asking[index] = Some(Asking {
                        socket,
                        request: 0,
                        left: 0,
                    });
                }
                continue;
            }
            let index = usize::try_from(data.u64()).unwrap_or(usize::MAX);
            if let Some(Some(one)) = asking.get_mut(index)
                && !one.serve(&mut buffer, answer, &mut answers)
            {
                asking[index] = None;
            }
        }
    }
    Ok(())
}

/// Watches a socket under its descriptor.
fn watch(
    poll: &OwnedFd,
    socket: &(impl AsRawFd + std::os::fd::AsFd),
    flags: epoll::EventFlags,
) -> Result<usize, LoadError> {
    let index = u64::try_from(socket.as_raw_fd()).unwrap_or_default();
    epoll::add(poll, socket, epoll::EventData::new_u64(index), flags)
        .map_err(|error| io("watch a socket")(error.into()))?;
    Ok(usize::try_from(index).unwrap_or_default())
}

impl Asking {
    /// Answers what has come; `false` once the connection is over.
    fn serve(&mut self, buffer: &mut [u8], answer: &[u8], answers: &mut Vec<u8>) -> bool {
        loop {
            let length = match self.socket.read(buffer) {
                Ok(0) => return false,
                Ok(length) => length,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            };
            if self.request == 0 {
                // The first of a connection comes whole: it is short.
                let Some(end) = memchr::memmem::find(&buffer[..length], b"\r\n\r\n") else {
                    return false;
                };
                self.request = end + 4;
            }
            let count = (self.left + length) / self.request;
            self.left = (self.left + length) % self.request;
            while answers.len() < count * answer.len() {
                answers.extend_from_slice(answer);
            }
            if !self.send(&answers[..count * answer.len()]) {
                return false;
            }
            // A short read has emptied the socket; the next arrival makes a new edge.
            if length < buffer.len() {
                return true;
            }
        }
    }

    fn send(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut full = [PollFd::new(&self.socket, PollFlags::OUT)];
                    if poll(&mut full, None).is_err() {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        true
    }
}
