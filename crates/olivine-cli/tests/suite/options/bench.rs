//! Options of `olivine bench` without a measurement; the others are in `measure.rs`.

use super::stage::{Scene, Stage};
use crate::common::{json, said, until};
use rustix::process::Signal;

/// A result file of an earlier run.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/pingpong.json");

/// The scene of `--log-level` for a command that ends at once with these arguments.
macro_rules! level {
    ($command:literal, $($word:literal),+) => {
        Scene::acts($command, &["--log-level"], |stage| {
            let words: Vec<&str> = $command.split(' ').chain([$($word),+]).collect();
            stage.shows_level(&words);
        })
    };
}

pub(crate) const SCENES: &[Scene] = &[
    Scene::acts("bench list", &["--json", "--log-level"], |stage| {
        stage.shows_json(&["bench", "list"]);
        stage.shows_level(&["bench", "list"]);
    }),
    Scene::refused(
        "bench compare",
        &[
            "--size",
            "--cpus",
            "--runs",
            "--seconds",
            "--fifo",
            "--mlock",
            "--save",
        ],
        compare_of_files,
    ),
    Scene::acts("bench compare", &["--json"], |stage| {
        stage.shows_json(&["bench", "compare", RECORDED, RECORDED]);
        let pigeon = format!("{RECORDED}:pigeon");
        let told = stage.fails(&["bench", "compare", RECORDED, &pigeon], 1);
        assert!(told.contains("no method 'pigeon' in this file"), "{told}");
    }),
    Scene::acts(
        "bench report",
        &["--out", "--svg", "--card", "--json"],
        report,
    ),
    Scene::acts("bench", &["--save", "--json"], every_method),
    level!("bench", "--save", "x.nothing"),
    level!("bench floor", "--cpus", "0,1000"),
    level!("bench pingpong", "--cpus", "0,1000"),
    level!("bench throughput", "--cpus", "0,1000"),
    level!("bench cost", "--cpus", "0,1000"),
    level!("bench latency", "--cpus", "0,1000"),
    level!("bench fanout", "--cpus", "0,1000"),
    level!("bench mesh", "--cpus", "0,1000"),
    level!("bench bridge", "--cpus", "0,1000"),
    level!("bench http", "--cpus", "0,1000"),
    level!("bench tcp", "--cpus", "0,1000"),
    level!("bench selfcheck", "--cpus", "0,1000"),
    level!("bench sweep", "--preset", "nothing"),
    level!("bench compare", "gone.json", "gone.json"),
    level!("bench report", "gone.json"),
    level!("bench arena", "gone"),
    level!("bench submit", "gone.txt"),
    level!("bench site", "x", "gone"),
    Scene::acts("bench site", &["--json"], |stage| {
        stage.shows_json(&["bench", "site", &stage.path("site"), RECORDED]);
        // A folder of machines is each of them.
        std::fs::create_dir_all(stage.path("all/first")).unwrap();
        for machine in ["all/first/a.json", "all/second.json"] {
            std::fs::copy(RECORDED, stage.path(machine)).unwrap();
        }
        let site = stage.path("all-site");
        stage.ok(&["bench", "site", &site, &stage.path("all")]);
        for page in ["first.html", "second.html"] {
            assert!(std::path::Path::new(&site).join(page).exists(), "{page}");
        }
    }),
];

/// Every method takes about a minute: a partial result is saved, too.
fn every_method(stage: &Stage) {
    let saved = stage.path("every.json");
    let stopped = |words: &[&str]| {
        let run = stage.start(words);
        let pid = run.child.id();
        until("the measuring", || children(pid) > 0);
        run.signal(Signal::INT);
        let output = run.output();
        assert_eq!(output.status.code(), Some(130), "{}", said(&output));
        output
    };
    let output = stopped(&["bench", "--json", "--save", &saved]);
    assert_eq!(std::fs::read(&saved).unwrap(), output.stdout);
    assert_eq!(json(&output)["scenario"], "pingpong");
    std::fs::remove_file(&saved).unwrap();
    let plain = stopped(&["bench"]);
    assert!(serde_json::from_slice::<serde_json::Value>(&plain.stdout).is_err());
    assert!(!std::path::Path::new(&saved).exists());
}

/// Processes that a process has started.
fn children(pid: u32) -> usize {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().count()
}

/// Result files contain their measurement: options of measurements have no meaning for them.
fn compare_of_files(stage: &Stage) {
    let saved = stage.path("saved.json");
    let options: [&[&str]; 7] = [
        &["--size", "64"],
        &["--cpus", "0,1"],
        &["--runs", "5"],
        &["--seconds", "2"],
        &["--fifo"],
        &["--mlock"],
        &["--save", &saved],
    ];
    let words = ["bench", "compare", RECORDED, RECORDED];
    stage.ok(&words);
    for option in options {
        stage.fails(&[&words[..], option].concat(), 2);
    }
    assert!(!std::path::Path::new(&saved).exists());
}

fn report(stage: &Stage) {
    let (page, other) = (stage.path("page.html"), stage.path("other.md"));
    let folder = stage.path("plots");
    let words = ["bench", "report", RECORDED, "--out", &page];
    assert!(stage.out(&words).contains("rows in"));
    assert!(!std::path::Path::new(&folder).exists());
    let told = json(&stage.ok(&[&words[..], &["--svg", &folder, "--json"]].concat()));
    assert!(std::fs::read_dir(&folder).unwrap().count() > 0, "{told}");
    stage.ok(&["bench", "report", RECORDED, "--out", &other]);
    let printed = stage.out(&["bench", "report", RECORDED, "--out", "-"]);
    assert!(
        printed.contains("METHOD") && !printed.contains("| method |"),
        "{printed}"
    );
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert!(read(&page).contains("<html") && !read(&other).contains("<html"));
    let told = stage.fails(&["bench", "report", RECORDED, "--out", "-", "--json"], 2);
    assert!(told.contains("--json does not go with --out -"), "{told}");
    // Before a drawing is made.
    let unmade = stage.path("unmade");
    let words = ["bench", "report", RECORDED, "--svg", &unmade, "--out"];
    stage.fails(&[&words[..], &["page.png"]].concat(), 2);
    assert!(!std::path::Path::new(&unmade).exists());
    let card = stage.path("card.svg");
    let words = ["bench", "report", RECORDED, "--out", &other, "--card"];
    stage.ok(&[&words[..], &[&card]].concat());
    assert!(read(&card).contains("width=\"1200\" height=\"630\""));
    let told = stage.fails(&[&words[..], &["card.png"]].concat(), 2);
    assert!(told.contains("name a .svg file"), "{told}");
    let moved = stage.path("moved.json");
    std::fs::write(
        &moved,
        read(RECORDED).replacen("\"AMD EPYC\"", "\"Other\"", 1),
    )
    .unwrap();
    let words = [
        "bench", "report", RECORDED, &moved, "--out", &other, "--card", &card,
    ];
    let told = stage.fails(&words, 2);
    assert!(told.contains("--card shows one machine"), "{told}");
    // Without --out it is written where the tool runs.
    stage.fails(&["bench", "report", "gone.json"], 1);
}

/// Options of `olivine bench http` and `olivine bench tcp`. A figure needs a quiet machine; the
/// requested values are in every row.
pub(crate) mod servers {
    use super::super::stage::{Scene, Stage};
    use crate::common::{json, said, skip};
    use serde_json::Value;

    const METHOD: &[&str] = &["--cpus", "--runs", "--seconds", "--save", "--json"];
    const LOAD: &[&str] = &["--rate", "--wait", "--markdown", "--connections", "--depth"];
    const IO_URING: &[&str] = &["--generator", "--backend"];

    const HTTP: &[&str] = &["bench", "http", "--depth", "1", "--connections", "2"];
    const TCP: &[&str] = &["bench", "tcp", "--wait", "block", "--connections", "2"];

    pub(crate) const SCENES: &[Scene] = &[
        Scene::acts("bench http", METHOD, |stage| method(stage, HTTP)),
        Scene::acts("bench tcp", METHOD, |stage| method(stage, TCP)),
        Scene::acts("bench http", LOAD, |stage| load(stage, "http")),
        Scene::acts("bench tcp", LOAD, |stage| load(stage, "tcp")),
        Scene::acts("bench http", IO_URING, |stage| io_uring(stage, HTTP)),
        Scene::acts("bench tcp", IO_URING, |stage| io_uring(stage, TCP)),
        Scene::acts("bench http", &["--peers", "--rivals", "--ours"], peers),
        Scene::acts("bench tcp", &["--frames", "--batch", "--size"], frames),
    ];

    /// A short load, which may be too short for a figure.
    fn found(stage: &Stage, words: &[&[&str]]) -> Value {
        let short = ["--runs", "1", "--seconds", "0.1", "--json"];
        json(&stage.run(&[&words.concat()[..], &short].concat()))
    }

    fn method(stage: &Stage, words: &[&str]) {
        let saved = stage.path("saved.json");
        let short = [words, &["--runs", "1", "--seconds", "0.1"]].concat();
        let plain = stage.run(&[words, &["--runs", "1"]].concat());
        assert!(serde_json::from_slice::<Value>(&plain.stdout).is_err());
        assert!(!std::path::Path::new(&saved).exists());
        let output = stage.run(&[&short[..], &["--json", "--save", &saved]].concat());
        assert_eq!(std::fs::read(&saved).unwrap(), output.stdout);
        let one = json(&output);
        let allowed = olivine_bench::cpus::allowed();
        let (first, second) = (allowed[0], allowed[1]);
        let more = ["--cpus", &format!("{second},{first}"), "--json"];
        let other = [words, &more, &["--seconds", "1.5"]].concat();
        let other = json(&stage.run(&other));
        let of = |found: &Value, name: &str| found[name].clone();
        assert_eq!(of(&one, "cpus"), Value::from(vec![first, second]));
        assert_eq!(of(&other, "cpus"), Value::from(vec![second, first]));
        assert_eq!((of(&one, "runs"), of(&other, "runs")), (1.into(), 5.into()));
        assert_eq!(of(&other, "seconds_per_variant"), 1.5);
        let rows = other["results"].as_array().unwrap();
        let slices = rows.iter().filter_map(|row| row["slices_count"].as_u64());
        let failed = rows.iter().any(|row| row["status"] == "failed");
        assert!(failed || slices.sum::<u64>() >= 5, "{other}");
    }

    fn load(stage: &Stage, scenario: &str) {
        let base = ["bench", scenario];
        let plan = |more: &[&str]| {
            let found = found(stage, &[&base, more]);
            found["results"][0].clone()
        };
        let other = ["--wait", "spin", "--depth", "3", "--connections", "4"];
        let other = plan(&other);
        assert_eq!(
            (&other["depth_count"], &other["connections_count"]),
            (&3.into(), &4.into())
        );
        assert_eq!(other["wait"], "spin");
        assert!(other["rate_per_s"].is_null());
        let paced = ["--rate", "200", "--wait", "block", "--connections", "1"];
        let paced = found(stage, &[&base, &paced])["results"][0].clone();
        assert_eq!(paced["rate_per_s"], 200.0);
        assert_eq!(paced["wait"], "block");
        // Only a paced send can be late.
        assert!(paced["send_delay"].is_object() || paced["status"] == "failed");
        let quick = ["--runs", "1", "--seconds", "0.1", "--markdown"];
        let table = stage.run(&[&base[..], &["--depth", "1"], &quick].concat());
        let table = String::from_utf8_lossy(&table.stdout).into_owned();
        assert!(table.contains("| method |"), "{table}");
    }

    fn io_uring(stage: &Stage, words: &[&str]) {
        let plain = found(stage, &[words])["results"][0].clone();
        assert_eq!(
            (&plain["method"], &plain["settings"]),
            (&"olivine".into(), &"".into())
        );
        let quick = ["--runs", "1", "--seconds", "0.1", "--json"];
        for option in ["--generator", "--backend"] {
            let output = stage.run(&[words, &[option, "io-uring"], &quick].concat());
            if output.stdout.is_empty() {
                // The kernel refused it, which is all that is visible here.
                assert!(said(&output).contains("io_uring"), "{}", said(&output));
                skip("io_uring is left out: this machine forbids it");
                continue;
            }
            let row = &json(&output)["results"][0];
            if option == "--generator" {
                assert_eq!(row["settings"], "generator=io_uring", "{row}");
            } else {
                assert_eq!(row["method"], "olivine io_uring", "{row}");
            }
        }
        // The back end of a foreign server cannot be chosen.
        let there = if words[1] == "http" {
            "http://127.0.0.1:1/"
        } else {
            "127.0.0.1:1"
        };
        let told = stage.fails(&["bench", words[1], there, "--backend", "mio"], 2);
        assert!(told.contains("--backend"), "{told}");
    }

    fn peers(stage: &Stage) {
        let quick = ["--runs", "1", "--seconds", "0.1", "--json"];
        let server = |words: &[&str]| {
            let output = stage.run(&[words, HTTP.get(2..).unwrap(), &quick].concat());
            let name = json(&output)["results"][0]["method"].clone();
            (name, said(&output))
        };
        let (name, told) = server(&["bench", "http"]);
        assert_eq!(name, "olivine");
        assert!(!told.contains("left out"), "{told}");
        let (name, _) = server(&["bench", "http", "--ours", "floor"]);
        assert_eq!(name, "floor, unparsed");
        let (name, told) = server(&["bench", "http", "--ours", "unparsed", "--peers", "hyper"]);
        assert_eq!(name, "olivine, unparsed");
        assert!(told.contains("hyper is left out"), "{told}");
        let folder = stage.path("servers");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(format!("{folder}/hyper.missing"), "not on this one").unwrap();
        let (_, told) = server(&["bench", "http", "--peers", "hyper", "--rivals", &folder]);
        assert!(told.contains("not on this one"), "{told}");
        let told = stage.fails(&["bench", "http", "--rivals", &folder], 2);
        assert!(told.contains("--peers"), "{told}");
    }

    fn frames(stage: &Stage) {
        let stream = ["bench", "tcp", "--frames", "--wait", "block", "--batch"];
        let row = |more| found(stage, &[&stream, more])["results"][0].clone();
        let found_100 = row(&["100"]);
        assert_eq!(found_100["batch_count"], 100);
        assert!(found_100["values"]["messages_per_s"].is_object());
        assert_eq!(row(&["50"])["batch_count"], 50);
        let quick = ["--runs", "1", "--seconds", "0.1"];
        let table = |more: &[&str]| {
            let output = stage.run(&[TCP, more, &quick].concat());
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert!(table(&[]).contains("100 B, 2 connections"));
        assert!(table(&["--size", "1000"]).contains("1000 B, 2 connections"));
        stage.fails(&["bench", "tcp", "--size", "8"], 2);
        // Frames are 32 B, one way, at full speed, on one connection; batches are of frames.
        for option in [
            ["--size", "64"],
            ["--depth", "2"],
            ["--rate", "5"],
            ["--connections", "2"],
        ] {
            let told = stage.fails(&["bench", "tcp", "--frames", option[0], option[1]], 2);
            assert!(told.contains(option[0]), "{told}");
        }
        stage.fails(&["bench", "tcp", "--batch", "3"], 2);
    }
}
