//! Options of `olivine bench` and its subcommands.

use crate::common::json;
use crate::stage::{Scene, Stage};

/// A result file of an earlier run.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/pingpong.json");

/// The scene of `--log-level` of a command that ends at once with these words.
macro_rules! level {
    ($command:literal, $($word:literal),+) => {
        Scene::acts($command, &["--log-level"], |stage| {
            let words: Vec<&str> = $command.split(' ').chain([$($word),+]).collect();
            stage.shows_level(&words);
        })
    };
}

/// Why the pairs below have no scene.
pub(crate) const WHY_NOT: &str = "a measurement takes minutes on a busy machine; how often a file \
     is synced and how much a reader takes at once are not visible from outside; --durable and \
     --unfinished are newer";

/// Pairs that no scene shows yet.
pub(crate) const NOT_SHOWN: &[(&str, &[&str])] = &[
    ("sub", &["--batch"]),
    ("record", &["--sync", "--durable"]),
    ("replay", &["--unfinished"]),
    ("bench", &["--save", "--json"]),
    (
        "bench floor",
        &[
            "--cpus",
            "--runs",
            "--seconds",
            "--fifo",
            "--mlock",
            "--save",
            "--json",
        ],
    ),
    (
        "bench pingpong",
        &[
            "--method",
            "--rivals",
            "--size",
            "--slots",
            "--wait",
            "--align",
            "--capacity",
            "--cpus",
            "--runs",
            "--seconds",
            "--fifo",
            "--mlock",
            "--save",
            "--json",
        ],
    ),
    (
        "bench throughput",
        &[
            "--method",
            "--rivals",
            "--size",
            "--batch",
            "--wait",
            "--align",
            "--capacity",
            "--cpus",
            "--runs",
            "--seconds",
            "--fifo",
            "--mlock",
            "--save",
            "--json",
        ],
    ),
    (
        "bench latency",
        &[
            "--rate",
            "--size",
            "--wait",
            "--align",
            "--capacity",
            "--cpus",
            "--runs",
            "--seconds",
            "--fifo",
            "--mlock",
            "--save",
            "--json",
        ],
    ),
    (
        "bench fanout",
        &[
            "--subscribers",
            "--size",
            "--batch",
            "--wait",
            "--capacity",
            "--cpus",
            "--runs",
            "--seconds",
            "--fifo",
            "--mlock",
            "--save",
            "--json",
        ],
    ),
    (
        "bench mesh",
        &[
            "--publishers",
            "--subscribers",
            "--size",
            "--batch",
            "--wait",
            "--capacity",
            "--cpus",
            "--runs",
            "--seconds",
            "--fifo",
            "--mlock",
            "--save",
            "--json",
        ],
    ),
    (
        "bench sweep",
        &[
            "--preset",
            "--out",
            "--cpus",
            "--runs",
            "--seconds",
            "--fifo",
            "--mlock",
            "--save",
            "--json",
        ],
    ),
    (
        "bench bridge",
        &[
            "--rivals",
            "--folder",
            "--wait",
            "--rate",
            "--cpus",
            "--runs",
            "--seconds",
            "--fifo",
            "--mlock",
            "--save",
            "--json",
        ],
    ),
    (
        "bench http",
        &[
            "--peers",
            "--rivals",
            "--unparsed",
            "--depth",
            "--rate",
            "--wait",
            "--generator",
            "--backend",
            "--markdown",
            "--connections",
            "--cpus",
            "--runs",
            "--seconds",
            "--save",
            "--json",
        ],
    ),
    (
        "bench tcp",
        &[
            "--frames",
            "--batch",
            "--size",
            "--depth",
            "--rate",
            "--wait",
            "--generator",
            "--backend",
            "--markdown",
            "--connections",
            "--cpus",
            "--runs",
            "--seconds",
            "--save",
            "--json",
        ],
    ),
    (
        "bench selfcheck",
        &[
            "--cpus",
            "--runs",
            "--seconds",
            "--fifo",
            "--mlock",
            "--save",
            "--json",
        ],
    ),
];

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
    level!("bench", "--save", "x.nothing"),
    level!("bench floor", "--cpus", "0,1000"),
    level!("bench pingpong", "--cpus", "0,1000"),
    level!("bench throughput", "--cpus", "0,1000"),
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

/// Result files hold what was measured: how to measure has no meaning for them.
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
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert!(read(&page).contains("<html") && !read(&other).contains("<html"));
    // Without --out it is written where the tool runs.
    stage.fails(&["bench", "report", "gone.json"], 1);
}
