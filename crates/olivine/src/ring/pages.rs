//! Private pages, for subscribers that are not trusted. Each has a *page*: a small control file
//! that only it and the lane's publisher map. The publisher has its own, private control file.
//!
//! The gate reads the publisher's control file. Before each scan the positions on the pages are
//! checked and copied into it. A subscriber with an invalid position is expelled. So the gate never
//! uses a word that a subscriber can write, and no such word selects an address.
//!
//! # Edges
//!
//! The edges are those of [`super::layout`], with a page instead of the shared control file.
//! **REUSE** ends in [`Pages::collect`], **SLEEP** and **WAKE** end in [`Sleepers::wake`]. **ROOM**
//! begins on the page of the slowest subscriber. The gate's loads read words that the publisher
//! stored.

use super::gate::set_bit;
use super::layout::{Geometry, NO_POSITION, control, lane_entry, slot};
use crate::region::{Word, Words};
use crate::sync::{AtomicU64, Ordering, fence, light_side_is_covered, mutant, unless};
use crate::wait::{Hint, RAISED, wake_sleepers};
use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A violation of the protocol, or of `slow=evict:`, by a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its position went back.
    Back { from: u64, to: u64 },
    /// Its position is after the end of everything published.
    Ahead { position: u64, published: u64 },
    /// Its position is not the start of a frame.
    Between { position: u64 },
    /// It held the publisher back for longer than the channel allows.
    Slow,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Back { from, to } => write!(f, "its position went back from {from} to {to}"),
            Self::Ahead {
                position,
                published,
            } => write!(
                f,
                "its position {position} is after {published}, the end of the published messages"
            ),
            Self::Between { position } => {
                write!(f, "its position {position} is not the start of a message")
            }
            Self::Slow => {
                f.write_str("it held the publisher back for longer than 'slow=evict:' allows")
            }
        }
    }
}

/// One subscriber's words, as the publisher uses them.
#[derive(Clone, Debug)]
struct Page {
    words: Words,
    position: Word,
    /// The word on which the publisher sleeps while it waits for this subscriber.
    room: Word,
    hint: Word,
}

#[derive(Debug)]
struct PageSlot {
    page: Page,
    gates: bool,
    fault: Option<Fault>,
}

/// The pages of all subscribers of one lane, by slot.
pub(crate) struct Pages {
    /// The publisher's private control file.
    control: Words,
    geometry: Geometry,
    /// Geometry of a page.
    shape: Geometry,
    /// Counts the pages that were added or removed.
    epoch: AtomicU64,
    slots: Mutex<Vec<Option<PageSlot>>>,
    /// Called when a subscriber was expelled.
    on_fault: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").finish_non_exhaustive()
    }
}

/// Geometry of the page of one subscriber: one lane, one slot.
pub(crate) fn page_of(geometry: &Geometry) -> Geometry {
    Geometry {
        publishers_max: 1,
        subscribers_max: 1,
        ..geometry.clone()
    }
}

impl Pages {
    /// For lane 0 of `control`. The publisher's thread calls `on_fault` when it expels a
    /// subscriber; it must not wait.
    pub(crate) fn new(
        control: &Words,
        geometry: &Geometry,
        on_fault: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            control: control.clone(),
            shape: page_of(geometry),
            epoch: AtomicU64::new(0),
            slots: Mutex::new((0..geometry.slots()).map(|_| None).collect()),
            geometry: geometry.clone(),
            on_fault: Box::new(on_fault),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<PageSlot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the page of the subscriber that has joined in `slot`. From here on its position counts.
    pub(crate) fn admit(&self, slot: usize, words: &Words, gates: bool) {
        let page = Page {
            position: words.resolve(self.shape.position(0, 0)),
            room: words.resolve(self.shape.lane_entry(0) + lane_entry::PARK),
            hint: words.resolve(control::SLEEPERS),
            words: words.clone(),
        };
        let fault = None;
        let mut slots = self.lock();
        slots[slot] = Some(PageSlot { page, gates, fault });
        // Release: a thread that sees the number sees the page in the list.
        self.epoch.fetch_add(1, Ordering::Release);
        wake_publisher(&slots);
    }

    /// Removes the page in `slot`, and runs `give_up` before another subscriber can get the slot.
    /// `may_overwrite`: the publisher goes on, and does not wait for this subscriber any more.
    pub(crate) fn remove_page(&self, slot: usize, may_overwrite: bool, give_up: impl FnOnce()) {
        let mut slots = self.lock();
        if let Some(entry) = slots[slot].as_ref().filter(|_| may_overwrite) {
            self.release_slot(entry);
        }
        give_up();
        wake_publisher(&slots);
        slots[slot] = None;
        // Release: as in `admit`.
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// Slots of expelled subscribers whose pages were not removed yet, with the faults.
    pub(crate) fn faults(&self) -> Vec<(usize, Fault)> {
        let slots = self.lock();
        let found = slots.iter().enumerate();
        found
            .filter_map(|(slot, entry)| Some((slot, entry.as_ref()?.fault?)))
            .collect()
    }

    /// Copies valid positions from the pages: not before the last one, not after `published`.
    pub(crate) fn collect(&self, published: u64) {
        let mut slots = self.lock();
        for (slot, entry) in slots.iter_mut().enumerate() {
            let Some(entry) = entry.as_mut().filter(|entry| entry.fault.is_none()) else {
                continue;
            };
            let state = self.control.word(self.geometry.slot(slot) + slot::STATE);
            // Relaxed: this thread evicts.
            if state.load(Ordering::Relaxed) == slot::EVICTED {
                self.expel(slot, entry, Fault::Slow);
                continue;
            }
            if !entry.gates {
                continue;
            }
            let accepted = self.control.word(self.geometry.position(slot, 0));
            // Relaxed: only the publisher writes it, under the lock.
            let before = accepted.load(Ordering::Relaxed);
            // REUSE (acquire): pairs with the release store in `Consumer::release_to`. The
            // subscriber's reads of these bytes happen before we overwrite them.
            let reported = entry
                .page
                .position
                .load(unless(mutant("reuse_page_relaxed"), Ordering::Acquire));
            if reported == before {
                continue;
            }
            if reported == NO_POSITION {
                // It is leaving and does not gate any more.
                entry.gates = false;
                set_bit(&self.control, control::GATING, slot, false);
            } else if reported < before {
                let fault = Fault::Back {
                    from: before,
                    to: reported,
                };
                self.expel(slot, entry, fault);
            } else if reported > published {
                let position = reported;
                self.expel(
                    slot,
                    entry,
                    Fault::Ahead {
                        position,
                        published,
                    },
                );
            } else {
                // Relaxed: only our gate reads it.
                accepted.store(reported, Ordering::Relaxed);
            }
        }
    }

    /// Expels the subscriber in `slot`: its `position` is not the start of a frame.
    pub(crate) fn report_invalid_position(&self, slot: usize, position: u64) {
        let mut slots = self.lock();
        let accepted = self.control.word(self.geometry.position(slot, 0));
        // Relaxed: as in `collect`. Another subscriber may have the slot by now, with another
        // position.
        let still = accepted.load(Ordering::Relaxed) == position;
        if let Some(entry) = slots[slot].as_mut().filter(|entry| entry.fault.is_none())
            && still
        {
            self.expel(slot, entry, Fault::Between { position });
        }
    }

    /// Says on the page that its subscriber holds the publisher back no longer.
    fn release_slot(&self, entry: &PageSlot) {
        let state = match entry.fault {
            Some(Fault::Slow) => slot::EVICTED,
            _ => slot::FREE,
        };
        if !mutant("page_state_kept") {
            // OVERRUN (release): before its gating bit is cleared, and before bytes are overwritten
            // that it may be copying.
            let word = entry.page.words.word(self.shape.slot(0) + slot::STATE);
            word.store(state, Ordering::Release);
        }
    }

    /// From here on it does not gate. The thread that serves the socket does the rest.
    fn expel(&self, slot: usize, entry: &mut PageSlot, fault: Fault) {
        entry.fault = Some(fault);
        self.release_slot(entry);
        set_bit(&self.control, control::GATING, slot, false);
        (self.on_fault)();
    }

    /// The word to sleep on until the slowest subscriber makes room. It is on its page, which it
    /// can write.
    pub(crate) fn room_of(&self, slot: usize) -> Option<Word> {
        let slots = self.lock();
        let entry = slots.get(slot)?.as_ref()?;
        Some(entry.page.room.clone())
    }
}

/// Wakes the publisher, on any page: a change of subscribers may be what it waits for.
fn wake_publisher(slots: &[Option<PageSlot>]) {
    for entry in slots.iter().flatten() {
        crate::wait::wake(&entry.page.room);
    }
}

/// A publisher's list of pages whose subscribers may sleep. It is read again only after a change.
#[derive(Debug)]
pub(crate) struct Sleepers {
    pages: Arc<Pages>,
    epoch: u64,
    known: Vec<Page>,
    /// Whether a real fence is needed before the loads of the hints.
    fence: bool,
}

impl Sleepers {
    pub(crate) fn new(pages: &Arc<Pages>) -> Self {
        Self {
            pages: Arc::clone(pages),
            epoch: 0,
            known: Vec::new(),
            fence: !light_side_is_covered(),
        }
    }

    /// The pages.
    pub(crate) fn pages(&self) -> &Arc<Pages> {
        &self.pages
    }

    /// Wakes every subscriber that sleeps; returns how many, and `None` if no hint is raised. The
    /// caller has passed a light barrier.
    ///
    /// Each page costs at most one wake-up, also with invalid words.
    pub(crate) fn wake(&mut self, after: Hint) -> Option<u64> {
        if self.fence {
            // SeqCst: SLEEP without membarrier; our commit comes before the loads of the hints.
            fence(Ordering::SeqCst);
        }
        // Acquire: the pages that the number counts are in the list. A later page was added before
        // its subscriber could sleep. The heavy barrier of its first sleep makes the number
        // visible: SLEEP.
        if self.pages.epoch.load(Ordering::Acquire) != self.epoch {
            self.look_up();
        }
        let mut woken = None;
        for page in &self.known {
            // Relaxed: only a hint; the waker reads it again (WAKE).
            if page.hint.load(Ordering::Relaxed) & RAISED != 0 {
                let here = wake_sleepers(&page.words, &self.pages.shape, after);
                woken = here.map(|here| woken.unwrap_or(0) + here).or(woken);
            }
        }
        woken
    }

    #[cold]
    fn look_up(&mut self) {
        let slots = self.pages.lock();
        // Relaxed: it changes under the lock only.
        self.epoch = self.pages.epoch.load(Ordering::Relaxed);
        self.known.clear();
        let pages = slots.iter().flatten().map(|entry| entry.page.clone());
        self.known.extend(pages);
    }
}
