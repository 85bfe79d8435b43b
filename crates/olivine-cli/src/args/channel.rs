//! The settings of a channel as flags, made from the table of URI keys.

use crate::failure::{Failure, Outcome, named};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, error::Error};
use olivine::{Config, End, Key, Scheme, UriError};
use std::borrow::Cow;
use std::fmt::Write as _;

pub(crate) const HEADING: &str =
    "Channel settings (also keys of the URI; a flag overrides the URI)";

/// Longest line of the help.
const COLUMNS: usize = 80;

/// Second names of flags.
const ALIASES: [(&str, &str); 1] = [("subscribers", "wait-for")];

/// Keys and values.
type Pairs = Vec<(&'static str, String)>;

/// Settings given as flags, and their defaults of the file and the environment, which the URI
/// overrides.
#[derive(Clone, Debug, Default)]
struct Given {
    flags: Pairs,
    defaults: Pairs,
}

/// The key that is this flag.
pub(crate) fn key(flag: &Arg) -> Option<&'static Key> {
    let is_setting = flag.get_help_heading() == Some(HEADING);
    let name = flag.get_id().as_str();
    Config::keys().find(|key| is_setting && key.name() == name)
}

/// Refuses a value of a key that no channel of this machine can have.
pub(crate) fn check(key: &Key, value: &str) -> Result<(), UriError> {
    match Config::parse(&format!("shm://x?{}={value}", key.name())) {
        // It is usable together with another key.
        Ok(_) | Err(UriError::Pair { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The keys that are flags of `end`: those of channels on this machine.
fn keys(end: End) -> impl Iterator<Item = &'static Key> {
    Config::keys().filter(move |key| {
        key.schemes().contains(&Scheme::Shm) && [End::Both, end].contains(&key.end())
    })
}

/// The keys without a flag: lines of the help, with a paragraph for each scheme.
pub(super) fn keys_without_flags() -> String {
    let mut text = String::new();
    for scheme in [Scheme::Sealed, Scheme::Tcp, Scheme::Nats, Scheme::File] {
        let mut line = format!("  {:<10}", format!("{scheme}://"));
        for key in Config::keys() {
            let schemes = key.schemes();
            if !schemes.contains(&scheme) || schemes.contains(&Scheme::Shm) {
                continue;
            }
            if line.len() + 1 + key.name().len() > COLUMNS {
                write!(text, "\n{line}").expect("a String");
                line = " ".repeat(12);
            }
            write!(line, " {}", key.name()).expect("a String");
        }
        write!(text, "\n{line}").expect("a String");
    }
    text
}

/// What a flag does: the first paragraph of the key, its values and its default.
fn help(key: &Key) -> String {
    let doc: Vec<_> = key.doc().take_while(|line| !line.is_empty()).collect();
    let doc = doc.join(" ").replace(" (*channel*)", "").replace('`', "");
    let (rule, default) = (key.rule(), key.default());
    format!("{}: {rule} [default: {default}]", doc.trim_end_matches('.'))
}

fn with_flags(command: Command, end: End) -> Command {
    keys(end).fold(command, |command, key| {
        let name = key.name();
        let mut flag = Arg::new(name)
            .long(name.replace('_', "-"))
            .value_name(key.value())
            .help(help(key))
            .help_heading(HEADING);
        if name.contains('_') {
            flag = flag.alias(name);
        }
        if let Some((_, alias)) = ALIASES.iter().find(|(of, _)| *of == name) {
            flag = flag.visible_alias(*alias);
        }
        command.arg(flag)
    })
}

fn given(matches: &ArgMatches, end: End) -> Given {
    let value = |name| Some((name, matches.get_one::<String>(name)?.clone()));
    let all = keys(end).filter_map(|key| value(key.name()));
    let (defaults, flags) =
        all.partition(|(name, _)| matches.value_source(name) == Some(ValueSource::DefaultValue));
    Given { flags, defaults }
}

/// Makes a type of flags of one end.
macro_rules! flags {
    ($(#[$about:meta])* $name:ident, $end:ident) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name(Given);

        impl clap::Args for $name {
            fn augment_args(command: Command) -> Command {
                with_flags(command, End::$end)
            }

            fn augment_args_for_update(command: Command) -> Command {
                with_flags(command, End::$end)
            }
        }

        impl clap::FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                Ok(Self(given(matches, End::$end)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                let more = given(matches, End::$end);
                self.0.flags.extend(more.flags);
                self.0.defaults = more.defaults;
                Ok(())
            }
        }
    };
}

flags! {
    /// Settings of a publisher; a flag overrides the URI.
    PublisherArgs, Publisher
}
flags! {
    /// Settings of a subscriber; a flag overrides the URI.
    SubscriberArgs, Subscriber
}

impl PublisherArgs {
    /// The URI with the flags added, checked by the library's parser.
    ///
    /// # Errors
    ///
    /// A setting is invalid, or has no meaning for a publisher of this scheme.
    pub(crate) fn config(&self, uri: &str) -> Outcome<Config> {
        let config = configured(uri, &self.0)?;
        let is_here = matches!(config.scheme(), Scheme::Shm | Scheme::Sealed);
        let mut keys = self.0.flags.iter().map(|(key, _)| *key);
        match keys.find(|key| ["name", "expire"].contains(key)) {
            Some(key) if is_here => Err(Failure::usage(format!(
                "--{key} has no meaning for a publisher of {}: it names a durable subscriber; use \
                 it with 'olivine sub', or to publish to tcp://, nats:// or file://",
                crate::settings::short(&config)
            ))),
            _ => Ok(config),
        }
    }
}

impl SubscriberArgs {
    /// The same with these settings, which override the URI.
    pub(crate) fn with(&self, settings: &[(&'static str, &str)]) -> Self {
        let mut given = self.0.clone();
        for (key, value) in settings {
            given.flags.retain(|(name, _)| name != key);
            given.flags.push((*key, (*value).to_owned()));
        }
        Self(given)
    }

    /// The URI with the flags added, checked by the library's parser.
    ///
    /// # Errors
    ///
    /// A setting is invalid.
    pub(crate) fn config(&self, uri: &str) -> Outcome<Config> {
        configured(uri, &self.0)
    }
}

/// Words before `://`.
const SCHEMES: [&str; 6] = ["shm", "shm+fd", "inproc", "tcp", "nats", "file"];

/// The full URI of a channel: `ticks` is short for `shm://ticks`.
///
/// # Errors
///
/// The text is a path, or a name that journals have.
pub(crate) fn full_uri(text: &str) -> Outcome<Cow<'_, str>> {
    if text.contains("://") {
        return Ok(Cow::Borrowed(text));
    }
    let name = text.split('?').next().unwrap_or_default();
    if let Some((scheme, rest)) = name.split_once(":/")
        && SCHEMES.contains(&scheme)
    {
        let rest = rest.trim_start_matches('/');
        let slashes = if scheme == "file" { "///" } else { "//" };
        return Err(Failure::usage(format!(
            "'{name}' has only one '/' behind '{scheme}:': did you mean {scheme}:{slashes}{rest}?"
        )));
    }
    let absolute = std::path::absolute(name);
    let absolute = absolute.map_or_else(|_| "/PATH".to_owned(), |path| path.display().to_string());
    if name.contains('/') {
        return Err(Failure::usage(format!(
            "'{name}' is a path, and names of channels have no '/': write file://{absolute} for a \
             journal"
        )));
    }
    if name.ends_with(".olv") {
        return Err(Failure::usage(format!(
            "'{name}' could be a channel or a journal: write shm://{name} or file://{absolute}"
        )));
    }
    Ok(Cow::Owned(format!("shm://{text}")))
}

/// The URI with the flags added, and with the defaults that its scheme has.
fn configured(uri: &str, given: &Given) -> Outcome<Config> {
    let uri = full_uri(uri)?;
    let Given { flags, defaults } = given;
    if let Some((key, value)) = flags.iter().find(|(_, value)| value.contains('&')) {
        return Err(Failure::usage(format!(
            "--{key} '{value}' is not usable: it contains a '&'"
        )));
    }
    let (place, query) = uri
        .split_once('?')
        .map_or((&*uri, None), |(place, query)| (place, Some(query)));
    let key_of = |pair: &str| pair.split_once('=').map_or(pair, |(key, _)| key).to_owned();
    let kept = query.into_iter().flat_map(|query| query.split('&'));
    let kept = kept.filter(|pair| flags.iter().all(|(flag, _)| *flag != key_of(pair)));
    let text = |(key, value): &(&str, String)| format!("{key}={value}");
    let mut pairs: Vec<String> = kept.map(str::to_owned).collect();
    pairs.extend(flags.iter().map(text));
    let parse = |pairs: &[String]| {
        let mark = if pairs.is_empty() { "" } else { "?" };
        Config::parse(&format!("{place}{mark}{}", pairs.join("&")))
    };
    let is_free = |(key, _): &&(&str, String)| pairs.iter().all(|pair| key_of(pair) != *key);
    let missing = defaults.iter().filter(is_free);
    let missing = missing.filter(|(key, _)| is_of_scheme(key, place));
    let missing: Vec<String> = missing.map(text).collect();
    if missing.is_empty() {
        return shm_only(parse(&pairs)?);
    }
    match parse(&[&pairs[..], &missing].concat()) {
        Ok(config) => shm_only(config),
        // Without the defaults it says what it always says.
        Err(error) => {
            let _ = parse(&pairs)?;
            let text = format!(
                "{error}; {} by default: 'olivine config --origin' says where that came from",
                missing.join(" and ")
            );
            Err(Failure::Usage(named(text, error.id())))
        }
    }
}

/// Whether channels of the scheme of `place` have this key.
fn is_of_scheme(key: &str, place: &str) -> bool {
    let word = place.split("://").next().unwrap_or_default();
    let scheme = Scheme::ALL.iter().find(|scheme| scheme.word() == word);
    let mut keys = Config::keys();
    let key = keys.find(|one| one.name() == key);
    scheme
        .zip(key)
        .is_some_and(|(scheme, key)| key.schemes().contains(scheme))
}

/// Refuses channels that another process cannot reach.
pub(crate) fn shm_only(config: Config) -> Outcome<Config> {
    if config.scheme() == Scheme::Inproc {
        return Err(Failure::usage(format!(
            "inproc://{} is memory of one program that the tool cannot reach: use shm://{}",
            config.channel(),
            config.channel()
        )));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(given: &[(&'static str, &str)]) -> Pairs {
        given
            .iter()
            .map(|(key, value)| (*key, (*value).to_owned()))
            .collect()
    }

    fn args(given: &[(&'static str, &str)]) -> Given {
        Given {
            flags: pairs(given),
            defaults: Pairs::new(),
        }
    }

    fn text(result: Outcome<Config>) -> String {
        match result {
            Ok(config) => config.uri(),
            Err(Failure::Usage(error) | Failure::Failed(error)) => format!("error: {error:#}"),
            Err(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn flag_overrides_the_uri_key() {
        let args = SubscriberArgs(args(&[("capacity", "64KiB"), ("wait", "park")]));
        assert_eq!(
            text(args.config("shm://x")),
            "shm://x?capacity=64KiB&wait=park"
        );
        assert_eq!(
            text(args.config("shm://x?wait=spin&linger=2s")),
            "shm://x?capacity=64KiB&wait=park&linger=2s"
        );
    }

    #[test]
    fn uri_and_flag_override_a_default_that_the_scheme_has() {
        let args = SubscriberArgs(Given {
            flags: pairs(&[("delivery", "latest")]),
            defaults: pairs(&[
                ("capacity", "64KiB"),
                ("wait", "park"),
                ("delivery", "reliable"),
            ]),
        });
        assert_eq!(
            text(args.config("shm://x?wait=spin")),
            "shm://x?capacity=64KiB&wait=spin&delivery=latest"
        );
        let args = PublisherArgs(Given {
            flags: Pairs::new(),
            defaults: pairs(&[("group", "audit")]),
        });
        // Journals have no such key.
        assert_eq!(text(args.config("file:///a/b")), "file:///a/b");
        let args = SubscriberArgs(Given {
            flags: pairs(&[("name", "audit")]),
            defaults: pairs(&[("delivery", "latest")]),
        });
        let told = text(args.config("shm://x"));
        assert!(told.contains("delivery=latest by default"), "{told}");
    }

    #[test]
    fn flag_completes_the_uri() {
        let args = SubscriberArgs(args(&[("name", "audit")]));
        assert_eq!(
            text(args.config("shm://x?expire=30s")),
            "shm://x?name=audit&expire=30s"
        );
    }

    #[test]
    fn refusals_name_key_and_value() {
        let odd = SubscriberArgs(args(&[("capacity", "1000")]));
        assert!(text(odd.config("shm://x")).contains("capacity=1000 is not usable"));
        let odd = SubscriberArgs(args(&[("name", "a&wait=spin")]));
        assert!(text(odd.config("shm://x")).contains("contains a '&'"));
        let plain = SubscriberArgs::default();
        assert!(text(plain.config("shm://x?")).contains("unknown key ''"));
        assert_eq!(text(plain.config("x")), "shm://x");
        assert_eq!(text(plain.config("x?wait=spin")), "shm://x?wait=spin");
        assert!(text(plain.config("./x")).contains("'./x' is a path"));
        let told = text(plain.config("shm:/x"));
        assert!(told.contains("did you mean shm://x?"), "{told}");
        let told = text(plain.config("file:/data/x.olv"));
        assert!(told.contains("did you mean file:///data/x.olv?"), "{told}");
        let both = text(plain.config("ticks.olv"));
        assert!(both.contains("write shm://ticks.olv or file:///"), "{both}");
        assert!(text(plain.config("inproc://x")).contains("use shm://x"));
    }

    #[test]
    fn only_remote_publishers_have_a_name() {
        let args = PublisherArgs(args(&[("name", "feed")]));
        assert!(text(args.config("shm://x")).contains("--name has no meaning for a publisher"));
        assert!(text(args.config("tcp://h:1/x?token=t")).contains("name=feed"));
    }

    #[test]
    fn each_flag_is_a_key_of_its_end() {
        let names = |end| -> Vec<_> { keys(end).map(Key::name).collect() };
        assert!(names(End::Publisher).contains(&"linger"));
        assert!(!names(End::Publisher).contains(&"delivery"));
        assert!(names(End::Subscriber).contains(&"delivery"));
        assert!(!names(End::Subscriber).contains(&"retention"));
    }
}
