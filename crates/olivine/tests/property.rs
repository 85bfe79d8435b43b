//! Any sequence of operations behaves like one queue for each subscriber and publisher.

#![cfg(not(loom))]

mod common;

use common::{TestFolder, seeded_cases};
use olivine::{
    Config, Delivery, NotSent, Outgoing, Publisher, ReceiveError, Scheme, Slow, Start, Subscriber,
    WaitStrategy,
};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

const PUBLISHERS: usize = 2;
const SUBSCRIBERS: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Publish {
        by: usize,
        length: usize,
        count: usize,
    },
    Batch {
        by: usize,
        lengths: Vec<usize>,
        commit: bool,
    },
    Claim {
        by: usize,
        length: usize,
        commit: bool,
    },
    Poll {
        by: usize,
        limit: usize,
    },
    Receive {
        by: usize,
        count: usize,
    },
    Join {
        by: usize,
        from: Start,
        durable: bool,
    },
    Leave {
        by: usize,
    },
    Open {
        by: usize,
    },
    Close {
        by: usize,
    },
}

fn length() -> impl Strategy<Value = usize> {
    // Often one of a few lengths, some of which end alike: the fast paths are for equal ones.
    prop_oneof![
        6 => prop::sample::select(vec![9_usize, 10, 16, 17]),
        4 => 0..40_usize,
        2 => 0..600_usize,
        1 => 3900..4100_usize,
    ]
}

fn operation() -> impl Strategy<Value = Op> {
    let publisher = 0..PUBLISHERS;
    let subscriber = 0..SUBSCRIBERS;
    prop_oneof![
        12 => (publisher.clone(), length(), 1..9_usize)
            .prop_map(|(by, length, count)| Op::Publish { by, length, count }),
        3 => (publisher.clone(), prop::collection::vec(length(), 0..6), any::<bool>())
            .prop_map(|(by, lengths, commit)| Op::Batch { by, lengths, commit }),
        3 => (publisher.clone(), length(), any::<bool>())
            .prop_map(|(by, length, commit)| Op::Claim { by, length, commit }),
        8 => (subscriber.clone(), 0..30_usize).prop_map(|(by, limit)| Op::Poll { by, limit }),
        6 => (subscriber.clone(), 1..30_usize)
            .prop_map(|(by, count)| Op::Receive { by, count }),
        2 => (subscriber.clone(), any::<bool>(), any::<bool>()).prop_map(|(by, oldest, durable)| {
            let from = if oldest { Start::Oldest } else { Start::Now };
            Op::Join { by, from, durable }
        }),
        1 => subscriber.prop_map(|by| Op::Leave { by }),
        1 => publisher.clone().prop_map(|by| Op::Open { by }),
        1 => publisher.prop_map(|by| Op::Close { by }),
    ]
}

type Item = (u32, Vec<u8>);

/// What a subscriber must get, lane by lane.
#[derive(Default)]
struct Expected {
    queues: [VecDeque<Item>; PUBLISHERS],
    /// Joined with `from=oldest`: the ring determines the length of the history; the first message
    /// shows it.
    open_start: [bool; PUBLISHERS],
}

struct Reader {
    handle: Option<Subscriber>,
    expected: Expected,
    durable: bool,
    /// Has a slot in the channel.
    counts: bool,
}

struct World {
    base: Config,
    publishers: [Option<Publisher>; PUBLISHERS],
    readers: Vec<Reader>,
    /// All messages of each lane.
    history: [Vec<Item>; PUBLISHERS],
    serial: u32,
    // Last: the channel goes before its folder.
    _place: Option<TestFolder>,
}

impl World {
    fn new(shm: bool, align: u64, origin: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("property-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let place = shm.then(TestFolder::new);
        let scheme = if shm { Scheme::Shm } else { Scheme::Inproc };
        let mut base = Config::new(scheme, &name)
            .capacity(4096)
            .align(align)
            .publishers_max(u32::try_from(PUBLISHERS).unwrap())
            .subscribers_max(u32::try_from(SUBSCRIBERS).unwrap())
            .origin(origin);
        if let Some(place) = &place {
            base = base.dir(place.dir());
        }
        // One participant always stays, so the channel stays the same.
        let mut publishers = [const { None }; PUBLISHERS];
        publishers[0] = Some(Publisher::open_with(&base).unwrap());
        let reader = || Reader {
            handle: None,
            expected: Expected::default(),
            durable: false,
            counts: false,
        };
        Self {
            base,
            publishers,
            readers: (0..SUBSCRIBERS).map(|_| reader()).collect(),
            history: Default::default(),
            serial: 0,
            _place: place,
        }
    }

    /// A unique message: if it is short, its tag identifies it.
    fn item(&mut self, length: usize) -> Item {
        self.serial += 1;
        let serial = self.serial.to_le_bytes();
        let payload = serial.iter().copied().cycle().take(length).collect();
        // An odd factor, so that all are different; every bit is used.
        (self.serial.wrapping_mul(0x9e37_79b1), payload)
    }

    fn sent(&mut self, lane: usize, item: &Item) {
        self.history[lane].push(item.clone());
        for reader in self.readers.iter_mut().filter(|reader| reader.counts) {
            reader.expected.queues[lane].push_back(item.clone());
        }
    }

    /// Whether the state of the channel explains a refusal.
    fn refused(&self, error: NotSent, length: usize, max: usize) {
        match error {
            NotSent::TooLong { max: told } => {
                assert_eq!(told, max);
                assert!(length > max);
            }
            NotSent::BackPressured => {
                assert!(length <= max);
                assert!(
                    self.readers.iter().any(|reader| reader.counts),
                    "no subscriber holds back"
                );
            }
            other => panic!("{other}"),
        }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Publish { by, length, count } => {
                for _ in 0..*count {
                    self.publish(*by, *length);
                }
            }
            Op::Claim { by, length, commit } => {
                let item = self.item(*length);
                let Some(publisher) = &mut self.publishers[*by] else {
                    return;
                };
                let (lane, max) = (publisher.lane(), publisher.message_max());
                match publisher.try_claim(Outgoing::sized(*length).tag(item.0)) {
                    Ok(mut claim) => {
                        claim.copy_from_slice(&item.1);
                        if *commit {
                            claim.commit();
                            self.sent(lane, &item);
                        } else {
                            claim.abort();
                        }
                    }
                    Err(error) => self.refused(error, *length, max),
                }
            }
            Op::Batch {
                by,
                lengths,
                commit,
            } => self.batch(*by, lengths, *commit),
            Op::Poll { by, limit } => {
                let Some(handle) = &mut self.readers[*by].handle else {
                    return;
                };
                let mut got = Vec::new();
                let polled = handle.poll(|m| got.push((m.lane(), (m.tag(), m.to_vec()))), *limit);
                let ended = matches!(polled, Err(ReceiveError::Closed));
                assert!(ended || polled.unwrap() == got.len());
                assert!(got.len() <= *limit);
                // New lanes are checked for only if there is nothing else.
                let enough = !got.is_empty() || *limit == 0;
                self.got(*by, got, enough);
            }
            Op::Receive { by, count } => {
                for _ in 0..*count {
                    self.receive(*by);
                }
            }
            Op::Join { by, from, durable } => self.join(*by, *from, *durable),
            Op::Leave { by } => {
                let reader = &mut self.readers[*by];
                if let Some(handle) = reader.handle.take() {
                    // A dropped durable subscriber would get its last message again.
                    handle.close();
                    reader.counts &= reader.durable;
                }
            }
            Op::Open { by } => {
                if self.publishers[*by].is_none() {
                    self.publishers[*by] = Some(Publisher::open_with(&self.base).unwrap());
                }
            }
            Op::Close { by } => {
                let others = self.publishers.iter().flatten().count() > 1;
                if let Some(publisher) = self.publishers[*by].take_if(|_| others) {
                    publisher.close().unwrap();
                }
            }
        }
    }

    fn publish(&mut self, by: usize, length: usize) {
        let item = self.item(length);
        let Some(publisher) = &mut self.publishers[by] else {
            return;
        };
        let (lane, max) = (publisher.lane(), publisher.message_max());
        match publisher.try_publish(Outgoing::new(&item.1).tag(item.0)) {
            Ok(position) => {
                assert_eq!(position, publisher.cursor());
                self.sent(lane, &item);
            }
            Err(error) => self.refused(error, length, max),
        }
    }

    fn receive(&mut self, by: usize) {
        let Some(handle) = &mut self.readers[by].handle else {
            return;
        };
        let got = match handle.try_receive() {
            Ok(message) => message.map(|m| (m.lane(), (m.tag(), m.to_vec()))),
            Err(ReceiveError::Closed) => None,
            Err(error) => panic!("{error}"),
        };
        let enough = got.is_some();
        self.got(by, got.into_iter().collect(), enough);
    }

    fn batch(&mut self, by: usize, lengths: &[usize], commit: bool) {
        let items: Vec<Item> = lengths.iter().map(|n| self.item(*n)).collect();
        let Some(publisher) = &mut self.publishers[by] else {
            return;
        };
        let (lane, max) = (publisher.lane(), publisher.message_max());
        let mut batch = publisher.batch();
        let mut pushed = Vec::new();
        let mut refused = None;
        for item in &items {
            match batch.push(Outgoing::new(&item.1).tag(item.0)) {
                Ok(()) => pushed.push(item.clone()),
                Err(error) => refused = Some((error, item.1.len())),
            }
        }
        assert_eq!(batch.len(), pushed.len());
        if commit {
            batch.commit();
        }
        if let Some((NotSent::TooLong { .. }, length)) = refused {
            assert!(length > max);
        }
        for item in pushed.iter().filter(|_| commit) {
            self.sent(lane, item);
        }
    }

    fn join(&mut self, by: usize, from: Start, durable: bool) {
        let reader = &mut self.readers[by];
        if reader.handle.is_some() {
            return;
        }
        let resumes = reader.counts;
        // A name that left its position comes back to it.
        // `inproc://` keeps nothing after its handles.
        let durable = (durable || resumes) && self.base.scheme() == Scheme::Shm;
        let mut config = self.base.clone().from(from).wait(WaitStrategy::Yield);
        if durable {
            config = config.name(&format!("reader-{by}"));
        }
        reader.handle = Some(Subscriber::open_with(&config).unwrap());
        (reader.durable, reader.counts) = (durable, true);
        if !resumes {
            reader.expected = Expected::default();
            if from == Start::Oldest {
                reader.expected.queues = self.history.clone().map(VecDeque::from);
                reader.expected.open_start = [true; PUBLISHERS];
            }
        }
    }

    /// Compares received and expected messages. Without `enough` it found nothing more.
    fn got(&mut self, by: usize, got: Vec<(usize, Item)>, enough: bool) {
        let expected = &mut self.readers[by].expected;
        for (lane, item) in got {
            let queue = &mut expected.queues[lane];
            if std::mem::take(&mut expected.open_start[lane]) {
                // The end of the history is left: every message differs.
                let rest = self.history[lane].len();
                assert!(rest > 0);
                while queue.front().is_some_and(|front| *front != item) {
                    queue.pop_front();
                }
            }
            assert_eq!(queue.pop_front(), Some(item), "reader {by} lane {lane}");
        }
        if !enough {
            for lane in 0..PUBLISHERS {
                // History that the ring no longer held when it joined.
                if !expected.open_start[lane] {
                    assert_eq!(expected.queues[lane].len(), 0, "reader {by} lane {lane}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(seeded_cases(400))]

    #[test]
    fn each_reliable_subscriber_is_a_queue(
        operations in prop::collection::vec(operation(), 1..200),
        shm in any::<bool>(),
        align in prop_oneof![Just(8_u64), Just(64)],
        origin in prop_oneof![
            Just(0),
            Just((1_u64 << 32) - 4096),
            Just((1 << 62) - 8192),
            Just(1 << 62),
        ],
    ) {
        let mut world = World::new(shm, align, origin);
        for op in &operations {
            world.run(op);
        }
        // All remaining subscribers get the rest.
        for by in 0..SUBSCRIBERS {
            for limit in [1_000_000; PUBLISHERS + 1] {
                world.run(&Op::Poll { by, limit });
            }
        }
    }

    /// Whole messages in increasing order; each byte is either received or reported as lost.
    #[test]
    fn latest_subscriber_gets_whole_messages_and_counts_lost_bytes(
        steps in prop::collection::vec((1..60_usize, 0..300_usize, 0..40_usize), 1..100),
        align in prop_oneof![Just(8_u64), Just(64)],
        origin in prop_oneof![Just(0), Just((1_u64 << 32) - 4096), Just(1 << 62)],
    ) {
        let base = Config::new(Scheme::Inproc, "property-latest");
        let base = base.capacity(4096).align(align).origin(origin);
        let mut publisher = Publisher::open_with(&base.clone().slow(Slow::Wait)).unwrap();
        let mut subscriber = Subscriber::open_with(&base.delivery(Delivery::Latest)).unwrap();
        let frame = |length: usize| (length as u64 + 8).next_multiple_of(align);
        let (mut serial, mut last, mut received) = (0_u32, None, 0);
        for (burst, length, limit) in steps {
            for _ in 0..burst {
                serial += 1;
                let bytes = serial.to_le_bytes().into_iter().cycle();
                let payload: Vec<u8> = bytes.take(length + 4).collect();
                prop_assert!(publisher.try_publish(&payload).is_ok(), "nothing holds it back");
            }
            let before = subscriber.lost_bytes();
            let mut whole = true;
            let polled = subscriber.poll(|message| {
                let number = u32::from_le_bytes(message[..4].try_into().unwrap());
                let bytes = number.to_le_bytes().into_iter().cycle();
                whole &= message.iter().copied().eq(bytes.take(message.len()));
                whole &= last.is_none_or(|last| last < number);
                last = Some(number);
                received += frame(message.len());
            }, limit);
            prop_assert!(whole);
            match polled {
                Ok(count) => prop_assert!(count <= limit),
                Err(ReceiveError::Overrun { lost_bytes }) => {
                    prop_assert!(lost_bytes > 0);
                    prop_assert_eq!(subscriber.lost_bytes(), before + lost_bytes);
                }
                Err(error) => panic!("{error}"),
            }
            let accounted = received + subscriber.lost_bytes() + subscriber.lag();
            prop_assert_eq!(accounted, publisher.cursor().0 - origin);
        }
    }
}
