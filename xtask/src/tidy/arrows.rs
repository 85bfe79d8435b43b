//! Which module may name which, and what the crates depend on.

use super::{CORE, Rule, texts};
use crate::cargo::cargo;
use crate::child;
use crate::source::{File, Token, Tree};
use anyhow::Result;
use std::collections::BTreeSet;

/// The entry of the table that a path belongs to, with its layer: `ring::layout::X` to
/// `ring::layout`, `ring::other` to `ring`.
fn entry(path: &[String]) -> Option<(usize, &'static str)> {
    let first = path.first()?;
    let pair = path.get(1).map(|second| format!("{first}::{second}"));
    let find = |name: &String| {
        let mut layers = (0..).zip(texts("layers"));
        layers.find_map(|(layer, modules)| {
            let module = modules.split(' ').find(|module| module == name)?;
            Some((layer, module))
        })
    };
    pair.as_ref().and_then(find).or_else(|| find(first))
}

/// `crate::X` in the core follows the arrows.
pub(super) fn core_modules(tree: &Tree) -> Rule {
    let mut rule = Rule::new("arrows", "uses between the core's modules");
    for file in tree.rust_under(CORE) {
        let own = module_path(&file.path);
        if own.is_empty() {
            continue; // The facade names everything.
        }
        for (number, used) in uses(file, &own) {
            rule.look(judge(&own, &used).map(|why| format!("{}:{number}: {why}", file.path)));
        }
    }
    rule
}

fn judge(own: &[String], used: &[String]) -> Option<String> {
    let Some((own_layer, own)) = entry(own) else {
        let own = own.join("::");
        return Some(format!(
            "module `{own}` has no place in the layers of tidy.toml"
        ));
    };
    if texts("like_another_crate").any(|like| like == own) {
        let is_type = |name: &String| name.starts_with(char::is_uppercase);
        let is_own = entry(used).is_some_and(|(_, used)| used == own || used == "raw");
        let allowed = is_own || used.first().is_some_and(is_type);
        let used = used.join("::");
        let why = || format!("`{own}` may name `raw` and public types, not `{used}`");
        return (!allowed).then(why);
    }
    let Some((used_layer, used)) = entry(used) else {
        let used = used.join("::");
        return Some(format!(
            "`crate::{used}` is in no layer of tidy.toml; name the module"
        ));
    };
    let allowed = own == used || used_layer < own_layer;
    (!allowed).then(|| format!("`{own}` may not name `{used}`"))
}

/// `ring/publish.rs` is `["ring", "publish"]`, `lib.rs` is empty.
fn module_path(path: &str) -> Vec<String> {
    let inside = path.strip_prefix(CORE).unwrap_or(path);
    let parts = inside.trim_end_matches(".rs").split('/');
    let is_module = |part: &&str| !matches!(*part, "mod" | "lib" | "main");
    parts.filter(is_module).map(str::to_owned).collect()
}

/// What product code names in the crate, as paths from its root, with line numbers.
fn uses(file: &File, own: &[String]) -> Vec<(usize, Vec<String>)> {
    let Some(rust) = &file.rust else {
        return Vec::new();
    };
    let product = |token: &&Token| !rust.lines[token.line].test;
    let tokens: Vec<&Token> = rust.tokens.iter().filter(product).collect();
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.text == text);
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let line = tokens[at].line;
        let mut climbs = 0;
        while is(at, "super") && is(at + 1, "::") {
            (climbs, at) = (climbs + 1, at + 2);
        }
        let base = if climbs > 0 {
            // An inline module's `super` is the file itself.
            (own.len() + rust.lines[line].depth).checked_sub(climbs)
        } else {
            let from_root = is(at, "crate") && is(at + 1, "::") && (at == 0 || !is(at - 1, "$"));
            at += if from_root { 2 } else { 1 };
            from_root.then_some(0)
        };
        if let Some(base) = base.filter(|base| *base < own.len()) {
            let full = |path| [own[..base].to_vec(), path].concat();
            found.extend(
                paths(&tokens[at..])
                    .into_iter()
                    .map(|path| (line + 1, full(path))),
            );
        }
    }
    found
}

/// The paths a `use` or an expression names, at most two names of each: `a::b::c` gives `a::b`,
/// `{a, b::{c, d}}` gives `a`, `b::c`, `b::d`. Macros (`name!`) belong to no module.
fn paths(tokens: &[&Token]) -> Vec<Vec<String>> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let (name, mut found) = (text(0), Vec::new());
    if name == "{" {
        let (mut open, mut start) = (0, 1);
        for (at, token) in tokens.iter().enumerate() {
            open += i32::from(token.text == "{") - i32::from(token.text == "}");
            if open == 0 || open == 1 && token.text == "," {
                found.extend(paths(&tokens[start..at]));
                start = at + 1;
            }
            if open == 0 {
                break;
            }
        }
        return found;
    }
    let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if !is_name || text(1) == "!" {
        return found;
    }
    if text(1) == "::" {
        let deeper = paths(&tokens[2..]).into_iter();
        found.extend(deeper.map(|path| vec![name.to_owned(), path[0].clone()]));
        found.dedup();
    }
    if found.is_empty() {
        found.push(vec![name.to_owned()]);
    }
    found
}

/// Crates in the core's tree, the core left out: users of the core must trust all of them.
const CRATES_MAX: usize = 15;

/// The core's tree stays small, and the engine, which is useful without messaging, does not need
/// the core.
pub(super) fn trees() -> Result<Rule> {
    let of = |package: &str, edges: &str| {
        let words = format!("tree --locked --package {package} --edges {edges} --prefix none");
        child::output(cargo().args(words.split(' ')))
    };
    Ok(small(&of("olivine", "normal")?, &of("olivine-net", "all")?))
}

fn small(core: &str, engine: &str) -> Rule {
    let mut rule = Rule::new("tree", "crates that the core and the engine depend on");
    // `name v1.2.3 (proc-macro) (*)`: name and version are the crate.
    let is_core = |name: &String| name.starts_with("olivine v");
    let crates = |tree: &str| -> BTreeSet<String> {
        let name = |line: &str| line.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ");
        tree.lines()
            .map(name)
            .filter(|name| !name.is_empty())
            .collect()
    };
    let mut core = crates(core);
    core.retain(|name| !is_core(name));
    for name in crates(engine) {
        rule.look(is_core(&name).then(|| "olivine-net depends on olivine".to_owned()));
    }
    rule.looked += core.len();
    if core.len() > CRATES_MAX {
        let (count, list) = (core.len(), Vec::from_iter(core).join(", "));
        let problem = format!("{count} crates, at most {CRATES_MAX} are allowed: {list}");
        rule.findings.push(problem);
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn an_arrow_to_the_right_is_found() {
        let faults = [
            "region.rs: use crate::channel::Publisher;",
            "wait.rs: use crate::ring::{layout, publish};",
            "ring/layout.rs: use super::gate::X;",
            "ring/layout.rs: use crate::wait::X;",
            "segment/map.rs: use crate::wait::X;",
            "ring/publish.rs: use crate::{\n  sync::fence,\n  liveness::x,\n};",
            "ring/publish.rs: use super::super::channel::A;",
            "uri.rs: use crate::error::E;",
            "clock.rs: fn f() { super::sync::fence() }",
            "bridge/nats/a.rs: use crate::link::Control;",
            "bridge/nats/a.rs: use crate::bridge::reconnect::X;",
            "bridge/nats.rs: use super::Source;",
            "bridge/tcp.rs: use crate::raw::CheckedEgress;",
            "raw.rs: use crate::open::X;",
            "wait.rs: use crate::NotThere;",
            "unknown.rs: use crate::sync::fence;",
        ];
        let fine = [
            "channel.rs: use crate::{ring::{layout, gate}, wait, liveness};",
            "ring/gate.rs: use super::layout; use crate::sync::fence;",
            "wait.rs: use crate::ring::layout::{self, lane};",
            "ring.rs: use crate::wait::wake;",
            "bridge/nats/a.rs: use crate::raw::Source; use crate::{Config, LinkError};",
            "bridge/nats/a.rs: use super::label::Label;",
            "raw/reader.rs: use crate::bridge::egress::Egress;",
        ];
        planted(core_modules, CORE, &faults, &fine);
        for (name, text) in [
            ("lib.rs", "pub use crate::channel::A; use crate::bridge::B;"),
            (
                "region.rs",
                "mod m { use super::X; }\nfn f() { crate::die!(1) }",
            ),
            (
                "sync.rs",
                "//! [`crate::channel`]\n#[cfg(test)]\nmod t { use crate::channel::A; }",
            ),
        ] {
            let rule = core_modules(&Tree::of(&[(&format!("{CORE}{name}"), text)]));
            assert!(rule.looked == 0 && rule.findings.is_empty(), "{rule:?}");
        }
    }

    #[test]
    fn large_tree_and_engine_with_core_are_found_and_repeats_count_once() {
        let line = |n: usize| format!("crate{n} v1.0.0 (proc-macro)\ncrate{n} v1.0.0 (*)\n");
        let tree = |count| (0..count).map(line).collect::<String>();
        let most = format!("olivine v0.1.0 (somewhere)\n{}", tree(CRATES_MAX));
        assert!(small(&most, "").holds());
        assert_eq!(small(&tree(CRATES_MAX + 1), "").findings.len(), 1);
        assert_eq!(
            small("", "olivine-net v0.1.0\nolivine v0.1.0")
                .findings
                .len(),
            1
        );
        assert!(!small("olivine v0.1.0\n", "").holds(), "nothing looked at");
    }
}
