//! Reasons why a participant fails.

use std::io;

/// Why an order was not carried out. There is no partial figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// The operating system refused something necessary.
    #[error("cannot {action}")]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The system error.
        source: io::Error,
    },
    /// The operating system does not permit the requested privilege.
    #[error("this process may not {what}: {how}")]
    Refused {
        /// The requested privilege.
        what: &'static str,
        /// The remedy.
        how: &'static str,
        /// The system error.
        source: io::Error,
    },
    /// A participant does not reply.
    #[error(
        "a participant did not answer within {seconds} s; it is stopped or its CPU is taken by \
        others"
    )]
    PeerSilent {
        /// The waiting time.
        seconds: u64,
    },
    /// The processes use different protocols.
    #[error("an order or an answer does not fit: {found}")]
    Protocol {
        /// Its message.
        found: String,
    },
    /// A message arrived changed, or in the wrong order.
    #[error("message {sequence} did not arrive as it was sent: a wrong answer has no speed")]
    Wrong {
        /// Sequence number expected.
        sequence: u64,
    },
    /// A message is too long for a method.
    #[error(
        "a message of {bytes} bytes is more than {limit} allows ({max}): choose a smaller size"
    )]
    TooLong {
        /// Bytes of the message.
        bytes: usize,
        /// The limit.
        max: usize,
        /// The owner of the limit.
        limit: &'static str,
    },
    /// A message is too short to be checked.
    #[error(
        "a message of {bytes} bytes is too short to be checked: it takes 16, for its number and \
        time stamp"
    )]
    TooShort {
        /// Bytes of the message.
        bytes: usize,
    },
    /// There is no such method.
    #[error("there is no method '{name}'; there are {known}")]
    NoMethod {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// There is no queue of arrays for this size.
    #[error("queues of arrays are built for messages of {known} bytes, not of {bytes}")]
    NoSize {
        /// Bytes of a message.
        bytes: usize,
        /// The available sizes.
        known: String,
    },
    /// A library of another project failed.
    #[error("{library} says: {message}")]
    Library {
        /// The library.
        library: &'static str,
        /// Its message.
        message: String,
    },
    /// A method that carries one message at a time was asked to stream.
    #[error("this method carries one message at a time: measure it with pingpong")]
    OneAtATime,
    /// A method that hands messages over one by one was asked for batches.
    #[error("this method hands messages over one by one: measure it with a batch of 1")]
    NoBatches,
    /// The socket between two participants cannot be created.
    #[error(
        "cannot bind the socket {path}{too_long}",
        path = path.display(),
        too_long = too_long(path)
    )]
    Socket {
        /// Its path: in `$OLIVINE_DIR` if that is set, else in memory.
        path: std::path::PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The other end closed the connection.
    #[error("the other end closed the connection")]
    EndClosed,
    /// A method failed.
    #[error(transparent)]
    Method(Box<dyn std::error::Error + Send + Sync>),
}

impl ArenaError {
    /// The failure of a method.
    pub fn method(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Method(Box::new(error))
    }

    /// Whether the other end is gone or silent: it, or the end of its process, may tell why.
    #[must_use]
    pub fn follows(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = match self {
            Self::EndClosed | Self::PeerSilent { .. } => return true,
            Self::Method(error) => Some(&**error),
            other => std::error::Error::source(other),
        };
        while let Some(error) = cause {
            if error.downcast_ref().is_some_and(is_of_a_closed_end) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

/// Whether the system says that the other end of a connection is closed.
fn is_of_a_closed_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected
            | io::ErrorKind::UnexpectedEof
    )
}

/// Longest path of a socket in bytes.
const SOCKET_PATH_MAX: usize = 107;

/// The remedy for a path that is too long for a socket.
fn too_long(path: &std::path::Path) -> String {
    match path.as_os_str().len() {
        0..=SOCKET_PATH_MAX => String::new(),
        bytes => format!(
            ", whose {bytes} bytes are more than the {SOCKET_PATH_MAX} of a socket: set \
            OLIVINE_DIR to a shorter path"
        ),
    }
}

/// An error and its causes in one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// The result of a step.
pub type Result<T> = std::result::Result<T, ArenaError>;

/// Adds the action to an operating-system error.
pub fn io(action: &'static str) -> impl FnOnce(io::Error) -> ArenaError {
    move |source| ArenaError::Io { action, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_at_a_closed_end_follow_from_another() {
        let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
        for error in [
            ArenaError::EndClosed,
            io("take a descriptor")(reset()),
            ArenaError::method(reset()),
            ArenaError::method(io("send")(io::ErrorKind::BrokenPipe.into())),
        ] {
            assert!(error.follows(), "{error:?}");
        }
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        for error in [io("bind")(denied), ArenaError::Wrong { sequence: 1 }] {
            assert!(!error.follows(), "{error:?}");
        }
    }
}
