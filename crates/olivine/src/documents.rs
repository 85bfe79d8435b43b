//! Sentences of the documents, compared with the code.

use std::path::Path;

/// Panics unless the file `name`, from the root of the repository, contains `stated`.
pub(crate) fn assert_states(name: &str, stated: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(name)).unwrap();
    assert!(text.contains(stated), "{name} does not state: {stated}");
}
