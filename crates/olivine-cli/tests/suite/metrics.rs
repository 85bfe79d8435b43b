//! `olivine metrics` with real participants, and the rules and the dashboard in `docs/metrics`.

use crate::common::{Running, TestFolder, said, skip, until};
use crate::grammar::{Found, check};
use crate::web::Server;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OPEN: &str = "Accept: application/openmetrics-text; version=1.0.0";

/// What a server says now, as OpenMetrics.
fn scrape(server: &Server) -> Found {
    let answer = server.ask("GET /metrics", &[OPEN]);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let found = check(&answer.body, true);
    found.unwrap_or_else(|error| panic!("{error}\n{}", answer.body))
}

/// An exporter that the system starts before the first channel.
#[test]
fn metrics_may_start_before_the_folder() {
    let place = TestFolder::new();
    let later = place.path().join("later");
    let with_folder = |words: &[&str]| {
        let mut program = place.olivine(words);
        Running::new(program.env("OLIVINE_DIR", &later).spawn().unwrap())
    };
    let server = Server::new(with_folder(&["metrics", "--listen", "127.0.0.1:0"]));
    let shows = |line: &str| server.get("/metrics").body.lines().any(|one| one == line);
    assert!(shows("olivine_channels 0"));
    let output = with_folder(&["pub", "x", "hello"]).output();
    assert!(output.status.success(), "{}", said(&output));
    assert!(shows("olivine_channels 1"));
}

/// A publisher at full speed and two subscribers, of which 'audit' is stopped.
fn held(place: &TestFolder) -> [Running; 3] {
    let subscriber = |name| place.start(&["sub", "x", "--out", "none", "--name", name]);
    let (calm, audit) = (subscriber("calm"), subscriber("audit"));
    place.await_subscribers("x", 2);
    let words = [
        "pub",
        "x",
        "--rate",
        "max",
        "--capacity",
        "64KiB",
        "--size",
        "56",
    ];
    let publisher = place.start(&words);
    place.await_publishing("x");
    audit.signal(Signal::STOP);
    until("the ring to be full", || {
        place.look("x").unwrap().publishers[0].blocked_ns > 0
    });
    [calm, audit, publisher]
}

/// The slot of a durable subscriber.
fn slot(place: &TestFolder, name: &str) -> String {
    let info = place.look("x").unwrap();
    let mut all = info.subscribers.iter();
    let one = all.find(|one| one.name.as_deref() == Some(name)).unwrap();
    one.slot.to_string()
}

#[test]
fn scrapes_count_what_the_channel_counts_and_blame_the_stopped_subscriber() {
    let place = TestFolder::new();
    let participants = held(&place);
    let server = Server::start(&place, &["metrics"]);
    assert!(server.url.ends_with("/metrics"), "{}", server.url);
    let (audit, calm) = (slot(&place, "audit"), slot(&place, "calm"));
    let of_audit = [("channel", "x"), ("slot", &*audit), ("subscriber", "audit")];
    let of_calm = [("channel", "x"), ("slot", &*calm), ("subscriber", "calm")];
    let first = scrape(&server);
    let mut second = scrape(&server);
    until("a hold in two scrapes", || {
        second = scrape(&server);
        second.value("olivine_hold_seconds", &of_audit).is_some()
            && second.value("olivine_held_back_seconds_total", &of_audit) > Some(0.0)
    });
    assert_eq!(second.value("olivine_hold_seconds", &of_calm), None);
    assert_eq!(
        second.value("olivine_held_back_seconds_total", &of_calm),
        Some(0.0)
    );
    let lane = [("channel", "x"), ("lane", "0")];
    // The publisher waits: nothing moves between a scrape and this look.
    let info = place.look("x").unwrap();
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let number = |value: u64| Some(value as f64);
    assert_eq!(
        second.value("olivine_published_bytes_total", &lane),
        number(info.publishers[0].cursor)
    );
    assert_eq!(
        second.value("olivine_waits_for_room_total", &lane),
        number(info.publishers[0].back_pressure_count)
    );
    let channel = [("channel", "x")];
    assert_eq!(
        second.value("olivine_ring_capacity_bytes", &channel),
        Some(65_536.0)
    );
    // It is stopped, and does not sleep again.
    let slots = info.subscribers.iter();
    let parks = slots
        .filter(|one| one.slot.to_string() == audit)
        .map(|one| one.parks);
    assert_eq!(
        second.value("olivine_parks_total", &of_audit),
        number(parks.sum())
    );
    assert_eq!(second.value("olivine_publishers", &channel), Some(1.0));
    assert_eq!(second.value("olivine_subscribers", &channel), Some(2.0));
    assert_eq!(
        second.value("olivine_subscribers_attached_total", &channel),
        Some(2.0)
    );
    let state = [
        ("channel", "x"),
        ("role", "subscriber"),
        ("state", "stopped"),
    ];
    assert_eq!(second.value("olivine_participants", &state), Some(1.0));
    let lag = second.value("olivine_lag_bytes", &of_audit).unwrap();
    assert!(lag > 60_000.0 && lag <= 65_536.0, "{lag}");
    assert_eq!(second.value("olivine_lag_bytes", &of_calm), Some(0.0));
    // Counters do not fall, and one look is one count.
    for (name, kind) in &second.types {
        assert_eq!(first.types.get(name).unwrap_or(kind), kind, "{name}");
    }
    let looks = |found: &Found| found.value("olivine_looks_total", &[]).unwrap();
    assert!(looks(&first) >= 1.0 && looks(&second) > looks(&first));
    let waited = |found: &Found| found.value("olivine_without_room_seconds_total", &lane);
    assert!(waited(&second) >= waited(&first));
    let [_, audit, mut publisher] = participants;
    // After the death of the waiting publisher its time without room does not fall.
    let before = waited(&scrape(&server));
    publisher.signal(Signal::KILL);
    publisher.wait();
    until("the death", || {
        scrape(&server).value("olivine_publishers", &channel) == Some(0.0)
    });
    assert!(waited(&scrape(&server)) >= before);
    audit.signal(Signal::CONT);
}

#[test]
fn nothing_is_looked_at_between_scrapes() {
    let place = TestFolder::new();
    let server = Server::start(&place, &["metrics"]);
    // Each sample of the channels counts, for a page or a scrape.
    let looks = |server: &Server| scrape(server).value("olivine_looks_total", &[]).unwrap();
    let first = looks(&server);
    std::thread::park_timeout(std::time::Duration::from_millis(1500));
    assert_eq!(looks(&server), first + 1.0);
    let server = Server::start(&place, &["serve", "--interval", "50ms"]);
    let first = looks(&server);
    let mut events = server.events();
    for _ in 0..3 {
        events.next().unwrap();
    }
    assert!(looks(&server) >= first + 4.0, "looks of the page count");
}

#[test]
fn format_is_negotiated_and_only_metrics_are_served() {
    let place = TestFolder::new();
    let _subscriber = place.start(&["sub", "x", "--out", "none"]);
    place.await_subscribers("x", 1);
    let server = Server::start(&place, &["metrics"]);
    let plain = server.get("/metrics");
    assert_eq!(
        plain.field("Content-Type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    check(&plain.body, false).unwrap();
    assert!(check(&plain.body, true).is_err(), "the formats differ");
    let open = server.ask("GET /metrics", &[OPEN]);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(open.field("Content-Type"), Some(kind));
    check(&open.body, true).unwrap();
    assert_eq!(server.get("/").status, 200);
    for path in ["/api/v1/view", "/snapshot", "/login", "/api/v1/events"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    assert_eq!(
        server.ask("GET /metrics", &["Host: evil.example"]).status,
        403
    );
}

#[test]
fn text_that_is_written_once_has_ages_and_holds_and_replaces_a_file() {
    let place = TestFolder::new();
    let _participants = held(&place);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("olivine.prom");
    std::fs::write(&path, "old").unwrap();
    let words = ["metrics", "x", "--textfile", &path.display().to_string()];
    let made = place.run(&words);
    assert!(
        made.status.success() && made.stdout.is_empty(),
        "{}",
        said(&made)
    );
    let text = std::fs::read_to_string(&path).unwrap();
    let found = check(&text, false).unwrap();
    let audit = slot(&place, "audit");
    let of_audit = [("channel", "x"), ("slot", &*audit), ("subscriber", "audit")];
    assert!(
        found.value("olivine_hold_seconds", &of_audit) > Some(0.0),
        "{text}"
    );
    assert!(
        found.value("olivine_lag_seconds", &of_audit) > Some(0.0),
        "{text}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let once = place.run(&["metrics", "--once"]);
    let text = String::from_utf8(once.stdout).unwrap();
    let found = check(&text, true).unwrap();
    assert!(
        found.value("olivine_lag_bytes", &of_audit) > Some(0.0),
        "{text}"
    );
    let nowhere = place.run(&["metrics", "--textfile", "/nonexistent/x.prom"]);
    assert_eq!(nowhere.status.code(), Some(1), "{}", said(&nowhere));
}

fn document(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name)
}

fn read(name: &str) -> String {
    let path = document(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Words of a text that are names of metrics.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c: char| !is_name(c));
    words
        .filter(|word| word.starts_with("olivine_"))
        .map(str::to_owned)
        .collect()
}

/// Names of the samples of a server whose channel has everything.
fn served() -> BTreeSet<String> {
    let place = TestFolder::new();
    let _participants = held(&place);
    let server = Server::start(&place, &["metrics"]);
    let mut names = BTreeSet::new();
    until("a hold", || {
        names = scrape(&server)
            .names()
            .into_iter()
            .map(str::to_owned)
            .collect();
        names.contains("olivine_hold_seconds")
    });
    names
}

#[test]
fn document_rules_and_dashboard_name_the_metrics_that_are_served() {
    let served = served();
    let documented = names_in(&read("metrics.md"));
    let missing: Vec<_> = served.difference(&documented).collect();
    assert!(missing.is_empty(), "not in docs/metrics.md: {missing:?}");
    let dashboard = read("metrics/dashboard.json");
    let parsed: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let panels = parsed["panels"].as_array().unwrap();
    let asked = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    assert!(
        asked.clone().count() >= panels.len() - 2,
        "panels without a question"
    );
    let places = [
        ("metrics.md", documented),
        ("metrics/dashboard.json", names_in(&dashboard)),
        ("metrics/alerts.yml", names_in(&read("metrics/alerts.yml"))),
        (
            "metrics/alerts.test.yml",
            names_in(&read("metrics/alerts.test.yml")),
        ),
    ];
    for (place, names) in places {
        let unknown: Vec<_> = names.difference(&served).collect();
        assert!(
            !names.is_empty() && unknown.is_empty(),
            "{place}: {unknown:?} is not served"
        );
    }
}

/// Runs promtool with `input`; its exit code and what it said. `None` if it is not installed.
fn promtool(words: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            skip(&format!("promtool: {error}"));
            return None;
        }
    };
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    ))
}

#[test]
fn promtool_accepts_the_rules_and_they_fire_as_their_test_says() {
    let path = |name| document(name).display().to_string();
    let rules = path("metrics/alerts.yml");
    let Some((is_good, said)) = promtool(&["check", "rules", &rules], "") else {
        return;
    };
    assert!(is_good && said.contains("SUCCESS"), "{said}");
    let (is_good, said) =
        promtool(&["test", "rules", &path("metrics/alerts.test.yml")], "").unwrap();
    assert!(is_good, "{said}");
    // The questions of the dashboard, with a value for each of its variables.
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("metrics/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let rules = targets.enumerate().map(|(at, target)| {
        let asked = target["expr"]
            .as_str()
            .unwrap()
            .replace("$__rate_interval", "1m");
        serde_json::json!({ "record": format!("panel{at}"), "expr": asked })
    });
    let rules: Vec<_> = rules.collect();
    let count = rules.len();
    let rules = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    let place = tempfile::tempdir().unwrap();
    // JSON is YAML.
    let asked = place.path().join("dashboard.yml");
    std::fs::write(&asked, rules.to_string()).unwrap();
    let (is_good, said) = promtool(&["check", "rules", &asked.display().to_string()], "").unwrap();
    assert!(
        is_good && said.contains(&format!("{count} rules found")),
        "{said}"
    );
    // It finds a wrong rule.
    let wrong = place.path().join("wrong.yml");
    std::fs::write(
        &wrong,
        read("metrics/alerts.yml").replacen(" > ", " >> ", 1),
    )
    .unwrap();
    let (is_good, said) = promtool(&["check", "rules", &wrong.display().to_string()], "").unwrap();
    assert!(!is_good, "{said}");
}

#[test]
fn promtool_accepts_the_text() {
    let place = TestFolder::new();
    let _participants = held(&place);
    let server = Server::start(&place, &["metrics"]);
    scrape(&server);
    let text = server.get("/metrics").body;
    let Some((is_good, said)) = promtool(&["check", "metrics"], &text) else {
        return;
    };
    // It also says what it would name otherwise.
    assert!(is_good && said.trim().is_empty(), "{said}");
}
