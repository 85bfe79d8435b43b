//! The file of a Unix socket: taken over from the dead, kept from the living, removed at the end.

#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::Barrier,
    thread,
};

use olivine_net::{
    ConnectionId, Engine, EngineConfig, Handler, Listen, Shard, StartError, WaitStrategy,
};

/// Answers with its name.
#[derive(Debug)]
struct Named(u8);

impl Handler for Named {
    type Message = ();

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        let _ = shard.offer(id, &[self.0]);
        data.len()
    }
}

fn start(path: &Path, name: u8) -> Result<Engine<Named>, StartError> {
    let config = EngineConfig::client().threads(1).pin(false);
    let config = config
        .wait(WaitStrategy::Block)
        .listen(Listen::unix(path).mode(0o600));
    Engine::start(config, move |_| Named(name))
}

/// The name of the engine that serves `path`.
fn ask(path: &Path) -> u8 {
    let mut peer = UnixStream::connect(path).unwrap();
    peer.set_read_timeout(Some(crate::support::WATCHDOG))
        .unwrap();
    peer.write_all(b"?").unwrap();
    let mut name = [0];
    peer.read_exact(&mut name).unwrap();
    name[0]
}

/// Leaves a socket behind, as a process does that is killed.
fn leave_dead(path: &Path) {
    drop(UnixListener::bind(path).unwrap());
    assert!(path.exists());
}

fn is_in_use(error: &StartError, path: &Path) -> bool {
    match error {
        StartError::Listen { place, source } => {
            *place == path.display().to_string() && source.kind() == ErrorKind::AddrInUse
        }
        _ => false,
    }
}

#[test]
fn unix_socket_is_taken_over_from_the_dead_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    leave_dead(&path);
    let engine = start(&path, 1).unwrap();
    assert_eq!(ask(&path), 1);
    let error = start(&path, 2).unwrap_err();
    assert!(is_in_use(&error, &path), "{error:?}");
    assert_eq!(ask(&path), 1);
    drop(engine);
    // Another file stays what it is.
    fs::write(&path, b"precious").unwrap();
    assert!(is_in_use(&start(&path, 3).unwrap_err(), &path));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    fs::remove_file(&path).unwrap();
    // A socket that another process has put in place of ours stays.
    let engine = start(&path, 4).unwrap();
    fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(engine);
    assert!(path.exists());
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// What the first of two starters has bound, the second must not take for dead: neither before it
/// listens nor after.
#[test]
fn one_of_many_starters_gets_the_socket_and_is_reached() {
    const STARTERS: u8 = 4;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    for round in 0..50 {
        if round % 2 == 0 {
            leave_dead(&path);
        }
        let together = Barrier::new(usize::from(STARTERS));
        let start = |name| {
            together.wait();
            start(&path, name)
        };
        let started: Vec<_> = thread::scope(|scope| {
            let start = &start;
            let threads: Vec<_> = (0..STARTERS)
                .map(|name| scope.spawn(move || start(name)))
                .collect();
            threads.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let won: Vec<_> = (0..STARTERS)
            .filter(|name| started[usize::from(*name)].is_ok())
            .collect();
        let others = started.iter().filter_map(|result| result.as_ref().err());
        assert!(
            others.clone().all(|error| is_in_use(error, &path)),
            "{started:?}"
        );
        assert_eq!(won.len(), 1, "{round}: {started:?}");
        assert_eq!(ask(&path), won[0], "{round}");
        drop(started);
        assert!(!path.exists(), "{round}");
    }
}

/// An engine that ends must not remove the socket of the next one.
#[test]
fn socket_of_the_next_engine_survives_the_end_of_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    for round in 0..50 {
        let last = start(&path, 1).unwrap();
        let next = thread::scope(|scope| {
            let ending = scope.spawn(|| drop(last));
            let next = loop {
                match start(&path, 2) {
                    Ok(next) => break next,
                    Err(error) => assert!(is_in_use(&error, &path), "{error:?}"),
                }
            };
            ending.join().unwrap();
            next
        });
        assert_eq!(ask(&path), 2, "{round}");
        drop(next);
    }
}

/// A listener that accepts nothing and whose queue is full is alive, and the start does not wait
/// for it.
#[test]
fn full_queue_is_not_taken_for_a_dead_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
    let mut waiting = Vec::new();
    loop {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::NONBLOCK,
            None,
        )
        .unwrap();
        match rustix::net::connect(&socket, &address) {
            Ok(()) => waiting.push(socket),
            Err(error) => {
                assert_eq!(error, rustix::io::Errno::AGAIN);
                break;
            }
        }
    }
    assert!(!waiting.is_empty());
    assert!(is_in_use(&start(&path, 1).unwrap_err(), &path));
    assert!(path.exists());
}
