//! Named places at which the death suite kills a participant and unit tests stop a thread. Without
//! the feature `points`, and outside unit tests, they contain no code.
//!
//! Random kills rarely hit the few instructions between two related stores. These names aim at
//! them. `OLIVINE_DIE_AT=NAME:N` kills this process when it passes `NAME` for the Nth time.
//! `OLIVINE_PANIC_AT=NAME:N` makes the thread panic that passes it.

/// Dies or panics here if `OLIVINE_DIE_AT` or `OLIVINE_PANIC_AT` selects this pass.
#[cfg(feature = "points")]
pub(crate) fn pass(name: &str) {
    static DEATH: Choice = Choice::of("OLIVINE_DIE_AT");
    static PANIC: Choice = Choice::of("OLIVINE_PANIC_AT");
    #[cfg(test)]
    hook::pass(name);
    if DEATH.is_now(name) {
        // SIGKILL: no code of this process runs after it, as after a kill from outside.
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
    assert!(!PANIC.is_now(name), "a planted panic at {name}");
}

/// The pass that a variable selects by `NAME:N`.
#[cfg(feature = "points")]
struct Choice {
    variable: &'static str,
    chosen: std::sync::OnceLock<Option<(String, u64)>>,
    passed: crate::sync::AtomicU64,
}

#[cfg(feature = "points")]
impl Choice {
    const fn of(variable: &'static str) -> Self {
        Self {
            variable,
            chosen: std::sync::OnceLock::new(),
            passed: crate::sync::AtomicU64::new(0),
        }
    }

    fn is_now(&self, name: &str) -> bool {
        let chosen = self.chosen.get_or_init(|| {
            let text = std::env::var(self.variable).ok()?;
            let (name, times) = text.split_once(':')?;
            Some((name.to_owned(), times.parse().ok()?))
        });
        // Relaxed: counts within one process.
        let pass = || self.passed.fetch_add(1, crate::sync::Ordering::Relaxed) + 1;
        let is_now = |(chosen, times): &(String, u64)| chosen == name && pass() == *times;
        chosen.as_ref().is_some_and(is_now)
    }
}

/// Runs the hook of a unit test.
#[cfg(all(test, not(feature = "points")))]
pub(crate) fn pass(name: &str) {
    hook::pass(name);
}

/// No code.
#[cfg(not(any(test, feature = "points")))]
#[inline(always)]
pub(crate) const fn pass(_name: &str) {}

/// As [`pass`], for unit tests only: the scenes of the death suite do not pass here.
#[cfg(test)]
pub(crate) fn look(name: &str) {
    hook::pass(name);
}

/// No code.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn look(_name: &str) {}

/// Whether no nap ends by time (`OLIVINE_NAPS=off`). Then a lost wake-up hangs, and a test finds
/// it.
#[cfg(feature = "points")]
pub(crate) fn naps_are_off() -> bool {
    use std::sync::OnceLock;
    static OFF: OnceLock<bool> = OnceLock::new();
    *OFF.get_or_init(|| std::env::var("OLIVINE_NAPS").is_ok_and(|naps| naps == "off"))
}

/// Naps end by time.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub(crate) const fn naps_are_off() -> bool {
    false
}

/// Whether a planted fault drops this wake-up: every `OLIVINE_DROP_WAKES`th.
#[cfg(feature = "points")]
pub(crate) fn drops_wakes() -> bool {
    use crate::sync::{AtomicU64, Ordering};
    use std::sync::OnceLock;
    static EVERY: OnceLock<Option<u64>> = OnceLock::new();
    static WAKES: AtomicU64 = AtomicU64::new(0);
    let every = EVERY.get_or_init(|| std::env::var("OLIVINE_DROP_WAKES").ok()?.parse().ok());
    // Relaxed: counts within one process.
    every.is_some_and(|every| (WAKES.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every))
}

/// No wake-up is dropped.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub(crate) const fn drops_wakes() -> bool {
    false
}

/// The hook of one thread of a unit test at a place.
#[cfg(test)]
pub(crate) mod hook {
    use std::cell::RefCell;

    type Hook = (&'static str, Box<dyn FnOnce()>);

    std::thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// Runs `run` once, when this thread passes `name` next.
    #[cfg(not(loom))]
    pub(crate) fn at(name: &'static str, run: impl FnOnce() + 'static) {
        HOOK.with(|hook| *hook.borrow_mut() = Some((name, Box::new(run))));
    }

    pub(super) fn pass(name: &str) {
        // A thread that is ending has no hook any more.
        let run = HOOK.try_with(|hook| {
            let mut hook = hook.borrow_mut();
            let is_it = hook.as_ref().is_some_and(|(at, _)| *at == name);
            if is_it { hook.take() } else { None }
        });
        if let Ok(Some((_, run))) = run {
            run();
        }
    }
}
