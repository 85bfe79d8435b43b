//! The dependency tree that users of the core library must trust.

use super::Rule;
use crate::cargo::cargo;
use crate::child;
use anyhow::Result;
use std::collections::BTreeSet;

/// Crates in the core's tree, the core left out.
const CRATES_MAX: usize = 15;

/// `cargo tree` of the core stays small.
pub(super) fn core_dependencies() -> Result<Rule> {
    let words = "tree --locked --package olivine --edges normal --prefix none";
    Ok(judge(&child::output(cargo().args(words.split(' ')))?))
}

fn judge(tree: &str) -> Rule {
    let mut rule = Rule::new("tree", "crates the core depends on");
    // `name v1.2.3 (proc-macro) (*)`: name and version are the crate.
    let crates = tree
        .lines()
        .map(|line| line.splitn(3, ' ').take(2).collect::<Vec<_>>());
    let mut crates: BTreeSet<_> = crates.map(|words| words.join(" ")).collect();
    crates.retain(|name| !name.is_empty() && !name.starts_with("olivine v"));
    rule.looked = crates.len();
    if crates.len() > CRATES_MAX {
        let count = crates.len();
        let list = crates.into_iter().collect::<Vec<_>>().join(", ");
        let problem = format!("{count} crates, at most {CRATES_MAX} are allowed: {list}");
        rule.findings.push(problem);
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_tree_is_found_and_repeats_count_once() {
        let line = |n: usize| format!("crate{n} v1.0.0 (proc-macro)\ncrate{n} v1.0.0 (*)\n");
        let tree = |count| (0..count).map(line).collect::<String>();
        assert!(judge(&format!("olivine v0.1.0 (somewhere)\n{}", tree(CRATES_MAX))).holds());
        assert_eq!(judge(&tree(CRATES_MAX + 1)).findings.len(), 1);
        assert!(!judge("olivine v0.1.0\n").holds(), "nothing looked at");
    }
}
