//! What a forked child may do with its parent's handles, and what with its own.

#![cfg(not(loom))]

mod common;

use common::numbers::{LONG, expect, send};
use common::{Place, until};
use olivine::admin::inspect;
use olivine::{Config, LaneState, NotSent, Publisher, ReceiveError, Subscriber};
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: which descriptors a child closes, and in which order they are used again, is part of them.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `child` in a forked process and wants 0 from it; a hang there is a failure here.
fn forked(child: impl FnOnce() -> i32) {
    // SAFETY: the child only runs `child` and leaves by `_exit`; it touches no lock that another thread may hold
    // beyond those of the allocator, which the C library makes usable after a fork.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
        // SAFETY: ends this process and nothing else.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    until("the forked child ends", || {
        // SAFETY: waits for the child above and writes its status to a local.
        unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) == pid }
    });
    assert_eq!(
        (libc::WIFEXITED(status), libc::WEXITSTATUS(status)),
        (true, 0)
    );
}

#[test]
fn a_forked_child_is_refused_and_harms_nobody() {
    let _alone = alone();
    let place = Place::new();
    for uri in [
        place.uri("fork", "capacity=4KiB"),
        "inproc://fork?capacity=4KiB".to_owned(),
    ] {
        let mut subscriber = Some(Subscriber::open(&uri).unwrap());
        let mut publisher = Some(Publisher::open(&uri).unwrap());
        send(publisher.as_mut().unwrap(), 0..3);
        // Its thread does not exist in the child.
        subscriber.as_mut().unwrap().event_fd().unwrap();
        forked(|| {
            if uri.starts_with("inproc") {
                // The name is free here: memory of two processes under the locks of one would have two writers.
                let mut own = Publisher::open(&uri).unwrap();
                own.publish(b"nobody").unwrap();
            }
            let (mut subscriber, mut publisher) =
                (subscriber.take().unwrap(), publisher.take().unwrap());
            let refused = matches!(publisher.offer(b"child"), Err(NotSent::Forked))
                && matches!(publisher.publish(b"child"), Err(NotSent::Forked))
                && matches!(publisher.claim(1).map(|_| ()), Err(NotSent::Forked))
                && matches!(publisher.wait_drained(None), Err(NotSent::Forked))
                && matches!(
                    subscriber.try_receive().map(|_| ()),
                    Err(ReceiveError::Forked)
                )
                && matches!(subscriber.receive().map(|_| ()), Err(ReceiveError::Forked))
                && matches!(subscriber.poll(|_| (), 1), Err(ReceiveError::Forked))
                && matches!(subscriber.wait(LONG), Err(ReceiveError::Forked));
            subscriber.release();
            drop((subscriber, publisher));
            i32::from(!refused)
        });
        let (mut subscriber, mut publisher) = (subscriber.unwrap(), publisher.unwrap());
        send(&mut publisher, 3..6);
        expect(&mut subscriber, 0..6);
        assert_eq!(publisher.subscribers(), 1);
        publisher.close().unwrap();
        assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
    }
    assert!(!place.channel("fork").exists());
}

#[test]
fn a_handle_that_replaces_an_inherited_one_is_whole_and_dies_with_its_process() {
    let _alone = alone();
    let place = Place::new();
    let uri = place.uri("again", "capacity=4KiB");
    // Before anything else, so that a handle of the child's finds the place of this one first.
    let mut publisher = Publisher::open(&uri).unwrap();
    let state = |lane: usize| {
        let found = inspect(&Config::parse(&uri).unwrap()).unwrap();
        found.publishers[lane].state
    };
    let (mut rest, stay) = std::io::pipe().unwrap();
    forked(|| {
        // As the error advises.
        assert!(matches!(publisher.offer(b"child"), Err(NotSent::Forked)));
        publisher = Publisher::open(&uri).unwrap();
        assert_eq!((publisher.lane(), state(1)), (1, LaneState::Open));
        // SAFETY: as in `forked`.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // Outlives the owner of the handle, until the test is over.
            // SAFETY: this process ends without dropping `stay`.
            unsafe { libc::close(stay.as_raw_fd()) };
            let _ = rest.read(&mut [0]);
            // SAFETY: ends this process and nothing else.
            unsafe { libc::_exit(0) };
        }
        publisher.publish(b"last words").unwrap();
        0
    });
    assert_eq!((state(0), state(1)), (LaneState::Open, LaneState::Dead));
    let next = Publisher::open(&uri).unwrap();
    assert_eq!(next.lane(), 1);
    drop(stay);
}
