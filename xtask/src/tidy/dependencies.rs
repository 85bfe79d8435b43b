//! What the crates depend on.

use super::Rule;
use crate::cargo::cargo;
use crate::child;
use anyhow::Result;
use std::collections::BTreeSet;

/// Crates in the core's tree, the core left out: users of the core must trust all of them.
const CRATES_MAX: usize = 15;

/// The core's tree stays small, and the engine, which is useful without messaging, does not need
/// the core.
pub(super) fn trees() -> Result<Rule> {
    let of = |package: &str, edges: &str| {
        let words = format!("tree --locked --package {package} --edges {edges} --prefix none");
        child::output(cargo().args(words.split(' ')))
    };
    Ok(judge(&of("olivine", "normal")?, &of("olivine-net", "all")?))
}

fn judge(core: &str, engine: &str) -> Rule {
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
    use super::*;

    #[test]
    fn large_tree_and_engine_with_core_are_found_and_repeats_count_once() {
        let line = |n: usize| format!("crate{n} v1.0.0 (proc-macro)\ncrate{n} v1.0.0 (*)\n");
        let tree = |count| (0..count).map(line).collect::<String>();
        let most = format!("olivine v0.1.0 (somewhere)\n{}", tree(CRATES_MAX));
        assert!(judge(&most, "").holds());
        assert_eq!(judge(&tree(CRATES_MAX + 1), "").findings.len(), 1);
        assert_eq!(
            judge("", "olivine-net v0.1.0\nolivine v0.1.0")
                .findings
                .len(),
            1
        );
        assert!(!judge("olivine v0.1.0\n", "").holds(), "nothing looked at");
    }
}
