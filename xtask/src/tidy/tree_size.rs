//! What a user of the core library has to trust: its dependency tree.

use super::Rule;
use crate::cargo::cargo;
use crate::child;
use anyhow::Result;
use std::collections::BTreeSet;

/// Crates in the core's tree, the core left out.
const CRATES_MAX: usize = 15;

/// `cargo tree` of the core stays small.
pub(super) fn core_dependencies() -> Result<Rule> {
    let tree = child::output(cargo().args([
        "tree",
        "--locked",
        "--package",
        "olivine",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ]))?;
    Ok(judge(&tree))
}

fn judge(tree: &str) -> Rule {
    let mut rule = Rule::new("tree", "crates the core depends on");
    // `name v1.2.3 (proc-macro) (*)`: name and version are the crate.
    let crates: BTreeSet<String> = tree
        .lines()
        .map(|line| {
            line.split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .filter(|name| !name.is_empty() && !name.starts_with("olivine v"))
        .collect();
    rule.looked = crates.len();
    if crates.len() > CRATES_MAX {
        let list: Vec<_> = crates.into_iter().collect();
        rule.findings.push(format!(
            "{} crates, at most {CRATES_MAX} are allowed: {}",
            list.len(),
            list.join(", ")
        ));
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_tree_is_found_and_repeats_count_once() {
        let line = |n: usize| format!("crate{n} v1.0.0 (proc-macro)\ncrate{n} v1.0.0 (*)\n");
        let small: String = (0..CRATES_MAX).map(line).collect();
        assert!(judge(&format!("olivine v0.1.0 (somewhere)\n{small}")).holds());
        let large: String = (0..=CRATES_MAX).map(line).collect();
        assert_eq!(judge(&large).findings.len(), 1);
        assert!(!judge("olivine v0.1.0\n").holds(), "nothing looked at");
    }
}
