//! Bridges whose source is removed and made again, and bridges that are asked to end.

#![cfg(all(feature = "journal", feature = "tcp"))]

use crate::common::{TestFolder, WATCHDOG, bridges, free_port, kill, receive, received, until};
use olivine::journal::{Lane, Recorder, RecorderSettings};
use olivine::{
    Bridge, Config, LinkError, MessageType, Outgoing, Publisher, ReceiveError, Subscriber,
    SyncPolicy,
};
use std::path::Path;

/// Whether the lane of an earlier source ended with its loss.
fn is_loss(error: &ReceiveError) -> bool {
    let ReceiveError::Failed(LinkError::Upstream { reason, .. }) = error else {
        return false;
    };
    reason.contains("messages are missing")
}

fn bridge(from: &str, to: &str) -> Bridge {
    let (from, to) = (Config::parse(from).unwrap(), Config::parse(to).unwrap());
    Bridge::start(&from, &to, true).unwrap()
}

fn recorder(path: &Path) -> Recorder {
    let settings = RecorderSettings::default().sync(SyncPolicy::Never);
    Recorder::open(path, &settings).unwrap()
}

/// Records messages without a payload, with these tags.
fn append(recorder: &mut Recorder, tags: std::ops::Range<u8>) {
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 11)).unwrap();
    for tag in tags {
        let at = recorder.end(lane);
        let frame = [8, 0, 0, 0, tag, 0, 0, 0];
        recorder.append(lane, at, 1, &frame).unwrap();
    }
    recorder.flush().unwrap();
}

#[test]
fn far_ring_of_a_bridge_has_the_fields_and_another_ring_is_refused_by_its_field() {
    let place = TestFolder::new();
    let stated = |fields: &str| {
        let stated = MessageType::new("trade v1", 16, 8).unwrap();
        stated.with_fields(fields).unwrap()
    };
    let config = |name| Config::parse(&place.uri(name, "")).unwrap();
    let mut publisher =
        Publisher::open_for(&config("near"), &stated("price i64, size u64")).unwrap();
    let mut subscriber = Subscriber::open(&place.uri("far", "")).unwrap();
    let _bridge = Bridge::start(&config("near"), &config("far"), false).unwrap();
    publisher.publish(&[7; 16]).unwrap();
    let received = subscriber.receive_timeout(WATCHDOG).unwrap();
    assert_eq!(&*received.unwrap(), &[7; 16]);
    assert_eq!(subscriber.fields().to_string(), "price i64, size u64");

    let _other = Publisher::open_for(&config("other"), &stated("price i64, rest u32[2]")).unwrap();
    let error = Bridge::start(&config("near"), &config("other"), false).unwrap_err();
    let error = error.to_string();
    for named in ["(size u64 at byte 8)", "(rest u32[2] at byte 8)"] {
        assert!(error.contains(named), "{error}");
    }
}

/// The fields that a later publisher of the source states are compared, too: they were not, so its
/// values arrived under the fields of the subscriber.
#[test]
fn fields_that_the_source_learns_later_are_compared_at_the_far_side() {
    let place = TestFolder::new();
    let stated = |fields: &str| {
        let stated = MessageType::new("trade v1", 16, 8).unwrap();
        stated.with_fields(fields).unwrap()
    };
    let (own, other) = (stated("price i64, size u64"), stated("price i64, rest u64"));
    let open = |uri: &str| Config::parse(uri).unwrap();
    let [out_port, in_port] = [(); 2].map(|()| free_port());
    let tcp = |port: u16, role| format!("tcp://127.0.0.1:{port}/far?role={role}");
    let journal = format!("file://{}", place.file("far.olv").display());
    for (name, bridge_to, subscribe) in [
        ("ring", place.uri("far", ""), place.uri("far", "")),
        ("out", tcp(out_port, "connect"), tcp(out_port, "listen")),
        (
            "in",
            tcp(in_port, "listen"),
            tcp(in_port, "connect&from=oldest"),
        ),
        (
            "file",
            format!("{journal}?sync=never"),
            format!("{journal}?follow=yes"),
        ),
    ] {
        let near = open(&place.uri(&format!("near-{name}"), ""));
        let mut first = Publisher::open_for(&near, &stated("")).unwrap();
        let reads_ring = name != "file";
        let early = reads_ring.then(|| Subscriber::open_for(&open(&subscribe), &own).unwrap());
        let bridge = Bridge::start(&near, &open(&bridge_to), false).unwrap();
        first.publish(&[7; 16]).unwrap();
        let mut subscriber =
            early.unwrap_or_else(|| Subscriber::open_for(&open(&subscribe), &own).unwrap());
        receive(&mut subscriber, |message| assert_eq!(**message, [7; 16]));
        if reads_ring {
            // Its lane is that of the next one. A file that describes a lane states no more fields.
            let mut second = Publisher::open_for(&near, &stated("")).unwrap();
            second.publish(&[7; 16]).unwrap();
            receive(&mut subscriber, |message| assert_eq!(**message, [7; 16]));
            second.close().unwrap();
        }

        let mut later = Publisher::open_for(&near, &other).unwrap();
        later.publish(&[8; 16]).unwrap();
        let error = if name == "out" {
            // A subscriber that listens is there for others: the bridge is refused.
            until("the bridge is refused", || bridge.has_ended());
            bridge.stop(WATCHDOG).unwrap_err()
        } else {
            match received(&mut subscriber) {
                (tags, ReceiveError::Failed(error)) if tags.is_empty() => error,
                other => panic!("{name}: {other:?}"),
            }
        };
        let error = error.to_string();
        for named in ["(size u64 at byte 8)", "(rest u64 at byte 8)"] {
            assert!(error.contains(named), "{name}: {error}");
        }
    }
}

/// What the second of two publishers with one `name=` gets: `docs/messages.md` has it.
#[test]
fn second_publisher_of_a_name_is_refused_except_on_a_ring_of_several() {
    let place = TestFolder::new();
    let folder = place.channel("x");
    let dir = format!("dir={}", folder.parent().unwrap().display());
    let [out_port, in_port] = [(); 2].map(|()| free_port());
    let tcp = |port: u16, role| format!("tcp://127.0.0.1:{port}/one?name=a&role={role}&{dir}");
    let journal = place.file("one.olv");
    let in_use = "durable subscriber 'a' is already open in process";
    let file = format!("file://{}?name=a&sync=never&{dir}", journal.display());
    for (uri, reason) in [
        (tcp(out_port, "connect"), in_use),
        (tcp(in_port, "listen"), "cannot listen on"),
        (file, in_use),
    ] {
        let _first = Publisher::open(&uri).unwrap();
        let second = Publisher::open(&uri).map(|_| ()).unwrap_err().to_string();
        assert!(second.contains(reason), "{uri}: {second}");
    }
    // On `shm` the name is for subscribers.
    let uri = place.uri("one", "name=a");
    let mut subscriber = Subscriber::open(&place.uri("one", "")).unwrap();
    let mut publishers = [(); 2].map(|()| Publisher::open(&uri).unwrap());
    for (tag, publisher) in (1..).zip(&mut publishers) {
        publisher.publish(Outgoing::new(b"").tag(tag)).unwrap();
    }
    drop(publishers);
    let (mut tags, end) = received(&mut subscriber);
    tags.sort_unstable();
    assert_eq!(tags, [1, 2]);
    assert!(matches!(end, ReceiveError::Closed), "{end}");
}

/// The source was removed with messages that no relay had carried, and made again. The next relay
/// carried the new messages as if they followed the old ones.
#[test]
fn messages_of_a_replaced_source_are_reported_as_lost() {
    let place = TestFolder::new();
    let (from, to) = (place.uri("from", ""), place.uri("to", ""));
    let mut subscriber = Subscriber::open(&to).unwrap();
    let relay = bridges::keeping(&from, &to);
    let waiting = place.uri("from", "subscribers=1");
    let mut publishers = [(); 2].map(|()| Publisher::open(&waiting).unwrap());
    for publisher in &mut publishers {
        publisher.publish(b"carried").unwrap();
        receive(&mut subscriber, |message| {
            assert_eq!(&**message, b"carried")
        });
    }
    kill(relay);
    publishers[0].publish(b"not carried").unwrap();
    drop(publishers);
    olivine::admin::remove(&Config::parse(&from).unwrap(), true).unwrap();

    let relay = bridge(&from, &to);
    for _lane in 0..2 {
        let (tags, error) = received(&mut subscriber);
        assert!(tags.is_empty(), "{tags:?}");
        assert!(is_loss(&error), "{error}");
    }
    let mut publisher = Publisher::open(&waiting).unwrap();
    publisher.publish(Outgoing::new(b"new").tag(7)).unwrap();
    until("the new message comes", || {
        match subscriber.receive_timeout(WATCHDOG) {
            Ok(message) => message.unwrap().tag() == 7,
            // Every lane is closed until the relay opens one.
            Err(error) => !is_loss(&error),
        }
    });
    // The lanes of the old channel hold no end back. One of them has no later publisher.
    publisher.close().unwrap();
    let (tags, error) = received(&mut subscriber);
    assert!(tags.is_empty(), "{tags:?}");
    assert!(is_loss(&error), "{error}");
    until("it has ended", || relay.has_ended());
    assert!(relay.stop(WATCHDOG).unwrap());
}

/// A replay was stopped before the end, and its journal was made anew: the rest of the old one is
/// missing.
#[test]
fn messages_of_a_replaced_journal_are_reported_as_lost() {
    let place = TestFolder::new();
    let path = place.file("ticks.olv");
    let file = format!("file://{}", path.display());
    let to = place.uri("again", "");
    let mut subscriber = Subscriber::open(&to).unwrap();
    let mut first = recorder(&path);
    append(&mut first, 9..10);
    let replay = bridge(&file, &to);
    assert_eq!(receive(&mut subscriber, |message| message.tag()), 9);
    assert!(replay.stop(WATCHDOG).unwrap());
    append(&mut first, 10..11);
    drop(first);
    std::fs::remove_file(&path).unwrap();
    append(&mut recorder(&path), 0..20);
    let replay = bridge(&file, &to);
    let (tags, error) = received(&mut subscriber);
    assert!(tags.is_empty(), "{tags:?}");
    assert!(is_loss(&error), "{error}");
    let (tags, error) = received(&mut subscriber);
    assert!(tags.into_iter().eq(0..20));
    assert!(matches!(error, ReceiveError::Closed), "{error}");
    assert!(replay.stop(WATCHDOG).unwrap());
}

/// Bridges that are asked to end deliver what is published so far, and end.
mod asked {
    use crate::common::{Busy, TestFolder, WATCHDOG, until};
    use olivine::{Bridge, Config, Publisher, ReceiveError, Subscriber};
    use std::path::Path;
    use std::time::Duration;

    fn bridge(from: &str, to: &str) -> Bridge {
        let (from, to) = (Config::parse(from).unwrap(), Config::parse(to).unwrap());
        Bridge::start(&from, &to, true).unwrap()
    }

    fn file(path: &Path) -> String {
        format!("file://{}", path.display())
    }

    /// The number at the start of a message.
    fn number(message: &[u8]) -> u64 {
        u64::from_le_bytes(*message.first_chunk().unwrap())
    }

    /// Numbers that are received up to the end of the stream.
    fn numbers(subscriber: &mut Subscriber) -> Vec<u64> {
        let mut numbers = Vec::new();
        loop {
            match subscriber.receive_timeout(WATCHDOG) {
                Ok(Some(message)) => numbers.push(number(&message)),
                Ok(None) => panic!("no report after {} messages", numbers.len()),
                Err(ReceiveError::Closed) => return numbers,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn recorder_ends_on_request_while_its_publisher_continues() {
        let place = TestFolder::new();
        // Larger than one recording turn, so that the publisher never waits for room.
        let (ring, path) = (place.uri("busy", "capacity=16MiB"), place.file("busy.olv"));
        let to = format!("{}?sync=never&rotate=1MiB", file(&path));
        let mut publisher = None;
        let before = |recorder: &Bridge| recorder.status().acknowledged_bytes;
        for _ in 0..3 {
            let recorder = bridge(&ring, &to);
            let busy = publisher.get_or_insert_with(|| Busy::start(&ring, 4000));
            until("it records", || before(&recorder) > 8 << 20);
            recorder.ask_to_finish();
            until("it has ended", || recorder.has_ended());
            assert!(recorder.stop(WATCHDOG).unwrap());
            assert!(busy.is_running());
        }
        let recorder = bridge(&ring, &to);
        let published = publisher.unwrap().stop();
        until("it has ended", || recorder.has_ended());
        assert!(recorder.stop(WATCHDOG).unwrap());
        let mut subscriber = Subscriber::open(&file(&path)).unwrap();
        assert!(numbers(&mut subscriber).into_iter().eq(0..published));
    }

    #[test]
    fn replay_ends_on_request_while_its_recorder_continues() {
        let place = TestFolder::new();
        let path = place.file("busy.olv");
        let from = format!("{}?follow=yes", file(&path));
        let to = place.uri("again", "capacity=64KiB");
        let busy = Busy::start(&format!("{}?sync=never", file(&path)), 8);
        let mut subscriber = Subscriber::open(&to).unwrap();
        let replay = bridge(&from, &to);
        let mut expected = 0;
        let mut take = |most: u64| {
            for _ in 0..most {
                let Some(message) = subscriber.try_receive().unwrap() else {
                    return;
                };
                assert_eq!(number(&message), expected);
                expected += 1;
            }
        };
        until("it replays", || {
            take(100);
            replay.status().messages > 0
        });
        replay.ask_to_finish();
        // Slower than the recording: the replay never reaches the end of the journal.
        until("it has ended", || {
            take(500);
            replay.has_ended()
        });
        let length = || std::fs::metadata(&path).unwrap().len();
        let before = length();
        until("more is recorded", || length() > before);
        assert!(busy.stop() > expected);
    }

    #[test]
    fn recorder_without_time_counts_undelivered_messages() {
        const COUNT: u64 = 5000;
        let place = TestFolder::new();
        let (ring, path) = (place.uri("cut", "capacity=1MiB"), place.file("cut.olv"));
        let to = format!("{}?sync=never", file(&path));
        // The durable position that holds the publisher back from here on.
        assert!(bridge(&ring, &to).stop(WATCHDOG).unwrap());
        let mut publisher = Publisher::open(&ring).unwrap();
        for number in 0..COUNT {
            publisher.publish(&number.to_le_bytes()).unwrap();
        }
        let mut recorder = bridge(&ring, &to);
        let delivered = recorder.finish(Duration::from_nanos(1)).unwrap();
        let status = recorder.status();
        assert_eq!(status.messages + status.undelivered, COUNT);
        assert_eq!(delivered, status.undelivered == 0);
        drop(recorder);
        let recorder = bridge(&ring, &to);
        publisher.close().unwrap();
        until("it has ended", || recorder.has_ended());
        // The recorder that had no time says so in the journal, and the next one has all the rest.
        let mut subscriber = Subscriber::open(&file(&path)).unwrap();
        let (mut found, mut failures) = (Vec::new(), 0);
        loop {
            match subscriber.receive_timeout(WATCHDOG) {
                Ok(Some(message)) => found.push(number(&message)),
                Err(ReceiveError::Failed(_)) => failures += 1,
                Err(ReceiveError::Closed) => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(found.into_iter().eq(0..COUNT));
        assert_eq!(failures, u32::from(!delivered));
    }
}
