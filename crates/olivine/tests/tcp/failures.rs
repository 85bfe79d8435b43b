//! A failure of a stream over `tcp://`: which side gets it, and what it costs.

#![cfg(not(loom))]

use crate::common::blocks::{UPSTREAM, by_block};
use crate::common::proxy::{Proxy, Way};
use crate::common::{TestFolder, WATCHDOG, free_port, until};
use olivine::{Bridge, Config, LinkError, NotSent, Publisher, ReceiveError, Subscriber};
use std::sync::mpsc;
use std::time::Duration;

fn uri(port: u16, query: &str) -> String {
    format!("tcp://127.0.0.1:{port}/test?{query}")
}

fn start(from: &str, to: &str, until_end: bool) -> Bridge {
    let config = |uri: &str| Config::parse(uri).unwrap();
    Bridge::start(&config(from), &config(to), until_end).unwrap()
}

/// The next message or error, in time.
fn next(subscriber: &mut Subscriber) -> Result<Vec<u8>, ReceiveError> {
    let mut found = None;
    until("something comes", || {
        found = match subscriber.receive_timeout(Duration::from_millis(50)) {
            Ok(None) => None,
            Ok(Some(message)) => Some(Ok(message.to_vec())),
            Err(error) => Some(Err(error)),
        };
        found.is_some()
    });
    found.unwrap()
}

fn message_comes(subscriber: &mut Subscriber, message: &[u8]) {
    assert_eq!(next(subscriber).unwrap(), message);
}

/// A failure with the reason `torn` comes.
fn failure_comes(subscriber: &mut Subscriber) {
    let error = next(subscriber).unwrap_err();
    let ReceiveError::Failed(error) = error else {
        panic!("{error}");
    };
    assert!(reasons(&error).contains("torn"), "{error:?}");
}

/// The error with its sources.
fn reasons(error: &LinkError) -> String {
    format!("{error:?}")
}

/// A regression: it waited for `expire`, 30 s, and answered that subscribers hold it back.
#[test]
fn closing_a_listening_publisher_as_failed_returns_once_its_subscriber_confirmed() {
    let port = free_port();
    let mut publisher = Publisher::open(&uri(port, "role=listen&timeout=1h")).unwrap();
    let mut subscriber = Subscriber::open(&uri(port, "role=connect")).unwrap();
    until("they have met", || {
        publisher.link_status().unwrap().peers == 1
    });
    publisher.publish(b"one").unwrap();
    message_comes(&mut subscriber, b"one");
    // It would wait for hours for a reply, or for the subscriber to come back.
    publisher.close_failed("torn").unwrap();
    failure_comes(&mut subscriber);
}

/// Closes a publisher as failed with this reason: what the subscriber gets.
fn told(publisher_listens: bool, reason: &str) -> String {
    let port = free_port();
    let roles = match publisher_listens {
        true => ["role=listen", "role=connect"],
        false => ["role=connect", "role=listen"],
    };
    let [sends, receives] = roles.map(|role| uri(port, &format!("{role}&timeout=1h")));
    let (mut subscriber, mut publisher);
    if publisher_listens {
        publisher = Publisher::open(&sends).unwrap();
        subscriber = Subscriber::open(&receives).unwrap();
    } else {
        subscriber = Subscriber::open(&receives).unwrap();
        publisher = Publisher::open(&sends).unwrap();
    }
    until("they have met", || {
        publisher.link_status().unwrap().peers == 1
    });
    publisher.publish(b"one").unwrap();
    message_comes(&mut subscriber, b"one");
    let position = publisher.cursor();
    assert_eq!(publisher.close_failed(reason).unwrap(), position);
    let error = next(&mut subscriber).unwrap_err();
    match error {
        ReceiveError::Failed(
            LinkError::FarFailed { reason, .. } | LinkError::Upstream { reason, .. },
        ) => reason,
        other => panic!("{other}"),
    }
}

#[test]
fn reason_of_a_publisher_arrives_in_its_own_words() {
    for publisher_listens in [true, false] {
        for (given, expected) in [("torn", "torn"), ("", "no reason was given")] {
            let told = told(publisher_listens, given);
            // A listening subscriber says which of its publishers failed.
            let (words, from) = told.split_once(" (from 127.0.0.1:").unwrap_or((&told, ""));
            assert_eq!(words, expected);
            assert_eq!(from.is_empty(), publisher_listens, "{told}");
        }
    }
}

#[test]
fn closing_as_failed_returns_an_error_where_the_far_side_does_not_confirm_it() {
    for publisher_listens in [true, false] {
        let port = free_port();
        let proxy = Proxy::start(port);
        let listens = uri(port, "role=listen&timeout=1s&linger=4s");
        let connects = uri(proxy.port, "role=connect&timeout=1s&linger=4s");
        let (mut subscriber, mut publisher, swallowed);
        if publisher_listens {
            swallowed = swallow_failures(&proxy, Way::FromListener);
            publisher = Publisher::open(&listens).unwrap();
            subscriber = Subscriber::open(&connects).unwrap();
        } else {
            swallowed = swallow_failures(&proxy, Way::ToListener);
            subscriber = Subscriber::open(&listens).unwrap();
            publisher = Publisher::open(&connects).unwrap();
        }
        until("they have met", || {
            publisher.link_status().unwrap().peers == 1
        });
        publisher.publish(b"one").unwrap();
        message_comes(&mut subscriber, b"one");
        is_acknowledged(&publisher);
        let error = publisher.close_failed("torn").unwrap_err();
        let NotSent::Unacknowledged(left) = error else {
            panic!("publisher_listens {publisher_listens}: {error}");
        };
        assert_eq!(left.messages(), 0, "{error}");
        swallowed.try_recv().expect("the reason was sent");
    }
}

/// A connecting publisher and a listening subscriber behind a proxy, with one message acknowledged.
fn connected(proxy: &Proxy, port: u16, timeout: &str) -> (Publisher, Subscriber) {
    let mut subscriber =
        Subscriber::open(&uri(port, &format!("role=listen&timeout={timeout}"))).unwrap();
    let connects = format!("role=connect&timeout={timeout}&expire=2h");
    let connects = uri(proxy.port, &connects);
    let mut publisher = Publisher::open(&connects).unwrap();
    until("they have met", || {
        publisher.link_status().unwrap().peers == 1
    });
    publisher.publish(b"one").unwrap();
    message_comes(&mut subscriber, b"one");
    is_acknowledged(&publisher);
    (publisher, subscriber)
}

/// A regression: a connection that broke before the confirmation was not made again.
#[test]
fn connecting_publisher_sends_its_reason_again_after_a_cut() {
    let port = free_port();
    let proxy = Proxy::start(port);
    let swallowed = swallow_failures(&proxy, Way::ToListener);
    let (publisher, mut subscriber) = connected(&proxy, port, "1h");
    let closing = std::thread::spawn(move || publisher.close_failed("torn"));
    swallowed
        .recv_timeout(WATCHDOG)
        .expect("the reason is sent");
    proxy.rewrite(Way::ToListener, <[u8]>::to_vec);
    proxy.cut();
    failure_comes(&mut subscriber);
    closing.join().unwrap().expect("the reason was confirmed");
}

/// A regression: it waited for `expire=` if it knew that the far side was away, and else for
/// nothing.
#[test]
fn connecting_publisher_waits_for_its_reason_as_for_the_end() {
    for knows in [true, false] {
        let port = free_port();
        let proxy = Proxy::start(port);
        let swallowed = swallow_failures(&proxy, Way::ToListener);
        let (publisher, subscriber) = connected(&proxy, port, "500ms");
        let (sender, closed) = mpsc::channel();
        let close = move |publisher: Publisher| {
            std::thread::spawn(move || {
                sender
                    .send(publisher.close_described(Some("torn")))
                    .unwrap();
            });
        };
        if knows {
            proxy.set_down(true);
            proxy.cut();
            until("it is away", || publisher.link_status().unwrap().peers == 0);
            close(publisher);
        } else {
            close(publisher);
            swallowed
                .recv_timeout(WATCHDOG)
                .expect("the reason is sent");
            proxy.set_down(true);
            proxy.cut();
        }
        let answer = closed
            .recv_timeout(WATCHDOG)
            .expect("it does not wait for hours");
        let error = answer.unwrap_err();
        let NotSent::Unacknowledged(left) = error.error else {
            panic!("knows {knows}: {error}");
        };
        assert_eq!(left.messages(), 0, "{error}");
        // The text does not repeat the reason.
        let text = error.to_string();
        assert!(
            text.contains("'timeout='") && !text.contains("torn"),
            "{text}"
        );
        drop(subscriber);
    }
}

/// A regression: one confirmation counted for all.
#[test]
fn each_far_side_confirms_a_failure() {
    let port = free_port();
    let proxy = Proxy::start(port);
    let swallowed = swallow_failures(&proxy, Way::FromListener);
    let (publisher, mut one, _other) = two_have_read(port, &proxy, "&linger=4s");
    let error = publisher.close_failed("torn").unwrap_err();
    let NotSent::Unacknowledged(left) = error else {
        panic!("{error}");
    };
    assert_eq!(left.messages(), 0, "{error}");
    swallowed.try_recv().expect("the reason was sent to both");
    failure_comes(&mut one);
}

/// The far side that was given up first has not confirmed it; the other confirms it later.
#[test]
fn far_side_that_was_given_up_without_the_reason_counts() {
    let port = free_port();
    let proxy = Proxy::start(port);
    let swallowed = swallow_failures(&proxy, Way::FromListener);
    let (publisher, mut one, _other) = two_have_read(port, &proxy, "");
    let closing = std::thread::spawn(move || publisher.close_failed("torn"));
    swallowed
        .recv_timeout(WATCHDOG)
        .expect("the reason is sent");
    // It does not come back.
    proxy.set_down(true);
    failure_comes(&mut one);
    let error = closing.join().unwrap().unwrap_err();
    assert!(matches!(error, NotSent::Unacknowledged(_)), "{error}");
}

/// A publisher that listens, and two subscribers that have read a message and acknowledged it: one
/// without the proxy, and the other through it.
fn two_have_read(port: u16, proxy: &Proxy, query: &str) -> (Publisher, Subscriber, Subscriber) {
    let listens = uri(port, &format!("role=listen&timeout=1s{query}"));
    let mut publisher = Publisher::open(&listens).unwrap();
    let [mut one, mut other] =
        [port, proxy.port].map(|port| Subscriber::open(&uri(port, "role=connect")).unwrap());
    until("they have met", || {
        publisher.link_status().unwrap().peers == 2
    });
    publisher.publish(b"one").unwrap();
    message_comes(&mut one, b"one");
    message_comes(&mut other, b"one");
    is_acknowledged(&publisher);
    (publisher, one, other)
}

/// Waits until the far sides have acknowledged what was sent.
fn is_acknowledged(publisher: &Publisher) {
    until("it is acknowledged", || {
        let status = publisher.link_status().unwrap();
        status.acknowledged_bytes == status.bytes && status.bytes > 0
    });
}

/// The proxy forwards no failure this way, on connections from now on. The channel gets a value for
/// each.
fn swallow_failures(proxy: &Proxy, way: Way) -> mpsc::Receiver<()> {
    let (sender, swallowed) = mpsc::channel();
    let swallow = by_block(move |block| {
        if block.closes_with(UPSTREAM) {
            let _ = sender.send(());
            return Vec::new();
        }
        block.bytes()
    });
    proxy.rewrite(way, swallow);
    swallowed
}

/// A regression: it waited for ever.
#[test]
fn listening_bridge_that_ends_with_its_stream_fails_with_it() {
    let place = TestFolder::new();
    let port = free_port();
    let from = place.uri("from", "");
    let sending = start(&from, &uri(port, "role=listen"), true);
    let mut subscriber = Subscriber::open(&uri(port, "role=connect&expire=1h")).unwrap();
    until("they have met", || sending.status().peers == 1);
    let mut publisher = Publisher::open(&from).unwrap();
    publisher.publish(b"one").unwrap();
    publisher.close_failed("torn").unwrap();
    message_comes(&mut subscriber, b"one");
    failure_comes(&mut subscriber);
    until("the bridge has ended", || sending.has_ended());
    let status = sending.status();
    assert!(status.note.contains("torn"), "{status:?}");
    assert_eq!((status.abandoned, status.undelivered), (0, 0));
    let error = sending.stop(WATCHDOG).unwrap_err();
    assert!(reasons(&error).contains("torn"), "{error:?}");
}

/// A regression: the session of a subscriber that had its failure counted as undelivered, and held
/// the other publishers back.
#[test]
fn served_failure_leaves_nothing_undelivered() {
    let place = TestFolder::new();
    let port = free_port();
    let from = place.uri("from", "capacity=4KiB");
    let mut sending = start(&from, &uri(port, "role=listen"), false);
    let reading = uri(port, "role=connect&expire=1h");
    let mut subscriber = Subscriber::open(&reading).unwrap();
    until("they have met", || sending.status().peers == 1);
    let mut other = Publisher::open(&from).unwrap();
    let mut failing = Publisher::open(&from).unwrap();
    failing.publish(b"one").unwrap();
    message_comes(&mut subscriber, b"one");
    failing.close_failed("torn").unwrap();
    failure_comes(&mut subscriber);
    drop(subscriber);
    until("it has left", || sending.status().peers == 0);
    // More than the ring holds.
    for n in 0..200_u64 {
        let sent = other.publish_timeout(&[1; 64], WATCHDOG);
        sent.unwrap_or_else(|error| panic!("message {n}: {error}"));
    }
    let mut subscriber = Subscriber::open(&reading).unwrap();
    until("they have met again", || sending.status().peers == 1);
    other.publish(b"two").unwrap();
    message_comes(&mut subscriber, b"two");
    drop(subscriber);
    assert!(sending.finish(WATCHDOG).unwrap());
    let status = sending.status();
    assert_eq!((status.abandoned, status.undelivered), (0, 0), "{status:?}");
}

/// A regression: the failure counted as reported although no connection had carried it.
#[test]
fn named_reader_gets_the_failure_that_happened_while_it_was_away() {
    let (place, there) = (TestFolder::new(), TestFolder::new());
    let port = free_port();
    let from = place.uri("from", "");
    let sending = start(&from, &uri(port, "role=listen"), false);
    let reading = format!("role=connect&name=a&dir={}", there.dir().display());
    let mut subscriber = Subscriber::open(&uri(port, &reading)).unwrap();
    until("they have met", || sending.status().peers == 1);
    let mut publisher = Publisher::open(&from).unwrap();
    publisher.publish(b"one").unwrap();
    message_comes(&mut subscriber, b"one");
    until("it is acknowledged", || {
        let status = sending.status();
        status.acknowledged_bytes == status.bytes && status.bytes > 0
    });
    subscriber.close();
    until("it has left", || sending.status().peers == 0);
    publisher.close_failed("torn").unwrap();
    let mut publisher = Publisher::open(&from).unwrap();
    publisher.publish(b"two").unwrap();
    let mut subscriber = Subscriber::open(&uri(port, &reading)).unwrap();
    failure_comes(&mut subscriber);
    subscriber.close();
    // The next handle of the name gets what follows.
    let mut subscriber = Subscriber::open(&uri(port, &reading)).unwrap();
    message_comes(&mut subscriber, b"two");
}

/// A source that connects and a destination that listens, whose connection is cut after the far
/// subscriber got the end of the stream.
struct Parted {
    _folders: [TestFolder; 2],
    from: String,
    to: String,
    proxy: Proxy,
    sending: Bridge,
    receiving: Bridge,
    far: Subscriber,
}

/// With settings of the far channel, and more of the connecting side.
fn parted_after_an_end(far_settings: &str, connecting: &str) -> Parted {
    let folders = [TestFolder::new(), TestFolder::new()];
    let port = free_port();
    let proxy = Proxy::start(port);
    let (from, to) = (
        folders[0].uri("from", ""),
        folders[1].uri("to", far_settings),
    );
    let receiving = start(&uri(port, "role=listen&timeout=500ms"), &to, false);
    let connecting = format!("role=connect&timeout=500ms{connecting}");
    let sending = start(&from, &uri(proxy.port, &connecting), false);
    until("they have met", || receiving.status().peers == 1);
    let mut far = Subscriber::open(&to).unwrap();
    let mut publisher = Publisher::open(&from).unwrap();
    publisher.publish(b"one").unwrap();
    message_comes(&mut far, b"one");
    publisher.close().unwrap();
    let error = next(&mut far).unwrap_err();
    assert!(matches!(error, ReceiveError::Closed), "{error}");
    proxy.set_down(true);
    proxy.cut();
    Parted {
        _folders: folders,
        from,
        to,
        proxy,
        sending,
        receiving,
        far,
    }
}

/// A regression: the far subscriber got a clean end. Every lane had ended before, so none was left
/// to fail.
#[test]
fn failure_after_an_end_is_reported_by_a_listening_destination() {
    let mut parted = parted_after_an_end("", "");
    until("they have parted", || {
        parted.sending.status().peers == 0 && parted.receiving.status().peers == 0
    });
    let publisher = Publisher::open(&parted.from).unwrap();
    publisher.close_failed("torn").unwrap();
    parted.proxy.set_down(false);
    until("the source has failed", || parted.sending.has_ended());
    assert!(parted.far.wait(WATCHDOG).unwrap());
    failure_comes(&mut parted.far);
}

/// A regression: a far side that does not come back ended closed lanes once more.
#[test]
fn expired_session_of_ended_lanes_does_not_end_them_again() {
    let mut parted = parted_after_an_end("publishers_max=1", "&name=a&expire=1s");
    drop(parted.sending);
    // The session holds the only lane until it expires.
    let mut next_one = None;
    until("the session has expired", || {
        // After a reported end it waits for something new.
        assert!(!parted.far.wait(Duration::from_millis(20)).unwrap());
        next_one = Publisher::open(&parted.to).ok();
        next_one.is_some()
    });
    next_one.unwrap().publish(b"two").unwrap();
    message_comes(&mut parted.far, b"two");
}

/// A kill between the confirmation and the failure of the lanes lost the failure.
#[test]
fn destination_stores_a_failure_before_it_confirms_it() {
    for source_listens in [true, false] {
        let place = TestFolder::new();
        let (from, to) = (place.uri("from", ""), place.uri("to", ""));
        let port = free_port();
        let proxy = Proxy::start(port);
        let listens = uri(port, "role=listen");
        let connects = uri(proxy.port, "role=connect");
        let (source, destination, way) = match source_listens {
            true => (&listens, &connects, Way::ToListener),
            false => (&connects, &listens, Way::FromListener),
        };
        let (sender, found) = mpsc::channel();
        let mut subscriber = Some(Subscriber::open(&to).unwrap());
        let look = by_block(move |block| {
            if block.closes_with(UPSTREAM)
                && let Some(mut subscriber) = subscriber.take()
            {
                // Not every call checks for failures.
                let mut answers = (0..100).map(|_| subscriber.try_receive().map(|_| ()));
                let _ = sender.send(answers.find(Result::is_err));
            }
            block.bytes()
        });
        proxy.rewrite(way, look);
        let _sending = start(&from, source, false);
        let _receiving = start(destination, &to, false);
        let mut publisher = Publisher::open(&from).unwrap();
        publisher.publish(b"one").unwrap();
        publisher.close_failed("torn").unwrap();
        let answer = found.recv_timeout(WATCHDOG).expect("a confirmation");
        let is_stored = matches!(answer, Some(Err(ReceiveError::Failed(_))));
        assert!(is_stored, "source_listens {source_listens}: {answer:?}");
    }
}

/// The destination has seen no lane: it confirmed the failure and stored nothing.
#[test]
fn failure_before_the_destination_started_is_reported_there() {
    for source_listens in [true, false] {
        let place = TestFolder::new();
        let (from, to) = (place.uri("from", ""), place.uri("to", ""));
        let port = free_port();
        let roles = ["role=listen", "role=connect"];
        let [source, destination] = match source_listens {
            true => roles,
            false => [roles[1], roles[0]],
        };
        // It keeps the channel.
        let _near = Subscriber::open(&from).unwrap();
        let mut subscriber = Subscriber::open(&to).unwrap();
        let _sending = start(&from, &uri(port, source), false);
        let publisher = Publisher::open(&from).unwrap();
        publisher.close_failed("torn").unwrap();
        let _receiving = start(&uri(port, destination), &to, false);
        failure_comes(&mut subscriber);
    }
}

/// The failure counted as reported although the far side had not stored it.
#[test]
fn unconfirmed_failure_is_sent_to_another_handle_of_the_name() {
    let (place, there) = (TestFolder::new(), TestFolder::new());
    let port = free_port();
    let proxy = Proxy::start(port);
    let lost = swallow_failures(&proxy, Way::FromListener);
    let from = place.uri("from", "");
    let sending = start(&from, &uri(port, "role=listen&timeout=500ms"), false);
    let reading = format!("role=connect&name=a&dir={}", there.dir().display());
    let mut subscriber = Subscriber::open(&uri(proxy.port, &reading)).unwrap();
    until("they have met", || sending.status().peers == 1);
    let mut publisher = Publisher::open(&from).unwrap();
    publisher.publish(b"one").unwrap();
    message_comes(&mut subscriber, b"one");
    publisher.close_failed("torn").unwrap();
    lost.recv_timeout(WATCHDOG).expect("the failure is sent");
    proxy.set_down(true);
    proxy.cut();
    subscriber.close();
    until("it has left", || sending.status().peers == 0);
    let mut publisher = Publisher::open(&from).unwrap();
    publisher.publish(b"two").unwrap();
    let mut subscriber = Subscriber::open(&uri(port, &reading)).unwrap();
    failure_comes(&mut subscriber);
}
