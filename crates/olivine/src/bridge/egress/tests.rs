//! Positions of lanes, evictions, failures and the requested end.

use super::*;
use crate::channel::publisher::Publisher;
use crate::uri::Expire;

/// A ring that is completely overwritten proves nothing about its publisher or a frame.
#[test]
fn evicted_egress_reports_eviction_from_every_call() {
    let config = Config::parse("inproc://lapped?capacity=4KiB&slow=evict:1ms").unwrap();
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    let mut publisher: Publisher = Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
    publisher.publish(&[1; 24]).unwrap();
    assert_eq!(egress.look().unwrap(), 1);
    // Lengths differ from those before, so a former frame start is now inside another frame.
    for length in (0..400).map(|n| 16 + n % 90) {
        publisher.publish(&vec![0x11; length]).unwrap();
    }
    let is_evicted = |answer: &ReceiveError| matches!(answer, ReceiveError::Evicted);
    let answers = [
        egress.committed(0).err(),
        egress.frames_end(0, u64::MAX).err(),
        egress.frames_end(0, 1).err(),
        egress.frames(0, u64::MAX).map(|_| ()).err(),
        egress.next_frame(0).err(),
        egress.resume(0, 64).err(),
        egress.look().err(),
        egress.is_delivered().err(),
    ];
    for (n, answer) in answers.iter().enumerate() {
        assert!(
            answer.as_ref().is_some_and(is_evicted),
            "question {n}: {answer:?}"
        );
    }
}

/// The cursor follows the header one instruction later, or never, if the publisher is killed
/// between the two.
#[test]
fn frame_with_stale_cursor_is_handed_over() {
    let config = Config::parse("inproc://shown").unwrap();
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    let mut publisher: Publisher = Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
    let start = publisher.cursor().0;
    let end = publisher.publish(&[7; 24]).unwrap().0;
    assert_eq!(egress.look().unwrap(), 1);
    publisher.put_cursor_back(start);
    assert_eq!(egress.frames_end(0, u64::MAX).unwrap(), end);
    assert_eq!(egress.next_frame(0).unwrap(), Some((end, 24)));
    let frames = egress.frames(0, end).unwrap();
    assert_eq!((frames.position(), frames.end()), (start, end));
    assert_eq!(frames.bytes().get(8..32), Some(&[7; 24][..]));
}

/// A publisher that never stops must not keep a bridge from ending.
#[test]
fn messages_after_an_end_request_are_left_out() {
    let config = Config::parse("inproc://goal").unwrap();
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    let mut publisher: Publisher = Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
    let mut publish = || publisher.publish(&[1; 24]).unwrap().0;
    let ends = [publish(), publish()];
    assert_eq!(egress.look().unwrap(), 1);
    egress.set_goal().unwrap();
    let after = publish();
    egress.set_goal().unwrap();
    assert_eq!((egress.goal(0), egress.goal(1)), (ends[1], 0));
    egress.advance(0, ends[1]);
    assert!(egress.acknowledge(0, ends[0]));
    assert!(!egress.is_delivered().unwrap());
    assert_eq!(egress.undelivered(), 1);
    assert_eq!(egress.position(0), ends[0], "handed over again");
    egress.advance(0, ends[1]);
    assert!(egress.acknowledge(0, ends[1]));
    assert!(egress.is_delivered().unwrap());
    assert_eq!(egress.undelivered(), 0);
    assert!(after > ends[1]);
}

#[test]
fn only_ends_of_sent_frames_are_acknowledged() {
    let config = Config::parse("inproc://acknowledged").unwrap();
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    let mut publisher: Publisher = Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
    let start = publisher.cursor().0;
    let ends: Vec<u64> = (0..3)
        .map(|_| publisher.publish(&[1; 24]).unwrap().0)
        .collect();
    assert_eq!(egress.look().unwrap(), 1);
    let end = egress.frames_end(0, u64::MAX).unwrap();
    let mut checked = |position, handed_over| {
        let taken = egress
            .acknowledge_checked(0, position, handed_over)
            .unwrap();
        (taken, egress.acknowledged(0))
    };
    assert_eq!(checked(ends[0], start), (false, start), "never sent");
    assert_eq!(checked(start + 8, end), (false, start), "inside a frame");
    assert_eq!(
        checked(ends[1] + 8, end),
        (false, start),
        "inside a later one"
    );
    assert_eq!(checked(ends[1], end), (true, ends[1]));
    assert_eq!(
        checked(ends[0] + 8, end),
        (true, ends[1]),
        "given back already"
    );
    assert_eq!(checked(ends[2], end), (true, end));
}

fn failure_of(egress: &mut Egress) -> (usize, String) {
    match egress.look().unwrap_err() {
        ReceiveError::Failed(LinkError::Upstream { lane, reason }) => (lane, reason),
        other => panic!("{other:?}"),
    }
}

/// A bridge that was behind skipped it without a report: only a lane still closed reported.
#[test]
fn failure_of_a_lane_that_was_opened_again_is_reported_between_its_messages() {
    let config = Config::parse("inproc://reopened").unwrap();
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    let open = || -> Publisher { Publisher::open_as(&config, &TypeTag::default(), None).unwrap() };
    let mut publisher = open();
    let before = publisher.publish(&[1; 24]).unwrap().0;
    publisher.fail("torn");
    let mut publisher = open();
    let after = publisher.publish(&[2; 24]).unwrap().0;
    publisher.close().unwrap();
    assert_eq!(egress.look().unwrap(), 1);
    assert_eq!(egress.frames_end(0, u64::MAX).unwrap(), before);
    assert_eq!(egress.undelivered(), 2);
    egress.advance(0, before);
    assert_eq!(egress.next_frame(0).unwrap(), None);
    assert_eq!(egress.reachable(0).unwrap(), before);
    assert_eq!(egress.look().unwrap(), 1, "not acknowledged");
    assert!(egress.acknowledge(0, before));
    assert_eq!(failure_of(&mut egress), (0, "torn".to_owned()));
    // The far side that comes back gets the report again. The next far side gets the messages
    // behind it, and the end.
    egress.set_reader(1, Expire::Never);
    let due = egress.due_failures();
    egress.mark_failure_sent(&due, true);
    egress.set_reader(1, Expire::Never);
    egress.look().unwrap_err();
    assert_eq!(egress.next_frame(0).unwrap(), None);
    egress.set_reader(2, Expire::Never);
    assert_eq!(egress.look().unwrap(), 1);
    assert_eq!(egress.frames_end(0, u64::MAX).unwrap(), after);
    assert!(!egress.is_lane_ended(0));
    egress.advance(0, after);
    assert!(egress.is_lane_ended(0));
}

/// Bridges and recorders ended again at each start, until a publisher opened the lane again.
#[test]
fn bridge_that_starts_after_a_failure_carries_the_other_publishers() {
    let config = Config::parse("inproc://others").unwrap();
    let open = || -> Publisher { Publisher::open_as(&config, &TypeTag::default(), None).unwrap() };
    let [mut other, mut failing] = [open(), open()];
    failing.publish(&[1; 24]).unwrap();
    failing.fail("torn");
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    assert_eq!(egress.look().unwrap(), 2);
    let end = other.publish(&[2; 24]).unwrap().0;
    let place = (0..2).find(|place| egress.lane(*place) == 0).unwrap();
    assert_eq!(egress.frames_end(place, u64::MAX).unwrap(), end);
    other.close().unwrap();
    assert_eq!(egress.look().unwrap(), 2, "the other is not read yet");
    assert!(!egress.is_ended());
    egress.advance(place, end);
    assert!(egress.acknowledge(place, end));
    // No publisher is left: the end of the whole stream is a failure.
    assert_eq!(failure_of(&mut egress), (1, "torn".to_owned()));
}

#[test]
fn failures_of_two_lanes_are_reported_together() {
    let config = Config::parse("inproc://two").unwrap();
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    let open = || -> Publisher { Publisher::open_as(&config, &TypeTag::default(), None).unwrap() };
    let _other = open();
    let pair = [open(), open()];
    for (publisher, reason) in pair.into_iter().zip(["torn", "cut"]) {
        publisher.fail(reason);
    }
    let failure = (1, "torn; lane 2: cut".to_owned());
    assert_eq!(failure_of(&mut egress), failure);
}

/// A lane that failed and was opened and closed again looked like a clean end.
#[test]
fn stream_has_not_ended_while_a_failure_is_not_reported() {
    let config = Config::parse("inproc://unreported").unwrap();
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    let open = || -> Publisher { Publisher::open_as(&config, &TypeTag::default(), None).unwrap() };
    let mut publisher = open();
    let end = publisher.publish(&[1; 24]).unwrap().0;
    assert_eq!(egress.look().unwrap(), 1);
    egress.advance(0, end);
    assert!(egress.acknowledge(0, end));
    assert!(egress.is_delivered().unwrap());
    publisher.fail("torn");
    open().close().unwrap();
    assert_eq!(failure_of(&mut egress), (0, "torn".to_owned()));
    assert!(!egress.is_ended());
}
