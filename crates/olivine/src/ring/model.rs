//! Models of the protocols: loom explores the interleavings of the code that ships.
//!
//! | model | edges |
//! |---|---|
//! | `ending`: a lane that is closed with a failure | END |
//! | `frames`: a ring that wraps, batches, publishers that die at every step | COMMIT, REUSE |
//! | `join`: joining while the publisher moves its limit | JOIN, CURSOR |
//! | `overrun`: a subscriber that does not gate reads while it is overwritten | OVERRUN, CURSOR |
//! | `park`: sleepers and wakers, both ways | SLEEP, WAKE, ROOM |
//! | `pages`: the same across the page of an untrusted subscriber | REUSE, SLEEP, ROOM |
//!
//! Every thread does a bounded number of steps and never spins. The rest is read after the threads
//! are joined. The preparation of a scene runs before the threads start, which costs loom nothing.
//!
//! # What the models do not show
//!
//! * Schedules with more forced switches than a model's bound, rings other than of 64 bytes, more
//!   than two subscribers, publishers or lanes at once, atomics with more than seven stores in one
//!   scene.
//! * In loom a SeqCst fence synchronises with every earlier one, and a light or heavy barrier is
//!   such a fence here. So a missing release directly after such a fence is not found. For this
//!   reason the release of the limit in `Producer::make_room` has no mutant, and must stay.
//! * Loads of values from later stores (load buffering): loom only delays loads.
//! * Zeros that prefetch more than one line (ADR 0037): a ring of 64 bytes has no room for them.
//!   The tests on the heap, `crash_tests` and the properties have them.
//! * The mirrored mapping, locks, the kernel's sleep and wake, the bound on every sleep, and
//!   process death other than between two steps of the publisher.

mod ending;
mod frames;
mod join;
mod overrun;
mod pages;
mod park;

use super::consume::{Consumer, Frame, GateWords, Row};
use super::gate::set_bit;
use super::layout::{Geometry, NO_POSITION, control, fixed, lane, lane_entry, slot};
use super::publish::Producer;
use crate::region::{PrivateWord, Ring, Word, Words};
use crate::sync::Ordering;
use crate::wait::{Prepared, prepare_sleep};

const CAPACITY: u64 = 64;

/// Explores `scene` with at most `switches` forced switches between threads.
fn check(switches: usize, scene: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(switches);
    model.check(scene);
}

/// Whether a thread that prepared to sleep would stay asleep: its park word was not taken.
fn sleeps(prepared: Prepared, park: &Word) -> bool {
    prepared == Prepared::Sleep && park.load(Ordering::Relaxed) == 1
}

/// The sleeper does not sleep on a message.
fn assert_awake(prepared: Prepared, park: &Word, consumer: &Consumer) {
    let asleep = sleeps(prepared, park) && consumer.has_next();
    assert!(!asleep, "asleep on a message");
}

/// The words of a channel, and the rings of its lanes.
#[derive(Clone)]
struct Channel {
    geometry: Geometry,
    control: Words,
    lanes: Vec<(Words, Ring)>,
}

impl Channel {
    fn new(lanes: usize, slots: usize) -> Self {
        Self::with(lanes, slots, false)
    }

    /// With `sealed` the control words are the publisher's private ones, beside its subscribers'
    /// pages.
    fn with(lanes: usize, slots: usize, sealed: bool) -> Self {
        // Creates the counter of fences before the threads.
        crate::sync::fence(Ordering::SeqCst);
        let geometry = Geometry {
            capacity: CAPACITY,
            align: 8,
            publishers_max: lanes as u64,
            subscribers_max: slots as u64,
            fixed: fixed::SHAPED,
            ..Geometry::default()
        };
        let mut used = vec![
            (control::SLEEPERS, 0),
            (control::GATING, 0),
            (control::ATTACHED, 0),
        ];
        if sealed {
            used.push((control::ALWAYS, 1));
        }
        for lane in 0..lanes {
            used.push((geometry.lane_entry(lane) + lane_entry::PARK, 0));
        }
        for slot in 0..slots {
            used.push((geometry.slot(slot) + slot::PARK, 0));
            if sealed {
                used.push((geometry.slot(slot) + slot::STATE, slot::ATTACHED));
            }
            used.extend((0..lanes).map(|lane| (geometry.position(slot, lane), NO_POSITION)));
        }
        let control = Words::model(geometry.control_words(), &used);
        let words = [(lane::CURSOR, 0), (lane::LIMIT, CAPACITY), (lane::WAKES, 0)];
        let lane = |_| (Words::model(lane::WORDS, &words), Ring::model(CAPACITY));
        Self {
            lanes: (0..lanes).map(lane).collect(),
            geometry,
            control,
        }
    }

    fn producer(&self, lane: usize) -> Producer {
        let (words, ring) = self.lanes[lane].clone();
        let private = Words::model(2, &[(0, 0), (1, 0)]);
        // SAFETY: this producer's own words.
        let fast_path = [0, 1].map(|word| unsafe { PrivateWord::new(private.resolve(word)) });
        Producer::take_over(ring, words, &self.control, &self.geometry, lane, fast_path)
    }

    /// What a subscriber hands out; the lanes' epoch is 0.
    fn row(&self) -> Row {
        let words = Words::model(2, &[(0, 0), (1, 0)]);
        // SAFETY: this row's own word.
        let due = unsafe { PrivateWord::new(words.resolve(0)) };
        Row::new(due, words.resolve(1))
    }

    /// A subscriber in `slot` that reads from `position`; its gating words must be set.
    fn consumer(&self, lane: usize, slot: usize, position: u64, gates: bool) -> Consumer {
        let (words, ring) = self.lanes[lane].clone();
        let gate = gates.then(|| GateWords {
            position: self.position(lane, slot),
            park: self.lane_park(lane),
            fence: false,
            state: None,
        });
        Consumer::new(ring, words, &self.geometry, lane, position, gate, false)
    }

    /// A subscriber in `slot` that joined before the first frame and gates.
    fn gating(&self, lane: usize, slot: usize) -> Consumer {
        self.position(lane, slot).store(0, Ordering::Release);
        set_bit(&self.control, control::GATING, slot, true);
        self.consumer(lane, slot, 0, true)
    }

    fn position(&self, lane: usize, slot: usize) -> Word {
        self.control.resolve(self.geometry.position(slot, lane))
    }

    fn lane_park(&self, lane: usize) -> Word {
        let entry = self.geometry.lane_entry(lane);
        self.control.resolve(entry + lane_entry::PARK)
    }

    /// The park word of a subscriber, which is attached from now on.
    fn park(&self, slot: usize) -> Word {
        set_bit(&self.control, control::ATTACHED, slot, true);
        let base = self.geometry.slot(slot);
        self.control.resolve(base + slot::PARK)
    }

    fn hint(&self) -> Word {
        self.control.resolve(control::SLEEPERS)
    }
}

/// Message `tag`: one to three words, so that the frames of one lap overlap those of the last.
fn message(tag: u32) -> Vec<u8> {
    const LENGTHS: [usize; 10] = [0, 5, 20, 12, 5, 20, 12, 20, 5, 20];
    vec![u8::try_from(tag).expect("few messages"); LENGTHS[tag as usize]]
}

/// Claims room for message `tag` at `at` and writes its payload; its end, or `None` without room.
fn write(producer: &mut Producer, at: u64, tag: u32) -> Option<u64> {
    let text = message(tag);
    let end = producer.room(at, text.len())?;
    producer.begin_batch();
    producer.write(at, &text);
    Some(end)
}

/// Sends message `tag`; `false` without room.
fn send(producer: &mut Producer, tag: u32) -> bool {
    let text = message(tag);
    let room = producer.room(producer.position(), text.len());
    room.is_some() && producer.send(tag, &text).is_ok()
}

/// Reads the next message and checks its bytes; its number, or `None` without a message.
fn receive(consumer: &mut Consumer) -> Option<u32> {
    let frame: Frame = consumer.next().expect("a frame that a publisher wrote")?;
    assert_eq!(consumer.view(&frame), message(frame.tag));
    consumer.advance(&frame);
    Some(frame.tag)
}

/// Reads all messages, which must be those after `last`; the number of the newest.
fn drain(consumer: &mut Consumer, mut last: u32) -> u32 {
    loop {
        // One walk may end at the known cursor.
        let now = walk(consumer, last, usize::MAX);
        if now == last {
            return last;
        }
        last = now;
    }
}

/// As [`drain`], up to `limit` messages.
fn walk(consumer: &mut Consumer, mut last: u32, limit: usize) -> u32 {
    let walked = consumer.walk(limit, |frame, bytes| {
        assert_eq!((frame.tag, bytes), (last + 1, message(last + 1)));
        last += 1;
    });
    walked.expect("frames that a publisher wrote");
    last
}
