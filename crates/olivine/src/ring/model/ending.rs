//! A lane that is closed with a failure: END.

use super::*;
use crate::ring::ending;
use loom::thread;

/// A subscriber that sees a lane closed sees all its messages and its failure.
#[test]
fn a_closed_lane_shows_its_last_message_and_its_failure() {
    check(4, || {
        let mut channel = Channel::new(1, 1);
        let mut used = vec![(lane::STATE, 3)];
        used.extend([(lane::CURSOR, 0), (lane::LIMIT, CAPACITY), (lane::WAKES, 0)]);
        let failure = lane::FAILURE_STATE..lane::FAILURE_TEXT + lane::FAILURE_TEXT_WORDS;
        used.extend(failure.map(|at| (at, 0)));
        channel.lanes[0].0 = Words::model(lane::WORDS, &used);
        let words = channel.lanes[0].0.clone();
        let mut producer = channel.producer(0);
        let mut consumer = channel.gating(0, 0);
        let publisher = thread::spawn({
            let words = words.clone();
            move || {
                assert!(send(&mut producer, 1));
                ending::close_as(&words, 2, producer.position(), Some("torn"));
            }
        });
        if ending::state(&words) & 1 == 0 {
            assert!(ending::is_failed(&words));
            assert_eq!(drain(&mut consumer, 0), 1);
            let failure = ending::failure(&words).expect("it failed");
            assert_eq!(failure.reason, "torn");
            assert_eq!(failure.position, consumer.position());
        }
        publisher.join().unwrap();
        assert!(ending::is_failed(&words));
    });
}
