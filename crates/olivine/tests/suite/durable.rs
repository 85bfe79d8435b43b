//! Durable subscribers that come back: they get what happened while they were away, a loss with its
//! size, a failure, and the end.

mod ends;
mod held;

use crate::common::mapped::SharedWords;
use crate::common::planted::panic_of;
use crate::common::{TestFolder, kill, spawn, until};
use olivine::{Durable, NotSent, Outgoing, Publisher, ReceiveError, Subscriber};
use std::time::Duration;

/// Bytes of the frame of a message of 8 bytes.
const FRAME: u64 = 16;

/// Memory of a process whose death takes milliseconds.
const LARGE: usize = 128 << 20;

/// Shared word: progress of the other process.
const OPEN: usize = 0;

fn text(name: &str) -> String {
    std::env::var(name).expect("set by the parent")
}

/// The other processes: a hanging subscriber, or a slowly dying one with a publisher.
#[test]
fn role() {
    let Some(role) = crate::common::my_role() else {
        return;
    };
    let words = SharedWords::attach(text("OLIVINE_DEATH_WORDS").as_ref()).unwrap();
    let mut subscriber = Subscriber::open(&text("OLIVINE_DEATH_URI")).unwrap();
    if role == "large" {
        let _publisher = Publisher::open(&text("OLIVINE_DEATH_URI")).unwrap();
        // The kernel frees memory before it releases locks.
        let memory = vec![1_u8; LARGE];
        words.store(OPEN, u64::from(memory[LARGE / 2]));
        loop {
            std::thread::park();
        }
    }
    if role == "holding" {
        assert_eq!(held(&mut subscriber), (0..10).collect::<Vec<_>>());
        words.store(OPEN, 1);
        loop {
            std::thread::park();
        }
    }
    for expected in 0..10_u64 {
        let message = crate::common::receive(&mut subscriber, |message| number(message));
        assert_eq!(message, expected);
    }
    // Releases the last one.
    assert!(subscriber.try_receive().unwrap().is_none());
    words.store(OPEN, 1);
    loop {
        std::thread::park();
    }
}

fn start(place: &TestFolder, role: &str, uri: &str) -> crate::common::Other {
    let words = place.file("words").display().to_string();
    let variables = [
        ("OLIVINE_DEATH_URI", uri.to_owned()),
        ("OLIVINE_DEATH_WORDS", words),
    ];
    spawn(&format!("durable::{role}"), &variables)
}

fn number(message: &[u8]) -> u64 {
    u64::from_le_bytes(message.try_into().unwrap())
}

fn send(publisher: &mut Publisher, numbers: std::ops::Range<u64>) {
    for number in numbers {
        publisher.publish(&number.to_le_bytes()).unwrap();
    }
}

/// The available messages, from the first to the last, without a gap.
fn rest(subscriber: &mut Subscriber) -> std::ops::Range<u64> {
    let mut found = None;
    while let Some(message) = subscriber.try_receive().unwrap() {
        let next = number(&message);
        let range = found.get_or_insert(next..next);
        assert_eq!(range.end, next);
        range.end += 1;
    }
    found.expect("something to read")
}

fn is_evicted<T>(answer: &Result<T, ReceiveError>) -> bool {
    matches!(answer, Err(ReceiveError::Evicted))
}

/// Opens the name and checks the reported loss: everything from `read` to the first message.
fn told(named: &str, read: u64, sent: u64) -> Subscriber {
    let mut again = Subscriber::open(named).unwrap();
    let Some(Durable::LostPlace { bytes }) = again.durable() else {
        panic!("no report: {:?}", again.durable());
    };
    assert_eq!(again.lost_bytes(), bytes);
    assert!(is_evicted(&again.try_receive().map(|_| ())));
    let found = rest(&mut again);
    assert_eq!(found.end, sent);
    assert_eq!(bytes, (found.start - read) * FRAME, "all that is missing");
    again
}

/// A channel of 4 KiB with a publisher, and the URI of its durable name `archive`. `more` are
/// settings of the channel, `of_name` those of the name.
fn stage(more: &str, of_name: &str) -> (TestFolder, String, Publisher) {
    let place = TestFolder::new();
    let named = place.uri("ticks", &format!("name=archive{of_name}"));
    let uri = place.uri("ticks", &format!("capacity=4KiB{more}"));
    let publisher = Publisher::open(&uri).unwrap();
    (place, named, publisher)
}

/// The same, whose name came and left, and missed 5,000 messages: most are overwritten.
fn stage_with_losses(more: &str, of_name: &str) -> (TestFolder, String, Publisher) {
    let (place, named, mut publisher) = stage(more, of_name);
    Subscriber::open(&named).unwrap().close();
    send(&mut publisher, 0..5000);
    (place, named, publisher)
}

/// The numbers that one call hands out and holds.
fn held(subscriber: &mut Subscriber) -> Vec<u64> {
    let mut found = Vec::new();
    let polled = subscriber.poll_and_hold(|message| found.push(number(&message)), 100);
    assert_eq!(polled.unwrap(), found.len());
    found
}

#[test]
fn poll_of_a_name_releases_each_message_whose_handler_has_returned() {
    let (_place, named, mut publisher) = stage("", "");
    let mut subscriber = Subscriber::open(&named).unwrap();
    for tag in 1..=3 {
        publisher.publish(Outgoing::new(b"").tag(tag)).unwrap();
    }
    panic_of(|| subscriber.poll(|message| assert!(message.tag() < 2), 3));
    drop(subscriber);
    let mut again = Subscriber::open(&named).unwrap();
    assert_eq!(again.receive().unwrap().tag(), 2);
}

#[test]
fn killed_evicted_durable_subscriber_gets_the_loss_on_reopen() {
    let (place, named, mut publisher) = stage("&slow=evict:1ms", "");
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    let child = start(&place, "hang", &named);
    until("it is there", || publisher.count_subscribers() == 1);
    send(&mut publisher, 0..10);
    until("it has read", || words.load(OPEN) == 1);
    send(&mut publisher, 10..5000);
    assert_eq!(publisher.stats().evicted, 1);
    // Its name is in use while it hangs.
    let refused = Subscriber::open(&named).unwrap_err();
    assert!(refused.to_string().contains("archive"), "{refused}");
    kill(child);
    let again = told(&named, 10, 5000);
    // Reported once; from here on publishers wait for it again.
    again.close();
    let mut resumed = Subscriber::open(&named).unwrap();
    assert_eq!(resumed.durable(), Some(Durable::Resumed));
    assert_eq!(resumed.lost_bytes(), 0);
    send(&mut publisher, 5000..5010);
    assert_eq!(rest(&mut resumed), 5000..5010);
    resumed.unsubscribe();
}

#[test]
fn absent_evicted_durable_subscriber_gets_the_loss_on_reopen() {
    let (place, named, mut publisher) = stage("&slow=evict:1ms", "");
    let first = Subscriber::open(&named).unwrap();
    assert_eq!(first.durable(), Some(Durable::Created));
    first.close();
    send(&mut publisher, 0..5000);
    assert_eq!(publisher.stats().evicted, 1);
    // No participant is left; the channel stays for the report to the name.
    drop(publisher);
    told(&named, 0, 5000).unsubscribe();
    assert!(!place.channel("ticks").exists());
}

/// No event reports that. It slept until its own time was over, and reported back-pressure.
#[test]
fn closing_publisher_waits_no_longer_than_an_absent_name_expires() {
    let place = TestFolder::new();
    let mut publisher = Publisher::open(&place.uri("expires", "linger=2s")).unwrap();
    drop(Subscriber::open(&place.uri("expires", "name=audit&expire=300ms")).unwrap());
    publisher.publish(b"unread").unwrap();
    publisher.close().unwrap();
}

#[test]
fn expired_durable_subscriber_gets_the_loss_on_reopen() {
    let (_place, named, publisher) = stage_with_losses("", "&expire=1ms");
    let stats = publisher.stats();
    assert_eq!((stats.reclaimed, stats.evicted), (1, 0));
    assert_eq!(publisher.count_subscribers(), 0);
    drop(told(&named, 0, 5000));
    // An expired name keeps no channel, and its slot is reused if no other is free.
    drop(publisher);
}

#[test]
fn expired_name_keeps_neither_channel_nor_the_last_slot() {
    let (place, named, publisher) = stage_with_losses("&subscribers_max=1", "&expire=1ns");
    let uri = place.uri("ticks", "");
    assert_eq!(publisher.stats().reclaimed, 1);
    let other = Subscriber::open(&uri).unwrap();
    drop(other);
    // It is unknown now, and it says so.
    let again = Subscriber::open(&named).unwrap();
    assert_eq!(again.durable(), Some(Durable::Created));
    again.close();
    drop(publisher);
    let kept = olivine::admin::collect(&place.dir(), false).unwrap();
    assert!(!place.channel("ticks").exists(), "{kept:?}");
}

#[test]
fn durable_subscriber_gets_the_loss_once() {
    let (_place, named, mut publisher) = stage("&slow=evict:1ms", "");
    let mut first = Subscriber::open(&named).unwrap();
    send(&mut publisher, 0..5000);
    let mut read = 0;
    while !is_evicted(&first.try_receive().map(|_| ())) {
        assert!(read < 5000);
        read += 1;
    }
    let counted = first.lost_bytes();
    assert!(counted > 0);
    first.close();
    let mut again = Subscriber::open(&named).unwrap();
    // What was missed after the reporting call, if anything, is in `lost_bytes`, not in an error.
    let missed = again.lost_bytes();
    send(&mut publisher, 5000..5010);
    let found = rest(&mut again);
    assert_eq!(found.end, 5010);
    assert_eq!(counted + missed + read * FRAME, found.start * FRAME);
}

#[test]
fn killed_durable_subscriber_gets_the_loss_in_its_next_process() {
    let (_place, named, _publisher) = stage_with_losses("&slow=evict:1ms", "");
    // It opens, has its position again, and receives nothing.
    let unheard = Subscriber::open(&named).unwrap();
    let Some(Durable::LostPlace { bytes }) = unheard.durable() else {
        panic!("no report");
    };
    drop(unheard);
    let mut again = Subscriber::open(&named).unwrap();
    assert_eq!(again.durable(), Some(Durable::LostPlace { bytes }));
    assert!(is_evicted(&again.try_receive().map(|_| ())));
}

#[test]
fn every_receive_call_reports_the_loss_first() {
    let (_place, named, mut publisher) = stage("&slow=evict:1ms", "");
    type Way = fn(&mut Subscriber) -> Result<(), ReceiveError>;
    let ways: [Way; 6] = [
        |one| one.try_receive().map(|_| ()),
        |one| one.receive().map(|_| ()),
        |one| one.receive_timeout(Duration::ZERO).map(|_| ()),
        |one| one.poll(|_| (), 10).map(|_| ()),
        |one| one.wait(Duration::ZERO).map(|_| ()),
        |one| one.iter().next().map_or(Ok(()), |one| one.map(|_| ())),
    ];
    for way in ways {
        Subscriber::open(&named).unwrap().close();
        send(&mut publisher, 0..5000);
        let mut again = Subscriber::open(&named).unwrap();
        assert!(is_evicted(&way(&mut again)));
        assert!(way(&mut again).is_ok());
        again.unsubscribe();
    }
}

#[test]
fn lost_position_without_overwritten_messages_resumes() {
    let (_place, named, mut publisher) = stage("", "&expire=1ns");
    Subscriber::open(&named).unwrap().close();
    send(&mut publisher, 0..10);
    // Evicts it, and takes its slot because it has expired.
    assert_eq!(publisher.count_subscribers(), 0);
    let mut again = Subscriber::open(&named).unwrap();
    assert_eq!(again.durable(), Some(Durable::Resumed));
    assert_eq!(rest(&mut again), 0..10);
    assert_eq!(again.lost_bytes(), 0);
}

#[test]
fn name_of_a_dying_process_opens_without_error() {
    let place = TestFolder::new();
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    let query = "capacity=4KiB&publishers_max=1&subscribers_max=1&name=archive";
    let named = place.uri("dying", query);
    for _ in 0..3 {
        words.store(OPEN, 0);
        let child = start(&place, "large", &named);
        until("it is there", || words.load(OPEN) == 1);
        crate::common::signal(&child, rustix::process::Signal::KILL);
        // It still holds both locks.
        let subscriber = Subscriber::open(&named).unwrap();
        let publisher = Publisher::open(&named).unwrap();
        drop((subscriber, publisher));
        kill(child);
    }
    // A living holder is refused without a wait.
    let _subscriber = Subscriber::open(&named).unwrap();
    let refused = Subscriber::open(&named).unwrap_err();
    assert!(
        matches!(refused, olivine::OpenError::NameInUse { .. }),
        "{refused}"
    );
}

#[test]
fn removed_name_starts_anew_after_a_loss() {
    let (place, named, _publisher) = stage_with_losses("&slow=evict:1ms", "");
    let uri = place.uri("ticks", "");
    let config = olivine::Config::parse(&uri).unwrap();
    let gone = olivine::admin::forget(&config, "archive").unwrap();
    assert!(!gone.removed);
    let mut again = Subscriber::open(&named).unwrap();
    assert_eq!(again.durable(), Some(Durable::Created));
    assert!(again.try_receive().unwrap().is_none());
}

#[test]
fn subscriber_without_name_reports_no_durable_state() {
    let mut publisher = Publisher::open("inproc://nameless").unwrap();
    let mut subscriber = Subscriber::open("inproc://nameless").unwrap();
    assert_eq!(subscriber.durable(), None);
    assert!(matches!(
        publisher.try_publish(b"x"),
        Ok(_) | Err(NotSent::BackPressured)
    ));
    assert_eq!(&*subscriber.receive().unwrap(), b"x");
}

/// The publisher's ring is in shared memory.
#[cfg(feature = "tcp")]
#[test]
fn refused_publisher_leaves_no_new_name_behind() {
    let place = TestFolder::new();
    let mut subscriber =
        Subscriber::open("tcp://127.0.0.1:0/ticks?token=right&role=listen").unwrap();
    let address = subscriber.link_status().unwrap().address;
    let dir = place.file("channels");
    let open = |token: &str| {
        let dir = dir.display();
        let uri = format!("tcp://{address}/ticks?token={token}&role=connect&name=writer&dir={dir}");
        Publisher::open(&uri)
    };
    let left = || std::fs::read_dir(&dir).map_or(0, |found| found.count());
    open("wrong").unwrap_err();
    assert_eq!(left(), 0, "channels of the name");
    let mut writer = open("right").unwrap();
    writer.publish(b"kept").unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"kept");
}

/// The subscriber's ring is in shared memory. A name that was there before keeps its place.
#[cfg(feature = "tcp")]
#[test]
fn refused_subscriber_leaves_no_new_name_behind() {
    let place = TestFolder::new();
    let publisher = Publisher::open("tcp://127.0.0.1:0/ticks?token=right").unwrap();
    let address = publisher.link_status().unwrap().address;
    let dir = place.file("channels");
    let open = |token: &str| {
        let dir = dir.display();
        let uri = format!("tcp://{address}/ticks?token={token}&name=reader&dir={dir}");
        Subscriber::open(&uri)
    };
    let left = || std::fs::read_dir(&dir).map_or(0, |found| found.count());
    for round in 0..2 {
        open("wrong").unwrap_err();
        assert_eq!(left(), round, "channels of the name");
        drop(open("right").unwrap());
        assert_eq!(left(), 1);
    }
    let reader = open("right").unwrap();
    assert_eq!(reader.durable(), Some(Durable::Resumed));
    reader.unsubscribe();
}
