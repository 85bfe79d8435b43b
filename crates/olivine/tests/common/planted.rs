//! Checks that must fail: what they panic with.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The text with which `check` panics, or `Ok`.
pub(crate) fn verdict<R>(check: impl FnOnce() -> R) -> Result<(), String> {
    let checked = catch_unwind(AssertUnwindSafe(check)).map(drop);
    checked.map_err(|why| match why.downcast::<String>() {
        Ok(text) => *text,
        Err(why) => {
            let text = why.downcast::<&str>().expect("a panic with a text");
            (*text).to_owned()
        }
    })
}

/// The text with which `check` must panic.
#[track_caller]
pub(crate) fn panic_of<R>(check: impl FnOnce() -> R) -> String {
    verdict(check).expect_err("no panic")
}
