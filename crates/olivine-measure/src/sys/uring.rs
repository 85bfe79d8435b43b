//! Sending and receiving through io_uring.

use io_uring::{IoUring, opcode, types};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Entries of a ring: one operation at a time.
const ENTRIES: u32 = 4;

/// A connected socket that is used through its io_uring.
#[derive(Debug)]
pub(crate) struct RingSocket {
    ring: Ring,
    socket: OwnedFd,
    buffer: Vec<u8>,
}

struct Ring(IoUring);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl RingSocket {
    /// Sets up a ring for a socket with messages of up to `size` bytes.
    pub(crate) fn new(socket: OwnedFd, size: usize) -> io::Result<Self> {
        let ring = IoUring::builder().setup_clamp().build(ENTRIES)?;
        Ok(Self {
            ring: Ring(ring),
            socket,
            buffer: vec![0; size],
        })
    }

    /// The message being sent or received.
    pub(crate) fn payload(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Sends the payload. Sleeps while there is no room.
    pub(crate) fn send(&mut self) -> io::Result<usize> {
        let length = u32::try_from(self.buffer.len()).unwrap_or(u32::MAX);
        let socket = types::Fd(self.socket.as_raw_fd());
        let entry = opcode::Send::new(socket, self.buffer.as_ptr(), length).build();
        self.perform(&entry)
    }

    /// Receives into the payload. Sleeps until there is a message.
    pub(crate) fn receive(&mut self) -> io::Result<usize> {
        let length = u32::try_from(self.buffer.len()).unwrap_or(u32::MAX);
        let socket = types::Fd(self.socket.as_raw_fd());
        let entry = opcode::Recv::new(socket, self.buffer.as_mut_ptr(), length).build();
        self.perform(&entry)
    }

    /// Submits one operation and waits for its end; usually one system call.
    fn perform(&mut self, entry: &io_uring::squeue::Entry) -> io::Result<usize> {
        let ring = &mut self.ring.0;
        // SAFETY: the buffer lives until the operation's end has been seen: this function does not
        // return before, unless with an error, and then the buffer is given up for good.
        unsafe { ring.submission().push(entry) }.map_err(io::Error::other)?;
        loop {
            match ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    // The kernel may still write to it.
                    Vec::leak(std::mem::take(&mut self.buffer));
                    return Err(error);
                }
                _ => {}
            }
            if let Some(completion) = ring.completion().next() {
                return usize::try_from(completion.result())
                    .map_err(|_| io::Error::from_raw_os_error(-completion.result()));
            }
        }
    }
}
