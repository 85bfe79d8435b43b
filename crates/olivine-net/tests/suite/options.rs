//! Every setting has an effect: checked at its visible result, on every back end.
//!
//! Those that shape how connections end are in `lifecycle.rs`, those that no engine can obey in
//! `shards.rs`.

// Sockets of the engine are found and copied by way of /proc and pidfd_getfd.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpListener},
    os::fd::{AsRawFd, OwnedFd},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::support::{
    backends, client, config, next,
    probe::{Order, Probe, Seen, event, hold, opened, post, start},
    read_to_end, wait_until,
};
use olivine_net::{
    Backend, CloseReason, ConnectionId, Engine, EngineConfig, Handler, NotPosted, Shard,
    StartError, Topology, WaitStrategy,
};
use rustix::{
    net::sockopt,
    process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open},
    thread::{CpuSet, UnshareFlags, sched_getaffinity, set_thread_uid, unshare_unsafe},
};

/// Another descriptor of the first socket of this process that is the wanted one.
fn socket_that(is_wanted: impl Fn(&OwnedFd) -> bool) -> OwnedFd {
    let process = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let numbers = fs::read_dir("/proc/self/fd").unwrap();
    let mut copies = numbers.filter_map(|entry| {
        let number = entry.unwrap().file_name().to_str()?.parse().ok()?;
        pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok()
    });
    copies.find(is_wanted).unwrap()
}

/// Where a socket is bound to.
fn name(socket: &OwnedFd) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()
}

/// The socket that is bound to `local` and connected to `remote`.
fn socket_between(local: SocketAddr, remote: SocketAddr) -> OwnedFd {
    socket_that(|socket| {
        let peer = rustix::net::getpeername(socket).ok().flatten();
        let peer = peer.and_then(|any| SocketAddr::try_from(any).ok());
        (name(socket), peer) == (Some(local), Some(remote))
    })
}

/// How many connections may wait for the listener of `address`, by the kernel's tables.
fn backlog_of(address: SocketAddr) -> u32 {
    let listens = |socket: &OwnedFd| sockopt::socket_acceptconn(socket) == Ok(true);
    let listener = socket_that(|socket| name(socket) == Some(address) && listens(socket));
    // SAFETY: all fields are integers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of_val(&info)).unwrap();
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `info`.
    let result = unsafe {
        libc::getsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0);
    // For a listener the field has this meaning, in `ss` too.
    info.tcpi_sacked
}

/// Idle time before the kernel asks the peer, time between two questions, and how many go
/// unanswered.
fn keep_alive_of(socket: &OwnedFd) -> (Duration, Duration, u32) {
    (
        sockopt::tcp_keepidle(socket).unwrap(),
        sockopt::tcp_keepintvl(socket).unwrap(),
        sockopt::tcp_keepcnt(socket).unwrap(),
    )
}

#[test]
fn connections_have_the_requested_options() {
    const SEND: usize = 20_000;
    const RECEIVE: usize = 30_000;
    let idle = Duration::from_secs(77);
    for backend in backends() {
        for nodelay in [false, true] {
            let settings = config(backend)
                .nodelay(nodelay)
                .keep_alive(Some(idle))
                .send_kernel_bytes(Some(SEND))
                .receive_kernel_bytes(Some(RECEIVE));
            let (engine, events, address) = start(settings);
            let peer = client(address);
            opened(&events);
            let accepted = socket_between(address, peer.local_addr().unwrap());
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let target = listener.local_addr().unwrap();
            post(&engine, Order::Connect(target, Duration::from_secs(20), 1));
            let (_other, from) = listener.accept().unwrap();
            opened(&events);
            for socket in [accepted, socket_between(from, target)] {
                assert_eq!(sockopt::tcp_nodelay(&socket).unwrap(), nodelay);
                assert!(sockopt::socket_keepalive(&socket).unwrap());
                assert_eq!(keep_alive_of(&socket), (idle, Duration::from_secs(10), 6));
                // The kernel doubles the requested size for its bookkeeping.
                let sizes = (
                    sockopt::socket_send_buffer_size(&socket).unwrap(),
                    sockopt::socket_recv_buffer_size(&socket).unwrap(),
                );
                assert_eq!(sizes, (2 * SEND, 2 * RECEIVE), "{backend:?}");
            }
        }
        let (_engine, events, address) = start(config(backend));
        let peer = client(address);
        opened(&events);
        let plain = socket_between(address, peer.local_addr().unwrap());
        assert!(sockopt::socket_keepalive(&plain).unwrap());
        let minute = Duration::from_secs(60);
        assert_eq!(keep_alive_of(&plain), (minute, Duration::from_secs(10), 6));
        assert!(sockopt::tcp_nodelay(&plain).unwrap());
        let (_engine, events, address) = start(config(backend).keep_alive(None));
        let peer = client(address);
        opened(&events);
        let silent = socket_between(address, peer.local_addr().unwrap());
        assert!(!sockopt::socket_keepalive(&silent).unwrap());
    }
}

#[test]
fn listener_has_the_requested_backlog() {
    for backend in backends() {
        for backlog in [1, 50] {
            let (_engine, _, address) = start(config(backend).backlog(backlog));
            assert_eq!(backlog_of(address), backlog, "{backend:?}");
        }
    }
}

/// Reports the CPUs that its shard may run on.
struct CpuReporter(mpsc::Sender<Vec<usize>>);

impl Handler for CpuReporter {
    type Message = ();

    fn on_start(&mut self, _: &mut Shard<()>) {
        self.0.send(allowed()).unwrap();
    }

    fn on_data(&mut self, _: &mut Shard<()>, _: ConnectionId, data: &[u8]) -> usize {
        data.len()
    }
}

/// The CPUs that this thread may run on.
fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

/// The CPUs of each shard's thread, by its affinity mask and by the engine.
fn places(config: EngineConfig) -> (Vec<Vec<usize>>, Vec<Option<usize>>) {
    let (reports, places) = mpsc::channel();
    let engine = Engine::start(config, move |_| CpuReporter(reports.clone())).unwrap();
    let shards = engine.cpus().len();
    let mut found: Vec<_> = (0..shards).map(|_| next(&places)).collect();
    found.sort();
    (found, engine.cpus().to_vec())
}

#[test]
fn threads_run_on_the_requested_cpus() {
    let ours = allowed();
    let address = "127.0.0.1:0".parse().unwrap();
    let cores = Topology::detect().unwrap();
    let cores: Vec<usize> = cores.cores().iter().map(|core| core.cpu).collect();
    let alone = |cpus: &[usize]| cpus.iter().map(|cpu| vec![*cpu]).collect::<Vec<_>>();
    for backend in backends() {
        let fresh = || {
            EngineConfig::new(address)
                .wait(WaitStrategy::Block)
                .backend(backend)
        };
        // By default one thread for each physical core, pinned to it.
        let (found, said) = places(fresh());
        assert_eq!(found, alone(&cores));
        assert_eq!(said.len(), cores.len());
        // As many as were asked for, where it was asked.
        assert_eq!(places(fresh().threads(1)).0.len(), 1);
        let last = *ours.last().unwrap();
        let (found, said) = places(fresh().cpus([last]));
        assert_eq!((found, said), (alone(&[last]), vec![Some(last)]));
        // Without pinning, any number, anywhere.
        let (found, said) = places(fresh().threads(3).pin(false));
        assert_eq!((found, said), (vec![ours.clone(); 3], vec![None; 3]));
    }
}

#[test]
fn address_port_and_back_end_are_the_requested_ones() {
    for backend in backends() {
        let (engine, _, first) = start(config(backend));
        let expected = match backend {
            Backend::Mio => "mio",
            _ => "io_uring",
        };
        assert_eq!(engine.backend(), expected);
        engine.stop(Duration::ZERO);
        // Another address of this machine, on which that port is free.
        let wanted: SocketAddr = SocketAddr::new("127.0.0.2".parse().unwrap(), first.port());
        let settings = EngineConfig::new(wanted).threads(1).pin(false);
        let (_engine, events, address) = start(settings.backend(backend));
        assert_eq!(address, wanted);
        drop(client(wanted));
        opened(&events);
    }
}

/// The rounds of the loop from one timer to the next, while nothing else happens.
fn idle_rounds(wait: WaitStrategy, backend: Backend) -> u64 {
    let (engine, events, _) = start(config(backend).wait(wait));
    let mut last = 0;
    for timer in 0..2 {
        post(&engine, Order::Timer(Duration::from_millis(50), timer));
        assert_eq!(event(&events), Seen::Timer(timer));
        let rounds = engine.counters()[0].rounds;
        last = rounds - std::mem::replace(&mut last, rounds);
    }
    last
}

#[test]
fn only_a_spinning_loop_runs_while_idle() {
    for backend in backends() {
        let block = idle_rounds(WaitStrategy::Block, backend);
        assert!(block < 20, "{backend:?}: {block} rounds");
        let brief = idle_rounds(WaitStrategy::Adaptive(Duration::ZERO), backend);
        assert!(brief < 20, "{backend:?}: {brief} rounds");
        let (engine, ..) = start(config(backend).wait(WaitStrategy::Spin));
        wait_until("it spins", || engine.counters()[0].rounds > 1000);
    }
}

#[test]
fn receive_is_limited_by_its_buffer() {
    const BYTES: usize = 1000;
    const TOTAL: usize = 100_000;
    for backend in backends() {
        let (engine, events, address) = start(config(backend).receive_buffer(BYTES));
        let release = hold(&engine);
        assert_eq!(next(&events), Seen::Held);
        let mut peer = client(address);
        let writer = thread::spawn(move || {
            peer.write_all(&[b'x'; TOTAL]).unwrap();
            peer
        });
        drop(release);
        opened(&events);
        let mut peer = writer.join().unwrap();
        let (mut all, mut most) = (0, 0);
        while all < TOTAL {
            let Seen::Data(length) = next(&events) else {
                panic!("something else than data")
            };
            (all, most) = (all + length, most.max(length));
        }
        assert_eq!(most, BYTES, "{backend:?}");
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&mut peer).len(), TOTAL);
    }
}

#[test]
fn mailbox_is_limited_to_its_capacity() {
    for backend in backends() {
        let (engine, events, _) = start(config(backend).mailbox_max(7));
        let release = hold(&engine);
        assert_eq!(next(&events), Seen::Held);
        let order = |token| Order::Timer(Duration::ZERO, token);
        for token in 0..7 {
            post(&engine, order(token));
        }
        assert!(matches!(
            engine.post(0, order(7)),
            Err(NotPosted::BackPressured(Order::Timer(_, 7)))
        ));
        drop(release);
        for _ in 0..7 {
            assert!(matches!(event(&events), Seen::Timer(0..7)));
        }
        post(&engine, order(8));
        assert_eq!(event(&events), Seen::Timer(8));
    }
}

/// A peer that does not close after we have is waited for as long as `linger` says.
#[test]
fn close_waits_for_the_peer_up_to_its_timeout() {
    for backend in backends() {
        for brief in [Duration::ZERO, Duration::from_millis(20)] {
            let (engine, events, address) = start(config(backend).linger(brief));
            let _peer = client(address);
            let id = opened(&events);
            post(&engine, Order::Close(id));
            assert_eq!(event(&events), Seen::Close(CloseReason::Closed));
        }
        let (engine, events, address) = start(config(backend).linger(Duration::from_secs(3600)));
        let mut peer = client(address);
        let id = opened(&events);
        post(&engine, Order::Close(id));
        assert!(read_to_end(&mut peer).is_empty());
        post(&engine, Order::Timer(Duration::from_millis(20), 1));
        assert_eq!(event(&events), Seen::Timer(1), "{backend:?}");
        drop(peer);
        assert_eq!(event(&events), Seen::Close(CloseReason::Closed));
    }
}

/// Port 80 belongs to the system. A thread without root rights, in a separate network where the
/// limit has not been lowered, acts as the ordinary user.
#[test]
fn a_port_that_needs_permission_is_refused_by_name() {
    let denied = thread::spawn(|| {
        let is_root = rustix::process::geteuid().is_root();
        // SAFETY: only the network of this thread is another one from now on; the thread ends with
        // this test, and shares no socket with others.
        let is_apart = is_root && unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.is_ok();
        let limit = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
        let limit: u16 = limit.unwrap_or_default().trim().parse().unwrap_or(0);
        if limit <= 80 && !is_apart {
            return Err(format!("ports from {limit} on are free for all"));
        }
        if is_root {
            set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
        }
        let address: SocketAddr = "0.0.0.0:80".parse().unwrap();
        let mut errors = Vec::new();
        for backend in backends() {
            let settings = EngineConfig::new(address).threads(1).pin(false);
            let (seen, _) = mpsc::channel();
            let probe = move |_| Probe {
                frame: 1,
                busy: false,
                seen: seen.clone(),
                unsent: Vec::new(),
            };
            errors.push(Engine::start(settings.backend(backend), probe).map(drop));
        }
        Ok(errors)
    });
    match denied.join().unwrap() {
        Err(why) => crate::support::skip(&why),
        Ok(errors) => {
            for error in errors {
                let Err(StartError::Listen { place, source }) = error else {
                    panic!("{error:?} instead of a refusal to listen")
                };
                assert!(place.ends_with(":80"), "{place}");
                assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
            }
        }
    }
}
