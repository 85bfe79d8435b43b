//! What a forked child may do with its parent's handles, and with its own.

#![cfg(not(loom))]

mod common;

use common::numbers::{LONG, expect, send};
use common::tasks::once;
use common::{TestFolder, until};
use olivine::admin::inspect;
use olivine::raw::{
    self, CheckedEgress, CheckedIngress, Control, Destination, Inlet, NotRead, NotTaken,
};
use olivine::{
    AsyncPublisher, ClaimingPublisher, Config, LaneState, NotSent, Outgoing, OwnedClaim, Publisher,
    ReceiveError, Subscriber,
};
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// One test at a time: closing and reuse of descriptors in a child are part of the tests.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this is an emulator that keeps the pages which a kernel zeroes in a forked child. Then
/// the tests print that.
fn keeps_pages() -> bool {
    let emulated = common::runner().is_some();
    if emulated {
        common::skip("qemu-user accepts MADV_WIPEONFORK and keeps the page in a forked child");
    }
    emulated
}

/// Runs `child` in a forked process, which must return 0; a hang there fails here.
fn forked(child: impl FnOnce() -> i32) {
    // SAFETY: the child only runs `child` and ends by `_exit`. It takes no lock that another thread
    // may hold, except those of the allocator, which the C library makes usable after a fork.
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

/// Forks a process that outlives the owner of the handle: it closes `stay`, writes a byte to
/// `tell`, and stays until `rest` ends with the test.
fn fork_that_stays(stay: &PipeWriter, tell: &mut PipeWriter, rest: &mut PipeReader) {
    // SAFETY: as in `forked`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: this process ends without dropping `stay`.
        unsafe { libc::close(stay.as_raw_fd()) };
        let _ = tell.write_all(&[1]);
        let _ = rest.read(&mut [0]);
        // SAFETY: ends this process and nothing else.
        unsafe { libc::_exit(0) };
    }
}

#[test]
fn forked_child_handles_are_refused() {
    let _alone = alone();
    if keeps_pages() {
        return;
    }
    let place = TestFolder::new();
    for uri in [
        place.uri("fork", "capacity=4KiB"),
        "inproc://fork?capacity=4KiB".to_owned(),
    ] {
        let mut subscriber = Some(Subscriber::open(&uri).unwrap());
        let mut publisher = Some(Publisher::open(&uri).unwrap());
        send(publisher.as_mut().unwrap(), 0..3);
        // The next call would consume the second, and return the next, which is as long.
        expect(subscriber.as_mut().unwrap(), 0..2);
        // Its thread does not exist in the child.
        subscriber.as_mut().unwrap().event_fd().unwrap();
        forked(|| {
            if uri.starts_with("inproc") {
                // The name is free here: two processes with the memory of one lock would be two
                // writers.
                let mut own = Publisher::open(&uri).unwrap();
                own.publish(b"unread").unwrap();
            }
            let (mut subscriber, mut publisher) =
                (subscriber.take().unwrap(), publisher.take().unwrap());
            // As long as the messages of the parent, and longer.
            let refused = matches!(publisher.try_publish(b"four"), Err(NotSent::Forked))
                && matches!(publisher.try_publish(b"child"), Err(NotSent::Forked))
                && matches!(publisher.publish(b"child"), Err(NotSent::Forked))
                && matches!(publisher.try_claim(1).map(|_| ()), Err(NotSent::Forked))
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
        expect(&mut subscriber, 2..6);
        assert_eq!(publisher.count_subscribers(), 1);
        publisher.close().unwrap();
        assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
    }
    assert!(!place.channel("fork").exists());
}

/// The thread that has the publisher does not exist in the child.
#[test]
fn child_of_a_waiting_task_is_refused_and_the_parent_goes_on() {
    let _alone = alone();
    if keeps_pages() {
        return;
    }
    let uri = "inproc://fork-waits?capacity=4KiB";
    let mut subscriber = Subscriber::open(uri).unwrap();
    let mut here = AsyncPublisher::new(Publisher::open(uri).unwrap()).unwrap();
    let mut waits = Some(AsyncPublisher::new(Publisher::open(uri).unwrap()).unwrap());
    let waiting = waits.as_mut().unwrap();
    let Poll::Ready(full) = once(waiting.get_mut()) else {
        panic!("no wait was dropped");
    };
    let full = full.unwrap();
    while full.try_publish(b"four").is_ok() {}
    // From here on the thread has the publisher.
    assert!(once(waiting.publish(b"four")).is_pending());
    // A task of the child is a copy of the parent's: its future is polled again.
    let mut kept = Some(AsyncPublisher::new(Publisher::open(uri).unwrap()).unwrap());
    let kept_publisher = kept.as_mut().unwrap();
    let Poll::Ready(full) = once(kept_publisher.get_mut()) else {
        panic!("no wait was dropped");
    };
    let full = full.unwrap();
    while full.try_publish(b"kept").is_ok() {}
    let mut kept_future = Box::pin(kept_publisher.publish(b"kept"));
    let mut context = Context::from_waker(Waker::noop());
    assert!(kept_future.as_mut().poll(&mut context).is_pending());
    forked(|| {
        let mut waits = waits.take().unwrap();
        let again = kept_future.as_mut().poll(&mut context);
        let refused = [
            again.map(|sent| sent.err()),
            once(here.publish(b"child")).map(|sent| sent.err()),
            once(here.wait_for_room(5)).map(Result::err),
            once(waits.publish(b"child")).map(|sent| sent.err()),
            once(waits.wait_for_room(5)).map(Result::err),
            once(waits.get_mut()).map(|got| got.err()),
        ];
        drop(waits);
        i32::from(refused != [Poll::Ready(Some(NotSent::Forked)); 6])
    });
    drop(kept_future);
    drop(kept);
    let mut received = 0;
    while subscriber.try_receive().unwrap().is_some() {
        received += 1;
    }
    subscriber.release();
    smol::block_on(async {
        let mut waits = waits.take().unwrap();
        waits.publish(b"last").await.unwrap();
        waits.close().await.unwrap();
        here.close().await.unwrap();
    });
    assert!(received > 64 && *subscriber.receive().unwrap() == *b"last");
    assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
}

#[test]
fn stream_fails_if_the_thread_of_its_publisher_cannot_be_started() {
    let _alone = alone();
    if common::runner().is_some() {
        return common::skip("an emulator has no filter of system calls");
    }
    forked(|| {
        let uri = "inproc://no-thread";
        let mut subscriber = Subscriber::open(uri).unwrap();
        let mut publisher = Publisher::open(uri).unwrap();
        send(&mut publisher, 0..1);
        // It maps the lane of the publisher.
        expect(&mut subscriber, 0..1);
        let no_more = libc::SECCOMP_RET_ERRNO | libc::EAGAIN.cast_unsigned();
        for call in [libc::SYS_clone, libc::SYS_clone3] {
            common::idle::filter(call, no_more, 0).unwrap();
        }
        let refused = AsyncPublisher::new(publisher).is_err();
        // Not every call that finds no message looks for the end.
        let fails =
            (0..8).any(|_| matches!(subscriber.try_receive(), Err(ReceiveError::Failed(_))));
        i32::from(!(refused && fails))
    });
}

#[test]
fn child_can_open_its_own_handle() {
    let _alone = alone();
    if keeps_pages() {
        return;
    }
    let place = TestFolder::new();
    let uri = place.uri("again", "capacity=4KiB");
    // First, so that a handle of the child meets the slot of this one first.
    let mut publisher = Publisher::open(&uri).unwrap();
    let state = |lane: usize| {
        let found = inspect(&Config::parse(&uri).unwrap()).unwrap();
        found.publishers[lane].state
    };
    let (mut rest, stay) = std::io::pipe().unwrap();
    let (mut told, mut tell) = std::io::pipe().unwrap();
    forked(|| {
        // As the error advises.
        assert!(matches!(
            publisher.try_publish(b"child"),
            Err(NotSent::Forked)
        ));
        publisher = Publisher::open(&uri).unwrap();
        assert_eq!((publisher.lane(), state(1)), (1, LaneState::Open));
        fork_that_stays(&stay, &mut tell, &mut rest);
        publisher.publish(b"last words").unwrap();
        // The child has closed its descriptors.
        told.read_exact(&mut [0]).unwrap();
        0
    });
    assert_eq!((state(0), state(1)), (LaneState::Open, LaneState::Dead));
    let next = Publisher::open(&uri).unwrap();
    assert_eq!(next.lane(), 1);
    drop(stay);
}

#[test]
fn only_the_parent_commits_a_claim_across_fork() {
    let _alone = alone();
    if keeps_pages() {
        return;
    }
    let place = TestFolder::new();
    let uri = place.uri("begun", "capacity=4KiB");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    let before = publisher.cursor();
    let mut claim = publisher.try_claim(6).unwrap();
    claim.copy_from_slice(b"parent");
    let mut claim = Some(claim);
    forked(|| {
        let mut claim = claim.take().unwrap();
        claim.copy_from_slice(b"child!");
        i32::from(claim.commit() != before)
    });
    assert!(subscriber.try_receive().unwrap().is_none());
    let before = claim.unwrap().commit();
    assert_eq!(&*subscriber.receive().unwrap(), b"parent");

    let mut batch = publisher.batch();
    batch.push(b"one").unwrap();
    let mut batch = Some(batch);
    forked(|| {
        let mut batch = batch.take().unwrap();
        let refused = matches!(batch.push(b"two"), Err(NotSent::Forked));
        i32::from(!refused || batch.commit() != before)
    });
    assert!(subscriber.try_receive().unwrap().is_none());
    let mut batch = batch.unwrap();
    batch.push(b"two").unwrap();
    batch.commit();
    assert_eq!(&*subscriber.receive().unwrap(), b"one");
    assert_eq!(&*subscriber.receive().unwrap(), b"two");

    let mut claim = OwnedClaim::try_claim(Box::new(publisher), 6).unwrap();
    claim.copy_from_slice(b"parent");
    let mut claim = Some(claim);
    forked(|| {
        let mut claim = claim.take().unwrap();
        claim.copy_from_slice(b"child!");
        let (_publisher, committed) = claim.commit();
        i32::from(!matches!(committed, Err(NotSent::Forked)))
    });
    assert!(subscriber.try_receive().unwrap().is_none());
    let (publisher, committed) = claim.unwrap().commit();
    committed.unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"parent");

    let mut claiming = ClaimingPublisher::new(*publisher);
    claiming.try_claim(6).unwrap().copy_from_slice(b"parent");
    let mut claiming = Some(claiming);
    forked(|| {
        let mut claiming = claiming.take().unwrap();
        let mine = matches!(claiming.commit(), Some(Err(NotSent::Forked)));
        let next = matches!(claiming.try_claim(6), Err(NotSent::Forked))
            && claiming.try_claim(usize::MAX - 7).is_err();
        i32::from(!mine || !next || claiming.is_claimed())
    });
    assert!(subscriber.try_receive().unwrap().is_none());
    claiming.unwrap().commit().unwrap().unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"parent");
}

/// Whether this process has the file open, also under another name.
#[cfg(feature = "journal")]
fn has_open(path: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
    let wanted = identity(std::fs::metadata(path).unwrap());
    let mut open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.any(|entry| {
        let found = std::fs::metadata(entry.unwrap().path());
        found.is_ok_and(|found| identity(found) == wanted)
    })
}

#[cfg(feature = "journal")]
#[test]
fn forked_child_has_no_descriptor_of_a_recorder() {
    let _alone = alone();
    // On a disk: there a sync takes long enough that many a fork falls into it.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("forked.olv");
    let uri = format!("file://{}?sync=block", path.display());
    let busy = common::Busy::start(&uri, 4000);
    until("it records", || {
        std::fs::metadata(&path).is_ok_and(|found| found.len() > 64 << 10)
    });
    assert!(has_open(&path));
    for _ in 0..200 {
        forked(|| i32::from(has_open(&path)));
    }
    busy.stop();
}

#[cfg(feature = "journal")]
#[test]
fn bridge_dropped_in_a_forked_child_does_not_hang() {
    let _alone = alone();
    let place = TestFolder::new();
    let config = |uri: &str| Config::parse(uri).unwrap();
    let path = place.file("bridged.olv");
    let to = format!("file://{}", path.display());
    let from = place.uri("bridged", "");
    let bridge = olivine::Bridge::start(&config(&from), &config(&to), true).unwrap();
    let mut bridge = Some(bridge);
    let before = eventfds();
    forked(|| {
        let mut bridge = bridge.take().unwrap();
        let note = bridge.status().note;
        assert!(note.contains("its parent has the bridge"), "{note}");
        bridge.ask_to_leave();
        assert!(!bridge.leave(common::WATCHDOG).unwrap());
        0
    });
    // A request would keep the parent's bridge spinning. It may have made more of them since.
    let after = eventfds();
    assert!(
        before.iter().all(|fd| after.contains(fd)),
        "{before:?} {after:?}"
    );
    let mut publisher = Publisher::open(&from).unwrap();
    publisher.publish(b"after").unwrap();
    publisher.close().unwrap();
    let bridge = bridge.unwrap();
    until("the parent's bridge ends", || bridge.has_ended());
    assert!(bridge.stop(common::WATCHDOG).unwrap());
    let mut subscriber = Subscriber::open(&to).unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"after");
}

/// Gives its ingress away.
struct Lend(std::sync::mpsc::Sender<CheckedIngress>);

impl Inlet for Lend {
    fn run(
        self: Box<Self>,
        destination: Destination,
        control: &std::sync::Arc<Control>,
        _until_end: bool,
    ) -> Result<(), olivine::LinkError> {
        let mut ingress = destination.ingress("a test")?;
        ingress.open_lane(1, 0, 0)?;
        self.0.send(ingress).expect("the test waits for it");
        while control.stopping().is_none() {
            control.pause(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// The ends of a bridge, which `raw` gives away, in a child: the positions are the parent's.
#[test]
fn forked_child_ends_of_a_bridge_are_refused() {
    let _alone = alone();
    if keeps_pages() {
        return;
    }
    let place = TestFolder::new();
    let config = Config::parse(&place.uri("ends", "")).unwrap();
    let mut egress = Some(CheckedEgress::open(&config).unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    let bridge = raw::bridge_in("a test", Lend(sender), &config, false).unwrap();
    let mut ingress = Some(receiver.recv().unwrap());
    let mut bytes = Vec::new();
    let message = Outgoing::new(b"one");
    let pushed = ingress
        .as_ref()
        .map(|ingress| ingress.add_frame(&mut bytes, message));
    pushed.unwrap().unwrap();
    let taken = ingress.as_mut().map(|ingress| ingress.take(0, 0, &bytes));
    taken.unwrap().unwrap();
    assert_eq!(egress.as_mut().unwrap().look().unwrap(), 1);
    forked(|| {
        let (mut egress, mut ingress) = (egress.take().unwrap(), ingress.take().unwrap());
        let refused = [
            egress.look().map(|_| ()),
            egress.frames(0, 64).map(|_| ()),
            egress.advance(0, 16),
            egress.acknowledge(0, 0),
            egress.resume(0, 16).map(|_| ()),
            egress.set_goal(),
        ];
        for (n, answer) in refused.into_iter().enumerate() {
            let is_forked = matches!(answer, Err(NotRead::Ring(ReceiveError::Forked)));
            assert!(is_forked, "{n}: {answer:?}");
        }
        let refused = [
            ingress.open_lane(2, 0, 16),
            ingress.skip_to(0, 400),
            ingress.take(0, 16, &bytes),
            ingress.set_incarnation(0, 3),
            ingress.end_lane(0),
            ingress.fail_lane(0, "forked"),
        ];
        for (n, answer) in refused.into_iter().enumerate() {
            assert!(matches!(answer, Err(NotTaken::Closed)), "{n}: {answer:?}");
        }
        ingress.close_lane(0);
        ingress.end();
        0
    });
    let (mut egress, mut ingress) = (egress.unwrap(), ingress.unwrap());
    ingress.take(0, 16, &bytes).unwrap();
    assert_eq!(ingress.lanes()[0].incarnation, 1);
    let frames = egress.frames(0, u64::MAX).unwrap();
    assert!(
        frames
            .map(|frame| frame.unwrap().payload())
            .eq([b"one", b"one"])
    );
    drop(ingress);
    bridge.stop(common::WATCHDOG).unwrap();
}

/// The count of each eventfd of this process, from `fdinfo`.
fn eventfds() -> Vec<(std::ffi::OsString, String)> {
    let found = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let mut counts: Vec<_> = found
        .filter_map(|entry| {
            let entry = entry.unwrap();
            // The descriptor that lists the folder is closed by now.
            let text = std::fs::read_to_string(entry.path()).ok()?;
            let count = text
                .lines()
                .find(|line| line.starts_with("eventfd-count"))?;
            Some((entry.file_name(), count.to_owned()))
        })
        .collect();
    counts.sort();
    counts
}

/// A listener forked and died, and its child lives: the port is free, the connection is closed.
#[cfg(feature = "tcp")]
#[test]
fn dead_listener_with_a_forked_child_is_replaced_at_once() {
    let _alone = alone();
    if common::runner().is_some() {
        return common::skip("qemu-user aborts when a forked child starts threads");
    }
    let port = common::free_port();
    // The far side would notice a silent connection only after an hour.
    let uri = |role: &str| format!("tcp://127.0.0.1:{port}/forked?timeout=1h&role={role}");
    let mut subscriber = Subscriber::open(&uri("connect")).unwrap();
    let (mut rest, stay) = std::io::pipe().unwrap();
    let (mut told, mut tell) = std::io::pipe().unwrap();
    forked(|| {
        let mut publisher = Publisher::open(&format!("{}&subscribers=1", uri("listen"))).unwrap();
        publisher.publish(b"first").unwrap();
        assert!(publisher.wait_drained(Some(LONG)).unwrap());
        fork_that_stays(&stay, &mut tell, &mut rest);
        // Its child has closed what it closes.
        told.read_exact(&mut [0]).unwrap();
        // SAFETY: ends this process and nothing else, without closing the publisher.
        unsafe { libc::_exit(0) };
    });
    let publisher = Publisher::open(&uri("listen")).unwrap();
    common::receive(&mut subscriber, |message| assert_eq!(&**message, b"first"));
    // The subscriber has connected to the successor, which is another stream.
    let mut ended = None;
    until("the subscriber gets an error", || {
        ended = subscriber.receive_timeout(LONG).err();
        ended.is_some()
    });
    let ended = ended.unwrap();
    assert!(matches!(ended, ReceiveError::Failed(_)), "{ended}");
    drop((stay, publisher));
}
