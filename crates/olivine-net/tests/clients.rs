//! Other people's clients at a server: curl, wrk, and where `OLIVINE_BROWSER` is set a browser.

#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "a server for other tests as well")]
#[path = "support/server.rs"]
mod server;
mod support;

use std::process::Command;

use server::{Server, Settings, serve};
use support::{backends, skip};

const ANSWER: &str = "Hello, World!";
/// Bytes of a body for a missing page: more than the server reads at once.
const BODY_BYTES: usize = 300_000;

/// Not a test: the process that the others start.
#[test]
fn server() {
    serve();
}

/// What the first of `programs` that is installed says; `None` if there is none, which is said.
fn said(programs: &[&str], words: &[&str]) -> Option<String> {
    let mut outputs = programs
        .iter()
        .map(|name| Command::new(name).args(words).output());
    let Some(output) = outputs.find_map(Result::ok) else {
        skip(&format!("{} is not installed", programs[0]));
        return None;
    };
    let both = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&both).into_owned())
}

/// Lets `client` at a server of each back end, which then has cut no connection.
fn serves(client: impl Fn(&str) -> Option<()>) {
    for backend in backends() {
        let server = Server::start(Settings::of(backend)).unwrap();
        let done = client(&format!("http://{}/", server.address));
        assert_eq!(server.stop()["cut"], 0, "{backend:?}");
        if done.is_none() {
            return;
        }
    }
}

#[test]
fn curl_gets_pages_a_head_and_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'x'; BODY_BYTES]).unwrap();
    serves(|url| {
        let curl = |words: &[&str]| {
            let always = ["--silent", "--show-error", "--include", "--max-time", "60"];
            said(&["curl"], &[&always, words].concat())
        };
        let twice = curl(&[url, url])?;
        assert_eq!(twice.matches(ANSWER).count(), 2, "{twice}");
        let head = curl(&["--head", "--http1.0", url])?;
        let is_head = head.contains("Content-Length: 13") && !head.contains(ANSWER);
        assert!(is_head, "{head}");
        let (data, nothing) = (format!("@{}", body.display()), format!("{url}nothing"));
        let refused = curl(&["--data-binary", &data, &nothing])?;
        assert!(refused.contains(" 404 Not Found"), "{refused}");
        Some(())
    });
}

#[test]
fn wrk_counts_no_error() {
    serves(|url| {
        let load = ["--threads", "1", "--connections", "32", "--duration", "1s"];
        let said = said(&["wrk"], &[&load[..], &[url]].concat())?;
        // Time-outs depend on the machine; errors of connecting, reading and statuses would be
        // ours.
        let whole = !said.contains("Socket errors") || said.contains("connect 0, read 0, write 0");
        let served = said.contains("Requests/sec") && !said.contains("Non-2xx");
        assert!(served && whole, "{said}");
        Some(())
    });
}

#[test]
fn a_browser_shows_the_page() {
    if std::env::var_os("OLIVINE_BROWSER").is_none() {
        return skip("a browser at the server: OLIVINE_BROWSER is not set");
    }
    let folder = tempfile::tempdir().unwrap();
    let profile = format!("--user-data-dir={}", folder.path().display());
    serves(|url| {
        let browsers = ["chromium", "chromium-browser", "google-chrome"];
        let plain = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ];
        let words = [&plain[..], &[&profile, "--dump-dom", url]].concat();
        let said = said(&browsers, &words)?;
        assert!(said.contains(ANSWER), "{said}");
        Some(())
    });
}

/// The example `hello_http` as a person runs it: what it says, how it ends, with which exit code.
#[cfg(target_os = "linux")]
mod hello {
    use std::{
        io::{BufRead, BufReader, Read, Write},
        net::{SocketAddr, TcpListener},
        path::PathBuf,
        process::{Child, ChildStdout, Command, Output, Stdio},
        thread,
        time::Instant,
    };

    use crate::support::{WATCHDOG, client, read_to_end, skip};
    use rustix::process::{Pid, Signal, kill_process};

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    const GET_AND_CLOSE: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

    /// The example's program, beside this one; `None`, with a line that says so, where it is not
    /// built.
    fn program() -> Option<PathBuf> {
        let me = std::env::current_exe().unwrap();
        let program = me.ancestors().nth(2)?.join("examples/hello_http");
        if !program.is_file() {
            skip("hello_http is not built: cargo build -p olivine-net --example hello_http");
            return None;
        }
        Some(program)
    }

    fn command(words: &[&str]) -> Option<Command> {
        let mut command = Command::new(program()?);
        command.args(words);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Some(command)
    }

    /// The whole of a run that ends without a signal.
    fn run(words: &[&str]) -> Option<Output> {
        Some(command(words)?.output().unwrap())
    }

    /// A server that runs; killed when dropped.
    struct Running {
        child: Child,
        stdout: BufReader<ChildStdout>,
        address: SocketAddr,
    }

    impl Running {
        fn start(words: &[&str]) -> Option<Self> {
            let common = [
                "--listen",
                "127.0.0.1:0",
                "--threads",
                "1",
                "--wait",
                "block",
            ];
            let mut child = command(&[&common[..], words].concat())?.spawn().unwrap();
            let mut stdout = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            let address = line.strip_prefix("listening on ").expect(&line);
            let address = address.split(',').next().unwrap().parse().unwrap();
            Some(Self {
                child,
                stdout,
                address,
            })
        }

        /// Asks it to end; its exit code and what it printed last.
        fn end(mut self, signal: Signal) -> (Option<i32>, String) {
            kill_process(Pid::from_child(&self.child), signal).unwrap();
            let mut last = String::new();
            self.stdout.read_to_string(&mut last).unwrap();
            (self.child.wait().unwrap().code(), last)
        }

        /// How often its threads went to sleep so far.
        fn sleeps(&self) -> u64 {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
            let of_task = |path: PathBuf| {
                let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
                let mut lines = status.lines();
                let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
                count.map_or(0, |count| count.trim().parse::<u64>().unwrap())
            };
            tasks.map(|task| of_task(task.unwrap().path())).sum()
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// One line that names the address, and exit code 1.
    fn refused(output: &Output, address: &str) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(address), "{said}");
        assert_eq!(said.trim().lines().count(), 1, "{said}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }

    #[test]
    fn address_that_cannot_be_listened_on_is_named_with_exit_code_1() {
        // An address of documentation, which no machine has, and a port in use.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = listener.local_addr().unwrap().to_string();
        for address in ["192.0.2.1:8000", &taken] {
            let Some(output) = run(&["--listen", address, "--threads", "1"]) else {
                return;
            };
            refused(&output, address);
        }
    }

    #[test]
    fn wrong_words_end_with_exit_code_2() {
        for words in [
            ["--listen", "nowhere"],
            ["--parse", "some"],
            ["--speed", "1"],
        ] {
            let Some(output) = run(&words) else {
                return;
            };
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(words[0]), "{said}");
        }
    }

    #[test]
    fn signal_ends_it_with_exit_code_0_after_it_answered() {
        for (signal, parse) in [(Signal::TERM, "full"), (Signal::INT, "none")] {
            let Some(server) = Running::start(&["--parse", parse]) else {
                return;
            };
            // One connection is closed as the client asks, one is open when the signal comes.
            let mut idle = client(server.address);
            idle.write_all(GET).unwrap();
            let mut answer = vec![0; 15];
            idle.read_exact(&mut answer).unwrap();
            assert_eq!(answer, b"HTTP/1.1 200 OK");
            if parse == "full" {
                let mut closing = client(server.address);
                closing.write_all(GET_AND_CLOSE).unwrap();
                let answer = read_to_end(&mut closing);
                assert!(answer.ends_with(b"Hello, World!"), "{answer:?}");
            }
            let (code, last) = server.end(signal);
            assert_eq!(code, Some(0), "{last}");
            let connections = if parse == "full" { 2 } else { 1 };
            let told = format!("{connections} connections, ");
            assert!(last.starts_with(&told), "{last}");
            let rest = read_to_end(&mut idle);
            assert!(rest.ends_with(b"Hello, World!"), "{rest:?}");
        }
    }

    #[test]
    fn idle_server_wakes_up_once_a_second_at_most() {
        let Some(server) = Running::start(&[]) else {
            return;
        };
        let mut idle = client(server.address);
        idle.write_all(GET).unwrap();
        idle.read_exact(&mut [0; 15]).unwrap();
        // A machine that is busy lets it run late: it counts while it has nothing to do.
        let (begin, before) = (Instant::now(), server.sleeps());
        let idle_time = WATCHDOG / 5;
        while begin.elapsed() < idle_time {
            thread::park_timeout(idle_time - begin.elapsed().min(idle_time));
        }
        let (count, seconds) = (server.sleeps() - before, begin.elapsed().as_secs());
        assert!(count <= seconds + 1, "{count} wake-ups in {seconds} s");
    }
}
