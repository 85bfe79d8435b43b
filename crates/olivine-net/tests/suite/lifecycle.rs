//! How connections come and go: time-outs, attempts, caps, resets and churn, on every back end.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener},
    sync::{Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    backends, client, config, exchange, next,
    probe::{Order, Seen, event, hold, opened, post, start, start_with},
    read_to_end, reset, wait_until,
};
use olivine_net::{Backend, CloseReason, ConnectionId, Engine, Handler, Origin, Shard};

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

/// Reads a little now and then, until the connection is cut or, if it may be that slow, for more
/// than two windows; and then all.
fn read_slowly(backend: Backend, rate_min: Option<u32>) {
    const WINDOW: Duration = Duration::from_secs(1);
    const LENGTH: usize = 16 << 20;
    let settings = config(backend)
        .write_timeout(Some(WINDOW))
        .write_rate_min(rate_min)
        .send_kernel_bytes(Some(16 * 1024));
    let (engine, events, address) = start(settings);
    let mut peer = client(address);
    rustix::net::sockopt::set_socket_recv_buffer_size(&peer, 16 * 1024).unwrap();
    let id = opened(&events);
    post(&engine, Order::Offer(id, vec![1; LENGTH]));
    let (mut piece, mut read, begun) = ([0; 2048], 0, Instant::now());
    let closed = loop {
        // Paces the reads.
        if let Ok(Seen::Close(reason)) = events.recv_timeout(Duration::from_millis(1)) {
            break Some(reason);
        }
        if rate_min.is_none() && begun.elapsed() > WINDOW * 5 / 2 {
            break None;
        }
        // Fails once it is cut.
        read += peer.read(&mut piece).unwrap_or(0);
    };
    let what = format!("{backend:?}: {read} of {LENGTH} bytes");
    if rate_min.is_some() {
        assert_eq!(closed, Some(CloseReason::WriteTimeout), "{what}");
        assert_eq!(engine.counters()[0].timed_out, 1, "{what}");
        assert!((1..LENGTH).contains(&read), "{what}");
    } else {
        assert_eq!(closed, None, "{what}");
        let mut rest = vec![0; LENGTH - read];
        peer.read_exact(&mut rest).unwrap();
        assert_eq!(engine.counters()[0].timed_out, 0, "{what}");
    }
}

#[test]
fn peer_that_reads_too_slowly_is_timed_out() {
    let cases = backends()
        .into_iter()
        .flat_map(|backend| [Some(1 << 30), None].map(|rate_min| (backend, rate_min)));
    let threads = cases.map(|(backend, rate)| thread::spawn(move || read_slowly(backend, rate)));
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}

#[test]
fn connect_errors_name_the_reason() {
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
        // A port that was free a moment ago, without a listener.
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
fn connection_attempt_times_out() {
    for backend in backends() {
        let (engine, events, _) = start(config(backend));
        // A listener with a full queue accepts no further attempt.
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
fn connection_limit_refuses_the_next_one() {
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
fn reset_in_any_state_leaves_other_connections_open() {
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

/// A receive that takes the bytes must not hide the reset. Nothing is sent, which would find it.
#[test]
fn reset_right_behind_bytes_is_reported() {
    const COUNT: usize = 10_000;
    for backend in backends() {
        let (engine, _, address) = start_with(config(backend), 1000, false);
        let (stop, stopped) = mpsc::channel::<()>();
        // It keeps the shard awake, at another place of its loop each time.
        let busy = thread::spawn(move || {
            let mut peer = client(address);
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                exchange(&mut peer, &[b'b'; 1000], 1000);
            }
        });
        for _ in 0..COUNT {
            let mut peer = client(address);
            peer.write_all(b"a part").unwrap();
            reset(peer);
        }
        wait_until("all others are gone", || {
            let counters = &engine.counters()[0];
            counters.accepted > COUNT as u64 && counters.open == 1
        });
        drop(stop);
        busy.join().unwrap();
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

/// While the shard is busy, more connections come than it may accept at once. Then a peer of an old
/// connection sends bytes.
#[test]
fn connection_flood_does_not_block_open_connections() {
    const CROWD: usize = 400;
    for backend in backends() {
        let (engine, events, address) = start(config(backend).backlog(4096));
        let mut first = client(address);
        assert_eq!(exchange(&mut first, b"x", 1), b"x");
        let release = hold(&engine);
        let crowd: Vec<_> = (0..CROWD).map(|_| client(address)).collect();
        first.write_all(b"me too").unwrap();
        drop(release);
        let mut opened_before = 0;
        loop {
            match next(&events) {
                Seen::Open(..) => opened_before += 1,
                Seen::Data(6) => break,
                Seen::Data(_) | Seen::Held => {}
                other => panic!("{backend:?}: {other:?}"),
            }
        }
        assert!(
            opened_before < CROWD / 2,
            "{backend:?}: {opened_before} of {CROWD} newcomers were served first"
        );
        wait_until("all are in", || {
            engine.counters()[0].open == CROWD as u64 + 1
        });
        for mut peer in crowd {
            assert_eq!(exchange(&mut peer, b"hello", 5), b"hello", "{backend:?}");
        }
    }
}

/// Connections that the kernel has taken for us when the stop comes are served, not reset, also
/// where they are all there is.
#[test]
fn stop_accepts_waiting_connections() {
    for backend in backends() {
        let (engine, events, address) = start(config(backend));
        // The order to stop comes after the second pause, so that it is read before the listener is
        // looked at again.
        let first = hold(&engine);
        assert_eq!(next(&events), Seen::Held);
        let second = hold(&engine);
        let (reports, stopping) = mpsc::channel();
        let stopper = thread::spawn(move || {
            reports.send(()).unwrap();
            engine.stop(Duration::from_secs(10))
        });
        next(&stopping);
        drop(first);
        assert_eq!(next(&events), Seen::Held);
        let mut crowd: Vec<_> = (0..10).map(|_| client(address)).collect();
        for peer in &mut crowd {
            peer.write_all(b"served").unwrap();
        }
        drop(second);
        for mut peer in crowd {
            assert_eq!(read_to_end(&mut peer), b"served", "{backend:?}");
        }
        assert_eq!(stopper.join().unwrap().cut, 0, "{backend:?}");
    }
}

#[test]
fn abort_is_immediate_and_refuses_later_calls() {
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

/// Blocks its shard at `H` until it is released, and aborts connections that send anything else.
struct Aborts {
    held: mpsc::Sender<()>,
    release: mpsc::Receiver<()>,
}

impl Handler for Aborts {
    type Message = ();

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        if data == b"H" {
            self.held.send(()).unwrap();
            self.release.recv().unwrap();
        } else {
            shard.abort(id);
        }
        data.len()
    }
}

/// An abort must not look like a complete answer to a peer that has closed its own direction. Its
/// bytes and its end are there when the shard goes on.
#[test]
fn abort_of_a_half_closed_connection_resets_it() {
    for backend in backends() {
        let (held, is_held) = mpsc::channel();
        let (free, release) = mpsc::channel();
        let handler = Mutex::new(Some(Aborts { held, release }));
        let engine = Engine::start(config(backend), move |_| {
            handler.lock().unwrap().take().expect("one shard")
        })
        .unwrap();
        let address = engine.local_address().unwrap();
        let mut holder = client(address);
        for _ in 0..10 {
            let mut peer = client(address);
            wait_until("it is open", || engine.counters()[0].open == 2);
            holder.write_all(b"H").unwrap();
            is_held.recv().unwrap();
            peer.write_all(b"a part").unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            free.send(()).unwrap();
            let found = peer.read(&mut [0; 9]).map_err(|error| error.kind());
            assert_eq!(found, Err(ErrorKind::ConnectionReset), "{backend:?}");
            wait_until("it is gone", || engine.counters()[0].open == 1);
        }
    }
}
