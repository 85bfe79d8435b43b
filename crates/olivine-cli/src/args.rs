//! The command line: one block for each flag. Help, man page and completions come from it.

mod admin;
mod bench;
pub(crate) mod carry;
pub(crate) mod channel;
mod far;
pub(crate) mod journal;
pub(crate) mod load;
mod serve;
mod stream;
pub(crate) mod values;

pub(crate) use admin::{DoctorArgs, GcArgs, InspectArgs, LsArgs, RmArgs, TapArgs, TopArgs};
pub(crate) use bench::{
    ArenaArgs, BenchArgs, BenchCommand, CompareArgs, MethodArgs, PageArgs, Registered,
    SelfcheckArgs, SiteArgs, SubmitArgs, SweepArgs,
};
pub(crate) use far::FarArgs;
pub(crate) use serve::{AccessArgs, MetricsArgs, ServeArgs};
pub(crate) use stream::{InputForm, OutputForm, PubArgs, ReportArgs, Stat, SubArgs};

use crate::complete;
use crate::failure::{Failure, Outcome};
use crate::log::Level;
use carry::{BridgeArgs, RecordArgs, ReplayArgs};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, Parser, Subcommand};
use olivine::Scheme;
use serde::Serialize;
use std::time::Duration;

/// Help shows the examples before the options, where readers see them.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}\n";

const EXAMPLES: &str = "\
Examples:
  olivine demo                                a demonstration of seven seconds
  olivine sub shm://ticks                     print the messages of a channel
  olivine pub shm://ticks hello               send one message
  olivine pub shm://log --stdin lines < file  send a file, line by line
  olivine ls                                  list channels and participants
  olivine top                                 watch what holds a publisher back
  olivine bench pingpong                      benchmark this machine

A URI is shm://NAME?key=value&...; 'olivine pub --help' lists the keys.
Exit codes: 0 success, 1 failure, 2 wrong usage; 130 or 143 if Ctrl-C or SIGTERM
came before the work was complete. A second Ctrl-C, at least one second later,
ends the command at once.";

/// What this build is and contains.
#[derive(Debug, Serialize)]
pub(crate) struct Version {
    version: &'static str,
    commit: &'static str,
    features: Vec<&'static str>,
    schemes: Vec<&'static str>,
}

/// The version, the commit, and the features and schemes that this build contains.
pub(crate) fn version() -> Version {
    let features = [
        ("arrow", cfg!(feature = "arrow")),
        ("mcap", cfg!(feature = "mcap")),
        ("nats", cfg!(feature = "nats")),
        ("screen", cfg!(feature = "screen")),
        ("tls", cfg!(feature = "tls")),
        ("zstd", cfg!(feature = "zstd")),
    ];
    let features = features.iter().filter(|(_, is_on)| *is_on);
    let schemes = Scheme::ALL.iter().filter(|scheme| scheme.is_built());
    Version {
        version: env!("CARGO_PKG_VERSION"),
        commit: olivine_bench::machine::COMMIT,
        features: features.map(|(name, _)| *name).collect(),
        schemes: schemes.map(|scheme| scheme.word()).collect(),
    }
}

fn long_version() -> String {
    let Version {
        version,
        commit,
        features,
        schemes,
    } = version();
    format!(
        "{version}\ncommit: {commit}\nfeatures: {}\nschemes: {}",
        features.join(" "),
        schemes.join(" ")
    )
}

/// Messages between programs through shared memory: fast, nothing lost
#[derive(Debug, Parser)]
#[command(
    name = "olivine",
    version,
    long_version = long_version(),
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
    /// Print JSON; field names include the unit
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    /// How much to log to standard error
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
    Tap(TapArgs),
    Top(TopArgs),
    Metrics(MetricsArgs),
    Serve(ServeArgs),
    Rm(RmArgs),
    Gc(GcArgs),
    Bridge(BridgeArgs),
    Record(RecordArgs),
    Replay(ReplayArgs),
    Journal(journal::JournalArgs),
    Demo(DemoArgs),
    Doctor(DoctorArgs),
    Bench(BenchArgs),
    Explain(ExplainArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    #[command(name = olivine_bench::protocol::COMMAND, hide = true)]
    Participant(ParticipantArgs),
    #[command(name = olivine_bench::run::LOAD, hide = true)]
    Entry(EntryArgs),
    #[command(name = "__serve", hide = true)]
    LoadServer(load::ServeArgs),
}

/// Show that nothing is lost: at full speed, at a fixed rate, or under kills
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine demo
  olivine demo --seconds 30 --size 128 --rate 1M
  olivine demo --json | jq '.paced.latency.p99_ns'
  olivine demo --crash                        kill and stop participants; exit
                                              code 1 if a message is lost,
                                              repeated or torn")]
pub(crate) struct DemoArgs {
    /// Kill (SIGKILL) and stop two publishers and two durable subscribers in turn,
    /// and count each message
    #[arg(long)]
    pub(crate) crash: bool,
    /// Total time: 4/7 at full speed, 3/7 at the fixed rate [default: 7; 15 with
    /// --crash]
    #[arg(
        long, value_name = "S", allow_negative_numbers = true, value_parser = values::duration
    )]
    pub(crate) seconds: Option<Duration>,
    /// Bytes of a message, 16 or more
    #[arg(
        long, short, value_name = "BYTES", allow_negative_numbers = true,
        value_parser = values::size, default_value = "32"
    )]
    pub(crate) size: u64,
    /// Messages per second in the fixed-rate phase, or with --crash of each
    /// publisher [default: 100K; 10K with --crash]
    #[arg(
        long, short, value_name = "RATE", allow_negative_numbers = true,
        value_parser = values::steady_rate
    )]
    pub(crate) rate: Option<f64>,
    /// CPUs of publisher and subscriber [default: the first two allowed]
    #[arg(
        long, value_name = "A,B", allow_negative_numbers = true, value_parser = values::cpu_pair,
        conflicts_with = "crash"
    )]
    pub(crate) cpus: Option<(u32, u32)>,
    /// Bytes of the ring
    #[arg(
        long, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size,
        default_value = "1MiB"
    )]
    pub(crate) capacity: u64,
}

/// Explain an error by the id at its end
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine explain journal.hole
  olivine explain                             every id")]
pub(crate) struct ExplainArgs {
    /// Id, such as open.missing [default: list all]
    #[arg(add = complete::error())]
    pub(crate) id: Option<String>,
}

/// Print settings that can have a default, and where each came from
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine config --origin
  OLIVINE_SUB_WAIT=spin olivine config --origin | grep sub.wait

The file is $OLIVINE_CONFIG, else olivine/config.toml in $XDG_CONFIG_HOME or
~/.config. It is TOML, with a table for each command:
                                      log_level = \"warn\"
                                      [sub]
                                      wait = \"spin\"
                                      [bench.latency]
                                      runs = 9

Each setting also has a variable, such as OLIVINE_BENCH_LATENCY_RUNS. An option
or a key of the URI comes first, then the variable, the file, and what is built
in. Settings of pub and sub are left out where the scheme has none of that name.")]
pub(crate) struct ConfigArgs {
    /// Also print where each value came from, and which file is read
    #[arg(long)]
    pub(crate) origin: bool,
}

/// Print shell completions
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine completions bash > ~/.local/share/bash-completion/completions/olivine
  olivine completions zsh > ~/.zfunc/_olivine
  olivine completions fish > ~/.config/fish/completions/olivine.fish

The script asks the tool at each Tab: it completes commands, options and the
names of channels.")]
pub(crate) struct CompletionsArgs {
    /// Shell to print them for
    pub(crate) shell: clap_complete::Shell,
}

/// Print the man page of the tool or of one command
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine man | man -l -
  olivine man pub > olivine-pub.1")]
pub(crate) struct ManArgs {
    /// Command, such as pub or bench latency [default: the tool]
    pub(crate) command: Vec<String>,
}

/// A participant of a measurement.
#[derive(Debug, Args)]
pub(crate) struct ParticipantArgs {
    pub(crate) seat: Vec<String>,
}

/// An entry of the arena that is a library.
#[derive(Debug, Args)]
pub(crate) struct EntryArgs {
    pub(crate) library: std::path::PathBuf,
    /// What a program that takes part is asked to do.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

/// Refuses the flags of `names` if the command line has one: they have no effect for `what`.
///
/// # Errors
///
/// Names the first such flag.
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

/// The first of `names` that the command line gives to the innermost command. Defaults do not
/// count.
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
    fn command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn version_as_json_has_what_the_text_has() {
        let json = serde_json::to_value(version()).unwrap();
        let words = |name: &str| {
            let words = json[name].as_array().unwrap().iter();
            words
                .map(|word| word.as_str().unwrap())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let text = format!(
            "{}\ncommit: {}\nfeatures: {}\nschemes: {}",
            json["version"].as_str().unwrap(),
            json["commit"].as_str().unwrap(),
            words("features"),
            words("schemes"),
        );
        assert_eq!(text, long_version());
    }

    #[test]
    fn version_names_commit_every_feature_and_schemes() {
        let said = long_version();
        let lines: Vec<_> = said.lines().collect();
        let [version, commit, features, schemes] = lines[..] else {
            panic!("{said}");
        };
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        let commit = commit.strip_prefix("commit: ").unwrap();
        assert!(
            !commit.is_empty() && features.starts_with("features:"),
            "{said}"
        );
        assert!(
            schemes.contains(" shm") && schemes.contains(" tcp"),
            "{said}"
        );
        let manifest = include_str!("../Cargo.toml");
        let (_, listed) = manifest.split_once("[features]\n").unwrap();
        let (listed, _) = listed.split_once("\n\n[").unwrap();
        let lines = listed.lines().filter_map(|line| line.split_once(" = "));
        let names = lines
            .map(|(name, _)| name)
            .filter(|name| *name != "default");
        let names: Vec<_> = names.collect();
        assert!(names.len() > 5, "{names:?}");
        for name in names {
            let asked = format!("cfg!(feature = \"{name}\")");
            assert!(include_str!("args.rs").contains(&asked), "{name}");
        }
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

    /// Whether the library accepts `key` for a channel like `place`.
    fn has(place: &str, key: &str) -> bool {
        // At least one of them is a value of the key and not its default.
        const VALUES: [&str; 17] = [
            "yes",
            "1",
            "1s",
            "1MiB",
            "listen",
            "any",
            "block",
            "zstd",
            "full",
            "memory",
            "limits",
            "accept",
            "word",
            "/a/b",
            "@/a/b",
            "h:1",
            "127.0.0.1",
        ];
        let (mut usable, mut misplaced) = (0, 0);
        for value in VALUES {
            match olivine::Config::parse(&format!("{place}?{key}={value}")) {
                // The key is usable together with another key, or without it.
                Ok(_) => usable += 1,
                Err(UriError::Misplaced { .. }) => misplaced += 1,
                Err(UriError::Pair { .. }) => usable += 1,
                Err(UriError::Value { .. } | UriError::Address { .. }) => {}
                Err(error) => panic!("{place} {key}={value}: {error}"),
            }
        }
        assert!(usable + misplaced > 0, "no value of {key} is usable");
        misplaced == 0
    }

    #[test]
    fn help_lists_every_uri_key() {
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
        // Only file:// needs the key: elsewhere the path names the channel.
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
    fn help_fits_80_columns() {
        fn check(command: &mut clap::Command) {
            // clap does not wrap examples.
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
