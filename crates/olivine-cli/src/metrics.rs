//! `olivine metrics`: counters and states of channels for monitoring systems.
//!
//! `families` says what is shown, `exposition` writes it, `lines` keeps what was written. The
//! server is that of `web`.

mod exposition;
mod families;
mod lines;

pub(crate) use exposition::Format;

use crate::admin::Looks;
use crate::args::{Common, MetricsArgs, refuse_given};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::replace::{Readers, Target};
use crate::stop::Stop;
use crate::watch::past::Past;
use crate::watch::sample::Sample;
use crate::watch::tracker::Tracker;
use crate::watch::{FIRST_WINDOW, Watch};
use crate::web::access::Access;
use crate::web::{self, Desk, Pages};
use families::Scrape;
use lines::Lines;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The options of the server, which a text that is written once does not have.
const SERVER: [&str; 4] = ["listen", "token", "token_file", "host"];

/// The first looks, and each so many, have the sizes of frames.
const SIZES_FIRST: u64 = 2;
const SIZES_EACH: u64 = 10;

/// Takes looks and writes what they show.
pub(crate) struct Meter {
    tracker: Tracker,
    looks: u64,
    errors: u64,
    /// Whether it looks again and again.
    goes_on: bool,
    waits: Waits,
    lines: Lines,
}

/// What was lost of the time without room, by channel. A publisher that dies while it waits takes
/// its last wait out of the sum, and a counter that falls would count as a new one.
#[derive(Debug, Default)]
struct Waits(Past<LaneWaits>);

#[derive(Debug)]
struct LaneWaits {
    incarnation: u64,
    /// By index: the newest sum of the lane, and by how much such sums fell.
    lanes: HashMap<usize, (u64, u64)>,
}

impl Waits {
    /// Adds to each sum what was lost of it.
    fn keep(&mut self, sample: &mut Sample) {
        for seen in &mut sample.channels {
            let Ok(channel) = &mut seen.looked else {
                // It may be readable again.
                self.0.keep(&seen.name);
                continue;
            };
            let incarnation = channel.incarnation;
            let (past, _) = self.0.of(
                &seen.name,
                |past| past.incarnation == incarnation,
                || LaneWaits {
                    incarnation,
                    lanes: HashMap::new(),
                },
            );
            for lane in &mut channel.lanes {
                let (sum, lost) = past.lanes.entry(lane.index).or_default();
                *lost = lost.saturating_add(sum.saturating_sub(lane.waited_ns));
                *sum = lane.waited_ns;
                lane.waited_ns = sum.saturating_add(*lost);
            }
        }
        self.0.forget_unnamed();
    }
}

impl Meter {
    pub(crate) fn new(watch: &Watch, goes_on: bool) -> Self {
        Self {
            tracker: watch.another_tracker(),
            looks: 0,
            errors: 0,
            goes_on,
            waits: Waits::default(),
            lines: Lines::default(),
        }
    }

    /// The text of a new look. A folder that cannot be read is a part of it.
    pub(crate) fn text(&mut self, watch: &mut Watch, format: Format) -> String {
        let begun = Instant::now();
        self.looks += 1;
        // Sizes of frames say how full a full ring is; they seldom change.
        let sizes = self.looks <= SIZES_FIRST || self.looks.is_multiple_of(SIZES_EACH);
        let sample = watch.sample(sizes).map(|mut sample| {
            let view = self.tracker.advance(&sample);
            self.waits.keep(&mut sample);
            let unreadable = view.channels.iter().filter(|one| one.error.is_some());
            self.errors += unreadable.count() as u64;
            (sample, view)
        });
        self.errors += u64::from(sample.is_err());
        let looked = match &sample {
            Ok((sample, view)) => Ok((sample, view)),
            Err(_) => Err(()),
        };
        let scrape = Scrape {
            looked,
            looks: watch.samples(),
            errors: self.errors,
            took: begun.elapsed(),
            goes_on: self.goes_on,
        };
        families::text(&scrape, &mut self.lines, format)
    }
}

/// Runs the command.
pub(crate) fn run(args: &MetricsArgs, common: Common) -> Outcome {
    let is_single = args.once || args.textfile.is_some();
    if is_single {
        refuse_given(&SERVER, "a text that is written once")?;
    }
    if common.json && args.once {
        return Err(Failure::usage(
            "--json has no meaning for --once: the text has one form; 'olivine top --json' prints \
             JSON",
        ));
    }
    let looks = Looks::of(is_single);
    let mut watch = Watch::new(&args.uri, args.dir.as_deref(), looks)?;
    if !is_single {
        let access = Access::new(args.listen, &args.access)?;
        let desk = Desk::new(watch, Duration::from_secs(1));
        return web::run(args.listen, access, Pages::Metrics, desk, common.json);
    }
    let stop = Stop::install()?;
    match &args.textfile {
        None => print(&twice(&mut watch, &stop, Format::OpenMetrics)?)?,
        Some(path) => {
            let target = Target::new(path, "'olivine metrics --once' prints the text")?;
            let text = twice(&mut watch, &stop, Format::Prometheus)?;
            target.replace(text.as_bytes(), Readers::All)?;
            let bytes = text.len();
            if common.json {
                print_json(&serde_json::json!({
                    "file": path.display().to_string(), "text_bytes": bytes,
                }))?;
            }
        }
    }
    // The text says so, too, for what collects it.
    watch.check_asked()
}

/// The text of the second of two looks: ages and holds need two.
fn twice(watch: &mut Watch, stop: &Stop, format: Format) -> Outcome<String> {
    // A folder that cannot be read is a failure here: no later look will show that it was.
    watch.sample(false)?;
    let mut meter = Meter::new(watch, false);
    meter.text(watch, format);
    if !stop.wait_until(Instant::now() + FIRST_WINDOW) {
        stop.cut_short()?;
    }
    Ok(meter.text(watch, format))
}

#[cfg(test)]
#[path = "metrics/tests.rs"]
mod tests;
