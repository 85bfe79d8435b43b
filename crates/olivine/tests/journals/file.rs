//! `file://`: recording and replay through the same two types.

#![cfg(all(feature = "journal", not(loom)))]

use crate::common;
use crate::common::{TestFolder, until};
use crate::recording::{fast, frame, lanes, replay_all};
use olivine::journal::{Lane, Recorder};
use olivine::{
    Bridge, Config, LinkError, LinkStage, OpenError, Outgoing, Publisher, ReceiveError, Subscriber,
};
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) fn uri(path: &Path, query: &str) -> String {
    let mark = if query.is_empty() { "" } else { "?" };
    format!("file://{}{mark}{query}", path.display())
}

/// Numbered messages of many lengths.
pub(crate) fn message(n: u32) -> Vec<u8> {
    let length = usize::try_from(n % 97).unwrap();
    [&n.to_le_bytes()[..], &vec![b'x'; length]].concat()
}

pub(crate) fn record(uri: &str, numbers: std::ops::Range<u32>) {
    let mut publisher = Publisher::open(uri).unwrap();
    for n in numbers {
        publisher
            .publish(Outgoing::new(&message(n)).tag(n))
            .unwrap();
    }
    publisher.close().unwrap();
}

/// Numbers of the messages up to the end of the stream; each message is checked.
pub(crate) fn replayed(subscriber: &mut Subscriber) -> (Vec<u32>, ReceiveError) {
    let mut numbers = Vec::new();
    loop {
        match subscriber.receive() {
            Ok(found) => {
                let n = found.tag();
                assert_eq!(*found, message(n));
                numbers.push(n);
            }
            Err(end) => return (numbers, end),
        }
    }
}

pub(crate) fn replay(uri: &str) -> Vec<u32> {
    let (numbers, end) = replayed(&mut Subscriber::open(uri).unwrap());
    assert!(matches!(end, ReceiveError::Closed), "{end}");
    numbers
}

#[test]
fn journal_delivers_published_messages_in_order() {
    let queries = [
        "",
        "sync=never",
        "sync=interval:10ms",
        "rotate=64KiB&sync=never",
        "align=64",
    ];
    for query in queries {
        let place = TestFolder::new();
        let path = place.file("ticks.olv");
        record(&uri(&path, query), 0..5_000);
        record(&uri(&path, query), 5_000..6_000);
        assert!(replay(&uri(&path, "")).into_iter().eq(0..6_000), "{query}");
        let small = if query == "align=64" {
            ""
        } else {
            "capacity=4KiB"
        };
        assert!(
            replay(&uri(&path, small)).into_iter().eq(0..6_000),
            "{query} {small}"
        );
        assert!(replay(&uri(&path, "from=now")).is_empty(), "{query}");
    }
}

#[test]
fn message_longer_than_a_turn_of_the_recorder_is_recorded() {
    let place = TestFolder::new();
    let path = place.file("long.olv");
    let long = vec![7; 3 << 19];
    let mut publisher = Publisher::open(&uri(&path, "capacity=8MiB&sync=never")).unwrap();
    for message in [&b"before"[..], &long, b"behind"] {
        publisher.publish(message).unwrap();
    }
    publisher.close().unwrap();
    let mut subscriber = Subscriber::open(&uri(&path, "capacity=8MiB")).unwrap();
    for message in [&b"before"[..], &long, b"behind"] {
        assert!(common::receive(&mut subscriber, |found| **found == *message));
    }
}

#[cfg(feature = "zstd")]
#[test]
fn compressed_journal_is_shorter_with_equal_content() {
    let place = TestFolder::new();
    let (plain, packed) = (place.file("plain.olv"), place.file("packed.olv"));
    record(&uri(&plain, "sync=never"), 0..5_000);
    record(&uri(&packed, "sync=never&compress=zstd"), 0..5_000);
    assert!(replay(&uri(&packed, "")).into_iter().eq(0..5_000));
    let length = |path| std::fs::metadata(path).unwrap().len();
    assert!(length(&packed) * 2 < length(&plain));
}

#[test]
fn follower_gets_later_messages_and_waits_for_the_file() {
    let place = TestFolder::new();
    let path = place.file("live.olv");
    let mut subscriber = Subscriber::open(&uri(&path, "follow=yes")).unwrap();
    let status = subscriber.link_status().unwrap();
    assert_eq!(status.stage, LinkStage::Waiting);
    assert!(status.note.contains("waiting for"), "{}", status.note);
    for session in 0..3 {
        record(
            &uri(&path, "sync=never&rotate=16KiB"),
            session * 1_000..(session + 1) * 1_000,
        );
        for n in session * 1_000..(session + 1) * 1_000 {
            assert_eq!(live(&mut subscriber), (n, message(n)));
        }
    }
    let end = subscriber.receive_timeout(common::WATCHDOG);
    assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
    // No recorder exists: nothing could end, so it waits.
    let mut late = Subscriber::open(&uri(&path, "follow=yes&from=position:1000000000")).unwrap();
    assert!(
        late.receive_timeout(Duration::from_millis(50))
            .unwrap()
            .is_none()
    );
}

/// The next message from any publisher: a close is not the end here.
fn live(subscriber: &mut Subscriber) -> (u32, Vec<u8>) {
    let mut found = None;
    until("a message comes", || {
        match subscriber.receive_timeout(Duration::from_millis(20)) {
            Ok(message) => found = message.map(|message| (message.tag(), message.to_vec())),
            Err(ReceiveError::Closed) => {}
            Err(error) => panic!("{error}"),
        }
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn durable_subscriber_continues_where_it_was() {
    let place = TestFolder::new();
    let path = place.file("durable.olv");
    record(&uri(&path, "sync=never"), 0..3_000);
    let query = format!("name=audit&dir={}", place.dir().display());
    let mut expected = 0..;
    for _ in 0..10 {
        let mut subscriber = Subscriber::open(&uri(&path, &query)).unwrap();
        for n in expected.by_ref().take(250) {
            assert_eq!(subscriber.receive().unwrap().tag(), n);
        }
        // Dropped, it would get the last message again.
        subscriber.close();
    }
    let (rest, end) = replayed(&mut Subscriber::open(&uri(&path, &query)).unwrap());
    assert!(matches!(end, ReceiveError::Closed), "{end}");
    assert!(rest.into_iter().eq(2_500..3_000));
    // Later messages come when it is opened again.
    record(&uri(&path, "sync=never"), 3_000..3_100);
    let mut subscriber = Subscriber::open(&uri(&path, &query)).unwrap();
    assert!(replayed(&mut subscriber).0.into_iter().eq(3_000..3_100));
    subscriber.unsubscribe();
}

/// A journal with runs at given times.
fn at_times(path: &Path, times_ns: &[u64]) {
    let mut recorder = Recorder::open(path, &fast()).unwrap();
    let id = recorder.lane(&lanes()[0]).unwrap();
    for (n, time_ns) in (0..).zip(times_ns) {
        let bytes = frame(n, &message(n), 8);
        let end = recorder.end(id);
        recorder.append(id, end, *time_ns, &bytes).unwrap();
    }
    recorder.close().unwrap();
}

#[test]
fn replay_starts_at_a_time_or_a_position() {
    let place = TestFolder::new();
    let path = place.file("when.olv");
    let second = 1_000_000_000;
    at_times(&path, &[second, 2 * second, 2 * second, 5 * second]);
    for (from, expected) in [
        ("oldest", 0..4),
        ("time:1970-01-01T00:00:00Z", 0..4),
        ("time:1970-01-01T00:00:01.000000001Z", 1..4),
        ("time:1970-01-01T00:00:02Z", 1..4),
        ("time:1970-01-01T00:00:05Z", 3..4),
        ("time:1970-01-01T00:00:06Z", 0..0),
        ("position:0", 0..4),
        ("position:1", 1..4),
        ("position:16", 1..4),
        ("position:64", 0..0),
        ("now", 0..0),
    ] {
        let found = replay(&uri(&path, &format!("from={from}")));
        assert!(
            found.iter().copied().eq(expected.clone()),
            "{from}: {found:?}"
        );
    }
    // Behind the end, which no recorder moves.
    let refused = Subscriber::open(&uri(&path, "from=position:65")).unwrap_err();
    assert_eq!(refused.id(), "journal.no-position", "{refused}");
}

#[test]
fn original_pace_takes_the_recorded_time_divided_by_the_factor() {
    let place = TestFolder::new();
    let path = place.file("pace.olv");
    let tenth = 100_000_000;
    at_times(&path, &[0, tenth, 3 * tenth]);
    for (pace, at_least_ms) in [("original", 300), ("2x", 150), ("10x", 30)] {
        let started = Instant::now();
        let found = replay(&uri(&path, &format!("pace={pace}")));
        assert_eq!(found, [0, 1, 2]);
        assert!(
            started.elapsed() >= Duration::from_millis(at_least_ms),
            "{pace}"
        );
    }
    // Closing does not wait for the rest.
    at_times(&path, &[1_000_000 * tenth]);
    let mut subscriber = Subscriber::open(&uri(&path, "pace=original")).unwrap();
    assert_eq!(subscriber.receive().unwrap().tag(), 0);
    drop(subscriber);
}

#[test]
fn torn_tail_is_reported_and_damage_is_an_error() {
    let place = TestFolder::new();
    let path = place.file("hurt.olv");
    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    let id = recorder.lane(&lanes()[0]).unwrap();
    let mut ends = Vec::new();
    for n in 0..6 {
        let end = recorder.end(id);
        recorder
            .append(id, end, 1, &frame(n, &message(n), 8))
            .unwrap();
        recorder.flush().unwrap();
        ends.push(usize::try_from(std::fs::metadata(&path).unwrap().len()).unwrap());
    }
    drop(recorder);
    let whole = std::fs::read(&path).unwrap();

    std::fs::write(&path, &whole[..ends[3] + 21]).unwrap();
    let mut subscriber = Subscriber::open(&uri(&path, "")).unwrap();
    let (numbers, end) = replayed(&mut subscriber);
    assert!(numbers.into_iter().eq(0..4));
    let ReceiveError::Failed(LinkError::Journal(cause)) = &end else {
        panic!("{end}");
    };
    let text = cause.to_string();
    assert!(text.contains("the last 21 bytes"), "{text}");
    // The next publisher reports what it cut off.
    let publisher = Publisher::open(&uri(&path, "sync=never")).unwrap();
    let note = publisher.link_status().unwrap().note;
    assert!(note.contains("torn tail of 21 bytes"), "{note}");
    publisher.close().unwrap();

    let mut bytes = whole;
    bytes[ends[3] + 70] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let mut subscriber = Subscriber::open(&uri(&path, "")).unwrap();
    let (numbers, end) = replayed(&mut subscriber);
    assert!(numbers.into_iter().eq(0..4));
    assert!(
        matches!(end, ReceiveError::Failed(LinkError::Journal(_))),
        "{end}"
    );
    let text = std::error::Error::source(&end).map_or_else(|| end.to_string(), ToString::to_string);
    assert!(
        text.contains(&format!("is damaged at byte {}", ends[3])),
        "{text}"
    );
}

/// Appends the numbers to the recording of a channel, behind `missed` bytes that it did not get.
pub(crate) fn append_behind(recorder: &mut Recorder, numbers: std::ops::Range<u32>, missed: u64) {
    let id = recorder.lane(&lanes()[0]).unwrap();
    let mut at = recorder.end(id) + missed;
    for n in numbers {
        let bytes = frame(n, &message(n), 8);
        recorder.append(id, at, n.into(), &bytes).unwrap();
        at += bytes.len() as u64;
    }
    recorder.flush().unwrap();
}

/// Whether the stream failed at a hole of `bytes` bytes.
fn is_hole(error: &ReceiveError, bytes: u64) -> bool {
    let ReceiveError::Failed(error) = error else {
        return false;
    };
    let text = match error {
        LinkError::Upstream { reason, .. } => reason.clone(),
        LinkError::Journal(error) => error.to_string(),
        other => other.to_string(),
    };
    text.contains(&format!("messages are missing: {bytes} bytes"))
}

/// A recorder that is started again does not have what was published while it was stopped. The
/// journal looked complete.
#[test]
fn recording_with_a_hole_is_not_replayed_as_complete() {
    let place = TestFolder::new();
    let path = place.file("holed.olv");
    let ticks = place.uri("ticks", "capacity=64KiB");
    let config = |uri: &str| Config::parse(uri).unwrap();
    let mut publisher = Publisher::open(&ticks).unwrap();
    let mut publish = |numbers: std::ops::Range<u32>| {
        for n in numbers {
            let message = message(n);
            publisher.publish(Outgoing::new(&message).tag(n)).unwrap();
        }
        publisher.cursor().0
    };
    let file = config(&uri(&path, "sync=never"));
    let mut missed = Vec::new();
    for (recorded, unrecorded) in [(0..100, 100..150), (150..200, 200..230), (230..300, 0..0)] {
        let mut record = Bridge::start(&config(&ticks), &file, false).unwrap();
        let before = publish(recorded);
        assert!(record.leave(common::WATCHDOG).unwrap());
        missed.push(publish(unrecorded) - before);
    }
    let all: u64 = missed.iter().sum();

    let mut subscriber = Subscriber::open(&uri(&path, "")).unwrap();
    let (numbers, error) = replayed(&mut subscriber);
    assert!(numbers.into_iter().eq(0..100));
    assert!(is_hole(&error, missed[0]), "{error}");

    // Each replay into shared memory goes on behind the hole that the one before reported.
    let again = place.uri("again", "");
    let mut subscriber = Subscriber::open(&again).unwrap();
    for (expected, hole) in [
        (0..100, missed.first()),
        (150..200, missed.get(1)),
        (230..300, None),
    ] {
        let mut replaying = Bridge::start(&config(&uri(&path, "")), &config(&again), true).unwrap();
        let (numbers, error) = replayed(&mut subscriber);
        assert!(
            numbers.iter().copied().eq(expected.clone()),
            "{expected:?} {numbers:?} {error}"
        );
        match hole {
            Some(bytes) => assert!(is_hole(&error, *bytes), "{expected:?}: {error}"),
            None => assert!(matches!(error, ReceiveError::Closed), "{error}"),
        }
        until("the replay has ended", || replaying.has_ended());
        assert_eq!(replaying.finish(common::WATCHDOG).is_err(), hole.is_some());
    }

    let accepting = uri(&path, "unfinished=accept");
    let mut subscriber = Subscriber::open(&accepting).unwrap();
    let (numbers, end) = replayed(&mut subscriber);
    assert!(matches!(end, ReceiveError::Closed), "{end}");
    assert_eq!(numbers.len(), 220);
    let note = subscriber.link_status().unwrap().note;
    assert!(
        note.starts_with(&format!("{all} bytes")) && note.ends_with("2 places"),
        "{note}"
    );
}

/// A replay into shared memory that ended at the hole does not hide it from its successor.
#[test]
fn hole_behind_a_stopped_replay_is_reported_by_the_next() {
    let place = TestFolder::new();
    let path = place.file("later.olv");
    let config = |uri: &str| Config::parse(uri).unwrap();
    let (file, again) = (config(&uri(&path, "")), place.uri("again", ""));
    let mut subscriber = Subscriber::open(&again).unwrap();
    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    append_behind(&mut recorder, 0..50, 0);
    let replaying = Bridge::start(&file, &config(&again), true).unwrap();
    for n in 0..50 {
        assert_eq!(live(&mut subscriber), (n, message(n)));
    }
    assert!(replaying.stop(common::WATCHDOG).unwrap());
    append_behind(&mut recorder, 50..80, 4096);
    recorder.close().unwrap();
    let failed = Bridge::start(&file, &config(&again), true).unwrap();
    let (numbers, error) = replayed(&mut subscriber);
    assert!(numbers.is_empty() && is_hole(&error, 4096), "{error}");
    until("the replay has failed", || failed.has_ended());
    drop(failed);
    // Its successor has delivered nothing when it is stopped: the next one reported the hole again.
    let keeper = Publisher::open(&again).unwrap();
    drop(subscriber);
    let awaits = config(&place.uri("again", "subscribers=1"));
    let waiting = Bridge::start(&file, &awaits, true).unwrap();
    assert!(!waiting.stop(Duration::from_millis(1)).unwrap());
    let mut subscriber = Subscriber::open(&again).unwrap();
    drop::<Publisher>(keeper);
    let replaying = Bridge::start(&file, &config(&again), true).unwrap();
    let (numbers, error) = replayed(&mut subscriber);
    assert!(numbers.iter().copied().eq(50..80), "{numbers:?} {error:?}");
    assert!(matches!(error, ReceiveError::Closed), "{error}");
    assert!(replaying.stop(common::WATCHDOG).unwrap());
}

/// The next replay began before a run of another channel, or before the start that the URI names.
#[test]
fn next_replay_begins_at_the_hole() {
    let messages = |numbers: std::ops::Range<u32>| -> usize {
        numbers.map(|n| frame(n, &message(n), 8).len()).sum()
    };
    let position = format!("from=position:{}", messages(0..50));
    let time = "from=time:1970-01-01T00:00:00.000000050Z";
    for (query, delivered) in [("channel=ticks", 0..50), (&*position, 0..0), (time, 0..0)] {
        let place = TestFolder::new();
        let path = place.file("begins.olv");
        let mut recorder = Recorder::open(&path, &fast()).unwrap();
        append_behind(&mut recorder, 0..50, 0);
        if query == "channel=ticks" {
            let id = recorder.lane(&Lane::new("other", 0, 8, 12)).unwrap();
            let bytes = frame(50, &message(50), 8);
            recorder.append(id, 0, 50, &bytes).unwrap();
            recorder.flush().unwrap();
        }
        append_behind(&mut recorder, 50..80, 4096);
        recorder.close().unwrap();
        let config = |uri: &str| Config::parse(uri).unwrap();
        let (file, again) = (config(&uri(&path, query)), place.uri("again", ""));
        let mut subscriber = Subscriber::open(&again).unwrap();
        let failed = Bridge::start(&file, &config(&again), true).unwrap();
        let (numbers, error) = replayed(&mut subscriber);
        assert!(
            numbers.iter().copied().eq(delivered),
            "{query}: {numbers:?}"
        );
        assert!(is_hole(&error, 4096), "{query}: {error}");
        until("the replay has failed", || failed.has_ended());
        drop(failed);
        let replaying = Bridge::start(&file, &config(&again), true).unwrap();
        let (numbers, error) = replayed(&mut subscriber);
        assert!(
            numbers.iter().copied().eq(50..80),
            "{query}: {numbers:?} {error}"
        );
        assert!(matches!(error, ReceiveError::Closed), "{query}: {error}");
        assert!(replaying.stop(common::WATCHDOG).unwrap());
    }
}

/// A replay that was stopped before it delivered anything stored a start before `from=`.
#[test]
fn stopped_replay_keeps_the_start_that_was_asked_for() {
    let position: usize = (0..50).map(|n| frame(n, &message(n), 8).len()).sum();
    let position = format!("from=position:{position}");
    for from in [&*position, "from=time:1970-01-01T00:00:00.000000050Z"] {
        let place = TestFolder::new();
        let path = place.file("asked.olv");
        let mut recorder = Recorder::open(&path, &fast()).unwrap();
        append_behind(&mut recorder, 0..50, 0);
        let config = |uri: &str| Config::parse(uri).unwrap();
        let (file, again) = (config(&uri(&path, from)), place.uri("again", ""));
        let mut subscriber = Subscriber::open(&again).unwrap();
        let stopped = Bridge::start(&file, &config(&again), true).unwrap();
        until("it is replayed", || {
            stopped.status().stage == LinkStage::Connected
        });
        stopped.stop(common::WATCHDOG).unwrap();
        append_behind(&mut recorder, 50..80, 0);
        recorder.close().unwrap();
        let replaying = Bridge::start(&file, &config(&again), true).unwrap();
        let (numbers, end) = replayed(&mut subscriber);
        assert!(numbers.iter().copied().eq(50..80), "{from}: {numbers:?}");
        assert!(matches!(end, ReceiveError::Closed), "{end}");
        assert!(replaying.stop(common::WATCHDOG).unwrap());
    }
}

#[test]
fn one_of_several_channels_is_chosen_by_name() {
    let place = TestFolder::new();
    let path = place.file("both.olv");
    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    for n in 0..40 {
        let (channel, number) = if n % 3 == 0 {
            ("orders", 1_000 + n)
        } else {
            ("ticks", n)
        };
        let id = recorder.lane(&Lane::new(channel, 0, 8, 5)).unwrap();
        let end = recorder.end(id);
        recorder
            .append(id, end, 1, &frame(number, &message(number), 8))
            .unwrap();
    }
    recorder.close().unwrap();
    let orders = replay(&uri(&path, "channel=orders"));
    assert!(orders.into_iter().eq((1_000..1_040).step_by(3)));
    let ticks = replay(&uri(&path, "channel=ticks"));
    assert!(ticks.into_iter().eq((0..40).filter(|n| n % 3 != 0)));
    for (query, reason) in [("channel=others", "others"), ("", "several channels")] {
        let (none, end) = replayed(&mut Subscriber::open(&uri(&path, query)).unwrap());
        let source = std::error::Error::source(&end);
        let text = source.map_or_else(|| end.to_string(), ToString::to_string);
        assert_eq!(none.is_empty(), query == "channel=others", "{text}");
        assert!(text.contains(reason), "{text}");
        assert!(text.contains("orders") && text.contains("ticks"), "{text}");
    }

    // A durable subscriber to one channel continues after a gap, too.
    let query = format!("channel=orders&name=audit&dir={}", place.dir().display());
    let mut expected = (1_000..1_040).step_by(3);
    for _ in 0..4 {
        let mut subscriber = Subscriber::open(&uri(&path, &query)).unwrap();
        for n in expected.by_ref().take(3) {
            assert_eq!(subscriber.receive().unwrap().tag(), n);
        }
        subscriber.close();
    }
    let mut subscriber = Subscriber::open(&uri(&path, &query)).unwrap();
    assert!(replayed(&mut subscriber).0.into_iter().eq(expected));
    subscriber.unsubscribe();
}

#[test]
fn unfit_replay_is_refused_with_the_setting() {
    let place = TestFolder::new();
    let path = place.file("fit.olv");
    record(&uri(&path, "align=64&sync=never"), 0..3);
    let refused = |query: &str| {
        let opened = Subscriber::open(&uri(&path, query));
        let text = |error: &dyn std::error::Error| {
            error
                .source()
                .map_or_else(|| error.to_string(), ToString::to_string)
        };
        match opened {
            Err(error) => text(&error),
            Ok(mut subscriber) => text(&replayed(&mut subscriber).1),
        }
    };
    let align = refused("align=8");
    assert!(align.contains("align=64"), "{align}");
    let mut large = Publisher::open(&uri(&path, "align=64&sync=never")).unwrap();
    large.publish(&[0; 50_000]).unwrap();
    large.close().unwrap();
    let capacity = refused("capacity=4KiB");
    assert!(capacity.contains("larger 'capacity='"), "{capacity}");
    assert_eq!(replay_all(&path).messages.len(), 4);

    let busy = Publisher::open(&uri(&path, "align=64")).unwrap();
    let error = Publisher::open(&uri(&path, "")).unwrap_err();
    assert!(
        matches!(&error, OpenError::Link(LinkError::Journal(_))),
        "{error}"
    );
    assert!(error.to_string().contains("another recorder"), "{error}");
    drop(busy);
    for (query, path) in [("", "/nowhere/a.olv"), ("sync=never", "/proc/a.olv")] {
        let error = Publisher::open(&uri(Path::new(path), query)).unwrap_err();
        assert!(
            matches!(&error, OpenError::Link(LinkError::Io { .. })),
            "{error}"
        );
        assert!(error.to_string().contains(path), "{error}");
    }
    let missing = Subscriber::open("file:///nowhere/a.olv").unwrap_err();
    assert!(
        missing.to_string().contains("there is no journal"),
        "{missing}"
    );
}

/// Two publishers, a recorder, a replay: the messages of each stay in order, and all arrive once.
#[test]
fn a_bridge_records_every_publisher_of_a_channel_and_replays_them() {
    let place = TestFolder::new();
    let path = place.file("bridged.olv");
    let (ticks, again) = (place.uri("ticks", "align=64"), place.uri("again", ""));
    let config = |uri: &str| Config::parse(uri).unwrap();
    let file = config(&uri(&path, "sync=never"));
    let first = Publisher::open(&ticks).unwrap();
    let record = Bridge::start(&config(&ticks), &file, true).unwrap();
    let second = Publisher::open(&ticks).unwrap();
    std::thread::scope(|scope| {
        for (mut publisher, base) in [(first, 0), (second, 100_000)] {
            scope.spawn(move || {
                for n in base..base + 20_000 {
                    publisher
                        .publish(Outgoing::new(&message(n)).tag(n))
                        .unwrap();
                }
                publisher.close().unwrap();
            });
        }
    });
    until("everything is recorded", || record.has_ended());
    assert!(record.stop(Duration::ZERO).unwrap());
    let recorded = replay_all(&path).messages;
    assert!(recorded.iter().all(|message| message.channel == "ticks"));
    for (publisher, base) in [(0, 0), (1, 100_000)] {
        let own = recorded
            .iter()
            .filter(|message| message.publisher == publisher);
        assert!(own.map(|message| message.tag).eq(base..base + 20_000));
    }

    let mut subscriber = Subscriber::open(&place.uri("again", "align=64")).unwrap();
    let file = config(&uri(&path, ""));
    let replaying = Bridge::start(&file, &config(&again), true).unwrap();
    let (numbers, end) = replayed(&mut subscriber);
    assert!(matches!(end, ReceiveError::Closed), "{end}");
    assert!(
        numbers
            .into_iter()
            .eq(recorded.iter().map(|message| message.tag))
    );
    until("the replay has ended", || replaying.has_ended());
    assert_eq!(replaying.status().messages, 40_000);
    assert!(replaying.stop(Duration::ZERO).unwrap());
}

/// Messages that are carried during the stop are counted.
#[test]
fn stopped_bridge_counts_every_carried_message() {
    let place = TestFolder::new();
    let path = place.file("counted.olv");
    let ticks = place.uri("ticks", "capacity=64KiB");
    let config = |uri: &str| Config::parse(uri).unwrap();
    let file = config(&uri(&path, "sync=never"));
    let mut publisher = Publisher::open(&ticks).unwrap();
    let mut record = Bridge::start(&config(&ticks), &file, false).unwrap();
    for n in 0..1_000 {
        publisher
            .publish(Outgoing::new(&message(n)).tag(n))
            .unwrap();
    }
    assert!(record.finish(Duration::ZERO).unwrap());
    let status = record.status();
    assert_eq!(status.stage, LinkStage::Ended);
    assert_eq!(status.bytes, publisher.cursor().0);
    assert_eq!(status.acknowledged_bytes, publisher.cursor().0);
    // A second call changes nothing.
    assert!(record.finish(Duration::ZERO).unwrap());
    assert_eq!(record.status(), status);
}

/// A recorder that is stopped and started again continues exactly where it was: publishers wait for
/// it.
#[test]
fn restarted_recorder_loses_and_repeats_nothing() {
    let place = TestFolder::new();
    let path = place.file("back.olv");
    let ticks = place.uri("ticks", "capacity=64KiB");
    let config = |uri: &str| Config::parse(uri).unwrap();
    let file = config(&uri(&path, "sync=never"));
    let mut publisher = Publisher::open(&ticks).unwrap();
    let mut next = 0;
    for _round in 0..10 {
        let record = Bridge::start(&config(&ticks), &file, false).unwrap();
        for _ in 0..1_000 {
            publisher
                .publish(Outgoing::new(&message(next)).tag(next))
                .unwrap();
            next += 1;
        }
        // Without waiting: unrecorded messages stay in the ring.
        drop(record);
    }
    publisher.close().unwrap();
    let record = Bridge::start(&config(&ticks), &file, true).unwrap();
    assert!(record.stop(Duration::ZERO).unwrap());
    let tags = replay_all(&path)
        .messages
        .into_iter()
        .map(|message| message.tag);
    assert!(tags.eq(0..next));
}
