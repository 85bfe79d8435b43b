//! `olivine completions` and `olivine man`: generated from the definition of the command line.

use crate::args::{Cli, Common, CompletionsArgs, ManArgs};
use crate::failure::{Failure, Outcome};
use crate::output::print;
use clap::CommandFactory;
use std::io::{self, Write};

/// The variable by which a completion script asks for candidates. A more common name could be set
/// for another program.
pub(crate) const COMPLETE: &str = "OLIVINE_COMPLETE";

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs, common: Common) -> Outcome {
    refuse_json(common, "a script for a shell")?;
    let shells = clap_complete::env::Shells::builtins();
    let shell = args.shell.to_string();
    let shell = shells
        .completer(&shell)
        .ok_or_else(|| Failure::usage(format!("there are no completions for {shell}")))?;
    let mut script = Vec::new();
    shell
        .write_registration(COMPLETE, "olivine", "olivine", "olivine", &mut script)
        .map_err(|error| Failure::Failed(error.into()))?;
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
    let page = page(command, &name).map_err(|error| {
        Failure::Failed(anyhow::Error::new(error).context("cannot write the man page"))
    })?;
    print(&String::from_utf8_lossy(&page))
}

/// The man page of a command. Usage and examples look as in help.
fn page(mut command: clap::Command, name: &str) -> io::Result<Vec<u8>> {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let examples = command.get_after_help().map(ToString::to_string);
    let has_commands = command.has_subcommands();
    let man = clap_mangen::Man::new(command)
        // Named olivine-pub, like git's pages.
        .title(name.replace(' ', "-"))
        .source(concat!("olivine ", env!("CARGO_PKG_VERSION")))
        .manual("Olivine");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    writeln!(page, ".SH SYNOPSIS\n.nf\n{}.fi", verbatim(&usage))?;
    man.render_description_section(&mut page)?;
    if let Some(examples) = examples {
        writeln!(
            page,
            ".SH EXAMPLES\n.nf\n{}.fi",
            verbatim(examples.trim_start_matches("Examples:\n"))
        )?;
    }
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    Ok(page)
}

/// Lines that roff prints unchanged.
fn verbatim(text: &str) -> String {
    let line = |line: &str| {
        let line = line
            .replace('\\', "\\e")
            .replace('-', "\\-")
            .replace('\'', "\\(aq");
        // A line must not begin with a roff request.
        let guard = if line.starts_with('.') { "\\&" } else { "" };
        format!("{guard}{line}\n")
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roff_requests_are_printed_verbatim() {
        assert_eq!(
            verbatim(".fi\n  a 'b' \\--x"),
            "\\&.fi\n  a \\(aqb\\(aq \\e\\-\\-x\n"
        );
    }
}
