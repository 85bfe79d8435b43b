//! Where unsafe code may be, and its required comments.

use super::{CORE, Rule};
use crate::source::{Tree, has_word, words};

/// The only file of the core that names the atomics of `core`, `std` or `loom`.
const ATOMICS: &str = "crates/olivine/src/sync.rs";

/// Files and folders that may contain `unsafe`, raw pointers or foreign functions, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/olivine/src/sync.rs", "membarrier"),
    ("crates/olivine/src/region.rs", "the door to shared words"),
    ("crates/olivine/src/region/", "the door to shared words"),
    ("crates/olivine/src/segment.rs", "mapping"),
    ("crates/olivine/src/segment/", "mapping"),
    ("crates/olivine/src/wait.rs", "futex"),
    ("crates/olivine/src/wait/", "futex"),
    ("crates/olivine/src/fork.rs", "atfork"),
    ("crates/olivine/src/liveness.rs", "locks of the kernel"),
    (
        "crates/olivine-net/src/sys",
        "the kernel interface of the engine",
    ),
    (
        "crates/olivine-bench/src/sys",
        "the kernel's ways of passing messages",
    ),
    ("crates/olivine-capi/", "a C interface is made of pointers"),
    ("crates/olivine-python/", "the buffer protocol"),
];

/// Files that may say `unsafe`, but have no pointer and no foreign call: they discharge, by the
/// ring's protocol, the obligations of the region.
const PROOFS: &[(&str, &str)] = &[
    (
        "crates/olivine/src/ring/publish.rs",
        "only the lane's publisher writes above the cursor",
    ),
    (
        "crates/olivine/src/ring/consume.rs",
        "a gated frame stays whole until it is released",
    ),
    (
        "crates/olivine/src/ring/consume/bridge.rs",
        "as `ring/consume.rs`, for runs of frames",
    ),
    (
        "crates/olivine/src/ring/model/frames.rs",
        "a place of the model's own, whose cells find a race",
    ),
    (
        "crates/olivine-bench/src/method/exchange.rs",
        "messages and answers alternate, so a slot has one owner",
    ),
    (
        "crates/olivine-bench/src/method/condvar.rs",
        "a mutex guards the slots",
    ),
    (
        "crates/olivine-bench/src/method/mirror.rs",
        "written and read counters part the ring",
    ),
    (
        "crates/olivine-bench/src/method/bytes.rs",
        "pages given to a pipe are left alone until the answer",
    ),
    (
        "crates/olivine-bench/src/method/vm.rs",
        "a box is written again only after its answer",
    ),
];

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
        if ALLOWED.iter().any(|(path, _)| file.path.starts_with(path)) {
            return None;
        }
        let proofs = PROOFS.iter().any(|(path, _)| file.path == *path);
        file.product_lines().find_map(|(number, line)| {
            let mut marks = MARKS.iter().filter(|mark| !(proofs && **mark == "unsafe"));
            let mark = marks.find(|mark| has_word(&line.code, mark))?;
            Some((number, format!("`{mark}` outside the allow-list")))
        })
    })
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
