//! Damage of a journal with several files: which one the error names, and where reading goes on.

#![cfg(all(feature = "journal", not(loom)))]

use crate::common::TestFolder;
use crate::recording::{Account, deliver, fast};
use olivine::Rotation;
use olivine::journal::{JournalError, Recorder, Replay};
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

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 4;
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
