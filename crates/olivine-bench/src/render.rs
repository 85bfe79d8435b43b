//! Outputs of a view: Markdown, the page, the drawings. They only lay out the view.
//!
//! Texts are written into strings, which cannot fail: results of `write!` are dropped.
//!
//! The page is self-contained: it fetches no script, font or picture. It follows the reader's light
//! or dark theme, and prints.

mod axis;
mod card;
mod html;
mod latex;
mod markdown;
mod plot;
mod site;
mod svg;

pub use card::card;
pub use html::html;
pub use latex::latex;
pub use markdown::markdown;
pub use site::site;

use crate::view::View;

/// Largest page in bytes.
pub const BYTES_MAX: usize = 2_000_000;

/// The page would be too large for mail.
#[derive(Debug, thiserror::Error)]
#[error("the page would take {bytes} bytes, more than {BYTES_MAX}: report fewer files at once")]
#[non_exhaustive]
pub struct TooLarge {
    /// Its size.
    pub bytes: usize,
}

/// Every figure as a separate drawing: name without an ending, text of the file.
#[must_use]
pub fn drawings(view: &View) -> Vec<(String, String)> {
    let figures = view.sections.iter().flat_map(|section| &section.figures);
    let drawn = figures.map(|figure| (figure.name.clone(), plot::draw(figure).standalone()));
    drawn.collect()
}
