//! `olivine top`: who is attached, who is behind, and who holds a publisher back since when.
//!
//! It only reads: the shared words of the channels and `/proc`. `sample` takes a look at
//! everything, `tracker` compares two looks, `finding` says what is wrong, and `text` or `screen`
//! shows it.

mod behind;
mod finding;
mod format;
mod sample;
#[cfg(feature = "screen")]
mod screen;
mod text;
mod tracker;
mod view;

use crate::admin;
use crate::args::{Common, TopArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::stop::Stop;
use crate::terminal;
use rustix::process::{Resource, getrlimit, setrlimit};
use sample::Sampler;
use std::time::{Duration, Instant};
use tracker::Tracker;
use view::View;

/// Shortest interval between two looks: more of them would cost more than they show.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
/// Longest time until the first rates are shown.
const FIRST_WINDOW: Duration = Duration::from_millis(500);
/// Clears a terminal, for builds without the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Looks at all channels, one look after the other.
struct Watch {
    sampler: Sampler,
    tracker: Tracker,
}

impl Watch {
    /// The channels asked for, or those of a folder.
    fn new(args: &TopArgs) -> Outcome<Self> {
        let mut asked: Vec<olivine::Config> = Vec::new();
        for uri in &args.uri {
            let config = admin::config(uri, args.dir.as_deref())?;
            match asked
                .iter()
                .find(|other| other.channel() == config.channel())
            {
                None => asked.push(config),
                Some(other) if other.get_dir() == config.get_dir() => {}
                Some(_) => {
                    return Err(Failure::usage(format!(
                        "'{}' is named in two folders: look at one folder at a time",
                        config.channel()
                    )));
                }
            }
        }
        let dir = admin::directory(args.dir.as_deref().map(std::path::Path::new))?;
        let place = args
            .dir
            .as_ref()
            .map_or_else(String::new, |dir| format!(" --dir {dir}"));
        Ok(Self {
            sampler: Sampler::new(dir, asked),
            tracker: Tracker::new(place),
        })
    }

    fn look(&mut self) -> Outcome<View> {
        let sample = self.sampler.sample();
        let sample = sample.map_err(|error| Failure::Failed(error.into()))?;
        Ok(self.tracker.advance(&sample))
    }
}

/// Runs the command.
pub(crate) fn run(args: &TopArgs, common: Common) -> Outcome {
    let interval = args.interval;
    if interval < INTERVAL_MIN {
        return Err(Failure::usage(format!(
            "--interval {interval:?} is too short: give {INTERVAL_MIN:?} or more"
        )));
    }
    let mut watch = Watch::new(args)?;
    raise_descriptor_limit();
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
            let shown = text::text(&view, watch.sampler.dir());
            show(&shown, args.once)?;
        }
        if args.once {
            return Ok(());
        }
    }
    if args.once { stop.cut_short() } else { Ok(()) }
}

/// Prints one view; on a terminal in place of the one before.
fn show(shown: &str, once: bool) -> Outcome {
    if once {
        return print(shown);
    }
    if terminal::is_stdout() {
        use std::io::Write;
        std::io::stdout()
            .write_all(CLEAR.as_bytes())
            .map_err(Failure::stdout)?;
        return print(shown);
    }
    print(&format!("{shown}\n"))
}

/// Each channel takes a few descriptors while it is watched. A limit that cannot be raised shows
/// itself in the channels that cannot be opened.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}
