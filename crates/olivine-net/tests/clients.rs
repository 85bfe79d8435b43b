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
