//! The cost of a waiting process, in counts: wake-ups of its threads, and barriers, which are
//! forbidden.

use std::time::{Duration, Instant};

/// Installs a filter of system calls: `action` for `call`, no change for others. `flags` as for
/// `seccomp(2)`.
pub(crate) fn filter(call: libc::c_long, action: u32, flags: libc::c_ulong) -> std::io::Result<()> {
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let number = u32::try_from(call).expect("a number of a system call");
    // BPF_LD+W+ABS of the call's number; BPF_JMP+JEQ+K; BPF_RET+K.
    let mut steps = [
        step(0x20, 0, 0, 0),
        step(0x15, number, 0, 1),
        step(0x06, action, 0, 0),
        step(0x06, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: only removes privileges from this process.
    let unprivileged = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the program and its steps live across the call.
    let filtered = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    if unprivileged != 0 || filtered != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Times that threads of this process, except the caller's, went to sleep, in total.
fn switches() -> u64 {
    let me = rustix::thread::gettid().as_raw_nonzero().to_string();
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc");
    tasks
        .flatten()
        .filter(|task| task.file_name().to_string_lossy() != me)
        .filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok())
        .map(|status| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            let count = line.and_then(|line| line.trim().parse::<u64>().ok());
            count.expect("a count of switches")
        })
        .sum()
}

/// Waits until the other threads of this process have settled. Then forbids barriers (a barrier
/// kills the process) and counts for `long` how often the others wake up. Returns the count, and
/// the seconds that it took, rounded up.
pub(crate) fn wakeups(long: Duration) -> (u64, u64) {
    // Until they wake up at most once in a quarter of a second.
    loop {
        let before = switches();
        std::thread::park_timeout(Duration::from_millis(250));
        if switches() <= before + 1 {
            break;
        }
    }
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC;
    filter(libc::SYS_membarrier, libc::SECCOMP_RET_KILL_PROCESS, flags).expect("a filter");
    let (started, before) = (Instant::now(), switches());
    while started.elapsed() < long {
        std::thread::park_timeout(long.saturating_sub(started.elapsed()));
    }
    let count = switches() - before;
    (count, started.elapsed().as_secs() + 1)
}

/// Runs the tests of this program again in a process whose kernel refuses barriers, except `test`
/// and those of endless naps. Without barriers, naps of a millisecond cover lost wake-ups on
/// purpose.
pub(crate) fn again_without_membarrier(test: &str) {
    use std::os::unix::process::CommandExt as _;
    if super::runner().is_some() {
        return super::skip("qemu-user has no seccomp filters");
    }
    let me = std::env::current_exe().expect("own path");
    let mut command = std::process::Command::new(me);
    command.args(["--skip", test, "--skip", "storms", "--test-threads=2"]);
    command.env("OLIVINE_TEST_NO_MEMBARRIER", "1");
    let refuse = || {
        let errno = u32::try_from(libc::EPERM).expect("a number");
        filter(libc::SYS_membarrier, libc::SECCOMP_RET_ERRNO | errno, 0)
    };
    // SAFETY: two system calls with memory of the stack, between fork and exec.
    unsafe { command.pre_exec(refuse) };
    let output = command.output().expect("to run");
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = text
        .lines()
        .find_map(|line| line.strip_prefix("test result: ok. "));
    let passed = passed.and_then(|line| line.split(' ').next()?.parse::<u32>().ok());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    println!("{passed:?} passed without membarrier");
    assert!(passed.is_some_and(|passed| passed >= 3), "{text}");
    assert!(
        text.contains("membarrier_is_refused_on_request ... ok"),
        "{text}"
    );
}

/// In such a run barriers are refused; otherwise they are not.
pub(crate) fn membarrier_is_as_expected() {
    // SAFETY: takes integers.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) };
    let refused = std::env::var_os("OLIVINE_TEST_NO_MEMBARRIER").is_some();
    assert!(!refused || answer == -1, "membarrier answered {answer}");
}
