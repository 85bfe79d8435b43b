//! Messages into a shard from any thread: a bounded queue, and waking the shard if it sleeps.
//!
//! The shard takes all waiting messages with one lock and swaps the buffers, so after warm-up
//! nothing is allocated. Whether the shard sleeps is kept under the same lock as the queue: either
//! the sender sees it asleep and wakes it, or the shard sees the message before it falls asleep.

use std::{
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::{driver::Waker, error::NotPosted, handler::Origin, sync::Flag};

/// An order or message to a shard.
#[derive(Debug)]
pub(crate) enum Letter<M> {
    /// A message to the handler.
    Message(M),
    /// A connection of another shard, or of the program.
    Connection(Passed),
    /// Finish, at this time at the latest.
    Stop(Instant),
}

/// A connection on its way to a shard.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) socket: OwnedFd,
    /// The listener it came from; `None` if the program passed it in.
    pub(crate) listener: Option<u16>,
    pub(crate) origin: Origin,
    /// Bytes that were received and not consumed.
    pub(crate) rest: Vec<u8>,
    #[cfg(feature = "rustls")]
    pub(crate) tls: Option<Box<crate::tls::Session>>,
}

impl Passed {
    /// As it comes from the kernel.
    pub(crate) fn fresh(socket: OwnedFd, listener: Option<u16>, origin: Origin) -> Self {
        Self {
            socket,
            listener,
            origin,
            rest: Vec::new(),
            #[cfg(feature = "rustls")]
            tls: None,
        }
    }
}

/// The box of one shard.
#[derive(Debug)]
pub(crate) struct Mailbox<M> {
    inner: Mutex<Inner<M>>,
    /// Whether the queue may hold something; saves the shard the lock on most rounds.
    full: Flag,
    max: usize,
}

#[derive(Debug)]
struct Inner<M> {
    letters: Vec<Letter<M>>,
    asleep: bool,
    closed: bool,
    waker: Option<Waker>,
}

impl<M> Mailbox<M> {
    pub(crate) fn new(max: usize) -> Self {
        let inner = Inner {
            letters: Vec::new(),
            asleep: false,
            closed: false,
            waker: None,
        };
        Self {
            inner: Mutex::new(inner),
            full: Flag::default(),
            max,
        }
    }

    /// Nothing in here panics while it holds the lock, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, Inner<M>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_waker(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }

    /// Adds a message; refuses it if the box is full or the shard is gone.
    pub(crate) fn post(&self, message: M) -> Result<(), NotPosted<M>> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(NotPosted::Closed(message));
        }
        if inner.letters.len() >= self.max {
            return Err(NotPosted::BackPressured(message));
        }
        self.push(&mut inner, Letter::Message(message));
        Ok(())
    }

    /// Adds a letter of the engine, which the limit does not bind; gives it back if the shard
    /// is gone.
    pub(crate) fn command(&self, letter: Letter<M>) -> Result<(), Letter<M>> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(letter);
        }
        self.push(&mut inner, letter);
        Ok(())
    }

    fn push(&self, inner: &mut Inner<M>, letter: Letter<M>) {
        inner.letters.push(letter);
        self.full.set(true);
        if std::mem::take(&mut inner.asleep)
            && let Some(waker) = &inner.waker
        {
            waker.wake();
        }
    }

    /// Takes everything into `into`, which must be empty.
    pub(crate) fn take(&self, into: &mut Vec<Letter<M>>) {
        if self.full.get() {
            let mut inner = self.lock();
            self.full.set(false);
            std::mem::swap(&mut inner.letters, into);
        }
    }

    /// Says that the shard is about to sleep; `false` if it must not, because something waits.
    pub(crate) fn fall_asleep(&self) -> bool {
        let mut inner = self.lock();
        inner.asleep = inner.letters.is_empty();
        inner.asleep
    }

    /// Says that the shard is awake, so that no sender pays for waking it.
    pub(crate) fn wake_up(&self) {
        self.lock().asleep = false;
    }

    /// Takes no more letters if none waits, or in any case if `anyway`; those that wait can still
    /// be taken. Returns whether the shard may leave: none waits, and none will come.
    pub(crate) fn end(&self, anyway: bool) -> bool {
        let mut inner = self.lock();
        let empty = inner.letters.is_empty();
        inner.closed |= empty || anyway;
        empty
    }

    /// Takes no more letters and drops those that wait; returns how many connections were among
    /// them.
    pub(crate) fn close(&self) -> usize {
        let mut inner = self.lock();
        inner.closed = true;
        inner.waker = None;
        let letters = std::mem::take(&mut inner.letters);
        drop(inner);
        let connection = |letter: &&Letter<M>| matches!(letter, Letter::Connection(_));
        letters.iter().filter(connection).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_or_closed_mailbox_returns_the_message() {
        let mailbox = Mailbox::new(2);
        mailbox.post('a').unwrap();
        mailbox.post('b').unwrap();
        assert!(matches!(
            mailbox.post('c'),
            Err(NotPosted::BackPressured('c'))
        ));
        assert!(!mailbox.fall_asleep());
        let mut letters = Vec::new();
        mailbox.take(&mut letters);
        assert_eq!(letters.len(), 2);
        assert!(mailbox.fall_asleep());
        assert!(mailbox.command(Letter::Message('c')).is_ok());
        // What was taken in before the end is read, and only then is there an end.
        assert!(!mailbox.end(false));
        assert!(mailbox.command(Letter::Message('d')).is_ok());
        assert!(!mailbox.end(true));
        assert!(mailbox.command(Letter::Message('e')).is_err());
        letters.clear();
        mailbox.take(&mut letters);
        assert_eq!(letters.len(), 2);
        assert!(mailbox.end(false));
        assert_eq!(mailbox.close(), 0);
        assert!(mailbox.command(Letter::Message('d')).is_err());
        assert!(matches!(mailbox.post('d'), Err(NotPosted::Closed('d'))));
    }
}
