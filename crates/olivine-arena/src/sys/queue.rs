//! Message queues of the kernel: System V and POSIX.

use super::{checked, length};
use std::ffi::CStr;
use std::{io, ptr};

/// Message type of everything that goes through a System V queue.
const KIND: libc::c_long = 1;
/// Bytes of the message type before each System V message.
const KIND_BYTES: usize = size_of::<libc::c_long>();
/// Messages that a POSIX queue of ours holds; the default limit for users is 10.
const POSIX_MESSAGES: libc::c_long = 8;

/// A System V queue.
#[derive(Debug)]
pub struct SystemV {
    id: i32,
    /// Type and payload of the message being sent or received; aligned for the type.
    message: Vec<libc::c_long>,
    size: usize,
}

impl SystemV {
    /// Makes a queue; returns its number.
    pub fn make() -> io::Result<i32> {
        // SAFETY: takes no pointers.
        checked(unsafe { libc::msgget(libc::IPC_PRIVATE, libc::IPC_CREAT | 0o600) })
    }

    /// Removes a queue that this user made. A missing queue, or that of another user, is left as it
    /// is.
    pub fn remove(id: i32) {
        // SAFETY: all bytes zero are a valid `msqid_ds`.
        let mut found: libc::msqid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: the structure lives, and is what this command writes.
        let looked = unsafe { libc::msgctl(id, libc::IPC_STAT, &raw mut found) };
        if looked == 0 && found.msg_perm.cuid == rustix::process::geteuid().as_raw() {
            // SAFETY: takes no pointers with this command.
            unsafe { libc::msgctl(id, libc::IPC_RMID, ptr::null_mut()) };
        }
    }

    /// An end for messages of `size` bytes.
    pub fn open(id: i32, size: usize) -> Self {
        let words = 1 + size.div_ceil(KIND_BYTES);
        let mut message = vec![0; words];
        message[0] = KIND;
        Self { id, message, size }
    }

    /// The payload of the message being sent or received.
    pub fn payload(&mut self) -> &mut [u8] {
        let base = self.message[1..].as_mut_ptr().cast();
        // SAFETY: the words behind the first hold at least `size` bytes, and `self` is borrowed
        // mutably.
        unsafe { std::slice::from_raw_parts_mut(base, self.size) }
    }

    /// Sends the payload. Sleeps while the queue is full.
    pub fn send(&mut self) -> io::Result<()> {
        let message = self.message.as_ptr().cast();
        // SAFETY: the buffer holds the type and `size` bytes.
        checked(unsafe { libc::msgsnd(self.id, message, self.size, 0) })?;
        Ok(())
    }

    /// Receives into the payload; returns its length. Sleeps while the queue is empty.
    pub fn receive(&mut self) -> io::Result<usize> {
        let message = self.message.as_mut_ptr().cast();
        // SAFETY: the buffer has room for the type and `size` bytes; a longer message is an error.
        length(unsafe { libc::msgrcv(self.id, message, self.size, KIND, 0) })
    }
}

/// A POSIX queue.
#[derive(Debug)]
pub struct Posix {
    descriptor: libc::mqd_t,
}

impl Posix {
    /// Makes a queue for messages of `size` bytes. `name` is new and starts with a slash.
    pub fn make(name: &CStr, size: usize) -> io::Result<Self> {
        // SAFETY: all bytes zero are a valid `mq_attr`.
        let mut form: libc::mq_attr = unsafe { std::mem::zeroed() };
        form.mq_maxmsg = POSIX_MESSAGES;
        form.mq_msgsize = libc::c_long::try_from(size).unwrap_or(libc::c_long::MAX);
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        let mode: libc::mode_t = 0o600;
        // SAFETY: name and attributes live; with O_CREAT the call takes a mode and attributes.
        let descriptor = unsafe { libc::mq_open(name.as_ptr(), flags, mode, &raw mut form) };
        checked(descriptor)?;
        Ok(Self { descriptor })
    }

    /// Opens a queue.
    pub fn open(name: &CStr) -> io::Result<Self> {
        // SAFETY: the name lives.
        let descriptor = unsafe { libc::mq_open(name.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        checked(descriptor)?;
        Ok(Self { descriptor })
    }

    /// Removes a queue's name. A missing one is fine.
    pub fn remove(name: &CStr) {
        // SAFETY: the name lives.
        unsafe { libc::mq_unlink(name.as_ptr()) };
    }

    /// Sends a message. Sleeps while the queue is full.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        let base = message.as_ptr().cast();
        // SAFETY: the message lives.
        checked(unsafe { libc::mq_send(self.descriptor, base, message.len(), 0) })?;
        Ok(())
    }

    /// Receives a message; returns its length. Sleeps while the queue is empty.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let base = buffer.as_mut_ptr().cast();
        // SAFETY: the buffer lives and is as long as said.
        length(unsafe { libc::mq_receive(self.descriptor, base, buffer.len(), ptr::null_mut()) })
    }
}

impl Drop for Posix {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and is closed once.
        unsafe { libc::mq_close(self.descriptor) };
    }
}
