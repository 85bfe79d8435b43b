//! What must hold of journals for any bytes of a file, with valid and with invalid checksums.

#![allow(unreachable_pub, reason = "reached by the fuzz targets only")]

use super::format::{BlockFacts, BlockHeader, Codec, Kind, TermHeader};
use super::{JournalError, Outline, Recorder, RecorderSettings, Replay};
use crate::fuzz_checks::input::Input;
use crate::uri::SyncPolicy;
use std::path::Path;
use zerocopy::IntoBytes as _;

/// Blocks that one input may describe.
const BLOCKS_MAX: usize = 32;
/// Skips over damage: at most one for each byte.
const SKIPS_MAX: usize = 1 << 16;

/// Checks that a reader reaches the end of a file without a panic. The file holds `data` unchanged,
/// or blocks made from it with valid checksums. It is read from its start, a position and a time.
/// If possible, it is also recorded on.
///
/// # Panics
///
/// If a claim does not hold.
pub fn check_journal(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let bytes = if choice & 1 == 0 {
        input.bytes(usize::MAX).to_vec()
    } else {
        blocks(&mut input)
    };
    // A recorder that continues may begin another file in this folder.
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in shared memory");
    let path = folder.path().join("claimed.olv");
    std::fs::write(&path, &bytes).expect("written");
    let whole = replay(&path, |_| Ok(()));
    let position = u64::from(choice) * 8;
    let part = replay(&path, |replay| replay.seek_position(position));
    // No start yields more than the beginning does. Exception: if a lane's description is damaged,
    // the index at the end has it, so a start through the index may find messages that others leave
    // out.
    if let (Some(part), Some(whole)) = (part, whole) {
        assert!(part <= whole, "{part} of {whole} messages from {position}");
    }
    replay(&path, |replay| replay.seek_time(position));
    replay(&path, Replay::seek_end);
    // It may see less than a reader of all, and counts at most what it read.
    if let Ok(outline) = Outline::read(&path) {
        let read = &outline.read;
        assert!(
            read.frame_bytes >= 8 * read.messages + read.payload_bytes,
            "{read:?}"
        );
    }
    record_on(&path);
}

/// A file with the headers that the input describes, each with a valid checksum.
fn blocks(input: &mut Input<'_>) -> Vec<u8> {
    let journal = 7;
    let (mut sequence, mut position, mut time) = (0, 0, 1);
    let mut bytes = TermHeader::new(journal, 0, sequence, position, time)
        .as_bytes()
        .to_vec();
    for _ in 0..BLOCKS_MAX {
        if input.is_empty() {
            break;
        }
        let choice = input.byte();
        let kind = if choice & 0x20 == 0 {
            [Kind::Frames, Kind::Lanes, Kind::Index][usize::from(choice) % 3]
        } else {
            Kind::Failure
        };
        let codec = if choice & 0x40 == 0 {
            Codec::Plain
        } else {
            Codec::Zstd
        };
        let count = u32::from(input.byte());
        let words = usize::from(input.byte());
        let body = input.bytes(words * 8);
        let mut facts = BlockFacts {
            journal,
            sequence,
            position,
            time,
            kind,
            codec,
            count,
            plain: body.len() as u64,
        };
        if choice & 0x80 != 0 {
            let lie = input.word();
            match input.byte() % 4 {
                0 => facts.sequence = lie,
                1 => facts.position = lie,
                2 => facts.time = lie,
                _ => facts.plain = lie,
            }
        }
        let header = BlockHeader::new(&facts, &[body]);
        bytes.extend(header.as_bytes());
        bytes.extend(body);
        sequence = facts.sequence.wrapping_add(1);
        time = facts.time;
        if kind == Kind::Frames {
            let table = 32 * u64::from(count);
            position = facts
                .position
                .wrapping_add((body.len() as u64).saturating_sub(table));
        }
    }
    bytes
}

/// Reads everything from the result of `seek`, over all damage; the number of messages, if nothing
/// was damaged.
fn replay(path: &Path, seek: impl Fn(&mut Replay) -> Result<(), JournalError>) -> Option<u64> {
    let mut replay = Replay::open(path).map_err(|error| refused(&error)).ok()?;
    seek(&mut replay).map_err(|error| refused(&error)).ok()?;
    let mut is_whole = true;
    let (mut messages, mut reached) = (0, None);
    let mut sum = 0_u64;
    for _ in 0..SKIPS_MAX {
        match replay.next_run() {
            Ok(Some(run)) => {
                let mut bytes = 0;
                for message in run.messages() {
                    messages += 1;
                    bytes += message.payload.len();
                    sum += message.payload.iter().copied().map(u64::from).sum::<u64>();
                }
                assert!(bytes <= run.frames.len());
                continue;
            }
            Ok(None) => {
                std::hint::black_box((sum, replay.state()));
                return is_whole.then_some(messages);
            }
            Err(error) => refused(&error),
        }
        is_whole = false;
        match replay.skip_damage() {
            Ok(Some(skipped)) => {
                // Later files of the journal sort after earlier ones.
                let at = (skipped.path, skipped.offset);
                assert!(Some(&at) > reached.as_ref(), "a skip that goes nowhere");
                reached = Some(at);
            }
            Ok(None) => return None,
            Err(error) => {
                refused(&error);
                return None;
            }
        }
    }
    panic!("no end after {SKIPS_MAX} skips");
}

/// If a recorder continues behind the whole part, everything it records comes back.
fn record_on(path: &Path) {
    let settings = RecorderSettings::default().sync(SyncPolicy::Never);
    let recorder = Recorder::open(path, &settings).map_err(|error| refused(&error));
    if let Ok(recorder) = recorder {
        if let Err(error) = recorder.close() {
            refused(&error);
        }
        replay(path, |_| Ok(()));
    }
}

/// The reasons for which a file may be refused, whatever it holds.
fn refused(error: &JournalError) {
    assert!(
        matches!(
            error,
            JournalError::NotAJournal { .. }
                | JournalError::Version { .. }
                | JournalError::Damaged { .. }
                | JournalError::NoZstd { .. }
        ),
        "{error}"
    );
}
