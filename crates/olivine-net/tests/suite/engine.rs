//! What an engine does with bytes, over real sockets, on every back end that this machine allows;
//! what the counters count, to the byte: one receive and one send for a batch of requests.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener},
    sync::Arc,
    time::Duration,
};

use crate::support::{
    WATCHDOG, backends, client, config, exchange, next,
    probe::{Order, Seen, event, opened, post, start, start_with},
    read_to_end, reset, wait_until,
};
use olivine_net::{
    CloseReason, Counters, Engine, Handler,
    http::{self, Http, Limits, Request, Responder, Service, StaticAnswer},
};

#[test]
fn echo_reports_the_close() {
    for backend in backends() {
        let (engine, events, address) = start(config(backend));
        let mut peer = client(address);
        assert_eq!(exchange(&mut peer, b"hello", 5), b"hello");
        let id = opened(&events);
        assert_eq!((id.shard(), id.slot()), (0, 0));
        drop(peer);
        assert_eq!(event(&events), Seen::End);
        assert_eq!(event(&events), Seen::Close(CloseReason::PeerClosed));
        let counters = engine.counters()[0];
        assert_eq!(
            (
                counters.accepted,
                counters.received_bytes,
                counters.sent_bytes
            ),
            (1, 5, 5)
        );
        assert_eq!(engine.stop(Duration::ZERO).cut, 0);
    }
}

#[test]
fn unconsumed_bytes_are_shown_again_with_what_follows() {
    for backend in backends() {
        let (engine, events, address) = start_with(config(backend), 4, false);
        let mut peer = client(address);
        opened(&events);
        for (sent, shown) in [(&b"ab"[..], 2), (b"c", 3), (b"defgh", 8), (b"ij", 2)] {
            peer.write_all(sent).unwrap();
            assert_eq!(next(&events), Seen::Data(shown), "{backend:?}");
        }
        let mut answer = [0; 8];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"abcdefgh");
        engine.stop(Duration::ZERO);
    }
}

#[test]
fn too_much_unconsumed_input_closes_the_connection() {
    for backend in backends() {
        let (_engine, events, address) = start_with(config(backend).unconsumed_max(10), 100, false);
        let mut peer = client(address);
        opened(&events);
        peer.write_all(&[b'x'; 11]).unwrap();
        assert_eq!(event(&events), Seen::Close(CloseReason::UnconsumedMax));
        assert!(read_to_end(&mut peer).is_empty());
    }
}

#[test]
fn slow_reader_pauses_reading_and_loses_nothing() {
    for backend in backends() {
        let settings = config(backend)
            .high_water(64 * 1024)
            .low_water(16 * 1024)
            .send_kernel_bytes(Some(16 * 1024))
            .receive_kernel_bytes(Some(16 * 1024));
        let (engine, events, address) = start(settings);
        let peer = client(address);
        opened(&events);
        let mut writer = peer.try_clone().unwrap();
        let total = 8 << 20;
        let pattern: Vec<u8> = (0..251_u8).cycle().take(total).collect();
        let expected = pattern.clone();
        let sender = std::thread::spawn(move || {
            writer.write_all(&pattern).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        // The peer reads only after the engine has stopped taking bytes in.
        let read = || engine.counters()[0].received_bytes;
        let mut last = 0;
        wait_until("reading stalls", || {
            // Wait by the shard's time: ours may pass while its thread does not run.
            post(&engine, Order::Timer(Duration::from_millis(20), 7));
            while event(&events) != Seen::Timer(7) {}
            let now = read();
            std::mem::replace(&mut last, now) == now && now > 0
        });
        assert!(
            read() < 4 << 20,
            "{backend:?}: reading went on to {} bytes",
            read()
        );
        let mut peer = peer;
        assert!(
            read_to_end(&mut peer) == expected,
            "{backend:?}: bytes lost or changed"
        );
        sender.join().unwrap();
        while event(&events) != Seen::End {}
    }
}

#[test]
fn refused_bytes_trigger_on_writable() {
    for backend in backends() {
        let settings = config(backend)
            .high_water(100_000)
            .low_water(1000)
            .send_kernel_bytes(Some(4096));
        let (engine, events, address) = start(settings);
        let mut peer = client(address);
        let id = opened(&events);
        post(&engine, Order::FillUp(id));
        let Seen::Full(taken) = event(&events) else {
            panic!("not filled up")
        };
        assert_eq!(taken, 100_000, "{backend:?}");
        let mut bytes = vec![0; taken];
        peer.read_exact(&mut bytes).unwrap();
        assert_eq!(event(&events), Seen::Writable);
        assert!(engine.counters()[0].back_pressured >= 1);
    }
}

#[test]
fn shared_and_direct_bytes_keep_their_order() {
    for backend in backends() {
        let (engine, events, address) = start(config(backend).send_kernel_bytes(Some(8192)));
        let mut peer = client(address);
        let id = opened(&events);
        let shared: Arc<[u8]> = vec![b's'; 100_000].into();
        post(&engine, Order::Share(id, Arc::clone(&shared)));
        let mut bytes = vec![0; 4 * 100_002];
        peer.read_exact(&mut bytes).unwrap();
        for part in bytes.chunks(100_002) {
            assert!(part.starts_with(b"<s") && part.ends_with(b"s>"));
        }
        let direct: Vec<u8> = (0..253_u8).cycle().take(3_000_000).collect();
        post(&engine, Order::SendNow(id, direct.clone()));
        let mut bytes = vec![0; direct.len()];
        peer.read_exact(&mut bytes).unwrap();
        assert!(bytes == direct, "{backend:?}: bytes lost or changed");
    }
}

#[test]
fn paused_connection_is_not_read_until_it_resumes() {
    for backend in backends() {
        let (engine, events, address) = start(config(backend));
        let mut peer = client(address);
        let id = opened(&events);
        post(&engine, Order::Pause(id));
        post(&engine, Order::Timer(Duration::from_millis(1), 1));
        assert_eq!(event(&events), Seen::Timer(1));
        peer.write_all(b"later").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        post(&engine, Order::Timer(Duration::from_millis(20), 2));
        assert_eq!(
            next(&events),
            Seen::Timer(2),
            "{backend:?}: nothing may be shown before"
        );
        post(&engine, Order::Resume(id));
        assert_eq!(read_to_end(&mut peer), b"later");
        assert_eq!(event(&events), Seen::End);
    }
}

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

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        match request.path() {
            "/static" => responder.send_static(http, &mut self.0),
            _ => responder.send(http, 200, &[], b"dynamic").unwrap(),
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
                ("requests", round * DEPTH as u64),
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
