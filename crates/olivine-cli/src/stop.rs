//! Ending on request: Ctrl-C and its relatives, a time limit, or the end of a parent process.

use crate::failure::{Failure, Outcome};
use olivine::clock;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long any wait lasts at most before the request to stop is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// A request to stop that can be looked at from anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    asked: Arc<AtomicBool>,
    deadline_ns: Option<u64>,
}

impl Stop {
    /// Catches Ctrl-C, SIGTERM and SIGHUP. The second one ends the process at once. A journal that reaches the limit
    /// on file sizes is an error of the write and waited out, not a death.
    pub(crate) fn install() -> Outcome<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&asked))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&asked)))
                .map_err(|error| {
                    Failure::Failed(anyhow::Error::new(error).context("cannot catch Ctrl-C"))
                })?;
        }
        // Nobody looks at the flag: that the signal is caught is all.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map_err(
            |error| Failure::Failed(anyhow::Error::new(error).context("cannot catch SIGXFSZ")),
        )?;
        Ok(Self {
            asked,
            deadline_ns: None,
        })
    }

    /// Stops also `after` this time from now.
    pub(crate) fn with_time_limit(mut self, after: Option<Duration>) -> Self {
        self.deadline_ns = after.map(|after| {
            clock::monotonic_ns()
                .saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
        });
        self
    }

    /// Stops also when standard input ends: the parent holds the other end and is gone then.
    pub(crate) fn follow_stdin(&self) {
        let asked = Arc::clone(&self.asked);
        std::thread::spawn(move || {
            let mut byte = [0; 64];
            while matches!(std::io::stdin().lock().read(&mut byte), Ok(1..)) {}
            // Relaxed: the flag carries nothing but itself.
            asked.store(true, Ordering::Relaxed);
        });
    }

    /// Whether somebody asked to stop.
    #[inline]
    pub(crate) fn interrupted(&self) -> bool {
        // Relaxed: the flag carries nothing but itself.
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether to stop, because somebody asked or the time is up.
    #[inline]
    pub(crate) fn now(&self) -> bool {
        self.interrupted()
            || self
                .deadline_ns
                .is_some_and(|deadline| clock::monotonic_ns() >= deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_stops_and_no_limit_does_not() {
        let stop = Stop {
            asked: Arc::default(),
            deadline_ns: None,
        };
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
