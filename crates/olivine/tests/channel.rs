//! Opening and closing: durable names, evictions, refused openings, and how a stream ends.

#![cfg(not(loom))]

mod common;

use crate::common::mapped::SharedWords;
use common::numbers::{LONG, SHORT, expect, fill, number, send};
use common::{Other, TestFolder, kill, spawn, until};
use olivine::admin::inspect;
use olivine::{Config, NotSent, OpenError, Publisher, ReceiveError, Subscriber};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The other processes.
#[test]
fn role() {
    let Some(role) = common::my_role() else {
        return;
    };
    let uri = std::env::var("OLIVINE_DEATH_URI").unwrap();
    let words =
        SharedWords::attach(std::env::var("OLIVINE_DEATH_WORDS").unwrap().as_ref()).unwrap();
    assert_eq!(role, "reader");
    // Reads a hundred messages, reports that, and waits until it is killed.
    let mut subscriber = Subscriber::open(&uri).unwrap();
    words.store(0, 1);
    expect(&mut subscriber, 0..100);
    // Releases what it read.
    assert!(subscriber.try_receive().unwrap().is_none());
    words.store(0, 2);
    loop {
        std::thread::park();
    }
}

fn reader(place: &TestFolder, uri: &str, words: &SharedWords) -> Other {
    let path = place.file("words").display().to_string();
    let variables = [
        ("OLIVINE_DEATH_URI", uri.to_owned()),
        ("OLIVINE_DEATH_WORDS", path),
    ];
    let child = spawn("reader", &variables);
    until("the reader has opened", || words.load(0) == 1);
    child
}

#[test]
fn durable_subscriber_continues_at_its_position() {
    let place = TestFolder::new();
    let uri = place.uri("durable", "capacity=4KiB");
    let named = place.uri("durable", "capacity=4KiB&name=archive");
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut first = Subscriber::open(&named).unwrap();
    let busy = Subscriber::open(&named).unwrap_err();
    let me = u64::from(std::process::id());
    assert!(
        matches!(busy, OpenError::NameInUse { pid, .. } if pid == me),
        "{busy}"
    );
    send(&mut publisher, 0..10);
    expect(&mut first, 0..5);
    first.close();
    // While it is absent, the publisher waits for it.
    let sent = 10 + fill(&mut publisher);
    assert!(sent < 4096 / 8);
    let mut again = Subscriber::open(&named).unwrap();
    expect(&mut again, 5..10);
    expect(&mut again, 0..sent - 10);
    again.unsubscribe();
    // After it was removed, the publisher does not wait.
    send(&mut publisher, 0..10_000);
    drop(publisher);
    assert!(!place.channel("durable").exists());
}

#[test]
fn killed_durable_subscriber_continues_at_its_position() {
    let place = TestFolder::new();
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    let uri = place.uri("durable", "capacity=4KiB");
    let named = place.uri("durable", "capacity=4KiB&name=archive");
    let mut publisher = Publisher::open(&uri).unwrap();
    let child = reader(&place, &named, &words);
    send(&mut publisher, 0..100);
    until("it has read", || words.load(0) == 2);
    kill(child);
    send(&mut publisher, 100..150);
    // The channel stays for it, also without a publisher.
    drop(publisher);
    let mut again = Subscriber::open(&named).unwrap();
    expect(&mut again, 100..150);
    again.unsubscribe();
    assert!(!place.channel("durable").exists());
}

#[test]
fn durable_subscriber_gets_an_unreleased_message_again() {
    for slow in ["wait", "evict:10s"] {
        let place = TestFolder::new();
        let uri = place.uri("again", &format!("capacity=4KiB&slow={slow}"));
        let named = place.uri("again", "capacity=4KiB&name=archive");
        let mut publisher = Publisher::open(&uri).unwrap();
        let mut first = Subscriber::open(&named).unwrap();
        send(&mut publisher, 0..5);
        expect(&mut first, 0..3);
        // Not closed: the last message is not released.
        drop(first);
        let mut again = Subscriber::open(&named).unwrap();
        expect(&mut again, 2..4);
        again.close();
        let mut last = Subscriber::open(&named).unwrap();
        expect(&mut last, 4..5);
        last.unsubscribe();
    }
}

#[test]
fn subscriber_without_lag_is_not_evicted_during_a_batch_longer_than_the_ring() {
    let place = TestFolder::new();
    let uri = place.uri("long", "capacity=4KiB&slow=evict:1ns");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    send(&mut publisher, 0..1);
    expect(&mut subscriber, 0..1);
    assert!(subscriber.try_receive().unwrap().is_none());
    let started = Instant::now();
    let mut batch = publisher.batch();
    // Until well after the eviction time.
    while started.elapsed() < Duration::from_millis(20) {
        let _ = batch.push(&[1; 1000]);
    }
    drop(batch);
    assert_eq!(publisher.stats().evicted, 0);
    send(&mut publisher, 1..2);
    expect(&mut subscriber, 1..2);
}

/// Words of the control file, see `docs/layout.md`: the state of slot 0, for the `publishers_max`
/// and `subscribers_max` of the test, and the value "evicted".
const STATE_OF_SLOT: u64 = 512;
const EVICTED: u64 = 3;

#[test]
fn eviction_begun_by_a_dead_publisher_is_completed() {
    let place = TestFolder::new();
    let uri = place.uri(
        "half",
        "capacity=4KiB&publishers_max=4&subscribers_max=4&slow=evict:1ms",
    );
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    let control = place.channel("half").join("control");
    let control = std::fs::File::options().write(true).open(control).unwrap();
    control
        .write_all_at(&EVICTED.to_le_bytes(), STATE_OF_SLOT * 8)
        .unwrap();
    // Many rings of messages: they fit only after the subscriber stops gating.
    send(&mut publisher, 0..1_000);
    assert_eq!(publisher.stats().evicted, 1, "once");
    let mut answer = subscriber.try_receive().map(|_| ());
    while answer.is_ok() {
        answer = subscriber.try_receive().map(|_| ());
    }
    assert!(matches!(answer, Err(ReceiveError::Evicted)), "{answer:?}");
}

#[test]
fn absent_durable_subscriber_expires() {
    let place = TestFolder::new();
    let mut publisher = Publisher::open(&place.uri("expire", "capacity=4KiB")).unwrap();
    let named = place.uri("expire", "capacity=4KiB&name=archive&expire=10ms");
    Subscriber::open(&named).unwrap().close();
    // Many rings of messages: they fit only after its expiry.
    send(&mut publisher, 0..10_000);
    assert_eq!(publisher.stats().reclaimed, 1);
    assert_eq!(publisher.count_subscribers(), 0);
}

#[test]
fn dead_subscriber_does_not_hold_a_publisher_back() {
    let place = TestFolder::new();
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    let uri = place.uri("dead", "capacity=4KiB&wait=park");
    let mut publisher = Publisher::open(&uri).unwrap();
    let child = reader(&place, &uri, &words);
    send(&mut publisher, 0..100);
    until("it has read", || words.load(0) == 2);
    fill(&mut publisher);
    kill(child);
    send(&mut publisher, 0..10_000);
    assert_eq!(publisher.stats().reclaimed, 1);
    assert_eq!(publisher.stats().evicted, 0);
}

#[test]
fn only_the_slow_subscriber_is_evicted() {
    for scheme in ["shm", "inproc"] {
        let place = TestFolder::new();
        let uri = match scheme {
            "shm" => place.uri("evict", "capacity=4KiB&slow=evict:5ms"),
            _ => "inproc://evict?capacity=4KiB&slow=evict:5ms".to_owned(),
        };
        let mut publisher = Publisher::open(&uri).unwrap();
        let mut slow = Subscriber::open(&uri).unwrap();
        let mut idle = Subscriber::open(&uri).unwrap();
        let sent = fill(&mut publisher);
        expect(&mut idle, 0..sent);
        assert!(idle.try_receive().unwrap().is_none());
        // Waits until the slow subscriber is evicted.
        publisher.publish(&sent.to_le_bytes()).unwrap();
        assert_eq!(publisher.stats().evicted, 1, "{scheme}");
        expect(&mut idle, sent..sent + 1);
        // It reads whole messages that are still there; then it gets the error.
        let mut next = 0;
        let end = loop {
            match slow.try_receive() {
                Ok(Some(message)) => {
                    assert_eq!(number(&message), next);
                    next += 1;
                }
                Ok(None) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(end, ReceiveError::Evicted), "{end}");
        drop(slow);
        let mut again = Subscriber::open(&uri).unwrap();
        send(&mut publisher, 0..10);
        expect(&mut again, 0..10);
    }
}

#[test]
fn late_slow_subscriber_is_evicted_by_the_same_clock() {
    let uri = "inproc://late?capacity=4KiB&slow=evict:2s";
    let mut publisher = Publisher::open(uri).unwrap();
    let _slow = Subscriber::open(uri).unwrap();
    fill(&mut publisher);
    let held = publisher.publish_timeout(b"held", Duration::from_millis(250));
    assert_eq!(held, Err(NotSent::BackPressured));
    // It gates from the start, as the other has done for long.
    let _late = Subscriber::open(&format!("{uri}&from=oldest")).unwrap();
    publisher.publish(b"sent").unwrap();
    let stats = publisher.stats();
    assert_eq!((stats.evicted, stats.back_pressure_count), (2, 1));
}

#[test]
fn draining_evicts_no_subscriber() {
    let uri = "inproc://drain?capacity=4KiB&slow=evict:1ms";
    let mut publisher = Publisher::open(uri).unwrap();
    let mut behind = Subscriber::open(uri).unwrap();
    send(&mut publisher, 0..10);
    assert!(!publisher.wait_drained(Some(SHORT)).unwrap());
    publisher.close().unwrap();
    expect(&mut behind, 0..10);
    assert!(matches!(behind.receive(), Err(ReceiveError::Closed)));
}

#[test]
fn waiting_for_subscribers_evicts_none() {
    let place = TestFolder::new();
    let uri = place.uri("gather", "capacity=4KiB&slow=evict:1ms");
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut subscriber = Subscriber::open(&uri).unwrap();
    assert!(!publisher.wait_for_subscribers(2, Some(SHORT)).unwrap());
    assert!(publisher.wait_drained(Some(SHORT)).unwrap());
    assert_eq!(
        (publisher.stats().evicted, publisher.count_subscribers()),
        (0, 1)
    );
    send(&mut publisher, 0..10);
    expect(&mut subscriber, 0..10);
}

#[test]
fn publisher_waits_for_the_requested_subscribers() {
    let place = TestFolder::new();
    let uri = place.uri("connect", "subscribers=2&subscribers_max=2");
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut one = Subscriber::open(&uri).unwrap();
    assert_eq!(publisher.try_publish(b"early"), Err(NotSent::NotConnected));
    let timed = publisher.publish_timeout(b"early", SHORT);
    assert_eq!(timed, Err(NotSent::NotConnected));
    let mut two = Subscriber::open(&uri).unwrap();
    assert!(publisher.wait_for_subscribers(2, Some(LONG)).unwrap());
    publisher.try_publish(b"both").unwrap();
    for subscriber in [&mut one, &mut two] {
        assert_eq!(&*subscriber.receive().unwrap(), b"both");
    }
    let full = Subscriber::open(&uri).unwrap_err();
    let held = format!("process {} (2 times)", std::process::id());
    assert!(
        matches!(&full, OpenError::SubscribersFull { max: 2, holders, .. } if *holders == held),
        "{full}"
    );
    drop(one);
    Subscriber::open(&format!("{uri}&name=archive")).unwrap();
    let full = Subscriber::open(&uri).unwrap_err().to_string();
    let held = format!(
        "(held by the absent name 'archive', process {})",
        std::process::id()
    );
    assert!(full.contains(&held), "{full}");
}

#[test]
fn publisher_above_the_limit_gets_an_error_with_the_limit() {
    let place = TestFolder::new();
    let uri = place.uri("crowd", "publishers_max=2");
    let held = [
        Publisher::open(&uri).unwrap(),
        Publisher::open(&uri).unwrap(),
    ];
    let full = Publisher::open(&uri).unwrap_err();
    let me = std::process::id();
    let expected = format!("process {me} (2 times)");
    assert!(
        matches!(&full, OpenError::PublishersFull { max: 2, holders, .. } if *holders == expected),
        "{full}"
    );
    drop(held);
    Publisher::open(&uri).unwrap();
}

#[test]
fn different_settings_are_refused_while_a_channel_is_in_use() {
    let place = TestFolder::new();
    let publisher = Publisher::open(&place.uri("shape", "capacity=64KiB&align=64")).unwrap();
    for (query, key) in [
        ("capacity=128KiB", "capacity"),
        ("align=8", "align"),
        ("publishers_max=3", "publishers_max"),
        ("subscribers_max=3", "subscribers_max"),
        ("slow=evict:1s", "slow"),
    ] {
        match Subscriber::open(&place.uri("shape", query)) {
            Err(OpenError::Mismatch { key: found, .. }) => assert_eq!(found, key),
            other => panic!("{query}: {other:?}"),
        }
    }
    // Without settings any geometry is accepted.
    let subscriber = Subscriber::open(&place.uri("shape", "")).unwrap();
    assert_eq!(subscriber.capacity(), 64 << 10);
    drop((publisher, subscriber));
    // No participant is left, but one message is unread.
    let mut publisher = Publisher::open(&place.uri("shape", "capacity=64KiB")).unwrap();
    publisher.publish(b"unseen").unwrap();
    drop(publisher);
    assert!(place.channel("shape").exists());
    let refused = Subscriber::open(&place.uri("shape", "capacity=128KiB"));
    assert!(
        matches!(refused, Err(OpenError::Mismatch { .. })),
        "not lost without a word: {refused:?}"
    );
    let mut subscriber = Subscriber::open(&place.uri("shape", "from=oldest")).unwrap();
    assert_eq!(&*subscriber.try_receive().unwrap().unwrap(), b"unseen");
    drop(subscriber);
    // Everything was read and all participants have left: another geometry makes a new channel.
    let subscriber = Subscriber::open(&place.uri("shape", "capacity=128KiB")).unwrap();
    assert_eq!(subscriber.capacity(), 128 << 10);
}

#[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)]
#[repr(C)]
struct Quote {
    bid: i64,
    ask: i64,
}

impl olivine::Plain for Quote {
    const TYPE_NAME: &'static str = "quote v1";
}

#[test]
fn opening_with_another_type_is_refused() {
    let place = TestFolder::new();
    let uri = place.uri("typed", "");
    let mut subscriber = Subscriber::<Quote>::typed(&uri).unwrap();
    let mut publisher = Publisher::<Quote>::typed(&uri).unwrap();
    publisher.publish(&Quote { bid: -1, ask: 2 }).unwrap();
    {
        let quote = subscriber.receive().unwrap();
        assert_eq!((quote.bid, quote.ask), (-1, 2));
    }
    match Publisher::open(&uri) {
        Err(OpenError::Type { asked, found, .. }) => {
            assert_eq!((&*asked, &*found), ("untyped bytes", "quote v1"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn waiting_reports_no_silent_publisher() {
    let place = TestFolder::new();
    let uri = place.uri("quiet", "");
    let short = Duration::from_millis(20);
    let mut early = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut late = Subscriber::open(&uri).unwrap();
    for subscriber in [&mut early, &mut late] {
        for _ in 0..2 {
            assert!(!subscriber.wait(short).unwrap(), "nothing was sent");
        }
    }
    publisher.publish(b"now").unwrap();
    assert!(early.wait(short).unwrap() && late.wait(short).unwrap());
}

#[test]
fn untyped_subscriber_reads_a_typed_channel_opened_first_or_last() {
    let place = TestFolder::new();
    for first in [true, false] {
        let uri = place.uri(if first { "before" } else { "after" }, "");
        let early = first.then(|| Subscriber::open(&uri).unwrap());
        let mut publisher = Publisher::<Quote>::typed(&uri).unwrap();
        let mut subscriber = early.unwrap_or_else(|| Subscriber::open(&uri).unwrap());
        publisher.publish(&Quote { bid: 1, ask: 256 }).unwrap();
        let bytes = [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(*subscriber.receive().unwrap(), bytes);
        // A publisher must name the type of the channel, and a typed subscriber, too.
        for refused in [
            Publisher::open(&uri).map(|_| ()),
            Publisher::<Note>::typed(&uri).map(|_| ()),
            Subscriber::<Note>::typed(&uri).map(|_| ()),
        ] {
            assert!(
                matches!(refused, Err(OpenError::Type { .. })),
                "{refused:?}"
            );
        }
    }
}

#[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)]
#[repr(C)]
struct Note(u64);

impl olivine::Plain for Note {
    const TYPE_NAME: &'static str = "note v1";
}

#[test]
fn messages_of_each_publisher_arrive_in_order() {
    let place = TestFolder::new();
    let uri = place.uri("fan-in", "capacity=4KiB&wait=yield");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let threads: Vec<_> = (0..4_u64)
        .map(|me| {
            let mut publisher = Publisher::open(&uri).unwrap();
            std::thread::spawn(move || {
                for n in 0..5_000_u64 {
                    publisher.publish(&(me << 32 | n).to_le_bytes()).unwrap();
                }
                publisher.close().unwrap();
            })
        })
        .collect();
    let mut next = [0_u64; 4];
    loop {
        match subscriber.receive() {
            Ok(message) => {
                let word = u64::from_le_bytes(message[..].try_into().unwrap());
                let from = usize::try_from(word >> 32).unwrap();
                assert_eq!(word & 0xffff_ffff, next[from]);
                next[from] += 1;
            }
            Err(ReceiveError::Closed) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(next, [5_000; 4]);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn new_publisher_is_read_while_another_never_pauses() {
    let uri = "inproc://busy-and-new?capacity=4KiB";
    let mut subscriber = Subscriber::open(uri).unwrap();
    let mut busy = Publisher::open(uri).unwrap();
    fill(&mut busy);
    subscriber.receive().unwrap();
    let mut new = Publisher::open(uri).unwrap();
    new.publish(b"hello").unwrap();
    let heard = (0..100_000).any(|_| {
        fill(&mut busy);
        &*subscriber.receive().unwrap() == b"hello"
    });
    assert!(heard);
    new.publish(b"hello").unwrap();
    let mut newest = Publisher::open(uri).unwrap();
    newest.publish(b"polled").unwrap();
    let heard = (0..100_000).any(|_| {
        fill(&mut busy);
        let mut found = false;
        subscriber
            .poll(|message| found |= &*message == b"polled", 2)
            .unwrap();
        found
    });
    assert!(heard);
}

#[test]
fn durable_name_is_opened_and_closed_by_many_threads() {
    // A thread may open the channel while its last participant leaves. A lane holds all messages of
    // all threads. Otherwise a publisher could wait for its own thread's subscriber.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let uri = "inproc://restless?capacity=64KiB";
                    let mut subscriber = Subscriber::open(uri).unwrap();
                    let mut publisher = Publisher::open(uri).unwrap();
                    publisher.publish(b"mine or another's").unwrap();
                    assert_eq!(&*subscriber.receive().unwrap(), b"mine or another's");
                }
            });
        }
    });
}

#[test]
fn stream_ends_for_subscribers_that_saw_it() {
    let place = TestFolder::new();
    let uri = place.uri("end", "capacity=4KiB");
    let mut early = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    send(&mut publisher, 0..5);
    publisher.close().unwrap();
    // Opened after the end: the next publisher's stream is its first.
    let mut late = Subscriber::open(&uri).unwrap();
    expect(&mut early, 0..5);
    assert!(matches!(early.receive(), Err(ReceiveError::Closed)));
    assert!(late.receive_timeout(SHORT).unwrap().is_none());
    // Another publisher continues the stream.
    let mut publisher = Publisher::open(&uri).unwrap();
    send(&mut publisher, 5..7);
    expect(&mut early, 5..7);
    expect(&mut late, 5..7);
}

#[test]
fn from_oldest_starts_at_the_oldest_stored_message() {
    let place = TestFolder::new();
    let uri = place.uri("history", "capacity=4KiB");
    let mut publisher = Publisher::open(&uri).unwrap();
    send(&mut publisher, 0..100_000);
    let mut subscriber = Subscriber::open(&place.uri("history", "from=oldest")).unwrap();
    let first = number(&subscriber.receive().unwrap());
    // At least half a ring of frames of 16 bytes.
    assert!((99_744..99_872).contains(&first), "{first}");
    expect(&mut subscriber, first + 1..100_000);
    let mut now = Subscriber::open(&uri).unwrap();
    assert!(now.try_receive().unwrap().is_none());
}

#[test]
fn closing_waits_for_subscribers_up_to_linger() {
    let place = TestFolder::new();
    let uri = place.uri("linger", "capacity=4KiB&linger=20ms");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    send(&mut publisher, 0..3);
    assert_eq!(publisher.close(), Err(NotSent::BackPressured));
    expect(&mut subscriber, 0..3);
    assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
    let uri = place.uri("linger", "capacity=4KiB&linger=1m");
    let mut publisher = Publisher::open(&uri).unwrap();
    send(&mut publisher, 3..6);
    let reader = std::thread::spawn(move || {
        expect(&mut subscriber, 3..6);
        assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
    });
    publisher.close().unwrap();
    reader.join().unwrap();
}

#[test]
fn dead_subscribers_are_not_counted() {
    let place = TestFolder::new();
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    let uri = place.uri("counted", "capacity=4KiB");
    // Keeps the channel.
    let mut first = Publisher::open(&uri).unwrap();
    let child = reader(&place, &uri, &words);
    assert_eq!(first.count_subscribers(), 1);
    kill(child);
    let eager = place.uri("counted", "subscribers=1");
    let mut second = Publisher::open(&eager).unwrap();
    assert_eq!(second.try_publish(b"unread"), Err(NotSent::NotConnected));
    assert_eq!(second.stats().reclaimed, 1);
    words.store(0, 0);
    kill(reader(&place, &uri, &words));
    assert!(!first.wait_for_subscribers(1, Some(SHORT)).unwrap());
    words.store(0, 0);
    kill(reader(&place, &uri, &words));
    assert_eq!(first.count_subscribers(), 0);
    // An absent durable subscriber gates, and is counted.
    drop(Subscriber::open(&place.uri("counted", "name=archive")).unwrap());
    assert_eq!(first.count_subscribers(), 1);
    second.try_publish(b"for the archive").unwrap();
}

#[test]
fn handler_that_panics_gets_the_message_again() {
    for query in ["", "&slow=evict:1h", "&delivery=latest"] {
        let uri = format!("inproc://panics?capacity=4KiB{query}");
        let mut subscriber = Subscriber::open(&uri).unwrap();
        let mut publisher = Publisher::open(&uri).unwrap();
        send(&mut publisher, 0..3);
        let thrown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            subscriber.poll(
                |message| std::panic::resume_unwind(Box::new(number(&message))),
                10,
            )
        }));
        assert_eq!(*thrown.unwrap_err().downcast::<u32>().unwrap(), 0);
        expect(&mut subscriber, 0..3);
    }
}

#[test]
fn handler_that_panics_gets_that_message_first_with_many_publishers() {
    for query in ["", "&topic=a", "&slow=evict:1h", "&slow=evict:1h&topic=a"] {
        let uri = format!("inproc://first?capacity=4KiB{query}");
        let mut subscriber = Subscriber::open(&uri).unwrap();
        let mut publishers = [(); 3].map(|()| Publisher::open(&uri).unwrap());
        for (publisher, first) in publishers.iter_mut().zip([0, 10, 20]) {
            send(publisher, first..first + 3);
        }
        for round in 0..9 {
            let thrown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                subscriber.poll(
                    |message| std::panic::resume_unwind(Box::new(number(&message))),
                    10,
                )
            }));
            let refused = *thrown.unwrap_err().downcast::<u32>().unwrap();
            let mut again = None;
            let polled = subscriber.poll(|message| again = Some(number(&message)), 1);
            assert_eq!(polled.unwrap(), 1);
            assert_eq!(again, Some(refused), "{query}, round {round}");
        }
    }
}

#[test]
fn membarrier_is_refused_on_request() {
    common::idle::membarrier_is_as_expected();
}

#[test]
fn tests_pass_without_membarrier() {
    common::idle::again_without_membarrier("tests_pass_without_membarrier");
}

/// Messages of one length that are received one by one: the subscriber is at the one returned last
/// whatever it is asked meanwhile, also where the ring wraps and where the length changes.
#[test]
fn subscriber_is_at_the_message_returned_last_in_a_row_of_one_length() {
    let place = TestFolder::new();
    let uri = place.uri("row", "capacity=4KiB");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    let config = Config::parse(&uri).unwrap();
    let text = |n: usize| vec![u8::try_from(n % 251).unwrap(); if n % 50 == 49 { 5 } else { 20 }];
    let bytes = |n: usize| if n % 50 == 49 { 16 } else { 32 };
    let (mut at, mut sent, mut n) = (subscriber.position().0, 0, 0);
    while n < 2_000 {
        while sent < n + 60 {
            publisher.publish(&text(sent)).unwrap();
            sent += 1;
        }
        let end = publisher.cursor().0;
        let message = subscriber.receive().unwrap();
        assert_eq!((&*message, message.position().0), (&*text(n), at));
        assert_eq!(subscriber.position().0, at);
        assert_eq!(subscriber.lag(), end - at);
        let lanes = subscriber.inspect_lanes();
        assert_eq!((lanes[0].position.0, lanes[0].cursor.0), (at, end));
        if n % 7 == 3 {
            subscriber.release();
            assert_eq!(inspect(&config).unwrap().subscribers[0].positions, [at]);
        }
        at += bytes(n);
        n += 1;
        if n % 97 == 60 {
            // Consumes that message, and one more.
            let taken = subscriber.poll(|message| assert_eq!(&*message, &*text(n)), 1);
            assert_eq!(taken.unwrap(), 1);
            at += bytes(n);
            n += 1;
            assert_eq!(subscriber.position().0, at);
        }
    }
}
