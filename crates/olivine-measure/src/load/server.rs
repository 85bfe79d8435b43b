//! The measured servers on `olivine-net`, and the plain loop for comparison.

use super::error::{LoadError, io};
use super::frames;
use crate::cpus;
use olivine_arena::error::chain;
use olivine_net::http::{self, Http, Limits, Request, Responder, Service, StaticAnswer};
use olivine_net::{
    Backend, CloseReason, ConnectionId, Engine, EngineConfig, Handler, Origin, Shard, Slots,
    WaitStrategy,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// Page that the HTTP servers here, and all rivals, answer.
pub const PATH: &str = "/plaintext";
/// Body of that answer.
pub const BODY: &str = "Hello, World!";

/// Receive buffer where streams of frames arrive: fewer and larger receives.
const FRAMES_RECEIVE_BYTES: usize = 256 * 1024;
/// Bytes per receive of the plain loop.
const BARE_BYTES: usize = 64 * 1024;
/// Time between two checks of the end.
const LOOK: Duration = Duration::from_millis(20);
/// Time for open connections at the end.
const GRACE: Duration = Duration::from_secs(2);
/// Failed receives of the plain loop between two checks.
const TRIES: u32 = 1 << 20;

/// A server to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// HTTP/1.1, every request parsed and checked.
    Hello,
    /// Requests counted by the empty line at their end, like servers that claim the highest
    /// figures.
    Unparsed,
    /// Echoes all input.
    Echo,
    /// Decodes frames and reports at the end how many were correct.
    Frames,
    /// Echoes all input: a plain loop of receive and send on one connection, always spinning. It
    /// uses no engine: it is the floor.
    Bare,
}

/// Options of a server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Its CPU.
    pub cpu: u32,
    /// The engine's kernel interface.
    pub backend: Backend,
    /// How the engine waits.
    pub wait: WaitStrategy,
}

/// Serves on a free port of the loopback interface, passed to `announce`, until `until` returns
/// true.
///
/// # Errors
///
/// [`LoadError::Start`] if the engine does not start, [`LoadError::System`] of the bare loop.
pub fn serve(
    kind: Kind,
    settings: Settings,
    announce: impl FnOnce(SocketAddr),
    until: impl FnMut() -> bool,
) -> Result<(), LoadError> {
    let cpu = usize::try_from(settings.cpu).unwrap_or(usize::MAX);
    let config = EngineConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)))
        .cpus([cpu])
        .backend(settings.backend)
        .wait(settings.wait);
    match kind {
        Kind::Hello => {
            let headers = [("Content-Type", "text/plain")];
            let answer = StaticAnswer::new(200, &headers, BODY.as_bytes())
                .map_err(|error| failed(&error))?;
            let service = move |_| Hello(answer.clone());
            run(
                http::serve(config, Limits::default(), service),
                announce,
                until,
            )
        }
        Kind::Unparsed => {
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{BODY}",
                BODY.len()
            );
            let handler = move |_| Unparsed(answer.clone().into_bytes());
            run(Engine::start(config, handler), announce, until)
        }
        Kind::Echo => run(Engine::start(config, |_| Echo), announce, until),
        Kind::Frames => {
            let config = config.receive_buffer(FRAMES_RECEIVE_BYTES);
            run(
                Engine::start(config, |_| Frames::default()),
                announce,
                until,
            )
        }
        Kind::Bare => bare(settings.cpu, announce, until),
    }
}

fn failed(error: &dyn std::error::Error) -> LoadError {
    LoadError::Start {
        server: "the engine".to_owned(),
        why: chain(error),
    }
}

fn run<H: Handler>(
    engine: Result<Engine<H>, olivine_net::StartError>,
    announce: impl FnOnce(SocketAddr),
    mut until: impl FnMut() -> bool,
) -> Result<(), LoadError> {
    let engine = engine.map_err(|error| failed(&error))?;
    if let Some(address) = engine.local_address() {
        announce(address);
    }
    while !until() {
        std::thread::park_timeout(LOOK);
    }
    engine.stop(GRACE);
    Ok(())
}

struct Hello(StaticAnswer);

impl Service for Hello {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        match (request.method(), request.path()) {
            ("GET" | "HEAD", PATH) => responder.send_static(http, &mut self.0),
            // Without headers the reply cannot be refused.
            _ => drop(responder.send(http, 404, &[], b"")),
        }
    }
}

struct Unparsed(Vec<u8>);

impl Handler for Unparsed {
    type Message = ();

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        let mut end = 0;
        for at in memchr::memmem::find_iter(data, b"\r\n\r\n") {
            if shard.offer(id, &self.0).is_err() {
                break;
            }
            end = at + 4;
        }
        end
    }
}

struct Echo;

impl Handler for Echo {
    type Message = ();

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        shard.offer(id, data).map_or(0, |()| data.len())
    }
}

/// Frames received and frames correct, by connection.
#[derive(Default)]
struct Frames {
    counts: Slots<(u64, u64)>,
}

impl Handler for Frames {
    type Message = ();

    fn on_open(&mut self, _: &mut Shard<()>, id: ConnectionId, _: Origin) {
        self.counts.insert(id, (0, 0));
    }

    fn on_data(&mut self, _: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        let Some((arrived, right)) = self.counts.get_mut(id) else {
            return data.len();
        };
        let (more, good) = frames::check(data, *arrived);
        *arrived += more;
        *right += good;
        data.len() - data.len() % frames::FRAME
    }

    fn on_end(&mut self, shard: &mut Shard<()>, id: ConnectionId) {
        if let Some(&(arrived, right)) = self.counts.get(id) {
            // A fresh queue accepts 16 bytes; if the peer is gone, they are useless.
            let _ = shard.offer(id, &frames::report(arrived, right));
        }
        shard.close(id);
    }

    fn on_close(&mut self, _: &mut Shard<()>, id: ConnectionId, _: CloseReason) {
        self.counts.remove(id);
    }
}

/// One connection after the other, without an engine.
fn bare(
    cpu: u32,
    announce: impl FnOnce(SocketAddr),
    mut until: impl FnMut() -> bool,
) -> Result<(), LoadError> {
    cpus::pin(cpu).map_err(|source| LoadError::Pin { cpu, source })?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(io("listen"))?;
    listener
        .set_nonblocking(true)
        .map_err(io("make a socket non-blocking"))?;
    announce(listener.local_addr().map_err(io("ask for the address"))?);
    let mut buffer = vec![0; BARE_BYTES];
    while !until() {
        let Ok((mut socket, _)) = listener.accept() else {
            std::thread::park_timeout(LOOK);
            continue;
        };
        socket.set_nodelay(true).map_err(io("set TCP_NODELAY"))?;
        socket
            .set_nonblocking(true)
            .map_err(io("make a socket non-blocking"))?;
        let mut tries = 0_u32;
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    // Ping-pong messages are smaller than any socket buffer.
                    if socket.write_all(&buffer[..length]).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    tries = tries.wrapping_add(1);
                    if tries.is_multiple_of(TRIES) && until() {
                        return Ok(());
                    }
                }
                Err(_) => break,
            }
        }
    }
    Ok(())
}
