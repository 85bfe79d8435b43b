//! Result files: written in addition to the output, and read for comparisons and reports.

use crate::failure::{Failure, Outcome};
use olivine_bench::render;
use olivine_bench::result::file::FileError;
use olivine_bench::result::{ResultFile, export};
use olivine_bench::view::{Source, view};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Format of a file, by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Csv,
    HistogramLog,
    Html,
    Markdown,
}

impl Form {
    /// The format for the extension of `path`.
    pub(super) fn of(path: &Path) -> Outcome<Self> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("json") => Ok(Self::Json),
            Some("csv") => Ok(Self::Csv),
            Some("hlog") => Ok(Self::HistogramLog),
            Some("html") => Ok(Self::Html),
            Some("md") => Ok(Self::Markdown),
            _ => Err(Failure::usage(format!(
                "{} has no ending that says what to write: use .json, .csv, .hlog, .html or .md",
                path.display()
            ))),
        }
    }
}

/// Checks before the measurement that each path can be written, and has a known format.
pub(super) fn check(paths: &[PathBuf]) -> Outcome {
    for path in paths {
        Form::of(path)?;
        // Opened for appending: old content stays until there is a new result.
        let opened = fs::File::options().create(true).append(true).open(path);
        opened.map_err(|source| cannot_write(path, source))?;
    }
    Ok(())
}

/// Refuses a path whose format cannot hold `what`; `endings` names the valid ones.
pub(super) fn only(paths: &[PathBuf], forms: &[Form], what: &str, endings: &str) -> Outcome {
    for path in paths {
        if !forms.contains(&Form::of(path)?) {
            return Err(Failure::usage(format!(
                "--save {} cannot hold {what}: name a file that ends in {endings}",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Writes `file` to each path, in the format of its extension.
pub(super) fn save(file: &ResultFile, paths: &[PathBuf]) -> Outcome {
    for path in paths {
        let source = || Source {
            name: name_of(path),
            file: file.clone(),
        };
        write(path, &[source()])?;
    }
    Ok(())
}

/// Refuses a path whose ending names no form that takes so many result files.
pub(super) fn check_form(path: &Path, count: usize) -> Outcome<Form> {
    let form = Form::of(path)?;
    if count > 1 && !matches!(form, Form::Html | Form::Markdown) {
        return Err(Failure::usage(format!(
            "{} takes one result file; only .html and .md take several",
            path.display()
        )));
    }
    Ok(form)
}

/// Writes `sources` to `path`, in the form of its ending. Only a page and Markdown take several.
pub(super) fn write(path: &Path, sources: &[Source]) -> Outcome {
    let text = match (check_form(path, sources.len())?, sources) {
        (Form::Html, sources) => {
            let page = render::html(&view(sources));
            page.map_err(|error| Failure::Failed(error.into()))?
                .into_bytes()
        }
        (Form::Markdown, sources) => render::markdown(&view(sources)).into_bytes(),
        (form, [Source { file, .. }, ..]) => one(form, file)?,
        (_, []) => Vec::new(),
    };
    store(path, &text)
}

/// Writes one complete file.
pub(super) fn store(path: &Path, bytes: &[u8]) -> Outcome {
    let written = fs::File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        out.write_all(bytes)?;
        out.flush()
    });
    written.map_err(|source| cannot_write(path, source))
}

fn one(form: Form, file: &ResultFile) -> Outcome<Vec<u8>> {
    Ok(match form {
        Form::Csv => export::csv(file).into_bytes(),
        Form::HistogramLog => {
            let mut out = Vec::new();
            let written = export::hlog(file, &mut out);
            written.map_err(|error| {
                Failure::Failed(anyhow::Error::new(error).context("cannot write the histograms"))
            })?;
            out
        }
        Form::Json | Form::Html | Form::Markdown => crate::output::json_line(file)?.into_bytes(),
    })
}

/// Reads result files; each is named by its path without folder and extension.
pub(super) fn read(paths: &[PathBuf]) -> Outcome<Vec<Source>> {
    let source = |path: &PathBuf| {
        let file = ResultFile::read(path).map_err(|error| Failure::Failed(error.into()))?;
        let name = name_of(path);
        Ok(Source { name, file })
    };
    paths.iter().map(source).collect()
}

fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    stem.to_string_lossy().into_owned()
}

fn cannot_write(path: &Path, source: io::Error) -> Failure {
    let path = path.to_path_buf();
    Failure::Failed(FileError::Write { path, source }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_selects_the_format() {
        assert_eq!(Form::of(Path::new("a/b.json")).unwrap(), Form::Json);
        assert_eq!(Form::of(Path::new("b.hlog")).unwrap(), Form::HistogramLog);
        for bad in ["x", "x.txt", ".json"] {
            assert!(
                matches!(Form::of(Path::new(bad)), Err(Failure::Usage(_))),
                "{bad}"
            );
        }
    }

    #[test]
    fn unwritable_path_is_reported_before_the_measurement() {
        let error = check(&[PathBuf::from("/nonexistent/folder/x.json")]).unwrap_err();
        let Failure::Failed(error) = error else {
            panic!("wrong use, although the name is right");
        };
        assert!(format!("{error:#}").starts_with("cannot write /nonexistent/folder/x.json: "));
    }
}
