//! Programs in C under a tool that checks each access to memory.

use crate::{IMPATIENT, WITH_LINES};
use crate::stage::{self, Link, Running, TestFolder};

/// Runs a program, which fails if it touches memory of others or leaks.
pub(crate) const VALGRIND: [&str; 4] = [
    "valgrind",
    "--quiet",
    "--error-exitcode=9",
    "--leak-check=full",
];

/// Whether there is valgrind; if not, a line says so.
pub(crate) fn has_valgrind() -> bool {
    let mut probe = std::process::Command::new(VALGRIND[0]);
    let found = probe.arg("--version").output().is_ok();
    if !found {
        stage::skip("no valgrind, so programs in C were not run under it");
    }
    found
}

/// The programs read and write only their own memory, and leak none.
#[test]
fn valgrind_finds_nothing_in_programs_in_c() {
    if !has_valgrind() {
        return;
    }
    let impatient = format!("{IMPATIENT}&name=archive");
    for (file, role, queries, said) in [
        ("arrays.c", None, &[][..], "arrays"),
        ("places.c", Some("inproc"), &[], "inside"),
        ("places.c", Some("durable"), &["", "&name=archive"], "kept"),
        ("places.c", Some("place"), &[IMPATIENT, &impatient], "found"),
    ] {
        let place = TestFolder::new();
        let Some(program) = stage::compile("cc", WITH_LINES, file, Link::Static) else {
            return;
        };
        let program = program.display().to_string();
        let uris: Vec<String> = queries.iter().map(|query| place.uri(query)).collect();
        let words = VALGRIND[1..].iter().copied();
        let words = words.chain(["--errors-for-leak-kinds=definite,possible", &program]);
        let words = words.chain(role);
        let words = words.chain(uris.iter().map(String::as_str));
        let words: Vec<&str> = words.collect();
        assert_eq!(Running::launch("valgrind".as_ref(), &words).finish(), said);
    }
}
