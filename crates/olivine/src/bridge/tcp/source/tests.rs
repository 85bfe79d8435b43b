//! A sending end: a far side that does not read, a handover between two lanes, and two failures.

use super::*;
use crate::bridge::tcp::socket::Socket;
use crate::bridge::wire::Decoder;
use crate::bridge::wire::hello::Hello;
use crate::channel::attach::{ShapeRole, TypeTag};
use crate::channel::publisher::Publisher;
use crate::fork::ClosedInChildren;
use crate::uri::Config;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

/// A connected pair of sockets: ours as a connection, and the other end.
fn pair() -> (Pipe, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 4096).unwrap();
    let socket = Socket::new(ClosedInChildren::new(near.into()), "far".into(), None).unwrap();
    let mut pipe = Pipe::new(socket, Duration::from_secs(60));
    pipe.greet(&Hello::default());
    (pipe, far)
}

/// A sending end that ends when its bridge is stopped.
fn sending<'a>(pipe: &'a mut Pipe, egress: &'a mut Egress, control: &'a Control) -> Sending<'a> {
    Sending {
        pipe,
        egress,
        control,
        counters: LinkCounters(control),
        strategy: WaitStrategy::Park,
        until_end: false,
        open_there: Vec::new(),
        theirs: &ANY_TYPE,
    }
}

/// A far side that takes messages of any type.
static ANY_TYPE: LazyLock<Hello> = LazyLock::new(|| Hello {
    any_type: true,
    ..Hello::default()
});

/// A regression: the far side saw every lane ended, and reported the end of the stream.
#[test]
fn lane_that_continues_the_stream_is_announced_before_the_end_of_the_last_one() {
    let config = Config::parse("inproc://handed-over").unwrap();
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    let open = || -> Publisher { Publisher::open_as(&config, &TypeTag::default(), None).unwrap() };
    let first = open();
    let (mut pipe, _far) = pair();
    let control = Control::new().unwrap();
    let mut sending = sending(&mut pipe, &mut egress, &control);
    let mut state = State::default();
    sending.write_output(&mut state).unwrap();
    assert!(sending.pipe.pending().is_empty());
    // The first half of `write_output`; the handover falls between the two.
    sending.announce(&mut state).unwrap();
    let _second = open();
    first.close().unwrap();
    assert!(!sending.next_run(&mut state).unwrap());
    let mut decoder = Decoder::new();
    let mut bytes = Vec::new();
    Hello::default().put(&mut bytes);
    bytes.extend(sending.pipe.pending());
    decoder.space()[..bytes.len()].copy_from_slice(&bytes);
    decoder.filled(bytes.len());
    let mut blocks = Vec::new();
    while let Some(arrived) = decoder.next().unwrap() {
        match arrived {
            Arrived::Lane { lane, .. } => blocks.push(("open", lane)),
            Arrived::LaneEnd { lane } => blocks.push(("end", lane)),
            _ => {}
        }
    }
    assert_eq!(blocks, [("open", 1), ("end", 0)]);
}

/// A regression: the far side got the reason of the first, and the second counted as sent.
#[test]
fn failure_that_comes_before_the_first_is_sent_goes_with_it() {
    let config = Config::parse("inproc://twice").unwrap();
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    let open = || -> Publisher { Publisher::open_as(&config, &TypeTag::default(), None).unwrap() };
    let [first, second] = [open(), open()];
    first.fail("torn");
    let error = egress.look().unwrap_err();
    second.fail("worn");
    let (mut pipe, mut far) = pair();
    let mut answer = Vec::new();
    Hello::default().put(&mut answer);
    wire::put_close(&mut answer, Close::Upstream, "stored");
    far.write_all(&answer).unwrap();
    let control = Control::new().unwrap();
    let outcome = send_failure(Err(ring(error)), &mut pipe, &mut egress, &control);
    outcome.unwrap_err();
    assert_eq!(pipe.failure_confirmed(), Some(true));
    assert!(egress.is_settled(), "both were sent");
    drop(pipe);
    let mut sent = Vec::new();
    far.read_to_end(&mut sent).unwrap();
    let sent = String::from_utf8_lossy(&sent).into_owned();
    assert!(sent.contains("torn") && sent.contains("worn"), "{sent:?}");
}

fn hello_of_far_side() -> Vec<u8> {
    let mut bytes = Vec::new();
    let hello = Hello {
        instance: 1,
        ..Hello::default()
    };
    hello.put(&mut bytes);
    bytes
}

fn put_gone(bytes: &mut Vec<u8>) {
    wire::put_close(bytes, Close::Gone, "this side has unsubscribed");
}

fn assert_gone(outcome: Result<(), ConnectionEnd>) {
    let outcome = outcome.unwrap_err();
    let close = match &outcome {
        ConnectionEnd::ByPeer { close, .. } => Some(*close),
        _ => None,
    };
    assert_eq!(close, Some(Close::Gone), "{outcome}");
}

/// A regression: the handshake read the close block, too, and then the connection had ended. The
/// place of the name was kept, and the publisher waited for it.
#[test]
fn far_side_that_leaves_right_after_its_hello_is_heard() {
    let config = Config::parse("inproc://gone-at-once").unwrap();
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    let (mut pipe, mut far) = pair();
    let mut bytes = hello_of_far_side();
    put_gone(&mut bytes);
    far.write_all(&bytes).unwrap();
    drop(far);
    let control = Control::new().unwrap();
    pipe.expect_hello(&control, Duration::from_secs(60))
        .unwrap();
    assert_gone(sending(&mut pipe, &mut egress, &control).run());
}

/// The same, if the first look at the connection is a write to it, and it is reset.
#[test]
fn far_side_that_left_is_heard_after_a_failed_write() {
    let config = Config::parse("inproc://gone-before").unwrap();
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    let (mut pipe, mut far) = pair();
    let control = Control::new().unwrap();
    assert!(pipe.flush().unwrap(), "our hello");
    far.write_all(&hello_of_far_side()).unwrap();
    pipe.expect_hello(&control, Duration::from_secs(60))
        .unwrap();
    let mut bytes = Vec::new();
    put_gone(&mut bytes);
    far.write_all(&bytes).unwrap();
    // It has our hello unread, so its close is a reset.
    far.peek(&mut [0]).unwrap();
    drop(far);
    let _publisher: Publisher = Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
    assert_gone(sending(&mut pipe, &mut egress, &control).run());
}

/// A regression: without the rest of a partly written block, the far side took the source for
/// killed.
#[test]
fn partial_block_is_finished_before_the_close() {
    let config = Config::parse("inproc://half-out?capacity=16MiB").unwrap();
    let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
    let mut publisher: Publisher = Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
    // More than the sockets of both sides hold.
    for _ in 0..200 {
        publisher.publish(&[7; 60_000]).unwrap();
    }
    let (mut pipe, mut far) = pair();
    let control = Control::new().unwrap();
    let mut sending = sending(&mut pipe, &mut egress, &control);
    let mut state = State::default();
    sending.write_output(&mut state).unwrap();
    state.lanes[0].room = u64::MAX;
    while sending.write_output(&mut state).unwrap() {}
    assert!(
        sending.pipe.is_block_partial,
        "the socket took whole blocks only"
    );
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).unwrap();
        bytes
    });
    sending.finish_block(&mut state);
    assert!(!pipe.is_block_partial);
    pipe.close_with(&control, Close::Leaving, "this side stops");
    drop(pipe);
    let bytes = reading.join().unwrap();
    let mut decoder = Decoder::new();
    let (mut rest, mut last) = (&bytes[..], None);
    while !rest.is_empty() {
        let space = decoder.space();
        let count = space.len().min(rest.len());
        space[..count].copy_from_slice(&rest[..count]);
        decoder.filled(count);
        rest = &rest[count..];
        while let Some(arrived) = decoder.next().unwrap() {
            let length = match arrived {
                Arrived::Frames { bytes, .. } => bytes.len(),
                Arrived::Close { close, .. } => {
                    last = Some(close);
                    0
                }
                _ => 0,
            };
            decoder.took(length);
        }
    }
    assert_eq!(last, Some(Close::Leaving));
}
