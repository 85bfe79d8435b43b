//! TLS over real sockets: the same handlers, sealed.
#![cfg(feature = "rustls")]

use std::{
    io::{Read, Write},
    net::Shutdown,
    sync::{Arc, mpsc},
    time::Duration,
};

use crate::identity::{connect, identities};
use crate::support::{backends, client, config, next, read_to_end, reset, wait_until};
use olivine_net::{
    CloseReason, ConnectionId, Engine, Handler, Shard,
    http::{self, Http, Limits, Request, Responder, Service, StreamId},
};

/// Sends back the path and the body.
#[derive(Debug)]
struct Mirror;

impl Service for Mirror {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        match request.path() {
            "/big" => responder
                .send(http, 200, &[], &vec![b'b'; 2_000_000])
                .unwrap(),
            path => responder
                .send(http, 200, &[], &[path.as_bytes(), request.body()].concat())
                .unwrap(),
        }
    }
}

#[test]
fn serves_http_over_tls_and_closes_with_an_alert() {
    let (server, trusting) = identities();
    for backend in backends() {
        let settings = config(backend).tls(Some(Arc::clone(&server)));
        let engine = http::serve(settings, Limits::default(), |_| Mirror).unwrap();
        let mut peer = connect(engine.local_address().unwrap(), &trusting);
        let requests = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxyz\
            GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        peer.write_all(requests.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // Fails if the stream ends without the closing alert.
        peer.read_to_end(&mut answer).unwrap();
        let text = String::from_utf8(answer).unwrap();
        assert!(
            text.contains("\r\n\r\n/axyzHTTP/1.1 200 OK\r\n"),
            "{backend:?}"
        );
        assert!(text.ends_with(&"b".repeat(2_000_000)), "{backend:?}");
    }
}

#[test]
fn invalid_tls_settings_are_refused_and_never_served_unencrypted() {
    let (server, _) = identities();
    for backend in backends() {
        let mut unusable = (*server).clone();
        unusable.max_fragment_size = Some(1);
        let settings = config(backend).tls(Some(Arc::new(unusable)));
        let started = http::serve(settings, Limits::default(), |_| Mirror);
        if let Ok(engine) = &started {
            let mut plain = client(engine.local_address().unwrap());
            plain
                .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                .unwrap();
            plain.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_to_end(&mut plain), b"", "{backend:?}: in the clear");
        }
        let text = started.expect_err("unusable settings").to_string();
        assert!(
            text.starts_with("tls cannot be used: "),
            "{backend:?}: {text}"
        );
    }
}

#[test]
fn garbage_and_partial_handshakes_do_no_harm() {
    struct Echo;
    impl Handler for Echo {
        type Message = ();
        fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
            shard.offer(id, data).map_or(0, |()| data.len())
        }
        fn on_close(&mut self, _: &mut Shard<()>, _: ConnectionId, reason: CloseReason) {
            assert!(matches!(
                reason,
                CloseReason::Tls | CloseReason::PeerClosed | CloseReason::Cut
            ));
        }
    }
    let (server, trusting) = identities();
    for backend in backends() {
        let settings = config(backend).tls(Some(Arc::clone(&server)));
        let engine = Engine::start(settings, |_| Echo).unwrap();
        let address = engine.local_address().unwrap();
        let mut plain = client(address);
        plain
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        let alert = read_to_end(&mut plain);
        assert_eq!(
            alert.first(),
            Some(&21),
            "{backend:?}: an alert, not {alert:?}"
        );
        let mut half = client(address);
        half.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
        drop(half);
        let mut peer = connect(address, &trusting);
        peer.write_all(b"sealed").unwrap();
        let mut answer = [0; 6];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"sealed");
        drop(peer);
        drop(plain);
        wait_until("all are gone", || engine.counters()[0].open == 0);
        assert_eq!(
            engine.stop(Duration::from_secs(1)).failed_shards,
            [0; 0],
            "{backend:?}"
        );
    }
}

/// Asks for a page and reads it.
fn asked(peer: &mut (impl Read + Write)) {
    peer.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"/a") {
        let mut byte = [0];
        peer.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
}

/// Single bytes of a record that never becomes whole are not a request: the connection stays idle.
#[test]
fn partial_records_do_not_keep_a_connection_alive() {
    /// A record of application data, as long as they may be.
    const RECORD: [u8; 5] = [23, 3, 3, 0x40, 0];
    /// One millisecond between two bytes: in sum far more than the time-out between requests.
    const BYTES: usize = 4_000;
    let (server, trusting) = identities();
    for backend in backends() {
        let settings = config(backend).tls(Some(Arc::clone(&server)));
        let limits = Limits::default().idle_timeout(Duration::from_millis(60));
        let engine = http::serve(settings, limits, |_| Mirror).unwrap();
        let mut peer = connect(engine.local_address().unwrap(), &trusting);
        asked(&mut peer);
        let mut socket = peer.sock;
        socket.write_all(&RECORD).unwrap();
        let pause = Some(Duration::from_millis(1));
        socket.set_read_timeout(pause).unwrap();
        let closed = (0..BYTES).any(|_| {
            let gone = socket.write_all(&[0]).is_err();
            let read = socket.read(&mut [0; 512]);
            gone || matches!(read, Ok(0))
        });
        assert!(closed, "{backend:?}: kept by pieces of a record");
        assert_eq!(engine.counters()[0].timed_out, 1, "{backend:?}");
    }
}

/// The handler gets no report of new keys: a connection with nothing else stays idle.
#[test]
fn key_updates_do_not_keep_a_connection_alive() {
    /// As many in a row as a session puts up with; all together last far longer than the time-out.
    const UPDATES: usize = 30;
    let (server, trusting) = identities();
    for backend in backends() {
        let settings = config(backend)
            .tls(Some(Arc::clone(&server)))
            .idle_timeout(Some(Duration::from_millis(60)));
        let engine = http::serve(settings, Limits::default(), |_| Mirror).unwrap();
        let mut peer = connect(engine.local_address().unwrap(), &trusting);
        asked(&mut peer);
        let pause = Some(Duration::from_millis(20));
        peer.sock.set_read_timeout(pause).unwrap();
        let closed = (0..UPDATES).any(|_| {
            peer.conn.refresh_traffic_keys().unwrap();
            let gone = peer.flush().is_err();
            // Nothing until then is an error of time.
            let read = peer.read(&mut [0; 512]);
            gone || matches!(read, Ok(0))
        });
        assert!(closed, "{backend:?}: kept by key updates");
        assert_eq!(engine.counters()[0].timed_out, 1, "{backend:?}");
    }
}

/// Defers every reply, and reports peers that end and replies that are no longer wanted.
struct Debtor(mpsc::Sender<&'static str>);

impl Service for Debtor {
    type Message = ();

    fn on_request(&mut self, http: &mut Http<'_, ()>, _: &Request<'_>, responder: Responder<'_>) {
        responder.later(http);
        self.0.send("owed").unwrap();
    }

    fn on_half_close(&mut self, _: &mut Http<'_, ()>, _: StreamId) {
        self.0.send("half closed").unwrap();
    }

    fn on_stream_closed(&mut self, _: &mut Http<'_, ()>, _: StreamId) {
        self.0.send("gone").unwrap();
    }
}

/// The peer leaves a sealed connection in each state: each ends, at once or by the time-out that is
/// brief.
#[test]
fn lost_peer_of_a_tls_connection_is_detected() {
    const LONG: Duration = Duration::from_secs(3600);
    const BRIEF: Duration = Duration::from_millis(60);
    let (server, trusting) = identities();
    for backend in backends() {
        for (asks, leaves, timed_out) in [
            (false, "by a reset", 0),
            (false, "by an end", 0),
            (false, "by silence", 1),
            (true, "by a reset", 0),
            (true, "by an end and a reset", 0),
            (true, "by an end", 1),
            (true, "by an alert and an end", 1),
            (true, "by an alert and a reset", 0),
            (true, "by silence", 1),
        ] {
            let what = format!("{backend:?}: asks {asks}, leaves {leaves}");
            let brief = |is| if is { BRIEF } else { LONG };
            let silent = leaves == "by silence";
            let settings = config(backend)
                .tls(Some(Arc::clone(&server)))
                .idle_timeout(Some(LONG));
            let limits = Limits::default()
                .header_timeout(brief(silent && !asks))
                .answer_timeout(Some(brief(silent)))
                .half_closed_timeout(Some(brief(timed_out == 1)));
            let (reports, received) = mpsc::channel();
            let debtor = move |_| Debtor(reports.clone());
            let engine = http::serve(settings, limits, debtor).unwrap();
            let mut peer = connect(engine.local_address().unwrap(), &trusting);
            if asks {
                peer.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
                    .unwrap();
                assert_eq!(next(&received), "owed", "{what}");
            } else {
                peer.sock.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
                wait_until("half a handshake is read", || {
                    engine.counters()[0].received_bytes == 6
                });
            }
            if leaves.contains("alert") {
                peer.conn.send_close_notify();
                peer.flush().unwrap();
            }
            if leaves.contains("end") {
                peer.sock.shutdown(Shutdown::Write).unwrap();
            }
            if asks && leaves.contains("end") {
                assert_eq!(next(&received), "half closed", "{what}");
            }
            let mut held = None;
            if leaves.contains("reset") {
                reset(peer.sock);
            } else {
                held = Some(peer.sock);
            }
            // Ends as its peer does, so that the close need not linger.
            let rest = held.map(|mut socket| read_to_end(&mut socket));
            wait_until(&what, || engine.counters()[0].open == 0);
            let counters = engine.counters()[0];
            assert_eq!(
                (counters.closed, counters.timed_out),
                (1, timed_out),
                "{what}"
            );
            let gone = received
                .try_iter()
                .filter(|reports| *reports == "gone")
                .count();
            assert_eq!(gone, usize::from(asks), "{what}");
            drop(rest);
        }
    }
}
