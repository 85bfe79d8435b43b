//! Optional privileges of both processes: real-time priority, locked memory.
//!
//! Both change the measurement, so they are never implicit, and a refusal is an error.

use crate::error::Result;
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
    /// [`BenchError`](crate::BenchError) naming what the system refused and what to do.
    pub fn take(&self) -> Result<()> {
        Ok(olivine_arena::privileges::take(
            self.real_time,
            self.locked_memory,
        )?)
    }
}
