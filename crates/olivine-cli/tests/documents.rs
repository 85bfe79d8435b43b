//! The tool accepts the commands in the documents, and the README's figures are recorded.

#[path = "documents/blocks.rs"]
mod blocks;
mod common;

use common::TestFolder;
use std::path::{Path, PathBuf};

const SHELLS: [&str; 4] = ["sh", "bash", "shell", "console"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(document: &str) -> String {
    std::fs::read_to_string(root().join(document)).unwrap()
}

/// Every page of the site that has commands. The changes name commands of former versions.
fn documents() -> Vec<String> {
    let summary = read("docs/book/SUMMARY.md");
    let links = summary.split("](").skip(1);
    let links = links.filter_map(|link| link.split_once(')'));
    let pages = links.map(|(path, _)| match path.strip_prefix("../../") {
        Some(path) => path.to_owned(),
        None => path.strip_prefix("../").map_or_else(
            || format!("docs/book/{path}"),
            |path| format!("docs/{path}"),
        ),
    });
    pages.filter(|page| page != "CHANGELOG.md").collect()
}

/// The commands of the tool in the sentences of a document, as arguments: `olivine ls`. Without
/// those that leave out something (`…`).
fn inline_commands(text: &str) -> Vec<Vec<String>> {
    // Every second piece is a block, and then every second one a command.
    let prose: Vec<_> = text.split("\n```").step_by(2).collect();
    let prose = prose.join("\n\n");
    let spans = prose
        .split("\n\n")
        .flat_map(|part| part.split('`').skip(1).step_by(2));
    let is_ours = |span: &&str| span.split_whitespace().next() == Some("olivine");
    let ours = spans.filter(|span| is_ours(span) && !span.contains('…'));
    let words = |span| {
        let words = shlex::split(span).unwrap_or_else(|| panic!("open quotes: {span}"));
        words.into_iter().take_while(|word| word != "|").collect()
    };
    ours.map(words)
        .filter(|words: &Vec<String>| {
            let first = words.get(1).map(String::as_str);
            !matches!(first, None | Some("=" | "COMMAND"))
        })
        .collect()
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
    let documents = documents();
    assert!(documents.len() > 25, "{documents:?}");
    for document in documents {
        let text = read(&document);
        for command in commands(&text).into_iter().chain(inline_commands(&text)) {
            if let Some(verdict) = judge(&place, &command) {
                count += 1;
                verdict.unwrap_or_else(|why| panic!("{document}: {}: {why}", command.join(" ")));
            }
        }
    }
    assert!(count >= 100, "only {count} commands");
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

#[test]
fn command_in_a_sentence_is_found() {
    let text = "Use `olivine ls` or `olivine\nrm x`, and `ls`.\n\n```sh\nolivine gc\n```\n\
                `olivine bench … --json` and `olivine = \"0.1\"` are none.";
    assert_eq!(
        inline_commands(text),
        [vec!["olivine", "ls"], vec!["olivine", "rm", "x"]]
    );
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
        matches!(unit, "ns" | "us" | "ms" | "K/s" | "M/s" | "G/s")
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
    let recorded = read("docs/figures.md");
    for document in ["README.md", "docs/book/migration.md"] {
        let text = read(document);
        let figures = figures(&text);
        assert!(!figures.is_empty(), "{document} quotes no figure");
        for figure in figures {
            assert!(
                has(&recorded, figure),
                "docs/figures.md has no {figure} of {document}"
            );
        }
    }
}

/// Each row of the comparison names a method, whose rows of the recorded run have its figures.
#[test]
fn comparison_with_other_libraries_is_recorded() {
    let recorded = read("docs/figures.md");
    let (_, recorded) = recorded.split_once("`olivine bench pingpong").unwrap();
    let rows_of = |method: &str| -> Vec<Vec<&str>> {
        let rows = recorded.lines().filter(|line| line.starts_with('|'));
        let rows = rows.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        let is_of = |row: &Vec<&str>| {
            row.get(2)
                .is_some_and(|name| name.trim_matches('*') == method)
        };
        rows.filter(is_of).collect()
    };
    let text = read("docs/book/migration.md");
    let (_, table) = text.split_once("| 32 B | version |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let mut names = String::new();
    for line in table.lines().skip(2) {
        let row: Vec<_> = line.split('|').map(str::trim).collect();
        let found = rows_of(row[3].trim_matches('`'));
        // The first row of a method in each table is that of 32 B, one by one.
        let is_there = |cells: &[&str]| {
            let has_all = |row: &&Vec<&str>| cells.iter().all(|cell| row.contains(cell));
            found.iter().any(|row| has_all(&row))
        };
        assert!(is_there(&row[4..7]), "{line}");
        assert!(is_there(&row[7..9]), "{line}");
        names.push_str(row[1]);
    }
    for name in ["Olivine", "Aeron", "iceoryx2", "ZeroMQ", "NNG"] {
        assert!(names.contains(name), "no row of {name}");
    }
}

#[test]
fn unrecorded_figure_is_found() {
    let table = "| method | trip |\n| --- | --- |\n| a | 169 ns | 7 |\n169 ms\n";
    assert_eq!(figures(table), ["169 ns"]);
    assert!(has("| x | 169 ns, 1.36 |\n", "169 ns"));
    assert!(!has("| x | 1169 ns |\n169 ns\n", "169 ns"));
}

/// The README's demonstration of a pipe over every transport.
mod anywhere {
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    const PROGRAM: &str = env!("CARGO_BIN_EXE_olivine");

    /// The server that `cargo xtask test` installs beside the profiles: the tool is
    /// target/PROFILE/olivine.
    fn server() -> Option<PathBuf> {
        let target = Path::new(PROGRAM).ancestors().nth(2)?;
        let server = target.join("tools/bin/nats-server");
        server.is_file().then_some(server)
    }

    fn run(prepare: impl FnOnce(&mut Command)) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/anywhere.sh");
        let mut command = Command::new(script);
        if let Some(server) = server() {
            command.env("NATS_SERVER", server);
        }
        command.env("OLIVINE", PROGRAM);
        prepare(&mut command);
        let output = command.output().expect("bash");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{errors}");
        text
    }

    fn checksums(text: &str) -> [&str; 2] {
        ["sent ", "came "].map(|word| {
            let line = text.lines().find_map(|line| line.strip_prefix(word));
            line.unwrap_or_else(|| panic!("no '{word}' in {text}"))
        })
    }

    #[test]
    fn pipe_crosses_every_transport_with_equal_checksums() {
        let text = run(|_| ());
        let [sent, came] = checksums(&text);
        assert_eq!(sent, came);
        assert_eq!(sent.len(), 64);
        let has_nats = server().is_some() && olivine::Scheme::Nats.is_built();
        assert_eq!(has_nats, text.contains("through "), "{text}");
    }

    #[test]
    fn pipe_crosses_transports_without_root_and_nats() {
        // An `ip` that makes no namespaces, and no server.
        let folder = tempfile::tempdir().expect("a folder");
        let ip = folder.path().join("ip");
        std::fs::write(&ip, "#!/bin/sh\nexit 1\n").expect("a file");
        std::fs::set_permissions(&ip, PermissionsExt::from_mode(0o755)).expect("its mode");
        let path = std::env::var("PATH").unwrap_or_default();
        let text = run(|command| {
            command
                .env("PATH", format!("{}:{path}", folder.path().display()))
                .env("NATS_SERVER", "no-such-server");
        });
        assert!(
            text.contains("both ends on loopback") && text.contains("without NATS"),
            "{text}"
        );
        let [sent, came] = checksums(&text);
        assert_eq!(sent, came);
    }
}

/// Each example of the workspace ends with success, without input.
///
/// `cargo test` builds them with the tests; `cargo test --test documents` alone does not.
mod examples {
    use crate::common::TestFolder;
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::process::Command;
    use std::thread;

    /// Examples with arguments, and examples that run together. Each other example runs alone.
    const COMMANDS: &[&[&str]] = &[
        &["chat --listen 127.0.0.1:0 --duration 1"],
        &["echo --listen 127.0.0.1:0 --duration 1"],
        &["events --listen 127.0.0.1:0 --duration 1"],
        &["files --listen 127.0.0.1:0 --duration 1"],
        &["hand_off --listen 127.0.0.1:0 --duration 1"],
        &["idle_neighbours 8 1"],
        &["json --listen 127.0.0.1:0 --duration 1"],
        &["looks 1"],
        &["record 16"],
        &["stream --listen 127.0.0.1:0 --duration 1"],
        &["subscribe", "publish"],
        &["upload --listen 127.0.0.1:0 --duration 1 --folder uploads"],
        &["websocket --listen 127.0.0.1:0 --duration 1"],
        &[
            "hello_http --listen 127.0.0.1:18733 --duration 6",
            "load 127.0.0.1:18733 --connections 4 --duration 1 --cpu 0",
        ],
    ];
    /// Longer than any example takes on a busy machine; only a hang reaches it.
    const LIMIT_S: &str = "240";

    /// Names of the examples of all crates.
    fn names() -> BTreeSet<String> {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folders = crates.read_dir().unwrap().flatten();
        let folders = folders.filter_map(|folder| folder.path().join("examples").read_dir().ok());
        let files = folders.flatten().map(|file| file.unwrap().path());
        let sources = files.filter(|file| file.extension().is_some_and(|end| end == "rs"));
        let name = |file: std::path::PathBuf| file.file_stem().unwrap().display().to_string();
        sources.map(name).collect()
    }

    /// Runs the examples of `group` together; returns what failed.
    fn failures(group: &[&str], folder: &Path) -> Vec<String> {
        let tests = std::env::current_exe().unwrap();
        let programs = tests.ancestors().nth(2).unwrap().join("examples");
        let run = |line: &str| {
            let mut words = line.split(' ');
            let program = programs.join(words.next().unwrap());
            let mut command = Command::new("timeout");
            command.arg(LIMIT_S).arg(program).args(words);
            let ended = command.current_dir(folder).env("OLIVINE_DIR", folder);
            let ended = ended.output().unwrap();
            let said = [ended.stdout, ended.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            (!ended.status.success()).then(|| format!("{line}: {}: {said}", ended.status))
        };
        thread::scope(|scope| {
            let start = |line| scope.spawn(move || run(line));
            let running: Vec<_> = group.iter().map(|line| start(*line)).collect();
            let ended = running.into_iter().filter_map(|run| run.join().unwrap());
            ended.collect()
        })
    }

    #[test]
    fn every_example_ends_with_success() {
        let mut alone = names();
        assert!(alone.len() >= 18, "{alone:?}");
        for line in COMMANDS.iter().copied().flatten() {
            let name = line.split(' ').next().unwrap();
            assert!(alone.remove(name), "there is no example {name}");
        }
        let others: Vec<[&str; 1]> = alone.iter().map(|name| [name.as_str()]).collect();
        let others = others.iter().map(<[&str; 1]>::as_slice);
        let mut failed = Vec::new();
        for group in COMMANDS.iter().copied().chain(others) {
            failed.extend(failures(group, TestFolder::new().path()));
        }
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }
}

/// Output of the tool: help, errors, empty folders. Each session in `tests/cmd` is a test.
mod cmd {
    use std::os::unix::ffi::OsStrExt;

    /// Runs sessions in a private folder of channels.
    fn sessions(pattern: &str) {
        let memory = std::path::Path::new("/dev/shm");
        let place = if memory.is_dir() {
            memory.to_path_buf()
        } else {
            std::env::temp_dir()
        };
        let dir = tempfile::Builder::new()
            .prefix("olivine-cmd-")
            .tempdir_in(place)
            .expect("a folder");
        let path = dir.path().to_str().expect("a plain path");
        let cases = trycmd::TestCases::new();
        let tool = std::path::Path::new(env!("CARGO_BIN_EXE_olivine"));
        let tools = tool.parent().expect("a folder").display();
        let paths = std::env::var("PATH").unwrap_or_default();
        cases
            .register_bin("sh", std::path::Path::new("/bin/sh"))
            .env("PATH", format!("{tools}:{paths}"))
            .env("OLIVINE_DIR", path)
            .env("COLUMNS", "80")
            .env("NO_COLOR", "1");
        cases
            .insert_var("[DIR]", path.to_owned())
            .expect("a valid name");
        cases.case(pattern).run();
    }

    #[test]
    fn sessions_without_channel_match_the_recording() {
        sessions("tests/cmd/*.trycmd");
    }

    /// Each page has its own channels.
    #[test]
    fn sessions_of_the_book_match_the_pages() {
        sessions("../../docs/book/*.md");
        sessions("../../docs/types.md");
    }

    /// Sessions of one folder run in parallel: a session that leaves a channel has a separate
    /// folder.
    #[test]
    fn sessions_with_channel_match_the_recording() {
        sessions("tests/cmd/alone/publish.trycmd");
        sessions("tests/cmd/alone/typed.trycmd");
    }

    #[test]
    fn argument_without_utf8_is_refused_in_one_line() {
        let word = std::ffi::OsStr::from_bytes(b"\xff");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_olivine"));
        let output = command.arg(word).output().expect("the tool");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("there are pub, sub, ls"), "{said}");
    }
}

/// The unit of systemd in `docs/systemd`.
mod systemd {
    use crate::common::{TestFolder, skip};
    use std::path::Path;
    use std::process::Command;

    #[test]
    fn the_systemd_unit_is_understood() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let unit = root.join("docs/systemd/olivine-bridge.service");
        let unit = std::fs::read_to_string(unit).unwrap();
        // The tool of this build is there; the place of an installed one need not be.
        let words = unit
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="));
        let installed = words.unwrap().split(' ').next().unwrap();
        let here = unit.replace(installed, env!("CARGO_BIN_EXE_olivine"));
        let verify = |text: &str| {
            let folder = TestFolder::new();
            let path = folder.path().join("olivine-bridge.service");
            std::fs::write(&path, text).unwrap();
            let mut command = Command::new("systemd-analyze");
            let verified = command.args(["verify", "--man=no"]).arg(path).output();
            verified.map(|verified| String::from_utf8_lossy(&verified.stderr).into_owned())
        };
        match verify(&here) {
            Err(error) => skip(&format!("systemd-analyze: {error}")),
            Ok(said) => {
                assert_eq!(said, "");
                // It finds what systemd would ignore.
                let faulty = here.replace("RestartSec=", "RestartSecs=");
                assert!(verify(&faulty).unwrap().contains("RestartSecs"));
            }
        }
    }
}

/// `docs/syscalls.md` and the profile beside it.
mod syscalls {
    use super::{read, root};
    use crate::common::skip;
    use std::collections::BTreeSet;
    use std::process::Command;

    #[test]
    fn page_lists_the_calls_of_the_profile() {
        let profile: serde_json::Value = serde_json::from_str(&read("docs/seccomp.json")).unwrap();
        let names = profile["syscalls"][0]["names"].as_array().unwrap();
        let allowed: BTreeSet<_> = names.iter().map(|name| name.as_str().unwrap()).collect();
        let page = read("docs/syscalls.md");
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let calls = rows.filter_map(|row| row.split('|').nth(1));
        let listed: Vec<_> = calls
            .flat_map(|calls| calls.split('`').skip(1).step_by(2))
            .collect();
        assert!(listed.len() > 50, "{listed:?}");
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), allowed);
        assert_eq!(listed.len(), allowed.len(), "a call is listed twice");
    }

    #[test]
    fn tool_runs_under_the_profile_and_not_without_one_of_its_calls() {
        if !cfg!(target_arch = "x86_64") {
            return skip("the profile is of x86-64");
        }
        let script = root().join("crates/olivine-cli/scripts/syscalls.py");
        let tried = |words: &[&str]| {
            let mut command = Command::new("python3");
            command
                .arg(&script)
                .args(words)
                .args(["try", env!("CARGO_BIN_EXE_olivine")]);
            command.output().map(|output| {
                let said = [output.stdout, output.stderr].concat();
                (
                    output.status.success(),
                    String::from_utf8_lossy(&said).into_owned(),
                )
            })
        };
        match tried(&[]) {
            Err(error) => skip(&format!("python3: {error}")),
            Ok((succeeded, said)) => {
                assert!(succeeded && said.contains("commands ran under"), "{said}");
                let (succeeded, said) = tried(&["--without", "fallocate"]).unwrap();
                assert!(!succeeded && said.contains("exit code -31"), "{said}");
            }
        }
    }
}
