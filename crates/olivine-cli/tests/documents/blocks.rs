//! The shell blocks of every page run, in a folder of the page.
//!
//! A block that cannot run has the reason in a line above it: `<!-- not run: REASON -->`. The
//! blocks of a page run in their order, and in one folder, with the tool on the path and the files
//! of the repository. Each has a separate network if the system allows that. A pipeline does not
//! stand in the background: the shell forgets how it ended.

use super::{SHELLS, documents, read, root};
use crate::common::{Running, TestFolder, skip, until};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs of others that blocks name. A block is skipped where one is missing.
const OTHERS: [&str; 3] = ["curl", "jq", "openssl"];
const MARK: &str = "<!-- not run: ";
/// Ends with success if the network interface of a new namespace works.
const LOOPBACK: &str = "ip link set lo up";
/// Before a block: a failure ends it, and programs in the background are remembered.
const BEGINNING: &str = r#"
set -e -o pipefail
trap '[ "$!" = "$last" ] || { last=$!; behind+=" $!"; }' DEBUG
"#;
/// Ends programs in the background. What still runs 5 s after the last command is a server: it is
/// stopped by SIGTERM. All others must have ended with success.
const ENDING: &str = r#"
trap - DEBUG
# Waits at most $1 s until none of the other arguments runs.
await_end() {
    for _ in $(seq $((20 * $1))); do
        kill -0 "${@:2}" 2>/dev/null || break
        sleep 0.05
    done
}
[ -z "$behind" ] || await_end 5 $behind
for job in $behind; do
    if kill -TERM "$job" 2>/dev/null; then
        await_end 10 "$job"
        # Ends the tool at once.
        kill -TERM "$job" 2>/dev/null && echo "$job did not end by one signal" >&2
        wait "$job" || [ $? = 143 ]
    else
        wait "$job"
    fi
done
"#;

#[derive(Debug, PartialEq)]
struct Block {
    line: usize,
    text: String,
    /// Why it does not run.
    reason: Option<String>,
}

/// The shell blocks of a document, except recorded sessions (`$ `), which `cmd` compares.
fn blocks(document: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = document.lines().enumerate();
    let mut before = "";
    while let Some((at, line)) = lines.next() {
        let fence = line.trim_start();
        if let Some(language) = fence.strip_prefix("```") {
            let indent = line.len() - fence.len();
            let body = lines.by_ref().map(|(_, line)| line);
            let body = body.take_while(|line| !line.trim_start().starts_with("```"));
            let body = body.map(|line| line.get(indent..).unwrap_or("").to_owned() + "\n");
            let text: String = body.collect();
            if SHELLS.contains(&language) && !text.starts_with("$ ") {
                let reason = before.trim_start().strip_prefix(MARK);
                let reason = reason.and_then(|reason| reason.strip_suffix(" -->"));
                found.push(Block {
                    line: at + 1,
                    text,
                    reason: reason.map(str::to_owned),
                });
            }
        }
        before = line;
    }
    found
}

/// Words before a command that give it a separate network; `None` if there are none.
fn apart() -> Option<Vec<&'static str>> {
    let ways: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
    ways.into_iter().find_map(|way| {
        let mut command = Command::new("unshare");
        let tried = command.args(way).args(["sh", "-c", LOOPBACK]).output();
        let is_allowed = tried.is_ok_and(|tried| tried.status.success());
        is_allowed.then(|| [&["unshare"], way].concat())
    })
}

/// A folder with links to what the repository has, and to the tool where a release build puts it.
fn place() -> TestFolder {
    let place = TestFolder::new();
    let here = place.path().join("here");
    std::fs::create_dir_all(here.join("target/release")).unwrap();
    std::fs::create_dir(place.path().join("channels")).unwrap();
    for name in ["crates", "docs", "packages", "results", "Cargo.toml"] {
        symlink(root().join(name).canonicalize().unwrap(), here.join(name)).unwrap();
    }
    let tool = env!("CARGO_BIN_EXE_olivine");
    symlink(tool, here.join("target/release/olivine")).unwrap();
    place
}

/// What this machine lacks for a block.
fn lacks(block: &Block, has_network: bool) -> Option<String> {
    if !has_network && block.text.contains("127.0.0.1") {
        return Some("no network namespace".to_owned());
    }
    let mut words = block.text.split(|c: char| !c.is_ascii_alphanumeric());
    let other = words.find(|word| {
        let is_missing = || Command::new(word).arg("--version").output().is_err();
        OTHERS.contains(word) && is_missing()
    });
    other.map(|word| format!("no {word}"))
}

/// Runs a block; what it said if it failed.
fn run(place: &TestFolder, apart: &[&str], text: &str) -> Result<(), String> {
    let tools = Path::new(env!("CARGO_BIN_EXE_olivine")).parent().unwrap();
    let paths = std::env::var("PATH").unwrap_or_default();
    let network = if apart.is_empty() { "true" } else { LOOPBACK };
    let script = format!("{network}{BEGINNING}{text}{ENDING}");
    let words = [apart, &["bash", "-c", &script]].concat();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .current_dir(place.path().join("here"))
        .env("PATH", format!("{}:{paths}", tools.display()))
        .env("HOME", place.path())
        .env("OLIVINE_DIR", place.path().join("channels"))
        .env("OLIVINE_CONFIG", "")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = Running::group(&mut command).output();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let failed = || format!("{}\n{said}", output.status);
    output.status.success().then_some(()).ok_or_else(failed)
}

#[test]
fn blocks_of_every_page_run() {
    let apart = apart();
    let (mut ran, mut failed) = (0, Vec::new());
    for document in documents() {
        let place = place();
        for block in blocks(&read(&document)) {
            let name = format!("{document}:{}", block.line);
            if let Some(reason) = block
                .reason
                .clone()
                .or_else(|| lacks(&block, apart.is_some()))
            {
                skip(&format!("{name}: {reason}"));
            } else {
                let result = run(&place, apart.as_deref().unwrap_or_default(), &block.text);
                failed.extend(result.err().map(|why| format!("{name}: {why}")));
                ran += 1;
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(ran >= 10, "only {ran} blocks");
}

#[test]
fn failure_of_each_part_of_a_block_is_found() {
    let place = place();
    let result = |text: &str| run(&place, &[], text).map_err(|why| why.contains("exit status"));
    for good in [
        "olivine ls",
        "seq 3 > three\n(sleep 0.1; test -s three) &",
        "test -s three\nolivine sub shm://never &",
        "crates/olivine-cli/scripts/anywhere.sh /nowhere || target/release/olivine --version",
    ] {
        assert_eq!(result(good), Ok(()), "{good}");
    }
    for bad in [
        "olivine send\ntrue",
        "false | true",
        "(sleep 0.1; false) &",
        "false &\nsleep 0.1\ntrue",
        "test -s five",
    ] {
        assert_eq!(result(bad), Err(true), "{bad}");
    }
}

/// It kept the output open, so the test waited for it without a bound.
#[test]
fn failing_block_leaves_no_process() {
    for output in ["", " >/dev/null 2>&1"] {
        let place = place();
        let block = format!("sleep 1000{output} &\necho $! > pid\nfalse");
        run(&place, &[], &block).unwrap_err();
        let pid = std::fs::read_to_string(place.path().join("here/pid")).unwrap();
        // Its new parent may not have waited for it yet.
        let state = format!("/proc/{}/stat", pid.trim());
        until("it is gone", || {
            std::fs::read_to_string(&state).map_or(true, |state| state.contains(") Z "))
        });
    }
}

#[test]
fn block_and_the_reason_not_to_run_it_are_found() {
    let text = "```rust\nlet x;\n```\n\n1. Do:\n\n   ```sh\n   a &\n\n   b\n   ```\n\
                <!-- not run: no root -->\n```bash\nc\n```\n```console\n$ d\n```\n";
    let block = |line, text: &str, reason: Option<&str>| Block {
        line,
        text: text.to_owned(),
        reason: reason.map(str::to_owned),
    };
    let expected = [
        block(7, "a &\n\nb\n", None),
        block(13, "c\n", Some("no root")),
    ];
    assert_eq!(blocks(text), expected);
}
