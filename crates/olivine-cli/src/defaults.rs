//! Defaults of options: from a file, and from the environment.
//!
//! A name on the command line or in a URI comes first, then the variable, then the file, then what
//! is built in. Only options that say how, not what, can have such a default.

mod show;

pub(crate) use show::run;

use crate::args::channel;
use crate::failure::{Failure, Outcome, named};
use crate::terminal::escaped;
use clap::builder::OsStr;
use clap::{Arg, ArgAction, Command};
use olivine::small_file::{self, SETTINGS_FILE_MAX};
use std::path::{Path, PathBuf};
use std::{env, fmt};

/// How the name of each variable begins.
const VARIABLES: &str = "OLIVINE_";
/// Names the file; empty: there is none.
const FILE: &str = "OLIVINE_CONFIG";
/// Options of any command that have defaults, besides the settings of channels.
const OPTIONS: [&str; 9] = [
    "cpus",
    "host",
    "interval",
    "listen",
    "log-level",
    "rotate",
    "runs",
    "sync",
    "token-file",
];
/// Settings of channels that say what, or are those of one participant. For the folder there is
/// `OLIVINE_DIR`, which programs read, too.
const NOT_SHARED: [&str; 5] = ["cpu", "dir", "expire", "name", "topic"];

/// Where a default came from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    File(PathBuf),
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Variable(name) => write!(f, "environment {name}"),
        }
    }
}

/// An option that can have a default.
#[derive(Clone, Debug)]
struct Known {
    /// The commands that lead to it.
    commands: Vec<String>,
    arg: Arg,
}

impl Known {
    /// Such as `top.interval`.
    fn name(&self) -> String {
        let mut words = self.commands.clone();
        words.extend(self.arg.get_long().map(|long| long.replace('-', "_")));
        words.join(".")
    }

    /// Such as `OLIVINE_TOP_INTERVAL`.
    fn variable(&self) -> String {
        let name = self.name().replace('.', "_");
        format!("{VARIABLES}{}", name.to_ascii_uppercase())
    }

    /// Why the option refuses these values.
    fn refusal(&self, values: &[String]) -> Option<String> {
        let long = self.arg.get_long()?.to_owned();
        let mut words = Vec::new();
        for value in values {
            words.push(format!("--{long}={value}"));
        }
        // Without what it says of other options, which are not here.
        let own = Arg::new("own")
            .long(long)
            .value_names(self.arg.get_value_names().unwrap_or_default().to_vec())
            .value_parser(self.arg.get_value_parser().clone())
            .value_delimiter(self.arg.get_value_delimiter())
            .action(self.arg.get_action().clone());
        let alone = Command::new("olivine").no_binary_name(true).arg(own);
        let error = alone.try_get_matches_from(words).err()?.to_string();
        let first = error.split("\n\n").next().unwrap_or_default();
        let first = first.strip_prefix("error: ").unwrap_or(first);
        Some(first.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// A default that was given.
#[derive(Clone, Debug)]
struct Given {
    known: Known,
    values: Vec<String>,
    origin: Origin,
}

/// Every default that was given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    given: Vec<Given>,
}

impl Defaults {
    /// Reads the file and the environment.
    ///
    /// # Errors
    ///
    /// Wrong usage: the named file is missing, a name is unknown, a value is refused.
    pub(crate) fn load(command: &Command) -> Outcome<Self> {
        let found = match file() {
            None => None,
            Some((path, is_named)) => match small_file::read_text(&path, SETTINGS_FILE_MAX) {
                Ok(text) => Some((path, text)),
                Err(error) if !is_named && error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => {
                    let error = anyhow::Error::new(error);
                    let what = format!("cannot read {}", path.display());
                    return Err(Failure::Usage(error.context(what)));
                }
            },
        };
        let variables = env::vars_os().filter_map(|(name, value)| {
            let name = name.to_str().filter(|name| name.starts_with(VARIABLES))?;
            Some((name.to_owned(), value.to_string_lossy().into_owned()))
        });
        let variables: Vec<_> = variables.collect();
        // As a rule: nothing is searched then.
        if found.is_none() && variables.is_empty() {
            return Ok(Self::default());
        }
        let known = known(command);
        let mut given = match found {
            None => Vec::new(),
            Some((path, text)) => read(&text, &path, &known)?,
        };
        for one in of_variables(variables.into_iter(), &known)? {
            given.retain(|other: &Given| other.known.name() != one.known.name());
            given.push(one);
        }
        Ok(Self { given })
    }

    /// The command line with these defaults.
    pub(crate) fn apply(&self, command: Command) -> Command {
        self.given.iter().fold(command, |command, given| {
            let Given { known, values, .. } = given;
            let id = known.arg.get_id().clone();
            // The command line lives as long as the process.
            let values = values.iter().map(|value| &*value.clone().leak());
            let values: Vec<OsStr> = values.map(OsStr::from).collect();
            within(command, &known.commands, &|command| {
                let values = values.clone();
                command.mut_arg(&id, |arg| arg.default_values(values))
            })
        })
    }

    fn of(&self, name: &str) -> Option<&Given> {
        self.given.iter().find(|given| given.known.name() == name)
    }
}

/// `command` with a change of the command that `names` lead to.
fn within(command: Command, names: &[String], change: &dyn Fn(Command) -> Command) -> Command {
    match names.split_first() {
        None => change(command),
        Some((first, rest)) => command.mut_subcommand(first, |inner| within(inner, rest, change)),
    }
}

/// The options that can have a default.
fn known(command: &Command) -> Vec<Known> {
    fn add(command: &Command, commands: &[String], to: &mut Vec<Known>) {
        let takes = |arg: &&Arg| {
            let long = arg.get_long().unwrap_or_default();
            let is_setting = arg.get_help_heading() == Some(channel::HEADING);
            let is_meant = OPTIONS.contains(&long) || is_setting && !NOT_SHARED.contains(&long);
            is_meant && arg.get_action().takes_values() && !arg.is_hide_set()
        };
        to.extend(command.get_arguments().filter(takes).map(|arg| Known {
            commands: commands.to_vec(),
            arg: arg.clone(),
        }));
        for inner in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            let mut commands = commands.to_vec();
            commands.push(inner.get_name().to_owned());
            add(inner, &commands, to);
        }
    }
    let mut found = Vec::new();
    add(command, &[], &mut found);
    found
}

/// Where the file is, and whether the environment names it.
fn file() -> Option<(PathBuf, bool)> {
    if let Some(named) = env::var_os(FILE) {
        return (!named.is_empty()).then(|| (named.into(), true));
    }
    let absolute = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let folder = absolute("XDG_CONFIG_HOME");
    let folder = folder.or_else(|| Some(absolute("HOME")?.join(".config")));
    Some((folder?.join("olivine/config.toml"), false))
}

/// The defaults in the text of a file.
fn read(text: &str, path: &Path, known: &[Known]) -> Outcome<Vec<Given>> {
    let refuse = |problem: String| Failure::usage(format!("{}: {problem}", path.display()));
    let table: toml::Table = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
    let mut given = Vec::new();
    let mut open = vec![(String::new(), table)];
    while let Some((before, table)) = open.pop() {
        for (key, value) in table {
            let name = format!("{before}{key}");
            if let toml::Value::Table(inner) = value {
                open.push((format!("{name}."), inner));
                continue;
            }
            let Some(one) = known.iter().find(|one| one.name() == name) else {
                return Err(refuse(unknown(&name)));
            };
            let values = texts(&value).ok_or_else(|| {
                refuse(format!(
                    "{name} is neither a text, a number nor a list of these"
                ))
            })?;
            let origin = Origin::File(path.to_path_buf());
            given.push(checked(one, values, origin)?);
        }
    }
    Ok(given)
}

/// The defaults among these variables.
fn of_variables(
    variables: impl Iterator<Item = (String, String)>,
    known: &[Known],
) -> Outcome<Vec<Given>> {
    let mut given = Vec::new();
    for (name, value) in variables.filter(|(_, value)| !value.is_empty()) {
        if let Some(one) = known.iter().find(|one| one.variable() == name) {
            given.push(checked(one, vec![value], Origin::Variable(name))?);
            continue;
        }
        // Tests and other programs have other variables.
        let is_ours = |one: &Known| {
            let first = one.commands.first().map(|word| word.to_ascii_uppercase());
            first.is_some_and(|first| name.starts_with(&format!("{VARIABLES}{first}_")))
        };
        if known.iter().any(is_ours) {
            return Err(Failure::usage(format!(
                "the environment variable {}: {}",
                escaped(&name),
                unknown(&name)
            )));
        }
    }
    Ok(given)
}

fn unknown(name: &str) -> String {
    format!(
        "there is no setting '{}': 'olivine config --origin' lists all",
        escaped(name)
    )
}

fn checked(known: &Known, values: Vec<String>, origin: Origin) -> Outcome<Given> {
    if let Some(reason) = known.refusal(&values) {
        let name = known.name();
        return Err(Failure::usage(format!("{origin}: {name}: {reason}")));
    }
    if let Some(key) = channel::key(&known.arg)
        && let [value] = values.as_slice()
        && let Err(error) = channel::check(key, value)
    {
        let text = format!("{origin}: {error}");
        return Err(Failure::Usage(named(text, error.id())));
    }
    Ok(Given {
        known: known.clone(),
        values,
        origin,
    })
}

/// A text, a number, or a list of these.
fn texts(value: &toml::Value) -> Option<Vec<String>> {
    let one = |value: &toml::Value| match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        _ => None,
    };
    match value {
        toml::Value::Array(all) => all.iter().map(one).collect(),
        value => one(value).map(|text| vec![text]),
    }
}

/// Whether an option may have several values.
fn is_list(arg: &Arg) -> bool {
    arg.get_value_delimiter().is_some() || matches!(arg.get_action(), ArgAction::Append)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    fn command() -> Command {
        Cli::command()
    }

    fn from(text: &str) -> Outcome<Vec<Given>> {
        read(text, Path::new("/a/config.toml"), &known(&command()))
    }

    fn refused<T: fmt::Debug>(outcome: Outcome<T>) -> String {
        match outcome {
            Err(Failure::Usage(error)) => format!("{error:#}"),
            other => panic!("{other:?}"),
        }
    }

    /// What the command line has for an option of `words`.
    fn value(given: Vec<Given>, words: &[&str], id: &str) -> String {
        let command = Defaults { given }.apply(command());
        let matches = command.try_get_matches_from(words).unwrap();
        let mut inner = &matches;
        while let Some((_, next)) = inner.subcommand() {
            inner = next;
        }
        let raw = inner.get_raw(id).unwrap();
        let raw: Vec<_> = raw
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        raw.join(" ")
    }

    #[test]
    fn option_has_the_default_of_the_file_unless_it_is_given() {
        let text = "log_level = \"warn\"\n[top]\ninterval = \"250ms\"\n[bench.latency]\nruns = 7";
        let given = || from(text).unwrap();
        let top = ["olivine", "top"];
        assert_eq!(value(given(), &top, "interval"), "250ms");
        let said = ["olivine", "top", "-d", "2s"];
        assert_eq!(value(given(), &said, "interval"), "2s");
        assert_eq!(value(given(), &["olivine", "serve"], "interval"), "1s");
        assert_eq!(value(given(), &top, "log_level"), "warn");
        let latency = ["olivine", "bench", "latency"];
        assert_eq!(value(given(), &latency, "runs"), "7");
        let hosts = from("[serve]\nhost = [\"a\", \"b\"]").unwrap();
        assert_eq!(value(hosts, &["olivine", "serve"], "host"), "a b");
    }

    #[test]
    fn refusals_of_names_and_values_name_their_place() {
        for (text, told) in [
            ("log_levl = \"warn\"", "no setting 'log_levl'"),
            ("[top]\nonce = true", "no setting 'top.once'"),
            ("[sub]\nname = \"a\"", "no setting 'sub.name'"),
            ("[serve]\ntoken = \"secret\"", "no setting 'serve.token'"),
            ("[top]\ninterval = \"soon\"", "expected a duration above 0"),
            ("log_level = \"loud\"", "possible values: off, warn"),
            ("log_level = true", "neither a text, a number nor a list"),
            ("[pub]\ncapacity = \"1000\"", "capacity=1000 is not usable"),
            ("[top]\ninterval = [\"1s\", \"2s\"]", "multiple times"),
            ("[top", "TOML parse error"),
        ] {
            let said = refused(from(text));
            assert!(
                said.contains(told) && said.contains("/a/config.toml"),
                "{said}"
            );
        }
    }

    #[test]
    fn variables_are_read_and_unknown_ones_of_a_command_refused() {
        let of = |name: &str, value: &str| {
            let one = (name.to_owned(), value.to_owned());
            of_variables([one].into_iter(), &known(&command()))
        };
        let found = of("OLIVINE_SUB_WAIT", "spin").unwrap();
        assert_eq!(found[0].known.name(), "sub.wait");
        assert_eq!(found[0].origin.to_string(), "environment OLIVINE_SUB_WAIT");
        assert!(of("OLIVINE_SUB_WAIT", "").unwrap().is_empty());
        assert!(of("OLIVINE_DIR", "/x").unwrap().is_empty());
        let said = refused(of("OLIVINE_TOP_INTERVALL", "1s"));
        assert!(said.contains("OLIVINE_TOP_INTERVALL"), "{said}");
        let said = refused(of("OLIVINE_SUB_WAIT", "doze"));
        assert!(said.contains("wait=doze is not usable"), "{said}");
    }

    /// A default of an option that no command has would never be read.
    #[test]
    fn every_listed_option_is_one_of_some_command() {
        let known = known(&command());
        for option in OPTIONS {
            let is_it = |one: &Known| one.arg.get_long() == Some(option);
            assert!(known.iter().any(is_it), "{option}");
        }
        for key in NOT_SHARED {
            assert!(known.iter().all(|one| one.arg.get_long() != Some(key)));
        }
    }
}
