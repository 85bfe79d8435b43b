//! Every argument of a ingress is a number of a stranger.

use super::*;
use crate::channel::attach::TypeTag;
use crate::channel::subscriber::Subscriber;
use crate::error::OpenError;
use crate::link::{Control, Stop};
use crate::uri::Config;
use std::sync::Arc;

fn destination(uri: &str) -> (Destination, Arc<Control>) {
    let config = Config::parse(uri).unwrap();
    let control = Control::new().unwrap();
    let destination = Destination::new(&config, crate::bridge::any_type(), &control);
    (destination, control)
}

/// A ingress with lane 0 open from position 0, and a subscriber of its ring.
fn open(uri: &str) -> (CheckedIngress, Subscriber, Arc<Control>) {
    let (destination, control) = destination(uri);
    let mut ingress = destination.ingress("a test").unwrap();
    ingress.open_lane(7, 0, 0).unwrap();
    let config = Config::parse(uri).unwrap();
    let typed = TypeTag::default();
    let role = crate::channel::attach::ShapeRole::Leaves;
    let subscriber = Subscriber::open_as(&config, &typed, role).unwrap();
    control.stop(Stop::Now);
    (ingress, subscriber, control)
}

fn frame(ingress: &CheckedIngress, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ingress
        .add_frame(&mut bytes, Outgoing::new(message))
        .unwrap();
    bytes
}

fn is_wrong<T: std::fmt::Debug>(answer: Result<T, NotTaken>) -> bool {
    matches!(answer, Err(NotTaken::Wrong { .. }))
}

#[test]
fn lane_that_was_never_opened_is_refused() {
    let (mut ingress, _subscriber, _control) = open("inproc://raw-never");
    let bytes = frame(&ingress, b"x");
    assert!(is_wrong(ingress.take(1, 0, &bytes)));
    assert!(is_wrong(ingress.skip_to(u32::MAX, 8)));
    ingress.close_lane(9);
    ingress.end_lane(9).unwrap();
    ingress.fail_lane(9, "x").unwrap();
    ingress.set_incarnation(9, 8).unwrap();
    assert_eq!((ingress.acknowledged(9), ingress.is_open(9)), (None, false));
    ingress.close_lane(0);
    assert!(is_wrong(ingress.take(0, 0, &bytes)), "closed");
}

#[test]
fn incarnation_zero_is_refused() {
    let (mut ingress, _subscriber, _control) = open("inproc://raw-zero");
    assert!(is_wrong(ingress.open_lane(0, 1, 0)));
    assert!(is_wrong(ingress.set_incarnation(0, 0)));
    assert_eq!(ingress.lanes()[0].incarnation, 7);
}

#[test]
fn bytes_that_do_not_continue_the_lane_are_refused() {
    let (mut ingress, mut subscriber, _control) = open("inproc://raw-place");
    let bytes = frame(&ingress, b"one");
    for position in [8, 16, u64::MAX, u64::MAX - 7] {
        assert!(is_wrong(ingress.take(0, position, &bytes)), "{position}");
    }
    assert!(
        is_wrong(ingress.take(0, 0, &bytes[..9])),
        "not a multiple of 8"
    );
    ingress.take(0, 0, &bytes).unwrap();
    assert!(is_wrong(ingress.take(0, 0, &bytes)), "a repetition");
    assert!(is_wrong(ingress.open_lane(7, 0, 0)), "not where it stopped");
    assert_eq!(ingress.acknowledged(0), Some(16));
    assert_eq!(&*subscriber.receive().unwrap(), b"one");
}

/// No header, whatever it says, is followed out of the ring.
#[test]
fn frames_of_a_wrong_length_are_refused() {
    let (mut ingress, mut subscriber, _control) = open("inproc://raw-length?capacity=4KiB");
    let max = 4096 - 16;
    for header in [
        0,
        1,
        7,
        max + 9,
        1 << 20,
        (1 << 31) - 1,
        1 << 31,
        u64::MAX,
        5 << 32,
    ] {
        let bytes = [header.to_le_bytes(), [0; 8]].concat();
        assert!(is_wrong(ingress.take(0, 0, &bytes)), "{header:x}");
        let good = frame(&ingress, b"good");
        let behind = [&good, &bytes].map(|bytes| &bytes[..]).concat();
        let from = ingress.acknowledged(0).unwrap();
        ingress.skip_to(0, 0).unwrap();
        assert!(is_wrong(ingress.take(0, 0, &behind)), "{header:x}");
        assert_eq!(
            &*subscriber.receive().unwrap(),
            b"good",
            "{header:x} {from}"
        );
        ingress.skip_to(0, 0).unwrap();
    }
    // The subscriber releases what it returned with its next call.
    assert!(subscriber.try_receive().unwrap().is_none());
    let mut bytes = Vec::new();
    let longest = usize::try_from(max).unwrap();
    let message = vec![3; longest];
    ingress
        .add_frame(&mut bytes, Outgoing::new(&message))
        .unwrap();
    ingress.take(0, 0, &bytes).unwrap();
    assert_eq!(subscriber.receive().unwrap().len(), longest);
    let message = vec![3; longest + 1];
    let refused = ingress.add_frame(&mut bytes, Outgoing::new(&message));
    assert_eq!(refused, Err(NotSent::TooLong { max: longest }));
}

/// Positions of the far side are compared and added, nothing else: they may wrap.
#[test]
fn positions_of_the_far_side_may_wrap() {
    let (mut ingress, mut subscriber, _control) = open("inproc://raw-wrap");
    ingress.open_lane(9, 1, u64::MAX - 7).unwrap();
    let bytes = frame(&ingress, b"two");
    ingress.take(1, u64::MAX - 7, &bytes).unwrap();
    assert_eq!(ingress.acknowledged(1), Some(8));
    ingress.take(1, 8, &bytes).unwrap();
    for _ in 0..2 {
        assert_eq!(&*subscriber.receive().unwrap(), b"two");
    }
}

/// The part of a message of one channel is not completed by bytes of another.
#[test]
fn another_incarnation_discards_a_partial_message() {
    let (mut ingress, mut subscriber, _control) = open("inproc://raw-part");
    let bytes = frame(&ingress, &[1; 100]);
    ingress.take(0, 0, &bytes[..48]).unwrap();
    assert!(is_wrong(ingress.skip_to(0, 400)), "partly received");
    ingress.open_lane(8, 0, 400).unwrap();
    let bytes = frame(&ingress, &[2; 100]);
    ingress.take(0, 400, &bytes[..48]).unwrap();
    ingress.take(0, 448, &bytes[48..]).unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), &[2; 100]);
    assert_eq!(ingress.messages(), 1);
}

#[test]
fn refused_message_is_taken_once_there_is_room() {
    let (mut ingress, mut subscriber, _control) = open("inproc://raw-room?capacity=4KiB");
    let bytes = frame(&ingress, &[1; 1500]);
    let all = [&bytes[..], &bytes[..], &bytes[..]].concat();
    let Err(NotTaken::NoRoom { taken }) = ingress.take(0, 0, &all) else {
        panic!("three messages fit");
    };
    assert_eq!(taken, 2 * bytes.len());
    assert!(ingress.retry_room(), "nothing was read yet");
    for _ in 0..2 {
        assert_eq!(subscriber.receive().unwrap().len(), 1500);
    }
    // The subscriber releases what it returned with its next call.
    assert!(subscriber.try_receive().unwrap().is_none());
    assert!(!ingress.retry_room());
    ingress.take(0, taken as u64, &all[taken..]).unwrap();
    assert_eq!(subscriber.receive().unwrap().len(), 1500);
}

/// Two bridges with one name wrote one message twice.
#[test]
fn second_writer_of_the_same_far_side_is_refused_while_the_first_lives() {
    let uri = "inproc://raw-twice";
    let (ingress, _subscriber, _control) = open(uri);
    let (again, _other) = destination(uri);
    let refused = again.ingress("a test").unwrap_err();
    let LinkError::Ring { source } = &refused else {
        panic!("{refused:?}");
    };
    assert!(matches!(**source, OpenError::SourceInUse { lane: 0, .. }));
    let text = source.to_string();
    assert!(
        text.contains("'a test'") && text.contains("stop that bridge"),
        "{text}"
    );
    assert!(again.ingress("another test").unwrap().lanes().is_empty());
    drop(ingress);
    assert!(again.ingress("a test").unwrap().is_open(0));
}

/// Neither had a lane when it was opened.
#[test]
fn lane_that_another_writer_of_the_same_far_side_has_opened_is_refused() {
    let uri = "inproc://raw-late";
    let (first, _control) = destination(uri);
    let mut first = first.ingress("a test").unwrap();
    let (second, _other) = destination(uri);
    let mut second = second.ingress("a test").unwrap();
    first.open_lane(7, 0, 0).unwrap();
    let refused = second.open_lane(7, 0, 0).unwrap_err();
    let is_named = matches!(
        &refused,
        NotTaken::Ring(OpenError::SourceInUse { lane: 0, .. })
    );
    assert!(is_named, "{refused:?}");
}

#[test]
fn any_type_name_and_capacity_is_adopted_without_harm() {
    let (mut destination, _control) = destination("inproc://raw-type");
    assert_eq!(destination.message_type(), None);
    let known = |hash, name: &str| KnownType::new(hash, name, "a u8");
    let long = known(5, &"n".repeat(1000));
    destination.adopt(&long, u64::MAX);
    assert_eq!(destination.message_type(), Some(&long));
    let mut ingress = destination.ingress("a test").unwrap();
    ingress.adopt(&known(6, "\n"));
    ingress.check_type("far", &known(5, "x")).unwrap();
    ingress.check_type("far", &known(7, "x")).unwrap_err();
    ingress.open_lane(1, 0, 0).unwrap();
}

/// What the next bridge needs is in the memory of the lanes.
#[test]
fn next_writer_finds_the_lanes_of_the_last_one() {
    let uri = "inproc://raw-next";
    let (mut ingress, _subscriber, _control) = open(uri);
    let bytes = frame(&ingress, b"kept");
    ingress.take(0, 0, &bytes).unwrap();
    drop(ingress);
    let (again, _control) = destination(uri);
    let ingress = again.ingress("a test").unwrap();
    let expected = LaneOrigin {
        index: 0,
        incarnation: 7,
        position: 16,
        is_failed: false,
    };
    assert_eq!(ingress.lanes(), [expected]);
    assert!(ingress.is_open(0));
}
