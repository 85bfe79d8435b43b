//! The only door to atomics, fences and barriers.
//!
//! Every other module takes its atomics from here, so that a `loom` build swaps them all at once
//! and the lines that ship are the lines the model checker walks.
//!
//! # Two-sided barriers
//!
//! Parking needs a store followed by a load on both sides (Dekker's pattern). The publisher's side
//! runs once per message and must cost nothing, the sleeper's side runs once per sleep and may cost
//! a system call. So the pair is split: [`light_barrier`] only stops the compiler, [`heavy_barrier`]
//! makes every running thread of every registered process pass a full fence
//! (`membarrier(GLOBAL_EXPEDITED)`). One heavy barrier against any number of light ones orders the
//! same as two full fences. In a `loom` build both are full fences.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::AtomicI32;

#[cfg(not(target_has_atomic = "64"))]
compile_error!("olivine needs lock-free 64-bit atomics: shared memory cannot hold a lock for them");
#[cfg(not(target_endian = "little"))]
compile_error!("olivine's futex words are the low half of a 64-bit word: little-endian only");

#[cfg(loom)]
loom::lazy_static! {
    /// Counts the SeqCst fences of a model's run.
    static ref FENCES: AtomicU64 = AtomicU64::new(0);
}

/// A fence that is a step of its own.
///
/// loom's fence belongs to the access before it: no other thread runs in between, and the order of two fences
/// is not varied. The counter makes it do both; it orders nothing that SeqCst fences do not order anyway.
#[cfg(loom)]
pub(crate) fn fence(ordering: Ordering) {
    if ordering == Ordering::SeqCst {
        FENCES.fetch_add(1, Ordering::Relaxed);
    }
    loom::sync::atomic::fence(ordering);
}

/// The publisher's half of a two-sided barrier: orders the compiler, costs no instruction.
///
/// Must be paired with [`heavy_barrier`] on the other side. `_name` says which edge it serves.
#[inline(always)]
pub(crate) fn light_barrier(_mutant: bool) {
    #[cfg(not(loom))]
    // SeqCst on a compiler fence emits nothing: it forbids moving the store past the load.
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    if !_mutant {
        // SeqCst: the model of a light barrier facing a heavy one (see the module text).
        fence(Ordering::SeqCst);
    }
}

/// The sleeper's half of a two-sided barrier. Returns `false` where only this thread was fenced,
/// because the kernel refused; the caller then must not sleep for long.
pub(crate) fn heavy_barrier(_mutant: bool) -> bool {
    #[cfg(not(loom))]
    {
        // SeqCst: this thread's own half; the kernel supplies everybody else's.
        fence(Ordering::SeqCst);
        membarrier::everywhere()
    }
    #[cfg(loom)]
    {
        if !_mutant {
            // SeqCst: the model of a heavy barrier facing a light one (see the module text).
            fence(Ordering::SeqCst);
        }
        true
    }
}

/// Whether the light side of this process is covered by other processes' heavy barriers.
///
/// Registers the process on first use. `OLIVINE_NO_MEMBARRIER=1` in the environment forces `false`.
#[cfg(not(loom))]
pub(crate) fn light_side_is_covered() -> bool {
    membarrier::registered()
}

/// In a model both sides are fences, always covered.
#[cfg(loom)]
pub(crate) fn light_side_is_covered() -> bool {
    true
}

#[cfg(not(loom))]
mod membarrier {
    use std::sync::OnceLock;

    const CMD_GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
    const CMD_REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

    fn call(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes two integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn registered() -> bool {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        *REGISTERED.get_or_init(|| {
            std::env::var_os("OLIVINE_NO_MEMBARRIER").is_none()
                && !cfg!(miri)
                && call(CMD_REGISTER_GLOBAL_EXPEDITED)
        })
    }

    pub(super) fn everywhere() -> bool {
        registered() && call(CMD_GLOBAL_EXPEDITED)
    }
}

/// Whether the named weakening is switched on: always `false` outside a model.
///
/// `cargo xtask model --mutants` runs the models once per name with `OLIVINE_MUTANT` set and requires
/// each to be rejected; an ordering whose weakening no model rejects is an ordering nobody tests.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn mutant(_name: &str) -> bool {
    false
}

/// Whether the named weakening is switched on, from `OLIVINE_MUTANT`.
#[cfg(loom)]
pub(crate) fn mutant(name: &str) -> bool {
    static ACTIVE: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    ACTIVE
        .get_or_init(|| std::env::var("OLIVINE_MUTANT").ok())
        .as_deref()
        == Some(name)
}

/// `ordering`, or `Relaxed` when `weakened`.
#[inline(always)]
pub(crate) const fn unless(weakened: bool, ordering: Ordering) -> Ordering {
    if weakened {
        Ordering::Relaxed
    } else {
        ordering
    }
}
