//! Examples are run, not only built: each must end with success.
//!
//! Directives in the source: `// xtask: run with NAME` starts two examples together; `// xtask:
//! arguments A B` passes arguments.

use crate::cargo::{EVERYTHING, cargo};
use crate::child;
use crate::programs::{self, Program};
use crate::report::Step;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

/// Builds and runs every example of the workspace.
pub(crate) fn run() -> Result<Step> {
    let mut build = cargo();
    build.args(EVERYTHING);
    let examples = programs::build(build, "example")?;
    let mut step = Step::new("programs");
    for group in groups(&examples)? {
        let folder = tempfile::tempdir().context("a folder for the example's channels")?;
        let run = |example: &Program| run_one(example, folder.path());
        let ran: Vec<_> = thread::scope(|scope| {
            let start = |example| (example, scope.spawn(move || run(example)));
            let running: Vec<(&Program, _)> = group.into_iter().map(start).collect();
            let end = running
                .into_iter()
                .map(|(example, thread)| (example, thread.join()));
            end.collect()
        });
        for (example, result) in ran {
            let verdict = result.unwrap_or_else(|_| Err(anyhow::anyhow!("could not be run")));
            match &verdict {
                Ok(()) => println!("ok    {}", example.name),
                Err(error) => println!("FAIL  {}: {error:#}", example.name),
            }
            step.count(verdict.is_ok());
        }
    }
    Ok(step)
}

fn run_one(example: &Program, folder: &Path) -> Result<()> {
    let words = directive(example, "arguments")?.unwrap_or_default();
    let mut command = Command::new(&example.path);
    command.args(words.split_whitespace()).current_dir(folder);
    child::said(command.env("OLIVINE_DIR", folder), 4)?;
    Ok(())
}

/// The text after `// xtask: NAME`.
fn directive(example: &Program, name: &str) -> Result<Option<String>> {
    let source = fs::read_to_string(&example.source).context(example.name.clone())?;
    let mark = format!("// xtask: {name} ");
    let found = source
        .lines()
        .find_map(|line| line.trim().strip_prefix(&mark));
    Ok(found.map(|words| words.trim().to_owned()))
}

/// Examples that run together.
fn groups(examples: &[Program]) -> Result<Vec<Vec<&Program>>> {
    let (mut groups, mut partners) = (Vec::new(), Vec::new());
    for example in examples {
        let mut group = vec![example];
        if let Some(with) = directive(example, "run with")? {
            let partner = examples.iter().find(|other| other.target() == with);
            let partner = partner.with_context(|| format!("{}: no {with}", example.name))?;
            group.push(partner);
            partners.push(partner);
        }
        groups.push(group);
    }
    groups.retain(|group| group.len() > 1 || !partners.contains(&group[0]));
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example of that name whose program is `sh`, with this directive.
    fn example(folder: &Path, name: &str, directive: &str) -> Program {
        let source = folder.join(name);
        fs::write(&source, format!("//! Doc.\n// xtask: {directive}\n")).unwrap();
        Program {
            name: format!("p {name}"),
            source,
            ..Program::at("sh".as_ref(), folder)
        }
    }

    #[test]
    fn partners_run_together_and_missing_ones_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let example = |name, directive| example(folder.path(), name, directive);
        let mut all = vec![example("alone", ""), example("publish", "")];
        all.push(example("subscribe", "run with publish"));
        let found = groups(&all).unwrap();
        assert_eq!(found, [vec![&all[0]], vec![&all[2], &all[1]]]);
        assert!(groups(&all[2..]).is_err());
    }

    #[test]
    fn example_gets_arguments_and_reports_failure() {
        let folder = tempfile::tempdir().unwrap();
        let run = |words| run_one(&example(folder.path(), "a", words), folder.path());
        assert!(run("arguments -c true").is_ok());
        assert!(run("arguments -c false").is_err());
    }
}
