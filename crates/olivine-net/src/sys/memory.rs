//! Memory that the allocator keeps of what was freed.

/// Has the allocator give free pages back to the system, where it is one that keeps them: glibc's keeps what lies
/// between two blocks in use, however much that is.
pub(crate) fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes a number and touches free memory alone; callable from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
