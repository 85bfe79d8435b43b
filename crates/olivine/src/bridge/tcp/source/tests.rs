//! A sending end whose far side does not read.

use super::*;
use crate::bridge::tcp::socket::Socket;
use crate::bridge::wire::Decoder;
use crate::bridge::wire::hello::Hello;
use crate::channel::attach::{ShapeRole, TypeTag};
use crate::channel::publisher::Publisher;
use crate::fork::ClosedInChildren;
use crate::uri::Config;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

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
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 4096).unwrap();
    let socket = Socket::new(ClosedInChildren::new(near.into()), "far".into(), None).unwrap();
    let mut pipe = Pipe::new(socket, Duration::from_secs(60));
    pipe.greet(&Hello::default());
    let control = Control::new().unwrap();
    let mut sending = Sending {
        pipe: &mut pipe,
        egress: &mut egress,
        control: &control,
        counters: LinkCounters(&control),
        strategy: WaitStrategy::Park,
        until_end: false,
        open_there: Vec::new(),
    };
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
