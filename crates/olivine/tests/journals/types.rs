//! `file://`: the type and `align=` of a channel, and what a journal refuses.

#![cfg(all(feature = "journal", not(loom)))]

use crate::common;
use crate::common::{TestFolder, chain, until};
use crate::file::{record, replay, uri};
use crate::recording::{fast, frame};
use olivine::journal::{KnownType, Lane, Recorder, Replay};
use olivine::{
    Bridge, Config, MessageType, Outgoing, Publisher, ReceiveError, Rotation, Subscriber,
};
use std::path::Path;
use std::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Quote {
    bid: u64,
}

impl olivine::Plain for Quote {
    const TYPE_NAME: &'static str = "quote v1";
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Order {
    price: u64,
}

impl olivine::Plain for Order {
    const TYPE_NAME: &'static str = "order v1";
}

#[test]
fn a_type_is_recorded_and_another_is_refused() {
    let place = TestFolder::new();
    let path = place.file("typed.olv");
    let mut publisher = Publisher::<Quote>::typed(&uri(&path, "sync=never")).unwrap();
    publisher.publish(&Quote { bid: 7 }).unwrap();
    publisher.close().unwrap();
    let mut subscriber = Subscriber::<Quote>::typed(&uri(&path, "")).unwrap();
    assert_eq!(subscriber.receive().unwrap().bid, 7);
    let cause = |error: &dyn std::error::Error| {
        error
            .source()
            .map_or_else(|| error.to_string(), ToString::to_string)
    };
    let error = match Subscriber::<Order>::typed(&uri(&path, "")) {
        Err(error) => cause(&error),
        Ok(mut subscriber) => cause(&subscriber.receive().map(|_| ()).unwrap_err()),
    };
    assert!(
        error.contains("quote v1") && error.contains("order v1"),
        "{error}"
    );
}

/// A recorder that goes on with a lane may know the fields, and the one before did not.
#[test]
fn fields_that_become_known_later_are_in_the_next_file() {
    let place = TestFolder::new();
    let path = place.file("later.olv");
    let typed = |publisher, fields: &str| {
        let known = KnownType::new(9, "quote v1", fields);
        Lane::new("ticks", publisher, 8, 5).typed(known)
    };
    let settings = fast().rotate(Rotation::by_size(4096));
    for (count, fields) in [(1_u8, ""), (2, "bid u64")] {
        let mut recorder = Recorder::open(&path, &settings).unwrap();
        let lane = recorder.lane(&typed(0, fields)).unwrap();
        for _ in 0..count {
            let at = recorder.end(lane);
            recorder
                .append(lane, at, 1, &frame(0, &[count; 2000], 8))
                .unwrap();
            recorder.flush().unwrap();
        }
        recorder.close().unwrap();
    }
    let mut replay = Replay::open(&path).unwrap();
    let mut found = Vec::new();
    while let Some(run) = replay.next_run().unwrap() {
        assert_eq!(*run.lane, typed(0, ""), "fields make no other lane");
        found.push((run.missed_bytes, run.lane.message_type.fields.iter().len()));
    }
    assert_eq!(found, [(0, 0), (0, 1), (0, 1)]);
    let error = Recorder::open(&path, &settings).and_then(|mut recorder| {
        let lane = typed(1, "bid i64");
        recorder.lane(&lane)
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("(bid i64 at byte 0)"), "{error}");
}

/// A regression: known lanes were not compared, and a refused call left its fields.
#[test]
fn known_lane_of_other_fields_is_refused_and_unchanged() {
    let place = TestFolder::new();
    let path = place.file("known.olv");
    let typed = |publisher, fields: &str| {
        let known = KnownType::new(9, "quote v1", fields);
        Lane::new("ticks", publisher, 8, 5).typed(known)
    };
    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    recorder.lane(&typed(2, "")).unwrap();
    for (publisher, fields) in [(0, ""), (1, "bid u64")] {
        let lane = recorder.lane(&typed(publisher, fields)).unwrap();
        recorder.append(lane, 0, 1, &frame(0, &[7; 8], 8)).unwrap();
    }
    for publisher in 0..3 {
        let error = recorder.lane(&typed(publisher, "bid i64")).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("(bid i64 at byte 0)"), "{error}");
        recorder.lane(&typed(publisher, "bid u64")).unwrap();
    }
    recorder.close().unwrap();
    let mut replay = Replay::open(&path).unwrap();
    while let Some(run) = replay.next_run().unwrap() {
        assert_eq!(run.lane.message_type.fields.to_string(), "bid u64");
    }
}

/// A journal at `path` with one value.
fn one_quote(path: &Path) {
    let mut publisher = Publisher::<Quote>::typed(&uri(path, "sync=never")).unwrap();
    publisher.publish(&Quote { bid: 7 }).unwrap();
    publisher.close().unwrap();
}

/// Behind values, no subscriber could read messages of another type.
#[test]
fn a_journal_refuses_messages_that_none_of_its_subscribers_could_read() {
    let place = TestFolder::new();
    let path = place.file("one-type.olv");
    one_quote(&path);

    let refusals = [
        Publisher::open(&uri(&path, "sync=never")).map(|_| ()),
        Publisher::<Order>::typed(&uri(&path, "sync=never")).map(|_| ()),
    ];
    for refused in refusals {
        let error = chain(&refused.unwrap_err());
        assert!(
            error.contains("quote v1") && error.contains("another file"),
            "{error}"
        );
    }
    // Another channel of the journal has a type for itself.
    let mut publisher = Publisher::open(&uri(&path, "sync=never&channel=bytes")).unwrap();
    publisher.publish(b"bytes").unwrap();
    publisher.close().unwrap();

    let mut subscriber = Subscriber::<Quote>::typed(&uri(&path, "channel=one-type")).unwrap();
    assert_eq!(subscriber.receive().unwrap().bid, 7);
    let end = subscriber.receive().map(|_| ());
    assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
}

#[test]
fn a_journal_of_bytes_refuses_values_and_another_align() {
    let place = TestFolder::new();
    let path = place.file("bytes.olv");
    record(&uri(&path, "sync=never"), 0..3);
    let error = chain(&Publisher::<Quote>::typed(&uri(&path, "sync=never")).unwrap_err());
    assert!(
        error.contains("quote v1, align=8") && error.contains("messages of untyped bytes, align=8"),
        "{error}"
    );
    let error = chain(&Publisher::open(&uri(&path, "align=64&sync=never")).unwrap_err());
    assert!(
        error.contains("untyped bytes, align=64") && error.contains("bytes, align=8)"),
        "{error}"
    );
    assert_eq!(replay(&uri(&path, "")), [0, 1, 2]);
}

/// The names are equal: the message must show what differs.
#[test]
fn a_journal_refuses_a_type_of_another_size_by_this_difference() {
    let place = TestFolder::new();
    let path = place.file("size.olv");
    one_quote(&path);
    let config = Config::parse(&uri(&path, "sync=never")).unwrap();
    let larger = MessageType::new("quote v1", 16, 8).unwrap();
    let error = chain(&Publisher::open_for(&config, &larger).unwrap_err());
    for found in [
        ": quote v1 (16 bytes, aligned to 8), align=8",
        "messages of quote v1 (8 bytes, aligned to 8), align=8)",
    ] {
        assert!(error.contains(found), "{error}");
    }
}

#[test]
fn a_refused_publisher_does_not_finish_a_cut_recording() {
    let place = TestFolder::new();
    let path = place.file("cut.olv");
    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    recorder.finish_only_by_close();
    let lane = Lane::new("cut", 0, 8, 5).typed(KnownType::new(9, "quote v1", ""));
    let lane = recorder.lane(&lane).unwrap();
    recorder.append(lane, 0, 1, &frame(7, &[0; 8], 8)).unwrap();
    drop(recorder);
    let refusals = [
        Publisher::open(&uri(&path, "")).map(|_| ()),
        Publisher::<Order>::typed(&uri(&path, "")).map(|_| ()),
    ];
    for refused in refusals {
        let error = chain(&refused.unwrap_err());
        assert!(error.contains("quote v1"), "{error}");
        let mut replay = Replay::open(&path).unwrap();
        while replay.next_run().unwrap().is_some() {}
        let error = replay.check_finished().unwrap_err().to_string();
        assert!(error.contains("not finished"), "{error}");
    }
}

/// Its publisher comes after the recorder, which has room for it until then.
#[test]
fn a_recorder_fails_at_the_first_message_of_another_type() {
    let place = TestFolder::new();
    let path = place.file("late.olv");
    one_quote(&path);
    let (ticks, file) = (place.uri("ticks", ""), uri(&path, "channel=late"));
    let config = |uri: &str| Config::parse(uri).unwrap();
    let mut record = Bridge::start(&config(&ticks), &config(&file), true).unwrap();
    let mut publisher = Publisher::open(&ticks).unwrap();
    publisher.publish(b"bytes").unwrap();
    until("it has failed", || record.has_ended());
    let error = chain(&record.finish(Duration::ZERO).unwrap_err());
    assert!(
        error.contains("untyped bytes") && error.contains("quote v1"),
        "{error}"
    );
    assert!(record.place().is_some(), "the message is for the next one");
    let mut subscriber = Subscriber::<Quote>::typed(&file).unwrap();
    assert_eq!(subscriber.receive().unwrap().bid, 7);
    let end = chain(&subscriber.receive().map(|_| ()).unwrap_err());
    let told = end.contains("the recording failed: ") && end.contains("untyped bytes");
    assert!(told, "{end}");
}

/// It kept its durable name in the ring, and publishers waited for it.
#[test]
fn a_refused_recorder_leaves_nothing_that_holds_publishers_back() {
    let place = TestFolder::new();
    let path = place.file("refused.olv");
    one_quote(&path);
    for name in ["", "&name=audit"] {
        let ticks = place.uri("ticks", &format!("capacity=4KiB{name}"));
        let mut publisher = Publisher::open(&place.uri("ticks", "capacity=4KiB")).unwrap();
        let config = |uri: &str| Config::parse(uri).unwrap();
        let file = config(&uri(&path, "channel=refused"));
        let error = chain(&Bridge::start(&config(&ticks), &file, false).unwrap_err());
        assert!(error.contains("quote v1"), "{error}");
        for n in 0..1_000 {
            let message = Outgoing::new(&[0; 24]).tag(n);
            publisher
                .publish_timeout(message, common::WATCHDOG)
                .unwrap();
        }
    }
}

/// A regression: the name of the refused recorder counted as a subscriber, so the channel went with
/// its messages.
#[test]
fn a_refused_recorder_leaves_messages_that_no_subscriber_has_seen() {
    for query in ["", "from=oldest"] {
        let place = TestFolder::new();
        let path = place.file("refused.olv");
        one_quote(&path);
        let mut publisher = Publisher::open(&place.uri("ticks", "capacity=4KiB")).unwrap();
        publisher.publish(Outgoing::new(b"kept").tag(7)).unwrap();
        publisher.close().unwrap();
        let config = |uri: &str| Config::parse(uri).unwrap();
        let file = config(&uri(&path, "channel=refused"));
        Bridge::start(&config(&place.uri("ticks", query)), &file, false).unwrap_err();
        let mut subscriber = Subscriber::open(&place.uri("ticks", "from=oldest")).unwrap();
        let found = subscriber.receive_timeout(common::WATCHDOG).unwrap();
        assert_eq!(found.map(|message| message.tag()), Some(7), "{query}");
    }
}

/// Publishers that come and go do not fix the type of a journal.
#[test]
fn a_publisher_that_recorded_nothing_does_not_decide_the_type() {
    let place = TestFolder::new();
    let path = place.file("empty.olv");
    for query in ["sync=never", "sync=never&align=64"] {
        Publisher::open(&uri(&path, query))
            .unwrap()
            .close()
            .unwrap();
    }
    one_quote(&path);
    let mut subscriber = Subscriber::<Quote>::typed(&uri(&path, "")).unwrap();
    assert_eq!(subscriber.receive().unwrap().bid, 7);
    let end = subscriber.receive().map(|_| ());
    assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
    Publisher::open(&uri(&path, "sync=never")).unwrap_err();
}
