//! A recorder that fails: readers get its reason, whatever was recorded before.

#![cfg(all(feature = "journal", not(loom)))]

use crate::common::{TestFolder, WATCHDOG, chain, until};
use crate::file::{record, replay, uri};
use crate::recording::{deliver, fast, frame, lanes, replay_all};
use olivine::journal::{JournalError, Outline, Recorder, Replay, ReplayState};
use olivine::{Bridge, Config, LinkError, Publisher, ReceiveError, Subscriber};
use std::path::Path;

/// The tags of all messages, and the text of the failure behind them.
fn failure(path: &Path) -> (Vec<u32>, String) {
    let mut subscriber = Subscriber::open(&uri(path, "")).unwrap();
    let mut tags = Vec::new();
    loop {
        match subscriber.receive() {
            Ok(found) => tags.push(found.tag()),
            Err(ReceiveError::Failed(LinkError::Journal(error))) => {
                assert_eq!(error.id(), "journal.failed");
                return (tags, error.to_string());
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn reader_gets_the_reason_of_a_failed_recorder_whatever_was_before() {
    for before in [0, 3] {
        for sent in [0, 2] {
            let place = TestFolder::new();
            let path = place.file("failed.olv");
            if before > 0 {
                record(&uri(&path, "sync=never"), 0..before);
            }
            let mut publisher = Publisher::open(&uri(&path, "")).unwrap();
            for tag in before..before + sent {
                let message = olivine::Outgoing::new(b"more").tag(tag);
                publisher.publish(message).unwrap();
            }
            publisher.close_failed("the sensor\nis gone").unwrap();

            let (tags, text) = failure(&path);
            assert!(tags.into_iter().eq(0..before + sent), "{before}, {sent}");
            let said = text.contains("failed: the sensor is gone;");
            assert!(said && text.contains(&path.display().to_string()), "{text}");
            let reason = "the sensor is gone".to_owned();
            let state = Outline::read(&path).unwrap().state;
            assert_eq!(state, ReplayState::Failed { reason });
            let mut replay = Replay::open(&path).unwrap();
            replay.seek_end().unwrap();
            let error = replay.check_finished().unwrap_err();
            assert!(matches!(error, JournalError::Failed { .. }), "{error}");
            let accepting = uri(&path, "unfinished=accept");
            let mut subscriber = Subscriber::open(&accepting).unwrap();
            for _ in 0..before + sent {
                subscriber.receive().unwrap();
            }
            let end = subscriber.receive().unwrap_err();
            assert!(matches!(end, ReceiveError::Closed), "{end}");

            // The next recorder says so, and mends the end: readers get the failure before it.
            let publisher = Publisher::open(&uri(&path, "")).unwrap();
            let note = publisher.link_status().unwrap().note;
            assert!(note.ends_with("failed: the sensor is gone"), "{note}");
            publisher.close().unwrap();
            let all = replay_all(&path);
            let sealed = ReplayState::Ended { is_sealed: true };
            assert_eq!(all.end.unwrap(), sealed, "{before}, {sent}");
            let (found, ends) = with_failures(&uri(&path, ""));
            assert!(found.into_iter().eq(0..before + sent));
            let [(at, reason), (end, closed)] = &ends[..] else {
                panic!("{ends:?}")
            };
            assert_eq!((*at, *end), (before + sent, before + sent));
            assert!(reason.contains(": the sensor is gone;"), "{reason}");
            assert_eq!(closed, "", "{before}, {sent}");
        }
    }
}

/// The recorder had opened its file before the ring was refused.
#[test]
fn program_without_room_for_its_ring_leaves_no_journal() {
    let place = TestFolder::new();
    let path = place.file("none.olv");
    let no_folder = place.file("a file");
    std::fs::write(&no_folder, "").unwrap();
    let query = format!("name=audit&dir={}", no_folder.display());
    Publisher::open(&uri(&path, &query)).unwrap_err();
    assert!(!path.exists());

    let file = Config::parse(&uri(&path, "")).unwrap();
    let refused = format!("shm://ticks?dir={}", no_folder.display());
    let ring = Config::parse(&refused).unwrap();
    Bridge::start(&ring, &file, true).unwrap_err();
    assert!(!path.exists());
}

/// A recorder looks whether its file can be made before it opens its ring, and leaves neither.
#[test]
fn recorder_without_a_folder_for_its_journal_leaves_no_channel() {
    let place = TestFolder::new();
    let folder = place.dir();
    let ring = Config::parse(&format!("shm://ticks?dir={}", folder.display())).unwrap();
    let file = Config::parse(&uri(&place.file("none").join("none.olv"), "")).unwrap();
    Bridge::start(&ring, &file, true).unwrap_err();
    assert_eq!(olivine::admin::list(&folder).unwrap().len(), 0);
}

/// Its reader of the ring, the first, took the messages with it when it left.
#[test]
fn recorder_that_cannot_make_its_journal_leaves_unread_messages() {
    let place = TestFolder::new();
    let channel = place.uri("ticks", "");
    let mut publisher = Publisher::open(&channel).unwrap();
    publisher.publish(b"unread").unwrap();
    publisher.close().unwrap();
    let latest = Config::parse(&place.uri("ticks", "delivery=latest")).unwrap();
    // The system makes no file there.
    let file = Config::parse("file:///proc/none.olv").unwrap();
    let error = Bridge::start(&latest, &file, true).unwrap_err();
    assert!(
        chain(&error).contains("cannot create /proc/none.olv"),
        "{error}"
    );
    let oldest = place.uri("ticks", "from=oldest");
    let mut subscriber = Subscriber::open(&oldest).unwrap();
    let found = subscriber.receive_timeout(WATCHDOG).unwrap().unwrap();
    assert_eq!(&*found, b"unread");
}

#[test]
fn program_that_only_fails_to_open_leaves_the_end_of_a_finished_journal() {
    let place = TestFolder::new();
    let path = place.file("refused.olv");
    record(&uri(&path, "sync=never"), 0..3);
    Publisher::open(&uri(&path, "align=64")).unwrap_err();
    assert_eq!(replay(&uri(&path, "")), [0, 1, 2]);
}

#[test]
fn dropped_recorder_that_ends_only_by_close_does_not_keep_an_earlier_end() {
    let place = TestFolder::new();
    let path = place.file("dropped.olv");
    record(&uri(&path, "sync=never"), 0..3);
    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    recorder.finish_only_by_close();
    drop(recorder);
    let (tags, text) = failure(&path);
    assert_eq!(tags, [0, 1, 2]);
    assert!(text.contains("its recorder gave no reason"), "{text}");
    // Closed, it is dropped as well.
    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    recorder.finish_only_by_close();
    recorder.close().unwrap();
    let (tags, ends) = with_failures(&uri(&path, ""));
    assert_eq!((tags, ends.len()), (vec![0, 1, 2], 2), "{ends:?}");
    assert!(
        ends[0].1.contains("its recorder gave no reason"),
        "{ends:?}"
    );
}

#[test]
fn panic_of_the_recorders_thread_is_the_reason() {
    let place = TestFolder::new();
    let path = place.file("panicked.olv");
    record(&uri(&path, "sync=never"), 0..3);
    let recorder = Recorder::open(&path, &fast()).unwrap();
    std::thread::spawn(move || {
        let _recorder = recorder;
        panic!("on purpose");
    })
    .join()
    .unwrap_err();
    let (tags, text) = failure(&path);
    assert_eq!(tags, [0, 1, 2]);
    assert!(
        text.contains("the thread of its recorder panicked"),
        "{text}"
    );
}

/// Version 4 has everything but failures. A program of that version must be able to read what this
/// one leaves in its files.
#[test]
fn journal_of_version_4_is_read_and_continues_in_a_new_file() {
    let golden = format!("{}/tests/golden/journal-4.olv", env!("CARGO_MANIFEST_DIR"));
    let old = replay_all(golden.as_ref());
    let sealed = ReplayState::Ended { is_sealed: true };
    assert_eq!((old.messages.len(), old.end.unwrap()), (5, sealed));
    for fails in [false, true] {
        let place = TestFolder::new();
        let path = place.file("old.olv");
        for next in ["", ".000001"] {
            let to = format!("{}{next}", path.display());
            std::fs::copy(format!("{golden}{next}"), to).unwrap();
        }
        let newest = place.file("old.olv.000001");
        let before = std::fs::read(&newest).unwrap();
        let mut recorder = Recorder::open(&path, &fast()).unwrap();
        if fails {
            recorder.close_failed("the sensor is gone").unwrap();
            assert_eq!(std::fs::read(&newest).unwrap(), before);
            let (tags, text) = failure_of_any(&path);
            assert_eq!(tags, 5);
            assert!(text.contains("the sensor is gone"), "{text}");
        } else {
            let [first, ..] = lanes();
            let id = recorder.lane(&first).unwrap();
            let (end, bytes) = (recorder.end(id), frame(1, b"new", first.align as usize));
            recorder.append(id, end, 2_000_000_000, &bytes).unwrap();
            recorder.close().unwrap();
            let after = std::fs::read(&newest).unwrap();
            assert_eq!((after[8], after[..before.len()].to_vec()), (4, before));
            let all = replay_all(&path);
            assert_eq!(all.messages[..5], old.messages);
            assert_eq!(all.messages[5].payload, b"new");
        }
        let file = std::fs::read(place.file("old.olv.000002")).unwrap();
        assert_eq!(file[8], 5);
    }
}

/// How many messages there are, and the failure behind them, of a journal of several channels.
fn failure_of_any(path: &Path) -> (usize, String) {
    let mut replay = Replay::open(path).unwrap();
    let all = deliver(&mut replay);
    (
        all.messages.len(),
        replay.check_finished().unwrap_err().to_string(),
    )
}

#[test]
fn follower_has_the_reason_in_its_status_and_waits_for_the_next_recorder() {
    let place = TestFolder::new();
    let path = place.file("followed.olv");
    let mut publisher = Publisher::open(&uri(&path, "sync=never")).unwrap();
    publisher.publish(b"before").unwrap();
    publisher.close_failed("the sensor is gone").unwrap();
    let mut follower = Subscriber::open(&uri(&path, "follow=yes")).unwrap();
    assert_eq!(*follower.receive().unwrap(), *b"before");
    until("it has the reason", || {
        let note = follower.link_status().unwrap().note;
        note == "the recording failed: the sensor is gone"
    });
    let mut publisher = Publisher::open(&uri(&path, "sync=never")).unwrap();
    publisher.publish(b"behind").unwrap();
    let error = follower.receive().unwrap_err();
    let ReceiveError::Failed(LinkError::Upstream { reason, .. }) = error else {
        panic!("{error}")
    };
    assert!(reason.contains(": the sensor is gone;"), "{reason}");
    assert_eq!(*follower.receive().unwrap(), *b"behind");
}

/// The tags of all messages, and each failure with the number of messages before it; last the end
/// of the stream, without a text.
pub(crate) fn with_failures(uri: &str) -> (Vec<u32>, Vec<(u32, String)>) {
    let mut subscriber = Subscriber::open(uri).unwrap();
    let found = failures_of(&mut subscriber);
    subscriber.close();
    found
}

pub(crate) fn failures_of(subscriber: &mut Subscriber) -> (Vec<u32>, Vec<(u32, String)>) {
    let (mut tags, mut failures) = (Vec::new(), Vec::new());
    loop {
        let count = u32::try_from(tags.len()).unwrap();
        match subscriber.receive() {
            Ok(found) => tags.push(found.tag()),
            Err(ReceiveError::Failed(LinkError::Upstream { reason, .. })) => {
                failures.push((count, reason));
            }
            Err(ReceiveError::Closed) => {
                failures.push((count, String::new()));
                return (tags, failures);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Records `tags`, and fails with this reason, or ends in order without one.
pub(crate) fn record_part(
    path: &Path,
    tags: std::ops::Range<u32>,
    failure: Option<&str>,
    query: &str,
) {
    let mut publisher = Publisher::open(&uri(path, &format!("sync=never{query}"))).unwrap();
    for tag in tags {
        let message = crate::file::message(tag);
        let message = olivine::Outgoing::new(&message).tag(tag);
        publisher.publish(message).unwrap();
    }
    match failure {
        Some(reason) => drop(publisher.close_failed(reason)),
        None => drop(publisher.close().unwrap()),
    }
}

/// It was no longer told once a later recording followed.
#[test]
fn failure_that_a_later_recording_follows_is_reported_between_the_two() {
    // In one file, and with a new file for each recording.
    for rotate in ["", "&rotate=4KiB"] {
        let place = TestFolder::new();
        let path = place.file("between.olv");
        record_part(&path, 0..300, Some("the sensor is gone"), rotate);
        record_part(&path, 300..600, Some("its disk is full"), rotate);
        record_part(&path, 600..900, None, rotate);
        let mut failed = Vec::new();
        let mut replay = Replay::open(&path).unwrap();
        let mut second = 0;
        while let Some(run) = replay.next_run().unwrap() {
            for reason in run.failed_before {
                failed.push((run.messages().next().unwrap().tag, reason.clone()));
                second = run.journal_position;
            }
        }
        let told = |n: u32, reason: &str| (n, reason.to_owned());
        let both = [
            told(300, "the sensor is gone"),
            told(600, "its disk is full"),
        ];
        assert_eq!(failed, both);
        let query = "capacity=4KiB";
        let (tags, ends) = with_failures(&uri(&path, query));
        assert!(tags.into_iter().eq(0..900));
        let at: Vec<u32> = ends.iter().map(|(at, _)| *at).collect();
        assert_eq!(at, [300, 600, 900], "{ends:?}");
        assert!(ends[0].1.contains(": the sensor is gone;"), "{ends:?}");
        assert!(ends[1].1.contains(": its disk is full;"), "{ends:?}");
        assert_eq!(ends[2].1, "");
        // A place before it, the place itself, and one behind it.
        for (from, expected) in [(second - 1, 1), (second, 1), (second + 8, 0)] {
            let (_, ends) = with_failures(&uri(&path, &format!("from=position:{from}")));
            assert_eq!(ends.len(), expected + 1, "{from}: {ends:?}");
        }
        let accepting = uri(&path, "unfinished=accept");
        let mut subscriber = Subscriber::open(&accepting).unwrap();
        let (tags, ends) = failures_of(&mut subscriber);
        assert_eq!((tags.len(), ends.len()), (900, 1));
        let note = subscriber.link_status().unwrap().note;
        assert!(
            note.contains("2 earlier recordings failed, the last at position "),
            "{note}"
        );
        assert!(note.ends_with(": its disk is full"), "{note}");
    }
}

#[test]
fn subscriber_with_a_name_gets_each_failure_once_wherever_it_stopped() {
    for read in [0, 299, 300, 301, 600] {
        let place = TestFolder::new();
        let path = place.file("named.olv");
        let named = format!("name=audit&capacity=4KiB&dir={}", place.dir().display());
        let named = uri(&path, &named);
        record_part(&path, 0..300, Some("the sensor is gone"), "");
        record_part(&path, 300..600, None, "");
        let mut subscriber = Subscriber::open(&named).unwrap();
        let mut failures = 0;
        for tag in 0..read {
            let found = match subscriber.receive() {
                Ok(found) => found.tag(),
                Err(ReceiveError::Failed(_)) => {
                    failures += 1;
                    subscriber.receive().unwrap().tag()
                }
                Err(error) => panic!("{error}"),
            };
            assert_eq!(found, tag);
        }
        subscriber.close();
        assert_eq!(failures, u32::from(read > 300), "{read}");
        let (tags, ends) = with_failures(&named);
        assert!(tags.into_iter().eq(read..600), "{read}");
        assert_eq!(ends.len() + failures as usize, 2, "{read}: {ends:?}");
    }
}

/// Reported at the end of the journal, it is not reported again before what follows.
#[test]
fn failure_at_the_end_is_not_reported_again_once_a_recording_follows() {
    for messages in [0, 300] {
        let place = TestFolder::new();
        let path = place.file("end.olv");
        let named = format!("name=audit&capacity=4KiB&dir={}", place.dir().display());
        let named = uri(&path, &named);
        record_part(&path, 0..messages, Some("the sensor is gone"), "");
        for again in [false, true] {
            let mut subscriber = Subscriber::open(&named).unwrap();
            if !again {
                for tag in 0..messages {
                    assert_eq!(subscriber.receive().unwrap().tag(), tag);
                }
            }
            let error = subscriber.receive().unwrap_err();
            assert!(error.to_string().contains("failed"), "{error}");
            subscriber.close();
        }
        record_part(&path, messages..600, None, "");
        let (tags, ends) = with_failures(&named);
        assert!(tags.into_iter().eq(messages..600));
        assert_eq!(ends, [(600 - messages, String::new())], "{messages}");
    }
}

#[test]
fn follower_gets_the_failure_before_the_next_recording() {
    for messages in [0, 3] {
        let place = TestFolder::new();
        let path = place.file("followed.olv");
        record_part(&path, 0..3, Some("the sensor is gone"), "");
        let mut follower = Subscriber::open(&uri(&path, "follow=yes")).unwrap();
        for tag in 0..3 {
            assert_eq!(follower.receive().unwrap().tag(), tag);
        }
        until("it has the reason", || {
            let note = follower.link_status().unwrap().note;
            note == "the recording failed: the sensor is gone"
        });
        record_part(&path, 3..3 + messages, None, "");
        let (tags, ends) = failures_of(&mut follower);
        assert!(tags.into_iter().eq(3..3 + messages));
        assert_eq!(ends.len(), 2, "{ends:?}");
        assert!(ends[0].1.contains(": the sensor is gone;"), "{ends:?}");
        assert_eq!(ends[0].0, 0);
    }
}

#[test]
fn replay_into_shared_memory_passes_a_failure_on_once_and_goes_on() {
    let place = TestFolder::new();
    let path = place.file("passed.olv");
    record_part(&path, 0..300, Some("the sensor is gone"), "");
    record_part(&path, 300..600, None, "");
    let shm = format!("shm://passed?capacity=4KiB&dir={}", place.dir().display());
    let mut subscriber = Subscriber::open(&shm).unwrap();
    let from = Config::parse(&uri(&path, "")).unwrap();
    let bridge = Bridge::start(&from, &Config::parse(&shm).unwrap(), true).unwrap();
    let (tags, mut ends) = failures_of(&mut subscriber);
    assert!(tags.into_iter().eq(0..600));
    // It comes again until the replay has opened the lane again, as that of a publisher does.
    ends.dedup();
    let at: Vec<u32> = ends.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [300, 600], "{ends:?}");
    assert!(ends[0].1.contains(": the sensor is gone;"), "{ends:?}");
    drop(bridge);
}
