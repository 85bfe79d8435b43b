//! The only access to atomics, fences and barriers.
//!
//! Every other module takes its atomics from here. So a `loom` build replaces all of them, and the
//! model checker runs the code that ships.
//!
//! # Two-sided barriers
//!
//! Parking needs a store followed by a load on both sides (Dekker's pattern). The publisher's side
//! runs once per message and must cost nothing. The sleeper's side runs once per sleep and may cost
//! a system call. So the pair is asymmetric. [`light_barrier`] only orders the compiler.
//! [`heavy_barrier`] makes every running thread of every registered process pass a full fence
//! (`membarrier(GLOBAL_EXPEDITED)`). A heavy barrier and a light one order as two full fences do.
//! In a `loom` build both are full fences.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::Ordering;
#[cfg(not(any(loom, test)))]
pub(crate) use core::sync::atomic::{AtomicU64, fence};
#[cfg(all(test, not(loom)))]
pub(crate) use logged::{AtomicU64, fence};
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

/// A fence that is a separate step.
///
/// loom joins a fence to the access before it: no other thread runs in between, and the order of
/// two fences is not varied. The counter separates them: it adds no
/// order to that of SeqCst fences.
#[cfg(loom)]
pub(crate) fn fence(ordering: Ordering) {
    if ordering == Ordering::SeqCst {
        FENCES.fetch_add(1, Ordering::Relaxed);
    }
    loom::sync::atomic::fence(ordering);
}

/// The publisher's half of a two-sided barrier: orders the compiler, costs no instruction.
///
/// Must be paired with [`heavy_barrier`] on the other side. `_mutant` removes it from a model.
#[inline(always)]
pub(crate) fn light_barrier(_mutant: bool) {
    #[cfg(not(loom))]
    // SeqCst on a compiler fence emits no instruction. The compiler must not move the store after
    // the load.
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    if !_mutant {
        // SeqCst: the model of a light barrier paired with a heavy one (see the module text).
        fence(Ordering::SeqCst);
    }
}

/// The sleeper's half of a two-sided barrier. Returns `false` if the kernel refused and only this
/// thread was fenced. Then the caller must not sleep for long.
pub(crate) fn heavy_barrier(_mutant: bool) -> bool {
    #[cfg(not(loom))]
    {
        #[cfg(test)]
        logged::count_barrier();
        // SeqCst: the fence of this thread; the kernel supplies those of the others.
        fence(Ordering::SeqCst);
        membarrier::everywhere()
    }
    #[cfg(loom)]
    {
        if !_mutant {
            // SeqCst: the model of a heavy barrier paired with a light one (see the module text).
            fence(Ordering::SeqCst);
        }
        true
    }
}

/// Whether heavy barriers of other processes cover the light side of this process.
///
/// Registers the process on first use. `OLIVINE_NO_MEMBARRIER=1` in the environment forces `false`.
#[cfg(not(loom))]
pub(crate) fn light_side_is_covered() -> bool {
    membarrier::registered()
}

/// In a model both sides are fences, so it is always covered.
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
        // SAFETY: membarrier takes two integers and does not access our memory.
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

/// Whether the named mutant is active: always `false` outside a model.
///
/// `cargo xtask model --mutants` runs the models once per name with `OLIVINE_MUTANT` set, and
/// requires each to be rejected. An ordering is tested only if a model rejects its mutant.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn mutant(_name: &str) -> bool {
    false
}

/// Whether the named mutant is active, from `OLIVINE_MUTANT`.
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

/// Atomics that record their stores, for tests of the state after a death.
#[cfg(all(test, not(loom)))]
pub(crate) mod logged {
    use super::Ordering;
    use core::sync::atomic::AtomicU64 as Plain;
    use std::cell::{Cell, RefCell};

    /// One step of a thread that other threads can see.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Step {
        /// Eight bytes or fewer were stored.
        Store {
            address: usize,
            bytes: Vec<u8>,
            release: bool,
        },
        /// Later stores are not visible before earlier ones.
        Fence,
    }

    thread_local! {
        static LOG: RefCell<Option<Vec<Step>>> = const { RefCell::new(None) };
        static BARRIERS: Cell<u64> = const { Cell::new(0) };
    }

    /// Heavy barriers that this thread has passed.
    pub(crate) fn barriers_of_this_thread() -> u64 {
        BARRIERS.get()
    }

    pub(super) fn count_barrier() {
        BARRIERS.set(BARRIERS.get() + 1);
    }

    /// The stores of this thread while `body` runs.
    pub(crate) fn steps_of(body: impl FnOnce()) -> Vec<Step> {
        LOG.with(|log| *log.borrow_mut() = Some(Vec::new()));
        body();
        LOG.with(|log| log.borrow_mut().take()).unwrap_or_default()
    }

    fn write_down(step: impl FnOnce() -> Step) {
        LOG.with(|log| {
            if let Some(log) = log.borrow_mut().as_mut() {
                log.push(step());
            }
        });
    }

    /// Payload bytes copied to `address`, word by word: a death may be between any two.
    pub(crate) fn copied(address: usize, bytes: &[u8]) {
        for (n, part) in bytes.chunks(8).enumerate() {
            write_down(|| Step::Store {
                address: address + n * 8,
                bytes: part.to_vec(),
                release: false,
            });
        }
    }

    /// As in the standard library.
    pub(crate) fn fence(ordering: Ordering) {
        if ordering != Ordering::Acquire {
            write_down(|| Step::Fence);
        }
        core::sync::atomic::fence(ordering);
    }

    /// As in the standard library.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(crate) struct AtomicU64(Plain);

    impl AtomicU64 {
        pub(crate) const fn new(value: u64) -> Self {
            Self(Plain::new(value))
        }

        /// # Safety
        ///
        /// As in the standard library.
        pub(crate) unsafe fn from_ptr<'a>(at: *mut u64) -> &'a Self {
            // SAFETY: the caller's promise. This type is transparent over the standard atomic,
            // which is so over `u64`.
            unsafe { &*at.cast() }
        }

        pub(crate) fn as_ptr(&self) -> *mut u64 {
            self.0.as_ptr()
        }

        fn stored(&self, ordering: Ordering) {
            write_down(|| Step::Store {
                address: self.as_ptr() as usize,
                bytes: self.0.load(Ordering::Relaxed).to_le_bytes().to_vec(),
                release: ordering != Ordering::Relaxed && ordering != Ordering::Acquire,
            });
        }

        pub(crate) fn load(&self, ordering: Ordering) -> u64 {
            self.0.load(ordering)
        }

        pub(crate) fn store(&self, value: u64, ordering: Ordering) {
            self.0.store(value, ordering);
            self.stored(ordering);
        }

        pub(crate) fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            let outcome = self.0.compare_exchange(current, new, success, failure);
            if outcome.is_ok() {
                self.stored(success);
            }
            outcome
        }

        pub(crate) fn swap(&self, value: u64, ordering: Ordering) -> u64 {
            let before = self.0.swap(value, ordering);
            self.stored(ordering);
            before
        }

        pub(crate) fn fetch_or(&self, value: u64, ordering: Ordering) -> u64 {
            let before = self.0.fetch_or(value, ordering);
            self.stored(ordering);
            before
        }

        pub(crate) fn fetch_and(&self, value: u64, ordering: Ordering) -> u64 {
            let before = self.0.fetch_and(value, ordering);
            self.stored(ordering);
            before
        }

        pub(crate) fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
            let before = self.0.fetch_add(value, ordering);
            self.stored(ordering);
            before
        }
    }
}
