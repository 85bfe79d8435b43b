//! A key of a URI, and the macro that makes rows of keys.
//!
//! Each key is one row of a table in [`super::keys`]. From the row come its setter and its getter,
//! the parser, the printer, the checks, the listing of [`Config::keys`] and `docs/uri.md`.

use super::{Config, Scheme, UriError};
use std::str::FromStr;

/// A setting that a URI, a flag or a binding gives as text.
#[derive(Debug)]
pub struct Key {
    pub(super) name: &'static str,
    pub(super) value: &'static str,
    pub(super) schemes: &'static Schemes,
    pub(super) end: End,
    pub(super) rule: &'static str,
    pub(super) default: &'static str,
    pub(super) doc: &'static [&'static str],
    pub(super) set: fn(&mut Config, &str) -> Result<(), Refusal>,
    pub(super) show: fn(&Config) -> Option<String>,
    pub(super) holds: fn(&Config) -> bool,
}

/// Why a text is not a value of a key: an error, or `None` if the rule of the key says it.
pub(super) type Refusal = Option<UriError>;

/// The end of a channel on which a key has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum End {
    /// Publishers and subscribers.
    Both,
    /// Publishers only.
    Publisher,
    /// Subscribers only.
    Subscriber,
}

/// The schemes that have a key.
#[derive(Debug)]
pub(super) struct Schemes {
    pub(super) has: &'static [Scheme],
    /// The rule that a refusal names. `NAME://` is for that scheme, `this scheme` for all others.
    pub(super) refusals: &'static [(&'static str, &'static str)],
}

impl Key {
    /// The word before the `=`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What the value is: a word or its unit, such as `BYTES` or `DURATION`.
    #[must_use]
    pub fn value(&self) -> &'static str {
        self.value
    }

    /// The allowed values.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        self.rule
    }

    /// The value if the key is not given.
    #[must_use]
    pub fn default(&self) -> &'static str {
        self.default
    }

    /// What the key does: lines of text, with an empty line between paragraphs.
    pub fn doc(&self) -> impl Iterator<Item = &'static str> {
        self.doc.iter().map(|line| line.trim())
    }

    /// The schemes whose channels have the key.
    #[must_use]
    pub fn schemes(&self) -> &'static [Scheme] {
        self.schemes.has
    }

    /// The end of a channel on which the key has an effect.
    #[must_use]
    pub fn end(&self) -> End {
        self.end
    }

    /// Sets the key from text.
    pub(super) fn read(&'static self, config: &mut Config, value: &str) -> Result<(), UriError> {
        (self.set)(config, value).map_err(|refusal| refusal.unwrap_or_else(|| self.refuse(value)))
    }

    /// Checks that a given key fits the scheme of the channel.
    pub(super) fn check_scheme(&'static self, config: &Config) -> Result<(), UriError> {
        let Schemes { has, refusals } = self.schemes;
        let shown = (self.show)(config);
        let Some(value) = shown.filter(|_| !has.contains(&config.scheme)) else {
            return Ok(());
        };
        let scheme = config.scheme.word();
        let fits = |of: &str| of.strip_suffix("://").is_none_or(|name| name == scheme);
        let refusal = refusals.iter().find(|(of, _)| fits(of));
        Err(UriError::Misplaced {
            key: self.name,
            value: value.escape_default().to_string(),
            scheme,
            rule: refusal.map_or("drop it", |(_, rule)| *rule),
        })
    }

    /// Checks that need every key to be set.
    pub(super) fn check_value(&'static self, config: &Config) -> Result<(), UriError> {
        if (self.holds)(config) {
            return Ok(());
        }
        Err(self.refuse(&(self.show)(config).unwrap_or_default()))
    }

    fn refuse(&self, value: &str) -> UriError {
        UriError::Value {
            key: self.name,
            value: value.escape_default().to_string(),
            rule: self.rule,
        }
    }
}

/// Makes rows: a constant with the table, and the methods that set and get the keys.
///
/// `name(part: Part, argument: Type) in Owner, … { … }`: the methods of each owner, a [`Config`] or
/// a group of it, change the `part`. `put` stores the argument of the method, or the value that
/// `read` gets from text. `name(part: Part) { … }` makes no setter: `set` reads and stores.
macro_rules! keys {
    ($(#[$about:meta])* $table:ident { $(
        $(#[doc = $doc:literal])*
        $name:ident ($at:ident: $part:ident $(, $argument:ident: $type:ty)?)
            $(in $($owner:ident),+)? {
            $(getter: $getter:ident -> $got:ty = $get:expr,)?
            value: $value:literal,
            schemes: $schemes:expr,
            end: $end:ident,
            default: $default:literal,
            rule: $rule:literal,
            $(read: $read:expr, put: $put:expr,)?
            $(set: $set:expr,)?
            show: $show:expr,
            $(holds: $holds:expr,)?
        }
    )+ }) => {
        $(#[$about])*
        pub(super) static $table: &[$crate::uri::key::Key] = &[$($crate::uri::key::Key {
            name: stringify!($name),
            value: $value,
            schemes: &$schemes,
            end: $crate::uri::key::End::$end,
            rule: $rule,
            default: $default,
            doc: &[$($doc),*],
            set: keys!(@set ($at: $part $(, $argument: $type)?) $($read, $put)? $($set)?),
            show: |config| {
                let $at = <$crate::uri::Config as $crate::uri::groups::Has<$part>>::part(config);
                $show
            },
            holds: keys!(@holds $at: $part $(, $holds)?),
        }),+];

        $(keys! { @methods [$($($owner),+)?] {
            [$($doc,)*] $name ($at: $part $(, $argument: $type)?) $rule, $default,
            [$($put)?] [$($getter -> $got = $get)?]
        } })+
    };
    (@set ($at:ident: $part:ident, $argument:ident: $type:ty) $read:expr, $put:expr) => {
        |config: &mut $crate::uri::Config, text: &str| {
            let $argument = $read(text).ok_or(None::<$crate::uri::UriError>)?;
            let $at = <$crate::uri::Config as $crate::uri::groups::Has<$part>>::part_mut(config);
            $put;
            Ok(())
        }
    };
    (@set ($at:ident: $part:ident) $set:expr) => {
        |config: &mut $crate::uri::Config, text: &str| {
            let set: fn(&mut $part, &str) -> Result<(), $crate::uri::key::Refusal> = $set;
            set(<$crate::uri::Config as $crate::uri::groups::Has<$part>>::part_mut(config), text)
        }
    };
    (@holds $at:ident: $part:ident) => { |_| true };
    (@holds $at:ident: $part:ident, $holds:expr) => {
        |config: &$crate::uri::Config| {
            let $at = <$crate::uri::Config as $crate::uri::groups::Has<$part>>::part(config);
            $holds
        }
    };
    (@methods [$($owner:ident),*] $row:tt) => { $(
        impl $owner {
            keys! { @setter $row }
            keys! { @getter $row }
        }
    )* };
    (@setter { [$($doc:literal,)*] $name:ident
        ($at:ident: $part:ident, $argument:ident: $type:ty) $rule:literal, $default:literal,
        [$put:expr] $getter:tt }) => {
        $(#[doc = $doc])*
        #[doc = ""]
        #[doc = concat!("Values of `", stringify!($name), "=`: ", $rule, ".")]
        #[doc = concat!("Default: ", $default, ".")]
        pub fn $name(mut self, $argument: $type) -> Self {
            let $at = <Self as $crate::uri::groups::Has<$part>>::part_mut(&mut self);
            $put;
            self
        }
    };
    (@setter $row:tt) => {};
    (@getter { $docs:tt $name:ident ($at:ident: $part:ident $($argument:tt)*)
        $rule:literal, $default:literal, $put:tt [$getter:ident -> $got:ty = $get:expr] }) => {
        #[doc = concat!("The value of `", stringify!($name), "=`.")]
        #[doc = ""]
        #[doc = concat!("Default: ", $default, ".")]
        #[must_use]
        #[allow(clippy::double_must_use, reason = "an iterator has it already")]
        pub fn $getter(&self) -> $got {
            let $at = <Self as $crate::uri::groups::Has<$part>>::part(self);
            $get
        }
    };
}
pub(super) use keys;

/// Reads one of the words of `T`.
pub(super) fn word<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Reads a whole number: digits only.
pub(super) fn whole<T: FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// Reads `yes` or `no`.
pub(super) fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// Prints a given value.
pub(super) fn given<T: ToString>(value: &Option<T>) -> Option<String> {
    value.as_ref().map(ToString::to_string)
}

/// Prints a value that differs from its default.
pub(super) fn changed<T: Default + PartialEq + ToString>(value: &T) -> Option<String> {
    (*value != T::default()).then(|| value.to_string())
}

/// Prints `yes` for a choice that is on.
pub(super) fn on(choice: bool) -> Option<String> {
    choice.then(|| "yes".to_owned())
}

/// Prints a path.
pub(super) fn path(path: &Option<std::path::PathBuf>) -> Option<String> {
    path.as_ref().map(|path| path.display().to_string())
}

/// Prints the name of the file with a secret. The secret is never printed.
pub(super) fn secret(secret: &Option<String>) -> Option<String> {
    let secret = secret.as_deref()?;
    Some(
        if secret.starts_with('@') {
            secret
        } else {
            "***"
        }
        .to_owned(),
    )
}

/// Whether `text` can be a secret: 1 to 256 visible ASCII characters without `&`.
pub(crate) fn is_secret(text: &str) -> bool {
    let visible = |b: u8| b.is_ascii_graphic() && b != b'&';
    (1..=SECRET_LENGTH_MAX).contains(&text.len()) && text.bytes().all(visible) && text != "@"
}

/// Longest token, user name, password or NKey seed in bytes.
const SECRET_LENGTH_MAX: usize = 256;

/// Whether a URI can hold the path: it is absolute, and has none of the characters that separate
/// the parts of a URI.
pub(super) fn is_path(path: &Option<std::path::PathBuf>) -> bool {
    let plain = |path: &str| {
        path.starts_with('/') && !path.contains(|c: char| c.is_control() || "&?".contains(c))
    };
    let text = path.as_ref().map(|path| path.to_str());
    text.is_none_or(|text| text.is_some_and(plain))
}

/// Whether a given size is a power of two in the range.
pub(super) fn is_power(bytes: Option<u64>, (least, most): (u64, u64)) -> bool {
    bytes.is_none_or(|bytes| bytes.is_power_of_two() && (least..=most).contains(&bytes))
}

/// Whether a given value is in the range.
pub(super) fn is_within<T: PartialOrd>(value: Option<T>, (least, most): (T, T)) -> bool {
    value.is_none_or(|value| (least..=most).contains(&value))
}
