//! One round over the lanes, while publishers come and go.

use super::*;
use crate::channel::attach::{ShapeRole, TypeTag};
use crate::channel::publisher::Publisher;
use crate::link::Stop;

fn publisher(uri: &str) -> Publisher {
    Publisher::open_as(&Config::parse(uri).unwrap(), &TypeTag::default(), None).unwrap()
}

/// A relay whose bridge was asked to stop.
fn relay(from: &str, to: &str) -> (Egress, Ingress) {
    let egress = Egress::open(&Config::parse(from).unwrap(), ShapeRole::Names).unwrap();
    let control = Control::new().unwrap();
    control.stop(Stop::Now);
    let to = Config::parse(to).unwrap();
    let destination = Destination::new(&to, any_type(), &control);
    (egress, destination.unchecked_ingress("a test").unwrap())
}

/// Its readers got the end of the stream: the lane was closed before the next one was opened.
#[test]
fn lane_stays_open_at_a_handover_until_the_next_one_is_open() {
    let from = "inproc://handover-from?capacity=4KiB";
    let to = "inproc://handover-to?capacity=4KiB&publishers_max=1";
    let (mut egress, mut ingress) = relay(from, to);
    let mut open = Vec::new();
    let mut first = publisher(from);
    first.publish(&[1; 24]).unwrap();
    assert_eq!(
        pass(&mut egress, &mut ingress, &mut open).unwrap().bytes,
        32
    );
    let next = publisher(from);
    first.close().unwrap();
    // The destination has no room for another lane.
    assert!(pass(&mut egress, &mut ingress, &mut open).is_err());
    assert!(ingress.is_open(0));
    drop(next);
}

/// The next lane was opened after the look for lanes.
#[test]
fn last_open_lane_closes_only_at_the_end_of_the_stream() {
    let from = "inproc://late-from?capacity=4KiB";
    let (mut egress, mut ingress) = relay(from, "inproc://late-to");
    let mut open = Vec::new();
    let first = publisher(from);
    pass(&mut egress, &mut ingress, &mut open).unwrap();
    let next = publisher(from);
    first.close().unwrap();
    close_ended(&mut egress, &mut ingress, &mut open);
    assert!(ingress.is_open(0));
    pass(&mut egress, &mut ingress, &mut open).unwrap();
    assert!(!ingress.is_open(0) && ingress.is_open(1));
    next.close().unwrap();
    pass(&mut egress, &mut ingress, &mut open).unwrap();
    assert!(!ingress.is_open(1));
}
