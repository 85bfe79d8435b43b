//! Where the dangerous part may be, and what must be written beside it.

use super::{CORE, Rule};
use crate::source::{File, Tree, has_word};

/// The only file of the core that names the atomics of `core`, `std` or `loom`.
const ATOMICS: &str = "crates/olivine/src/sync.rs";

/// Files and folders that may hold `unsafe`, raw pointers or foreign functions, with the reason.
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
    ("crates/olivine/src/clock.rs", "the time-stamp counter"),
    (
        "crates/olivine/src/probe.rs",
        "affinity, the floor's own mapping",
    ),
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

/// Files that may say `unsafe`, but hold no pointer and call nobody foreign: they discharge, by the
/// ring's protocol, what the region asks for.
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

/// Marks of danger: words of code that only the allow-list may hold.
const MARKS: &[&str] = &["unsafe", "libc::", "rustix::mm", "*mut", "*const"];

/// How many lines above an `unsafe` its comment may start.
const NEAR: usize = 8;

/// Only `sync.rs` names atomics of the standard library.
pub(super) fn atomics(tree: &Tree) -> Rule {
    let mut rule = Rule::new("atomics", "files of the core that take them from sync.rs");
    for file in tree.rust_under(CORE).filter(|file| file.path != ATOMICS) {
        let bad = file
            .rust_lines()
            .find(|(_, line)| names_atomics(&line.code));
        rule.look(bad.map(|(number, _)| {
            format!(
                "{}:{number}: names atomics; take them from crate::sync",
                file.path
            )
        }));
    }
    rule
}

fn names_atomics(code: &str) -> bool {
    let dense: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    let grouped = ["std::sync::{", "core::sync::{", "loom::sync::{"]
        .iter()
        .any(|group| dense.contains(group) && has_word(&dense, "atomic"));
    grouped || has_word(&dense, "sync::atomic")
}

/// Danger lives in few files.
pub(super) fn allow_list(tree: &Tree) -> Rule {
    let mut rule = Rule::new("danger", "files with or without unsafe, pointers and FFI");
    let sources = tree.rust_under("crates/").chain(tree.rust_under("xtask/"));
    for file in sources {
        let allowed = ALLOWED.iter().any(|(path, _)| file.path.starts_with(path));
        let proofs = PROOFS.iter().any(|(path, _)| file.path == *path);
        let bad = file.product_lines().find_map(|(number, line)| {
            let mut marks = MARKS.iter().filter(|mark| !(proofs && **mark == "unsafe"));
            let mark = marks.find(|mark| has_word(&line.code, mark))?;
            Some(format!(
                "{}:{number}: `{mark}` outside the allow-list",
                file.path
            ))
        });
        rule.look(bad.filter(|_| !allowed));
    }
    rule
}

/// Every `unsafe` block and impl has a proof beside it, every `unsafe fn` its obligations.
pub(super) fn safety_comments(tree: &Tree) -> Rule {
    let mut rule = Rule::new(
        "safety",
        "unsafe blocks, impls and functions with their reasons",
    );
    for file in tree.files.iter().filter(|file| file.rust.is_some()) {
        for (number, line) in file.rust_lines() {
            for form in unsafe_forms(&line.code) {
                rule.look(missing_reason(file, number, form));
            }
        }
    }
    rule
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Somebody must have kept the promise: a block, an impl, an attribute.
    Use,
    /// Somebody else has to keep the promise: a function, a trait.
    Promise,
}

fn unsafe_forms(code: &str) -> Vec<Form> {
    let mut forms = Vec::new();
    for (at, word) in code.match_indices("unsafe") {
        let after = &code[at + word.len()..];
        if !has_word(&code[at..at + word.len() + after.len().min(1)], word)
            || code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
        {
            continue;
        }
        let next = after.trim_start();
        if next.starts_with("fn") || next.starts_with("trait") {
            forms.push(Form::Promise);
        } else if next.starts_with("extern") && next.contains("fn") {
            // A definition, or a function pointer type: `unsafe extern "C" fn`.
            forms.push(Form::Promise);
        } else if next.starts_with("(no_mangle)") {
            // A name for C: what it promises, to be the only one of its name, the linker holds.
        } else {
            forms.push(Form::Use);
        }
    }
    forms
}

fn missing_reason(file: &File, number: usize, form: Form) -> Option<String> {
    let own = file
        .rust_lines()
        .nth(number - 1)
        .map_or("", |(_, line)| line.code.as_str());
    let is_type = own.contains(": unsafe") || own.contains("<unsafe") || own.contains("= unsafe");
    if form == Form::Promise && (is_type || !has_word(own, "pub") && own.contains("fn(")) {
        return None; // A function pointer's type promises nothing itself.
    }
    let written = comment_block_above(file, number);
    let (wanted, holds) = match form {
        Form::Use => ("a SAFETY comment", written.contains("SAFETY")),
        // An inherited obligation (`unsafe fn` of a trait impl) is a SAFETY comment as well.
        Form::Promise => (
            "a `# Safety` section",
            written.contains("# Safety") || written.contains("SAFETY"),
        ),
    };
    (!holds).then(|| format!("{}:{number}: `unsafe` without {wanted} nearby", file.path))
}

/// The comments near line `number`: the lines just above it, and whatever comment those touch.
fn comment_block_above(file: &File, number: usize) -> String {
    let lines: Vec<_> = file.rust_lines().map(|(_, line)| line).collect();
    let mut first = number.saturating_sub(1).saturating_sub(NEAR);
    // A long comment that starts further up is read whole.
    while first > 0 && !lines[first].comment.is_empty() && !lines[first - 1].comment.is_empty() {
        first -= 1;
    }
    lines[first..number]
        .iter()
        .map(|l| l.comment.as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

/// `SeqCst` needs its reason: an edge's name or a sentence, at most three lines above.
pub(super) fn sequential_consistency(tree: &Tree) -> Rule {
    let mut rule = Rule::new("seqcst", "files of the core whose SeqCst has a reason");
    for file in tree.rust_under(CORE) {
        let bad = file.product_lines().find(|(number, line)| {
            has_word(&line.code, "SeqCst") && !is_reason(&file.comments_near(*number, 3))
        });
        rule.look(bad.map(|(number, _)| {
            format!(
                "{}:{number}: SeqCst without a reason within 3 lines above",
                file.path
            )
        }));
    }
    rule
}

/// A reason has an edge's name, or is at least a short sentence.
fn is_reason(comment: &str) -> bool {
    let plain = comment.replace('/', " ");
    let edge = crate::source::words(&plain)
        .any(|word| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
    edge || plain.split_whitespace().count() >= 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(path: &str, text: &str) -> Tree {
        Tree::of(&[(path, text)])
    }

    #[test]
    fn atomics_outside_sync_are_found() {
        for text in [
            "use std::sync::atomic::AtomicU64;\n",
            "use std::sync::{Arc, atomic::AtomicU64};\n",
            "fn f(a: &core::sync::atomic::AtomicU64) {}\n",
            "use loom::sync::atomic::fence;\n",
        ] {
            assert_eq!(
                atomics(&tree("crates/olivine/src/ring.rs", text))
                    .findings
                    .len(),
                1,
                "{text}"
            );
        }
        let fine = "use crate::sync::{AtomicU64, Ordering};\nuse std::cmp::Ordering as O;\n";
        assert!(atomics(&tree("crates/olivine/src/ring.rs", fine)).holds());
    }

    #[test]
    fn danger_outside_the_allow_list_is_found() {
        for text in [
            "fn f() { unsafe { g() } }\n",
            "fn f(p: *mut u8) {}\n",
            "fn f(p: *const u8) {}\n",
            "use rustix::mm::mmap;\n",
            "fn f() -> i32 { libc::getppid() }\n",
        ] {
            let rule = allow_list(&tree("crates/olivine/src/ring/gate.rs", text));
            assert_eq!(rule.findings.len(), 1, "{text}");
            assert!(
                allow_list(&tree("crates/olivine/src/region.rs", text)).holds(),
                "{text}"
            );
        }
        let ring = |text| allow_list(&tree("crates/olivine/src/ring/publish.rs", text));
        assert!(ring("fn f() { unsafe { self.ring.write(at, message) } }\n").holds());
        assert_eq!(
            ring("fn f(p: *mut u8) { unsafe { g(p) } }\n")
                .findings
                .len(),
            1
        );
        let fine = "#![forbid(unsafe_code)]\n// unsafe\nfn f(a: u64, b: u64) -> u64 { a *mutable(b) }\n\
                    #[cfg(test)]\nmod tests { fn g() { unsafe { h() } } }\n";
        assert!(allow_list(&tree("crates/olivine-cli/src/main.rs", fine)).holds());
    }

    #[test]
    fn unsafe_without_a_reason_is_found() {
        for text in [
            "fn f() {\n    unsafe { g() }\n}\n",
            "unsafe impl Send for A {}\n",
            "/// Does things.\npub unsafe fn f() {}\n",
            "// SAFETY: too far away.\nfn a() {}\n\n\n\n\n\n\n\nfn f() {\n    unsafe { g() }\n}\n",
        ] {
            let rule = safety_comments(&tree("crates/olivine/src/region.rs", text));
            assert_eq!(rule.findings.len(), 1, "{text}");
        }
        let fine = "// SAFETY: checked.\nunsafe impl Send for A {}\n\
                    /// # Safety\n///\n/// Keep it.\npub unsafe fn f() {}\n\
                    fn g() {\n    // SAFETY: in range.\n    let y =\n        unsafe { f() };\n}\n"
            .to_owned();
        let rule = safety_comments(&tree("crates/olivine/src/region.rs", &fine));
        assert!(rule.findings.is_empty(), "{:?}", rule.findings);
        assert_eq!(rule.looked, 3);
    }

    #[test]
    fn bare_seqcst_is_found() {
        let bad = [
            "fence(Ordering::SeqCst);\n",
            "// why\nfence(Ordering::SeqCst);\n",
        ];
        for text in bad {
            let rule = sequential_consistency(&tree("crates/olivine/src/wait.rs", text));
            assert_eq!(rule.findings.len(), 1, "{text}");
        }
        for text in [
            "// PARK: pairs with the look in `wake`.\nfence(Ordering::SeqCst);\n",
            "// the store above must not move below the load\nfence(Ordering::SeqCst);\n",
        ] {
            assert!(sequential_consistency(&tree("crates/olivine/src/wait.rs", text)).holds());
        }
    }
}
