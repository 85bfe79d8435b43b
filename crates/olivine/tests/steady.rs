//! With open handles, a message costs no allocation and no system call.

#![cfg(not(loom))]

mod common;

use olivine::{Outgoing, Publisher, Subscriber};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: forwards everything unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's guarantees hold.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees hold; the memory came from `alloc` above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

const MESSAGES: u64 = 100_000;

fn pair(uri: &str) -> (Publisher, Subscriber) {
    let mut subscriber = Subscriber::open(uri).unwrap();
    let mut publisher = Publisher::open(uri).unwrap();
    // The lane is found, and the buffers for copies exist.
    publisher.publish(&[1; 512]).unwrap();
    subscriber.receive().unwrap();
    (publisher, subscriber)
}

/// Every send and receive call, many laps of the ring. `true` if all messages arrived.
fn work(publisher: &mut Publisher, subscriber: &mut Subscriber) -> bool {
    let mut right = true;
    for n in 0..MESSAGES {
        let message = [n.to_le_bytes(); 10];
        let message = message.as_flattened();
        match n % 4 {
            0 => right &= publisher.publish(message).is_ok(),
            1 => right &= publisher.try_publish(Outgoing::new(message).tag(1)).is_ok(),
            2 => match publisher.try_claim(message.len()) {
                Ok(mut claim) => {
                    claim.copy_from_slice(message);
                    claim.commit();
                }
                Err(_) => right = false,
            },
            _ => {
                let mut batch = publisher.batch();
                right &= batch.push(message).is_ok();
                batch.commit();
            }
        }
        if !right {
            // Nothing was sent: a wait would not end.
            return false;
        }
        if n % 2 == 0 {
            right &= matches!(subscriber.receive(), Ok(got) if &*got == message);
        } else {
            right &= subscriber
                .poll(|got| right &= &*got == message, 10)
                .is_ok_and(|n| n == 1);
        }
        right &= subscriber.try_receive().is_ok_and(|none| none.is_none());
    }
    right
}

#[test]
fn no_message_allocates_or_enters_the_kernel() {
    let place = common::TestFolder::new();
    for query in [
        "wait=spin",
        "wait=spin&slow=evict:1h",
        "wait=spin&delivery=latest",
    ] {
        let (mut publisher, mut subscriber) =
            pair(&place.uri("steady", &format!("capacity=64KiB&{query}")));
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        assert!(work(&mut publisher, &mut subscriber));
        let during = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(during, 0, "{query}: allocations in {MESSAGES} messages");
        enters_no_kernel(&mut publisher, &mut subscriber, query);
    }
}

/// From here on the kernel kills this thread at any system call but `write` and `exit`. Returns 0
/// if this works. Not strict mode: it also forbids the time stamp counter, and so clocks without a
/// system call.
fn forbid_system_calls() -> i32 {
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let number = |call: libc::c_long| u32::try_from(call).unwrap();
    // BPF_LD+W+ABS of the call's number; BPF_JMP+JEQ+K; BPF_RET+K.
    let mut steps = [
        step(0x20, 0, 0, 0),
        step(0x15, number(libc::SYS_write), 2, 0),
        step(0x15, number(libc::SYS_exit), 1, 0),
        step(0x06, libc::SECCOMP_RET_KILL_THREAD, 0, 0),
        step(0x06, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: 5,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: only removes privileges from this process.
    let unprivileged = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the program and its steps live across the call.
    let filtered = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    unprivileged | filtered
}

/// Does the work in a child that the kernel kills at any system call but `write` and `exit`.
fn enters_no_kernel(publisher: &mut Publisher, subscriber: &mut Subscriber, query: &str) {
    // A clone without the C library's `fork` handlers would keep the handles usable only by
    // accident: instead the child opens its own. One channel each: the previous child left a dead
    // subscriber in its channel, which still holds it back.
    let uri = publisher
        .uri()
        .replace("steady", &format!("strict-{}", query.len()));
    let (result, report) = std::io::pipe().unwrap();
    let _ = subscriber;
    // SAFETY: the child opens its own handles, works and ends; it takes no lock that another thread
    // may hold: this test binary has one test.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let uri = format!("{uri}&{query}");
        let uri = uri.split_once('?').map_or_else(
            || uri.clone(),
            |(name, _)| {
                let dir = Publisher::uri(publisher);
                let dir = dir
                    .split(['?', '&'])
                    .find(|part| part.starts_with("dir="))
                    .unwrap_or("")
                    .to_owned();
                format!("{name}?{dir}&capacity=64KiB&{query}")
            },
        );
        let (mut publisher, mut subscriber) = pair(&uri);
        let strict = forbid_system_calls();
        let right = work(&mut publisher, &mut subscriber);
        let byte = match (strict, right) {
            (0, true) => b'y',
            (0, false) => b'n',
            _ => b's',
        };
        // SAFETY: one byte of a local; the descriptor is open.
        unsafe {
            libc::write(
                std::os::fd::AsRawFd::as_raw_fd(&report),
                (&raw const byte).cast(),
                1,
            )
        };
        // SAFETY: the filter permits `exit` only, not the `exit_group` that `_exit` uses.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    drop(report);
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut { result }, &mut answer).unwrap();
    let mut status = 0;
    // SAFETY: waits for the child above and writes its status to a local.
    let reaped = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(reaped, pid);
    if answer == b"s" {
        common::skip("a system call filter is not to be had here");
        return;
    }
    assert_eq!(
        (answer.as_slice(), status),
        (&b"y"[..], 0),
        "{query}: killed at a system call?"
    );
}
