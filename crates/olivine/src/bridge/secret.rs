//! Secrets in a URI, literal or in a file, and the files that settings name.

use crate::error::{LinkError, OpenError};
use crate::small_file::{self, SETTINGS_FILE_MAX, WORD_FILE_MAX};
use std::path::Path;
use std::sync::Arc;

/// The secret, or the content of the file after `@` without the line end. `what` names its purpose
/// in errors.
///
/// # Errors
///
/// [`LinkError::Io`], also for a file that is too large or not a regular one.
/// [`LinkError::Damaged`] if the file holds anything else.
pub fn read(what: &'static str, word: &str) -> Result<String, OpenError> {
    let Some(path) = word.strip_prefix('@') else {
        return Ok(word.to_owned());
    };
    let text = small_file::read_text(Path::new(path), WORD_FILE_MAX);
    let text = text.map_err(|source| unreadable(what, Path::new(path), source))?;
    let word = text.trim_end_matches(['\n', '\r']);
    if !crate::uri::is_secret(word) || word.starts_with('@') {
        let problem = "1 to 256 visible ASCII characters without '&' and a line end are expected";
        return Err(LinkError::Damaged {
            place: path.to_owned(),
            problem: problem.to_owned(),
        }
        .into());
    }
    Ok(word.to_owned())
}

/// The bytes of a file that a setting names, such as a certificate: a regular one of at most 1 MiB.
/// `what` names its purpose in errors.
///
/// # Errors
///
/// [`LinkError::Io`].
pub fn settings_bytes(what: &'static str, path: &Path) -> Result<Vec<u8>, LinkError> {
    let bytes = small_file::read_bytes(path, SETTINGS_FILE_MAX);
    bytes.map_err(|source| unreadable(what, path, source))
}

/// As [`settings_bytes`], as text.
///
/// # Errors
///
/// [`LinkError::Io`], also if it is not UTF-8.
pub fn settings_text(what: &'static str, path: &Path) -> Result<String, LinkError> {
    let text = small_file::read_text(path, SETTINGS_FILE_MAX);
    text.map_err(|source| unreadable(what, path, source))
}

fn unreadable(action: &'static str, path: &Path, source: std::io::Error) -> LinkError {
    LinkError::Io {
        action,
        place: path.display().to_string(),
        source: Arc::new(source),
    }
}
