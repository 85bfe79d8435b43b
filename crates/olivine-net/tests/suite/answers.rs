//! Answers of every form: of known length, shared, from files, with trailers, as events; and what
//! the log and the counters say of them.

use std::{
    fs::File,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use crate::support::{backends, client, config, next, read_to_end, wait_until};
use olivine_net::{
    Backend, ConnectionId, Counters, Engine, NotSent,
    http::{
        self, AnswerError, Event, Http, Limits, Refusal, Request, Responder, Server, Service,
        StaticAnswer, StreamId,
    },
};

/// Bytes of the file and of shared bodies: more than a socket takes at once.
const LARGE: usize = 5_000_000;

/// What the service reports.
#[derive(Debug, PartialEq)]
enum Report {
    Served(String, u16, u64, bool),
    Refused(Refusal),
    Closed(StreamId),
    Wrong(AnswerError),
}

struct App {
    file: Arc<File>,
    shared: Arc<[u8]>,
    hello: StaticAnswer,
    pending: Vec<StreamId>,
    reports: mpsc::Sender<Report>,
}

impl App {
    fn wrong(&self, result: Result<(), AnswerError>) {
        if let Err(error) = result {
            self.reports.send(Report::Wrong(error)).unwrap();
        }
    }
}

impl Service for App {
    type Message = u64;
    const LOGS: bool = true;

    fn on_request(
        &mut self,
        http: &mut Http<'_, u64>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let end = LARGE as u64;
        match request.path() {
            "/hello" => responder.send_static(http, &mut self.hello),
            "/shared" => responder
                .send_shared(http, 200, &[], Arc::clone(&self.shared))
                .unwrap(),
            "/file" => responder
                .send_file(http, 200, &[], &self.file, 0..end)
                .unwrap(),
            "/part" => responder
                .send_file(http, 206, &[], &self.file, 10..20)
                .unwrap(),
            "/none" => responder
                .send_file(http, 200, &[], &self.file, 7..7)
                .unwrap(),
            "/beyond" => {
                let result = responder.send_file(http, 200, &[], &self.file, 0..end + 1);
                self.wrong(result);
            }
            "/later-file" => {
                let stream = responder.later(http);
                http.respond_file(stream, 200, &[], &self.file, 0..10)
                    .unwrap();
            }
            "/sized" => {
                let stream = responder.stream_sized(http, 200, &[], 6).unwrap();
                http.write(stream, b"abc").unwrap();
                assert_eq!(http.write(stream, b"defg"), Err(NotSent::TooLong));
                http.write_shared(stream, Arc::from(&b"def"[..])).unwrap();
                http.finish(stream);
            }
            "/short" => {
                let stream = responder.stream_sized(http, 200, &[], 6).unwrap();
                http.write(stream, b"abc").unwrap();
                http.finish(stream);
            }
            "/trailers" => {
                let stream = responder.stream(http, 200, &[]).unwrap();
                http.write_shared(stream, Arc::from(&b"abc"[..])).unwrap();
                let wrong = http.finish_with(stream, &[("Content-Length", "1")]);
                self.wrong(wrong);
                http.finish_with(stream, &[("X-Sum", "7"), ("Y", "")])
                    .unwrap();
            }
            "/events" => {
                let last = request.last_event_id().unwrap_or("none").to_owned();
                let stream = responder.events(http);
                let event = Event::new("x\ny")
                    .name("n")
                    .id("41")
                    .retry(Duration::from_secs(1));
                http.event(stream, &event).unwrap();
                http.comment(stream, &last).unwrap();
                http.finish(stream);
            }
            "/later" => self.pending.push(responder.later(http)),
            _ => responder.send(http, 404, &[], b"").unwrap(),
        }
    }

    fn on_served(&mut self, _: &mut Http<'_, u64>, served: &http::Served<'_>) {
        let line = format!("{} {}", served.method, served.target);
        let (bytes, whole) = (served.content_bytes, served.is_whole);
        let report = Report::Served(line, served.status, bytes, whole);
        self.reports.send(report).unwrap();
    }

    fn on_refused(&mut self, _: &mut Http<'_, u64>, _: ConnectionId, refusal: Refusal) {
        self.reports.send(Report::Refused(refusal)).unwrap();
    }

    fn on_stream_closed(&mut self, _: &mut Http<'_, u64>, stream: StreamId) {
        self.reports.send(Report::Closed(stream)).unwrap();
    }

    fn on_message(&mut self, http: &mut Http<'_, u64>, message: u64) {
        for stream in self.pending.drain(..) {
            let text = message.to_string();
            http.respond(stream, 200, &[], text.as_bytes()).unwrap();
        }
    }
}

fn content() -> Vec<u8> {
    (0..=250_u8).cycle().take(LARGE).collect()
}

fn start(backend: Backend) -> (Engine<Server<App>>, mpsc::Receiver<Report>, SocketAddr) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content()).unwrap();
    let (file, shared): (_, Arc<[u8]>) = (Arc::new(file), content().into());
    let (reports, seen) = mpsc::channel();
    let engine = http::serve(config(backend), Limits::default(), move |_| App {
        file: Arc::clone(&file),
        shared: Arc::clone(&shared),
        hello: StaticAnswer::new(200, &[], b"hello").unwrap(),
        pending: Vec::new(),
        reports: reports.clone(),
    })
    .unwrap();
    let address = engine.local_address().unwrap();
    (engine, seen, address)
}

fn ask(address: SocketAddr, path: &str, fields: &str) -> TcpStream {
    let mut peer = client(address);
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n");
    peer.write_all(request.as_bytes()).unwrap();
    peer
}

/// The head without its date, and the body as it came.
fn answer(mut peer: TcpStream) -> (String, Vec<u8>) {
    let bytes = read_to_end(&mut peer);
    let end = memchr::memmem::find(&bytes, b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let kept = head
        .split("\r\n")
        .filter(|line| !line.starts_with("Date: "));
    (
        kept.collect::<Vec<_>>().join("|"),
        bytes[end + 4..].to_vec(),
    )
}

fn served(path: &str, status: u16, bytes: u64) -> Report {
    Report::Served(format!("GET {path}"), status, bytes, true)
}

#[test]
fn bodies_from_files_and_shared_memory_arrive_whole() {
    for backend in backends() {
        let (_engine, seen, address) = start(backend);
        let whole = content();
        let large = LARGE as u64;
        for (path, status, range) in [
            ("/shared", 200, 0..LARGE),
            ("/file", 200, 0..LARGE),
            ("/part", 206, 10..20),
            ("/none", 200, 7..7),
            ("/later-file", 200, 0..10),
        ] {
            let (head, body) = answer(ask(address, path, ""));
            let length = range.len();
            assert!(
                body == whole[range],
                "{backend:?}: {path}: {} bytes",
                body.len()
            );
            let field = format!("|Content-Length: {length}|Connection: close");
            assert!(head.ends_with(&field), "{backend:?}: {head}");
            assert_eq!(next(&seen), served(path, status, length as u64));
        }
        let (head, body) = answer(ask(address, "/beyond", ""));
        assert!(head.contains(" 500 ") && body.is_empty(), "{head}");
        let end = large + 1;
        let wrong = AnswerError::Range { length: large, end };
        assert_eq!(next(&seen), Report::Wrong(wrong), "{backend:?}");
        assert_eq!(next(&seen), served("/beyond", 500, 0));
        let mut peer = client(address);
        let twice = "HEAD /file HTTP/1.1\r\nHost: a\r\n\r\nGET /part HTTP/1.1\r\nHost: a\r\n\
            Connection: close\r\n\r\n";
        peer.write_all(twice.as_bytes()).unwrap();
        let (head, rest) = answer(peer);
        assert!(
            head.ends_with(&format!("Content-Length: {LARGE}")),
            "{head}"
        );
        assert!(rest.starts_with(b"HTTP/1.1 206 ") && rest.ends_with(&whole[10..20]));
    }
}

#[test]
fn readers_of_a_file_that_stop_for_a_while_lose_nothing() {
    for backend in backends() {
        let (engine, _seen, address) = start(backend);
        let mut slow: Vec<_> = (0..8).map(|_| ask(address, "/file", "")).collect();
        // All of them are full now, and others are served.
        let (_, body) = answer(ask(address, "/part", ""));
        assert_eq!(body.len(), 10);
        let mut first = [0; 1000];
        slow[0].read_exact(&mut first).unwrap();
        for peer in slow.drain(1..) {
            let (_, body) = answer(peer);
            assert!(body == content(), "{backend:?}: {}", body.len());
        }
        // A peer that leaves in the middle is noticed.
        drop(slow);
        wait_until("it is noticed", || engine.counters()[0].open == 0);
    }
}

#[test]
fn file_that_becomes_shorter_breaks_the_connection() {
    for backend in backends() {
        let (reports, _seen) = mpsc::channel();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content()).unwrap();
        let (kept, file) = (file.try_clone().unwrap(), Arc::new(file));
        let engine = http::serve(config(backend), Limits::default(), move |_| App {
            file: Arc::clone(&file),
            shared: Arc::from(&b""[..]),
            hello: StaticAnswer::new(200, &[], b"hello").unwrap(),
            pending: Vec::new(),
            reports: reports.clone(),
        })
        .unwrap();
        let mut peer = ask(engine.local_address().unwrap(), "/file", "");
        let mut first = [0; 1000];
        peer.read_exact(&mut first).unwrap();
        kept.set_len(0).unwrap();
        let got = read_to_end(&mut peer).len();
        assert!(got < LARGE, "{backend:?}: {got}");
        wait_until("it is counted", || engine.counters()[0].broken == 1);
    }
}

#[test]
fn sized_stream_has_exactly_the_announced_length_or_breaks() {
    for backend in backends() {
        let (_engine, seen, address) = start(backend);
        let (head, body) = answer(ask(address, "/sized", ""));
        assert_eq!(head, "HTTP/1.1 200 OK|Content-Length: 6|Connection: close");
        assert_eq!(body, b"abcdef", "{backend:?}");
        assert_eq!(next(&seen), served("/sized", 200, 6));
        // The peer may have seen a part of it, and then a reset.
        let mut peer = ask(address, "/short", "");
        let bytes = read_to_end(&mut peer);
        assert!(!bytes.ends_with(b"abcdef"), "{backend:?}");
        let broken = Report::Served("GET /short".into(), 200, 3, false);
        assert_eq!(next(&seen), broken, "{backend:?}");
    }
}

#[test]
fn trailers_and_events_are_framed_as_they_should() {
    for backend in backends() {
        let (_engine, seen, address) = start(backend);
        let (_, body) = answer(ask(address, "/trailers", ""));
        assert_eq!(
            body, b"3\r\nabc\r\n0\r\nX-Sum: 7\r\nY: \r\n\r\n",
            "{backend:?}"
        );
        let name = "Content-Length".to_owned();
        assert_eq!(next(&seen), Report::Wrong(AnswerError::Header { name }));
        assert_eq!(next(&seen), served("/trailers", 200, 3));
        let (head, body) = answer(ask(address, "/events", "Last-Event-ID: 40\r\n"));
        assert!(head.contains("text/event-stream"), "{head}");
        let event = "event: n\nid: 41\nretry: 1000\ndata: x\ndata: y\n\n";
        let body = String::from_utf8(body).unwrap();
        let expected = format!("{:x}\r\n{event}\r\n6\r\n: 40\n\n\r\n0\r\n\r\n", event.len());
        assert_eq!(body, expected, "{backend:?}");
    }
}

#[test]
fn other_threads_answer_and_stop_through_a_handle() {
    for backend in backends() {
        let (engine, seen, address) = start(backend);
        let mut peer = ask(address, "/later", "");
        let handle = engine.handle();
        wait_until("the request is there", || {
            Counters::sum(&handle.counters()).requests == 1
        });
        let other = handle.clone();
        let ordered = thread::spawn(move || {
            other.post(0, 42).unwrap();
            other.stop(Duration::from_secs(60));
            // A later order does not lengthen the time, and an earlier one does not end more.
            other.stop(Duration::from_secs(600));
        });
        assert!(
            read_to_end(&mut peer).ends_with(b"\r\n\r\n42"),
            "{backend:?}"
        );
        // The server waits for a while until its peer closes, too.
        drop(peer);
        ordered.join().unwrap();
        let report = engine.wait();
        assert_eq!((report.cut, report.failed_shards.len()), (0, 0));
        assert_eq!(next(&seen), served("/later", 200, 2));
        assert!(handle.post(0, 43).is_err() && handle.post(9, 43).is_err());
    }
}

#[test]
fn refused_requests_are_reported_and_counted_by_kind() {
    for backend in backends() {
        let (engine, seen, address) = start(backend);
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(9000));
        for (request, refusal) in [
            ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", Refusal::Host),
            ("GET  / HTTP/1.1\r\n", Refusal::RequestLine),
            ("GET / HTTP/2.0\r\n", Refusal::Version),
            (&long, Refusal::TargetTooLong),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n",
                Refusal::BodyTooLong,
            ),
        ] {
            let mut peer = client(address);
            peer.write_all(request.as_bytes()).unwrap();
            let status = format!("HTTP/1.1 {} ", refusal.status());
            assert!(read_to_end(&mut peer).starts_with(status.as_bytes()));
            assert_eq!(next(&seen), Report::Refused(refusal), "{backend:?}");
        }
        let counters = Counters::sum(&engine.counters());
        let of_kinds = (counters.refused_malformed, counters.refused_large);
        assert_eq!((counters.refused_requests, of_kinds), (5, (3, 2)));
        assert_eq!(counters.requests, 0);
    }
}

#[test]
fn log_says_which_answers_were_cut_off() {
    for backend in backends() {
        let (_engine, seen, address) = start(backend);
        assert!(read_to_end(&mut ask(address, "/hello", "")).ends_with(b"hello"));
        assert_eq!(next(&seen), served("/hello", 200, 5));
        let peer = ask(address, "/later", "");
        crate::support::reset(peer);
        let cut = Report::Served("GET /later".into(), 0, 0, false);
        assert!(matches!(next(&seen), Report::Closed(_)), "{backend:?}");
        assert_eq!(next(&seen), cut, "{backend:?}");
    }
}
