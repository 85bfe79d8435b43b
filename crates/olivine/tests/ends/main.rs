//! Ends of streams: each end has a reason.

#![cfg(all(feature = "journal", not(loom)))]

#[path = "../common/mod.rs"]
mod common;
mod order;

use common::{
    TestFolder, WATCHDOG, bridges, chain, finished, kill, receive, received, signal, until,
};
use olivine::journal::{Lane, Recorder, RecorderSettings};
use olivine::{
    Bridge, Config, LaneState, LinkError, Outgoing, Publisher, ReceiveError, Subscriber, SyncPolicy,
};
use std::path::Path;
use std::time::Duration;

/// The subscriber's reason for a failure of another program's bridge.
fn reason(error: &ReceiveError) -> &str {
    match error {
        ReceiveError::Failed(LinkError::Upstream { reason, .. }) => reason,
        other => panic!("not a failure: {other}"),
    }
}

/// A journal of `count` messages, one per block. With `damaged`, this block has a flipped bit, and
/// whole ones follow it.
fn journal(path: &Path, count: u32, damaged: Option<u32>) {
    let settings = RecorderSettings::default().sync(SyncPolicy::Never);
    let mut recorder = Recorder::open(path, &settings).unwrap();
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 11)).unwrap();
    let mut flipped = None;
    for tag in 0..count {
        let before = std::fs::metadata(path).unwrap().len();
        let mut frame = 16_u32.to_le_bytes().to_vec();
        frame.extend(tag.to_le_bytes());
        frame.extend(u64::from(tag).to_le_bytes());
        let at = u64::from(tag) * 16;
        recorder.append(lane, at, 1_000 + at, &frame).unwrap();
        recorder.flush().unwrap();
        if damaged == Some(tag) {
            flipped = Some(usize::try_from(before).unwrap() + 64 + 3);
        }
    }
    recorder.close().unwrap();
    if let Some(at) = flipped {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[at] ^= 4;
        std::fs::write(path, bytes).unwrap();
    }
}

fn bridge(from: &str, to: &str) -> Bridge {
    let (from, to) = (Config::parse(from).unwrap(), Config::parse(to).unwrap());
    Bridge::start(&from, &to, true).unwrap()
}

fn file(path: &Path) -> String {
    format!("file://{}", path.display())
}

#[test]
fn failed_replay_is_reported_after_its_messages() {
    let place = TestFolder::new();
    let path = place.file("damaged.olv");
    journal(&path, 400, Some(150));
    let to = place.uri("again", "");
    let mut subscriber = Subscriber::open(&to).unwrap();
    let replay = bridge(&file(&path), &to);
    let (tags, error) = received(&mut subscriber);
    assert!(tags.into_iter().eq(0..150));
    assert!(reason(&error).contains("is damaged at byte"), "{error}");
    assert!(error.is_final());
    until("the replay has failed", || replay.has_ended());
    replay.stop(Duration::from_secs(1)).unwrap_err();
    // Repeated, also for a later subscriber that reads the rest.
    let (tags, error) = received(&mut subscriber);
    assert!(tags.is_empty());
    assert!(reason(&error).contains("is damaged at byte"), "{error}");
    let mut late = Subscriber::open(&place.uri("again", "from=oldest")).unwrap();
    let (tags, error) = received(&mut late);
    assert!(tags.into_iter().eq(0..150));
    assert!(reason(&error).contains("is damaged at byte"), "{error}");
    // An iterator ends with it.
    let mut late = Subscriber::open(&place.uri("again", "from=oldest")).unwrap();
    let items: Vec<_> = late.iter().collect();
    assert_eq!(items.len(), 151);
    assert!(items.last().unwrap().is_err());
    assert_eq!(items.iter().filter(|item| item.is_err()).count(), 1);
}

#[test]
fn panicking_publisher_ends_its_stream_as_failed() {
    let place = TestFolder::new();
    for uri in [place.uri("panics", ""), "inproc://panics".to_owned()] {
        let mut subscriber = Subscriber::open(&uri).unwrap();
        let publisher = Publisher::open(&uri).unwrap();
        let panics = std::thread::spawn(move || {
            let mut publisher = publisher;
            publisher.publish(Outgoing::new(b"before").tag(7)).unwrap();
            panic!("as the test wants");
        });
        panics.join().unwrap_err();
        let (tags, error) = received(&mut subscriber);
        assert_eq!(tags, [7]);
        assert_eq!(reason(&error), "its publisher's thread panicked");
        // The next one goes on, and ends well.
        let mut publisher = Publisher::open(&uri).unwrap();
        publisher.publish(Outgoing::new(b"after").tag(8)).unwrap();
        publisher.close().unwrap();
        let (tags, error) = received(&mut subscriber);
        assert_eq!(tags, [8]);
        assert!(matches!(error, ReceiveError::Closed), "{error}");
    }
}

#[test]
fn close_failed_is_reported_to_subscribers_and_to_a_journal() {
    let place = TestFolder::new();
    let uri = place.uri("reason", "");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    publisher.publish(Outgoing::new(b"before").tag(7)).unwrap();
    publisher.close_failed("no more ticks").unwrap();
    let (tags, error) = received(&mut subscriber);
    assert_eq!((&tags[..], reason(&error)), (&[7][..], "no more ticks"));

    let path = place.file("reason.olv");
    let mut publisher = Publisher::open(&file(&path)).unwrap();
    publisher.publish(Outgoing::new(b"before").tag(7)).unwrap();
    publisher.close_described(Some("no more ticks")).unwrap();
    let (tags, error) = received(&mut Subscriber::open(&file(&path)).unwrap());
    assert_eq!(tags, [7]);
    let ReceiveError::Failed(error) = error else {
        panic!("{error}")
    };
    assert!(
        error.to_string().contains("failed: no more ticks"),
        "{error}"
    );
}

#[test]
fn failed_stream_continues_with_the_next_publisher() {
    let place = TestFolder::new();
    let path = place.file("damaged.olv");
    journal(&path, 20, Some(10));
    let to = place.uri("again", "");
    let mut subscriber = Subscriber::open(&to).unwrap();
    let replay = bridge(&file(&path), &to);
    let (tags, error) = received(&mut subscriber);
    assert!(tags.into_iter().eq(0..10));
    reason(&error);
    until("the replay has failed", || replay.has_ended());
    drop(replay);
    // The journal is created anew.
    std::fs::remove_file(&path).unwrap();
    journal(&path, 20, None);
    let replay = bridge(&file(&path), &to);
    let (tags, error) = received(&mut subscriber);
    assert!(matches!(error, ReceiveError::Closed), "{error}");
    assert!(
        tags.into_iter().eq(0..20),
        "another journal is another stream"
    );
    assert!(replay.stop(WATCHDOG).unwrap());
}

#[test]
fn failed_lane_leaves_other_lanes_open() {
    let place = TestFolder::new();
    let path = place.file("damaged.olv");
    journal(&path, 20, Some(10));
    let to = place.uri("shared", "");
    let mut subscriber = Subscriber::open(&to).unwrap();
    let mut publisher = Publisher::open(&to).unwrap();
    let replay = bridge(&file(&path), &to);
    let (tags, error) = received(&mut subscriber);
    assert!(tags.into_iter().eq(0..10));
    reason(&error);
    until("the replay has failed", || replay.has_ended());
    publisher.publish(Outgoing::new(b"on").tag(70)).unwrap();
    publisher.publish(Outgoing::new(b"and on").tag(71)).unwrap();
    for tag in 70..72 {
        assert_eq!(subscriber.receive().unwrap().tag(), tag);
    }
    assert!(subscriber.try_receive().unwrap().is_none(), "reported once");
    publisher.close().unwrap();
    let (tags, error) = received(&mut subscriber);
    assert!(tags.is_empty());
    reason(&error);
}

#[test]
fn failure_passes_through_the_next_bridge() {
    let place = TestFolder::new();
    let path = place.file("damaged.olv");
    journal(&path, 40, Some(30));
    let (near, far) = (place.uri("near", ""), place.uri("far", ""));
    let mut subscriber = Subscriber::open(&far).unwrap();
    let relay = bridge(&near, &far);
    let replay = bridge(&file(&path), &near);
    let (tags, error) = received(&mut subscriber);
    assert!(tags.into_iter().eq(0..30));
    assert!(reason(&error).contains("is damaged at byte"), "{error}");
    until("both have ended", || {
        replay.has_ended() && relay.has_ended()
    });
    relay.stop(WATCHDOG).unwrap_err();
}

/// With each side listening. A regression: the failure was taken for a reason to come back, and the
/// subscriber waited forever.
#[cfg(feature = "tcp")]
#[test]
fn failure_passes_through_a_connection() {
    for (ours, theirs) in [("listen", "connect"), ("connect", "listen")] {
        let place = TestFolder::new();
        let path = place.file("damaged.olv");
        journal(&path, 40, Some(30));
        let (near, far) = (place.uri("near", ""), place.uri("far", ""));
        let port = common::free_port();
        let uri = |role| format!("tcp://127.0.0.1:{port}/failing?role={role}");
        let mut subscriber = Subscriber::open(&far).unwrap();
        let sending = bridge(&near, &uri(ours));
        let receiving = bridge(&uri(theirs), &far);
        until("they have met", || sending.status().peers == 1);
        let _replay = bridge(&file(&path), &near);
        let (tags, error) = received(&mut subscriber);
        assert!(tags.into_iter().eq(0..30), "{ours}");
        assert!(reason(&error).contains("is damaged at byte"), "{error}");
        if ours == "connect" {
            until("the source has failed", || sending.has_ended());
        } else {
            until("the destination has failed", || receiving.has_ended());
        }
    }
}

/// The connection breaks in the very moment. A listening source tells it again to a destination
/// that comes back, and a source that connects connects again to tell it.
#[cfg(feature = "tcp")]
#[test]
fn failure_whose_report_is_lost_does_not_end_the_stream() {
    use common::blocks::{UPSTREAM, by_block};
    use common::proxy::{Proxy, Way};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    for (role, way) in [("listen", Way::FromListener), ("connect", Way::ToListener)] {
        let place = TestFolder::new();
        let path = place.file("damaged.olv");
        journal(&path, 40, Some(30));
        let (near, far) = (place.uri("near", ""), place.uri("far", ""));
        let port = common::free_port();
        let proxy = Proxy::start(port);
        let uri = |port: u16, query: &str| {
            format!("tcp://127.0.0.1:{port}/failing?timeout=500ms&expire=2s&{query}")
        };
        let listens = uri(port, "role=listen");
        let connects = uri(proxy.port, "role=connect");
        let [source, destination] = match role {
            "listen" => [&listens, &connects],
            _ => [&connects, &listens],
        };
        let lost = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&lost);
        proxy.rewrite(
            way,
            by_block(move |block| {
                if block.closes_with(UPSTREAM) && !flag.swap(true, Ordering::AcqRel) {
                    return Vec::new();
                }
                block.bytes()
            }),
        );
        let mut subscriber = Subscriber::open(&far).unwrap();
        let sending = bridge(&near, source);
        let _receiving = bridge(destination, &far);
        until("they have met", || sending.status().peers == 1);
        let _replay = bridge(&file(&path), &near);
        let (tags, error) = received(&mut subscriber);
        assert!(lost.load(Ordering::Acquire), "{role}: nothing was lost");
        assert!(tags.into_iter().eq(0..30), "{role}");
        assert!(
            reason(&error).contains("is damaged at byte"),
            "{role}: {error}"
        );
    }
}

#[test]
fn stopped_bridge_leaves_its_stream_to_the_next() {
    let place = TestFolder::new();
    let (from, to) = (place.uri("from", ""), place.uri("to", ""));
    let mut subscriber = Subscriber::open(&to).unwrap();
    let mut publisher = Publisher::open(&from).unwrap();
    for _ in 0..2 {
        let relay = bridge(&from, &to);
        publisher.publish(Outgoing::new(b"carried").tag(7)).unwrap();
        assert_eq!(subscriber.receive().unwrap().tag(), 7);
        assert!(relay.stop(WATCHDOG).unwrap());
        let found = subscriber.receive_timeout(Duration::from_millis(50));
        assert!(found.unwrap().is_none(), "its source has not ended");
        assert_eq!(subscriber.inspect_lanes()[0].state, LaneState::Dead);
    }
    let relay = bridge(&from, &to);
    publisher.close().unwrap();
    let (tags, error) = received(&mut subscriber);
    assert!(
        tags.is_empty() && matches!(error, ReceiveError::Closed),
        "{error}"
    );
    assert!(relay.stop(WATCHDOG).unwrap());
}

#[test]
fn recording_of_a_failed_stream_is_incomplete() {
    let place = TestFolder::new();
    let (path, copy) = (place.file("damaged.olv"), place.file("copy.olv"));
    journal(&path, 40, Some(30));
    let ring = place.uri("ring", "");
    let recorder = bridge(&ring, &file(&copy));
    let replay = bridge(&file(&path), &ring);
    until("both have ended", || {
        replay.has_ended() && recorder.has_ended()
    });
    recorder.stop(WATCHDOG).unwrap_err();
    replay.stop(WATCHDOG).unwrap_err();
    let mut subscriber = Subscriber::open(&file(&copy)).unwrap();
    let (tags, error) = received(&mut subscriber);
    assert!(tags.into_iter().eq(0..30));
    assert!(matches!(error, ReceiveError::Failed(_)), "{error}");
}

#[test]
fn blank_reason_says_so_in_a_journal_and_on_shared_memory() {
    let place = TestFolder::new();
    let path = place.file("blank.olv");
    Publisher::open(&file(&path))
        .unwrap()
        .close_failed(" \n")
        .unwrap();
    let (_, error) = received(&mut Subscriber::open(&file(&path)).unwrap());
    let ReceiveError::Failed(error) = error else {
        panic!("{error}")
    };
    let text = error.to_string();
    assert!(text.contains("failed: no reason was given"), "{text}");
    let uri = place.uri("blank", "");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    Publisher::open(&uri).unwrap().close_failed("").unwrap();
    let (_, error) = received(&mut subscriber);
    assert_eq!(reason(&error), "no reason was given");
}

/// It ended at once with the failure of before, until another publisher had opened. Readers of the
/// journal get each failure.
#[test]
fn bridge_waits_behind_a_failure_that_an_earlier_bridge_has_told() {
    for ring_to_ring in [false, true] {
        let place = TestFolder::new();
        let (ring, copy) = (place.uri("ring", ""), place.file("copy.olv"));
        let far = match ring_to_ring {
            true => place.uri("far", ""),
            false => file(&copy),
        };
        let mut subscriber = ring_to_ring.then(|| Subscriber::open(&far).unwrap());
        let first = bridge(&ring, &far);
        let mut publisher = Publisher::open(&ring).unwrap();
        publisher.publish(Outgoing::new(b"before").tag(7)).unwrap();
        publisher.close_failed("no more ticks").unwrap();
        until("the first has failed", || first.has_ended());
        let error = chain(&first.stop(WATCHDOG).unwrap_err());
        assert!(error.contains("no more ticks"), "{error}");
        let mut received_now = || match &mut subscriber {
            Some(subscriber) => received(subscriber),
            None => received(&mut Subscriber::open(&file(&copy)).unwrap()),
        };
        let (tags, error) = received_now();
        assert!(
            tags == [7] && chain(&error).contains("no more ticks"),
            "{error}"
        );

        for tag in [8, 9] {
            let next = bridge(&ring, &far);
            assert!(!next.has_ended(), "{:?}", next.status());
            let mut publisher = Publisher::open(&ring).unwrap();
            publisher
                .publish(Outgoing::new(b"behind").tag(tag))
                .unwrap();
            match tag {
                8 => publisher.close_failed("torn again").unwrap(),
                _ => publisher.close().unwrap(),
            };
            until("the next has ended", || next.has_ended());
            assert_eq!(next.stop(WATCHDOG).is_ok(), tag == 9);
            if ring_to_ring {
                let (tags, error) = received_now();
                assert_eq!(tags, [tag]);
                let closed = matches!(error, ReceiveError::Closed);
                assert_eq!(closed, tag == 9, "{error}");
            }
        }
        if !ring_to_ring {
            let mut subscriber = Subscriber::open(&file(&copy)).unwrap();
            for (expected, told) in [(7, "no more ticks"), (8, "torn again"), (9, "")] {
                let (tags, error) = received(&mut subscriber);
                assert_eq!(tags, [expected], "{error}");
                match &error {
                    ReceiveError::Closed => assert_eq!(told, ""),
                    error => assert!(chain(error).contains(told), "{error}"),
                }
            }
        }
    }
}

/// It fails before it records anything: its name is new.
#[test]
fn recorder_behind_an_old_failure_does_not_finish_the_recording() {
    let place = TestFolder::new();
    let copy = place.file("copy.olv");
    let ring = place.uri("ring", "");
    let recorder = bridge(&ring, &file(&copy));
    let mut publisher = Publisher::open(&ring).unwrap();
    publisher.publish(Outgoing::new(b"before").tag(7)).unwrap();
    publisher.close_failed("no more ticks").unwrap();
    until("the recorder has failed", || recorder.has_ended());
    recorder.stop(WATCHDOG).unwrap_err();
    let is_cut = |error: &ReceiveError| matches!(error, ReceiveError::Failed(_));
    let (tags, error) = received(&mut Subscriber::open(&file(&copy)).unwrap());
    assert!(tags == [7] && is_cut(&error), "{tags:?} {error}");

    let config = |uri: &str| Config::parse(uri).unwrap();
    let other = config(&ring).name("other");
    Bridge::start(&other, &config(&file(&copy)), true).unwrap_err();
    let (tags, error) = received(&mut Subscriber::open(&file(&copy)).unwrap());
    assert!(tags == [7] && is_cut(&error), "{tags:?} {error}");
}

/// The lane of another publisher goes on.
#[test]
fn bridge_ends_in_order_after_a_told_failure_beside_an_open_lane() {
    let place = TestFolder::new();
    let (ring, copy) = (place.uri("ring", ""), place.file("copy.olv"));
    let first = bridge(&ring, &file(&copy));
    let failing = Publisher::<[u8]>::open(&ring).unwrap();
    let mut going_on = Publisher::<[u8]>::open(&ring).unwrap();
    failing.close_failed("no more ticks").unwrap();
    until("the first has failed", || first.has_ended());
    first.stop(WATCHDOG).unwrap_err();
    let next = bridge(&ring, &file(&copy));
    going_on.publish(Outgoing::new(b"behind").tag(8)).unwrap();
    going_on.close().unwrap();
    until("the next has ended", || next.has_ended());
    assert!(next.stop(WATCHDOG).unwrap());
}

/// Delivering one failure does not count as delivering another one.
#[test]
fn bridge_tells_a_failure_of_a_lane_that_no_bridge_has_told() {
    let place = TestFolder::new();
    let (ring, copy) = (place.uri("ring", ""), place.file("copy.olv"));
    let first = bridge(&ring, &file(&copy));
    let mut publishers = ["going on", "worn", "torn"].map(|text| {
        let mut publisher = Publisher::<[u8]>::open(&ring).unwrap();
        publisher.publish(text.as_bytes()).unwrap();
        publisher
    });
    for publisher in &mut publishers {
        assert!(publisher.wait_drained(None).unwrap());
    }
    let [going_on, worn, torn] = publishers;
    first.stop(WATCHDOG).unwrap();
    worn.close_failed("worn").unwrap();
    let next = bridge(&ring, &file(&copy));
    torn.close_failed("torn").unwrap();
    until("the second has failed", || next.has_ended());
    let told = format!("{:?}", next.stop(WATCHDOG).unwrap_err());
    assert!(told.contains("torn") && !told.contains("worn"), "{told}");
    let last = bridge(&ring, &file(&copy));
    going_on.close().unwrap();
    until("the last has ended", || last.has_ended());
    let told = format!("{:?}", last.stop(WATCHDOG).unwrap_err());
    // A name that has reported some of several failures gets all of them again.
    assert!(told.contains("worn"), "{told}");
}

#[test]
fn cut_recording_fails_unless_unfinished_is_accepted() {
    let place = TestFolder::new();
    let path = place.file("cut.olv");
    journal(&path, 30, None);
    let whole = std::fs::read(&path).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for length in (64..whole.len()).step_by(7) {
        std::fs::write(&path, &whole[..length]).unwrap();
        let mut subscriber = Subscriber::open(&file(&path)).unwrap();
        let (tags, error) = received(&mut subscriber);
        let count = u32::try_from(tags.len()).unwrap();
        assert!(tags.into_iter().eq(0..count), "cut to {length} bytes");
        let ReceiveError::Failed(LinkError::Journal(cause)) = &error else {
            panic!("cut to {length} bytes: {error}");
        };
        let text = cause.to_string();
        assert!(text.contains("the recording was not finished"), "{text}");
        assert!(
            text.contains(&format!("position {} of", count * 16)),
            "{text}"
        );
        assert!(text.contains(&path.display().to_string()), "{text}");
        seen.insert(count);
        let accepting = format!("{}?unfinished=accept", file(&path));
        let (tags, error) = received(&mut Subscriber::open(&accepting).unwrap());
        assert!(tags.into_iter().eq(0..count));
        assert!(matches!(error, ReceiveError::Closed), "{error}");
    }
    assert!(seen.into_iter().eq(0..=30), "a cut behind each message");
    // Bytes after the index, and a recorder that repairs them.
    std::fs::write(&path, [&whole[..], b"OLVBLOCK and nonsense"].concat()).unwrap();
    let (tags, error) = received(&mut Subscriber::open(&file(&path)).unwrap());
    assert!(tags.into_iter().eq(0..30));
    assert!(matches!(error, ReceiveError::Failed(_)), "{error}");
    drop(Publisher::open(&file(&path)).unwrap());
    let (_, error) = received(&mut Subscriber::open(&file(&path)).unwrap());
    assert!(matches!(error, ReceiveError::Closed), "{error}");
}

#[test]
fn follower_sees_close_and_kill_of_the_recorder() {
    let place = TestFolder::new();
    let path = place.file("live.olv");
    let settings = RecorderSettings::default().sync(SyncPolicy::Never);
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 11)).unwrap();
    let append = |recorder: &mut Recorder, tag: u32| {
        let mut frame = 8_u32.to_le_bytes().to_vec();
        frame.extend(tag.to_le_bytes());
        let at = u64::from(tag) * 8;
        recorder.append(lane, at, 1_000 + at, &frame).unwrap();
        recorder.flush().unwrap();
    };
    append(&mut recorder, 0);
    let mut reader = Subscriber::open(&file(&path)).unwrap();
    assert_eq!(reader.receive().unwrap().tag(), 0);
    let found = reader.receive_timeout(Duration::from_millis(50)).unwrap();
    assert!(found.is_none(), "its recorder is at work");
    append(&mut recorder, 1);
    assert_eq!(reader.receive_timeout(WATCHDOG).unwrap().unwrap().tag(), 1);
    recorder.close().unwrap();
    let (tags, error) = received(&mut reader);
    assert!(
        tags.is_empty() && matches!(error, ReceiveError::Closed),
        "{error}"
    );
    // A recorder that ends without a close, like a killed one.
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    recorder.finish_only_by_close();
    append(&mut recorder, 2);
    let mut reader = Subscriber::open(&file(&path)).unwrap();
    for tag in 0..3 {
        assert_eq!(
            reader.receive_timeout(WATCHDOG).unwrap().unwrap().tag(),
            tag
        );
    }
    drop(recorder);
    let (tags, error) = received(&mut reader);
    assert!(
        tags.is_empty() && matches!(error, ReceiveError::Failed(_)),
        "{error}"
    );
}

#[test]
fn wait_after_the_end_waits_for_the_next_publisher() {
    let place = TestFolder::new();
    let uri = place.uri("again", "");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    for tag in 0..3 {
        let mut publisher = Publisher::open(&uri).unwrap();
        publisher.publish(Outgoing::new(b"on").tag(tag)).unwrap();
        publisher.close().unwrap();
        assert_eq!(subscriber.receive().unwrap().tag(), tag);
        for _ in 0..3 {
            let end = subscriber.receive();
            assert!(matches!(end, Err(ReceiveError::Closed)), "said again");
        }
        let more = subscriber.wait(Duration::from_millis(5)).unwrap();
        assert!(!more, "nothing more until the next one");
        let end = subscriber.receive_timeout(WATCHDOG);
        assert!(matches!(end, Err(ReceiveError::Closed)));
    }
}

#[test]
fn ended_bridge_keeps_only_a_named_position() {
    let place = TestFolder::new();
    for (query, kept) in [("", false), ("name=archive", true)] {
        let ring = place.uri("ring", query);
        let path = place.file("copy.olv");
        let recorder = bridge(&ring, &file(&path));
        let name = recorder.place().unwrap().to_owned();
        let mut publisher = Publisher::open(&place.uri("ring", "")).unwrap();
        publisher.publish(b"recorded").unwrap();
        publisher.close().unwrap();
        until("it has ended", || recorder.has_ended());
        assert_eq!(recorder.place().is_some(), kept);
        assert!(recorder.stop(WATCHDOG).unwrap());
        let config = Config::parse(&place.uri("ring", "")).unwrap();
        let info = olivine::admin::inspect(&config);
        let left = info.is_ok_and(|info| {
            info.subscribers
                .iter()
                .any(|one| one.name.as_ref() == Some(&name))
        });
        assert_eq!(left, kept, "{query}");
        if !kept {
            // Nothing holds it back.
            let uri = place.uri("ring", "capacity=4KiB");
            let mut publisher = Publisher::open(&uri).unwrap();
            for _ in 0..1_000 {
                publisher
                    .publish_timeout(&[7; 64], WATCHDOG)
                    .expect("nothing holds it back");
            }
        }
    }
}

/// The other processes.
#[test]
fn role() {
    match common::my_role().as_deref() {
        Some("bridge") => bridges::role(),
        Some(other) => panic!("no role {other}"),
        None => {}
    }
}

#[test]
fn end_of_a_killed_relay_is_reported_by_the_next() {
    for is_closed_before in [false, true] {
        let place = TestFolder::new();
        let (from, to) = (place.uri("from", ""), place.uri("to", ""));
        let mut subscriber = Subscriber::open(&to).unwrap();
        let mut publisher = Publisher::open(&place.uri("from", "subscribers=1")).unwrap();
        let relay = bridges::ending(&from, &to);
        publisher
            .publish(Outgoing::new(b"the last one").tag(7))
            .unwrap();
        let tag = receive(&mut subscriber, |message| message.tag());
        assert_eq!(tag, 7);
        if is_closed_before {
            // It is stopped after the last message, and killed before it could report the end.
            signal(&relay, rustix::process::Signal::STOP);
            publisher.close().unwrap();
            kill(relay);
        } else {
            kill(relay);
            publisher.close().unwrap();
        }
        let successor = bridges::ending(&from, &to);
        let (tags, error) = received(&mut subscriber);
        assert!(
            tags.is_empty() && matches!(error, ReceiveError::Closed),
            "{tags:?}, {error}"
        );
        finished(successor);
    }
}

/// A regression: everything was carried and the end was reported, but the position in the source
/// was kept.
#[test]
fn bridge_after_a_reported_end_ends_unless_named() {
    for (query, ends) in [("", true), ("name=kept", false)] {
        let place = TestFolder::new();
        let from = place.uri("from", query);
        let path = place.file("copy.olv");
        for to in [place.uri("to", ""), file(&path)] {
            let ends_with = |until_end| {
                let (from, to) = (Config::parse(&from).unwrap(), Config::parse(&to).unwrap());
                Bridge::start(&from, &to, until_end).unwrap()
            };
            let first = ends_with(false);
            let mut publisher = Publisher::open(&place.uri("from", "")).unwrap();
            publisher.publish(b"carried").unwrap();
            publisher.close().unwrap();
            until("it is carried", || first.status().messages == 1);
            assert!(first.stop(WATCHDOG).unwrap());
            let second = ends_with(true);
            if ends {
                until("it has ended", || second.has_ended());
            } else {
                // The name means that another publisher is expected.
                let mut publisher = Publisher::open(&place.uri("from", "")).unwrap();
                publisher.publish(b"of the next day").unwrap();
                assert!(!second.has_ended());
                publisher.close().unwrap();
                until("it has ended", || second.has_ended());
                assert_eq!(second.status().messages, 1);
            }
            assert!(second.stop(WATCHDOG).unwrap(), "{to}");
        }
    }
}
