//! Each option of each command has an effect or is refused: the pairs come from `--help`, and each
//! has a row here.

mod bench;
mod carry;
mod channel;
mod defaults;
mod journal;
mod look;
mod measure;
mod publish;
mod stage;
mod subscribe;
mod watch;

use stage::{How, Scene, Stage};
use std::collections::BTreeSet;

/// Every scene.
fn scenes() -> impl Iterator<Item = &'static Scene> {
    let parts: [&[Scene]; 10] = [
        publish::SCENES,
        subscribe::SCENES,
        channel::SCENES,
        look::SCENES,
        watch::SCENES,
        carry::SCENES,
        journal::SCENES,
        bench::SCENES,
        measure::SCENES,
        bench::servers::SCENES,
    ];
    parts.into_iter().flatten()
}

#[test]
fn every_option_in_help_has_one_row() {
    let shown = help::pairs();
    let mut rows = BTreeSet::new();
    let mut counts = [0, 0];
    for scene in scenes() {
        for option in scene.options {
            let row = (scene.command.to_owned(), (*option).to_owned());
            assert!(rows.insert(row.clone()), "two rows for {row:?}");
            counts[usize::from(scene.how == How::Refused)] += 1;
        }
    }
    let without: Vec<_> = shown.difference(&rows).collect();
    assert!(without.is_empty(), "options without a row: {without:?}");
    let unknown: Vec<_> = rows.difference(&shown).collect();
    assert!(unknown.is_empty(), "rows without an option: {unknown:?}");
    let [acts, refused] = counts;
    println!("{} pairs: {acts} act, {refused} are refused", shown.len());
}

/// A command that is in no list of a test would have scenes that are never played.
#[test]
fn every_command_with_a_scene_is_played() {
    let (_, tests) = include_str!("options.rs").split_once("fn play(").unwrap();
    let played = |command: &str| tests.contains(&format!("\"{command}\""));
    let commands: BTreeSet<_> = scenes().map(|scene| scene.command).collect();
    let missing: Vec<_> = commands.iter().filter(|command| !played(command)).collect();
    assert!(missing.is_empty(), "no test plays {missing:?}");
}

/// Two texts could state different facts.
#[test]
fn short_help_of_each_command_is_a_part_of_the_long_one() {
    assert_eq!(help::only_in_short_help(), Vec::<String>::new());
}

/// Plays the scenes of these commands, each on a separate stage.
fn play(commands: &[&str]) {
    let mut played = 0;
    for scene in scenes().filter(|scene| commands.contains(&scene.command)) {
        println!("{} {:?}", scene.command, scene.options);
        let stage = Stage::new();
        (scene.act)(&stage);
        stage.check(scene);
        played += 1;
    }
    assert!(played > 0, "no scene of {commands:?}");
}

#[test]
fn each_option_of_pub_acts_or_is_refused() {
    play(&["pub"]);
}

#[test]
fn each_option_of_sub_acts_or_is_refused() {
    play(&["sub"]);
}

#[test]
fn each_option_of_the_commands_that_look_after_channels_acts() {
    play(&["ls", "inspect", "top", "tap", "rm", "gc", "doctor"]);
}

#[test]
fn each_option_of_the_commands_that_serve_what_they_see_acts() {
    play(&["metrics", "serve"]);
}

#[test]
fn each_option_of_the_commands_that_carry_acts_or_is_refused() {
    play(&["bridge", "record", "replay"]);
}

#[test]
fn each_option_of_journal_acts() {
    play(&["journal", "journal info", "journal cut", "journal export"]);
}

#[test]
fn each_option_of_demo_explain_config_completions_and_man_acts_or_is_refused() {
    play(&["demo", "explain", "config", "completions", "man"]);
}

#[test]
fn each_option_of_the_bench_commands_that_measure_nothing_acts_or_is_refused() {
    play(&["bench list", "bench compare", "bench report", "bench site"]);
}

#[test]
fn each_option_of_bench_with_one_reader_acts_or_is_refused() {
    if crate::common::has_two_cpus() {
        play(&["bench floor", "bench pingpong", "bench throughput"]);
        play(&["bench cost", "bench latency"]);
    }
}

#[test]
fn each_option_of_bench_with_several_processes_acts_or_is_refused() {
    if crate::common::has_two_cpus() {
        play(&["bench", "bench fanout", "bench mesh", "bench sweep"]);
    }
}

#[test]
fn each_option_of_bench_bridge_and_selfcheck_acts_or_is_refused() {
    if crate::common::has_two_cpus() {
        play(&["bench bridge", "bench selfcheck"]);
        play(&["bench arena", "bench submit"]);
    }
}

#[test]
fn each_option_of_bench_http_and_tcp_acts_or_is_refused() {
    if crate::common::has_two_cpus() {
        play(&["bench http", "bench tcp"]);
    }
}

/// Help hides it there, and it is refused.
#[cfg(not(feature = "zstd"))]
#[test]
fn recording_without_zstd_is_not_compressed() {
    let stage = Stage::new();
    let file = stage.path("x.olv");
    let said = stage.fails(&["record", "x", &file, "--compress", "zstd"], 2);
    assert!(said.contains("--compress zstd"), "{said}");
}

/// The options in the tool's help.
mod help {
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

    /// What `-h` of any command says and `--help` does not, or that it is not shorter.
    pub(crate) fn only_in_short_help() -> Vec<String> {
        let place = TestFolder::new();
        let mut all = vec![String::new()];
        for command in commands(&place, "") {
            let inner = commands(&place, &command);
            all.extend(inner.iter().map(|inner| format!("{command} {inner}")));
            all.push(command);
        }
        let text = |command: &str, flag: &str| {
            let words: Vec<&str> = command.split_whitespace().chain([flag]).collect();
            String::from_utf8(place.run(&words).stdout).unwrap()
        };
        let mut wrong = Vec::new();
        for command in all {
            let [short, long] = ["-h", "--help"].map(|flag| text(&command, flag));
            // The last paragraph names the other text.
            let (short, _) = short.trim_end().rsplit_once("\n\n").unwrap();
            assert!(short.len() > 50, "{command}: {short}");
            if short.len() >= long.len() {
                wrong.push(format!("'{command} -h' is not shorter"));
            }
            let long = words_of(&long);
            for paragraph in short.split("\n\n") {
                // Columns differ, so each option is compared without them.
                for part in words_of(paragraph).split(" --") {
                    if !long.contains(part) {
                        wrong.push(format!("{command}: {part}"));
                    }
                }
            }
        }
        wrong
    }

    /// A text in one line, with one space between words.
    fn words_of(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
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
}
