//! The engine over real sockets, each claim on every back end that this machine allows.

mod support;

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener},
    sync::{Arc, mpsc},
    time::Duration,
};

use olivine_net::{
    AcceptMode, Backend, CloseReason, ConnectError, ConnectionId, Engine, EngineConfig, Handler,
    NotSent, Origin, Shard, StartError,
};
use support::{backends, client, config, exchange, next, read_to_end, reset, wait_until};

/// What a probe saw; sent out of the shard so that tests can wait for it.
#[derive(Debug, PartialEq)]
enum Seen {
    Open(ConnectionId, Origin),
    Data(usize),
    Writable,
    End,
    Close(CloseReason),
    Timer(u64),
    Failed(u64, String),
    Full(usize),
}

/// Orders to a probe.
enum Order {
    Connect(SocketAddr, Duration, u64),
    Timer(Duration, u64),
    Pause(ConnectionId),
    Resume(ConnectionId),
    Offer(ConnectionId, Vec<u8>),
    Share(ConnectionId, Arc<[u8]>),
    SendNow(ConnectionId, Vec<u8>),
    FillUp(ConnectionId),
    Close(ConnectionId),
    Abort(ConnectionId),
    Deadline(ConnectionId, Duration),
}

/// Echoes whole lines (or every byte with `frame` 1) and reports what happens.
struct Probe {
    frame: usize,
    busy: bool,
    seen: mpsc::Sender<Seen>,
    unsent: Vec<u8>,
}

impl Handler for Probe {
    type Message = Order;

    fn on_open(&mut self, _: &mut Shard<Order>, id: ConnectionId, origin: Origin) {
        let _ = self.seen.send(Seen::Open(id, origin));
    }

    fn on_data(&mut self, shard: &mut Shard<Order>, id: ConnectionId, data: &[u8]) -> usize {
        let whole = data.len() - data.len() % self.frame;
        let _ = self.seen.send(Seen::Data(data.len()));
        match shard.offer(id, &data[..whole]) {
            Ok(()) => whole,
            Err(_) => 0,
        }
    }

    fn on_writable(&mut self, shard: &mut Shard<Order>, id: ConnectionId) {
        let _ = self.seen.send(Seen::Writable);
        if !self.unsent.is_empty()
            && let Ok(sent) = shard.send_now(id, &self.unsent)
        {
            self.unsent.drain(..sent);
        }
    }

    fn on_end(&mut self, shard: &mut Shard<Order>, id: ConnectionId) {
        let _ = self.seen.send(Seen::End);
        shard.close(id);
    }

    fn on_close(&mut self, _: &mut Shard<Order>, _: ConnectionId, reason: CloseReason) {
        let _ = self.seen.send(Seen::Close(reason));
    }

    fn on_timer(&mut self, _: &mut Shard<Order>, token: u64) {
        let _ = self.seen.send(Seen::Timer(token));
    }

    fn on_message(&mut self, shard: &mut Shard<Order>, order: Order) {
        match order {
            Order::Connect(address, timeout, token) => {
                if let Err(error) = shard.connect(address, timeout, token) {
                    let _ = self.seen.send(Seen::Failed(token, error.to_string()));
                }
            }
            Order::Timer(after, token) => drop(shard.set_timer(after, token)),
            Order::Pause(id) => shard.pause(id),
            Order::Resume(id) => shard.resume(id),
            Order::Offer(id, bytes) => drop(shard.offer(id, &bytes)),
            Order::Share(id, bytes) => {
                for _ in 0..4 {
                    shard.offer(id, b"<").unwrap();
                    shard.offer_shared(id, Arc::clone(&bytes)).unwrap();
                    shard.offer(id, b">").unwrap();
                }
            }
            Order::SendNow(id, bytes) => {
                let sent = shard.send_now(id, &bytes).unwrap();
                self.unsent = bytes[sent..].to_vec();
            }
            Order::FillUp(id) => {
                let mut taken = 0;
                while shard.offer(id, &[b'x'; 1000]) != Err(NotSent::BackPressured) {
                    taken += 1000;
                }
                let _ = self.seen.send(Seen::Full(taken));
            }
            Order::Close(id) => shard.close(id),
            Order::Abort(id) => shard.abort(id),
            Order::Deadline(id, after) => shard.set_deadline(id, Some(after)),
        }
    }

    fn on_connect_failed(&mut self, _: &mut Shard<Order>, token: u64, error: ConnectError) {
        let _ = self.seen.send(Seen::Failed(token, error.to_string()));
    }

    fn is_idle(&self, _: ConnectionId) -> bool {
        !self.busy
    }
}

fn start(config: EngineConfig) -> (Engine<Probe>, mpsc::Receiver<Seen>, SocketAddr) {
    start_with(config, 1, false)
}

fn start_with(
    config: EngineConfig,
    frame: usize,
    busy: bool,
) -> (Engine<Probe>, mpsc::Receiver<Seen>, SocketAddr) {
    let (seen, events) = mpsc::channel();
    let probe = move |_| Probe {
        frame,
        busy,
        seen: seen.clone(),
        unsent: Vec::new(),
    };
    let engine = Engine::start(config, probe).unwrap();
    let address = engine
        .local_address()
        .unwrap_or_else(|| "127.0.0.1:9".parse().unwrap());
    (engine, events, address)
}

/// The next event that is not about data.
fn event(events: &mpsc::Receiver<Seen>) -> Seen {
    loop {
        match next(events) {
            Seen::Data(_) => {}
            other => return other,
        }
    }
}

fn opened(events: &mpsc::Receiver<Seen>) -> ConnectionId {
    match event(events) {
        Seen::Open(id, _) => id,
        other => panic!("{other:?} instead of an open connection"),
    }
}

fn post(engine: &Engine<Probe>, order: Order) {
    assert!(engine.post(0, order).is_ok());
}

#[test]
fn echoes_and_tells_of_the_close() {
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
fn leaving_too_much_unconsumed_closes_the_connection() {
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
fn a_slow_reader_stops_our_reading_and_loses_nothing() {
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
        // Nobody reads until the engine has stopped taking bytes in.
        let read = || engine.counters()[0].received_bytes;
        let mut last = 0;
        wait_until("reading stalls", || {
            for _ in 0..2000 {
                std::thread::yield_now();
            }
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
fn refused_bytes_lead_to_on_writable() {
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
fn a_paused_connection_is_not_shown_until_it_resumes() {
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

#[test]
fn timers_fire_in_order_and_deadlines_end_connections() {
    for backend in backends() {
        let (engine, events, address) = start(config(backend));
        for (after, token) in [(30, 3), (1, 1), (15, 2)] {
            post(&engine, Order::Timer(Duration::from_millis(after), token));
        }
        assert_eq!(
            [event(&events), event(&events), event(&events)],
            [1, 2, 3].map(Seen::Timer)
        );
        let mut peer = client(address);
        let id = opened(&events);
        post(&engine, Order::Deadline(id, Duration::from_millis(5)));
        assert_eq!(event(&events), Seen::Close(CloseReason::Deadline));
        assert!(read_to_end(&mut peer).is_empty());
        assert_eq!(engine.counters()[0].timed_out, 1);
    }
}

#[test]
fn idle_and_stuck_peers_are_timed_out() {
    for backend in backends() {
        let brief = Some(Duration::from_millis(30));
        let (_engine, events, address) = start(config(backend).idle_timeout(brief));
        let mut peer = client(address);
        opened(&events);
        assert!(read_to_end(&mut peer).is_empty());
        drop(peer);
        assert_eq!(event(&events), Seen::Close(CloseReason::IdleTimeout));

        let settings = config(backend)
            .write_timeout(brief)
            .send_kernel_bytes(Some(4096));
        let (engine, events, address) = start(settings);
        let peer = client(address);
        let id = opened(&events);
        post(&engine, Order::Offer(id, vec![0; 16 << 20]));
        assert_eq!(
            event(&events),
            Seen::Close(CloseReason::WriteTimeout),
            "{backend:?}"
        );
        drop(peer);
    }
}

#[test]
fn connects_and_names_why_it_could_not() {
    for backend in backends() {
        let (engine, events, address) = start(config(backend));
        let second = Duration::from_secs(5);
        post(&engine, Order::Connect(address, second, 7));
        let mut origins = Vec::new();
        for _ in 0..2 {
            if let Seen::Open(_, origin) = event(&events) {
                origins.push(origin);
            }
        }
        assert!(origins.contains(&Origin::Accepted), "{backend:?}");
        assert!(
            origins.contains(&Origin::Connected { token: 7 }),
            "{backend:?}"
        );
        // A port that was free a moment ago and that nobody listens on.
        let closed = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        post(&engine, Order::Connect(closed, second, 8));
        assert_eq!(
            event(&events),
            Seen::Failed(8, format!("cannot connect to {closed}"))
        );
        assert_eq!(engine.counters()[0].connect_failed, 1);
    }
}

#[test]
fn a_connection_attempt_ends_with_its_timeout() {
    for backend in backends() {
        let (engine, events, _) = start(config(backend));
        // A listener whose queue is full answers no further attempt.
        let full = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        )
        .unwrap();
        rustix::net::bind(&full, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
        rustix::net::listen(&full, 0).unwrap();
        let address = SocketAddr::try_from(rustix::net::getsockname(&full).unwrap()).unwrap();
        let timeout = Duration::from_millis(100);
        for token in 0..8 {
            post(&engine, Order::Connect(address, timeout, token));
        }
        loop {
            if let Seen::Failed(_, text) = event(&events) {
                assert_eq!(
                    text,
                    format!("connecting to {address} took longer than {timeout:?}")
                );
                break;
            }
        }
    }
}

#[test]
fn shards_post_to_each_other_and_connections_are_handed_over() {
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
fn the_connection_cap_turns_the_next_one_away() {
    for backend in backends() {
        let (engine, events, address) = start(config(backend).connections_max(2));
        let mut first = client(address);
        let second = client(address);
        opened(&events);
        opened(&events);
        assert!(read_to_end(&mut client(address)).is_empty());
        wait_until("it is counted", || engine.counters()[0].refused_cap == 1);
        assert_eq!(exchange(&mut first, b"still served", 12), b"still served");
        drop(second);
        assert_eq!(event(&events), Seen::End);
        assert!(matches!(event(&events), Seen::Close(_)));
        wait_until("its place is free", || engine.counters()[0].open == 1);
        assert_eq!(exchange(&mut client(address), b"next", 4), b"next");
    }
}

#[test]
fn a_graceful_stop_closes_idle_connections_and_cuts_busy_ones_at_the_deadline() {
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
fn resets_at_every_state_leave_the_others_alone() {
    for backend in backends() {
        let settings = config(backend)
            .send_kernel_bytes(Some(4096))
            .linger(Duration::from_secs(60));
        let (engine, events, address) = start(settings);
        let mut bystander = client(address);
        opened(&events);
        for state in [
            "fresh",
            "after data",
            "data unread",
            "we are writing",
            "we have closed",
        ] {
            let mut peer = client(address);
            let id = opened(&events);
            match state {
                "after data" => drop(exchange(&mut peer, b"abc", 3)),
                "data unread" => peer.write_all(b"abc").unwrap(),
                "we are writing" => post(&engine, Order::Offer(id, vec![1; 900_000])),
                "we have closed" => {
                    post(&engine, Order::Close(id));
                    assert!(read_to_end(&mut peer).is_empty());
                }
                _ => {}
            }
            reset(peer);
            loop {
                match event(&events) {
                    Seen::Close(_) => break,
                    Seen::End => {}
                    other => panic!("{backend:?} {state}: {other:?}"),
                }
            }
            assert_eq!(
                exchange(&mut bystander, b"alive", 5),
                b"alive",
                "{backend:?} {state}"
            );
        }
        wait_until("all are gone", || engine.counters()[0].open == 1);
    }
}

#[test]
fn churn_leaves_nothing_behind() {
    for backend in backends() {
        let (engine, events, address) = start(config(backend));
        for round in 0..1000_u32 {
            let mut peer = client(address);
            if round % 3 > 0 {
                assert_eq!(exchange(&mut peer, b"ab", 2), b"ab");
            }
            if round % 5 == 0 {
                reset(peer);
            }
        }
        wait_until("all are gone", || engine.counters()[0].open == 0);
        drop(engine);
        let closes = events
            .iter()
            .filter(|seen| matches!(seen, Seen::Close(_)))
            .count();
        assert_eq!(closes, 1000, "{backend:?}");
    }
}

#[test]
fn aborts_at_once_and_refuses_what_comes_after() {
    for backend in backends() {
        let (engine, events, address) = start(config(backend));
        let mut peer = client(address);
        let id = opened(&events);
        post(&engine, Order::Abort(id));
        post(&engine, Order::Offer(id, b"too late".to_vec()));
        assert_eq!(event(&events), Seen::Close(CloseReason::Aborted));
        assert!(read_to_end(&mut peer).is_empty());
    }
}

#[test]
fn listens_on_ipv6_and_obeys_ipv6_only() {
    let Ok(probe) = TcpListener::bind("[::1]:0") else {
        println!("IPv6 is left out: this machine has none");
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
fn refuses_what_it_cannot_obey_by_name() {
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
fn a_stopped_engine_frees_its_port() {
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

#[test]
fn a_panicking_handler_ends_its_shard_and_is_reported() {
    struct Bomb;
    impl Handler for Bomb {
        type Message = ();
        fn on_data(&mut self, _: &mut Shard<()>, _: ConnectionId, _: &[u8]) -> usize {
            panic!("on purpose")
        }
    }
    for backend in backends() {
        let engine = Engine::start(config(backend), |_| Bomb).unwrap();
        let mut peer = client(engine.local_address().unwrap());
        peer.write_all(b"boom").unwrap();
        assert!(read_to_end(&mut peer).is_empty());
        wait_until("the mailbox closes", || engine.post(0, ()).is_err());
        assert_eq!(engine.stop(Duration::from_secs(1)).failed_shards, [0]);
    }
}
