//! The interface to the operating system, and the only place with `unsafe` code.
//!
//! A platform supplies:
//!
//! | file | what |
//! |---|---|
//! | `sys.rs` | the CPUs this process may use; pinning the calling thread; giving free pages back |
//! | `socket` | listeners, accepted and outgoing sockets, their options, send and receive |
//! | `uring` | Linux only: the io_uring back end |
//! | `buffers` | Linux only: receive buffers shared with io_uring |
//!
//! All the `unsafe` is in `uring` and `buffers`.

use std::io;

#[cfg(target_os = "linux")]
pub(crate) mod buffers;
pub(crate) mod socket;
#[cfg(target_os = "linux")]
pub(crate) mod uring;

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

/// Makes the allocator return free pages to the system. The allocator of glibc keeps any amount of
/// free memory between two blocks in use.
pub(crate) fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes a number and touches free memory alone; callable from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
