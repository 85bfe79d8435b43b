//! A checker of OpenMetrics 1.0 and of the Prometheus text format 0.0.4, as strict as the standard
//! for what is written here.
#![allow(dead_code, reason = "each user has its part")]

use std::collections::{BTreeMap, BTreeSet};

/// What a text has.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Values by name and labels.
    samples: BTreeMap<(String, BTreeMap<String, String>), f64>,
    /// Types by the name in `# TYPE`.
    pub(crate) types: BTreeMap<String, String>,
}

impl Found {
    /// The value of the sample with exactly these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter();
        let labels = labels.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.samples
            .get(&(name.to_owned(), labels.collect()))
            .copied()
    }

    /// Names of the samples.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.samples.keys().map(|(name, _)| &**name).collect()
    }
}

/// A family while its lines come.
#[derive(Debug)]
struct Current {
    name: String,
    kind: Option<String>,
    has_help: bool,
    has_unit: bool,
    has_samples: bool,
}

/// Reads a whole text. `is_open`: as OpenMetrics.
pub(crate) fn check(text: &str, is_open: bool) -> Result<Found, String> {
    let mut found = Found::default();
    let body = text.strip_suffix("# EOF\n");
    let body = body.ok_or("the last line is not '# EOF'")?;
    if !body.is_empty() && !body.ends_with('\n') {
        return Err("a line does not end".to_owned());
    }
    let mut current: Option<Current> = None;
    let mut ended = BTreeSet::new();
    for line in body.lines() {
        let refused = |reason: &str| Err(format!("{reason}: {line}"));
        if line.is_empty() || line != line.trim() || line.contains('\r') {
            return refused("an empty line or spaces around it");
        }
        if let Some(comment) = line.strip_prefix("# ") {
            let (keyword, rest) = comment.split_once(' ').unwrap_or((comment, ""));
            let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
            if !is_name(name) {
                return refused("not a name");
            }
            if current.as_ref().is_none_or(|family| family.name != name) {
                if let Some(before) = current.take() {
                    ended.insert(before.name);
                }
                if ended.contains(name) {
                    return refused("a family in two parts");
                }
                current = Some(Current {
                    name: name.to_owned(),
                    kind: None,
                    has_help: false,
                    has_unit: false,
                    has_samples: false,
                });
            }
            let Some(family) = &mut current else {
                return refused("no family");
            };
            if family.has_samples {
                return refused("metadata behind samples");
            }
            match keyword {
                "HELP" if !family.has_help && !value.is_empty() => family.has_help = true,
                "TYPE" if family.kind.is_none() => {
                    let kinds: &[&str] = match is_open {
                        true => &["counter", "gauge", "info"],
                        false => &["counter", "gauge"],
                    };
                    if !kinds.contains(&value) {
                        return refused("not a type");
                    }
                    family.kind = Some(value.to_owned());
                    found.types.insert(name.to_owned(), value.to_owned());
                }
                "UNIT" if is_open && !family.has_unit => {
                    if !name.ends_with(&format!("_{value}")) {
                        return refused("a unit that does not end the name");
                    }
                    family.has_unit = true;
                }
                _ => return refused("not a line of metadata, or a second one"),
            }
            continue;
        }
        let Some(family) = &mut current else {
            return refused("a sample before its family");
        };
        let (Some(kind), true) = (&family.kind, family.has_help) else {
            return refused("a sample without type or help");
        };
        let (name, labels, value) = sample(line)?;
        let suffix = match (kind.as_str(), is_open) {
            ("counter", true) => "_total",
            ("info", _) => "_info",
            _ => "",
        };
        if name != format!("{}{suffix}", family.name) {
            return refused("a sample of another family");
        }
        if kind == "counter" && (value < 0.0 || !name.ends_with("_total")) {
            return refused("a counter below 0 or without _total");
        }
        if kind == "info" && value != 1.0 {
            return refused("an info that is not 1");
        }
        family.has_samples = true;
        if found.samples.insert((name, labels), value).is_some() {
            return refused("a sample twice");
        }
    }
    Ok(found)
}

fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Name, labels and value of a line.
fn sample(line: &str) -> Result<(String, BTreeMap<String, String>, f64), String> {
    let refused = |reason: &str| format!("{reason}: {line}");
    let end = line.find(['{', ' ']).ok_or_else(|| refused("no value"))?;
    let (name, rest) = line.split_at(end);
    if !is_name(name) {
        return Err(refused("not a name"));
    }
    let mut labels = BTreeMap::new();
    let mut rest = match rest.strip_prefix('{') {
        None => rest,
        Some(mut rest) => loop {
            let (label, behind) = rest.split_once("=\"").ok_or_else(|| refused("no label"))?;
            if !is_name(label) {
                return Err(refused("not the name of a label"));
            }
            let (value, tail) = quoted(behind).ok_or_else(|| refused("no end of a value"))?;
            if labels.insert(label.to_owned(), value).is_some() {
                return Err(refused("a label twice"));
            }
            match tail.split_at_checked(1) {
                Some((",", next)) => rest = next,
                Some(("}", next)) => break next,
                _ => return Err(refused("no end of the labels")),
            }
        },
    };
    rest = rest.strip_prefix(' ').ok_or_else(|| refused("no space"))?;
    let value = rest.parse::<f64>().map_err(|_| refused("not a number"))?;
    Ok((name.to_owned(), labels, value))
}

/// A value up to its quotation mark, without its escapes, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                other @ ('"' | '\\') => other,
                _ => return None,
            }),
            other => value.push(other),
        }
    }
    None
}

#[test]
fn wrong_texts_are_refused() {
    let good =
        "# HELP a_b Help.\n# TYPE a_b counter\n# UNIT a_b b\na_b_total{c=\"d\\\"\\n\"} 1\n# EOF\n";
    assert_eq!(
        check(good, true)
            .unwrap()
            .value("a_b_total", &[("c", "d\"\n")]),
        Some(1.0)
    );
    let changes = [
        ("# EOF\n", ""),
        ("# EOF\n", "# EOF"),
        ("_total", ""),
        ("} 1", "} -1"),
        ("} 1", "} x"),
        ("} 1", "}1"),
        ("} 1", "} 1 "),
        ("# TYPE a_b counter\n", ""),
        ("# HELP a_b Help.\n", ""),
        ("counter", "histogram"),
        ("# UNIT a_b b", "# UNIT a_b c"),
        ("\\n\"", "\\x\""),
        ("\\n\"", "\\n"),
        ("# UNIT a_b b\n", "\n"),
        ("{c=", "{c c="),
        ("# EOF\n", "a_b_total{c=\"d\\\"\\n\"} 2\n# EOF\n"),
        (
            "# EOF\n",
            "# HELP x X.\n# TYPE x gauge\nx 1\n# HELP a_b X.\n# EOF\n",
        ),
    ];
    for (old, new) in changes {
        let bad = good.replacen(old, new, 1);
        assert!(check(&bad, true).is_err(), "{bad}");
    }
}
