//! What the READMEs tell people to type exists, and their programs compile and run.

use crate::bindings;
use crate::cargo::{EVERYTHING, TestOutput, at_most, cargo, root, target};
use crate::child;
use crate::report::Step;
use crate::source::has_word;
use crate::tidy::fenced_blocks;
use anyhow::{Context as _, Result, bail};
use clap::CommandFactory as _;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Documents whose commands and programs are checked.
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
/// The tables that the README quotes from.
const FIGURES: &str = "docs/figures.md";
/// What a stranger types first: the README must say both, and `fresh` runs both.
pub(crate) const DEMO: &str = "cargo run --release -- demo";
pub(crate) const TEST: &str = "cargo xtask test";
const SHELLS: [&str; 5] = ["sh", "bash", "shell", "console", "text,sh"];
const BUILD_LIMIT: Duration = Duration::from_secs(900);
const RUN_LIMIT: Duration = Duration::from_secs(600);

/// Checks every command and every Rust block, and runs the demonstration.
pub(crate) fn run() -> Result<Step> {
    let mut step = Step::new("readme", "commands");
    let readme = fs::read_to_string(root().join("README.md")).context("README.md")?;
    for command in [DEMO, TEST] {
        verdict(&mut step, "README.md", command, &says(&readme, command));
    }
    let mut tool = Tool::build()?;
    let figures = fs::read_to_string(root().join(FIGURES)).context(FIGURES)?;
    for figure in quoted_figures(&readme) {
        verdict(&mut step, "README.md", &figure, &is_in(&figures, &figure));
    }
    let mut rust = Step::new("readme", "blocks");
    for document in DOCUMENTS {
        let text = fs::read_to_string(root().join(document)).context(document)?;
        bindings::blocks(document, &text, &target().join("debug"), &mut step)?;
        let blocks = rust_blocks(document, &text)?;
        rust.passed += blocks.passed;
        rust.failed += blocks.failed;
        for (line, words) in commands(&text) {
            let Some(result) = check(&words, &mut tool) else {
                continue;
            };
            verdict(
                &mut step,
                &format!("{document}:{line}"),
                &words.join(" "),
                &result,
            );
        }
    }
    verdict(&mut step, "run", "olivine demo", &tool.demo());
    step.passed += rust.passed;
    step.failed += rust.failed;
    step.note = format!("{} of them blocks of Rust", rust.passed + rust.failed);
    Ok(step)
}

fn verdict(step: &mut Step, place: &str, command: &str, result: &Result<()>) {
    match result {
        Ok(()) => println!("ok    {place}: {command}"),
        Err(error) => println!("FAIL  {place}: {command}: {error:#}"),
    }
    step.count(result.is_ok());
}

/// Figures with a unit in the tables of a document: `169 ns`, `307 M/s`.
fn quoted_figures(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for cell in text
        .lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| line.split('|'))
    {
        let words: Vec<&str> = cell.split_whitespace().collect();
        if let [number, unit @ ("ns" | "us" | "ms" | "K/s" | "M/s")] = words[..] {
            found.push(format!("{number} {unit}"));
        }
    }
    found
}

/// Whether the tables of recorded figures have this one.
fn is_in(figures: &str, figure: &str) -> Result<()> {
    let found = figures
        .lines()
        .filter(|line| line.starts_with('|'))
        .any(|line| has_word(line, figure));
    anyhow::ensure!(found, "{FIGURES} has no such figure");
    Ok(())
}

/// Whether a document gives `command` on a line of its own.
fn says(text: &str, command: &str) -> Result<()> {
    let wanted: Vec<_> = command.split_whitespace().collect();
    let found = commands(text).iter().any(|(_, words)| *words == wanted);
    anyhow::ensure!(found, "not in any block of commands");
    Ok(())
}

/// The commands of a document's shell blocks, split into words, with line numbers.
fn commands(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for block in fenced_blocks(text) {
        if !SHELLS.contains(&block.language.as_str()) {
            continue;
        }
        let is_session = block.text.lines().any(|line| line.starts_with("$ "));
        let mut joined: Option<(usize, String)> = None;
        for (index, line) in block.text.lines().enumerate() {
            let (start, mut command) = joined
                .take()
                .unwrap_or((block.line + 1 + index, String::new()));
            if command.is_empty() && is_session && !line.starts_with("$ ") {
                continue; // What the command printed.
            }
            command.push_str(line.strip_prefix("$ ").unwrap_or(line));
            if let Some(open) = command.strip_suffix('\\') {
                joined = Some((start, open.to_owned()));
                continue;
            }
            found.extend(
                simple_commands(&command)
                    .into_iter()
                    .map(|words| (start, words)),
            );
        }
    }
    found
}

/// Splits a shell line at `|`, `&`, `;` and into words; quotes hold words together.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word = String::new();
    let mut in_word = false;
    let mut quote = None;
    let end_word = |commands: &mut Vec<Vec<String>>, word: &mut String| {
        if let Some(command) = commands.last_mut() {
            command.push(std::mem::take(word));
        }
    };
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.push(c),
            (None, '\'' | '"') => (quote, in_word) = (Some(c), true),
            (None, '#') if !in_word => break,
            (None, '|' | '&' | ';' | ' ' | '\t' | '(' | ')') => {
                if in_word {
                    end_word(&mut commands, &mut word);
                    in_word = false;
                }
                if !matches!(c, ' ' | '\t') {
                    commands.push(Vec::new());
                }
            }
            _ => {
                word.push(c);
                in_word = true;
            }
        }
    }
    if in_word {
        end_word(&mut commands, &mut word);
    }
    for command in &mut commands {
        // `NAME=value command`, `> file`.
        let assigns = |word: &String| {
            word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            })
        };
        while command.first().is_some_and(assigns) {
            command.remove(0);
        }
        if let Some(at) = command
            .iter()
            .position(|w| w.starts_with(['>', '<']) || w.starts_with("2>"))
        {
            command.truncate(at);
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// Checks a command that is ours; `None` where it is somebody else's (`cat`, `git`).
fn check(words: &[String], tool: &mut Tool) -> Option<Result<()>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["cargo", "xtask", ..] => Some(check_xtask(&words[1..])),
        ["cargo", "run", rest @ ..] if rest.contains(&"--example") => Some(check_example(rest)),
        ["cargo", "run", rest @ ..] => {
            let arguments = rest.iter().position(|word| *word == "--");
            Some(tool.accepts(arguments.map_or(&[][..], |at| &rest[at + 1..])))
        }
        [program, rest @ ..] if program.rsplit('/').next() == Some("olivine") => {
            Some(tool.accepts(rest))
        }
        [program, ..] if program.starts_with("./") || program.starts_with(".ci/") => {
            let exists = root().join(program).exists() || program.contains("target/");
            Some(if exists {
                Ok(())
            } else {
                Err(anyhow::anyhow!("no such file"))
            })
        }
        _ => None,
    }
}

/// An example is found only in the package that is named: the root's is the tool.
fn check_example(words: &[&str]) -> Result<()> {
    let after = |flag| {
        let at = words.iter().position(|word| *word == flag);
        at.and_then(|at| words.get(at + 1))
    };
    let (Some(package), Some(example)) = (after("-p"), after("--example")) else {
        bail!("`cargo run --example` needs `-p PACKAGE` and a name");
    };
    let path = root().join(format!("crates/{package}/examples/{example}.rs"));
    anyhow::ensure!(path.exists(), "there is no {}", path.display());
    Ok(())
}

fn check_xtask(words: &[&str]) -> Result<()> {
    let command = crate::Cli::command();
    match command.try_get_matches_from(words) {
        Ok(_) => Ok(()),
        Err(error) if !error.use_stderr() => Ok(()), // --help, --version
        Err(error) => bail!("{}", error.to_string().lines().next().unwrap_or_default()),
    }
}

/// The command-line tool, asked for help to learn what it accepts.
struct Tool {
    program: PathBuf,
    help: HashMap<Vec<String>, String>,
}

impl Tool {
    fn build() -> Result<Self> {
        let mut command = cargo();
        command.args(EVERYTHING);
        let mut output = TestOutput::default();
        let outcome = child::stream(&mut command, at_most(BUILD_LIMIT), |line| output.line(line))?;
        anyhow::ensure!(
            outcome.success(),
            "the tool does not build: {}",
            outcome.words()
        );
        Ok(Self {
            program: target().join("debug/olivine"),
            help: HashMap::new(),
        })
    }

    fn help(&mut self, path: &[String]) -> Result<&str> {
        if !self.help.contains_key(path) {
            let mut command = Command::new(&self.program);
            command.args(path).arg("--help");
            let (outcome, text) = child::capture(&mut command, at_most(RUN_LIMIT))?;
            anyhow::ensure!(
                outcome.success(),
                "`olivine {} --help` fails",
                path.join(" ")
            );
            self.help.insert(path.to_vec(), text);
        }
        Ok(&self.help[path])
    }

    /// Follows the subcommands and looks every option up in the help text.
    fn accepts(&mut self, words: &[&str]) -> Result<()> {
        let mut path = Vec::new();
        for word in words {
            let known = subcommands(self.help(&path)?);
            if word.starts_with('-') || known.is_empty() {
                break;
            }
            if !known.iter().any(|name| name == word) {
                // A command with subcommands may still take a value of its own.
                anyhow::ensure!(!path.is_empty(), "`olivine {word}` is no command");
                break;
            }
            path.push((*word).to_owned());
        }
        let help = self.help(&path)?.to_owned();
        for word in &words[path.len()..] {
            if *word == "--" {
                break;
            }
            let option = word.split('=').next().unwrap_or(word);
            if option.starts_with("--") {
                let known = has_word(&help, option) && !help.contains(&format!("{option}-"));
                let known = known
                    || help
                        .split_whitespace()
                        .any(|w| w.trim_matches(',') == option);
                anyhow::ensure!(known, "`olivine {}` has no option {option}", path.join(" "));
            }
        }
        Ok(())
    }

    /// The demonstration runs to its end and finds nothing lost.
    fn demo(&self) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(&self.program);
        command.arg("demo").env("OLIVINE_DIR", folder.path());
        let (outcome, text) = child::capture(&mut command, at_most(RUN_LIMIT))?;
        anyhow::ensure!(outcome.success(), "{}\n{text}", outcome.words());
        anyhow::ensure!(!text.trim().is_empty(), "it printed nothing");
        Ok(())
    }
}

/// The names under `Commands:` in clap's help.
fn subcommands(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| line.trim() != "Commands:")
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        // Names are indented by two; what wraps is indented further.
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// Compiles and runs a document's blocks of Rust against the libraries, which [`Tool::build`] has built.
fn rust_blocks(document: &str, text: &str) -> Result<Step> {
    if !fenced_blocks(text)
        .iter()
        .any(|block| block.language.starts_with("rust"))
    {
        return Ok(Step::new("readme", "blocks"));
    }
    let rustdoc = std::env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    let debug = target().join("debug");
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(rustdoc);
    command
        .current_dir(root())
        .env("OLIVINE_DIR", folder.path())
        .args([
            "--test",
            document,
            "--edition",
            "2024",
            "--crate-name",
            "readme",
        ])
        .arg("--extern")
        .arg(extern_argument(&debug, "olivine"))
        .arg("--extern")
        .arg(extern_argument(&debug, "olivine_net"))
        .arg("-L")
        .arg(format!("dependency={}", debug.join("deps").display()));
    let mut output = TestOutput::default();
    let outcome = child::stream(&mut command, at_most(RUN_LIMIT), |line| output.line(line))?;
    Ok(output.step("readme", outcome.success(), &outcome.words()))
}

fn extern_argument(debug: &Path, name: &str) -> String {
    format!("{name}={}", debug.join(format!("lib{name}.rlib")).display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_looked_for_in_its_package() {
        assert!(
            check_example(&["-p", "olivine", "--example", "anywhere", "--", "shm://x"]).is_ok()
        );
        assert!(check_example(&["--example", "anywhere"]).is_err());
        assert!(check_example(&["-p", "olivine", "--example", "nowhere"]).is_err());
    }

    fn tool() -> Tool {
        let mut help = HashMap::new();
        let top = "Usage: olivine\n\nCommands:\n  pub    Publishes\n           and more\n  bench  Measures\n\n";
        help.insert(vec![], top.to_owned());
        help.insert(
            vec!["pub".to_owned()],
            "Options:\n  -s, --size <B>\n      --rate-max\n".to_owned(),
        );
        let bench = "Commands:\n  floor  Floor\n\n".to_owned();
        help.insert(vec!["bench".to_owned()], bench);
        help.insert(
            vec!["bench".to_owned(), "floor".to_owned()],
            "--json\n".to_owned(),
        );
        Tool {
            program: "no-such-program".into(),
            help,
        }
    }

    #[test]
    fn commands_are_found_in_pipelines_and_sessions() {
        let text = "```sh\nA=1 olivine pub shm://x --stdin lines < f | wc -l  # why\nb \\\n  c\n```\n\
                    ```console\n$ one 'two three'\nprinted\n```\n```rust\nfn f() {}\n```\n";
        let found = commands(text);
        let words: Vec<_> = found.iter().map(|(_, words)| words.join("·")).collect();
        assert_eq!(
            words,
            [
                "olivine·pub·shm://x·--stdin·lines",
                "wc·-l",
                "b·c",
                "one·two three"
            ]
        );
        assert_eq!(found[2].0, 3, "the line it starts on");
    }

    #[test]
    fn a_command_the_tool_does_not_know_is_found() {
        for bad in [
            "send shm://x",
            "pub --speed 3",
            "pub --rate 3",
            "bench floor --csv",
        ] {
            let words: Vec<_> = bad.split(' ').collect();
            assert!(tool().accepts(&words).is_err(), "{bad}");
        }
        for good in [
            "pub shm://x --size=3",
            "pub --size 3",
            "bench floor --json",
            "",
            "pub -s 3",
        ] {
            let words: Vec<_> = good.split_whitespace().collect();
            tool()
                .accepts(&words)
                .unwrap_or_else(|error| panic!("{good}: {error}"));
        }
    }

    #[test]
    fn a_command_of_ours_that_does_not_exist_is_found() {
        assert!(check_xtask(&["xtask", "tset"]).is_err());
        assert!(check_xtask(&["xtask", "test"]).is_ok());
        assert!(check_xtask(&["xtask", "model", "--mutants"]).is_ok());
        assert!(check_xtask(&["xtask", "model", "--mutant"]).is_err());
    }

    #[test]
    fn a_readme_without_the_first_command_is_found() {
        assert!(
            says("cargo xtask test\n", TEST).is_err(),
            "prose is no command"
        );
        assert!(says("```sh\ncargo xtask test   # all of it\n```\n", TEST).is_ok());
    }

    #[test]
    fn a_figure_that_was_not_recorded_is_found() {
        let table = "| method | trip |\n| --- | --- |\n| a | 169 ns | 7 |\n169 ms\n";
        assert_eq!(quoted_figures(table), ["169 ns"]);
        assert!(is_in("| x | 169 ns, 1.36 |\n", "169 ns").is_ok());
        assert!(is_in("| x | 1169 ns |\n169 ns\n", "169 ns").is_err());
    }

    #[test]
    fn a_demonstration_that_fails_is_found() {
        let with = |program: &str| Tool {
            program: program.into(),
            help: HashMap::new(),
        };
        assert!(with("false").demo().is_err());
        assert!(with("true").demo().is_err(), "silence shows nothing");
        assert!(with("echo").demo().is_ok());
    }
}
