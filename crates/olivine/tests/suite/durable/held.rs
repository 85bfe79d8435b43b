//! What one call hands out is held until the next one.

use super::{FRAME, OPEN, held, number, rest, send, stage, start};
use crate::common::mapped::SharedWords;
use crate::common::planted::panic_of;
use crate::common::{kill, until};
use olivine::{NotSent, Outgoing, Publisher, ReceiveError, Subscriber};
use std::time::Duration;

#[test]
fn killed_durable_subscriber_gets_all_that_one_call_handed_out_again() {
    let (place, named, mut publisher) = stage("", "");
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    Subscriber::open(&named).unwrap().close();
    send(&mut publisher, 0..10);
    let child = start(&place, "holding", &named);
    until("it has all", || words.load(OPEN) == 1);
    kill(child);
    let mut again = Subscriber::open(&named).unwrap();
    assert_eq!(rest(&mut again), 0..10);
}

/// The next call with a subscriber that holds messages.
type NextCall = fn(&mut Subscriber);

#[test]
fn messages_of_one_call_are_consumed_by_the_next_call_only() {
    let next_calls: [NextCall; 5] = [
        |subscriber| assert!(subscriber.try_receive().unwrap().is_none()),
        |subscriber| assert!(held(subscriber).is_empty()),
        |subscriber| assert_eq!(subscriber.poll(|_| (), 0).unwrap(), 0),
        |subscriber| assert!(!subscriber.wait(Duration::ZERO).unwrap()),
        |subscriber| {
            let received = subscriber.receive_timeout(Duration::ZERO);
            assert!(received.unwrap().is_none());
        },
    ];
    let (_place, named, mut publisher) = stage("", "");
    for next_call in next_calls {
        let mut subscriber = Subscriber::open(&named).unwrap();
        send(&mut publisher, 0..5);
        let before = subscriber.position().0;
        assert_eq!(held(&mut subscriber), [0, 1, 2, 3, 4]);
        // They are held: they count as not read, also after a release.
        subscriber.release();
        assert_eq!(
            (subscriber.position().0, subscriber.lag()),
            (before, 5 * FRAME)
        );
        drop(subscriber);
        let mut subscriber = Subscriber::open(&named).unwrap();
        assert_eq!(held(&mut subscriber), [0, 1, 2, 3, 4]);
        next_call(&mut subscriber);
        assert_eq!(subscriber.lag(), 0);
        send(&mut publisher, 5..7);
        drop(subscriber);
        let mut subscriber = Subscriber::open(&named).unwrap();
        assert_eq!(held(&mut subscriber), [5, 6]);
        // Closing consumes them, too.
        subscriber.close();
    }
    assert!(held(&mut Subscriber::open(&named).unwrap()).is_empty());
}

#[test]
fn handler_that_panics_holds_the_messages_before_it() {
    let (_place, named, mut publisher) = stage("", "");
    let mut subscriber = Subscriber::open(&named).unwrap();
    send(&mut publisher, 0..5);
    panic_of(|| subscriber.poll_and_hold(|message| assert!(number(&message) < 3), 5));
    drop(subscriber);
    let mut subscriber = Subscriber::open(&named).unwrap();
    panic_of(|| subscriber.poll_and_hold(|message| assert!(number(&message) < 3), 5));
    assert_eq!(held(&mut subscriber), [3, 4]);
    drop(subscriber);
    let mut subscriber = Subscriber::open(&named).unwrap();
    assert_eq!(rest(&mut subscriber), 3..5);
}

/// A call that handed out nothing held the room of what it skipped: its publisher waited for ever.
#[test]
fn call_that_hands_out_nothing_holds_nothing() {
    let (_place, named, mut publisher) = stage("", "");
    let mut subscriber = Subscriber::open(&format!("{named}&topic=a")).unwrap();
    let other = || Outgoing::new(b"skipped").topic("b");
    while publisher.try_publish(other()).is_ok() {}
    assert_eq!(subscriber.poll_and_hold(|_| (), 9).unwrap(), 0);
    assert_eq!(subscriber.lag(), 0);
    publisher.try_publish(other()).unwrap();
}

/// The call that found the failure reported it behind messages which the next one did not consume.
#[test]
fn failure_comes_with_the_call_after_the_messages_before_it() {
    let (_place, named, mut first) = stage("", "");
    let mut subscriber = Subscriber::open(&named).unwrap();
    send(&mut first, 0..3);
    first.close_failed("broke").unwrap();
    let mut second = Publisher::open(&named).unwrap();
    send(&mut second, 3..4);
    assert_eq!(held(&mut subscriber), [0, 1, 2]);
    let failed = subscriber.poll_and_hold(|_| (), 9).unwrap_err();
    assert!(matches!(failed, ReceiveError::Failed(_)), "{failed}");
    drop(subscriber);
    let mut subscriber = Subscriber::open(&named).unwrap();
    assert_eq!(held(&mut subscriber), [3]);
}

#[test]
fn messages_of_one_call_are_held_in_every_lane() {
    let (_place, named, mut first) = stage("", "");
    let mut subscriber = Subscriber::open(&named).unwrap();
    send(&mut first, 0..3);
    assert_eq!(held(&mut subscriber).len(), 3);
    // The next call finds the new lane.
    let mut second = Publisher::open(&named).unwrap();
    send(&mut second, 0..200);
    assert_eq!(held(&mut subscriber).len(), 100);
    drop(subscriber);
    let mut subscriber = Subscriber::open(&named).unwrap();
    let mut found = Vec::new();
    while found.len() < 200 {
        let polled = subscriber.poll_and_hold(|message| found.push(number(&message)), 150);
        polled.unwrap();
    }
    assert_eq!(found, (0..200).collect::<Vec<_>>());
}

#[test]
fn publisher_waits_for_held_messages_and_goes_on_behind_them() {
    let (_place, named, mut publisher) = stage("", "");
    let mut subscriber = Subscriber::open(&named).unwrap();
    let mut sent = 0;
    while publisher.try_publish(&u64::to_le_bytes(sent)).is_ok() {
        sent += 1;
    }
    let mut found = 0;
    let polled = subscriber.poll_and_hold(|_| found += 1, usize::MAX);
    assert_eq!(
        (polled.unwrap(), found),
        (usize::try_from(found).unwrap(), sent)
    );
    let refused = publisher.try_publish(&sent.to_le_bytes()).unwrap_err();
    assert!(matches!(refused, NotSent::BackPressured), "{refused}");
    assert!(subscriber.try_receive().unwrap().is_none());
    publisher.try_publish(&sent.to_le_bytes()).unwrap();
    assert_eq!(rest(&mut subscriber), sent..sent + 1);
}
