//! After warm-up a request allocates nothing, and a TLS session that is idle holds little: counted
//! by the allocator itself, over real sockets.

#[cfg(feature = "rustls")]
#[path = "support/identity.rs"]
mod identity;
mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    io::{Read, Write},
    sync::atomic::{AtomicU64, Ordering},
};

use olivine_net::{
    ConnectionId, Engine, Handler, Shard,
    http::{self, Http, Limits, Request, Responder, Service, StaticAnswer},
};
use support::{backends, client, config, wait_until};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes that are allocated now.
static HELD: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, counting.
struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: only the sum counts, and it is read when the others are idle.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        HELD.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise is the one asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise is the one asked for.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        HELD.fetch_add(size as u64, Ordering::Relaxed);
        HELD.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise is the one asked for.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Echo;

impl Handler for Echo {
    type Message = ();

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        shard.offer(id, data).map_or(0, |()| data.len())
    }
}

struct App(StaticAnswer);

impl Service for App {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        match request.path() {
            "/static" => responder.send_static(http, &mut self.0),
            _ => responder
                .send(http, 200, &[("X-Answer", "yes")], request.body())
                .unwrap(),
        }
    }
}

/// Sends `request` in two pieces and reads `length` bytes, many times; counts the allocations of
/// the last rounds.
fn allocations<H: Handler>(engine: &Engine<H>, request: &[u8], length: usize) -> u64 {
    let mut peer = client(engine.local_address().unwrap());
    let mut answer = vec![0; length];
    let mut counted = 0;
    for round in 0..3000 {
        if round == 1000 {
            counted = ALLOCATIONS.load(Ordering::Relaxed);
        }
        let (first, second) = request.split_at(request.len() / 2 + round % 7);
        peer.write_all(first).unwrap();
        if round < 500 {
            // The warm-up meets every unfinished request; later, chance decides.
            let part = (round * request.len() + first.len()) as u64;
            wait_until("the first piece is read", || read_bytes(engine) >= part);
        }
        peer.write_all(second).unwrap();
        peer.read_exact(&mut answer).unwrap();
    }
    ALLOCATIONS.load(Ordering::Relaxed) - counted
}

fn read_bytes<H: Handler>(engine: &Engine<H>) -> u64 {
    engine.counters()[0].received_bytes
}

/// One test, so that no other one allocates meanwhile.
#[test]
fn requests_allocate_nothing_after_warm_up_and_idle_sessions_hold_little() {
    #[cfg(feature = "rustls")]
    sealed::idle_sessions_hold_little();
    for backend in backends() {
        let engine = Engine::start(config(backend), |_| Echo).unwrap();
        let count = allocations(&engine, &[7; 1000], 1000);
        println!("{backend:?}: {count} allocations in 2,000 echoes");
        assert_eq!(count, 0, "{backend:?}: echo");

        let get = b"GET /static HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n".repeat(16);
        let post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
            POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        for (what, request, bodies) in [("static", &get[..], 16 * 5), ("bodies", &post[..], 8)] {
            let answers = if what == "static" { 16 } else { 2 };
            let head = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                        Content-Length: 5\r\n\r\n";
            let extra = if what == "static" {
                0
            } else {
                "X-Answer: yes\r\n".len()
            };
            let length = answers * (head.len() + extra) + bodies;
            let engine = http::serve(config(backend), Limits::default(), |_| {
                App(StaticAnswer::new(200, &[], b"hello").unwrap())
            })
            .unwrap();
            let count = allocations(&engine, request, length);
            println!("{backend:?}: {count} allocations in 2,000 batches of {answers} ({what})");
            assert_eq!(count, 0, "{backend:?}: {what}");
        }
    }
}

#[cfg(feature = "rustls")]
mod sealed {
    use super::*;
    use crate::identity::{connect, identities};
    use std::sync::Arc;

    const SESSIONS: u64 = 64;
    /// What a session may hold more after a record of 16 KiB than before.
    const MORE_BYTES: u64 = 1024;

    /// Answers each line with a byte.
    struct Lines;

    impl Handler for Lines {
        type Message = ();

        fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
            if data.ends_with(b"\n") {
                shard.offer(id, b".").unwrap();
            }
            data.len()
        }
    }

    pub(super) fn idle_sessions_hold_little() {
        let (server, trusting) = identities();
        for backend in backends() {
            let settings = config(backend).tls(Some(Arc::clone(&server)));
            let engine = Engine::start(settings, |_| Lines).unwrap();
            let mut peers: Vec<_> = (0..SESSIONS)
                .map(|_| connect(engine.local_address().unwrap(), &trusting))
                .collect();
            let mut held = [0; 3];
            for (held, length) in held.iter_mut().zip([1, 1, 16_000]) {
                let mut line = vec![b'l'; length];
                line[length - 1] = b'\n';
                for peer in &mut peers {
                    peer.write_all(&line).unwrap();
                    peer.read_exact(&mut [0]).unwrap();
                }
                drop(line);
                *held = HELD.load(Ordering::Relaxed);
            }
            let more = held[2].saturating_sub(held[1]);
            println!("{backend:?}: {more} bytes more in {SESSIONS} sessions");
            assert!(more < SESSIONS * MORE_BYTES, "{backend:?}: {more}");
        }
    }
}
