//! TLS of one connection: encrypted bytes at the socket, plain bytes on our side.

use super::tls_error;
use crate::bridge::tcp::socket::{NoSigpipe, ReadOutcome, SocketError, receive};
use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;

/// Encrypted bytes read from the socket at once.
const ARRIVED_BYTES: usize = 128 * 1024;
/// Most encrypted bytes that wait for room in the kernel.
const LEAVING_MAX: usize = 512 * 1024;

/// The state of one connection. Reads and writes also drive the handshake.
#[derive(Debug)]
pub(in crate::bridge::tcp) struct TlsSession {
    connection: Connection,
    /// Read from the socket, and not decrypted yet.
    arrived: Vec<u8>,
    start: usize,
    end: usize,
}

impl TlsSession {
    pub(super) fn new(mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(LEAVING_MAX));
        Self {
            connection,
            arrived: vec![0; ARRIVED_BYTES],
            start: 0,
            end: 0,
        }
    }

    /// Reads and decrypts what is there, as much as `into` holds.
    ///
    /// # Errors
    ///
    /// [`SocketError`]; if TLS failed, the alert with the reason is sent already.
    pub(in crate::bridge::tcp) fn read(
        &mut self,
        stream: BorrowedFd<'_>,
        into: &mut [u8],
    ) -> Result<ReadOutcome, SocketError> {
        let mut filled = 0;
        loop {
            match self.connection.reader().read(&mut into[filled..]) {
                Ok(0) if filled < into.len() => return Ok(or_end(filled)),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Without a closing alert: the connection may have been cut on the way. The
                // protocol inside has its own close block and decides what follows.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(or_end(filled));
                }
                Err(error) => return Err(error.into()),
            }
            if filled == into.len() {
                return Ok(ReadOutcome::Bytes(filled));
            }
            if self.start == self.end {
                if filled > 0 {
                    return Ok(ReadOutcome::Bytes(filled));
                }
                match receive(stream, &mut self.arrived)? {
                    ReadOutcome::Bytes(count) => (self.start, self.end) = (0, count),
                    ReadOutcome::Nothing => return Ok(ReadOutcome::Nothing),
                    // Tells the session, whose reader then reports how it ended.
                    ReadOutcome::End => {
                        self.connection.read_tls(&mut io::empty())?;
                    }
                }
            }
            self.open(stream)?;
        }
    }

    /// Decrypts what has arrived, as far as the session takes it, and sends replies of the
    /// handshake.
    fn open(&mut self, stream: BorrowedFd<'_>) -> Result<(), SocketError> {
        let mut sealed = &self.arrived[self.start..self.end];
        if !sealed.is_empty() {
            self.start += self.connection.read_tls(&mut sealed)?;
        }
        let outcome = self.connection.process_new_packets();
        // A reply of the handshake, or the alert with the error.
        let sent = self.push(stream);
        outcome.map_err(tls_error)?;
        sent?;
        Ok(())
    }

    /// Whether encrypted bytes wait in this process: the socket does not report them.
    pub(in crate::bridge::tcp) fn has_arrived(&self) -> bool {
        self.start < self.end
    }

    /// Encrypts the parts in order, as far as there is room, and sends; returns how many bytes were
    /// taken.
    pub(in crate::bridge::tcp) fn write(
        &mut self,
        stream: BorrowedFd<'_>,
        parts: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        if !self.push(stream)? {
            return Ok(0);
        }
        let count = self.connection.writer().write_vectored(parts)?;
        self.push(stream)?;
        Ok(count)
    }

    /// Whether encrypted bytes wait for room in the kernel.
    pub(in crate::bridge::tcp) fn holds_bytes(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends the end of our direction.
    pub(in crate::bridge::tcp) fn finish(&mut self, stream: BorrowedFd<'_>) {
        self.connection.send_close_notify();
        // Best effort: otherwise the other side sees the connection close.
        let _ = self.push(stream);
    }

    /// Sends what is encrypted; `true` once all is sent.
    fn push(&mut self, stream: BorrowedFd<'_>) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut NoSigpipe(stream)) {
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
fn or_end(filled: usize) -> ReadOutcome {
    match filled {
        0 => ReadOutcome::End,
        filled => ReadOutcome::Bytes(filled),
    }
}
