//! How a publisher closes and waits, checked between its steps.

use crate::channel::attached::Attached;
use crate::channel::slots;
use crate::error::{LinkError, NotSent, ReceiveError};
use crate::points::hook;
use crate::ring::gate::set_bit;
use crate::ring::layout::{control, lock_byte, slot};
use crate::sync::Ordering;
use crate::wait::{COVERED, RAISED};
use crate::{Publisher, Subscriber};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Longer than one step takes on any machine.
const LONG: Duration = Duration::from_secs(60);

/// A stopped process may hold the membership lock for as long as ten seconds.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn closing_publisher_wakes_subscriber_before_membership_lock() {
    let publisher = Publisher::open("inproc://wakes-first").unwrap();
    let subscriber = Subscriber::open("inproc://wakes-first").unwrap();
    let attached = &publisher.endpoint.attached;
    let words = attached.control.clone();
    let park = attached.geometry.slot(subscriber.slot()) + slot::PARK;
    // The words of a sleeping subscriber.
    set_bit(&words, control::ATTACHED, subscriber.slot(), true);
    words.word(park).store(1, Ordering::Relaxed);
    words
        .word(control::SLEEPERS)
        .store(RAISED, Ordering::Relaxed);
    let (report, seen) = mpsc::channel();
    let looks = words.clone();
    // The first lock that closing takes is the membership lock.
    hook::at("lock.taken", move || {
        report
            .send(looks.word(park).load(Ordering::Relaxed))
            .unwrap();
    });
    publisher.close().unwrap();
    assert_eq!(seen.try_recv(), Ok(0), "it sleeps on");
}

/// If the hint is lowered at each wake-up, each sleep costs a barrier of all CPUs. While it stays,
/// each commit costs a fence.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn publisher_lowers_the_hint_after_commits_that_find_no_sleeper() {
    let mut publisher = Publisher::open("inproc://stands").unwrap();
    let subscriber = Subscriber::open("inproc://stands").unwrap();
    let attached = &publisher.endpoint.attached;
    let words = attached.control.clone();
    let park = attached.geometry.slot(subscriber.slot()) + slot::PARK;
    let hint = words.resolve(control::SLEEPERS);
    let commits_until_lowered = |publisher: &mut Publisher| {
        let is_raised = |_: &usize| {
            publisher.publish(b"x").unwrap();
            hint.load(Ordering::Relaxed) & RAISED != 0
        };
        (0..100).take_while(is_raised).count()
    };
    for _ in 0..2 {
        words.word(park).store(1, Ordering::Relaxed);
        hint.fetch_or(RAISED | COVERED, Ordering::Relaxed);
        // The first one wakes.
        assert_eq!(commits_until_lowered(&mut publisher), 1 + 16);
        assert_eq!(words.word(park).load(Ordering::Relaxed), 0);
        assert_eq!(hint.load(Ordering::Relaxed) & (RAISED | COVERED), 0);
    }
}

/// How often the kernel has put this thread to sleep.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// A subscriber that is stopped while it joins: its gating bit is set, and its state says that its
/// slot is free.
fn joins(publisher: &Publisher) -> Attached {
    let attached = publisher.endpoint.attached.attach_again().unwrap();
    assert!(attached.locks.try_lock(lock_byte::SLOT).unwrap());
    set_bit(&attached.control, control::GATING, 0, true);
    attached
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn publisher_sleeps_while_subscriber_joins() {
    let uri = "inproc://joins-slowly?wait=park&subscribers=1";
    let mut publisher = Publisher::open(uri).unwrap();
    let _joiner = joins(&publisher);
    let before = sleeps();
    let wait = Some(Duration::from_millis(500));
    assert!(!publisher.wait_for_subscribers(1, wait).unwrap());
    assert_eq!(
        publisher.publish_timeout(b"x", Duration::from_millis(500)),
        Err(NotSent::NotConnected)
    );
    // Naps take 8 ms, 16 ms and then longer.
    let slept = sleeps() - before;
    assert!((2..20).contains(&slept), "{slept} sleeps");
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn joined_subscriber_wakes_publisher_that_waits_for_subscribers() {
    type Way = fn(&mut Publisher);
    let ways: [Way; 2] = [
        |publisher| assert!(publisher.wait_for_subscribers(1, None).unwrap()),
        |publisher| assert!(publisher.publish(b"x").is_ok()),
    ];
    for way in ways {
        let mut publisher = Publisher::open("inproc://has-joined?wait=park&subscribers=1").unwrap();
        let joiner = joins(&publisher);
        let park = publisher.endpoint.sleeper.park.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| way(&mut publisher));
            // A publisher that never sleeps fails the other test, and does not hang here.
            let begun = Instant::now();
            while park.load(Ordering::Acquire) == 0 && begun.elapsed() < LONG {
                std::thread::yield_now();
            }
            slots::attach(&joiner.control, &joiner.geometry, 0, false);
            joiner.wake_publishers();
        });
        assert_eq!(publisher.count_subscribers(), 1);
    }
}

/// The wait for subscribers failed first, and the stream ended as complete.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn sealed_stream_ends_with_its_reason_though_its_link_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s").display().to_string();
    let publisher = Publisher::open(&format!("shm+fd://{path}?linger=1h")).unwrap();
    let mut subscriber = Subscriber::open(&format!("shm+fd://{path}")).unwrap();
    let link = publisher.endpoint.link.as_ref().unwrap();
    link.control().give_up(&LinkError::Panicked);
    let error = publisher.close_failed("torn").unwrap_err();
    assert!(matches!(error, NotSent::LinkFailed), "{error}");
    let error = subscriber.receive().unwrap_err();
    let ReceiveError::Failed(LinkError::Upstream { reason, .. }) = error else {
        panic!("{error}");
    };
    assert_eq!(reason, "torn");
}
