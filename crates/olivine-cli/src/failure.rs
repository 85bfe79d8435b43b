//! How a command ends when it does not succeed: the exit code and the one line that says why.

use crate::stop::exit_code;
use olivine::{OpenError, ReceiveError, UriError};
use olivine_bench::BenchError;
use std::io;
use std::process::ExitCode;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong use: exit code 2.
    Usage(anyhow::Error),
    /// It was used rightly and failed: exit code 1.
    Failed(anyhow::Error),
    /// It did its work, and the result is bad and already printed: exit code 1.
    BadResult,
    /// A signal stopped it before it had done what was asked for, and what it did is printed: exit
    /// code 128 and the signal's number, 130 after Ctrl-C.
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// The reader closed standard output (`| head -1`): a quiet end, exit code 0.
    StdoutClosed,
}

/// What a command returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Wrong use, in words.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(anyhow::Error::msg(text.into()))
    }

    /// A failure, in words.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(anyhow::Error::msg(text.into()))
    }

    /// An error of writing to standard output.
    pub(crate) fn stdout(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::StdoutClosed;
        }
        Self::Failed(anyhow::Error::new(error).context("cannot write to standard output"))
    }

    /// Prints the line and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Usage(error) => {
                complain(&format!("{error:#}"));
                ExitCode::from(2)
            }
            Self::Failed(error) => {
                complain(&format!("{error:#}"));
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

/// Writes one line to standard error, control characters escaped. A write error is ignored.
pub(crate) fn complain(text: &str) {
    use io::Write;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = crate::terminal::escaped(&line);
    // If standard error is closed too, the line cannot be reported.
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
            OpenError::Uri(_) | OpenError::Cpu { .. } => Self::Usage(error.into()),
            _ => Self::Failed(error.into()),
        }
    }
}

impl From<ReceiveError> for Failure {
    fn from(error: ReceiveError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<olivine::NotSent> for Failure {
    fn from(error: olivine::NotSent) -> Self {
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
    fn a_closed_standard_output_is_no_error() {
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
    fn a_wrong_uri_is_wrong_use_wherever_it_is_found() {
        let error = olivine::Config::parse("shm://x?capacity=1000").unwrap_err();
        assert!(matches!(Failure::from(error.clone()), Failure::Usage(_)));
        assert!(matches!(
            Failure::from(OpenError::from(error)),
            Failure::Usage(_)
        ));
    }
}
