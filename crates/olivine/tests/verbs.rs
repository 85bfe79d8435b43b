//! Every verb with every wait, label and kind of handle: the rows of `verbs/table.txt`, which also
//! run in C, C++ and Python.

#![cfg(not(loom))]

use olivine::{BatchNotSent, Label, NotSent, Outgoing, Plain, Publisher, ReceiveError, Subscriber};
use std::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const TABLE: &str = include_str!("verbs/table.txt");
const SHORT: Duration = Duration::from_millis(1);

/// Marks of a message that fills a ring, and of the row's message.
const FILLER: u64 = 1;
const CELL: u64 = 2;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct Value {
    mark: u64,
}

impl Plain for Value {
    const TYPE_NAME: &'static str = "verbs v1";
}

/// A message as in a row: its mark, tag and topic.
type Found = (u64, u32, String);

/// The verbs of one kind of publisher.
trait Sends: Send + Sized + 'static {
    type Receives: Receives;
    fn open(subscribe: &str, publish: &str) -> (Self::Receives, Self);
    fn send(&mut self, verb: &str, wait: &str, label: Label<'_>) -> Result<(), NotSent>;
    fn fill(&mut self);
}

/// The verbs of one kind of subscriber.
trait Receives: Send + 'static {
    fn receive(&mut self, verb: &str, wait: &str) -> Result<Option<Found>, ReceiveError>;
}

fn all_sent(done: Result<usize, BatchNotSent>) -> Result<(), NotSent> {
    match done {
        Ok(sent) => {
            assert_eq!(sent, 2);
            Ok(())
        }
        Err(BatchNotSent { published, reason }) => {
            assert_eq!(published, 0);
            Err(reason)
        }
    }
}

impl Sends for Publisher {
    type Receives = Subscriber;

    fn open(subscribe: &str, publish: &str) -> (Subscriber, Self) {
        let subscriber = Subscriber::open(subscribe).unwrap();
        (subscriber, Self::open(publish).unwrap())
    }

    fn send(&mut self, verb: &str, wait: &str, label: Label<'_>) -> Result<(), NotSent> {
        let bytes = CELL.to_le_bytes();
        let message = Outgoing::new(&bytes).label(label);
        let room = Outgoing::sized(8).label(label);
        match (verb, wait) {
            ("publish", "try") => self.try_publish(message).map(|_| ()),
            ("publish", "wait") => self.publish(message).map(|_| ()),
            ("publish", "timeout") => self.publish_timeout(message, SHORT).map(|_| ()),
            ("claim", wait) => {
                let claim = match wait {
                    "try" => self.try_claim(room),
                    "wait" => self.claim(room),
                    "timeout" => self.claim_timeout(room, SHORT),
                    wait => panic!("no test for claim {wait}"),
                };
                claim.map(|mut claim| {
                    claim.copy_from_slice(&bytes);
                    claim.commit();
                })
            }
            ("batch", "try") => all_sent(self.try_publish_batch([message; 2])),
            ("batch", "wait") => all_sent(self.publish_batch([message; 2])),
            ("batch", "timeout") => all_sent(self.publish_batch_timeout([message; 2], SHORT)),
            row => panic!("no test for {row:?}"),
        }
    }

    fn fill(&mut self) {
        while self.try_publish(&FILLER.to_le_bytes()).is_ok() {}
    }
}

impl Sends for Publisher<Value> {
    type Receives = Subscriber<Value>;

    fn open(subscribe: &str, publish: &str) -> (Subscriber<Value>, Self) {
        let subscriber = Subscriber::typed(subscribe).unwrap();
        (subscriber, Self::typed(publish).unwrap())
    }

    fn send(&mut self, verb: &str, wait: &str, label: Label<'_>) -> Result<(), NotSent> {
        let value = Value { mark: CELL };
        let message = Outgoing::typed(&value).label(label);
        match (verb, wait) {
            ("publish", "try") => self.try_publish(message).map(|_| ()),
            ("publish", "wait") => self.publish(message).map(|_| ()),
            ("publish", "timeout") => self.publish_timeout(message, SHORT).map(|_| ()),
            ("claim", wait) => {
                let claim = match wait {
                    "try" => self.try_claim(label),
                    "wait" => self.claim(label),
                    "timeout" => self.claim_timeout(label, SHORT),
                    wait => panic!("no test for claim {wait}"),
                };
                claim.map(|mut claim| {
                    claim.mark = CELL;
                    claim.commit();
                })
            }
            ("batch", "try") => all_sent(self.try_publish_batch([message; 2])),
            ("batch", "wait") => all_sent(self.publish_batch([message; 2])),
            ("batch", "timeout") => all_sent(self.publish_batch_timeout([message; 2], SHORT)),
            row => panic!("no test for {row:?}"),
        }
    }

    fn fill(&mut self) {
        while self.try_publish(&Value { mark: FILLER }).is_ok() {}
    }
}

/// The same for both kinds of subscriber: `$found` makes a [`Found`] from the returned message.
macro_rules! receives {
    ($subscriber:ty, $found:expr) => {
        impl Receives for $subscriber {
            fn receive(&mut self, verb: &str, wait: &str) -> Result<Option<Found>, ReceiveError> {
                let found = $found;
                match (verb, wait) {
                    ("receive", "try") => Ok(self.try_receive()?.map(|message| found(&message))),
                    ("receive", "wait") => Ok(Some(found(&self.receive()?))),
                    ("receive", "timeout") => {
                        Ok(self.receive_timeout(SHORT)?.map(|message| found(&message)))
                    }
                    ("poll", "try") => {
                        let mut last = None;
                        self.poll(|message| last = Some(found(&message)), 1)?;
                        Ok(last)
                    }
                    row => panic!("no test for {row:?}"),
                }
            }
        }
    };
}

receives!(Subscriber, |message: &olivine::Message<'_>| {
    let mark = u64::from_le_bytes(message[..].try_into().unwrap());
    (mark, message.tag(), message.topic().to_owned())
});
receives!(Subscriber<Value>, |value: &olivine::Typed<'_, Value>| {
    let message = value.message();
    (value.mark, message.tag(), message.topic().to_owned())
});

fn label(name: &str) -> Label<'static> {
    match name {
        "none" => Label::new(),
        "tag" => Label::new().tag(7),
        "topic" => Label::new().topic("a.b"),
        "both" => Label::new().tag(7).topic("a.b"),
        "bad" => Label::new().topic("a..b"),
        name => panic!("no test for label {name}"),
    }
}

fn told(word: &str, (_, tag, topic): &Found) -> String {
    let topic = if topic.is_empty() { "-" } else { topic };
    format!("{word} {tag} {topic}")
}

/// The row's message.
fn await_cell(subscriber: &mut impl Receives) -> Found {
    loop {
        match subscriber.receive("receive", "wait") {
            Ok(Some(found)) if found.0 == CELL => return found,
            found => assert_eq!(found.unwrap().unwrap().0, FILLER),
        }
    }
}

fn sending<P: Sends>((mut subscriber, mut publisher): (P::Receives, P), row: [&str; 4]) -> String {
    let [verb, wait, channel, with] = row;
    if channel == "full" {
        publisher.fill();
    }
    let sent = if (channel, wait) == ("full", "wait") {
        let reader = std::thread::spawn(move || await_cell(&mut subscriber));
        publisher
            .send(verb, wait, label(with))
            .map(|()| reader.join().unwrap())
    } else {
        publisher
            .send(verb, wait, label(with))
            .map(|()| await_cell(&mut subscriber))
    };
    match sent {
        Ok(found) => told("sent", &found),
        Err(NotSent::BackPressured) => "back_pressured".into(),
        Err(NotSent::Topic) => "topic_refused".into(),
        Err(error) => panic!("{error}"),
    }
}

fn receiving<P: Sends>(
    (mut subscriber, mut publisher): (P::Receives, P),
    row: [&str; 4],
) -> String {
    let [verb, wait, channel, with] = row;
    match channel {
        "message" => publisher.send("publish", "try", label(with)).unwrap(),
        "ended" => drop(publisher),
        "empty" if wait == "wait" => {
            let with = label(with);
            std::thread::spawn(move || publisher.send("publish", "wait", with).unwrap());
        }
        "empty" => {
            let found = subscriber.receive(verb, wait).unwrap();
            return found.map_or_else(|| "nothing".into(), |found| told("got", &found));
        }
        channel => panic!("no test for channel {channel}"),
    }
    // A few polls may find nothing before the end is seen.
    let mut looks = 0;
    loop {
        match subscriber.receive(verb, wait) {
            Ok(Some(found)) => return told("got", &found),
            Err(ReceiveError::Closed) => return "end_of_stream".into(),
            Ok(None) => looks += 1,
            Err(error) => panic!("{error}"),
        }
        assert!(looks < 1_000_000, "neither a message nor the end");
    }
}

fn run<P: Sends>(kind: &str, number: usize, row: [&str; 4]) -> String {
    let uri = format!("inproc://verbs-{kind}-{number}?capacity=4KiB&wait=park");
    // For a subscriber the topic would be a filter.
    let topic = if row[2] == "plain" { "" } else { "&topic=own" };
    let ends = P::open(&uri, &format!("{uri}{topic}"));
    match row[0] {
        "receive" | "poll" => receiving(ends, row),
        _ => sending(ends, row),
    }
}

/// The rows of the table: the operation, and its result.
fn rows() -> Vec<([&'static str; 4], &'static str)> {
    let lines = TABLE.lines().filter_map(|line| line.split_once(" = "));
    let lines = lines.filter(|(row, _)| !row.starts_with('#'));
    let words = |row: &'static str| row.split(' ').collect::<Vec<_>>().try_into();
    lines
        .map(|(row, result)| (words(row).expect("four words"), result))
        .collect()
}

#[test]
fn every_verb_does_what_the_table_says() {
    let kinds = TABLE
        .lines()
        .find_map(|line| line.strip_prefix("kinds rust "));
    assert_eq!(kinds, Some("bytes typed"));
    for (number, (row, result)) in rows().into_iter().enumerate() {
        assert_eq!(
            run::<Publisher>("bytes", number, row),
            result,
            "bytes {row:?}"
        );
        let typed = run::<Publisher<Value>>("typed", number, row);
        assert_eq!(typed, result, "typed {row:?}");
    }
}

#[test]
fn the_table_has_every_combination_once() {
    let mut all = Vec::new();
    let waits = ["try", "wait", "timeout"];
    for verb in ["publish", "claim", "batch"] {
        for wait in waits {
            for label in ["none", "tag", "topic", "both"] {
                all.push([verb, wait, "topics", label]);
                all.push([verb, wait, "plain", label]);
            }
            all.push([verb, wait, "topics", "bad"]);
            all.push([verb, wait, "full", "none"]);
        }
    }
    for channel in ["message", "empty", "ended"] {
        for wait in waits {
            all.push(["receive", wait, channel, "both"]);
        }
        all.push(["poll", "try", channel, "both"]);
    }
    let mut found: Vec<_> = rows().into_iter().map(|(row, _)| row).collect();
    all.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, all);
}

/// The basics: publishers, subscribers, order, room, the end.
mod basics {
    use olivine::{
        ClaimingPublisher, NotSent, Outgoing, OwnedClaim, Publisher, ReceiveError, Subscriber,
    };

    fn channel(name: &str) -> String {
        format!("inproc://basics-{name}?capacity=4KiB")
    }

    #[test]
    fn every_subscriber_gets_every_message_in_order() {
        let uri = channel("order");
        let mut subscribers: Vec<_> = (0..3).map(|_| Subscriber::open(&uri).unwrap()).collect();
        let mut publisher = Publisher::open(&uri).unwrap();
        let mut next = [0_u32; 3];
        for n in 0..10_000_u32 {
            while let Err(error) = publisher.try_publish(&n.to_le_bytes()) {
                assert_eq!(error, NotSent::BackPressured);
                for (subscriber, next) in subscribers.iter_mut().zip(&mut next) {
                    let take = |message: olivine::Message<'_>| {
                        assert_eq!(*message, next.to_le_bytes());
                        *next += 1;
                    };
                    subscriber.poll(take, usize::MAX).unwrap();
                }
            }
        }
        publisher.close().unwrap();
        for (subscriber, next) in subscribers.iter_mut().zip(next) {
            let number = |m: Result<olivine::OwnedMessage, _>| {
                u32::from_le_bytes(m.unwrap().bytes.try_into().unwrap())
            };
            let left: Vec<_> = subscriber.iter().map(number).collect();
            assert_eq!(left, (next..10_000).collect::<Vec<_>>());
            assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
        }
    }

    /// Committed, dropped or refused, the claim returns its publisher, which continues where it
    /// was.
    #[test]
    fn owned_claim_returns_its_publisher() {
        let uri = channel("owned");
        let mut subscriber = Subscriber::open(&uri).unwrap();
        let publisher = Box::new(Publisher::open(&uri).unwrap());
        let mut claim = OwnedClaim::try_claim(publisher, Outgoing::sized(3).tag(7)).unwrap();
        claim.copy_from_slice(b"one");
        assert!(subscriber.try_receive().unwrap().is_none());
        assert_eq!(claim.publisher().cursor().0, 0);
        let (publisher, position) = claim.commit();
        assert_eq!(position.unwrap(), publisher.cursor());

        let mut claim = OwnedClaim::try_claim(publisher, 1000).unwrap();
        claim.fill(0xff);
        let publisher = claim.abort();
        let (mut publisher, error) = OwnedClaim::try_claim(publisher, 1 << 20).unwrap_err();
        assert!(matches!(error, NotSent::TooLong { .. }), "{error}");
        publisher.publish(b"two").unwrap();
        let message = subscriber.receive().unwrap();
        assert_eq!((&*message, message.tag()), (&b"one"[..], 7));
        assert_eq!(&*subscriber.receive().unwrap(), b"two");

        // A dropped claim closes its publisher: the stream ends after the committed messages.
        let claim = OwnedClaim::try_claim(publisher, 5).unwrap();
        drop(claim);
        assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
    }

    /// A claim that stays in place is committed, given up, refused or replaced, and keeps the
    /// publisher from sending anything else.
    #[test]
    fn claiming_publisher_sends_what_was_claimed_and_nothing_else_meanwhile() {
        let uri = channel("claiming");
        let mut subscriber = Subscriber::open(&uri).unwrap();
        let mut claiming = ClaimingPublisher::new(Publisher::open(&uri).unwrap());
        assert!(claiming.commit().is_none() && !claiming.is_claimed());

        let room = claiming.try_claim(Outgoing::sized(3).tag(7)).unwrap();
        room.copy_from_slice(b"one");
        assert!(subscriber.try_receive().unwrap().is_none());
        assert!(claiming.is_claimed() && claiming.publisher_mut().is_none());
        assert_eq!(claiming.publisher().cursor().0, 0);
        let position = claiming.commit().unwrap().unwrap();
        assert_eq!(position, claiming.publisher().cursor());
        assert!(claiming.commit().is_none(), "a claim is committed once");
        let message = subscriber.receive().unwrap();
        assert_eq!((&*message, message.tag()), (&b"one"[..], 7));

        claiming.try_claim(1000).unwrap().fill(0xff);
        claiming.abort();
        claiming.publisher_mut().unwrap().publish(b"two").unwrap();
        assert_eq!(&*subscriber.receive().unwrap(), b"two");

        // A refused claim leaves none open, also not the one before it.
        claiming.try_claim(1000).unwrap().fill(0xff);
        let error = claiming.try_claim(1 << 20).unwrap_err();
        assert!(matches!(error, NotSent::TooLong { .. }), "{error}");
        assert!(claiming.commit().is_none());
        claiming.try_claim(1000).unwrap().fill(0xff);
        claiming.try_claim(5).unwrap().copy_from_slice(b"three");
        claiming.commit().unwrap().unwrap();
        assert_eq!(&*subscriber.receive().unwrap(), b"three");

        // Without room nothing is claimed; with room again it goes on.
        let mut sent = 0_u32;
        let refused = loop {
            match claiming.try_claim(100) {
                Ok(room) => room[..4].copy_from_slice(&sent.to_le_bytes()),
                Err(error) => break error,
            }
            claiming.commit().unwrap().unwrap();
            sent += 1;
        };
        assert_eq!(refused, NotSent::BackPressured);
        assert!(sent > 10 && !claiming.is_claimed());
        for number in 0..sent {
            let message = subscriber.receive().unwrap();
            assert_eq!(message[..4], number.to_le_bytes());
        }
        subscriber.release();
        claiming.try_claim(0).unwrap();

        // Dropped with a claim, it closes its publisher.
        drop(claiming);
        assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
    }

    /// Lengths near the largest number are too long, whatever the publisher did before.
    #[test]
    fn claim_of_an_impossible_length_is_too_long_in_every_state() {
        let refuses = |claiming: &mut ClaimingPublisher, state: &str| {
            for length in (0..=17).map(|less| usize::MAX - less) {
                for tag in [0, 7] {
                    let room = Outgoing::sized(length).tag(tag);
                    let error = claiming.try_claim(room).unwrap_err();
                    assert!(matches!(error, NotSent::TooLong { .. }), "{state}: {error}");
                    assert!(claiming.commit().is_none(), "{state}");
                    let publisher = claiming.publisher_mut().unwrap();
                    let error = publisher.try_claim(room).unwrap_err();
                    assert!(matches!(error, NotSent::TooLong { .. }), "{state}: {error}");
                }
            }
        };
        for topic in ["", "&topic=words"] {
            let uri = format!("{}{topic}", channel("impossible"));
            let mut subscriber = Subscriber::open(&uri).unwrap();
            let mut claiming = ClaimingPublisher::new(Publisher::open(&uri).unwrap());
            refuses(&mut claiming, "fresh");
            let publisher = claiming.publisher_mut().unwrap();
            publisher.publish(b"one").unwrap();
            refuses(&mut claiming, "after a message");
            let publisher = claiming.publisher_mut().unwrap();
            publisher.publish_batch(["two", "three"]).unwrap();
            refuses(&mut claiming, "after a batch");
            let publisher = claiming.publisher_mut().unwrap();
            publisher
                .publish(Outgoing::new(b"four").topic("words"))
                .unwrap();
            refuses(&mut claiming, "after a topic");
            drop(claiming.publisher_mut().unwrap().try_claim(100).unwrap());
            refuses(&mut claiming, "after a claim that was dropped");
            for expected in ["one", "two", "three", "four"] {
                assert_eq!(&*subscriber.receive().unwrap(), expected.as_bytes());
            }
            assert!(subscriber.try_receive().unwrap().is_none());
            let publisher = claiming.publisher_mut().unwrap();
            while publisher.try_publish(&[1; 100]).is_ok() {}
            refuses(&mut claiming, "without room");
        }
    }

    /// A batch of one length has room for exactly as many messages as single ones have.
    #[test]
    fn batch_of_one_length_ends_where_the_room_does() {
        let uri = channel("batch-room");
        let mut subscriber = Subscriber::open(&uri).unwrap();
        let mut publisher = Publisher::open(&uri).unwrap();
        for lap in 0..50_u32 {
            let mut batch = publisher.batch();
            let mut pushed = 0_u32;
            let refused = loop {
                // Runs of three lengths, and the fourth message has another.
                let message = [lap, pushed, !lap, !pushed].map(u32::to_le_bytes).concat();
                let length = [16, 16, 16, 8][pushed as usize % 4];
                match batch.push(Outgoing::new(&message[..length]).tag(pushed)) {
                    Ok(()) => pushed += 1,
                    Err(error) => break error,
                }
            };
            assert_eq!(refused, NotSent::BackPressured);
            assert_eq!(batch.len(), pushed as usize);
            // Four frames take 88 bytes, and the next header 8.
            assert!(pushed.abs_diff(4096 / 22) <= 2, "{pushed}");
            let end = batch.commit();
            assert_eq!(publisher.cursor(), end);
            for number in 0..pushed {
                let message = subscriber.receive().unwrap();
                let length = [16, 16, 16, 8][number as usize % 4];
                assert_eq!((message.len(), message.tag()), (length, number));
                let words = [lap, number, !lap, !number].map(u32::to_le_bytes).concat();
                assert_eq!(*message, words[..length]);
            }
            assert!(subscriber.try_receive().unwrap().is_none());
        }
    }
}
