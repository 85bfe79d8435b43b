//! The command line: one block a flag, from which help, man page and completions are made.

mod admin;
mod bench;
pub(crate) mod carry;
pub(crate) mod channel;
mod far;
pub(crate) mod load;
mod stream;
pub(crate) mod values;

pub(crate) use admin::{GcArgs, InspectArgs, LsArgs, RmArgs};
pub(crate) use bench::{
    BenchArgs, CompareArgs, ManyArgs, MethodArgs, PageArgs, RingArgs, Scenario, SelfcheckArgs,
    SweepArgs,
};
pub(crate) use far::FarArgs;
pub(crate) use stream::{InputForm, OutputForm, PubArgs, ReportArgs, Stat, SubArgs};

use crate::failure::{Failure, Outcome};
use crate::log::Level;
use carry::{BridgeArgs, RecordArgs, ReplayArgs};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Examples stand between the usage and the options, where they are seen.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}\n";

const EXAMPLES: &str = "\
Examples:
  olivine demo                                see it work, in ten seconds
  olivine sub shm://ticks                     print what others publish
  olivine pub shm://ticks hello               send one message
  olivine pub shm://log --stdin lines < file  send a file, line by line
  olivine ls                                  what is there, who is attached
  olivine bench pingpong                      measure this machine

A URI is shm://NAME?key=value&...; 'olivine pub --help' lists the keys.
Exit codes: 0 done, 1 failed, 2 wrong use; 130 Ctrl-C (143 SIGTERM) before what
was asked for was complete. Another Ctrl-C a second later ends it at once.";

/// Messages between programs through shared memory: fast, nothing lost
#[derive(Debug, Parser)]
#[command(
    name = "olivine",
    version,
    help_template = TEMPLATE,
    after_help = EXAMPLES,
    max_term_width = 80,
    disable_help_subcommand = true,
    infer_subcommands = false
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags of every command.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Common {
    /// Print JSON, units in the names
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    /// How much to say on standard error
    #[arg(
        long,
        short,
        global = true,
        value_name = "LEVEL",
        default_value = "info",
        display_order = 901
    )]
    pub(crate) log_level: Level,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Pub(PubArgs),
    Sub(SubArgs),
    Ls(LsArgs),
    Inspect(InspectArgs),
    Rm(RmArgs),
    Gc(GcArgs),
    Bridge(BridgeArgs),
    Record(RecordArgs),
    Replay(ReplayArgs),
    Demo(DemoArgs),
    Bench(BenchArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    #[command(name = "__peer", hide = true)]
    Peer(PeerArgs),
    #[command(name = "__serve", hide = true)]
    Serve(load::ServeArgs),
}

/// Two processes, full speed and a paced rate, every byte verified
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine demo
  olivine demo --seconds 30 --size 128 --rate 1M
  olivine demo --json | jq '.paced.latency.p99_ns'")]
pub(crate) struct DemoArgs {
    /// Time in all, four parts at full speed and three at the rate
    #[arg(
        long, value_name = "S", allow_negative_numbers = true, value_parser = values::duration,
        default_value = "7"
    )]
    pub(crate) seconds: Duration,
    /// Bytes of a message, 16 or more
    #[arg(
        long, short, value_name = "BYTES", allow_negative_numbers = true,
        value_parser = values::size, default_value = "32"
    )]
    pub(crate) size: u64,
    /// Messages a second of the paced phase
    #[arg(
        long, short, value_name = "RATE", allow_negative_numbers = true,
        value_parser = values::steady_rate, default_value = "100K"
    )]
    pub(crate) rate: f64,
    /// CPUs of publisher and subscriber [default: the first two allowed]
    #[arg(long, value_name = "A,B", allow_negative_numbers = true, value_parser = values::cpu_pair)]
    pub(crate) cpus: Option<(u32, u32)>,
    /// Bytes of the ring
    #[arg(
        long, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size,
        default_value = "1MiB"
    )]
    pub(crate) capacity: u64,
}

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine completions bash > ~/.local/share/bash-completion/completions/olivine
  olivine completions zsh > ~/.zfunc/_olivine")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the man page, of the tool or of one command
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine man | man -l -
  olivine man pub > olivine-pub.1")]
pub(crate) struct ManArgs {
    /// Command whose page to print, such as pub or bench latency
    pub(crate) command: Vec<String>,
}

/// The second process of a measurement.
#[derive(Debug, Args)]
pub(crate) struct PeerArgs {
    /// Know the methods of the self-check, and only those.
    #[arg(long)]
    pub(crate) self_check: bool,
    pub(crate) words: PathBuf,
    pub(crate) cpu: u32,
}

/// Refuses the flags of `names` that stand on this command line, where they act on nothing.
///
/// # Errors
///
/// The first of them, by its name.
pub(crate) fn refuse_given(names: &[&str], what: &str) -> Outcome {
    // It was parsed once already.
    let Ok(matches) = Cli::command().try_get_matches() else {
        return Ok(());
    };
    match first_given(&matches, names) {
        Some(name) => Err(Failure::usage(format!(
            "--{} has no meaning for {what}: leave it out",
            name.replace('_', "-")
        ))),
        None => Ok(()),
    }
}

/// The first of `names` that the command line gives the innermost command, not by a default.
fn first_given<'a>(matches: &ArgMatches, names: &[&'a str]) -> Option<&'a str> {
    let mut matches = matches;
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    let is_given = |name: &&&str| {
        matches.ids().any(|id| id.as_str() == **name)
            && matches.value_source(name) == Some(ValueSource::CommandLine)
    };
    names.iter().find(is_given).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use olivine::UriError;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// The table of keys by scheme at the end of `olivine pub --help`.
    fn keys_by_scheme(help: &str) -> Vec<(String, Vec<String>)> {
        let (_, table) = help.split_once("these keys:\n").unwrap();
        let mut rows: Vec<(String, Vec<String>)> = Vec::new();
        for word in table.split_whitespace() {
            match (word.strip_suffix("://"), rows.last_mut()) {
                (Some(scheme), _) => rows.push((scheme.to_owned(), Vec::new())),
                (None, Some((_, keys))) => keys.push(word.to_owned()),
                (None, None) => panic!("'{word}' before the first scheme"),
            }
        }
        rows
    }

    /// Whether places like this one have `key`, as the library has it.
    fn has(place: &str, key: &str) -> bool {
        // One of them, at least, is a value of the key and not its default.
        const VALUES: [&str; 16] = [
            "yes", "1", "1s", "1MiB", "listen", "any", "block", "zstd", "full", "memory", "limits",
            "accept", "word", "/a/b", "@/a/b", "h:1",
        ];
        let (mut usable, mut misplaced) = (0, 0);
        for value in VALUES {
            match olivine::Config::parse(&format!("{place}?{key}={value}")) {
                // Or it is usable, with another key that it needs or excludes.
                Ok(_) => usable += 1,
                Err(UriError::Pair {
                    second: "this scheme",
                    ..
                }) => misplaced += 1,
                Err(UriError::Pair { .. }) => usable += 1,
                Err(UriError::Value { .. } | UriError::Address { .. }) => {}
                Err(error) => panic!("{place} {key}={value}: {error}"),
            }
        }
        assert!(usable + misplaced > 0, "no value of {key} is usable");
        misplaced == 0
    }

    #[test]
    fn every_key_of_a_uri_stands_in_the_help() {
        let error = olivine::Config::parse("shm://x?no-such-key=1").unwrap_err();
        let UriError::UnknownKey { known, .. } = error else {
            panic!("{error}");
        };
        let mut command = Cli::command();
        command.build();
        let [publish, subscribe] =
            ["pub", "sub"].map(|name| command.find_subcommand(name).unwrap());
        let arguments = publish.get_arguments().chain(subscribe.get_arguments());
        let flags: Vec<String> = arguments
            .filter_map(|argument| Some(argument.get_long()?.replace('-', "_")))
            .collect();
        let table = keys_by_scheme(&publish.get_after_help().unwrap().to_string());
        let places = [
            ("shm+fd", "shm+fd:///a/b"),
            ("tcp", "tcp://h:1/x"),
            ("nats", "nats://h/x"),
            ("file", "file:///a/b"),
        ];
        assert_eq!(table.len(), places.len());
        // Where a path does not name the channel; elsewhere no value of it is usable.
        for (scheme, keys) in &table {
            let is_listed = keys.iter().any(|listed| listed == "channel");
            assert_eq!(is_listed, scheme == "file", "channel of {scheme}://");
        }
        let others = known.split(", ").filter(|key| *key != "channel");
        let mut checked = 0;
        for key in others.filter(|key| flags.iter().all(|flag| flag != key)) {
            assert!(!has("shm://x", key), "{key}");
            for ((scheme, keys), (of, place)) in table.iter().zip(places) {
                assert_eq!(scheme, of);
                let is_listed = keys.iter().any(|listed| listed == key);
                assert_eq!(is_listed, has(place, key), "{key} of {scheme}://");
            }
            checked += 1;
        }
        assert!(checked > 20, "{checked} of {known}");
    }

    #[test]
    fn no_line_of_help_is_longer_than_80_columns() {
        fn check(command: &mut clap::Command) {
            // Examples are not wrapped, which would tear them.
            let examples = command.get_after_help().map(ToString::to_string);
            for line in examples.unwrap_or_default().lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
            let help = command.render_long_help().to_string();
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
            for inner in command.get_subcommands_mut() {
                check(inner);
            }
        }
        let mut command = Cli::command().term_width(80);
        command.build();
        check(&mut command);
    }
}
