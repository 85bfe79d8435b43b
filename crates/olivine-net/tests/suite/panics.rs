//! A handler or a service that panics loses one connection, not its shard, and all of it is counted
//! and reported.

use std::{
    io::Write,
    net::{Shutdown, SocketAddr, TcpStream},
    sync::mpsc,
    time::Duration,
};

use crate::support::{backends, client, config, exchange, next, read_to_end, wait_until};
use olivine_net::{
    Backend, CloseReason, ConnectionId, Engine, Handler, Origin, Shard, ShardState,
    http::{self, Admit, Http, Limits, Request, Responder, Server, Service, StreamId, Trailers},
};

/// Panics where the path says.
struct App(mpsc::Sender<String>);

impl Service for App {
    type Message = &'static str;

    fn on_head(&mut self, _: &mut Http<'_, &'static str>, request: &Request<'_>) -> Admit {
        if request.path().starts_with("/pieces") {
            return Admit::Stream(100);
        }
        Admit::Whole
    }

    fn on_request(
        &mut self,
        http: &mut Http<'_, &'static str>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let path = request.path();
        match path {
            "/before" => panic!("before an answer to {path}"),
            "/sent" => responder.send(http, 200, &[], b"whole").unwrap(),
            "/later" => drop(responder.later(http)),
            "/pieces" => {
                responder.later(http);
                return;
            }
            "/pieces-begun" => {
                responder.stream(http, 200, &[]).unwrap();
                return;
            }
            "/begun" => drop(responder.stream(http, 200, &[]).unwrap()),
            "/index" => drop(responder.send(http, 200, &[], &path.as_bytes()[100..])),
            "/carries" => std::panic::panic_any(Spiteful),
            _ => {
                http.shard();
                return responder.send(http, 200, &[], b"fine").unwrap();
            }
        }
        panic!("after {path}")
    }

    /// Panics at `now`, behind an answer to `answer`.
    fn on_body(&mut self, http: &mut Http<'_, &'static str>, stream: StreamId, piece: &[u8]) {
        if piece.starts_with(b"answer") {
            http.respond(stream, 200, &[], b"whole").unwrap();
        }
        let panics = piece.windows(3).any(|three| three == b"now");
        assert!(!panics, "a piece");
    }

    fn on_body_end(&mut self, _: &mut Http<'_, &'static str>, _: StreamId, trailers: Trailers<'_>) {
        panic!("the end of a body and {} fields", trailers.iter().count())
    }

    fn on_message(&mut self, _: &mut Http<'_, &'static str>, text: &'static str) {
        panic!("{text}")
    }

    fn on_timer(&mut self, _: &mut Http<'_, &'static str>, _: u64) {
        panic!("a timer")
    }

    fn on_stream_closed(&mut self, _: &mut Http<'_, &'static str>, _: StreamId) {
        self.0.send("closed".to_owned()).unwrap();
    }

    fn on_panic(&mut self, _: &mut Http<'_, &'static str>, message: &str) {
        self.0.send(message.to_owned()).unwrap();
        assert!(!message.contains("twice"), "panics here too");
    }
}

/// What a panic carries may panic when it is dropped.
struct Spiteful;

impl Drop for Spiteful {
    fn drop(&mut self) {
        panic!("dropped")
    }
}

type Running = (Engine<Server<App>>, mpsc::Receiver<String>, SocketAddr);

fn start(backend: Backend) -> Running {
    let (closed, received) = mpsc::channel();
    let app = move |_| App(closed.clone());
    let engine = http::serve(config(backend), Limits::default(), app).unwrap();
    let address = engine.local_address().unwrap();
    (engine, received, address)
}

fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut peer = client(address);
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    // The second is never answered: the connection is closed behind the panic.
    peer.write_all(request.repeat(2).as_bytes()).unwrap();
    peer
}

fn all_of(peer: &mut TcpStream) -> String {
    let text = String::from_utf8(read_to_end(peer)).unwrap();
    let lines = text.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("Date: ")).collect()
}

const FAILED: &str =
    "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn a_request_that_panics_gets_500_and_the_shard_serves_on() {
    for backend in backends() {
        let (engine, received, address) = start(backend);
        let mut bystander = client(address);
        for (count, (path, said, answer)) in [
            ("/before", "before an answer to /before", FAILED),
            (
                "/sent",
                "after /sent",
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole",
            ),
            ("/later", "after /later", FAILED),
            // Cut off: the peer must not take it for a complete reply.
            ("/begun", "after /begun", ""),
            ("/index", "range", FAILED),
            ("/carries", "a panic without a text", FAILED),
        ]
        .into_iter()
        .enumerate()
        {
            let what = format!("{backend:?} {path}");
            let got = all_of(&mut ask(address, path));
            assert!(got == answer || path == "/begun", "{what}: {got}");
            assert!(!got.ends_with("0\r\n\r\n") || answer == FAILED, "{what}");
            let message = next(&received);
            assert!(message.contains(said), "{what}: {message}");
            if matches!(path, "/later" | "/begun") {
                assert_eq!(next(&received), "closed", "{what}");
            }
            assert_eq!(engine.counters()[0].panics, count as u64 + 1, "{what}");
            let fine = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
            assert!(
                exchange(&mut bystander, fine, 79).ends_with(b"fine"),
                "{what}"
            );
        }
        let health = &engine.health()[0];
        assert_eq!((health.panics, &health.state), (6, &ShardState::Running));
        assert_eq!(health.backend, engine.backend());
        wait_until("all but the bystander are gone", || {
            engine.health()[0].connections == 1
        });
        drop(bystander);
        assert_eq!(engine.stop(Duration::from_secs(5)).failed_shards, [0; 0]);
    }
}

#[test]
fn panics_in_messages_timers_and_the_hook_are_survived() {
    for backend in backends() {
        let (engine, received, address) = start(backend);
        engine.post(0, "once").unwrap();
        assert_eq!(next(&received), "once");
        engine.post(0, "twice").unwrap();
        assert_eq!(next(&received), "twice");
        wait_until("both are counted", || engine.counters()[0].panics == 3);
        assert_eq!(all_of(&mut ask(address, "/before")), FAILED);
    }
}

const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nwhole";

#[test]
fn a_piece_of_a_body_that_panics_gets_500_or_a_reset_and_leaves_nothing() {
    const LENGTH: &str = "Content-Length: 10\r\n\r\n";
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n";
    for backend in backends() {
        let (engine, received, address) = start(backend);
        let mut panics = 0;
        for (path, body, says, answer, closed) in [
            ("", [LENGTH, "now"], "a piece", FAILED, true),
            (
                "",
                [CHUNKED, "3\r\nnow\r\n0\r\n\r\n"],
                "a piece",
                FAILED,
                true,
            ),
            ("", [LENGTH, "0123456789"], "and 0 fields", FAILED, true),
            (
                "",
                [CHUNKED, "1\r\nx\r\n0\r\nA: b\r\n\r\n"],
                "and 1 fields",
                FAILED,
                true,
            ),
            ("", [LENGTH, "answer now"], "a piece", WHOLE, false),
            ("-begun", [LENGTH, "now"], "a piece", "", true),
            ("-begun", [LENGTH, "0123456789"], "and 0 fields", "", true),
        ] {
            for _ in 0..10 {
                let what = format!("{backend:?} {path} {body:?}");
                let mut peer = client(address);
                let head = format!("POST /pieces{path} HTTP/1.1\r\nHost: a\r\n");
                peer.write_all([head.as_str(), body[0], body[1]].concat().as_bytes())
                    .unwrap();
                // What follows is not served, be it the body or a request.
                let _ = peer.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                let got = all_of(&mut peer);
                assert!(got == answer || path == "-begun", "{what}: {got}");
                assert!(!got.ends_with("0\r\n\r\n") || answer == FAILED, "{what}");
                assert!(!got.contains("fine"), "{what}: {got}");
                let message = next(&received);
                assert!(message.contains(says), "{what}: {message}");
                if closed {
                    assert_eq!(next(&received), "closed", "{what}");
                }
                panics += 1;
            }
        }
        wait_until("all are gone", || engine.health()[0].connections == 0);
        assert_eq!(received.try_recv().ok(), None);
        let health = &engine.health()[0];
        assert_eq!((health.panics, health.body_bytes), (panics, 0));
        assert_eq!(engine.counters()[0].closed, panics);
        assert_eq!(engine.stop(Duration::from_secs(5)).failed_shards, [0; 0]);
    }
}

/// As many as would drain every pool of buffers, if each panic lost one.
#[test]
fn many_panics_lose_no_buffer_and_no_connection() {
    const COUNT: u64 = 300;
    for backend in backends() {
        let (engine, _tidings, address) = start(backend);
        for _ in 0..COUNT {
            assert_eq!(all_of(&mut ask(address, "/before")), FAILED);
        }
        wait_until("all are gone", || engine.counters()[0].open == 0);
        let counters = engine.counters()[0];
        assert_eq!((counters.panics, counters.closed), (COUNT, COUNT));
    }
}

/// Panics in the method that is named, of a plain handler.
struct Bomb {
    fuse: &'static str,
    closed: mpsc::Sender<(CloseReason, bool)>,
    end_reported: bool,
}

impl Bomb {
    fn burn(&self, method: &str) {
        assert!(self.fuse != method, "in {method}");
    }
}

impl Handler for Bomb {
    type Message = ();

    fn on_start(&mut self, _: &mut Shard<()>) {
        self.burn("on_start");
    }

    fn on_open(&mut self, _: &mut Shard<()>, _: ConnectionId, _: Origin) {
        self.burn("on_open");
    }

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        self.burn("on_data");
        match data {
            b"deadline" => shard.set_deadline(id, Some(Duration::from_millis(1))),
            b"writable" => shard.notify_writable(id),
            b"pause" => {
                // The end behind waiting bytes is reported before they are shown.
                shard.pause(id);
                return 0;
            }
            _ => drop(shard.offer(id, data)),
        }
        data.len()
    }

    fn on_writable(&mut self, _: &mut Shard<()>, _: ConnectionId) {
        self.burn("on_writable");
    }

    fn on_deadline(&mut self, _: &mut Shard<()>, _: ConnectionId) {
        self.burn("on_deadline");
    }

    fn on_half_close(&mut self, _: &mut Shard<()>, _: ConnectionId) {
        self.burn("on_half_close");
    }

    fn on_end(&mut self, shard: &mut Shard<()>, id: ConnectionId) {
        self.burn("on_end");
        shard.close(id);
    }

    fn on_close(&mut self, _: &mut Shard<()>, _: ConnectionId, reason: CloseReason) {
        self.closed.send((reason, self.end_reported)).unwrap();
        self.burn("on_close");
    }

    fn on_panic(&mut self, _: &mut Shard<()>, id: Option<ConnectionId>, message: &str) {
        assert!(id.is_some() && message == format!("in {}", self.fuse));
        self.end_reported = true;
    }
}

#[test]
fn panicking_method_ends_only_its_connection() {
    for backend in backends() {
        for (fuse, says) in [
            ("on_open", &b""[..]),
            ("on_data", b"x"),
            ("on_writable", b"writable"),
            ("on_deadline", b"deadline"),
            ("on_half_close", b"pause"),
            ("on_end", b""),
            ("on_close", b""),
        ] {
            let (closed, reasons) = mpsc::channel();
            let bomb = move |_| Bomb {
                fuse,
                closed: closed.clone(),
                end_reported: false,
            };
            let engine = Engine::start(config(backend), bomb).unwrap();
            for round in 1..=3 {
                let mut peer = client(engine.local_address().unwrap());
                // It may be gone before it could speak.
                let _ = peer.write_all(says);
                if matches!(fuse, "on_half_close" | "on_end" | "on_close") {
                    peer.shutdown(Shutdown::Write).unwrap();
                }
                assert!(read_to_end(&mut peer).is_empty());
                let expected = match fuse {
                    "on_close" => (CloseReason::PeerClosed, round > 1),
                    _ => (CloseReason::Panicked, true),
                };
                assert_eq!(next(&reasons), expected, "{backend:?} {fuse}");
                let counted = || engine.counters()[0].panics == round;
                wait_until("it is counted", counted);
            }
            assert_eq!(engine.health()[0].state, ShardState::Running);
            assert_eq!(engine.stop(Duration::from_secs(1)).failed_shards, [0; 0]);
        }
    }
}

#[test]
fn ended_shard_reports_its_reason() {
    for backend in backends() {
        let (closed, _) = mpsc::channel();
        let bomb = move |_| Bomb {
            fuse: "on_start",
            closed: closed.clone(),
            end_reported: false,
        };
        let engine = Engine::start(config(backend), bomb).unwrap();
        wait_until("the mailbox closes", || engine.post(0, ()).is_err());
        let reason = "panicked: in on_start".to_owned();
        let state = ShardState::Ended {
            reason: reason.clone(),
        };
        // The mailbox closes while the shard unwinds, and the reason is known after it.
        wait_until("the reason is reported", || {
            engine.health()[0].state == state
        });
        let report = engine.stop(Duration::from_secs(1));
        assert_eq!(
            (report.failed_shards, report.reasons),
            (vec![0], vec![reason])
        );
    }
}
