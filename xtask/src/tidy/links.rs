//! Links between documents.

use super::{Rule, expanded, regex};
use crate::source::{File, Tree, has_word};

/// Relative links lead somewhere, also to the right heading.
pub(super) fn relative(tree: &Tree) -> Rule {
    let mut rule = Rule::new("links", "relative links in documents");
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (number, target) in links(&file.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            rule.look(
                broken(tree, &file.path, &target)
                    .map(|why| format!("{}:{number}: {target}: {why}", file.path)),
            );
        }
    }
    rule
}

/// Files and folders that the map of the code names exist, and so do names of code.
pub(super) fn files(tree: &Tree) -> Rule {
    let mut rule = Rule::new("files", "names of files and of code in ARCHITECTURE.md");
    let map = tree.file("ARCHITECTURE.md");
    let item = regex(r"^(?:\w+::)*(\w{4,})$");
    for (number, line) in map.into_iter().flat_map(File::lines) {
        // Inline code is every second piece between backquotes.
        let names = line.split('`').skip(1).step_by(2).flat_map(expanded);
        for name in names.filter(|name| !name.contains(' ')) {
            let top = name.split_once('/').map(|(top, _)| top);
            let exists = if top.is_some_and(|top| !top.is_empty() && tree.has(top)) {
                tree.has(name.trim_end_matches('/'))
            } else if name.ends_with(".rs") {
                let end = format!("/{name}");
                let mut paths = tree.files.iter().map(|file| &file.path);
                paths.any(|path| *path == name || path.ends_with(&end))
            } else if let Some(item) = item.captures(&name) {
                let item = &item[1];
                let mut code = tree.files.iter().filter(|file| !file.path.ends_with(".md"));
                code.any(|file| file.text.contains(item) && has_word(&file.text, item))
            } else {
                continue;
            };
            rule.look((!exists).then(|| format!("ARCHITECTURE.md:{number}: there is no '{name}'")));
        }
    }
    rule
}

fn broken(tree: &Tree, from: &str, target: &str) -> Option<String> {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() {
        from.to_owned()
    } else {
        let Some(path) = resolve(from, path) else {
            return Some("leaves the repository".into());
        };
        path
    };
    if !path.is_empty() && !tree.has(&path) {
        return Some("no such file".to_owned());
    }
    let document = tree.file(&path).filter(|_| path.ends_with(".md"))?;
    if heading.is_empty() || headings(&document.text).any(|slug| slug == heading) {
        return None;
    }
    Some("no such heading".to_owned())
}

/// `target` as seen from the folder of `from`; `None` where it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Numbered lines outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// Targets of `[text](target)` outside code, with line numbers.
fn links(text: &str) -> Vec<(usize, String)> {
    let (code, link) = (regex("`[^`]*`"), regex(r"\]\(\s*<?([^)\s>]*)[^)]*\)"));
    let found = prose(text).flat_map(|(number, line)| {
        let line = code.replace_all(line, "");
        let targets = link.captures_iter(&line);
        let targets = targets.map(|target| (number, target[1].to_owned()));
        targets.collect::<Vec<_>>()
    });
    found.collect()
}

/// The anchors a document's headings get.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        let (_, title) = title
            .split_once(' ')
            .filter(|(before, _)| before.is_empty() && title.len() < line.len())?;
        let letters = title.trim().to_lowercase().replace(' ', "-");
        let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_');
        Some(letters.chars().filter(is_kept).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_found() {
        for target in ["gone.md", "../../out.md", "#nowhere", "other.md#nowhere"] {
            let text = format!("# Here\n[x]({target})\n");
            let tree = Tree::of(&[("docs/a.md", &text), ("docs/other.md", "# There\n")]);
            assert_eq!(relative(&tree).findings.len(), 1, "{target}");
        }
    }

    #[test]
    fn what_the_map_names_and_the_code_lacks_is_found() {
        for (map, looked, gone) in [
            ("`a/{one,two}.rs`, `gone.rs`, `fn of.rs`", 3, "gone.rs"),
            (
                "`src/a/`, `src/a/one.rs`, `src/gone/`, `other/gone/`",
                3,
                "src/gone/",
            ),
            ("`src/a/one.rs`, `src/one.rs`", 2, "src/one.rs"),
            (
                "`first`, `One::second`, `One::secon`, `one`",
                3,
                "One::secon",
            ),
        ] {
            let code = "fn first() {}\nfn second() {}\n";
            let tree = Tree::of(&[
                ("ARCHITECTURE.md", map),
                ("src/a/one.rs", code),
                ("src/a/two.rs", ""),
            ]);
            let rule = files(&tree);
            assert_eq!(rule.looked, looked, "{map}");
            let found = format!("ARCHITECTURE.md:1: there is no '{gone}'");
            assert_eq!(rule.findings, [found]);
        }
    }

    #[test]
    fn links_that_lead_somewhere_hold() {
        let text = "# A b, `c`!\n[x](../src/a.rs) [f](../src/) [self](#a-b-c) [o](o.md#there)\n\
                    `[no](link)`\n```text\n[no](link)\n```\n[web](https://example.org/gone)\n";
        let tree = Tree::of(&[
            ("docs/a.md", text),
            ("docs/o.md", "## There\n"),
            ("src/a.rs", ""),
        ]);
        let rule = relative(&tree);
        assert!(rule.findings.is_empty(), "{:?}", rule.findings);
        assert_eq!(rule.looked, 4);
    }
}
