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
use olivine_bench::text;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Bytes of output collected before a write.
const WRITE_BYTES: usize = 256 << 10;

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
    let part = Part::open(&source, &args.part)?;
    let (out, escape): (Box<dyn Write>, bool) = match &args.into {
        Some(path) => (Box::new(create(path)?), false),
        None => {
            if matches!(chosen, ExportForm::Arrow | ExportForm::Mcap) {
                terminal::confirm_binary(word(chosen))?;
            }
            (Box::new(io::stdout().lock()), terminal::is_stdout())
        }
    };
    let out = BufWriter::with_capacity(WRITE_BYTES, out);
    let written = write(part, &stop, args, || writer(chosen, out, escape));
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
                "form": word(chosen),
                "messages": ended.messages,
                "payload_bytes": ended.payload_bytes,
                "complete": ended.is_complete(),
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
fn form(args: &ExportArgs) -> Outcome<ExportForm> {
    if let Some(form) = args.out {
        return Ok(form);
    }
    let Some(path) = &args.into else {
        return Ok(ExportForm::Json);
    };
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => Ok(ExportForm::Csv),
        Some("jsonl" | "ndjson" | "json") => Ok(ExportForm::Json),
        Some("arrow" | "feather" | "ipc") => Ok(ExportForm::Arrow),
        Some("mcap") => Ok(ExportForm::Mcap),
        _ => Err(Failure::usage(format!(
            "the ending of {} names no form: use .csv, .jsonl, .arrow or .mcap, or --out FORM",
            path.display()
        ))),
    }
}

/// Refuses a form whose library this build does not have.
fn check_built(form: ExportForm) -> Outcome {
    let is_built = match form {
        ExportForm::Csv | ExportForm::Json => true,
        ExportForm::Arrow => cfg!(feature = "arrow"),
        ExportForm::Mcap => cfg!(feature = "mcap"),
    };
    if is_built {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--out {0} needs a library that this build does not have: build with the cargo feature \
         '{0}', or use --out csv or json",
        word(form)
    )))
}

fn create(path: &Path) -> Outcome<File> {
    File::create_new(path).map_err(|error| {
        let context = match error.kind() {
            io::ErrorKind::AlreadyExists => format!(
                "{} is there already, and is not overwritten: name another file",
                path.display()
            ),
            _ => format!("cannot create {}", path.display()),
        };
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
