//! Subscribers that nobody trusts: each has a control file of its own, its *page*, which only it and the lane's
//! publisher map, and the publisher has one that it shares with nobody.
//!
//! The gate reads the publisher's own control file, as always. What subscribers say on their pages is collected
//! into it when the gate is asked; what cannot be true is not, and whoever said it is expelled. So no word that a
//! subscriber may write is ever an operand of the gate, or tells where to read or write.
//!
//! # Edges
//!
//! The edges are those of [`super::layout`], with a page in the place of the shared control file: **REUSE** ends in
//! [`Pages::collect`], **SLEEP** and **WAKE** in [`Sleepers::wake`], **ROOM** begins on the page of the slowest. The
//! gate's own loads then read what the publisher itself stored.

use super::gate::set_bit;
use super::layout::{Geometry, NO_POSITION, control, lane_entry, slot};
use crate::region::{Word, Words};
use crate::sync::{AtomicU64, Ordering, fence, light_side_is_covered, mutant, unless};
use crate::wait::{RAISED, wake_sleepers};
use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a subscriber did that no honest one does, or that the channel does not bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its position went back.
    Back { from: u64, to: u64 },
    /// Its position lies past everything published.
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
                "its position {position} lies past {published}, the end of what is published"
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

/// One subscriber's words, as its publisher uses them.
#[derive(Clone, Debug)]
struct Page {
    words: Words,
    position: Word,
    /// What the publisher sleeps on while it waits for this subscriber's room.
    room: Word,
    hint: Word,
}

#[derive(Debug)]
struct Seat {
    page: Page,
    gates: bool,
    fault: Option<Fault>,
}

/// The pages of all subscribers of one lane, by slot.
pub(crate) struct Pages {
    /// The publisher's own control file.
    control: Words,
    geometry: Geometry,
    /// Shape of a page.
    shape: Geometry,
    /// Raised when a page comes or goes.
    epoch: AtomicU64,
    seats: Mutex<Vec<Option<Seat>>>,
    /// Called when somebody was found out.
    bell: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").finish_non_exhaustive()
    }
}

/// Shape of the page of one subscriber of a channel: one lane, one slot.
pub(crate) fn page_of(geometry: &Geometry) -> Geometry {
    Geometry {
        publishers_max: 1,
        subscribers_max: 1,
        ..geometry.clone()
    }
}

impl Pages {
    /// For the lane 0 of `control`. `bell` is called by the publisher's thread when a subscriber was found out; it
    /// must not wait.
    pub(crate) fn new(
        control: &Words,
        geometry: &Geometry,
        bell: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            control: control.clone(),
            shape: page_of(geometry),
            epoch: AtomicU64::new(0),
            seats: Mutex::new((0..geometry.slots()).map(|_| None).collect()),
            geometry: geometry.clone(),
            bell: Box::new(bell),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the page of the subscriber that has joined in `slot`; from here on its position counts.
    pub(crate) fn admit(&self, slot: usize, words: &Words, gates: bool) {
        let page = Page {
            position: words.resolve(self.shape.position(0, 0)),
            room: words.resolve(self.shape.lane_entry(0) + lane_entry::PARK),
            hint: words.resolve(control::SLEEPERS),
            words: words.clone(),
        };
        let fault = None;
        let mut seats = self.lock();
        seats[slot] = Some(Seat { page, gates, fault });
        // Release: the page is in the list for whoever sees the number.
        self.epoch.fetch_add(1, Ordering::Release);
        wake_publisher(&seats);
    }

    /// Forgets the page in `slot`, and runs `give_up` before anybody else can have the slot.
    pub(crate) fn dismiss(&self, slot: usize, give_up: impl FnOnce()) {
        let mut seats = self.lock();
        give_up();
        wake_publisher(&seats);
        seats[slot] = None;
        // Release: as in `admit`.
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// Those who were found out, and have not been dismissed yet.
    pub(crate) fn faults(&self) -> Vec<(usize, Fault)> {
        let seats = self.lock();
        let found = seats.iter().enumerate();
        found
            .filter_map(|(slot, seat)| Some((slot, seat.as_ref()?.fault?)))
            .collect()
    }

    /// Takes over what the subscribers say about their positions, as far as it can be true: not before what they
    /// said last, not past `published`.
    pub(crate) fn collect(&self, published: u64) {
        let mut seats = self.lock();
        for (slot, seat) in seats.iter_mut().enumerate() {
            let Some(seat) = seat.as_mut().filter(|seat| seat.fault.is_none()) else {
                continue;
            };
            let state = self.control.word(self.geometry.slot(slot) + slot::STATE);
            // Relaxed: an eviction is the work of this thread.
            if state.load(Ordering::Relaxed) == slot::EVICTED {
                // Release: before anything is overwritten that it may be copying.
                let told = seat.page.words.word(self.shape.slot(0) + slot::STATE);
                told.store(slot::EVICTED, Ordering::Release);
                self.expel(slot, seat, Fault::Slow);
                continue;
            }
            if !seat.gates {
                continue;
            }
            let known = self.control.word(self.geometry.position(slot, 0));
            // Relaxed: only written under the lock, by whoever is the publisher.
            let before = known.load(Ordering::Relaxed);
            // REUSE (acquire): pairs with the release store in `Consumer::release_to`. What the subscriber read before
            // it let go of these bytes happens before we overwrite them.
            let said = seat
                .page
                .position
                .load(unless(mutant("reuse_page_relaxed"), Ordering::Acquire));
            if said == before {
                continue;
            }
            if said == NO_POSITION {
                // It is leaving: it holds nobody back any more.
                seat.gates = false;
                set_bit(&self.control, control::GATING, slot, false);
            } else if said < before {
                let fault = Fault::Back {
                    from: before,
                    to: said,
                };
                self.expel(slot, seat, fault);
            } else if said > published {
                let position = said;
                self.expel(
                    slot,
                    seat,
                    Fault::Ahead {
                        position,
                        published,
                    },
                );
            } else {
                // Relaxed: the gate that reads it is ours.
                known.store(said, Ordering::Relaxed);
            }
        }
    }

    /// The publisher found that `position`, which the subscriber in `slot` gave, is not the start of a frame.
    pub(crate) fn accuse(&self, slot: usize, position: u64) {
        let mut seats = self.lock();
        let known = self.control.word(self.geometry.position(slot, 0));
        // Relaxed: as in `collect`. Another one may have the slot by now, which said no such thing.
        let still = known.load(Ordering::Relaxed) == position;
        if let Some(seat) = seats[slot].as_mut().filter(|seat| seat.fault.is_none())
            && still
        {
            self.expel(slot, seat, Fault::Between { position });
        }
    }

    /// From here on it holds nobody back; whoever serves the socket does the rest.
    fn expel(&self, slot: usize, seat: &mut Seat, fault: Fault) {
        seat.fault = Some(fault);
        set_bit(&self.control, control::GATING, slot, false);
        (self.bell)();
    }

    /// What to sleep on until the slowest subscriber makes room: a word of its page, which it may write.
    pub(crate) fn room_of(&self, slot: usize) -> Option<Word> {
        let seats = self.lock();
        let seat = seats.get(slot)?.as_ref()?;
        Some(seat.page.room.clone())
    }
}

/// Who came or left may be what the publisher waits for, on whichever page it sleeps.
fn wake_publisher(seats: &[Option<Seat>]) {
    for seat in seats.iter().flatten() {
        crate::wait::wake(&seat.page.room);
    }
}

/// A publisher's view of those who may sleep: the pages, looked up again only when one came or went.
#[derive(Debug)]
pub(crate) struct Sleepers {
    pages: Arc<Pages>,
    epoch: u64,
    known: Vec<Page>,
    /// Whether a real fence is needed before looking at the hints.
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

    /// Wakes every subscriber that sleeps; returns how many. The caller has passed a light barrier.
    ///
    /// Whatever a page says, it costs at most one wake-up.
    pub(crate) fn wake(&mut self) -> u64 {
        if self.fence {
            // SeqCst: SLEEP without membarrier; our commit comes before the look at the hints.
            fence(Ordering::SeqCst);
        }
        // Acquire: the pages that the number counts are in the list. One that comes later was admitted before its
        // subscriber could sleep, and the heavy barrier of that sleep lets us see the number: SLEEP.
        if self.pages.epoch.load(Ordering::Acquire) != self.epoch {
            self.look_up();
        }
        let mut woken = 0;
        for page in &self.known {
            // Relaxed: only a hint to look; the waker reads it again (WAKE).
            if page.hint.load(Ordering::Relaxed) & RAISED != 0 {
                woken += wake_sleepers(&page.words, &self.pages.shape);
            }
        }
        woken
    }

    #[cold]
    fn look_up(&mut self) {
        let seats = self.pages.lock();
        // Relaxed: it changes under the lock only.
        self.epoch = self.pages.epoch.load(Ordering::Relaxed);
        self.known.clear();
        let pages = seats.iter().flatten().map(|seat| seat.page.clone());
        self.known.extend(pages);
    }
}
