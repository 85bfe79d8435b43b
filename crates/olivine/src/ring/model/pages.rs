//! Subscribers with private pages: the edges that cross a page, and the checks of its words.

use super::*;
use crate::ring::pages::{Pages, page_of};
use loom::thread;
use std::sync::Arc;

/// A channel with a publisher's private control words, and one subscriber's page.
struct Sealed {
    channel: Channel,
    shape: Geometry,
    page: Words,
    pages: Arc<Pages>,
}

impl Sealed {
    /// The subscriber joined before the first frame.
    fn new() -> Self {
        let channel = Channel::with(1, 1, true);
        channel.position(0, 0).store(0, Ordering::Release);
        set_bit(&channel.control, control::GATING, 0, true);
        let shape = page_of(&channel.geometry);
        let page = Words::model(
            shape.control_words(),
            &[
                (control::SLEEPERS, 0),
                (control::ATTACHED, 1),
                (shape.lane_entry(0) + lane_entry::PARK, 0),
                (shape.slot(0) + slot::STATE, slot::ATTACHED),
                (shape.slot(0) + slot::PARK, 0),
                (shape.position(0, 0), 0),
            ],
        );
        let pages = Pages::new(&channel.control, &channel.geometry, || ());
        pages.admit(0, &page, true);
        Self {
            channel,
            shape,
            page,
            pages,
        }
    }

    fn producer(&self) -> Producer {
        let mut producer = self.channel.producer(0);
        producer.use_private_pages(&self.pages);
        producer
    }

    fn consumer(&self) -> Consumer {
        let (words, ring) = self.channel.lanes[0].clone();
        let gate = GateWords {
            position: self.page.resolve(self.shape.position(0, 0)),
            park: self.room(),
            fence: false,
            state: Some(self.page.resolve(self.shape.slot(0) + slot::STATE)),
        };
        Consumer::new(ring, words, &self.shape, 0, 0, Some(gate), false)
    }

    /// The word on which the publisher sleeps.
    fn room(&self) -> Word {
        let entry = self.shape.lane_entry(0);
        self.page.resolve(entry + lane_entry::PARK)
    }

    /// The word on which the subscriber sleeps, and its hint.
    fn flags(&self) -> (Word, Word) {
        let park = self.shape.slot(0) + slot::PARK;
        (
            self.page.resolve(park),
            self.page.resolve(control::SLEEPERS),
        )
    }
}

#[test]
fn room_is_reused_only_after_it_was_read_on_a_page() {
    frames::room_is_reused_once_read(|| {
        let sealed = Sealed::new();
        (sealed.producer(), sealed.consumer())
    });
}

#[test]
fn a_lane_drained_by_a_page_was_read() {
    frames::drained_means_read(|| {
        let sealed = Sealed::new();
        (sealed.producer(), sealed.consumer())
    });
}

#[test]
fn a_sleeper_on_a_page_is_woken_by_the_message_it_missed() {
    check(3, || {
        let sealed = Sealed::new();
        let (mut producer, consumer) = (sealed.producer(), sealed.consumer());
        let (park, hint) = sealed.flags();
        let publisher = thread::spawn(move || assert!(send(&mut producer, 1)));
        let prepared = prepare_sleep(&park, Some(&hint), || consumer.has_next());
        publisher.join().unwrap();
        assert_awake(prepared, &park, &consumer);
    });
}

#[test]
fn a_publisher_that_sleeps_on_a_page_is_woken_by_the_release_it_missed() {
    park::waiting_for_room_ends(3, || {
        let sealed = Sealed::new();
        (sealed.producer(), sealed.consumer(), sealed.room())
    });
}

/// The server ends the session of a subscriber that reads. Then the publisher overwrites.
#[test]
fn copy_overwritten_after_the_end_of_its_session_is_detected() {
    check(4, || {
        let sealed = Sealed::new();
        let (mut producer, mut consumer) = (sealed.producer(), sealed.consumer());
        for tag in 1..=2 {
            assert!(send(&mut producer, tag));
        }
        let publisher = thread::spawn(move || {
            let control = &sealed.channel.control;
            sealed.pages.remove_page(0, true, || {
                set_bit(control, control::GATING, 0, false);
            });
            assert!(send(&mut producer, 3));
            assert!(send(&mut producer, 4));
        });
        let mut last = 0;
        for _ in 0..2 {
            last = overrun::look(&mut consumer, last);
        }
        publisher.join().unwrap();
    });
}

/// With any words on a page, the limit stays within a ring of a frame that was surely read.
#[test]
fn invalid_page_position_moves_no_limit() {
    check(3, || {
        let sealed = Sealed::new();
        let mut producer = sealed.producer();
        assert!(send(&mut producer, 1) && send(&mut producer, 2));
        let published = producer.position();
        let position = sealed.page.resolve(sealed.shape.position(0, 0));
        let faulty = thread::spawn(move || {
            for false_position in [8, published + 8, 0] {
                position.store(false_position, Ordering::Release);
            }
        });
        let limit = sealed.channel.lanes[0].0.resolve(lane::LIMIT);
        for _ in 0..2 {
            // A position that the publisher did not see expels no subscriber: it still counts from
            // a frame's start.
            let gates = !producer.make_room(published + CAPACITY);
            let seen = limit.load(Ordering::Relaxed);
            assert!(!gates || seen == CAPACITY, "a limit of {seen}");
        }
        faulty.join().unwrap();
    });
}
