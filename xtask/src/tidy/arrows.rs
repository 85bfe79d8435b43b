//! Which module may name which.

use super::{CORE, Rule};
use crate::source::{File, Tree, has_word, words};

/// The core's modules, from the ground up. A module may name its own parts and any module in a
/// layer above its own line in this table, never one beside or below it.
const LAYERS: &[&[&str]] = &[
    &["uri", "clock"],
    &["error"],
    &["sync"],
    &["region", "probe"],
    &["segment", "ring", "wait", "fork", "counters"],
    &["liveness"],
    &["message"],
    &["channel"],
    &["admin", "bridge"],
];

/// Arrows the layers forbid and we allow, with the reason.
const EXTRA: &[(&str, &str, &str)] = &[];

/// Modules that may be named from everywhere: macros and the facade's own types live there.
fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// `crate::X` in the core follows the arrows.
pub(super) fn core_modules(tree: &Tree) -> Rule {
    let mut rule = Rule::new("arrows", "uses between the core's modules");
    for file in tree.rust_under(CORE) {
        let path = module_path(&file.path);
        let Some(&own) = path.first() else { continue }; // The facade names everything.
        for (number, used) in uses(file, path.len()) {
            rule.look(judge(own, &used).map(|why| format!("{}:{number}: {why}", file.path)));
        }
    }
    rule
}

fn judge(own: &str, used: &str) -> Option<String> {
    if own == used
        || EXTRA
            .iter()
            .any(|(from, to, _)| *from == own && *to == used)
    {
        return None;
    }
    let Some(own_layer) = layer(own) else {
        return Some(format!(
            "module `{own}` has no place in the table of xtask's arrows.rs"
        ));
    };
    let Some(used_layer) = layer(used) else {
        return Some(format!(
            "`crate::{used}` is not a module of the table; name the module"
        ));
    };
    (used_layer >= own_layer).then(|| format!("`{own}` may not name `{used}`"))
}

/// `ring/publish.rs` is `["ring", "publish"]`, `lib.rs` is empty.
fn module_path(path: &str) -> Vec<&str> {
    let inside = path
        .strip_prefix(CORE)
        .unwrap_or(path)
        .trim_end_matches(".rs");
    let mut parts: Vec<_> = inside.split('/').collect();
    if matches!(parts.last(), Some(&("mod" | "lib" | "main"))) {
        parts.pop();
    }
    parts
}

/// Top-level modules named by product code, with line numbers.
fn uses(file: &File, depth: usize) -> Vec<(usize, String)> {
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
    let rust_depth: Vec<usize> = file.rust_lines().map(|(_, line)| line.depth).collect();
    let line_of = |at: usize| code[..at].matches('\n').count();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        for name in heads(&code[at + "crate::".len()..]) {
            found.push((line_of(at) + 1, name));
        }
    }
    // `super::` chains that climb to the root of the crate.
    let mut at = 0;
    while let Some(start) = code[at..].find("super::").map(|offset| at + offset) {
        let mut end = start;
        let mut climbs = 0;
        while code[end..].starts_with("super::") {
            end += "super::".len();
            climbs += 1;
        }
        at = end;
        let inside = rust_depth.get(line_of(start)).copied().unwrap_or(0);
        if climbs >= depth + inside {
            found.extend(
                heads(&code[end..])
                    .into_iter()
                    .map(|name| (line_of(start) + 1, name)),
            );
        }
    }
    found
}

/// The first names after `crate::`: one, or those of a group. Macros (`name!`) belong to no module.
fn heads(rest: &str) -> Vec<String> {
    let rest = rest.trim_start();
    if let Some(group) = rest.strip_prefix('{') {
        let mut open = 0usize;
        let mut parts = vec![String::new()];
        for c in group.chars() {
            match c {
                '}' if open == 0 => break,
                '{' => open += 1,
                '}' => open -= 1,
                ',' if open == 0 => parts.push(String::new()),
                _ => {}
            }
            if let Some(part) = parts.last_mut() {
                part.push(c);
            }
        }
        return parts
            .iter()
            .filter_map(|part| words(part).next())
            .map(str::to_owned)
            .collect();
    }
    let name: String = rest
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    let is_macro = rest[name.len()..].starts_with('!');
    if name.is_empty() || is_macro {
        Vec::new()
    } else {
        vec![name]
    }
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
            ("crates/olivine/src/ring.rs", "use crate::wait::Strategy;\n"),
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
                "crates/olivine/src/region.rs",
                "mod m { use super::X; }\nfn f() { crate::die!(1) }\n",
            ),
            (
                "crates/olivine/src/sync.rs",
                "//! See [`crate::channel`].\n#[cfg(test)]\nmod tests { use crate::channel::A; }\n",
            ),
        ]);
        assert!(rule.findings.is_empty(), "{:?}", rule.findings);
        assert_eq!(rule.looked, 4);
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
