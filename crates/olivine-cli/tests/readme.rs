//! The tool accepts the commands in the documents, and the README's figures are recorded.

mod common;

use common::TestFolder;
use std::path::{Path, PathBuf};

const DOCUMENTS: [&str; 8] = [
    "README.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    "crates/olivine/README.md",
    "crates/olivine-capi/README.md",
    "crates/olivine-cli/README.md",
    "crates/olivine-net/README.md",
    "crates/olivine-python/README.md",
];
const SHELLS: [&str; 4] = ["sh", "bash", "shell", "console"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(document: &str) -> String {
    std::fs::read_to_string(root().join(document)).unwrap()
}

/// The commands in the shell blocks of a document, as arguments, without settings and redirections.
fn commands(text: &str) -> Vec<Vec<String>> {
    // Every second piece is a block.
    let blocks = text.split("\n```").skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.split_once('\n'));
    let shell = blocks.filter(|(language, _)| SHELLS.contains(language));
    let mut found = Vec::new();
    for (_, block) in shell {
        let block = block.replace("\\\n", " ");
        let is_session = block.contains("$ ");
        for line in block.lines() {
            let Some(line) = line
                .strip_prefix("$ ")
                .or_else(|| Some(line).filter(|_| !is_session))
            else {
                continue; // What a command printed.
            };
            let words = shlex::split(line).unwrap_or_else(|| panic!("open quotes: {line}"));
            let parts = words.split(|word| matches!(word.as_str(), "|" | "&" | "&&" | ";" | "||"));
            found.extend(parts.filter_map(|part| {
                let assigns = |word: &&String| {
                    let name = word.split_once('=').map_or("", |(name, _)| name);
                    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                };
                let redirects =
                    |word: &&String| !word.starts_with(['<', '>']) && !word.starts_with("2>");
                let words = part.iter().skip_while(assigns).take_while(redirects);
                let words: Vec<_> = words.cloned().collect();
                (!words.is_empty()).then_some(words)
            }));
        }
    }
    found
}

/// Checks a command of ours; `None` for others.
fn judge(place: &TestFolder, command: &[String]) -> Option<Result<(), String>> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let tool = |words: &[&str]| {
        // Help is printed if everything before it is valid.
        let output = place.run(&[words, &["--help"]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(said)
    };
    let exists = |path: String| {
        let found = root().join(&path).exists();
        found
            .then_some(())
            .ok_or_else(|| format!("there is no {path}"))
    };
    let rest = |words: &[&str]| {
        words
            .iter()
            .position(|word| *word == "--")
            .map_or(0, |at| at + 1)
    };
    match words[..] {
        [
            "cargo",
            "run",
            "-p",
            package,
            ..,
            "--example",
            name,
            "--",
            _,
        ] => Some(exists(format!("crates/{package}/examples/{name}.rs"))),
        ["cargo", "run", ..] if words.contains(&"--example") => Some(Err(
            "`--example` needs `-p PACKAGE` first, and `-- URI`".to_owned(),
        )),
        ["cargo", "run", ..] => Some(tool(&words[rest(&words)..])),
        ["cargo", "install", "--path", path, ..] => Some(exists(format!("{path}/Cargo.toml"))),
        [program, ..] if program.rsplit('/').next() == Some("olivine") => Some(tool(&words[1..])),
        [program, ..] if program.starts_with("./") || program.starts_with(".ci/") => {
            Some(exists(program.to_owned()))
        }
        _ => None,
    }
}

#[test]
fn every_documented_command_is_understood() {
    let place = TestFolder::new();
    let mut count = 0;
    for document in DOCUMENTS {
        for command in commands(&read(document)) {
            if let Some(verdict) = judge(&place, &command) {
                count += 1;
                verdict.unwrap_or_else(|why| panic!("{document}: {}: {why}", command.join(" ")));
            }
        }
    }
    assert!(count >= 15, "only {count} commands");
    let readme = read("README.md");
    for first in ["cargo run --release -- demo", "cargo xtask test"] {
        let words: Vec<_> = first.split(' ').collect();
        assert!(
            commands(&readme).iter().any(|command| *command == words),
            "{first}"
        );
    }
}

#[test]
fn refused_command_is_found() {
    let place = TestFolder::new();
    let judged = |text: &str| {
        let commands = commands(&format!("\n```sh\n{text}\n```\n"));
        judge(&place, commands.last().unwrap())
    };
    for bad in [
        "olivine send shm://x",
        "A=1 target/release/olivine pub shm://x --speed 3 < f  # why",
        "cargo run --release -- bench nothing",
        "cargo run -p olivine --example nowhere -- shm://x",
        "cargo run --example anywhere -- shm://x",
        "true | ./gone.sh 3",
    ] {
        assert!(judged(bad).unwrap().is_err(), "{bad}");
    }
    for good in [
        "olivine pub shm://x --size=3",
        "seq 3 | olivine pub 'shm://x?a|b' --stdin \\\n lines &",
        "cargo run -p olivine --features nats --example anywhere -- shm://x",
    ] {
        assert_eq!(judged(good), Some(Ok(())), "{good}");
    }
    assert_eq!(judged("git status"), None);
}

/// The cells of a document's tables.
fn cells(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|line| line.split('|')).map(str::trim)
}

/// Cells that are a figure with a unit: `169 ns`, `307 M/s`.
fn figures(text: &str) -> Vec<&str> {
    let is_figure = |cell: &&str| {
        let unit = cell.split_once(' ').map_or("", |(_, unit)| unit);
        matches!(unit, "ns" | "us" | "ms" | "K/s" | "M/s")
    };
    cells(text).filter(is_figure).collect()
}

/// Whether a cell has this figure, and not a longer number that ends with it.
fn has(text: &str, figure: &str) -> bool {
    cells(text).any(|cell| {
        let mut ends = cell.match_indices(figure);
        ends.any(|(at, _)| !cell[..at].ends_with(|c: char| c.is_ascii_digit() || c == '.'))
    })
}

#[test]
fn figures_of_the_readme_are_recorded() {
    let (readme, recorded) = (read("README.md"), read("docs/figures.md"));
    let figures = figures(&readme);
    assert!(!figures.is_empty(), "the README quotes no figure");
    for figure in figures {
        assert!(has(&recorded, figure), "docs/figures.md has no {figure}");
    }
}

#[test]
fn unrecorded_figure_is_found() {
    let table = "| method | trip |\n| --- | --- |\n| a | 169 ns | 7 |\n169 ms\n";
    assert_eq!(figures(table), ["169 ns"]);
    assert!(has("| x | 169 ns, 1.36 |\n", "169 ns"));
    assert!(!has("| x | 1169 ns |\n169 ns\n", "169 ns"));
}
