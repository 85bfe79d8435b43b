//! Every output of one recorded run, kept word for word.
//!
//! The run is in `recorded/run`, what is made of it in `recorded/outputs`. After a change that is
//! meant, `OLIVINE_OUTPUTS=write cargo test -p olivine-cli --test outputs` writes the outputs anew;
//! read the difference before you commit it.

mod common;

use common::{Place, said};
use std::fs;
use std::path::{Path, PathBuf};

/// Files of the run, in the order in which a page is made of them.
const FILES: [&str; 7] = [
    "floor",
    "pingpong",
    "throughput",
    "streaming",
    "latency",
    "fanout",
    "mesh",
];

fn recorded(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    folder.join(name)
}

fn run_file(name: &str) -> String {
    let path = recorded(&format!("run/{name}.json"));
    path.to_str().unwrap().to_owned()
}

/// Compares `found` with what is kept under `name`.
fn is_as_kept(name: &str, found: &[u8]) {
    let path = recorded("outputs").join(name);
    if std::env::var_os("OLIVINE_OUTPUTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, found).unwrap();
        return;
    }
    let kept = fs::read(&path).unwrap_or_default();
    if kept == found {
        return;
    }
    let (kept, found) = (
        String::from_utf8_lossy(&kept),
        String::from_utf8_lossy(found),
    );
    let mut lines = (1..).zip(kept.lines().zip(found.lines()));
    let first = lines.find(|(_, (kept, found))| kept != found);
    panic!("{name} differs from {}: {first:?}", path.display());
}

/// What `bench report` writes of `files` to a file that ends in `ending`.
fn reported(files: &[&str], ending: &str) -> Vec<u8> {
    let place = Place::new();
    let out = place.path().join(format!("out.{ending}"));
    let paths: Vec<String> = files.iter().map(|name| run_file(name)).collect();
    let mut words = vec!["bench", "report"];
    words.extend(paths.iter().map(String::as_str));
    words.extend(["--out", out.to_str().unwrap()]);
    let output = place.run(&words);
    assert!(output.status.success(), "{}", said(&output));
    fs::read(&out).unwrap()
}

#[test]
fn the_page_of_the_run_is_as_kept() {
    is_as_kept("report.html", &reported(&FILES, "html"));
}

#[test]
fn the_markdown_of_the_run_is_as_kept() {
    is_as_kept("headline.md", &reported(&FILES, "md"));
}

#[test]
fn the_drawings_of_the_run_are_as_kept() {
    let place = Place::new();
    let (page, plots) = (place.path().join("r.html"), place.path().join("plots"));
    for name in ["pingpong", "throughput", "latency", "fanout"] {
        let file = run_file(name);
        let mut words = vec!["bench", "report", &file];
        words.extend(["--out", page.to_str().unwrap()]);
        words.extend(["--svg", plots.to_str().unwrap()]);
        let output = place.run(&words);
        assert!(output.status.success(), "{}", said(&output));
    }
    let mut names: Vec<String> = fs::read_dir(&plots)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    is_as_kept("svg/names.txt", (names.join("\n") + "\n").as_bytes());
    for name in [
        "pingpong-closed-p50.svg",
        "throughput-saturated-rates.svg",
        "latency-open-percentiles.svg",
    ] {
        is_as_kept(&format!("svg/{name}"), &fs::read(plots.join(name)).unwrap());
    }
}

#[test]
fn what_other_programs_read_of_the_run_is_as_kept() {
    is_as_kept("pingpong.csv", &reported(&["pingpong"], "csv"));
    is_as_kept("throughput.csv", &reported(&["throughput"], "csv"));
    is_as_kept("latency.hlog", &reported(&["latency"], "hlog"));
    is_as_kept("mesh.json", &reported(&["mesh"], "json"));
}

#[test]
fn comparisons_of_the_run_are_as_kept() {
    let place = Place::new();
    let compared = |words: &[&str]| {
        // The names of files are in what is printed.
        let words = [&["bench", "compare"], words].concat();
        let output = place.olivine(&words).current_dir(recorded("run")).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", said(&output));
        output.stdout
    };
    let [ours, theirs] = ["pingpong.json:olivine-spin", "pingpong.json:iceoryx2"];
    is_as_kept("compare.txt", &compared(&[ours, theirs]));
    is_as_kept("compare.json", &compared(&[ours, theirs, "--json"]));
    let file = "streaming.json";
    is_as_kept("compare-itself.txt", &compared(&[file, file]));
}
