//! The CPUs that threads of a library may use.

/// Runs `make` with the calling thread free to use any allowed CPU, and pins it again.
///
/// A library's threads inherit the CPU mask of the thread that starts them: on the CPU of a
/// measured thread they would disturb it.
pub fn unpinned<T>(make: impl FnOnce() -> T) -> T {
    restored(|| {
        let mut all = rustix::thread::CpuSet::new();
        (0..rustix::thread::CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
        // The kernel ignores missing and forbidden CPUs; if it refuses, the library's threads share
        // our CPU.
        let _ = rustix::thread::sched_setaffinity(None, &all);
        make()
    })
}

/// Runs `make`, and then restores the CPU mask of the calling thread.
pub(crate) fn restored<T>(make: impl FnOnce() -> T) -> T {
    let before = rustix::thread::sched_getaffinity(None);
    let made = make();
    if let Ok(before) = before {
        // The kernel accepts its own mask again, unless CPUs were removed in between.
        let _ = rustix::thread::sched_setaffinity(None, &before);
    }
    made
}
