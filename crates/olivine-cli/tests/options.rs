//! Each option of each command has an effect or is refused: the pairs come from `--help`, and each
//! has a row here.

#[path = "options/bench.rs"]
mod bench;
#[path = "options/carry.rs"]
mod carry;
#[path = "options/channel.rs"]
mod channel;
mod common;
#[path = "options/help.rs"]
mod help;
#[path = "options/look.rs"]
mod look;
#[path = "options/measure.rs"]
mod measure;
#[path = "options/publish.rs"]
mod publish;
#[path = "options/servers.rs"]
mod servers;
#[path = "options/stage.rs"]
mod stage;
#[path = "options/subscribe.rs"]
mod subscribe;
#[path = "options/watch.rs"]
mod watch;
#[path = "common/web.rs"]
mod web;

use stage::{How, Scene, Stage};
use std::collections::BTreeSet;

/// Every scene.
fn scenes() -> impl Iterator<Item = &'static Scene> {
    let parts: [&[Scene]; 9] = [
        publish::SCENES,
        subscribe::SCENES,
        channel::SCENES,
        look::SCENES,
        watch::SCENES,
        carry::SCENES,
        bench::SCENES,
        measure::SCENES,
        servers::SCENES,
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
fn short_and_long_help_of_each_command_are_one_text() {
    assert_eq!(help::with_two_texts(), Vec::<String>::new());
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
fn each_option_of_demo_completions_and_man_acts_or_is_refused() {
    play(&["demo", "completions", "man"]);
}

#[test]
fn each_option_of_the_bench_commands_that_measure_nothing_acts_or_is_refused() {
    play(&["bench list", "bench compare", "bench report"]);
}

#[test]
fn each_option_of_bench_with_one_reader_acts_or_is_refused() {
    if common::has_two_cpus() {
        play(&["bench floor", "bench pingpong", "bench throughput"]);
        play(&["bench cost", "bench latency"]);
    }
}

#[test]
fn each_option_of_bench_with_several_processes_acts_or_is_refused() {
    if common::has_two_cpus() {
        play(&["bench", "bench fanout", "bench mesh", "bench sweep"]);
    }
}

#[test]
fn each_option_of_bench_bridge_and_selfcheck_acts_or_is_refused() {
    if common::has_two_cpus() {
        play(&["bench bridge", "bench selfcheck"]);
    }
}

#[test]
fn each_option_of_bench_http_and_tcp_acts_or_is_refused() {
    if common::has_two_cpus() {
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
