//! `olivine completions` and `olivine man`: made from the one definition of the command line.

use crate::args::{Cli, Common, CompletionsArgs, ManArgs};
use crate::failure::{Failure, Outcome};
use crate::output::print;
use clap::CommandFactory;

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs, common: Common) -> Outcome {
    refuse_json(common, "a script for a shell")?;
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "olivine", &mut script);
    print(&String::from_utf8_lossy(&script))
}

fn refuse_json(common: Common, what: &str) -> Outcome {
    if common.json {
        let line = format!("{what} has no form in JSON: leave --json out");
        return Err(Failure::usage(line));
    }
    Ok(())
}

/// Prints a man page.
pub(crate) fn man(args: &ManArgs, common: Common) -> Outcome {
    refuse_json(common, "a page for man")?;
    let mut command = Cli::command();
    command.build();
    let mut name = "olivine".to_owned();
    for word in &args.command {
        let inner = command
            .find_subcommand(word)
            .filter(|inner| !inner.is_hide_set())
            .cloned();
        command = inner.ok_or_else(|| {
            Failure::usage(format!(
                "there is no command '{name} {word}': see 'olivine --help'"
            ))
        })?;
        name = format!("{name} {word}");
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        // A page is called olivine-pub, as git's are.
        .title(name.replace(' ', "-"))
        .render(&mut page)
        .map_err(|error| {
            Failure::Failed(anyhow::Error::new(error).context("cannot write the man page"))
        })?;
    print(&String::from_utf8_lossy(&page))
}
