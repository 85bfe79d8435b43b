//! Bytes that were cut out of a file, or put into it: what is behind them begins at any byte.

#![cfg(all(feature = "journal", not(loom)))]

use crate::common::TestFolder;
use crate::recording::{deliver, fast, frame, replay_all, replay_past_damage};
use olivine::journal::{JournalError, Lane, Outline, Recorder, Replay};
use std::path::Path;

/// Messages of the journals here. Each is recorded in another block.
const MESSAGES: u32 = 8;

/// Records them with tags from 0 on, `length` bytes each; with an index at the end if `is_closed`.
/// Returns the file, and where its blocks of messages begin and end.
fn recorded(path: &Path, length: usize, is_closed: bool) -> (Vec<u8>, Vec<usize>) {
    let mut recorder = Recorder::open(path, &fast()).unwrap();
    recorder.finish_only_by_close();
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    let mut ends = Vec::new();
    for n in 0..MESSAGES {
        let run = frame(n, &vec![7; length], 8);
        recorder
            .append(lane, recorder.end(lane), n.into(), &run)
            .unwrap();
        recorder.flush().unwrap();
        ends.push(usize::try_from(std::fs::metadata(path).unwrap().len()).unwrap());
    }
    if is_closed {
        recorder.close().unwrap();
    }
    (std::fs::read(path).unwrap(), ends)
}

fn tags(path: &Path) -> Vec<u32> {
    let (messages, skips) = replay_past_damage(path);
    assert_eq!(skips.len(), 1);
    messages.iter().map(|message| message.tag).collect()
}

/// Only multiples of 8 were looked at: everything behind counted as a torn tail, and the next
/// recorder cut it off.
#[test]
fn whole_blocks_are_found_at_any_byte_and_kept() {
    let short: Vec<isize> = (-9..=9).filter(|shift| *shift != 0).collect();
    // They put the text of the next block into the last bytes of a window.
    let (long, few) = ((1 << 20) - 64 - 32 - 8, [-5, -1]);
    for (length, is_closed, shifts) in [
        (40, true, &short[..]),
        (40, false, &short),
        (long, false, &few),
    ] {
        let place = TestFolder::new();
        let path = place.file("shifted.olv");
        let (whole, ends) = recorded(&path, length, is_closed);
        for shift in shifts {
            let mut bytes = whole.clone();
            // In the body of the block of message 3.
            let at = ends[2] + 120;
            match usize::try_from(*shift) {
                Ok(more) => drop(bytes.splice(at..at, vec![0; more])),
                Err(_) => drop(bytes.drain(at..at + shift.unsigned_abs())),
            }
            let path = place.file(&format!("shifted{shift}.olv"));
            std::fs::write(&path, &bytes).unwrap();
            let found = replay_all(&path);
            assert_eq!(found.messages.len(), 3, "{shift}");
            let is_damage = matches!(found.end, Err(JournalError::Damaged { next: Some(_), .. }));
            assert!(is_damage, "{shift}: {:?}", found.end);
            assert_eq!(tags(&path), [0, 1, 2, 4, 5, 6, 7], "{shift}");
            let mut replay = Replay::open(&path).unwrap();
            let message = frame(0, &vec![7; length], 8);
            replay.seek_position(6 * message.len() as u64).unwrap();
            assert_eq!(deliver(&mut replay).messages.len(), 2, "{shift}");
            assert!(Outline::read(&path).unwrap().damage.is_some(), "{shift}");

            let mut recorder = Recorder::open(&path, &fast()).unwrap();
            let damaged = recorder.recovered().and_then(|found| found.damaged);
            assert_eq!(damaged, Some(ends[2] as u64), "{shift}");
            let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
            let run = frame(8, b"after", 8);
            recorder
                .append(lane, recorder.end(lane), 100, &run)
                .unwrap();
            recorder.close().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{shift}");
            assert_eq!(tags(&path), [0, 1, 2, 4, 5, 6, 7, 8], "{shift}");
        }
    }
}

/// The block that began where the missing ones had been was passed over.
#[test]
fn only_the_blocks_that_were_cut_out_are_lost() {
    let place = TestFolder::new();
    let path = place.file("cut.olv");
    let (mut bytes, ends) = recorded(&path, 40, false);
    bytes.drain(ends[5]..ends[6]);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(tags(&path), [0, 1, 2, 3, 4, 5, 7]);
    let recorder = Recorder::open(&path, &fast()).unwrap();
    let damaged = recorder.recovered().and_then(|found| found.damaged);
    assert_eq!(damaged, Some(ends[5] as u64));
    recorder.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}
