//! Outlines of whole, unfinished, cut and damaged journals, compared with reading all of them.

use super::*;
use crate::bridge::journal::{LaneId, Recorder, RecorderSettings};
use crate::uri::{Rotation, SyncPolicy};

/// A recorder of one file, or of files of 4 KiB.
fn recorder(path: &Path, in_files: bool) -> Recorder {
    let settings = RecorderSettings::default().sync(SyncPolicy::Never);
    let rotation = if in_files {
        Rotation::by_size(4096)
    } else {
        Rotation::NEVER
    };
    Recorder::open(path, &settings.rotate(rotation)).unwrap()
}

/// Records `count` messages of 24 bytes at `position`, each in a block.
fn blocks(recorder: &mut Recorder, lane: LaneId, position: u64, count: u64) {
    for n in 0..count {
        let mut frame = [0; 32];
        frame[..8].copy_from_slice(&[32, 0, 0, 0, 7, 0, 0, 0]);
        let time = 1_000 + position + n;
        recorder
            .append(lane, position + n * 32, time, &frame)
            .unwrap();
        recorder.flush().unwrap();
    }
}

/// Position and state behind everything that a reader of all finds.
fn whole(path: &Path) -> (u64, ReplayState) {
    let mut replay = Replay::open(path).unwrap();
    while replay.next_run().unwrap().is_some() {}
    (replay.position(), replay.state())
}

#[test]
fn outline_of_a_closed_journal_has_the_times_lanes_and_missing_bytes() {
    for in_files in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("closed.olv");
        let mut recorder = recorder(&path, in_files);
        let lanes = [0, 1].map(|publisher| {
            let lane = Lane::new("ticks", publisher, 8, 1);
            recorder.lane(&lane).unwrap()
        });
        blocks(&mut recorder, lanes[0], 640, 1);
        blocks(&mut recorder, lanes[1], 0, 200);
        // Behind a hole of 320 bytes.
        blocks(&mut recorder, lanes[0], 672 + 320, 100);
        let position = recorder.position();
        recorder.close().unwrap();
        let outline = Outline::read(&path).unwrap();
        assert_eq!((outline.start, outline.end), (0, position));
        assert_eq!(outline.missed_bytes, Some(320));
        assert_eq!(outline.state, ReplayState::Ended { is_sealed: true });
        assert_eq!((outline.first_ns, outline.damage), (Some(1_640), None));
        assert_eq!(outline.last_ns, Some(1_000 + 992 + 99));
        assert!(outline.has_all_lanes);
        let span = |lane: &OutlineLane| (lane.start, lane.end);
        let spans: Vec<_> = outline.lanes.iter().map(span).collect();
        assert_eq!(spans[0], (Some(640), Some(992 + 3_200)));
        assert_eq!(spans[1], (Some(0), Some(6_400)));
        assert_eq!(outline.files.len() > 3, in_files, "{:?}", outline.files);
        let BlocksRead {
            blocks,
            frame_bytes,
            messages,
            payload_bytes,
            ..
        } = outline.read;
        assert!((1..=32).contains(&blocks), "{blocks}");
        assert_eq!((messages, payload_bytes), (blocks, 24 * blocks));
        assert_eq!(frame_bytes, 32 * blocks);
        assert_eq!(
            outline.read.topics,
            BTreeMap::from([(String::new(), messages)])
        );
    }
}

/// Its start is read from header to header, its end is searched from behind.
#[test]
fn end_of_a_long_unfinished_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.olv");
    let mut recorder = recorder(&path, false);
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    blocks(&mut recorder, lane, 0, 20 * HEADERS_MAX as u64);
    let growing = Outline::read(&path).unwrap();
    assert_eq!(growing.state, ReplayState::Growing);
    assert_eq!(growing.end, recorder.position());
    recorder.finish_only_by_close();
    drop(recorder);
    let outline = Outline::read(&path).unwrap();
    assert_eq!((outline.end, outline.state.clone()), whole(&path));
    assert_eq!(outline.state, ReplayState::Ended { is_sealed: false });
    assert!(!outline.has_all_lanes, "headers between were not read");
    assert_eq!(outline.last_ns, Some(1_000 + 20 * HEADERS_MAX as u64 - 1));
    assert_eq!(outline.missed_bytes, None);
}

#[test]
fn cut_journal_has_the_end_that_a_reader_finds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.olv");
    let mut recorder = recorder(&path, false);
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    blocks(&mut recorder, lane, 0, 2 * HEADERS_MAX as u64);
    recorder.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut torn = 0;
    for length in usize::try_from(super::super::format::TERM_BYTES).unwrap()..=bytes.len() {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let outline = Outline::read(&path).unwrap();
        assert_eq!(
            (outline.end, outline.state.clone()),
            whole(&path),
            "{length} bytes"
        );
        assert_eq!(outline.damage, None, "{length} bytes");
        torn += u32::from(matches!(outline.state, ReplayState::Torn(_)));
    }
    assert!(torn > 100, "{torn} of {}", bytes.len());
}

#[test]
fn damage_never_panics_and_counts_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.olv");
    let mut recorder = recorder(&path, false);
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    let count = 3 * HEADERS_MAX as u64;
    blocks(&mut recorder, lane, 0, count);
    recorder.close().unwrap();
    let good = std::fs::read(&path).unwrap();
    let (mut refused, mut seen) = (0, 0);
    for at in 0..good.len() {
        let mut bytes = good.clone();
        // Two bits: one bit of the header of a file is flipped back.
        bytes[at] ^= 0x11;
        std::fs::write(&path, &bytes).unwrap();
        match Outline::read(&path) {
            Err(_) => refused += 1,
            Ok(outline) => {
                assert!(outline.read.messages <= count, "byte {at}");
                let looks_whole = outline.state == ReplayState::Ended { is_sealed: true };
                seen += u32::from(outline.damage.is_some() || !looks_whole);
            }
        }
    }
    assert!(refused > 30 && seen > 30, "{refused} refused, {seen} seen");
}
