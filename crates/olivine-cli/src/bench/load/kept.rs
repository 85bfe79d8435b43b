//! What is printed and kept of servers under load. Their figures are not a channel's, so they have a schema of their own, and
//! only the forms that can show them.

use super::super::files::{self, Form as FileForm};
use super::super::print as show;
use super::super::{Bench, Found};
use super::{Form, print};
use crate::args::{Common, MethodArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{json_line, print as print_text};
use olivine_bench::result::ResultFile;
use serde::Serialize;
use std::path::PathBuf;

/// Names the form of the JSON.
const SCHEMA: &str = "olivine-load-1";

/// Refuses, before anything is started or written, what these figures cannot be kept in or taken under.
pub(super) fn refuse_unfit(method: &MethodArgs) -> Outcome {
    let forms = [FileForm::Json, FileForm::Markdown];
    files::only(&method.save, &forms, "figures of servers", ".json or .md")?;
    for (asked, option) in [(method.fifo, "--fifo"), (method.mlock, "--mlock")] {
        if asked {
            return Err(Failure::usage(format!(
                "{option} does not go with http and tcp: a server runs as it always does, on threads of its own; \
                 leave it out"
            )));
        }
    }
    Ok(())
}

/// Prints rows of servers with the same conditions as every result, and writes them to each of `save`. `tables` gives
/// them as tables in a form.
pub(super) fn report(
    bench: &Bench,
    save: &[PathBuf],
    common: Common,
    form: Form,
    rows: &impl Serialize,
    tables: impl Fn(Form) -> String,
) -> Outcome {
    let file = ResultFile {
        schema: SCHEMA.to_owned(),
        ..bench.file(Found::default())
    };
    let text = |form| {
        let conditions = match form {
            Form::Text => show::conditions(&file),
            Form::Markdown => print::conditions_document(&file),
        };
        tables(form) + &conditions
    };
    let json = json(&file, rows)?;
    // What cannot be written is still printed.
    let saved: Outcome = save.iter().try_for_each(|path| {
        let kept = match FileForm::of(path)? {
            FileForm::Markdown => text(Form::Markdown),
            _ => json.clone(),
        };
        files::store(path, kept.as_bytes())
    });
    if common.json {
        print_text(&json)?;
    } else {
        print_text(&text(form))?;
    }
    saved
}

/// The file with these rows in place of a channel's, as one line.
fn json(file: &ResultFile, rows: &impl Serialize) -> Outcome<String> {
    let failed = |error: serde_json::Error| Failure::Failed(error.into());
    let mut value = serde_json::to_value(file).map_err(failed)?;
    value["results"] = serde_json::to_value(rows).map_err(failed)?;
    json_line(&value)
}
