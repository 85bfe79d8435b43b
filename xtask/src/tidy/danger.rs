//! Where unsafe code may be.

use super::{CORE, Rule, claims, expanded};
use crate::source::{Tree, has_word};

/// The table of files and folders that may contain unsafe code, raw pointers or foreign functions.
const PLACES: &str = "## Where `unsafe` lives";
/// What the table says of files that may say `unsafe`, but have no pointer and no foreign call:
/// they discharge obligations of the region by the ring's protocol.
const PROOFS: &str = "no pointers";

/// Marks of danger: code words that only files of the table may contain.
const MARKS: &[&str] = &["unsafe", "libc::", "rustix::mm", "*mut", "*const"];

/// Unsafe code is only where the table of SAFETY.md names the file or its folder.
pub(super) fn allow_list(tree: &Tree) -> Rule {
    let rule = Rule::new("danger", "files with or without unsafe, pointers and FFI");
    let Some(safety) = tree.file(claims::SAFETY) else {
        return rule;
    };
    let table = claims::rows(safety, PLACES);
    let places: Vec<(String, bool)> = table
        .iter()
        .flat_map(|row| {
            let names = row[0].split('`').skip(1).step_by(2).flat_map(expanded);
            let proofs = row.get(1).is_some_and(|why| why.contains(PROOFS));
            names.map(move |name| (whole(&name), proofs))
        })
        .collect();
    let files = tree.rust_under("crates/").chain(tree.rust_under("xtask/"));
    let mut rule = rule.files(files, |file| {
        let mut here = places
            .iter()
            .filter(|(path, _)| file.path.starts_with(path));
        let proofs = match here.next() {
            Some((_, false)) => return None,
            place => place.is_some(),
        };
        file.product_lines().find_map(|(number, line)| {
            let mut marks = MARKS.iter().filter(|mark| !(proofs && **mark == "unsafe"));
            let mark = marks.find(|mark| has_word(&line.code, mark))?;
            let why = format!(
                "`{mark}` in a file that {} does not list for it",
                claims::SAFETY
            );
            Some((number, why))
        })
    });
    for (path, _) in places.iter().filter(|(path, _)| !tree.has(path)) {
        rule.look(Some(format!("{}: there is no {path}", claims::SAFETY)));
    }
    rule
}

/// The path of a name in SAFETY.md.
fn whole(name: &str) -> String {
    let is_core = !name.starts_with("olivine-");
    format!("{}{name}", if is_core { CORE } else { "crates/" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn danger_outside_the_table_is_found() {
        let rows = "| `region.rs`, `gone/{a,b}.rs` | pages |\n| `ring/a.rs` | no pointers |\n";
        let table = format!("{PLACES}\n\n| file | why |\n| --- | --- |\n{rows}");
        let findings = |path: &str, text: &str| {
            let path = format!("{CORE}{path}");
            let rule = allow_list(&Tree::of(&[(claims::SAFETY, &table), (&path, text)]));
            // Most places of the table are not there.
            rule.findings
                .iter()
                .filter(|text| !text.contains("there is no"))
                .count()
        };
        for mark in [
            "fn f() { unsafe { g() } }",
            "fn f(p: *mut u8) {}",
            "fn f(p: *const u8) {}",
            "use rustix::mm::mmap;",
            "fn f() -> i32 { libc::getppid() }",
        ] {
            assert_eq!(findings("ring/gate.rs", mark), 1, "{mark}");
            assert_eq!(findings("region/mapped.rs", mark), 1, "{mark}");
            assert_eq!(findings("gone/a.rs", mark), 0, "{mark}");
            let is_unsafe = mark.contains("unsafe");
            assert_eq!(
                findings("ring/a.rs", mark),
                usize::from(!is_unsafe),
                "{mark}"
            );
        }
        let forbid = "#![forbid(unsafe_code)]\n// unsafe\nfn f() -> u64 { a *mutable(b) }\n";
        let test = "#[cfg(test)]\nmod tests { fn g() { unsafe { h() } } }";
        assert_eq!(findings("main.rs", &format!("{forbid}{test}")), 0);
        let gone = allow_list(&Tree::of(&[(claims::SAFETY, &table)])).findings;
        assert_eq!(gone.len(), 4, "{gone:?}");
    }
}
