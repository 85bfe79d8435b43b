//! Guarantees of an undamaged journal.

#![cfg(all(feature = "journal", not(loom)))]

#[path = "../common/mod.rs"]
mod common;
mod damage;
mod damaged_files;
mod failed;
mod failures;
mod file;
mod places;
#[path = "../common/recording.rs"]
mod recording;
mod removed;
mod shifted;
mod times;
mod types;

use common::{TestFolder, until};
use olivine::journal::{
    JournalError, KnownType, Lane, Recorder, RecorderSettings, Replay, ReplayState,
};
use olivine::{Compression, Rotation, SyncPolicy};
use recording::{Account, deliver, fast, frame, lanes, packings, replay_all};
use std::time::Duration;

/// The other processes of [`damage`].
#[test]
fn role() {
    if let Some(role) = common::my_role() {
        damage::play(&role);
    }
}

/// Any appended runs, in any pieces, with any closes and files, are replayed unchanged, from the
/// start and from any position and time.
#[test]
fn replay_returns_the_recording_from_any_start() {
    for seed in 0..30 {
        let place = TestFolder::new();
        let path = place.file("any.olv");
        let mut account = Account::new(seed);
        let packings = packings();
        let settings = fast()
            .compress(packings[usize::try_from(seed).unwrap() % packings.len()])
            .rotate(match seed % 3 {
                0 => Rotation::NEVER,
                1 => Rotation::by_size(4096),
                _ => Rotation::by_size(64 << 10),
            });
        for _session in 0..1 + account.random.below(4) {
            let mut recorder = Recorder::open(&path, &settings).unwrap();
            assert_eq!(recorder.recovered(), None, "seed {seed}");
            assert_eq!(
                recorder.position(),
                *account.positions.last().unwrap(),
                "seed {seed}"
            );
            for _ in 0..account.random.below(20) {
                let longest = [20, 300, 9_000][usize::try_from(account.random.below(3)).unwrap()];
                account.append(&mut recorder, 40, longest).unwrap();
                if account.random.below(3) == 0 {
                    recorder.flush().unwrap();
                }
            }
            if account.random.below(2) == 0 {
                recorder.close().unwrap();
            }
        }
        let all = replay_all(&path);
        assert_eq!(all.messages, account.messages, "seed {seed}");
        let sealed = ReplayState::Ended { is_sealed: true };
        assert!(
            matches!(&all.end, Ok(state) if *state == sealed),
            "seed {seed}: {:?}",
            all.end
        );
        for _ in 0..20 {
            let mut replay = Replay::open(&path).unwrap();
            let end = *account.positions.last().unwrap();
            let from = account.random.below(end + 100);
            replay.seek_position(from).unwrap();
            let first = account
                .positions
                .partition_point(|position| *position < from);
            let expected = account.messages.get(first..).unwrap_or_default();
            assert_eq!(
                deliver(&mut replay).messages,
                expected,
                "seed {seed} position {from}"
            );

            let from = account.random.below(account.time_ns + 2_000);
            replay.seek_time(from).unwrap();
            let first = account
                .messages
                .partition_point(|message| message.time_ns < from);
            assert_eq!(
                deliver(&mut replay).messages,
                account.messages[first..],
                "seed {seed} time {from}"
            );
            replay.seek_end().unwrap();
            assert_eq!(deliver(&mut replay).messages, [], "seed {seed}");
            assert_eq!(replay.position(), end, "seed {seed}");
        }
    }
}

#[test]
fn second_recorder_is_refused() {
    let place = TestFolder::new();
    let path = place.file("one.olv");
    let settings = fast().rotate(Rotation::by_size(4096));
    let mut first = Recorder::open(&path, &settings).unwrap();
    let mut account = Account::new(7);
    for _ in 0..50 {
        let error = Recorder::open(&path, &settings).unwrap_err();
        assert!(matches!(error, JournalError::InUse { .. }), "{error}");
        account.append(&mut first, 10, 500).unwrap();
        first.flush().unwrap();
    }
    assert!(first.stats().files > 5);
    drop(first);
    let mut second = Recorder::open(&path, &settings).unwrap();
    account.append(&mut second, 10, 500).unwrap();
    second.close().unwrap();
    assert_eq!(replay_all(&path).messages, account.messages);
}

#[test]
fn frames_appended_twice_are_recorded_once_and_gaps_are_counted() {
    let place = TestFolder::new();
    let path = place.file("twice.olv");
    let [lane, ..] = lanes();
    let run: Vec<u8> = (0..10_u8)
        .flat_map(|n| frame(n.into(), &[n; 5], 8))
        .collect();
    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    let id = recorder.lane(&lane).unwrap();
    recorder.append(id, 160, 1, &run[..48]).unwrap();
    drop(recorder);

    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    let id = recorder.lane(&lane).unwrap();
    assert_eq!(recorder.end(id), 208);
    recorder.append(id, 160, 2, &run).unwrap();
    recorder.append(id, 160, 3, &run).unwrap();
    recorder.append(id, 400, 4, &run[..16]).unwrap();
    let cut = recorder.append(id, 408, 5, &run[..32]).unwrap_err();
    assert!(
        matches!(cut, JournalError::Frames { offset: 16, .. }),
        "{cut}"
    );
    // The same lane of another incarnation of the channel starts over.
    let again = Lane::new("ticks", 0, 8, 12);
    let id = recorder.lane(&again).unwrap();
    recorder.append(id, 0, 6, &run[..16]).unwrap();
    let stats = recorder.close().unwrap();
    assert_eq!(
        (stats.messages, stats.repeated_bytes, stats.missed_bytes),
        (9, 48 + 160, 80)
    );
    let tags: Vec<u32> = replay_all(&path).messages.iter().map(|m| m.tag).collect();
    assert_eq!(tags, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0]);
}

/// What each run misses before it: journal position and bytes.
fn holes(replay: &mut Replay) -> Vec<(u64, u64)> {
    let mut holes = Vec::new();
    while let Some(run) = replay.next_run().unwrap() {
        if run.missed_bytes > 0 {
            holes.push((run.journal_position, run.missed_bytes));
        }
    }
    holes
}

/// It was counted by the recorder, and nothing in the journal showed it.
#[test]
fn hole_is_found_from_any_start_before_it() {
    let closed = |recorder: Recorder| {
        recorder.close().unwrap();
    };
    for (rotation, end_file) in [
        (Rotation::NEVER, None),
        (Rotation::NEVER, Some(closed as fn(Recorder))),
        (Rotation::by_size(4096), Some(closed as fn(Recorder))),
    ] {
        for packing in packings() {
            let place = TestFolder::new();
            let path = place.file("hole.olv");
            let settings = fast().rotate(rotation).compress(packing);
            let [lane, other, _] = lanes();
            let mut recorder = Recorder::open(&path, &settings).unwrap();
            let (mut ends, mut position, mut expected) = ([4096, 0], 0, Vec::new());
            for n in 0..40_u32 {
                if n % 8 == 4 {
                    if let Some(end_file) = end_file {
                        end_file(recorder);
                        recorder = Recorder::open(&path, &settings).unwrap();
                    }
                    // A hole in the first lane; the second one begins in the middle, without any.
                    ends[0] += u64::from(n) * 16;
                    expected.push((position, u64::from(n) * 16));
                }
                let bytes = frame(n, &[7; 400], 8);
                for (place, lane) in [&lane, &other].into_iter().enumerate() {
                    if place == 1 && n < 20 {
                        continue;
                    }
                    let id = recorder.lane(lane).unwrap();
                    recorder.append(id, ends[place], n.into(), &bytes).unwrap();
                    recorder.flush().unwrap();
                    ends[place] += bytes.len() as u64;
                    position += bytes.len() as u64;
                }
            }
            recorder.close().unwrap();
            let mut replay = Replay::open(&path).unwrap();
            assert_eq!(holes(&mut replay), expected, "{rotation:?} {packing}");
            for from in (0..position).step_by(8) {
                replay.seek_position(from).unwrap();
                let left = expected.partition_point(|(at, _)| *at < from);
                assert_eq!(holes(&mut replay), expected[left..], "position {from}");
            }
            for from in 0..40 {
                replay.seek_time(from).unwrap();
                let left = expected.len() - (4..40).step_by(8).filter(|n| *n >= from).count();
                assert_eq!(holes(&mut replay), expected[left..], "time {from}");
            }
        }
    }
}

#[test]
fn invalid_runs_are_refused_whole() {
    let place = TestFolder::new();
    let mut recorder = Recorder::open(&place.file("bad.olv"), &fast()).unwrap();
    let id = recorder.lane(&lanes()[0]).unwrap();
    let good = frame(1, b"hello", 8);
    let with = |tail: &[u8]| [&good, tail].concat();
    for (run, offset) in [
        (with(&[0; 8]), 16),
        (with(&[7, 0, 0, 0, 0, 0, 0, 0]), 16),
        (with(&[9, 0, 0, 0]), 16),
        (with(&[24, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]), 16),
        (with(&[0xff; 16]), 16),
        (good[..13].to_vec(), 0),
    ] {
        match recorder.append(id, 0, 1, &run).unwrap_err() {
            JournalError::Frames { offset: found, .. } => assert_eq!(found, offset, "{run:?}"),
            other => panic!("{run:?}: {other}"),
        }
    }
    assert_eq!((recorder.position(), recorder.end(id)), (0, 0));
    assert!(recorder.append(id, u64::MAX - 7, 1, &good).is_err());
}

#[test]
fn lanes_and_settings_that_cannot_be_stored_are_refused() {
    let place = TestFolder::new();
    let path = place.file("set.olv");
    for settings in [
        RecorderSettings::default().mode(0o777),
        RecorderSettings::default().mode(0o060),
        RecorderSettings::default().compress(Compression::Zstd(20)),
    ] {
        let error = Recorder::open(&path, &settings).unwrap_err();
        assert!(matches!(error, JournalError::Value { .. }), "{error}");
        assert!(!path.exists());
    }
    if !cfg!(feature = "zstd") {
        let settings = fast().compress(Compression::Zstd(1));
        let error = Recorder::open(&path, &settings).unwrap_err();
        assert!(matches!(error, JournalError::NoZstd { .. }), "{error}");
        assert!(!path.exists());
    }
    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    for lane in [
        Lane::new("", 0, 8, 0),
        Lane::new("a\nb", 0, 8, 0),
        Lane::new(&"n".repeat(1025), 0, 8, 0),
        Lane::new("a", 0, 4, 0),
        Lane::new("a", 0, 24, 0),
        Lane::new("a", 0, 8, 0).typed(KnownType::new(1, "\u{1b}[2J", "")),
    ] {
        let error = recorder.lane(&lane).unwrap_err();
        assert!(matches!(error, JournalError::Value { .. }), "{error}");
    }
}

/// The check comes again with the first frame of a lane.
#[test]
fn lanes_of_two_types_cannot_both_be_filled() {
    let place = TestFolder::new();
    let path = place.file("two.olv");
    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    let bytes = Lane::new("ticks", 0, 8, 1);
    let values = Lane::new("ticks", 1, 8, 1).typed(KnownType::new(9, "quote v1", ""));
    let ids = [&bytes, &values].map(|lane| recorder.lane(lane).unwrap());
    let one = frame(1, &[0; 8], 8);
    recorder.append(ids[1], 0, 1, &one).unwrap();
    let error = recorder.append(ids[0], 0, 2, &one).unwrap_err();
    assert!(
        matches!(&error, JournalError::Value { value, .. }
            if value.contains("untyped bytes") && value.contains("quote v1")),
        "{error}"
    );
    recorder.lane(&Lane::new("ticks", 2, 8, 1)).unwrap_err();
    recorder.append(ids[1], 16, 3, &one).unwrap();
    assert_eq!(recorder.stats().messages, 2);
    recorder.close().unwrap();
    // The next recorder knows the empty lane, and refuses it at once.
    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    recorder.lane(&bytes).unwrap_err();
    let id = recorder.lane(&values).unwrap();
    assert_eq!(recorder.end(id), 32);
    recorder.close().unwrap();
    let messages = replay_all(&path).messages;
    assert!(messages.iter().all(|message| message.publisher == 1));
    assert_eq!(messages.len(), 2);
}

#[test]
fn files_are_private_and_follow_no_link() {
    use std::os::unix::fs::PermissionsExt;
    let place = TestFolder::new();
    let path = place.file("mine.olv");
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    drop(Recorder::open(&path, &fast()).unwrap());
    assert_eq!(mode(&path), 0o600);
    let shared = place.file("shared.olv");
    drop(Recorder::open(&shared, &fast().mode(0o664)).unwrap());
    assert_eq!(mode(&shared), 0o664);

    let link = place.file("link.olv");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let error = Recorder::open(&link, &fast()).unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    assert!(
        Replay::open(&link).is_ok(),
        "reading by a link does no harm"
    );
    for (name, problem) in [("folder", "folder"), ("fifo", "not a regular file")] {
        let path = place.file(name);
        if name == "folder" {
            std::fs::create_dir(&path).unwrap();
        } else {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        }
        let error = Replay::open(&path).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        assert!(Recorder::open(&path, &fast()).is_err(), "{name}");
    }
    let text = place.file("text");
    std::fs::write(&text, "x".repeat(500)).unwrap();
    for error in [
        Replay::open(&text).map(drop),
        Recorder::open(&text, &fast()).map(drop),
    ] {
        let error = error.unwrap_err();
        assert!(matches!(error, JournalError::NotAJournal { .. }), "{error}");
    }
    assert_eq!(std::fs::read(&text).unwrap(), "x".repeat(500).into_bytes());
    let missing = Replay::open(&place.file("nothing")).unwrap_err();
    assert!(matches!(missing, JournalError::Missing { .. }), "{missing}");
    let nowhere = Recorder::open(&place.file("no/where.olv"), &fast()).unwrap_err();
    assert!(matches!(nowhere, JournalError::Io { .. }), "{nowhere}");
    // An empty file that another process created counts as no file.
    let empty = place.file("empty.olv");
    std::fs::write(&empty, "").unwrap();
    drop(Recorder::open(&empty, &fast()).unwrap());
    assert_eq!(replay_all(&empty).messages, []);
}

/// Each message is delivered as soon as it was flushed, across files, and none before.
#[test]
fn a_growing_journal_is_followed() {
    let place = TestFolder::new();
    let path = place.file("live.olv");
    let settings = fast().rotate(Rotation::by_size(8192));
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    let mut replay = Replay::open(&path).unwrap();
    let mut account = Account::new(3);
    let mut seen = 0;
    for step in 0..300 {
        account.append(&mut recorder, 5, 200).unwrap();
        assert_eq!(
            deliver(&mut replay).messages,
            [],
            "step {step}: not flushed yet"
        );
        recorder.flush().unwrap();
        let now = deliver(&mut replay);
        assert_eq!(now.messages, account.messages[seen..], "step {step}");
        assert!(
            matches!(now.end, Ok(ReplayState::Growing)),
            "step {step}: {:?}",
            now.end
        );
        seen = account.messages.len();
    }
    assert!(recorder.stats().files > 3);
}

#[test]
fn waiting_replay_is_woken_by_the_recorder() {
    let place = TestFolder::new();
    let path = place.file("wake.olv");
    let mut recorder = Recorder::open(&path, &fast().rotate(Rotation::by_size(4096))).unwrap();
    let [lane, ..] = lanes();
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut replay = Replay::open(&path).unwrap();
            let mut messages = Vec::new();
            until("everything is replayed", || {
                messages.extend(deliver(&mut replay).messages);
                if messages.len() < 500 {
                    replay.wait(Duration::from_secs(1)).unwrap();
                }
                messages.len() == 500
            });
            messages
        });
        let id = recorder.lane(&lane).unwrap();
        let mut end = 0;
        for n in 0..500_u32 {
            let bytes = frame(n, &n.to_le_bytes(), 8);
            recorder.append(id, end, n.into(), &bytes).unwrap();
            recorder.flush().unwrap();
            end += bytes.len() as u64;
        }
        let messages = follower.join().unwrap();
        assert!(messages.iter().map(|m| m.tag).eq(0..500));
    });
}

#[test]
fn rotation_by_time_begins_a_file_when_the_last_is_old() {
    let place = TestFolder::new();
    let path = place.file("old.olv");
    let settings = fast().rotate(Rotation::by_time(Duration::from_nanos(1)));
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    let mut account = Account::new(5);
    for _ in 0..10 {
        account.append(&mut recorder, 3, 50).unwrap();
        recorder.flush().unwrap();
    }
    assert_eq!(recorder.close().unwrap().files, 10);
    assert!(place.file("old.olv.000009").exists());
    assert_eq!(replay_all(&path).messages, account.messages);
    // The oldest files may be removed: the rest is delivered.
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(place.file("old.olv.000001")).unwrap();
    let left = replay_all(&path);
    assert!(left.end.is_ok() && account.messages.ends_with(&left.messages));
    assert!(!left.messages.is_empty());
    // A file in the middle may not: this is an error.
    std::fs::remove_file(place.file("old.olv.000005")).unwrap();
    let error = replay_all(&path).end.unwrap_err();
    assert!(error.to_string().contains("blocks are missing"), "{error}");
}

#[test]
fn each_policy_syncs_as_promised() {
    for (policy, expected) in [
        (SyncPolicy::Never, 0..=0),
        (SyncPolicy::Interval(Duration::from_secs(3600)), 1..=1),
        (SyncPolicy::Interval(Duration::from_nanos(1)), 10..=11),
        (SyncPolicy::Block, 10..=11),
    ] {
        let place = TestFolder::new();
        let path = place.file("sync.olv");
        let mut recorder = Recorder::open(&path, &fast().sync(policy)).unwrap();
        let mut account = Account::new(9);
        for _ in 0..10 {
            account.append(&mut recorder, 3, 50).unwrap();
            recorder.flush().unwrap();
        }
        let syncs = recorder.close().unwrap().syncs;
        assert!(expected.contains(&syncs), "{policy}: {syncs}");
    }
}

#[test]
fn large_runs_and_a_message_as_long_as_a_ring_are_recorded() {
    for packing in packings() {
        let place = TestFolder::new();
        let path = place.file("large.olv");
        let mut recorder = Recorder::open(&path, &fast().compress(packing)).unwrap();
        let [lane, ..] = lanes();
        let id = recorder.lane(&lane).unwrap();
        let mut end = 0;
        for length in [10, 300_000, 20, 4 << 20, 30] {
            let bytes = frame(1, &vec![7; length], 8);
            recorder.append(id, end, 1, &bytes).unwrap();
            end += bytes.len() as u64;
        }
        recorder.close().unwrap();
        let found = replay_all(&path);
        let lengths: Vec<usize> = found.messages.iter().map(|m| m.payload.len()).collect();
        assert_eq!(lengths, [10, 300_000, 20, 4 << 20, 30], "{packing}");
        assert!(
            found
                .messages
                .iter()
                .all(|m| m.payload.iter().all(|byte| *byte == 7))
        );
    }
}

/// The bytes of a small journal: a change of them is a change of the format.
#[test]
fn format_matches_the_golden_bytes() {
    let place = TestFolder::new();
    let path = place.file("golden.olv");
    // Its first file continues in a second one, which is closed in order.
    let settings = fast()
        .rotate(Rotation::by_size(4096))
        .journal(0x0102_0304_0506_0708);
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    let [first, second, third] = lanes();
    for (lane, position, time_ns, payload) in [
        (&first, 0, 1_000_000_001, &b"one"[..]),
        (&second, 4096, 1_000_000_002, b"two, longer"),
        (&first, 16, 1_000_000_003, b""),
        (&third, 64, 1_000_000_003, b"order"),
        (&first, 32, 1_000_000_004, &[7; 3600]),
    ] {
        let id = recorder.lane(lane).unwrap();
        let bytes = frame(0xabcd, payload, lane.align as usize);
        recorder.append(id, position, time_ns, &bytes).unwrap();
        if position >= 4096 || payload.len() > 1000 {
            recorder.flush().unwrap();
        }
    }
    recorder.close().unwrap();
    let golden = format!("{}/tests/golden/journal-5.olv", env!("CARGO_MANIFEST_DIR"));
    for next in ["", ".000001"] {
        let found = std::fs::read(format!("{}{next}", path.display())).unwrap();
        let expected = std::fs::read(format!("{golden}{next}")).unwrap_or_default();
        assert!(
            found == expected,
            "the format changed: raise FORMAT_VERSION and write these bytes as \
            journal-(version).olv{next}: {found:02x?}"
        );
    }
    assert!(!place.file("golden.olv.000002").exists());
    let messages = replay_all(golden.as_ref()).messages;
    let payloads: Vec<&[u8]> = messages.iter().map(|m| &m.payload[..]).collect();
    let long = [7; 3600];
    assert_eq!(
        payloads,
        [&b"one"[..], b"two, longer", b"", b"order", &long]
    );
}

/// Version 1 ended each file with the same words, so a missing newest file was invisible. In
/// version 2 the type of the lane, not the frame headers, said that messages have topics. In
/// version 3 a lane had no fields of its type. Version 4 had no failures, and is read.
#[test]
fn another_version_is_refused_by_name() {
    for version in [1, 2, 3, 9] {
        refuses(version);
    }
}

fn refuses(version: u8) {
    let place = TestFolder::new();
    let path = place.file("new.olv");
    drop(Recorder::open(&path, &fast()).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = version;
    bytes[12..16].fill(0);
    let check = crc32c::crc32c(&bytes[..64]);
    bytes[12..16].copy_from_slice(&check.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    for result in [
        Replay::open(&path).map(drop),
        Recorder::open(&path, &fast()).map(drop),
    ] {
        let error = result.unwrap_err();
        let expected = matches!(
            error,
            JournalError::Version {
                found,
                expected: 5,
                ..
            } if found == u32::from(version)
        );
        assert!(expected, "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}
