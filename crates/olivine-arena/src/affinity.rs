//! The CPUs of threads.

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

/// Runs `make` with the calling thread free to use any allowed CPU, and pins it again.
///
/// A library's threads inherit the CPU mask of the thread that starts them: on the CPU of a
/// measured thread they would disturb it.
pub fn unpinned<T>(make: impl FnOnce() -> T) -> T {
    restored(|| {
        let mut all = CpuSet::new();
        (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
        // The kernel ignores missing and forbidden CPUs; if it refuses, the library's threads share
        // our CPU.
        let _ = rustix::thread::sched_setaffinity(None, &all);
        make()
    })
}

/// Runs `make`, and then restores the CPU mask of the calling thread.
pub fn restored<T>(make: impl FnOnce() -> T) -> T {
    let before = rustix::thread::sched_getaffinity(None);
    let made = make();
    if let Ok(before) = before {
        // The kernel accepts its own mask again, unless CPUs were removed in between.
        let _ = rustix::thread::sched_setaffinity(None, &before);
    }
    made
}
