//! Optional privileges of both processes: real-time priority, locked memory.
//!
//! Both change the measurement, so they are never implicit, and a refusal is an error.

use crate::error::{BenchError, Result};
use crate::sys::process;
use serde::{Deserialize, Serialize};

/// The requested privileges. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[allow(
    clippy::exhaustive_structs,
    reason = "two switches, made where they are read"
)]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct Privileges {
    /// The measuring threads run under `SCHED_FIFO`, before all other work on their CPUs.
    pub real_time: bool,
    /// No page of the two processes is written out or left to be filled when it is touched
    /// (`mlockall`).
    pub locked_memory: bool,
}

impl Privileges {
    /// Whether nothing is requested.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Takes them for the calling thread (real-time) and this process (memory). Threads and
    /// processes started afterwards are not real-time.
    ///
    /// # Errors
    ///
    /// [`BenchError::Refused`] naming what the system refused and what to do.
    pub fn take(&self) -> Result<()> {
        if self.real_time {
            process::run_first_in_first_out().map_err(|source| BenchError::Refused {
                what: "run under SCHED_FIFO",
                how: "run as root, give the program CAP_SYS_NICE, raise `ulimit -r`, or leave \
                --fifo away",
                source,
            })?;
        }
        if self.locked_memory {
            process::lock_memory().map_err(|source| BenchError::Refused {
                what: "lock memory",
                how: "run as root, give the program CAP_IPC_LOCK, raise `ulimit -l`, or leave \
                --mlock away",
                source,
            })?;
        }
        Ok(())
    }
}
