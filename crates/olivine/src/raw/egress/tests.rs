//! Every argument of a egress is a number of a stranger.

use super::*;
use crate::channel::attach::TypeTag;
use crate::channel::publisher::Publisher;
use crate::region::HEADER_BYTES;

/// A egress of `uri`, and a publisher of one lane with three messages of 24 bytes: the ends.
fn three(uri: &str) -> (CheckedEgress, Publisher, [u64; 4]) {
    let config = Config::parse(uri).unwrap();
    let mut egress = CheckedEgress::open(&config).unwrap();
    let mut publisher: Publisher = Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
    let start = publisher.cursor().0;
    let ends = [1, 2, 3].map(|kind| publisher.publish(&[kind; 24]).unwrap().0);
    assert_eq!(egress.look().unwrap(), 1);
    (egress, publisher, [start, ends[0], ends[1], ends[2]])
}

fn is_refused<T: std::fmt::Debug>(answer: Result<T, NotRead>) -> bool {
    matches!(answer, Err(NotRead::Position { .. }))
}

/// Wrong positions: inside a frame, before the lane, behind it, and near the largest number.
fn wrong([start, first, .., last]: [u64; 4]) -> [u64; 7] {
    [
        start + 8,
        first - 1,
        first + 8,
        last + 8,
        last + (1 << 40),
        u64::MAX,
        u64::MAX - 7,
    ]
}

#[test]
fn unknown_lane_is_refused_by_every_call() {
    let (mut egress, _publisher, _) = three("inproc://raw-lane");
    for place in [1, usize::MAX] {
        let answers = [
            egress.lane(place).map(|_| ()),
            egress.position(place).map(|_| ()),
            egress.acknowledged(place).map(|_| ()),
            egress.committed(place).map(|_| ()),
            egress.waiting(place).map(|_| ()),
            egress.frames(place, 64).map(|_| ()),
            egress.advance(place, 64),
            egress.acknowledge(place, 64),
            egress.resume(place, 64).map(|_| ()),
            egress.is_lane_ended(place).map(|_| ()),
        ];
        for (n, answer) in answers.into_iter().enumerate() {
            let error = answer.expect_err(&n.to_string());
            assert!(
                matches!(error, NotRead::Lane { lanes: 1, .. }),
                "{n}: {error}"
            );
        }
    }
}

#[test]
fn position_moves_only_to_ends_of_published_frames() {
    let (mut egress, _publisher, ends) = three("inproc://raw-advance");
    for position in wrong(ends) {
        assert!(is_refused(egress.advance(0, position)), "{position}");
        assert_eq!(egress.position(0).unwrap(), ends[0], "{position}");
    }
    egress.advance(0, ends[0]).unwrap();
    egress.advance(0, ends[2]).unwrap();
    assert!(is_refused(egress.advance(0, ends[1])), "back");
    assert!(
        is_refused(egress.advance(0, ends[2] + 8)),
        "inside the third"
    );
    egress.advance(0, ends[3]).unwrap();
    assert!(egress.frames(0, u64::MAX).unwrap().is_empty());
    assert!(
        is_refused(egress.advance(0, ends[3] + HEADER_BYTES)),
        "not published"
    );
}

#[test]
fn only_frames_that_were_handed_over_are_acknowledged() {
    let (mut egress, _publisher, ends) = three("inproc://raw-acknowledge");
    assert!(
        is_refused(egress.acknowledge(0, ends[1])),
        "never handed over"
    );
    egress.advance(0, ends[2]).unwrap();
    for position in wrong(ends) {
        // What is at or before the acknowledged position changes nothing.
        let old = position <= ends[0];
        assert_eq!(
            is_refused(egress.acknowledge(0, position)),
            !old,
            "{position}"
        );
        assert_eq!(egress.acknowledged(0).unwrap(), ends[0], "{position}");
    }
    assert!(
        is_refused(egress.acknowledge(0, ends[3])),
        "not handed over"
    );
    egress.acknowledge(0, ends[1]).unwrap();
    egress.acknowledge(0, ends[0]).unwrap();
    assert_eq!(egress.acknowledged(0).unwrap(), ends[1], "an old one");
    egress.rewind();
    assert_eq!(egress.position(0).unwrap(), ends[1]);
    assert!(is_refused(egress.advance(0, ends[0])), "released");
}

#[test]
fn far_side_continues_only_at_a_held_frame() {
    let (mut egress, _publisher, ends) = three("inproc://raw-resume");
    egress.advance(0, ends[1]).unwrap();
    egress.acknowledge(0, ends[1]).unwrap();
    for position in wrong(ends).into_iter().chain([ends[0], 0]) {
        assert!(!egress.resume(0, position).unwrap(), "{position}");
        assert_eq!(egress.acknowledged(0).unwrap(), ends[1], "{position}");
    }
    assert!(egress.resume(0, ends[2]).unwrap());
    let place = (egress.position(0).unwrap(), egress.acknowledged(0).unwrap());
    assert_eq!(place, (ends[2], ends[2]));
}

/// A run is never cut inside a frame, and a long frame comes alone.
#[test]
fn frames_are_whole_and_one_at_least() {
    let (mut egress, _publisher, ends) = three("inproc://raw-frames");
    let frame = ends[1] - ends[0];
    for (bytes, count) in [
        (0, 1),
        (1, 1),
        (frame, 1),
        (2 * frame + 8, 2),
        (u64::MAX, 3),
    ] {
        let frames = egress.frames(0, bytes).unwrap();
        assert_eq!(
            (frames.position(), frames.end()),
            (ends[0], ends[count]),
            "{bytes}"
        );
        let kinds: Vec<u8> = frames.map(|frame| frame.unwrap().payload()[0]).collect();
        assert_eq!(kinds, (1..=3).take(count).collect::<Vec<u8>>(), "{bytes}");
    }
    assert_eq!(egress.waiting(0).unwrap(), 3 * frame);
}

#[test]
fn messages_after_the_goal_are_not_handed_over() {
    let (mut egress, mut publisher, ends) = three("inproc://raw-goal");
    egress.set_goal().unwrap();
    publisher.publish(b"later").unwrap();
    let config = Config::parse("inproc://raw-goal").unwrap();
    let mut other: Publisher = Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
    other.publish(b"of a later lane").unwrap();
    assert_eq!(egress.look().unwrap(), 2);
    assert_eq!(egress.frames(0, u64::MAX).unwrap().end(), ends[3]);
    assert!(egress.frames(1, u64::MAX).unwrap().is_empty());
    assert_eq!((egress.waiting(1).unwrap(), egress.undelivered()), (0, 3));
    egress.advance(0, ends[3]).unwrap();
    assert!(!egress.is_delivered().unwrap());
    egress.acknowledge(0, ends[3]).unwrap();
    assert!(egress.is_delivered().unwrap());
}

/// The publisher may not write into what is lent: with the whole ring lent, it finds no room.
#[test]
fn publisher_does_not_overwrite_what_is_not_acknowledged() {
    let config = Config::parse("inproc://raw-held?capacity=4KiB").unwrap();
    let mut egress = CheckedEgress::open(&config).unwrap();
    let mut publisher: Publisher = Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
    let mut count = 0;
    while publisher.try_publish(&[7; 24]).is_ok() {
        count += 1;
    }
    egress.look().unwrap();
    let frames = egress.frames(0, u64::MAX).unwrap();
    let end = frames.end();
    publisher.try_publish(&[8; 24]).unwrap_err();
    assert!(
        frames
            .clone()
            .all(|frame| frame.unwrap().payload() == [7; 24])
    );
    assert_eq!(frames.count(), count);
    egress.advance(0, end).unwrap();
    publisher.try_publish(&[8; 24]).unwrap_err();
    egress.acknowledge(0, end).unwrap();
    publisher.try_publish(&[8; 24]).unwrap();
}

/// Where publishers do not wait, frames are a checked copy, and an overwritten one is refused.
#[test]
fn frames_of_an_evicted_reader_are_refused() {
    let config = Config::parse("inproc://raw-evicted?capacity=4KiB&slow=evict:1ms").unwrap();
    let mut egress = CheckedEgress::open(&config).unwrap();
    let mut publisher: Publisher = Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
    let start = publisher.cursor().0;
    publisher.publish(&[1; 24]).unwrap();
    egress.look().unwrap();
    assert_eq!(egress.frames(0, u64::MAX).unwrap().count(), 1);
    for length in (0..400).map(|n| 16 + n % 90) {
        publisher.publish(&vec![0x11; length]).unwrap();
    }
    let answers = [
        egress.frames(0, u64::MAX).map(|_| ()),
        egress.committed(0).map(|_| ()),
        egress.waiting(0).map(|_| ()),
        egress.advance(0, start + 32),
        egress.resume(0, start + 32).map(|_| ()),
        egress.look().map(|_| ()),
    ];
    for (n, answer) in answers.into_iter().enumerate() {
        assert!(
            matches!(answer, Err(NotRead::Ring(ReceiveError::Evicted))),
            "{n}: {answer:?}"
        );
    }
}

/// Headers that were overwritten by frames of the same lengths look right. A position from them
/// would be stored under a durable name.
#[test]
fn overwritten_headers_do_not_prove_a_position() {
    let config = Config::parse("inproc://raw-lapped?capacity=4KiB&slow=evict:1ms").unwrap();
    let mut egress = CheckedEgress::open(&config).unwrap();
    let mut publisher: Publisher = Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
    let start = publisher.cursor().0;
    // All is handed over and nothing acknowledged, until the publisher evicts and goes on.
    for _ in 0..200 {
        publisher.publish(&[1; 24]).unwrap();
        let _ = egress.look();
        let end = egress
            .frames(0, u64::MAX)
            .map_or(start, |frames| frames.end());
        let _ = egress.advance(0, end);
    }
    assert!(egress.position(0).unwrap() > start + 32);
    let answer = egress.acknowledge(0, start + 32);
    let is_evicted = matches!(answer, Err(NotRead::Ring(ReceiveError::Evicted)));
    assert!(is_evicted, "{answer:?}");
    assert_eq!(egress.acknowledged(0).unwrap(), start);
}

#[test]
fn every_message_and_its_label_come_through() {
    let (mut egress, mut publisher, ends) = three("inproc://raw-labels");
    publisher
        .publish(crate::message::Outgoing::new(b"x").tag(9).topic("a.b"))
        .unwrap();
    egress.advance(0, ends[3]).unwrap();
    let mut frames = egress.frames(0, u64::MAX).unwrap();
    let frame = frames.next().unwrap().unwrap();
    assert_eq!(
        (frame.tag(), frame.topic(), frame.payload()),
        (9, Some("a.b"), &b"x"[..])
    );
    assert_eq!(egress.align(), 8);
    assert_eq!(egress.message_type(), KnownType::default());
}
