//! System call n fails, for n = 1, 2, … up to the last one of the operation, with each error of its
//! manual page that is possible here.

use crate::operations::OPERATIONS;
use crate::scene::{Handles, Operation, Scene};
use crate::trace::{Call, Traced, mark};
use crate::{ONE_AT_A_TIME, common};
use std::collections::BTreeSet;
use std::sync::PoisonError;

/// Operations whose only system calls wake a sleeper, and how many they make. None of these can
/// fail: see `errors`.
const FAST_PATHS: [(&str, usize); 5] = [
    ("publish", 0),
    ("claim and commit", 0),
    ("batch", 0),
    ("poll and release", 0),
    ("wake", 1),
];

/// System calls that cannot fail here, and why.
const NEVER_FAIL: &[(i64, &str)] = &[
    (libc::SYS_getpid, "has no error"),
    (libc::SYS_gettid, "has no error"),
    (libc::SYS_geteuid, "has no error"),
    (libc::SYS_sched_yield, "has no error"),
    (libc::SYS_rt_sigprocmask, "its arguments are valid"),
    (libc::SYS_brk, "the allocator uses mmap when it fails"),
    (
        libc::SYS_getrandom,
        "16 bytes without blocking cannot fail on Linux 3.17 and later",
    ),
    (
        libc::SYS_clock_nanosleep,
        "only a signal interrupts it, and then the standard library repeats it",
    ),
];

/// The errors that a system call can return here. Empty for a call that cannot fail, and for
/// memory of the allocator: a Rust program aborts without it.
fn errors(call: Call) -> &'static [i32] {
    let [_, length, flags, file] = call.arguments;
    let operation = i32::try_from(length & 0x7f).unwrap_or(0);
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
        libc::SYS_fstatfs => &[libc::EINTR, libc::EIO, libc::ENOMEM, libc::ENOSYS],
        libc::SYS_pread64 | libc::SYS_read => &[libc::EINTR, libc::EIO],
        // It may split a mapping in two, and the number of mappings is limited.
        libc::SYS_munmap => &[libc::ENOMEM],
        libc::SYS_close => &[libc::EINTR, libc::EIO],
        libc::SYS_fcntl => &[libc::ENOLCK, libc::EAGAIN, libc::EINTR, libc::EMFILE],
        libc::SYS_mmap if anonymous && (length != 4096 || flags & 0x10 != 0) => &[],
        libc::SYS_mmap => &[libc::ENOMEM, libc::EAGAIN, libc::EPERM],
        libc::SYS_madvise => &[libc::EINVAL, libc::ENOMEM, libc::EAGAIN],
        // Waking fails only for a word that is not mapped.
        libc::SYS_futex if FUTEX_WAKES.contains(&operation) => &[],
        libc::SYS_futex => &[libc::EINTR, libc::EAGAIN, libc::ETIMEDOUT],
        libc::SYS_membarrier => &[libc::ENOSYS, libc::EPERM],
        libc::SYS_epoll_create1 | libc::SYS_eventfd2 | libc::SYS_timerfd_create => {
            &[libc::EMFILE, libc::ENFILE, libc::ENOMEM]
        }
        // Of the allocator, and of the stack of a new thread.
        libc::SYS_mprotect => &[libc::ENOMEM],
        libc::SYS_clone3 => &[libc::EAGAIN, libc::ENOMEM],
        libc::SYS_epoll_ctl => &[libc::ENOMEM, libc::ENOSPC],
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => &[libc::EINTR],
        libc::SYS_pidfd_open => &[
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOMEM,
            libc::ESRCH,
            libc::ENOSYS,
            libc::EPERM,
        ],
        libc::SYS_unlinkat => &[libc::EBUSY, libc::EACCES, libc::EROFS, libc::EIO],
        libc::SYS_getdents64 => &[libc::EIO, libc::ENOENT],
        _ => &[],
    }
}

/// Operations of `futex` that wake sleepers.
const FUTEX_WAKES: [i32; 3] = [
    libc::FUTEX_WAKE,
    libc::FUTEX_WAKE_BITSET,
    libc::FUTEX_WAKE_OP,
];

/// Fewest faults of all operations: kernels and builds differ in a few system calls.
const FAULTS_MIN: usize = 2500;

/// Upper bound of `n`: no operation makes more calls.
const CALLS_MAX: usize = 2000;

#[test]
fn failed_system_call_loses_nothing_and_leaves_nothing() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let every = usize::try_from(common::setting("OLIVINE_FAULT_EVERY", 16)).unwrap();
    let mut faults = 0;
    let mut kinds = BTreeSet::new();
    let only = std::env::var("OLIVINE_STEP_ONLY").unwrap_or_default();
    let operations = OPERATIONS.iter().filter(|found| found.name.contains(&only));
    for operation in operations {
        let calls = calls_of(operation);
        let mut refused = 0;
        let mut tried = 0;
        for (n, call) in calls.iter().enumerate() {
            let number = call.number;
            let is_known = !errors(*call).is_empty()
                || [libc::SYS_futex, libc::SYS_mmap].contains(&number)
                || NEVER_FAIL.iter().any(|(known, _)| *known == number);
            assert!(
                is_known,
                "{}: say in 'errors' how system call {number} fails, or in 'NEVER_FAIL' why not",
                operation.name
            );
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
        let has_none = FAST_PATHS.iter().any(|(name, _)| *name == operation.name);
        assert_eq!(
            tried == 0,
            has_none,
            "{}: {tried} faults to try",
            operation.name
        );
    }
    println!(
        "{faults} faults, every {every} tried, {} kinds",
        kinds.len()
    );
    if only.is_empty() {
        assert!(
            faults >= FAULTS_MIN,
            "{faults} faults; at least {FAULTS_MIN}"
        );
    }
}

#[test]
fn sending_and_receiving_make_a_system_call_only_to_wake_a_sleeper() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, count) in FAST_PATHS {
        let mut operations = OPERATIONS.iter();
        let operation = operations.find(|found| found.name == name);
        let calls = calls_of(operation.expect(name));
        assert_eq!(calls.len(), count, "{name}: {calls:?}");
        for call in calls {
            let operation = i32::try_from(call.arguments[1] & 0x7f).unwrap();
            let wakes = call.number == libc::SYS_futex && FUTEX_WAKES.contains(&operation);
            assert!(wakes, "{name}: {call:?}");
        }
    }
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

/// Whether an error has the text of the system's error, or names a file of the channel.
fn names_the_cause(error: &str, errno: i32, uri: &str) -> bool {
    let folder = uri.split_once("dir=").map_or("", |(_, rest)| rest);
    let folder = folder.split('&').next().unwrap_or_default();
    error.contains(&format!("(os error {errno})")) || !folder.is_empty() && error.contains(folder)
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
                assert!(names_the_cause(&error, errno, &uri), "{error}");
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
            if call.number == libc::SYS_close {
                child.make_syscall_answer(errno);
            } else {
                child.fail_syscall(errno);
            }
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
