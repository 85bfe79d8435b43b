//! What the counters count, to the byte, and with it what the engine promises about its calls: one
//! receive and one send for a batch of requests.

mod support;

use std::{
    io::{Read, Write},
    net::TcpListener,
    time::Duration,
};

use olivine_net::{
    Counters, Engine, Handler,
    http::{self, Limits, Request, Responder, Service, StaticAnswer},
};
use support::{
    WATCHDOG, backends, client, config, exchange,
    probe::{Order, Seen, event, opened, post, start, start_with},
    reset, wait_until,
};

/// Waits until one shard's counters are as expected; those not named must be 0, but for the rounds.
fn settles_at<H: Handler>(engine: &Engine<H>, what: &str, expected: &[(&str, u64)]) {
    let fits = |counters: &Counters| {
        counters.iter().all(|(name, value)| {
            let wanted = expected.iter().find(|(known, _)| *known == name);
            name == "rounds" || value == wanted.map_or(0, |(_, value)| *value)
        })
    };
    let mut last = Counters::default();
    for (name, _) in expected {
        assert!(last.iter().any(|(known, _)| known == *name), "{name}");
    }
    let start = std::time::Instant::now();
    while !fits(&last) {
        assert!(start.elapsed() < WATCHDOG, "{what}: {last:?}");
        last = engine.counters()[0];
        std::thread::yield_now();
    }
}

#[test]
fn connections_bytes_and_calls_are_counted_exactly() {
    for backend in backends() {
        let (engine, events, address) = start(config(backend));
        let mut peer = client(address);
        opened(&events);
        assert_eq!(exchange(&mut peer, &[b'x'; 100], 100), [b'x'; 100]);
        let mut expected = vec![
            ("open", 1),
            ("accepted", 1),
            ("receives", 1),
            ("received_bytes", 100),
            ("sends", 1),
            ("sent_bytes", 100),
        ];
        settles_at(&engine, "an echo", &expected);
        post(&engine, Order::Timer(Duration::ZERO, 1));
        assert_eq!(event(&events), Seen::Timer(1));
        expected.extend([("messages", 1), ("timers", 1)]);
        settles_at(
            &engine,
            "a timer, which was asked for by message",
            &expected,
        );
        reset(peer);
        expected[0].1 = 0;
        expected.extend([("broken", 1), ("closed", 1)]);
        settles_at(&engine, "a reset", &expected);
    }
}

#[test]
fn outgoing_and_aborted_connections_are_counted() {
    for backend in backends() {
        let (engine, events, _) = start_with(config(backend), 1, true);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        post(&engine, Order::Connect(address, WATCHDOG, 1));
        let (_other, _) = listener.accept().unwrap();
        opened(&events);
        let expected = [("open", 1), ("connected", 1), ("messages", 1)];
        settles_at(&engine, "a connection of ours", &expected);
        drop(listener);
        post(&engine, Order::Connect(address, WATCHDOG, 2));
        assert!(matches!(event(&events), Seen::Failed(2, _)));
        let expected = [
            ("open", 1),
            ("connected", 1),
            ("messages", 2),
            ("connect_failed", 1),
        ];
        settles_at(&engine, "an attempt that fails", &expected);
        assert_eq!(engine.stop(Duration::ZERO).cut, 1, "{backend:?}");
    }
}

struct Page(StaticAnswer);

impl Service for Page {
    type Message = ();

    fn on_request(&mut self, request: &Request<'_>, responder: Responder<'_, ()>) {
        match request.path() {
            "/static" => responder.send_static(&mut self.0),
            _ => responder.send(200, &[], b"dynamic").unwrap(),
        }
    }
}

fn page() -> Page {
    Page(StaticAnswer::new(200, &[], b"static!").unwrap())
}

#[test]
fn a_batch_of_requests_costs_one_receive_and_one_send() {
    const DEPTH: usize = 16;
    for backend in backends() {
        let engine = http::serve(config(backend), Limits::default(), |_| page()).unwrap();
        let mut peer = client(engine.local_address().unwrap());
        let (mut received, mut sent) = (0, 0);
        for round in 1..=10 {
            let batch = ["/static", "/other"].map(|path| {
                let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
                request.repeat(DEPTH / 2)
            });
            let batch = batch.concat();
            peer.write_all(batch.as_bytes()).unwrap();
            let mut answers = Vec::new();
            let mut piece = [0; 4096];
            let heads = |answers: &[u8]| memchr::memmem::find_iter(answers, b"HTTP/1.1").count();
            while heads(&answers) < DEPTH || !answers.ends_with(b"dynamic") {
                let length = peer.read(&mut piece).unwrap();
                answers.extend_from_slice(&piece[..length]);
            }
            (received, sent) = (received + batch.len() as u64, sent + answers.len() as u64);
            let expected = [
                ("open", 1),
                ("accepted", 1),
                ("receives", round),
                ("received_bytes", received),
                ("sends", round),
                ("sent_bytes", sent),
            ];
            settles_at(&engine, "a batch", &expected);
        }
    }
}

/// The Date field of the next answer to `path`.
fn date(peer: &mut std::net::TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while !answer.ends_with(b"static!") && !answer.ends_with(b"dynamic") {
        let length = peer.read(&mut piece).unwrap();
        answer.extend_from_slice(&piece[..length]);
    }
    let text = String::from_utf8(answer).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Date: "));
    line.unwrap().to_owned()
}

#[test]
fn date_advances_in_every_reply() {
    for backend in backends() {
        let engine = http::serve(config(backend), Limits::default(), |_| page()).unwrap();
        let mut peer = client(engine.local_address().unwrap());
        for path in ["/static", "/other"] {
            let first = date(&mut peer, path);
            wait_until("a second has passed", || date(&mut peer, path) != first);
        }
    }
}
