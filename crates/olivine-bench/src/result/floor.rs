//! Rows of the hardware limits without a channel.

/// Its scenario.
pub const SCENARIO: &str = "floor";
/// Bare cache line between the two processes.
pub const LINE: &str = "bare cache line, to and fro";
/// Copying 8 KiB at a time through 1 MiB.
pub const COPY: &str = "copy of 8 KiB within 1 MiB";
/// An empty system call.
pub const CALL: &str = "empty system call";
/// Waking a futex without a sleeper.
pub const WAKE: &str = "futex wake without a sleeper";
/// Two processes that sleep on a futex and wake each other alternately.
pub const SLEEPERS: &str = "round trip of two that sleep on a futex";
/// One clock reading.
pub const CLOCK: &str = "clock reading";
