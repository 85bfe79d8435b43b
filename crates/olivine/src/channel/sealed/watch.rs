//! A subscriber's thread that waits for the end of its publisher, and says which end it was.

use super::wire::{LONGEST, Said, Why};
use crate::channel::attach::io_error;
use crate::channel::attached::Attached;
use crate::error::{LinkError, OpenError, SealedError};
use crate::fork::ClosedInChildren;
use crate::link::{Control, LinkStage};
use crate::liveness::Peer;
use crate::region::Words;
use crate::ring::layout::{control, lane, lock_byte, slot};
use crate::sync::{Ordering, fence};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// What a subscriber holds of its publisher's life.
#[derive(Debug)]
pub(super) struct Lifeline {
    path: PathBuf,
    socket: ClosedInChildren,
    death: Option<OwnedFd>,
    /// Stands for the publisher in the subscriber's own table of locks: holds the lane's as long as it lives.
    stand_in: Attached,
    /// The lane's header.
    lane: Words,
    /// The subscriber's own page.
    page: Words,
    park: usize,
}

impl Lifeline {
    pub(super) fn new(
        path: &Path,
        socket: ClosedInChildren,
        peer: Peer,
        attached: &Attached,
        lane: &Words,
    ) -> Result<Self, OpenError> {
        let stand_in = attached.beside()?;
        let locked = stand_in.locks.try_lock(lock_byte::LANE);
        locked.map_err(io_error("lock", path))?;
        Ok(Self {
            path: path.to_owned(),
            socket,
            death: peer.death(),
            stand_in,
            lane: lane.clone(),
            page: attached.control.clone(),
            park: attached.geometry.slot(0) + slot::PARK,
        })
    }

    /// Waits for the end of the publisher, or for the wish to end.
    ///
    /// # Errors
    ///
    /// Why the channel was lost, unless its publisher closed it.
    pub(super) fn run(self, control: &Control) -> Result<(), LinkError> {
        control.report(|status| {
            status.stage = LinkStage::Connected;
            (status.peers, status.connections) = (1, 1);
            status.address = self.path.display().to_string();
        });
        control.tried();
        let outcome = self.wait(control);
        if let Err(error) = &outcome {
            control.give_up(error);
        }
        // From here on the lane counts as left.
        drop(self.stand_in);
        // Whoever sleeps or watches looks again: the number of lanes is news, though there is no new one.
        self.page
            .word(control::LANES_EPOCH)
            .fetch_add(1, Ordering::Release);
        // SeqCst: SLEEP by a fence of our own: the number comes before the look at the park word.
        fence(Ordering::SeqCst);
        crate::wait::wake(self.page.word(self.park));
        outcome
    }

    fn wait(&self, control: &Control) -> Result<(), LinkError> {
        let socket = self.socket.borrow();
        loop {
            let mut waited = vec![
                PollFd::from_borrowed_fd(control.wake_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(socket, PollFlags::IN | PollFlags::RDHUP),
            ];
            if let Some(death) = &self.death {
                waited.push(PollFd::from_borrowed_fd(death.as_fd(), PollFlags::IN));
            }
            match poll(&mut waited, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    return Err(super::listen::refused("watch", &self.path)(errno).into());
                }
            }
            let news = |at: usize| waited.get(at).is_some_and(|fd| !fd.revents().is_empty());
            if news(0) {
                return Ok(());
            }
            if news(1) || news(2) {
                return self.end();
            }
        }
    }

    /// The publisher's end of the socket said something, or nothing any more.
    fn end(&self) -> Result<(), LinkError> {
        let mut bytes = [0; LONGEST + 1];
        let got = recv(self.socket.borrow(), &mut bytes[..], RecvFlags::DONTWAIT);
        let (length, _) = got.unwrap_or((0, 0));
        let socket = self.path.clone();
        if length > 0 {
            let reason = match Said::from_bytes(&bytes[..length.min(bytes.len())]) {
                // The page says so too: the next call answers `Evicted`.
                Ok(Said::Refusal(refusal)) if refusal.why == Why::Slow => return Ok(()),
                Ok(Said::Refusal(refusal)) => refusal.text,
                Ok(_) => "it answered twice".to_owned(),
                Err(problem) => problem,
            };
            return Err(SealedError::Expelled { socket, reason }.into());
        }
        // Acquire: closed comes after the last frame, and before the end of the socket.
        let state = self.lane.word(lane::STATE).load(Ordering::Acquire);
        if state & 1 == 0 {
            return Ok(());
        }
        Err(SealedError::Died { socket }.into())
    }
}
