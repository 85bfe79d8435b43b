//! What the engine's thread and the desk both know: how much the desk has to do, and which answers
//! are still wanted.

use olivine_net::http::StreamId;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Requests that may wait for the desk. Each connection has one; that of a closed connection counts
/// until the desk comes to it.
pub(super) const JOBS_MAX: usize = 512;

/// Shared by its clones.
#[derive(Clone, Debug, Default)]
pub(super) struct Open(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Requests that the desk has not come to.
    jobs: usize,
    /// Requests without an answer, whose connections are open.
    wanted: HashSet<StreamId>,
    /// Streams of events.
    watchers: usize,
    /// The desk has a message about another number of them, and has not read it.
    is_posted: bool,
}

impl Open {
    fn state(&self) -> MutexGuard<'_, State> {
        // Numbers and a set of them are whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_wanted(&self, request: StreamId) -> bool {
        self.state().wanted.contains(&request)
    }

    /// Counts one more request, if there is room for it.
    pub(super) fn enter(&self) -> bool {
        let mut state = self.state();
        let has_room = state.jobs < JOBS_MAX;
        state.jobs += usize::from(has_room);
        has_room
    }

    /// The answer to a request that entered is wanted.
    pub(super) fn add(&self, request: StreamId) {
        self.state().wanted.insert(request);
    }

    /// The request was answered, or its connection is closed.
    pub(super) fn remove(&self, request: StreamId) {
        self.state().wanted.remove(&request);
    }

    /// The desk comes to a request. Whether its answer is still wanted.
    pub(super) fn leave(&self, request: StreamId) -> bool {
        let mut state = self.state();
        state.jobs = state.jobs.saturating_sub(1);
        state.wanted.contains(&request)
    }

    /// Whether the desk needs a message about this number of streams.
    pub(super) fn set_watchers(&self, count: usize) -> bool {
        let mut state = self.state();
        state.watchers = count;
        !std::mem::replace(&mut state.is_posted, true)
    }

    /// The desk comes to the number of streams.
    pub(super) fn watchers(&self) -> usize {
        let mut state = self.state();
        state.is_posted = false;
        state.watchers
    }
}
