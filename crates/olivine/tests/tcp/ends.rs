//! The end of a stream over `tcp://`: which side gets it, and when a listener that ends with its
//! stream does.

#![cfg(not(loom))]

use crate::common;
use crate::common::blocks::{Block, END, LANE_END, LEAVING, by_block};
use crate::common::proxy::{Proxy, Way};
use crate::common::{TestFolder, free_port, until};
use olivine::{Bridge, Config, NotSent, Publisher, ReceiveError, Subscriber};
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn uri(port: u16, query: &str) -> String {
    format!("tcp://127.0.0.1:{port}/test?{query}")
}

/// URIs of the source and the destination of a connection through `proxy`, which leads to `port`.
fn ends(source_listens: bool, port: u16, proxy: &Proxy) -> [String; 2] {
    let listens = uri(port, "role=listen&timeout=500ms");
    let connects = uri(proxy.port, "role=connect&timeout=500ms");
    match source_listens {
        true => [listens, connects],
        false => [connects, listens],
    }
}

/// The direction of the source's data, and that of the destination's.
fn ways(source_listens: bool) -> [Way; 2] {
    match source_listens {
        true => [Way::FromListener, Way::ToListener],
        false => [Way::ToListener, Way::FromListener],
    }
}

fn start(from: &str, to: &str, until_end: bool) -> Bridge {
    let config = |uri: &str| Config::parse(uri).unwrap();
    Bridge::start(&config(from), &config(to), until_end).unwrap()
}

/// The next message, in time.
fn next(subscriber: &mut Subscriber) -> Vec<u8> {
    let mut message = None;
    until("a message comes", || {
        let received = subscriber.receive_timeout(Duration::from_millis(50));
        message = received.expect("no end").map(|message| message.to_vec());
        message.is_some()
    });
    message.unwrap()
}

fn end_comes(subscriber: &mut Subscriber) {
    until("the end is reported", || {
        match subscriber.receive_timeout(Duration::from_millis(50)) {
            Ok(None) => false,
            Err(ReceiveError::Closed) => true,
            other => panic!("{other:?}"),
        }
    });
}

/// A message goes the whole way, and then the end.
fn one_more_and_the_end(mut publisher: Publisher, subscriber: &mut Subscriber) {
    publisher.publish(b"now").unwrap();
    assert_eq!(next(subscriber), b"now");
    publisher.close().unwrap();
    end_comes(subscriber);
}

/// `fate` changes the first end of a stream in this direction, after the ends of its lanes were
/// lost; the flag reports that.
fn end_meets(proxy: &Proxy, way: Way, fate: fn(Vec<u8>) -> Vec<u8>) -> Arc<AtomicBool> {
    let met = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&met);
    proxy.rewrite(
        way,
        by_block(move |block| {
            if flag.load(Ordering::Acquire) {
                return block.bytes();
            }
            if block.closes_with(END) {
                flag.store(true, Ordering::Release);
                return fate(block.bytes());
            }
            // It would count as the end.
            match block.kind() {
                LANE_END => Vec::new(),
                _ => block.bytes(),
            }
        }),
    );
    met
}

/// The connection breaks at this moment, or a bit of the block is changed.
#[test]
fn destination_gets_the_end_after_a_lost_close() {
    let swallowed = |_: Vec<u8>| Vec::new();
    let changed = |mut bytes: Vec<u8>| {
        bytes[0] ^= 0x40;
        bytes
    };
    for source_listens in [true, false] {
        for (fate, cut) in [
            (swallowed as fn(Vec<u8>) -> Vec<u8>, true),
            (changed, false),
        ] {
            let port = free_port();
            let proxy = Proxy::start(port);
            let [source, destination] = ends(source_listens, port, &proxy);
            let [from_source, _] = ways(source_listens);
            let met = end_meets(&proxy, from_source, fate);
            let mut publisher = Publisher::open(&source).unwrap();
            let mut subscriber = Subscriber::open(&destination).unwrap();
            publisher.publish(b"last").unwrap();
            assert_eq!(next(&mut subscriber), b"last");
            let closing = std::thread::spawn(move || publisher.close());
            until("the end is said", || met.load(Ordering::Acquire));
            if cut {
                proxy.cut();
            }
            end_comes(&mut subscriber);
            closing.join().unwrap().unwrap();
        }
    }
}

/// The destination got the end and is gone; its reply was lost. The source waits for it for a
/// while, not forever.
#[test]
fn source_ends_after_a_lost_reply() {
    for (source_listens, is_named) in [(true, false), (true, true), (false, false)] {
        let place = TestFolder::new();
        let dir = place.dir().display().to_string();
        let name = if is_named {
            format!("&name=kept&dir={dir}")
        } else {
            String::new()
        };
        let port = free_port();
        let proxy = Proxy::start(port);
        let [source, destination] = ends(source_listens, port, &proxy);
        let [_, from_destination] = ways(source_listens);
        let met = end_meets(&proxy, from_destination, |_| Vec::new());
        let from = place.uri("from", "");
        let mut publisher = Publisher::open(&format!("{from}&subscribers=1")).unwrap();
        let sending = start(&from, &source, true);
        let mut subscriber = Subscriber::open(&format!("{destination}{name}")).unwrap();
        publisher.publish(b"last").unwrap();
        assert_eq!(next(&mut subscriber), b"last");
        publisher.close().unwrap();
        end_comes(&mut subscriber);
        until("the answer is lost", || met.load(Ordering::Acquire));
        proxy.set_down(true);
        drop(subscriber);
        until("the source has ended", || sending.has_ended());
        let status = sending.status();
        assert_eq!((status.abandoned, status.undelivered), (0, 0), "{status:?}");
        assert!(sending.stop(common::WATCHDOG).unwrap());
    }
}

#[test]
fn listening_source_ends_with_its_stream_only() {
    let place = TestFolder::new();
    let port = free_port();
    let from = place.uri("from", "");
    let mut publisher = Publisher::open(&from).unwrap();
    let sending = start(&from, &uri(port, "role=listen"), true);
    let mut carry = |number: u8| {
        let mut subscriber = Subscriber::open(&uri(port, "role=connect")).unwrap();
        until("it is there", || sending.status().peers == 1);
        publisher.publish(&[number]).unwrap();
        assert_eq!(next(&mut subscriber), [number]);
        subscriber
    };
    for number in 0..3 {
        drop(carry(number));
        until("it has left", || sending.status().peers == 0);
    }
    let mut subscriber = carry(3);
    publisher.close().unwrap();
    end_comes(&mut subscriber);
    until("the source has ended", || sending.has_ended());
}

#[test]
fn listening_source_outlives_a_refused_subscriber() {
    let place = TestFolder::new();
    let port = free_port();
    let from = place.uri("from", "subscribers_max=1");
    let publisher = Publisher::open(&from).unwrap();
    let near = Subscriber::open(&from).unwrap();
    let sending = start(&from, &uri(port, "role=listen"), true);
    let mut subscriber = Subscriber::open(&uri(port, "role=connect")).unwrap();
    until("it was turned away", || sending.status().refusals > 1);
    assert!(!sending.has_ended(), "{:?}", sending.status());
    drop(near);
    until("it is there", || sending.status().peers == 1);
    one_more_and_the_end(publisher, &mut subscriber);
    until("the source has ended", || sending.has_ended());
}

/// It sends its hello like a subscriber, and leaves before anything was carried.
#[test]
fn listening_source_outlives_a_client_that_only_says_hello() {
    let place = TestFolder::new();
    let port = free_port();
    let proxy = Proxy::start(port);
    let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
    let said = Arc::clone(&seen);
    proxy.rewrite(Way::ToListener, move |bytes| {
        said.lock().unwrap().extend(bytes);
        bytes.to_vec()
    });
    let from = place.uri("from", "");
    let publisher = Publisher::open(&from).unwrap();
    let sending = start(&from, &uri(port, "role=listen"), true);
    drop(Subscriber::open(&uri(proxy.port, "role=connect")).unwrap());
    let mut hello = Vec::new();
    until("a hello is seen", || {
        hello.clone_from(&seen.lock().unwrap());
        let length = hello.get(12..16).and_then(|field| field.first_chunk::<4>());
        let whole = length.map(|length| 20 + u32::from_le_bytes(*length) as usize);
        whole.is_some_and(|whole| {
            let is_whole = hello.len() >= whole;
            hello.truncate(whole);
            is_whole
        })
    });
    let before = sending.status().connections;
    let close = Block::close(LEAVING);
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stranger.write_all(&hello).unwrap();
    stranger.write_all(&close.sealed()).unwrap();
    until("it has left", || {
        let status = sending.status();
        status.connections > before && status.peers == 0
    });
    assert!(!sending.has_ended(), "{:?}", sending.status());
    let mut subscriber = Subscriber::open(&uri(port, "role=connect")).unwrap();
    until("it is there", || sending.status().peers == 1);
    one_more_and_the_end(publisher, &mut subscriber);
    until("the source has ended", || sending.has_ended());
}

#[test]
fn listening_destination_outlives_a_refused_publisher() {
    let (here, there) = (TestFolder::new(), TestFolder::new());
    let port = free_port();
    // A file is in place of the channel folder.
    std::fs::write(there.dir(), "in the way").unwrap();
    let to = there.uri("to", "");
    let receiving = start(&uri(port, "role=listen"), &to, true);
    let from = here.uri("from", "");
    let publisher = Publisher::open(&format!("{from}&subscribers=1")).unwrap();
    let sending = start(&from, &uri(port, "role=connect"), true);
    until("it was turned away", || receiving.status().refusals > 1);
    assert!(!receiving.has_ended(), "{:?}", receiving.status());
    std::fs::remove_file(there.dir()).unwrap();
    let mut subscriber = Subscriber::open(&to).unwrap();
    one_more_and_the_end(publisher, &mut subscriber);
    until("both have ended", || {
        receiving.has_ended() && sending.has_ended()
    });
}

/// Undelivered messages of the old channel are lost: the lane fails, and then the new channel
/// follows.
#[test]
fn replaced_channel_is_reported_as_loss() {
    let place = TestFolder::new();
    let port = free_port();
    let to = place.uri("to", "");
    let mut subscriber = Subscriber::open(&to).unwrap();
    let publish = |message: &[u8]| {
        // It waits only this long for an absent destination.
        let listens = uri(port, "role=listen&expire=1s");
        let mut publisher = Publisher::open(&listens).unwrap();
        let receiving = start(&uri(port, "role=connect"), &to, false);
        until("it is there", || {
            publisher.link_status().unwrap().peers == 1
        });
        publisher.publish(message).unwrap();
        (publisher, receiving)
    };
    let (mut publisher, receiving) = publish(b"first");
    assert_eq!(next(&mut subscriber), b"first");
    assert!(receiving.stop(common::WATCHDOG).unwrap());
    publisher.publish(b"lost").unwrap();
    drop(publisher);
    let (_publisher, _receiving) = publish(b"second");
    let mut told = None;
    until("the loss is reported", || {
        match subscriber.receive_timeout(Duration::from_millis(50)) {
            Ok(None) => false,
            Ok(Some(message)) => panic!("{:?} without a word", &*message),
            Err(error) => {
                told = Some(error);
                true
            }
        }
    });
    let Some(ReceiveError::Failed(error)) = told else {
        panic!("{told:?}");
    };
    let told = error.to_string();
    assert!(told.contains("messages are missing"), "{told}");
    until("the new channel follows", || {
        // Reported again until the next publisher is there.
        let received = subscriber.receive_timeout(Duration::from_millis(50));
        matches!(received, Ok(Some(message)) if *message == *b"second")
    });
}

#[test]
fn unannounced_reserved_lane_is_closed() {
    let place = TestFolder::new();
    let port = free_port();
    let (listens, connects) = (uri(port, "role=listen"), uri(port, "role=connect"));
    let to = place.uri("to", "");
    let mut subscriber = Subscriber::open(&to).unwrap();
    // Channels with these numbers of publishers, one after the other; the first ends.
    for (channel, publishers) in [("first", 2), ("second", 1)] {
        let from = place.uri(channel, "");
        let mut publishers: Vec<_> = (0..publishers)
            .map(|_| Publisher::open(&from).unwrap())
            .collect();
        let sending = start(&from, &listens, channel == "first");
        let receiving = start(&connects, &to, false);
        until("it is there", || sending.status().peers == 1);
        for publisher in &mut publishers {
            publisher.publish(channel.as_bytes()).unwrap();
            let mut came = false;
            until("it comes", || {
                let received = subscriber.receive_timeout(Duration::from_millis(50));
                came = matches!(received, Ok(Some(message)) if *message == *channel.as_bytes());
                came
            });
        }
        for publisher in publishers {
            publisher.close().unwrap();
        }
        end_comes(&mut subscriber);
        drop((sending, receiving));
    }
}

/// The lanes of publishers without a name that were away when their listener was replaced stayed
/// reserved for ever.
#[test]
fn replaced_listener_ends_the_lanes_of_publishers_that_stay_away() {
    let place = TestFolder::new();
    let ring = place.uri("to", "publishers_max=2");
    let mut subscriber = Subscriber::open(&ring).unwrap();
    for round in 0..3_u8 {
        let port = free_port();
        let listens = uri(port, "role=listen");
        let bridge = start(&listens, &ring, false);
        let connects = uri(port, "role=connect&expire=300ms&linger=1ms");
        let mut publisher = Publisher::open(&connects).unwrap();
        publisher.publish(&[round]).unwrap();
        until("the message comes", || {
            match subscriber.receive_timeout(Duration::from_millis(50)) {
                Ok(Some(message)) => *message == [round],
                // The failure of the round before is the end of the stream until then.
                Ok(None) | Err(ReceiveError::Failed(_)) => false,
                Err(error) => panic!("{error:?}"),
            }
        });
        bridge.stop(Duration::ZERO).unwrap();
        // It cannot reach the listener any more.
        let _ = publisher.close();
        let _bridge = start(&uri(free_port(), "role=listen"), &ring, false);
        let mut reason = String::new();
        until("the failure is reported", || {
            match subscriber.receive_timeout(Duration::from_millis(50)) {
                Ok(None) => {}
                Err(ReceiveError::Failed(error)) => reason = error.to_string(),
                other => panic!("{other:?}"),
            }
            !reason.is_empty()
        });
        assert!(reason.contains("was away for longer"), "{reason}");
    }
    // Both lanes are free.
    let open = || -> Publisher { Publisher::open(&ring).unwrap() };
    let publishers = [open(), open()];
    let full = Publisher::<[u8]>::open(&ring).unwrap_err().to_string();
    assert!(full.contains("publishers_max=2"), "{full}");
    drop(publishers);
}

/// A named subscriber that closed before its acknowledgement was sent held its publisher back.
#[test]
fn publisher_closes_after_a_named_subscriber_received_and_left() {
    let place = TestFolder::new();
    let dir = place.file("channels").display().to_string();
    for _ in 0..60 {
        let port = free_port();
        let mut publisher = Publisher::open(&uri(port, "role=listen&linger=5s")).unwrap();
        let named = uri(port, &format!("role=connect&name=archive&dir={dir}"));
        let mut subscriber = Subscriber::open(&named).unwrap();
        publisher.publish(b"read").unwrap();
        assert_eq!(next(&mut subscriber), b"read");
        subscriber.unsubscribe();
        publisher.close().expect("the subscriber has every message");
    }
}

/// It kept the name, and so every later message, until `expire=`.
#[test]
fn unsubscribed_name_is_forgotten_by_a_listening_publisher_at_once() {
    let place = TestFolder::new();
    let dir = place.file("channels").display().to_string();
    let port = free_port();
    let listens = uri(port, "role=listen&capacity=4KiB");
    let mut publisher = Publisher::open(&listens).unwrap();
    let named = uri(port, &format!("role=connect&name=archive&dir={dir}"));
    let mut subscriber = Subscriber::open(&named).unwrap();
    publisher.publish(b"read").unwrap();
    assert_eq!(next(&mut subscriber), b"read");
    subscriber.unsubscribe();
    // More than the ring holds.
    for n in 0..200 {
        let sent = publisher.publish_timeout(&[1; 64], common::WATCHDOG);
        sent.unwrap_or_else(|error| panic!("message {n}: {error}"));
    }
    publisher.close().unwrap();
}

/// A lane that is kept says so, and what to do.
#[test]
fn full_channel_names_lanes_that_are_kept_for_a_bridge() {
    let place = TestFolder::new();
    let ring = place.uri("to", "publishers_max=1");
    let mut subscriber = Subscriber::open(&ring).unwrap();
    let port = free_port();
    let bridge = start(&uri(port, "role=listen"), &ring, false);
    let mut publisher = Publisher::open(&uri(port, "role=connect")).unwrap();
    publisher.publish(&[1]).unwrap();
    assert_eq!(next(&mut subscriber), [1]);
    bridge.stop(Duration::ZERO).unwrap();
    let full = Publisher::<[u8]>::open(&ring).unwrap_err().to_string();
    assert!(
        full.contains("kept for a bridge") && full.contains("when that bridge runs"),
        "{full}"
    );
    // The far side that comes back in time goes on.
    let _bridge = start(&uri(port, "role=listen"), &ring, false);
    publisher.publish(&[2]).unwrap();
    assert_eq!(next(&mut subscriber), [2]);
    publisher.close().unwrap();
    end_comes(&mut subscriber);
}

/// A listening publisher and a named subscriber that has received and acknowledged one message.
/// The folder is that of the name.
fn met(place: &TestFolder, listens: &str) -> (Publisher, Subscriber, u16) {
    let port = free_port();
    let mut publisher = Publisher::open(&uri(port, listens)).unwrap();
    let mut subscriber = Subscriber::open(&archive(place, port)).unwrap();
    publisher.publish(b"read").unwrap();
    assert_eq!(next(&mut subscriber), b"read");
    until("it is acknowledged", || {
        let status = publisher.link_status().unwrap();
        status.acknowledged_bytes == status.bytes && status.bytes > 0
    });
    (publisher, subscriber, port)
}

fn archive(place: &TestFolder, port: u16) -> String {
    let dir = place.file("channels").display().to_string();
    uri(port, &format!("role=connect&name=archive&dir={dir}"))
}

/// It said that the ring had no room.
#[test]
fn close_says_how_many_messages_the_far_side_has_not_acknowledged() {
    let uri = uri(free_port(), "role=connect&linger=50ms");
    let mut publisher = Publisher::<[u8]>::open(&uri).unwrap();
    for _ in 0..3 {
        publisher.publish(b"unsent").unwrap();
    }
    let error = publisher.close().unwrap_err();
    assert!(
        matches!(error, NotSent::Unacknowledged(left) if left.messages() == 3),
        "{error}"
    );
    let text = error.to_string();
    for word in [
        "closing waited ",
        " s, ",
        "acknowledged 3 messages",
        "'linger='",
    ] {
        assert!(text.contains(word), "{text}");
    }
}

/// `close` was `Ok`, and the subscriber waited for ever.
#[test]
fn publisher_reports_a_named_subscriber_that_is_away_and_has_no_end() {
    let place = TestFolder::new();
    let (publisher, subscriber, _) = met(&place, "role=listen&expire=300ms");
    subscriber.close();
    until("it has left", || {
        publisher.link_status().unwrap().peers == 0
    });
    let error = publisher.close().unwrap_err();
    assert!(
        matches!(error, NotSent::Unacknowledged(left) if left.messages() == 0),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("not acknowledged the end of the stream:"),
        "{text}"
    );
}

/// Its own `expire` ends its session before the publisher gives it up. `close` was `Ok`.
#[test]
fn publisher_reports_a_named_subscriber_that_expires_without_the_end() {
    let place = TestFolder::new();
    let port = free_port();
    let proxy = Proxy::start(port);
    let met = end_meets(&proxy, Way::FromListener, |_| Vec::new());
    let publisher = Publisher::<[u8]>::open(&uri(port, "role=listen&timeout=500ms")).unwrap();
    let connects = archive(&place, proxy.port);
    let subscriber = Subscriber::open(&format!("{connects}&timeout=500ms&expire=300ms")).unwrap();
    let peers = || publisher.link_status().unwrap().peers;
    until("it is connected", || peers() == 1);
    let closing = std::thread::spawn(move || publisher.close());
    until("the end is lost", || met.load(Ordering::Acquire));
    proxy.set_down(true);
    proxy.cut();
    let error = closing.join().unwrap().unwrap_err();
    assert!(
        matches!(error, NotSent::Unacknowledged(left) if left.messages() == 0),
        "{error}"
    );
    drop(subscriber);
}

#[test]
fn named_subscriber_that_comes_back_to_a_closing_publisher_gets_the_end() {
    let place = TestFolder::new();
    let (publisher, subscriber, port) = met(&place, "role=listen");
    subscriber.close();
    until("it has left", || {
        publisher.link_status().unwrap().peers == 0
    });
    let closing = std::thread::spawn(move || publisher.close());
    let mut subscriber = Subscriber::open(&archive(&place, port)).unwrap();
    end_comes(&mut subscriber);
    closing.join().unwrap().unwrap();
}

/// It has the end of each lane, and leaves before the end of the stream is confirmed.
#[test]
fn named_subscriber_that_leaves_at_the_end_holds_no_publisher_back() {
    for _ in 0..30 {
        let place = TestFolder::new();
        let (publisher, mut subscriber, _) = met(&place, "role=listen&linger=10s");
        let reading = std::thread::spawn(move || end_comes(&mut subscriber));
        publisher.close().expect("the subscriber has the end");
        reading.join().unwrap();
    }
}

/// The end of a stream of this number in this direction is lost; the flag reports that.
fn end_is_lost(proxy: &Proxy, way: Way, number: usize) -> Arc<AtomicBool> {
    let mut ends = 0;
    let met = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&met);
    proxy.rewrite(
        way,
        by_block(move |block| {
            ends += usize::from(block.closes_with(END));
            if block.closes_with(END) && ends == number {
                flag.store(true, Ordering::Release);
                return Vec::new();
            }
            block.bytes()
        }),
    );
    met
}

/// A bridge with a name that ends with its source, over a connection that is cut where the end of
/// this number goes in this direction. Both sides end in order.
fn both_end_after_a_cut(way: Way, number: usize) {
    let place = TestFolder::new();
    let port = free_port();
    let proxy = Proxy::start(port);
    let met = end_is_lost(&proxy, way, number);
    let listens = uri(port, "role=listen&timeout=500ms&expire=20s");
    let mut publisher = Publisher::open(&listens).unwrap();
    let connects = uri(proxy.port, "role=connect&timeout=500ms&name=archive");
    let to = place.uri("to", "");
    let mut subscriber = Subscriber::open(&to).unwrap();
    let receiving = start(&connects, &to, true);
    publisher.publish(b"last").unwrap();
    assert_eq!(next(&mut subscriber), b"last");
    let closing = std::thread::spawn(move || publisher.close());
    until("an end is lost", || met.load(Ordering::Acquire));
    proxy.cut();
    end_comes(&mut subscriber);
    until("the destination has ended", || receiving.has_ended());
    assert!(receiving.stop(common::WATCHDOG).unwrap());
    closing.join().unwrap().expect("the end was confirmed");
}

/// The destination had left, and the source reported that it lacked the end.
#[test]
fn destination_that_ends_with_its_source_stays_until_its_answer_has_come() {
    both_end_after_a_cut(Way::ToListener, 1);
}

/// The source is gone: the destination stays for a while only.
#[test]
fn destination_ends_after_the_source_that_has_its_answer_is_gone() {
    both_end_after_a_cut(Way::FromListener, 2);
}

/// Another source has its address by then, and refuses it. It ended without a note.
#[test]
fn destination_that_stays_for_its_answer_notes_a_refusal() {
    let place = TestFolder::new();
    let port = free_port();
    let proxy = Proxy::start(port);
    let met = end_is_lost(&proxy, Way::FromListener, 2);
    let publisher = Publisher::<[u8]>::open(&uri(port, "role=listen")).unwrap();
    let to = place.uri("to", "");
    let receiving = start(&uri(proxy.port, "role=connect"), &to, true);
    until("it is connected", || receiving.status().peers == 1);
    let closing = std::thread::spawn(move || publisher.close());
    until("an end is lost", || met.load(Ordering::Acquire));
    closing.join().unwrap().expect("the end was confirmed");
    let other = Publisher::<[u8]>::open(&uri(port, "role=listen&token=secret")).unwrap();
    proxy.cut();
    until("the destination has ended", || receiving.has_ended());
    let note = receiving.status().note;
    assert!(note.contains("token"), "{note}");
    assert!(receiving.stop(common::WATCHDOG).unwrap());
    drop(other);
}

/// Before the first message came a second end: its lane was opened and closed.
#[test]
fn named_subscriber_meets_the_next_publisher_without_another_end() {
    let place = TestFolder::new();
    let port = free_port();
    for _ in 0..3 {
        let mut publisher = Publisher::open(&uri(port, "role=listen")).unwrap();
        let mut subscriber = Subscriber::open(&archive(&place, port)).unwrap();
        // Time for an end to be reported before the first message.
        let early = subscriber.receive_timeout(Duration::from_millis(200));
        assert!(matches!(early, Ok(None)), "{early:?}");
        publisher.publish(b"read").unwrap();
        assert_eq!(next(&mut subscriber), b"read");
        let closing = std::thread::spawn(move || publisher.close());
        end_comes(&mut subscriber);
        drop(subscriber);
        closing.join().unwrap().unwrap();
    }
}
