//! Connections that a service takes over by an upgrade: raw bytes both ways after 101.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::mpsc,
    time::Duration,
};

use crate::support::{backends, client, config, next, read_to_end, wait_until};
use olivine_net::{
    Backend, CloseReason, ConnectionId, Engine,
    http::{self, AnswerError, Http, Limits, Request, Responder, Server, Service},
};

/// What the service saw.
#[derive(Debug, PartialEq)]
enum Seen {
    Refused(AnswerError),
    End,
    Deadline,
    Close(CloseReason),
}

/// Sends whole lines back, in capitals.
struct Lines(mpsc::Sender<Seen>);

impl Service for Lines {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let headers = match request.path() {
            "/split" => [("X", "a\r\nb")],
            _ => [("X", "y")],
        };
        match (request.upgrade(), request.path()) {
            (Some(protocol), _) => {
                let protocol = if protocol == "bad" {
                    "a\r\nb"
                } else {
                    protocol
                };
                match responder.upgrade(http, protocol, &headers) {
                    Ok(id) if request.path() == "/brief" => {
                        http.shard()
                            .set_deadline(id, Some(Duration::from_millis(50)));
                    }
                    Ok(_) => {}
                    Err(error) => self.0.send(Seen::Refused(error)).unwrap(),
                }
            }
            (None, "/forced") => {
                let error = responder.upgrade(http, "lines", &[]).unwrap_err();
                self.0.send(Seen::Refused(error)).unwrap();
            }
            _ => responder
                .send(http, 426, &[("Upgrade", "lines")], b"")
                .unwrap(),
        }
    }

    fn on_raw_data(&mut self, http: &mut Http<'_, ()>, id: ConnectionId, data: &[u8]) -> usize {
        let Some(end) = memchr::memrchr(b'\n', data) else {
            return 0;
        };
        let lines = data[..=end].to_ascii_uppercase();
        http.shard().offer(id, &lines).map_or(0, |()| end + 1)
    }

    fn on_raw_end(&mut self, http: &mut Http<'_, ()>, id: ConnectionId) {
        let _ = http.shard().offer(id, b"bye\n");
        http.shard().close(id);
        self.0.send(Seen::End).unwrap();
    }

    fn on_raw_deadline(&mut self, http: &mut Http<'_, ()>, id: ConnectionId) {
        http.shard().close(id);
        self.0.send(Seen::Deadline).unwrap();
    }

    fn on_raw_close(&mut self, _: &mut Http<'_, ()>, _: ConnectionId, reason: CloseReason) {
        self.0.send(Seen::Close(reason)).unwrap();
    }
}

fn start(backend: Backend) -> (Engine<Server<Lines>>, mpsc::Receiver<Seen>, SocketAddr) {
    let (seen, reports) = mpsc::channel();
    let limits = Limits::default();
    let engine = http::serve(config(backend), limits, move |_| Lines(seen.clone())).unwrap();
    let address = engine.local_address().unwrap();
    (engine, reports, address)
}

const OFFER: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: lines\r\n";

fn ask(address: SocketAddr, path: &str, fields: &str, behind: &str) -> TcpStream {
    let mut peer = client(address);
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n{behind}");
    peer.write_all(request.as_bytes()).unwrap();
    peer
}

const ACCEPTED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: lines\r\nX: y\r\n\r\n";

#[test]
fn upgraded_connection_belongs_to_the_service() {
    for backend in backends() {
        let (engine, seen, address) = start(backend);
        // Bytes behind the request belong to the new protocol, whole or in part.
        let mut peer = ask(address, "/", OFFER, "one\ntw");
        let mut start = vec![0; ACCEPTED.len() + 4];
        peer.read_exact(&mut start).unwrap();
        assert_eq!(
            String::from_utf8(start).unwrap(),
            format!("{ACCEPTED}ONE\n")
        );
        peer.write_all(b"o\nGET / HTTP/1.1\r\n\r\n").unwrap();
        let mut lines = [0; 22];
        peer.read_exact(&mut lines).unwrap();
        assert_eq!(&lines, b"TWO\nGET / HTTP/1.1\r\n\r\n", "{backend:?}");
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&mut peer), b"bye\n");
        assert_eq!(next(&seen), Seen::End);
        assert_eq!(
            next(&seen),
            Seen::Close(CloseReason::PeerClosed),
            "{backend:?}"
        );
        wait_until("it is gone", || engine.counters()[0].open == 0);
    }
}

#[test]
fn loss_deadline_and_stop_reach_an_upgraded_connection() {
    for backend in backends() {
        let (engine, seen, address) = start(backend);
        let open = |path: &str| {
            let mut peer = ask(address, path, OFFER, "");
            let mut start = vec![0; ACCEPTED.len()];
            peer.read_exact(&mut start).unwrap();
            peer
        };
        crate::support::reset(open("/"));
        assert!(matches!(next(&seen), Seen::Close(CloseReason::Broken(_))));
        drop(open("/brief"));
        let first = next(&seen);
        assert!(
            matches!(first, Seen::Deadline | Seen::End),
            "{backend:?}: {first:?}"
        );
        assert!(matches!(next(&seen), Seen::Close(_)));
        let mut peer = open("/brief");
        assert_eq!(read_to_end(&mut peer), b"");
        assert_eq!(next(&seen), Seen::Deadline);
        drop(peer);
        assert_eq!(next(&seen), Seen::Close(CloseReason::Closed), "{backend:?}");
        let _peer = open("/");
        assert_eq!(engine.stop(Duration::from_millis(50)).cut, 1, "{backend:?}");
        assert_eq!(next(&seen), Seen::Close(CloseReason::Cut));
    }
}

#[test]
fn upgrade_is_refused_without_an_offer_or_with_a_body_to_come() {
    for backend in backends() {
        let (_engine, seen, address) = start(backend);
        let header = AnswerError::Header { name: "X".into() };
        for (path, fields, error) in [
            ("/forced", "", AnswerError::Upgrade),
            // Upgrade without Connection is of another hop.
            ("/forced", "Upgrade: lines\r\n", AnswerError::Upgrade),
            (
                "/",
                "Connection: upgrade\r\nUpgrade: bad\r\n",
                AnswerError::Upgrade,
            ),
            ("/split", OFFER, header),
        ] {
            let answer = read_to_end(&mut ask(address, path, fields, ""));
            assert!(answer.starts_with(b"HTTP/1.1 500 "), "{backend:?} {path}");
            assert_eq!(next(&seen), Seen::Refused(error));
        }
        let closing = "Connection: close\r\n";
        let answer = read_to_end(&mut ask(address, "/", closing, ""));
        assert!(answer.starts_with(b"HTTP/1.1 426 "), "{backend:?}");
        // HTTP/1.0 knows no upgrade.
        let mut peer = client(address);
        peer.write_all(format!("GET / HTTP/1.0\r\n{OFFER}\r\n").as_bytes())
            .unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        assert!(read_to_end(&mut peer).starts_with(b"HTTP/1.1 426 "));
    }
}
