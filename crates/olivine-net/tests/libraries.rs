//! Other people's HTTP libraries at the examples: those of Python, of Go and of a browser, and
//! h2load.

#![cfg(target_os = "linux")]

#[path = "support/example.rs"]
mod example;
mod support;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use example::{Running, each, said};
use support::{WATCHDOG, backends, skip};

/// Runs `check` with the addresses of these examples on each back end, and with their folder.
fn every(names: &[&str], check: impl Fn(&[String], &Path)) {
    for backend in backends() {
        let folder = tempfile::tempdir().unwrap();
        let page: Vec<u8> = (0..=u8::MAX).cycle().take(256_000).collect();
        fs::write(folder.path().join("page"), page).unwrap();
        let mut running = Vec::new();
        for name in names {
            let words: &[&str] = match *name {
                "upload" | "files" => &["--folder", "."],
                _ => &[],
            };
            let Some(example) = Running::start(name, backend, folder.path(), words) else {
                return;
            };
            running.push(example);
        }
        let addresses = running.iter().map(|example| example.address.to_string());
        check(&addresses.collect::<Vec<_>>(), folder.path());
    }
}

/// A file beside this one.
fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// Runs a program with addresses as its last words, and expects what it says at its end.
fn passes(program: &str, words: &[&str], addresses: &[String], expected: &str) {
    let mut command = Command::new(program);
    command.args(words).args(addresses);
    let Ok(output) = command.output() else {
        return skip(&format!("{program} is not installed"));
    };
    let both = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&both);
    if output.status.code() == Some(3) {
        return skip(&format!("{program}: {}", said.trim()));
    }
    let passed = output.status.success() && said.contains(expected);
    assert!(passed, "{said}");
}

/// `OLIVINE_NET_PYTHON` names an interpreter that has requests, httpx and aiohttp.
#[test]
fn libraries_of_python_are_served_by_every_example() {
    let python = env::var("OLIVINE_NET_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = beside("clients.py");
    let names = [
        "hello_http",
        "json",
        "upload",
        "stream",
        "events",
        "files",
        "websocket",
    ];
    every(&names, |addresses, _| {
        let words = [script.to_str().unwrap()];
        passes(&python, &words, addresses, "129 checks passed");
    });
}

/// Builds a program first, so only where `OLIVINE_NET_GO` is set.
#[test]
fn the_library_of_go_is_served_by_every_example() {
    if env::var_os("OLIVINE_NET_GO").is_none() {
        return skip("Go at the examples: OLIVINE_NET_GO is not set");
    }
    let script = beside("clients.go");
    let names = ["hello_http", "json", "upload", "stream", "events", "files"];
    every(&names, |addresses, _| {
        let words = ["run", script.to_str().unwrap()];
        passes("go", &words, addresses, " checks passed");
    });
}

/// A browser that runs; killed when dropped.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One page fetches, streams, uploads, watches events and opens a WebSocket, and uploads the
/// result. The first start of a browser takes seconds, so only where `OLIVINE_BROWSER` is set.
#[test]
fn a_page_in_a_browser_is_served_by_every_example() {
    if env::var_os("OLIVINE_BROWSER").is_none() {
        return skip("a browser at the examples: OLIVINE_BROWSER is not set");
    }
    let page = fs::read(beside("clients.html")).unwrap();
    let names = [
        "hello_http",
        "json",
        "upload",
        "stream",
        "events",
        "websocket",
        "files",
    ];
    every(&names, |addresses, folder| {
        fs::write(folder.join("page.html"), &page).unwrap();
        let (files, others) = addresses.split_last().unwrap();
        let profile = tempfile::tempdir().unwrap();
        let profile = format!("--user-data-dir={}", profile.path().display());
        let address = format!("http://{files}/page.html#{}", others.join(","));
        let words = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            // The examples are not of one origin.
            "--disable-web-security",
            "--remote-debugging-port=0",
            &profile,
            &address,
        ];
        let browsers = ["chromium", "chromium-browser", "google-chrome"];
        let mut started = browsers.iter().map(|name| {
            let mut command = Command::new(name);
            command.args(words).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        });
        let Some(child) = started.find_map(Result::ok) else {
            return skip("chromium is not installed");
        };
        let (browser, begin) = (Browser(child), Instant::now());
        let result = folder.join("browser.txt");
        while !result.exists() {
            assert!(begin.elapsed() < 3 * WATCHDOG, "no result of {address}");
            std::thread::park_timeout(Duration::from_millis(50));
        }
        drop(browser);
        assert_eq!(fs::read_to_string(result).unwrap(), "10 checks passed");
    });
}

#[test]
fn h2load_counts_every_answer_of_a_pipeline() {
    each("hello_http", &["--wait", "block"], |hello, _| {
        let load = ["--h1", "-n", "20000", "-c", "32", "-m", "16"];
        let Some(said) = said("h2load", &[&load[..], &[&hello.url("/")]].concat()) else {
            return;
        };
        assert!(said.contains("20000 succeeded, 0 failed"), "{said}");
        assert!(said.contains("20000 2xx, 0 3xx"), "{said}");
    });
}
