//! Clients that do what they like, in an order drawn from a seed: pieces of requests, pipelines
//! behind owed answers, ends, resets, silence. However they leave, every connection ends, every
//! pending answer is reported, and nothing is held. `OLIVINE_NET_SEED` and `OLIVINE_NET_CLIENTS`
//! choose another run.

use std::{
    collections::HashSet,
    env,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::support::{backends, client, config, reset, wait_until};
use olivine_net::{
    ShardState,
    http::{self, Http, Limits, Request, Responder, Service, StreamId},
};

const BRIEF: Duration = Duration::from_millis(50);

/// Numbers drawn from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// Answers at once, later, never, in pieces, or with a panic.
#[derive(Default)]
struct App {
    /// Replies to send at the next timer, and the actions taken on each.
    owed: Vec<(StreamId, u64)>,
    count: u64,
    /// Answers that were neither given nor reported as closed.
    open: HashSet<StreamId>,
    /// Their number, and the number of reports of other answers.
    counts: Arc<(AtomicU64, AtomicU64)>,
}

impl App {
    fn tell(&self) {
        // Relaxed: a count that is read when nothing moves any more.
        self.counts
            .0
            .store(self.open.len() as u64, Ordering::Relaxed);
    }
}

impl Service for App {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        self.count += 1;
        let kind = self.count % 3;
        let stream = match request.path() {
            "/panic" => panic!("on purpose"),
            "/large" => return responder.send(http, 200, &[], &[b'l'; 300_000]).unwrap(),
            path @ ("/later" | "/stream") => {
                http.shard().set_timer(Duration::from_millis(5), 0);
                match path {
                    "/later" => responder.later(http),
                    _ => responder
                        .stream(http, 200 + u16::try_from(kind).unwrap() * 2, &[])
                        .unwrap(),
                }
            }
            _ => return responder.send(http, 200, &[], request.body()).unwrap(),
        };
        self.open.insert(stream);
        self.tell();
        self.owed.push((stream, kind));
    }

    fn on_timer(&mut self, http: &mut Http<'_, ()>, _: u64) {
        for (stream, kind) in std::mem::take(&mut self.owed) {
            match kind {
                // Never answered.
                0 => continue,
                1 => {
                    http.respond(stream, 200, &[], b"late").unwrap();
                    let _ = http.write(stream, b"piece");
                    http.finish(stream);
                }
                _ => http.abort(stream),
            }
            self.open.remove(&stream);
        }
        self.tell();
    }

    fn on_stream_closed(&mut self, _: &mut Http<'_, ()>, stream: StreamId) {
        if !self.open.remove(&stream) {
            self.counts.1.fetch_add(1, Ordering::Relaxed);
        }
        self.tell();
    }
}

const PIECES: [&[u8]; 12] = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /later HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /stream HTTP/1.0\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\nhalf",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"GET / HT",
    b"garbage\r\n\r\n",
    b"",
];

/// One client: after any failure, it still leaves in its way.
fn misbehave(address: SocketAddr, dice: &mut Dice) -> Option<TcpStream> {
    let mut peer = client(address);
    peer.set_nonblocking(true).unwrap();
    for _ in 0..dice.roll(5) {
        let piece = PIECES[usize::try_from(dice.roll(PIECES.len() as u64)).unwrap()];
        let _ = peer.write(piece);
        match dice.roll(4) {
            0 => drop(peer.read(&mut [0; 1000])),
            1 => std::thread::yield_now(),
            _ => {}
        }
    }
    match dice.roll(5) {
        0 => reset(peer),
        1 => drop(peer),
        2 => {
            let _ = peer.shutdown(Shutdown::Write);
            return Some(peer);
        }
        3 => {
            let _ = peer.shutdown(Shutdown::Write);
            reset(peer);
        }
        _ => return Some(peer),
    }
    None
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn random_clients_leave_no_connection_or_memory() {
    let seed = number("OLIVINE_NET_SEED", 1);
    let clients = number("OLIVINE_NET_CLIENTS", 600);
    for backend in backends() {
        println!("{backend:?}: seed {seed}, {clients} clients");
        let mut dice = Dice(seed);
        let settings = config(backend)
            .idle_timeout(Some(BRIEF))
            .write_timeout(Some(BRIEF))
            .linger(BRIEF)
            .high_water(100_000)
            .low_water(10_000)
            .send_kernel_bytes(Some(16 * 1024));
        let limits = Limits::default()
            .header_timeout(BRIEF)
            .body_timeout(BRIEF)
            .idle_timeout(BRIEF)
            .answer_timeout(Some(BRIEF))
            .half_closed_timeout(Some(BRIEF / 2))
            .bodies_bytes_max(2 << 20);
        let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let counted = Arc::clone(&counts);
        let app = move |_| App {
            counts: Arc::clone(&counted),
            ..App::default()
        };
        let engine = http::serve(settings, limits, app).unwrap();
        let address = engine.local_address().unwrap();
        let held: Vec<_> = (0..clients)
            .filter_map(|_| misbehave(address, &mut dice))
            .collect();
        wait_until("all have ended", || {
            let counters = engine.counters()[0];
            counters.accepted == clients && counters.closed == clients && counters.open == 0
        });
        let health = engine.health().remove(0);
        assert_eq!(health.state, ShardState::Running, "{backend:?}");
        assert_eq!(
            (health.body_bytes, health.connections),
            (0, 0),
            "{backend:?}"
        );
        let (open, twice) = (&counts.0, &counts.1);
        assert_eq!(open.load(Ordering::Relaxed), 0, "{backend:?}: still owed");
        assert_eq!(
            twice.load(Ordering::Relaxed),
            0,
            "{backend:?}: reported twice"
        );
        drop(held);
        assert_eq!(engine.stop(Duration::ZERO).failed_shards, [0; 0]);
    }
}
