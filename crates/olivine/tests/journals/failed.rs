//! A recorder that fails: readers get its reason, whatever was recorded before.

#![cfg(all(feature = "journal", not(loom)))]

use crate::common::{TestFolder, until};
use crate::file::{record, replay, uri};
use crate::recording::{deliver, fast, frame, lanes, replay_all};
use olivine::journal::{JournalError, Outline, Recorder, Replay, ReplayState};
use olivine::{LinkError, Publisher, ReceiveError, Subscriber};
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

            // The next recorder says so, and mends the end.
            let publisher = Publisher::open(&uri(&path, "")).unwrap();
            let note = publisher.link_status().unwrap().note;
            assert!(note.ends_with("failed: the sensor is gone"), "{note}");
            publisher.close().unwrap();
            let all = replay_all(&path);
            let sealed = ReplayState::Ended { is_sealed: true };
            assert_eq!(all.end.unwrap(), sealed, "{before}, {sent}");
        }
    }
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
    assert_eq!(replay(&uri(&path, "")), [0, 1, 2]);
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
    assert_eq!(*follower.receive().unwrap(), *b"behind");
}
