//! Servers in separate processes, pinned to a CPU and ended with their handle.

use super::error::LoadError;
use crate::affinity::restored;
use crate::cpus;
use olivine_arena::sys::process;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a server may take to start.
const START_MAX: Duration = Duration::from_secs(5);
/// How long a server may take to end after it was asked to.
const END_MAX: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(10);

/// A running server; dropping it ends the process, and so does the end of the thread that started
/// it.
#[derive(Debug)]
pub struct Server {
    name: String,
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts this program again, with `arguments`, as a server of this project. It must print its
    /// address as its first line and end when its standard input does.
    ///
    /// # Errors
    ///
    /// [`LoadError::Start`] if it does not.
    pub fn own(
        name: &str,
        program: &Path,
        arguments: &[String],
        cpu: u32,
    ) -> Result<Self, LoadError> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = spawn(name, command, cpu)?;
        let (told, line) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut text = String::new();
                // At the end of the output the line is empty, which is not an address.
                let _ = BufReader::new(stdout).read_line(&mut text);
                let _ = told.send(text);
            });
        }
        let address = line
            .recv_timeout(START_MAX)
            .unwrap_or_default()
            .trim()
            .parse();
        let mut server = Self {
            name: name.to_owned(),
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        server.address = address.map_err(|_| server.failed("it gives no address"))?;
        Ok(server)
    }

    /// Starts a server of another project, which must listen on `address` within 5 s. Its output is
    /// discarded.
    pub(super) fn foreign(
        name: &str,
        mut command: Command,
        cpu: u32,
        address: SocketAddr,
    ) -> Result<Self, LoadError> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = spawn(name, command, cpu)?;
        let mut server = Self {
            name: name.to_owned(),
            child,
            address,
        };
        let give_up = Instant::now() + START_MAX;
        while TcpStream::connect_timeout(&address, START_MAX).is_err() {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(server.failed(&format!("it ended with {status}")));
            }
            if Instant::now() >= give_up {
                return Err(server.failed("it does not listen"));
            }
            std::thread::park_timeout(LOOK);
        }
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn failed(&self, why: &str) -> LoadError {
        LoadError::Start {
            server: self.name.clone(),
            why: why.to_owned(),
        }
    }
}

/// Starts a process whose threads may run only on `cpu`.
fn spawn(name: &str, mut command: Command, cpu: u32) -> Result<Child, LoadError> {
    // A child inherits the CPU mask of its parent thread.
    restored(|| {
        cpus::pin(cpu).map_err(|source| LoadError::Pin { cpu, source })?;
        // On this signal a master also ends its workers; a killed one would leave them.
        process::start(&mut command, Signal::TERM).map_err(|source| LoadError::Start {
            server: name.to_owned(),
            why: source.to_string(),
        })
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let mut asked = false;
        let give_up = Instant::now() + END_MAX;
        // The pid of a reaped child may belong to another process.
        while matches!(self.child.try_wait(), Ok(None)) {
            if !asked {
                asked = true;
                // On this signal a master also ends its workers; a killed one would leave them.
                let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            }
            if Instant::now() >= give_up {
                // It has ended already, or cannot be killed; nothing more can be done here.
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::park_timeout(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_server_start_is_reported_with_its_reason() {
        let cpu = cpus::allowed()[0];
        let missing = Server::own("ours", Path::new("/nonexistent"), &[], cpu).unwrap_err();
        assert!(
            missing
                .to_string()
                .starts_with("ours does not start: No such file"),
            "{missing}"
        );
        let silent = Server::own("ours", Path::new("/bin/true"), &[], cpu).unwrap_err();
        assert_eq!(
            silent.to_string(),
            "ours does not start: it gives no address"
        );
        let address = SocketAddr::from(([127, 0, 0, 1], process::free_port().unwrap()));
        let ended =
            Server::foreign("theirs", Command::new("/bin/false"), cpu, address).unwrap_err();
        assert!(
            ended
                .to_string()
                .starts_with("theirs does not start: it ended"),
            "{ended}"
        );
    }
}
