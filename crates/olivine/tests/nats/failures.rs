//! Failed publishers of `nats://`: each subscriber gets the reason once, behind the last message.

#![cfg(all(not(loom), feature = "nats"))]

use crate::common;
use crate::common::{Other, bridges, kill, until};
use crate::nats_server::{Server, server};
use olivine::{Bridge, Config, LinkError, LinkStage, Publisher, ReceiveError, Subscriber};
use std::time::Duration;

fn joined(uri: &str) -> Subscriber {
    let subscriber = Subscriber::open(uri).expect("a subscriber");
    until("it is connected", || {
        subscriber.link_status().expect("a bridge").stage == LinkStage::Connected
    });
    subscriber
}

/// A ring and the bridge that carries it to `channel`: the folder, both URIs, a subscriber of the
/// channel, the bridge.
fn bridged(
    server: &Server,
    channel: &str,
) -> (common::TestFolder, String, String, Subscriber, Other) {
    let place = common::TestFolder::new();
    let ring = place.uri("feed", "subscribers=1");
    let uri = server.uri(channel, "timeout=1s");
    let subscriber = joined(&uri);
    let bridge = bridges::keeping(&ring, &uri);
    (place, ring, uri, subscriber, bridge)
}

/// Kills the bridge after both messages were acknowledged; then the second publisher fails. Returns
/// the first.
fn fail_behind(ring: &str, subscriber: &mut Subscriber, bridge: Other) -> Publisher {
    let mut other = Publisher::open(ring).unwrap();
    let mut failing = Publisher::open(ring).unwrap();
    for (publisher, text) in [(&mut other, b"first"), (&mut failing, b"again")] {
        publisher.publish(text).unwrap();
        assert_eq!(next(subscriber), text);
    }
    assert!(failing.wait_drained(Some(common::WATCHDOG)).unwrap());
    kill(bridge);
    let _ = failing.close_failed("torn");
    other
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
    // Returns once the failure is stored.
    publisher.close_failed(reason).unwrap();
}

/// Only the bridge of the publisher got it: subscribers waited for ever.
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
    let (_place, ring, uri, mut subscriber, bridge) = bridged(&server, "feed");
    let mut other = fail_behind(&ring, &mut subscriber, bridge);
    let bridge = bridges::keeping(&ring, &uri);
    assert_eq!(failure(&mut subscriber), "torn");
    // The other publisher goes on.
    other.publish(b"more").unwrap();
    assert_eq!(next(&mut subscriber), b"more");
    kill(bridge);
}

/// Subscribers saw every lane that they knew ended, and got `Closed` at the handover.
#[test]
fn first_message_of_the_next_publisher_is_stored_before_the_end_of_the_last_one() {
    let Some(server) = server("") else {
        return;
    };
    let (place, ring, uri, mut subscriber, bridge) = bridged(&server, "handover");
    let mut first = Publisher::open(&ring).unwrap();
    first.publish(b"first").unwrap();
    assert_eq!(next(&mut subscriber), b"first");
    assert!(first.wait_drained(Some(common::WATCHDOG)).unwrap());
    kill(bridge);
    let mut second = Publisher::open(&place.uri("feed", "")).unwrap();
    second.publish(b"second").unwrap();
    first.close().unwrap();
    let bridge = bridges::keeping(&ring, &uri);
    assert_eq!(next(&mut subscriber), b"second");
    let mut ids = Vec::new();
    until("the end is stored", || {
        let stored = server.ask("$JS.API.STREAM.MSG.GET.handover", "{\"seq\":3}");
        stored.contains("\"hdrs\"")
    });
    for seq in 2..=3 {
        let text = format!("{{\"seq\":{seq}}}");
        ids.push(label_in(
            &server.ask("$JS.API.STREAM.MSG.GET.handover", &text),
        ));
    }
    assert!(
        !ids[0].ends_with(".end") && ids[1].ends_with(".end"),
        "{ids:?}"
    );
    kill(bridge);
}

/// A full stream refused the message and took the end, which is shorter.
#[test]
fn refused_first_message_is_stored_before_the_end_of_the_last_publisher() {
    let Some(server) = server("") else {
        return;
    };
    let (place, mut subscriber, first) = nearly_full(&server, 10 << 10);
    let mut second = Publisher::open(&place.uri("feed", "")).unwrap();
    let long = vec![b'x'; 8 << 10];
    second.publish(&long).unwrap();
    let bridge = end_beside_refused(&server, &place, first);
    assert_eq!(next(&mut subscriber), long);
    second.close().unwrap();
    let end = subscriber.receive_timeout(2 * common::WATCHDOG);
    assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
    until("it has ended", || bridge.has_ended());
    assert!(bridge.stop(common::WATCHDOG).unwrap());
}

/// A full stream refused the failure and took the end, which is shorter.
#[test]
fn refused_failure_is_stored_before_the_end_of_another_publisher() {
    let Some(server) = server("") else {
        return;
    };
    // There is room for an end, and not for a failure.
    let (place, mut subscriber, first) = nearly_full(&server, 15_900);
    let second: Publisher = Publisher::open(&place.uri("feed", "")).unwrap();
    let reason = "torn ".repeat(90);
    let _ = second.close_failed(&reason);
    let bridge = end_beside_refused(&server, &place, first);
    assert_eq!(failure(&mut subscriber).trim(), reason.trim());
    until("it has ended", || bridge.has_ended());
    bridge.stop(common::WATCHDOG).unwrap_err();
}

/// A ring, and a stream of 16 KiB with a message of `bytes` out of it; a subscriber that has it,
/// and its publisher. The bridge was killed.
fn nearly_full(server: &Server, bytes: usize) -> (common::TestFolder, Subscriber, Publisher) {
    let place = common::TestFolder::new();
    let [ring, uri] = ends_of_full(server, &place);
    let mut subscriber = joined(&uri);
    let bridge = bridges::keeping(&ring, &uri);
    let mut first = Publisher::open(&ring).unwrap();
    let long = vec![b'x'; bytes];
    first.publish(&long).unwrap();
    assert_eq!(next(&mut subscriber), long);
    assert!(first.wait_drained(Some(common::WATCHDOG)).unwrap());
    kill(bridge);
    (place, subscriber, first)
}

/// The same for both bridges: their place in the ring is named after the URIs.
fn ends_of_full(server: &Server, place: &common::TestFolder) -> [String; 2] {
    let ring = place.uri("feed", "subscribers=1&capacity=64KiB");
    [ring, server.uri("full", "max_bytes=16KiB")]
}

/// Closes the publisher and starts the next bridge. The stream is emptied once it has refused what
/// is behind; no end is sent before.
fn end_beside_refused(server: &Server, place: &common::TestFolder, first: Publisher) -> Bridge {
    first.close().unwrap();
    let sent = server.watch("full", 8);
    let [ring, uri] = ends_of_full(server, place).map(|uri| Config::parse(&uri).unwrap());
    let bridge = Bridge::start(&ring, &uri, true).unwrap();
    let sent = sent();
    assert!(!sent.iter().any(|id| id.ends_with(".end")), "{sent:?}");
    server.ask("$JS.API.STREAM.PURGE.full", "");
    bridge
}

/// Both had the same message id, and the server dropped the second.
#[test]
fn two_failures_of_a_lane_without_a_message_between_them_are_both_reported() {
    let Some(server) = server("") else {
        return;
    };
    let (_place, ring, uri, mut subscriber, mut bridge) = bridged(&server, "feed");
    let mut other = Publisher::open(&ring).unwrap();
    other.publish(b"first").unwrap();
    assert_eq!(next(&mut subscriber), b"first");
    fail(&ring, "last", "torn");
    assert_eq!(next(&mut subscriber), b"last");
    assert_eq!(failure(&mut subscriber), "torn");
    kill(bridge);
    let again: Publisher = Publisher::open(&ring).unwrap();
    let _ = again.close_failed("worn");
    bridge = bridges::keeping(&ring, &uri);
    assert_eq!(failure(&mut subscriber), "worn");
    other.publish(b"more").unwrap();
    assert_eq!(next(&mut subscriber), b"more");
    kill(bridge);
}

/// The bridge stores the first again, which the killed one may not have stored, and the second.
#[test]
fn bridge_that_starts_between_two_failures_at_one_position_stores_both() {
    let Some(server) = server("") else {
        return;
    };
    let (_place, ring, uri, mut subscriber, bridge) = bridged(&server, "between");
    let mut other = fail_behind(&ring, &mut subscriber, bridge);
    let mut bridge = bridges::keeping(&ring, &uri);
    assert_eq!(failure(&mut subscriber), "torn");
    let again: Publisher = Publisher::open(&ring).unwrap();
    let _ = again.close_failed("worn");
    assert_eq!(failure(&mut subscriber), "worn");
    kill(bridge);
    bridge = bridges::keeping(&ring, &uri);
    other.publish(b"more").unwrap();
    assert_eq!(next(&mut subscriber), b"more");
    kill(bridge);
}

/// A lane remembers its newest failure only.
#[test]
fn bridge_that_starts_after_two_failures_at_one_position_stores_the_second() {
    let Some(server) = server("") else {
        return;
    };
    let (_place, ring, uri, mut subscriber, bridge) = bridged(&server, "after");
    let mut other = Publisher::open(&ring).unwrap();
    other.publish(b"first").unwrap();
    assert_eq!(next(&mut subscriber), b"first");
    assert!(other.wait_drained(Some(common::WATCHDOG)).unwrap());
    kill(bridge);
    for reason in ["torn", "worn"] {
        let failing: Publisher = Publisher::open(&ring).unwrap();
        let _ = failing.close_failed(reason);
    }
    let mut failing: Publisher = Publisher::open(&ring).unwrap();
    failing.publish(b"behind").unwrap();
    let bridge = bridges::keeping(&ring, &uri);
    assert_eq!(failure(&mut subscriber), "worn");
    assert_eq!(next(&mut subscriber), b"behind");
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

/// It ended without an error: the bridge before it acknowledged the failure.
#[test]
fn bridge_whose_predecessor_acknowledged_a_failure_ends_with_one() {
    let Some(server) = server("") else {
        return;
    };
    let place = common::TestFolder::new();
    let to = place.uri("to", "");
    let uri = server.uri("again", "timeout=1s");
    let mut subscriber = Subscriber::open(&to).unwrap();
    let config = |uri: &str| Config::parse(uri).unwrap();
    let (from, to) = (config(&format!("{uri}&from=oldest")), config(&to));
    let first = Bridge::start(&from, &to, false).unwrap();
    fail(&uri, "last", "torn");
    assert_eq!(next(&mut subscriber), b"last");
    assert_eq!(failure(&mut subscriber), "torn");
    assert!(first.stop(common::WATCHDOG).unwrap());
    let bridge = Bridge::start(&from, &to, true).unwrap();
    until("it has ended", || bridge.has_ended());
    let error = bridge.stop(Duration::ZERO).unwrap_err();
    assert!(matches!(error, LinkError::FarFailed { .. }), "{error:?}");
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
        &format!("{id}.failed.2"),
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
