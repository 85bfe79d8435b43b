//! The screen of `olivine top`: one view after the other, and keys.
//!
//! `draw` fills cells, `layout` fits `columns`, `keys` changes what is shown, `tty` owns the
//! terminal.

mod columns;
mod draw;
mod keys;
mod layout;
mod tty;

use super::text;
use crate::failure::{Failure, Outcome};
use crate::output::print;
use crate::stop::Stop;
use crate::terminal;
use crate::watch::Watch;
use crate::watch::view::View;
use keys::{Action, Shown};
use ratatui_core::terminal::Terminal;
use std::io;
use std::time::{Duration, Instant};
use tty::{Backend, Tty};

/// Whether standard output is a terminal that can be drawn on.
pub(super) fn is_possible() -> bool {
    terminal::is_stdout() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Shows views until a key or a signal ends it. The last findings stay on the terminal.
pub(super) fn run(watch: &mut Watch, stop: &Stop, first: Duration, interval: Duration) -> Outcome {
    // Before the terminal changes, so that a refusal is an ordinary line.
    let mut view = watch.look()?;
    let done = show(watch, stop, &mut view, first, interval);
    let printed = print(&text::findings(&view));
    // A signal asks for the end also where the terminal is gone.
    if stop.now() {
        return Ok(());
    }
    done.and(printed)
}

fn show(
    watch: &mut Watch,
    stop: &Stop,
    view: &mut View,
    first: Duration,
    interval: Duration,
) -> Outcome {
    let mut tty = Tty::enter().map_err(failed)?;
    let mut screen = Terminal::new(Backend::new()).map_err(failed)?;
    let mut shown = Shown::default();
    let mut next = Instant::now() + first;
    // Drawn after each key, each look and each change of size.
    let mut is_drawn = false;
    while !stop.now() {
        if Instant::now() >= next {
            next = Instant::now() + interval;
            if !shown.paused {
                *view = watch.look()?;
                is_drawn = false;
            }
        }
        if !is_drawn {
            screen
                .draw(|frame| draw::draw(frame.buffer_mut(), view, &mut shown))
                .map_err(failed)?;
            is_drawn = true;
        }
        let left = next.saturating_duration_since(Instant::now());
        match keys::wait(left, view, &mut shown).map_err(failed)? {
            Action::Nothing => {}
            Action::Draw => is_drawn = false,
            Action::End => break,
            Action::Suspend => {
                tty.suspend().map_err(failed)?;
                screen.clear().map_err(failed)?;
                is_drawn = false;
            }
        }
    }
    Ok(())
}

fn failed(error: io::Error) -> Failure {
    Failure::Failed(anyhow::Error::new(error).context("cannot use the terminal"))
}
