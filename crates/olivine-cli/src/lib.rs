//! The olivine tool: publish, subscribe, inspect channels and benchmark them from the shell.
//!
//! Reading order: `args` (the command line), `publish` and `subscribe` (the pipe), `admin`, `watch`
//! with `top`, `metrics` and `serve`, `demo`, `bench`. The tool contains no messaging: any program
//! can do the same with the library. It is not an interface for other programs.
#![forbid(unsafe_code)]

mod admin;
mod args;
mod awaited;
mod bench;
mod bridge;
mod complete;
mod defaults;
mod demo;
mod doctor;
mod explain;
mod failure;
mod fields;
mod framing;
mod journal;
mod log;
mod meter;
mod metrics;
mod output;
mod process;
mod progress;
mod publish;
mod quote;
mod replace;
mod serve;
mod settings;
mod shell;
mod stop;
mod subscribe;
mod tap;
mod terminal;
mod top;
mod typed;
mod watch;
mod web;

use args::{Cli, Command};
use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory, FromArgMatches};
use defaults::Defaults;
use failure::Outcome;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

/// Runs the program with the arguments of this process; returns its exit code.
pub fn main() -> ExitCode {
    // A shell that completes a command line gets its answer here, and the process ends.
    clap_complete::CompleteEnv::with_factory(Cli::command)
        .var(shell::COMPLETE)
        .complete();
    let cli = match parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    log::set(cli.common.log_level);
    log::debug(&format!(
        "olivine {}, channels without --dir in {}",
        env!("CARGO_PKG_VERSION"),
        olivine::admin::default_dir().display()
    ));
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// The command line, with the defaults of the file and the environment.
fn parse(words: impl Iterator<Item = OsString>) -> Result<Cli, ExitCode> {
    let command = Cli::command();
    let words: Vec<OsString> = words.collect();
    let (mut command, failure) = match Defaults::load(&command) {
        Ok(defaults) => (defaults.apply(command), None),
        // Help is shown in any case.
        Err(failure) => (command, Some(failure)),
    };
    let matches = command.try_get_matches_from_mut(words);
    let cli = matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    match (cli, failure) {
        (Ok(_), Some(failure)) => Err(failure.report()),
        (Ok(cli), None) => Ok(cli),
        (Err(error), _) => Err(refuse(&error.format(&mut command))),
    }
}

fn run(cli: &Cli) -> Outcome {
    let common = cli.common;
    match &cli.command {
        Command::Pub(args) => publish::run(args, common),
        Command::Sub(args) => subscribe::run(args, common),
        Command::Ls(args) => admin::ls(args, common),
        Command::Inspect(args) => admin::inspect(args, common),
        Command::Tap(args) => tap::run(args, common),
        Command::Top(args) => top::run(args, common),
        Command::Metrics(args) => metrics::run(args, common),
        Command::Serve(args) => serve::run(args, common),
        Command::Rm(args) => admin::rm(args, common),
        Command::Gc(args) => admin::gc(args, common),
        Command::Bridge(args) => bridge::run(args, common),
        Command::Record(args) => journal::record(args, common),
        Command::Replay(args) => journal::replay(args, common),
        Command::Journal(args) => journal::run(args, common),
        Command::Demo(args) => demo::run(args, common),
        Command::Doctor(args) => doctor::run(args, common),
        Command::Bench(args) => bench::run(args, common),
        Command::Explain(args) => explain::run(args, common),
        Command::Config(args) => defaults::run(args, common),
        Command::Completions(args) => shell::completions(args, common),
        Command::Man(args) => shell::man(args, common),
        Command::Participant(args) => bench::take_part(args),
        Command::Entry(args) => bench::take_part_with(args),
        Command::LoadServer(args) => bench::serve_load(args),
    }
}

/// Help goes to standard output; errors become one line.
fn refuse(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp if asks_for_short_help(std::env::args()) => {
            // A reader that closes early is not an error.
            let _ = write!(std::io::stdout(), "{}", short_help(std::env::args()));
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayVersion if asks_for_json(std::env::args_os()) => {
            match output::print_json(&args::version()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => failure.report(),
            }
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that closes early is not an error.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => {
            let mut line = one_line(&error.to_string(), &hidden_words(&Cli::command()));
            if error.kind() == ErrorKind::InvalidSubcommand && !line.contains("similar") {
                let unknown = error.get(ContextKind::InvalidSubcommand);
                let unknown = unknown.map(ToString::to_string).unwrap_or_default();
                let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
                line.push_str(&format!("; {}", commands(words, &unknown)));
            }
            failure::complain(&line);
            ExitCode::from(2)
        }
    }
}

/// Whether `-h` asks for help, not `--help`.
fn asks_for_short_help(words: impl Iterator<Item = String>) -> bool {
    let mut words = words.skip(1).take_while(|word| word != "--");
    words
        .find(|word| word == "-h" || word == "--help")
        .as_deref()
        == Some("-h")
}

/// Whether `--json` stands before or behind what ended the command line.
fn asks_for_json(words: impl Iterator<Item = OsString>) -> bool {
    let mut words = words.skip(1).take_while(|word| word != "--");
    words.any(|word| word == "--json")
}

/// The help of the command in `words`, without examples and settings of the channel.
fn short_help(words: impl Iterator<Item = String>) -> String {
    let mut command = Cli::command().max_term_width(80);
    command.build();
    for word in words.skip(1) {
        if let Some(inner) = command.find_subcommand(&word) {
            command = inner.clone();
        }
    }
    let name = command.get_bin_name().unwrap_or("olivine").to_owned();
    let command = command.after_help("").mut_args(|arg| {
        let is_setting = arg.get_help_heading() == Some(args::channel::HEADING);
        let is_hidden = arg.is_hide_set();
        arg.hide(is_hidden || is_setting)
    });
    let mut command =
        command.help_template("{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}");
    format!(
        "{}\n\n'{name} --help' shows examples and every setting.\n",
        command.render_help().to_string().trim_end()
    )
}

/// Words of other tools for our commands.
const SYNONYMS: [(&str, &str); 24] = [
    ("benchmark", "bench"),
    ("browser", "serve"),
    ("check", "doctor"),
    ("clean", "gc"),
    ("dashboard", "serve"),
    ("delete", "rm"),
    ("get", "sub"),
    ("help", "--help"),
    ("info", "inspect"),
    ("list", "ls"),
    ("listen", "sub"),
    ("monitor", "top"),
    ("play", "replay"),
    ("prometheus", "metrics"),
    ("publish", "pub"),
    ("read", "sub"),
    ("receive", "sub"),
    ("remove", "rm"),
    ("send", "pub"),
    ("status", "ls"),
    ("subscribe", "sub"),
    ("watch", "top"),
    ("web", "serve"),
    ("write", "pub"),
];

/// The suggestion for the unknown command `unknown` in `words`: the command for a synonym, or every
/// command.
fn commands(words: impl Iterator<Item = String>, unknown: &str) -> String {
    let mut command = Cli::command();
    for word in words.skip(1).take_while(|word| word != unknown) {
        if let Some(inner) = command.find_subcommand(&word) {
            command = inner.clone();
        }
    }
    let names = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set());
    let names: Vec<&str> = names.map(clap::Command::get_name).collect();
    let meant = SYNONYMS.into_iter().find(|(word, meant)| {
        *word == unknown && (meant.starts_with('-') || names.contains(meant))
    });
    match meant {
        Some((_, meant)) => format!("did you mean '{meant}'?"),
        None => format!("there are {}", names.join(", ")),
    }
}

/// The message of the argument parser in one line, without its usage.
///
/// Keeps only tips with a word that help shows, too.
fn one_line(text: &str, hidden: &[String]) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let mut parts = Vec::new();
    for part in text.split("\n\n") {
        let words = part.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_hidden = hidden
            .iter()
            .any(|word| words.contains(&format!("'{word}'")));
        if parts.is_empty() || (words.contains("similar") && !is_hidden) {
            parts.push(words);
        }
    }
    parts.push("see --help".to_owned());
    parts.join("; ")
}

/// Commands and options that help hides, as on the command line.
fn hidden_words(command: &clap::Command) -> Vec<String> {
    let options = command
        .get_arguments()
        .filter(|option| option.is_hide_set());
    let mut words: Vec<String> = options
        .filter_map(|option| Some(format!("--{}", option.get_long()?)))
        .collect();
    for inner in command.get_subcommands() {
        if inner.is_hide_set() {
            words.push(inner.get_name().to_owned());
        }
        words.extend(hidden_words(inner));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_help_is_asked_for_by_one_letter() {
        let asks = |line: &str| asks_for_short_help(line.split(' ').map(str::to_owned));
        assert!(asks("olivine -h") && asks("olivine pub x -h"));
        assert!(!asks("olivine --help") && !asks("olivine pub x -- -h"));
        assert!(!asks("olivine --help -h"));
    }

    #[test]
    fn tips_name_no_hidden_option() {
        let text = "error: unexpected argument '--ties' found\n\n  \
                    tip: a similar argument exists: '--tied'\n";
        let hidden = hidden_words(&Cli::command());
        assert!(hidden.contains(&"--tied".to_owned()) && hidden.contains(&"__serve".to_owned()));
        assert_eq!(
            one_line(text, &hidden),
            "unexpected argument '--ties' found; see --help"
        );
    }

    #[test]
    fn parser_errors_become_one_line() {
        let text = "error: unexpected argument '--speed' found\n\n  \
                    tip: a similar argument exists: '--spin'\n\n\
                    Usage: olivine pub\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(text, &[]),
            "unexpected argument '--speed' found; \
             tip: a similar argument exists: '--spin'; see --help"
        );
        let words = |line: &str| {
            line.split(' ')
                .map(str::to_owned)
                .collect::<Vec<_>>()
                .into_iter()
        };
        assert_eq!(
            commands(words("olivine send x"), "send"),
            "did you mean 'pub'?"
        );
        assert!(commands(words("olivine foo"), "foo").starts_with("there are pub, sub, ls"));
        let inner = commands(words("olivine bench list2"), "list2");
        assert!(inner.starts_with("there are floor, pingpong"), "{inner}");
        let text = "error: required:\n  <URI>\n\n  tip: to pass '-1', use '-- -1'\n\nUsage: x\n";
        assert_eq!(one_line(text, &[]), "required: <URI>; see --help");
        assert_eq!(
            one_line("error: x\n\nFor more information, try '--help'.\n", &[]),
            "x; see --help"
        );
    }
}
