//! Engines as a whole: several shards, stopping, settings that cannot be obeyed, on every back end.

use std::{
    net::{SocketAddr, TcpListener},
    sync::mpsc,
    time::Duration,
};

use crate::support::{
    backends, client, config, exchange, next,
    probe::{Probe, opened, start, start_with},
    read_to_end,
};
use olivine_net::{
    AcceptMode, Backend, ConnectionId, Engine, EngineConfig, Handler, Origin, Shard, StartError,
};

#[test]
fn shards_exchange_messages_and_connections() {
    struct Relay(mpsc::Sender<(usize, u32)>);
    impl Handler for Relay {
        type Message = u32;
        fn on_open(&mut self, shard: &mut Shard<u32>, _: ConnectionId, _: Origin) {
            let _ = self.0.send((shard.index(), 0));
        }
        fn on_data(&mut self, _: &mut Shard<u32>, _: ConnectionId, data: &[u8]) -> usize {
            data.len()
        }
        fn on_message(&mut self, shard: &mut Shard<u32>, hops: u32) {
            if hops == 0 {
                let _ = self.0.send((shard.index(), hops));
            } else {
                shard
                    .post((shard.index() + 1) % shard.count(), hops - 1)
                    .unwrap();
            }
        }
    }
    for backend in backends() {
        let (sender, events) = mpsc::channel();
        let settings = config(backend).threads(3).accept(AcceptMode::HandOver);
        let engine = Engine::start(settings, move |_| Relay(sender.clone())).unwrap();
        engine.post(0, 10_000).unwrap();
        assert_eq!(next(&events), (10_000 % 3, 0));
        assert!(engine.post(3, 1).is_err());
        let address = engine.local_address().unwrap();
        let _peers: Vec<_> = (0..6).map(|_| client(address)).collect();
        let mut homes: Vec<_> = (0..6).map(|_| next(&events).0).collect();
        homes.sort_unstable();
        assert_eq!(homes, [0, 0, 1, 1, 2, 2]);
        assert_eq!(engine.stop(Duration::ZERO).failed_shards, [0; 0]);
    }
}

/// Posts numbered messages to the other shard, as fast as its mailbox takes them, and echoes
/// meanwhile.
struct Courier {
    sent: u64,
    came: u64,
    reports: mpsc::Sender<Result<usize, String>>,
}

const LETTERS: u64 = 100_000;

impl Courier {
    fn post(&mut self, shard: &mut Shard<u64>) {
        let other = 1 - shard.index();
        while self.sent < LETTERS && shard.post(other, self.sent).is_ok() {
            self.sent += 1;
        }
        if self.sent < LETTERS {
            // The mailbox is full: the other shard is behind.
            shard.set_timer(Duration::from_millis(1), 0);
        }
    }
}

impl Handler for Courier {
    type Message = u64;

    fn on_start(&mut self, shard: &mut Shard<u64>) {
        self.post(shard);
    }

    fn on_timer(&mut self, shard: &mut Shard<u64>, _: u64) {
        self.post(shard);
    }

    fn on_message(&mut self, shard: &mut Shard<u64>, number: u64) {
        if number != self.came {
            let _ = self
                .reports
                .send(Err(format!("{number} instead of {}", self.came)));
        }
        self.came += 1;
        if self.came == LETTERS {
            let _ = self.reports.send(Ok(shard.index()));
        }
    }

    fn on_data(&mut self, shard: &mut Shard<u64>, id: ConnectionId, data: &[u8]) -> usize {
        shard.offer(id, data).map_or(0, |()| data.len())
    }
}

#[test]
fn messages_between_busy_shards_arrive_once_in_order() {
    for backend in backends() {
        let (reports, received) = mpsc::channel();
        let settings = config(backend)
            .threads(2)
            .accept(AcceptMode::HandOver)
            .mailbox_max(1000);
        let courier = move |_| Courier {
            sent: 0,
            came: 0,
            reports: reports.clone(),
        };
        let engine = Engine::start(settings, courier).unwrap();
        let mut peers: Vec<_> = (0..4)
            .map(|_| client(engine.local_address().unwrap()))
            .collect();
        let mut done = Vec::new();
        while done.len() < 2 {
            for peer in &mut peers {
                assert_eq!(exchange(peer, b"busy", 4), b"busy", "{backend:?}");
            }
            done.extend(received.try_iter().map(Result::unwrap));
        }
        done.sort_unstable();
        assert_eq!(done, [0, 1]);
        let counters = engine.counters();
        assert!(counters.iter().all(|shard| shard.messages == LETTERS));
        assert!(counters.iter().all(|shard| shard.received_bytes > 0));
        drop(peers);
        assert_eq!(engine.stop(Duration::from_secs(5)).failed_shards, []);
    }
}

#[test]
fn connections_spread_over_the_listeners_of_all_shards() {
    for backend in backends() {
        let settings = config(backend).threads(2).accept(AcceptMode::PerShard);
        let (engine, events, address) = start(settings);
        let peers: Vec<_> = (0..64).map(|_| client(address)).collect();
        let mut homes = [0; 2];
        for _ in &peers {
            homes[opened(&events).shard()] += 1;
        }
        assert!(homes.iter().all(|home| *home > 0), "{backend:?}: {homes:?}");
        drop(engine);
    }
}

#[test]
fn graceful_stop_closes_idle_and_aborts_busy_at_the_deadline() {
    for backend in backends() {
        let (engine, events, address) = start(config(backend).linger(Duration::from_millis(100)));
        let mut peer = client(address);
        opened(&events);
        assert_eq!(exchange(&mut peer, b"x", 1), b"x");
        let stopper = std::thread::spawn(move || engine.stop(Duration::from_secs(10)));
        assert!(read_to_end(&mut peer).is_empty());
        drop(peer);
        assert_eq!(stopper.join().unwrap().cut, 0, "{backend:?}");

        let (engine, events, address) = start_with(config(backend), 1, true);
        let mut peer = client(address);
        opened(&events);
        let stopper = std::thread::spawn(move || engine.stop(Duration::from_secs(1)));
        assert_eq!(exchange(&mut peer, b"served", 6), b"served");
        assert!(read_to_end(&mut peer).is_empty());
        assert_eq!(stopper.join().unwrap().cut, 1, "{backend:?}");
    }
}

#[test]
fn listens_on_ipv6_and_obeys_ipv6_only() {
    let Ok(probe) = TcpListener::bind("[::1]:0") else {
        crate::support::skip("IPv6 is left out: this machine has none");
        return;
    };
    drop(probe);
    for only in [false, true] {
        let settings = EngineConfig::new("[::]:0".parse().unwrap());
        let (_engine, _, address) = start(settings.threads(1).pin(false).ipv6_only(only));
        let six = SocketAddr::new("::1".parse().unwrap(), address.port());
        assert_eq!(exchange(&mut client(six), b"6", 1), b"6");
        let four = SocketAddr::new("127.0.0.1".parse().unwrap(), address.port());
        assert_eq!(std::net::TcpStream::connect(four).is_err(), only);
    }
}

#[test]
fn unsupported_settings_are_refused_by_name() {
    let failure = |config| {
        let (seen, _) = mpsc::channel();
        let probe = move |_| Probe {
            frame: 1,
            busy: false,
            seen: seen.clone(),
            unsent: Vec::new(),
        };
        Engine::start(config, probe).map(drop).unwrap_err()
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = taken.local_addr().unwrap();
    for threads in [1, 2] {
        let error = failure(EngineConfig::new(busy).threads(threads).pin(false));
        assert_eq!(error.to_string(), format!("cannot listen on {busy}"));
    }
    let foreign: SocketAddr = "192.0.2.1:80".parse().unwrap();
    assert!(matches!(
        failure(EngineConfig::new(foreign)),
        StartError::Listen { .. }
    ));
    let error = failure(config(Backend::Mio).pin(true).cpus([4000]).threads(1));
    assert!(
        error.to_string().starts_with("CPU 4000 cannot be used"),
        "{error}"
    );
    let error = failure(config(Backend::Mio).pin(true).threads(1000));
    assert!(error.to_string().contains("physical cores"), "{error}");
}

/// The port of a stopped engine can be listened on at once.
#[test]
fn stopped_engine_frees_its_port() {
    for backend in backends() {
        let (engine, _events, address) = start(config(backend));
        let mut peer = client(address);
        assert_eq!(exchange(&mut peer, b"x", 1), b"x");
        engine.stop(Duration::ZERO);
        for _ in 0..20 {
            let again = EngineConfig::new(address)
                .threads(1)
                .pin(false)
                .backend(backend);
            let (engine, ..) = start(again);
            engine.stop(Duration::ZERO);
        }
    }
}
