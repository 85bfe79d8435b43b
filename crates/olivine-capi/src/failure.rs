//! Why a call failed: its status, its text for `olivine_last_error`, and the id of its kind.

use crate::status::Status;
use core::cell::{Cell, RefCell};
use core::ffi::{CStr, c_char};
use olivine::{Described, LinkStatus, NotSent, OpenError, ReceiveError, UriError, error_chain};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A pointer is NULL.
    Null {
        argument: &'static str,
    },
    /// An argument is not usable.
    Bad {
        argument: &'static str,
        problem: Box<str>,
    },
    /// The handle is in use.
    InUse {
        what: &'static str,
    },
    /// The handle was closed.
    Closed {
        what: &'static str,
    },
    /// A message of a batch, with its index.
    OfBatch {
        index: usize,
        why: Box<Self>,
    },
    /// There is a claim.
    ClaimOpen,
    /// There is none.
    NoClaim,
    /// The time is over, and perhaps why.
    TimedOut {
        why: Option<Box<str>>,
    },
    /// What the system said.
    System {
        action: &'static str,
        source: std::io::Error,
    },
    /// A panic was caught.
    Panicked,
    Open(Box<OpenError>),
    Sent(NotSent),
    /// With what the publisher knows of it.
    Described(Box<Described>),
    Received(Box<ReceiveError>),
}

impl Failure {
    /// A wait was longer than its time-out: with the reason where no far side is connected.
    #[cold]
    pub(crate) fn timed_out(link: Option<LinkStatus>) -> Self {
        let why = link.and_then(|link| link.unreached());
        let why = why.map(Into::into);
        Self::TimedOut { why }
    }

    fn status(&self) -> Status {
        match self {
            Self::Null { .. } => Status::NullArgument,
            Self::Bad { .. } | Self::Closed { .. } => Status::BadArgument,
            Self::OfBatch { why, .. } => why.status(),
            Self::InUse { .. } => Status::InUse,
            Self::ClaimOpen => Status::ClaimOpen,
            Self::NoClaim => Status::NoClaim,
            Self::TimedOut { .. } => Status::TimedOut,
            Self::System { .. } => Status::System,
            Self::Panicked => Status::Panicked,
            Self::Open(error) => error.as_ref().into(),
            Self::Sent(error) => (*error).into(),
            Self::Described(described) => described.error.into(),
            Self::Received(error) => error.as_ref().into(),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Null { argument } => format!("argument '{argument}' is NULL: it must not be"),
            Self::Bad { argument, problem } => format!("argument '{argument}' {problem}"),
            Self::Closed { what } => {
                format!("the {what} is closed: open another one, and use no handle after its end")
            }
            Self::OfBatch { index, why } => Described::text_of_batch(*index, &why.text()),
            Self::InUse { what } => format!(
                "the {what} is in use: call it neither from its own handler nor from two threads \
                 at a time"
            ),
            Self::ClaimOpen => {
                "the publisher has an open claim: commit it or abort it first".to_owned()
            }
            Self::NoClaim => "there is no open claim to commit: claim first".to_owned(),
            Self::TimedOut { why: Some(why) } => {
                format!("what the call waits for did not happen within the time-out: {why}")
            }
            Self::TimedOut { why: None } => {
                "what the call waits for did not happen within the time-out, which is 0 for a call \
                 that never waits: call again, or wait longer"
                    .to_owned()
            }
            Self::System { action, source } => format!("cannot {action}: {source}"),
            Self::Panicked => {
                "the library panicked, which is a bug: please report what it printed; close the \
                 handle"
                    .to_owned()
            }
            Self::Open(error) => error_chain(error.as_ref()),
            Self::Sent(error) => error.to_string(),
            Self::Described(described) => described.to_string(),
            Self::Received(error) => error_chain(error.as_ref()),
        }
    }
}

impl Failure {
    /// The kind of error, as other languages name it; empty for what only this interface refuses.
    fn id(&self) -> &'static str {
        match self {
            Self::OfBatch { why, .. } => why.id(),
            Self::Open(error) => error.id(),
            Self::Sent(error) => error.id(),
            Self::Described(described) => described.id(),
            Self::Received(error) => error.id(),
            _ => "",
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Self::Open(Box::new(error))
    }
}

impl From<UriError> for Failure {
    fn from(error: UriError) -> Self {
        Self::Open(Box::new(error.into()))
    }
}

impl From<NotSent> for Failure {
    fn from(error: NotSent) -> Self {
        Self::Sent(error)
    }
}

impl From<Described> for Failure {
    fn from(error: Described) -> Self {
        Self::Described(Box::new(error))
    }
}

impl From<ReceiveError> for Failure {
    fn from(error: ReceiveError) -> Self {
        Self::Received(Box::new(error))
    }
}

/// The latest failure of a thread. Its text is made when it is asked for: back-pressure is an
/// everyday outcome, and costs no allocation.
#[derive(Default)]
struct Last {
    failure: Option<Failure>,
    /// The text of the failure is in [`TEXT`].
    is_written: bool,
}

/// Bytes of the longest text, its NUL included.
const TEXT_BYTES: usize = 2048;

/// Bytes of the longest id, its NUL included.
const ID_BYTES: usize = 64;

/// Where a thread has a text that a caller reads.
pub(crate) struct Text<const BYTES: usize = TEXT_BYTES>([Cell<u8>; BYTES]);

impl<const BYTES: usize> Text<BYTES> {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        Self([const { Cell::new(0) }; BYTES])
    }

    /// Its bytes, which end with a NUL.
    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    /// Copies `said` and adds a NUL; a text that is too long is cut between two characters.
    pub(crate) fn write(&self, said: &str) {
        let fits = (0..BYTES).rev().find(|end| said.is_char_boundary(*end));
        let said = &said[..fits.unwrap_or(0).min(said.len())];
        // A NUL inside would end the text early; none of our texts has one.
        let bytes = said.bytes().map(|byte| if byte == 0 { b'?' } else { byte });
        for (place, byte) in self.0.iter().zip(bytes.chain([0])) {
            place.set(byte);
        }
    }
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
    /// The text a caller received: it stays here as long as the thread lives, also after later
    /// failures.
    static TEXT: Text = const { Text::new() };
    /// The same of an id.
    static ID: Text<ID_BYTES> = const { Text::new() };
}

/// Runs a call: its failure, or a panic, becomes a status, and is kept for [`olivine_last_error`].
#[inline(always)]
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Failure>) -> Status {
    // A panic leaves handles as they are when a call fails: whole, and in the worst case without
    // the message.
    // The failure is kept inside, so that only a status comes back.
    let call = || match call() {
        Ok(()) => Status::Ok,
        Err(failure) => keep(failure),
    };
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| keep(Failure::Panicked))
}

/// Keeps the failure for [`olivine_last_error`]; returns its status.
#[cold]
#[inline(never)]
fn keep(failure: Failure) -> Status {
    let status = failure.status();
    // While the thread ends, its text can no longer be read.
    let _ = LAST.try_with(|last| {
        *last.borrow_mut() = Last {
            failure: Some(failure),
            is_written: false,
        };
    });
    status
}

/// Why this thread's latest call that failed did: what, with which value, and what to do, in one
/// line of UTF-8. Empty if none has failed. Never NULL.
///
/// A call that answers `OLIVINE_STATUS_OK` does not change it; every other answer does, also
/// `OLIVINE_STATUS_TIMED_OUT`. The text is in a buffer of the thread, and is valid until the thread
/// ends. Only this function changes it, if a call has failed since; texts are cut at 2047 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn olivine_last_error() -> *const c_char {
    const NOTHING: &CStr = c"";
    let text = catch_unwind(|| {
        LAST.try_with(|last| {
            let Last {
                failure,
                is_written,
            } = &mut *last.borrow_mut();
            let failure = failure.as_ref()?;
            TEXT.with(|text| {
                if !*is_written {
                    text.write(&failure.text());
                    *is_written = true;
                }
                Some(text.as_ptr())
            })
        })
    });
    match text {
        Ok(Ok(Some(text))) => text,
        _ => NOTHING.as_ptr(),
    }
}

/// The kind of that failure, such as `journal.damaged` or `receive.overrun`: never changed from
/// version to version, and listed by `olivine explain`. It tells apart what one status covers, such
/// as damage of a journal and an unfinished recording. Empty if no call has failed, and where the
/// status is all there is to know: wrong use of this interface, a time-out, an error of the system.
/// Never NULL.
///
/// It is in a buffer of the thread, as the text of `olivine_last_error` is.
#[unsafe(no_mangle)]
pub extern "C" fn olivine_last_error_id() -> *const c_char {
    let id = LAST.try_with(|last| {
        let last = last.borrow();
        last.failure.as_ref().map_or("", Failure::id)
    });
    let kept = ID.try_with(|kept| {
        kept.write(id.unwrap_or(""));
        kept.as_ptr()
    });
    kept.unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(problem: &str) {
        let problem = problem.into();
        let argument = "x";
        guard(|| Err(Failure::Bad { argument, problem }));
    }

    fn last() -> String {
        // SAFETY: never NULL, ends with a NUL, and lives as long as this thread.
        let text = unsafe { CStr::from_ptr(olivine_last_error()) };
        text.to_str().expect("UTF-8").to_owned()
    }

    #[test]
    fn a_text_that_was_handed_out_outlives_later_failures() {
        assert_eq!(last(), "");
        fail("is wrong");
        let handed_out = olivine_last_error();
        for _ in 0..100 {
            fail(&"is wrong in another way".repeat(100));
        }
        // SAFETY: as in `last`.
        let still = unsafe { CStr::from_ptr(handed_out) };
        assert_eq!(still.to_str(), Ok("argument 'x' is wrong"));
    }

    #[test]
    fn every_id_fits_and_a_batch_has_that_of_its_message() {
        for explanation in olivine::admin::explanations() {
            assert!(explanation.id.len() < ID_BYTES, "{}", explanation.id);
        }
        let why = Box::new(Failure::Sent(NotSent::BackPressured));
        assert_eq!(
            Failure::OfBatch { index: 3, why }.id(),
            "send.back-pressured"
        );
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        fail(&"ä".repeat(5000));
        let text = last();
        assert!(text.ends_with('ä') && (TEXT_BYTES - 2..TEXT_BYTES).contains(&text.len()));
        fail(&"b".repeat(5000));
        assert_eq!(last().len(), TEXT_BYTES - 1);
        fail("a\0b");
        assert!(last().ends_with("a?b"));
    }
}
