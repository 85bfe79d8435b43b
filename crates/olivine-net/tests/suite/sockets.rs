//! Where an engine listens, sockets it is given, and connections that change their shard or come
//! from the program.

#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        unix::{
            fs::PermissionsExt,
            net::{UnixListener, UnixStream},
        },
    },
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::support::{
    WATCHDOG, backends, client, config, exchange, next,
    probe::{Order, Probe, Seen, event, opened, start, start_with},
    read_to_end, wait_until,
};
use olivine_net::{
    AcceptMode, Backend, CloseReason, ConnectionId, Counters, Engine, EngineConfig, Handler,
    Listen, ListenAddress, NotAdopted, Origin, Shard,
};

/// An engine like that of [`config`], without an address.
fn plain(backend: Backend) -> EngineConfig {
    EngineConfig::client()
        .threads(1)
        .pin(false)
        .backend(backend)
}

/// Answers each connection with the number of the place that accepted it.
#[derive(Debug)]
struct Places;

impl Handler for Places {
    type Message = ();

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        let place = shard.listener(id).unwrap();
        let peer = shard.peer_address(id).is_some();
        let _ = shard.offer(id, format!("{place} {peer}").as_bytes());
        data.len()
    }
}

fn unix_client(path: &std::path::Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream
}

fn ask(mut peer: impl Read + Write, length: usize) -> String {
    peer.write_all(b"?").unwrap();
    let mut answer = vec![0; length];
    peer.read_exact(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn several_addresses_and_a_unix_socket_are_served_by_one_engine() {
    let folder = tempfile::tempdir().unwrap();
    for backend in backends() {
        for threads in [1, 2] {
            let path = folder.path().join("socket");
            let settings = config(backend)
                .threads(threads)
                .listen(Listen::tcp("127.0.0.1:0".parse().unwrap()))
                .listen(Listen::unix(&path).mode(0o640));
            let engine = Engine::start(settings, |_| Places).unwrap();
            let [ListenAddress::Tcp(first), ListenAddress::Tcp(second), unix] = engine.addresses()
            else {
                panic!("{:?}", engine.addresses());
            };
            assert_eq!(engine.local_address(), Some(*first));
            assert_eq!(*unix, ListenAddress::Unix(Some(path.clone())));
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o640);
            for _ in 0..4 {
                assert_eq!(ask(client(*first), 6), "0 true", "{backend:?}");
                assert_eq!(ask(client(*second), 6), "1 true", "{backend:?}");
                assert_eq!(ask(unix_client(&path), 7), "2 false", "{backend:?}");
            }
            assert_eq!(engine.stop(Duration::from_secs(60)).cut, 0);
            assert!(!path.exists(), "{backend:?}: the socket is left behind");
        }
    }
}

#[test]
fn given_listeners_are_served_and_other_descriptors_refused() {
    for backend in backends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let kept = listener.try_clone().unwrap();
        let settings = plain(backend).threads(2).listen(Listen::given(listener));
        let engine = Engine::start(settings, |_| Places).unwrap();
        assert_eq!(engine.addresses(), [ListenAddress::Tcp(address)]);
        assert_eq!(ask(client(address), 6), "0 true", "{backend:?}");
        assert_eq!(engine.stop(Duration::from_secs(60)).cut, 0);
        // It listens on, because it is not the engine's alone.
        kept.set_nonblocking(false).unwrap();
        let waiting = TcpStream::connect(address).unwrap();
        drop((kept.accept().unwrap(), waiting));
    }
    let connected = UnixStream::pair().unwrap().0;
    let unbound = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    );
    let wrong: [OwnedFd; 3] = [
        connected.into(),
        unbound.unwrap(),
        fs::File::open("/dev/null").unwrap().into(),
    ];
    for descriptor in wrong {
        let settings = plain(Backend::Mio).listen(Listen::given(descriptor));
        let error = Engine::start(settings, |_| Places).unwrap_err().to_string();
        assert_eq!(error, "cannot listen on a given socket");
    }
}

/// Two shards, of which the first accepts.
fn pair(backend: Backend) -> EngineConfig {
    config(backend).threads(2).accept(AcceptMode::HandOver)
}

/// Connects until the connection is on `shard`.
fn on_shard(
    address: SocketAddr,
    events: &mpsc::Receiver<Seen>,
    shard: usize,
) -> (TcpStream, ConnectionId) {
    loop {
        let peer = client(address);
        let id = opened(events);
        if id.shard() == shard {
            return (peer, id);
        }
        drop(peer);
        while !matches!(event(events), Seen::Close(_)) {}
    }
}

#[test]
fn connection_moves_to_another_shard_with_all_its_bytes() {
    for backend in backends() {
        for target in [0, 1] {
            // Whole lines of 4 bytes are echoed; the rest stays unconsumed and goes along.
            let (engine, events, address) = start_with(pair(backend), 4, false);
            let (mut peer, id) = on_shard(address, &events, 0);
            peer.write_all(b"oneA-").unwrap();
            let mut echo = [0; 4];
            peer.read_exact(&mut echo).unwrap();
            assert_eq!(&echo, b"oneA");
            let large = vec![b'x'; 3_000_000];
            engine.post(0, Order::Offer(id, large.clone())).unwrap();
            engine.post(0, Order::HandOver(id, target, 7)).unwrap();
            // More arrives while it moves.
            let mut queued = vec![0; large.len()];
            peer.read_exact(&mut queued[..1]).unwrap();
            peer.write_all(b"twoB").unwrap();
            peer.read_exact(&mut queued[1..]).unwrap();
            let strange = queued.iter().position(|byte| *byte != b'x');
            assert_eq!(strange, None, "{backend:?}");
            let (mut moved, mut left) = (None, false);
            while moved.is_none() || !left {
                match event(&events) {
                    Seen::Open(id, Origin::HandedOver { token: 7 }) => moved = Some(id),
                    Seen::Close(CloseReason::HandedOver) => left = true,
                    Seen::End | Seen::Writable => {}
                    other => panic!("{backend:?}: {other:?}"),
                }
            }
            assert_eq!(moved.unwrap().shard(), target);
            peer.read_exact(&mut echo).unwrap();
            assert_eq!(&echo, b"-two", "{backend:?}");
            assert_eq!(exchange(&mut peer, b"CDE", 4), b"BCDE", "{backend:?}");
            drop(peer);
            wait_until("it is gone", || Counters::sum(&engine.counters()).open == 0);
            let total = Counters::sum(&engine.counters());
            assert_eq!((total.adopted, total.handed_over), (1, 1));
            assert_eq!(total.accepted, total.closed, "{backend:?}");
        }
    }
}

#[test]
fn moving_many_times_under_load_loses_nothing() {
    const MOVES: u64 = 200;
    for backend in backends() {
        let (engine, events, address) = start(pair(backend));
        let (mut peer, mut id) = on_shard(address, &events, 0);
        for round in 0..MOVES {
            let target = 1 - id.shard();
            let order = Order::HandOver(id, target, round);
            engine.post(id.shard(), order).unwrap();
            let bytes = round.to_le_bytes();
            assert_eq!(
                exchange(&mut peer, &bytes, 8),
                bytes,
                "{backend:?}: {round}"
            );
            id = loop {
                match event(&events) {
                    Seen::Open(id, Origin::HandedOver { token }) if token == round => break id,
                    Seen::Close(CloseReason::HandedOver) => {}
                    other => panic!("{backend:?}: {other:?}"),
                }
            };
            assert_eq!(id.shard(), target);
        }
    }
}

#[test]
fn hand_over_is_refused_or_ends_with_its_connection() {
    for backend in backends() {
        let (engine, events, address) = start(pair(backend));
        let (peer, id) = on_shard(address, &events, 0);
        engine.post(0, Order::HandOver(id, 2, 1)).unwrap();
        let Seen::Failed(1, error) = event(&events) else {
            panic!("handed to no shard");
        };
        assert_eq!(error, "the connection is not open");
        // Aborted on its way: nothing of it is left.
        engine.post(0, Order::HandOver(id, 1, 2)).unwrap();
        engine.post(0, Order::Abort(id)).unwrap();
        drop(peer);
        wait_until("it is gone", || Counters::sum(&engine.counters()).open == 0);
        engine.post(0, Order::HandOver(id, 1, 3)).unwrap();
        loop {
            if let Seen::Failed(3, _) = event(&events) {
                break;
            }
        }
        let report = engine.stop(Duration::from_secs(60));
        assert_eq!(
            (report.cut, report.failed_shards.len()),
            (0, 0),
            "{backend:?}"
        );
    }
}

/// Posts to itself when it has to stop.
struct LastWord(mpsc::Sender<u8>);

impl Handler for LastWord {
    type Message = u8;

    fn on_data(&mut self, _: &mut Shard<u8>, _: ConnectionId, data: &[u8]) -> usize {
        data.len()
    }

    fn on_stop(&mut self, shard: &mut Shard<u8>) {
        shard.post(0, 7).unwrap();
    }

    fn on_message(&mut self, _: &mut Shard<u8>, message: u8) {
        self.0.send(message).unwrap();
    }
}

#[test]
fn message_that_was_accepted_is_delivered_before_the_shard_ends() {
    for backend in backends() {
        for deadline in [0, 60] {
            let (told, messages) = mpsc::channel();
            let engine = Engine::start(config(backend), move |_| LastWord(told.clone())).unwrap();
            engine.stop(Duration::from_secs(deadline));
            assert_eq!(messages.try_recv(), Ok(7), "{backend:?}");
        }
    }
}

#[test]
fn given_listener_ends_with_its_engine_although_a_handle_lives() {
    for backend in backends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let settings = plain(backend).listen(Listen::given(listener));
        let (engine, _events, _) = start(settings);
        let handle = engine.handle();
        assert_eq!(ask(client(address), 1), "?");
        engine.stop(Duration::from_secs(60));
        wait_until("no socket listens", || {
            TcpStream::connect(address)
                .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
        });
        assert_eq!(handle.shards(), 1);
    }
}

#[test]
fn given_listeners_have_keep_alive_and_distinct_abstract_names() {
    use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr as UnixAddress};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let copy = listener.try_clone().unwrap();
    let keep_alive = Duration::from_secs(77);
    let mut settings = plain(Backend::Mio)
        .threads(2)
        .keep_alive(Some(keep_alive))
        .listen(Listen::given(listener));
    let names = [1, 2].map(|n| format!("olivine-{}-{n}\n", std::process::id()));
    let bind = |name: &String| {
        let address = UnixAddress::from_abstract_name(name).unwrap();
        UnixListener::bind_addr(&address).unwrap()
    };
    for listener in names.iter().map(bind) {
        settings = settings.listen(Listen::given(listener));
    }
    let (engine, ..) = start(settings);
    let address = |name: &String| ListenAddress::Abstract(name.as_bytes().to_vec());
    let [ListenAddress::Tcp(_), unix @ ..] = engine.addresses() else {
        panic!("{:?}", engine.addresses());
    };
    assert_eq!(unix, names.each_ref().map(address));
    let shown = format!("unix:@{}", names[0].trim_end());
    assert_eq!(unix[0].to_string(), format!("{shown}\\n"));
    let idle = rustix::net::sockopt::tcp_keepidle(&copy).unwrap();
    assert!(rustix::net::sockopt::socket_keepalive(&copy).unwrap());
    assert_eq!(idle, keep_alive);
}

#[test]
fn sockets_of_the_program_are_served_up_to_the_cap() {
    for backend in backends() {
        let settings = plain(backend).connections_max(2);
        let (engine, events, _) = start(settings);
        let handle = engine.handle();
        let (ours, mut peer) = UnixStream::pair().unwrap();
        handle.adopt(0, ours, 5).unwrap();
        assert!(matches!(
            event(&events),
            Seen::Open(_, Origin::Adopted { token: 5 })
        ));
        peer.set_read_timeout(Some(WATCHDOG)).unwrap();
        peer.write_all(b"ping").unwrap();
        let mut echo = [0; 4];
        peer.read_exact(&mut echo).unwrap();
        assert_eq!(&echo, b"ping", "{backend:?}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = client(listener.local_addr().unwrap());
        handle.adopt(0, listener.accept().unwrap().0, 6).unwrap();
        assert_eq!(exchange(&mut far, b"pong", 4), b"pong");
        let spare = || UnixStream::pair().unwrap().0;
        assert!(matches!(
            handle.adopt(0, spare(), 7),
            Err(NotAdopted::Full(_))
        ));
        assert!(matches!(
            handle.adopt(1, spare(), 7),
            Err(NotAdopted::Closed(_))
        ));
        let file = fs::File::open("/dev/null").unwrap();
        assert!(matches!(
            handle.adopt(0, file, 7),
            Err(NotAdopted::Unusable(_))
        ));
        assert!(matches!(
            handle.adopt(0, listener, 7),
            Err(NotAdopted::Unusable(_))
        ));
        drop((peer, far));
        wait_until("all are gone", || engine.counters()[0].open == 0);
        assert_eq!(engine.counters()[0].adopted, 2);
        assert_eq!(engine.stop(Duration::from_secs(60)).cut, 0);
        assert!(matches!(
            handle.adopt(0, spare(), 7),
            Err(NotAdopted::Closed(_))
        ));
    }
}

/// Connects, asks and leaves until `stop`; how often it was served, and how often it failed.
fn load(address: SocketAddr, stop: &mpsc::Receiver<()>) -> (u64, Vec<String>) {
    let (mut served, mut failures) = (0, Vec::new());
    while stop.try_recv() == Err(mpsc::TryRecvError::Empty) {
        let asked = crate::support::try_client(address).and_then(|mut peer| {
            peer.write_all(b"ping")?;
            let mut answer = [0; 4];
            peer.read_exact(&mut answer).map(|()| answer)
        });
        match asked {
            Ok(answer) if &answer == b"ping" => served += 1,
            Ok(answer) => failures.push(format!("{answer:?}")),
            Err(error) => failures.push(error.to_string()),
        }
    }
    (served, failures)
}

/// Replaces engines one by one while others connect.
fn restarts(backend: Backend, threads: usize) {
    let (mut engine, _events, address) = start(config(backend).threads(threads));
    let loads: Vec<_> = (0..2)
        .map(|_| {
            let (stop, stopped) = mpsc::channel();
            (stop, thread::spawn(move || load(address, &stopped)))
        })
        .collect();
    for _ in 0..10 {
        let listeners = engine.listeners().unwrap().into_iter().map(Listen::given);
        let settings = listeners.fold(plain(backend).threads(threads), EngineConfig::listen);
        let (following, _events, _) = start(settings);
        // Both accept now, whichever the kernel wakes; from the stop on it is the next engine.
        let report = engine.stop(Duration::from_secs(60));
        assert_eq!(
            (report.cut, report.failed_shards.len()),
            (0, 0),
            "{backend:?}"
        );
        let before = Counters::sum(&following.counters()).accepted;
        wait_until("the next engine serves", || {
            Counters::sum(&following.counters()).accepted > before
        });
        engine = following;
    }
    for (stop, load) in loads {
        drop(stop);
        let (served, failures) = load.join().unwrap();
        assert!(
            served > 0 && failures.is_empty(),
            "{backend:?}: {served} and {failures:?}"
        );
    }
}

#[test]
fn restart_under_load_refuses_no_connection() {
    for backend in backends() {
        for threads in [1, 2] {
            restarts(backend, threads);
        }
    }
}

const ROLE: &str = "OLIVINE_NET_INHERITS";

/// Whether a descriptor of this process is closed by `exec`, as the kernel says.
fn is_closed_on_exec(fd: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = u32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
    flags & rustix::fs::OFlags::CLOEXEC.bits() != 0
}

/// The command that starts this program again with `listener` as descriptor 3, passed by socket
/// activation with `variables`, as the test `name`.
fn inheriting(listener: &TcpListener, variables: &str, name: &str) -> Command {
    // The shell moves the socket from where it can be passed to where it is looked for.
    let script = format!("{variables} exec \"$0\" \"$@\" 3<&0 0</dev/null");
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("sockets::{name}"), "--nocapture"])
        .stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())));
    command
}

/// Not a test: the process that the next one starts. It serves what its parent passed to it, until
/// a signal.
#[test]
fn inheriting_server() {
    let Ok(backend) = std::env::var(ROLE) else {
        return;
    };
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM]).unwrap();
    let backend = if backend == "Mio" {
        Backend::Mio
    } else {
        Backend::IoUring
    };
    let listeners = Listen::inherited().unwrap();
    assert_eq!(
        listeners.iter().map(Listen::name).collect::<Vec<_>>(),
        ["web"]
    );
    assert!(Listen::inherited().unwrap().is_empty(), "given twice");
    assert!(is_closed_on_exec(3));
    let settings = listeners
        .into_iter()
        .fold(plain(backend), EngineConfig::listen);
    let (seen, _events) = mpsc::channel();
    let probe = move |_| Probe {
        frame: 1,
        busy: false,
        seen: seen.clone(),
        unsent: Vec::new(),
    };
    let engine = Engine::start(settings, probe).unwrap();
    println!("\nserving");
    signals.forever().next();
    let report = engine.stop(Duration::from_secs(60));
    assert_eq!((report.cut, report.failed_shards.len()), (0, 0));
}

#[test]
fn processes_replace_each_other_by_socket_activation() {
    for backend in backends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = || {
            let variables = "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web";
            let mut child = inheriting(&listener, variables, "inheriting_server")
                .env(ROLE, format!("{backend:?}"))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap() == "serving"));
            (child, lines)
        };
        let mut running = serve();
        let (stop, stopped) = mpsc::channel();
        let loaded = thread::spawn(move || load(address, &stopped));
        for _ in 0..3 {
            let following = serve();
            let (mut child, lines) = std::mem::replace(&mut running, following);
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            lines.for_each(drop);
            assert!(child.wait().unwrap().success(), "{backend:?}");
        }
        drop(stop);
        let (served, failures) = loaded.join().unwrap();
        assert!(
            served > 0 && failures.is_empty(),
            "{backend:?}: {served} and {failures:?}"
        );
        let (mut child, _lines) = running;
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

const WRONG: &str = "OLIVINE_NET_INHERITS_WRONGLY";

/// Not a test: a process that inherits less than the variables say, or without variables.
#[test]
fn inheriting_wrongly() {
    let Ok(expected) = std::env::var(WRONG) else {
        return;
    };
    let _own: Vec<_> = (0..4)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    for _ in 0..2 {
        match Listen::inherited() {
            Ok(listeners) => assert_eq!((listeners.len(), expected.as_str()), (0, "")),
            Err(error) => {
                let said = error.to_string();
                assert!(!expected.is_empty() && said.contains(&expected), "{said}");
            }
        }
        // It is still there, and not owned.
        assert!(!is_closed_on_exec(3));
    }
}

#[test]
fn refused_descriptors_are_left_as_they_were_inherited() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let cases = [
        ("LISTEN_PID=1 LISTEN_FDS=x", ""),
        ("LISTEN_FDS=1", ""),
        ("LISTEN_PID=$$", ""),
        ("LISTEN_PID=x LISTEN_FDS=1", "LISTEN_PID is not a number"),
        ("LISTEN_PID=$$ LISTEN_FDS=x", "LISTEN_FDS is not a number"),
        // The process has opened the next one, and it listens.
        (
            "LISTEN_PID=$$ LISTEN_FDS=2",
            "inherited descriptor 4: it is closed on exec",
        ),
        (
            "LISTEN_PID=$$ LISTEN_FDS=2 4</dev/null",
            "inherited descriptor 4: ",
        ),
        ("LISTEN_PID=$$ LISTEN_FDS=4294967295", "descriptor 4: "),
    ];
    for (variables, expected) in cases {
        let output = inheriting(&listener, variables, "inheriting_wrongly")
            .env(WRONG, expected)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{variables}: {said}");
        assert!(said.contains("1 passed"), "{variables}: {said}");
    }
}

#[test]
fn stopping_engine_leaves_a_new_peer_time_for_its_first_byte() {
    for backend in backends() {
        let (engine, events, address) = start(config(backend));
        let mut peer = client(address);
        opened(&events);
        let handle = engine.handle();
        handle.stop(Duration::from_secs(60));
        assert_eq!(exchange(&mut peer, b"late", 4), b"late", "{backend:?}");
        assert!(read_to_end(&mut peer).is_empty());
        assert_eq!(engine.wait().cut, 0, "{backend:?}");
        let _ = next(&events);
    }
}
