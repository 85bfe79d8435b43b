//! A peer leaves in every state that a connection can be in: by an end, by a reset, by an end and
//! then a reset, or by silence. Each connection ends: at once where the kernel tells, else by the
//! one time-out that the table in `shard/connection.rs` names. All other time-outs are an hour, so
//! that nothing else can have ended it.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::mpsc,
    time::Duration,
};

use crate::support::{backends, client, config, next, read_to_end, reset, wait_until};
use olivine_net::{
    Backend, CloseReason, ConnectionId, Counters, Engine, EngineConfig, Handler, NotSent, Origin,
    Shard,
    http::{self, Http, Limits, Request, Responder, Server, Service, StreamId},
};

const LONG: Duration = Duration::from_secs(3600);
const BRIEF: Duration = Duration::from_millis(60);

/// The time-out that ends a state.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Clock {
    Header,
    Body,
    Between,
    Answer,
    HalfClosed,
    Idle,
    Write,
    Linger,
    /// None: the kernel reports it.
    None,
}

/// A state, and what ends it if the peer is silent, or has ended its direction.
#[derive(Clone, Copy, Debug)]
struct State {
    name: &'static str,
    request: &'static [u8],
    silent: Clock,
    ended: Clock,
    /// Whether an answer is pending, so that the service gets a report.
    owed: bool,
}

const fn state(
    name: &'static str,
    request: &'static [u8],
    silent: Clock,
    ended: Clock,
    owed: bool,
) -> State {
    State {
        name,
        request,
        silent,
        ended,
        owed,
    }
}

const STATES: [State; 11] = [
    state("fresh", b"", Clock::Header, Clock::None, false),
    state("in a head", b"GET / HT", Clock::Header, Clock::None, false),
    state(
        "in a body",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf",
        Clock::Body,
        Clock::None,
        false,
    ),
    state(
        "in chunks",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
        Clock::Body,
        Clock::None,
        false,
    ),
    state(
        "between requests",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        Clock::Between,
        Clock::None,
        false,
    ),
    state(
        "owed",
        b"GET /later HTTP/1.1\r\nHost: a\r\n\r\n",
        Clock::Answer,
        Clock::HalfClosed,
        true,
    ),
    state(
        "behind an owed answer",
        b"GET /later HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        Clock::Answer,
        Clock::HalfClosed,
        true,
    ),
    state(
        "in a silent stream",
        b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
        Clock::Idle,
        Clock::HalfClosed,
        true,
    ),
    state(
        "in a stream that is not read",
        b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n",
        Clock::Write,
        Clock::Write,
        true,
    ),
    state(
        "in a last answer that is not read",
        b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        Clock::Write,
        Clock::Write,
        false,
    ),
    state(
        "after the last answer",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        Clock::Linger,
        Clock::None,
        false,
    ),
];

#[derive(Debug, PartialEq)]
enum Report {
    Owed(StreamId),
    HalfClosed(StreamId),
    Gone(StreamId),
}

struct App(mpsc::Sender<Report>);

impl Service for App {
    type Message = StreamId;

    fn on_request(
        &mut self,
        http: &mut Http<'_, StreamId>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let stream = match request.path() {
            "/later" => responder.later(http),
            "/stream" | "/flood" => responder.stream(http, 200, &[]).unwrap(),
            "/large" => {
                return responder
                    .send(http, 200, &[], &vec![b'l'; 16 << 20])
                    .unwrap();
            }
            _ => return responder.send(http, 200, &[], b"answer").unwrap(),
        };
        self.0.send(Report::Owed(stream)).unwrap();
    }

    /// Floods the stream.
    fn on_message(&mut self, http: &mut Http<'_, StreamId>, stream: StreamId) {
        while http.write(stream, &[b'f'; 10_000]) != Err(NotSent::BackPressured) {}
    }

    fn on_half_close(&mut self, http: &mut Http<'_, StreamId>, stream: StreamId) {
        assert!(http.is_half_closed(stream));
        let _ = self.0.send(Report::HalfClosed(stream));
    }

    fn on_stream_closed(&mut self, http: &mut Http<'_, StreamId>, stream: StreamId) {
        assert!(!http.is_open(stream));
        let _ = self.0.send(Report::Gone(stream));
    }
}

/// An engine of which only one time-out is brief.
fn start(backend: Backend, brief: Clock) -> (Engine<Server<App>>, mpsc::Receiver<Report>) {
    let time = |clock| if clock == brief { BRIEF } else { LONG };
    let limits = Limits::default()
        .header_timeout(time(Clock::Header))
        .body_timeout(time(Clock::Body))
        .idle_timeout(time(Clock::Between))
        .answer_timeout(Some(time(Clock::Answer)))
        .half_closed_timeout(Some(time(Clock::HalfClosed)));
    let settings = settings(backend, brief).send_kernel_bytes(Some(16 * 1024));
    let (reports, received) = mpsc::channel();
    let engine = http::serve(settings, limits, move |_| App(reports.clone())).unwrap();
    (engine, received)
}

fn settings(backend: Backend, brief: Clock) -> EngineConfig {
    let time = |clock| if clock == brief { BRIEF } else { LONG };
    config(backend)
        .keep_alive(None)
        .idle_timeout(Some(time(Clock::Idle)))
        .write_timeout(Some(time(Clock::Write)))
        .linger(time(Clock::Linger))
}

/// Brings a connection into a state.
fn enter(
    engine: &Engine<Server<App>>,
    received: &mpsc::Receiver<Report>,
    state: State,
) -> (TcpStream, Option<StreamId>) {
    let mut peer = client(engine.local_address().unwrap());
    peer.write_all(state.request).unwrap();
    let mut owed = None;
    if state.owed {
        let Report::Owed(stream) = next(received) else {
            panic!("{}: nothing owed", state.name)
        };
        owed = Some(stream);
        match state.name {
            "behind an owed answer" => {
                // Stays in the kernel: nothing is read any more.
                peer.write_all(b"GET / HTTP/1.1\r\n").unwrap();
            }
            "in a stream that is not read" => {
                assert!(engine.post(0, stream).is_ok());
                let full = || engine.counters()[0].back_pressured > 0;
                wait_until("the stream is full", full);
            }
            _ => {}
        }
    } else if state.silent == Clock::Write {
        peer.read_exact(&mut [0; 100]).unwrap();
    } else if matches!(state.silent, Clock::Between | Clock::Linger) {
        let mut answer = Vec::new();
        while !answer.ends_with(b"answer") {
            let mut byte = [0];
            peer.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
    } else {
        let read = || {
            let counters = engine.counters()[0];
            counters.open == 1 && counters.received_bytes == state.request.len() as u64
        };
        wait_until("the request is read", read);
    }
    (peer, owed)
}

/// Waits for the end of the only connection; the service must have got one report of a pending
/// answer.
fn ends(
    engine: Engine<Server<App>>,
    received: &mpsc::Receiver<Report>,
    owed: Option<StreamId>,
    what: &str,
) -> (Counters, bool) {
    wait_until(what, || {
        let counters = engine.counters()[0];
        counters.closed == 1 && counters.open == 0
    });
    let counters = engine.counters()[0];
    let report = engine.stop(Duration::ZERO);
    assert_eq!((report.cut, report.failed_shards.len()), (0, 0), "{what}");
    let reports: Vec<Report> = received.try_iter().collect();
    let gone: Vec<_> = reports
        .iter()
        .filter(|reports| matches!(reports, Report::Gone(_)))
        .collect();
    let expected: Vec<_> = owed.map(Report::Gone).into_iter().collect();
    assert_eq!(gone, expected.iter().collect::<Vec<_>>(), "{what}");
    (
        counters,
        reports
            .iter()
            .any(|reports| matches!(reports, Report::HalfClosed(_))),
    )
}

#[test]
fn a_reset_in_every_state_ends_the_connection_at_once() {
    for backend in backends() {
        for state in STATES {
            let what = format!("{backend:?}: reset {}", state.name);
            let (engine, received) = start(backend, Clock::None);
            let (peer, owed) = enter(&engine, &received, state);
            reset(peer);
            let (counters, _) = ends(engine, &received, owed, &what);
            assert_eq!(counters.timed_out, 0, "{what}");
        }
    }
}

#[test]
fn an_end_and_then_a_reset_in_every_state_ends_the_connection_at_once() {
    for backend in backends() {
        for state in STATES {
            let what = format!("{backend:?}: end and reset {}", state.name);
            let (engine, received) = start(backend, Clock::None);
            let (peer, owed) = enter(&engine, &received, state);
            peer.shutdown(Shutdown::Write).unwrap();
            if let Some(stream) = owed {
                assert_eq!(next(&received), Report::HalfClosed(stream), "{what}");
            }
            reset(peer);
            let (counters, _) = ends(engine, &received, owed, &what);
            assert_eq!(counters.timed_out, 0, "{what}");
        }
    }
}

#[test]
fn end_in_every_state_is_reported_and_ends_the_connection() {
    for backend in backends() {
        for state in STATES {
            let what = format!("{backend:?}: end {}", state.name);
            let (engine, received) = start(backend, state.ended);
            let (mut peer, owed) = enter(&engine, &received, state);
            peer.shutdown(Shutdown::Write).unwrap();
            let (counters, reports) = ends(engine, &received, owed, &what);
            assert_eq!(reports, state.owed, "{what}");
            let timed = u64::from(state.ended != Clock::None);
            assert_eq!(counters.timed_out, timed, "{what}");
            if state.silent == Clock::Answer {
                let answer = read_to_end(&mut peer);
                assert!(answer.starts_with(b"HTTP/1.1 503 "), "{what}");
            }
        }
    }
}

#[test]
fn silence_in_every_state_times_out_and_is_counted() {
    for backend in backends() {
        for state in STATES {
            let what = format!("{backend:?}: silence {}", state.name);
            let (engine, received) = start(backend, state.silent);
            let (mut peer, owed) = enter(&engine, &received, state);
            let unread = state.silent == Clock::Write;
            if state.silent != Clock::Linger && !unread {
                // Closes as the peer of a close in good order does, so that nothing waits for
                // `linger`.
                let answer = read_to_end(&mut peer);
                let (status, refused) = match state.silent {
                    Clock::Answer => ("HTTP/1.1 503 ", 0),
                    _ if state.request.starts_with(b"POST") => ("HTTP/1.1 408 ", 1),
                    Clock::Header if !state.request.is_empty() => ("HTTP/1.1 408 ", 1),
                    _ => ("", 0),
                };
                let said = String::from_utf8_lossy(&answer);
                assert!(said.starts_with(status), "{what}: {said}");
                assert_eq!(engine.counters()[0].refused_requests, refused, "{what}");
                let _ = peer.shutdown(Shutdown::Write);
            }
            let (counters, reports) = ends(engine, &received, owed, &what);
            assert!(!reports, "{what}");
            let counted = counters.timed_out + counters.refused_requests;
            let lingered = u64::from(state.silent != Clock::Linger);
            assert_eq!(counted, lingered, "{what}: {counters:?}");
        }
    }
}

/// A silent connection is closed, not reset, so that its peer sees no error.
#[test]
fn silent_connection_is_closed_not_reset() {
    for backend in backends() {
        let (engine, _tidings) = start(backend, Clock::Header);
        let mut peer = client(engine.local_address().unwrap());
        let read = peer.read(&mut [0; 10]);
        assert!(matches!(read, Ok(0)), "{backend:?}: {read:?}");
    }
}

/// What a plain handler can do to keep a connection: pause it, or hear of its end and not close it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Keep {
    Paused,
    /// It has seen bytes that it leaves unconsumed, and paused.
    PausedBehindBytes,
    /// It got the end and did not close.
    Stubborn,
}

struct Keeper {
    keep: Keep,
    reports: mpsc::Sender<&'static str>,
    closed: mpsc::Sender<CloseReason>,
}

impl Handler for Keeper {
    type Message = ();

    fn on_open(&mut self, shard: &mut Shard<()>, id: ConnectionId, _: Origin) {
        if self.keep == Keep::Paused {
            shard.pause(id);
        }
        self.reports.send("open").unwrap();
    }

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, _: &[u8]) -> usize {
        shard.pause(id);
        self.reports.send("data").unwrap();
        0
    }

    fn on_end(&mut self, _: &mut Shard<()>, _: ConnectionId) {
        self.reports.send("end").unwrap();
    }

    fn on_half_close(&mut self, _: &mut Shard<()>, _: ConnectionId) {
        self.reports.send("half close").unwrap();
    }

    fn on_close(&mut self, _: &mut Shard<()>, _: ConnectionId, reason: CloseReason) {
        self.closed.send(reason).unwrap();
    }
}

#[test]
fn kept_connection_ends_with_its_peer() {
    for backend in backends() {
        for keep in [Keep::Paused, Keep::PausedBehindBytes, Keep::Stubborn] {
            for leaves in ["reset", "end and reset", "end", "silence"] {
                let what = format!("{backend:?} {keep:?} {leaves}");
                let brief = matches!(leaves, "end" | "silence");
                let clock = if brief { Clock::Idle } else { Clock::None };
                let (reports, received) = mpsc::channel();
                let (closed, reasons) = mpsc::channel();
                let keeper = move |_| Keeper {
                    keep,
                    reports: reports.clone(),
                    closed: closed.clone(),
                };
                let engine = Engine::start(settings(backend, clock), keeper).unwrap();
                let mut peer = client(engine.local_address().unwrap());
                assert_eq!(next(&received), "open", "{what}");
                match keep {
                    Keep::Paused => peer.write_all(b"never shown").unwrap(),
                    Keep::PausedBehindBytes => {
                        peer.write_all(b"kept").unwrap();
                        assert_eq!(next(&received), "data", "{what}");
                        peer.write_all(b"never shown").unwrap();
                    }
                    Keep::Stubborn => {}
                }
                let end = match keep {
                    Keep::Stubborn => "end",
                    _ => "half close",
                };
                if leaves.starts_with("end") {
                    peer.shutdown(Shutdown::Write).unwrap();
                    assert_eq!(next(&received), end, "{what}");
                }
                let mut held = None;
                if leaves.ends_with("reset") {
                    reset(peer);
                } else {
                    held = Some(peer);
                }
                if brief {
                    // Its close waits for a peer that has not ended.
                    drop(held.take().map(|mut peer| read_to_end(&mut peer)));
                    assert_eq!(next(&reasons), CloseReason::IdleTimeout, "{what}");
                    assert_eq!(engine.counters()[0].timed_out, 1, "{what}");
                } else {
                    let reason = next(&reasons);
                    assert!(
                        matches!(reason, CloseReason::Broken(_)),
                        "{what}: {reason:?}"
                    );
                    assert_eq!(engine.counters()[0].broken, 1, "{what}");
                }
                assert_eq!(received.try_iter().count(), 0, "{what}");
            }
        }
    }
}
