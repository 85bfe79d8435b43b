//! A progress bar on terminals, nothing elsewhere. Drawn only when told to, so never while something is measured.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// A bar on standard error.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    shown: bool,
}

impl Progress {
    /// A bar that is full at `total`; hidden unless standard error is a terminal.
    pub(crate) fn new(total: u64) -> Self {
        let shown = std::io::stderr().is_terminal();
        let target = if shown {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        if let Ok(style) =
            ProgressStyle::with_template("{prefix:12} {bar:32} {percent:>3} %  {msg}")
        {
            bar.set_style(style.progress_chars("█▌ "));
        }
        Self { bar, shown }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown
    }

    /// Names what is going on.
    pub(crate) fn phase(&self, name: &'static str) {
        self.bar.set_prefix(name);
    }

    /// Shows how far it is, with a few words.
    pub(crate) fn show(&self, done: u64, words: String) {
        self.bar.set_position(done);
        self.bar.set_message(words);
        self.bar.tick();
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
