//! Sockets with message boundaries: UNIX datagram and seqpacket, UDP. Both sides sleep in `recv`.

use super::bytes::{pair_of, refused};
use super::{Driven, Driver, End, Method, Rendezvous, Side, drive};
use olivine_arena::error::{ArenaError, Result, io};
use rustix::net::{RecvFlags, SendFlags, SocketType, recv, send, sockopt};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;

/// Longest payload of a UDP datagram over IPv4 in bytes.
const UDP_MAX: usize = 65_507;

pub(super) const UNIX_DATAGRAM: Method = Method::new(
    "unix-datagram",
    "socketpair of UNIX datagram sockets, blocking",
    "block",
    |side, rendezvous, size, _settings| {
        Ok(open(pair_of(SocketType::DGRAM, side, rendezvous)?, size))
    },
)
.streaming();
pub(super) const UNIX_SEQPACKET: Method = Method::new(
    "unix-seqpacket",
    "socketpair of UNIX seqpacket sockets, blocking",
    "block",
    |side, rendezvous, size, _settings| {
        Ok(open(
            pair_of(SocketType::SEQPACKET, side, rendezvous)?,
            size,
        ))
    },
)
.streaming();
// UDP drops what the receiver's buffer cannot hold.
pub(super) const UDP: Method = Method::new(
    "udp",
    "UDP over loopback, connected sockets, blocking",
    "block",
    open_udp,
);

fn open(socket: OwnedFd, size: usize) -> Box<dyn Driver> {
    let message = vec![0; size];
    drive(Sockets { socket, message }, size)
}

fn open_udp(_side: Side, rendezvous: &mut Rendezvous, size: usize, _settings: &str) -> Driven {
    if size > UDP_MAX {
        return Err(ArenaError::TooLong {
            bytes: size,
            max: UDP_MAX,
            limit: "a UDP datagram over IPv4",
        });
    }
    Ok(open(udp(rendezvous)?, size))
}

fn udp(rendezvous: &mut Rendezvous) -> Result<OwnedFd> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io("bind a UDP socket"))?;
    let address = socket.local_addr().map_err(io("look at a socket"))?;
    rendezvous.tell(address.port())?;
    let port: u16 = rendezvous.hear_number()?;
    socket
        .connect((Ipv4Addr::LOCALHOST, port))
        .map_err(io("connect a UDP socket"))?;
    // Nothing is sent before both are connected.
    rendezvous.exchange("connected")?;
    Ok(socket.into())
}

struct Sockets {
    socket: OwnedFd,
    message: Vec<u8>,
}

impl Sockets {
    fn send_message(&self) -> Result<()> {
        loop {
            match send(&self.socket, &self.message, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::MSGSIZE) => {
                    return Err(ArenaError::TooLong {
                        bytes: self.message.len(),
                        max: sockopt::socket_send_buffer_size(&self.socket).unwrap_or(0) / 2,
                        limit: "the socket's send buffer (net.core.wmem_max)",
                    });
                }
                Err(error) => return Err(refused("send a datagram")(error)),
            }
        }
    }

    fn receive_message(&mut self) -> Result<&[u8]> {
        loop {
            match recv(&self.socket, self.message.as_mut_slice(), RecvFlags::TRUNC) {
                Ok((_, length)) if length == self.message.len() => return Ok(&self.message),
                Ok((_, 0)) => return Err(ArenaError::EndClosed),
                Ok((_, length)) => {
                    return Err(ArenaError::Protocol {
                        found: format!("a datagram of {length} bytes"),
                    });
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::CONNRESET) => {
                    return Err(ArenaError::EndClosed);
                }
                Err(error) => return Err(refused("receive a datagram")(error)),
            }
        }
    }
}

impl End for Sockets {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        fill(&mut self.message);
        self.send_message()
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.receive_message().map(handle)
    }

    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let fits = check(self.receive_message()?);
        if fits {
            self.send_message()?;
        }
        Ok(fits)
    }
}
