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
//! | `bytes` | classes of sixteen bytes at once, by vectors; ASCII as text |

use std::{
    io,
    os::fd::{BorrowedFd, FromRawFd, OwnedFd},
    sync::{Mutex, PoisonError},
};

use rustix::io::FdFlags;

#[cfg(target_os = "linux")]
pub(crate) mod buffers;
pub(crate) mod bytes;
pub(crate) mod socket;
#[cfg(target_os = "linux")]
pub(crate) mod uring;

/// The first descriptor that a parent passes by socket activation.
const INHERITED: i32 = 3;

/// Takes the descriptors that the parent has passed, all or none; none if they were taken before.
pub(crate) fn take_inherited(count: u32) -> io::Result<Vec<OwnedFd>> {
    static TAKEN: Mutex<bool> = Mutex::new(false);
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if *taken {
        return Ok(Vec::new());
    }
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let numbers = INHERITED..INHERITED.saturating_add(count);
    for fd in numbers.clone() {
        check_inherited(fd).map_err(|error| {
            io::Error::new(error.kind(), format!("inherited descriptor {fd}: {error}"))
        })?;
    }
    let own = |fd: i32| {
        // SAFETY: `check_inherited` says that it was open across `exec`: the parent passed it, and
        // no code of this process has opened it and owns it. `TAKEN`, and that it is closed on
        // `exec` from here on, have it taken once.
        unsafe { OwnedFd::from_raw_fd(fd) }
    };
    let owned: Vec<OwnedFd> = numbers.map(own).collect();
    *taken = true;
    for fd in &owned {
        // Of a descriptor that is open it cannot fail.
        rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC)?;
    }
    Ok(owned)
}

/// Whether the parent can have passed a descriptor: it listens, and it was not opened by this
/// process, in which everything opened is closed on `exec`.
fn check_inherited(fd: i32) -> io::Result<()> {
    // SAFETY: only borrowed to ask the kernel; a descriptor that is not open is an error.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    if rustix::io::fcntl_getfd(borrowed)?.contains(FdFlags::CLOEXEC) {
        let why = "it is closed on exec, so this process has opened it; call this first in main";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    socket::listens_on(borrowed).map(drop)
}

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

/// Has the calling thread get no signal when it sends a file to a peer that has left: `sendfile`
/// has no flag for that, as other sends have. The call then only fails.
#[cfg(target_os = "linux")]
pub(crate) fn block_pipe_signal() {
    // SAFETY: an all-zero set is a valid argument of `sigemptyset`, which fills it.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours and lives through the call.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: as above, and the set is initialised.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGPIPE) };
    let nowhere = std::ptr::null_mut();
    // SAFETY: as above; only the mask of this thread changes.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, nowhere) };
}

/// Elsewhere files are sent as other bytes are.
#[cfg(not(target_os = "linux"))]
pub(crate) fn block_pipe_signal() {}

/// Makes the allocator return free pages to the system. The allocator of glibc keeps any amount of
/// free memory between two blocks in use.
pub(crate) fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes a number and touches free memory alone; callable from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
