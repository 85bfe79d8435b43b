//! Where unsafe code may be, and its required comments.

use super::{CORE, Rule, claims, expanded, rows};
use crate::source::{Tree, has_word, words};
use std::collections::BTreeSet;

/// The only file of the core that names the atomics of `core`, `std` or `loom`.
const ATOMICS: &str = "crates/olivine/src/sync.rs";

/// Marks of danger: code words that only files of the allow-list may contain.
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

/// Unsafe code is in few files.
pub(super) fn allow_list(tree: &Tree) -> Rule {
    let files = tree.rust_under("crates/").chain(tree.rust_under("xtask/"));
    Rule::new("danger", "files with or without unsafe, pointers and FFI").files(files, |file| {
        if rows("danger").any(|(name, _)| file.path.starts_with(&whole(name))) {
            return None;
        }
        let proofs = rows("proofs").any(|(name, _)| file.path == whole(name));
        file.product_lines().find_map(|(number, line)| {
            let mut marks = MARKS.iter().filter(|mark| !(proofs && **mark == "unsafe"));
            let mark = marks.find(|mark| has_word(&line.code, mark))?;
            Some((number, format!("`{mark}` outside the allow-list")))
        })
    })
}

/// SAFETY.md lists the files and folders that may contain unsafe code, and no others.
pub(super) fn documented(tree: &Tree) -> Rule {
    let mut rule = Rule::new("places", "places of unsafe code that SAFETY.md lists");
    let Some(safety) = tree.file(claims::SAFETY) else {
        return rule;
    };
    let table = claims::rows(safety, "## Where `unsafe` lives");
    let cells = table.iter().filter_map(|row| row.first());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let path = |name: &str| whole(name).trim_end_matches('/').to_owned();
    let listed: BTreeSet<_> = names.flat_map(expanded).map(|name| path(&name)).collect();
    let allowed = rows("danger").chain(rows("proofs"));
    let allowed: BTreeSet<_> = allowed.map(|(name, _)| path(name)).collect();
    for path in listed.union(&allowed) {
        let is_listed = listed.contains(path);
        let fault = if is_listed {
            "not in the allow-list"
        } else {
            "missing"
        };
        let holds = is_listed && allowed.contains(path);
        rule.look((!holds).then(|| format!("{}: {path}: {fault}", claims::SAFETY)));
    }
    rule
}

/// The path of a name here and in SAFETY.md.
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
    fn danger_outside_the_allow_list_is_found() {
        let marks = [
            "fn f() { unsafe { g() } }",
            "fn f(p: *mut u8) {}",
            "fn f(p: *const u8) {}",
            "use rustix::mm::mmap;",
            "fn f() -> i32 { libc::getppid() }",
        ];
        let mut faults = marks
            .map(|mark| format!("src/ring/gate.rs: {mark}"))
            .to_vec();
        let mut fine = marks.map(|mark| format!("src/region.rs: {mark}")).to_vec();
        faults.push("src/ring/publish.rs: fn f(p: *mut u8) { unsafe { g(p) } }".to_owned());
        fine.push("src/ring/publish.rs: fn f() { unsafe { self.ring.write(at) } }".to_owned());
        let forbid = "#![forbid(unsafe_code)]\n// unsafe\nfn f() -> u64 { a *mutable(b) }\n";
        let test = "#[cfg(test)]\nmod tests { fn g() { unsafe { h() } } }";
        fine.push(format!("src/main.rs: {forbid}{test}"));
        planted(allow_list, "crates/olivine/", &faults, &fine);
    }

    #[test]
    fn a_place_that_safety_does_not_list_and_one_too_many_are_found() {
        let names = rows("danger").chain(rows("proofs")).map(|(name, _)| name);
        let names: Vec<_> = names.collect();
        let judge = |names: &[&str]| {
            let rows: String = names
                .iter()
                .map(|name| format!("| `{name}` | why |\n"))
                .collect();
            let heading = "## Where `unsafe` lives\n\n| file | why |\n| --- | --- |\n";
            documented(&Tree::of(&[(claims::SAFETY, &format!("{heading}{rows}"))])).findings
        };
        assert_eq!(judge(&names), [""; 0]);
        let first = format!("SAFETY.md: {}: missing", whole(names[0]));
        assert_eq!(judge(&names[1..]), [first]);
        let more = [&names[..], &["ring/{gate,layout}.rs"]].concat();
        let fault =
            |name| format!("SAFETY.md: crates/olivine/src/ring/{name}.rs: not in the allow-list");
        assert_eq!(judge(&more), ["gate", "layout"].map(fault));
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
