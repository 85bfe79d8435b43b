//! Affinity masks: where this thread may run, and making it stay.

use std::io;

/// The CPUs the calling thread may run on, ascending; a container's cpuset is already applied.
#[cfg(target_os = "linux")]
pub(crate) fn allowed() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect())
}

/// Keeps the calling thread on `cpu`.
#[cfg(target_os = "linux")]
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= rustix::thread::CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Other systems have no mask to read: every CPU that the standard library counts.
#[cfg(not(target_os = "linux"))]
pub(crate) fn allowed() -> io::Result<Vec<usize>> {
    Ok((0..std::thread::available_parallelism()?.get()).collect())
}

/// Elsewhere threads cannot be pinned; the scheduler is trusted instead.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(_cpu: usize) -> io::Result<()> {
    Ok(())
}
