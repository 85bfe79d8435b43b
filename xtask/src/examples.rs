//! Examples are run, not only built: each must end by itself with success.
//!
//! An example that needs another one says so in its source: `// xtask: run with NAME` starts both
//! together; `// xtask: arguments A B` hands it arguments.

use crate::cargo::{EVERYTHING, TestOutput, at_most, cargo, plural};
use crate::child::{self, Line};
use crate::report::Step;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

const BUILD_LIMIT: Duration = Duration::from_secs(900);
const RUN_LIMIT: Duration = Duration::from_secs(240);

#[derive(Clone, Debug, Default)]
struct Example {
    program: PathBuf,
    arguments: Vec<String>,
    /// Another example that must run at the same time.
    with: Option<String>,
}

/// Builds and runs every example of the workspace.
pub(crate) fn run() -> Result<Step> {
    let examples = build()?;
    let mut step = Step::new("examples", "programs");
    for group in groups(&examples)? {
        let folder = tempfile::tempdir().context("a folder for the example's channels")?;
        let ran: Vec<_> = thread::scope(|scope| {
            let running: Vec<_> = group
                .iter()
                .map(|name| {
                    (
                        *name,
                        scope.spawn(|| run_one(&examples[*name], folder.path())),
                    )
                })
                .collect();
            running
                .into_iter()
                .map(|(name, thread)| (name, thread.join()))
                .collect()
        });
        for (name, result) in ran {
            let verdict = result.unwrap_or_else(|_| bail!("could not be run"));
            match &verdict {
                Ok(()) => println!("ok    {name}"),
                Err(error) => println!("FAIL  {name}: {error:#}"),
            }
            step.count(verdict.is_ok());
        }
    }
    Ok(step)
}

fn run_one(example: &Example, folder: &Path) -> Result<()> {
    let mut command = Command::new(&example.program);
    command
        .args(&example.arguments)
        .env("OLIVINE_DIR", folder)
        .current_dir(folder);
    let (outcome, text) = child::capture(&mut command, at_most(RUN_LIMIT))?;
    anyhow::ensure!(outcome.success(), "{}\n{text}", outcome.words());
    Ok(())
}

fn build() -> Result<BTreeMap<String, Example>> {
    let mut command = cargo();
    command.args(EVERYTHING);
    command.arg("--message-format=json-render-diagnostics");
    let mut examples = BTreeMap::new();
    let mut output = TestOutput::default();
    let outcome = child::stream(&mut command, at_most(BUILD_LIMIT), |line| {
        if line.starts_with('{') {
            examples.extend(built(line));
            return Line::Hide;
        }
        output.line(line)
    })?;
    anyhow::ensure!(
        outcome.success(),
        "the examples do not build: {}",
        outcome.words()
    );
    println!("built {}", plural(examples.len(), "example"));
    Ok(examples)
}

/// The example named in one line of cargo's messages.
fn built(message: &str) -> Option<(String, Example)> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let target = message.get("target")?;
    let kinds = target.get("kind")?.as_array()?;
    if !kinds.iter().any(|kind| kind == "example") {
        return None;
    }
    let name = target.get("name")?.as_str()?.to_owned();
    let source = fs::read_to_string(target.get("src_path")?.as_str()?).ok()?;
    let program = message.get("executable")?.as_str()?.into();
    Some((
        name,
        Example {
            program,
            ..directives(&source)
        },
    ))
}

fn directives(source: &str) -> Example {
    let mut example = Example::default();
    for line in source.lines() {
        let Some(directive) = line.trim().strip_prefix("// xtask: ") else {
            continue;
        };
        if let Some(name) = directive.strip_prefix("run with ") {
            example.with = Some(name.trim().to_owned());
        } else if let Some(arguments) = directive.strip_prefix("arguments ") {
            example.arguments = arguments.split_whitespace().map(str::to_owned).collect();
        }
    }
    example
}

/// Which examples run together.
fn groups(examples: &BTreeMap<String, Example>) -> Result<Vec<Vec<&str>>> {
    let partner = |name: &str| examples.values().any(|e| e.with.as_deref() == Some(name));
    let mut groups = Vec::new();
    for (name, example) in examples {
        match &example.with {
            Some(with) => {
                let Some((with, _)) = examples.get_key_value(with) else {
                    bail!("example {name} is to run with {with}, which does not exist");
                };
                groups.push(vec![name.as_str(), with.as_str()]);
            }
            None if partner(name) => {}
            None => groups.push(vec![name.as_str()]),
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples(list: &[(&str, Option<&str>)]) -> BTreeMap<String, Example> {
        let example = |with: Option<&str>| Example {
            with: with.map(str::to_owned),
            ..Example::default()
        };
        list.iter()
            .map(|(name, with)| ((*name).to_owned(), example(*with)))
            .collect()
    }

    #[test]
    fn partners_run_together_and_once() {
        let all = examples(&[
            ("alone", None),
            ("publish", None),
            ("subscribe", Some("publish")),
        ]);
        assert_eq!(
            groups(&all).unwrap(),
            [vec!["alone"], vec!["subscribe", "publish"]]
        );
    }

    #[test]
    fn a_partner_that_does_not_exist_is_an_error() {
        assert!(groups(&examples(&[("subscribe", Some("publish"))])).is_err());
    }

    #[test]
    fn an_example_that_fails_is_not_run_well() {
        let example = |program: &str| Example {
            program: program.into(),
            ..Example::default()
        };
        let folder = tempfile::tempdir().unwrap();
        assert!(run_one(&example("true"), folder.path()).is_ok());
        assert!(run_one(&example("false"), folder.path()).is_err());
    }

    #[test]
    fn directives_are_read_from_the_source() {
        let example = directives("//! Doc.\n// xtask: run with publish\n// xtask: arguments a 3\n");
        assert_eq!(example.with.as_deref(), Some("publish"));
        assert_eq!(example.arguments, ["a", "3"]);
    }
}
