//! A progress bar, and a line of progress for work without an end, on terminals only. They are
//! drawn only on request, so never during a measurement.
//!
//! Work of less than two seconds has no bar: it would flicker.

use crate::terminal::fit::cut;
use crate::terminal::{escaped, size_of};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::io::{IsTerminal, Write, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// To the start of the row, which is cleared.
const OVER: &str = "\r\x1b[K";
/// Columns of a terminal that does not say.
const COLUMNS: usize = 80;
/// Whether a line stands on standard error, without an end. Locked while it is written or cleared.
static STANDS: Mutex<bool> = Mutex::new(false);

fn stands() -> MutexGuard<'static, bool> {
    STANDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether standard error is a terminal on which a line can be written over.
pub(crate) fn has_line() -> bool {
    stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Writes `text` over the line before, cut to the row.
pub(crate) fn show_line(text: &str) {
    let columns = size_of(stderr()).map_or(COLUMNS, |(_, columns)| columns);
    // In the last column the cursor would stand in the next row.
    let shown = cut(&escaped(text), columns.saturating_sub(1));
    let mut stands = stands();
    *stands = true;
    // Ignored: the work goes on without it.
    let _ = stderr().write_all(format!("{OVER}{shown}").as_bytes());
}

/// Clears the line, before others.
pub(crate) fn clear_line() {
    let mut stands = stands();
    if std::mem::take(&mut *stands) {
        let _ = stderr().write_all(OVER.as_bytes());
    }
}

/// Clears the line before the process ends at once: no line is written after it. It waits for
/// nothing: if the terminal takes nothing, or another thread writes now, the line is left.
pub(crate) fn clear_for_good() {
    let Ok(stands) = STANDS.try_lock() else {
        return;
    };
    let out = stderr();
    let takes_more = || {
        let mut terminal = [PollFd::new(&out, PollFlags::OUT)];
        let ready = poll(&mut terminal, Some(&Timespec::default()));
        ready.is_ok() && terminal[0].revents().contains(PollFlags::OUT)
    };
    if *stands && takes_more() {
        // Without the lock of standard error, which a thread may hold.
        let _ = rustix::io::write(&out, OVER.as_bytes());
    }
    // Locked until the end.
    let _ = std::mem::ManuallyDrop::new(stands);
}

/// Shorter work has no bar.
const WORTH_A_BAR: Duration = Duration::from_secs(2);

/// A bar on standard error.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Whether standard error is a terminal.
    shown: bool,
    /// Whether it is drawn.
    drawn: Cell<bool>,
    start: Instant,
}

impl Progress {
    /// A bar that is full at `total`; hidden unless standard error is a terminal.
    pub(crate) fn new(total: u64) -> Self {
        let shown = stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template = "{prefix:12} {bar:28} {percent:>3} %  {eta:>4} left  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("█▌ "));
        }
        Self {
            bar,
            shown,
            drawn: Cell::new(false),
            start: Instant::now(),
        }
    }

    /// Whether it is visible.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown
    }

    /// Names the current phase.
    pub(crate) fn phase(&self, name: &'static str) {
        self.bar.set_prefix(name);
    }

    /// Shows the progress, with a few words.
    pub(crate) fn show(&self, done: u64, words: String) {
        let total = self.bar.length().unwrap_or(0);
        if self.shown && !self.drawn.get() && is_worth_a_bar(self.start.elapsed(), done, total) {
            self.drawn.set(true);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
        self.bar.set_message(words);
        self.bar.tick();
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Whether the total time will be long enough, extrapolated from `done` of `total` in `elapsed`.
fn is_worth_a_bar(elapsed: Duration, done: u64, total: u64) -> bool {
    let all = elapsed.as_nanos() * u128::from(total) / u128::from(done.max(1));
    all > WORTH_A_BAR.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_work_has_no_bar_and_long_work_has_one_soon() {
        let ms = Duration::from_millis;
        assert!(!is_worth_a_bar(ms(100), 10, 100));
        assert!(is_worth_a_bar(ms(300), 10, 100));
        assert!(
            is_worth_a_bar(ms(30), 1, 100),
            "known long before two seconds"
        );
        assert!(!is_worth_a_bar(ms(0), 0, 100));
    }
}
