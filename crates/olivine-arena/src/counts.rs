//! What the kernel counts of a thread that measures.

use crate::sys::process::thread_usage;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Counts of one thread. A count that the kernel does not show is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "each count has its name")]
pub struct ThreadCounts {
    /// Times it was taken off its CPU although it was ready.
    pub forced_switches: u64,
    /// Times it yielded its CPU to wait.
    pub voluntary_switches: u64,
    /// Pages that had to be mapped or filled.
    pub minor_faults: u64,
    /// Pages that had to be read from disk.
    pub major_faults: u64,
    /// Time that it was ready without a CPU, in nanoseconds.
    pub waited_for_cpu_ns: u64,
}

impl ThreadCounts {
    /// What was counted since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let since = u64::saturating_sub;
        Self {
            forced_switches: since(self.forced_switches, earlier.forced_switches),
            voluntary_switches: since(self.voluntary_switches, earlier.voluntary_switches),
            minor_faults: since(self.minor_faults, earlier.minor_faults),
            major_faults: since(self.major_faults, earlier.major_faults),
            waited_for_cpu_ns: since(self.waited_for_cpu_ns, earlier.waited_for_cpu_ns),
        }
    }
}

/// Reads the counts of the thread that made it. A reading takes a few microseconds.
#[derive(Debug)]
pub(crate) struct Counter {
    schedstat: Option<File>,
}

impl Counter {
    pub(crate) fn new() -> Self {
        Self {
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
        }
    }

    /// The sums up to now.
    pub(crate) fn counts(&self) -> ThreadCounts {
        let mut text = [0; 128];
        let read = self.schedstat.as_ref();
        let length = read.and_then(|file| file.read_at(&mut text, 0).ok());
        let text = String::from_utf8_lossy(&text[..length.unwrap_or(0)]);
        // The second number.
        let waited = text.split_whitespace().nth(1);
        ThreadCounts {
            waited_for_cpu_ns: waited.and_then(|ns| ns.parse().ok()).unwrap_or(0),
            ..thread_usage()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_faults_of_this_thread_are_counted() {
        let counter = Counter::new();
        let before = counter.counts();
        // Untouched pages, each touched once.
        let mut block = vec![0_u8; 64 << 20];
        block.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(&block);
        let counts = counter.counts().since(&before);
        assert!(counts.minor_faults > 0, "{counts:?}");
    }
}
