//! Ends and failures that came while the subscriber was away.

use super::{OPEN, is_evicted, number, rest, send, stage_with_losses, start};
use crate::common::mapped::SharedWords;
use crate::common::{TestFolder, kill, until};
use olivine::{Durable, LinkError, Publisher, ReceiveError, Subscriber};
use std::time::Duration;

/// The publisher of `uri`, whose 10 messages a process with the name has read, which was killed.
fn read_by_a_killed_name(place: &TestFolder, uri: &str, named: &str) -> Publisher {
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    let mut publisher = Publisher::open(uri).unwrap();
    let reader = start(place, "hang", named);
    until("it is there", || publisher.count_subscribers() == 1);
    send(&mut publisher, 0..10);
    until("it has read", || words.load(OPEN) == 1);
    kill(reader);
    publisher
}

#[test]
fn missed_end_is_reported_once_to_the_next_process() {
    let place = TestFolder::new();
    let uri = place.uri("owed", "capacity=4KiB");
    let named = place.uri("owed", "name=archive");
    let is_closed = |named: &str| {
        let mut subscriber = Subscriber::open(named).unwrap();
        // Not every call checks for the end.
        let mut answers = (0..100).map(|_| subscriber.try_receive().map(|_| ()));
        answers.any(|answer| matches!(answer, Err(ReceiveError::Closed)))
    };
    let publisher = read_by_a_killed_name(&place, &uri, &named);
    publisher.close().unwrap();
    assert!(is_closed(&named), "it was killed before the end");
    assert!(
        !is_closed(&named),
        "the end was reported; it waits for the next publisher"
    );
    Publisher::open(&uri).unwrap().close().unwrap();
    assert!(is_closed(&named), "it was away");
    assert!(!is_closed(&named), "the end was reported");
    let later = place.uri("owed", "name=later");
    assert!(!is_closed(&later), "an end before its time");
    assert!(!is_closed(&later), "also when it comes back");
}

/// Opens the name, receives up to the first error, and leaves.
fn visit(named: &str) -> (Vec<u64>, Option<ReceiveError>) {
    let mut subscriber = Subscriber::open(named).unwrap();
    let mut numbers = Vec::new();
    // Not every call checks for ends and failures.
    for _ in 0..100 {
        match subscriber.try_receive() {
            Ok(Some(message)) => numbers.push(number(&message)),
            Ok(None) => {}
            Err(error) => return (numbers, Some(error)),
        }
    }
    subscriber.close();
    (numbers, None)
}

/// The reason of the failure that `visit` found before any message.
fn failure(visited: (Vec<u64>, Option<ReceiveError>)) -> String {
    match visited {
        (numbers, Some(ReceiveError::Failed(LinkError::Upstream { reason, .. })))
            if numbers.is_empty() =>
        {
            reason
        }
        other => panic!("no failure before the messages: {other:?}"),
    }
}

fn is_quiet(visited: &(Vec<u64>, Option<ReceiveError>)) -> bool {
    visited.0.is_empty() && visited.1.is_none()
}

/// The channel's name, with and without the durable name, and its publisher, whose 10 messages the
/// durable name has read.
fn read_by_a_name(place: &TestFolder, channel: &str) -> (String, String, Publisher) {
    let uri = place.uri(channel, "capacity=4KiB");
    let named = place.uri(channel, "name=archive");
    let mut publisher = Publisher::open(&uri).unwrap();
    assert!(is_quiet(&visit(&named)));
    send(&mut publisher, 0..10);
    let (numbers, error) = visit(&named);
    assert!(numbers.into_iter().eq(0..10) && error.is_none());
    (uri, named, publisher)
}

#[test]
fn absent_durable_subscriber_gets_the_failed_end_once_on_reopen() {
    let place = TestFolder::new();
    let (uri, named, publisher) = read_by_a_name(&place, "torn");
    publisher.close_failed("torn").unwrap();
    // It leaves before a call could report something.
    Subscriber::open(&named).unwrap().close();
    drop(Subscriber::open(&named).unwrap());
    assert_eq!(failure(visit(&named)), "torn");
    assert!(is_quiet(&visit(&named)), "it was reported before");
    // The same lane fails again.
    let again = Publisher::open(&uri).unwrap();
    again.close_failed("torn again").unwrap();
    assert_eq!(failure(visit(&named)), "torn again");
    assert!(is_quiet(&visit(&named)), "it was reported before");
    Publisher::open(&uri).unwrap().close().unwrap();
    let (numbers, error) = visit(&named);
    assert!(numbers.is_empty() && matches!(error, Some(ReceiveError::Closed)));
}

#[test]
fn absent_durable_subscriber_gets_the_failure_before_later_messages() {
    let place = TestFolder::new();
    let (uri, named, publisher) = read_by_a_name(&place, "retaken");
    publisher.close_failed("torn").unwrap();
    let mut next = Publisher::open(&uri).unwrap();
    send(&mut next, 10..15);
    drop(Subscriber::open(&named).unwrap());
    let mut subscriber = Subscriber::open(&named).unwrap();
    let told = subscriber.try_receive().map(|_| ());
    assert!(
        matches!(&told, Err(ReceiveError::Failed(error)) if error.to_string().contains("torn")),
        "{told:?}"
    );
    assert_eq!(rest(&mut subscriber), 10..15);
    drop(subscriber);
    let (numbers, error) = visit(&named);
    assert!(numbers.is_empty() && error.is_none(), "{error:?}");
    // Its newest publisher closed in order: the end is reported as well.
    next.close().unwrap();
    let (_, error) = visit(&named);
    assert!(matches!(error, Some(ReceiveError::Closed)), "{error:?}");
    assert!(is_quiet(&visit(&named)));
}

#[test]
fn every_receive_call_reports_the_failure_of_the_absence_first() {
    let place = TestFolder::new();
    type Call = fn(&mut Subscriber) -> Result<(), ReceiveError>;
    let calls: [Call; 4] = [
        |one| one.try_receive().map(|_| ()),
        |one| one.receive().map(|_| ()),
        |one| {
            one.poll(|_| panic!("a message before the failure"), 10)
                .map(|_| ())
        },
        |one| one.wait(Duration::MAX).map(|_| ()),
    ];
    let (uri, named, mut publisher) = read_by_a_name(&place, "calls");
    for (n, call) in (1..).zip(calls) {
        publisher.close_failed("torn").unwrap();
        publisher = Publisher::open(&uri).unwrap();
        send(&mut publisher, n * 10..n * 10 + 10);
        let mut subscriber = Subscriber::open(&named).unwrap();
        let told = call(&mut subscriber);
        assert!(
            matches!(told, Err(ReceiveError::Failed(_))),
            "call {n}: {told:?}"
        );
        assert_eq!(rest(&mut subscriber), n * 10..n * 10 + 10);
        subscriber.close();
    }
}

#[test]
fn killed_durable_subscriber_gets_the_failed_end_in_its_next_process() {
    let place = TestFolder::new();
    let (uri, named) = (place.uri("slain", ""), place.uri("slain", "name=archive"));
    let publisher = read_by_a_killed_name(&place, &uri, &named);
    publisher.close_failed("torn").unwrap();
    assert_eq!(failure(visit(&named)), "torn");
    assert!(is_quiet(&visit(&named)), "it was reported before");
}

/// A failure of one lane while the other goes on.
#[test]
fn absent_durable_subscriber_gets_each_failed_lane() {
    let place = TestFolder::new();
    let (uri, named, first) = read_by_a_name(&place, "lanes");
    let mut second = Publisher::open(&uri).unwrap();
    let third = Publisher::open(&uri).unwrap();
    send(&mut second, 10..11);
    let (numbers, error) = visit(&named);
    assert!(numbers == [10] && error.is_none(), "{error:?}");
    first.close_failed("first").unwrap();
    third.close_failed("third").unwrap();
    assert_eq!(failure(visit(&named)), "first");
    // One of two was reported: which one is not stored.
    let mut subscriber = Subscriber::open(&named).unwrap();
    for expected in ["first", "third"] {
        let told = subscriber.try_receive().unwrap_err();
        assert!(
            matches!(&told, ReceiveError::Failed(cause) if cause.to_string().contains(expected)),
            "{told}"
        );
    }
    assert!(subscriber.try_receive().unwrap().is_none());
    subscriber.close();
    assert!(is_quiet(&visit(&named)), "it was reported before");
    second.close().unwrap();
    let (_, error) = visit(&named);
    assert!(matches!(error, Some(ReceiveError::Failed(_))), "{error:?}");
    assert!(is_quiet(&visit(&named)), "the end was reported before");
}

#[test]
fn new_durable_name_gets_no_failure_from_before_it() {
    let place = TestFolder::new();
    let (uri, named, publisher) = read_by_a_name(&place, "before");
    publisher.close_failed("torn").unwrap();
    let later = place.uri("before", "name=later");
    for _ in 0..2 {
        assert!(is_quiet(&visit(&later)), "a failure before its time");
    }
    let publisher = Publisher::open(&uri).unwrap();
    for _ in 0..2 {
        assert!(is_quiet(&visit(&later)), "a failure before its time");
    }
    drop(publisher);
    assert_eq!(failure(visit(&named)), "torn");
}

#[test]
fn evicted_durable_subscriber_gets_the_loss_and_the_failure_on_reopen() {
    let (place, named, publisher) = stage_with_losses("&slow=evict:1ms", "");
    let uri = place.uri("ticks", "");
    publisher.close_failed("torn").unwrap();
    let mut next = Publisher::open(&uri).unwrap();
    send(&mut next, 5000..10_000);
    let mut subscriber = Subscriber::open(&named).unwrap();
    assert!(is_evicted(&subscriber.try_receive().map(|_| ())));
    let told = subscriber.try_receive().unwrap_err();
    assert!(matches!(told, ReceiveError::Failed(_)), "{told}");
    assert_eq!(rest(&mut subscriber).end, 10_000);
}

/// Its bridge closes the lanes with the failure after the subscriber has reported that.
#[cfg(feature = "tcp")]
#[test]
fn failure_of_the_subscribers_bridge_is_not_repeated_to_a_durable_name() {
    let place = TestFolder::new();
    let port = crate::common::free_port();
    let address = format!("tcp://127.0.0.1:{port}/ticks");
    let listens = format!("{address}?role=listen");
    let dir = place.file("channels").display().to_string();
    let named = format!("{address}?role=connect&name=archive&dir={dir}");
    let open = || Publisher::open(&listens).unwrap();
    let mut publisher = open();
    let mut subscriber = Subscriber::open(&named).unwrap();
    send(&mut publisher, 0..1);
    let received = crate::common::receive(&mut subscriber, |message| number(message));
    assert_eq!(received, 0);
    // Returns after the subscriber's bridge has confirmed the failure.
    publisher.close_failed("torn").unwrap();
    let told = subscriber.receive().map(|_| ());
    assert!(matches!(told, Err(ReceiveError::Failed(_))), "{told:?}");
    subscriber.close();
    let mut publisher = open();
    let mut subscriber = Subscriber::open(&named).unwrap();
    assert_eq!(subscriber.durable(), Some(Durable::Resumed));
    send(&mut publisher, 1..2);
    until("a message comes", || {
        match subscriber.receive_timeout(Duration::from_millis(50)) {
            Ok(message) => message.is_some_and(|message| number(&message) == 1),
            // The bridge closes the lane of the publisher before.
            Err(ReceiveError::Closed) => false,
            Err(error) => panic!("reported in its last life: {error:?}"),
        }
    });
    subscriber.unsubscribe();
}
