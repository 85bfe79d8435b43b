//! Memory of request bodies: what a shard holds is counted, bounded over all connections, and given
//! back.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use crate::support::{backends, client, config, read_to_end, reset, wait_until};
use olivine_net::{
    Backend, Engine, ShardHealth,
    http::{self, Http, Limits, Request, Responder, Server, Service},
};

/// What a shard keeps for use again at most, as `ShardHealth::pooled_bytes` says.
const POOL_BYTES_MAX: u64 = 16 << 20;

/// Says how long the body was.
struct Length;

impl Service for Length {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let length = request.body().len().to_string();
        responder.send(http, 200, &[], length.as_bytes()).unwrap();
    }
}

fn start(backend: Backend, limits: Limits) -> (Engine<Server<Length>>, SocketAddr) {
    let engine = http::serve(config(backend), limits, |_| Length).unwrap();
    let address = engine.local_address().unwrap();
    (engine, address)
}

fn health(engine: &Engine<Server<Length>>) -> ShardHealth {
    engine.health().remove(0)
}

/// Begins an upload and sends `now` bytes of `length`; small pieces, so that it is never whole at
/// once.
fn begin(address: SocketAddr, length: usize, now: usize) -> TcpStream {
    let mut peer = client(address);
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    peer.write_all(head.as_bytes()).unwrap();
    // Refused by a reset where the server has closed meanwhile.
    let _ = peer.write_all(&vec![b'u'; now]);
    peer
}

fn answer(peer: &mut TcpStream) -> String {
    peer.shutdown(Shutdown::Write).unwrap();
    String::from_utf8(read_to_end(peer)).unwrap()
}

/// The resident memory of this process, for the report.
fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[test]
fn memory_of_uploads_is_released() {
    const COUNT: usize = 150;
    const LENGTH: usize = 900_000;
    for backend in backends() {
        let limits = Limits::default().bodies_bytes_max(1 << 30);
        let (engine, address) = start(backend, limits);
        let before = resident_kib();
        let mut uploads: Vec<_> = (0..COUNT)
            .map(|_| begin(address, LENGTH, LENGTH - 1))
            .collect();
        let held = (COUNT * (LENGTH - 1)) as u64;
        wait_until("all are held", || {
            engine.counters()[0].received_bytes > held && health(&engine).body_bytes >= held
        });
        let most = health(&engine).body_bytes;
        // A body uses no more than its length, and a copy of its head.
        assert!(
            most <= (COUNT * (LENGTH + 16 * 1024)) as u64,
            "{backend:?}: {most}"
        );
        let during = resident_kib();
        for peer in &mut uploads {
            peer.write_all(b"u").unwrap();
            assert!(answer(peer).ends_with("\r\n\r\n900000"), "{backend:?}");
        }
        drop(uploads);
        wait_until("all are gone", || health(&engine).connections == 0);
        let health = health(&engine);
        assert_eq!(health.body_bytes, 0, "{backend:?}");
        let pooled = health.pooled_bytes;
        assert!(pooled <= POOL_BYTES_MAX, "{backend:?}: {pooled} bytes kept");
        // A second after the last of them the allocator is asked to give back as well. Only
        // reported: what else this process holds is not the engine's to say.
        let start = Instant::now();
        while resident_kib() > before + (during - before) / 2
            && start.elapsed() < Duration::from_secs(3)
        {
            std::thread::yield_now();
        }
        println!(
            "{backend:?}: resident KiB {before} before, {during} with {COUNT} uploads, {} after; \
             {pooled} bytes pooled",
            resident_kib()
        );
    }
}

#[test]
fn bodies_of_all_connections_together_are_bounded_and_the_next_gets_503() {
    const LENGTH: usize = 1_000_000;
    const MAX: u64 = 4_000_000;
    for backend in backends() {
        for chunked in [false, true] {
            let limits = Limits::default()
                .bodies_bytes_max(MAX)
                .body_bytes_max(LENGTH as u64);
            let (engine, address) = start(backend, limits);
            let mut uploads: Vec<_> = (0..3).map(|_| begin(address, LENGTH, LENGTH - 1)).collect();
            let sent = (3 * (LENGTH - 1)) as u64;
            wait_until("three are held", || health(&engine).body_bytes >= sent);
            // The fourth finds room for a part of it only, whatever it said before.
            let mut fourth = client(address);
            if chunked {
                let head =
                    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nf4240\r\n";
                fourth.write_all(head.as_bytes()).unwrap();
            } else {
                fourth = begin(address, LENGTH, 0);
            }
            let _ = fourth.write_all(&vec![b'u'; LENGTH - 1]);
            let said = answer(&mut fourth);
            assert!(
                said.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
                "{backend:?}: {said}"
            );
            assert!(
                said.contains("Connection: close\r\n"),
                "{backend:?}: {said}"
            );
            let most = health(&engine).body_bytes;
            assert!(most <= MAX, "{backend:?}: {most}");
            assert_eq!(engine.counters()[0].refused_requests, 1, "{backend:?}");
            // The others are served, and then there is room again.
            for peer in &mut uploads {
                peer.write_all(b"u").unwrap();
                assert!(answer(peer).ends_with("\r\n\r\n1000000"), "{backend:?}");
            }
            let mut next = begin(address, LENGTH, LENGTH);
            assert!(
                answer(&mut next).ends_with("\r\n\r\n1000000"),
                "{backend:?}"
            );
            assert_eq!(health(&engine).body_bytes, 0, "{backend:?}");
        }
    }
}

/// However an upload ends, its memory is released at once.
#[test]
fn unfinished_bodies_are_released() {
    for backend in backends() {
        // Time of no upload is over but that of the last one, however slow this machine is.
        let (engine, address) = start(backend, Limits::default());
        let broken = begin(address, 1_000_000, 500_000);
        let mut ended = begin(address, 1_000_000, 500_000);
        let mut malformed = client(address);
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let begun = [head.as_bytes(), b"fff\r\n", &[b'u'; 4095]].concat();
        malformed.write_all(&begun).unwrap();
        let sent = 2 * 500_000 + begun.len() as u64;
        wait_until("all are held", || {
            engine.counters()[0].received_bytes > sent && health(&engine).body_bytes > 1_000_000
        });
        malformed.write_all(b"no chunk").unwrap();
        reset(broken);
        ended.shutdown(Shutdown::Write).unwrap();
        assert!(answer(&mut malformed).starts_with("HTTP/1.1 400 "));
        assert!(read_to_end(&mut ended).is_empty(), "{backend:?}");
        wait_until("nothing is held", || health(&engine).body_bytes == 0);
        wait_until("all are gone", || health(&engine).connections == 0);
        let counters = engine.counters()[0];
        assert_eq!((counters.refused_requests, counters.refused_slow), (1, 0));

        let limits = Limits::default().body_timeout(Duration::from_millis(100));
        let (engine, address) = start(backend, limits);
        let mut slow = begin(address, 1_000_000, 500_000);
        let mut start = [0; 12];
        slow.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 408", "{backend:?}");
        // Its peer is still there, and holds nothing.
        assert_eq!(health(&engine).body_bytes, 0, "{backend:?}");
        assert_eq!(engine.counters()[0].refused_slow, 1, "{backend:?}");
    }
}
