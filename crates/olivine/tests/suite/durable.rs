//! Durable subscribers that come back: they get what happened while they were away, a loss with its
//! size, a failure, and the end.

use crate::common::mapped::SharedWords;
use crate::common::planted::panic_of;
use crate::common::{TestFolder, kill, spawn, until};
use olivine::{Durable, LinkError, NotSent, Outgoing, Publisher, ReceiveError, Subscriber};
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

/// The numbers that one call hands out and holds.
fn held(subscriber: &mut Subscriber) -> Vec<u64> {
    let mut found = Vec::new();
    let polled = subscriber.poll_and_hold(|message| found.push(number(&message)), 100);
    assert_eq!(polled.unwrap(), found.len());
    found
}

#[test]
fn killed_durable_subscriber_gets_all_that_one_call_handed_out_again() {
    let (place, named, mut publisher) = stage("", "");
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    Subscriber::open(&named).unwrap().close();
    send(&mut publisher, 0..10);
    let child = start(&place, "holding", &named);
    until("it has all", || words.load(OPEN) == 1);
    kill(child);
    let mut again = Subscriber::open(&named).unwrap();
    assert_eq!(rest(&mut again), 0..10);
}

/// The next call with a subscriber that holds messages.
type NextCall = fn(&mut Subscriber);

#[test]
fn messages_of_one_call_are_consumed_by_the_next_call_only() {
    let next_calls: [NextCall; 5] = [
        |subscriber| assert!(subscriber.try_receive().unwrap().is_none()),
        |subscriber| assert!(held(subscriber).is_empty()),
        |subscriber| assert_eq!(subscriber.poll(|_| (), 0).unwrap(), 0),
        |subscriber| assert!(!subscriber.wait(Duration::ZERO).unwrap()),
        |subscriber| {
            let received = subscriber.receive_timeout(Duration::ZERO);
            assert!(received.unwrap().is_none());
        },
    ];
    let (_place, named, mut publisher) = stage("", "");
    for next_call in next_calls {
        let mut subscriber = Subscriber::open(&named).unwrap();
        send(&mut publisher, 0..5);
        let before = subscriber.position().0;
        assert_eq!(held(&mut subscriber), [0, 1, 2, 3, 4]);
        // They are held: they count as not read, also after a release.
        subscriber.release();
        assert_eq!(
            (subscriber.position().0, subscriber.lag()),
            (before, 5 * FRAME)
        );
        drop(subscriber);
        let mut subscriber = Subscriber::open(&named).unwrap();
        assert_eq!(held(&mut subscriber), [0, 1, 2, 3, 4]);
        next_call(&mut subscriber);
        assert_eq!(subscriber.lag(), 0);
        send(&mut publisher, 5..7);
        drop(subscriber);
        let mut subscriber = Subscriber::open(&named).unwrap();
        assert_eq!(held(&mut subscriber), [5, 6]);
        // Closing consumes them, too.
        subscriber.close();
    }
    assert!(held(&mut Subscriber::open(&named).unwrap()).is_empty());
}

#[test]
fn handler_that_panics_holds_the_messages_before_it() {
    let (_place, named, mut publisher) = stage("", "");
    let mut subscriber = Subscriber::open(&named).unwrap();
    send(&mut publisher, 0..5);
    panic_of(|| subscriber.poll_and_hold(|message| assert!(number(&message) < 3), 5));
    drop(subscriber);
    let mut subscriber = Subscriber::open(&named).unwrap();
    panic_of(|| subscriber.poll_and_hold(|message| assert!(number(&message) < 3), 5));
    assert_eq!(held(&mut subscriber), [3, 4]);
    drop(subscriber);
    let mut subscriber = Subscriber::open(&named).unwrap();
    assert_eq!(rest(&mut subscriber), 3..5);
}

/// A call that handed out nothing held the room of what it skipped: its publisher waited for ever.
#[test]
fn call_that_hands_out_nothing_holds_nothing() {
    let (_place, named, mut publisher) = stage("", "");
    let mut subscriber = Subscriber::open(&format!("{named}&topic=a")).unwrap();
    let other = || Outgoing::new(b"skipped").topic("b");
    while publisher.try_publish(other()).is_ok() {}
    assert_eq!(subscriber.poll_and_hold(|_| (), 9).unwrap(), 0);
    assert_eq!(subscriber.lag(), 0);
    publisher.try_publish(other()).unwrap();
}

/// The call that found the failure reported it behind messages which the next one did not consume.
#[test]
fn failure_comes_with_the_call_after_the_messages_before_it() {
    let (_place, named, mut first) = stage("", "");
    let mut subscriber = Subscriber::open(&named).unwrap();
    send(&mut first, 0..3);
    first.close_failed("broke").unwrap();
    let mut second = Publisher::open(&named).unwrap();
    send(&mut second, 3..4);
    assert_eq!(held(&mut subscriber), [0, 1, 2]);
    let failed = subscriber.poll_and_hold(|_| (), 9).unwrap_err();
    assert!(matches!(failed, ReceiveError::Failed(_)), "{failed}");
    drop(subscriber);
    let mut subscriber = Subscriber::open(&named).unwrap();
    assert_eq!(held(&mut subscriber), [3]);
}

#[test]
fn messages_of_one_call_are_held_in_every_lane() {
    let (_place, named, mut first) = stage("", "");
    let mut subscriber = Subscriber::open(&named).unwrap();
    send(&mut first, 0..3);
    assert_eq!(held(&mut subscriber).len(), 3);
    // The next call finds the new lane.
    let mut second = Publisher::open(&named).unwrap();
    send(&mut second, 0..200);
    assert_eq!(held(&mut subscriber).len(), 100);
    drop(subscriber);
    let mut subscriber = Subscriber::open(&named).unwrap();
    let mut found = Vec::new();
    while found.len() < 200 {
        let polled = subscriber.poll_and_hold(|message| found.push(number(&message)), 150);
        polled.unwrap();
    }
    assert_eq!(found, (0..200).collect::<Vec<_>>());
}

#[test]
fn publisher_waits_for_held_messages_and_goes_on_behind_them() {
    let (_place, named, mut publisher) = stage("", "");
    let mut subscriber = Subscriber::open(&named).unwrap();
    let mut sent = 0;
    while publisher.try_publish(&u64::to_le_bytes(sent)).is_ok() {
        sent += 1;
    }
    let mut found = 0;
    let polled = subscriber.poll_and_hold(|_| found += 1, usize::MAX);
    assert_eq!(
        (polled.unwrap(), found),
        (usize::try_from(found).unwrap(), sent)
    );
    let refused = publisher.try_publish(&sent.to_le_bytes()).unwrap_err();
    assert!(matches!(refused, NotSent::BackPressured), "{refused}");
    assert!(subscriber.try_receive().unwrap().is_none());
    publisher.try_publish(&sent.to_le_bytes()).unwrap();
    assert_eq!(rest(&mut subscriber), sent..sent + 1);
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

#[test]
fn missed_end_is_reported_once_to_the_next_process() {
    let place = TestFolder::new();
    let uri = place.uri("owed", "capacity=4KiB");
    let named = place.uri("owed", "name=archive");
    let is_closed = |named: &str| {
        let mut subscriber = Subscriber::open(named).unwrap();
        // Not every call checks for the end.
        let mut answers = (0..100).map(|_| subscriber.try_receive().map(|_| ()));
        answers.any(|answer| matches!(answer, Err(ReceiveError::Closed)))
    };
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    let reader = start(&place, "hang", &named);
    until("it is there", || publisher.count_subscribers() == 1);
    send(&mut publisher, 0..10);
    until("it has read", || words.load(OPEN) == 1);
    kill(reader);
    publisher.close().unwrap();
    assert!(is_closed(&named), "it was killed before the end");
    assert!(
        !is_closed(&named),
        "the end was reported; it waits for the next publisher"
    );
    Publisher::open(&uri).unwrap().close().unwrap();
    assert!(is_closed(&named), "it was away");
    assert!(!is_closed(&named), "the end was reported");
    let later = place.uri("owed", "name=later");
    assert!(!is_closed(&later), "an end before its time");
    assert!(!is_closed(&later), "also when it comes back");
}

/// Opens the name, receives up to the first error, and leaves.
fn visit(named: &str) -> (Vec<u64>, Option<ReceiveError>) {
    let mut subscriber = Subscriber::open(named).unwrap();
    let mut numbers = Vec::new();
    // Not every call checks for ends and failures.
    for _ in 0..100 {
        match subscriber.try_receive() {
            Ok(Some(message)) => numbers.push(number(&message)),
            Ok(None) => {}
            Err(error) => return (numbers, Some(error)),
        }
    }
    subscriber.close();
    (numbers, None)
}

/// The reason of the failure that `visit` found before any message.
fn failure(visited: (Vec<u64>, Option<ReceiveError>)) -> String {
    match visited {
        (numbers, Some(ReceiveError::Failed(LinkError::Upstream { reason, .. })))
            if numbers.is_empty() =>
        {
            reason
        }
        other => panic!("no failure before the messages: {other:?}"),
    }
}

fn is_quiet(visited: &(Vec<u64>, Option<ReceiveError>)) -> bool {
    visited.0.is_empty() && visited.1.is_none()
}

/// The channel's name, with and without the durable name, and its publisher, whose 10 messages the
/// durable name has read.
fn read_by_a_name(place: &TestFolder, channel: &str) -> (String, String, Publisher) {
    let uri = place.uri(channel, "capacity=4KiB");
    let named = place.uri(channel, "name=archive");
    let mut publisher = Publisher::open(&uri).unwrap();
    assert!(is_quiet(&visit(&named)));
    send(&mut publisher, 0..10);
    let (numbers, error) = visit(&named);
    assert!(numbers.into_iter().eq(0..10) && error.is_none());
    (uri, named, publisher)
}

#[test]
fn absent_durable_subscriber_gets_the_failed_end_once_on_reopen() {
    let place = TestFolder::new();
    let (uri, named, publisher) = read_by_a_name(&place, "torn");
    publisher.close_failed("torn").unwrap();
    // It leaves before a call could report something.
    Subscriber::open(&named).unwrap().close();
    drop(Subscriber::open(&named).unwrap());
    assert_eq!(failure(visit(&named)), "torn");
    assert!(is_quiet(&visit(&named)), "it was reported before");
    // The same lane fails again.
    let again = Publisher::open(&uri).unwrap();
    again.close_failed("torn again").unwrap();
    assert_eq!(failure(visit(&named)), "torn again");
    assert!(is_quiet(&visit(&named)), "it was reported before");
    Publisher::open(&uri).unwrap().close().unwrap();
    let (numbers, error) = visit(&named);
    assert!(numbers.is_empty() && matches!(error, Some(ReceiveError::Closed)));
}

#[test]
fn absent_durable_subscriber_gets_the_failure_before_later_messages() {
    let place = TestFolder::new();
    let (uri, named, publisher) = read_by_a_name(&place, "retaken");
    publisher.close_failed("torn").unwrap();
    let mut next = Publisher::open(&uri).unwrap();
    send(&mut next, 10..15);
    drop(Subscriber::open(&named).unwrap());
    let mut subscriber = Subscriber::open(&named).unwrap();
    let told = subscriber.try_receive().map(|_| ());
    assert!(
        matches!(&told, Err(ReceiveError::Failed(error)) if error.to_string().contains("torn")),
        "{told:?}"
    );
    assert_eq!(rest(&mut subscriber), 10..15);
    drop(subscriber);
    let (numbers, error) = visit(&named);
    assert!(numbers.is_empty() && error.is_none(), "{error:?}");
    // Its newest publisher closed in order: the end is reported as well.
    next.close().unwrap();
    let (_, error) = visit(&named);
    assert!(matches!(error, Some(ReceiveError::Closed)), "{error:?}");
    assert!(is_quiet(&visit(&named)));
}

#[test]
fn every_receive_call_reports_the_failure_of_the_absence_first() {
    let place = TestFolder::new();
    type Call = fn(&mut Subscriber) -> Result<(), ReceiveError>;
    let calls: [Call; 4] = [
        |one| one.try_receive().map(|_| ()),
        |one| one.receive().map(|_| ()),
        |one| {
            one.poll(|_| panic!("a message before the failure"), 10)
                .map(|_| ())
        },
        |one| one.wait(Duration::MAX).map(|_| ()),
    ];
    let (uri, named, mut publisher) = read_by_a_name(&place, "calls");
    for (n, call) in (1..).zip(calls) {
        publisher.close_failed("torn").unwrap();
        publisher = Publisher::open(&uri).unwrap();
        send(&mut publisher, n * 10..n * 10 + 10);
        let mut subscriber = Subscriber::open(&named).unwrap();
        let told = call(&mut subscriber);
        assert!(
            matches!(told, Err(ReceiveError::Failed(_))),
            "call {n}: {told:?}"
        );
        assert_eq!(rest(&mut subscriber), n * 10..n * 10 + 10);
        subscriber.close();
    }
}

#[test]
fn killed_durable_subscriber_gets_the_failed_end_in_its_next_process() {
    let place = TestFolder::new();
    let (uri, named) = (place.uri("slain", ""), place.uri("slain", "name=archive"));
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    let reader = start(&place, "hang", &named);
    until("it is there", || publisher.count_subscribers() == 1);
    send(&mut publisher, 0..10);
    until("it has read", || words.load(OPEN) == 1);
    kill(reader);
    publisher.close_failed("torn").unwrap();
    assert_eq!(failure(visit(&named)), "torn");
    assert!(is_quiet(&visit(&named)), "it was reported before");
}

/// A failure of one lane while the other goes on.
#[test]
fn absent_durable_subscriber_gets_each_failed_lane() {
    let place = TestFolder::new();
    let (uri, named, first) = read_by_a_name(&place, "lanes");
    let mut second = Publisher::open(&uri).unwrap();
    let third = Publisher::open(&uri).unwrap();
    send(&mut second, 10..11);
    let (numbers, error) = visit(&named);
    assert!(numbers == [10] && error.is_none(), "{error:?}");
    first.close_failed("first").unwrap();
    third.close_failed("third").unwrap();
    assert_eq!(failure(visit(&named)), "first");
    // One of two was reported: which one is not stored.
    let mut subscriber = Subscriber::open(&named).unwrap();
    for expected in ["first", "third"] {
        let told = subscriber.try_receive().unwrap_err();
        assert!(
            matches!(&told, ReceiveError::Failed(cause) if cause.to_string().contains(expected)),
            "{told}"
        );
    }
    assert!(subscriber.try_receive().unwrap().is_none());
    subscriber.close();
    assert!(is_quiet(&visit(&named)), "it was reported before");
    second.close().unwrap();
    let (_, error) = visit(&named);
    assert!(matches!(error, Some(ReceiveError::Failed(_))), "{error:?}");
    assert!(is_quiet(&visit(&named)), "the end was reported before");
}

#[test]
fn new_durable_name_gets_no_failure_from_before_it() {
    let place = TestFolder::new();
    let (uri, named, publisher) = read_by_a_name(&place, "before");
    publisher.close_failed("torn").unwrap();
    let later = place.uri("before", "name=later");
    for _ in 0..2 {
        assert!(is_quiet(&visit(&later)), "a failure before its time");
    }
    let publisher = Publisher::open(&uri).unwrap();
    for _ in 0..2 {
        assert!(is_quiet(&visit(&later)), "a failure before its time");
    }
    drop(publisher);
    assert_eq!(failure(visit(&named)), "torn");
}

#[test]
fn evicted_durable_subscriber_gets_the_loss_and_the_failure_on_reopen() {
    let (place, named, publisher) = stage_with_losses("&slow=evict:1ms", "");
    let uri = place.uri("ticks", "");
    publisher.close_failed("torn").unwrap();
    let mut next = Publisher::open(&uri).unwrap();
    send(&mut next, 5000..10_000);
    let mut subscriber = Subscriber::open(&named).unwrap();
    assert!(is_evicted(&subscriber.try_receive().map(|_| ())));
    let told = subscriber.try_receive().unwrap_err();
    assert!(matches!(told, ReceiveError::Failed(_)), "{told}");
    assert_eq!(rest(&mut subscriber).end, 10_000);
}

/// Its bridge closes the lanes with the failure after the subscriber has reported that.
#[cfg(feature = "tcp")]
#[test]
fn failure_of_the_subscribers_bridge_is_not_repeated_to_a_durable_name() {
    let place = TestFolder::new();
    let port = crate::common::free_port();
    let address = format!("tcp://127.0.0.1:{port}/ticks");
    let listens = format!("{address}?role=listen");
    let dir = place.file("channels").display().to_string();
    let named = format!("{address}?role=connect&name=archive&dir={dir}");
    let open = || Publisher::open(&listens).unwrap();
    let mut publisher = open();
    let mut subscriber = Subscriber::open(&named).unwrap();
    send(&mut publisher, 0..1);
    let received = crate::common::receive(&mut subscriber, |message| number(message));
    assert_eq!(received, 0);
    // Returns after the subscriber's bridge has confirmed the failure.
    publisher.close_failed("torn").unwrap();
    let told = subscriber.receive().map(|_| ());
    assert!(matches!(told, Err(ReceiveError::Failed(_))), "{told:?}");
    subscriber.close();
    let mut publisher = open();
    let mut subscriber = Subscriber::open(&named).unwrap();
    assert_eq!(subscriber.durable(), Some(Durable::Resumed));
    send(&mut publisher, 1..2);
    until("a message comes", || {
        match subscriber.receive_timeout(Duration::from_millis(50)) {
            Ok(message) => message.is_some_and(|message| number(&message) == 1),
            // The bridge closes the lane of the publisher before.
            Err(ReceiveError::Closed) => false,
            Err(error) => panic!("reported in its last life: {error:?}"),
        }
    });
    subscriber.unsubscribe();
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
