//! Sockets that keep messages apart: UNIX datagram and seqpacket, UDP. Both sides sleep in `recv`.

use super::bytes::{pair_of, refused};
use super::player::{End, Player, play};
use super::{Door, Method, Side};
use crate::error::{BenchError, Result, io};
use crate::peer::Patience;
use rustix::net::{RecvFlags, SendFlags, SocketType, recv, send, sockopt};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;

/// Longest payload of a UDP datagram over IPv4 in bytes.
const UDP_MAX: usize = 65_507;

pub(super) const UNIX_DATAGRAM: Datagrams = Datagrams {
    name: "unix-datagram",
    about: "socketpair of UNIX datagram sockets, blocking",
    kind: Kind::Datagram,
};
pub(super) const UNIX_SEQPACKET: Datagrams = Datagrams {
    name: "unix-seqpacket",
    about: "socketpair of UNIX seqpacket sockets, blocking",
    kind: Kind::Seqpacket,
};
pub(super) const UDP: Datagrams = Datagrams {
    name: "udp",
    about: "UDP over loopback, connected sockets, blocking",
    kind: Kind::Udp,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Datagram,
    Seqpacket,
    Udp,
}

/// A pair of sockets that keep messages apart.
#[derive(Debug)]
pub(super) struct Datagrams {
    name: &'static str,
    about: &'static str,
    kind: Kind,
}

impl Method for Datagrams {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn wait(&self) -> &'static str {
        "block"
    }

    fn streams(&self) -> bool {
        // UDP throws away what the receiver's buffer cannot hold.
        self.kind != Kind::Udp
    }

    fn open(
        &self,
        side: Side,
        door: &mut Door,
        size: usize,
        _settings: &str,
    ) -> Result<Box<dyn Player>> {
        let socket = match self.kind {
            Kind::Datagram => pair_of(SocketType::DGRAM, side, door)?,
            Kind::Seqpacket => pair_of(SocketType::SEQPACKET, side, door)?,
            Kind::Udp if size > UDP_MAX => {
                return Err(BenchError::TooLong {
                    bytes: size,
                    max: UDP_MAX,
                    limit: "a UDP datagram over IPv4",
                });
            }
            Kind::Udp => udp(door)?,
        };
        let message = vec![0; size];
        Ok(play(Sockets { socket, message }, size))
    }
}

fn udp(door: &mut Door) -> Result<OwnedFd> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io("bind a UDP socket"))?;
    let address = socket.local_addr().map_err(io("look at a socket"))?;
    door.tell(address.port())?;
    let port: u16 = door.hear_number()?;
    socket
        .connect((Ipv4Addr::LOCALHOST, port))
        .map_err(io("connect a UDP socket"))?;
    // Nothing is sent before both are connected.
    door.exchange("connected")?;
    Ok(socket.into())
}

struct Sockets {
    socket: OwnedFd,
    message: Vec<u8>,
}

impl Sockets {
    fn send_message(&self, patience: &mut Patience<'_>) -> Result<()> {
        loop {
            match send(&self.socket, &self.message, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => patience.look()?,
                Err(rustix::io::Errno::MSGSIZE) => {
                    return Err(BenchError::TooLong {
                        bytes: self.message.len(),
                        max: sockopt::socket_send_buffer_size(&self.socket).unwrap_or(0) / 2,
                        limit: "the socket's send buffer (net.core.wmem_max)",
                    });
                }
                Err(error) => return Err(refused("send a datagram")(error)),
            }
        }
    }

    fn receive_message(&mut self, patience: &mut Patience<'_>) -> Result<&[u8]> {
        loop {
            match recv(&self.socket, self.message.as_mut_slice(), RecvFlags::TRUNC) {
                Ok((_, length)) if length == self.message.len() => return Ok(&self.message),
                Ok((_, 0)) => return Err(BenchError::EndClosed),
                Ok((_, length)) => {
                    return Err(BenchError::Protocol {
                        found: format!("a datagram of {length} bytes"),
                    });
                }
                Err(rustix::io::Errno::INTR) => patience.look()?,
                Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::CONNRESET) => {
                    return Err(BenchError::EndClosed);
                }
                Err(error) => return Err(refused("receive a datagram")(error)),
            }
        }
    }
}

impl End for Sockets {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]), patience: &mut Patience<'_>) -> Result<()> {
        fill(&mut self.message);
        self.send_message(patience)
    }

    fn receive<T>(
        &mut self,
        handle: impl FnOnce(&[u8]) -> T,
        patience: &mut Patience<'_>,
    ) -> Result<T> {
        self.receive_message(patience).map(handle)
    }

    fn echo(
        &mut self,
        _stage: &mut [u8],
        check: impl FnOnce(&[u8]) -> bool,
        patience: &mut Patience<'_>,
    ) -> Result<bool> {
        let fits = check(self.receive_message(patience)?);
        if fits {
            self.send_message(patience)?;
        }
        Ok(fits)
    }
}
