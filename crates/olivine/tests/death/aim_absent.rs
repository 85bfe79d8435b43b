//! Kills cannot be aimed on this processor: its registers are not read here. They fall where they
//! fall.

use crate::common::Random;

/// Place of a kill that did not fall into the core, for the report.
pub(crate) const ELSEWHERE: &str = "elsewhere";

/// Kills the process `pid`.
pub(crate) fn kill(pid: libc::pid_t, _: &'static str, _: &mut Random) -> String {
    // SAFETY: a process that was not reaped, so the number is still its own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    ELSEWHERE.to_owned()
}
