//! Failed publishers of `nats://`: each subscriber gets the reason once, behind the last message.

#![cfg(all(not(loom), feature = "nats"))]

mod common;
mod nats_server;

use common::{bridges, kill, until};
use nats_server::server;
use olivine::{Bridge, Config, LinkError, LinkStage, Publisher, ReceiveError, Subscriber};
use std::time::Duration;

/// The other processes.
#[test]
fn role() {
    if common::my_role().is_some() {
        bridges::role();
    }
}

fn joined(uri: &str) -> Subscriber {
    let subscriber = Subscriber::open(uri).expect("a subscriber");
    until("it is connected", || {
        subscriber.link_status().expect("a bridge").stage == LinkStage::Connected
    });
    subscriber
}

fn next(subscriber: &mut Subscriber) -> Vec<u8> {
    let received = subscriber.receive_timeout(2 * common::WATCHDOG);
    received.expect("no error").expect("in time").to_vec()
}

/// The reason of the failure that comes next.
fn failure(subscriber: &mut Subscriber) -> String {
    match subscriber.receive_timeout(2 * common::WATCHDOG) {
        Err(ReceiveError::Failed(LinkError::Upstream { reason, .. })) => reason,
        other => panic!("{other:?}"),
    }
}

/// Publishes once, and ends with a failure.
fn fail(uri: &str, text: &str, reason: &str) {
    let mut publisher = Publisher::open(uri).expect("a publisher");
    publisher.publish(text.as_bytes()).expect("room");
    // The bridge fails, too, once the failure is stored.
    let _ = publisher.close_failed(reason);
}

/// It was told to the bridge of the publisher alone: subscribers waited for ever.
#[test]
fn failed_publisher_is_reported_between_the_messages_of_others() {
    let Some(server) = server("") else {
        return;
    };
    let uri = server.uri("torn", "timeout=1s");
    let mut subscriber = joined(&uri);
    let mut other = Publisher::open(&uri).unwrap();
    other.publish(b"first").unwrap();
    assert_eq!(next(&mut subscriber), b"first");
    fail(&uri, "last", "torn");
    assert_eq!(next(&mut subscriber), b"last");
    assert_eq!(failure(&mut subscriber), "torn");
    other.publish(b"second").unwrap();
    assert_eq!(next(&mut subscriber), b"second");
    let panicked = std::thread::spawn({
        let uri = uri.clone();
        move || {
            let _publisher: Publisher = Publisher::open(&uri).expect("a publisher");
            panic!("this is intended");
        }
    });
    assert!(panicked.join().is_err());
    assert!(failure(&mut subscriber).contains("panicked"));
    other.close().unwrap();
    // Every publisher has ended, two of them with a failure.
    match subscriber.receive_timeout(2 * common::WATCHDOG) {
        Err(ReceiveError::Closed | ReceiveError::Failed(LinkError::Upstream { .. })) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn failure_that_comes_before_its_server_is_stored_later() {
    let Some(mut server) = server("") else {
        return;
    };
    let uri = server.uri("late", "timeout=1s");
    let mut subscriber = joined(&uri);
    let mut publisher = Publisher::open(&uri).unwrap();
    publisher.publish(b"stored").unwrap();
    assert_eq!(next(&mut subscriber), b"stored");
    until("it is acknowledged", || {
        publisher.link_status().unwrap().acknowledged_bytes > 0
    });
    server.kill();
    let closing = std::thread::spawn(move || {
        let _ = publisher.close_failed("torn");
    });
    until("the subscriber has noticed", || {
        subscriber.link_status().unwrap().stage == LinkStage::Waiting
    });
    server.start();
    assert_eq!(failure(&mut subscriber), "torn");
    closing.join().unwrap();
}

/// The bridge was killed after everything before the failure was acknowledged. The next one counts
/// that failure as reported.
#[test]
fn bridge_that_replaces_a_killed_one_stores_the_failure() {
    let Some(server) = server("") else {
        return;
    };
    let place = common::TestFolder::new();
    let ring = place.uri("feed", "subscribers=1");
    let uri = server.uri("feed", "timeout=1s");
    let mut subscriber = joined(&uri);
    let bridge = bridges::keeping(&ring, &uri);
    let mut other = Publisher::open(&ring).unwrap();
    let mut failing = Publisher::open(&ring).unwrap();
    for (publisher, text) in [(&mut other, b"first"), (&mut failing, b"again")] {
        publisher.publish(text).unwrap();
        assert_eq!(next(&mut subscriber), text);
    }
    assert!(failing.wait_drained(Some(common::WATCHDOG)).unwrap());
    kill(bridge);
    let _ = failing.close_failed("torn");
    let bridge = bridges::keeping(&ring, &uri);
    assert_eq!(failure(&mut subscriber), "torn");
    // The other publisher goes on.
    other.publish(b"more").unwrap();
    assert_eq!(next(&mut subscriber), b"more");
    kill(bridge);
}

#[test]
fn killed_subscriber_bridge_does_not_repeat_a_failure() {
    let Some(server) = server("") else {
        return;
    };
    let place = common::TestFolder::new();
    let to = place.uri("to", "");
    let uri = server.uri("told", "timeout=1s");
    let back = format!("{uri}&from=oldest&name=audit");
    let mut subscriber = Subscriber::open(&to).unwrap();
    let mut other = Publisher::open(&uri).unwrap();
    other.publish(b"first").unwrap();
    let mut bridge = bridges::keeping(&back, &to);
    assert_eq!(next(&mut subscriber), b"first");
    fail(&uri, "last", "torn");
    assert_eq!(next(&mut subscriber), b"last");
    assert_eq!(failure(&mut subscriber), "torn");
    for n in 0..3_u8 {
        kill(bridge);
        bridge = bridges::keeping(&back, &to);
        other.publish(&[n]).unwrap();
        assert_eq!(next(&mut subscriber), [n]);
    }
    // The server passes it on once more, as after its window of ids.
    let stored = server.ask("$JS.API.STREAM.MSG.GET.told", "{\"seq\":3}");
    let id = label_in(&stored);
    let repeated = id.replace(".failed", ".r9.failed");
    assert_ne!(id, repeated, "{id}");
    server.send("told", &repeated, b"torn");
    other.publish(b"after").unwrap();
    assert_eq!(next(&mut subscriber), b"after");
    kill(bridge);
}

/// The id in a stored message, as the server's interface encodes its headers.
fn label_in(stored: &str) -> String {
    let (_, rest) = stored.split_once("\"hdrs\":\"").expect("headers");
    let (coded, _) = rest.split_once('"').expect("their end");
    let headers = String::from_utf8(decoded(coded)).expect("text");
    let (_, rest) = headers.split_once("Nats-Msg-Id: ").expect("an id");
    rest.lines().next().expect("its line").trim().to_owned()
}

/// The bytes of a base64 text.
fn decoded(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let value = ALPHABET.iter().position(|letter| *letter == byte);
        bits = bits << 6 | u32::try_from(value.expect("base64")).expect("six bits");
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).expect("a byte"));
        }
    }
    bytes
}

#[test]
fn bridge_that_ends_with_its_source_ends_with_the_failure() {
    let Some(server) = server("") else {
        return;
    };
    let place = common::TestFolder::new();
    let to = place.uri("to", "");
    let uri = server.uri("until", "timeout=1s");
    let mut subscriber = Subscriber::open(&to).unwrap();
    let config = |uri: &str| Config::parse(uri).unwrap();
    let from = format!("{uri}&from=oldest");
    let bridge = Bridge::start(&config(&from), &config(&to), true).unwrap();
    fail(&uri, "last", "torn");
    assert_eq!(next(&mut subscriber), b"last");
    assert_eq!(failure(&mut subscriber), "torn");
    until("it has ended", || bridge.has_ended());
    let error = bridge.stop(Duration::ZERO).unwrap_err();
    assert!(
        matches!(&error, LinkError::FarFailed { reason, .. } if reason == "torn"),
        "{error:?}"
    );
    // The failure of the bridge is the same one.
    match subscriber.receive_timeout(Duration::ZERO) {
        Ok(None) => {}
        Err(ReceiveError::Failed(LinkError::Upstream { reason, .. })) => assert_eq!(reason, "torn"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn reason_of_any_client_is_shortened_and_made_printable() {
    let Some(server) = server("") else {
        return;
    };
    let uri = server.uri("hostile", "timeout=1s");
    let mut subscriber = joined(&uri);
    let id = "00000000000000ab.0.64.8";
    server.send(
        "hostile",
        &format!("{id}.failed"),
        &b"\x1b[2J\xff\n".repeat(1000),
    );
    let reason = failure(&mut subscriber);
    assert!(
        reason.len() <= 480 && reason.starts_with("[2J\u{fffd}"),
        "{reason}"
    );
    assert!(!reason.contains(char::is_control), "{reason:?}");
}

#[test]
fn message_of_a_later_version_is_an_error() {
    let Some(server) = server("") else {
        return;
    };
    let uri = server.uri("later", "timeout=1s");
    let mut subscriber = joined(&uri);
    server.send("later", "00000000000000ab.0.64.8.paused", b"no message");
    match subscriber.receive_timeout(2 * common::WATCHDOG) {
        Err(ReceiveError::Failed(LinkError::Damaged { problem, .. })) => {
            assert!(problem.contains("later version"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
}
