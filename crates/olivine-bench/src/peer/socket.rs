//! One end of a plain connection with a bridge's socket options: the reference for `tcp://`.
//!
//! Non-blocking, NODELAY, kept alive, as a bridge sets its sockets; one send and, mostly, one
//! receive a message. Has no ring, no acknowledgement and no reconnection.

use crate::deadline::Deadline;
use crate::error::{BenchError, Result, io};
use crate::payload::{self, Stamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// Longest sleep without a check of the end.
const NAP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// An end for messages of one size.
#[derive(Debug)]
pub(crate) struct Bare {
    stream: TcpStream,
    message: Vec<u8>,
    spins: bool,
}

impl Bare {
    /// Connects to `port` of this machine.
    pub(crate) fn connect(port: u16, size: usize, spins: bool) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        Self::over(stream.map_err(io("connect over TCP"))?, size, spins)
    }

    /// Takes over a connected stream. With `spins` it polls where a bridge would sleep.
    pub(crate) fn over(stream: TcpStream, size: usize, spins: bool) -> Result<Self> {
        let set = || {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            sockopt::set_socket_keepalive(&stream, true)?;
            Ok(())
        };
        set().map_err(io("set up a connection"))?;
        Ok(Self {
            stream,
            message: vec![0; size],
            spins,
        })
    }

    /// Sends one message.
    pub(crate) fn send(&mut self, stamp: Stamp, deadline: &mut Deadline<'_>) -> Result<()> {
        payload::fill(&mut self.message, stamp);
        let mut sent = 0;
        while sent < self.message.len() {
            match self.stream.write(&self.message[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, deadline)?;
                }
                Err(error) => return Err(io("send a message")(error)),
            }
        }
        Ok(())
    }

    /// Waits for a message; `None` if it is not as it was sent.
    pub(crate) fn receive(&mut self, deadline: &mut Deadline<'_>) -> Result<Option<Stamp>> {
        let mut come = 0;
        while come < self.message.len() {
            match self.stream.read(&mut self.message[come..]) {
                Ok(0) => return Err(BenchError::EndClosed),
                Ok(count) => come += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN, deadline)?;
                }
                Err(error) => return Err(io("receive a message")(error)),
            }
        }
        deadline.renew();
        Ok(payload::check(&self.message))
    }

    fn wait(&self, flags: PollFlags, deadline: &mut Deadline<'_>) -> Result<()> {
        if self.spins {
            return deadline.spend();
        }
        match poll(&mut [PollFd::new(&self.stream, flags)], Some(&NAP)) {
            Ok(0) | Err(Errno::INTR) => deadline.look(),
            Ok(_) => Ok(()),
            Err(error) => Err(io("wait for a connection")(error.into())),
        }
    }
}
