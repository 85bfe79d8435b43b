//! The processor's time-stamp counter.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use std::sync::OnceLock;

/// The counter now, if it runs at a constant rate. Miri has no counter.
#[inline(always)]
pub(crate) fn counter() -> Option<u64> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if counter_is_constant() {
        // SAFETY: every x86-64 processor has the instruction.
        return Some(unsafe { core::arch::x86_64::_rdtsc() });
    }
    None
}

/// Whether the time-stamp counter runs at a constant rate in all power states (invariant TSC).
#[inline(always)]
pub(crate) fn counter_is_constant() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        static CONSTANT: OnceLock<bool> = OnceLock::new();
        *CONSTANT.get_or_init(|| {
            // Leaf 0x8000_0007, EDX bit 8: invariant TSC (AMD APM vol. 3, appendix E; Intel SDM
            // vol. 2A, CPUID).
            #[allow(
                unused_unsafe,
                reason = "it is safe in later versions of Rust than 1.89"
            )]
            // SAFETY: every x86-64 processor has the instruction.
            let leaf = |number| unsafe { core::arch::x86_64::__cpuid(number) };
            leaf(0x8000_0000).eax >= 0x8000_0007 && leaf(0x8000_0007).edx & (1 << 8) != 0
        })
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}
