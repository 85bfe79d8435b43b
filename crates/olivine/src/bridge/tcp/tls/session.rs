//! One connection's TLS: sealed bytes of the socket on one side, ours on the other.

use super::trouble;
use crate::bridge::tcp::socket::{Got, Quiet, Trouble, receive};
use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

/// Sealed bytes that are read from the socket at once.
const ARRIVED_BYTES: usize = 128 * 1024;
/// Bytes that may wait, sealed, for room in the kernel.
const LEAVING_MAX: usize = 512 * 1024;

/// The state of one connection. The handshake goes on by itself while reading and writing.
#[derive(Debug)]
pub(in crate::bridge::tcp) struct Session {
    connection: Connection,
    /// Read from the socket, and not opened yet.
    arrived: Vec<u8>,
    start: usize,
    end: usize,
}

impl Session {
    pub(super) fn new(mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(LEAVING_MAX));
        Self {
            connection,
            arrived: vec![0; ARRIVED_BYTES],
            start: 0,
            end: 0,
        }
    }

    /// Reads and opens what is there, as much as `into` takes.
    ///
    /// # Errors
    ///
    /// [`Trouble`]; where TLS is broken, the alert that says why is on its way.
    pub(in crate::bridge::tcp) fn read(
        &mut self,
        stream: &mut TcpStream,
        into: &mut [u8],
    ) -> Result<Got, Trouble> {
        let mut filled = 0;
        loop {
            match self.connection.reader().read(&mut into[filled..]) {
                Ok(0) if filled < into.len() => return Ok(or_end(filled)),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Without a closing alert: somebody on the way may have cut it. What follows from that is
                // decided by the protocol inside, which has a last word of its own.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(or_end(filled));
                }
                Err(error) => return Err(error.into()),
            }
            if filled == into.len() {
                return Ok(Got::Bytes(filled));
            }
            if self.start == self.end {
                if filled > 0 {
                    return Ok(Got::Bytes(filled));
                }
                match receive(stream, &mut self.arrived)? {
                    Got::Bytes(count) => (self.start, self.end) = (0, count),
                    Got::Nothing => return Ok(Got::Nothing),
                    // Tells the session, whose reader then says how it ended.
                    Got::End => {
                        self.connection.read_tls(&mut io::empty())?;
                    }
                }
            }
            self.open(stream)?;
        }
    }

    /// Opens what has arrived, as far as the session takes it, and sends what the handshake answers.
    fn open(&mut self, stream: &mut TcpStream) -> Result<(), Trouble> {
        let mut sealed = &self.arrived[self.start..self.end];
        if !sealed.is_empty() {
            self.start += self.connection.read_tls(&mut sealed)?;
        }
        let outcome = self.connection.process_new_packets();
        // An answer of the handshake, or the alert that says what is wrong.
        let sent = self.push(stream);
        outcome.map_err(trouble)?;
        sent?;
        Ok(())
    }

    /// Whether sealed bytes that have arrived wait to be opened: the socket does not tell of them.
    pub(in crate::bridge::tcp) fn has_arrived(&self) -> bool {
        self.start < self.end
    }

    /// Seals the parts in order, as far as there is room, and sends; returns how many bytes were taken.
    pub(in crate::bridge::tcp) fn write(
        &mut self,
        stream: &mut TcpStream,
        parts: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        if !self.push(stream)? {
            return Ok(0);
        }
        let count = self.connection.writer().write_vectored(parts)?;
        self.push(stream)?;
        Ok(count)
    }

    /// Whether sealed bytes wait for room in the kernel.
    pub(in crate::bridge::tcp) fn holds_bytes(&self) -> bool {
        self.connection.wants_write()
    }

    /// Says that nothing more comes.
    pub(in crate::bridge::tcp) fn finish(&mut self, stream: &mut TcpStream) {
        self.connection.send_close_notify();
        // Best effort: whoever does not hear it sees the connection close.
        let _ = self.push(stream);
    }

    /// Sends what is sealed; `true` once all is out.
    fn push(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Quiet(stream)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// What was read before the end, or the end.
fn or_end(filled: usize) -> Got {
    match filled {
        0 => Got::End,
        filled => Got::Bytes(filled),
    }
}
