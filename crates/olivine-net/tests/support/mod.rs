//! What every test here needs: engines on loopback, clients with a watchdog, both back ends.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "each test file uses a part of it"
)]

pub mod probe;

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use olivine_net::{Backend, Engine, EngineConfig, Handler, StartError, WaitStrategy};

/// A test that waits longer than this hangs and fails.
pub const WATCHDOG: Duration = Duration::from_secs(20);

/// An engine of one unpinned shard on a free loopback port.
pub fn config(backend: Backend) -> EngineConfig {
    EngineConfig::new("127.0.0.1:0".parse().unwrap())
        .threads(1)
        .pin(false)
        .wait(WaitStrategy::Block)
        .backend(backend)
}

/// Prints what a test skips, and why.
pub fn skip(why: &str) {
    // Past the capture of output: `cargo xtask test` counts the line.
    let _ = writeln!(io::stderr(), "skipped: {why}");
}

/// The back ends that this machine allows; prints which one is skipped.
pub fn backends() -> Vec<Backend> {
    struct Nothing;
    impl Handler for Nothing {
        type Message = ();
        fn on_data(
            &mut self,
            _: &mut olivine_net::Shard<()>,
            _: olivine_net::ConnectionId,
            data: &[u8],
        ) -> usize {
            data.len()
        }
    }
    let probe = Engine::start(config(Backend::IoUring), |_| Nothing);
    match probe {
        Ok(engine) => {
            engine.stop(Duration::ZERO);
            vec![Backend::Mio, Backend::IoUring]
        }
        Err(StartError::Backend { source, .. }) => {
            skip(&format!("io_uring is left out: {source}"));
            vec![Backend::Mio]
        }
        Err(error) => panic!("{error}"),
    }
}

/// A blocking client whose reads and writes fail after the watchdog's time.
pub fn client(address: SocketAddr) -> TcpStream {
    try_client(address).unwrap()
}

/// Like [`client`], for a server that may refuse the connection.
pub fn try_client(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WATCHDOG))?;
    stream.set_write_timeout(Some(WATCHDOG))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends all of `request` and reads exactly `length` bytes.
pub fn exchange(stream: &mut TcpStream, request: &[u8], length: usize) -> Vec<u8> {
    stream.write_all(request).unwrap();
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).unwrap();
    answer
}

/// Reads what is there. After a stop and a continue the read fails as interrupted, because the
/// socket has a time-out: it reads again.
pub fn read_some(stream: &mut TcpStream, piece: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Reads to the end of the stream; a reset ends it too.
pub fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match read_some(stream, &mut piece) {
            Ok(0) => return bytes,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return bytes,
            Err(error) => panic!("no end of the stream: {error}"),
        }
    }
}

/// The next message of a channel, within the watchdog's time.
pub fn next<T>(receiver: &Receiver<T>) -> T {
    match receiver.recv_timeout(WATCHDOG) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("nothing came within {WATCHDOG:?}"),
        Err(RecvTimeoutError::Disconnected) => panic!("the other side is gone"),
    }
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < WATCHDOG,
            "waited {WATCHDOG:?} in vain until {what}"
        );
        std::thread::yield_now();
    }
}

/// Makes the coming close of `stream` a reset.
pub fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}
