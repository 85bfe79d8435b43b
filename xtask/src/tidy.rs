//! Rules that are checked on the text of the repository.
//!
//! Each rule reports how many places it checked and fails at zero: otherwise a rule whose subject
//! was renamed would always pass.

mod arrows;
mod claims;
mod danger;
mod edges;
mod links;
mod names;
mod text;
mod tree_size;
mod wording;

use crate::cargo::root;
use crate::report::Step;
use crate::source::{File, Tree};
use anyhow::Result;

pub(crate) use edges::mutants;

/// Source folder of the core library.
pub(crate) const CORE: &str = "crates/olivine/src/";

/// Result of a rule.
#[derive(Debug)]
pub(crate) struct Rule {
    name: &'static str,
    /// The checked unit: `uses of crate::`, `links`.
    places: &'static str,
    looked: usize,
    findings: Vec<String>,
    warnings: Vec<String>,
}

impl Rule {
    fn new(name: &'static str, places: &'static str) -> Self {
        Self {
            name,
            places,
            looked: 0,
            findings: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Checks one place; `problem` is `Some` if it breaks the rule.
    fn look(&mut self, problem: Option<String>) {
        self.looked += 1;
        self.findings.extend(problem);
    }

    /// Checks each of `files`; `find` returns the first line that breaks the rule, and why.
    fn files<'a>(
        mut self,
        files: impl Iterator<Item = &'a File>,
        find: impl Fn(&File) -> Option<(usize, String)>,
    ) -> Self {
        for file in files {
            self.look(find(file).map(|(number, why)| format!("{}:{number}: {why}", file.path)));
        }
        self
    }

    fn holds(&self) -> bool {
        self.looked > 0 && self.findings.is_empty()
    }

    fn print(&self) {
        let verdict = if self.holds() { "ok" } else { "FAIL" };
        println!(
            "{verdict:<4}  {:<12} {:>6} {}",
            self.name, self.looked, self.places
        );
        for warning in &self.warnings {
            println!("      warning: {warning}");
        }
        for finding in &self.findings {
            println!("      {finding}");
        }
        if self.looked == 0 {
            println!("      looked at nothing: the rule has lost its subject");
        }
    }
}

/// Runs every rule on the repository.
pub(crate) fn run() -> Result<Step> {
    let tree = Tree::read(root())?;
    let mut rules = rules(&tree);
    rules.push(tree_size::core_dependencies()?);
    let mut step = Step::new("rules");
    for rule in &rules {
        rule.print();
        step.count(rule.holds());
    }
    let looked: usize = rules.iter().map(|rule| rule.looked).sum();
    step.note = format!("{looked} places in {} files", tree.files.len());
    Ok(step)
}

fn rules(tree: &Tree) -> Vec<Rule> {
    vec![
        arrows::core_modules(tree),
        arrows::engine_is_independent(tree),
        claims::have_tests(tree),
        danger::atomics(tree),
        danger::allow_list(tree),
        danger::safety_comments(tree),
        danger::sequential_consistency(tree),
        edges::labels(tree),
        edges::have_mutants(tree),
        names::public(tree),
        wording::long_lines(tree),
        wording::riddles(tree),
        wording::private_names(tree),
        text::length(tree),
        text::unfinished(tree),
        text::machine_paths(tree),
        text::tests(tree),
        links::relative(tree),
    ]
}

/// Each of `faults` breaks `rule` in one place, each of `fine` passes: `PATH: TEXT`, below `base`.
#[cfg(test)]
fn planted<S: AsRef<str>>(rule: fn(&Tree) -> Rule, base: &str, faults: &[S], fine: &[S]) {
    let judge = |sample: &str| {
        let (path, text) = sample.split_once(": ").expect("PATH: TEXT");
        rule(&Tree::of(&[(&format!("{base}{path}"), text)]))
    };
    for fault in faults.iter().map(AsRef::as_ref) {
        assert_eq!(judge(fault).findings.len(), 1, "{fault}");
    }
    for fine in fine.iter().map(AsRef::as_ref) {
        let rule = judge(fine);
        assert!(rule.holds(), "{fine}: {:?}", rule.findings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On an empty tree every rule has lost its subject, and must fail.
    #[test]
    fn every_rule_fails_when_it_looked_at_nothing() {
        let rules = rules(&Tree::of(&[]));
        assert!(rules.len() >= 15);
        for rule in rules {
            assert!(!rule.holds(), "{} holds on nothing", rule.name);
        }
    }
}
