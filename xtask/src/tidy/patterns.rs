//! Rules that are a regular expression: the rows `pattern` of `tidy.toml`.

use super::{LISTS, Rule, rows, texts};
use crate::source::{File, Tree};
use anyhow::{Context as _, Result};
use regex::Regex;
use serde::Deserialize;

/// A row. `tidy.toml` explains the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Pattern {
    name: String,
    places: String,
    files: String,
    except: String,
    part: Part,
    find: String,
    unless: String,
    reason: String,
    above: usize,
    say: String,
    only_warns: bool,
    bad: Vec<String>,
    good: Vec<String>,
}

/// What is searched of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    #[default]
    Text,
    Written,
    Code,
    Product,
    Test,
}

/// All rows.
pub(super) fn all() -> Result<Vec<Pattern>> {
    let patterns = LISTS["pattern"].clone().try_into();
    patterns.context("the patterns of tidy.toml")
}

/// `text` with a list for each `{LIST}`, and with the space between two words for each `{_}`.
fn compiled(text: &str) -> Result<Regex> {
    let mut whole = text.to_owned();
    for list in LISTS.keys() {
        let words = texts(list).chain(rows(list).map(|(name, _)| name));
        let words = words.collect::<Vec<_>>().join("|").replace(' ', "{_}");
        whole = whole.replace(&format!("{{{list}}}"), &words);
    }
    let space = r"[\s_/!#*]+";
    // A border of ASCII words: that of Unicode is slow.
    let whole = whole.replace("{_}", space).replace(r"\b", r"(?-u:\b)");
    Regex::new(&whole).with_context(|| text.to_owned())
}

impl Part {
    /// The part, each line in its place.
    fn of(self, file: &File) -> String {
        let mut is_generated = false;
        let written = file.text.lines().map(|line| {
            if line.starts_with("<!-- ") {
                is_generated = line.ends_with(":start -->");
            }
            (!is_generated, line)
        });
        let code = file.rust_lines().map(|(_, line)| {
            let is_in = self == Self::Code || line.test == (self == Self::Test);
            (is_in, &*line.code)
        });
        let lines: Vec<(bool, &str)> = match self {
            Self::Text => return file.text.clone(),
            Self::Written => written.collect(),
            Self::Code | Self::Product | Self::Test => code.collect(),
        };
        let lines = lines.iter();
        lines
            .flat_map(|(is_in, line)| [if *is_in { line } else { "" }, "\n"])
            .collect()
    }
}

impl Pattern {
    /// Judges each place of `find`. It counts these places if some are right, else the files.
    pub(super) fn rule(&self, tree: &Tree) -> Result<Rule> {
        // An absent field matches nothing.
        let field = |text: &str| {
            if text.is_empty() {
                r"[^\s\S]".to_owned()
            } else {
                text.to_owned()
            }
        };
        let (files, except) = (compiled(&self.files)?, compiled(&field(&self.except))?);
        let (find, reason) = (compiled(&self.find)?, compiled(&self.reason)?);
        let unless = compiled(&format!(r"\A(?:{})", field(&self.unless)))?;
        let counts_places = !(self.unless.is_empty() && self.reason.is_empty());
        let mut rule = Rule::new(&self.name, &self.places);
        let chosen = |file: &&File| files.is_match(&file.path) && !except.is_match(&file.path);
        for file in tree.files.iter().filter(chosen) {
            let text = self.part.of(file);
            rule.looked += usize::from(!counts_places);
            for place in find.find_iter(&text) {
                rule.looked += usize::from(counts_places);
                let number = text[..place.end()].matches('\n').count() + 1;
                if unless.is_match(&text[place.start()..])
                    || !self.reason.is_empty()
                        && reason.is_match(&file.comments(number, self.above))
                {
                    continue;
                }
                let found = place
                    .as_str()
                    .trim()
                    .lines()
                    .next_back()
                    .unwrap_or_default();
                let finding = format!("{}:{number}: {found:.40}: {}", file.path, self.say);
                match self.only_warns {
                    true => rule.warnings.push(finding),
                    false => rule.findings.push(finding),
                }
            }
        }
        Ok(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bad_sample_is_found_and_each_good_one_passes() {
        for pattern in all().unwrap() {
            let judge = |sample: &String| {
                let (path, text) = sample.split_once(": ").expect("PATH: TEXT");
                pattern.rule(&Tree::of(&[(path, text)])).unwrap()
            };
            let is_sampled = !pattern.bad.is_empty() && !pattern.good.is_empty();
            assert!(
                is_sampled || pattern.name.starts_with("l"),
                "{}",
                pattern.name
            );
            for sample in &pattern.bad {
                assert_eq!(
                    judge(sample).findings.len(),
                    1,
                    "{}: {sample}",
                    pattern.name
                );
            }
            for sample in &pattern.good {
                let rule = judge(sample);
                assert!(rule.holds(), "{sample}: {:?}", rule.findings);
            }
        }
    }

    #[test]
    fn a_long_file_is_found_and_a_longish_one_is_warned_about() {
        let patterns = all().unwrap();
        let found = |lines: usize| {
            let tree = Tree::of(&[("a.rs", &"//\n".repeat(lines))]);
            let rules = patterns
                .iter()
                .filter(|pattern| pattern.find.starts_with(r"\A"));
            let rules: Vec<_> = rules.map(|pattern| pattern.rule(&tree).unwrap()).collect();
            let sum = |count: fn(&Rule) -> usize| rules.iter().map(count).sum::<usize>();
            (
                sum(|rule| rule.findings.len()),
                sum(|rule| rule.warnings.len()),
            )
        };
        assert_eq!(
            [600, 601, 800, 801].map(found),
            [(0, 0), (0, 1), (0, 1), (1, 1)]
        );
    }
}
