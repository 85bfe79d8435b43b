//! An HTTP server in a separate process, with separate descriptors, memory and limits.
//!
//! The process is this test program again; [`ROLE`] makes it the server: each test file that
//! starts one has a test called `server` that calls [`serve`].

#![allow(unreachable_pub, reason = "a module of test files")]

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use olivine_net::{
    Backend, Counters,
    http::{self, Admit, Http, Limits, Request, Responder, Service, StaticAnswer},
};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::support::wait_until;

/// Names the settings of a server process: `name=value`, parted by commas.
const ROLE: &str = "OLIVINE_NET_SERVER";
/// Text before the server's address.
const LISTENING: &str = "listening on ";
const STOPPED: &str = "stopped: ";
const COUNTED: &str = "counted: ";
const FAILED: &str = "cannot start: ";

/// How a server process runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub backend: Backend,
    /// Time-out of heads and of bodies.
    pub timeout: Duration,
    /// Time-out between requests.
    pub idle_timeout: Duration,
    /// Descriptors the process may have.
    pub descriptors_max: Option<u64>,
    /// What a seccomp filter forbids, as container profiles do.
    pub forbids: Forbids,
}

/// System calls of io_uring that a profile forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forbids {
    Nothing,
    /// To make a ring.
    Setup,
    /// To use one.
    Enter,
}

impl Settings {
    pub(crate) fn of(backend: Backend) -> Self {
        Self {
            backend,
            timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            descriptors_max: None,
            forbids: Forbids::Nothing,
        }
    }

    fn to_text(self) -> String {
        format!(
            "backend={:?},timeout={},idle={},descriptors={},forbid={:?}",
            self.backend,
            self.timeout.as_millis(),
            self.idle_timeout.as_millis(),
            self.descriptors_max.unwrap_or(0),
            self.forbids,
        )
    }

    fn from_text(text: &str) -> Self {
        let named: BTreeMap<_, _> = text.split(',').filter_map(|s| s.split_once('=')).collect();
        let number = |name: &str| named[name].parse::<u64>().unwrap();
        Self {
            backend: match named["backend"] {
                "Mio" => Backend::Mio,
                "IoUring" => Backend::IoUring,
                _ => Backend::Auto,
            },
            timeout: Duration::from_millis(number("timeout")),
            idle_timeout: Duration::from_millis(number("idle")),
            descriptors_max: Some(number("descriptors")).filter(|count| *count > 0),
            forbids: match named["forbid"] {
                "Setup" => Forbids::Setup,
                "Enter" => Forbids::Enter,
                _ => Forbids::Nothing,
            },
        }
    }
}

struct Hello(StaticAnswer);

impl Service for Hello {
    type Message = ();

    fn on_head(&mut self, _: &mut Http<'_, ()>, request: &Request<'_>) -> Admit {
        match request.path() {
            "/paused" | "/upload" => Admit::Stream(1 << 30),
            _ => Admit::Whole,
        }
    }

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        match request.path() {
            "/" => responder.send_static(http, &mut self.0),
            // Left open: the peer goes first.
            "/later" | "/upload" => drop(responder.later(http)),
            "/paused" => {
                let stream = responder.later(http);
                http.pause_body(stream);
            }
            "/stream" => {
                let stream = responder.stream(http, 200, &[]).unwrap();
                http.write(stream, &[b's'; 300_000]).unwrap();
            }
            "/upgrade" => drop(responder.upgrade(http, "raw", &[])),
            _ => drop(responder.send(http, 404, &[], b"")),
        }
    }
}

/// Is the server, if this process was started as one: until its standard input ends.
pub(crate) fn serve() {
    let Ok(text) = env::var(ROLE) else { return };
    let settings = Settings::from_text(&text);
    if let Some(max) = settings.descriptors_max {
        let limit = Rlimit {
            current: Some(max),
            maximum: getrlimit(Resource::Nofile).maximum,
        };
        setrlimit(Resource::Nofile, limit).unwrap();
    }
    match settings.forbids {
        Forbids::Nothing => {}
        Forbids::Setup => forbid(libc::SYS_io_uring_setup),
        Forbids::Enter => forbid(libc::SYS_io_uring_enter),
    }
    let answer = StaticAnswer::new(200, &[], b"Hello, World!").unwrap();
    let limits = Limits::default()
        .header_timeout(settings.timeout)
        .body_timeout(settings.timeout)
        .idle_timeout(settings.idle_timeout)
        .half_closed_timeout(Some(Duration::from_millis(200)));
    #[cfg(not(feature = "rustls"))]
    let engine = super::support::config(settings.backend);
    #[cfg(feature = "rustls")]
    let engine = tls::config(settings.backend);
    let engine = engine.linger(Duration::from_millis(200));
    let engine = match http::serve(engine, limits, move |_| Hello(answer.clone())) {
        Ok(engine) => engine,
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            println!("{FAILED}{error}: {}", cause.unwrap_or_default());
            return;
        }
    };
    let address = engine.local_address().unwrap();
    let sealed = engine.addresses().last().unwrap();
    let health = engine.health().remove(0);
    assert_eq!(health.backend, engine.backend());
    let fallback = health.fallback.unwrap_or_default();
    println!(
        "{LISTENING}{address} {sealed} {} {fallback}",
        engine.backend()
    );
    for line in std::io::stdin().lines() {
        line.unwrap();
        println!(
            "{COUNTED}accepted={}",
            Counters::sum(&engine.counters()).accepted
        );
    }
    let total = Counters::sum(&engine.counters());
    let report = engine.stop(Duration::from_secs(5));
    println!(
        "{STOPPED}open={},accepted={},closed={},refused={},cut={}",
        total.open, total.accepted, total.closed, total.refused_descriptors, report.cut
    );
}

/// Has this process refused one system call from now on, as if by lack of permission.
fn forbid(call: libc::c_long) {
    let filter = SeccompFilter::new(
        BTreeMap::from([(call, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        TargetArch::try_from(env::consts::ARCH).unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter_all_threads(&program).unwrap();
}

/// TLS beside the plain listener, and clients of it.
#[cfg(feature = "rustls")]
pub(crate) mod tls {
    use std::{
        env,
        net::{SocketAddr, TcpStream},
        process::Command,
        sync::Arc,
    };

    use data_encoding::HEXLOWER;
    use olivine_net::{Backend, EngineConfig, Listen, WaitStrategy};
    use rustls::{
        ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned,
        pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName},
    };

    const CERTIFICATE: &str = "OLIVINE_NET_CERTIFICATE";
    const KEY: &str = "OLIVINE_NET_KEY";

    pub(super) fn config(backend: Backend) -> EngineConfig {
        let der = |name| HEXLOWER.decode(env::var(name).unwrap().as_bytes()).unwrap();
        let key = PrivatePkcs8KeyDer::from(der(KEY));
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![CertificateDer::from(der(CERTIFICATE))], key.into())
            .unwrap();
        let local = Listen::tcp("127.0.0.1:0".parse().unwrap());
        EngineConfig::client()
            .threads(1)
            .pin(false)
            .wait(WaitStrategy::Block)
            .backend(backend)
            .listen(local.clone().plain())
            .listen(local)
            .tls(Some(Arc::new(config)))
    }

    /// Gives a server process a certificate; returns the settings of its clients.
    pub(super) fn certify(server: &mut Command) -> Arc<ClientConfig> {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = pair.signing_key.serialize_der();
        server.env(CERTIFICATE, HEXLOWER.encode(pair.cert.der()));
        server.env(KEY, HEXLOWER.encode(&key));
        let mut roots = RootCertStore::empty();
        roots.add(pair.cert.der().clone()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        Arc::new(config.with_no_client_auth())
    }

    pub(crate) fn connect(
        address: SocketAddr,
        settings: &Arc<ClientConfig>,
    ) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::clone(settings), name).unwrap();
        StreamOwned::new(session, crate::support::client(address))
    }
}

/// A running server process; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    lines: BufReader<ChildStdout>,
    pub address: SocketAddr,
    /// Where it serves TLS, and how clients speak it.
    #[cfg(feature = "rustls")]
    pub sealed: (SocketAddr, std::sync::Arc<rustls::ClientConfig>),
    /// The back end that it runs on.
    pub backend: String,
    /// Why it is not the one asked for; empty if it is.
    pub fallback: String,
}

impl Server {
    /// Starts one; the error is the process's output.
    pub(crate) fn start(settings: Settings) -> Result<Self, String> {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "server", "--nocapture"])
            .env(ROLE, settings.to_text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        #[cfg(feature = "rustls")]
        let clients = tls::certify(&mut command);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let said = say(&mut lines, &[LISTENING, FAILED]);
        let mut words = said.splitn(4, ' ');
        let address = |word: Option<&str>| word?.parse::<SocketAddr>().ok();
        let (Some(plain), Some(_sealed), Some(backend)) =
            (address(words.next()), address(words.next()), words.next())
        else {
            // It ends if it could not start.
            drop(child.stdin.take());
            child.wait().unwrap();
            return Err(said);
        };
        Ok(Self {
            address: plain,
            #[cfg(feature = "rustls")]
            sealed: (_sealed, clients),
            backend: backend.to_owned(),
            fallback: words.next().unwrap_or_default().to_owned(),
            child,
            lines,
        })
    }

    /// Stops the process where it is until [`Server::go_on`]; returns once it has stopped.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        let stopped = || self.threads().all(|state| state == "T");
        wait_until("the server process has stopped", stopped);
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let process = Pid::from_child(&self.child);
        kill_process(process, signal).unwrap();
    }

    /// What each thread of the process is doing, by the kernel's letter.
    fn threads(&self) -> impl Iterator<Item = String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        tasks.map(|task| {
            let text = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            // Behind the name, which may hold anything.
            let (_, behind) = text.rsplit_once(") ").unwrap();
            behind.split(' ').next().unwrap().to_owned()
        })
    }

    /// Descriptors that the process has open.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .unwrap()
            .count()
    }

    /// Bytes of memory that the process uses.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Waits until the process has accepted `accepted` connections, and has as many descriptors
    /// again as it had at first. Descriptors alone would also match before it accepts them.
    pub(crate) fn settles_at(&mut self, descriptors: usize, accepted: u64) {
        wait_until("the server has accepted the connections", || {
            self.child.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
            counts(&say(&mut self.lines, &[COUNTED]))["accepted"] >= accepted
        });
        wait_until("the server's descriptors are closed", || {
            self.descriptors() <= descriptors
        });
    }

    /// Ends it; returns its counts, by name.
    pub(crate) fn stop(mut self) -> BTreeMap<String, u64> {
        drop(self.child.stdin.take());
        let said = say(&mut self.lines, &[STOPPED]);
        assert!(self.child.wait().unwrap().success());
        counts(&said)
    }
}

/// The counts of a line, by name.
fn counts(line: &str) -> BTreeMap<String, u64> {
    line.split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rest of the next line that holds one of `marks`; empty at the end of the output.
fn say(lines: &mut impl BufRead, marks: &[&str]) -> String {
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap() > 0 {
        if let Some((_, rest)) = marks.iter().find_map(|mark| line.split_once(mark)) {
            return rest.trim().to_owned();
        }
        line.clear();
    }
    String::new()
}
