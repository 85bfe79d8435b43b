//! Secrets in a URI: literal, or in a file.

use crate::error::{LinkError, OpenError};
use crate::small_file::{self, WORD_FILE_MAX};
use std::path::Path;
use std::sync::Arc;

/// The secret, or the content of the file after `@` without the line end. `what` names its purpose
/// in errors.
///
/// # Errors
///
/// [`LinkError::Io`], also for a file that is too large or not a regular one.
/// [`LinkError::Damaged`] if the file holds anything else.
pub(super) fn read(what: &'static str, word: &str) -> Result<String, OpenError> {
    let Some(path) = word.strip_prefix('@') else {
        return Ok(word.to_owned());
    };
    let refused = |source: std::io::Error| LinkError::Io {
        action: what,
        place: path.to_owned(),
        source: Arc::new(source),
    };
    let text = small_file::read_text(Path::new(path), WORD_FILE_MAX).map_err(refused)?;
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
