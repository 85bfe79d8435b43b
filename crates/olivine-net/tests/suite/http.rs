//! HTTP over real sockets: streams, events, answers put off, time-outs, and stopping under load.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::mpsc,
    time::Duration,
};

use crate::support::{WATCHDOG, backends, client, config, next, read_to_end, reset, wait_until};
use olivine_net::{
    Backend, Engine, EngineConfig, NotSent,
    http::{
        self, AnswerError, Event, Http, Limits, Request, Responder, Server, Service, StaticAnswer,
        StreamId,
    },
};

/// Orders of a test to the application.
enum Order {
    Write(StreamId, Vec<u8>),
    Event(StreamId, &'static str, &'static str),
    Finish(StreamId),
    Respond(StreamId, u16),
    Begin(StreamId),
    Flood(StreamId, usize),
}

/// Reports of the application to the test.
#[derive(Debug, PartialEq)]
enum Report {
    Stream(StreamId),
    Closed(StreamId),
    Refused(AnswerError),
    Sent(usize),
}

struct App {
    reports: mpsc::Sender<Report>,
    flood: Option<(StreamId, usize, usize)>,
}

impl App {
    fn flood(&mut self, http: &mut Http<'_, Order>) {
        let Some((stream, total, mut sent)) = self.flood.take() else {
            return;
        };
        while sent < total {
            match http.write(stream, &[b'f'; 1000]) {
                Ok(()) => sent += 1000,
                Err(NotSent::BackPressured) => {
                    self.flood = Some((stream, total, sent));
                    return;
                }
                Err(_) => break,
            }
        }
        http.finish(stream);
        let _ = self.reports.send(Report::Sent(sent));
    }
}

impl Service for App {
    type Message = Order;

    fn on_request(
        &mut self,
        http: &mut Http<'_, Order>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let outcome = match request.path() {
            "/stream" => responder
                .stream(http, 200, &[("X", "y")])
                .map(Report::Stream),
            "/events" => Ok(Report::Stream(responder.events(http))),
            "/later" => Ok(Report::Stream(responder.later(http))),
            "/drop" => return,
            "/split" => match responder.send(http, 200, &[("X", "a\r\nSet-Cookie: b")], b"") {
                Err(error) => Ok(Report::Refused(error)),
                Ok(()) => return,
            },
            "/empty" => return responder.send(http, 204, &[], b"ignored").unwrap(),
            "/big" => {
                return responder
                    .send(http, 200, &[], &vec![b'b'; 3_000_000])
                    .unwrap();
            }
            path => return responder.send(http, 200, &[], path.as_bytes()).unwrap(),
        };
        let _ = self.reports.send(outcome.unwrap());
    }

    fn on_message(&mut self, http: &mut Http<'_, Order>, order: Order) {
        match order {
            Order::Write(stream, bytes) => http.write(stream, &bytes).unwrap(),
            Order::Event(stream, name, data) => {
                http.event(stream, &Event::new(data).name(name)).unwrap()
            }
            Order::Finish(stream) => http.finish(stream),
            Order::Respond(stream, status) => http.respond(stream, status, &[], b"late").unwrap(),
            Order::Begin(stream) => http.begin(stream, 200, &[]).unwrap(),
            Order::Flood(stream, total) => {
                self.flood = Some((stream, total, 0));
                self.flood(http);
            }
        }
    }

    fn on_writable(&mut self, http: &mut Http<'_, Order>, _: StreamId) {
        self.flood(http);
    }

    fn on_stream_closed(&mut self, _: &mut Http<'_, Order>, stream: StreamId) {
        let _ = self.reports.send(Report::Closed(stream));
    }
}

type Running = Engine<Server<App>>;

fn start(backend: Backend) -> (Running, mpsc::Receiver<Report>, SocketAddr) {
    start_with(config(backend), Limits::default())
}

fn start_with(
    config: EngineConfig,
    limits: Limits,
) -> (Running, mpsc::Receiver<Report>, SocketAddr) {
    let (reports, events) = mpsc::channel();
    let app = move |_| App {
        reports: reports.clone(),
        flood: None,
    };
    let engine = http::serve(config, limits, app).unwrap();
    let address = engine.local_address().unwrap();
    (engine, events, address)
}

fn stream(events: &mpsc::Receiver<Report>) -> StreamId {
    match next(events) {
        Report::Stream(stream) => stream,
        other => panic!("{other:?} instead of a stream"),
    }
}

fn post(engine: &Running, orders: Vec<Order>) {
    for order in orders {
        assert!(engine.post(0, order).is_ok());
    }
}

/// Sends `request`, ends our direction, and reads all that comes, the dates taken out.
fn all_of(peer: &mut TcpStream) -> String {
    let text = String::from_utf8(read_to_end(peer)).unwrap();
    text.split("\r\n")
        .filter(|line| !line.starts_with("Date: "))
        .collect::<Vec<_>>()
        .join("\r\n")
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn ask(address: SocketAddr, request: &str) -> TcpStream {
    let mut peer = client(address);
    peer.write_all(request.as_bytes()).unwrap();
    peer
}

#[test]
fn streamed_reply_is_chunked_and_delays_the_next_request() {
    for backend in backends() {
        let (engine, events, address) = start(backend);
        let mut peer = ask(address, &(get("/stream") + &get("/next")));
        peer.shutdown(Shutdown::Write).unwrap();
        let id = stream(&events);
        let pieces = [&b"one"[..], b"", &[b'x'; 20]];
        let mut orders: Vec<_> = pieces
            .iter()
            .map(|p| Order::Write(id, p.to_vec()))
            .collect();
        orders.push(Order::Finish(id));
        post(&engine, orders);
        let expected = format!(
            "HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\none\r\n14\r\n{}\r\n0\r\n\r\n\
             HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n/next",
            "x".repeat(20)
        );
        assert_eq!(all_of(&mut peer), expected, "{backend:?}");
    }
}

#[test]
fn http_10_and_head_get_streams_they_understand() {
    for backend in backends() {
        let (engine, events, address) = start(backend);
        let mut peer = ask(address, "GET /stream HTTP/1.0\r\n\r\n");
        let id = stream(&events);
        post(
            &engine,
            vec![Order::Write(id, b"plain".to_vec()), Order::Finish(id)],
        );
        let expected = "HTTP/1.1 200 OK\r\nX: y\r\nConnection: close\r\n\r\nplain";
        assert_eq!(all_of(&mut peer), expected, "{backend:?}");

        let request = "HEAD /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let mut peer = ask(address, request);
        let id = stream(&events);
        post(
            &engine,
            vec![Order::Write(id, b"unseen".to_vec()), Order::Finish(id)],
        );
        let expected =
            "HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        assert_eq!(all_of(&mut peer), expected, "{backend:?}");
    }
}

#[test]
fn server_sent_events_escape_their_data() {
    for backend in backends() {
        let (engine, events, address) = start(backend);
        let mut peer = ask(address, "GET /events HTTP/1.0\r\n\r\n");
        let id = stream(&events);
        post(
            &engine,
            vec![
                Order::Event(id, "", "a\nb\r\nc\rd"),
                Order::Event(id, "na\nme", "x"),
                Order::Finish(id),
            ],
        );
        let text = all_of(&mut peer);
        let body = text.split_once("\r\n\r\n").unwrap().1;
        assert!(text.contains("Content-Type: text/event-stream\r\n"));
        assert_eq!(
            body,
            "data: a\ndata: b\ndata: c\ndata: d\n\nevent: name\ndata: x\n\n"
        );
    }
}

#[test]
fn reply_may_be_deferred() {
    for backend in backends() {
        let (engine, events, address) = start(backend);
        let mut peer = ask(address, &(get("/later") + &get("/later")));
        peer.shutdown(Shutdown::Write).unwrap();
        let id = stream(&events);
        post(
            &engine,
            vec![Order::Respond(id, 201), Order::Respond(id, 500)],
        );
        let id = stream(&events);
        let chunk = Order::Write(id, b"z".to_vec());
        post(&engine, vec![Order::Begin(id), chunk, Order::Finish(id)]);
        let expected = "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nlate\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nz\r\n0\r\n\r\n";
        assert_eq!(all_of(&mut peer), expected, "{backend:?}");
    }
}

#[test]
fn a_service_that_drops_or_splits_an_answer_gives_500() {
    for backend in backends() {
        let (_engine, events, address) = start(backend);
        let refused =
            "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        assert_eq!(all_of(&mut ask(address, &get("/drop"))), refused);
        assert_eq!(all_of(&mut ask(address, &get("/split"))), refused);
        assert_eq!(
            next(&events),
            Report::Refused(AnswerError::Header { name: "X".into() })
        );
        let mut peer = ask(address, &get("/empty"));
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(all_of(&mut peer), "HTTP/1.1 204 No Content\r\n\r\n");
    }
}

#[test]
fn long_stream_waits_for_its_reader_and_reports_its_loss() {
    for backend in backends() {
        let settings = config(backend)
            .high_water(50_000)
            .low_water(10_000)
            .send_kernel_bytes(Some(8192));
        let (engine, events, address) = start_with(settings, Limits::default());
        let mut peer = ask(address, "GET /stream HTTP/1.0\r\n\r\n");
        let id = stream(&events);
        post(&engine, vec![Order::Flood(id, 5_000_000)]);
        let body = all_of(&mut peer);
        assert_eq!(
            body.split_once("\r\n\r\n").unwrap().1.len(),
            5_000_000,
            "{backend:?}"
        );
        assert_eq!(next(&events), Report::Sent(5_000_000));

        let peer = ask(address, &get("/stream"));
        let id = stream(&events);
        reset(peer);
        assert_eq!(next(&events), Report::Closed(id), "{backend:?}");
    }
}

#[test]
fn deep_pipeline_of_large_replies_is_bounded_and_complete() {
    for backend in backends() {
        let settings = config(backend).high_water(100_000).low_water(10_000);
        let (_engine, _, address) = start_with(settings, Limits::default());
        let mut peer = ask(address, &get("/big").repeat(20));
        peer.shutdown(Shutdown::Write).unwrap();
        let bytes = read_to_end(&mut peer);
        let bodies = bytes.iter().filter(|byte| **byte == b'b').count();
        assert_eq!(bodies, 20 * 3_000_000, "{backend:?}");
    }
}

#[test]
fn request_after_a_full_queue_waits() {
    const BATCH: usize = 512;
    for backend in backends() {
        for path in ["/first", "/stream", "/later"] {
            // Batches of the shortest length, so that what is sent in one piece arrives in several
            // of one round: the large answer fills the queue in the first, and is still there in
            // the second.
            let settings = config(backend)
                .receive_buffer(BATCH)
                .send_kernel_bytes(Some(16 * 1024));
            let (engine, events, address) = start_with(settings, Limits::default());
            let padding = "x".repeat(BATCH - get("/big").len() - "P: \r\n".len());
            let big = format!("GET /big HTTP/1.1\r\nHost: a\r\nP: {padding}\r\n\r\n");
            assert_eq!(big.len(), BATCH);
            let mut peer = ask(address, &[big, get(path), get("/last")].concat());
            peer.shutdown(Shutdown::Write).unwrap();
            let mut bytes = vec![0; 3_000_000];
            peer.read_exact(&mut bytes).unwrap();
            if path != "/first" {
                let id = stream(&events);
                let order = match path {
                    "/stream" => Order::Finish(id),
                    _ => Order::Respond(id, 200),
                };
                post(&engine, vec![order]);
            }
            bytes.extend(read_to_end(&mut peer));
            let text = String::from_utf8(bytes).unwrap();
            let answers: Vec<&str> = text.split("HTTP/1.1 200 OK\r\n").collect();
            let ends: Vec<&str> = answers
                .iter()
                .filter_map(|answer| answer.rsplit_once("\r\n\r\n").map(|(_, body)| body))
                .map(|body| &body[..body.len().min(6)])
                .collect();
            let second = match path {
                "/stream" => "",
                "/later" => "late",
                path => path,
            };
            assert_eq!(ends, ["bbbbbb", second, "/last"], "{backend:?} {path}");
        }
    }
}

#[test]
fn service_that_fills_the_queue_ends_the_connection() {
    struct Greedy;
    impl Service for Greedy {
        type Message = ();

        fn on_request(
            &mut self,
            http: &mut Http<'_, ()>,
            request: &Request<'_>,
            responder: Responder<'_>,
        ) {
            let id = responder.connection();
            let _ = http.shard().offer(id, &[b'x'; 100_000]);
            match request.path() {
                "/static" => {
                    responder.send_static(http, &mut StaticAnswer::new(200, &[], b"").unwrap())
                }
                "/stream" => drop(responder.stream(http, 200, &[])),
                _ => responder.send(http, 200, &[], b"").unwrap(),
            }
        }
    }
    for backend in backends() {
        let settings = config(backend).high_water(100_000).low_water(10_000);
        let engine = http::serve(settings, Limits::default(), |_| Greedy).unwrap();
        for path in ["/static", "/stream", "/"] {
            let mut peer = ask(engine.local_address().unwrap(), &get(path).repeat(2));
            let bytes = read_to_end(&mut peer);
            assert_eq!(bytes, [b'x'; 100_000], "{backend:?} {path}");
        }
    }
}

#[test]
fn slow_requests_are_timed_out() {
    for backend in backends() {
        let brief = Duration::from_millis(250);
        let limits = Limits::default().header_timeout(brief).body_timeout(brief);
        let (engine, _, address) = start_with(config(backend), limits);
        let refused =
            "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        assert_eq!(
            all_of(&mut ask(address, "GET / HTTP/1.1\r\nHos")),
            refused,
            "{backend:?}"
        );
        let body = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe";
        assert_eq!(all_of(&mut ask(address, body)), refused, "{backend:?}");
        assert_eq!(all_of(&mut client(address)), "", "{backend:?}");
        // A drip of bytes does not move the deadline. Waiting for the answer between two bytes is
        // what paces them.
        let mut peer = client(address);
        peer.set_read_timeout(Some(Duration::from_millis(2)))
            .unwrap();
        let drip = get(&"/a".repeat(3000));
        let answered = drip.bytes().any(|byte| {
            let mut first = [0];
            peer.write_all(&[byte]).is_err() || peer.read(&mut first).is_ok()
        });
        assert!(answered, "{backend:?}: a slow-loris was served");
        assert_eq!(engine.counters()[0].accepted, 4);
    }
}

/// Every request that was read is answered in full, and each connection ends between answers.
#[test]
fn stop_under_load_completes_replies() {
    for backend in backends() {
        let (engine, _, address) = start_with(config(backend), Limits::default());
        let clients: Vec<_> = (0..8)
            .map(|_| {
                std::thread::spawn(move || {
                    let mut peer = client(address);
                    let (mut whole, mut bytes) = (0, Vec::new());
                    let mut piece = [0; 4096];
                    loop {
                        if peer.write_all(get("/x").repeat(4).as_bytes()).is_err() {
                            // Closed while we were sending; earlier data must be whole.
                        }
                        loop {
                            match peer.read(&mut piece) {
                                Ok(0) | Err(_) => {
                                    assert!(bytes.is_empty(), "an answer was cut off");
                                    return whole;
                                }
                                Ok(length) => bytes.extend_from_slice(&piece[..length]),
                            }
                            while let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
                                if bytes.len() < end + 6 {
                                    break;
                                }
                                assert_eq!(&bytes[end + 4..end + 6], b"/x");
                                bytes.drain(..end + 6);
                                whole += 1;
                            }
                            if bytes.is_empty() && whole % 4 == 0 {
                                break;
                            }
                        }
                    }
                })
            })
            .collect();
        wait_until("the load runs", || engine.counters()[0].receives > 500);
        let report = engine.stop(WATCHDOG);
        let answered: u64 = clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum();
        assert_eq!(
            (report.cut, report.failed_shards.len()),
            (0, 0),
            "{backend:?}"
        );
        assert!(answered > 500, "{backend:?}");
    }
}

#[test]
fn limits_out_of_range_are_refused_by_name() {
    let start = |limits| {
        let (reports, _) = mpsc::channel();
        let app = move |_| App {
            reports: reports.clone(),
            flood: None,
        };
        http::serve(config(Backend::Mio), limits, app)
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    let second = Duration::from_secs(1);
    for (setting, limits) in [
        ("line_bytes_max", Limits::default().line_bytes_max(1)),
        ("headers_max", Limits::default().headers_max(0)),
        ("head_bytes_max", Limits::default().head_bytes_max(2 << 20)),
        ("body_bytes_max", Limits::default().body_bytes_max(2 << 30)),
        (
            "header_timeout",
            Limits::default().header_timeout(Duration::ZERO),
        ),
        (
            "body_timeout",
            Limits::default().body_timeout(100_000 * second),
        ),
        (
            "idle_timeout",
            Limits::default().idle_timeout(Duration::from_micros(999)),
        ),
        (
            "answer_timeout",
            Limits::default().answer_timeout(Some(Duration::ZERO)),
        ),
        (
            "half_closed_timeout",
            Limits::default().half_closed_timeout(Some(100_000 * second)),
        ),
        (
            "bodies_bytes_max",
            Limits::default().bodies_bytes_max(1024 * 1024),
        ),
        (
            "bodies_bytes_max",
            Limits::default().bodies_bytes_max(2 << 40),
        ),
    ] {
        assert!(start(limits).contains(setting), "{setting}");
    }
}
