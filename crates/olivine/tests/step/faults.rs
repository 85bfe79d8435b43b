//! System call n fails, for n = 1, 2, … up to the last one of the operation, with each error of its
//! manual page that is possible here.

use crate::operations::OPERATIONS;
use crate::scene::{Handles, Operation, Scene};
use crate::trace::{Call, Traced, mark};
use crate::{ONE_AT_A_TIME, common};
use std::collections::BTreeSet;
use std::sync::PoisonError;

/// Operations that make system calls and can report a failed one.
const FALLIBLE: [&str; 11] = [
    "create by publishing",
    "create by subscribing",
    "create a shared channel",
    "attach a publisher",
    "attach to a shared channel",
    "attach to a dead lane",
    "attach a subscriber",
    "come back as durable",
    "park",
    "detach a publisher",
    "the last one out",
];

/// The possible errors of a system call. Empty for calls that the library does not make, and for
/// the allocator's calls, because a Rust program aborts without memory.
fn errors(call: Call) -> &'static [i32] {
    let [_, length, flags, file] = call.arguments;
    // -1 as the kernel sees it: 32 bits.
    let anonymous = file & 0xffff_ffff == 0xffff_ffff;
    match call.number {
        libc::SYS_openat => &[
            libc::EACCES,
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOMEM,
            libc::ELOOP,
            libc::EINTR,
            libc::EROFS,
        ],
        libc::SYS_mkdir | libc::SYS_mkdirat => &[
            libc::EACCES,
            libc::EDQUOT,
            libc::ENOSPC,
            libc::EROFS,
            libc::ENOMEM,
        ],
        libc::SYS_linkat => &[
            libc::EACCES,
            libc::EMLINK,
            libc::EXDEV,
            libc::ENOSPC,
            libc::EPERM,
        ],
        libc::SYS_renameat2 => &[libc::EINVAL, libc::EACCES, libc::ENOSPC, libc::EROFS],
        libc::SYS_fallocate => &[
            libc::ENOSPC,
            libc::EINTR,
            libc::EOPNOTSUPP,
            libc::EIO,
            libc::EFBIG,
        ],
        libc::SYS_pwrite64 | libc::SYS_write => &[libc::EINTR, libc::EIO, libc::ENOSPC],
        libc::SYS_fchmod | libc::SYS_fchown => &[libc::EPERM, libc::EROFS, libc::EIO],
        libc::SYS_fstat | libc::SYS_newfstatat | libc::SYS_statx => &[libc::ENOMEM, libc::EACCES],
        libc::SYS_fcntl => &[libc::ENOLCK, libc::EAGAIN, libc::EINTR, libc::EMFILE],
        libc::SYS_mmap if anonymous && (length != 4096 || flags & 0x10 != 0) => &[],
        libc::SYS_mmap => &[libc::ENOMEM, libc::EAGAIN, libc::EPERM],
        libc::SYS_madvise => &[libc::EINVAL, libc::ENOMEM, libc::EAGAIN],
        libc::SYS_futex => &[libc::EINTR, libc::EAGAIN, libc::ETIMEDOUT],
        libc::SYS_membarrier => &[libc::ENOSYS, libc::EPERM],
        libc::SYS_unlinkat => &[libc::EBUSY, libc::EACCES, libc::EROFS, libc::EIO],
        libc::SYS_getdents64 => &[libc::EIO, libc::ENOENT],
        _ => &[],
    }
}

/// Upper bound of `n`: no operation makes more calls.
const CALLS_MAX: usize = 2000;

#[test]
fn failed_system_call_loses_nothing_and_leaves_nothing() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let every = usize::try_from(common::setting("OLIVINE_FAULT_EVERY", 4)).unwrap();
    let mut faults = 0;
    let mut kinds = BTreeSet::new();
    for operation in OPERATIONS
        .iter()
        .filter(|operation| FALLIBLE.contains(&operation.name))
    {
        let calls = calls_of(operation);
        let mut refused = 0;
        let mut tried = 0;
        for (n, call) in calls.iter().enumerate() {
            for errno in errors(*call) {
                tried += 1;
                if (faults + tried) % every != 0 {
                    continue;
                }
                refused += u64::from(refuses(operation, n, *call, *errno));
                kinds.insert((call.number, *errno));
            }
        }
        println!(
            "{:<24} {:>4} system calls, {tried:>4} faults to try, {refused} ended in an error",
            operation.name,
            calls.len(),
        );
        faults += tried;
        assert!(tried > 0, "{}: nothing can fail", operation.name);
    }
    println!(
        "{faults} faults, every {every} tried, {} kinds",
        kinds.len()
    );
}

/// The system calls that the operation makes.
fn calls_of(operation: &Operation) -> Vec<Call> {
    let mut scene = Scene::new(operation);
    let mut child = crate::start(operation, &mut scene);
    let mut calls = Vec::new();
    while let Some(call) = child.go_to_syscall() {
        assert!(calls.len() < CALLS_MAX, "{} does not end", operation.name);
        calls.push(call);
        child.leave_syscall();
    }
    calls
}

/// Lets system call `n` fail. Returns whether the operation reported a failure. It must not panic,
/// and must succeed when repeated.
fn refuses(operation: &Operation, n: usize, call: Call, errno: i32) -> bool {
    let mut scene = Scene::new(operation);
    let uri = scene.uri();
    let mut child = Traced::start(|| {
        let mut handles = Handles::default();
        (operation.prepare)(&uri, &mut handles);
        mark();
        let done = (operation.act)(&uri, &mut handles);
        mark();
        match done {
            Ok(()) => {}
            Err(error) => {
                assert!(!error.is_empty());
                mark();
                (operation.act)(&uri, &mut handles).expect("the next try works");
            }
        }
        drop(handles);
    });
    (operation.ready)(&mut scene);
    let mut passed = 0;
    let mut failed = false;
    while let Some(found) = child.go_to_syscall() {
        // The process may cache earlier results, so the same call may have another number.
        if passed >= n && found.number == call.number && !failed {
            failed = true;
            child.fail_syscall(errno);
        } else {
            child.leave_syscall();
        }
        passed += 1;
    }
    let refused = child.go_on_to_the_end() > 0;
    assert!(failed || !refused);
    scene.check(crate::operations::acknowledged(operation, false));
    refused
}
