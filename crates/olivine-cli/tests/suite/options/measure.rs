//! Options of channel measurements: short runs whose results contain the requested values.

use super::stage::{Scene, Stage};
use crate::common::{json, said, skip, until};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;

const METHOD: &[&str] = &[
    "--cpus",
    "--runs",
    "--seconds",
    "--fifo",
    "--mlock",
    "--save",
    "--json",
];
/// Options of a scenario that streams.
const STREAM: &[&str] = &["--size", "--batch", "--wait", "--align", "--capacity"];
/// The shortest run.
const SHORT: &[&str] = &["--runs", "1", "--seconds", "0.001"];

const PINGPONG: &[&str] = &["bench", "pingpong", "--wait", "adaptive", "--align", "8"];
const THROUGHPUT: &[&str] = &[
    "bench",
    "throughput",
    "--size",
    "32",
    "--wait",
    "adaptive",
    "--capacity",
    "64KiB",
];
const COST: &[&str] = &[
    "bench",
    "cost",
    "--size",
    "32",
    "--wait",
    "adaptive",
    "--capacity",
    "64KiB",
];
const LATENCY: &[&str] = &[
    "bench", "latency", "--rate", "500K", "--wait", "adaptive", "--align", "8",
];
const FANOUT: &[&str] = &["bench", "fanout", "--subscribers", "1"];
const MESH: &[&str] = &["bench", "mesh", "--publishers", "1", "--subscribers", "1"];
const PACED: &[&str] = &["bench", "bridge", "paced", "--rate", "2K"];

pub(crate) const SCENES: &[Scene] = &[
    Scene::acts("bench floor", METHOD, |stage| {
        method(stage, &["bench", "floor"])
    }),
    Scene::acts("bench pingpong", METHOD, |stage| method(stage, PINGPONG)),
    Scene::acts("bench throughput", METHOD, |stage| {
        method(stage, THROUGHPUT)
    }),
    Scene::acts("bench cost", METHOD, |stage| method(stage, COST)),
    Scene::acts("bench latency", METHOD, |stage| method(stage, LATENCY)),
    Scene::acts("bench fanout", METHOD, |stage| method(stage, FANOUT)),
    Scene::acts("bench mesh", METHOD, |stage| method(stage, MESH)),
    Scene::acts("bench bridge", METHOD, |stage| method(stage, PACED)),
    Scene::acts("bench sweep", METHOD, |stage| {
        let job = job(stage);
        method(stage, &["bench", "sweep", &job]);
    }),
    Scene::acts(
        "bench pingpong",
        &["--size", "--slots", "--wait", "--align", "--capacity"],
        pingpong,
    ),
    Scene::acts("bench pingpong", &["--count"], |stage| {
        let plain = ["bench", "pingpong", "--method", "pipe"];
        assert_eq!(row(stage, &[&plain]).get("messages_count"), None);
        let words = [&plain[..], &["--runs", "2", "--count", "123"]].concat();
        let found = measured(stage, &[&words]);
        let row = &found["results"][0];
        assert_eq!(row["messages_count"], 123, "{row}");
        // It is in place of a time.
        stage.fails(&[&words[..], &["--seconds", "1"]].concat(), 2);
    }),
    Scene::acts("bench pingpong", &["--method", "--rivals"], |stage| {
        methods(stage, PINGPONG, &["bench", "pingpong", "--method"])
    }),
    Scene::acts("bench throughput", STREAM, |stage| {
        stream(stage, "throughput")
    }),
    Scene::acts("bench throughput", &["--take"], received),
    Scene::acts("bench throughput", &["--method", "--rivals"], |stage| {
        methods(stage, THROUGHPUT, &["bench", "throughput", "--method"])
    }),
    Scene::acts("bench cost", STREAM, |stage| stream(stage, "cost")),
    Scene::acts("bench cost", &["--method", "--rivals"], |stage| {
        methods(stage, COST, &["bench", "cost", "--method"])
    }),
    Scene::acts(
        "bench latency",
        &["--rate", "--size", "--wait", "--align", "--capacity"],
        latency,
    ),
    Scene::acts("bench latency", &["--subscribers", "--topic"], crowd),
    Scene::acts("bench latency", &["--worst"], worst),
    Scene::acts("bench latency", &["--method", "--rivals"], |stage| {
        let words = ["bench", "latency", "--rate", "500K", "--method"];
        methods(stage, LATENCY, &words);
        let found = row(stage, &[&words, &["tcp-busy"], &["--size", "32"]]);
        assert!(
            found["distribution"]["count"].as_u64().unwrap() > 0,
            "{found}"
        );
    }),
    Scene::acts(
        "bench fanout",
        &[
            "--subscribers",
            "--size",
            "--batch",
            "--wait",
            "--capacity",
            "--topic",
        ],
        |stage| many(stage, "fanout"),
    ),
    Scene::acts(
        "bench mesh",
        &[
            "--publishers",
            "--subscribers",
            "--size",
            "--batch",
            "--wait",
            "--capacity",
            "--topic",
        ],
        |stage| many(stage, "mesh"),
    ),
    Scene::acts(
        "bench sweep",
        &["--preset", "--rivals", "--out", "--print-job"],
        sweep,
    ),
    Scene::acts(
        "bench bridge",
        &["--rivals", "--folder", "--wait", "--rate"],
        bridge,
    ),
    Scene::acts("bench selfcheck", METHOD, selfcheck),
    Scene::acts("bench arena", METHOD, |stage| {
        let folder = entry(stage);
        let words = ["bench", "arena", &folder, "--method", "olivine-adaptive"];
        method(stage, &words);
    }),
    Scene::acts("bench arena", &["--check", "--method"], arena),
    Scene::acts("bench submit", METHOD, |stage| {
        let file = stage.path("machine.json");
        let words = ["bench", "submit", &file, "--method", "olivine-adaptive"];
        method(stage, &words);
    }),
    Scene::acts("bench submit", &["--method"], submit),
];

/// The library of an entry of the arena.
const RING: &str = include_str!("../../../../olivine-bench/entries/ring-c/ring.c");

/// The folder of an entry of the arena.
fn entry(stage: &Stage) -> String {
    let folder = stage.path("entry");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("entry.toml", "source = 'ring.c'"), ("ring.c", RING)] {
        std::fs::write(format!("{folder}/{name}"), text).unwrap();
    }
    folder
}

fn submit(stage: &Stage) {
    // All methods take minutes; a wrong file is refused before.
    for wrong in ["notes.txt", "notes.md"] {
        let path = stage.path(wrong);
        let told = stage.fails(&["bench", "submit", &path], 2);
        assert!(told.contains(wrong), "{told}");
        assert!(!std::path::Path::new(&path).exists(), "{told}");
    }
    let file = stage.path("sent.json");
    let words = ["bench", "submit", &file, &entry(stage), "--method", "pipe"];
    stage.ok(&[&words[..], SHORT].concat());
    let sent = std::fs::read_to_string(&file).unwrap();
    assert!(sent.len() <= 256 << 10, "{}", sent.len());
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert!(
        sent["machine"]["checks"].as_array().unwrap().len() > 10,
        "{sent}"
    );
    let rows = sent["results"].as_array().unwrap().iter();
    let found: BTreeSet<(&str, &str)> = rows
        .map(|row| {
            (
                row["scenario"].as_str().unwrap(),
                row["method"].as_str().unwrap(),
            )
        })
        .collect();
    for scenario in ["pingpong", "throughput", "latency"] {
        for method in ["pipe", "ring-c"] {
            assert!(
                found.contains(&(scenario, method)),
                "{scenario} {method}: {found:?}"
            );
        }
    }
    assert!(
        found.iter().any(|(scenario, _)| *scenario == "floor"),
        "{found:?}"
    );
}

fn arena(stage: &Stage) {
    let words = ["bench", "arena", &entry(stage)];
    let only = json(&stage.ok(&[&words[..], &["--check", "--json"]].concat()));
    assert_eq!(only["entries"][0]["method"], "ring-c");
    let found = measured(stage, &[&words, &["--method", "pipe"], SHORT]);
    let rows = found["results"].as_array().unwrap().iter();
    let methods: BTreeSet<&str> = rows.map(|row| row["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["pipe", "ring-c"].into());
}

/// A result with these arguments.
fn measured(stage: &Stage, words: &[&[&str]]) -> Value {
    let words = [&words.concat()[..], &["--json"]].concat();
    json(&stage.ok(&words))
}

/// The rows of a short result.
fn rows(stage: &Stage, words: &[&[&str]]) -> Vec<Value> {
    let all = [words, &[SHORT]].concat();
    let found = measured(stage, &all);
    found["results"].as_array().unwrap().clone()
}

/// The first row of a short result.
fn row(stage: &Stage, words: &[&[&str]]) -> Value {
    rows(stage, words).swap_remove(0)
}

/// Whether a setting of the measured channel is in a row.
fn has(row: &Value, setting: &str) -> bool {
    let settings = row["settings"].as_str().unwrap();
    settings.split('&').any(|pair| pair == setting)
}

/// Options of every measurement.
fn method(stage: &Stage, words: &[&str]) {
    let saved = stage.path("saved.json");
    let short = [words, SHORT].concat();
    let plain = stage.out(&short);
    assert!(serde_json::from_str::<Value>(&plain).is_err(), "{plain}");
    assert!(!std::path::Path::new(&saved).exists());
    let output = stage.ok(&[&short[..], &["--json", "--save", &saved]].concat());
    assert_eq!(std::fs::read(&saved).unwrap(), output.stdout);
    let one = json(&output);
    assert_eq!((runs(&one), &one["cpus"][0]), (1, &cpus().0.into()));
    // A turn of a bridge takes half a second. On a machine with other work more than that.
    let seconds: &[_] = if words.contains(&"bridge") {
        &["0.9", "4"]
    } else {
        &["0.4", "2", "8"]
    };
    let has_more = seconds.iter().any(|seconds| {
        let longer = measured(stage, &[words, &["--runs", "1", "--seconds", seconds]]);
        work(&longer) > work(&one)
    });
    assert!(has_more, "{words:?}");
    assert_eq!(
        runs(&measured(
            stage,
            &[words, &["--runs", "2", "--seconds", "0.002"]]
        )),
        2
    );
    pinned(stage, words);
    powers(stage, &short);
}

/// `--cpus` pins the first participant.
fn pinned(stage: &Stage, words: &[&str]) {
    let (first, second) = cpus();
    let pair = format!("{second},{first}");
    let other = ["--cpus", &pair, "--seconds", "60"];
    for (more, cpu) in [(&[][..], first), (&other[..], second)] {
        let mut run = stage.start(&[words, more].concat());
        let id = run.child.id();
        let children = format!("/proc/{id}/task/{id}/children");
        let tied = format!("\nCpus_allowed_list:\t{cpu}\n");
        until("the first participant to be tied to its CPU", || {
            assert!(run.child.try_wait().unwrap().is_none(), "it ended before");
            let children = std::fs::read_to_string(&children).unwrap_or_default();
            let first = children.split_whitespace().next().unwrap_or_default();
            let status = std::fs::read_to_string(format!("/proc/{first}/status"));
            status.is_ok_and(|text| text.contains(&tied))
        });
        run.signal(Signal::INT);
        let _ = run.output();
    }
}

/// `--fifo` and `--mlock` need privileges that the kernel refuses to this process.
fn powers(stage: &Stage, short: &[&str]) {
    for (option, what) in [("--fifo", "SCHED_FIFO"), ("--mlock", "lock memory")] {
        let Some(output) = stage.run_powerless(&[short, &[option]].concat()) else {
            return skip("prlimit and setpriv are missing: --fifo and --mlock are left out");
        };
        let said = said(&output);
        assert!(output.stdout.is_empty(), "measured: {short:?} {option}");
        // The threads of bridges need a CPU besides those of two real-time processes.
        let crowded = short[1] == "bridge" && olivine_bench::cpus::allowed().len() < 3;
        let code = if option == "--fifo" && crowded { 2 } else { 1 };
        assert_eq!(
            output.status.code(),
            Some(code),
            "{short:?} {option}: {said}"
        );
        assert!(
            said.contains(what) && said.contains(option),
            "{option}: {said}"
        );
    }
}

/// The default CPUs of a pair.
fn cpus() -> (u32, u32) {
    let allowed = olivine_bench::cpus::allowed();
    (allowed[0], allowed[1])
}

/// Runs of a result. If a placement was not found in each run, its rows have fewer.
fn runs(found: &Value) -> usize {
    let rows = found["results"].as_array().unwrap().iter();
    let runs = rows.flat_map(|row| row["runs"].as_array().unwrap());
    let listed: BTreeSet<u64> = runs.filter_map(|run| run["run"].as_u64()).collect();
    listed.len()
}

/// The amount of work: slices, and messages if they are counted.
fn work(found: &Value) -> u64 {
    let rows = found["results"].as_array().unwrap();
    let slices = rows.iter().map(|row| &row["slices_count"]);
    let messages = rows.iter().map(|row| &row["distribution"]["count"]);
    let all = slices.chain(messages);
    all.filter_map(Value::as_u64).sum()
}

/// Messages larger than half of the ring have no figure.
fn too_large(stage: &Stage, words: &[&str]) {
    let words = [
        words,
        &["--size", "8KiB", "--capacity", "4KiB", "--json"],
        SHORT,
    ];
    let output = stage.run(&words.concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(
        json(&output)["results"][0]["status"],
        "failed",
        "{}",
        said(&output)
    );
}

/// The channel refuses an unknown strategy.
fn wait_is_read(stage: &Stage, words: &[&str]) {
    let told = stage.fails(&[words, &["--wait", "nap"]].concat(), 2);
    assert!(told.contains("nap"), "{told}");
}

fn pingpong(stage: &Stage) {
    let base = ["bench", "pingpong"];
    let plain = row(stage, &[&base, &["--wait", "park", "--align", "8"]]);
    assert_eq!(plain["method"], "olivine-park");
    assert!(
        plain["kernel"]["voluntary_switches_count"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert_eq!(plain["size_bytes"], 32);
    // It looks so many times, and then sleeps.
    let turns = rows(stage, &[&base, &["--wait", "spin:7,park", "--align", "8"]]);
    let waits = turns.iter().map(|row| row["wait"].as_str().unwrap());
    assert!(waits.eq(["spin:7", "park"]), "{turns:?}");
    assert_eq!(turns[0]["method"], "olivine-shm");
    let both = rows(stage, &[&base, &["--wait", "adaptive"]]);
    assert!(both.iter().any(|row| has(row, "align=64")), "{both:?}");
    let more = [
        "--size",
        "64",
        "--slots",
        "5",
        "--align",
        "128",
        "--capacity",
        "64KiB",
        "--wait",
        "adaptive",
    ];
    for row in rows(stage, &[&base, &more]) {
        assert_eq!(row["size_bytes"], 64);
        let settings = ["subscribers_max=5", "align=128", "capacity=64KiB"];
        assert!(settings.iter().all(|setting| has(&row, setting)), "{row}");
    }
    too_large(stage, &base);
    wait_is_read(stage, &base);
    stage.ok(&[&base[..], &["--method", "pipe"], SHORT].concat());
    // A method's name implies its wait strategy, and only a channel has slots.
    for option in [&["--wait", "park"], &["--slots", "5"]] {
        stage.fails(&[&base[..], &["--method", "pipe"], option].concat(), 2);
    }
}

/// Other methods, and rivals from a folder.
fn methods(stage: &Stage, plain: &[&str], base: &[&str]) {
    assert!(
        row(stage, &[plain])["method"]
            .as_str()
            .unwrap()
            .starts_with("olivine-")
    );
    let size = ["--size", "32"];
    assert_eq!(row(stage, &[base, &["pipe"], &size])["method"], "pipe");
    for option in [["--align", "64"], ["--capacity", "64KiB"]] {
        let told = stage.fails(&[base, &["pipe"], &option].concat(), 2);
        assert!(told.contains(option[0]), "{told}");
    }
    // A named rival alone is measured, and once; the others of the folder are not.
    entry(stage);
    let other = stage.path("other-entry");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(format!("{other}/entry.toml"), "source = 'ring.c'").unwrap();
    let source = RING.replace("\"ring-c\"", "\"ring-d\"");
    std::fs::write(format!("{other}/ring.c"), source).unwrap();
    let found = rows(
        stage,
        &[base, &["pipe,ring-c", "--rivals", &stage.path("")], &size],
    );
    let mut found: Vec<&str> = found
        .iter()
        .filter_map(|row| row["method"].as_str())
        .collect();
    found.sort_unstable();
    assert_eq!(found, ["pipe", "ring-c"]);
    let told = stage.fails(&[base, &["ring-c"], &size[..]].concat(), 2);
    assert!(told.contains("--rivals"), "{told}");
    let folder = stage.path("no-rivals");
    let words = [base, &["pipe", "--rivals", &folder], &size, SHORT].concat();
    let told = stage.fails(&words, 1);
    assert!(told.contains(&folder), "{told}");
}

fn stream(stage: &Stage, scenario: &str) {
    let base = ["bench", scenario];
    let rings = rows(stage, &[&base, &["--batch", "4", "--wait", "adaptive"]]);
    assert!(rings.iter().all(|row| row["batch_count"] == 4));
    assert!(rings.iter().any(|row| has(row, "capacity=4MiB")));
    let more = ["--size", "64", "--align", "128", "--wait", "yield"];
    let found = row(stage, &[&base, &more, &["--capacity", "64KiB"]]);
    assert_eq!(
        (&found["ring_bytes"], &found["wait"]),
        (&65_536.into(), &"yield".into())
    );
    assert!(has(&found, "align=128") && has(&found, "wait=yield"));
    carries(&found, 64.0);
    too_large(stage, &base);
    wait_is_read(stage, &base);
    let told = stage.fails(
        &[&base[..], &["--method", "pipe", "--wait", "park"]].concat(),
        2,
    );
    assert!(told.contains("--wait"), "{told}");
}

/// Messages taken by each call, and the ratio of the two where the CPUs were alike.
fn received(stage: &Stage) {
    let found = measured(stage, &[THROUGHPUT, &["--take", "poll,receive"], SHORT]);
    let placements = |is_received: bool| -> BTreeSet<&str> {
        let rows = found["results"].as_array().unwrap().iter();
        let rows = rows.filter(|row| has(row, "take=receive") == is_received);
        let placements = rows.filter_map(|row| row["placement"].as_str());
        placements.collect()
    };
    let (polled, received) = (placements(false), placements(true));
    assert!(!polled.is_empty() && !received.is_empty(), "{found}");
    let both = polled.intersection(&received);
    let ratios = found["ratios"].as_array().into_iter().flatten();
    let ratios = ratios.filter(|ratio| {
        let word = |key: &str| ratio[key].as_str().unwrap();
        word("ours").contains("take=receive") && word("beside").starts_with("olivine")
    });
    let still = both.filter(|placement| **placement != "changed");
    assert_eq!(ratios.count(), still.count(), "{found}");
    let plain = measured(stage, &[THROUGHPUT, SHORT]);
    let mut rows = plain["results"].as_array().unwrap().iter();
    assert!(rows.all(|row| !has(row, "take=receive")), "{plain}");
    stage.fails(&["bench", "throughput", "--take", "give"], 2);
    stage.fails(&["bench", "cost", "--take", "poll"], 2);
}

/// Each message of a rate had this size.
fn carries(row: &Value, size: f64) {
    let median = |name: &str| row["values"][name]["median"].as_f64().unwrap();
    let each = median("bytes_per_s") / median("deliveries_per_s");
    assert!((each - size).abs() < 0.01, "{row}");
}

fn latency(stage: &Stage) {
    let base = ["bench", "latency", "--rate"];
    let plain = rows(stage, &[&base, &["2M"], &["--wait", "adaptive"]]);
    assert!(plain.iter().any(|row| has(row, "align=64")), "{plain:?}");
    let more = ["500K", "--size", "64", "--align", "128", "--wait", "park"];
    let found = row(stage, &[&base, &more, &["--capacity", "64KiB"]]);
    assert_eq!(
        (&found["size_bytes"], &found["wait"]),
        (&64.into(), &"park".into())
    );
    assert_eq!(found["ring_bytes"], 65_536);
    assert!(has(&found, "align=128"), "{found}");
    let count = |row: &Value| row["distribution"]["count"].as_u64().unwrap();
    assert!(count(&plain[0]) > count(&found), "{found}");
    too_large(stage, &["bench", "latency", "--rate", "500K"]);
    wait_is_read(stage, &["bench", "latency"]);
    stage.fails(&["bench", "latency", "--size", "8"], 2);
}

/// Several subscribers of one publisher, rings and topics.
fn crowd(stage: &Stage) {
    let base = ["bench", "latency", "--rate", "500K", "--align", "8"];
    let lists = ["--subscribers", "1,2", "--capacity", "4KiB,64KiB"];
    let topics = ["--topic", "a.b,c", "--wait", "yield"];
    let found = rows(stage, &[&base, &lists, &topics]);
    let shape = |row: &Value| {
        let number = |name: &str| row[name].as_u64().unwrap();
        (number("ring_bytes"), number("subscribers_count"))
    };
    let shapes: BTreeSet<(u64, u64)> = found.iter().map(shape).collect();
    let all = [(4096, 1), (4096, 2), (65_536, 1), (65_536, 2)];
    assert_eq!(shapes, all.into());
    assert!(found.iter().all(|row| has(row, "topic=a.b,c")), "{found:?}");
    // Each subscriber gets every message.
    let heard = |count: u64| {
        let of = found.iter().filter(|row| row["subscribers_count"] == count);
        let slices = of.map(|row| (&row["distribution"]["count"], &row["slices_count"]));
        let counts = slices.map(|(all, slices)| all.as_u64().unwrap() / slices.as_u64().unwrap());
        counts.max().unwrap()
    };
    assert_eq!(heard(2), 2 * heard(1));
    let told = stage.fails(
        &[&base[..4], &["--method", "pipe"], &lists[..2]].concat(),
        2,
    );
    assert!(
        told.contains("--subscribers") && told.contains("pipe"),
        "{told}"
    );
    let told = stage.fails(&[&base[..], &["--topic", "a.*"]].concat(), 2);
    assert!(told.contains("is a filter"), "{told}");
}

/// The causes are those of `sub --worst`, in `tests/suite/worst.rs`.
fn worst(stage: &Stage) {
    let words = ["bench", "latency", "--rate", "20K"];
    let asked = [&words[..], &["--worst", "3"]].concat();
    for row in rows(stage, &[&asked]) {
        let found = &row["worst_messages"];
        let messages = found["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 3, "{found}");
        let longest = messages[0]["latency_ns"].as_f64().unwrap();
        let most = row["worst"]["ns"].as_f64().unwrap();
        assert!((longest - most).abs() <= 1.0, "{row}");
        let shares = found["above_p99"].as_array().unwrap();
        let percent = shares
            .iter()
            .map(|share| share["percent"].as_f64().unwrap());
        assert!((99.0..101.0).contains(&percent.sum::<f64>()), "{found}");
    }
    for row in rows(stage, &[&words]) {
        assert_eq!(row.get("worst_messages"), None, "{row}");
    }
    let shown = stage.out(&[&asked, SHORT].concat());
    assert!(shown.contains("Worst messages: "), "{shown}");
    assert!(shown.contains(" % of what is above p99 ("), "{shown}");
    let other = [&asked[..], &["--method", "pipe"]].concat();
    stage.fails(&other, 2);
}

fn many(stage: &Stage, scenario: &str) {
    let base = ["bench", scenario];
    let two = ["--subscribers", "2", "--wait", "yield"];
    let one = ["--subscribers", "1"];
    let publishers: &[&str] = if scenario == "mesh" {
        &["--publishers", "1"]
    } else {
        &[]
    };
    let pairs = |row: &Value| row["pairs"].as_array().unwrap().len();
    let found = row(stage, &[&base, &two, publishers]);
    assert_eq!((pairs(&found), &found["wait"]), (2, &"yield".into()));
    assert!(has(&found, "wait=yield"), "{found}");
    let more = ["--size", "64", "--batch", "4", "--capacity", "64KiB"];
    let found = row(stage, &[&base, &one, publishers, &more]);
    assert_eq!((pairs(&found), &found["batch_count"]), (1, &4.into()));
    assert_eq!(found["wait"], "adaptive");
    assert!(has(&found, "capacity=64KiB"), "{found}");
    carries(&found, 64.0);
    let more = ["--topic", "a.b,c", "--batch", "1,3", "--wait", "spin:20"];
    for row in rows(stage, &[&base, &one, publishers, &more]) {
        assert!(
            has(&row, "topic=a.b,c") && has(&row, "wait=spin:20"),
            "{row}"
        );
        assert_eq!(row["status"], "measured", "{row}");
    }
    let words: Vec<&str> = [&base[..], &one, publishers].concat();
    too_large(stage, &words);
    wait_is_read(stage, &words);
    if scenario == "mesh" {
        let found = row(stage, &[&base, &one, &["--publishers", "2"]]);
        assert_eq!(pairs(&found), 2);
    }
    stage.fails(&["bench", scenario, "--size", "8"], 2);
}

/// A job file with one point, and its path.
fn job(stage: &Stage) -> String {
    let path = stage.path("job.toml");
    let text = "about = \"one point\"\n[[measure]]\nscenario = \"latency\"\nsize = [32]\nrate = \
    [500000.0]\n\
                wait = [\"adaptive\"]\n";
    std::fs::write(&path, text).unwrap();
    path
}

fn sweep(stage: &Stage) {
    let (job, kept) = (job(stage), stage.path("kept.json"));
    let words = [&["bench", "sweep", &job][..], SHORT, &["--json"]].concat();
    let session = |words: &[&str]| json(&stage.ok(words))["results"][0]["session"].clone();
    assert_ne!(session(&words), session(&words));
    assert!(!std::path::Path::new(&kept).exists());
    // Saved results are not measured again.
    let keeping = [&words[..], &["--out", &kept]].concat();
    assert_eq!(session(&keeping), session(&keeping));
    // What is printed is a job file with the same points.
    let printed = stage.out(&["bench", "sweep", &job, "--print-job"]);
    assert_eq!(printed, std::fs::read_to_string(&job).unwrap());
    let printed = stage.out(&["bench", "sweep", "--preset", "solace", "--print-job"]);
    assert!(
        printed.contains("[[measure]]\nscenario = \"mesh\""),
        "{printed}"
    );
    // A program that is not there leaves a row with the reason.
    let rival = stage.path("rival.toml");
    let text = "[[measure]]\nscenario = 'pingpong'\nsize = [32]\nrival = ['zeromq-ipc']\n\
    [[refused]]\npublished = 'a figure'\nreason = 'it has no clock'\n";
    std::fs::write(&rival, text).unwrap();
    let words = ["bench", "sweep", &rival, "--rivals", "nowhere"];
    let output = stage.run(&[&words[..], SHORT].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("no method 'zeromq-ipc'"), "{shown}");
    assert!(
        shown.contains("not measured: a figure: it has no clock"),
        "{shown}"
    );
    // Parts of the bridges take turns, and are not measured again.
    let (bridges, kept) = (stage.path("bridges.toml"), stage.path("bridges.json"));
    let text = "[bridge]\npart = ['paced', 'trip']\nrate = 2e3\nwait = 'park'\n";
    std::fs::write(&bridges, text).unwrap();
    let words = [&["bench", "sweep", &bridges][..], SHORT].concat();
    let words = [&words[..], &["--json", "--out", &kept]].concat();
    let figures = |found: &Value| {
        let rows = found["results"].as_array().unwrap().iter();
        let rows = rows.map(|row| [&row["scenario"], &row["session"]].map(Value::to_string));
        (
            rows.collect::<Vec<_>>(),
            found["ratios"].as_array().unwrap().len(),
        )
    };
    let found = figures(&json(&stage.ok(&words)));
    let (rows, ratios) = &found;
    assert!(
        rows.iter().all(|[_, session]| *session == rows[0][1]),
        "{rows:?}"
    );
    for part in ["paced", "trip"] {
        let name = format!("\"bridge-{part}\"");
        assert!(
            rows.iter().any(|[scenario, _]| *scenario == name),
            "{rows:?}"
        );
    }
    assert_eq!(*ratios, 3);
    assert_eq!(figures(&json(&stage.ok(&words))), found);
    let told = stage.fails(&["bench", "sweep", "--preset", "nothing"], 2);
    assert!(told.contains("ipc-bench"), "{told}");
    let begun = stage.path("begun.json");
    let run = stage.start(&["bench", "sweep", "--preset", "olive", "--out", &begun]);
    until("the first file", || std::path::Path::new(&begun).exists());
    run.signal(Signal::INT);
    let output = run.output();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("olive: "));
}

fn bridge(stage: &Stage) {
    let found = row(stage, &[PACED]);
    assert_eq!(found["rate_per_s"], 2_000.0);
    let paced = [
        "bench", "bridge", "paced", "--wait", "park", "--rate", "20K",
    ];
    let other = row(stage, &[&paced]);
    assert_eq!(
        (&other["rate_per_s"], &other["wait"]),
        (&20_000.0.into(), &"park".into())
    );
    let count = |row: &Value| row["distribution"]["count"].as_u64().unwrap();
    assert!(count(&other) > count(&found));
    wait_is_read(stage, &["bench", "bridge", "paced"]);
    let gone = stage.path("gone");
    let disk = [&["bench", "bridge", "disk"][..], SHORT].concat();
    stage.ok(&disk);
    // Before anything is measured: there is no table.
    for option in ["--folder", "--rivals"] {
        let output = stage.run(&["bench", "bridge", option, &gone]);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(&gone) && output.stdout.is_empty(), "{told}");
    }
    // An option of a part that is not measured.
    for option in [["--rate", "1K"], ["--wait", "park"], ["--rivals", &gone]] {
        let told = stage.fails(&["bench", "bridge", "disk", option[0], option[1]], 2);
        assert!(told.contains(option[0]), "{told}");
    }
    let told = stage.fails(&["bench", "bridge", "paced", "--folder", "/tmp"], 2);
    assert!(told.contains("--folder"), "{told}");
}

/// The self-check also judges the machine, so its verdict is not checked here.
fn selfcheck(stage: &Stage) {
    let words = ["bench", "selfcheck"];
    let saved = stage.path("findings.json");
    let plain = stage.run(&[&words[..], SHORT].concat());
    assert!(String::from_utf8_lossy(&plain.stdout).starts_with("CHECK"));
    let longer = [
        "--json",
        "--save",
        &saved,
        "--runs",
        "2",
        "--seconds",
        "1.5",
    ];
    let longer = stage.run(&[&words[..], &longer].concat());
    assert_eq!(std::fs::read(&saved).unwrap(), longer.stdout);
    // A slice of the stalled run delays a thousand messages by half of the stall.
    let due = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "where").unwrap();
        words[at + 1].parse::<u64>().unwrap()
    };
    let what = json(&longer)["checks"][0]["what"].to_string();
    assert!(
        due(&what) > due(&String::from_utf8_lossy(&plain.stdout)),
        "{what}"
    );
    pinned(stage, &words);
    powers(stage, &[&words[..], SHORT].concat());
}
