//! The page of `olivine serve` in a browser, with real channels: wide and narrow, light and dark.

use crate::browser_and_folder;
use crate::common::{Running, TestFolder, until};
use crate::devtools::Browser;
use crate::web::Server;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;

const TOKEN: &str = "0123456789abcdef";
/// A page that has drawn a look with rates.
const DRAWN: &str = "state.view.window_ns && document.querySelector('#channels tbody')";
/// What does not fit: the page, or a text of the map outside its box.
const OVERFLOW: &str = "(() => { const bad = [];
  if (document.documentElement.scrollWidth > innerWidth) bad.push('the page');
  for (const node of document.querySelectorAll('#map g g')) {
    const box = node.querySelector('rect').getBoundingClientRect();
    for (const text of node.querySelectorAll('text')) {
      const at = text.getBoundingClientRect();
      if (at.right > box.right + 1 || at.left < box.left) bad.push(text.textContent);
    }
  }
  for (const cell of document.querySelectorAll('td, #first, .check')) {
    if (cell.scrollWidth > cell.clientWidth + 1) bad.push(cell.textContent);
  }
  return bad.join(' | '); })()";

/// Channels of each kind: held, busy, fan-in, with an absent name, hostile, unreadable.
fn channels(place: &TestFolder) -> (Vec<Running>, usize) {
    let mut all = Vec::new();
    for (channel, names) in [
        ("ticks", &["strategy-a", "strategy-b", "audit", "risk"][..]),
        ("orders.eu", &["gateway"]),
        ("log", &["archive"]),
    ] {
        for name in names {
            all.push(place.start(&["sub", channel, "--out", "none", "--name", name]));
        }
        place.await_subscribers(channel, names.len());
    }
    // A program may be called anything.
    let evil = "<img src=x onerror=window.hacked=1>\u{1b}[2J\u{202e}";
    let mut command = place.olivine(&["sub", "log", "--out", "none"]);
    all.push(Running::new(command.arg0(evil).spawn().unwrap()));
    let gone = place.run(&[
        "sub",
        "orders.eu",
        "--name",
        "nightly-report",
        "--duration",
        "1ms",
    ]);
    assert!(gone.status.success());
    for (channel, rate) in [("orders.eu", "200"), ("orders.eu", "30"), ("log", "20")] {
        let words = [
            "pub",
            channel,
            "--rate",
            rate,
            "--capacity",
            "4MiB",
            "--size",
            "100",
        ];
        all.push(place.start(&words));
    }
    let words = ["pub", "ticks", "--rate", "100K", "--capacity", "64KiB"];
    all.push(place.start(&words));
    place.await_publishing("ticks");
    let broken = place.path().join("old");
    std::fs::create_dir(&broken).unwrap();
    std::fs::write(broken.join("control"), [0; 8192]).unwrap();
    // 'audit', the third.
    all[2].signal(Signal::STOP);
    until("the ring to be full", || {
        place.look("ticks").unwrap().publishers[0].blocked_ns > 0
    });
    (all, 2)
}

#[test]
fn the_live_page_fits_names_the_culprit_and_follows_the_channels() {
    let Some((program, folder)) = browser_and_folder("the page of 'olivine serve'") else {
        return;
    };
    let place = TestFolder::new();
    let (participants, audit) = channels(&place);
    let server = Server::start(&place, &["serve", "--interval", "200ms"]);
    let mut browser = Browser::start(program, &folder, "live");
    let culprit = format!(
        "by 'audit' (pid {}, STOPPED)",
        participants[audit].child.id()
    );
    let mut papers = BTreeSet::new();
    for width in [1400, 400] {
        for colours in ["light", "dark"] {
            let what = format!("{width} pixels, {colours}");
            browser.window(width, 900, colours);
            browser.open(&server.url, DRAWN);
            // A minute's pictures need some points.
            browser.until("state.history.at.length > 5");
            browser.until("document.getElementById('status').className === 'live'");
            browser.until("document.querySelectorAll('#doctor-rest li').length > 0");
            let headline = browser.value("document.getElementById('headline').textContent");
            assert!(
                headline.as_str().unwrap().contains(&culprit),
                "{what}: {headline}"
            );
            let remedy = browser.value("document.querySelector('#findings code').textContent");
            assert_eq!(
                remedy,
                format!("kill -CONT {}", participants[audit].child.id())
            );
            assert_eq!(browser.value(OVERFLOW), "", "{what}: does not fit");
            let red = browser.value("document.querySelectorAll('#map path.held').length");
            assert_eq!(
                red, 2,
                "{what}: the publisher and the stopped subscriber are red"
            );
            let rows = browser.value("document.querySelectorAll('#channels tbody').length");
            assert_eq!(rows, 4, "{what}");
            let drawn = browser.value(
                "[...document.querySelectorAll('.spark path')]\
                 .filter(one => one.getAttribute('d')).length",
            );
            assert!(
                drawn.as_u64().unwrap() > 0,
                "{what}: no picture of the last minute"
            );
            papers.insert(
                browser
                    .value("getComputedStyle(document.body).backgroundColor")
                    .to_string(),
            );
            browser.picture(&folder.join(format!("serve-{width}-{colours}.png")));
            let paint = browser.value(
                "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null",
            );
            println!("{what}: first contentful paint after {paint} ms");
        }
    }
    assert_eq!(
        papers.len(),
        2,
        "light and dark have the colours {papers:?}"
    );
    assert_eq!(
        browser.value("window.hacked ?? null"),
        serde_json::Value::Null
    );
    let body = browser.value("document.getElementById('map').textContent");
    assert!(
        body.as_str().unwrap().contains("<img src=x onerror="),
        "the name is text: {body}"
    );
    // The same page shows that it is over, and then a channel that is new.
    participants[audit].signal(Signal::CONT);
    browser.until("!document.getElementById('headline').textContent.includes('audit')");
    assert!(place.run(&["pub", "late", "a"]).status.success());
    browser.until("[...state.rows.keys()].includes('late')");
    // A paused page keeps what it shows, also when it is drawn again, and then shows the newest.
    let click = "document.getElementById('pause').click()";
    browser.value(click);
    assert!(place.run(&["pub", "later", "a"]).status.success());
    browser.until("state.newest.view.channels.some(one => one.name === 'later')");
    browser.value("void dispatchEvent(new Event('resize'))");
    let rows = "[...state.rows.keys()].includes('later')";
    assert_eq!(browser.value(rows), false);
    let status = browser.value("document.getElementById('status').textContent");
    assert!(
        status
            .as_str()
            .unwrap()
            .starts_with("paused, as it was at 20"),
        "{status}"
    );
    browser.value(click);
    browser.until(rows);
    browser.until("document.getElementById('status').className === 'live'");
    // A server that sends nothing more: what is shown is not called live.
    server.running.signal(Signal::STOP);
    browser.until("document.getElementById('status').textContent.startsWith('no new look')");
    assert_eq!(
        browser.value("document.getElementById('status').className"),
        "lost"
    );
    server.running.signal(Signal::CONT);
    browser.until("document.getElementById('status').className === 'live'");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let foreign: Vec<String> = browser.fetched();
    let is_ours = |url: &String| url.starts_with(&server.url) || url.starts_with("data:");
    let foreign: Vec<&String> = foreign.iter().filter(|url| !is_ours(url)).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    // The server goes: the page says so.
    drop(server);
    browser.until("document.getElementById('status').className === 'lost'");
}

#[test]
fn the_snapshot_is_drawn_without_a_server_and_the_token_opens_the_page() {
    let Some((program, folder)) = browser_and_folder("a snapshot of 'olivine serve'") else {
        return;
    };
    let place = TestFolder::new();
    let (participants, audit) = channels(&place);
    let file = folder.join("snapshot.html").display().to_string();
    let made = place.run(&["serve", "--snapshot", &file]);
    assert!(made.status.success());
    let mut browser = Browser::start(program, &folder, "snapshot");
    browser.window(1400, 900, "light");
    browser.open(&format!("file://{file}"), DRAWN);
    let headline = browser.value("document.getElementById('headline').textContent");
    let culprit = format!(
        "by 'audit' (pid {}, STOPPED)",
        participants[audit].child.id()
    );
    assert!(headline.as_str().unwrap().contains(&culprit), "{headline}");
    let status = browser.value("document.getElementById('status').textContent");
    assert!(
        status.as_str().unwrap().starts_with("as it was at 20"),
        "{status}"
    );
    assert!(
        browser
            .value("document.querySelectorAll('#doctor-rest li').length")
            .as_u64()
            > Some(10)
    );
    assert_eq!(browser.value(OVERFLOW), "");
    browser.picture(&folder.join("serve-snapshot.png"));
    let fetched = browser.fetched();
    assert!(
        fetched
            .iter()
            .all(|url| url.starts_with("file:") || url.starts_with("data:")),
        "{fetched:?}"
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
    // With a token the page asks for it once.
    let server = Server::start(&place, &["serve", "--token", TOKEN]);
    let form = "document.querySelector('input[name=token]')";
    browser.open(&server.url, form);
    browser.picture(&folder.join("serve-sign-in.png"));
    let submit =
        |token: &str| format!("{form}.value = '{token}'; document.forms[0].requestSubmit()");
    browser.value(&submit("0000000000000000"));
    browser.until("document.querySelector('.wrong')?.textContent.includes('not the token')");
    browser.value(&submit(TOKEN));
    browser.until(DRAWN);
    browser.until("document.getElementById('status').className === 'live'");
    let cookie = browser.value("document.cookie");
    assert_eq!(cookie, "", "scripts do not see the cookie");
}
