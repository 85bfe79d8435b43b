//! Bodies that the service gets in pieces, refuses from the head, or limits by route.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::support::{backends, client, config, next, read_to_end, wait_until};
use olivine_net::{
    Backend, Counters, Engine, EngineConfig,
    http::{self, Admit, Http, Limits, Request, Responder, Server, Service, StreamId, Trailers},
};

/// What the service saw.
#[derive(Debug, PartialEq)]
enum Seen {
    Head(Option<u64>),
    Begun(StreamId),
    End(u64, u64, String),
    Closed,
}

/// Counts the bytes of streamed bodies.
struct App {
    upload: Option<(StreamId, u64, u64)>,
    seen: mpsc::Sender<Seen>,
}

enum Order {
    Resume(StreamId),
    Toggle(StreamId),
}

impl Service for App {
    type Message = Order;

    fn on_head(&mut self, _: &mut Http<'_, Order>, request: &Request<'_>) -> Admit {
        assert!(request.body().is_empty());
        self.seen.send(Seen::Head(request.body_length())).unwrap();
        match request.path() {
            "/small" => Admit::WholeUpTo(10),
            "/large" => Admit::WholeUpTo(2_000_000),
            "/refuse" => Admit::Refuse(403),
            "/refuse-wrongly" => Admit::Refuse(200),
            "/login" => Admit::Unread,
            "/panic" => panic!("a head"),
            "/stream-little" => Admit::Stream(5),
            path if path.starts_with("/stream") => Admit::Stream(100_000_000),
            _ => Admit::Whole,
        }
    }

    fn on_request(
        &mut self,
        http: &mut Http<'_, Order>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let length = request.body().len().to_string();
        match request.path() {
            "/login" => {
                let field = ("WWW-Authenticate", "Basic");
                responder.send(http, 401, &[field], b"who?").unwrap();
            }
            "/stream-early" => responder.send(http, 200, &[], b"early").unwrap(),
            "/stream-dropped" => drop(responder),
            path if path.starts_with("/stream") => {
                let stream = if path == "/stream-echo" {
                    responder.stream(http, 200, &[]).unwrap()
                } else {
                    responder.later(http)
                };
                if path == "/stream-paused" {
                    http.pause_body(stream);
                }
                self.upload = Some((stream, 0, 0));
                self.seen.send(Seen::Begun(stream)).unwrap();
            }
            _ => {
                let sum = request.trailers().get("x-sum").unwrap_or(b"");
                let body = [length.as_bytes(), b" ", sum].concat();
                responder.send(http, 200, &[], &body).unwrap();
            }
        }
    }

    fn on_body(&mut self, http: &mut Http<'_, Order>, stream: StreamId, piece: &[u8]) {
        let (upload, bytes, sum) = self.upload.as_mut().unwrap();
        assert_eq!(*upload, stream);
        *bytes += piece.len() as u64;
        *sum += piece.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        // Only an echo has begun its answer.
        let _ = http.write(stream, piece);
    }

    fn on_body_end(
        &mut self,
        http: &mut Http<'_, Order>,
        stream: StreamId,
        trailers: Trailers<'_>,
    ) {
        let (_, bytes, sum) = self.upload.take().unwrap();
        let trailer = trailers.get("X-SUM").unwrap_or(b"").to_vec();
        let trailer = String::from_utf8(trailer).unwrap();
        self.seen.send(Seen::End(bytes, sum, trailer)).unwrap();
        http.respond(stream, 200, &[], bytes.to_string().as_bytes())
            .unwrap();
        http.finish(stream);
    }

    fn on_stream_closed(&mut self, _: &mut Http<'_, Order>, _: StreamId) {
        self.upload = None;
        self.seen.send(Seen::Closed).unwrap();
    }

    fn on_message(&mut self, http: &mut Http<'_, Order>, order: Order) {
        match order {
            Order::Resume(stream) => http.resume_body(stream),
            Order::Toggle(stream) => {
                http.pause_body(stream);
                http.resume_body(stream);
            }
        }
    }
}

type Running = Engine<Server<App>>;

fn start(backend: Backend, limits: Limits) -> (Running, mpsc::Receiver<Seen>, SocketAddr) {
    start_with(config(backend), limits)
}

fn start_with(config: EngineConfig, limits: Limits) -> (Running, mpsc::Receiver<Seen>, SocketAddr) {
    let (seen, reports) = mpsc::channel();
    let engine = http::serve(config, limits, move |_| App {
        upload: None,
        seen: seen.clone(),
    })
    .unwrap();
    let address = engine.local_address().unwrap();
    (engine, reports, address)
}

fn send(address: SocketAddr, path: &str, fields: &str) -> TcpStream {
    let mut peer = client(address);
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    peer.write_all(head.as_bytes()).unwrap();
    peer
}

fn body(length: usize) -> (Vec<u8>, u64) {
    let bytes: Vec<u8> = (0..=252_u8).cycle().take(length).collect();
    let sum = bytes.iter().map(|byte| u64::from(*byte)).sum();
    (bytes, sum)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn streamed_bodies_arrive_whole_in_pieces_and_the_next_request_follows() {
    for backend in backends() {
        let (engine, seen, address) = start(backend, Limits::default());
        let (bytes, sum) = body(20_000_000);
        let mut peer = send(
            address,
            "/stream",
            &format!("Content-Length: {}\r\n", bytes.len()),
        );
        peer.write_all(&bytes).unwrap();
        peer.write_all(b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let answers = text(&read_to_end(&mut peer));
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
        assert!(answers.contains("\r\n\r\n20000000HTTP") && answers.ends_with("\r\n\r\n0 "));
        assert_eq!(next(&seen), Seen::Head(Some(20_000_000)));
        assert!(matches!(next(&seen), Seen::Begun(_)));
        assert_eq!(
            next(&seen),
            Seen::End(20_000_000, sum, String::new()),
            "{backend:?}"
        );
        assert_eq!(engine.health()[0].body_bytes, 0);
    }
}

#[test]
fn chunked_body_is_streamed_with_its_trailers() {
    for backend in backends() {
        let (_engine, seen, address) = start(backend, Limits::default());
        let (bytes, sum) = body(300_000);
        for path in ["/stream", "/whole"] {
            let mut peer = send(address, path, "Transfer-Encoding: chunked\r\n");
            for piece in bytes.chunks(70_001) {
                peer.write_all(format!("{:x}\r\n", piece.len()).as_bytes())
                    .unwrap();
                peer.write_all(piece).unwrap();
                peer.write_all(b"\r\n").unwrap();
            }
            peer.write_all(b"0\r\nX-Sum:  7 \r\nOther: x\r\n\r\n")
                .unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            let answer = text(&read_to_end(&mut peer));
            assert_eq!(next(&seen), Seen::Head(None));
            if path == "/whole" {
                assert!(answer.ends_with("\r\n\r\n300000 7"), "{answer}");
                continue;
            }
            assert!(answer.ends_with("\r\n\r\n300000"), "{answer}");
            assert!(matches!(next(&seen), Seen::Begun(_)));
            assert_eq!(
                next(&seen),
                Seen::End(300_000, sum, "7".to_owned()),
                "{backend:?}"
            );
        }
    }
}

#[test]
fn body_is_refused_by_its_head_before_it_is_asked_for() {
    for backend in backends() {
        let (engine, _seen, address) = start(backend, Limits::default());
        let expect = "Content-Length: 1000\r\nExpect: 100-continue\r\n";
        for (path, start, end) in [
            ("/refuse", "HTTP/1.1 403 ", "\r\n\r\n"),
            ("/refuse-wrongly", "HTTP/1.1 500 ", "\r\n\r\n"),
            ("/login", "HTTP/1.1 401 ", "\r\n\r\nwho?"),
            ("/small", "HTTP/1.1 413 ", "\r\n\r\n"),
            ("/stream-little", "HTTP/1.1 413 ", "\r\n\r\n"),
            ("/panic", "HTTP/1.1 500 ", "\r\n\r\n"),
            ("/stream-early", "HTTP/1.1 200 ", "\r\n\r\nearly"),
            ("/stream-dropped", "HTTP/1.1 500 ", "\r\n\r\n"),
        ] {
            let answer = text(&read_to_end(&mut send(address, path, expect)));
            let fine = answer.starts_with(start) && answer.ends_with(end);
            assert!(
                fine && answer.contains("Connection: close"),
                "{backend:?} {path}: {answer}"
            );
        }
        for (path, answer) in [
            ("/large", "1000 "),
            ("/stream", "1000"),
            ("/whole", "1000 "),
        ] {
            let mut peer = send(address, path, expect);
            let mut interim = [0; 25];
            peer.read_exact(&mut interim).unwrap();
            assert_eq!(
                text(&interim),
                "HTTP/1.1 100 Continue\r\n\r\n",
                "{backend:?} {path}"
            );
            peer.write_all(&[b'x'; 1000]).unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            assert!(text(&read_to_end(&mut peer)).ends_with(&format!("\r\n\r\n{answer}")));
        }
        let counters = Counters::sum(&engine.counters());
        assert_eq!((counters.refused_service, counters.refused_large), (2, 2));
    }
}

#[test]
fn routes_have_limits_of_their_bodies() {
    for backend in backends() {
        let (_engine, _seen, address) = start(backend, Limits::default());
        for (path, length, status) in [
            ("/small", 10, 200),
            ("/small", 11, 413),
            ("/whole", 1 << 20, 200),
            ("/whole", (1 << 20) + 1, 413),
            ("/large", 2_000_000, 200),
            ("/large", 2_000_001, 413),
        ] {
            for chunked in [false, true] {
                let (bytes, _) = body(length);
                let field = match chunked {
                    true => "Transfer-Encoding: chunked\r\n".to_owned(),
                    false => format!("Content-Length: {length}\r\n"),
                };
                let mut peer = send(address, path, &field);
                let framed = match chunked {
                    true => [
                        format!("{length:x}\r\n").as_bytes(),
                        &bytes,
                        b"\r\n0\r\n\r\n",
                    ]
                    .concat(),
                    false => bytes,
                };
                // A server that refuses reads no further.
                let _ = peer.write_all(&framed);
                let _ = peer.shutdown(Shutdown::Write);
                let answer = text(&read_to_end(&mut peer));
                let start = format!("HTTP/1.1 {status} ");
                assert!(
                    answer.starts_with(&start),
                    "{backend:?} {path} {length}: {answer}"
                );
            }
        }
    }
}

#[test]
fn echo_of_a_stream_begins_before_the_body_ends() {
    for backend in backends() {
        let (_engine, _seen, address) = start(backend, Limits::default());
        let mut peer = send(address, "/stream-echo", "Content-Length: 10\r\n");
        peer.write_all(b"hello").unwrap();
        let mut bytes = Vec::new();
        let mut piece = [0; 1000];
        while !bytes.ends_with(b"5\r\nhello\r\n") {
            let length = peer.read(&mut piece).unwrap();
            assert!(length > 0);
            bytes.extend_from_slice(&piece[..length]);
        }
        peer.write_all(b"world").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let rest = text(&read_to_end(&mut peer));
        assert_eq!(rest, "5\r\nworld\r\n0\r\n\r\n", "{backend:?}");
    }
}

#[test]
fn early_stream_asks_for_the_body_that_its_peer_holds_back() {
    for backend in backends() {
        let (_engine, _seen, address) = start(backend, Limits::default());
        let fields = "Content-Length: 5\r\nExpect: 100-continue\r\n";
        let mut peer = send(address, "/stream-echo", fields);
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
        let mut bytes = [0; 25];
        peer.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, interim, "{backend:?}");
        peer.write_all(b"hello").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let answer = text(&read_to_end(&mut peer));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("5\r\nhello\r\n0\r\n\r\n"), "{answer}");
    }
}

#[test]
fn paused_body_is_not_read_until_it_resumes() {
    for backend in backends() {
        // Small buffers of the kernel: what it holds for us is soon full.
        let config = config(backend).receive_kernel_bytes(Some(64 * 1024));
        let (engine, seen, address) = start_with(config, Limits::default());
        let length = 30_000_000;
        let mut peer = send(
            address,
            "/stream-paused",
            &format!("Content-Length: {length}\r\n"),
        );
        assert!(matches!(next(&seen), Seen::Head(_)));
        let Seen::Begun(stream) = next(&seen) else {
            panic!("no request");
        };
        // Sent until the kernel takes no more, while the shard serves others: it does not read
        // this.
        let (bytes, mut sent, mut full) = (body(length).0, 0, 0);
        peer.set_nonblocking(true).unwrap();
        while full < 20 && sent < length {
            match peer.write(&bytes[sent..]) {
                Ok(taken) => (sent, full) = (sent + taken, 0),
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                    let mut other = send(address, "/other", "Connection: close\r\n");
                    assert!(read_to_end(&mut other).starts_with(b"HTTP/1.1 200 OK"));
                    full += 1;
                }
            }
        }
        peer.set_nonblocking(false).unwrap();
        assert!(sent < length / 2, "{backend:?}: {sent}");
        let before = engine.counters()[0].received_bytes;
        assert!(before < length as u64 / 2, "{backend:?}: {before}");
        assert!(seen.try_recv().is_err());
        let writer = thread::spawn({
            let mut peer = peer.try_clone().unwrap();
            move || peer.write_all(&bytes[sent..])
        });
        assert_eq!(stream.connection().shard(), 0);
        assert!(
            engine
                .post(stream.connection().shard(), Order::Resume(stream))
                .is_ok()
        );
        assert_eq!(
            next(&seen),
            Seen::End(length as u64, body(length).1, String::new())
        );
        writer.join().unwrap().unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        assert!(text(&read_to_end(&mut peer)).ends_with("\r\n\r\n30000000"));
    }
}

#[test]
fn broken_streams_are_reported_and_answered_where_possible() {
    for backend in backends() {
        let (engine, seen, address) = start(backend, Limits::default());
        // A malformed chunk.
        let mut peer = send(address, "/stream", "Transfer-Encoding: chunked\r\n");
        peer.write_all(b"5\r\nhelloX\r\n").unwrap();
        let answer = text(&read_to_end(&mut peer));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{backend:?}: {answer}");
        drop(peer);
        assert!(matches!(next(&seen), Seen::Head(None)));
        assert!(matches!(next(&seen), Seen::Begun(_)));
        assert_eq!(next(&seen), Seen::Closed, "{backend:?}");
        // The same behind an answer that has begun.
        let mut peer = send(address, "/stream-echo", "Transfer-Encoding: chunked\r\n");
        peer.write_all(b"5\r\nhello\r\nX\r\n").unwrap();
        let answer = text(&read_to_end(&mut peer));
        assert!(!answer.contains("0\r\n\r\n"), "{backend:?}: {answer}");
        drop(peer);
        assert!(matches!(next(&seen), Seen::Head(None)));
        assert!(matches!(next(&seen), Seen::Begun(_)));
        assert_eq!(next(&seen), Seen::Closed, "{backend:?}");
        // A peer that leaves, in order or not.
        for by_reset in [false, true] {
            let mut peer = send(address, "/stream", "Content-Length: 10\r\n");
            peer.write_all(b"hello").unwrap();
            assert!(matches!(next(&seen), Seen::Head(Some(10))));
            assert!(matches!(next(&seen), Seen::Begun(_)));
            if by_reset {
                crate::support::reset(peer);
            } else {
                drop(peer);
            }
            assert_eq!(next(&seen), Seen::Closed, "{backend:?}");
        }
        wait_until("all are gone", || engine.counters()[0].open == 0);
    }
}

/// A body must bring 1 MB in each half second.
fn fast_bodies_only() -> Limits {
    Limits::default()
        .body_rate_min(Some(2_000_000))
        .body_rate_window(Duration::from_millis(500))
}

/// Bodies that come too slowly, and a body that the service has paused: the same time for both.
fn slow_bodies(backend: Backend) {
    let (engine, seen, address) = start(backend, fast_bodies_only());
    let field = "Content-Length: 1900000\r\n";
    let paused = send(address, "/stream-paused", field);
    assert!(matches!(next(&seen), Seen::Head(_)) && matches!(next(&seen), Seen::Begun(_)));
    let slow = ["/stream", "/large"].map(|path| send(address, path, field));
    for mut peer in slow {
        peer.write_all(&[b'x'; 500_000]).unwrap();
        let answer = text(&read_to_end(&mut peer));
        assert!(answer.starts_with("HTTP/1.1 408 "), "{backend:?}: {answer}");
    }
    // Refused peers are still given time to read their answers.
    wait_until("only the paused one is left", || {
        engine.counters()[0].open == 1
    });
    assert_eq!(engine.counters()[0].refused_slow, 2, "{backend:?}");
    drop(paused);
}

/// A body that comes too slowly, and that the service pauses for moments.
fn slow_body_with_pauses(backend: Backend) {
    let (engine, seen, address) = start(backend, fast_bodies_only());
    let mut peer = send(address, "/stream", "Content-Length: 1900000\r\n");
    assert!(matches!(next(&seen), Seen::Head(_)));
    let Seen::Begun(stream) = next(&seen) else {
        panic!("no request");
    };
    peer.set_read_timeout(Some(Duration::from_millis(10)))
        .unwrap();
    wait_until("it is refused", || {
        assert!(engine.post(0, Order::Toggle(stream)).is_ok());
        peer.peek(&mut [0]).is_ok()
    });
    peer.set_read_timeout(Some(crate::support::WATCHDOG))
        .unwrap();
    assert!(text(&read_to_end(&mut peer)).starts_with("HTTP/1.1 408 "));
    assert_eq!(engine.counters()[0].refused_slow, 1, "{backend:?}");
    assert_eq!(next(&seen), Seen::Closed, "{backend:?}");
}

#[test]
fn slow_body_is_refused_and_paused_body_is_not() {
    let threads = backends()
        .into_iter()
        .flat_map(|backend| [slow_bodies, slow_body_with_pauses].map(|scene| (scene, backend)))
        .map(|(scene, backend)| thread::spawn(move || scene(backend)));
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}
