//! A NATS server that is started for the measurement, with streams in a folder.

use crate::error::{Result, io};
use olivine_arena::error::ArenaError;
use olivine_arena::rendezvous::Held;
use olivine_arena::sys::process;
use rustix::process::Signal;
use std::cell::Cell;
use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How names of folders of servers start.
const PREFIX: &str = "olivine-nats-";
/// How long it may take to answer.
const START_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// A server; killed when dropped, and then its folder and streams are removed.
#[derive(Debug)]
pub(super) struct NatsServer {
    port: u16,
    child: process::Ended,
    _folder: Held,
    subjects: Cell<u32>,
}

/// The server's program: of `$OLIVINE_NATS_SERVER`, of the path, or where `cargo xtask test`
/// installs it.
fn program() -> Option<PathBuf> {
    let given = std::env::var_os("OLIVINE_NATS_SERVER").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("nats-server"));
    // This program is target/PROFILE/NAME.
    let own = std::env::current_exe().ok();
    let target = own.as_deref().and_then(|own| own.ancestors().nth(2));
    let installed = target.map(|target| target.join("tools/bin/nats-server"));
    let mut all = given.into_iter().chain(on_path).chain(installed);
    all.find(|program| program.is_file())
}

fn failed(message: &str) -> ArenaError {
    ArenaError::Library {
        library: "nats-server",
        message: message.to_owned(),
    }
}

impl NatsServer {
    /// Starts the installed server, which keeps its streams below `folder`.
    ///
    /// # Errors
    ///
    /// What the system refuses; [`ArenaError::Library`] if there is none, or it does not answer.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let program = program()
            .ok_or_else(|| failed("no nats-server is installed; `cargo xtask test` installs it"))?;
        let folder = Held::make(folder, PREFIX)?;
        let port = process::free_port().map_err(io("find a free port"))?;
        let mut command = Command::new(program);
        command
            .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = process::start(&mut command, Signal::KILL).map_err(io("start nats-server"))?;
        let mut server = Self {
            port,
            child: process::Ended(child),
            _folder: folder,
            subjects: Cell::new(0),
        };
        let give_up = Instant::now() + START_MAX;
        while !server.answers() {
            let has_ended = !matches!(server.child.0.try_wait(), Ok(None));
            if has_ended || Instant::now() >= give_up {
                return Err(failed("it does not answer").into());
            }
            std::thread::park_timeout(LOOK);
        }
        Ok(server)
    }

    fn answers(&self) -> bool {
        let mut first = [0; 4];
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))
            .is_ok_and(|mut stream| stream.read_exact(&mut first).is_ok() && first == *b"INFO")
    }

    /// Its address and port, and a subject that was never used.
    pub(super) fn take(&self) -> (String, String) {
        let number = self.subjects.get() + 1;
        self.subjects.set(number);
        (format!("127.0.0.1:{}", self.port), format!("bench{number}"))
    }
}
