//! Result files: written in addition to the output, and read for comparisons and reports.

use crate::failure::{Failure, Outcome};
use crate::output::json_line;
use olivine_bench::clock::TickClock;
use olivine_bench::latency::Latency;
use olivine_bench::render;
use olivine_bench::result::file::{FileError, unix_time_s};
use olivine_bench::result::{Distribution, ResultFile, export};
use olivine_bench::view::{Source, view};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// A format of result files, chosen by the extension of a file's name.
pub(crate) struct Form {
    /// The extension.
    pub(crate) ending: &'static str,
    /// Whether a file may show several results.
    takes_several: bool,
    /// The content of a file. A format for one result gets one source.
    render: fn(&[Source]) -> Outcome<Vec<u8>>,
}

/// Every format. To add one, add a row: help and errors come from the rows.
const FORMS: &[Form] = &[
    Form {
        ending: "json",
        takes_several: false,
        render: |sources| each(sources, |file| Ok(json_line(file)?.into_bytes())),
    },
    Form {
        ending: "csv",
        takes_several: false,
        render: |sources| {
            each(sources, |file| {
                export::csv(file).map_err(|error| Failure::Failed(error.into()))
            })
        },
    },
    Form {
        ending: "hlog",
        takes_several: false,
        render: |sources| each(sources, histograms),
    },
    Form {
        ending: "html",
        takes_several: true,
        render: |sources| {
            let page = render::html(&view(sources));
            let page = page.map_err(|error| Failure::Failed(error.into()))?;
            Ok(page.into_bytes())
        },
    },
    Form {
        ending: "md",
        takes_several: true,
        render: |sources| Ok(render::markdown(&view(sources)).into_bytes()),
    },
    Form {
        ending: "tex",
        takes_several: true,
        render: |sources| Ok(render::latex(&view(sources)).into_bytes()),
    },
];

impl Form {
    /// The format for the extension of `path`.
    pub(super) fn of(path: &Path) -> Outcome<&'static Self> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let mut forms = FORMS.iter();
        forms
            .find(|form| Some(form.ending) == ending)
            .ok_or_else(|| {
                Failure::usage(format!(
                    "{} has no ending that says what to write: use {}",
                    path.display(),
                    endings(|_| true)
                ))
            })
    }
}

/// The extensions of some formats, as in `.json, .csv or .md`.
fn endings(which: impl Fn(&Form) -> bool) -> String {
    let found = FORMS.iter().filter(|form| which(form));
    listed(found.map(|form| form.ending))
}

fn listed(endings: impl Iterator<Item = &'static str>) -> String {
    let endings: Vec<String> = endings.map(|ending| format!(".{ending}")).collect();
    match endings.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => endings.concat(),
    }
}

/// Help of an option that also writes the result to a file.
pub(crate) fn save_help() -> String {
    let all = endings(|_| true);
    format!(
        "Also write the result to this file. The extension selects the format: {all}. Repeatable"
    )
}

/// Help of the output file of a report.
pub(crate) fn report_help() -> String {
    format!(
        "Output file: {}; for one input file also {} (.json with few histograms); - prints the \
         tables",
        endings(|form| form.takes_several),
        endings(|form| !form.takes_several)
    )
}

/// Checks before the measurement that each path can be written, and has a known format.
pub(crate) fn check(paths: &[PathBuf]) -> Outcome {
    // All of them before the first is created.
    paths.iter().try_for_each(|path| Form::of(path).map(drop))?;
    for path in paths {
        // Opened for appending: old content stays until there is a new result.
        let opened = fs::File::options().create(true).append(true).open(path);
        opened.map_err(|source| cannot_write(path, source))?;
    }
    Ok(())
}

/// Refuses a path whose format cannot hold `what`; only those with the `valid` extensions can.
pub(crate) fn only(paths: &[PathBuf], valid: &[&'static str], what: &str) -> Outcome {
    for path in paths {
        if !valid.contains(&Form::of(path)?.ending) {
            return Err(Failure::usage(format!(
                "{} cannot hold {what}: name a file that ends in {}",
                path.display(),
                listed(valid.iter().copied())
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

/// The format for the extension of `path`, if it takes so many result files.
pub(super) fn check_form(path: &Path, count: usize) -> Outcome<&'static Form> {
    let form = Form::of(path)?;
    if count > 1 && !form.takes_several {
        return Err(Failure::usage(format!(
            "{} takes one result file; only {} take several",
            path.display(),
            endings(|form| form.takes_several).replace(" or ", " and ")
        )));
    }
    Ok(form)
}

/// Writes `sources` to `path`, in the format of its extension.
pub(super) fn write(path: &Path, sources: &[Source]) -> Outcome {
    let form = check_form(path, sources.len())?;
    store(path, &(form.render)(sources)?)
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

/// The results one after the other.
fn each(sources: &[Source], one: impl Fn(&ResultFile) -> Outcome<Vec<u8>>) -> Outcome<Vec<u8>> {
    let parts = sources.iter().map(|source| one(&source.file));
    Ok(parts.collect::<Outcome<Vec<_>>>()?.concat())
}

fn histograms(file: &ResultFile) -> Outcome<Vec<u8>> {
    let mut out = Vec::new();
    let written = export::hlog(file, &mut out);
    written.map_err(|error| {
        Failure::Failed(anyhow::Error::new(error).context("cannot write the histograms"))
    })?;
    Ok(out)
}

/// Writes the latencies of a stream of `length` as a histogram log; an empty one for none.
pub(crate) fn save_latencies(
    path: &Path,
    uri: &str,
    length: Duration,
    latency: &Latency,
) -> Outcome {
    let found = Distribution::of(latency, &TickClock::calibrate());
    let intervals = found
        .iter()
        .map(|found| (format!("sub/{uri}"), length, found));
    let comment = format!("olivine sub {uri}; values in nanoseconds");
    let mut out = Vec::new();
    let start = UNIX_EPOCH + Duration::from_secs(unix_time_s()).saturating_sub(length);
    export::hlog_of(&comment, start, intervals, &mut out)
        .and_then(|()| fs::write(path, out))
        .map_err(|source| cannot_write(path, source))
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

pub(super) fn name_of(path: &Path) -> String {
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
        assert_eq!(Form::of(Path::new("a/b.json")).unwrap().ending, "json");
        assert_eq!(Form::of(Path::new("b.hlog")).unwrap().ending, "hlog");
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
