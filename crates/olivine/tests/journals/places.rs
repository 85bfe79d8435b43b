//! Readers with a name and requests to stop, beside damage and lost files.

use crate::common::{TestFolder, WATCHDOG, chain};
use crate::damaged_files::{file_of, flip};
use crate::file::uri;
use crate::recording::{fast, frame};
use olivine::journal::{Lane, Recorder};
use olivine::{Bridge, Config, Publisher, ReceiveError, Rotation, Subscriber};
use std::ops::Range;
use std::path::Path;

/// Records messages whose tags are these numbers, each in a block.
fn record(path: &Path, rotation: Rotation, tags: Range<u32>) {
    let mut recorder = Recorder::open(path, &fast().rotate(rotation)).unwrap();
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    for tag in tags {
        let position = recorder.end(lane);
        let time = u64::from(tag) + 1;
        let message = frame(tag, &[7; 1000], 8);
        recorder.append(lane, position, time, &message).unwrap();
        recorder.flush().unwrap();
    }
    recorder.close().unwrap();
}

/// The last file of a journal of several.
fn newest(path: &Path) -> std::path::PathBuf {
    let numbers = (1..).take_while(|number| file_of(path, *number).exists());
    file_of(path, numbers.last().unwrap())
}

/// Tags up to the end or an error.
fn receive_all(subscriber: &mut Subscriber) -> (Vec<u32>, ReceiveError) {
    let mut tags = Vec::new();
    loop {
        match subscriber.receive_timeout(WATCHDOG) {
            Ok(message) => tags.push(message.unwrap().tag()),
            Err(error) => return (tags, error),
        }
    }
}

/// The journal was taken for a missing file. So the recorder first became the reader of its ring,
/// and took the messages with it.
#[test]
fn refused_recorder_of_a_journal_without_its_first_file_leaves_unread_messages() {
    for is_removed in [false, true] {
        let place = TestFolder::new();
        let path = place.file("held.olv");
        record(&path, Rotation::by_size(4096), 0..20);
        if is_removed {
            std::fs::remove_file(&path).unwrap();
        }
        let _holder = Recorder::open(&path, &fast()).unwrap();
        let mut publisher = Publisher::open(&place.uri("ticks", "")).unwrap();
        publisher.publish(b"unread").unwrap();
        publisher.close().unwrap();
        let latest = Config::parse(&place.uri("ticks", "delivery=latest")).unwrap();
        let file = Config::parse(&uri(&path, "")).unwrap();
        let error = Bridge::start(&latest, &file, true).unwrap_err();
        assert!(chain(&error).contains("by another recorder"), "{error}");
        let mut subscriber = Subscriber::open(&place.uri("ticks", "from=oldest")).unwrap();
        let found = subscriber.receive_timeout(WATCHDOG).unwrap().unwrap();
        assert_eq!(&*found, b"unread", "{is_removed}");
    }
}

/// The end of the journal is looked for at a request to end. Damage on the way ended the replay
/// long before that place, and the error said that everything before it was delivered.
#[test]
fn request_to_end_a_replay_delivers_everything_before_damage() {
    let place = TestFolder::new();
    let path = place.file("stopped.olv");
    record(&path, Rotation::by_size(64 << 10), 0..400);
    flip(&newest(&path), 20);
    let channel = place.uri("ticks", "capacity=4KiB&subscribers=1");
    let mut subscriber = Subscriber::open(&channel).unwrap();
    let [file, ring] = [uri(&path, ""), channel].map(|uri| Config::parse(&uri).unwrap());
    let bridge = Bridge::start(&file, &ring, true).unwrap();
    assert!(subscriber.receive_timeout(WATCHDOG).unwrap().is_some());
    bridge.ask_to_finish();
    let (found, error) = receive_all(&mut subscriber);
    assert!(found.len() > 300, "{} and then {error}", found.len());
    assert!(chain(&error).contains("damaged at byte 0"), "{error}");
}

/// Its place is in an earlier file, whose header is whole.
#[test]
fn reader_with_a_name_goes_on_before_a_damaged_header_of_the_newest_file() {
    let place = TestFolder::new();
    let path = place.file("named.olv");
    record(&path, Rotation::by_size(4096), 0..40);
    let named = uri(
        &path,
        &format!("name=reader&capacity=4KiB&dir={}", place.dir().display()),
    );
    let mut subscriber = Subscriber::open(&named).unwrap();
    for tag in 0..3 {
        let found = subscriber.receive_timeout(WATCHDOG).unwrap().unwrap();
        assert_eq!(found.tag(), tag);
    }
    subscriber.close();
    flip(&newest(&path), 20);
    let mut unnamed = Subscriber::open(&uri(&path, "")).unwrap();
    let (all, _) = receive_all(&mut unnamed);
    let mut subscriber = Subscriber::open(&named).unwrap();
    let (rest, error) = receive_all(&mut subscriber);
    assert_eq!(rest, all[3..]);
    assert!(chain(&error).contains("damaged at byte 0"), "{error}");
}

/// The newest file was lost, and a later recording went on at an older position. What was recorded
/// up to the place of the name was passed in silence.
#[test]
fn place_behind_the_end_of_a_journal_is_an_error() {
    let place = TestFolder::new();
    let path = place.file("moved.olv");
    record(&path, Rotation::by_size(4096), 0..20);
    let named = uri(&path, &format!("name=reader&dir={}", place.dir().display()));
    let (before, end) = receive_all(&mut Subscriber::open(&named).unwrap());
    assert_eq!(before.len(), 20, "{end}");
    std::fs::remove_file(newest(&path)).unwrap();
    for _ in 0..2 {
        let error = match Subscriber::open(&named) {
            Ok(mut subscriber) => {
                let (found, error) = receive_all(&mut subscriber);
                assert!(found.is_empty(), "{found:?}");
                chain(&error)
            }
            Err(error) => chain(&error),
        };
        assert!(
            error.contains("has no position 20160: it ends at"),
            "{error}"
        );
    }
}
