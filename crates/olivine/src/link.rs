//! The connection of a handle to the thread of its bridge.
//!
//! A publisher or subscriber of `tcp://`, `nats://` or `file://` is a handle of a ring in this
//! process with a [`Link`]. The link is a thread that runs a bridge between that ring and the far
//! side. Handle and thread share a [`Control`]: the handle asks the thread to end, and the thread
//! reports its status and its failure. No message touches it.

use crate::error::{LinkError, chain};
use crate::region::Word;
use crate::sync::{AtomicU64, Ordering, fence};
use crate::wait::wake;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest pause of a bridge in one call.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The state of a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkStage {
    /// No far side is connected: the bridge waits for one, or tries again.
    #[default]
    Waiting,
    /// A far side is connected.
    Connected,
    /// The far side has ended the channel, or this side was closed.
    Ended,
    /// It failed; the next call of the handle returns the reason.
    Failed,
}

impl LinkStage {
    /// The word used in output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Connected => "connected",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for LinkStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The state of a bridge, and its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkStatus {
    /// The state.
    pub stage: LinkStage,
    /// What it waits for, or its newest problem: one line, empty if there is none.
    pub note: String,
    /// Address on which it waits for far sides; empty if it does not.
    pub address: String,
    /// Far sides connected now.
    pub peers: usize,
    /// Connections made so far.
    pub connections: u64,
    /// Connections that broke or could not be made.
    pub failures: u64,
    /// Far sides that were refused.
    pub refusals: u64,
    /// Far subscribers that were given up without all messages or the end: evicted, or absent for
    /// longer than they had asked for.
    pub abandoned: u64,
    /// Messages that were published before the bridge was asked to end, and that it did not
    /// deliver. Known once it has ended. Counted for each served far side.
    pub undelivered: u64,
    /// Messages that arrived and were committed, or that a journal recorded. A bridge that sends to
    /// `tcp://` counts bytes only.
    pub messages: u64,
    /// Bytes of frames carried, headers and padding included.
    pub bytes: u64,
    /// Bytes of frames that the far side has acknowledged, or that this side has.
    pub acknowledged_bytes: u64,
    /// Position in the journal behind the last message that a replay put into the ring of this
    /// handle, ahead of what the program has received; 0 elsewhere.
    pub journal_position: u64,
}

impl LinkStatus {
    /// Why a wait is in vain so far, if no far side is connected: what the bridge waits for, its
    /// newest problem, and how often it tried before the first connection. One line.
    #[must_use]
    pub fn unreached(&self) -> Option<String> {
        if self.stage != LinkStage::Waiting {
            return None;
        }
        let mut text = match self.connections {
            0 => "no far side has been connected",
            _ => "the link is waiting",
        }
        .to_owned();
        if !self.note.is_empty() {
            text = format!("{text}: {}", self.note);
        }
        match self.failures {
            _ if self.connections > 0 => {}
            0 => {}
            1 => text.push_str(", 1 try"),
            tries => text = format!("{text}, {tries} tries"),
        }
        Some(text)
    }
}

/// How a bridge is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// After everything was delivered, or at the deadline.
    Delivered(Option<Instant>),
    /// At once. Messages that were not delivered stay in the ring.
    Now,
}

/// The state that a handle and its bridge's thread share.
#[derive(Debug)]
pub struct Control {
    /// 1 once the bridge has failed: a waiting handle reads this word.
    failed: AtomicU64,
    /// 1 once the bridge was asked to end.
    stopping: AtomicU64,
    /// 1 once a far side has been connected.
    reached: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
    /// Readable once the bridge was asked to end.
    wake: OwnedFd,
    /// Park words of the handles of this bridge.
    sleepers: Mutex<Vec<Word>>,
    /// The process that has the bridge's thread.
    generation: u64,
}

#[derive(Debug, Default)]
struct State {
    status: LinkStatus,
    failure: Option<LinkError>,
    stop: Option<Stop>,
    /// The bridge was asked to free its slot in the ring once everything is delivered.
    leaves: bool,
    /// It did so.
    place_given_up: bool,
    /// The far side need not keep this side's session and name.
    forgets_name: bool,
    /// Everything was delivered.
    delivered: bool,
    /// Undelivered messages were given up.
    undelivered: bool,
    /// Every far side has the failure of the source.
    failure_delivered: bool,
    /// The outcome of the first attempt to reach the far side is known.
    tried: bool,
    /// The first attempt failed. A later failure is reported after the messages that arrived before
    /// it.
    failed_first: bool,
}

impl Control {
    /// For a bridge that is about to start.
    ///
    /// # Errors
    ///
    /// If the system has no descriptor left.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        Ok(Arc::new(Self {
            failed: AtomicU64::new(0),
            stopping: AtomicU64::new(0),
            reached: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
            wake: rustix::event::eventfd(0, flags)?,
            sleepers: Mutex::default(),
            generation: crate::fork::generation(),
        }))
    }

    /// Whether this process has the bridge's thread. A forked child has not: the thread may have
    /// held the lock at the fork, and a request would reach the parent by the shared descriptor.
    fn is_of_this_process(&self) -> bool {
        crate::fork::generation() == self.generation
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the bridge to end. A later `Now` replaces an earlier request, and a deadline replaces
    /// none. Does nothing in a forked child.
    pub(crate) fn stop(&self, stop: Stop) {
        if !self.is_of_this_process() {
            return;
        }
        let mut state = self.lock();
        let sooner = matches!(
            (state.stop, stop),
            (None, _) | (_, Stop::Now) | (Some(Stop::Delivered(None)), Stop::Delivered(Some(_)))
        );
        if sooner {
            state.stop = Some(stop);
        }
        // Release: pairs with `stopping`, which reads the request under the lock.
        self.stopping.store(1, Ordering::Release);
        drop(state);
        // An eventfd whose count is full is readable already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        self.changed.notify_all();
    }

    /// The request to end, if there is one.
    #[must_use]
    pub fn stopping(&self) -> Option<Stop> {
        // Acquire: pairs with `stop`; the usual answer costs one load.
        if self.stopping.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.lock().stop
    }

    /// Whether the bridge must end now.
    #[must_use]
    pub fn must_stop(&self) -> bool {
        match self.stopping() {
            Some(Stop::Now) => true,
            Some(Stop::Delivered(deadline)) => {
                deadline.is_some_and(|deadline| Instant::now() >= deadline)
            }
            None => false,
        }
    }

    /// Readable once the bridge was asked to end: for `poll`.
    #[must_use]
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// `longest`, but no longer than until the deadline of a request to end. What is done after the
    /// deadline has its own bounds: there it is `longest`.
    #[cfg(feature = "tcp")]
    pub(crate) fn until_deadline(&self, longest: Duration) -> Duration {
        let Some(Stop::Delivered(Some(deadline))) = self.stopping() else {
            return longest;
        };
        let left = deadline.checked_duration_since(Instant::now());
        let left = left.filter(|left| !left.is_zero());
        left.map_or(longest, |left| left.min(longest))
    }

    /// Waits up to `longest`, or until the bridge is asked to end. After a request to deliver the
    /// rest it waits the whole time, unless its deadline or another request comes.
    pub fn pause(&self, longest: Duration) {
        let longest = longest.min(PAUSE_MAX);
        let until = Instant::now() + longest;
        let mut state = self.lock();
        while state.stop.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        // If the rest must be delivered first, the pause before the next try goes on.
        if let Some(Stop::Delivered(deadline)) = state.stop {
            let until = deadline.map_or(until, |deadline| deadline.min(until));
            let left = until.saturating_duration_since(Instant::now());
            let _unlocked = self.changed.wait_timeout(state, left);
        }
    }

    /// Changes the status of the bridge. `change` must not call this control: it would wait for
    /// itself.
    pub fn report(&self, change: impl FnOnce(&mut LinkStatus)) {
        change(&mut self.lock().status);
    }

    /// The only far side is connected; `note` names it.
    pub fn connected(&self, note: String) {
        self.report(|status| {
            status.stage = LinkStage::Connected;
            status.note = note;
            status.peers = 1;
            status.connections += 1;
        });
        self.tried();
        if self.reached.swap(1, Ordering::AcqRel) == 0 {
            self.wake_handles();
        }
    }

    /// Whether [`Control::connected`] was called. One load.
    pub(crate) fn has_connected(&self) -> bool {
        self.reached.load(Ordering::Acquire) != 0
    }

    /// The first attempt to reach the far side has ended, with or without success.
    pub fn tried(&self) {
        self.lock().tried = true;
        self.changed.notify_all();
    }

    /// Asks the bridge to free its slot in the ring, if it ends with everything delivered. Does
    /// nothing in a forked child.
    pub(crate) fn leave(&self) {
        if self.is_of_this_process() {
            self.lock().leaves = true;
        }
    }

    /// Tells the far side, when the bridge ends, that this side does not come back. Does nothing in
    /// a forked child.
    pub(crate) fn forget_name(&self) {
        if self.is_of_this_process() {
            self.lock().forgets_name = true;
        }
    }

    /// Whether this side does not come back.
    #[cfg(feature = "tcp")]
    pub(crate) fn forgets_name(&self) -> bool {
        self.lock().forgets_name
    }

    /// Whether a bridge that has ended without a failure frees its slot in the ring: its source has
    /// ended, or it was asked to.
    pub(crate) fn leaves(&self) -> bool {
        let state = self.lock();
        (state.stop.is_none() || state.leaves) && !state.undelivered
    }

    /// The bridge has ended for good, and freed its slot in the ring.
    pub(crate) fn place_given_up(&self) {
        self.lock().place_given_up = true;
    }

    /// [`Control::place_given_up`] was called; not in a forked child.
    pub(crate) fn is_place_given_up(&self) -> bool {
        self.is_of_this_process() && self.lock().place_given_up
    }

    /// `messages` undelivered messages were given up.
    pub fn leave_undelivered(&self, messages: u64) {
        let mut state = self.lock();
        state.undelivered = true;
        state.status.undelivered += messages;
    }

    /// Every far side has confirmed the failure of the source with which the bridge ends, or a file
    /// or server keeps it.
    pub fn failure_delivered(&self) {
        self.lock().failure_delivered = true;
    }

    /// [`Control::failure_delivered`] was called.
    pub(crate) fn is_failure_delivered(&self) -> bool {
        self.lock().failure_delivered
    }

    /// The status of the bridge; in a forked child only a note that the parent has it.
    pub(crate) fn status(&self) -> LinkStatus {
        if self.is_of_this_process() {
            return self.lock().status.clone();
        }
        LinkStatus {
            note: "this process is a forked child: its parent has the bridge".to_owned(),
            ..LinkStatus::default()
        }
    }

    /// Whether the bridge failed. One load.
    #[inline]
    #[must_use]
    pub fn has_failed(&self) -> bool {
        // Acquire: what the bridge committed before the failure is visible.
        self.failed.load(Ordering::Acquire) != 0
    }

    /// Why the bridge failed; `None` in a forked child.
    pub(crate) fn failure(&self) -> Option<LinkError> {
        let state = self.is_of_this_process().then(|| self.lock())?;
        state.failure.clone()
    }

    /// Reports a failure before the bridge's end of the ring is closed. Otherwise the closing would
    /// look like the end of the stream.
    pub fn give_up(&self, error: &LinkError) {
        self.end(Err(error.clone()));
    }

    fn end(&self, outcome: Result<(), LinkError>) {
        let mut state = self.lock();
        state.status.peers = 0;
        match outcome {
            Ok(()) => {
                // Its last wait does not matter any more, unless it was in vain; its note about the
                // end does.
                if state.status.stage != LinkStage::Ended && !state.undelivered {
                    state.status.note.clear();
                }
                state.status.stage = LinkStage::Ended;
                state.delivered = !state.undelivered;
            }
            Err(error) => {
                state.delivered = state.failure_delivered && !state.undelivered;
                self.set_failure(&mut state, error);
            }
        }
        state.tried = true;
        drop(state);
        self.changed.notify_all();
        self.wake_handles();
    }

    fn wake_handles(&self) {
        // SeqCst: SLEEP by a fence here: the failure or the connection comes before the loads of
        // the park words.
        fence(Ordering::SeqCst);
        for park in &*self.sleepers() {
            wake(park);
        }
    }

    fn sleepers(&self) -> MutexGuard<'_, Vec<Word>> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the sleeper with this park word when the bridge ends, or is connected first.
    pub(crate) fn wakes(&self, park: &Word) {
        self.sleepers().push(park.clone());
    }

    fn set_failure(&self, state: &mut State, error: LinkError) {
        state.failed_first |= !state.tried;
        state.status.stage = LinkStage::Failed;
        state.status.note = chain(&error);
        state.failure = Some(error);
        // Release: pairs with `has_failed`.
        self.failed.store(1, Ordering::Release);
    }
}

/// How long opening waits for the first answer of a far side. The handle's next call reports a
/// later one.
pub(crate) const FIRST_ANSWER_MAX: Duration = Duration::from_secs(1);

/// Starts the bridge that `words` name.
///
/// # Errors
///
/// [`LinkError::Io`] if the system has no descriptor or thread left.
pub(crate) fn start(
    words: String,
    bridge: impl FnOnce(&Arc<Control>) -> Result<(), LinkError> + Send + 'static,
) -> Result<Link, LinkError> {
    let place = words.clone();
    let started = Control::new().and_then(|control| Link::start(words, control, bridge));
    started.map_err(|source| LinkError::Io {
        action: "start a thread for",
        place,
        source: Arc::new(source),
    })
}

/// A bridge on its own thread; dropping ends and joins it.
#[derive(Debug)]
pub(crate) struct Link {
    /// The URI that the handle was opened with.
    uri: String,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    /// Runs `bridge` on a thread. It ends when its work is done, or soon after a request of its
    /// [`Control`].
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub(crate) fn start(
        uri: String,
        control: Arc<Control>,
        bridge: impl FnOnce(&Arc<Control>) -> Result<(), LinkError> + Send + 'static,
    ) -> io::Result<Self> {
        let ours = Arc::clone(&control);
        let thread = std::thread::Builder::new()
            .name("olivine-bridge".into())
            .spawn(move || {
                // A bug of the bridge must not leave a handle waiting for ever.
                let run = std::panic::AssertUnwindSafe(|| bridge(&ours));
                let outcome = std::panic::catch_unwind(run).unwrap_or(Err(LinkError::Panicked));
                ours.end(outcome);
            })?;
        let thread = Some(thread);
        Ok(Self {
            uri,
            control,
            thread,
        })
    }

    /// The URI that the handle was opened with.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// The state that the handle and the thread share.
    pub(crate) fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Waits up to `longest` for the outcome of the first attempt to reach the far side.
    ///
    /// # Errors
    ///
    /// Why the bridge failed, if it did.
    pub(crate) fn wait_tried(&self, longest: Duration) -> Result<(), LinkError> {
        let until = Instant::now() + longest;
        let mut state = self.control.lock();
        while !state.tried {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.control.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let refusal = state.failure.clone().filter(|_| state.failed_first);
        refusal.map_or(Ok(()), Err)
    }

    /// Ends the bridge after everything was delivered, or when `linger` is over; `linger` 0 sets no
    /// deadline. Returns whether everything was delivered, with the failure of its source if it has
    /// failed. In a forked child it does nothing.
    pub(crate) fn finish(&mut self, linger: Duration) -> bool {
        if !self.control.is_of_this_process() {
            return false;
        }
        let deadline = (!linger.is_zero())
            .then(|| Instant::now().checked_add(linger))
            .flatten();
        self.control.stop(Stop::Delivered(deadline));
        self.join();
        self.control.lock().delivered
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            if !self.control.is_of_this_process() {
                // A forked child: the thread runs in the parent, and does not end here.
                let _theirs = std::mem::ManuallyDrop::new(thread);
                return;
            }
            // A panic was already reported as a failure.
            let _ = thread.join();
        }
    }

    /// In a forked child: the thread lives in the parent, so nothing can be stopped or joined.
    pub(crate) fn forget(self) {
        let _theirs = std::mem::ManuallyDrop::new(self);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.control.stop(Stop::Now);
            self.join();
        }
    }
}
