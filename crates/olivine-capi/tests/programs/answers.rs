//! What calls answer where they cannot do their work: in a forked child, and without exceptions.

use crate::abi::{functions, header};
use crate::stage::{self, Link, Running, TestFolder};

/// Calls that let go of a forked child's copy, and say that all is well.
const HARMLESS: [&str; 2] = ["subscriber_close", "subscriber_drop"];

/// Every function of the header that takes a handle.
#[test]
fn each_call_in_c_is_refused_in_a_forked_child() {
    let place = TestFolder::new();
    let Some(program) = stage::compile("cc", "c11", "fork.c", Link::Shared) else {
        return;
    };
    let said = Running::launch(&program, &[&place.uri("&capacity=4KiB")]).finish();
    let (wrong, right): (Vec<_>, Vec<_>) =
        said.lines().partition(|line| line.starts_with("wrong "));
    assert!(wrong.len() > 20, "{wrong:?}");
    for line in wrong {
        let answer = match line.contains("publisher_") {
            true => " Forked",
            false => " ReceiveForked",
        };
        assert!(line.ends_with(answer), "{line}");
    }
    let mut answers: Vec<_> = right
        .into_iter()
        .filter_map(|line| line.split_once(' '))
        .collect();
    answers.sort_unstable();
    let takes_handle = |text: &str| {
        let (_, parameters) = text.split_once('(').unwrap();
        ["olivine_publisher *", "olivine_subscriber *"]
            .iter()
            .any(|handle| {
                // Not where a new one goes to.
                let mut places = parameters.match_indices(handle);
                places.any(|(at, _)| !parameters[at + handle.len()..].starts_with('*'))
            })
    };
    let declared = functions(&header());
    let expected: Vec<_> = declared
        .iter()
        .filter(|(_, text)| takes_handle(text))
        .map(|(name, _)| name.strip_prefix("olivine_").unwrap())
        .map(|name| {
            let answer = match name {
                name if HARMLESS.contains(&name) => "Ok",
                name if name.starts_with("publisher_") => "Forked",
                _ => "ReceiveForked",
            };
            (name, answer)
        })
        .collect();
    assert!(expected.len() > 30, "{expected:?}");
    assert_eq!(answers, expected);
}

#[test]
fn a_program_without_exceptions_goes_on_after_each_failure() {
    let place = TestFolder::new();
    for (compiler, standard) in [
        ("c++", "c++17 -fno-exceptions"),
        ("c++", "c++20"),
        ("clang++", "c++17 -fno-exceptions"),
    ] {
        if let Some(program) = stage::compile(compiler, standard, "results.cpp", Link::Shared) {
            let said = Running::launch(&program, &[&place.uri("")]).finish();
            assert_eq!(said, "answered", "{compiler} {standard}");
        }
    }
}
