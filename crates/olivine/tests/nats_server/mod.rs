//! A real NATS server for tests, alone or three in a cluster.

#![allow(dead_code, reason = "no test needs all of it")]

use crate::common::{WATCHDOG, free_port, skip, until};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server, killed when dropped.
pub(crate) struct Server {
    pub(crate) port: u16,
    program: PathBuf,
    arguments: Vec<String>,
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a server on port {}", self.port)
    }
}

/// The server's program: `$OLIVINE_NATS_SERVER`, from the path, or where `cargo xtask test`
/// installs it.
fn program() -> Option<PathBuf> {
    let given = std::env::var_os("OLIVINE_NATS_SERVER").map(PathBuf::from);
    let on_path = std::env::var_os("PATH").and_then(|path| {
        let mut all = std::env::split_paths(&path).map(|folder| folder.join("nats-server"));
        all.find(|program| program.is_file())
    });
    // This binary is target/PROFILE/deps/NAME.
    let me = std::env::current_exe().ok();
    let target = me.as_deref().and_then(|me| me.ancestors().nth(3));
    let installed = target.map(|target| target.join("tools/bin/nats-server"));
    let mut all = [given, on_path, installed].into_iter().flatten();
    all.find(|program| program.is_file())
}

/// A private server with streams and these settings; without the program, prints that and returns
/// `None`.
pub(crate) fn server(settings: &str) -> Option<Server> {
    let Some(program) = program() else {
        skip("no nats-server is installed; `cargo xtask test` installs it");
        return None;
    };
    let port = free_port();
    let mut server = Server {
        port,
        program,
        arguments: Vec::new(),
        folder: tempfile::tempdir().expect("a folder"),
        child: None,
    };
    let folder = server.folder.path().display().to_string();
    let config = server.folder.path().join("server.conf");
    let text = format!(
        "listen: \"127.0.0.1:{port}\"\nserver_name: \"test-{port}\"\njetstream {{ store_dir: \
         \"{folder}/data\" }}\n{settings}\n"
    );
    std::fs::write(&config, text).expect("a file");
    server.arguments = vec!["-c".to_owned(), config.display().to_string()];
    server.start();
    Some(server)
}

/// Three servers that share streams.
pub(crate) fn cluster() -> Option<Vec<Server>> {
    let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let routes: Vec<String> = ports
        .iter()
        .map(|port| format!("\"nats://127.0.0.1:{port}\""))
        .collect();
    let routes = routes.join(", ");
    ports
        .iter()
        .map(|port| {
            server(&format!(
                "cluster {{ name: \"test\", listen: \"127.0.0.1:{port}\", routes: [{routes}] }}"
            ))
        })
        .collect()
}

impl Server {
    /// Starts it, possibly again, with its stored streams.
    ///
    /// # Panics
    ///
    /// If it runs: a second server on one folder removes files of the first.
    pub(crate) fn start(&mut self) {
        assert!(!self.is_running(), "it was not stopped");
        let log = self.folder.path().join("log");
        let log = std::fs::File::options().create(true).append(true).open(log);
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a file"))
            .spawn();
        self.child = Some(child.expect("a server"));
        let port = self.port;
        until("the server answers", || {
            let mut first = [0; 4];
            let connection = TcpStream::connect(("127.0.0.1", port));
            connection.is_ok_and(|mut c| c.read_exact(&mut first).is_ok() && first == *b"INFO")
        });
    }

    /// Whether it was started and not killed since.
    pub(crate) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Kills it by SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a signal");
            child.wait().expect("its end");
        }
    }

    /// Saves a copy of what it has stored; it must not run.
    pub(crate) fn keep(&self) {
        self.copy("data", "kept");
    }

    /// Restores the copy of [`Server::keep`], as after a power failure; it must not run.
    pub(crate) fn go_back(&self) {
        std::fs::remove_dir_all(self.folder.path().join("data")).expect("its folder");
        self.copy("kept", "data");
    }

    fn copy(&self, from: &str, to: &str) {
        let folder = self.folder.path();
        let mut copy = Command::new("cp");
        copy.arg("-a").args([folder.join(from), folder.join(to)]);
        assert!(copy.status().expect("cp").success());
    }

    /// Its name in the cluster.
    pub(crate) fn name(&self) -> String {
        format!("test-{}", self.port)
    }

    /// URI of a channel in it.
    pub(crate) fn uri(&self, channel: &str, query: &str) -> String {
        let mark = if query.is_empty() { "" } else { "?" };
        format!("nats://127.0.0.1:{}/{channel}{mark}{query}", self.port)
    }

    /// Sends `text` to `subject` like a plain client, and returns the first reply.
    pub(crate) fn ask(&self, subject: &str, text: &str) -> String {
        let connection = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        connection
            .set_read_timeout(Some(WATCHDOG))
            .expect("a time-out");
        let length = text.len();
        let mut writing = &connection;
        write!(
            writing,
            "CONNECT {{\"verbose\":false}}\r\nSUB answers.here 1\r\nPUB {subject} answers.here \
             {length}\r\n{text}\r\n"
        )
        .expect("a request");
        let mut lines = BufReader::new(&connection).lines();
        let mut next = || lines.next().expect("an answer").expect("an answer in time");
        while !next().starts_with("MSG ") {}
        next()
    }

    /// Sends `payload` to `subject` under the message id `id`, like any client, and waits until it
    /// is stored.
    pub(crate) fn send(&self, subject: &str, id: &str, payload: &[u8]) {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        connection
            .set_read_timeout(Some(WATCHDOG))
            .expect("a time-out");
        let headers = format!("NATS/1.0\r\nNats-Msg-Id: {id}\r\n\r\n");
        let (head, all) = (headers.len(), headers.len() + payload.len());
        let begin = format!(
            "CONNECT {{\"verbose\":false,\"headers\":true}}\r\nSUB answers.here 1\r\n\
             HPUB {subject} answers.here {head} {all}\r\n{headers}"
        );
        let request = [begin.as_bytes(), payload, b"\r\n"].concat();
        connection.write_all(&request).expect("a request");
        let mut lines = BufReader::new(&connection).lines();
        let mut next = || lines.next().expect("an answer").expect("an answer in time");
        while !next().starts_with("MSG ") {}
        let stored = next();
        assert!(stored.contains("seq"), "{stored}");
    }

    /// Subscribes to `subject` like a plain client. The returned function waits for so many
    /// messages with an id, stored or refused, and returns the ids.
    pub(crate) fn watch(&self, subject: &str, count: usize) -> impl FnOnce() -> Vec<String> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        connection
            .set_read_timeout(Some(WATCHDOG))
            .expect("a time-out");
        let begin = format!(
            "CONNECT {{\"verbose\":false,\"headers\":true}}\r\nSUB {subject} 1\r\nPING\r\n"
        );
        connection.write_all(begin.as_bytes()).expect("a request");
        let mut lines = BufReader::new(connection)
            .lines()
            .map(|line| line.expect("in time"));
        assert!(lines.any(|line| line == "PONG"));
        move || {
            let ids = lines.filter_map(|line| Some(line.strip_prefix("Nats-Msg-Id: ")?.to_owned()));
            ids.take(count).collect()
        }
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
