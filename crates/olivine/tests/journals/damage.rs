//! A journal that was cut, flipped, filled with garbage, or left by a killed recorder: nothing
//! wrong is ever delivered, and whole blocks stay readable.

#![cfg(all(feature = "journal", not(loom)))]

use crate::common;
use crate::common::{Random, TestFolder, setting, spawn, until};
use crate::recording::{
    Account, Recorded, deliver, fast, frame, lanes, packings, replay_all, replay_past_damage,
};
use olivine::journal::{JournalError, Recorder, Replay, ReplayState};
use olivine::{Compression, NotSent, Publisher, ReceiveError, Rotation, Subscriber, SyncPolicy};
use std::path::Path;

/// A small journal in one file, its messages, and the number of whole ones at each byte.
struct Small {
    bytes: Vec<u8>,
    messages: Vec<Recorded>,
    /// Ends of blocks in the file, and messages delivered up to there.
    whole: Vec<(usize, usize)>,
}

fn small(packing: Compression) -> Small {
    let place = TestFolder::new();
    let path = place.file("small.olv");
    let mut account = Account::new(1);
    let mut whole = vec![(64, 0)];
    let length = |path: &Path| usize::try_from(std::fs::metadata(path).unwrap().len()).unwrap();
    for _session in 0..2 {
        let mut recorder = Recorder::open(&path, &fast().compress(packing)).unwrap();
        for _ in 0..4 {
            account.append(&mut recorder, 3, 40).unwrap();
            let before = length(&path);
            recorder.flush().unwrap();
            let (lanes, blocks) = blocks_between(&std::fs::read(&path).unwrap(), before);
            let count = whole.last().unwrap().1;
            whole.extend(lanes.into_iter().map(|end| (end, count)));
            whole.push((blocks, account.messages.len()));
        }
        recorder.close().unwrap();
        whole.push((length(&path), account.messages.len()));
    }
    Small {
        bytes: std::fs::read(&path).unwrap(),
        messages: account.messages,
        whole,
    }
}

/// Ends of the blocks that start at `from`: all but the last, and the last.
fn blocks_between(bytes: &[u8], from: usize) -> (Vec<usize>, usize) {
    let mut ends = Vec::new();
    let mut at = from;
    while at < bytes.len() {
        let stored = u64::from_le_bytes(bytes[at + 40..at + 48].try_into().unwrap());
        at += 64 + usize::try_from(stored).unwrap();
        ends.push(at);
    }
    let last = ends.pop().unwrap();
    (ends, last)
}

/// Whether the messages are recorded ones in the order of the recording, possibly with gaps.
fn is_part_of(found: &[Recorded], all: &[Recorded]) -> bool {
    let mut rest = all.iter();
    found
        .iter()
        .all(|message| rest.any(|recorded| recorded == message))
}

#[test]
fn file_cut_at_any_byte_delivers_every_whole_block() {
    for packing in packings() {
        let small = small(packing);
        let place = TestFolder::new();
        let path = place.file("cut.olv");
        for cut in 0..=small.bytes.len() {
            std::fs::write(&path, &small.bytes[..cut]).unwrap();
            let found = replay_all(&path);
            if cut < 64 {
                let error = found.end.unwrap_err();
                assert!(
                    matches!(error, JournalError::NotAJournal { .. }),
                    "byte {cut}: {error}"
                );
                continue;
            }
            let (end, count) = *small.whole.iter().rfind(|(end, _)| *end <= cut).unwrap();
            assert_eq!(found.messages, small.messages[..count], "byte {cut}");
            match found.end.unwrap() {
                ReplayState::Torn(torn) => {
                    assert_eq!((torn.offset, torn.bytes), (end as u64, (cut - end) as u64));
                }
                ReplayState::Ended { .. } => assert_eq!(cut, end, "a tail without a report"),
                other => panic!("byte {cut}: {other:?}"),
            }
            // The next recorder continues after the last whole block.
            let mut recorder = Recorder::open(&path, &fast()).unwrap();
            let torn = recorder.recovered().and_then(|found| found.torn.clone());
            assert_eq!(
                torn.map_or(0, |torn| torn.bytes),
                (cut - end) as u64,
                "byte {cut}"
            );
            let id = recorder.lane(&lanes()[1]).unwrap();
            let at = recorder.end(id);
            recorder
                .append(id, at, 1 << 40, &frame(77, b"after the cut", 8))
                .unwrap();
            recorder.close().unwrap();
            let found = replay_all(&path);
            assert!(found.end.is_ok(), "byte {cut}: {:?}", found.end);
            let (last, before) = found.messages.split_last().unwrap();
            assert_eq!(
                (last.tag, before),
                (77, &small.messages[..count]),
                "byte {cut}"
            );
        }
    }
}

#[test]
fn flipped_byte_is_reported_and_never_delivered() {
    for packing in packings() {
        let small = small(packing);
        let place = TestFolder::new();
        let path = place.file("flip.olv");
        for at in 0..small.bytes.len() {
            for bit in 0..8 {
                let mut bytes = small.bytes.clone();
                bytes[at] ^= 1 << bit;
                std::fs::write(&path, &bytes).unwrap();
                let found = replay_all(&path);
                if at < 64 {
                    // A bit of the file's header: readers flip it back.
                    assert_eq!(found.messages, small.messages, "byte {at} bit {bit}");
                    assert!(found.end.is_ok(), "byte {at} bit {bit}: {:?}", found.end);
                    continue;
                }
                assert!(
                    small.messages.starts_with(&found.messages),
                    "byte {at} bit {bit}"
                );
                let reported = match &found.end {
                    Ok(state) => matches!(state, ReplayState::Torn(_)),
                    Err(_) => true,
                };
                assert!(reported, "byte {at} bit {bit}: {:?}", found.end);
                let block = small.whole.iter().rfind(|(end, _)| *end <= at);
                let count = block.map_or(0, |(_, count)| *count);
                assert_eq!(found.messages.len(), count, "byte {at} bit {bit}");
                let (past, skips) = replay_past_damage(&path);
                assert!(is_part_of(&past, &small.messages), "byte {at} bit {bit}");
                let damaged = matches!(found.end, Err(JournalError::Damaged { offset: 1.., .. }));
                assert!(
                    !damaged || !skips.is_empty(),
                    "byte {at} bit {bit}: nothing skipped"
                );
            }
        }
    }
}

/// Everything that the journal at `path` delivers, read again behind each damage from the position
/// that its error names.
fn follow_errors(path: &Path) -> (Vec<Recorded>, Vec<u64>) {
    let (mut messages, mut positions) = (Vec::new(), Vec::new());
    let mut replay = Replay::open(path).unwrap();
    loop {
        let part = deliver(&mut replay);
        messages.extend(part.messages);
        let next = match part.end {
            Err(JournalError::Damaged { next, .. }) => next,
            Ok(_) => None,
            Err(error) => panic!("{error}"),
        };
        let Some(next) = next else {
            return (messages, positions);
        };
        assert!(positions.last().is_none_or(|last| *last < next), "{next}");
        positions.push(next);
        replay = Replay::open(path).unwrap();
        replay.seek_position(next).unwrap();
    }
}

#[test]
fn error_of_damage_names_the_position_where_reading_goes_on() {
    for packing in packings() {
        let small = small(packing);
        let place = TestFolder::new();
        let path = place.file("flip.olv");
        let mut named = 0;
        // Without the index at the end, too.
        for end in [small.bytes.len(), small.whole[small.whole.len() - 2].0] {
            for at in 64..end {
                let mut bytes = small.bytes[..end].to_vec();
                bytes[at] ^= 4;
                std::fs::write(&path, &bytes).unwrap();
                let (past, skips) = replay_past_damage(&path);
                let (found, positions) = follow_errors(&path);
                assert!(is_part_of(&found, &small.messages), "byte {at} of {end}");
                assert!(is_part_of(&past, &found), "byte {at} of {end}");
                assert_eq!(positions.is_empty(), skips.is_empty(), "byte {at} of {end}");
                named += positions.len();
            }
        }
        assert!(named > 1000, "{named}");
    }
}

/// Whole blocks are never overwritten: after damage, recording continues in the next file.
#[test]
fn recorder_keeps_damage_and_later_blocks() {
    let small = small(Compression::No);
    let place = TestFolder::new();
    for at in (64..small.bytes.len()).step_by(7) {
        let path = place.file(&format!("left-{at}.olv"));
        let mut bytes = small.bytes.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        let (before, _) = replay_past_damage(&path);
        let mut recorder = Recorder::open(&path, &fast()).unwrap();
        let id = recorder.lane(&lanes()[1]).unwrap();
        let position = recorder.end(id);
        recorder
            .append(id, position, 1 << 40, &frame(77, b"after", 8))
            .unwrap();
        recorder.close().unwrap();
        let (after, _) = replay_past_damage(&path);
        let (last, rest) = after.split_last().unwrap();
        assert_eq!((last.tag, rest), (77, &before[..]), "byte {at}");
    }
}

/// Random bytes, and pieces of journals in any order, with valid and invalid checksums.
#[test]
fn random_files_never_crash_or_deliver() {
    let small = small(Compression::No);
    let place = TestFolder::new();
    let path = place.file("nonsense.olv");
    for seed in 0..setting("OLIVINE_SEEDS", 400) {
        let mut random = Random(seed);
        let mut bytes = small.bytes.clone();
        for _ in 0..1 + random.below(4) {
            let mut at = |length: usize| usize::try_from(random.below(length as u64 + 1)).unwrap();
            let (from, to) = (at(bytes.len()), at(bytes.len()));
            let (from, to) = (from.min(to), from.max(to));
            let piece = bytes[from..to].to_vec();
            let place = at(bytes.len());
            match at(4) {
                0 => drop(bytes.splice(place..place, piece)),
                1 => drop(bytes.drain(from..to)),
                2 => bytes[from..to].fill(0),
                3 => bytes[from..to].reverse(),
                _ => bytes.truncate(to),
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        let (found, _) = replay_past_damage(&path);
        assert!(is_part_of(&found, &small.messages), "seed {seed}");
        if let Ok(mut replay) = Replay::open(&path) {
            let _ = replay.seek_position(random.below(1000));
            assert!(
                is_part_of(&deliver(&mut replay).messages, &small.messages),
                "seed {seed}"
            );
            let _ = replay.seek_time(random.below(10_000));
            assert!(
                is_part_of(&deliver(&mut replay).messages, &small.messages),
                "seed {seed}"
            );
            let _ = replay.seek_end();
        }
        if let Ok(recorder) = Recorder::open(&path, &fast()) {
            drop(recorder);
        }
        for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
}

/// Every file of a journal except the last has its index: a cut there is damage, and the rest stays
/// readable.
#[test]
fn damage_in_one_file_keeps_the_others_readable() {
    let place = TestFolder::new();
    let path = place.file("many.olv");
    let settings = fast().rotate(Rotation::by_size(4096));
    let mut account = Account::new(2);
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    while recorder.stats().files < 4 {
        account.append(&mut recorder, 5, 100).unwrap();
        recorder.flush().unwrap();
    }
    recorder.close().unwrap();
    let second = place.file("many.olv.000001");
    let whole = std::fs::read(&second).unwrap();
    for cut in (0..whole.len()).step_by(97) {
        std::fs::write(&second, &whole[..cut]).unwrap();
        let found = replay_all(&path);
        assert!(
            account.messages.starts_with(&found.messages),
            "cut at {cut}"
        );
        assert!(found.end.is_err(), "cut at {cut}: {:?}", found.end);
        let (past, _) = replay_past_damage(&path);
        assert!(is_part_of(&past, &account.messages), "cut at {cut}");
        assert_eq!(past.last(), account.messages.last(), "cut at {cut}");
        if cut >= 64 {
            assert_eq!(follow_errors(&path).0, past, "cut at {cut}");
        }
    }
}

/// Records on one lane until it is killed, and notes in a file what was flushed.
fn record_until_killed(path: &Path, noted: &Path, policy: SyncPolicy) {
    use std::os::unix::fs::FileExt;
    let noted = std::fs::File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(noted)
        .unwrap();
    let settings = fast().sync(policy).rotate(Rotation::by_size(1 << 20));
    let mut recorder = Recorder::open(path, &settings).unwrap();
    let id = recorder.lane(&lanes()[0]).unwrap();
    let mut end = recorder.end(id);
    let mut next = end / 24;
    loop {
        let run: Vec<u8> = (0..64)
            .flat_map(|n| frame(1, &u64::to_le_bytes(next + n).repeat(2), 8))
            .collect();
        assert_eq!(run.len(), 64 * 24);
        recorder.append(id, end, next, &run).unwrap();
        recorder.flush().unwrap();
        end += run.len() as u64;
        next += 64;
        noted.write_all_at(&next.to_le_bytes(), 0).unwrap();
    }
}

/// What another process does.
pub(crate) fn play(role: &str) {
    let path =
        |name: &str| std::path::PathBuf::from(std::env::var(name).expect("set by the parent"));
    match role {
        "recorder" => {
            let policy = std::env::var("OLIVINE_DEATH_SYNC")
                .unwrap()
                .parse()
                .unwrap();
            record_until_killed(
                &path("OLIVINE_DEATH_JOURNAL"),
                &path("OLIVINE_DEATH_NOTED"),
                policy,
            );
        }
        "without_files" => {
            without_files(&path("OLIVINE_DEATH_ROOT"));
            std::fs::write(path("OLIVINE_DEATH_DONE"), "done").unwrap();
        }
        "filled" => {
            full_at_the_end(&path("OLIVINE_DEATH_ROOT"));
            std::fs::write(path("OLIVINE_DEATH_DONE"), "done").unwrap();
        }
        "cramped" => {
            full_disk(&path("OLIVINE_DEATH_ROOT"));
            std::fs::write(path("OLIVINE_DEATH_DONE"), "done").unwrap();
        }
        "reader" => {
            read_only(&path("OLIVINE_DEATH_ROOT"));
            std::fs::write(path("OLIVINE_DEATH_DONE"), "done").unwrap();
        }
        other => panic!("no such role: {other}"),
    }
}

/// A recorder that was killed between creating a file and describing the lanes there does not lose
/// their ends.
#[test]
fn empty_new_file_keeps_known_lanes() {
    let place = TestFolder::new();
    let path = place.file("begun.olv");
    let settings = fast().rotate(Rotation::by_size(64 << 10));
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    let id = recorder.lane(&lanes()[0]).unwrap();
    let first = recorder.path().to_owned();
    let run = frame(1, &[7; 1000], 8);
    let mut ends = vec![0];
    while recorder.path() == first {
        let end = recorder.end(id);
        recorder.append(id, end, 1, &run).unwrap();
        recorder.flush().unwrap();
        ends.push(end);
    }
    let newest = recorder.path().to_owned();
    drop(recorder);
    // The result of a death before the first block of the new file: its header of 64 bytes.
    let file = std::fs::File::options().write(true).open(&newest).unwrap();
    file.set_len(64).unwrap();
    let end = *ends.last().unwrap();
    // As its successor finds it, which appends nothing and closes; and as that one leaves it.
    for _ in 0..2 {
        let mut recorder = Recorder::open(&path, &settings).unwrap();
        let id = recorder.lane(&lanes()[0]).unwrap();
        assert_eq!(recorder.end(id), end);
    }
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    let id = recorder.lane(&lanes()[0]).unwrap();
    recorder.append(id, end, 1, &run).unwrap();
    recorder.close().unwrap();
    let found = replay_all(&path);
    assert!(found.end.is_ok(), "{:?}", found.end);
    assert_eq!(found.messages.len() as u64, end / run.len() as u64 + 1);
}

/// A recorder killed at any moment leaves everything that it flushed, and the next one continues
/// after it.
#[test]
fn killed_recorder_keeps_flushed_messages() {
    let place = TestFolder::new();
    let (path, noted) = (place.file("killed.olv"), place.file("noted"));
    std::fs::write(&noted, [0; 8]).unwrap();
    let count = || u64::from_le_bytes(std::fs::read(&noted).unwrap()[..8].try_into().unwrap());
    let kills = setting("OLIVINE_KILLS", 12);
    let mut random = Random(setting("OLIVINE_SEED", 1));
    for round in 0..kills {
        let policy = if round % 2 == 0 { "never" } else { "block" };
        let variables = [
            ("OLIVINE_DEATH_JOURNAL", path.display().to_string()),
            ("OLIVINE_DEATH_NOTED", noted.display().to_string()),
            ("OLIVINE_DEATH_SYNC", policy.to_owned()),
        ];
        let before = count();
        let goal = before + 64 + random.below(50_000);
        let child = spawn("recorder", &variables);
        until("the recorder gets on", || count() >= goal);
        common::kill(child);
        let flushed = count();
        // As the next recorder finds it, and then as it leaves it.
        let found = replay_all(&path);
        assert!(found.end.is_ok(), "round {round}: {:?}", found.end);
        drop(Recorder::open(&path, &fast()).unwrap());
        let again = replay_all(&path);
        assert_eq!(again.messages.len(), found.messages.len(), "round {round}");
        assert!(
            found.messages.len() as u64 >= flushed,
            "round {round}: lost what was flushed"
        );
        for (n, message) in found.messages.iter().enumerate() {
            let number = (n as u64).to_le_bytes();
            assert_eq!(
                message.payload,
                number.repeat(2),
                "round {round}: message {n}"
            );
        }
    }
}

/// Runs `role` of this binary in its own mount namespace, with a small file system at a folder.
fn in_small_file_system(role: &str, prepare: &str) {
    let place = TestFolder::new();
    let root = place.file("small");
    std::fs::create_dir(&root).unwrap();
    let done = std::env::temp_dir().join(format!("olivine-{role}-{}", std::process::id()));
    let script = format!(
        "mount -t tmpfs -o size=256k,mode=700 none \"$OLIVINE_DEATH_ROOT\" || exit 77; {prepare} \
         exec \"$OLIVINE_DEATH_SELF\" --exact role --nocapture"
    );
    let status = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .env("OLIVINE_DEATH_ROLE", role)
        .env("OLIVINE_DEATH_ROOT", &root)
        .env("OLIVINE_DEATH_SELF", std::env::current_exe().unwrap())
        .env("OLIVINE_DEATH_DONE", &done)
        .status();
    let finished = std::fs::remove_file(&done).is_ok();
    match status {
        Ok(status) if status.success() => assert!(finished),
        Ok(status) if !matches!(status.code(), Some(1 | 77)) || finished => {
            panic!("{role}: {status}")
        }
        refused => common::skip(&format!("no mount namespace to be had here ({refused:?})")),
    }
}

#[test]
fn full_disk_is_a_temporary_error() {
    in_small_file_system("cramped", "");
}

fn full_disk(root: &Path) {
    let path = root.join("full.olv");
    let filler = root.join("filler");
    let mut account = Account::new(4);
    let settings = fast().rotate(Rotation::by_size(32 << 10));
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    let mut refusals = 0;
    for _round in 0..5 {
        // The remaining space is filled, so that the journal reaches its end.
        std::fs::write(&filler, vec![1; 1 << 20]).unwrap_err();
        std::fs::File::options()
            .write(true)
            .open(&filler)
            .unwrap()
            .set_len(16 << 10)
            .unwrap();
        let full = loop {
            if let Err(error) = account.append(&mut recorder, 20, 900) {
                break error;
            }
            if let Err(error) = recorder.flush() {
                break error;
            }
        };
        assert!(matches!(full, JournalError::NoSpace { .. }), "{full}");
        refusals += 1;
        let error = recorder.flush().map(|()| "no error");
        assert!(
            !matches!(error, Err(JournalError::Unsynced { .. })),
            "{error:?}"
        );
        // The readable part ends with a whole block.
        let found = replay_all(&path);
        assert!(
            matches!(found.end, Ok(ReplayState::Growing)),
            "{:?}",
            found.end
        );
        assert!(account.messages.starts_with(&found.messages));
        std::fs::remove_file(&filler).unwrap();
        recorder.flush().unwrap();
        assert_eq!(replay_all(&path).messages, account.messages);
        if std::fs::read_dir(root).unwrap().count() > 4 {
            break;
        }
    }
    assert!(refusals > 0);
    recorder.close().unwrap();
    assert_eq!(replay_all(&path).messages, account.messages);
}

#[test]
fn closing_publisher_waits_for_a_full_disk_until_linger_is_over() {
    in_small_file_system("filled", "");
}

fn full_at_the_end(root: &Path) {
    let filler = root.join("filler");
    for comes_back in [true, false] {
        let path = root.join(format!("{comes_back}.olv"));
        let uri = |query: &str| format!("file://{}?{query}", path.display());
        let linger = if comes_back { "0s" } else { "200ms" };
        let mut publisher = Publisher::open(&uri(&format!("linger={linger}"))).unwrap();
        let status = |publisher: &Publisher| publisher.link_status().unwrap();
        publisher.publish(b"recorded").unwrap();
        until("it is recorded", || {
            let status = status(&publisher);
            status.bytes > 0 && status.acknowledged_bytes == status.bytes
        });
        // What is left of the last page of the journal is less than its index needs.
        loop {
            let length = std::fs::metadata(&path).unwrap().len();
            let left = usize::try_from(length.next_multiple_of(4096) - length).unwrap();
            if left < 200 {
                break;
            }
            // A block has 64 bytes of header, 32 for a run, 8 for a frame, and the message.
            let message = (left - 104).min(2000);
            let before = status(&publisher).bytes;
            publisher.publish(&vec![1; message]).unwrap();
            until("it is recorded", || {
                let status = status(&publisher);
                status.bytes > before && status.acknowledged_bytes == status.bytes
            });
        }
        std::fs::write(&filler, vec![1; 1 << 20]).unwrap_err();
        if comes_back {
            let (tell, told) = std::sync::mpsc::channel();
            let closing = std::thread::spawn(move || {
                tell.send(()).unwrap();
                publisher.close()
            });
            told.recv().unwrap();
            let mut deadline = common::Deadline::of(std::time::Duration::from_millis(300));
            while deadline.lasts() {}
            assert!(!closing.is_finished(), "nothing waited for room");
            std::fs::remove_file(&filler).unwrap();
            closing.join().unwrap().unwrap();
        } else {
            assert_eq!(publisher.close(), Err(NotSent::LinkFailed));
            std::fs::remove_file(&filler).unwrap();
        }
        let mut subscriber = Subscriber::open(&uri("unfinished=fail")).unwrap();
        let mut count = 0;
        let end = loop {
            match subscriber.receive() {
                Ok(_) => count += 1,
                Err(end) => break end,
            }
        };
        assert!(count >= 1);
        assert_eq!(matches!(end, ReceiveError::Closed), comes_back, "{end}");
    }
}

#[test]
fn recording_continues_without_room_for_a_new_file() {
    in_small_file_system(
        "without_files",
        "mount -o remount,nr_inodes=8 \"$OLIVINE_DEATH_ROOT\" || exit 77;",
    );
}

fn without_files(root: &Path) {
    let path = root.join("full.olv");
    let mut account = Account::new(5);
    let settings = fast()
        .sync(SyncPolicy::Block)
        .rotate(Rotation::by_size(8 << 10));
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    let fillers: Vec<_> = (0..8)
        .map(|n| root.join(format!("filler{n}")))
        .take_while(|filler| std::fs::write(filler, "").is_ok())
        .collect();
    assert!(fillers.len() < 8, "the file system has room for more");
    let full = loop {
        if let Err(error) = account.append(&mut recorder, 5, 900) {
            break error;
        }
        if let Err(error) = recorder.flush() {
            break error;
        }
    };
    assert!(matches!(full, JournalError::NoSpace { .. }), "{full}");
    let again = recorder.flush().unwrap_err();
    assert!(matches!(again, JournalError::NoSpace { .. }), "{again}");
    assert_eq!(recorder.stats().files, 1);
    for filler in fillers {
        std::fs::remove_file(filler).unwrap();
    }
    recorder.flush().unwrap();
    assert_eq!(recorder.stats().files, 2);
    recorder.close().unwrap();
    assert_eq!(replay_all(&path).messages, account.messages);
}

#[test]
fn read_only_file_system_can_be_replayed() {
    in_small_file_system("reader", "");
}

fn read_only(root: &Path) {
    let path = root.join("old.olv");
    let mut account = Account::new(6);
    let mut recorder = Recorder::open(&path, &fast()).unwrap();
    for _ in 0..10 {
        account.append(&mut recorder, 5, 100).unwrap();
    }
    recorder.close().unwrap();
    let status = std::process::Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(root)
        .status();
    assert!(status.unwrap().success());
    assert_eq!(replay_all(&path).messages, account.messages);
    for path in [path, root.join("new.olv")] {
        let error = Recorder::open(&path, &fast()).unwrap_err();
        assert!(matches!(error, JournalError::Io { .. }), "{error}");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("Read-only file system"), "{source}");
    }
}
