//! The thread of a subscriber that waits for the end of its publisher, and reports how it ended.

use super::wire::{Datagram, LONGEST, RefusalCode};
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

/// What a subscriber needs to watch its publisher.
#[derive(Debug)]
pub(super) struct PublisherWatch {
    path: PathBuf,
    socket: ClosedInChildren,
    death: Option<OwnedFd>,
    /// Holds the lane's lock in the subscriber's own table of locks, as long as the publisher
    /// lives.
    publisher_lock: Attached,
    /// The lane's header.
    lane: Words,
    /// The subscriber's own page.
    page: Words,
    park: usize,
}

impl PublisherWatch {
    pub(super) fn new(
        path: &Path,
        socket: ClosedInChildren,
        peer: Peer,
        attached: &Attached,
        lane: &Words,
    ) -> Result<Self, OpenError> {
        let publisher_lock = attached.attach_again()?;
        let locked = publisher_lock.locks.try_lock(lock_byte::LANE);
        locked.map_err(io_error("lock", path))?;
        Ok(Self {
            path: path.to_owned(),
            socket,
            death: peer.death(),
            publisher_lock,
            lane: lane.clone(),
            page: attached.control.clone(),
            park: attached.geometry.slot(0) + slot::PARK,
        })
    }

    /// Waits for the end of the publisher, or for a request to stop.
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
        // From here on the lane has no living publisher.
        drop(self.publisher_lock);
        // Wakes sleepers and watchers: the count of lanes changes, although there is no new lane.
        self.page
            .word(control::LANES_EPOCH)
            .fetch_add(1, Ordering::Release);
        // SeqCst: SLEEP by a fence here: the count comes before the load of the park word.
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
            let ready = |at: usize| waited.get(at).is_some_and(|fd| !fd.revents().is_empty());
            if ready(0) {
                return Ok(());
            }
            if ready(1) || ready(2) {
                return self.end();
            }
        }
    }

    /// Handles a datagram from the publisher's end, or its end.
    fn end(&self) -> Result<(), LinkError> {
        let mut bytes = [0; LONGEST + 1];
        let got = recv(self.socket.borrow(), &mut bytes[..], RecvFlags::DONTWAIT);
        let (length, _) = got.unwrap_or((0, 0));
        let socket = self.path.clone();
        if length > 0 {
            let reason = match Datagram::from_bytes(&bytes[..length.min(bytes.len())]) {
                // The page says it too: the next call returns `Evicted`.
                Ok(Datagram::Refusal(refusal)) if refusal.code == RefusalCode::Slow => {
                    return Ok(());
                }
                Ok(Datagram::Refusal(refusal)) => refusal.text,
                Ok(_) => "it answered twice".to_owned(),
                Err(problem) => problem,
            };
            return Err(SealedError::Expelled { socket, reason }.into());
        }
        // Acquire: "closed" comes after the last frame, and before the end of the socket.
        let state = self.lane.word(lane::STATE).load(Ordering::Acquire);
        if state & 1 == 0 {
            return Ok(());
        }
        Err(SealedError::Died { socket }.into())
    }
}
