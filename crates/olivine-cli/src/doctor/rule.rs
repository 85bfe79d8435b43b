//! A check: its id, why it matters, and the function that judges what was seen.

use serde::Serialize;

/// How good the value of a check is, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Good,
    /// Worth knowing: it matters to some uses only.
    Note,
    /// The value cannot be read, with the reason.
    Unknown,
    /// It makes Olivine slower, or a later start may fail.
    Warning,
    /// Olivine does not work.
    Problem,
}

impl Status {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// A measured effect, and the document of this project that has the measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Effect {
    pub(crate) text: &'static str,
    /// Path from the root of the repository.
    pub(crate) document: &'static str,
    /// Words of the document that give the figure; a test finds them there.
    #[serde(skip)]
    #[cfg_attr(not(test), expect(dead_code, reason = "a test reads it"))]
    pub(crate) quote: &'static [&'static str],
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) status: Status,
    pub(crate) value: String,
    pub(crate) mend: Option<String>,
}

impl Verdict {
    pub(crate) fn good(value: impl Into<String>) -> Self {
        Self {
            status: Status::Good,
            value: value.into(),
            mend: None,
        }
    }

    /// Anything but good, with the command that mends it.
    pub(crate) fn bad(status: Status, value: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            status,
            value: value.into(),
            mend: Some(mend.into()),
        }
    }
}

/// What a check returns: a verdict, or why the value is unknown.
pub(crate) type Judged = Result<Verdict, String>;

/// A check of `S`.
pub(crate) struct Rule<S> {
    pub(crate) id: &'static str,
    pub(crate) why: &'static str,
    pub(crate) effect: Option<Effect>,
    pub(crate) judge: fn(&S) -> Judged,
}

/// The result of a check, as it is shown.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) id: &'static str,
    pub(crate) status: Status,
    pub(crate) value: String,
    pub(crate) why: &'static str,
    pub(crate) effect: Option<Effect>,
    pub(crate) mend: Option<String>,
}

impl<S> Rule<S> {
    /// Runs the check.
    pub(crate) fn run(&self, seen: &S) -> Finding {
        let verdict = (self.judge)(seen).unwrap_or_else(|reason| Verdict {
            status: Status::Unknown,
            value: reason,
            mend: None,
        });
        let matters = !matches!(verdict.status, Status::Good | Status::Unknown);
        Finding {
            id: self.id,
            status: verdict.status,
            value: verdict.value,
            why: self.why,
            effect: self.effect.filter(|_| matters),
            mend: verdict.mend,
        }
    }
}
