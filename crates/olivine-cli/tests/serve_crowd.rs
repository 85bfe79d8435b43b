//! Many channels in one folder: all of them are shown, and what that costs is printed.
//!
//! `OLIVINE_CROWD_CHANNELS` is their number, 10 if it is not set; each has a publisher and seven
//! subscribers. With `OLIVINE_BROWSER` a browser draws them, too.

mod common;
#[path = "browser/devtools.rs"]
#[allow(dead_code, reason = "a part of it is used")]
mod devtools;
#[path = "common/web.rs"]
mod web;

use common::{Running, TestFolder, terminal};
use devtools::Browser;
use olivine::{Config, Publisher, Subscriber};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::termios::{Winsize, tcsetwinsize};
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use web::Server;

const SUBSCRIBERS: usize = 7;
/// Time between two messages of a channel.
const PAUSE: Duration = Duration::from_millis(50);
/// Ticks of CPU time in a second.
const TICKS_PER_S: f64 = 100.0;

/// Handles of one channel.
struct Crowd {
    publisher: Publisher,
    subscribers: Vec<Subscriber>,
}

fn crowd(place: &TestFolder, channels: usize) -> Vec<Crowd> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let config = |at: usize| {
        let uri = format!("shm://channel-{at:03}?capacity=64KiB");
        Config::parse(&uri).unwrap().dir(place.path())
    };
    let subscriber = |at| Subscriber::open_with(&config(at)).unwrap();
    (0..channels)
        .map(|at| Crowd {
            subscribers: (0..SUBSCRIBERS).map(|_| subscriber(at)).collect(),
            publisher: Publisher::open_with(&config(at)).unwrap(),
        })
        .collect()
}

/// CPU time of a process in seconds.
fn cpu_s(id: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields[at - 3].parse::<f64>().unwrap();
    (ticks(14) + ticks(15)) / TICKS_PER_S
}

/// `olivine top` on a terminal of 80 columns, after its first looks.
fn top(place: &TestFolder) -> Running {
    let (mut ours, theirs) = terminal();
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size).unwrap();
    let mut command = place.olivine(&["top", "--interval", "1s"]);
    let stdin = theirs.try_clone().unwrap();
    command.env("TERM", "xterm").stdin(stdin).stdout(theirs);
    let top = Running::new(command.spawn().unwrap());
    // The command holds the tool's end open.
    drop(command);
    let mut seen = Vec::new();
    let mut part = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains("B/s") {
        let taken = ours.read(&mut part).unwrap();
        seen.extend_from_slice(&part[..taken]);
    }
    // Read to the end: a full terminal would stop it.
    std::thread::spawn(move || while matches!(ours.read(&mut part), Ok(1..)) {});
    top
}

#[test]
fn every_channel_and_participant_of_a_crowd_is_shown() {
    let channels = std::env::var("OLIVINE_CROWD_CHANNELS");
    let channels: usize = channels.map_or(10, |number| number.parse().unwrap());
    let place = TestFolder::new();
    let mut all = crowd(&place, channels);
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let moving = std::thread::spawn(move || {
        while !asked.load(Ordering::Relaxed) {
            for one in &mut all {
                one.publisher.publish(&[7; 56]).unwrap();
                for subscriber in &mut one.subscribers {
                    while subscriber.try_receive().unwrap().is_some() {}
                }
            }
            std::thread::park_timeout(PAUSE);
        }
    });
    let server = Server::start(&place, &["serve", "--interval", "1s"]);
    let id = server.running.child.id();
    // The first looks map the channels.
    let view = server.json("/api/v1/view");
    let shown = view["channels"].as_array().unwrap();
    assert_eq!(shown.len(), channels);
    for channel in shown {
        assert_eq!(channel["error"], serde_json::Value::Null);
        let participants = channel["participants"].as_array().unwrap();
        assert_eq!(participants.len(), 1 + SUBSCRIBERS, "{channel}");
        assert!(channel["bytes_per_s"].as_f64().unwrap() > 0.0, "{channel}");
    }
    let mut scrapes = Vec::new();
    let mut answer = Vec::new();
    for _ in 0..20 {
        answer.clear();
        let begun = Instant::now();
        // From the connection to the last byte, which a program that scrapes waits for.
        let mut stream =
            server.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.read_to_end(&mut answer).unwrap();
        scrapes.push(begun.elapsed());
        let text = std::str::from_utf8(&answer).unwrap();
        let lags = text.matches("\nolivine_lag_bytes{").count();
        assert_eq!(lags, channels * SUBSCRIBERS);
    }
    scrapes.sort();
    let mut events = server.events();
    let top = top(&place);
    let top_id = top.child.id();
    events.next().unwrap();
    let (begun, before, top_before) = (Instant::now(), cpu_s(id), cpu_s(top_id));
    let mut bytes = 0;
    let looks = 10_u32;
    for _ in 0..looks {
        let (name, view) = events.next().unwrap();
        assert_eq!(name, "view");
        assert_eq!(view["channels"].as_array().unwrap().len(), channels);
        bytes = view.to_string().len();
    }
    let per_cent = 100.0 / begun.elapsed().as_secs_f64();
    let (used, top_used) = (cpu_s(id) - before, cpu_s(top_id) - top_before);
    drop((events, top));
    println!(
        "{channels} channels x {}: serve {:.2} %, top {:.2} % of a CPU at one look a second, \
         {bytes} B a look; scrape {:?} (median of 20), longest {:?}",
        1 + SUBSCRIBERS,
        used * per_cent,
        top_used * per_cent,
        scrapes[10],
        scrapes[19],
    );
    if let Some(folder) = std::env::var_os("OLIVINE_BROWSER").map(PathBuf::from) {
        draw(&place, &folder, channels);
    }
    stop.store(true, Ordering::Relaxed);
    moving.join().unwrap();
}

/// Draws the page at two looks a second, and prints when it was there and how long frames took.
fn draw(place: &TestFolder, folder: &std::path::Path, channels: usize) {
    std::fs::create_dir_all(folder).unwrap();
    let server = Server::start(place, &["serve", "--interval", "500ms"]);
    let mut browser = Browser::start("chromium", folder, "crowd");
    browser.window(1400, 900, "light");
    // The first page of a browser has its own costs.
    const DRAWN: &str = "document.querySelectorAll('#channels tbody').length";
    browser.open(&server.url, DRAWN);
    browser.open(&server.url, &format!("state.view.window_ns && {DRAWN}"));
    let rows = browser.value("document.querySelectorAll('#channels tbody').length");
    assert_eq!(rows, channels);
    let paint =
        browser.value("performance.getEntriesByName('first-contentful-paint')[0]?.startTime");
    let steps = browser.value(
        "(one => ({ answer: one.responseStart, whole: one.responseEnd, ready: one.domComplete }))\
         (performance.getEntriesByType('navigation')[0])",
    );
    let frames = browser.value(
        "new Promise(done => { const times = []; const end = performance.now() + 10000;
           const step = now => { times.push(now);
             if (now < end) requestAnimationFrame(step);
             else { const gaps = times.slice(1).map((at, index) => at - times[index]);
               done({ frames: gaps.length, longest: Math.max(...gaps),
                      late: gaps.filter(gap => gap > 25).length }); } };
           requestAnimationFrame(step); })",
    );
    browser.picture(&folder.join("serve-crowd.png"));
    println!("first contentful paint after {paint} ms, {steps}; 10 s of frames: {frames} (ms)");
}
