//! Instructions of a request in user space, counted by valgrind's callgrind. A change of the hot
//! path shows here; times do not.
//!
//! Release builds only: `cargo xtask ci --deep` runs it. ADR 0039 has the figures.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;

use std::{
    env,
    hint::black_box,
    io::{Read, Write},
    process::Command,
};

use olivine_net::{
    Backend, ConnectionId, Engine, Handler, Shard,
    http::{self, Http, Limits, Request, Responder, Service, StaticAnswer},
};
use support::{client, config, skip};

/// Batches of the two runs whose difference is counted: it has neither start nor end.
const COUNTS: [u64; 2] = [200, 1200];
/// Requests of a batch.
const DEPTH: usize = 16;
/// Instructions that the slowed scene adds to each request, at least.
const SLOWED_BY: u64 = 60;

/// What the counted program is, and how many batches it answers.
const ROLE: &str = "OLIVINE_NET_COUNTED";
const BATCHES: &str = "OLIVINE_NET_BATCHES";

/// A short request, one as a browser sends it, and the short one to a server that counts empty
/// lines in place of reading; each with the most instructions, at most 5 % above those counted
/// here, which were 1258.1, 3517.7 and 411.1, the client's included.
const SCENES: [(&str, f64); 3] = [(SHORT, 1310.0), ("browser", 3690.0), ("unparsed", 431.0)];
const SHORT: &str = "short";
/// That scene, with more work for each request.
const SLOWED: &str = "short, slowed";

const REQUEST: &[u8] = b"GET /plaintext HTTP/1.1\r\nHost: localhost\r\n\r\n";
const BROWSER: &[u8] = b"GET /plaintext?from=page HTTP/1.1\r\n\
    Host: www.example.com:8080\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Connection: keep-alive\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n\
    Upgrade-Insecure-Requests: 1\r\n\r\n";

struct Page {
    answer: StaticAnswer,
    slowed: bool,
}

impl Service for Page {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        if self.slowed {
            for n in 0..SLOWED_BY {
                black_box(n);
            }
        }
        match (request.method(), request.path()) {
            ("GET", "/plaintext") => responder.send_static(http, &mut self.answer),
            _ => drop(responder.send(http, 404, &[], b"")),
        }
    }
}

struct Unparsed(Vec<u8>);

impl Handler for Unparsed {
    type Message = ();

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        let mut end = 0;
        for at in memchr::memmem::find_iter(data, b"\r\n\r\n") {
            if shard.offer(id, &self.0).is_err() {
                break;
            }
            end = at + 4;
        }
        end
    }
}

/// The program that is counted: a server and its client.
#[test]
fn role() {
    let Ok(scene) = env::var(ROLE) else { return };
    let batches = env::var(BATCHES).expect("set by the parent");
    let batches = batches.parse().unwrap();
    let config = config(Backend::Mio);
    if scene == "unparsed" {
        let answer = [
            &b"HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"[..],
            b"Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!",
        ];
        let engine = Engine::start(config, move |_| Unparsed(answer.concat())).unwrap();
        return ask(&engine, REQUEST, batches);
    }
    let headers = [("Content-Type", "text/plain")];
    let answer = StaticAnswer::new(200, &headers, b"Hello, World!").unwrap();
    let slowed = scene == SLOWED;
    let service = move |_| Page {
        answer: answer.clone(),
        slowed,
    };
    let engine = http::serve(config, Limits::default(), service).unwrap();
    let request = if scene == "browser" { BROWSER } else { REQUEST };
    ask(&engine, request, batches);
}

fn ask<H: Handler>(engine: &Engine<H>, request: &[u8], batches: u64) {
    let mut peer = client(engine.local_address().unwrap());
    let batch = request.repeat(DEPTH);
    let mut answer = [0; 4096];
    peer.write_all(request).unwrap();
    let one = peer.read(&mut answer).unwrap();
    assert!(answer[..one].ends_with(b"\r\n\r\nHello, World!"));
    let mut answers = vec![0; one * DEPTH];
    for _ in 0..batches {
        peer.write_all(&batch).unwrap();
        peer.read_exact(&mut answers).unwrap();
    }
    assert!(answers.ends_with(b"Hello, World!"));
}

/// Instructions of a request in this scene, its client's included.
fn instructions(scene: &str) -> f64 {
    let [less, more] = COUNTS.map(|batches| collected(scene, batches));
    let requests = (COUNTS[1] - COUNTS[0]) * DEPTH as u64;
    (more - less) as f64 / requests as f64
}

/// Instructions of a whole run.
fn collected(scene: &str, batches: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "role", "--nocapture", "--test-threads=1"])
        .env(ROLE, scene)
        .env(BATCHES, batches.to_string())
        .output()
        .expect("valgrind was there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{scene}: {said}");
    let line = said.lines().find_map(|line| line.split_once("Collected :"));
    let (_, number) = line.unwrap_or_else(|| panic!("{scene}: {said}"));
    number.trim().parse().unwrap()
}

/// Whether instructions can be counted; says why not.
fn counts() -> bool {
    if cfg!(debug_assertions) {
        skip("instructions are counted in a release build only: cargo xtask ci --deep");
        return false;
    }
    let found = Command::new("valgrind").arg("--version").output();
    if found.is_err() {
        skip("no valgrind, so instructions are not counted");
    }
    found.is_ok()
}

#[test]
fn request_takes_no_more_instructions_than_was_counted() {
    if !counts() {
        return;
    }
    let mut told = Vec::new();
    let mut failed = false;
    for (scene, most) in SCENES {
        let found = instructions(scene);
        failed |= found > most;
        told.push(format!("{scene}: {found:.1} of at most {most}"));
    }
    println!("{}", told.join("\n"));
    assert!(!failed, "{}", told.join("\n"));
}

/// The bound above is tight enough to see it.
#[test]
fn slower_path_takes_more_instructions_than_allowed() {
    if !counts() {
        return;
    }
    let (_, most) = SCENES.into_iter().find(|scene| scene.0 == SHORT).unwrap();
    let found = instructions(SLOWED);
    println!("{SLOWED}: {found:.1} of at most {most}");
    assert!(found > most, "{found}");
}
