//! Hardware limits without a channel, as stored in a result.

use super::Placement;
use crate::latency::Percentiles;
use crate::spread::Spread;

/// Round trips of a bare cache line under one placement.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct LineResult {
    /// Where the CPUs were.
    pub placement: Placement,
    /// Slices measured there.
    pub slices: u64,
    /// Round trips.
    pub round_trip: Percentiles,
    /// Median of a slice, over the runs.
    pub round_trip_p50_ns: Spread,
}

/// Hardware limits without a channel.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FloorResult {
    /// Bare cache line between the two processes, by placement.
    pub cache_line: Vec<LineResult>,
    /// Copying 8 KiB at a time through 1 MiB, in bytes a second.
    pub copy_bytes_per_s: Spread,
    /// An empty system call.
    pub system_call_ns: Spread,
    /// Waking a futex without a sleeper.
    #[serde(default)]
    pub futex_wake_ns: Option<Spread>,
    /// Two processes that sleep on a futex and wake each other alternately: round trip, p50 of a
    /// run. `None` if the second process does not know the method.
    #[serde(default)]
    pub futex_round_trip_ns: Option<Spread>,
    /// One clock reading.
    pub clock_cost_ns: Spread,
}
