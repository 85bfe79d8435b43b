//! Words that a URI gives as they are, or by the file that holds them.

use crate::error::{LinkError, OpenError};
use crate::small_file::{self, WORD_FILE_MAX};
use std::path::Path;
use std::sync::Arc;

/// The word itself, or what the file after `@` holds, a line end left out. `what` is what it is for, for people.
///
/// # Errors
///
/// [`LinkError::Io`], also for a file that is too large or not a regular one.
/// [`LinkError::Damaged`] if the file holds something else.
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
