//! io_uring over a socketpair: one operation, one entry into the kernel, each way. Both sides sleep
//! in it.

use super::bytes::pair_of;
use super::queue::whole;
use super::{Driven, End, Method, Rendezvous, Side, drive};
use crate::sys::uring::RingSocket;
use olivine_arena::error::{ArenaError, Result, io};
use rustix::net::SocketType;

/// Sockets that are used through io_uring.
pub(super) const IO_URING: Method = Method::new(
    "io-uring",
    "seqpacket socketpair through io_uring, one entry per operation, blocking",
    "block",
    open,
)
.streaming();

fn open(side: Side, rendezvous: &mut Rendezvous, size: usize, _settings: &str) -> Driven {
    let socket = pair_of(SocketType::SEQPACKET, side, rendezvous)?;
    let socket = RingSocket::new(socket, size).map_err(io("set up io_uring"))?;
    Ok(drive(RingEnd { socket, size }, size))
}

struct RingEnd {
    socket: RingSocket,
    size: usize,
}

impl End for RingEnd {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        fill(self.socket.payload());
        let sent = self.socket.send().map_err(io("send through io_uring"))?;
        whole(sent, self.size)
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        match self
            .socket
            .receive()
            .map_err(io("receive through io_uring"))?
        {
            0 => Err(ArenaError::EndClosed),
            length => {
                whole(length, self.size)?;
                Ok(handle(self.socket.payload()))
            }
        }
    }
}
