//! Waiting in event loops and tasks: a thread parks for them, signals an `eventfd` and wakes the
//! task.

use super::own_thread::OwnThread;
use super::slow_state::{SubscriberSlowState, watch_peers};
use super::waiting::wake_task;
use crate::link::Control;
use crate::liveness::LockReader;
use crate::region::Word;
use crate::ring::consume::{Consumer, WatchPoint};
use crate::ring::layout::slot;
use crate::sync::Ordering;
use crate::wait::{Sleeper, wake, warden};
use core::task::Waker;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The panic of a subscriber whose thread has panicked.
const PANICKED: &str = "the thread that waits for a subscriber panicked: please report what it \
                        printed";

/// A thread that parks on behalf of a subscriber.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    sleeper: Sleeper,
    thread: Option<OwnThread>,
}

#[derive(Debug)]
struct Shared {
    event: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What to watch: the next header of each lane, and its state word with its value at the start.
    lanes: Vec<WatchPoint>,
    /// The publishers of the lanes.
    peers: Vec<warden::Peer>,
    epoch: u64,
    /// Counts changes of what to watch, so that the thread detects them.
    generation: u64,
    armed: bool,
    fired: bool,
    /// The task to wake at the next change.
    waker: Option<Waker>,
    stop: bool,
    has_panicked: bool,
}

impl State {
    /// Whether the thread already watches these positions.
    fn is_at(&self, lanes: &[Consumer], epoch: u64) -> bool {
        let positions = lanes.iter().map(Consumer::position);
        self.epoch == epoch
            && self
                .lanes
                .iter()
                .map(|watched| watched.position)
                .eq(positions)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a change: by the descriptor, and to the task.
    fn fire(&self, mut state: MutexGuard<'_, State>) {
        state.armed = false;
        state.fired = true;
        let waker = state.waker.take();
        // An eventfd whose count is full is readable already.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        drop(state);
        // Without the lock: an executor may poll the task in this call.
        if let Some(waker) = waker {
            wake_task(waker);
        }
    }

    /// The thread has panicked: the next call that waits gets that.
    fn fail(&self) {
        let mut state = self.lock();
        state.has_panicked = true;
        self.fire(state);
    }
}

impl Watch {
    /// Starts the thread. `epoch` counts lanes, `slot_state` shows an eviction, `link` shows the
    /// end of the bridge behind the ring.
    pub(super) fn start(
        sleeper: Sleeper,
        locks: LockReader,
        epoch: Word,
        slot_state: Word,
        link: Option<Arc<Control>>,
    ) -> io::Result<Self> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let event = rustix::event::eventfd(0, flags)?;
        let shared = Arc::new(Shared {
            event,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let thread = OwnThread::start("olivine-watch", {
            let (shared, sleeper) = (Arc::clone(&shared), sleeper.clone());
            move || {
                let link = link.as_deref();
                let watch = || run(&shared, &sleeper, &locks, &epoch, &slot_state, link);
                // A bug of this crate must not leave a subscriber waiting for ever.
                if catch_unwind(AssertUnwindSafe(watch)).is_err() {
                    shared.fail();
                }
            }
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

    /// Keeps the waker of a task for the next change; it replaces an earlier one.
    pub(super) fn wake_next(&self, waker: &Waker) {
        let mut state = self.shared.lock();
        match &mut state.waker {
            Some(kept) => kept.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// A poll found nothing: clears the descriptor, and watches from the lanes' positions on.
    ///
    /// The number of lanes is the number that the subscriber has seen, so a later lane counts as a
    /// change.
    ///
    /// # Panics
    ///
    /// If the thread has panicked: a bug of this crate.
    pub(super) fn arm(&self, lanes: &[Consumer], slow_state: &SubscriberSlowState) {
        let epoch = slow_state.lanes_epoch;
        let mut state = self.shared.lock();
        if state.has_panicked {
            drop(state);
            // The thread's hook has printed why.
            resume_unwind(Box::new(PANICKED));
        }
        let was_armed = state.armed;
        if was_armed && state.is_at(lanes, epoch) {
            return;
        }
        if state.fired {
            // Clears the count, which may be zero.
            let _ = rustix::io::read(&self.shared.event, &mut [0; 8]);
            state.fired = false;
        }
        state.lanes.clear();
        let checked = slow_state.is_checked();
        let points = lanes.iter().map(|lane| lane.watch_point(checked));
        state.lanes.extend(points);
        if state.epoch != epoch || state.peers.len() != lanes.len() {
            let peers = lanes.iter().map(|lane| slow_state.publisher_of(lane));
            state.peers = peers.collect();
        }
        state.epoch = epoch;
        state.generation = state.generation.wrapping_add(1);
        state.armed = true;
        drop(state);
        if was_armed {
            // The program read without the descriptor: the thread must stop watching old positions.
            wake(&self.sleeper.park);
        } else {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_one();
        wake(&self.sleeper.park);
        if let Some(thread) = self.thread.take() {
            // An executor that polls the task in `wake` drops the subscriber in this very thread.
            thread.join();
        }
        // Wakes a waiter on a duplicate of the descriptor. If the count is full, the descriptor is
        // readable already.
        let _ = rustix::io::write(&self.shared.event, &1_u64.to_ne_bytes());
    }
}

fn run(
    shared: &Shared,
    sleeper: &Sleeper,
    locks: &LockReader,
    epoch: &Word,
    slot_state: &Word,
    link: Option<&Control>,
) {
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
        let (lanes, peers) = (state.lanes.clone(), state.peers.clone());
        let (seen_epoch, generation) = (state.epoch, state.generation);
        drop(state);
        let is_over = |state: &State| state.stop || state.generation != generation;
        let ready = || {
            // A message is there, or a lane closed, opened, appeared or overran us.
            lanes.iter().any(WatchPoint::has_changed)
                || epoch.load(Ordering::Acquire) != seen_epoch
                || slot_state.load(Ordering::Acquire) == slot::EVICTED
                || link.is_some_and(Control::has_failed)
                || is_over(&shared.lock())
        };
        crate::points::pass("watch.wait");
        while !ready() {
            sleeper.sleep(
                Duration::MAX,
                |watches| watch_peers(locks, watches, &sleeper.park, &peers),
                ready,
            );
        }
        let state = shared.lock();
        if is_over(&state) {
            continue;
        }
        shared.fire(state);
    }
}
