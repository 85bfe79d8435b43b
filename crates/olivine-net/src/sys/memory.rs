//! Freed memory that the allocator keeps.

/// Makes the allocator return free pages to the system. The allocator of glibc keeps any amount of
/// free memory between two blocks in use.
pub(crate) fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes a number and touches free memory alone; callable from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
