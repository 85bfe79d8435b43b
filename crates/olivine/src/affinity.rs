//! The CPUs of threads: for the setting `cpu=`, and for the benchmark.

use rustix::thread::CpuSet;
use std::io;

/// Pins the calling thread to one CPU.
///
/// # Errors
///
/// If the CPU does not exist or is not allowed to this process.
pub fn pin(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    let cpu = usize::try_from(cpu)
        .ok()
        .filter(|cpu| *cpu < CpuSet::MAX_CPU);
    set.set(cpu.ok_or(io::ErrorKind::InvalidInput)?);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// CPUs that this thread may run on, in rising order; empty if unknown.
#[must_use]
pub fn allowed() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    cpus.filter_map(|cpu| u32::try_from(cpu).ok()).collect()
}
