//! Several recordings that fail, or one before another kind of end: readers get each of them,
//! whenever they read.

#![cfg(all(feature = "journal", not(loom)))]

use crate::common::{TestFolder, until};
use crate::damaged_files::file_of;
use crate::failed::{failures_of, record_part, with_failures};
use crate::file::uri;
use olivine::journal::{JournalError, Replay, ReplayState};
use olivine::{Bridge, Config, LinkError, Publisher, ReceiveError, Subscriber};
use std::path::Path;
use std::time::Duration;

/// What ends a journal.
#[derive(Clone, Copy, Debug)]
enum End {
    Failed,
    Torn,
    Hole,
}

/// Three messages and a failure, three more, and this end.
fn record_with(path: &Path, end: End) {
    record_part(path, 0..3, Some("the sensor is gone"), "");
    match end {
        End::Failed => record_part(path, 3..6, Some("its disk is full"), ""),
        End::Torn => {
            record_part(path, 3..6, None, "");
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            let length = file.metadata().unwrap().len();
            file.set_len(length - 8).unwrap();
        }
        End::Hole => {
            record_part(path, 3..6, None, "");
            let mut bytes = std::fs::read(path).unwrap();
            // Within the first run after the failure, of one message or more: whole blocks follow.
            let find = |from: usize, word: &[u8]| {
                let rest = &bytes[from..];
                from + rest
                    .windows(word.len())
                    .position(|part| part == word)
                    .unwrap()
            };
            let message = crate::file::message(3);
            let at = find(find(0, b"the sensor is gone"), &message) + message.len() - 1;
            bytes[at] ^= 1;
            std::fs::write(path, bytes).unwrap();
        }
    }
}

/// The tags of all messages, and each failure with the number of messages before it, up to the end
/// of the stream or the failure of its bridge.
fn told(subscriber: &mut Subscriber) -> (Vec<u32>, Vec<(u32, String)>) {
    let (mut tags, mut ends) = (Vec::new(), Vec::new());
    loop {
        let count = u32::try_from(tags.len()).unwrap();
        match subscriber.receive() {
            Ok(found) => tags.push(found.tag()),
            Err(ReceiveError::Failed(LinkError::Upstream { reason, .. })) => {
                ends.push((count, reason));
            }
            Err(ReceiveError::Failed(error)) => {
                ends.push((count, error.to_string()));
                return (tags, ends);
            }
            Err(error) => panic!("{tags:?}, {ends:?}: {error}"),
        }
    }
}

/// The replay has come to its end, or waits for its reader.
fn until_it_waits(subscriber: &Subscriber) {
    until("the replay ends or waits", || {
        let status = subscriber.link_status().unwrap();
        status.stage == olivine::LinkStage::Failed || status.note.starts_with("waiting until each")
    });
}

/// The failure in the lane was replaced, or hidden by that of the bridge.
#[test]
fn late_reader_gets_a_failure_before_an_end_that_is_not_in_order() {
    for (end, read, said) in [
        (End::Failed, 6, "its disk is full"),
        (End::Torn, 6, "are not a whole block"),
        (End::Hole, 3, "damaged"),
    ] {
        let place = TestFolder::new();
        let path = place.file("late.olv");
        record_with(&path, end);
        let mut subscriber = Subscriber::open(&uri(&path, "")).unwrap();
        until_it_waits(&subscriber);
        let (tags, ends) = told(&mut subscriber);
        assert!(tags.into_iter().eq(0..read), "{end:?}");
        let [(at, first), (end_at, last)] = &ends[..] else {
            panic!("{end:?}: {ends:?}")
        };
        assert!(first.contains(": the sensor is gone;"), "{first}");
        assert_eq!(*end_at, read, "{end:?}: {ends:?}");
        assert_eq!(*at, 3, "{end:?}: {ends:?}");
        assert!(last.contains(said), "{end:?}: {last}");
    }
}

/// A subscriber that opens only after the bridge has come to the end.
#[test]
fn late_reader_of_shared_memory_gets_a_failure_before_such_an_end() {
    for (end, said) in [
        (End::Failed, "its disk is full"),
        (End::Torn, "are not a whole block"),
        (End::Hole, "damaged"),
    ] {
        let place = TestFolder::new();
        let path = place.file("late.olv");
        record_with(&path, end);
        let shm = format!("shm://late?name=audit&dir={}", place.dir().display());
        Subscriber::<[u8]>::open(&shm).unwrap().close();
        let from = Config::parse(&uri(&path, "")).unwrap();
        let to = format!("shm://late?dir={}", place.dir().display());
        let bridge = Bridge::start(&from, &Config::parse(&to).unwrap(), true).unwrap();
        until("the replay ends or waits", || {
            let status = bridge.status();
            status.stage == olivine::LinkStage::Failed
                || status.note.starts_with("waiting until each")
        });
        let mut subscriber = Subscriber::open(&shm).unwrap();
        let mut reasons = String::new();
        while !reasons.contains(said) {
            match subscriber.receive_timeout(Duration::from_secs(10)) {
                Ok(Some(_)) => {}
                Err(ReceiveError::Failed(error)) => reasons.push_str(&error.to_string()),
                other => panic!("{end:?}: {reasons}: {:?}", other.err()),
            }
        }
        assert!(reasons.contains(": the sensor is gone;"), "{reasons}");
        drop(bridge);
    }
}

/// The replay waited for it without a bound.
#[test]
fn subscriber_that_does_not_read_is_evicted_where_a_failure_waits_for_it() {
    let place = TestFolder::new();
    let path = place.file("stuck.olv");
    record_part(&path, 0..3, Some("the sensor is gone"), "");
    record_part(&path, 3..6, Some("its disk is full"), "");
    record_part(&path, 6..9, None, "");
    let shm = format!("shm://stuck?dir={}", place.dir().display());
    let evicting = format!("{shm}&slow=evict:100ms");
    let mut stuck = Subscriber::<[u8]>::open(&evicting).unwrap();
    let mut reader = Subscriber::open(&evicting).unwrap();
    let from = Config::parse(&uri(&path, "")).unwrap();
    let bridge = Bridge::start(&from, &Config::parse(&evicting).unwrap(), true).unwrap();
    let (tags, mut ends) = failures_of(&mut reader);
    assert!(tags.into_iter().eq(0..9));
    ends.dedup();
    let at: Vec<u32> = ends.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [3, 6, 9], "{ends:?}");
    let error = stuck.receive().unwrap_err();
    assert!(
        matches!(error, ReceiveError::Overrun { .. } | ReceiveError::Evicted),
        "{error}"
    );
    drop(bridge);
}

#[test]
fn failure_that_the_replay_before_passed_on_is_read_before_the_next_one() {
    let place = TestFolder::new();
    let path = place.file("named.olv");
    let named = format!("name=audit&dir={}", place.dir().display());
    let named = uri(&path, &named);
    record_part(&path, 0..3, Some("the sensor is gone"), "");
    let subscriber = Subscriber::<[u8]>::open(&named).unwrap();
    until_it_waits(&subscriber);
    subscriber.close();
    record_part(&path, 3..6, Some("its disk is full"), "");
    record_part(&path, 6..9, None, "");
    let mut subscriber = Subscriber::open(&named).unwrap();
    until("the replay ends or waits", || {
        let status = subscriber.link_status().unwrap();
        status.stage == olivine::LinkStage::Ended || status.note.starts_with("waiting until each")
    });
    let (tags, ends) = failures_of(&mut subscriber);
    assert!(tags.into_iter().eq(0..9));
    let at: Vec<u32> = ends.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [3, 6, 9], "{ends:?}");
    assert!(ends[0].1.contains(": the sensor is gone;"), "{ends:?}");
    assert!(ends[1].1.contains(": its disk is full;"), "{ends:?}");
}

/// A request to end that leaves no time ended the stream in order.
#[test]
fn follower_that_closes_before_a_failure_was_passed_on_gets_it_later() {
    let place = TestFolder::new();
    let path = place.file("named.olv");
    let named = |query: &str| {
        uri(
            &path,
            &format!("name=audit&dir={}{query}", place.dir().display()),
        )
    };
    record_part(&path, 0..3, Some("the sensor is gone"), "");
    record_part(&path, 3..6, Some("its disk is full"), "");
    let publisher = Publisher::<[u8]>::open(&uri(&path, "sync=never")).unwrap();
    let subscriber = Subscriber::<[u8]>::open(&named("&follow=yes")).unwrap();
    publisher.close().unwrap();
    until_it_waits(&subscriber);
    subscriber.close();
    let (tags, ends) = with_failures(&named(""));
    assert!(tags.into_iter().eq(0..6));
    let at: Vec<u32> = ends.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [3, 6, 6], "{ends:?}");
}

/// The stored position passed it with the messages of another channel.
#[test]
fn failure_before_messages_of_another_channel_is_not_passed_over() {
    let place = TestFolder::new();
    let path = place.file("channels.olv");
    let named = format!("name=audit&dir={}", place.dir().display());
    let named = uri(&path, &format!("channel=a&{named}"));
    record_part(&path, 0..3, Some("the sensor is gone"), "&channel=a");
    record_part(&path, 3..6, None, "&channel=b");
    // While it is at work the stream has no end.
    let at_work = Publisher::<[u8]>::open(&uri(&path, "sync=never&channel=b")).unwrap();
    let mut subscriber = Subscriber::open(&named).unwrap();
    let mut failures = 0;
    for tag in 0..3 {
        assert_eq!(subscriber.receive().unwrap().tag(), tag);
    }
    match subscriber.receive_timeout(Duration::from_secs(2)) {
        Ok(None) => {}
        Err(ReceiveError::Failed(_)) => failures += 1,
        other => panic!("{:?}", other.err()),
    }
    subscriber.close();
    at_work.close().unwrap();
    let (tags, ends) = with_failures(&named);
    assert_eq!((tags, failures + ends.len()), (vec![], 2), "{ends:?}");
}

#[test]
fn subscriber_to_what_comes_gets_no_failure_of_before() {
    let place = TestFolder::new();
    let path = place.file("now.olv");
    record_part(&path, 0..3, Some("the sensor is gone"), "");
    let mut follower = Subscriber::open(&uri(&path, "from=now&follow=yes")).unwrap();
    until("it is at the end", || {
        let status = follower.link_status().unwrap();
        status.note == "the recording failed: the sensor is gone"
    });
    record_part(&path, 3..6, None, "");
    let (tags, ends) = failures_of(&mut follower);
    assert!(tags.into_iter().eq(3..6));
    assert_eq!(ends, [(3, String::new())]);
}

/// The reason of whatever file lay before was taken.
#[test]
fn failure_of_another_journals_file_is_not_before_this_one() {
    let place = TestFolder::new();
    let record = |name: &str| {
        let path = place.file(name);
        for part in 0..20 {
            record_part(&path, part * 9..part * 9 + 9, Some("gone"), "&rotate=4KiB");
        }
        path
    };
    let (path, other) = (record("one.olv"), record("other.olv"));
    let position = |path: &Path, from: u64| {
        let mut replay = Replay::open(path).unwrap();
        replay.seek_position(from).unwrap();
        let run = replay.next_run().unwrap().unwrap();
        (run.journal_position, !run.failed_before.is_empty())
    };
    let (mut places, mut replay) = (Vec::new(), Replay::open(&path).unwrap());
    while let Some(run) = replay.next_run().unwrap() {
        places.extend(run.failed_before.iter().map(|_| run.journal_position));
    }
    assert_eq!(places.len(), 19);
    for at in &places {
        assert_eq!(position(&path, *at), (*at, true));
    }
    // Of the files that begin behind a failure take the last: those before it are now of another
    // journal. A recorder that writes two blocks may begin a file in the middle of a recording.
    let begin_of = |n| {
        let bytes = std::fs::read(file_of(&path, n)).unwrap();
        u64::from_le_bytes(bytes[40..48].try_into().unwrap())
    };
    // A new file may also begin with the failure itself.
    let failures_before = |n| {
        let files = std::iter::once(path.clone()).chain((1..n).map(|n| file_of(&path, n)));
        let bytes: Vec<u8> = files
            .flat_map(|file| std::fs::read(file).unwrap())
            .collect();
        let marks = bytes.windows(8).filter(|text| text == b"gone\0\0\0\0");
        marks.count()
    };
    let is_behind = |n: &u64| {
        let place = places.iter().position(|place| *place == begin_of(*n));
        place.is_some_and(|place| failures_before(*n) == place + 1)
    };
    let files = (1..).take_while(|n| file_of(&path, *n).exists());
    let behind = files.filter(is_behind).last().unwrap();
    std::fs::copy(&other, &path).unwrap();
    for n in 1..behind {
        std::fs::copy(file_of(&other, n), file_of(&path, n)).unwrap();
    }
    let begin = begin_of(behind);
    assert_eq!(position(&path, begin), (begin, false));
}

/// For each run that follows failures the tag of its first message, and their reasons; then the
/// reasons at the end. Damage is skipped.
fn reasons_of(replay: &mut Replay) -> (Vec<(u32, Vec<String>)>, Vec<String>) {
    let mut found = Vec::new();
    loop {
        match replay.next_run() {
            Ok(Some(run)) => {
                let tag = run.messages().next().unwrap().tag;
                found.push((tag, run.failed_before.to_vec()));
            }
            Ok(None) => break,
            Err(JournalError::Damaged { .. }) => drop(replay.skip_damage().unwrap().unwrap()),
            Err(error) => panic!("{error}"),
        }
    }
    found.retain(|(_, reasons)| !reasons.is_empty());
    (found, replay.failed_before().to_vec())
}

/// Skipping the damage forgot it.
#[test]
fn failure_before_damage_that_is_skipped_comes_with_the_next_run_or_at_the_end() {
    for follows in [false, true] {
        let place = TestFolder::new();
        let path = place.file("damaged.olv");
        record_part(&path, 0..3, Some("the sensor is gone"), "");
        record_part(&path, 50..51, None, "");
        if follows {
            record_part(&path, 51..52, None, "");
        }
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(4).position(|part| part == b"xxxx").unwrap();
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let mut replay = Replay::open(&path).unwrap();
        let (found, at_end) = reasons_of(&mut replay);
        let reasons = vec!["the sensor is gone".to_owned()];
        match follows {
            false => assert_eq!((found, at_end), (vec![], reasons)),
            true => assert_eq!((found, at_end), (vec![(51, reasons)], vec![])),
        }
    }
}

/// Only the newest was reported.
#[test]
fn failures_without_a_message_between_them_are_all_reported_in_order() {
    // In one file, and with a new file for each recording.
    for rotate in ["", "&rotate=4KiB"] {
        let place = TestFolder::new();
        let path = place.file("several.olv");
        let (first, others) = ("the sensor is gone", ["its disk is full", "killed by hand"]);
        let all: Vec<_> = [first]
            .into_iter()
            .chain(others)
            .map(str::to_owned)
            .collect();
        record_part(&path, 0..300, Some(first), rotate);
        for reason in others {
            record_part(&path, 300..300, Some(reason), rotate);
        }
        // The journal ends with the newest.
        let mut replay = Replay::open(&path).unwrap();
        assert_eq!(reasons_of(&mut replay), (vec![], all[..2].to_vec()));
        let reason = all[2].clone();
        assert_eq!(replay.state(), ReplayState::Failed { reason });
        let (tags, ends) = told(&mut Subscriber::open(&uri(&path, "")).unwrap());
        assert!(tags.into_iter().eq(0..300));
        let last = ends.last().unwrap();
        assert!(last.1.contains(&all[2]), "{ends:?}");
        let [(300, earlier), ..] = &ends[..] else {
            panic!("{ends:?}")
        };
        let text = "failed: its disk is full; before that: the sensor is gone;";
        assert!(earlier.contains(text), "{ends:?}");

        // A recording follows, in order.
        record_part(&path, 300..600, None, rotate);
        let mut replay = Replay::open(&path).unwrap();
        assert_eq!(reasons_of(&mut replay), (vec![(300, all.clone())], vec![]));
        let mut position = 0;
        replay.seek_position(0).unwrap();
        while let Some(run) = replay.next_run().unwrap() {
            if !run.failed_before.is_empty() {
                position = run.journal_position;
            }
        }
        replay.seek_position(position).unwrap();
        assert_eq!(replay.next_run().unwrap().unwrap().failed_before, all);
        let (tags, ends) = with_failures(&uri(&path, "capacity=4KiB"));
        assert!(tags.into_iter().eq(0..600));
        let [(300, between), (600, end)] = &ends[..] else {
            panic!("{ends:?}")
        };
        let text = "failed: killed by hand; before that: its disk is full; before that: the sensor \
                    is gone; a later one follows";
        assert!(between.contains(text) && end.is_empty(), "{ends:?}");
        let accepting = uri(&path, "unfinished=accept");
        let mut subscriber = Subscriber::open(&accepting).unwrap();
        let (tags, ends) = failures_of(&mut subscriber);
        assert_eq!((tags.len(), ends.len()), (600, 1));
        let note = subscriber.link_status().unwrap().note;
        assert!(
            note.contains("3 earlier recordings failed, the last at"),
            "{note}"
        );
    }
}

/// All up to the last one with a known reason counted as passed on.
#[test]
fn failure_with_the_reason_of_an_earlier_one_hides_none_between_them() {
    for ends_with_it in [false, true] {
        let place = TestFolder::new();
        let path = place.file("same.olv");
        let named = uri(&path, &format!("name=audit&dir={}", place.dir().display()));
        record_part(&path, 0..3, Some("the sensor is gone"), "");
        let mut subscriber = Subscriber::open(&named).unwrap();
        told(&mut subscriber);
        subscriber.close();
        record_part(&path, 3..3, Some("its disk is full"), "");
        record_part(&path, 3..3, Some("the sensor is gone"), "");
        if !ends_with_it {
            record_part(&path, 3..6, None, "");
        }
        let mut subscriber = Subscriber::open(&named).unwrap();
        let ends = match ends_with_it {
            true => told(&mut subscriber).1,
            false => failures_of(&mut subscriber).1,
        };
        let count = |reason: &str| {
            ends.iter()
                .filter(|(_, text)| text.contains(reason))
                .count()
        };
        assert!(count("its disk is full") > 0, "{ends:?}");
        assert!(count("the sensor is gone") > 0, "{ends:?}");
    }
}

/// The next handle got the older of two as a failure again, which the handle before had got.
#[test]
fn subscriber_with_a_name_gets_no_failure_again_that_it_got_at_the_end() {
    let place = TestFolder::new();
    let path = place.file("named.olv");
    let named = format!("name=audit&dir={}", place.dir().display());
    let named = uri(&path, &named);
    let reasons = ["the sensor is gone", "its disk is full", "killed by hand"];
    let mut recorded = 0;
    for count in [1, 2, 2, 3] {
        while recorded < count {
            let tags = if recorded == 0 { 0..3 } else { 3..3 };
            record_part(&path, tags, Some(reasons[recorded]), "");
            recorded += 1;
        }
        let mut subscriber = Subscriber::open(&named).unwrap();
        let (_, ends) = told(&mut subscriber);
        subscriber.close();
        // Each handle gets how the journal ends. Its lane may name an older one behind it.
        let (_, last) = ends.last().unwrap();
        for (n, reason) in reasons.iter().enumerate() {
            assert_eq!(last.contains(reason), n + 1 == count, "{count}: {ends:?}");
            let first = ends
                .iter()
                .map(|(_, text)| text.split("; before that:").next().unwrap());
            let is_new = |text: &str| text.contains(reason) && n + 1 != count;
            assert!(!first.into_iter().any(is_new), "{count}: {ends:?}");
        }
    }
    record_part(&path, 3..6, None, "");
    let (tags, ends) = with_failures(&named);
    assert_eq!((tags, ends), (vec![3, 4, 5], vec![(3, String::new())]));
}
