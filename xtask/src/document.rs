//! Generated tables in documents, between `<!-- NAME:start -->` and `<!-- NAME:end -->`.

use crate::cargo::root;
use crate::report::Step;
use anyhow::{Context as _, Result};
use std::fs;

/// A document, and the name of the marks around its tables.
pub(crate) type Marks = (&'static str, &'static str);

/// Writes `text` between the marks of a document.
pub(crate) fn put((document, name): Marks, text: &str) -> Result<Step> {
    let path = root().join(document);
    let new = between(&fs::read_to_string(&path)?, name, text);
    let new = new.with_context(|| {
        format!("{document} has no lines <!-- {name}:start --> and <!-- {name}:end -->")
    })?;
    fs::write(&path, new).context(document)?;
    Ok(Step::single(
        true,
        format!("read {document} before you commit it"),
    ))
}

/// `document` with `text` between the marks called `name`; `None` if they are missing.
fn between(document: &str, name: &str, text: &str) -> Option<String> {
    let (start, end) = (
        format!("<!-- {name}:start -->"),
        format!("<!-- {name}:end -->"),
    );
    let (before, rest) = document.split_once(&start)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{start}\n{}\n{end}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{peers, record};

    #[test]
    fn the_documents_have_marks_and_nothing_outside_of_them_changes() {
        for (document, name) in [peers::SERVERS, peers::GENERATOR, record::FIGURES] {
            let text = fs::read_to_string(root().join(document)).unwrap();
            let new = between(&text, name, "\nnew figures\n").expect(document);
            assert!(new.contains(":start -->\nnew figures\n<!-- "));
            assert_eq!(between(&new, name, "new figures").unwrap(), new);
            let outside = |text: &str| between(text, name, "").unwrap();
            assert_eq!(outside(&new), outside(&text));
        }
        assert_eq!(between("no marks", "http", "text"), None);
    }
}
