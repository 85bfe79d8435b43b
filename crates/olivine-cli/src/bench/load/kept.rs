//! Output of server results. Their figures differ from those of channels, so they have their own
//! schema, and fewer formats.

use super::super::files::{self, Form as FileForm};
use super::super::print as show;
use super::super::{Bench, Found};
use super::Form;
use crate::args::{Common, MethodArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{folded, json_line, print as print_text};
use olivine_bench::render;
use olivine_bench::result::ResultFile;
use olivine_bench::view::{Section, view_of};
use serde::Serialize;
use std::path::PathBuf;

/// Name of the JSON format.
const SCHEMA: &str = "olivine-load-1";

/// Refuses formats and privileges that do not fit servers, before anything is started or written.
pub(super) fn refuse_unfit(method: &MethodArgs) -> Outcome {
    files::only(&method.save, &["json", "md"], "figures of servers")?;
    for (asked, option) in [(method.fifo, "--fifo"), (method.mlock, "--mlock")] {
        if asked {
            return Err(Failure::usage(format!(
                "{option} does not go with http and tcp: a server chooses its own threads; \
                 leave it out"
            )));
        }
    }
    Ok(())
}

/// Prints rows of servers with the usual conditions, and writes them to each of `save`. `section`
/// shows them.
pub(super) fn report(
    bench: &Bench,
    save: &[PathBuf],
    common: Common,
    form: Form,
    rows: &impl Serialize,
    section: Section,
) -> Outcome {
    let file = ResultFile {
        schema: SCHEMA.to_owned(),
        ..bench.file(Found::default())
    };
    let view = view_of(bench.name, &file, vec![section]);
    let text = |form| match form {
        Form::Text => folded(&show::text(&view)),
        Form::Markdown => render::markdown(&view),
    };
    let json = json(&file, rows)?;
    // If a file cannot be written, the result is still printed.
    let saved: Outcome = save.iter().try_for_each(|path| {
        let kept = match FileForm::of(path)?.ending {
            "md" => text(Form::Markdown),
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
