//! Ways to pass messages, and how a program describes those that it knows.

use crate::error::{ArenaError, Result};

pub use crate::fixed::{Append, Copies, FIXED_SIZES, Fixed, Pop, Push, no_such_size};
pub use crate::harness::{Driver, End, drive};
pub use crate::protocol::Side;
pub use crate::rendezvous::Rendezvous;
pub use crate::threads::drive_in_threads;

/// One way to pass messages between two processes.
pub trait Method: Sync {
    /// Its name on the command line and in results.
    fn name(&self) -> &'static str;

    /// What it is, and how a side waits, in a few words.
    fn about(&self) -> &'static str;

    /// How a side with nothing to do waits: `spin`, `block` or a strategy of a channel.
    fn wait(&self) -> &'static str;

    /// Whether messages can be streamed one way without loss and without replies.
    fn streams(&self) -> bool {
        false
    }

    /// Whether a streamed batch is sent at once. Without this there is no figure for batches:
    /// messages one by one would be mislabelled.
    fn batches(&self) -> bool {
        false
    }

    /// Whether it works only between threads, which share page tables. Its rows then have the
    /// setting `threads`, so that no table shows it as a method between processes.
    fn threads(&self) -> bool {
        false
    }

    /// The features of this library's channels that it lacks, in a few words; empty if that does
    /// not explain its speed.
    ///
    /// Shown wherever it is faster.
    fn lacks(&self) -> &'static str {
        ""
    }

    /// Opens one end for messages of `size` bytes. Both sides call it at the same time;
    /// `rendezvous` connects them.
    ///
    /// `settings` are those of the variant, for methods with settings.
    ///
    /// # Errors
    ///
    /// [`ArenaError::TooLong`] if it cannot carry this size; system errors.
    fn open(
        &self,
        side: Side,
        rendezvous: &mut Rendezvous,
        size: usize,
        settings: &str,
    ) -> Result<Box<dyn Driver>>;
}

/// What a method says of itself. See the functions of [`Method`].
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

impl From<&dyn Method> for Description {
    fn from(method: &dyn Method) -> Self {
        Self {
            name: method.name().to_owned(),
            about: method.about().to_owned(),
            wait: method.wait().to_owned(),
            streams: method.streams(),
            batches: method.batches(),
            threads: method.threads(),
            lacks: method.lacks().to_owned(),
        }
    }
}

/// How a [`Described`] method opens its ends.
pub type Open = fn(Side, &mut Rendezvous, usize, &str) -> Result<Box<dyn Driver>>;

/// A method given by a description and a function.
#[derive(Debug)]
pub struct Described {
    /// See [`Method::name`].
    pub name: &'static str,
    /// See [`Method::about`].
    pub about: &'static str,
    /// See [`Method::wait`].
    pub wait: &'static str,
    /// See [`Method::streams`].
    pub streams: bool,
    /// See [`Method::batches`].
    pub batches: bool,
    /// See [`Method::threads`].
    pub threads: bool,
    /// See [`Method::lacks`].
    pub lacks: &'static str,
    /// See [`Method::open`].
    pub open: Open,
}

impl Method for Described {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn wait(&self) -> &'static str {
        self.wait
    }

    fn streams(&self) -> bool {
        self.streams
    }

    fn batches(&self) -> bool {
        self.batches
    }

    fn threads(&self) -> bool {
        self.threads
    }

    fn lacks(&self) -> &'static str {
        self.lacks
    }

    fn open(
        &self,
        side: Side,
        rendezvous: &mut Rendezvous,
        size: usize,
        settings: &str,
    ) -> Result<Box<dyn Driver>> {
        (self.open)(side, rendezvous, size, settings)
    }
}

impl std::fmt::Debug for dyn Method + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The method called `name`.
///
/// # Errors
///
/// [`ArenaError::NoMethod`] with the known names.
pub fn find(methods: &[&'static dyn Method], name: &str) -> Result<&'static dyn Method> {
    let found = methods.iter().find(|method| method.name() == name);
    found.copied().ok_or_else(|| ArenaError::NoMethod {
        name: name.to_owned(),
        known: names(methods).join(", "),
    })
}

/// The names of methods.
#[must_use]
pub fn names(methods: &[&'static dyn Method]) -> Vec<&'static str> {
    methods.iter().map(|method| method.name()).collect()
}
