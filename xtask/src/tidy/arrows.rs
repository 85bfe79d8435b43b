//! Which module may name which.

use super::{CORE, Rule};
use crate::source::{File, Tree, has_word};

/// The core's modules, from the ground up. A module may name its own parts and whatever stands on a
/// line above its own, nothing beside or below it. `ring::layout` only says what lies where in
/// memory and `ring::gate` who holds it back, so they stand below whatever maps, waits on or walks it.
const LAYERS: &[&[&str]] = &[
    &["uri", "clock", "claims::input"],
    &["error"],
    &["sync"],
    &["region", "points"],
    &["ring::layout", "probe"],
    &["ring::gate"],
    &["segment", "fork"],
    &["wait"],
    &["ring"],
    &["liveness", "link"],
    &["message"],
    &["channel"],
    &["admin", "bridge"],
    &["open"],
    &["claims"],
];

/// Arrows the layers forbid and we allow: from, to, the reason.
const EXTRA: &[(&str, &str, &str)] = &[];

/// The entry of the table that a path belongs to: `ring::layout::X` to `ring::layout`,
/// `ring::gate` to `ring`.
fn entry(path: &[String]) -> Option<(usize, &'static str)> {
    let names = [
        path.iter().take(2).cloned().collect::<Vec<_>>().join("::"),
        path.first()?.clone(),
    ];
    names.iter().find_map(|name| {
        LAYERS.iter().enumerate().find_map(|(layer, modules)| {
            modules
                .iter()
                .find(|module| *module == name)
                .map(|module| (layer, *module))
        })
    })
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
            "module `{own}` has no place in the table of xtask's arrows.rs"
        ));
    };
    let Some((used_layer, used)) = entry(used) else {
        let used = used.join("::");
        return Some(format!(
            "`crate::{used}` is not a module of the table; name the module"
        ));
    };
    let allowed = own == used
        || used_layer < own_layer
        || EXTRA
            .iter()
            .any(|(from, to, _)| *from == own && *to == used);
    (!allowed).then(|| format!("`{own}` may not name `{used}`"))
}

/// `ring/publish.rs` is `["ring", "publish"]`, `lib.rs` is empty.
fn module_path(path: &str) -> Vec<String> {
    let inside = path
        .strip_prefix(CORE)
        .unwrap_or(path)
        .trim_end_matches(".rs");
    let mut parts: Vec<_> = inside.split('/').map(str::to_owned).collect();
    if matches!(
        parts.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        parts.pop();
    }
    parts
}

/// What product code names in the crate, as paths from its root, with line numbers.
fn uses(file: &File, own: &[String]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    // Joined, because a group may spread over lines; the line is found again by counting.
    let code: String = file
        .rust_lines()
        .map(|(_, line)| {
            if line.test {
                "\n".to_owned()
            } else {
                format!("{}\n", line.code)
            }
        })
        .collect();
    let inline: Vec<usize> = file.rust_lines().map(|(_, line)| line.depth).collect();
    let line_of = |at: usize| code[..at].matches('\n').count();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        for path in paths(&code[at + "crate::".len()..]) {
            found.push((line_of(at) + 1, path));
        }
    }
    let mut at = 0;
    while let Some(start) = code[at..].find("super::").map(|offset| at + offset) {
        let mut end = start;
        let mut climbs = 0;
        while code[end..].starts_with("super::") {
            end += "super::".len();
            climbs += 1;
        }
        at = end;
        // An inline module's `super` is the file itself.
        let inline = inline.get(line_of(start)).copied().unwrap_or(0);
        let Some(left) = (own.len() + inline)
            .checked_sub(climbs)
            .filter(|left| *left < own.len())
        else {
            continue;
        };
        for path in paths(&code[end..]) {
            let path: Vec<_> = own[..left].iter().cloned().chain(path).collect();
            found.push((line_of(start) + 1, path));
        }
    }
    found
}

/// The paths a `use` or an expression names, at most two names of each: `a::b::c` gives `a::b`,
/// `{a, b::{c, d}}` gives `a`, `b::c`, `b::d`. Macros (`name!`) belong to no module.
fn paths(rest: &str) -> Vec<Vec<String>> {
    let rest = rest.trim_start();
    if let Some(group) = rest.strip_prefix('{') {
        return parts(group).iter().flat_map(|part| paths(part)).collect();
    }
    let name: String = rest
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    let after = rest[name.len()..].trim_start();
    if name.is_empty() || after.starts_with('!') {
        return Vec::new();
    }
    let deeper = after.strip_prefix("::").map(paths).unwrap_or_default();
    if deeper.is_empty() {
        return vec![vec![name]];
    }
    let mut found: Vec<Vec<String>> = deeper
        .into_iter()
        .map(|path| vec![name.clone(), path[0].clone()])
        .collect();
    found.dedup();
    found
}

/// The parts of a group, up to its closing brace.
fn parts(group: &str) -> Vec<String> {
    let mut open = 0usize;
    let mut parts = vec![String::new()];
    for c in group.chars() {
        match c {
            '}' if open == 0 => break,
            '{' => open += 1,
            '}' => open -= 1,
            ',' if open == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

/// `olivine-net` is useful without messaging: it never names the library.
pub(super) fn engine_is_independent(tree: &Tree) -> Rule {
    let mut rule = Rule::new("engine", "files of olivine-net without a word of olivine");
    let base = "crates/olivine-net/";
    for file in tree.rust_under(base) {
        let bad = file
            .rust_lines()
            .find(|(_, line)| has_word(&line.code, "olivine"));
        rule.look(bad.map(|(number, _)| format!("{}:{number}: names `olivine`", file.path)));
    }
    let manifest = format!("{base}Cargo.toml");
    for file in tree.files.iter().filter(|file| file.path == manifest) {
        let bad = file.lines().find(|(_, line)| {
            let key = line
                .split(['=', '.'])
                .next()
                .unwrap_or("")
                .trim()
                .trim_matches('"');
            key == "olivine" || line.trim() == "[dependencies.olivine]"
        });
        rule.look(bad.map(|(number, _)| format!("{}:{number}: depends on olivine", file.path)));
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(files: &[(&str, &str)]) -> Rule {
        core_modules(&Tree::of(files))
    }

    #[test]
    fn an_arrow_to_the_right_is_found() {
        for (path, text) in [
            (
                "crates/olivine/src/region.rs",
                "use crate::channel::Publisher;\n",
            ),
            (
                "crates/olivine/src/wait.rs",
                "use crate::ring::{layout, publish};\n",
            ),
            ("crates/olivine/src/ring/layout.rs", "use super::gate::X;\n"),
            ("crates/olivine/src/ring/layout.rs", "use crate::wait::X;\n"),
            ("crates/olivine/src/segment/map.rs", "use crate::wait::X;\n"),
            (
                "crates/olivine/src/ring/publish.rs",
                "use crate::{\n  sync::fence,\n  liveness::x,\n};\n",
            ),
            (
                "crates/olivine/src/ring/publish.rs",
                "use super::super::channel::A;\n",
            ),
            ("crates/olivine/src/uri.rs", "use crate::error::E;\n"),
            (
                "crates/olivine/src/clock.rs",
                "fn f() { super::sync::fence() }\n",
            ),
            ("crates/olivine/src/wait.rs", "use crate::NotThere;\n"),
            ("crates/olivine/src/unknown.rs", "use crate::sync::fence;\n"),
        ] {
            let rule = core(&[(path, text)]);
            assert_eq!(rule.findings.len(), 1, "{path}: {text} {:?}", rule.findings);
        }
    }

    #[test]
    fn arrows_to_the_left_hold() {
        let rule = core(&[
            (
                "crates/olivine/src/lib.rs",
                "pub use crate::channel::A; use crate::bridge::B;\n",
            ),
            (
                "crates/olivine/src/channel.rs",
                "use crate::{ring::{layout, gate}, wait, liveness};\n",
            ),
            (
                "crates/olivine/src/ring/gate.rs",
                "use super::layout; use crate::sync::fence;\n",
            ),
            (
                "crates/olivine/src/wait.rs",
                "use crate::ring::layout::{self, lane};\n",
            ),
            ("crates/olivine/src/ring.rs", "use crate::wait::wake;\n"),
            (
                "crates/olivine/src/region.rs",
                "mod m { use super::X; }\nfn f() { crate::die!(1) }\n",
            ),
            (
                "crates/olivine/src/sync.rs",
                "//! See [`crate::channel`].\n#[cfg(test)]\nmod tests { use crate::channel::A; }\n",
            ),
        ]);
        assert!(rule.findings.is_empty(), "{:?}", rule.findings);
        assert_eq!(rule.looked, 8);
    }

    #[test]
    fn an_engine_that_names_the_library_is_found() {
        for (path, text) in [
            ("crates/olivine-net/src/a.rs", "use olivine::Publisher;\n"),
            (
                "crates/olivine-net/Cargo.toml",
                "[dependencies]\nolivine.workspace = true\n",
            ),
            (
                "crates/olivine-net/Cargo.toml",
                "[dependencies]\nolivine = \"1\"\n",
            ),
        ] {
            assert_eq!(
                engine_is_independent(&Tree::of(&[(path, text)]))
                    .findings
                    .len(),
                1,
                "{text}"
            );
        }
        let clean = [
            (
                "crates/olivine-net/src/a.rs",
                "//! Part of olivine.\nuse olivine_net::x;\n",
            ),
            (
                "crates/olivine-net/Cargo.toml",
                "[package]\nname = \"olivine-net\"\n",
            ),
        ];
        assert!(engine_is_independent(&Tree::of(&clean)).holds());
    }
}
