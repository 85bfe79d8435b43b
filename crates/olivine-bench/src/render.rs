//! Outputs of a view: Markdown, the page, the drawings. They lay out what the view has decided.
//!
//! The page names nothing outside itself: no script, no font, no picture is fetched. It follows the
//! reader's choice of light or dark, and prints.

mod axis;
mod html;
mod markdown;
mod plot;
mod svg;

pub use html::html;
pub use markdown::markdown;

use crate::view::View;

/// Largest page in bytes.
pub const BYTES_MAX: usize = 2_000_000;

/// The page would be larger than mail takes.
#[derive(Debug, thiserror::Error)]
#[error("the page would take {bytes} bytes, more than {BYTES_MAX}: report fewer files at once")]
#[non_exhaustive]
pub struct TooLarge {
    /// What it would take.
    pub bytes: usize,
}

/// Every figure as a separate drawing: name without an ending, text of the file.
#[must_use]
pub fn drawings(view: &View) -> Vec<(String, String)> {
    let figures = view.sections.iter().flat_map(|section| &section.figures);
    let drawn = figures.map(|figure| (figure.name.clone(), plot::draw(figure).standalone()));
    drawn.collect()
}
