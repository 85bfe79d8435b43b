//! Entries of the arena: honest ones are ranked, and each kind of fault is found before.

use crate::common::{TestFolder, has_two_cpus, json, said, skip};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const ENTRIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../olivine-bench/entries");
const RING: &str = include_str!("../../../olivine-bench/entries/ring-c/ring.c");
const FAKE: &str = include_str!("fake.c");

/// Whether entries can be built and run.
fn can_run() -> bool {
    let has_compiler = Command::new("cc").arg("--version").output().is_ok();
    if !has_compiler {
        skip("entries of the arena: no C compiler");
    }
    has_compiler && has_two_cpus()
}

/// A copy of an example, so that nothing is built in the repository.
fn example(place: &TestFolder, name: &str) -> PathBuf {
    let folder = place.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    for file in std::fs::read_dir(Path::new(ENTRIES).join(name)).unwrap() {
        let file = file.unwrap();
        if file.path().is_file() {
            std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
    }
    folder
}

/// The example in C with a fault.
fn fake(place: &TestFolder, fault: &str) -> PathBuf {
    let folder = place.path().join("fake");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = format!("source = 'fake.c'\nflags = ['-D{fault}']\n");
    for (name, text) in [
        ("entry.toml", &*manifest),
        ("fake.c", FAKE),
        ("ring.c", RING),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    folder
}

/// The checks of the only entry, and the exit code.
fn checked(place: &TestFolder, folder: &Path) -> (Vec<Value>, Option<i32>) {
    let output = place.run(&[
        "bench",
        "arena",
        folder.to_str().unwrap(),
        "--check",
        "--json",
    ]);
    let found = json(&output);
    let entries = found["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{found}");
    let checks = entries[0]["checks"].as_array().unwrap().clone();
    (checks, output.status.code())
}

/// The last check, which failed, and what it found.
fn fault_of(place: &TestFolder, fault: &str) -> (String, String) {
    let folder = fake(place, fault);
    let (checks, code) = checked(place, &folder);
    let last = checks.last().unwrap();
    assert_eq!(
        (code, last["ok"].as_bool()),
        (Some(1), Some(false)),
        "{fault}: {checks:?}"
    );
    let before = checks.iter().rev().skip(1);
    assert!(
        before.map(|check| &check["ok"]).all(|ok| ok == true),
        "{checks:?}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(place.left(), Vec::<String>::new(), "{fault}");
    let word = |key: &str| last[key].as_str().unwrap().to_owned();
    (word("check"), word("what"))
}

#[test]
fn faults_are_found_by_the_check_of_their_kind() {
    if !can_run() {
        return;
    }
    const WRONG: &str = "did not arrive as it was sent";
    let place = TestFolder::new();
    let name = format!("olivine-leftover-{}", std::process::id());
    let name = std::env::temp_dir().join(name).display().to_string();
    for (fault, check, what) in [
        ("TORN", "content, sizes", WRONG),
        ("LYING", "content, sizes", WRONG),
        ("STALLED", "content, sizes", "an end hangs"),
        ("REPEATING", "content, sizes", WRONG),
        ("FAILING", "content, sizes", "Connection reset"),
        ("CRASHING", "content, sizes", "signal: 6"),
        ("LOSSY", "loss, order", "a message was lost"),
        ("REORDERING", "loss, order", WRONG),
        (
            &format!("LEFTOVER=\"{name}\""),
            "killed peer",
            "File exists",
        ),
    ] {
        let (found, said) = fault_of(&place, fault);
        assert!(
            found == check && said.contains(what),
            "{fault}: {found}: {said}"
        );
    }
    std::fs::remove_file(&name).unwrap();
}

#[test]
fn sizes_that_an_entry_refuses_are_named_and_the_others_are_checked() {
    if !can_run() {
        return;
    }
    let place = TestFolder::new();
    let folder = fake(&place, "REFUSING");
    let (checks, code) = checked(&place, &folder);
    assert_eq!(code, Some(0), "{checks:?}");
    let what = checks[0]["what"].as_str().unwrap();
    assert!(what.contains("each of 100 B"), "{what}");
    assert!(
        what.contains("16 B refused: ") && what.contains("Message too long"),
        "{what}"
    );
}

#[test]
fn entry_that_cannot_be_built_says_why() {
    if !can_run() {
        return;
    }
    let place = TestFolder::new();
    let folder = place.path().join("entry");
    std::fs::create_dir(&folder).unwrap();
    for (manifest, expected) in [
        ("source = 'x.c'", "x.c"),
        ("source = 'x.pas'", "use .c, .cpp, .cc or .rs"),
        ("speed = 3", "unknown field `speed`"),
        ("flags = []", "names one of source, library and program"),
        ("program = 'gone'", "add build = \"COMMAND\""),
        ("program = 'gone'\nbuild = 'true'", "'true' did not make it"),
        (
            "program = 'gone'\nbuild = 'echo no flour >&2; false'",
            "no flour",
        ),
        ("program = '/bin/false'", "it said nothing"),
        ("library = '/bin/false'", "the entry says: "),
    ] {
        std::fs::write(folder.join("entry.toml"), manifest).unwrap();
        let output = place.run(&["bench", "arena", folder.to_str().unwrap(), "--check"]);
        let told = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            said(&output)
        );
        let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(expected), "{manifest}: {told}");
        assert_eq!(output.status.code(), Some(1), "{manifest}: {told}");
    }
}

#[test]
fn examples_in_three_languages_are_valid_and_ranked_among_all() {
    if !can_run() {
        return;
    }
    let place = TestFolder::new();
    let mut words = vec!["bench".to_owned(), "arena".to_owned()];
    let mut names = vec!["ring-c"];
    if Command::new("c++").arg("--version").output().is_ok() {
        names.push("slot-cpp");
    }
    if Command::new("rustc").arg("--version").output().is_ok() {
        names.push("socket-rust");
    }
    for name in &names {
        words.push(example(&place, name).display().to_string());
    }
    let fake = fake(&place, "TORN");
    words.push(fake.display().to_string());
    words.extend(["--runs", "1", "--seconds", "0.001", "--json"].map(str::to_owned));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // A built-in method of the same name would be refused, so the fake has the name of the example.
    let output = place.run(&words);
    assert!(
        said(&output).contains("two methods are called 'ring-c'"),
        "{}",
        said(&output)
    );
    let words: Vec<&str> = words
        .into_iter()
        .filter(|word| *word != fake.to_str().unwrap())
        .collect();
    let output = place.run(&words);
    let found = json(&output);
    let rows = found["results"].as_array().unwrap();
    let status = |scenario: &str, method: &str| {
        let mut rows = rows.iter();
        let row = rows.find(|row| row["scenario"] == scenario && row["method"] == method);
        row.map(|row| row["status"].as_str().unwrap().to_owned())
    };
    for method in names.iter().copied().chain(["olivine-spin", "pipe"]) {
        assert_eq!(
            status("pingpong", method).as_deref(),
            Some("measured"),
            "{found}"
        );
    }
    let streamed = status("throughput", "ring-c");
    assert_eq!(streamed.as_deref(), Some("measured"), "{found}");
    assert_eq!(status("throughput", "slot-cpp"), None, "it does not stream");
}
