//! Where unsafe code may be, and its required comments.

use super::{CORE, Rule, claims, expanded};
use crate::source::{Tree, has_word, words};

/// The only file of the core that names the atomics of `core`, `std` or `loom`.
const ATOMICS: &str = "crates/olivine/src/sync.rs";

/// The table of files and folders that may contain unsafe code, raw pointers or foreign functions.
const PLACES: &str = "## Where `unsafe` lives";
/// What the table says of files that may say `unsafe`, but have no pointer and no foreign call:
/// they discharge obligations of the region by the ring's protocol.
const PROOFS: &str = "no pointers";

/// Marks of danger: code words that only files of the table may contain.
const MARKS: &[&str] = &["unsafe", "libc::", "rustix::mm", "*mut", "*const"];

/// How many lines above an `unsafe` its comment may start.
const NEAR: usize = 8;

/// Only `sync.rs` names atomics of the standard library.
pub(super) fn atomics(tree: &Tree) -> Rule {
    let files = tree.rust_under(CORE).filter(|file| file.path != ATOMICS);
    Rule::new("atomics", "files of the core that take them from sync.rs").files(files, |file| {
        let mut lines = file.rust_lines();
        let (number, _) = lines.find(|(_, line)| names_atomics(&line.code))?;
        Some((
            number,
            "names atomics; take them from crate::sync".to_owned(),
        ))
    })
}

fn names_atomics(code: &str) -> bool {
    let dense: String = code.split_whitespace().collect();
    let groups = ["std::sync::{", "core::sync::{", "loom::sync::{"];
    let grouped = groups.iter().any(|group| dense.contains(group)) && has_word(&dense, "atomic");
    grouped || has_word(&dense, "sync::atomic")
}

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

/// Every `unsafe` block and impl has a proof, every `unsafe fn` its obligations. Clippy checks only
/// code compiled here; this also checks other platforms, models and fuzz targets.
pub(super) fn safety_comments(tree: &Tree) -> Rule {
    let places = "unsafe blocks, impls and functions with their reasons";
    let mut rule = Rule::new("safety", places);
    for file in &tree.files {
        let Some(rust) = &file.rust else { continue };
        for (at, token) in rust.tokens.iter().enumerate() {
            if token.text != "unsafe" {
                continue;
            }
            let text = |at: Option<usize>| {
                let token = at.and_then(|at| rust.tokens.get(at));
                token.map_or("", |token| token.text.as_str())
            };
            let (before, after) = (text(at.checked_sub(1)), text(Some(at + 1)));
            let promises = matches!(after, "fn" | "trait" | "extern");
            let is_type = promises && matches!(before, ":" | "<" | "=" | "," | "(" | "&");
            // `unsafe(no_mangle)`: the linker guarantees a single definition.
            if is_type || after == "(" {
                continue;
            }
            let number = token.line + 1;
            let written = file.comments(number, NEAR, true);
            // An inherited obligation (`unsafe fn` of a trait impl) is a SAFETY comment as well.
            let holds = written.contains("SAFETY") || promises && written.contains("# Safety");
            let wanted = "`unsafe` without SAFETY or `# Safety` nearby";
            rule.look((!holds).then(|| format!("{}:{number}: {wanted}", file.path)));
        }
    }
    rule
}

/// `SeqCst` needs its reason: an edge's name or a sentence, at most three lines above.
pub(super) fn sequential_consistency(tree: &Tree) -> Rule {
    let files = tree.rust_under(CORE);
    Rule::new("seqcst", "files of the core whose SeqCst has a reason").files(files, |file| {
        let bad = file.product_lines().find(|(number, line)| {
            has_word(&line.code, "SeqCst") && !is_reason(&file.comments(*number, 3, false))
        });
        bad.map(|(number, _)| {
            (
                number,
                "SeqCst without a reason within 3 lines above".to_owned(),
            )
        })
    })
}

/// A reason has an edge's name, or is at least a short sentence.
fn is_reason(comment: &str) -> bool {
    let capital = |word: &str| word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let edge = words(comment).any(|word| word.len() > 2 && capital(word));
    edge || comment.replace('/', " ").split_whitespace().count() >= 4
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn atomics_outside_sync_are_found() {
        let faults = [
            "ring.rs: use std::sync::atomic::AtomicU64;",
            "ring.rs: use std::sync::{Arc, atomic::AtomicU64};",
            "ring.rs: fn f(a: &core::sync::atomic::AtomicU64) {}",
            "ring.rs: use loom::sync::atomic::fence;",
        ];
        let fine = "ring.rs: use crate::sync::AtomicU64;\nuse std::cmp::Ordering as O;";
        planted(atomics, CORE, &faults, &[fine]);
    }

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

    #[test]
    fn unsafe_without_a_reason_is_found() {
        let far = "\n".repeat(8);
        let faults = [
            "a.rs: fn f() {\n    unsafe { g() }\n}".to_owned(),
            "a.rs: unsafe impl Send for A {}".to_owned(),
            "a.rs: /// Does things.\npub unsafe fn f() {}".to_owned(),
            format!("a.rs: // SAFETY: far.\nfn a() {{}}{far}fn f() {{\n    unsafe {{ g() }}\n}}"),
        ];
        let fine = [
            "a.rs: // SAFETY: checked.\nunsafe impl Send for A {}",
            "a.rs: /// # Safety\n///\n/// Keep it.\npub(crate) unsafe fn f(g: unsafe fn()) {}",
            "a.rs: fn g() {\n    // SAFETY: in range.\n    let y =\n        unsafe { f() };\n}",
        ];
        planted(safety_comments, CORE, &faults, &fine.map(str::to_owned));
    }

    #[test]
    fn bare_seqcst_is_found() {
        let fence = "fn f() { fence(Ordering::SeqCst); }";
        let sample = |comment: &str| format!("wait.rs: {comment}\n{fence}");
        let fine = [
            "// PARK: the look in `wake`.",
            "// the store above must not move",
        ];
        planted(
            sequential_consistency,
            CORE,
            &["", "// why"].map(sample),
            &fine.map(sample),
        );
    }
}
