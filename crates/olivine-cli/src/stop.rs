//! Ending on request: Ctrl-C and similar signals, a time limit, or the end of a parent process.

use crate::failure::{Failure, Outcome, complain};
use crate::progress;
use olivine::clock;
use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Longest wait before the request to stop is checked.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Requests to stop. If several came, the first in this list decides the exit code.
const REQUESTS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// Signals within this time are one request, for example a Ctrl-C that reached the tool twice.
const ONE_REQUEST: Duration = Duration::from_secs(1);

/// A request to stop that can be checked anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    asked: Arc<AtomicBool>,
    /// Which of [`REQUESTS`] came.
    signalled: [Arc<AtomicBool>; REQUESTS.len()],
    deadline_ns: Option<u64>,
}

impl Stop {
    /// Catches Ctrl-C, SIGTERM and SIGHUP. Another signal, a second or more after the first, ends
    /// the process at once. A journal that reaches the limit on file sizes gets a write error and
    /// waits; it does not kill the process.
    pub(crate) fn install() -> Outcome<Self> {
        let stop = Self::default();
        stop.register().map_err(|error| {
            Failure::Failed(anyhow::Error::new(error).context("cannot catch Ctrl-C"))
        })?;
        Ok(stop)
    }

    fn register(&self) -> io::Result<()> {
        for (signal, came) in REQUESTS.into_iter().zip(&self.signalled) {
            // The signal is recorded before the request is visible.
            signal_hook::flag::register(signal, Arc::clone(came))?;
            signal_hook::flag::register(signal, Arc::clone(&self.asked))?;
        }
        // The flag is never read: catching the signal is enough.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        let mut signals = Signals::new(REQUESTS)?;
        std::thread::Builder::new()
            .name("olivine-signals".into())
            .spawn(move || {
                let mut first: Option<Instant> = None;
                for signal in signals.forever() {
                    if first.get_or_insert_with(Instant::now).elapsed() >= ONE_REQUEST {
                        progress::clear_for_good();
                        signal_hook::low_level::exit(exit_code(signal));
                    }
                }
            })?;
        Ok(())
    }

    /// What `open` returns, which may take long at `place` and does not look for requests: it runs
    /// in its own thread, with a `look` now and then. `None` if it is to stop before.
    pub(crate) fn opened<R: Send + 'static>(
        &self,
        place: &str,
        open: impl FnOnce() -> R + Send + 'static,
        mut look: impl FnMut(),
    ) -> Outcome<Option<R>> {
        let (came, newcomer) = mpsc::channel();
        std::thread::spawn(move || {
            // If nothing waits any more, what was opened is dropped.
            let _ = came.send(open());
        });
        loop {
            match newcomer.recv_timeout(LOOK) {
                Ok(opened) => return Ok(Some(opened)),
                Err(RecvTimeoutError::Timeout) if self.now() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => look(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::failed(format!("opening {place} panicked")));
                }
            }
        }
    }

    /// As [`Stop::opened`], of a command that has nothing else to end.
    ///
    /// # Errors
    ///
    /// [`Failure::Interrupted`] if it is to stop before, after a line that says `doing`.
    pub(crate) fn done<R: Send + 'static>(
        &self,
        place: &str,
        doing: &str,
        work: impl FnOnce() -> Outcome<R> + Send + 'static,
    ) -> Outcome<R> {
        match self.opened(place, work, || {})? {
            Some(done) => done,
            None => {
                complain(&format!("stopped while it {doing} {place}"));
                Err(self.cut_short().err().unwrap_or(Failure::BadResult))
            }
        }
    }

    /// The signal that asked to stop.
    fn signal(&self) -> Option<i32> {
        let mut requests = REQUESTS.into_iter().zip(&self.signalled);
        // Relaxed: the flag carries no other data.
        let found = requests.find(|(_, came)| came.load(Ordering::Relaxed));
        found.map(|(signal, _)| signal)
    }

    /// Also stops `after` this time.
    pub(crate) fn with_time_limit(mut self, after: Option<Duration>) -> Self {
        self.deadline_ns = after.map(|after| {
            clock::monotonic_ns()
                .saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
        });
        self
    }

    /// Also stops when standard input ends: the parent holds the other end.
    pub(crate) fn follow_stdin(&self) {
        // A process that is stopped when its parent dies would never see that end. A system without
        // this signal leaves it stopped.
        let _ = set_parent_process_death_signal(Some(Signal::CONT));
        let asked = Arc::clone(&self.asked);
        std::thread::spawn(move || {
            let mut byte = [0; 64];
            while matches!(io::stdin().lock().read(&mut byte), Ok(1..)) {}
            // Relaxed: the flag carries no other data.
            asked.store(true, Ordering::Relaxed);
        });
    }

    /// Is set when a signal asks to stop.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// Whether a signal asked to stop.
    #[inline]
    pub(crate) fn interrupted(&self) -> bool {
        // Relaxed: the flag carries no other data.
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether Ctrl-C asked to stop, not a supervisor that may start the command again.
    pub(crate) fn by_person(&self) -> bool {
        // Relaxed: the flag carries no other data.
        self.signalled[0].load(Ordering::Relaxed)
    }

    /// For a command that a signal stopped before its work was complete: sets its exit code.
    ///
    /// # Errors
    ///
    /// [`Failure::Interrupted`] if a signal asked to stop.
    pub(crate) fn cut_short(&self) -> Outcome {
        match self.signal() {
            Some(signal) => Err(Failure::Interrupted { signal }),
            None => Ok(()),
        }
    }

    /// Waits until `next`; `false` if it is to stop before.
    pub(crate) fn wait_until(&self, next: Instant) -> bool {
        while !self.now() {
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::park_timeout(left.min(LOOK));
        }
        false
    }

    /// Whether to stop: a signal came, or the time is up.
    #[inline]
    pub(crate) fn now(&self) -> bool {
        self.interrupted()
            || self
                .deadline_ns
                .is_some_and(|deadline| clock::monotonic_ns() >= deadline)
    }
}

impl Default for Stop {
    /// Stops only on a signal.
    fn default() -> Self {
        Self {
            asked: Arc::default(),
            signalled: Default::default(),
            deadline_ns: None,
        }
    }
}

/// The exit code of a process that `signal` ended, as in shells.
pub(crate) fn exit_code(signal: i32) -> i32 {
    128 + signal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_names_one_signal() {
        let stop = Stop::default();
        assert!(stop.cut_short().is_ok());
        for (place, code) in [(2, 129), (1, 143), (0, 130)] {
            stop.signalled[place].store(true, Ordering::Relaxed);
            let signal = match stop.cut_short() {
                Err(Failure::Interrupted { signal }) => signal,
                other => panic!("{other:?}"),
            };
            assert_eq!(exit_code(signal), code);
        }
    }

    #[test]
    fn a_time_limit_stops_and_no_limit_does_not() {
        let stop = Stop::default();
        assert!(!stop.now());
        assert!(stop.clone().with_time_limit(Some(Duration::ZERO)).now());
        assert!(
            !stop
                .clone()
                .with_time_limit(Some(Duration::from_secs(3600)))
                .now()
        );
        stop.asked.store(true, Ordering::Relaxed);
        assert!(stop.now() && stop.interrupted());
    }
}
