//! Failures of a command: the exit code, and one line with the reason.

use crate::stop::exit_code;
use olivine::admin::AdminError;
use olivine::{
    Described, JournalError, LinkError, MessageTypeError, NotSent, OpenError, ReceiveError,
    SealedError, UriError,
};
use olivine_bench::BenchError;
use std::io;
use std::process::ExitCode;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong usage: exit code 2.
    Usage(anyhow::Error),
    /// Correct usage, but it failed: exit code 1.
    Failed(anyhow::Error),
    /// It completed, and the bad result is already printed: exit code 1.
    BadResult,
    /// A signal stopped it before its work was complete, and the partial result is printed: exit
    /// code 128 plus the signal, 130 after Ctrl-C.
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// The reader closed standard output (`| head -1`): a silent end, exit code 0.
    StdoutClosed,
}

/// What a command returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Wrong usage, with a text.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(anyhow::Error::msg(text.into()))
    }

    /// A failure, with a text.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(anyhow::Error::msg(text.into()))
    }

    /// A failure, with a text and the name that `olivine explain` knows.
    pub(crate) fn named(text: impl Into<String>, id: &'static str) -> Self {
        Self::Failed(named(text, id))
    }

    /// An error of writing to standard output.
    pub(crate) fn stdout(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::StdoutClosed;
        }
        Self::Failed(anyhow::Error::new(error).context("cannot write to standard output"))
    }

    /// Prints the line and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Usage(error) => {
                complain(&with_id(error));
                ExitCode::from(2)
            }
            Self::Failed(error) => {
                complain(&with_id(error));
                ExitCode::FAILURE
            }
            Self::BadResult => ExitCode::FAILURE,
            Self::Interrupted { signal } => {
                u8::try_from(exit_code(*signal)).map_or(ExitCode::FAILURE, ExitCode::from)
            }
            Self::StdoutClosed => ExitCode::SUCCESS,
        }
    }
}

/// Why, for answers to programs.
pub(crate) fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Usage(error) | Failure::Failed(error) => with_id(error),
        Failure::BadResult => "the result is bad".to_owned(),
        Failure::Interrupted { .. } => "interrupted by a signal".to_owned(),
        Failure::StdoutClosed => "standard output is closed".to_owned(),
    }
}

/// The error with its causes, and the name that `olivine explain` knows.
pub(crate) fn with_id(error: &anyhow::Error) -> String {
    match error.chain().find_map(id) {
        Some(id) => format!("{error:#} [{id}]"),
        None => format!("{error:#}"),
    }
}

/// The name of an error of the library.
fn id(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    macro_rules! of {
        ($($kind:ty),*) => {
            None$(.or_else(|| error.downcast_ref::<$kind>().map(<$kind>::id)))*
        };
    }
    of!(
        AdminError,
        OpenError,
        ReceiveError,
        NotSent,
        Described,
        LinkError,
        JournalError,
        SealedError,
        UriError,
        MessageTypeError,
        Named
    )
}

/// An error with a text, and the name that `olivine explain` knows.
pub(crate) fn named(text: impl Into<String>, id: &'static str) -> anyhow::Error {
    let text = text.into();
    Named { text, id }.into()
}

/// A text of the tool in place of an error of the library.
#[derive(Debug)]
struct Named {
    text: String,
    id: &'static str,
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Named {}

impl Named {
    fn id(&self) -> &'static str {
        self.id
    }
}

/// Writes one line to standard error, with escaped control characters. Ignores write errors.
pub(crate) fn complain(text: &str) {
    use io::Write;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = crate::terminal::escaped(&line);
    crate::progress::clear_line();
    // If standard error is closed, too, the line is lost.
    let _ = writeln!(io::stderr(), "olivine: {line}");
}

impl From<UriError> for Failure {
    fn from(error: UriError) -> Self {
        Self::Usage(error.into())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Uri(_) | OpenError::Cpu { .. } | OpenError::Link(LinkError::Loop { .. }) => {
                Self::Usage(error.into())
            }
            _ => Self::Failed(error.into()),
        }
    }
}

impl From<ReceiveError> for Failure {
    fn from(error: ReceiveError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Described> for Failure {
    fn from(error: Described) -> Self {
        Self::Failed(error.into())
    }
}

impl From<NotSent> for Failure {
    fn from(error: NotSent) -> Self {
        Self::Failed(error.into())
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Cpu { .. } => Self::Usage(error.into()),
            _ => Self::Failed(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_standard_output_is_not_an_error() {
        assert!(matches!(
            Failure::stdout(io::ErrorKind::BrokenPipe.into()),
            Failure::StdoutClosed
        ));
        assert!(matches!(
            Failure::stdout(io::ErrorKind::StorageFull.into()),
            Failure::Failed(_)
        ));
    }

    #[test]
    fn errors_of_the_library_end_with_their_name() {
        let error = JournalError::Missing { path: "/x".into() };
        let error = anyhow::Error::new(error).context("cannot export");
        assert_eq!(
            with_id(&error),
            "cannot export: there is no journal /x: check the path, record it first, or wait for \
             it with 'follow=yes' [journal.missing]"
        );
        assert_eq!(with_id(&anyhow::Error::msg("plain")), "plain");
        let id = NotSent::TooLong { max: 1 }.id();
        let Failure::Failed(error) = Failure::named("too long for us", id) else {
            panic!("another failure");
        };
        assert_eq!(with_id(&error), "too long for us [send.too-long]");
    }

    #[test]
    fn wrong_uri_is_wrong_usage() {
        let error = olivine::Config::parse("shm://x?capacity=1000").unwrap_err();
        assert!(matches!(Failure::from(error.clone()), Failure::Usage(_)));
        assert!(matches!(
            Failure::from(OpenError::from(error)),
            Failure::Usage(_)
        ));
    }
}
