//! `olivine top`: who is attached, who is behind, and who holds a publisher back since when.
//!
//! `watch` looks at the channels and says what is wrong; `text` or `screen` shows it.

#[cfg(feature = "screen")]
mod screen;
mod text;

use crate::admin::Looks;
use crate::args::{Common, TopArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::stop::Stop;
use crate::terminal;
use crate::watch::{FIRST_WINDOW, Watch, check_interval};
use std::time::Instant;

/// Clears a terminal, for builds without the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Runs the command.
pub(crate) fn run(args: &TopArgs, common: Common) -> Outcome {
    let interval = args.interval;
    check_interval(interval)?;
    let looks = Looks::of(args.once);
    let mut watch = Watch::new(&args.uri, args.dir.as_deref(), looks)?;
    // Why named channels cannot be read comes on standard error then.
    let reasons = !args.once || args.uri.is_empty();
    let stop = Stop::install()?;
    let first = interval.min(FIRST_WINDOW);
    #[cfg(feature = "screen")]
    if !args.once && !common.json && screen::is_possible() {
        return screen::run(&mut watch, &stop, first, interval);
    }
    watch.look()?;
    let mut next = Instant::now() + first;
    while stop.wait_until(next) {
        next = Instant::now() + interval;
        let view = watch.look()?;
        if common.json {
            print_json(&view)?;
        } else {
            let shown = text::text(&view, watch.dir(), reasons);
            show(&shown, args.once)?;
        }
        if args.once {
            return watch.check_asked();
        }
    }
    if args.once { stop.cut_short() } else { Ok(()) }
}

/// Prints one view; on a terminal in place of the one before, as far as it has room.
fn show(shown: &str, once: bool) -> Outcome {
    if once {
        return print(shown);
    }
    if terminal::is_stdout() {
        use std::io::Write;
        std::io::stdout()
            .write_all(CLEAR.as_bytes())
            .map_err(Failure::stdout)?;
        return match terminal::size_of(std::io::stdout()) {
            Some((rows, columns)) => print(&text::fitted(shown, rows, columns)),
            None => print(shown),
        };
    }
    print(&format!("{shown}\n"))
}
