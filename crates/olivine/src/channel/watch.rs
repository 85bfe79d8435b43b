//! The descriptor form of waiting: a thread parks for the event loop and signals an `eventfd`.

use crate::region::{Ring, Word};
use crate::ring::consume::Consumer;
use crate::ring::layout::slot;
use crate::sync::Ordering;
use crate::wait::{NAP_MAX, Sleeper, wake};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A parked stand-in for a subscriber.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    sleeper: Sleeper,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    event: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What to watch: the next header of each lane, and its state word with its value when we began.
    lanes: Vec<(Ring, u64, Word, u64)>,
    epoch: u64,
    armed: bool,
    fired: bool,
    stop: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Starts the thread. `epoch` counts lanes, `slot_state` tells of an eviction.
    pub(super) fn start(sleeper: Sleeper, epoch: Word, slot_state: Word) -> io::Result<Self> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let event = rustix::event::eventfd(0, flags)?;
        let shared = Arc::new(Shared {
            event,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let thread = std::thread::Builder::new()
            .name("olivine-watch".into())
            .spawn({
                let (shared, sleeper) = (Arc::clone(&shared), sleeper.clone());
                move || run(&shared, &sleeper, &epoch, &slot_state)
            })?;
        Ok(Self {
            shared,
            sleeper,
            thread: Some(thread),
        })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    /// A poll found nothing: clears the descriptor and watches from where the lanes are now.
    ///
    /// `epoch` is the number of lanes' changes that the subscriber has seen: a later one is news.
    pub(super) fn arm(&self, lanes: &[Consumer], epoch: u64) {
        let mut state = self.shared.lock();
        if state.armed {
            return;
        }
        if state.fired {
            // Clears the count; an empty one is fine too.
            let _ = rustix::io::read(&self.shared.event, &mut [0; 8]);
            state.fired = false;
        }
        state.lanes.clear();
        state.lanes.extend(lanes.iter().map(Consumer::watch_point));
        state.epoch = epoch;
        state.armed = true;
        drop(state);
        self.shared.changed.notify_one();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_one();
        wake(&self.sleeper.park);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing left to do for us.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, sleeper: &Sleeper, epoch: &Word, slot_state: &Word) {
    loop {
        let mut state = shared.lock();
        while !state.armed && !state.stop {
            state = shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.stop {
            return;
        }
        let lanes = state.lanes.clone();
        let seen_epoch = state.epoch;
        drop(state);
        let ready = || {
            // COMMIT (acquire): a message is there. A lane that closed, opened or appeared is news too.
            lanes
                .iter()
                .any(|(ring, position, ..)| ring.header(*position).load(Ordering::Acquire) != 0)
                || lanes
                    .iter()
                    .any(|(.., lane_state, before)| lane_state.load(Ordering::Acquire) != *before)
                || epoch.load(Ordering::Acquire) != seen_epoch
                || slot_state.load(Ordering::Acquire) == slot::EVICTED
                || shared.lock().stop
        };
        while !ready() {
            sleeper.sleep(NAP_MAX, ready);
        }
        let mut state = shared.lock();
        state.armed = false;
        state.fired = true;
        // An eventfd that is full is readable already.
        let _ = rustix::io::write(&shared.event, &1_u64.to_ne_bytes());
    }
}
