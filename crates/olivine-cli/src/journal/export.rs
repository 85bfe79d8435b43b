//! `olivine journal export`: messages of a journal in forms of other programs.

#[cfg(feature = "arrow")]
mod arrow;
#[cfg(feature = "mcap")]
mod mcap;
mod rows;

use super::part::{self, Ended, Part, Selected};
use crate::args::Common;
use crate::args::journal::{ExportArgs, ExportForm};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::stop::Stop;
use crate::terminal;
use clap::ValueEnum;
use olivine::journal::JournalError;
use olivine_bench::text;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Bytes of output collected before a write.
const WRITE_BYTES: usize = 256 << 10;

/// What there is to know of a form, beside its writer.
struct FormFacts {
    form: ExportForm,
    /// Endings of files in this form; the first is the common one.
    endings: &'static [&'static str],
    /// Whether a terminal cannot show it.
    is_binary: bool,
    /// Whether this build has the library that it needs.
    is_built: bool,
}

const FORMS: [FormFacts; 4] = [
    FormFacts {
        form: ExportForm::Csv,
        endings: &["csv"],
        is_binary: false,
        is_built: true,
    },
    FormFacts {
        form: ExportForm::Json,
        endings: &["jsonl", "ndjson", "json"],
        is_binary: false,
        is_built: true,
    },
    FormFacts {
        form: ExportForm::Arrow,
        endings: &["arrow", "feather", "ipc"],
        is_binary: true,
        is_built: cfg!(feature = "arrow"),
    },
    FormFacts {
        form: ExportForm::Mcap,
        endings: &["mcap"],
        is_binary: true,
        is_built: cfg!(feature = "mcap"),
    },
];

/// Writes messages in one form.
trait Form {
    /// Writes one message.
    fn write(&mut self, selected: &Selected<'_>) -> anyhow::Result<()>;

    /// Writes what belongs behind the last message, and everything that is collected.
    fn finish(&mut self) -> anyhow::Result<()>;
}

/// Exports.
pub(crate) fn run(args: &ExportArgs, common: Common) -> Outcome {
    let source = super::path_of(&args.file)?;
    let chosen = form(args)?;
    if common.json && args.into.is_none() {
        return Err(Failure::usage(
            "--json prints the counts of an export, and standard output has its messages: name a \
             file for them, or use --out json without --json",
        ));
    }
    check_built(chosen)?;
    let stop = Stop::install()?;
    // First, so that a journal that cannot be read makes no file.
    let part = Part::open(&source, &args.part, &stop)?;
    let (out, escape): (Box<dyn Write>, bool) = match &args.into {
        Some(path) => (Box::new(create(path)?), false),
        None => {
            if chosen.is_binary {
                terminal::confirm_binary(word(chosen.form))?;
            }
            (Box::new(io::stdout().lock()), terminal::is_stdout())
        }
    };
    let out = BufWriter::with_capacity(WRITE_BYTES, out);
    let written = write(part, &stop, args, || writer(chosen.form, out, escape));
    let ended = written.inspect_err(|_| {
        if let Some(path) = &args.into {
            // It was made here. Left behind, it would be in the way of the next try.
            let _ = std::fs::remove_file(path);
        }
    })?;
    if let Some(path) = &args.into {
        if common.json {
            print_json(&json!({
                "path": path,
                "form": word(chosen.form),
                "messages": ended.messages,
                "payload_bytes": ended.payload_bytes,
                "complete": ended.is_complete(),
                "damaged_places": ended.damaged_places,
                "lost_bytes": ended.lost_bytes,
                "problem": ended.problem.as_deref().or(ended.accepted.as_deref()),
            }))?;
        } else {
            print(&format!(
                "exported {} messages ({}) to {}\n",
                text::count(ended.messages),
                text::bytes(ended.payload_bytes),
                path.display()
            ))?;
        }
    }
    ended.conclude("an export", &stop)
}

/// Writes the messages of `part`.
fn write(
    part: Part<'_>,
    stop: &Stop,
    args: &ExportArgs,
    writer: impl FnOnce() -> anyhow::Result<Box<dyn Form>>,
) -> Outcome<Ended> {
    let mut writer = writer().map_err(|error| said(error, args))?;
    let ended = part::read(part, stop, |selected| {
        writer.write(selected).map_err(|error| said(error, args))
    })?;
    writer.finish().map_err(|error| said(error, args))?;
    Ok(ended)
}

fn word(form: ExportForm) -> String {
    let value = form.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The form that was asked for, or that of the file's ending.
fn form(args: &ExportArgs) -> Outcome<&'static FormFacts> {
    let is_asked = |facts: &&FormFacts| match (args.out, &args.into) {
        (Some(form), _) => facts.form == form,
        (None, None) => facts.form == ExportForm::Json,
        (None, Some(path)) => {
            let ending = path.extension().and_then(|ending| ending.to_str());
            ending.is_some_and(|ending| facts.endings.contains(&ending))
        }
    };
    FORMS.iter().find(is_asked).ok_or_else(|| {
        let path = args.into.as_deref().unwrap_or_else(|| Path::new(""));
        let common = FORMS.iter().filter_map(|facts| facts.endings.first());
        let common: Vec<String> = common.map(|ending| format!(".{ending}")).collect();
        Failure::usage(format!(
            "the ending of {} names no form: use {}, or --out FORM",
            path.display(),
            common.join(", ")
        ))
    })
}

/// Refuses a form whose library this build does not have.
fn check_built(facts: &FormFacts) -> Outcome {
    if facts.is_built {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--out {0} needs a library that this build does not have: build with the cargo feature \
         '{0}', or use --out csv or json",
        word(facts.form)
    )))
}

fn create(path: &Path) -> Outcome<File> {
    File::create_new(path).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            let path = path.to_owned();
            return Failure::Failed(JournalError::Exists { path }.into());
        }
        let context = format!("cannot create {}", path.display());
        Failure::Failed(anyhow::Error::new(error).context(context))
    })
}

/// An error of writing.
fn said(error: anyhow::Error, args: &ExportArgs) -> Failure {
    match (&args.into, error.downcast::<io::Error>()) {
        (None, Ok(error)) => Failure::stdout(error),
        (Some(path), Ok(error)) => {
            let context = format!("cannot write to {}", path.display());
            Failure::Failed(anyhow::Error::new(error).context(context))
        }
        (_, Err(error)) => Failure::Failed(error),
    }
}

fn writer<W: Write + 'static>(
    form: ExportForm,
    out: W,
    escape: bool,
) -> anyhow::Result<Box<dyn Form>> {
    match form {
        ExportForm::Csv => Ok(Box::new(rows::Csv::new(out, escape)?)),
        ExportForm::Json => Ok(Box::new(rows::Json::new(out))),
        #[cfg(feature = "arrow")]
        ExportForm::Arrow => Ok(Box::new(arrow::Arrow::new(out)?)),
        #[cfg(feature = "mcap")]
        ExportForm::Mcap => Ok(Box::new(mcap::Mcap::new(out)?)),
        #[cfg(not(all(feature = "arrow", feature = "mcap")))]
        other => Err(anyhow::anyhow!(
            "this build does not have --out {}",
            word(other)
        )),
    }
}
