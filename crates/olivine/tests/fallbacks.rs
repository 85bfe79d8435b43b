//! Systems without `/proc` or `MADV_WIPEONFORK`: channels still work.

#![cfg(all(not(loom), target_os = "linux"))]

mod common;

use common::TestFolder;
use olivine::{NotSent, Publisher, ReceiveError, Subscriber, admin};
use std::path::Path;

/// Carries a message over a channel, and its end.
fn carry(uri: &str) {
    let mut subscriber = Subscriber::open(uri).unwrap();
    let mut publisher = Publisher::open(uri).unwrap();
    for number in 0..1_000_u32 {
        publisher.publish(&number.to_le_bytes()).unwrap();
        common::receive(&mut subscriber, |message| {
            assert_eq!(**message, number.to_le_bytes());
        });
    }
    // The next call would return it: as long as the last one.
    publisher.publish(b"next").unwrap();
    // A child of this process must not act as its parent.
    // SAFETY: the child uses its handles and ends; SIGALRM ends it if it hangs.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: integers only.
        unsafe { libc::alarm(20) };
        // As long as the last message, and longer: the fast path and the slow one.
        let forked = publisher.try_publish(b"fast") == Err(NotSent::Forked)
            && publisher.try_publish(b"of a child") == Err(NotSent::Forked)
            && matches!(subscriber.try_receive(), Err(ReceiveError::Forked));
        drop((publisher, subscriber));
        // SAFETY: ends the child and nothing else.
        unsafe { libc::_exit(i32::from(!forked)) };
    }
    let mut status = -1;
    // SAFETY: waits for the child above; `status` lives across the call.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "the child's handles are not refused");
    common::receive(&mut subscriber, |message| assert_eq!(&**message, b"next"));
    publisher.publish(b"of the parent").unwrap();
    common::receive(&mut subscriber, |message| {
        assert_eq!(&**message, b"of the parent");
    });
}

/// Makes `madvise(…, MADV_WIPEONFORK)` fail in this process, as it does in gVisor.
#[cfg(target_arch = "x86_64")]
fn refuse_to_wipe() {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const ANSWER: u16 = 0x06; // BPF_RET | BPF_K
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let number = |n: i64| u32::try_from(n).unwrap();
    let mut steps = [
        step(LOAD, 0, 0, 0),
        step(EQUAL, number(libc::SYS_madvise), 0, 3),
        // The low half of the third argument.
        step(LOAD, 16 + 2 * 8, 0, 0),
        step(EQUAL, 18, 0, 1),
        step(ANSWER, ERRNO | number(libc::EINVAL.into()), 0, 0),
        step(ANSWER, ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: 6,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: integers only.
    let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(done, 0);
    // SAFETY: `filter` and its steps live across the call.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, 1, 1, &raw const filter) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// The other processes, in which something is missing.
#[test]
fn role() {
    let Some(role) = common::my_role() else {
        return;
    };
    let dir = std::env::var("OLIVINE_TEST_DIR").unwrap();
    match role.as_str() {
        "no proc" => {
            assert!(!Path::new("/proc/self").exists());
            carry(&format!("shm://there?dir={dir}"));
            carry(&format!("shm://there?dir={dir}&mode=0660"));
            carry("inproc://there");
            #[cfg(feature = "journal")]
            {
                let uri = format!("file://{dir}-journal");
                Publisher::open(&uri).unwrap().publish(b"kept").unwrap();
                let mut subscriber = Subscriber::open(&format!("{uri}?from=oldest")).unwrap();
                common::receive(&mut subscriber, |message| assert_eq!(&**message, b"kept"));
            }
            // On a disk, channels of an earlier boot would be indistinguishable.
            let disk = std::env::var("OLIVINE_TEST_DISK").unwrap();
            let error = Publisher::open(&format!("shm://x?dir={disk}")).unwrap_err();
            assert!(error.to_string().contains("boot_id"), "{error}");
        }
        #[cfg(target_arch = "x86_64")]
        "no wiping" => {
            refuse_to_wipe();
            carry(&format!("shm://there?dir={dir}"));
            carry("inproc://there");
        }
        other => panic!("no such role: {other}"),
    }
    assert!(admin::list(Path::new(&dir)).unwrap().is_empty());
    std::fs::write(std::env::var("OLIVINE_TEST_DONE").unwrap(), "done").unwrap();
}

#[test]
#[cfg(target_arch = "x86_64")]
fn child_handles_are_refused_without_wipeonfork() {
    let place = TestFolder::new();
    let done = place.file("done");
    let child = common::spawn(
        "no wiping",
        &[
            ("OLIVINE_TEST_DIR", place.dir().display().to_string()),
            ("OLIVINE_TEST_DONE", done.display().to_string()),
        ],
    );
    common::finished(child);
    assert!(done.exists(), "it did not come to its end");
}

#[test]
fn channels_work_without_proc() {
    let place = TestFolder::new();
    let done = place.file("done");
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // Private propagation: only this process sees the mount, which ends with it.
    let script = "mount -t tmpfs none /proc || exit 77; \
                  exec \"$OLIVINE_TEST_SELF\" --exact role --nocapture";
    let status = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .env("OLIVINE_DEATH_ROLE", "no proc")
        .env("OLIVINE_TEST_SELF", std::env::current_exe().unwrap())
        .env("OLIVINE_TEST_DIR", place.dir())
        .env("OLIVINE_TEST_DISK", disk.path().join("channels"))
        .env("OLIVINE_TEST_DONE", &done)
        .status();
    match status {
        Ok(status) if status.success() => assert!(done.exists()),
        Ok(status) if !matches!(status.code(), Some(1 | 77)) || done.exists() => {
            panic!("without /proc: {status}")
        }
        refused => common::skip(&format!("no mount namespace to be had here ({refused:?})")),
    }
}
