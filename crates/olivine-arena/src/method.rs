//! Ways to pass messages, and how a program describes those that it knows.

use crate::error::{ArenaError, Result};

pub use crate::fixed::{
    Append, Copies, FIXED_SIZES, Fixed, Pop, Push, Tuning, Tunings, no_such_size,
};
pub use crate::harness::{Driven, Driver, End, drive};
pub use crate::protocol::Side;
pub use crate::rendezvous::Rendezvous;
pub use crate::threads::drive_in_threads;

/// How a [`Method`] opens one end, for messages of a size and by the settings of a variant. Both
/// sides call it at the same time; the rendezvous connects them. The error is
/// [`ArenaError::TooLong`] if it cannot carry this size.
pub type Open = fn(Side, &mut Rendezvous, usize, &str) -> Driven;

/// One way to pass messages between two processes.
///
/// ```
/// use olivine_arena::error::ArenaError;
/// use olivine_arena::method::Method;
///
/// const NONE: Method = Method::new("none", "carries nothing", "spin", |_, _, bytes, _| {
///     Err(ArenaError::TooLong { bytes, max: 0, limit: "this method" })
/// })
/// .streaming()
/// .lacking("all messages");
/// assert!(NONE.streams && !NONE.batches);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Method {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// What it is, and how a side waits, in a few words.
    pub about: &'static str,
    /// How a side with nothing to do waits: `spin`, `block` or a strategy of a channel.
    pub wait: &'static str,
    /// Whether messages can be streamed one way without loss and without replies.
    pub streams: bool,
    /// Whether a streamed batch is sent at once. Without this there is no figure for batches:
    /// messages one by one would be mislabelled.
    pub batches: bool,
    /// Whether it works only between threads, which share page tables. Its rows then have the
    /// setting `threads`, so that no table shows it as a method between processes.
    pub threads: bool,
    /// The features of this library's channels that it lacks, in a few words; empty if that does
    /// not explain its speed. Shown wherever it is faster.
    pub lacks: &'static str,
    /// Opens one end.
    pub open: Open,
}

impl Method {
    /// A method for round trips between processes.
    #[must_use]
    pub const fn new(
        name: &'static str,
        about: &'static str,
        wait: &'static str,
        open: Open,
    ) -> Self {
        Self {
            name,
            about,
            wait,
            streams: false,
            batches: false,
            threads: false,
            lacks: "",
            open,
        }
    }

    /// Also for streams.
    #[must_use]
    pub const fn streaming(mut self) -> Self {
        self.streams = true;
        self
    }

    /// Also for streams, and for batches in them.
    #[must_use]
    pub const fn batching(mut self) -> Self {
        self.batches = true;
        self.streaming()
    }

    /// Only between threads.
    #[must_use]
    pub const fn in_threads(mut self) -> Self {
        self.threads = true;
        self
    }

    /// With what it lacks.
    #[must_use]
    pub const fn lacking(mut self, lacks: &'static str) -> Self {
        self.lacks = lacks;
        self
    }
}

/// What a method says of itself. See the fields of [`Method`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "other programs list these")]
pub struct Description {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// How a side with nothing to do waits.
    pub wait: String,
    /// Whether it can be streamed without loss.
    pub streams: bool,
    /// Whether a batch of streamed messages is handed over at once.
    #[serde(default)]
    pub batches: bool,
    /// Whether it works only between threads.
    #[serde(default)]
    pub threads: bool,
    /// What it does without that a channel of this library has; empty if nothing that makes it
    /// faster.
    pub lacks: String,
}

impl From<&Method> for Description {
    fn from(method: &Method) -> Self {
        Self {
            name: method.name.to_owned(),
            about: method.about.to_owned(),
            wait: method.wait.to_owned(),
            streams: method.streams,
            batches: method.batches,
            threads: method.threads,
            lacks: method.lacks.to_owned(),
        }
    }
}

/// The method called `name`.
///
/// # Errors
///
/// [`ArenaError::NoMethod`] with the known names.
pub fn find<'m>(methods: &'m [Method], name: &str) -> Result<&'m Method> {
    let found = methods.iter().find(|method| method.name == name);
    found.ok_or_else(|| ArenaError::NoMethod {
        name: name.to_owned(),
        known: names(methods).join(", "),
    })
}

/// The names of methods.
#[must_use]
pub fn names(methods: &[Method]) -> Vec<&'static str> {
    methods.iter().map(|method| method.name).collect()
}
