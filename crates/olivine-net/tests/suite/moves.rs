//! Connections of HTTP servers that change their shard, and slots that change their connection.

#![cfg(target_os = "linux")]

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::mpsc,
    time::Duration,
};

use crate::support::{backends, client, config, next, read_to_end, wait_until};
use olivine_net::{
    AcceptMode, Backend, ConnectionId, Counters, Engine, EngineConfig, NotSent,
    http::{self, Admit, Handed, Http, Limits, Request, Responder, Server, Service, StreamId},
};

/// What the service saw.
#[derive(Debug, PartialEq)]
enum Seen {
    Moved(Result<(), NotSent>),
    Owed,
    Held,
    Closed,
}

/// Lets the shard do nothing until the other end is dropped.
struct Holding(mpsc::Receiver<()>);

/// Answers with its shard, and moves connections as the path says.
struct Mover(mpsc::Sender<Seen>);

impl Mover {
    fn shift(&self, http: &mut Http<'_, Holding>, id: ConnectionId, token: u64) {
        let target = 1 - http.shard().index();
        let result = http.hand_over(id, target, token);
        self.0.send(Seen::Moved(result)).unwrap();
    }
}

impl Service for Mover {
    type Message = Holding;

    fn on_head(&mut self, http: &mut Http<'_, Holding>, request: &Request<'_>) -> Admit {
        let id = http.shard().open().next().unwrap();
        self.shift(http, id, 0);
        match request.path() {
            "/pieces" => Admit::Stream(1000),
            _ => Admit::Whole,
        }
    }

    fn on_request(
        &mut self,
        http: &mut Http<'_, Holding>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let id = responder.connection();
        let answer = format!("{}@{};", request.path(), id.shard());
        match request.path() {
            "/later" | "/pieces" => {
                responder.later(http);
                self.0.send(Seen::Owed).unwrap();
                self.shift(http, id, 0);
            }
            "/raw" => {
                responder.upgrade(http, "raw", &[]).unwrap();
                self.shift(http, id, 1);
            }
            "/plainly" => {
                responder.send(http, 200, &[], answer.as_bytes()).unwrap();
                let target = 1 - id.shard();
                let result = http.shard().hand_over(id, target, 0);
                self.0.send(Seen::Moved(result)).unwrap();
            }
            path => {
                if path == "/early" {
                    self.shift(http, id, 0);
                }
                responder.send(http, 200, &[], answer.as_bytes()).unwrap();
                if path == "/move" {
                    self.shift(http, id, 0);
                }
            }
        }
    }

    fn on_body(&mut self, http: &mut Http<'_, Holding>, stream: StreamId, _: &[u8]) {
        self.shift(http, stream.connection(), 0);
    }

    fn on_handed_over(&mut self, _: &mut Http<'_, Holding>, _: ConnectionId, token: u64) -> Handed {
        if token == 1 {
            Handed::Raw
        } else {
            Handed::Http
        }
    }

    fn on_raw_data(
        &mut self,
        http: &mut Http<'_, Holding>,
        id: ConnectionId,
        data: &[u8],
    ) -> usize {
        let answer = [data, format!("@{};", id.shard()).as_bytes()].concat();
        http.shard().offer(id, &answer).unwrap();
        http.shard().close(id);
        data.len()
    }

    fn on_stream_closed(&mut self, _: &mut Http<'_, Holding>, _: StreamId) {
        self.0.send(Seen::Closed).unwrap();
    }

    fn on_message(&mut self, _: &mut Http<'_, Holding>, Holding(until): Holding) {
        self.0.send(Seen::Held).unwrap();
        let _ = until.recv();
    }
}

fn start(config: EngineConfig) -> (Engine<Server<Mover>>, mpsc::Receiver<Seen>) {
    let (seen, reports) = mpsc::channel();
    let engine = http::serve(config, Limits::default(), move |_| Mover(seen.clone())).unwrap();
    (engine, reports)
}

fn pair(backend: Backend) -> EngineConfig {
    config(backend).threads(2).accept(AcceptMode::HandOver)
}

/// Sends all of `requests` at once and returns what comes until the end of the stream.
fn ask(engine: &Engine<Server<Mover>>, requests: &str) -> String {
    let mut peer = client(engine.local_address().unwrap());
    peer.write_all(requests.as_bytes()).unwrap();
    String::from_utf8(read_to_end(&mut peer)).unwrap()
}

const LAST: &str = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

#[test]
fn requests_behind_a_move_are_served_by_the_new_shard_alone() {
    for backend in backends() {
        let (engine, seen) = start(pair(backend));
        let moving = "GET /move HTTP/1.1\r\nHost: a\r\n\r\n";
        let answers = ask(&engine, &format!("{moving}{LAST}"));
        assert_eq!(next(&seen), Seen::Moved(Ok(())), "{backend:?}");
        let expected = ["/move@0;", "/move@1;"].map(|first| answers.contains(first));
        let then = ["/last@1;", "/last@0;"].map(|last| answers.contains(last));
        assert_eq!(expected, then, "{backend:?}: {answers}");
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
        // Bytes behind an upgrade are those of the new protocol, and of the new shard.
        let fields = "Connection: upgrade\r\nUpgrade: raw\r\n";
        let answers = ask(
            &engine,
            &format!("GET /raw HTTP/1.1\r\nHost: a\r\n{fields}\r\n<bytes>"),
        );
        assert_eq!(next(&seen), Seen::Moved(Ok(())), "{backend:?}");
        assert!(answers.starts_with("HTTP/1.1 101 "), "{answers}");
        assert!(answers.contains("\r\n\r\n<bytes>@"), "{answers}");
        wait_until("both have left their shards", || {
            let total = Counters::sum(&engine.counters());
            (total.adopted, total.handed_over, total.requests) == (2, 2, 3)
        });
    }
}

#[test]
fn connection_with_a_request_under_way_is_not_moved() {
    for backend in backends() {
        let (engine, seen) = start(pair(backend));
        let busy = || Seen::Moved(Err(NotSent::Busy));
        let early = "GET /early HTTP/1.1\r\nHost: a\r\n\r\n";
        let answers = ask(&engine, &format!("{early}{LAST}"));
        assert_eq!(next(&seen), busy(), "{backend:?}");
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
        // Past the checks of the server.
        let plainly = "GET /plainly HTTP/1.1\r\nHost: a\r\n\r\n";
        let answers = ask(&engine, &format!("{plainly}{LAST}"));
        assert_eq!(next(&seen), busy(), "{backend:?}");
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
        // A body that would be taken for a request, collected and in pieces.
        let smuggled = "POST /whole HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nGET /x";
        let answers = ask(&engine, &format!("{smuggled}{LAST}"));
        assert_eq!(next(&seen), busy(), "{backend:?}");
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
        let mut peer = client(engine.local_address().unwrap());
        let head = "POST /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nGET";
        peer.write_all(head.as_bytes()).unwrap();
        // Asked by the head, by the request, and by the first piece.
        for expected in [busy(), Seen::Owed, busy(), busy()] {
            assert_eq!(next(&seen), expected, "{backend:?}");
        }
        crate::support::reset(peer);
        assert_eq!(next(&seen), Seen::Closed, "{backend:?}");
        let total = Counters::sum(&engine.counters());
        assert_eq!((total.adopted, total.requests), (0, 7), "{backend:?}");
    }
}

#[test]
fn end_of_a_connection_is_reported_before_its_slot_is_used_again() {
    for backend in backends() {
        let (engine, seen) = start(config(backend).threads(1));
        let mut peer = client(engine.local_address().unwrap());
        peer.write_all(b"GET /later HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        assert_eq!(next(&seen), Seen::Owed);
        // No other shard is there.
        assert_eq!(next(&seen), Seen::Moved(Err(NotSent::Busy)));
        let (release, held) = mpsc::channel();
        assert!(engine.post(0, Holding(held)).is_ok());
        assert_eq!(next(&seen), Seen::Held);
        // In one round the shard sees that one has gone and that another has come.
        crate::support::reset(peer);
        let (ours, mut other) = UnixStream::pair().unwrap();
        engine.handle().adopt(0, ours, 5).unwrap();
        drop(release);
        assert_eq!(next(&seen), Seen::Closed, "{backend:?}");
        other
            .set_read_timeout(Some(crate::support::WATCHDOG))
            .unwrap();
        other.write_all(LAST.as_bytes()).unwrap();
        let mut answer = String::new();
        other.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("/last@0;"), "{backend:?}: {answer}");
        drop(other);
        wait_until("all are gone", || engine.counters()[0].open == 0);
        assert_eq!(engine.stop(Duration::from_secs(60)).cut, 0);
    }
}
