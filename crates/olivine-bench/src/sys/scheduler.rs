//! Real-time priority for one thread, and locked memory.

use super::checked;
use std::io;

/// Priority under `SCHED_FIFO`: the lowest, which is above everything that is not real-time.
const PRIORITY: libc::c_int = 1;

/// Puts the calling thread under `SCHED_FIFO`; children do not inherit it.
pub(crate) fn run_first_in_first_out() -> io::Result<()> {
    // SAFETY: all bytes zero are a valid `sched_param`.
    let mut wanted: libc::sched_param = unsafe { std::mem::zeroed() };
    wanted.sched_priority = PRIORITY;
    let class = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread; the structure lives.
    checked(unsafe { libc::sched_setscheduler(0, class, &raw const wanted) })?;
    Ok(())
}

/// Locks what this process has mapped, and what it will map.
pub(crate) fn lock_memory() -> io::Result<()> {
    // SAFETY: pages are filled and kept; nothing that is mapped changes.
    checked(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })?;
    Ok(())
}
