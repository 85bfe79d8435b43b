//! How long HTTP connections may be idle: between requests, and at no other time.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::mpsc,
    time::Duration,
};

use crate::support::{backends, client, config, exchange, next, read_to_end, wait_until};
use olivine_net::{
    Backend, Engine,
    http::{self, Http, Limits, Request, Responder, Server, Service, StreamId},
};

const IDLE: Duration = Duration::from_millis(60);
/// More than the kernel's buffers of a connection hold.
const LARGE_BYTES: usize = 16 << 20;

/// Orders of a test to the application.
enum Order {
    Write(StreamId),
    Finish(StreamId),
    Respond(StreamId),
}

struct App(mpsc::Sender<StreamId>);

impl Service for App {
    type Message = Order;

    fn on_request(
        &mut self,
        http: &mut Http<'_, Order>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let stream = match request.path() {
            "/stream" => responder.stream(http, 200, &[]).unwrap(),
            "/later" => responder.later(http),
            "/large" => {
                return responder
                    .send(http, 200, &[], &vec![b'l'; LARGE_BYTES])
                    .unwrap();
            }
            _ => return responder.send(http, 200, &[], request.body()).unwrap(),
        };
        self.0.send(stream).unwrap();
    }

    fn on_message(&mut self, http: &mut Http<'_, Order>, order: Order) {
        match order {
            Order::Write(stream) => http.write(stream, b"piece").unwrap(),
            Order::Finish(stream) => http.finish(stream),
            Order::Respond(stream) => http.respond(stream, 200, &[], b"late").unwrap(),
        }
    }
}

/// A server, and the streams of its application.
struct IdleServer {
    engine: Engine<Server<App>>,
    streams: mpsc::Receiver<StreamId>,
    address: SocketAddr,
}

impl IdleServer {
    fn new(backend: Backend) -> Self {
        let (reports, streams) = mpsc::channel();
        let app = move |_| App(reports.clone());
        let limits = Limits::default().idle_timeout(IDLE);
        let engine = http::serve(config(backend), limits, app).unwrap();
        let address = engine.local_address().unwrap();
        Self {
            engine,
            streams,
            address,
        }
    }

    fn tell(&self, order: Order) {
        assert!(self.engine.post(0, order).is_ok());
    }

    fn timed_out(&self) -> u64 {
        self.engine.counters()[0].timed_out
    }

    /// Lets twice the idle time-out pass: another connection's, one after the other.
    fn outlast(&self) {
        for _ in 0..2 {
            let before = self.timed_out();
            let mut other = self.ask("/");
            assert!(answer(&mut other, 0).is_empty());
            assert!(read_to_end(&mut other).is_empty(), "more than an answer");
            wait_until("the idle one is counted", || self.timed_out() == before + 1);
        }
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut peer = client(self.address);
        peer.write_all(&request(path, "")).unwrap();
        peer
    }
}

fn request(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}").into()
}

/// Reads a head, and a body of so many bytes.
fn answer(peer: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(exchange(peer, b"", 1));
    }
    assert!(head.starts_with(b"HTTP/1.1 200 OK\r\n"));
    exchange(peer, b"", length)
}

/// An answer that ends where the connection is: its peer sees a clean end, and nothing more.
#[test]
fn idle_connection_is_closed_after_its_timeout() {
    for backend in backends() {
        let server = IdleServer::new(backend);
        server.outlast();
        // After a body that came in two pieces, and after answers that were put off or streamed.
        let mut peer = client(server.address);
        let (head, body) = (request("/", "body"), b"body");
        peer.write_all(&head[..head.len() - 2]).unwrap();
        server.outlast();
        peer.write_all(&head[head.len() - 2..]).unwrap();
        assert_eq!(answer(&mut peer, 4), body);
        assert!(read_to_end(&mut peer).is_empty(), "{backend:?}");
        let mut peer = server.ask("/later");
        server.tell(Order::Respond(next(&server.streams)));
        assert_eq!(answer(&mut peer, 4), b"late");
        assert!(read_to_end(&mut peer).is_empty(), "{backend:?}");
        let mut peer = server.ask("/stream");
        server.tell(Order::Finish(next(&server.streams)));
        assert_eq!(answer(&mut peer, 5), b"0\r\n\r\n");
        assert!(read_to_end(&mut peer).is_empty(), "{backend:?}");
        let counters = &server.engine.counters()[0];
        assert_eq!(counters.timed_out, counters.accepted, "{backend:?}");
    }
}

#[test]
fn pending_reply_is_not_idle() {
    for backend in backends() {
        let server = IdleServer::new(backend);
        // The next request waits behind it, and is served.
        let mut streaming = server.ask("/stream");
        streaming.write_all(&request("/", "next")).unwrap();
        let stream = next(&server.streams);
        let mut put_off = server.ask("/later");
        let later = next(&server.streams);
        server.outlast();
        server.tell(Order::Write(stream));
        assert_eq!(answer(&mut streaming, 10), b"5\r\npiece\r\n");
        server.outlast();
        server.tell(Order::Finish(stream));
        server.tell(Order::Respond(later));
        assert_eq!(exchange(&mut streaming, b"", 5), b"0\r\n\r\n");
        assert_eq!(answer(&mut streaming, 4), b"next", "{backend:?}");
        assert_eq!(answer(&mut put_off, 4), b"late", "{backend:?}");
    }
}

#[test]
fn reading_peer_is_not_idle() {
    for backend in backends() {
        let server = IdleServer::new(backend);
        let mut slow = server.ask("/large");
        let mut first = [0];
        slow.read_exact(&mut first).unwrap();
        server.outlast();
        // It is read once there is room for its answer.
        slow.write_all(&request("/", "next")).unwrap();
        assert_eq!(first, *b"H");
        let mut head = first.to_vec();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(exchange(&mut slow, b"", 1));
        }
        let body = exchange(&mut slow, b"", LARGE_BYTES);
        assert!(body.iter().all(|byte| *byte == b'l'), "{backend:?}");
        assert_eq!(answer(&mut slow, 4), b"next", "{backend:?}");
        assert!(read_to_end(&mut slow).is_empty(), "{backend:?}");
    }
}
