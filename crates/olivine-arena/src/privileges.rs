//! Optional privileges: real-time priority, locked memory.

use crate::error::{ArenaError, Result};
use crate::sys::process;

/// Takes privileges for the calling thread (real-time) and this process (memory). Threads and
/// processes started afterwards are not real-time.
///
/// # Errors
///
/// [`ArenaError::Refused`] naming what the system refused and what to do.
pub fn take(real_time: bool, locked_memory: bool) -> Result<()> {
    if real_time {
        process::run_first_in_first_out().map_err(|source| ArenaError::Refused {
            what: "run under SCHED_FIFO",
            how: "run as root, give the program CAP_SYS_NICE, raise `ulimit -r`, or leave \
                --fifo away",
            source,
        })?;
    }
    if locked_memory {
        process::lock_memory().map_err(|source| ArenaError::Refused {
            what: "lock memory",
            how: "run as root, give the program CAP_IPC_LOCK, raise `ulimit -l`, or leave \
                --mlock away",
            source,
        })?;
    }
    Ok(())
}
