//! io_uring over a socketpair: one operation, one entry into the kernel, each way. Both sides sleep in it.

use super::bytes::pair_of;
use super::player::{End, Player, play};
use super::queue::whole;
use super::{Described, Door, Side};
use crate::error::{BenchError, Result, io};
use crate::peer::Patience;
use crate::sys::uring::RingSocket;
use rustix::net::SocketType;

/// Sockets that are used through io_uring.
pub(super) const IO_URING: Described = Described {
    name: "io-uring",
    about: "seqpacket socketpair through io_uring, one entry an operation, blocking",
    wait: "block",
    streams: true,
    batches: false,
    threads: false,
    lacks: "",
    open,
};

fn open(side: Side, door: &mut Door, size: usize, _settings: &str) -> Result<Box<dyn Player>> {
    let socket = pair_of(SocketType::SEQPACKET, side, door)?;
    let socket = RingSocket::new(socket, size).map_err(io("set up io_uring"))?;
    Ok(play(RingEnd { socket, size }, size))
}

struct RingEnd {
    socket: RingSocket,
    size: usize,
}

/// An error of io_uring, or the end of patience.
struct Trouble(BenchError);

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self(io("use io_uring")(error))
    }
}

impl End for RingEnd {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]), patience: &mut Patience<'_>) -> Result<()> {
        fill(self.socket.payload());
        let sent = self.socket.send(|| patience.look().map_err(Trouble));
        whole(sent.map_err(|trouble| trouble.0)?, self.size)
    }

    fn receive<T>(
        &mut self,
        handle: impl FnOnce(&[u8]) -> T,
        patience: &mut Patience<'_>,
    ) -> Result<T> {
        let received = self.socket.receive(|| patience.look().map_err(Trouble));
        match received.map_err(|trouble| trouble.0)? {
            0 => Err(BenchError::EndClosed),
            length => {
                whole(length, self.size)?;
                Ok(handle(self.socket.payload()))
            }
        }
    }
}
