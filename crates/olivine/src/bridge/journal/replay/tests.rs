//! Files that come and go while a journal is read.

use super::*;
use crate::bridge::journal::lane::Lane;
use crate::bridge::journal::{Recorder, RecorderSettings};
use crate::uri::{Rotation, SyncPolicy};

/// Records `count` frames of 2 KiB into files of a block or two.
fn record(path: &Path, count: u64) {
    recorded(path, count).close().unwrap();
}

/// As [`record`], before the end.
fn recorded(path: &Path, count: u64) -> Recorder {
    let settings = RecorderSettings::default()
        .sync(SyncPolicy::Never)
        .rotate(Rotation::by_size(4096));
    let mut recorder = Recorder::open(path, &settings).unwrap();
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    let mut frame = vec![7; 2048];
    frame[..8].copy_from_slice(&[0, 8, 0, 0, 9, 0, 0, 0]);
    let first = recorder.end(lane);
    for n in 0..count {
        recorder.append(lane, first + n * 2048, n, &frame).unwrap();
        recorder.flush().unwrap();
    }
    recorder
}

#[test]
fn files_are_found_without_one_listing_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.olv");
    record(&path, 120);
    assert!(std::fs::read_dir(folder.path()).unwrap().count() > 50);
    let before = term::LISTINGS.with(std::cell::Cell::get);
    let mut replay = Replay::open(&path).unwrap();
    let mut runs = 0;
    while replay.next_run().unwrap().is_some() {
        runs += 1;
    }
    replay.check_finished().unwrap();
    assert_eq!(runs, 120);
    let listings = term::LISTINGS.with(std::cell::Cell::get) - before;
    assert!(
        listings <= 2,
        "{listings} listings: one to open, one at the end"
    );
}

#[test]
fn journal_whose_oldest_file_is_removed_after_the_listing_opens_at_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shrinks.olv");
    record(&path, 12);
    let remove_listed = || {
        let terms = term::list(&path)?;
        if terms.first() < Some(&2) {
            std::fs::remove_file(term::path_of(&path, terms[0])).unwrap();
        }
        Ok(terms)
    };
    let (source, headless) = oldest(&path, remove_listed).unwrap();
    assert!(source.header.term.get() == 2 && headless.is_none());
    // A link that leads nowhere is listed each time.
    let link = folder.path().join("link.olv");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let error = Replay::open(&link).unwrap_err();
    assert!(matches!(error, JournalError::Missing { .. }), "{error}");
}

/// A recorder that begins behind an unfinished end made that end look finished.
#[test]
fn growing_journal_is_not_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grows.olv");
    record(&path, 3);
    let recorder = Recorder::open(&path, &RecorderSettings::default()).unwrap();
    let mut replay = Replay::open(&path).unwrap();
    while replay.next_run().unwrap().is_some() {}
    let error = replay.check_finished().unwrap_err().to_string();
    assert!(error.contains("a recorder is at work"), "{error}");
    recorder.close().unwrap();
    replay.check_finished().unwrap();
}

/// A recorder that left during the check gave a failure with that reason.
#[test]
fn recorder_may_leave_during_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.olv");
    record(&path, 3);
    let recorder = Recorder::open(&path, &RecorderSettings::default()).unwrap();
    let mut replay = Replay::open(&path).unwrap();
    while replay.next_run().unwrap().is_some() {}
    crate::points::hook::at("journal.looked", move || {
        recorder.close().unwrap();
    });
    assert!(!replay.is_finished().unwrap());
    assert!(replay.is_finished().unwrap());
}

/// A file may come between the first look for it and the listing.
#[test]
fn gap_is_believed_only_after_a_second_look() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.olv");
    record(&path, 12);
    let (second, aside) = (term::path_of(&path, 2), folder.path().join("aside"));
    std::fs::rename(&second, &aside).unwrap();
    let read = || {
        let mut replay = Replay::open(&path).unwrap();
        let mut runs = 0;
        while replay.next_run()?.is_some() {
            runs += 1;
        }
        Ok::<_, JournalError>(runs)
    };
    let error = read().unwrap_err().to_string();
    assert!(error.contains("blocks are missing"), "{error}");
    crate::points::hook::at("journal.listed", move || {
        std::fs::rename(&aside, &second).unwrap();
    });
    assert_eq!(read().unwrap(), 12);
}

#[test]
fn journal_without_its_newest_file_is_unfinished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.olv");
    record(&path, 12);
    let newest = *term::list(&path).unwrap().last().unwrap();
    let read = || {
        let mut replay = Replay::open(&path).unwrap();
        while replay.next_run().unwrap().is_some() {}
        (replay.state(), replay.check_finished())
    };
    assert!(read().1.is_ok());
    for gone in (1..=newest).rev() {
        let missing = term::path_of(&path, gone);
        std::fs::remove_file(&missing).unwrap();
        let (state, finished) = read();
        let text = finished.unwrap_err().to_string();
        let shown = missing.display().to_string();
        assert!(text.contains(&format!("{shown} is missing")), "{text}");
        assert_eq!(state, ReplayState::NextMissing { path: missing });
    }
    // The next recorder continues, and finishes it.
    record(&path, 3);
    assert!(read().1.is_ok());
}

/// One block per frame in one file without an index. The header of the fourth frame's block is
/// damaged.
fn damaged_without_index(path: &Path, count: usize) {
    let settings = RecorderSettings::default().sync(SyncPolicy::Never);
    let mut recorder = Recorder::open(path, &settings).unwrap();
    recorder.finish_only_by_close();
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    let mut frame = vec![7; 2048];
    frame[..8].copy_from_slice(&[0, 8, 0, 0, 9, 0, 0, 0]);
    for n in 0..count as u64 {
        recorder.append(lane, n * 2048, n, &frame).unwrap();
        recorder.flush().unwrap();
    }
    drop(recorder);
    let mut bytes = std::fs::read(path).unwrap();
    let is_magic = |place: &usize| bytes[*place..].starts_with(b"OLVBLOCK");
    let places: Vec<usize> = (64..bytes.len()).step_by(8).filter(is_magic).collect();
    let fourth = places[places.len() - count + 3];
    bytes[fourth + 30] ^= 4;
    std::fs::write(path, bytes).unwrap();
}

/// It read each body up to the position: 25 s for 50 GB.
#[test]
fn seek_behind_damage_reads_headers_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.olv");
    damaged_without_index(&path, 200);
    let mut replay = Replay::open(&path).unwrap();
    let before = term::BODIES.with(std::cell::Cell::get);
    for resumed in [false, true] {
        let at = 190 * 2048;
        match resumed {
            false => replay.seek_position(at).unwrap(),
            true => replay.seek_resumed(at).unwrap(),
        }
        let run = replay.next_run().unwrap().unwrap();
        assert_eq!((run.journal_position, run.time_ns), (at, 190), "{resumed}");
    }
    let bodies = term::BODIES.with(std::cell::Cell::get) - before;
    assert!(bodies < 20, "{bodies}");
}

/// Asks to stop after so many looks.
fn after(looks: i32) -> impl Fn() -> bool + Send + Sync + 'static {
    let left = std::sync::Mutex::new(looks);
    move || {
        let mut left = left.lock().unwrap();
        *left -= 1;
        *left < 0
    }
}

#[test]
fn reading_ends_where_it_is_asked_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stopped.olv");
    damaged_without_index(&path, 20);
    // It is asked at the first look, in the search by headers, or behind the damage.
    for looks in [0, 2, 4, 6, 8] {
        let mut replay = Replay::open(&path).unwrap();
        replay.stop_when(after(looks));
        let found = replay.seek_position(15 * 2048);
        let found = found.and_then(|()| replay.next_run().map(|_| ()));
        let Err(JournalError::Io { source, .. }) = found else {
            panic!("{looks}: {found:?}");
        };
        assert_eq!(source.kind(), std::io::ErrorKind::Interrupted, "{looks}");
    }
}

/// The failures were left out, without a word.
#[test]
fn seek_that_is_asked_to_stop_leaves_no_failure_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("failed.olv");
    for _ in 0..6 {
        recorded(&path, 3)
            .close_failed("the sensor is gone")
            .unwrap();
    }
    record(&path, 3);
    let (mut stopped, mut failures) = (0, 0);
    for term in term::list(&path).unwrap() {
        let start = source(&path, term).unwrap().header.position.get();
        let mut replay = Replay::open(&path).unwrap();
        replay.seek_position(start).unwrap();
        let expected = replay.failed_before().to_vec();
        failures += expected.len();
        for looks in 0..10 {
            replay.stop_when(after(looks));
            match replay.seek_position(start) {
                Ok(()) => assert_eq!(replay.failed_before(), expected, "{start}: {looks}"),
                Err(_) => stopped += 1,
            }
        }
    }
    assert!(stopped > 0 && failures > 0, "{stopped}, {failures}");
}
