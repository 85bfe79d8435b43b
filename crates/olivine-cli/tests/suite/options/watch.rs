//! Options of the commands that serve what they see: `metrics` and `serve`.

use super::stage::{Scene, Stage};
use crate::common::{TestFolder, json, said};
use crate::web::Server;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

const TOKEN: &str = "0123456789abcdef";

pub(crate) const SCENES: &[Scene] = &[
    Scene::acts("metrics", &["--listen"], |stage| listen(stage, "metrics")),
    Scene::acts("serve", &["--listen"], |stage| listen(stage, "serve")),
    Scene::acts("metrics", ACCESS, |stage| access(stage, "metrics")),
    Scene::acts("serve", ACCESS, |stage| access(stage, "serve")),
    Scene::acts("metrics", &["--textfile", "--once", "--json"], once),
    Scene::acts("metrics", &["--dir"], |stage| {
        dir(stage, &["metrics", "--once"]);
    }),
    Scene::acts("metrics", &["--log-level"], |stage| {
        stage.shows_level(&["metrics", "--once"]);
    }),
    Scene::acts("serve", &["--interval"], interval),
    Scene::acts("serve", &["--snapshot", "--seconds", "--json"], snapshot),
    Scene::acts("serve", &["--dir"], |stage| {
        let server = |words: &[&str]| {
            let server = Server::new(stage.start(words));
            server.json("/api/v1/view")["channels"].to_string()
        };
        let other = TestFolder::new();
        assert!(other.run(&["pub", "x", "a"]).status.success());
        let folder = other.path().display().to_string();
        let words = ["serve", "--listen", "127.0.0.1:0"];
        assert_eq!(server(&words), "[]");
        assert!(server(&[&words[..], &["--dir", &folder]].concat()).contains("\"x\""));
    }),
    Scene::acts("serve", &["--log-level"], |stage| {
        let path = stage.path("now.html");
        stage.shows_level(&["serve", "--snapshot", &path, "--seconds", "50ms"]);
    }),
];

const ACCESS: &[&str] = &["--token", "--token-file", "--host"];

/// Without it the port is fixed, and may be taken here.
fn listen(stage: &Stage, command: &str) {
    let server = Server::new(stage.start(&[command, "--listen", "127.0.0.1:0"]));
    assert_eq!(server.get("/").status, 200);
    let said = stage.fails(&[command, "--listen", &server.address], 1);
    assert!(said.contains("is in use"), "{said}");
    stage.fails(&[command, "--listen", "127.0.0.1"], 2);
    // An option without a value, and the default address with a token that is too weak.
    stage.fails(&[command, "--token", "weak"], 2);
}

fn access(stage: &Stage, command: &str) {
    let start = |more: &[&str]| {
        Server::new(stage.start(&[&[command, "--listen", "127.0.0.1:0"], more].concat()))
    };
    let file = stage.path("token");
    std::fs::write(&file, TOKEN).unwrap();
    let mode = |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    let said = stage.fails(&[command, "--token-file", &file], 2);
    assert!(said.contains("chmod 600"), "{said}");
    mode(0o600);
    assert_eq!(start(&[]).get("/metrics").status, 200);
    for words in [["--token", TOKEN], ["--token-file", &file]] {
        let server = start(&words);
        assert_eq!(server.get("/metrics").status, 401);
        let line = format!("Authorization: Bearer {TOKEN}");
        assert_eq!(server.ask("GET /metrics", &[&line]).status, 200);
    }
    let named = |server: &Server| server.ask("GET /metrics", &["Host: box.example"]).status;
    assert_eq!(named(&start(&[])), 403);
    assert_eq!(named(&start(&["--host", "box.example"])), 200);
    // A text or a page that is written once needs no host name.
    let once: &[&str] = match command {
        "metrics" => &["metrics", "--once"],
        _ => &["serve", "--snapshot", "x"],
    };
    for option in [["--token", TOKEN], ["--token-file", &file], ["--host", "a"]] {
        let said = stage.fails(&[once, &option].concat(), 2);
        assert!(said.contains(option[0]), "{said}");
    }
    stage.fails(&[command, "--token", TOKEN, "--token-file", &file], 2);
}

fn dir(stage: &Stage, words: &[&str]) {
    let other = TestFolder::new();
    assert!(other.run(&["pub", "x", "a"]).status.success());
    let folder = other.path().display().to_string();
    assert!(!stage.out(words).contains("channel=\"x\""));
    assert!(
        stage
            .out(&[words, &["--dir", &folder]].concat())
            .contains("channel=\"x\"")
    );
}

fn once(stage: &Stage) {
    let text = stage.out(&["metrics", "--once"]);
    assert!(
        text.contains("# TYPE olivine_build info") && text.ends_with("# EOF\n"),
        "{text}"
    );
    let path = stage.path("olivine.prom");
    assert_eq!(stage.out(&["metrics", "--textfile", &path]), "");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("# TYPE olivine_build_info gauge"), "{text}");
    let told = json(&stage.ok(&["metrics", "--textfile", &path, "--json"]));
    assert_eq!(told["file"], path);
    stage.fails(&["metrics", "--once", "--json"], 2);
    stage.fails(&["metrics", "--once", "--textfile", &path], 2);
    stage.fails(&["metrics", "--once", "--listen", "127.0.0.1:0"], 2);
    // The URL as JSON.
    let words = ["metrics", "--listen", "127.0.0.1:0", "--json"];
    let server = Server::new(stage.start(&words));
    let told: serde_json::Value = serde_json::from_str(&server.url).unwrap();
    assert_eq!(told["url"], format!("http://{}/metrics", server.address));
}

fn interval(stage: &Stage) {
    let start = |more: &[&str]| {
        Server::new(stage.start(&[&["serve", "--listen", "127.0.0.1:0"], more].concat()))
    };
    let window = |server: &Server| {
        let mut events = server.events();
        events.next();
        events.next().unwrap().1["window_ns"].as_u64().unwrap()
    };
    assert!(window(&start(&[])) >= 990_000_000);
    assert!(window(&start(&["--interval", "60ms"])) >= 59_000_000);
    assert!(
        stage
            .fails(&["serve", "--interval", "1ms"], 2)
            .contains("50ms or more")
    );
    // Before a snapshot it is the time between two looks as well.
    let path = stage.path("looks.html");
    let window = |time: &str| {
        let words = [
            "serve",
            "--snapshot",
            &path,
            "--seconds",
            "0.7",
            "--interval",
            time,
        ];
        stage.ok(&words);
        let page = std::fs::read_to_string(&path).unwrap();
        let (_, window) = page.split_once("\"window_ns\":").unwrap();
        window.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    let whole = window("1s");
    assert!(whole >= 690_000_000 && window("50ms") < whole, "{whole}");
}

fn snapshot(stage: &Stage) {
    let path = stage.path("now.html");
    let began = std::time::Instant::now();
    assert_eq!(
        stage.out(&["serve", "--snapshot", &path, "--seconds", "0.7"]),
        ""
    );
    assert!(began.elapsed().as_secs_f64() >= 0.7);
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.contains("There are no channels here."), "{page}");
    let told = json(&stage.ok(&["serve", "--snapshot", &path, "--seconds", "50ms", "--json"]));
    assert_eq!(told["file"], path);
    stage.fails(&["serve", "--seconds", "1"], 2);
    let began = std::time::Instant::now();
    stage.ok(&["serve", "--snapshot", &path]);
    assert!(began.elapsed().as_secs_f64() >= 2.0);
    let refused = stage.run(&["serve", "--snapshot", "/nonexistent/x", "--seconds", "50ms"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
}
