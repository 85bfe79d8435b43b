//! `olivine serve` with real participants and real sockets.

use crate::common::{Running, TestFolder, said, skip, until};
use crate::web::Server;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn serve(place: &TestFolder, more: &[&str]) -> Server {
    Server::start(place, &[&["serve", "--interval", "50ms"], more].concat())
}

/// A publisher at full speed that the stopped subscriber 'audit' holds back.
fn held(place: &TestFolder) -> (Running, Running) {
    let words = ["sub", "x", "--out", "none", "--name", "audit"];
    let subscriber = place.start(&words);
    place.await_subscribers("x", 1);
    let publisher = place.start(&["pub", "x", "--rate", "max", "--capacity", "64KiB"]);
    place.await_publishing("x");
    subscriber.signal(Signal::STOP);
    until("the ring to be full", || {
        place.look("x").unwrap().publishers[0].blocked_ns > 0
    });
    (subscriber, publisher)
}

#[test]
fn page_events_and_interface_name_the_stopped_subscriber() {
    let place = TestFolder::new();
    let (subscriber, publisher) = held(&place);
    let server = serve(&place, &[]);
    let expected = format!("by 'audit' (pid {}, STOPPED)", subscriber.child.id());
    let view = server.json("/api/v1/view");
    let found = &view["findings"][0];
    assert!(
        found["text"].as_str().unwrap().contains(&expected),
        "{view}"
    );
    assert_eq!(
        found["remedy"],
        format!("kill -CONT {}", subscriber.child.id())
    );
    assert!(view["window_ns"].as_u64().unwrap() > 0, "{view}");
    assert_eq!(found["publisher_process_ids"][0], publisher.child.id());
    let page = server.get("/");
    let headline = expected.replace('\'', "&#39;");
    assert!(
        page.body.contains(&format!("{headline}, ring")),
        "{}",
        page.body
    );
    let mut events = server.events();
    assert!(events.head.contains("text/event-stream"), "{}", events.head);
    let (name, view) = events.next().unwrap();
    assert_eq!(name, "view");
    assert!(
        view["findings"][0]["text"]
            .as_str()
            .unwrap()
            .contains(&expected)
    );
    let history = server.json("/api/v1/history");
    let series = history["series"].as_array().unwrap();
    let audit = series
        .iter()
        .find(|one| one["process_id"] == subscriber.child.id());
    let points = audit.unwrap()["behind_bytes"].as_array().unwrap();
    assert_eq!(
        points.len(),
        history["at_unix_ms"].as_array().unwrap().len()
    );
    assert!(points.last().unwrap().as_u64().unwrap() > 0, "{history}");
    assert!(
        server.json("/api/v1/doctor")["checks"]
            .as_array()
            .unwrap()
            .len()
            > 20
    );
    subscriber.signal(Signal::CONT);
    // The same stream shows that it is over.
    until("a view without a hold", || {
        let (_, view) = events.next().unwrap();
        view["findings"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["severity"] != "held")
    });
}

#[test]
fn nothing_is_looked_at_without_a_page() {
    let place = TestFolder::new();
    let _subscriber = place.start(&["sub", "x", "--out", "none"]);
    place.await_subscribers("x", 1);
    let server = serve(&place, &[]);
    let newest = || {
        let history = server.json("/api/v1/history");
        history["at_unix_ms"].as_array().unwrap().last().cloned()
    };
    let mut events = server.events();
    until("a point of the history", || {
        events.next().is_some() && newest().is_some()
    });
    let before = newest();
    until("a newer one", || {
        events.next().is_some() && newest() != before
    });
    drop(events);
    // Looks 50 ms apart give a point each half second.
    until("the end of the looks", || {
        let before = newest();
        std::thread::park_timeout(std::time::Duration::from_millis(1200));
        newest() == before
    });
}

#[test]
fn each_answer_has_the_fields_that_bind_a_browser() {
    let place = TestFolder::new();
    let server = serve(&place, &[]);
    for path in [
        "/",
        "/api/v1/view",
        "/api/v1/doctor",
        "/metrics",
        "/none",
        "/snapshot",
    ] {
        let answer = server.get(path);
        let policy = answer.field("Content-Security-Policy").unwrap_or_default();
        assert!(
            policy.starts_with("default-src 'none'"),
            "{path}: {}",
            answer.head
        );
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        for (name, value) in [
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Frame-Options", "DENY"),
            ("Cache-Control", "no-store"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ] {
            assert_eq!(answer.field(name), Some(value), "{path}: {}", answer.head);
        }
    }
    let nonces: Vec<String> = (0..2)
        .map(|_| {
            let page = server.get("/");
            let policy = page.field("Content-Security-Policy").unwrap();
            let (_, nonce) = policy.split_once("script-src 'nonce-").unwrap();
            let nonce = nonce.split('\'').next().unwrap().to_owned();
            assert!(page.body.contains(&format!("<script nonce=\"{nonce}\">")));
            nonce
        })
        .collect();
    assert_ne!(nonces[0], nonces[1], "a nonce is used once");
}

#[test]
fn only_our_hosts_and_reading_methods_are_answered() {
    let place = TestFolder::new();
    let server = serve(&place, &["--host", "box.example.org"]);
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
        ("BOX.example.org:8443", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
    ] {
        let answer = server.ask("GET /api/v1/view", &[&format!("Host: {host}")]);
        assert_eq!(answer.status, status, "{host}: {}", answer.body);
    }
    // A client of HTTP/1.0 without a host is not a browser, and is refused the same.
    assert_eq!(server.raw(b"GET /api/v1/view HTTP/1.0\r\n\r\n").status, 403);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let answer = server.ask(&format!("{method} /api/v1/view"), &["Content-Length: 0"]);
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.field("Allow"), Some("GET, HEAD"));
    }
    assert_eq!(server.ask("GET /login", &[]).status, 405);
    let head = server.ask("HEAD /api/v1/view", &[]);
    assert_eq!((head.status, &*head.body), (200, ""));
    assert_eq!(server.ask("HEAD /api/v1/events", &[]).status, 200);
    assert_eq!(server.get("/api/v2/view").status, 404);
}

#[test]
fn token_is_required_and_a_browser_gets_a_cookie_for_it() {
    let place = TestFolder::new();
    let file = place.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\nsecond line\n")).unwrap();
    let mode = |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    mode(0o640);
    let refused = place.run(&["serve", "--token-file", &file.display().to_string()]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("chmod 600"), "{}", said(&refused));
    mode(0o600);
    let file = file.display().to_string();
    for words in [&["--token", TOKEN][..], &["--token-file", &file]] {
        let server = serve(&place, words);
        let bearer = format!("Authorization: Bearer {TOKEN}");
        for (lines, status) in [
            (&[][..], 401),
            (&[&*bearer][..], 200),
            (
                &["Authorization: Bearer 0123456789abcdef0123456789abcdeX"],
                401,
            ),
            (&["Authorization: Bearer"], 401),
            (&["Authorization: Basic eDp5"], 401),
            (&["Cookie: olivine-0=; other=1"], 401),
        ] {
            for path in [
                "/api/v1/view",
                "/metrics",
                "/snapshot",
                "/api/v1/events",
                "/none",
            ] {
                // A stream does not end, and what is not there is not there.
                if status == 200 && matches!(path, "/api/v1/events" | "/none") {
                    continue;
                }
                let answer = server.ask(&format!("GET {path}"), lines);
                assert_eq!(answer.status, status, "{lines:?} {path}: {}", answer.body);
            }
        }
        let asks = server.get("/");
        assert_eq!(asks.status, 401);
        assert!(asks.body.contains("name=\"token\"") && !asks.body.contains(TOKEN));
        let sign_in = |form: &str| {
            let length = format!("Content-Length: {}", form.len());
            let head = format!(
                "POST /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{length}\r\n\r\n\
                 {form}"
            );
            server.raw(head.as_bytes())
        };
        let wrong = sign_in("token=wrong");
        assert_eq!(wrong.status, 401);
        assert!(wrong.body.contains("not the token"));
        let right = sign_in(&format!("token={TOKEN}"));
        assert_eq!((right.status, right.field("Location")), (303, Some("/")));
        let cookie = right.field("Set-Cookie").unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Strict") && !cookie.contains(TOKEN));
        let pair = cookie.split(';').next().unwrap();
        let (_, port) = server.address.rsplit_once(':').unwrap();
        assert!(
            pair.starts_with(&format!("olivine-{port}=")) && cookie.contains("Max-Age="),
            "{cookie}"
        );
        let page = server.ask("GET /", &[&format!("Cookie: a=b; {pair}")]);
        assert_eq!(page.status, 200, "{}", page.body);
        assert!(!page.body.contains(TOKEN));
    }
}

#[test]
fn beyond_this_machine_it_starts_only_with_a_token() {
    let place = TestFolder::new();
    for command in ["serve", "metrics"] {
        let refused = place.run(&[command, "--listen", "0.0.0.0:0"]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(
            said(&refused).contains("--token-file"),
            "{}",
            said(&refused)
        );
        let words = [command, "--listen", "0.0.0.0:0", "--token", TOKEN];
        let running = place.start(&words);
        let server = Server::new(running);
        assert!(server.url.starts_with("http://0.0.0.0:"), "{}", server.url);
        assert_eq!(server.get("/metrics").status, 401);
    }
    let weak = place.run(&["serve", "--token", "secret"]);
    assert_eq!(weak.status.code(), Some(2));
    assert!(!said(&weak).contains("secret"), "{}", said(&weak));
    let missing = place.run(&["serve", "--token-file", "/nonexistent"]);
    assert_eq!(missing.status.code(), Some(1), "{}", said(&missing));
}

#[test]
fn port_in_use_is_refused_with_a_remedy() {
    let place = TestFolder::new();
    let server = serve(&place, &[]);
    for command in ["serve", "metrics"] {
        let refused = place.run(&[command, "--listen", &server.address]);
        assert_eq!(refused.status.code(), Some(1));
        let complaint = said(&refused);
        assert!(
            complaint.contains("is in use") && complaint.contains("--listen"),
            "{complaint}"
        );
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}

#[test]
fn malformed_requests_and_lost_clients_do_not_end_it() {
    let place = TestFolder::new();
    let server = serve(&place, &[]);
    let mut streams = Vec::new();
    for bytes in [
        &b"\x00\x01\x02\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /\xff\x1b[2J HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: <script>\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\
          Transfer-Encoding: chunked\r\n\r\n",
        // Not complete, or gone before the answer.
        b"GET / HTT",
        b"GET /api/v1/view HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        streams.push(server.send(bytes));
        let mut lost = server.send(bytes);
        let _ = lost.write_all(b"x");
        drop(lost);
    }
    for stream in &mut streams[..7] {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 5"),
            "{answer}"
        );
        assert!(
            !answer.contains("<script>") && !answer.contains('\u{1b}'),
            "{answer}"
        );
    }
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn hostile_and_broken_channels_are_shown_escaped() {
    let place = TestFolder::new();
    // Durable names are checked when they are opened; a program may be called anything.
    let evil = "<img src=x onerror=alert(1)>\u{1b}[2J\u{202e}\"\\&amp;";
    let mut command = place.olivine(&["sub", "shm://good", "--out", "none"]);
    let _subscriber = Running::new(command.arg0(evil).spawn().unwrap());
    place.await_subscribers("good", 1);
    place.plant_broken_channels("good");
    let server = serve(&place, &[]);
    let view = server.json("/api/v1/view");
    let channels = view["channels"].as_array().unwrap();
    let named = |name: &str| channels.iter().find(|one| one["name"] == name).unwrap();
    let shown = evil
        .replace('\u{1b}', "\\x1b")
        .replace('\u{202e}', "\\u{202e}");
    assert_eq!(
        named("good")["participants"][0]["command"],
        format!("{shown} sub")
    );
    for broken in ["short", "zeros", "empty", "other"] {
        assert!(named(broken)["error"].is_string(), "{view}");
    }
    assert!(
        named("other")["error"].as_str().unwrap().contains("layout"),
        "{view}"
    );
    for path in ["/", "/snapshot", "/api/v1/view", "/metrics"] {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(
            !answer.body.contains('\u{1b}') && !answer.body.contains('\u{202e}'),
            "{path}"
        );
        if answer
            .field("Content-Type")
            .unwrap()
            .starts_with("text/html")
        {
            assert!(!answer.body.contains("<img src=x"), "{path}");
        }
    }
    // A channel goes and a channel comes while it looks.
    let mut events = server.events();
    let names = |view: &Value| {
        let all = view["channels"].as_array().unwrap().iter();
        all.map(|one| one["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(place.run(&["pub", "late", "a"]).status.success());
    until("the new channel", || {
        names(&events.next().unwrap().1).contains(&"late".to_owned())
    });
    assert!(place.run(&["rm", "late"]).status.success());
    until("its end", || {
        !names(&events.next().unwrap().1).contains(&"late".to_owned())
    });
}

#[test]
fn folder_that_becomes_unreadable_is_an_error_and_not_an_end() {
    let place = TestFolder::new();
    let server = serve(&place, &[]);
    assert_eq!(server.get("/api/v1/view").status, 200);
    let mut events = server.events();
    let mode = |mode| {
        let mode = Permissions::from_mode(mode);
        std::fs::set_permissions(place.path(), mode).unwrap();
    };
    let points = || {
        let history = server.json("/api/v1/history");
        history["at_unix_ms"].as_array().unwrap().clone()
    };
    let first = points()[0].clone();
    // A folder that others may write to is not trusted.
    mode(0o777);
    until("an event of the failure", || {
        let (name, value) = events.next().unwrap();
        name == "failure" && value["error"].as_str().unwrap().contains("may write to it")
    });
    let metrics = server.get("/metrics");
    assert_eq!(metrics.status, 200);
    assert!(
        metrics.body.contains("olivine_folder_readable 0\n"),
        "{}",
        metrics.body
    );
    // A page that is opened now says so, and follows the same events.
    let late = Server::start(&place, &["serve", "--interval", "50ms"]);
    for server in [&server, &late] {
        let page = server.get("/");
        assert_eq!(page.status, 200, "{}", page.body);
        assert!(page.body.contains("may write to it"), "{}", page.body);
        assert_eq!(server.get("/api/v1/view").status, 500);
    }
    let mut late = late.events();
    until("the failure", || late.next().unwrap().0 == "failure");
    // Longer than the pause after which a history begins anew.
    std::thread::park_timeout(std::time::Duration::from_secs(6));
    mode(0o700);
    for events in [&mut events, &mut late] {
        until("views again", || events.next().unwrap().0 == "view");
    }
    assert_eq!(points()[0], first, "the minute before is kept");
}

#[test]
fn snapshot_is_one_file_that_names_the_culprit_and_fetches_nothing() {
    let place = TestFolder::new();
    let (subscriber, _publisher) = held(&place);
    let path = place.path().join("now.html");
    let path = path.display().to_string();
    let made = place.run(&["serve", "--snapshot", &path, "--seconds", "0.2", "--json"]);
    assert!(made.status.success(), "{}", said(&made));
    let page = std::fs::read_to_string(&path).unwrap();
    assert_eq!(crate::common::json(&made)["page_bytes"], page.len());
    assert!(page.contains(&format!("(pid {}, STOPPED)", subscriber.child.id())));
    assert!(page.contains("connect-src 'none'") && page.contains("\"is_live\":false"));
    assert!(
        page.contains("\"good_count\""),
        "the checks of the machine are in it"
    );
    for (word, time) in [("--seconds", "10000000000000000000"), ("--interval", "25h")] {
        let long = place.run(&["serve", "--snapshot", &path, word, time]);
        assert_eq!(long.status.code(), Some(2), "{}", said(&long));
        assert!(said(&long).contains("is too long"), "{}", said(&long));
    }
    let device = place.run(&["serve", "--snapshot", "/dev/null", "--seconds", "0.1"]);
    assert_eq!(device.status.code(), Some(2), "{}", said(&device));
    let nowhere = place.run(&["serve", "--snapshot", "/nonexistent/x", "--seconds", "0.1"]);
    assert_eq!(nowhere.status.code(), Some(1), "{}", said(&nowhere));
}

#[test]
fn signals_end_it_with_open_streams_without_a_failure() {
    let place = TestFolder::new();
    for command in ["serve", "metrics"] {
        for signal in [Signal::INT, Signal::TERM] {
            let mut server = Server::start(&place, &[command]);
            let mut events = (command == "serve").then(|| server.events());
            server.running.signal(signal);
            if let Some(events) = &mut events {
                while events.next().is_some() {}
            }
            assert_eq!(
                server.running.wait().code(),
                Some(0),
                "{command} {signal:?}"
            );
        }
    }
    // A snapshot that is cut short is a failure, and leaves no file.
    let path = place.path().join("now.html");
    let words = [
        "serve",
        "--snapshot",
        &path.display().to_string(),
        "--seconds",
        "100",
    ];
    let mut cut = place.start(&words);
    until("its handler of signals", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", cut.child.id())).unwrap();
        let caught = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:\t"))
            .unwrap();
        u64::from_str_radix(caught, 16).unwrap() & (1 << (2 - 1)) != 0
    });
    cut.signal(Signal::INT);
    assert_eq!(cut.wait().code(), Some(130));
    assert!(!path.exists());
}

/// A time below 1 ms was `0 ms` on the page, and in microseconds in `olivine top`.
#[test]
fn durations_of_the_page_are_those_of_the_table_that_top_has() {
    if Command::new("node").arg("--version").output().is_err() {
        return skip("no node, so the durations of the page were not compared with those of top");
    }
    let table = include_str!("../../src/watch/durations.txt");
    let figures: Vec<&str> = table
        .lines()
        .filter_map(|line| line.split(" = ").next())
        .collect();
    let script = format!(
        "{}\nfor (const ns of [{}]) console.log(`${{ns}} = ${{seconds(ns)}}`);",
        include_str!("../../src/serve/format.js"),
        figures.join(", ")
    );
    let output = Command::new("node")
        .arg("--eval")
        .arg(script)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), table);
}
