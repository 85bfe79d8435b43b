//! Options of `olivine bench` without a measurement; the others are in `measure.rs` and
//! `servers.rs`.

use crate::common::{json, said, until};
use crate::stage::{Scene, Stage};
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
    }),
    Scene::acts("bench report", &["--out", "--svg", "--json"], report),
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
    // Without --out it is written where the tool runs.
    stage.fails(&["bench", "report", "gone.json"], 1);
}
