//! The examples, as programs that run.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "each test file uses a part of it"
)]

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use olivine_net::Backend;

use crate::support::{backends, client, read_to_end, skip};

/// An example that runs; killed when dropped.
pub struct Running {
    child: Child,
    pub address: SocketAddr,
}

impl Running {
    /// Starts an example in `folder`; `None`, with a line that says so, where it is not built.
    pub fn start(name: &str, backend: Backend, folder: &Path, words: &[&str]) -> Option<Self> {
        let me = std::env::current_exe().unwrap();
        let program: PathBuf = me.ancestors().nth(2)?.join("examples").join(name);
        if !program.is_file() {
            skip(&format!(
                "{name} is not built: cargo build -p olivine-net --examples"
            ));
            return None;
        }
        let backend = match backend {
            Backend::IoUring => "io-uring",
            _ => "mio",
        };
        let mut child = Command::new(program)
            .args([
                "--listen",
                "127.0.0.1:0",
                "--threads",
                "1",
                "--backend",
                backend,
            ])
            .args(words)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").expect(&line);
        let address = address.split(',').next().unwrap().parse().unwrap();
        Some(Self { child, address })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends a request that closes; the head and the body of the answer.
    pub fn ask(&self, line: &str, fields: &str, body: &str) -> (String, String) {
        let mut peer = client(self.address);
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\
             Content-Length: {length}\r\n\r\n{body}"
        );
        peer.write_all(request.as_bytes()).unwrap();
        let text = String::from_utf8(read_to_end(&mut peer)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program prints; `None`, with a line that says so, where it is not installed.
pub fn said(program: &str, words: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(program).args(words).output() else {
        skip(&format!("{program} is not installed"));
        return None;
    };
    let both = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&both).into_owned())
}

/// Runs `check` with an example on each back end, in an empty folder.
pub fn each(name: &str, words: &[&str], check: impl Fn(&Running, &Path)) {
    for backend in backends() {
        let folder = tempfile::tempdir().unwrap();
        if let Some(running) = Running::start(name, backend, folder.path(), words) {
            check(&running, folder.path());
        }
    }
}
