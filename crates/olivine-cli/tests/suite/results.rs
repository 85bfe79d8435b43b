//! Result files of `olivine bench`: written, compared, reported, and checked by the self-check.

use crate::common::{TestFolder, json, said};
use std::path::Path;

/// A recorded run, kept here so that a new recording changes no test.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/pingpong.json");

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn result_follows_the_schema_in_every_format() {
    let place = TestFolder::new();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (saved, csv, hlog, page) = (
        path("a.json"),
        path("a.csv"),
        path("a.hlog"),
        path("a.html"),
    );
    let output = place.run(&[
        "bench",
        "pingpong",
        "--method",
        "olivine-adaptive",
        "--runs",
        "3",
        "--seconds",
        "0.05",
        "--json",
        "--save",
        &saved,
        "--save",
        &csv,
        "--save",
        &hlog,
        "--save",
        &page,
    ]);
    assert!(output.status.success(), "{}", said(&output));
    let printed = json(&output);
    let schema = serde_json::from_str(include_str!("../../../../docs/bench-schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&printed)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let kept: serde_json::Value = serde_json::from_str(&text(Path::new(&saved))).unwrap();
    assert_eq!(kept, printed, "what is written is what is printed");
    let checks = printed["machine"]["checks"].as_array().unwrap();
    assert!(
        checks.iter().any(|one| one["id"] == "governor"),
        "{checks:?}"
    );
    let row = &printed["results"][0];
    assert!(
        row["worst"]["cause"].is_string() && row["worst"]["at_s"].as_f64().unwrap() > 0.0,
        "{row}"
    );
    assert_eq!(row["worst"]["ns"], row["distribution"]["max_ns"]);
    let rows = printed["results"].as_array().unwrap().len();
    assert_eq!(text(Path::new(&csv)).lines().count(), rows + 1);
    assert!(text(Path::new(&hlog)).contains("Tag=pingpong/olivine-adaptive/32B"));
    assert!(text(Path::new(&page)).ends_with("</html>\n"));
}

/// What a run prints and writes is what `report` makes of its JSON.
#[test]
fn every_output_of_a_run_is_that_of_its_file() {
    if !crate::common::has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    // One name, which outputs show.
    let path = |folder: &str, ending: &str| {
        let folder = place.path().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("pingpong.{ending}"));
        path.to_str().unwrap().to_owned()
    };
    let mut words = vec!["bench", "pingpong", "--method", "olivine-adaptive,pipe"];
    words.extend(["--runs", "5", "--seconds", "0.1"]);
    let endings = ["json", "csv", "html", "md", "tex", "hlog"];
    let saved = endings.map(|ending| path("saved", ending));
    words.extend(saved.iter().flat_map(|path| ["--save", path]));
    let output = place.run(&words);
    assert!(output.status.success(), "{}", said(&output));
    let report = |out: &str| place.run(&["bench", "report", &saved[0], "--out", out]);
    let shown = String::from_utf8(report("-").stdout).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        shown.len() > 500 && printed.starts_with(&shown),
        "{printed}\n{shown}"
    );
    // The last lines are what a person may quote.
    let mut paragraphs = printed.trim_end().split("\n\n");
    let sentence = paragraphs.next().unwrap().replace('\n', " ");
    let last = paragraphs.last().unwrap().replace('\n', " ");
    assert!(last.starts_with(&format!("{sentence} ")), "{last}");
    assert!(last.contains(", olivine "), "{last}");
    for (ending, saved) in endings.iter().zip(&saved).skip(1) {
        let again = path("again", ending);
        assert!(report(&again).status.success());
        let [saved, again] = [saved, &again].map(|path| text(Path::new(path)));
        // A number may change in its last digit when it is read.
        let number = |cell: &str| cell.parse::<f64>().map(|value| format!("{value:.9e}"));
        let cells = |text: &str| -> Vec<String> {
            let cells = text.split([',', '\n']);
            let plain = |cell: &str| number(cell).unwrap_or_else(|_| cell.to_owned());
            cells.map(plain).collect()
        };
        assert_eq!(cells(&saved), cells(&again), "{ending}");
    }
}

#[test]
fn recorded_run_becomes_a_page_with_plots() {
    let place = TestFolder::new();
    let (page, plots) = (place.path().join("r.html"), place.path().join("plots"));
    let output = place.run(&[
        "bench",
        "report",
        RECORDED,
        "--out",
        page.to_str().unwrap(),
        "--svg",
        plots.to_str().unwrap(),
        "--json",
    ]);
    let told = json(&output);
    assert!(output.status.success(), "{}", said(&output));
    let html = text(&page);
    assert!(html.len() < 2_000_000 && html.contains("olivine-spin") && !html.contains("http"));
    let drawn = std::fs::read_dir(&plots).unwrap().count();
    assert!(drawn >= 2, "{told}");
    assert_eq!(told["files"].as_array().unwrap().len(), drawn + 1);
    assert_eq!(html.matches("<figure>").count(), drawn);
}

#[test]
fn methods_of_a_recorded_run_are_compared() {
    let place = TestFolder::new();
    let (ours, theirs) = (
        format!("{RECORDED}:olivine-spin"),
        format!("{RECORDED}:pipe"),
    );
    let found = json(&place.run(&["bench", "compare", &ours, &theirs, "--json"]));
    let first = &found["comparisons"][0];
    assert!(
        first["ratio"].as_f64().unwrap() > 1.0 && first["noise"] == false,
        "{found}"
    );
    // An older file has no sessions.
    assert_eq!(first["interleaved"], false);
    let back = json(&place.run(&["bench", "compare", &theirs, &ours, "--json"]));
    let product =
        first["ratio"].as_f64().unwrap() * back["comparisons"][0]["ratio"].as_f64().unwrap();
    assert!((product - 1.0).abs() < 1e-9, "{product}");
    let itself = place.run(&["bench", "compare", RECORDED, RECORDED]);
    let words = String::from_utf8_lossy(&itself.stdout).into_owned();
    assert!(
        itself.status.success() && words.lines().all(|line| line.contains("noise")),
        "{words}"
    );
}

/// The quoted median is that of the runs, not that of all samples.
#[test]
fn a_p50_that_is_shown_is_that_of_the_median_run() {
    let place = TestFolder::new();
    let text = std::fs::read_to_string(RECORDED).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
    for row in file["results"].as_array_mut().unwrap() {
        if let Some(p50) = row["values"].get_mut("p50_ns") {
            *p50 = serde_json::json!({"median": 7.7e8, "min": 7.0e8, "max": 9.9e8, "runs": 5});
        }
    }
    let path = place.path().join("runs.json");
    std::fs::write(&path, file.to_string()).unwrap();
    for ending in ["md", "html", "csv"] {
        let out = place.path().join(format!("out.{ending}"));
        let [from, to] = [&path, &out].map(|path| path.to_str().unwrap());
        let made = place.run(&["bench", "report", from, "--out", to]);
        assert_eq!(made.status.code(), Some(0), "{}", said(&made));
        let made = std::fs::read_to_string(&out).unwrap();
        assert!(
            made.contains(if ending == "csv" {
                "770000000"
            } else {
                "770 ms"
            }),
            "{ending}: {made}"
        );
    }
}

/// Runs of one number are paired only within one session, in any order of rows.
#[test]
fn only_rows_of_one_session_are_paired() {
    let place = TestFolder::new();
    let text = std::fs::read_to_string(RECORDED).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let path = place.path().join("sessions.json");
    let [ours, theirs] = ["olivine-spin", "pipe"].map(|name| format!("{}:{name}", path.display()));
    for (session_of_pipe, interleaved) in [("a", true), ("b", false)] {
        for row in file["results"].as_array_mut().unwrap() {
            let is_pipe = row["method"] == "pipe";
            row["session"] = if is_pipe { session_of_pipe } else { "a" }.into();
        }
        std::fs::write(&path, file.to_string()).unwrap();
        let found = json(&place.run(&["bench", "compare", &ours, &theirs, "--json"]));
        assert_eq!(
            found["comparisons"][0]["interleaved"], interleaved,
            "{found}"
        );
        let said = place.run(&["bench", "compare", &ours, &theirs]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert_eq!(said.contains("did not take turns"), !interleaved, "{said}");
    }
}

/// A method with two settings has two situations, compared apart.
#[test]
fn settings_of_a_method_are_compared_apart() {
    let place = TestFolder::new();
    let text = std::fs::read_to_string(RECORDED).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = file["results"].as_array_mut().unwrap();
    let spinning = rows.iter().filter(|row| row["method"] == "olivine-spin");
    let mut others: Vec<serde_json::Value> = spinning.cloned().collect();
    for row in &mut others {
        row["settings"] = "align=64".into();
    }
    rows.append(&mut others);
    let path = place.path().join("both.json");
    std::fs::write(&path, file.to_string()).unwrap();
    let [ours, theirs] = ["olivine-spin", "pipe"].map(|name| format!("{}:{name}", path.display()));
    let found = json(&place.run(&["bench", "compare", &ours, &theirs, "--json"]));
    let found = found["comparisons"].as_array().unwrap();
    let mut situations: Vec<&str> = found
        .iter()
        .map(|one| one["situation"].as_str().unwrap())
        .collect();
    assert!(
        situations.iter().any(|words| words.ends_with("align=64")),
        "{situations:?}"
    );
    let count = situations.len();
    situations.sort_unstable();
    situations.dedup();
    assert_eq!(situations.len(), count, "{situations:?}");
}

#[test]
fn failed_comparison_or_write_is_one_line() {
    let place = TestFolder::new();
    let broken = place.path().join("broken.json");
    std::fs::write(&broken, "{\"schema\":\"olivine-bench/2\"}").unwrap();
    let broken = broken.to_str().unwrap();
    for (words, code, part) in [
        (
            vec!["bench", "compare", "pipe", RECORDED],
            2,
            "cannot compare a result file with a method",
        ),
        (
            vec!["bench", "compare", "pipe", "carrier-pigeon"],
            2,
            "carrier-pigeon",
        ),
        (
            vec!["bench", "compare", "/nonexistent/a.json", RECORDED],
            1,
            "cannot read /nonexistent/a.json",
        ),
        (
            vec!["bench", "report", broken, "--out", "x.html"],
            1,
            "is not a result of",
        ),
        (
            vec!["bench", "report", RECORDED, "--out", "x.png"],
            2,
            "no ending that says what to write",
        ),
        (
            vec!["bench", "report", RECORDED, "--out", "/nonexistent/x.html"],
            1,
            "cannot write /nonexistent/x.html",
        ),
        (
            vec!["bench", "floor", "--save", "/nonexistent/x.json"],
            1,
            "cannot write /nonexistent/x.json",
        ),
    ] {
        let output = place.run(&words);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(
            said.contains(part) && said.trim_end().lines().count() == 1,
            "{words:?}: {said}"
        );
    }
}

/// The disk was full only after the measurement.
#[test]
fn unwritable_result_is_still_printed() {
    if !crate::common::has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    let full = place.path().join("full.json");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let words = [
        "bench",
        "pingpong",
        "--wait",
        "adaptive",
        "--runs",
        "1",
        "--seconds",
        "0.01",
        "--json",
        "--save",
        full.to_str().unwrap(),
    ];
    let output = place.run(&words);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("cannot write") && said.contains("full.json") && said.lines().count() == 1,
        "{said}"
    );
    assert_eq!(json(&output)["results"][0]["status"], "measured");
}

#[test]
fn recorded_runs_become_headline_tables() {
    let place = TestFolder::new();
    let path = place.path().join("r.md");
    let output = place.run(&["bench", "report", RECORDED, "--out", path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let text = text(&path);
    let row = text.lines().find(|line| line.contains("| **olivine-spin"));
    let row = row.unwrap_or_else(|| panic!("no row of ours: {text}"));
    // p50, its ratio to the floor, and the range of the runs.
    assert!(row.contains(" ns |") && row.contains('–'), "{row}");
    for part in ["`olivine bench ", "AMD EPYC", " runs, load ", "pipe "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("--save"), "{text}");
}

#[test]
fn selfcheck_detects_a_stall_and_a_wrong_reply() {
    if !crate::common::has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    let selfcheck = |runs: &str, seconds: &str| {
        let words = ["bench", "selfcheck", "--runs", runs, "--seconds", seconds];
        let kept = place.path().join(format!("kept-{runs}.json"));
        let save = ["--json", "--save", kept.to_str().unwrap()];
        let output = place.run(&[&words[..], &save].concat());
        // The saved result equals the printed one.
        assert_eq!(std::fs::read(&kept).unwrap(), output.stdout);
        std::fs::remove_file(&kept).unwrap();
        (output.status.code(), json(&output))
    };
    let page = place.path().join("kept.html");
    let output = place.run(&["bench", "selfcheck", "--save", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!page.exists(), "a file that cannot be written was begun");
    let find = |told: &serde_json::Value, check: &str| {
        let checks = told["checks"].as_array().unwrap();
        let found = checks.iter().find(|found| found["check"] == check);
        found.unwrap_or_else(|| panic!("{check}: {told}")).clone()
    };
    // One run is too few to compare: the third check reports this and fails the command.
    let (code, told) = selfcheck("1", "0.2");
    for check in ["stall", "wrong echo", "short echo"] {
        assert_eq!(find(&told, check)["ok"], true, "{told}");
    }
    let third = find(&told, "measuring error");
    assert_eq!(
        (code, &told["ok"], &third["ok"]),
        (Some(1), &false.into(), &false.into())
    );
    assert!(
        third["what"].as_str().unwrap().contains("--runs 5"),
        "{told}"
    );
    // If the CPUs are moved around, even six runs may have too few neighbours; then it reports
    // that.
    let (code, told) = selfcheck("6", "0.6");
    let third = find(&told, "measuring error");
    let what = third["what"].as_str().unwrap();
    if third["ok"] == true {
        assert_eq!((code, &told["ok"]), (Some(0), &true.into()), "{told}");
        assert!(
            what.contains("measured twice in turns differs by") && what.contains("% at p50"),
            "{told}"
        );
    } else {
        assert_eq!(code, Some(1), "{told}");
        assert!(what.contains("in one place"), "{told}");
    }
    assert_eq!(place.left(), Vec::<String>::new());
}
