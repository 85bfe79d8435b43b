//! Sleepers and wakers: SLEEP, WAKE, ROOM.

use super::*;
use crate::wait::{COVERED, Hint, RAISED, is_armed, wake_sleepers, wake_sleepers_until};
use loom::thread;

#[test]
fn a_sleeper_is_woken_by_the_message_it_missed() {
    check(4, || {
        let channel = Channel::new(1, 1);
        let mut producer = channel.producer(0);
        let mut consumer = channel.gating(0, 0);
        let (park, hint) = (channel.park(0), channel.hint());
        let publisher = thread::spawn(move || {
            assert!(send(&mut producer, 1));
            assert!(send(&mut producer, 2));
        });
        // The first message may be read while its publisher still looks for sleepers.
        receive(&mut consumer);
        let prepared = prepare_sleep(&park, Some(&hint), || consumer.has_next());
        publisher.join().unwrap();
        assert_awake(prepared, &park, &consumer);
    });
}

#[test]
fn a_sleeper_on_two_lanes_is_woken_by_either() {
    check(3, || {
        let channel = Channel::new(2, 1);
        let mut consumers = [channel.gating(0, 0), channel.gating(1, 0)];
        let (park, hint) = (channel.park(0), channel.hint());
        let publishers = [0, 1].map(|lane| {
            let mut producer = channel.producer(lane);
            thread::spawn(move || assert!(send(&mut producer, 1)))
        });
        receive(&mut consumers[0]);
        let waiting = |consumers: &[Consumer; 2]| consumers.iter().any(Consumer::has_next);
        let prepared = prepare_sleep(&park, Some(&hint), || waiting(&consumers));
        for publisher in publishers {
            publisher.join().unwrap();
        }
        assert!(
            !(sleeps(prepared, &park) && waiting(&consumers)),
            "asleep on a message"
        );
    });
}

#[test]
fn publisher_wakes_both_sleepers() {
    check(3, || {
        let channel = Channel::new(1, 2);
        let mut producer = channel.producer(0);
        let consumers = [channel.gating(0, 0), channel.gating(0, 1)];
        let parks = [channel.park(0), channel.park(1)];
        let mut sleepers = consumers.into_iter().zip(parks);
        let [first, second] = [(); 2].map(|()| {
            let ((consumer, park), hint) = (sleepers.next().unwrap(), channel.hint());
            move || {
                let prepared = prepare_sleep(&park, Some(&hint), || consumer.has_next());
                (prepared, park)
            }
        });
        let publisher = thread::spawn(move || assert!(send(&mut producer, 1)));
        let first = thread::spawn(first);
        let second = second();
        publisher.join().unwrap();
        for (prepared, park) in [first.join().unwrap(), second] {
            assert!(!sleeps(prepared, &park), "asleep on a message");
        }
    });
}

/// Two sleepers raise their flags while wakers run. Each waker dies after so many steps; `None`
/// survives.
fn no_sleeper_is_left_without_a_hint(switches: usize, wakers: &'static [Option<u32>]) {
    check(switches, move || {
        let channel = Channel::new(1, 2);
        let parks = [channel.park(0), channel.park(1)];
        let sleepers = parks.clone().map(|park| {
            let hint = channel.hint();
            thread::spawn(move || prepare_sleep(&park, Some(&hint), || false))
        });
        for steps in wakers {
            let mut left = *steps;
            let dies = || match &mut left {
                None => false,
                Some(left) => {
                    *left = left.saturating_sub(1);
                    *left == 0
                }
            };
            wake_sleepers_until(&channel.control, &channel.geometry, Hint::Lowered, dies);
        }
        for sleeper in sleepers {
            assert_eq!(sleeper.join().unwrap(), Prepared::Sleep);
        }
        let asleep = parks.iter().any(|park| park.load(Ordering::Relaxed) == 1);
        let hinted = channel.hint().load(Ordering::Relaxed) & RAISED != 0;
        assert!(
            !asleep || hinted,
            "asleep, and the next waker will not look"
        );
    });
}

/// A waker that lowers the hint has taken every park word that the hint covers.
#[test]
fn lowered_hint_loses_no_sleeper() {
    no_sleeper_is_left_without_a_hint(4, &[None]);
}

#[test]
fn waker_death_leaves_hint_raised() {
    no_sleeper_is_left_without_a_hint(3, &[Some(1)]);
}

/// The second waker reads a hint that the first lowers, and a third sleep is counted in between.
#[test]
fn overlapping_wakers_lose_no_sleeper() {
    check(3, || {
        let channel = Channel::new(1, 2);
        let parks = [channel.park(0), channel.park(1)];
        let first = prepare_sleep(&parks[0], Some(&channel.hint()), || false);
        assert_eq!(first, Prepared::Sleep);
        let other = channel.clone();
        let waker =
            thread::spawn(move || wake_sleepers(&other.control, &other.geometry, Hint::Lowered));
        let (park, hint) = (parks[1].clone(), channel.hint());
        let sleeper = thread::spawn(move || prepare_sleep(&park, Some(&hint), || false));
        wake_sleepers(&channel.control, &channel.geometry, Hint::Lowered);
        waker.join().unwrap();
        assert_eq!(sleeper.join().unwrap(), Prepared::Sleep);
        let asleep = parks[1].load(Ordering::Relaxed) == 1;
        let hinted = channel.hint().load(Ordering::Relaxed) & RAISED != 0;
        assert!(
            !asleep || hinted,
            "asleep, and the next waker will not look"
        );
    });
}

/// After a nap that ended by time, raised flags need no barrier: the next message takes them.
#[test]
fn a_sleeper_that_stays_armed_is_woken_by_the_message_it_missed() {
    check(3, || {
        let channel = Channel::new(1, 1);
        let mut producer = channel.producer(0);
        let mut consumer = channel.gating(0, 0);
        let (park, hint) = (channel.park(0), channel.hint());
        let publisher = thread::spawn(move || {
            assert!(send(&mut producer, 1));
            assert!(send(&mut producer, 2));
        });
        let first = prepare_sleep(&park, Some(&hint), || consumer.has_next());
        // The nap ended by time, or by a wake-up; then the subscriber reads.
        let armed = first == Prepared::Sleep && is_armed(&park, Some(&hint));
        receive(&mut consumer);
        let again = armed && is_armed(&park, Some(&hint)) && !consumer.has_next();
        publisher.join().unwrap();
        let asleep = again && park.load(Ordering::Relaxed) == 1;
        assert!(!(asleep && consumer.has_next()), "asleep on a message");
    });
}

/// A sleep, and a waker that leaves the hint: it stands.
fn sleep_once(channel: &Channel) {
    let (park, hint) = (channel.park(0), channel.hint());
    let first = prepare_sleep(&park, Some(&hint), || false);
    assert_eq!(first, Prepared::Sleep);
    wake_sleepers(&channel.control, &channel.geometry, Hint::Stays);
    assert_eq!(
        hint.load(Ordering::Relaxed) & (RAISED | COVERED),
        RAISED | COVERED
    );
}

/// The hint stands after the first sleep: no barrier precedes the second one.
#[test]
fn a_sleeper_under_a_standing_hint_is_woken_by_the_message_it_missed() {
    check(3, || {
        let channel = Channel::new(1, 1);
        let mut producer = channel.producer(0);
        let consumer = channel.gating(0, 0);
        let (park, hint) = (channel.park(0), channel.hint());
        sleep_once(&channel);
        let publisher = thread::spawn(move || assert!(send(&mut producer, 1)));
        let prepared = prepare_sleep(&park, Some(&hint), || consumer.has_next());
        publisher.join().unwrap();
        assert_awake(prepared, &park, &consumer);
    });
}

/// The same while the waker of another lane lowers it.
#[test]
fn a_standing_hint_that_is_lowered_loses_no_sleeper() {
    check(3, || {
        let channel = Channel::new(1, 1);
        let mut producer = channel.producer(0);
        let consumer = channel.gating(0, 0);
        let (park, hint) = (channel.park(0), channel.hint());
        sleep_once(&channel);
        let other = channel.clone();
        let waker =
            thread::spawn(move || wake_sleepers(&other.control, &other.geometry, Hint::Lowered));
        let publisher = thread::spawn(move || assert!(send(&mut producer, 1)));
        let prepared = prepare_sleep(&park, Some(&hint), || consumer.has_next());
        publisher.join().unwrap();
        waker.join().unwrap();
        assert_awake(prepared, &park, &consumer);
    });
}

/// A publisher without room sleeps on `park` only while there is none; explored with at most
/// `switches`.
pub(super) fn waiting_for_room_ends(
    switches: usize,
    ends: impl Fn() -> (Producer, Consumer, Word) + Sync + Send + 'static,
) {
    check(switches, move || {
        let (mut producer, mut consumer, park) = ends();
        assert!(send(&mut producer, 1) && send(&mut producer, 2) && !send(&mut producer, 3));
        let subscriber = thread::spawn(move || {
            assert_eq!(receive(&mut consumer), Some(1));
            assert_eq!(receive(&mut consumer), Some(2));
        });
        let need = producer.need(producer.position(), message(3).len());
        let prepared = prepare_sleep(&park, None, || producer.make_room(need));
        subscriber.join().unwrap();
        assert!(!sleeps(prepared, &park), "asleep with room to write");
        assert!(producer.make_room(need));
    });
}

/// The same for a publisher that waits for room: it checked, slept a whole nap, and sleeps again.
#[test]
fn a_publisher_that_stays_armed_is_woken_by_the_release_it_missed() {
    check(3, || {
        let channel = Channel::new(1, 1);
        let (mut producer, mut consumer) = (channel.producer(0), channel.gating(0, 0));
        let park = channel.lane_park(0);
        assert!(send(&mut producer, 1) && send(&mut producer, 2) && !send(&mut producer, 3));
        let subscriber = thread::spawn(move || {
            assert_eq!(receive(&mut consumer), Some(1));
            assert_eq!(receive(&mut consumer), Some(2));
        });
        let need = producer.need(producer.position(), message(3).len());
        let first = prepare_sleep(&park, None, || producer.make_room(need));
        let armed = first == Prepared::Sleep && is_armed(&park, None);
        let again = armed && !producer.make_room(need);
        subscriber.join().unwrap();
        let asleep = again && park.load(Ordering::Relaxed) == 1;
        assert!(!asleep, "asleep with room to write");
        assert!(producer.make_room(need));
    });
}

#[test]
fn a_publisher_that_waits_for_room_is_woken_by_the_release_it_missed() {
    waiting_for_room_ends(4, || {
        let channel = Channel::new(1, 1);
        let park = channel.lane_park(0);
        (channel.producer(0), channel.gating(0, 0), park)
    });
}
