//! A disk that fails, and the end of recording.

use super::*;
use core::mem::ManuallyDrop;

/// A frame of 16 bytes with the payload `number`.
fn frame(number: u8) -> [u8; 16] {
    let mut frame = [number; 16];
    frame[..8].copy_from_slice(&[13, 0, 0, 0, 0, 0, 0, 0]);
    frame[13..].fill(0);
    frame
}

fn open(path: &Path) -> (Recorder, LaneId) {
    let settings = RecorderSettings::default().sync(SyncPolicy::Block);
    let mut recorder = Recorder::open(path, &settings).unwrap();
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    (recorder, lane)
}

/// Leaves the files as a killed recorder does.
fn kill(recorder: Recorder) {
    term::unlock(&ManuallyDrop::new(recorder).locks);
}

/// The next recorder must not find blocks in memory that are not on the disk, and report them as
/// recorded.
#[test]
fn frames_of_a_failed_sync_are_recorded_when_resent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("refused.olv");
    let (mut recorder, lane) = open(&path);
    recorder.append(lane, 0, 1, &frame(1)).unwrap();
    recorder.flush().unwrap();
    recorder.append(lane, 16, 2, &frame(2)).unwrap();
    assert!(recorder.write_for_sync().unwrap().is_some());
    // Goes into a block after those that are being synced.
    recorder.append(lane, 32, 3, &frame(3)).unwrap();
    let error = recorder.sync_failed(Errno::IO);
    assert!(matches!(error, JournalError::Io { .. }), "{error}");
    let again = recorder.flush();
    assert!(matches!(again, Err(JournalError::Unsynced { .. })));
    drop(recorder);

    let (mut recorder, lane) = open(&path);
    assert_eq!(recorder.end(lane), 16, "only the first was confirmed");
    recorder.append(lane, 16, 4, &frame(2)).unwrap();
    assert!(recorder.write_for_sync().unwrap().is_some());
    recorder.sync_done();
    assert_eq!(recorder.stats().repeated_bytes, 0);
    // Now confirmed: the next failure keeps it.
    recorder.append(lane, 32, 5, &frame(3)).unwrap();
    recorder.write_collected().unwrap();
    recorder.sync_failed(Errno::IO);
    drop(recorder);
    assert_eq!(open(&path).0.end(lane), 32);
}

/// Each try on a full disk described the hole again, until no room was left for the frames.
#[test]
fn hole_is_described_once_for_all_tries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tried.olv");
    let (mut recorder, lane) = open(&path);
    recorder.append(lane, 0, 1, &frame(1)).unwrap();
    recorder.flush().unwrap();
    for n in 1..4_u64 {
        recorder.append(lane, n * 48, n, &frame(1)).unwrap();
        let (before, runs) = (recorder.stats.blocks, recorder.runs.clone());
        for _ in 0..3 {
            // What a try does before the block of frames finds no room.
            recorder.describe_holes(&runs).unwrap();
        }
        recorder.flush().unwrap();
        assert_eq!(recorder.stats.blocks - before, 2, "the lane, then frames");
    }
    recorder.close().unwrap();
    let mut replay = crate::bridge::journal::Replay::open(&path).unwrap();
    replay.seek_position(16).unwrap();
    while let Some(run) = replay.next_run().unwrap() {
        assert_eq!(run.missed_bytes, 32);
    }
}

/// A finished journal looked unfinished: a lane was described in it, and its frames found no room.
#[test]
fn finished_journal_is_finished_again_after_frames_that_found_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ended.olv");
    let (mut recorder, lane) = open(&path);
    recorder.append(lane, 0, 1, &frame(1)).unwrap();
    recorder.close().unwrap();
    let (mut recorder, lane) = open(&path);
    recorder.append(lane, 48, 2, &frame(1)).unwrap();
    let runs = core::mem::take(&mut recorder.runs);
    recorder.frames.clear();
    // What a try does before the block of frames finds no room.
    recorder.describe_holes(&runs).unwrap();
    recorder.close().unwrap();
    let mut replay = crate::bridge::journal::Replay::open(&path).unwrap();
    while replay.next_run().unwrap().is_some() {}
    assert!(replay.is_finished().unwrap());
}

/// A file is not ended during an outside sync, so a failure finds its blocks there.
#[test]
fn a_file_is_not_ended_while_it_is_synced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rotated.olv");
    let (mut recorder, lane) = open(&path);
    recorder.settings.rotate.bytes = Some(1);
    let add = |recorder: &mut Recorder, number: u64| {
        recorder.append(lane, number * 16, 1, &frame(7)).unwrap();
        recorder.write_for_sync().unwrap()
    };
    assert!(add(&mut recorder, 0).is_some());
    recorder.append(lane, 16, 1, &frame(7)).unwrap();
    recorder.write_collected().unwrap();
    assert_eq!(recorder.stats().files, 1);
    recorder.sync_done();
    assert!(add(&mut recorder, 2).is_some());
    assert_eq!(recorder.stats().files, 2);
}

/// Another thread's child has a copy of every descriptor until its `exec`.
#[test]
fn closed_journal_is_unlocked_despite_inherited_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("closed.olv");
    let (mut recorder, lane) = open(&path);
    recorder.append(lane, 0, 1, &frame(1)).unwrap();
    let copy = rustix::io::fcntl_dupfd_cloexec(recorder.descriptor().unwrap(), 0).unwrap();
    assert!(term::is_recorded_into(&path).unwrap());
    recorder.close().unwrap();
    assert!(!term::is_recorded_into(&path).unwrap());
    drop(copy);
}

/// Frames before a seal that was not synced counted as repeated, and were confirmed.
#[test]
fn frames_before_an_unsynced_seal_are_synced_before_they_are_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sealed.olv");
    let (mut recorder, lane) = open(&path);
    recorder.append(lane, 0, 1, &frame(1)).unwrap();
    recorder.flush().unwrap();
    recorder.append(lane, 16, 2, &frame(2)).unwrap();
    recorder.write_collected().unwrap();
    // A full file is sealed, then synced: the recorder is killed in between.
    recorder.seal(Sealed::GoesOn).unwrap();
    kill(recorder);

    let (mut recorder, lane) = open(&path);
    assert_eq!(recorder.end(lane), 32);
    // The bridge appends again what was not confirmed.
    recorder.append(lane, 16, 3, &frame(2)).unwrap();
    assert!(recorder.write_for_sync().unwrap().is_some());
    recorder.sync_done();
    assert_eq!(recorder.stats().repeated_bytes, 16);
}

/// The next file began before the blocks of the damaged one were on the disk.
#[test]
fn damaged_file_is_synced_before_the_next_one_begins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.olv");
    let (mut recorder, lane) = open(&path);
    let mut starts = Vec::new();
    for number in 0..3 {
        starts.push(recorder.offset);
        recorder.append(lane, number * 16, 1, &frame(1)).unwrap();
        recorder.write_collected().unwrap();
    }
    rustix::io::pwrite(recorder.descriptor().unwrap(), &[0xff; 8], starts[1]).unwrap();
    kill(recorder);

    let (recorder, lane) = open(&path);
    assert_eq!(recorder.recovered().unwrap().damaged, Some(starts[1]));
    assert_eq!(recorder.end(lane), 48);
    assert_eq!((recorder.stats().files, recorder.stats().syncs), (1, 1));
}

/// Frames found within the span are one run with the later time; a run that began earlier, that
/// does not continue, or that is of an exact recorder stays apart.
#[test]
fn runs_within_a_span_become_one_of_the_later_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("merged.olv");
    let (mut recorder, lane) = open(&path);
    let append = |recorder: &mut Recorder, position, time| {
        recorder.append(lane, position, time, &frame(1)).unwrap();
        let runs = recorder.runs.iter();
        runs.map(|run| (run.time.get(), run.bytes.get()))
            .collect::<Vec<_>>()
    };
    append(&mut recorder, 0, 10);
    let exact = append(&mut recorder, 16, 11);
    assert_eq!(exact, [(10, 16), (11, 16)]);
    recorder.merge_runs_within(core::time::Duration::from_nanos(100));
    append(&mut recorder, 32, 111);
    let apart = append(&mut recorder, 48, 112);
    assert_eq!(apart, [(10, 16), (111, 32), (112, 16)]);
    let with_a_hole = append(&mut recorder, 96, 113);
    assert_eq!(with_a_hole, [(10, 16), (111, 32), (112, 16), (113, 16)]);
}
