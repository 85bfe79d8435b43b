//! Oldest files that are removed before a subscriber of a `name=`, or a stopped replay, came to
//! them.

use crate::common::{self, TestFolder, until};
use crate::file::{append_behind, replayed, uri};
use crate::recording::{fast, frame, replay_all};
use olivine::journal::{Lane, Recorder};
use olivine::{Bridge, Config, LinkError, LinkStage, ReceiveError, Rotation, Subscriber};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// More than a ring and many files.
const MESSAGES: u32 = 12_000;

/// Records numbered messages in many files.
fn record(path: &Path, numbers: std::ops::Range<u32>) {
    let mut recorder = recorder_of(path);
    for first in numbers.clone().step_by(100) {
        append_behind(&mut recorder, first..numbers.end.min(first + 100), 0);
    }
    recorder.close().unwrap();
}

fn recorder_of(path: &Path) -> Recorder {
    let settings = fast().rotate(Rotation::by_size(16 << 10));
    Recorder::open(path, &settings).unwrap()
}

/// Files of the journal, oldest first.
fn files(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let listed = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let listed = listed.map(|entry| entry.unwrap().path());
    let is_ours = |file: &PathBuf| {
        let file = file.file_name().unwrap().to_str().unwrap();
        file.starts_with(name)
    };
    let mut files: Vec<_> = listed.filter(is_ours).collect();
    files.sort();
    files
}

/// Removes the oldest files, and returns the number of the first message that is left.
fn keep_newest(path: &Path, kept: usize) -> u32 {
    let files = files(path);
    assert!(files.len() > kept, "{} files", files.len());
    for file in &files[..files.len() - kept] {
        std::fs::remove_file(file).unwrap();
    }
    replay_all(path).messages[0].tag
}

/// Bytes of the frames with these numbers.
fn bytes(numbers: std::ops::Range<u32>) -> u64 {
    let frame = |n| frame(n, &crate::file::message(n), 8).len() as u64;
    numbers.map(frame).sum()
}

/// Bytes that this failure reports as removed.
fn removed(error: &ReceiveError) -> u64 {
    let ReceiveError::Failed(failure) = error else {
        panic!("{error}")
    };
    let text = match failure {
        LinkError::Upstream { reason, .. } => reason.clone(),
        LinkError::Journal(error) => error.to_string(),
        other => panic!("{other}"),
    };
    assert!(text.contains("with its oldest files"), "{text}");
    let (_, rest) = text.split_once("messages are missing: ").unwrap();
    rest.split_once(' ').unwrap().0.parse().unwrap()
}

/// The query of a durable name with a small ring.
fn durable(place: &TestFolder) -> String {
    format!("name=audit&capacity=64KiB&dir={}", place.dir().display())
}

/// Opens the name and reads `numbers`.
fn begin(uri: &str, numbers: std::ops::Range<u32>) {
    let mut subscriber = Subscriber::open(uri).unwrap();
    for n in numbers {
        assert_eq!(subscriber.receive().unwrap().tag(), n);
    }
    subscriber.close();
}

#[test]
fn durable_subscriber_gets_one_report_of_files_that_were_removed_before_it_came_back() {
    let place = TestFolder::new();
    let path = place.file("removed.olv");
    record(&path, 0..MESSAGES);
    let named = uri(&path, &durable(&place));
    begin(&named, 0..10);
    let count = files(&path).len();
    let left = keep_newest(&path, count / 2);
    let (numbers, error) = replayed(&mut Subscriber::open(&named).unwrap());
    let end = 10 + u32::try_from(numbers.len()).unwrap();
    assert!(numbers.into_iter().eq(10..end), "what was in its ring");
    assert_eq!(removed(&error), bytes(end..left));
    // What is removed after the report is another loss.
    let later = keep_newest(&path, 5);
    let (numbers, error) = replayed(&mut Subscriber::open(&named).unwrap());
    assert!(numbers.is_empty(), "{numbers:?}");
    assert_eq!(removed(&error), bytes(left..later));
    let (numbers, end) = replayed(&mut Subscriber::open(&named).unwrap());
    assert!(matches!(end, ReceiveError::Closed), "{end}");
    assert!(numbers.into_iter().eq(later..MESSAGES));
}

#[test]
fn new_name_and_a_name_that_has_read_the_removed_files_get_no_report() {
    let place = TestFolder::new();
    let path = place.file("read.olv");
    record(&path, 0..MESSAGES);
    let first = keep_newest(&path, 20);
    let named = uri(&path, &durable(&place));
    for (numbers, kept) in [(first..MESSAGES, 1), (MESSAGES..MESSAGES + 100, 1)] {
        if numbers.start >= MESSAGES {
            record(&path, numbers.clone());
        }
        let (found, end) = replayed(&mut Subscriber::open(&named).unwrap());
        assert!(matches!(end, ReceiveError::Closed), "{end}");
        assert!(found.into_iter().eq(numbers));
        keep_newest(&path, kept);
    }
}

/// They counted as lost, because the lane stored where its last message ended.
#[test]
fn removed_files_of_another_channel_that_were_read_past_lose_nothing() {
    let place = TestFolder::new();
    let path = place.file("two.olv");
    let mut recorder = recorder_of(&path);
    append_behind(&mut recorder, 0..50, 0);
    let other = recorder.lane(&Lane::new("other", 0, 8, 12)).unwrap();
    let append_others = |recorder: &mut Recorder| {
        for _ in 0..40 {
            let end = recorder.end(other);
            let bytes = frame(1, &[1; 4096], 8);
            recorder.append(other, end, 1_000, &bytes).unwrap();
            recorder.flush().unwrap();
        }
    };
    append_others(&mut recorder);
    recorder.close().unwrap();
    let named = uri(&path, &format!("channel=ticks&{}", durable(&place)));
    let (numbers, end) = replayed(&mut Subscriber::open(&named).unwrap());
    assert!(matches!(end, ReceiveError::Closed), "{end}");
    assert!(numbers.into_iter().eq(0..50));
    let mut recorder = recorder_of(&path);
    recorder.lane(&Lane::new("other", 0, 8, 12)).unwrap();
    append_others(&mut recorder);
    append_behind(&mut recorder, 2_000..2_050, 0);
    recorder.close().unwrap();
    let files = files(&path);
    for file in &files[..8] {
        std::fs::remove_file(file).unwrap();
    }
    let (numbers, end) = replayed(&mut Subscriber::open(&named).unwrap());
    assert!(matches!(end, ReceiveError::Closed), "{end}");
    assert!(numbers.into_iter().eq(2_000..2_050));
}

#[test]
fn subscriber_that_accepts_holes_goes_on_with_the_oldest_message_left() {
    let place = TestFolder::new();
    let path = place.file("accepted.olv");
    record(&path, 0..MESSAGES);
    let named = uri(&path, &format!("unfinished=accept&{}", durable(&place)));
    begin(&named, 0..10);
    let left = keep_newest(&path, 5);
    let mut subscriber = Subscriber::open(&named).unwrap();
    let (numbers, end) = replayed(&mut subscriber);
    assert!(matches!(end, ReceiveError::Closed), "{end}");
    let gap = numbers.iter().position(|n| *n == left).unwrap();
    let end = 10 + u32::try_from(gap).unwrap();
    assert!(numbers[..gap].iter().copied().eq(10..end));
    assert!(numbers[gap..].iter().copied().eq(left..MESSAGES));
    let note = subscriber.link_status().unwrap().note;
    let lost = format!("{} bytes were removed", bytes(end..left));
    assert!(note.starts_with(&lost), "{note}");
}

/// It has a file open that is removed with those after it.
#[test]
fn files_removed_under_a_reader_are_reported_once() {
    let place = TestFolder::new();
    let path = place.file("under.olv");
    record(&path, 0..MESSAGES);
    let named = uri(&path, &durable(&place));
    let mut subscriber = Subscriber::open(&named).unwrap();
    assert_eq!(subscriber.receive().unwrap().tag(), 0);
    // It opens no other file while the files are removed: a frame has at most 112 bytes.
    until("the ring is full", || subscriber.lag() > (64 << 10) - 121);
    let left = keep_newest(&path, 5);
    let (numbers, error) = replayed(&mut subscriber);
    let end = 1 + u32::try_from(numbers.len()).unwrap();
    assert!(numbers.into_iter().eq(1..end));
    assert_eq!(removed(&error), bytes(end..left));
    subscriber.close();
    let (numbers, end) = replayed(&mut Subscriber::open(&named).unwrap());
    assert!(matches!(end, ReceiveError::Closed), "{end}");
    assert!(numbers.into_iter().eq(left..MESSAGES));
}

#[test]
fn stopped_replay_reports_files_that_were_removed_before_the_next() {
    let place = TestFolder::new();
    let path = place.file("replayed.olv");
    record(&path, 0..MESSAGES);
    let config = |uri: &str| Config::parse(uri).unwrap();
    let (file, ring) = (config(&uri(&path, "")), place.uri("ring", "capacity=64KiB"));
    let ring = config(&ring);
    let mut subscriber = Subscriber::open_with(&ring).unwrap();
    let stopped = Bridge::start(&file, &ring, true).unwrap();
    assert_eq!(subscriber.receive().unwrap().tag(), 0);
    assert!(!stopped.stop(Duration::from_millis(1)).unwrap());
    let left = keep_newest(&path, 5);
    let mut failed = Bridge::start(&file, &ring, true).unwrap();
    let (numbers, error) = replayed(&mut subscriber);
    let end = 1 + u32::try_from(numbers.len()).unwrap();
    assert!(numbers.into_iter().eq(1..end));
    let lost = bytes(end..left);
    assert_eq!(removed(&error), lost);
    until("the replay has failed", || failed.has_ended());
    let error = failed.finish(common::WATCHDOG).unwrap_err();
    let text =
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
    assert!(text.contains(&format!("missing: {lost} bytes")), "{text}");
    let mut replaying = Bridge::start(&file, &ring, true).unwrap();
    let (numbers, end) = replayed(&mut subscriber);
    assert!(matches!(end, ReceiveError::Closed), "{end}");
    assert!(numbers.into_iter().eq(left..MESSAGES));
    assert!(replaying.finish(common::WATCHDOG).unwrap());
}

/// Its process is killed after the replay has reported the loss, and before it asked.
#[test]
fn report_of_removed_files_outlives_a_kill() {
    let place = TestFolder::new();
    let path = place.file("killed.olv");
    record(&path, 0..MESSAGES);
    let named = uri(&path, &durable(&place));
    begin(&named, 0..10);
    let left = keep_newest(&path, 5);
    let told = place.file("told");
    let variables = [
        ("OLIVINE_DEATH_URI", named.clone()),
        ("OLIVINE_DEATH_TOLD", told.display().to_string()),
    ];
    let child = common::spawn("removed::waiting", &variables);
    until("the replay has failed", || told.exists());
    common::kill(child);
    let mut subscriber = Subscriber::open(&named).unwrap();
    let (mut numbers, error) = replayed(&mut subscriber);
    let end = 10 + u32::try_from(numbers.len()).unwrap();
    assert!(numbers.drain(..).eq(10..end));
    assert_eq!(removed(&error), bytes(end..left));
    let (numbers, end) = replayed(&mut subscriber);
    assert!(matches!(end, ReceiveError::Closed), "{end}");
    assert!(numbers.into_iter().eq(left..MESSAGES));
}

/// The process that is killed.
#[test]
fn role() {
    if common::my_role().as_deref() != Some("waiting") {
        return;
    }
    let variable = |name: &str| std::env::var(name).unwrap();
    let subscriber = Subscriber::open(&variable("OLIVINE_DEATH_URI")).unwrap();
    until("the replay fails", || {
        subscriber.link_status().unwrap().stage == LinkStage::Failed
    });
    std::fs::write(variable("OLIVINE_DEATH_TOLD"), "told").unwrap();
    loop {
        std::thread::park();
    }
}
