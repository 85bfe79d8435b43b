//! Named places at which the death suite lets a participant die. Without the feature `points` there is nothing here.
//!
//! Random kills rarely hit the few instructions between two stores that belong together; these names aim at them.
//! `OLIVINE_DIE_AT=NAME:N` kills this process when it passes `NAME` for the Nth time.

/// Dies here if this is the place and the time.
#[cfg(feature = "points")]
pub(crate) fn pass(name: &str) {
    use crate::sync::{AtomicU64, Ordering};
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let chosen = CHOSEN.get_or_init(|| {
        let text = std::env::var("OLIVINE_DIE_AT").ok()?;
        let (name, times) = text.split_once(':')?;
        Some((name.to_owned(), times.parse().ok()?))
    });
    let Some((chosen, times)) = chosen else {
        return;
    };
    // Relaxed: counts within one process.
    if chosen == name && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *times {
        // SIGKILL: nothing of this process runs after it, as when somebody else sends it.
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Nothing.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub(crate) const fn pass(_name: &str) {}
