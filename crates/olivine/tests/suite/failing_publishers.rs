//! Publishers that fail while their subscribers lag, and the next publishers of their lanes: each
//! subscriber gets the messages before a failure, then the failure, then the messages behind it.

use crate::common::{TestFolder, seeded_cases};
use olivine::{
    Config, LinkError, Message, Outgoing, Publisher, ReceiveError, Scheme, Slow, Subscriber,
    WaitStrategy,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PUBLISHERS: usize = 2;
/// The filter of each subscriber, and whether it selects the topic at this place of `TOPICS`.
const FILTERS: [(Option<&str>, [bool; 3]); 3] = [
    (None, [true; 3]),
    (Some("a.*"), [false, true, false]),
    (None, [true; 3]),
];
const TOPICS: [Option<&str>; 3] = [None, Some("a.b"), Some("c")];
/// Calls after the last operation: not every call looks for failures.
const LAST_CALLS: usize = 2000;

#[derive(Clone, Debug)]
enum Op {
    /// By a new publisher, if the last one of its lane is gone.
    Publish {
        by: usize,
        length: usize,
        topic: usize,
    },
    Fail {
        by: usize,
    },
    Close {
        by: usize,
    },
    Receive {
        by: usize,
    },
    Poll {
        by: usize,
        limit: usize,
    },
}

fn operation() -> impl Strategy<Value = Op> {
    let publisher = 0..PUBLISHERS;
    let subscriber = 0..FILTERS.len();
    let length = prop_oneof![1 => Just(0_usize), 2 => 0..40_usize, 1 => 0..600_usize];
    prop_oneof![
        10 => (publisher.clone(), length, 0..TOPICS.len())
            .prop_map(|(by, length, topic)| Op::Publish { by, length, topic }),
        3 => publisher.clone().prop_map(|by| Op::Fail { by }),
        1 => publisher.prop_map(|by| Op::Close { by }),
        5 => subscriber.clone().prop_map(|by| Op::Receive { by }),
        3 => (subscriber, 1..10_usize).prop_map(|(by, limit)| Op::Poll { by, limit }),
    ]
}

/// What a subscriber gets of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Message {
        tag: u32,
        topic: String,
        payload: Vec<u8>,
    },
    Failure(String),
}

/// What a subscriber must get of a lane, in this order.
#[derive(Debug, Default)]
struct Expected {
    queue: VecDeque<Event>,
    /// The failure that was reported last, until a message follows it: each call repeats it.
    reported: Option<String>,
}

impl Expected {
    fn add(&mut self, event: Event) {
        if matches!(event, Event::Failure(_)) {
            // A lane stores its newest failure only.
            self.queue
                .retain(|event| matches!(event, Event::Message { .. }));
        }
        self.queue.push_back(event);
    }

    fn take(&mut self, event: Event) -> Result<(), String> {
        if let Event::Failure(reason) = &event
            && self.reported.as_ref() == Some(reason)
        {
            return Ok(());
        }
        match self.queue.pop_front() {
            Some(expected) if expected == event => {
                self.reported = match event {
                    Event::Failure(reason) => Some(reason),
                    Event::Message { .. } => None,
                };
                Ok(())
            }
            expected => Err(format!("{event:?} came, where {expected:?} was due")),
        }
    }
}

/// An error of a subscriber that the suite must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// A failure is not reported.
    FailureLost,
    /// The next publisher's message comes before the failure.
    FailureLate,
    /// A message before a failure is passed over.
    MessageLost,
    /// An empty message comes with its topic as its bytes.
    TopicAsBytes,
}

struct World {
    base: Config,
    publishers: [Option<Publisher>; PUBLISHERS],
    readers: Vec<(Subscriber, [Expected; PUBLISHERS])>,
    serial: u32,
    planted: Option<Planted>,
    /// Failures that a planted fault holds back.
    held: Vec<(usize, usize, Event)>,
    // Last: the channel goes before its folder.
    _place: Option<TestFolder>,
}

impl World {
    fn new(shm: bool, evict: bool, planted: Option<Planted>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("failing-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let place = shm.then(TestFolder::new);
        let scheme = if shm { Scheme::Shm } else { Scheme::Inproc };
        let mut base = Config::new(scheme, &name)
            .capacity(4096)
            .publishers_max(u32::try_from(PUBLISHERS).unwrap())
            .wait(WaitStrategy::Yield);
        if evict {
            // Frames are copied out before they are handed over.
            base = base.slow(Slow::Evict(Duration::from_secs(3600)));
        }
        if let Some(place) = &place {
            base = base.dir(place.dir());
        }
        let open = |(filter, _): &(Option<&str>, _)| {
            let config = match filter {
                Some(filter) => base.clone().topic(filter),
                None => base.clone(),
            };
            (Subscriber::open_with(&config).unwrap(), Default::default())
        };
        Self {
            readers: FILTERS.iter().map(open).collect(),
            publishers: [const { None }; PUBLISHERS],
            base,
            serial: 0,
            planted,
            held: Vec::new(),
            _place: place,
        }
    }

    fn run(&mut self, op: &Op) -> Result<(), String> {
        self.serial += 1;
        match op {
            Op::Publish { by, length, topic } => {
                self.publish(*by, *length, *topic);
                Ok(())
            }
            Op::Fail { by } => {
                if let Some(publisher) = self.publishers[*by].take() {
                    let (lane, reason) = (publisher.lane(), format!("failure {}", self.serial));
                    publisher.close_failed(&reason).unwrap();
                    for (_, expected) in &mut self.readers {
                        expected[lane].add(Event::Failure(reason.clone()));
                    }
                }
                Ok(())
            }
            Op::Close { by } => {
                if let Some(publisher) = self.publishers[*by].take() {
                    publisher.close().unwrap();
                }
                Ok(())
            }
            Op::Receive { by } => self.receive(*by),
            Op::Poll { by, limit } => self.poll(*by, *limit),
        }
    }

    fn publish(&mut self, by: usize, length: usize, topic: usize) {
        let open = || Publisher::open_with(&self.base).unwrap();
        let publisher = self.publishers[by].get_or_insert_with(open);
        let tag = self.serial;
        let bytes = tag.to_le_bytes().into_iter().cycle();
        let payload: Vec<u8> = bytes.take(length).collect();
        let mut message = Outgoing::new(&payload).tag(tag);
        if let Some(topic) = TOPICS[topic] {
            message = message.topic(topic);
        }
        // Otherwise a subscriber holds it back.
        if publisher.try_publish(message).is_ok() {
            let lane = publisher.lane();
            let event = Event::Message {
                tag,
                topic: TOPICS[topic].unwrap_or_default().to_owned(),
                payload,
            };
            for ((_, expected), (_, selects)) in self.readers.iter_mut().zip(FILTERS) {
                if selects[topic] {
                    expected[lane].add(event.clone());
                }
            }
        }
    }

    fn receive(&mut self, by: usize) -> Result<(), String> {
        let got = match self.readers[by].0.try_receive() {
            Ok(message) => message.map(|message| (message.lane(), event_of(&message))),
            Err(error) => failure_of(error)?,
        };
        got.map_or(Ok(()), |(lane, event)| self.got(by, lane, event))
    }

    fn poll(&mut self, by: usize, limit: usize) -> Result<(), String> {
        let mut got = Vec::new();
        let handler = |message: Message<'_>| got.push((message.lane(), event_of(&message)));
        let polled = self.readers[by].0.poll(handler, limit);
        if let Err(error) = polled {
            got.extend(failure_of(error)?);
        }
        let mut got = got.into_iter();
        got.try_for_each(|(lane, event)| self.got(by, lane, event))
    }

    /// Compares what came with what was due, after the planted fault.
    fn got(&mut self, by: usize, lane: usize, mut event: Event) -> Result<(), String> {
        let expected = &mut self.readers[by].1[lane];
        let is_failure = matches!(event, Event::Failure(_));
        match self.planted {
            Some(Planted::FailureLost) if is_failure => return Ok(()),
            Some(Planted::FailureLate) if is_failure => {
                self.held.push((by, lane, event));
                return Ok(());
            }
            Some(Planted::FailureLate) => {
                expected.take(event)?;
                let mut held = self
                    .held
                    .extract_if(.., |held| (held.0, held.1) == (by, lane));
                return held.try_for_each(|(.., event)| expected.take(event));
            }
            Some(Planted::MessageLost)
                if matches!(expected.queue.get(1), Some(Event::Failure(_))) && !is_failure =>
            {
                return Ok(());
            }
            Some(Planted::TopicAsBytes) => {
                if let Event::Message { topic, payload, .. } = &mut event
                    && payload.is_empty()
                {
                    *payload = std::mem::take(topic).into_bytes();
                }
            }
            _ => {}
        }
        expected.take(event)
    }

    /// Each subscriber gets the rest.
    fn finish(&mut self) -> Result<(), String> {
        for by in 0..self.readers.len() {
            for _ in 0..LAST_CALLS {
                let mut rest = self.readers[by].1.iter();
                if rest.all(|expected| expected.queue.is_empty()) {
                    break;
                }
                self.receive(by)?;
            }
            let rest = &self.readers[by].1;
            if rest.iter().any(|expected| !expected.queue.is_empty()) {
                return Err(format!("subscriber {by} did not get {rest:?}"));
            }
        }
        Ok(())
    }
}

fn event_of(message: &Message<'_>) -> Event {
    Event::Message {
        tag: message.tag(),
        topic: message.topic().to_owned(),
        payload: message.to_vec(),
    }
}

/// The lane and the failure of an error of a subscriber; `None` for the end of the stream.
fn failure_of(error: ReceiveError) -> Result<Option<(usize, Event)>, String> {
    match error {
        ReceiveError::Closed => Ok(None),
        ReceiveError::Failed(LinkError::Upstream { lane, reason }) => {
            Ok(Some((lane, Event::Failure(reason))))
        }
        other => Err(format!("{other:?}")),
    }
}

fn operations() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(operation(), 1..150)
}

fn run(mut world: World, operations: &[Op]) -> Result<(), String> {
    for op in operations {
        world.run(op)?;
    }
    world.finish()
}

proptest! {
    #![proptest_config(seeded_cases(600))]

    #[test]
    fn lagging_subscribers_get_each_failure_between_its_messages_and_the_next(
        operations in operations(),
        shm in any::<bool>(),
        evict in any::<bool>(),
    ) {
        run(World::new(shm, evict, None), &operations).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn planted_faults_are_found() {
    for planted in [
        Planted::FailureLost,
        Planted::FailureLate,
        Planted::MessageLost,
        Planted::TopicAsBytes,
    ] {
        let mut runner = TestRunner::deterministic();
        let found = (0..100).any(|_| {
            let tree = operations().new_tree(&mut runner).unwrap();
            run(World::new(false, false, Some(planted)), &tree.current()).is_err()
        });
        assert!(found, "{planted:?}");
    }
}
