//! The measured servers on `olivine-net`; `plain` has the loops that they are compared with.

use super::error::LoadError;
use super::{frames, plain};
use olivine_arena::error::chain;
use olivine_net::http::{self, Http, Limits, Request, Responder, Service, StaticAnswer};
use olivine_net::{
    Backend, CloseReason, ConnectionId, Engine, EngineConfig, Handler, Origin, Shard, Slots,
    WaitStrategy,
};
use std::net::SocketAddr;
use std::time::Duration;

/// Page that the HTTP servers here, and all rivals, answer.
pub const PATH: &str = "/plaintext";
/// Body of that answer.
pub const BODY: &str = "Hello, World!";

/// Receive buffer where streams of frames arrive: fewer and larger receives.
const FRAMES_RECEIVE_BYTES: usize = 256 * 1024;
/// Time between two checks of the end.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// Time for open connections at the end.
const GRACE: Duration = Duration::from_secs(2);

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
    /// Answers HTTP requests without reading them: a plain loop over epoll, with one receive and
    /// one send for each batch. It uses no engine: what it costs is the kernel's.
    Floor,
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
/// [`LoadError::Start`] if the engine does not start, [`LoadError::System`] of the plain loops.
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
            let handler = |_| Unparsed(plain_answer());
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
        Kind::Bare => plain::echo(settings.cpu, announce, until),
        Kind::Floor => plain::answer(settings.cpu, &plain_answer(), announce, until),
    }
}

/// The whole answer of the servers that parse nothing.
fn plain_answer() -> Vec<u8> {
    let length = BODY.len();
    // As long as that of the server that parses: a date costs its bytes.
    let date = "Date: Thu, 01 Jan 1970 00:00:00 GMT";
    let fields = format!("{date}\r\nContent-Type: text/plain\r\nContent-Length: {length}");
    format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{BODY}").into_bytes()
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
