//! A connection with the parts of both directions: received bytes, outgoing control blocks,
//! keepalives.

use super::HELLO_TIME_MAX;
use super::socket::{NAP, ReadOutcome, Socket, SocketError, wait};
use crate::bridge::reconnect::PAUSE_MAX;
use crate::bridge::wire::hello::Hello;
use crate::bridge::wire::{self, Arrived, Close, Decoder, WireError};
use crate::error::{LinkError, chain};
use crate::link::Control;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most outgoing bytes of control blocks. A peer that does not read gets no more of them.
const OUT_MAX: usize = 64 * 1024;
/// Shortest time for a far side to come back and get the end of the stream.
const END_GRACE_MIN: Duration = PAUSE_MAX.saturating_mul(2);

/// A connection.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) socket: Socket,
    pub(super) decoder: Decoder,
    /// Control blocks to write, and how much of them is written.
    pub(super) out: Vec<u8>,
    written: usize,
    /// The last read took everything that the kernel had.
    pub(super) is_drained: bool,
    heard: Instant,
    spoken: Instant,
    /// Silence after which the connection is given up.
    timeout: Duration,
    /// Our hello was queued.
    greeted: bool,
    /// A block of frames is partly written: nothing else may be sent before its rest.
    pub(super) is_block_partial: bool,
    /// The end of the stream was sent.
    end_sent: bool,
    /// As a destination that stops: it has the end of the stream. As a source: the other side said
    /// that, and nothing was left to send.
    pub(super) has_end: bool,
    /// As a destination: the source has our answer to the end of the stream.
    answer_arrived: bool,
    /// Whether the other side has confirmed the failure of our channel; `None` if it was not sent.
    failure: Option<bool>,
}

/// Why a connection ended. The caller decides which of them are retried.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionEnd {
    /// The other side closed without a close block: it was killed, or the connection was cut on the
    /// way.
    #[error("the connection was closed without a reason")]
    Cut,
    /// Nothing was received for too long.
    #[error("nothing was heard for {} ms{awaited}", time.as_millis())]
    Silent {
        time: Duration,
        /// What was to come, as the rest of the text; may be empty.
        awaited: &'static str,
    },
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// TLS failed.
    #[error("TLS: {problem}")]
    Tls {
        /// What is wrong, and what to do.
        problem: String,
        /// Another attempt with the same settings cannot succeed.
        lasting: bool,
    },
    /// The other side does not speak our protocol.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The other side sent a reason for the end.
    #[error("it said: {reason}")]
    ByPeer {
        /// As a code.
        close: Close,
        /// In words.
        reason: String,
    },
    /// This side cannot or must not continue.
    #[error("{reason}")]
    ByUs {
        /// Code that the other side gets.
        close: Close,
        /// Text that the other side gets.
        reason: String,
    },
    /// The stream failed, and the other side has not confirmed that.
    #[error("it has not confirmed that the stream failed")]
    Unconfirmed,
    /// This side was asked to end.
    #[error("this side was asked to end")]
    Stopped,
    /// A permanent error.
    #[error("{}", chain(.0))]
    Failed(LinkError),
}

impl From<SocketError> for ConnectionEnd {
    fn from(error: SocketError) -> Self {
        match error {
            SocketError::Io(error) => Self::Io(error),
            SocketError::Tls { problem, lasting } => Self::Tls { problem, lasting },
        }
    }
}

impl Pipe {
    pub(super) fn new(socket: Socket, timeout: Duration) -> Self {
        let now = Instant::now();
        Self {
            socket,
            decoder: Decoder::new(),
            out: Vec::new(),
            written: 0,
            is_drained: false,
            heard: now,
            spoken: now,
            timeout,
            greeted: false,
            is_block_partial: false,
            end_sent: false,
            has_end: false,
            answer_arrived: false,
            failure: None,
        }
    }

    /// Queues our hello.
    pub(super) fn greet(&mut self, hello: &Hello) {
        hello.put(&mut self.out);
        self.greeted = true;
    }

    /// Uses the longer time-out of the two sides.
    pub(super) fn agree_on_timeout(&mut self, theirs: Duration) {
        let most = Duration::from_secs(3600);
        self.timeout = self.timeout.max(theirs.min(most));
    }

    /// Reads what is there; `true` if anything came.
    pub(super) fn read(&mut self) -> Result<bool, ConnectionEnd> {
        let space = self.decoder.space();
        if space.is_empty() {
            // The received bytes have no room in the ring yet: the kernel keeps the rest, and the
            // source waits.
            self.heard = Instant::now();
            return Ok(false);
        }
        let most = space.len();
        match self.socket.read(space)? {
            ReadOutcome::Bytes(count) => {
                self.is_drained = count < most && self.socket.is_plain();
                self.decoder.filled(count);
                self.heard = Instant::now();
                Ok(true)
            }
            ReadOutcome::Nothing => Ok(false),
            ReadOutcome::End => Err(ConnectionEnd::Cut),
        }
    }

    /// Control blocks that are not written yet.
    pub(super) fn pending(&self) -> &[u8] {
        &self.out[self.written..]
    }

    /// Whether too many bytes wait for a peer that does not read.
    pub(super) fn is_backlogged(&self) -> bool {
        self.out.len() - self.written > OUT_MAX
    }

    /// Writes pending control blocks, unless a block is partly written, and then `parts`; returns
    /// how many bytes of `parts` were written.
    pub(super) fn write(&mut self, parts: [&[u8]; 2]) -> Result<usize, ConnectionEnd> {
        let pending = if self.is_block_partial {
            0
        } else {
            self.out.len() - self.written
        };
        let all = [
            &self.out[self.written..self.written + pending],
            parts[0],
            parts[1],
        ];
        let first = usize::from(pending == 0);
        let count = self.socket.write(&all[first..])?;
        if count > 0 {
            self.spoken = Instant::now();
        }
        let small = count.min(pending);
        self.written += small;
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
        Ok(count - small)
    }

    /// Writes pending control blocks; `true` once all are written.
    pub(super) fn flush(&mut self) -> Result<bool, ConnectionEnd> {
        if !self.pending().is_empty() || self.socket.holds_bytes() {
            self.write([&[], &[]])?;
        }
        Ok(self.pending().is_empty() && !self.socket.holds_bytes())
    }

    /// Sends keepalives, and checks those of the other side.
    pub(super) fn keep_alive(&mut self) -> Result<(), ConnectionEnd> {
        let now = Instant::now();
        if now.duration_since(self.spoken) >= self.timeout / 4 && self.pending().is_empty() {
            wire::put_beat(&mut self.out);
            self.spoken = now;
        }
        let silence = now.duration_since(self.heard);
        if silence > self.timeout {
            return Err(ConnectionEnd::Silent {
                time: silence,
                awaited: "",
            });
        }
        Ok(())
    }

    /// Longest time for one step of the handshake.
    pub(super) fn hello_time(&self) -> Duration {
        self.timeout.min(HELLO_TIME_MAX)
    }

    /// Longest sleep that leaves time for keepalives.
    pub(super) fn nap(&self) -> Duration {
        (self.timeout / 8).min(NAP)
    }

    /// Sends why we end, within a short time.
    pub(super) fn close_with(&mut self, control: &Control, close: Close, reason: &str) {
        if self.is_block_partial {
            // The other side would take it for frames.
            return;
        }
        if !self.greeted {
            // A close block needs a hello before it; this one is empty.
            Hello::default().put(&mut self.out);
        }
        wire::put_close(&mut self.out, close, reason);
        let until = self.close_deadline();
        if self.flush_by(control, until) {
            self.hang_up(control, until);
        }
    }

    /// Writes what is pending; `false` if that took longer than `until`.
    fn flush_by(&mut self, control: &Control, until: Instant) -> bool {
        while let Ok(false) = self.flush() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || wait(control, &[(self.socket.as_fd(), true)], left).is_err() {
                return false;
            }
        }
        true
    }

    /// Sends the end of the stream, and waits for the reply: a destination without the end waits
    /// for ever.
    ///
    /// # Errors
    ///
    /// No reply came within the time-out, or another one.
    pub(super) fn send_end(&mut self, control: &Control) -> Result<(), ConnectionEnd> {
        wire::put_close(&mut self.out, Close::End, "every publisher has closed");
        self.end_sent = true;
        let awaited = " in place of its answer to the end";
        self.expect(control, self.timeout, awaited, |arrived| match arrived {
            Arrived::Close {
                close: Close::End, ..
            } => Ok(Some(())),
            Arrived::Close { close, reason } => Err(ConnectionEnd::ByPeer { close, reason }),
            Arrived::Ack { .. } | Arrived::Beat => Ok(None),
            other => {
                let text = format!("a source that has said its end does not expect {other:?}");
                Err(WireError::Invalid(text).into())
            }
        })?;
        // The destination waits for this before it ends.
        wire::put_close(&mut self.out, Close::End, "the answer has come");
        self.flush_by(control, self.close_deadline());
        self.socket.finish();
        Ok(())
    }

    /// Answers the end of the stream, and waits a moment for the source to say that it has the
    /// answer: [`Pipe::has_answered`].
    pub(super) fn answer_end(&mut self, control: &Control) {
        wire::put_close(&mut self.out, Close::End, "heard");
        let until = self.close_deadline();
        self.answer_arrived = matches!(self.hear_end(control, until), Ok(true));
        self.hang_up(control, until);
    }

    /// Whether the source says its end by `until`. A request to end does not shorten the wait.
    fn hear_end(&mut self, control: &Control, until: Instant) -> Result<bool, ConnectionEnd> {
        loop {
            while let Some(arrived) = self.decoder.next()? {
                if matches!(
                    arrived,
                    Arrived::Close {
                        close: Close::End,
                        ..
                    }
                ) {
                    return Ok(true);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let flushed = self.flush()?;
            if !self.read()? {
                wait(control, &[(self.socket.as_fd(), !flushed)], left.min(NAP))?;
            }
        }
    }

    /// Whether the source has our answer to the end of the stream.
    pub(super) fn has_answered(&self) -> bool {
        self.answer_arrived
    }

    /// Sends that our channel's publisher failed, and waits for the reply. Without one the other
    /// side may come back to hear it again.
    pub(super) fn send_failure(&mut self, control: &Control, reason: &str) {
        self.failure = Some(false);
        if self.is_block_partial || !self.greeted {
            return;
        }
        wire::put_close(&mut self.out, Close::Upstream, reason);
        let confirmed = self.expect(control, self.timeout, "", |arrived| match arrived {
            Arrived::Close {
                close: Close::Upstream,
                ..
            } => Ok(Some(())),
            Arrived::Close { close, reason } => Err(ConnectionEnd::ByPeer { close, reason }),
            _ => Ok(None),
        });
        self.failure = Some(confirmed.is_ok());
        self.socket.finish();
    }

    /// Whether the other side has confirmed [`Pipe::send_failure`]; `None` if nothing was sent.
    pub(super) fn failure_confirmed(&self) -> Option<bool> {
        self.failure
    }

    /// Whether [`Pipe::send_end`] has begun to send it.
    pub(super) fn has_sent_end(&self) -> bool {
        self.end_sent
    }

    /// How long a far side with a broken connection has to come back and get the end of the stream.
    /// It may notice the break only by its own time-out; the pause between two attempts is added.
    pub(super) fn end_grace(&self) -> Duration {
        end_grace(self.timeout)
    }

    /// Sends why we end, if there is a reason to send.
    pub(super) fn close_for(&mut self, control: &Control, broken: &ConnectionEnd) {
        match broken {
            ConnectionEnd::ByUs { close, reason } => self.close_with(control, *close, reason),
            ConnectionEnd::Wire(error) => {
                let close = match error {
                    WireError::Version { .. } => Close::Version,
                    WireError::Checksum { .. } => Close::Corrupt,
                    _ => Close::Protocol,
                };
                self.close_with(control, close, &broken.to_string());
            }
            ConnectionEnd::Failed(_) if self.failure.is_some() => {}
            ConnectionEnd::Unconfirmed => {}
            ConnectionEnd::Failed(error) => match error.of_source() {
                Some(failure) => self.close_with(control, Close::Upstream, &failure.reason()),
                None => self.close_with(control, Close::Failed, &chain(error)),
            },
            ConnectionEnd::Stopped if control.forgets_name() => {
                self.close_with(control, Close::Gone, "this side has unsubscribed");
            }
            ConnectionEnd::Stopped if self.has_end => {
                self.close_with(control, Close::End, "this side has the end, and stops");
            }
            ConnectionEnd::Stopped => self.close_with(control, Close::Leaving, "this side stops"),
            ConnectionEnd::Silent { .. } => {
                self.close_with(control, Close::Leaving, &broken.to_string())
            }
            ConnectionEnd::Tls { .. } => self.leave_alert(control),
            ConnectionEnd::Cut | ConnectionEnd::Io(_) | ConnectionEnd::ByPeer { .. } => {}
        }
    }

    /// Ends a connection with broken TLS: the alert with the reason is sent already.
    fn leave_alert(&mut self, control: &Control) {
        self.hang_up(control, self.close_deadline());
    }

    /// Deadline for the other side to read our last block.
    pub(super) fn close_deadline(&self) -> Instant {
        Instant::now() + self.timeout.min(Duration::from_secs(1))
    }

    /// Closes our direction, and discards input until `until`. Unread input would turn our close
    /// into a reset, which destroys what we sent last.
    fn hang_up(&mut self, control: &Control, until: Instant) {
        self.socket.finish();
        while self.socket.discard() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            if wait(control, &[(self.socket.as_fd(), false)], left.min(NAP)).is_err() {
                return;
            }
        }
    }

    /// Waits for the other side's hello, at most for `longest` in total.
    pub(super) fn expect_hello(
        &mut self,
        control: &Control,
        longest: Duration,
    ) -> Result<Hello, ConnectionEnd> {
        // A close in place of a hello has its own preamble: an empty hello.
        let awaited = " in place of its hello";
        self.expect(control, longest, awaited, |arrived| match arrived {
            Arrived::Hello(hello) if hello.instance == 0 => Ok(None),
            Arrived::Hello(hello) => Ok(Some(hello)),
            Arrived::Close { close, reason } => Err(ConnectionEnd::ByPeer { close, reason }),
            _ => Err(WireError::Invalid("no hello comes first".into()).into()),
        })
    }

    /// Waits for what `wanted` accepts, at most for `longest` in total. `awaited` ends the text of
    /// the error if it does not come.
    pub(super) fn expect<T>(
        &mut self,
        control: &Control,
        longest: Duration,
        awaited: &'static str,
        mut wanted: impl FnMut(Arrived<'_>) -> Result<Option<T>, ConnectionEnd>,
    ) -> Result<T, ConnectionEnd> {
        let until = Instant::now() + longest;
        loop {
            while let Some(arrived) = self.decoder.next()? {
                if let Some(found) = wanted(arrived)? {
                    return Ok(found);
                }
            }
            if control.must_stop() {
                return Err(ConnectionEnd::Stopped);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ConnectionEnd::Silent {
                    time: longest,
                    awaited,
                });
            }
            let flushed = self.flush()?;
            if !self.read()? {
                let fds = [(self.socket.as_fd(), !flushed)];
                wait(control, &fds, left.min(NAP))?;
            }
        }
    }
}

/// See [`Pipe::end_grace`].
pub(super) fn end_grace(timeout: Duration) -> Duration {
    END_GRACE_MIN.max(timeout * 2 + PAUSE_MAX)
}

impl ConnectionEnd {
    /// Whether another attempt with the same settings cannot succeed.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::ByPeer { close, .. } | Self::ByUs { close, .. } => matches!(
                close,
                Close::Version
                    | Close::Token
                    | Close::Channel
                    | Close::Direction
                    | Close::Type
                    | Close::Settings
                    | Close::Evicted
                    | Close::Lost
                    | Close::Protocol
                    | Close::Upstream
            ),
            Self::Wire(WireError::Checksum { .. }) => false,
            Self::Wire(_) | Self::Failed(_) => true,
            Self::Tls { lasting, .. } => *lasting,
            Self::Cut | Self::Silent { .. } | Self::Io(_) | Self::Unconfirmed | Self::Stopped => {
                false
            }
        }
    }

    /// Whether bytes were changed on the way.
    pub(super) fn is_corrupt(&self) -> bool {
        let told = |close: &Close| *close == Close::Corrupt;
        match self {
            Self::Wire(WireError::Checksum { .. }) => true,
            Self::ByPeer { close, .. } => told(close),
            _ => false,
        }
    }

    /// As an error of the link to `far`.
    pub(super) fn into_error(self, far: &str) -> LinkError {
        let far = far.to_owned();
        match self {
            Self::Failed(error) => error,
            Self::Wire(WireError::Version { found }) => LinkError::Version {
                far,
                found,
                expected: wire::WIRE_VERSION,
            },
            Self::Tls { problem, .. } => LinkError::Tls { far, problem },
            Self::Wire(error @ WireError::Tls) => LinkError::Tls {
                far,
                problem: error.to_string(),
            },
            Self::Wire(error) => LinkError::Protocol {
                far,
                problem: error.to_string(),
            },
            Self::ByPeer {
                close: Close::Upstream,
                reason,
            } => LinkError::FarFailed { far, reason },
            Self::ByPeer { reason, .. } => LinkError::Refused { far, reason },
            Self::Io(source) => LinkError::Io {
                action: "reach",
                place: far,
                source: Arc::new(source),
            },
            other => LinkError::Refused {
                far,
                reason: other.to_string(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::assert_states;
    use crate::uri::remote::TIMEOUT_DEFAULT;

    /// Each text about closing a publisher, from the root of the repository.
    const TEXTS: [&str; 6] = [
        "crates/olivine/src/channel/publisher.rs",
        "crates/olivine-capi/include/olivine.h",
        "crates/olivine-capi/include/olivine.hpp",
        "crates/olivine-python/python/olivine/_native.pyi",
        "docs/uri.md",
        "docs/wire.md",
    ];

    #[test]
    fn texts_state_how_long_closing_a_publisher_waits_for_the_end_to_be_confirmed() {
        let away = end_grace(TIMEOUT_DEFAULT);
        let still = away + TIMEOUT_DEFAULT;
        for name in TEXTS {
            for seconds in [away.as_secs(), still.as_secs(), END_GRACE_MIN.as_secs()] {
                assert_states(name, &format!("{seconds} s"));
            }
        }
    }
}
