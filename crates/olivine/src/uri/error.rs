//! Why a URI or a setting is refused.

/// Why a URI or a setting was refused. Nothing was opened or created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// There is no `scheme://` at the start.
    #[error(
        "'{uri}' is not a channel URI: expected shm://NAME, shm+fd:///SOCKET, inproc://NAME, \
         tcp://HOST:PORT/NAME, nats://HOST/NAME or file:///PATH"
    )]
    NoScheme {
        /// The given text.
        uri: String,
    },
    /// The scheme is not one of ours.
    #[error(
        "unknown scheme '{scheme}': expected shm:// (processes of this machine), shm+fd:// (those \
         that do not trust each other), inproc:// (threads of this process), tcp:// (other \
         machines), nats:// (a cluster) or file:// (a journal)"
    )]
    UnknownScheme {
        /// The given scheme.
        scheme: String,
    },
    /// The channel name breaks the grammar.
    #[error(
        "channel name '{name}' is not usable: 1 to 64 of A-Z a-z 0-9 . _ -, and not starting with \
         '.'"
    )]
    Name {
        /// The given name, control bytes escaped.
        name: String,
    },
    /// The URI ends before the name of its channel.
    #[error("'{uri}' names no channel: write {form}, with a name of your choice for NAME")]
    NoName {
        /// The given URI without its settings, control bytes escaped.
        uri: String,
        /// The right form.
        form: String,
    },
    /// Host and port break the grammar.
    #[error(
        "address '{address}' is not usable: {rule}; expected HOST:PORT, such as example.org:9000 \
         or [::1]:9000"
    )]
    Address {
        /// The given address, control bytes escaped.
        address: String,
        /// What is wrong.
        rule: &'static str,
    },
    /// The path of a `file://` channel breaks the grammar.
    #[error(
        "path '{path}' is not usable: expected file:// and an absolute path of a file, without \
         control characters, '&' or '?'"
    )]
    Path {
        /// The given path, control bytes escaped.
        path: String,
    },
    /// The path of a `shm+fd://` channel breaks the grammar.
    #[error(
        "socket '{path}' is not usable: expected shm+fd:// and an absolute path of 1 to 90 bytes, \
         without control characters, '&' or '?'"
    )]
    Socket {
        /// The given path, control bytes escaped.
        path: String,
    },
    /// The key is not one of ours.
    #[error(
        "unknown key '{key}': {hint}the documentation of Config and 'olivine pub --help' list the \
         keys"
    )]
    UnknownKey {
        /// The given key.
        key: String,
        /// The key that was probably meant, in words; empty if no key is similar.
        hint: String,
        /// All keys, comma separated.
        known: String,
    },
    /// A key is given twice.
    #[error("key '{key}' is given twice: keep one")]
    Repeated {
        /// The key.
        key: String,
    },
    /// A value does not parse or is out of range.
    #[error("{key}={value} is not usable: {rule}")]
    Value {
        /// The key.
        key: &'static str,
        /// The given value, control bytes escaped.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// Channels of this scheme do not have the key.
    #[error("{key}={value} and {scheme}:// cannot be combined: {rule}")]
    Misplaced {
        /// The key.
        key: &'static str,
        /// Its value, as URIs are printed: no secret, control bytes escaped.
        value: String,
        /// The scheme, without `://`.
        scheme: &'static str,
        /// Why, and what to do.
        rule: &'static str,
    },
    /// Two settings exclude each other.
    #[error("{first} and {second} cannot be combined: {rule}")]
    Pair {
        /// One setting.
        first: &'static str,
        /// The other setting.
        second: &'static str,
        /// Why, and what to do.
        rule: &'static str,
    },
}
