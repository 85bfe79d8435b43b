//! The options in the tool's help.

use crate::common::{TestFolder, said};
use std::collections::BTreeSet;

/// Every command and subcommand with every option that its help shows.
pub(crate) fn pairs() -> BTreeSet<(String, String)> {
    let place = TestFolder::new();
    let mut pairs = BTreeSet::new();
    for command in commands(&place, "") {
        add(&place, &command, &mut pairs);
        for inner in commands(&place, &command) {
            add(&place, &format!("{command} {inner}"), &mut pairs);
        }
    }
    pairs
}

/// The commands whose `-h` and `--help` differ.
pub(crate) fn with_two_texts() -> Vec<String> {
    let place = TestFolder::new();
    let mut all = vec![String::new()];
    for command in commands(&place, "") {
        let inner = commands(&place, &command);
        all.extend(inner.iter().map(|inner| format!("{command} {inner}")));
        all.push(command);
    }
    let text = |command: &str, flag: &str| {
        let words: Vec<&str> = command.split_whitespace().chain([flag]).collect();
        place.run(&words).stdout
    };
    all.retain(|command| text(command, "-h") != text(command, "--help"));
    all
}

fn add(place: &TestFolder, command: &str, pairs: &mut BTreeSet<(String, String)>) {
    let before = pairs.len();
    for line in help(place, command).lines() {
        pairs.extend(option(line).map(|option| (command.to_owned(), option.to_owned())));
    }
    assert!(pairs.len() > before, "'{command} --help' shows no option");
}

fn help(place: &TestFolder, command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
    let output = place.run(&words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The names under "Commands:".
fn commands(place: &TestFolder, command: &str) -> Vec<String> {
    let help = help(place, command);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| !line.is_empty());
    // A continued description is indented further.
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<String> = names
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect();
    assert!(!names.is_empty() || !matches!(command, "" | "bench"));
    names
}

/// The long name of the option that a line of help begins with.
fn option(line: &str) -> Option<&str> {
    // A continued description is indented further.
    let indent = line.len() - line.trim_start().len();
    let words = line.trim_start();
    if !matches!(indent, 2 | 6) || !words.starts_with('-') {
        return None;
    }
    let long = words
        .split_whitespace()
        .find(|word| word.starts_with("--"))?;
    let long = long.split(['[', '=']).next().unwrap_or(long);
    (!matches!(long, "--help" | "--version")).then_some(long)
}
