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

use crate::log::Level;
use carry::{BridgeArgs, RecordArgs, ReplayArgs};
use clap::{Args, Parser, Subcommand};
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
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = values::duration, default_value = "7")]
    pub(crate) seconds: Duration,
    /// Bytes of a message, 16 or more
    #[arg(long, short, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size, default_value = "32")]
    pub(crate) size: u64,
    /// Messages a second of the paced phase
    #[arg(long, short, value_name = "RATE", allow_negative_numbers = true, value_parser = values::steady_rate, default_value = "100K")]
    pub(crate) rate: f64,
    /// CPUs of publisher and subscriber [default: the first two allowed]
    #[arg(long, value_name = "A,B", allow_negative_numbers = true, value_parser = values::cpu_pair)]
    pub(crate) cpus: Option<(u32, u32)>,
    /// Bytes of the ring
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size, default_value = "1MiB")]
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_key_of_a_uri_stands_in_the_help() {
        let error = olivine::Config::parse("shm://x?no-such-key=1").unwrap_err();
        let olivine::UriError::UnknownKey { known, .. } = error else {
            panic!("{error}");
        };
        let mut command = Cli::command();
        command.build();
        let help = command
            .find_subcommand_mut("pub")
            .map(|command| command.render_long_help().to_string())
            .unwrap_or_default();
        let words: Vec<&str> = help.split_whitespace().collect();
        for key in known.split(", ") {
            let flag = format!("--{}", key.replace('_', "-"));
            assert!(words.contains(&key) || words.contains(&&*flag), "{key}");
        }
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
