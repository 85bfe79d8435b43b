//! Looking at a channel again and again, from outside.

use crate::common::{TestFolder, until};
use olivine::admin::{self, Failures, Names, Observer, ProcessState, SubscriberInfo, Tap, Tapped};
use olivine::{
    Config, LaneState, OpenError, Outgoing, Publisher, ReceiveError, Subscriber, WaitStrategy,
};
use std::ffi::OsStr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

fn observer(place: &TestFolder, channel: &str) -> Observer {
    Observer::new(&Config::parse(&place.uri(channel, "")).unwrap())
}

#[test]
fn observer_sees_what_changed_since_its_last_look() {
    let place = TestFolder::new();
    let uri = place.uri("x", "capacity=4KiB");
    let mut observer = observer(&place, "x");
    assert!(matches!(observer.look(), Err(OpenError::Missing { .. })));
    let mut subscriber = Subscriber::open(&place.uri("x", "name=audit")).unwrap();
    let open = observer.look().unwrap();
    assert_eq!((open.capacity_bytes, open.subscribers.len()), (0, 1));
    let mut publisher = Publisher::open(&uri).unwrap();
    publisher.publish(&[7; 24]).unwrap();
    let first = observer.look().unwrap();
    assert_eq!((first.capacity_bytes, first.publishers.len()), (4096, 1));
    assert_eq!(first.publishers[0].cursor, 32);
    let reader = &first.subscribers[0];
    assert_eq!(
        (reader.lag_bytes, reader.gates, reader.alive),
        (32, true, true)
    );
    assert_eq!(reader.process, ProcessState::Unknown);
    assert_eq!(
        admin::inspect(&Config::parse(&uri).unwrap())
            .unwrap()
            .incarnation,
        first.incarnation
    );
    while subscriber.try_receive().unwrap().is_some() {}
    let mut second = Publisher::open(&uri).unwrap();
    second.publish(b"").unwrap();
    drop(publisher);
    drop(subscriber);
    let last = observer.look().unwrap();
    let states: Vec<LaneState> = last.publishers.iter().map(|one| one.state).collect();
    assert_eq!(states, [LaneState::Closed, LaneState::Open]);
    assert_eq!(last.subscribers[0].lag_bytes, 8);
    assert!(!last.subscribers[0].alive);
}

#[test]
fn observer_does_not_keep_a_channel_and_follows_its_name() {
    let place = TestFolder::new();
    let mut observer = observer(&place, "x");
    let uri = place.uri("x", "");
    let (publisher, subscriber) = (
        Publisher::open(&uri).unwrap(),
        Subscriber::open(&uri).unwrap(),
    );
    let first = observer.look().unwrap();
    assert_eq!(admin::names(&place.dir()).unwrap(), ["x"]);
    drop(publisher);
    drop(subscriber);
    assert!(matches!(observer.look(), Err(OpenError::Missing { .. })));
    assert_eq!(admin::names(&place.dir()).unwrap(), Vec::<String>::new());
    let _again = Publisher::open(&uri).unwrap();
    let second = observer.look().unwrap();
    assert_ne!(second.incarnation, first.incarnation);
}

/// Longer than the time after which a folder that stays is not looked at in full.
const SETTLED: Duration = Duration::from_millis(400);

/// A look when nothing has changed for a while, which takes the place of the looks before.
fn settled_look(observer: &mut Observer) -> u64 {
    std::thread::park_timeout(SETTLED);
    observer.look().unwrap();
    observer.look().unwrap().incarnation
}

#[test]
fn observer_sees_each_way_to_replace_a_channel_in_folders_that_had_not_changed_for_long() {
    let place = TestFolder::new();
    let open = |name| Publisher::open(&place.uri(name, "")).unwrap();
    let (_publisher, _other) = (open("x"), open("y"));
    let (mut observer, mut other) = (observer(&place, "x"), observer(&place, "y"));
    let path = |name: &str| place.channel(name);
    let exchange = |one: &str, two: &str| {
        for (from, to) in [(one, "between"), (two, one), ("between", two)] {
            std::fs::rename(place.dir().join(from), place.dir().join(to)).unwrap();
        }
    };
    let first = [settled_look(&mut observer), settled_look(&mut other)];
    let looks = |observer: &mut Observer, other: &mut Observer| {
        [observer, other].map(|one| one.look().unwrap().incarnation)
    };
    assert_eq!(looks(&mut observer, &mut other), first);
    // Folders, and then the files in them.
    exchange("x", "y");
    assert_eq!(looks(&mut observer, &mut other), [first[1], first[0]]);
    assert_eq!(settled_look(&mut observer), first[1]);
    exchange("x", "y");
    assert_eq!(looks(&mut observer, &mut other), first);
    assert_eq!(settled_look(&mut observer), first[0]);
    std::fs::rename(path("x").join("control"), place.dir().join("y/old")).unwrap();
    assert!(matches!(observer.look(), Err(OpenError::Missing { .. })));
    std::fs::rename(place.dir().join("y/old"), path("x").join("control")).unwrap();
    assert_eq!(settled_look(&mut observer), first[0]);
    // By a link, which is not followed.
    std::fs::rename(path("x"), place.dir().join("away")).unwrap();
    std::os::unix::fs::symlink("away", path("x")).unwrap();
    assert!(matches!(
        observer.look(),
        Err(OpenError::NotAChannel { .. })
    ));
}

#[test]
fn names_of_a_folder_that_was_unchanged_for_long_are_those_of_now() {
    let place = TestFolder::new();
    let folder = place.file("later");
    let mut names = Names::new(&folder);
    assert_eq!(names.look().unwrap(), [""; 0]);
    let uri = |name: &str| format!("shm://{name}?dir={}", folder.display());
    let first = Publisher::open(&uri("b")).unwrap();
    assert_eq!(names.look().unwrap(), ["b"]);
    for round in 0..2 {
        if round > 0 {
            std::thread::park_timeout(SETTLED);
        }
        assert_eq!(names.look().unwrap(), ["b"]);
        let second = Publisher::open(&uri("a")).unwrap();
        assert_eq!(names.look().unwrap(), ["a", "b"]);
        drop(second);
        assert_eq!(names.look().unwrap(), ["b"]);
    }
    drop(first);
    assert_eq!(names.look().unwrap(), [""; 0]);
    std::thread::park_timeout(SETTLED);
    assert_eq!(names.look().unwrap(), [""; 0]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(names.look().unwrap(), [""; 0]);
    std::fs::write(&folder, "").unwrap();
    names.look().unwrap_err();
}

/// Two folders that each have a channel `x`, and both ways to look at that of the first.
struct TwoFolders {
    place: TestFolder,
    incarnations: [u64; 2],
    names: Names,
    observers: [Observer; 2],
    _publishers: [Publisher; 2],
}

impl TwoFolders {
    /// After enough looks that the next ones rely on what they found.
    fn settled() -> Self {
        let place = TestFolder::new();
        let folders = ["a", "b"].map(|name| place.file(name));
        let uris = folders
            .each_ref()
            .map(|folder| format!("shm://x?dir={}", folder.display()));
        let configs = uris.each_ref().map(|uri| Config::parse(uri).unwrap());
        let publishers = uris.each_ref().map(|uri| Publisher::open(uri).unwrap());
        let incarnations = configs
            .each_ref()
            .map(|config| admin::inspect(config).unwrap().incarnation);
        let mut both = Self {
            names: Names::new(&folders[0]),
            observers: [(); 2].map(|()| Observer::new(&configs[0])),
            _publishers: publishers,
            incarnations,
            place,
        };
        assert_eq!(both.look(), Some(both.incarnations[0]));
        std::thread::park_timeout(SETTLED);
        for _ in 0..2 {
            assert_eq!(both.look(), Some(both.incarnations[0]));
        }
        both
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.file(name)
    }

    /// Which channel is seen, if there is one.
    fn look(&mut self) -> Option<u64> {
        self.names.look().unwrap();
        let [alone, behind] = &mut self.observers;
        let seen = [alone.look(), behind.look_behind(&self.names)];
        let [alone, behind] = seen.map(|seen| match seen {
            Ok(info) => Some(info.incarnation),
            Err(OpenError::Missing { .. }) => None,
            Err(error) => panic!("{error}"),
        });
        assert_eq!(alone, behind);
        alone
    }
}

#[test]
fn observer_of_a_renamed_folder_looks_at_what_has_its_path() {
    let mut both = TwoFolders::settled();
    let [a, b, away] = ["a", "b", "away"].map(|name| both.path(name));
    std::fs::rename(&a, &away).unwrap();
    assert_eq!(both.look(), None);
    std::fs::rename(&b, &a).unwrap();
    assert_eq!(both.look(), Some(both.incarnations[1]));
    std::thread::park_timeout(SETTLED);
    assert_eq!(both.look(), Some(both.incarnations[1]));
    std::fs::rename(&a, &b).unwrap();
    std::fs::rename(&away, &a).unwrap();
    assert_eq!(both.look(), Some(both.incarnations[0]));
}

/// In mounts of this thread alone.
#[test]
fn observer_follows_mounts_over_the_folders_on_its_path() {
    let mount = |words: &[&OsStr]| {
        let done = Command::new("mount").args(words).output();
        done.is_ok_and(|done| done.status.success())
    };
    // SAFETY: it concerns this thread, which shares its mounts and its folder with no other after.
    let apart = unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
    let private = ["--make-rprivate", "/"].map(OsStr::new);
    if !apart || !mount(&private) {
        crate::common::skip("no separate mounts to be had here: that needs root");
        return;
    }
    let mut both = TwoFolders::settled();
    let [a, b] = ["a", "b"].map(|name| both.path(name));
    for (over, of) in [(a.clone(), b.clone()), (a.join("x"), b.join("x"))] {
        let bind = [OsStr::new("--bind"), of.as_os_str(), over.as_os_str()];
        assert!(mount(&bind), "{}", over.display());
        assert_eq!(both.look(), Some(both.incarnations[1]));
        assert_eq!(both.look(), Some(both.incarnations[1]));
        // The observers have files of it open.
        let gone = Command::new("umount").arg("--lazy").arg(&over).status();
        assert!(gone.unwrap().success());
        assert_eq!(both.look(), Some(both.incarnations[0]));
    }
}

#[test]
fn mean_frame_is_read_from_headers_that_are_not_overwritten() {
    let place = TestFolder::new();
    let uri = place.uri("x", "capacity=4KiB");
    let mut observer = observer(&place, "x");
    assert_eq!(observer.mean_frame_bytes(0, 0), None);
    let mut subscriber = Subscriber::open(&place.uri("x", "name=audit")).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    publisher.publish(&[1; 24]).unwrap();
    publisher.publish(&[1; 40]).unwrap();
    observer.look().unwrap();
    assert_eq!(observer.mean_frame_bytes(0, 0), Some(40.0));
    assert_eq!(observer.mean_frame_bytes(0, 32), Some(48.0));
    // Nothing was published behind it; there is no such lane; no frame starts there.
    for (lane, from) in [(0, 80), (1, 0), (0, u64::MAX), (0, 8)] {
        assert_eq!(observer.mean_frame_bytes(lane, from), None, "{lane} {from}");
    }
    // Two laps later.
    for _ in 0..128 {
        publisher.publish(&[1; 56]).unwrap();
        while subscriber.try_receive().unwrap().is_some() {}
    }
    assert_eq!(observer.mean_frame_bytes(0, 0), None);
}

fn only_subscriber(observer: &mut Observer) -> SubscriberInfo {
    let mut found = observer.look().unwrap().subscribers;
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// By the subscriber's own thread, by the thread of its descriptor, and anew for the next one.
#[test]
fn parks_count_sleeps_of_a_subscriber() {
    let place = TestFolder::new();
    let uri = place.uri("x", "wait=park&name=audit");
    let mut observer = observer(&place, "x");
    let mut parks = || only_subscriber(&mut observer).parks;
    let mut publisher = Publisher::open(&place.uri("x", "")).unwrap();
    let spinning = Config::parse(&uri).unwrap().wait(WaitStrategy::Spin);
    let mut subscriber = Subscriber::open(&spinning.uri()).unwrap();
    assert!(!subscriber.wait(Duration::from_millis(1)).unwrap());
    assert_eq!(parks(), 0, "it spins");
    drop(subscriber);
    let mut subscriber = Subscriber::open(&uri).unwrap();
    publisher.publish(b"there").unwrap();
    assert!(subscriber.wait(Duration::MAX).unwrap());
    assert_eq!(parks(), 0, "it did not wait");
    assert!(subscriber.try_receive().unwrap().is_some());
    let reader = std::thread::spawn(move || {
        assert_eq!(&subscriber.receive().unwrap()[..], b"awaited");
        subscriber
    });
    until("a park", || parks() > 0);
    publisher.publish(b"awaited").unwrap();
    let mut subscriber = reader.join().unwrap();
    let before = parks();
    subscriber.event_fd().unwrap();
    assert!(subscriber.try_receive().unwrap().is_none());
    until("a park of the descriptor's thread", || parks() > before);
    drop(subscriber);
    let _again = Subscriber::open(&uri).unwrap();
    assert_eq!(parks(), 0, "another subscriber of the name");
}

#[test]
fn overruns_of_a_subscriber_are_counted() {
    let place = TestFolder::new();
    let mut observer = observer(&place, "x");
    let mut publisher = Publisher::open(&place.uri("x", "capacity=4KiB")).unwrap();
    let mut subscriber = Subscriber::open(&place.uri("x", "delivery=latest")).unwrap();
    for overruns in 0..3 {
        let seen = only_subscriber(&mut observer);
        assert_eq!(seen.overruns, overruns);
        assert_eq!(seen.lost_bytes, subscriber.lost_bytes());
        for _ in 0..1000 {
            publisher.publish(&[1; 24]).unwrap();
        }
        let error = subscriber.try_receive().unwrap_err();
        assert!(matches!(error, ReceiveError::Overrun { .. }), "{error}");
    }
}

#[test]
fn failures_of_a_lane_are_counted_with_first_and_last_time() {
    let place = TestFolder::new();
    let uri = place.uri("x", "");
    let mut observer = observer(&place, "x");
    let mut failures = || observer.look().unwrap().publishers.remove(0).failures;
    let open = || Publisher::open(&uri).unwrap();
    let _subscriber = Subscriber::open(&uri).unwrap();
    open().close().unwrap();
    assert!(failures().is_none());
    open().close_failed("no route").unwrap();
    let once = failures().unwrap();
    assert_eq!((once.count, &*once.reason), (1, "no route"));
    assert_eq!(once.since_first_ns, once.since_last_ns);
    open().close().unwrap();
    open().close_failed("no disk").unwrap();
    let Failures {
        count,
        since_first_ns,
        since_last_ns,
        reason,
        ..
    } = failures().unwrap();
    assert_eq!((count, &*reason), (2, "no disk"));
    assert!(since_first_ns > since_last_ns && since_first_ns > once.since_first_ns);
    // A publisher may store any number.
    let path = place.channel("x").join("lane-0");
    let lane = std::fs::File::options().write(true).open(path).unwrap();
    for offset in [1536, 1544, 1552] {
        lane.write_all_at(&u64::MAX.to_le_bytes(), offset).unwrap();
    }
    let odd = failures().unwrap();
    let seen = (odd.count, odd.since_first_ns, odd.since_last_ns);
    assert_eq!(seen, (u64::MAX, 0, 0));
    open().close_failed("no more").unwrap();
    assert_eq!(failures().unwrap().reason, "no more");
}

/// A message as a tap sees it: lane, position, tag, topic, bytes of the payload, its head.
type Seen = (usize, u64, u32, String, u64, Vec<u8>);

/// The messages of one look, and how many bytes were missed.
fn look(tap: &mut Tap, head_max: usize) -> (Vec<Seen>, u64) {
    let (mut messages, mut missed) = (Vec::new(), 0);
    tap.look(head_max, |seen| match seen {
        Tapped::Message(message) => messages.push((
            message.lane,
            message.position,
            message.tag,
            String::from_utf8(message.topic.to_vec()).unwrap(),
            message.payload_bytes,
            message.head.to_vec(),
        )),
        Tapped::Missed { bytes, .. } => missed += bytes,
        other => panic!("{other:?}"),
    })
    .unwrap();
    (messages, missed)
}

fn tap(place: &TestFolder, channel: &str) -> Tap {
    Tap::new(&Config::parse(&place.uri(channel, "")).unwrap())
}

#[test]
fn tap_sees_tags_topics_and_lengths_of_messages_after_its_first_look() {
    let place = TestFolder::new();
    let mut publisher = Publisher::open(&place.uri("x", "capacity=64KiB")).unwrap();
    publisher.publish(b"before").unwrap();
    let mut tap = tap(&place, "x");
    assert_eq!(look(&mut tap, 4), (vec![], 0));
    publisher.publish(Outgoing::new(b"").tag(7)).unwrap();
    let tagged = Outgoing::new(b"payload").topic("a.b").tag(8);
    publisher.publish(tagged).unwrap();
    // Longer than what a look reads of a long frame.
    publisher.publish(&[5; 9000]).unwrap();
    publisher
        .publish(Outgoing::new(&[6; 9001]).topic("long"))
        .unwrap();
    publisher
        .publish(Outgoing::new(&[7; 9002]).topic("c"))
        .unwrap();
    publisher.publish(b"last").unwrap();
    let seen = |position, tag, topic: &str, bytes, head: &[u8]| {
        (0, position, tag, topic.to_owned(), bytes, head.to_vec())
    };
    let (messages, missed) = look(&mut tap, 4);
    assert_eq!(missed, 0);
    let expected = [
        seen(16, 7, "", 0, b""),
        seen(24, 8, "a.b", 7, b"payl"),
        seen(48, 0, "", 9000, &[5; 4]),
        seen(9056, 0, "long", 9001, &[6; 4]),
        seen(18072, 0, "c", 9002, &[7; 4]),
        seen(27088, 0, "", 4, b"last"),
    ];
    assert_eq!(messages, expected);
    assert_eq!(look(&mut tap, 4), (vec![], 0));
}

#[test]
fn tap_reads_every_message_of_lanes_that_wrap_and_of_lanes_made_later() {
    let place = TestFolder::new();
    let mut tap = tap(&place, "x");
    assert!(matches!(
        tap.look(0, |_| {}),
        Err(OpenError::Missing { .. })
    ));
    let uri = place.uri("x", "capacity=4KiB");
    let mut publishers = [(); 2].map(|()| Publisher::open(&uri).unwrap());
    for round in 0..300_u64 {
        for (lane, publisher) in publishers.iter_mut().enumerate() {
            let text = format!("{round}");
            publisher.publish(text.repeat(1 + lane).as_bytes()).unwrap();
        }
        let (messages, missed) = look(&mut tap, 64);
        let heads: Vec<_> = messages
            .iter()
            .map(|seen| (seen.0, seen.5.clone()))
            .collect();
        let text = format!("{round}");
        let expected = [
            (0, text.clone().into_bytes()),
            (1, text.repeat(2).into_bytes()),
        ];
        assert_eq!((heads, missed), (expected.to_vec(), 0));
    }
}

#[test]
fn tap_says_how_many_bytes_were_overwritten_and_goes_on() {
    let place = TestFolder::new();
    let mut publisher = Publisher::open(&place.uri("x", "capacity=4KiB")).unwrap();
    let mut tap = tap(&place, "x");
    look(&mut tap, 0);
    for _ in 0..1000 {
        publisher.publish(&[1; 24]).unwrap();
    }
    assert_eq!(look(&mut tap, 0), (vec![], 32_000));
    publisher.publish(b"next").unwrap();
    let (messages, missed) = look(&mut tap, 4);
    assert_eq!((messages.len(), missed), (1, 0));
    assert_eq!(messages[0].5, b"next");
}

#[test]
fn tap_reads_the_last_messages_of_a_removed_channel() {
    let place = TestFolder::new();
    let uri = place.uri("x", "");
    let mut publisher = Publisher::open(&uri).unwrap();
    let subscriber = Subscriber::open(&uri).unwrap();
    let mut tap = tap(&place, "x");
    look(&mut tap, 0);
    publisher.publish(b"last").unwrap();
    drop((publisher, subscriber));
    let mut seen = Vec::new();
    let mut look = || tap.look(8, |one| seen.push(format!("{one:?}")));
    assert!(matches!(look(), Err(OpenError::Missing { .. })));
    assert!(matches!(look(), Err(OpenError::Missing { .. })));
    let mut next = Publisher::open(&uri).unwrap();
    next.publish(b"next").unwrap();
    look().unwrap();
    look().unwrap();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[0].contains(&format!("{:?}", b"last")), "{seen:?}");
    assert!(seen[1].contains(&format!("{:?}", b"next")), "{seen:?}");
}

/// The channel was removed between the tap's reading and its look at the channel.
#[test]
fn tap_reads_messages_that_come_while_it_looks_at_a_channel_that_goes() {
    let place = TestFolder::new();
    let uri = place.uri("x", "");
    let mut publisher = Publisher::open(&uri).unwrap();
    let subscriber = Subscriber::open(&uri).unwrap();
    let mut tap = tap(&place, "x");
    look(&mut tap, 0);
    publisher.publish(b"first").unwrap();
    let mut open = Some((publisher, subscriber));
    let mut heads = Vec::new();
    let mut look = || {
        tap.look(8, |one| {
            let Tapped::Message(message) = one else {
                panic!("{one:?}")
            };
            heads.push(message.head.to_vec());
            if let Some((mut publisher, _subscriber)) = open.take() {
                publisher.publish(b"last").unwrap();
            }
        })
    };
    while look().is_ok() {}
    assert!(matches!(look(), Err(OpenError::Missing { .. })));
    assert_eq!(heads, [b"first".to_vec(), b"last".to_vec()]);
}

#[test]
fn tap_stores_nothing_and_takes_no_place() {
    let place = TestFolder::new();
    let mut publisher = Publisher::open(&place.uri("x", "")).unwrap();
    let mut tap = tap(&place, "x");
    look(&mut tap, 0);
    publisher.publish(b"seen").unwrap();
    let files = || {
        ["control", "lane-0"].map(|name| std::fs::read(place.dir().join("x").join(name)).unwrap())
    };
    let before = files();
    assert_eq!(look(&mut tap, 4).0.len(), 1);
    assert!(files() == before, "shared memory changed");
    assert_eq!(publisher.count_subscribers(), 0);
}

#[test]
fn tap_reports_a_damaged_frame_and_reads_on_behind_it() {
    let place = TestFolder::new();
    let mut publisher = Publisher::open(&place.uri("x", "")).unwrap();
    let mut tap = tap(&place, "x");
    look(&mut tap, 0);
    // No publisher writes these: too short, beyond the cursor, a topic longer than its payload.
    for header in [3_u64, 1 << 20, 1 << 31 | 16] {
        let position = publisher.publish(&[0xff; 8]).unwrap().0 - 16;
        let path = place.dir().join("x").join("lane-0");
        let lane = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        lane.write_all_at(&header.to_le_bytes(), 4096 + position)
            .unwrap();
        publisher.publish(b"behind").unwrap();
        let mut seen = Vec::new();
        tap.look(8, |one| {
            seen.push(match one {
                Tapped::Damaged { lane: 0, position } => position,
                other => panic!("{other:?}"),
            });
        })
        .unwrap();
        assert_eq!(seen, [position], "{header:#x}");
        publisher.publish(b"next").unwrap();
        assert_eq!(look(&mut tap, 8).0.len(), 1);
    }
}
