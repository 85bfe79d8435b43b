//! Time in integer nanoseconds. Depends on nothing else in the crate.

/// Nanoseconds of the kernel's monotonic clock. The same for all processes of a machine; never
/// decreases.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Nanoseconds since 1970 by the wall clock of this machine. It jumps when the clock is set. Use it
/// for time stamps that people and other machines read, not for durations.
#[must_use]
pub fn wall_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    // A time before 1970 is invalid.
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
