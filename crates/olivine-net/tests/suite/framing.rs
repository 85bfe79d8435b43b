//! How answers are framed, for every way to answer and every status without content: a client that
//! follows RFC 9112 6.3 and a foreign one, Python's `http.client`, must find the next answer where
//! it begins.

use std::{
    io::Write as _,
    net::{Shutdown, SocketAddr},
    process::Command,
    time::Duration,
};

use crate::support::{backends, client, config, read_to_end};
use olivine_net::{
    Backend, Engine,
    http::{self, Http, Limits, Request, Responder, Server, Service, StaticAnswer, StreamId},
};

const STATUSES: [u16; 5] = [200, 204, 205, 304, 404];
const WAYS: [&str; 5] = ["send", "static", "stream", "respond", "begin"];
const BODY: &[u8] = b"content";

/// Answers `/WAY/STATUS` in that way.
#[derive(Default)]
struct App {
    /// Answers that are finished by the next timer: the stream, the status to begin or respond
    /// with.
    owed: Vec<(StreamId, &'static str, u16)>,
}

impl Service for App {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let mut parts = request.path().split('/').skip(1);
        let asked = parts.next().unwrap();
        let way = WAYS.into_iter().find(|way| *way == asked).unwrap();
        let status = parts.next().unwrap().parse().unwrap();
        if !matches!(way, "send" | "static") {
            http.shard().set_timer(Duration::ZERO, 0);
        }
        let stream = match way {
            "send" => return responder.send(http, status, &[], BODY).unwrap(),
            "static" => {
                let mut answer = StaticAnswer::new(status, &[], BODY).unwrap();
                return responder.send_static(http, &mut answer);
            }
            "stream" => responder.stream(http, status, &[]).unwrap(),
            _ => responder.later(http),
        };
        self.owed.push((stream, way, status));
    }

    fn on_timer(&mut self, http: &mut Http<'_, ()>, _: u64) {
        for (stream, way, status) in std::mem::take(&mut self.owed) {
            if way == "respond" {
                http.respond(stream, status, &[], BODY).unwrap();
                continue;
            }
            if way == "begin" {
                http.begin(stream, status, &[]).unwrap();
            }
            http.write(stream, BODY).unwrap();
            http.finish(stream);
        }
    }
}

fn start(backend: Backend) -> (Engine<Server<App>>, SocketAddr) {
    let engine = http::serve(config(backend), Limits::default(), |_| App::default()).unwrap();
    let address = engine.local_address().unwrap();
    (engine, address)
}

/// The body framing that RFC 9110 and RFC 9112 allow for an answer, as its header line; `None`
/// where there must be neither length nor coding.
fn framing(way: &str, status: u16) -> Option<&'static str> {
    match (status, way) {
        // 9110 8.6 and 9112 6.1: no length and no coding. 304: no length that a 200 would not have.
        (204 | 304, _) => None,
        // 9110 15.3.6: no content; 9112 6.3 asks for a length, or the end of the connection would
        // end it.
        (205, _) => Some("Content-Length: 0"),
        (_, "stream" | "begin") => Some("Transfer-Encoding: chunked"),
        // Of HEAD too: that of the same GET.
        _ => Some("Content-Length: 7"),
    }
}

/// What must come for one request, without the date.
fn expected(way: &str, method: &str, status: u16) -> String {
    let reason = match status {
        200 => "OK",
        204 => "No Content",
        205 => "Reset Content",
        304 => "Not Modified",
        _ => "Not Found",
    };
    let mut text = format!("HTTP/1.1 {status} {reason}\r\n");
    let framing = framing(way, status);
    if let Some(line) = framing {
        text += &format!("{line}\r\n");
    }
    text += "\r\n";
    if method == "GET" {
        text += match framing {
            Some("Content-Length: 7") => "content",
            Some("Transfer-Encoding: chunked") => "7\r\ncontent\r\n0\r\n\r\n",
            _ => "",
        };
    }
    text
}

#[test]
fn bodyless_statuses_are_framed_equally_by_every_reply_call() {
    for backend in backends() {
        let (_engine, address) = start(backend);
        for method in ["GET", "HEAD"] {
            for way in WAYS {
                for status in STATUSES {
                    let request = format!("{method} /{way}/{status} HTTP/1.1\r\nHost: a\r\n\r\n");
                    let next = "GET /send/404 HTTP/1.1\r\nHost: a\r\n\r\n";
                    let mut peer = client(address);
                    peer.write_all((request + next).as_bytes()).unwrap();
                    peer.shutdown(Shutdown::Write).unwrap();
                    let answers = String::from_utf8(read_to_end(&mut peer)).unwrap();
                    let answers: Vec<&str> = answers
                        .split_inclusive("\r\n")
                        .filter(|line| !line.starts_with("Date: "))
                        .collect();
                    assert_eq!(
                        answers.concat(),
                        expected(way, method, status) + &expected("send", "GET", 404),
                        "{backend:?} {method} {way} {status}"
                    );
                }
            }
        }
    }
}

/// HTTP/1.0 knows no chunks: a stream ends with its connection, unless its status has no content.
#[test]
fn http_10_keeps_the_connection_behind_a_stream_without_content() {
    for backend in backends() {
        let (_engine, address) = start(backend);
        for (way, status, kept) in [
            ("stream", 204, true),
            ("begin", 304, true),
            ("stream", 205, true),
            ("stream", 200, false),
        ] {
            let request = format!("GET /{way}/{status} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
            let mut peer = client(address);
            peer.write_all(request.repeat(2).as_bytes()).unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            let answers = String::from_utf8(read_to_end(&mut peer)).unwrap();
            assert_eq!(
                answers.matches("HTTP/1.1 ").count(),
                if kept { 2 } else { 1 },
                "{backend:?} {way} {status}: {answers}"
            );
            assert_eq!(answers.contains("keep-alive"), kept, "{answers}");
            assert!(!answers.contains("Transfer-Encoding"), "{answers}");
        }
    }
}

/// Asks for each answer and then, on the same connection, for one more.
const FOREIGN: &str = r"
import http.client, sys
host, port = sys.argv[1].split(':')
count = 0
for method in ('GET', 'HEAD'):
    for way in ('send', 'static', 'stream', 'respond', 'begin'):
        for status in (200, 204, 205, 304, 404):
            peer = http.client.HTTPConnection(host, int(port), timeout=20)
            for target, verb in ((f'/{way}/{status}', method), ('/send/404', 'GET')):
                peer.request(verb, target)
                socket = peer.sock
                answer = peer.getresponse()
                body = answer.read()
                wanted = status if target != '/send/404' else 404
                full = verb == 'GET' and wanted not in (204, 205, 304)
                assert answer.status == wanted, (method, way, status, answer.status)
                assert body == (b'content' if full else b''), (method, way, status, body)
                assert peer.sock is socket, (method, way, status, 'connection closed')
                count += 1
            peer.close()
print(count)
";

#[test]
fn foreign_client_finds_the_reply_after_each_status() {
    for backend in backends() {
        let (_engine, address) = start(backend);
        let said = Command::new("python3")
            .args(["-c", FOREIGN, &address.to_string()])
            .output()
            .expect("python3, which this test needs");
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{backend:?}: {error}");
        let count = String::from_utf8_lossy(&said.stdout);
        assert_eq!(count.trim(), "100", "{backend:?}");
    }
}
