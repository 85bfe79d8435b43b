//! Damage of a journal with several files: which one the error names, and where reading goes on.

#![cfg(all(feature = "journal", not(loom)))]

use crate::common::{TestFolder, WATCHDOG, chain};
use crate::file::uri;
use crate::recording::{Account, deliver, fast, frame, replay_all, replay_past_damage};
use olivine::journal::{JournalError, Lane, Outline, Recorder, Replay};
use olivine::{LinkError, ReceiveError, Rotation, Subscriber};
use std::path::Path;

/// Three files or more of a journal; the number of the last one.
fn files(path: &Path, seed: u64) -> u64 {
    let settings = fast().rotate(Rotation::by_size(4096));
    let mut recorder = Recorder::open(path, &settings).unwrap();
    let mut account = Account::new(seed);
    for _ in 0..40 {
        account.append(&mut recorder, 3, 200).unwrap();
        recorder.flush().unwrap();
    }
    recorder.close().unwrap();
    (1..)
        .take_while(|n| file_of(path, *n).exists())
        .last()
        .unwrap()
}

/// The file with this number of the journal at `path`.
pub(crate) fn file_of(path: &Path, number: u64) -> std::path::PathBuf {
    format!("{}.{number:06}", path.display()).into()
}

/// Changes two bits of the byte at `at`.
pub(crate) fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    // Readers flip one bit of a header back.
    bytes[at] ^= 5;
    std::fs::write(path, bytes).unwrap();
}

/// The damage of the next file came first, and hid whole blocks behind the one before.
#[test]
fn first_of_two_damages_is_the_error() {
    let place = TestFolder::new();
    let path = place.file("two.olv");
    assert!(files(&path, 1) > 2);
    let first = file_of(&path, 1);
    flip(&first, 80);
    let damage = |path: &Path| deliver(&mut Replay::open(path).unwrap()).end.unwrap_err();
    let alone = damage(&path).to_string();
    flip(&file_of(&path, 2), 8);
    let error = damage(&path);
    assert_eq!(error.to_string(), alone);
    let JournalError::Damaged { path, next, .. } = error else {
        panic!("{alone}");
    };
    assert!(path == first && next.is_some(), "{alone}");
}

/// The error named a position in a file of another journal, and reading there looked like success.
#[test]
fn error_of_damage_names_no_position_in_another_journal() {
    let place = TestFolder::new();
    let (path, other) = (place.file("one.olv"), place.file("other.olv"));
    let last = files(&path, 1).min(files(&other, 2));
    for number in 2..=last {
        std::fs::copy(file_of(&other, number), file_of(&path, number)).unwrap();
    }
    for number in last + 1.. {
        if std::fs::remove_file(file_of(&path, number)).is_err() {
            break;
        }
    }
    let error = deliver(&mut Replay::open(&path).unwrap()).end.unwrap_err();
    let JournalError::Damaged { path, next, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (path, *next),
        (&file_of(&place.file("one.olv"), 2), None),
        "{error}"
    );
}

/// The position of the first frame of this file.
fn start_of(file: &Path) -> u64 {
    let bytes = std::fs::read(file).unwrap();
    u64::from_le_bytes(bytes[40..48].try_into().unwrap())
}

/// No reader could open the journal, also not at a place in a later file.
#[test]
fn damage_of_the_first_header_leaves_later_files_readable() {
    for at in [0, 20] {
        let place = TestFolder::new();
        let path = place.file("first.olv");
        assert!(files(&path, 1) > 2);
        let starts = [1, 2].map(|number| start_of(&file_of(&path, number)));
        let mut replay = Replay::open(&path).unwrap();
        replay.seek_position(starts[0]).unwrap();
        let behind = deliver(&mut replay).messages;
        replay.seek_position(starts[1]).unwrap();
        let later = deliver(&mut replay).messages;
        flip(&path, at);

        let mut replay = Replay::open(&path).unwrap();
        let found = deliver(&mut replay);
        assert!(found.messages.is_empty());
        let is_known = matches!(&found.end, Err(JournalError::Damaged { next, .. })
            if *next == Some(starts[0]));
        assert!(is_known, "{:?}", found.end);
        let skipped = replay.skip_damage().unwrap().unwrap();
        assert_eq!((skipped.offset, skipped.lost_bytes), (64, Some(starts[0])));
        assert_eq!(deliver(&mut replay).messages, behind);
        let mut replay = Replay::open(&path).unwrap();
        replay.seek_position(starts[1]).unwrap();
        assert_eq!(deliver(&mut replay).messages, later);
        // A seek into the lost file comes to the damage, and skips no more than that.
        for seek in [
            |replay: &mut Replay| replay.seek_position(8),
            |replay: &mut Replay| replay.seek_time(0),
        ] {
            seek(&mut replay).unwrap();
            let error = replay.next_run().unwrap_err();
            assert!(matches!(error, JournalError::Damaged { .. }), "{error}");
            let skipped = replay.skip_damage().unwrap().unwrap();
            assert_eq!((skipped.offset, skipped.lost_bytes), (64, Some(starts[0])));
            assert_eq!(deliver(&mut replay).messages, behind);
        }

        let outline = Outline::read(&path).unwrap();
        let damage = outline.damage.unwrap();
        assert!(
            damage.contains("first.olv") && outline.end > starts[1],
            "{damage}"
        );
    }
}

/// A file of messages in frames of 64 bytes, or several.
fn aligned(path: &Path, rotation: Rotation) {
    let settings = fast().rotate(rotation);
    let mut recorder = Recorder::open(path, &settings).unwrap();
    let lane = recorder.lane(&Lane::new("ticks", 0, 64, 1)).unwrap();
    for n in 0..400_u32 {
        let position = recorder.end(lane);
        let bytes = frame(n, &[7; 1000], 64);
        recorder.append(lane, position, n.into(), &bytes).unwrap();
        recorder.flush().unwrap();
    }
    recorder.close().unwrap();
}

/// The replay had no lane, so its ring got another alignment.
#[test]
fn alignment_is_found_behind_a_damaged_header() {
    for (rotation, at) in [
        (Rotation::by_size(4096), 20),
        // That of the block that describes the lane.
        (Rotation::default(), 64 + 30),
    ] {
        let place = TestFolder::new();
        let path = place.file("aligned.olv");
        aligned(&path, rotation);
        flip(&path, at);
        let query = format!("from=position:{}", 390 * 1024);
        let mut subscriber = Subscriber::open(&uri(&path, &query)).unwrap();
        let found = subscriber.receive_timeout(WATCHDOG).unwrap();
        assert_eq!(found.map(|message| message.tag()), Some(390), "{at}");
        let mut subscriber = Subscriber::open(&uri(&path, "")).unwrap();
        let error = subscriber.receive_timeout(WATCHDOG).unwrap_err();
        let ReceiveError::Failed(LinkError::Journal(error)) = &error else {
            panic!("{error}");
        };
        assert_eq!(error.id(), "journal.damaged", "{error}");
    }
}

/// A file without messages, whose header is damaged, hid the failure in it from a reader that goes
/// on behind it.
#[test]
fn damage_before_the_place_of_a_durable_reader_is_an_error() {
    let place = TestFolder::new();
    let path = place.file("resumed.olv");
    let record = |count: u32| {
        let mut recorder = Recorder::open(&path, &fast()).unwrap();
        let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
        for n in 0..count {
            let position = recorder.end(lane);
            let bytes = frame(n, b"eight by", 8);
            recorder.append(lane, position, n.into(), &bytes).unwrap();
            recorder.flush().unwrap();
        }
        recorder
    };
    let mut recorder = record(3);
    recorder.finish_only_by_close();
    drop(recorder);
    let named = uri(&path, &format!("name=reader&dir={}", place.dir().display()));
    let mut subscriber = Subscriber::open(&named).unwrap();
    for _ in 0..3 {
        assert!(subscriber.receive_timeout(WATCHDOG).unwrap().is_some());
    }
    assert!(subscriber.receive_timeout(WATCHDOG).is_err());
    drop(subscriber);
    // The first message, which was read, is damaged: the next recorder begins a file, which has a
    // failure only.
    flip(&path, 280);
    record(0).close_failed("torn").unwrap();
    record(0).close_failed("torn again").unwrap();
    // As the first of the two: the next recorder begins a file.
    flip(&file_of(&path, 1), 64 + 64);
    record(1).close().unwrap();
    assert_eq!(start_of(&file_of(&path, 2)), 3 * 16);
    flip(&file_of(&path, 1), 20);
    let mut subscriber = Subscriber::open(&named).unwrap();
    let error = subscriber.receive_timeout(WATCHDOG).unwrap_err();
    let error = chain(&error);
    assert!(error.contains("resumed.olv.000001 is damaged"), "{error}");
}

/// No message of the file could be read, also not from the position that the error named.
#[test]
fn lanes_are_those_of_the_index_behind_damage_of_their_description() {
    let place = TestFolder::new();
    for (name, rotation) in [
        ("one.olv", Rotation::default()),
        ("many.olv", Rotation::by_size(4096)),
    ] {
        let path = place.file(name);
        aligned(&path, rotation);
        let all = replay_all(&path).messages;
        flip(&path, 64 + 64 + 8);
        let (found, skips) = replay_past_damage(&path);
        assert_eq!((skips.len(), skips[0].lost_bytes), (1, Some(0)));
        assert_eq!(found, all);
        let error = replay_all(&path).end.unwrap_err();
        let is_at_start = matches!(error, JournalError::Damaged { next: Some(0), .. });
        assert!(is_at_start, "{error}");
        let mut replay = Replay::open(&path).unwrap();
        replay.seek_position(0).unwrap();
        let found = deliver(&mut replay);
        assert!(found.end.is_ok(), "{:?}", found.end);
        assert_eq!(found.messages, all);
    }
}

/// Cuts off the index at the end of this file.
fn cut_index(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let seal = bytes.len() - 24;
    let index = u64::from_le_bytes(bytes[seal..seal + 8].try_into().unwrap());
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(index).unwrap();
}

/// Every message of a file without an index was lost.
#[test]
fn lanes_are_those_of_another_block_or_of_an_earlier_file_without_an_index() {
    let place = TestFolder::new();
    let path = place.file("many.olv");
    let last = files(&path, 1);
    let all = replay_all(&path).messages;
    let newest = file_of(&path, last);
    cut_index(&newest);
    flip(&newest, 64 + 64 + 8);
    let (found, skips) = replay_past_damage(&path);
    assert_eq!((skips.len(), skips[0].lost_bytes), (1, Some(0)));
    assert_eq!(found, all);
    // A start in that file finds them, too.
    let mut replay = Replay::open(&path).unwrap();
    let start = start_of(&newest);
    replay.seek_position(start).unwrap();
    let found = deliver(&mut replay);
    assert!(found.end.is_ok(), "{:?}", found.end);
    assert!(!found.messages.is_empty() && all.ends_with(&found.messages));
    // The index of an earlier recording in the file.
    let path = place.file("two.olv");
    let mut account = Account::new(3);
    for _ in 0..2 {
        let mut recorder = Recorder::open(&path, &fast()).unwrap();
        account.append(&mut recorder, 3, 40).unwrap();
        recorder.close().unwrap();
    }
    cut_index(&path);
    flip(&path, 64 + 64 + 8);
    let (found, skips) = replay_past_damage(&path);
    assert_eq!((skips.len(), skips[0].lost_bytes), (1, Some(0)));
    assert_eq!(found, account.messages);
}

/// Each block was another damage, and the last one looked like a torn tail.
#[test]
fn error_of_lanes_that_are_described_nowhere_says_what_is_lost() {
    let place = TestFolder::new();
    let path = place.file("lost.olv");
    aligned(&path, Rotation::default());
    cut_index(&path);
    flip(&path, 64 + 64 + 8);
    let mut replay = Replay::open(&path).unwrap();
    let first = deliver(&mut replay).end.unwrap_err();
    let is_at_start = matches!(first, JournalError::Damaged { next: Some(0), .. });
    assert!(is_at_start, "{first}");
    replay.skip_damage().unwrap().unwrap();
    for _ in 0..2 {
        let error = replay.next_run().unwrap_err();
        let text = error.to_string();
        let is_all = matches!(error, JournalError::Damaged { next: None, lost_bytes, .. }
            if lost_bytes == Some(400 * 1024));
        assert!(is_all, "{text}");
        assert!(
            text.contains("409600 bytes of frames behind it are lost"),
            "{text}"
        );
        assert!(
            text.contains("a lane whose description is damaged"),
            "{text}"
        );
        assert_eq!(replay.skip_damage().unwrap(), None);
    }
}

/// A seek by position passed it, one by time was refused, however far it was from the damage.
#[test]
fn seek_by_time_passes_damage_like_one_by_position() {
    let place = TestFolder::new();
    for has_index in [true, false] {
        let path = place.file(&format!("{has_index}.olv"));
        let mut recorder = Recorder::open(&path, &fast()).unwrap();
        let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
        let mut ends = Vec::new();
        for n in 0..9 {
            let end = recorder.end(lane);
            let run = frame(n, b"a message", 8);
            recorder
                .append(lane, end, 100 + 10 * u64::from(n), &run)
                .unwrap();
            recorder.flush().unwrap();
            ends.push(std::fs::metadata(&path).unwrap().len());
        }
        recorder.close().unwrap();
        if !has_index {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_len(ends[8]).unwrap();
        }
        // The header of the third block of frames.
        flip(&path, usize::try_from(ends[1]).unwrap() + 8);
        let from = |time: u64| {
            let mut replay = Replay::open(&path).unwrap();
            replay.seek_time(time).unwrap();
            replay
        };
        let tags = |replay: &mut Replay| {
            let found = deliver(replay);
            let tags: Vec<u32> = found.messages.iter().map(|message| message.tag).collect();
            (tags, found.end)
        };
        for (time, first) in [(131, 4), (140, 4), (141, 5), (180, 8)] {
            let (found, end) = tags(&mut from(time));
            assert_eq!(found, Vec::from_iter(first..9), "{time}: {end:?}");
            assert!(end.is_ok(), "{time}: {end:?}");
        }
        // Lost messages may be from that time on.
        for (time, before) in [
            (0, vec![0, 1]),
            (101, vec![1]),
            (111, vec![]),
            (130, vec![]),
        ] {
            let mut replay = from(time);
            let (found, end) = tags(&mut replay);
            assert_eq!(found, before, "{time}");
            let is_known = matches!(end, Err(JournalError::Damaged { next: Some(next), .. })
                if next == 3 * u64::try_from(frame(0, b"a message", 8).len()).unwrap());
            assert!(is_known, "{time}: {end:?}");
            replay.skip_damage().unwrap().unwrap();
            let (found, end) = tags(&mut replay);
            assert_eq!(found, Vec::from_iter(3..9), "{time}: {end:?}");
        }
    }
}

/// It said that everything before was delivered, where nothing was.
#[test]
fn error_of_a_damaged_header_says_that_the_file_cannot_be_read() {
    let place = TestFolder::new();
    let path = place.file("lone.olv");
    aligned(&path, Rotation::default());
    flip(&path, 20);
    let reading = Replay::open(&path).unwrap_err().to_string();
    assert!(
        reading.contains("no block of this file can be read"),
        "{reading}"
    );
    let recording = Recorder::open(&path, &fast()).unwrap_err().to_string();
    assert_eq!(recording, reading);
}

/// Reading on behind damage of the last messages comes to a clean end, and nothing said how many
/// bytes are missing.
#[test]
fn error_of_damage_says_how_many_bytes_are_lost() {
    let place = TestFolder::new();
    let path = place.file("last.olv");
    aligned(&path, Rotation::default());
    let all = replay_all(&path).messages;
    // The last message.
    let bytes = std::fs::read(&path).unwrap();
    let last = bytes.windows(8).rposition(|part| part == [7; 8]).unwrap();
    flip(&path, last);
    let found = replay_all(&path);
    assert_eq!(found.messages, all[..399]);
    let error = found.end.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("; 1024 bytes of frames between are lost"),
        "{text}"
    );
    let JournalError::Damaged {
        next, lost_bytes, ..
    } = error
    else {
        panic!("{text}");
    };
    assert_eq!((next, lost_bytes), (Some(400 * 1024), Some(1024)));
}
