//! Which module of this crate may name which.

use std::fs;
use std::path::{Path, PathBuf};

/// Modules from the ground up. A module may name its own parts and modules of earlier lines, none
/// beside it and none of later lines. The tool names all of them.
const LAYERS: &[&[&str]] = &[
    &[
        "affinity",
        "clock",
        "cpus",
        "pace",
        "participant",
        "payload",
        "protocol",
        "words",
    ],
    &["channel", "kernel", "latency", "method", "spread", "text"],
    &["machine", "worst"],
    &["error"],
    &["load", "privileges"],
    &["result"],
    &["floor"],
    &["run"],
    &["scenario"],
    &["scenario::bridge"],
    &["plan", "servers"],
    &["job"],
    &["selfcheck", "view"],
    &["render", "validate"],
];

/// The longest entry of the table that begins `path`, with its line.
fn entry(path: &[&str]) -> Option<(usize, String)> {
    let names = [path.get(..2), path.get(..1)].into_iter().flatten();
    names.map(|parts| parts.join("::")).find_map(|name| {
        let line = LAYERS
            .iter()
            .position(|line| line.contains(&name.as_str()))?;
        Some((line, name))
    })
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Product code of a file: no comments, no test module at its end.
fn code(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = product.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn modules_name_only_modules_of_layers_below_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut uses, mut wrong) = (0, Vec::new());
    for file in files {
        let inside = file.strip_prefix(&root).unwrap().with_extension("");
        let own: Vec<&str> = inside.iter().map(|part| part.to_str().unwrap()).collect();
        if own == ["lib"] {
            continue;
        }
        let Some((own_layer, own)) = entry(&own) else {
            panic!("{} has no place in LAYERS", file.display());
        };
        let code = code(&fs::read_to_string(&file).unwrap());
        assert!(
            !code.contains("use crate::{"),
            "{}: name one module a use",
            file.display()
        );
        for path in code.split("crate::").skip(1) {
            let path = path.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
            let used: Vec<&str> = path.clone().next().unwrap().split("::").collect();
            uses += 1;
            match entry(&used) {
                Some((_, used)) if used == own => {}
                Some((layer, _)) if layer < own_layer => {}
                Some((_, used)) => wrong.push(format!("`{own}` may not name `{used}`")),
                None => wrong.push(format!("`crate::{}` is not in LAYERS", used.join("::"))),
            }
        }
    }
    assert!(uses > 200, "only {uses} uses were found");
    assert_eq!(wrong, Vec::<String>::new());
}
