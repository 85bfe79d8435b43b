//! A channel that a participant has mapped: its membership lock, its living participants, its
//! removal.

use super::attach::{self, BUSY_MAX};
use super::backing::{Backing, LaneShape};
use super::shape::{map_shape, read_record};
use super::slots;
use crate::error::OpenError;
use crate::liveness::Locks;
use crate::region::Words;
use crate::ring::layout::{Geometry, control, lane, lane_entry, lock_byte, slot};
use crate::segment::{self, CONTROL};
use crate::sync::Ordering;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A channel that this participant has mapped, with its own locks.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) channel: String,
    pub(crate) backing: Backing,
    pub(crate) control: Words,
    pub(crate) geometry: Geometry,
    pub(crate) locks: Locks,
    /// The slot of this participant, if it has one.
    pub(crate) slot: Option<usize>,
}

/// The membership lock, held: no other participant joins, leaves, creates or removes meanwhile.
#[derive(Debug)]
pub(crate) struct Membership<'a> {
    attached: &'a Attached,
}

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        self.attached.locks.unlock(lock_byte::MEMBERSHIP);
    }
}

impl Attached {
    /// The same channel for another participant of this process.
    ///
    /// # Errors
    ///
    /// [`OpenError::Missing`] for a channel of files, which each participant opens by its path.
    pub(super) fn attach_again(&self) -> Result<Self, OpenError> {
        let Backing::Process(memory) = &self.backing else {
            return Err(OpenError::Missing {
                channel: self.channel.clone(),
                path: self.backing.path().to_owned(),
            });
        };
        Ok(Self {
            channel: self.channel.clone(),
            backing: Backing::Process(Arc::clone(memory)),
            control: self.control.clone(),
            geometry: self.geometry.clone(),
            locks: memory.locks(),
            slot: None,
        })
    }

    /// Lane `index` as this channel requires it.
    pub(crate) fn lane(&self, index: usize) -> LaneShape<'_> {
        LaneShape {
            geometry: &self.geometry,
            incarnation: self.incarnation(),
            index,
        }
    }

    /// Takes the membership lock for leaving or removing.
    pub(crate) fn membership(&self) -> Result<Membership<'_>, OpenError> {
        lock_membership(self, Instant::now())?;
        Ok(Membership { attached: self })
    }

    /// The common part of leaving: `give_up` clears our words and drops our lock. The last
    /// participant removes the channel. It stays if a durable subscriber may return to it, or if no
    /// subscriber has seen its messages yet.
    pub(crate) fn leave(&mut self, give_up: impl FnOnce(&Self)) {
        let locked = lock_membership(self, Instant::now()).is_ok();
        // A shape that cannot be read is damaged. Then our words are cleared by the shape that we
        // know.
        let _ = self.refresh();
        give_up(self);
        if !locked {
            return;
        }
        if is_current(self) && is_abandoned(self) && !has_unseen_messages(self) {
            // The next opener or `olivine gc` removes what cannot be removed now.
            let _ = remove_files(self);
        }
        self.locks.unlock(lock_byte::MEMBERSHIP);
    }

    /// Loads the shape that a publisher has fixed since the channel was mapped.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if it cannot be read or mapped; the known shape stays.
    pub(crate) fn refresh(&mut self) -> Result<(), OpenError> {
        if !self.geometry.is_open() {
            return Ok(());
        }
        let path = self.backing.path().join(CONTROL);
        let damaged = |problem: String| OpenError::NotAChannel {
            path: path.clone(),
            problem: format!("{problem}; remove the channel with 'olivine rm --force'"),
        };
        let record = read_record(&self.control).map_err(damaged)?;
        let is_known = record == self.geometry || record.reopened() == self.geometry;
        if is_known && record.is_open() {
            return Ok(());
        }
        // Writable: only participants come here, and they map it writable.
        let file = self.control_file()?;
        let (geometry, control) = map_shape(file.as_fd(), &path, record, true)?;
        if let Some(slot) = self.slot
            && slot >= geometry.slots()
        {
            let slots = geometry.slots();
            return Err(damaged(format!(
                "its shape has {slots} slots and leaves out slot {slot}, which is in use"
            )));
        }
        (self.geometry, self.control) = (geometry, control);
        Ok(())
    }

    /// The control file, writable, through a new open file description. A mapping keeps its open
    /// file description alive in forked children that inherit the mapping. The locks of this
    /// participant must not stay held there.
    ///
    /// # Errors
    ///
    /// [`OpenError::Missing`] if the channel's files were removed.
    pub(super) fn control_file(&self) -> Result<OwnedFd, OpenError> {
        let (folder, locks) = match (&self.backing, &self.locks) {
            (Backing::Process(memory), _) => {
                let again = memory.control.try_clone();
                return again.map_err(attach::io_error("open", self.backing.path()));
            }
            (Backing::Files(folder), locks) => (folder, locks),
        };
        let file = segment::open_file(folder, CONTROL, true)?;
        let is_ours = |file: &OwnedFd| match locks {
            Locks::File(locks) => {
                let looks = (rustix::fs::fstat(locks.as_fd()), rustix::fs::fstat(file));
                matches!(looks, (Ok(a), Ok(b)) if segment::is_same_file(&a, &b))
            }
            // Channels of files are locked by their files.
            Locks::Process(_) => false,
        };
        file.filter(is_ours).ok_or_else(|| OpenError::Missing {
            channel: self.channel.clone(),
            path: self.backing.path().to_owned(),
        })
    }

    /// Wakes publishers that wait for room or for subscribers.
    pub(crate) fn wake_publishers(&self) {
        wake_publishers(&self.control, &self.geometry);
    }
}

/// Wakes every publisher of the channel that is parked.
pub(crate) fn wake_publishers(control: &Words, geometry: &Geometry) {
    // SeqCst: ROOM by a fence here: the changes in the slots come before the loads of the
    // park words.
    crate::sync::fence(Ordering::SeqCst);
    for index in 0..geometry.lanes() {
        let park = control.word(geometry.lane_entry(index) + lane_entry::PARK);
        // Relaxed: `wake` takes the word by read-modify-write (WAKE).
        if park.load(Ordering::Relaxed) != 0 {
            crate::wait::wake(park);
        }
    }
}

/// Takes the membership lock; waits until the others have finished.
pub(super) fn lock_membership(attached: &Attached, started: Instant) -> Result<(), OpenError> {
    let path = attached.backing.path();
    let mut pause = Duration::from_micros(20);
    while !attached
        .locks
        .try_lock(lock_byte::MEMBERSHIP)
        .map_err(|source| OpenError::Io {
            action: "lock",
            path: path.to_owned(),
            source,
        })?
    {
        if started.elapsed() > BUSY_MAX {
            // Relaxed: for the message only.
            let pid = attached.control.word(control::MEMBER_PID);
            let pid = pid.load(Ordering::Relaxed);
            return Err(attach::busy(&attached.channel, pid));
        }
        #[allow(
            clippy::disallowed_methods,
            reason = "a lock of the kernel's has no other bounded wait"
        )]
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
    // Relaxed: for messages only.
    attached
        .control
        .word(control::MEMBER_PID)
        .store(u64::from(std::process::id()), Ordering::Relaxed);
    Ok(())
}

/// Whether the channel's name still leads to the mapped control file.
pub(crate) fn is_current(attached: &Attached) -> bool {
    match (&attached.backing, &attached.locks) {
        (Backing::Files(folder), Locks::File(file)) => folder.is_current(file.as_fd()),
        _ => true,
    }
}

/// The process in slot `index`, if its subscriber lives or may return.
pub(super) fn is_slot_taken(attached: &Attached, index: usize) -> Option<u64> {
    let Attached {
        control,
        geometry,
        locks,
        ..
    } = attached;
    let byte = lock_byte::SLOT + index as u64;
    let taken = match slots::state(control, geometry, index) {
        slot::FREE => false,
        slot::DURABLE => true,
        _ => locks.held_by_others(byte, byte + 1),
    };
    // Relaxed: for the message only.
    let pid = control.word(geometry.slot(index) + slot::PID);
    taken.then(|| pid.load(Ordering::Relaxed))
}

/// Whether the channel's files were removed from their folder. Then no other program can find the
/// channel.
pub(crate) fn is_unlinked(attached: &Attached) -> bool {
    match &attached.locks {
        // A control file has exactly one name until it is removed.
        Locks::File(file) => rustix::fs::fstat(file.as_fd()).is_ok_and(|stat| stat.st_nlink == 0),
        Locks::Process(_) => false,
    }
}

/// Whether no participant lives.
pub(crate) fn is_empty(attached: &Attached) -> bool {
    !attached
        .locks
        .held_by_others(lock_byte::LANE, lock_byte::END)
}

/// Whether no participant lives and no durable subscriber may return.
pub(crate) fn is_abandoned(attached: &Attached) -> bool {
    is_empty(attached) && !slots::any_durable(&attached.control, &attached.geometry)
}

/// Whether the channel holds messages, and no subscriber ever joined it.
pub(crate) fn has_unseen_messages(attached: &Attached) -> bool {
    // Relaxed: read under the membership lock, written under it.
    if attached
        .control
        .word(control::SUBSCRIBERS_EVER)
        .load(Ordering::Relaxed)
        > 0
    {
        return false;
    }
    (0..attached.geometry.lanes()).any(|index| {
        let present = attached
            .control
            .word(attached.geometry.lane_entry(index) + lane_entry::PRESENT);
        present.load(Ordering::Acquire) != 0
            && match attached.backing.look_at_lane(&attached.lane(index)) {
                Ok(Some(words)) => {
                    words.word(lane::CURSOR).load(Ordering::Acquire) != attached.geometry.origin
                }
                Ok(None) => false,
                // Its content is unknown, so it must not be removed.
                Err(_) => true,
            }
    })
}

/// Marks the channel as removed and removes its files. The caller holds the membership lock.
pub(crate) fn remove_files(attached: &Attached) -> Result<(), OpenError> {
    attached
        .control
        .word(control::STATE)
        .store(control::REMOVED, Ordering::Release);
    match &attached.backing {
        Backing::Files(folder) => folder.remove(),
        Backing::Process(memory) => {
            memory.forget();
            Ok(())
        }
    }
}
