//! TLS for accepted connections, by rustls without its own I/O: bytes in, bytes out.
//!
//! It sits between the driver and the handler: arriving bytes are opened before the handler sees
//! them, and what it wrote is sealed when it is flushed. Handlers need no change.

use std::{
    io::{self, Read, Write},
    os::unix::fs::FileExt,
    sync::Arc,
};

use crate::{
    driver::{Outgoing, Slot},
    error::CloseReason,
    shard::{
        Shard,
        connection::{End, Phase},
    },
};

/// The TLS state of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    connection: rustls::ServerConnection,
    /// The closing alert is queued.
    closed: bool,
}

impl Session {
    pub(crate) fn connection(&self) -> &rustls::ServerConnection {
        &self.connection
    }

    /// Begins a session. Some settings are checked nowhere before, such as the length of a
    /// fragment.
    pub(crate) fn new(config: Arc<rustls::ServerConfig>) -> Result<Self, rustls::Error> {
        let mut connection = rustls::ServerConnection::new(config)?;
        connection.set_buffer_limit(None);
        Ok(Self {
            connection,
            closed: false,
        })
    }
}

/// A peer that has sent nothing more.
struct Nothing;

impl Read for Nothing {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Bytes of a file that are sealed before they are sent.
const SEALED_AT_ONCE: usize = 64 * 1024;

impl<M> Shard<M> {
    /// Gives a new connection a TLS session, if the engine serves TLS. After an error the
    /// connection must not be served: without a session it would not be encrypted.
    pub(crate) fn start_tls(&mut self, slot: Slot) -> io::Result<()> {
        if let Some(config) = &self.common.config.tls {
            let session = Session::new(config.clone()).map_err(io::Error::other)?;
            self.connections[slot as usize].tls = Some(Box::new(session));
        }
        Ok(())
    }

    /// Opens arrived bytes; returns the plain text, in a buffer of the pool.
    pub(crate) fn unseal(&mut self, slot: Slot, mut bytes: &[u8]) -> Vec<u8> {
        let mut plain = self.take_buffer();
        let connection = &mut self.connections[slot as usize];
        let Some(session) = &mut connection.tls else {
            return plain;
        };
        let mut broken = false;
        while !bytes.is_empty() && !broken {
            // Reads from memory: an error means that the session accepts no more.
            broken = session.connection.read_tls(&mut bytes).is_err();
            match session.connection.process_new_packets() {
                Ok(state) => {
                    let start = plain.len();
                    plain.resize(start + state.plaintext_bytes_to_read(), 0);
                    let read = session.connection.reader().read(&mut plain[start..]);
                    plain.truncate(start + read.unwrap_or(0));
                    if state.peer_has_closed() {
                        connection.end = End::Unseen;
                        break;
                    }
                }
                Err(_) => broken = true,
            }
        }
        // A session makes its buffer small again (4 KiB) when it looks for bytes and keeps none:
        // without this, only with those that come next. In the middle of a record it may grow by
        // 4 KiB.
        let _ = session.connection.read_tls(&mut Nothing);
        if broken {
            // The alert with the reason is queued in the session and is sent with the flush.
            let id = self.id(slot);
            self.count_up().broken.add(1);
            self.close_for(id, CloseReason::Tls);
            plain.clear();
        }
        self.mark(slot);
        plain
    }

    /// Encrypts the queue. Returns whether there is anything to send.
    pub(crate) fn seal(&mut self, slot: Slot) -> bool {
        let mut sealed = self.take_buffer();
        let connection = &mut self.connections[slot as usize];
        let Some(session) = &mut connection.tls else {
            return true;
        };
        let mut fine = true;
        // Sealed segments have no plain form; those that wait were written by the handler.
        while let Some(segment) = connection.segments.pop_front() {
            connection.segment_bytes -= segment.length();
            if let Outgoing::File {
                file,
                offset,
                length,
            } = segment
            {
                // A piece at a time: what is sealed is held in memory.
                let piece = length.min(SEALED_AT_ONCE);
                let mut bytes = vec![0; piece];
                fine &= file.read_exact_at(&mut bytes, offset).is_ok()
                    && session.connection.writer().write_all(&bytes).is_ok();
                if length > piece {
                    connection.segment_bytes += length - piece;
                    connection.segments.push_front(Outgoing::File {
                        file,
                        offset: offset + piece as u64,
                        length: length - piece,
                    });
                }
                break;
            }
            fine &= session
                .connection
                .writer()
                .write_all(segment.bytes())
                .is_ok();
        }
        if connection.segments.is_empty() {
            fine &= session
                .connection
                .writer()
                .write_all(&connection.out)
                .is_ok();
            connection.out.clear();
        }
        let empty = connection.segments.is_empty();
        if empty && connection.phase == Phase::Finishing && !session.closed {
            session.closed = true;
            session.connection.send_close_notify();
        }
        while fine && session.connection.wants_write() {
            fine = session.connection.write_tls(&mut sealed).is_ok();
        }
        if !fine {
            // A file that is too short, or a session that has failed: nothing more can be said.
            self.give_back(sealed);
            self.count_up().broken.add(1);
            let kind = io::ErrorKind::UnexpectedEof;
            self.detach(slot, CloseReason::Broken(kind), true);
            return false;
        }
        if sealed.is_empty() {
            self.give_back(sealed);
            return false;
        }
        connection.segment_bytes += sealed.len();
        // In front of a file that is not all sealed: it is sent next.
        connection.segments.push_front(Outgoing::Owned(sealed));
        true
    }
}
