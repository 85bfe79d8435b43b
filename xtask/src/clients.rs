//! Other people's clients before `hello_http`: curl, wrk, and a browser without a screen.

use crate::cargo::at_most;
use crate::child;
use crate::hello::{self, Server};
use crate::packages::{Missing, program};
use crate::report::Step;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);
/// The browser installs its profile first.
const BROWSER_LIMIT: Duration = Duration::from_secs(300);
/// Bytes of a body that is sent to a page that is not there: more than the server takes at once.
const BODY_BYTES: usize = 300_000;
const ANSWER: &str = "Hello, World!";

/// The browser's program, which is called otherwise on some systems.
pub(crate) fn browser(missing: Missing) -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    program(&names, "chromium", missing)
}

/// Serves the clients that are there, on every back end; with `everything` the browser too.
pub(crate) fn run(missing: Missing, everything: bool) -> Result<Step> {
    let mut step = Step::new("clients", "checks");
    let mut left_out = Vec::new();
    let mut find = |name: &'static str, found: Option<PathBuf>| {
        if found.is_none() {
            println!("skipped: {name} is not installed");
            left_out.push(name);
        }
        found
    };
    let curl = find("curl", program(&["curl"], "curl", missing));
    let wrk = find("wrk", program(&["wrk"], "wrk", missing));
    let chromium = if everything {
        find("chromium", browser(missing))
    } else {
        None
    };
    step.skipped = left_out.len();
    if !left_out.is_empty() {
        step.note = format!("left out, because not installed: {}", left_out.join(", "));
    }
    let hello = hello::build(false)?;
    let folder = tempfile::tempdir().context("a folder for what clients keep")?;
    for backend in ["mio", "auto"] {
        let server = Server::start(&hello, &["--backend", backend], None)?;
        let mut check = |name: &str, holds: bool, said: &str| {
            if !holds {
                println!("{name}, {backend}: {}", said.trim());
            }
            step.count(holds);
        };
        if let Some(curl) = &curl {
            for (name, holds, said) in by_curl(curl, &server.url, folder.path())? {
                check(name, holds, &said);
            }
        }
        if let Some(wrk) = &wrk {
            let mut load = Command::new(wrk);
            load.args([
                "--threads",
                "1",
                "--connections",
                "32",
                "--duration",
                "1s",
                &server.url,
            ]);
            let said = child::capture(&mut load, at_most(LIMIT))?.1;
            // Time-outs are the machine's; errors of connecting, reading and statuses would be ours.
            let sockets =
                !said.contains("Socket errors") || said.contains("connect 0, read 0, write 0");
            let served = said.contains("Requests/sec") && !said.contains("Non-2xx");
            check("wrk", served && sockets, &said);
        }
        if let Some(chromium) = &chromium {
            let mut open = Command::new(chromium);
            open.args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .arg(format!(
                "--user-data-dir={}",
                folder.path().join(backend).display()
            ))
            .args(["--dump-dom", &server.url]);
            let said = child::capture(&mut open, at_most(BROWSER_LIMIT))?.1;
            check("chromium", said.contains(ANSWER), &said);
        }
        for (name, argument, value, wanted) in [
            (
                "a taken port",
                "--listen",
                server.address(),
                "Address already in use",
            ),
            (
                "a foreign address",
                "--listen",
                "192.0.2.1:80",
                "cannot listen on 192.0.2.1:80",
            ),
            (
                "a CPU that is not there",
                "--cpus",
                "4000",
                "CPU 4000 cannot be used",
            ),
        ] {
            let mut other = Command::new(&hello);
            other.args(["--backend", backend, argument, value]);
            let (outcome, said) = child::capture(&mut other, at_most(LIMIT))?;
            check(name, !outcome.success() && said.contains(wanted), &said);
        }
        let said = server.stop()?;
        check("stop", said.contains(" 0 cut"), &said);
    }
    Ok(step)
}

/// What curl gets: twice the page on one connection, its head by HTTP/1.0, and a refusal of a long body.
fn by_curl(curl: &Path, url: &str, folder: &Path) -> Result<[(&'static str, bool, String); 3]> {
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(curl);
        command.args(["--silent", "--show-error", "--include", "--max-time", "30"]);
        command.args(arguments);
        child::capture(&mut command, at_most(LIMIT)).map(|(_, said)| said)
    };
    let twice = ask(&[url, url])?;
    let head = ask(&["--head", "--http1.0", url])?;
    let body = folder.join("body");
    fs::write(&body, vec![b'x'; BODY_BYTES])?;
    let (data, nothing) = (format!("@{}", body.display()), format!("{url}nothing"));
    let refused = ask(&["--data-binary", &data, &nothing])?;
    Ok([
        ("curl, twice", twice.matches(ANSWER).count() == 2, twice),
        (
            "curl --head --http1.0",
            head.contains("Content-Length: 13") && !head.contains(ANSWER),
            head,
        ),
        (
            "curl, a body to a page that is not there",
            refused.contains(" 404 Not Found"),
            refused,
        ),
    ])
}
