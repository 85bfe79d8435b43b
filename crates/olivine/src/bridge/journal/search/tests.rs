//! What a search reads, and how often.

use super::*;
use crate::bridge::journal::format::TERM_BYTES;
use crate::bridge::journal::inlet::JournalInlet;
use crate::bridge::journal::lane::Lane;
use crate::bridge::journal::{Recorder, RecorderSettings, Replay};
use crate::bridge::{Destination, Inlet, any_type};
use crate::channel::subscriber::Subscriber;
use crate::error::LinkError;
use crate::link::Control;
use crate::uri::{Config, SyncPolicy};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A journal of one message, with damage of so many bytes at its start: a hole of the file, or
/// bytes.
fn damaged(folder: &Path, bytes: u64, is_hole: bool) -> PathBuf {
    let path = folder.join("whole.olv");
    let settings = RecorderSettings::default().sync(SyncPolicy::Never);
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    let message = [16, 0, 0, 0, 9, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    recorder.append(lane, 0, 1, &message).unwrap();
    recorder.close().unwrap();
    let whole = std::fs::read(&path).unwrap();
    let (header, blocks) = whole.split_at(usize::try_from(TERM_BYTES).unwrap());
    let path = folder.join("damaged.olv");
    let file = std::fs::File::create(&path).unwrap();
    file.write_all_at(header, 0).unwrap();
    if !is_hole {
        let junk = vec![b'K'; usize::try_from(bytes).unwrap()];
        file.write_all_at(&junk, TERM_BYTES).unwrap();
    }
    file.write_all_at(blocks, TERM_BYTES + bytes).unwrap();
    path
}

/// Windows that this thread reads meanwhile.
fn windows(run: impl FnOnce()) -> u64 {
    let before = WINDOWS.with(std::cell::Cell::get);
    run();
    WINDOWS.with(std::cell::Cell::get) - before
}

/// Replays the journal as a `file://` handle does, up to its error.
fn opened_and_replayed(path: &Path) {
    let channels = path.with_extension("channels");
    let uri = format!("shm://ring?dir={}&capacity=4KiB", channels.display());
    let _keeper = Subscriber::<[u8]>::open(&uri).unwrap();
    let control = Control::new().unwrap();
    let mut ring = Config::parse(&uri).unwrap();
    let far = Config::parse(&format!("file://{}", path.display())).unwrap();
    let mut inlet = Box::new(JournalInlet::new(&far));
    inlet.shape(&mut ring).unwrap();
    let destination = Destination::new(&ring, any_type(), &control);
    let error = inlet.run(destination, &control, false).unwrap_err();
    assert!(matches!(error, LinkError::Journal(_)), "{error}");
}

/// Opening looked for the first message behind the damage, and reading searched the same bytes
/// again for each look at them: five times.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn damaged_bytes_are_searched_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = damaged(folder.path(), 8 << 20, false);
    let read = windows(|| opened_and_replayed(&path));
    assert!((8..=10).contains(&read), "{read} windows of a MiB of eight");
    // Nor where no whole block follows.
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(TERM_BYTES + (8 << 20)).unwrap();
    let read = windows(|| opened_and_replayed(&path));
    assert!((8..=10).contains(&read), "{read} windows of a MiB of eight");
}

/// A sparse file was read like any other.
#[test]
fn holes_of_a_sparse_file_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = damaged(folder.path(), 1 << 30, true);
    if std::fs::metadata(&path).unwrap().blocks() > 1 << 20 {
        return; // This file system has no sparse files.
    }
    let mut replay = Replay::open(&path).unwrap();
    let read = windows(|| {
        let error = replay.next_run().unwrap_err();
        assert!(matches!(error, JournalError::Damaged { next: Some(0), .. }));
    });
    assert!(read <= 2, "{read} windows of a MiB");
    replay.skip_damage().unwrap().unwrap();
    assert!(replay.next_run().unwrap().is_some());
}

#[test]
fn what_was_found_is_forgotten_once_the_file_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = damaged(folder.path(), 1 << 12, false);
    let whole = std::fs::read(&path).unwrap();
    let cut = usize::try_from(TERM_BYTES).unwrap() + (1 << 12);
    std::fs::write(&path, &whole[..cut]).unwrap();
    let mut replay = Replay::open(&path).unwrap();
    assert!(replay.next_run().unwrap().is_none());
    std::fs::write(&path, &whole).unwrap();
    assert!(matches!(
        replay.next_run(),
        Err(JournalError::Damaged { next: Some(0), .. })
    ));
}

#[test]
fn text_of_a_block_is_found_at_every_byte() {
    let mut window = b"OLVBLOCOLVBLOCKOOLVBLOCK KOLVBLOCKOLVBLOCKLVBLOCKOLVBLOC".to_vec();
    for shift in 0..20 {
        let each = window.windows(BLOCK_MAGIC.len()).enumerate();
        let expected: Vec<usize> = each
            .filter_map(|(n, text)| (text == BLOCK_MAGIC).then_some(n))
            .collect();
        assert_eq!(expected.len(), 4);
        assert_eq!(magics(&window).collect::<Vec<_>>(), expected, "{shift}");
        window.insert(0, b"LVBLOCKxO"[shift % 9]);
    }
    assert_eq!(magics(&BLOCK_MAGIC[..7]).count(), 0);
}
