//! What peers can do to a server: each test has a server in a separate process, beside whose
//! attackers an honest client goes on, and whose descriptors and memory must be back to where they
//! were.

// Descriptors and memory are read from /proc, io_uring and seccomp are Linux's.
#![cfg(target_os = "linux")]

#[path = "support/server.rs"]
mod server;
mod support;

use std::{
    env,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use olivine_net::Backend;
use server::{Forbids, Server, Settings, serve};
use support::{backends, client, read_some, read_to_end, reset, try_client};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
/// Memory that may come and go with pools and the allocator's habits, in bytes.
const SLACK_BYTES: u64 = 4 << 20;

/// Not a test: the process that the others start.
#[test]
fn server() {
    serve();
}

/// A client that asks on and on, one request at a time, and checks each answer.
struct Honest {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Honest {
    fn start(address: SocketAddr) -> Self {
        let (stop, stopped) = mpsc::channel();
        let mut peer = client(address);
        ask(&mut peer);
        let thread = thread::spawn(move || {
            // At least once, also if it gets no CPU before it is to stop.
            loop {
                ask(&mut peer);
                if stopped.try_recv() != Err(mpsc::TryRecvError::Empty) {
                    break;
                }
            }
        });
        Self { stop, thread }
    }

    /// Ends it; it must have been served meanwhile, and on its first connection.
    fn was_unharmed(self) {
        drop(self.stop);
        self.thread.join().expect("the honest client was harmed");
    }
}

fn ask(peer: &mut TcpStream) {
    peer.write_all(GET).unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 512];
    while !answer.ends_with(b"Hello, World!") {
        let length = read_some(peer, &mut piece).unwrap();
        assert!(length > 0, "the server closed the connection");
        answer.extend_from_slice(&piece[..length]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[test]
fn slow_requests_time_out_without_harm() {
    for backend in backends() {
        let settings = Settings {
            timeout: Duration::from_millis(300),
            ..Settings::of(backend)
        };
        let mut server = Server::start(settings).unwrap();
        let honest = Honest::start(server.address);
        let before = server.descriptors();
        let cases: [&[u8]; 4] = [
            b"GET / HTTP/1.1\r\nHo",
            b"G",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345",
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12",
        ];
        let mut slow: Vec<_> = cases
            .iter()
            .cycle()
            .take(200)
            .map(|begun| {
                let mut peer = client(server.address);
                peer.write_all(begun).unwrap();
                peer
            })
            .collect();
        // One byte more now and then buys no time: the clock runs from the request's first byte.
        for peer in slow.iter_mut().step_by(3) {
            // Refused where its time is over already.
            let _ = peer.write_all(b"x");
        }
        for mut peer in slow {
            let answer = read_to_end(&mut peer);
            assert!(
                answer.starts_with(b"HTTP/1.1 408") || answer.starts_with(b"HTTP/1.1 400"),
                "{backend:?}: {:?}",
                String::from_utf8_lossy(&answer)
            );
        }
        server.settles_at(before, 201);
        honest.was_unharmed();
        assert_eq!(server.stop()["cut"], 0);
    }
}

/// A connection on which something was asked, or with `begun` as the start of its first request, to
/// a server that was stopped before the time for more was over.
fn paused(settings: Settings, begun: Option<&[u8]>) -> (Server, TcpStream) {
    for _ in 0..20 {
        let server = Server::start(settings).unwrap();
        let mut peer = client(server.address);
        match begun {
            None => ask(&mut peer),
            Some(begun) => {
                peer.write_all(begun).unwrap();
                // Its reply shows that the server has read everything before.
                ask(&mut client(server.address));
            }
        }
        server.pause();
        peer.set_nonblocking(true).unwrap();
        let seen = peer.peek(&mut [0]);
        peer.set_nonblocking(false).unwrap();
        // On a busy machine its time may be over first, which is correct too.
        if seen.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            return (server, peer);
        }
    }
    panic!("{settings:?}: each time the connection was closed before the process stopped")
}

#[test]
fn request_during_a_stop_is_answered() {
    const TIME: Duration = Duration::from_millis(500);
    let settings = |backend| Settings {
        timeout: TIME,
        idle_timeout: TIME,
        ..Settings::of(backend)
    };
    let body: &[u8] = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345";
    // Earlier data, and data that arrives while the process is stopped.
    let cases: [(Option<&[u8]>, &[u8]); 4] = [
        (None, GET),
        (Some(b""), GET),
        (Some(b"GET / HTTP/1.1\r\nHo"), b"st: h\r\n\r\n"),
        (Some(body), b"67890"),
    ];
    let all = backends()
        .into_iter()
        .flat_map(|backend| cases.iter().map(move |case| (backend, *case)));
    let mut stopped: Vec<_> = all
        .map(|(backend, (begun, rest))| (paused(settings(backend), begun), begun, rest))
        .collect();
    for ((_, peer), _, rest) in &mut stopped {
        peer.write_all(rest).unwrap();
    }
    // Twice each time-out passes: elsewhere, one connection after the other is closed for being
    // idle.
    let clock = Server::start(settings(Backend::Mio)).unwrap();
    for _ in 0..2 {
        let mut idle = client(clock.address);
        ask(&mut idle);
        assert!(read_to_end(&mut idle).is_empty());
    }
    for ((server, mut peer), begun, _) in stopped {
        server.go_on();
        let answer = read_to_end(&mut peer);
        assert!(
            answer.ends_with(b"Hello, World!"),
            "{}: closed with a request unread, after {:?}",
            server.backend,
            begun.map(String::from_utf8_lossy)
        );
        server.stop();
    }
}

/// Connects, does one thing and goes, `count` times.
fn churn(server: &Server, count: u32) {
    for round in 0..count {
        let by_reset = round / STATES % 2 == 1;
        #[cfg(feature = "rustls")]
        if round % STATES >= PLAIN_STATES {
            let peer = sealed(server, round % STATES - PLAIN_STATES);
            if by_reset {
                reset(peer);
            }
            continue;
        }
        let mut peer = client(server.address);
        let begin = |mut peer: &TcpStream, method: &str, path: &str, behind: &str| {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{behind}");
            peer.write_all(request.as_bytes()).unwrap();
        };
        let half = "Content-Length: 1000\r\n\r\nhalf of it";
        match round % STATES {
            0 => ask(&mut peer),
            1 => {
                ask(&mut peer);
                reset(peer);
                continue;
            }
            // Leaves while its request is in flight; the server finds no peer to answer.
            2 => peer.write_all(GET).unwrap(),
            3 => {}
            4 => begin(&peer, "GET", "/later", "\r\n"),
            5 => {
                begin(&peer, "GET", "/later", "\r\n");
                peer.shutdown(std::net::Shutdown::Write).unwrap();
            }
            // Its answer is read in part.
            6 => {
                begin(&peer, "GET", "/stream", "\r\n");
                peer.read_exact(&mut [0; 1000]).unwrap();
            }
            7 => begin(&peer, "POST", "/paused", half),
            8 => begin(&peer, "POST", "/upload", half),
            9 => begin(&peer, "POST", "/", half),
            10 => {
                begin(
                    &peer,
                    "GET",
                    "/upgrade",
                    "Connection: upgrade\r\nUpgrade: raw\r\n\r\n",
                );
                peer.read_exact(&mut [0; 12]).unwrap();
            }
            _ => peer.write_all(b"GET / HTTP/1.1\r\nHo").unwrap(),
        }
        // Every other one goes by a reset.
        if by_reset {
            reset(peer);
        }
    }
}

/// What a peer does before it goes: in clear, and under TLS.
const PLAIN_STATES: u32 = 12;
const STATES: u32 = PLAIN_STATES + if cfg!(feature = "rustls") { 4 } else { 0 };

/// Connects to the listener of TLS and does one thing.
#[cfg(feature = "rustls")]
fn sealed(server: &Server, state: u32) -> TcpStream {
    let (address, settings) = &server.sealed;
    let mut peer = server::tls::connect(*address, settings);
    match state {
        // Nothing, or a part of its first message.
        0 => {}
        1 => peer.sock.write_all(&[22, 3, 1, 2, 0, 1]).unwrap(),
        2 => {
            peer.conn.complete_io(&mut peer.sock).unwrap();
            peer.write_all(b"GET /later HTTP/1.1\r\nHost: h\r\n\r\n")
                .unwrap();
        }
        _ => {
            peer.write_all(GET).unwrap();
            peer.read_exact(&mut [0; 12]).unwrap();
            // In order.
            peer.conn.send_close_notify();
            peer.flush().unwrap();
        }
    }
    peer.sock
}

/// `OLIVINE_NET_CHURN` sets how many connections.
#[test]
fn churn_leaks_no_descriptors_or_memory() {
    /// Enough that pools and tables have their size.
    const WARM_UP: u32 = 2000;
    /// Memory of the server may be more at the end by so many bytes.
    const GROWN_MAX: u64 = 1 << 20;
    let count = env::var("OLIVINE_NET_CHURN").map_or(4000, |count| count.parse().unwrap());
    for backend in backends() {
        // Each peer ends without the server. If this process is stopped while a peer is half way
        // through a handshake, the server must not give that peer up.
        let settings = Settings {
            timeout: Duration::from_secs(3600),
            ..Settings::of(backend)
        };
        let mut server = Server::start(settings).unwrap();
        let before = server.descriptors();
        let honest = Honest::start(server.address);
        churn(&server, WARM_UP);
        server.settles_at(before + 1, u64::from(WARM_UP) + 1);
        let warm = server.resident_bytes();
        churn(&server, count);
        let accepted = u64::from(WARM_UP + count) + 1;
        server.settles_at(before + 1, accepted);
        let descriptors = server.descriptors() - before - 1;
        let grown = server.resident_bytes().saturating_sub(warm);
        println!(
            "{backend:?}: {count} connections: {descriptors} descriptors and {grown} bytes more"
        );
        assert_eq!(descriptors, 0, "{backend:?}");
        assert!(grown <= GROWN_MAX, "{backend:?}: {warm} bytes before");
        honest.was_unharmed();
        assert_eq!(server.stop()["accepted"], accepted);
    }
}

/// Memory of the process; the kernel's memory for a socket is not included.
#[test]
fn an_idle_connection_costs_little_memory() {
    const COUNT: usize = 4000;
    // Tables that double their size have room that is not used yet. A connection takes 500
    // bytes at most of it (`an_idle_connection_takes_at_most_500_bytes`).
    const EACH_MAX: u64 = 1000;
    for backend in backends() {
        let server = Server::start(Settings::of(backend)).unwrap();
        let crowd = |count: usize| -> Vec<_> {
            let mut crowd: Vec<_> = (0..count).map(|_| client(server.address)).collect();
            crowd.iter_mut().for_each(ask);
            crowd
        };
        // Pools and tables of the first few are there in any case.
        let first = crowd(100);
        let before = server.resident_bytes();
        let more = crowd(COUNT);
        let each = server.resident_bytes().saturating_sub(before) / COUNT as u64;
        println!("{backend:?}: {each} bytes for each idle connection");
        assert!(each <= EACH_MAX, "{backend:?}: {each} bytes each");
        drop((first, more));
        server.stop();
    }
}

#[test]
fn storms_of_resets_leave_nothing_behind() {
    const PIPELINE: usize = 500;
    for backend in backends() {
        let mut server = Server::start(Settings::of(backend)).unwrap();
        let before = server.descriptors();
        let honest = Honest::start(server.address);
        let pipeline = GET.repeat(PIPELINE);
        let cases: [&[u8]; 5] = [
            b"",
            GET,
            b"GET / HTTP/1.1\r\nHo",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nhalf of it",
            &pipeline,
        ];
        let mut warm = 0;
        for storm in 1..=10 {
            let crowd: Vec<_> = (0..100)
                .map(|index| {
                    let mut peer = client(server.address);
                    peer.write_all(cases[index % cases.len()]).unwrap();
                    peer
                })
                .collect();
            // The peer does not read: the server's answers are unread when the reset comes.
            crowd.into_iter().for_each(reset);
            server.settles_at(before + 1, storm * 100 + 1);
            if storm == 5 {
                warm = server.resident_bytes();
            }
        }
        let grown = server.resident_bytes().saturating_sub(warm);
        assert!(grown <= SLACK_BYTES, "{backend:?}: {grown} bytes more");
        honest.was_unharmed();
        assert_eq!(server.stop()["accepted"], 1001);
    }
}

#[test]
fn server_recovers_from_descriptor_exhaustion() {
    for backend in backends() {
        let settings = Settings {
            descriptors_max: Some(64),
            ..Settings::of(backend)
        };
        let mut server = Server::start(settings).unwrap();
        let before = server.descriptors();
        let honest = Honest::start(server.address);
        // Connections beyond the limit are reset at once, which `connect` may see already.
        let mut crowd: Vec<_> = (0..200)
            .filter_map(|_| match try_client(server.address) {
                Ok(peer) => Some(peer),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
                Err(error) => panic!("{backend:?}: {error}"),
            })
            .collect();
        let mut served = 0;
        for peer in &mut crowd {
            let answered = peer
                .write_all(GET)
                .and_then(|()| peer.read(&mut [0; 512]))
                .unwrap_or(0);
            served += usize::from(answered > 0);
        }
        assert!((1..64).contains(&served), "{backend:?}: {served} served");
        drop(crowd);
        server.settles_at(before + 1, served as u64 + 1);
        // All places are free again.
        let mut next: Vec<_> = (0..10).map(|_| client(server.address)).collect();
        next.iter_mut().for_each(ask);
        honest.was_unharmed();
        let counted = server.stop();
        assert_eq!(counted["refused"], 200 - served as u64, "{counted:?}");
    }
}

/// A profile may forbid making a ring, or using it later: a shard on such a ring would get no
/// events.
#[test]
fn forbidden_io_uring_is_replaced_or_reported() {
    for forbids in [Forbids::Setup, Forbids::Enter] {
        let forbidden = |backend| Settings {
            forbids,
            ..Settings::of(backend)
        };
        let server = Server::start(forbidden(Backend::Auto)).unwrap();
        assert_eq!(server.backend, "mio", "{forbids:?}");
        let why = "Operation not permitted";
        assert!(
            server.fallback.starts_with(why),
            "{forbids:?}: {}",
            server.fallback
        );
        ask(&mut client(server.address));
        server.stop();
        let said = Server::start(forbidden(Backend::IoUring)).unwrap_err();
        assert!(
            said.contains("io_uring") && said.contains(why),
            "{forbids:?}: {said}"
        );
    }
    let server = Server::start(Settings::of(Backend::Mio)).unwrap();
    assert_eq!(server.fallback, "");
    server.stop();
}
