//! Rules that are checked on the text of the repository.
//!
//! Each rule reports how many places it checked and fails at zero: otherwise a rule whose subject
//! was renamed would always pass.

mod arrows;
mod claims;
mod danger;
mod edges;
mod links;
mod patterns;
mod wording;

use crate::cargo::root;
use crate::report::Step;
use crate::source::{File, Tree};
use anyhow::Result;
use regex::Regex;
use std::sync::LazyLock;

pub(crate) use edges::mutants;

/// Source folder of the core library.
pub(crate) const CORE: &str = "crates/olivine/src/";

/// The lists of the rules.
static LISTS: LazyLock<toml::Table> = LazyLock::new(|| {
    let lists = include_str!("../tidy.toml");
    lists
        .parse()
        .expect("tidy.toml has a form that a test reads")
});

/// The texts of a list.
fn texts(list: &str) -> impl Iterator<Item = &'static str> + use<> {
    let texts = LISTS[list].as_array().into_iter().flatten();
    texts.filter_map(toml::Value::as_str)
}

/// The rows of a table: names, and what is said of each.
fn rows(table: &str) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
    let rows = LISTS[table].as_table().into_iter().flatten();
    rows.filter_map(|(name, text)| Some((name.as_str(), text.as_str()?)))
}

/// Number of mutants with a model that is known to reject them.
#[cfg(test)]
pub(crate) fn known_killers() -> usize {
    rows("killed_by").count()
}

/// The model that is known to reject a mutant.
pub(crate) fn known_killer(mutant: &str) -> Option<String> {
    let mut rows = rows("killed_by");
    let (_, test) = rows.find(|(name, _)| *name == mutant)?;
    Some(format!("ring::model::{test}"))
}

/// A regular expression of this program.
fn regex(text: &str) -> Regex {
    Regex::new(text).expect("a test of the rule compiles it")
}

/// Result of a rule.
#[derive(Debug)]
pub(crate) struct Rule {
    name: String,
    /// The checked unit: `uses of crate::`, `links`.
    places: String,
    looked: usize,
    findings: Vec<String>,
    warnings: Vec<String>,
}

impl Rule {
    fn new(name: &str, places: &str) -> Self {
        Self {
            name: name.to_owned(),
            places: places.to_owned(),
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
    let mut rules = rules(&tree)?;
    rules.push(arrows::trees()?);
    let mut step = Step::new("rules");
    for rule in &rules {
        rule.print();
        step.count(rule.holds());
    }
    let looked: usize = rules.iter().map(|rule| rule.looked).sum();
    step.note = format!("{looked} places in {} files", tree.files.len());
    Ok(step)
}

fn rules(tree: &Tree) -> Result<Vec<Rule>> {
    let mut rules = vec![
        arrows::core_modules(tree),
        claims::have_tests(tree),
        claims::changes_have_tests(tree),
        danger::allow_list(tree),
        edges::labels(tree),
        edges::have_mutants(tree),
        wording::public_names(tree),
        links::relative(tree),
        links::files(tree),
    ];
    for pattern in patterns::all()? {
        rules.push(pattern.rule(tree)?);
    }
    Ok(rules)
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn expanded(name: &str) -> Vec<String> {
    let (before, rest) = name.split_once('{').unwrap_or((name, "}"));
    let (choices, after) = rest.split_once('}').unwrap_or((rest, ""));
    let path = |choice: &str| format!("{before}{choice}{after}");
    choices.split(',').map(path).collect()
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

    #[test]
    fn every_row_of_the_lists_is_a_text() {
        assert!(LISTS.len() >= 8, "{LISTS:?}");
        for (name, list) in LISTS.iter().filter(|(name, _)| *name != "pattern") {
            let length = list.as_array().map(Vec::len);
            let length = length.or_else(|| list.as_table().map(toml::Table::len));
            assert_eq!(
                length,
                Some(texts(name).count() + rows(name).count()),
                "{name}"
            );
        }
    }

    /// On an empty tree every rule has lost its subject, and must fail.
    #[test]
    fn every_rule_fails_when_it_looked_at_nothing() {
        let rules = rules(&Tree::of(&[])).unwrap();
        assert!(rules.len() >= 20);
        for rule in rules {
            assert!(!rule.holds(), "{} holds on nothing", rule.name);
        }
    }
}
