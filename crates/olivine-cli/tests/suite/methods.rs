//! The methods of `olivine bench`, its job files, and leftovers after a kill.

use crate::common::{TestFolder, json, said, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsStr;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// As short as a measurement can be: a few hundred round trips of each method.
const SHORT: [&str; 5] = ["--runs", "1", "--seconds", "0.01", "--json"];

/// Runs `olivine bench` with these words and [`SHORT`].
fn bench(place: &TestFolder, words: &[&str]) -> (Option<i32>, Value, String) {
    let all: Vec<&str> = ["bench"]
        .iter()
        .chain(words)
        .chain(&SHORT)
        .copied()
        .collect();
    let output = place.run(&all);
    let said = said(&output);
    (output.status.code(), json(&output), said)
}

/// Processes that a process has started.
fn children(id: u32) -> Vec<i32> {
    let path = format!("/proc/{id}/task/{id}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|id| id.parse().ok())
        .collect()
}

/// A folder for one test at a time: the methods spin, and two CPUs hold one pair of processes.
/// `None` without two CPUs.
fn stage() -> Option<(MutexGuard<'static, ()>, TestFolder)> {
    static TURN: Mutex<()> = Mutex::new(());
    crate::common::has_two_cpus().then(|| {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        (turn, TestFolder::new())
    })
}

#[test]
fn a_number_of_round_trips_is_measured_whatever_the_time() {
    let Some((_turn, place)) = stage() else {
        return;
    };
    let mut words = vec!["bench", "pingpong", "--method", "olivine-adaptive,pipe"];
    words.extend(["-c", "1234", "--runs", "1"]);
    let output = place.run(&[&words[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = json(&output);
    let rows = report["results"].as_array().unwrap();
    for method in ["olivine-adaptive", "pipe"] {
        let of = rows.iter().filter(|row| row["method"] == method);
        let samples = of.map(|row| row["distribution"]["count"].as_u64().unwrap());
        assert_eq!(samples.sum::<u64>(), 1234, "{method}: {report}");
    }
    let printed = place.run(&words).stdout;
    let printed = String::from_utf8_lossy(&printed);
    assert!(printed.contains(", 1,234 round trips each, "), "{printed}");
    let table = printed.split("Mean and deviation, of all samples").nth(1);
    let heads = table.unwrap().lines().nth(1).unwrap();
    let heads: Vec<&str> = heads.split_whitespace().collect();
    let known = "SITUATION MEAN MIN MAX DEVIATION BY THE MEAN";
    assert_eq!(heads.join(" "), known, "{printed}");
}

#[test]
fn every_method_has_a_figure_and_leaves_nothing() {
    let Some((_turn, place)) = stage() else {
        return;
    };
    let known = json(&place.run(&["bench", "list", "--json"]));
    let (code, report, said) = bench(&place, &["pingpong", "--method", "all"]);
    let rows = report["results"].as_array().unwrap();
    let failed: Vec<_> = rows
        .iter()
        .filter(|row| row["status"] != "measured")
        .map(|row| format!("{}: {}", row["method"], row["reason"]))
        .collect();
    assert_eq!((code, failed), (Some(0), Vec::new()), "{said}");
    for method in known["methods"].as_array().unwrap() {
        let name = &method["name"];
        let row = rows.iter().find(|row| row["method"] == *name);
        let row = row.unwrap_or_else(|| panic!("no row for {name}"));
        assert_eq!(row["status"], "measured", "{row}");
        assert!(
            row["distribution"]["min_ns"].as_f64().unwrap() > 0.0,
            "{row}"
        );
    }
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn too_large_sizes_fail_and_other_rows_run() {
    let Some((_turn, place)) = stage() else {
        return;
    };
    let words = [
        "pingpong",
        "--method",
        "sysv-queue,posix-queue,udp,pipe,olivine-adaptive",
        "--size",
        "100000",
    ];
    let (code, report, said) = bench(&place, &words);
    assert_eq!(code, Some(1), "{said}");
    let reason = |name: &str| {
        let mut rows = report["results"].as_array().unwrap().iter();
        let row = rows.find(|row| row["method"] == name).unwrap();
        row["reason"].as_str().unwrap_or_default().to_owned()
    };
    assert!(reason("udp").contains("65507"), "{}", reason("udp"));
    assert!(
        reason("sysv-queue").contains("kernel.msgmax"),
        "{}",
        reason("sysv-queue")
    );
    assert!(
        reason("posix-queue").contains("msgsize_max"),
        "{}",
        reason("posix-queue")
    );
    assert_eq!(
        (reason("pipe"), reason("olivine-adaptive")),
        (String::new(), String::new())
    );
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn killed_participant_fails_one_row() {
    let Some((_turn, place)) = stage() else {
        return;
    };
    let long = [
        "bench",
        "pingpong",
        "--method",
        "pipe,posix-shm",
        "--runs",
        "1",
        "--seconds",
        "3",
        "--json",
    ];
    let running = place.start(&long).reading();
    let id = running.child.id();
    until("a method under way", || {
        !place.left().is_empty() && !children(id).is_empty()
    });
    let victim = Pid::from_raw(children(id)[0]).unwrap();
    kill_process(victim, Signal::KILL).unwrap();
    let output = running.output();
    let report = json(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    let rows = report["results"].as_array().unwrap();
    let failed: Vec<_> = rows
        .iter()
        .filter(|row| row["status"] == "failed")
        .collect();
    assert_eq!(failed.len(), 1, "{report}");
    let reason = failed[0]["reason"].as_str().unwrap();
    assert!(reason.contains("participant ended early"), "{reason}");
    assert!(
        rows.iter().any(|row| row["status"] == "measured"),
        "{report}"
    );
    assert_eq!(place.left(), Vec::<String>::new());
}

/// One of several: the row fails with the reason, and the next one is measured.
#[test]
fn killed_subscriber_of_many_fails_one_row() {
    let Some((_turn, place)) = stage() else {
        return;
    };
    let allowed = olivine_bench::cpus::allowed();
    // Not in the allowed order: the given order counts.
    let cpus = format!("{},{}", allowed[1], allowed[0]);
    let long = [
        "bench",
        "fanout",
        "--cpus",
        &cpus,
        "--subscribers",
        "2,1",
        "--runs",
        "1",
        "--seconds",
        "3",
        "--json",
    ];
    let running = place.start(&long).reading();
    let id = running.child.id();
    // A publisher and two subscribers.
    until("three participants", || children(id).len() > 2);
    until("a publisher on the first CPU asked for", || {
        let publisher = children(id).first().copied().unwrap_or_default();
        let status = std::fs::read_to_string(format!("/proc/{publisher}/status"));
        let wanted = format!("Cpus_allowed_list:\t{}", allowed[1]);
        status
            .unwrap_or_default()
            .lines()
            .any(|line| line == wanted)
    });
    let victim = Pid::from_raw(*children(id).last().unwrap()).unwrap();
    kill_process(victim, Signal::KILL).unwrap();
    let output = running.output();
    let report = json(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    let rows = report["results"].as_array().unwrap();
    let of = |status: &str| {
        let found = rows.iter().filter(|row| row["status"] == status);
        found.collect::<Vec<_>>()
    };
    assert_eq!(of("failed").len(), 1, "{report}");
    assert_eq!(of("failed")[0]["subscribers_count"], 2, "{report}");
    let pinned: Vec<u32> = serde_json::from_value(report["cpus"].clone()).unwrap();
    assert_eq!(pinned[..2], [allowed[1], allowed[0]]);
    assert_eq!(pinned.len(), allowed.len().min(3), "{report}");
    assert!(!of("measured").is_empty(), "{report}");
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn one_cpu_is_refused_in_one_line() {
    let place = TestFolder::new();
    let tool = place.olivine(&["bench", "--json"]);
    let cpu = olivine_bench::cpus::allowed()[0].to_string();
    let output = Command::new("taskset")
        .args(["-c", &cpu])
        .arg(tool.get_program())
        .args(tool.get_args())
        .env("OLIVINE_DIR", place.path())
        .output()
        .unwrap_or_else(|error| panic!("taskset of util-linux: {error}"));
    let said = said(&output);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{said}");
    assert!(
        said.contains("two CPUs") && said.trim().lines().count() == 1,
        "{said}"
    );
}

/// The surviving processes clean up: here the participants, which then end.
#[test]
fn killed_coordinator_leaves_nothing() {
    let Some((_turn, place)) = stage() else {
        return;
    };
    let long = [
        "bench",
        "pingpong",
        "--method",
        "sysv-queue",
        "--runs",
        "1",
        "--seconds",
        "60",
        "--json",
    ];
    let running = place.start(&long);
    let listed = || {
        let folder = place.left().into_iter().next()?;
        let list = std::fs::read_to_string(place.path().join(folder).join("objects")).ok()?;
        (list.matches("queue ").count() == 2).then_some(list)
    };
    let mut list = None;
    until("two queues", || {
        list = listed();
        list.is_some()
    });
    let participants = children(running.child.id());
    running.signal(Signal::KILL);
    drop(running);
    until("an empty folder", || place.left().is_empty());
    until("the end of the participants", || {
        participants
            .iter()
            .all(|id| !std::path::Path::new(&format!("/proc/{id}/fd/0")).exists())
    });
    let queues = std::fs::read_to_string("/proc/sysvipc/msg").unwrap_or_default();
    for id in list
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("queue "))
    {
        let is_there = queues
            .lines()
            .any(|line| line.split_whitespace().nth(1) == Some(id));
        assert!(!is_there, "queue {id} is left");
    }
}

#[test]
fn sweep_resumes_where_it_stopped() {
    let Some((_turn, place)) = stage() else {
        return;
    };
    let (job, out) = (place.path().join("job.toml"), place.path().join("out.json"));
    let point = |size: u32| {
        format!("[[measure]]\nscenario = 'pingpong'\nwait = ['adaptive']\nsize = [{size}]\n")
    };
    let words = [
        "sweep",
        job.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ];
    std::fs::write(&job, point(32)).unwrap();
    let (code, first, said) = bench(&place, &words);
    assert_eq!(code, Some(0), "{said}");
    std::fs::write(&job, point(32) + &point(64)).unwrap();
    let (code, second, said) = bench(&place, &words);
    assert_eq!(code, Some(0), "{said}");
    let rows = |report: &Value| report["results"].as_array().unwrap().clone();
    let (first, second) = (rows(&first), rows(&second));
    // Equal to the last digit: a measured point is not measured again.
    assert_eq!(first[..], second[..first.len()]);
    assert!(second.len() > first.len());
    let kept = std::fs::read_to_string(&out).unwrap();
    assert_eq!(rows(&serde_json::from_str(&kept).unwrap()), second);
    // Under other conditions the header would not fit these rows.
    for (word, value, difference) in [
        ("--runs", "2", "runs 1 there, 2 now"),
        ("--seconds", "0.02", "seconds 0.010000 there, 0.020000 now"),
    ] {
        let all: Vec<&str> = ["bench"]
            .iter()
            .chain(&words)
            .chain(&SHORT)
            .copied()
            .collect();
        let all: Vec<&str> = all.windows(2).fold(vec![all[0]], |mut changed, pair| {
            changed.push(if pair[0] == word { value } else { pair[1] });
            changed
        });
        let output = place.run(&all);
        let said = crate::common::said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains(difference) && said.contains("--out"),
            "{said}"
        );
        assert_eq!(std::fs::read_to_string(&out).unwrap(), kept);
    }
}

#[test]
fn several_processes_share_a_channel() {
    let Some((_turn, place)) = stage() else {
        return;
    };
    let (code, report, said) = bench(&place, &["fanout", "--subscribers", "2"]);
    assert_eq!(code, Some(0), "{said}");
    let row = &report["results"][0];
    assert_eq!(
        row["oversubscribed"],
        olivine_bench::cpus::allowed().len() < 3
    );
    let rate = row["values"]["messages_per_s"]["median"].as_f64().unwrap();
    let deliveries = row["values"]["deliveries_per_s"]["median"]
        .as_f64()
        .unwrap();
    assert!((deliveries / rate - 2.0).abs() < 1e-6, "{row}");
    let words = [
        "mesh",
        "--publishers",
        "2",
        "--subscribers",
        "2",
        "--size",
        "64",
        "--batch",
        "4",
    ];
    let (code, report, said) = bench(&place, &words);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(report["results"][0]["pairs"].as_array().unwrap().len(), 4);
    assert_eq!(place.left(), Vec::<String>::new());
}

/// Without the capabilities, and with limits that allow neither.
#[test]
fn missing_privileges_are_reported_in_one_line() {
    let Some((_turn, place)) = stage() else {
        return;
    };
    for (flag, part) in [
        ("--fifo", "may not run under SCHED_FIFO"),
        ("--mlock", "may not lock memory"),
    ] {
        let words = ["bench", "floor", flag, "--runs", "1", "--seconds", "0.01"];
        let tool = place.olivine(&words);
        let mut bare: Vec<&OsStr> = Vec::new();
        if rustix::process::geteuid().is_root() {
            let words = ["setpriv", "--bounding-set=-sys_nice,-ipc_lock"];
            bare.extend(words.map(OsStr::new));
        }
        let limits = ["prlimit", "--rtprio=0", "--memlock=65536"];
        bare.extend(limits.map(OsStr::new));
        bare.push(tool.get_program());
        bare.extend(tool.get_args());
        let output = Command::new(bare[0])
            .args(&bare[1..])
            .env("OLIVINE_DIR", place.path())
            .output()
            .unwrap_or_else(|error| panic!("{:?} of util-linux: {error}", bare[0]));
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{flag}: {said}");
        assert!(
            said.contains(part) && said.contains(flag) && said.trim().lines().count() == 1,
            "{flag}: {said}"
        );
        assert_eq!(place.left(), Vec::<String>::new());
    }
}

#[test]
fn wrong_arguments_are_reported_in_one_line() {
    let place = TestFolder::new();
    let job = place.path().join("job.toml");
    std::fs::write(
        &job,
        "[[measure]]\nscenario = 'pingpong'\nsize = [32]\nspeed = 1\n",
    )
    .unwrap();
    let job = job.to_str().unwrap();
    let other = |name: &str, lines: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, format!("[[measure]]\nsize = [32]\n{lines}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let crowd = "scenario = 'mesh'\npublishers = [1, 64]\nsubscribers = [64]\n";
    let spinning = other("spinning.toml", &format!("{crowd}wait = ['spin']\n"));
    let crowd = other("crowd.toml", crowd);
    let one_by_one = "scenario = 'throughput'\nmethod = ['udp', 'posix-queue']\nbatch = [16]\n";
    let one_by_one = other("one-by-one.toml", one_by_one);
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["pingpong", "--method", "pigeon"],
            2,
            "no method 'pigeon'; there are olivine-spin",
        ),
        (
            &["pingpong", "--rivals", "/nonexistent"],
            1,
            "cargo xtask rivals",
        ),
        (
            &["sweep", "--preset", "unknown"],
            2,
            "ipc-bench, octane, olive",
        ),
        (&["sweep", job], 2, "speed"),
        (
            &["sweep", "--fifo", &crowd],
            2,
            "--fifo needs a CPU for each process",
        ),
        (
            &["sweep", &spinning],
            2,
            "wait=spin needs a CPU for each process",
        ),
        (
            &["sweep", &one_by_one],
            2,
            "udp: this method carries one message at a time",
        ),
        (
            &["mesh", "--wait", "spin", "--publishers", "64"],
            2,
            "wait=spin needs a CPU for each process",
        ),
        (
            &["throughput", "--method", "posix-queue", "--batch", "16"],
            2,
            "--method posix-queue: this method hands messages over one by one",
        ),
        (&["sweep", "/nonexistent.toml"], 2, "/nonexistent.toml"),
        (
            &[
                "sweep",
                "--preset",
                "octane",
                "--out",
                "/nonexistent/x.json",
            ],
            1,
            "cannot write /nonexistent/x.json",
        ),
        (
            &["mesh", "--wait", "nap"],
            2,
            "--wait 'nap' is none of spin",
        ),
        (
            &["mesh", "--fifo", "--publishers", "64"],
            2,
            "--fifo needs a CPU for each process",
        ),
        (
            &["throughput", "--method", "pigeon"],
            2,
            "no method 'pigeon'",
        ),
        (
            &["throughput", "--rivals", "/nonexistent"],
            1,
            "cargo xtask rivals",
        ),
    ];
    for (words, code, expected) in cases {
        let all: Vec<&str> = ["bench"].iter().chain(*words).copied().collect();
        let output = place.run(&all);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(*code), "{words:?}: {said}");
        assert!(
            said.contains(expected) && said.trim().lines().count() == 1,
            "{words:?}: {said}"
        );
    }
}
