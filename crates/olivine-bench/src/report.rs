//! Results as a page: one HTML file with every table and plot in it, and each plot as a file of its own.
//!
//! The page names nothing outside itself: no script, no font, no picture is fetched. It follows the reader's
//! choice of light or dark and prints. Plots are drawn from what the result files hold, and nothing else; each
//! says how many samples stand behind it and on what placement.

mod axis;
mod figures;
mod page;
mod plot;
mod select;
mod svg;
mod table;
mod tables;

use crate::result::ResultFile;

/// Largest page in bytes.
pub const BYTES_MAX: usize = 2_000_000;

/// A result file with the name it is shown by.
#[derive(Clone, Debug)]
pub struct Source {
    /// Short name, such as the file's without folder and ending.
    pub name: String,
    /// What it holds.
    pub file: ResultFile,
}

/// A page and its plots.
#[derive(Clone, Debug)]
pub struct Report {
    /// The page.
    pub html: String,
    /// Plots: name without an ending, drawing that stands on its own.
    pub plots: Vec<(String, String)>,
}

/// Why no page was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The files hold no figures.
    #[error("there is no figure in {files}: nothing to report")]
    Empty {
        /// Which files.
        files: String,
    },
    /// The page would be larger than any mail takes.
    #[error(
        "the report of {rows} rows would take {bytes} bytes, more than {BYTES_MAX}: report fewer files at once"
    )]
    TooLarge {
        /// Rows in all files.
        rows: usize,
        /// What it would take.
        bytes: usize,
    },
}

/// Makes a page of everything `sources` hold.
///
/// # Errors
///
/// [`ReportError`] if there is nothing to show, or too much.
pub fn render(sources: &[Source]) -> Result<Report, ReportError> {
    let rows: usize = sources.iter().map(|source| source.file.results.len()).sum();
    let floors = sources
        .iter()
        .filter(|source| source.file.floor.is_some())
        .count();
    if rows + floors == 0 {
        let files: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        return Err(ReportError::Empty {
            files: files.join(", "),
        });
    }
    let report = page::make(sources);
    if report.html.len() > BYTES_MAX {
        return Err(ReportError::TooLarge {
            rows,
            bytes: report.html.len(),
        });
    }
    Ok(report)
}
