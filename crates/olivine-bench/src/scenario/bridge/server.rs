//! A NATS server that is started for the measurement, with streams in a folder.

use crate::error::{Result, io};
use olivine_arena::error::ArenaError;
use olivine_arena::rendezvous::Held;
use olivine_arena::sys::process;
use rustix::process::Signal;
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
struct NatsServer {
    port: u16,
    child: process::Ended,
    _folder: Held,
}

/// One server for all turns, started at the first turn that needs it.
#[derive(Debug)]
pub(super) struct Shared {
    program: PathBuf,
    folder: PathBuf,
    server: Option<NatsServer>,
    subjects: u32,
}

impl Shared {
    /// The server that is installed, with its streams below `folder`; `None` if there is none.
    pub(super) fn find(folder: &Path) -> Option<Self> {
        Some(Self {
            program: program()?,
            folder: folder.to_path_buf(),
            server: None,
            subjects: 0,
        })
    }

    /// The server's address, and a subject that was never used.
    pub(super) fn take(&mut self) -> Result<(String, String)> {
        let server = match self.server.take() {
            Some(server) => server,
            None => NatsServer::start(&self.program, &self.folder)?,
        };
        let address = server.address();
        self.server = Some(server);
        self.subjects += 1;
        Ok((address, format!("bench{}", self.subjects)))
    }
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

impl NatsServer {
    /// Starts a server that keeps its streams below `folder`.
    ///
    /// # Errors
    ///
    /// What the system refuses; [`ArenaError::Library`] if it does not answer.
    fn start(program: &Path, folder: &Path) -> Result<Self> {
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
        };
        let give_up = Instant::now() + START_MAX;
        while !server.answers() {
            let has_ended = !matches!(server.child.0.try_wait(), Ok(None));
            if has_ended || Instant::now() >= give_up {
                return Err(ArenaError::Library {
                    library: "nats-server",
                    message: "it does not answer".to_owned(),
                }
                .into());
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

    /// Address and port.
    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}
