//! `olivine metrics`: counters and states of channels for monitoring systems.
//!
//! `families` says what is shown, `exposition` writes it. The server is that of `web`.

mod exposition;
mod families;

pub(crate) use exposition::Format;

use crate::args::{Common, MetricsArgs, refuse_given};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::stop::Stop;
use crate::watch::sample::Sample;
use crate::watch::tracker::Tracker;
use crate::watch::{FIRST_WINDOW, Watch};
use crate::web::access::Access;
use crate::web::{self, Desk, Pages};
use families::Scrape;
use std::collections::HashMap;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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
}

/// The largest time without room that was shown of each lane. A publisher that dies while it waits
/// takes its last wait out of the sum, and a counter that falls would count as a new one.
#[derive(Debug, Default)]
struct Waits(HashMap<(u64, usize), u64>);

impl Waits {
    fn keep(&mut self, sample: &mut Sample) {
        let before = std::mem::take(&mut self.0);
        for seen in &mut sample.channels {
            let Ok(channel) = &mut seen.looked else {
                continue;
            };
            for lane in &mut channel.lanes {
                let key = (channel.incarnation, lane.index);
                let most = before.get(&key).copied().unwrap_or(0);
                lane.waited_ns = lane.waited_ns.max(most);
                self.0.insert(key, lane.waited_ns);
            }
        }
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
        }
    }

    /// The text of a new look. A folder that cannot be read is a part of it.
    pub(crate) fn text(&mut self, watch: &mut Watch, format: Format) -> String {
        let begun = Instant::now();
        self.looks += 1;
        // Sizes of frames say how full a full ring is; they seldom change.
        let sizes = self.looks <= SIZES_FIRST || self.looks.is_multiple_of(SIZES_EACH);
        let sample = watch.sample(sizes).map(|mut sample| {
            self.waits.keep(&mut sample);
            let view = self.tracker.advance(&sample);
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
            looks: self.looks,
            errors: self.errors,
            took: begun.elapsed(),
            goes_on: self.goes_on,
        };
        families::text(&scrape, format)
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
    let watch = Watch::new(&args.uri, args.dir.as_deref())?;
    if !is_single {
        let access = Access::new(args.listen, &args.access)?;
        let desk = Desk::new(watch, Duration::from_secs(1));
        return web::run(args.listen, access, Pages::Metrics, desk, common.json);
    }
    let stop = Stop::install()?;
    match &args.textfile {
        None => print(&twice(watch, &stop, Format::OpenMetrics)?),
        Some(path) => {
            let text = twice(watch, &stop, Format::Prometheus)?;
            replace(path, text.as_bytes())?;
            let bytes = text.len();
            match common.json {
                true => print_json(&serde_json::json!({
                    "file": path.display().to_string(), "text_bytes": bytes,
                })),
                false => Ok(()),
            }
        }
    }
}

/// The text of the second of two looks: ages and holds need two.
fn twice(mut watch: Watch, stop: &Stop, format: Format) -> Outcome<String> {
    // A folder that cannot be read is a failure here: no later look will show that it was.
    watch.sample(false)?;
    let mut meter = Meter::new(&watch, false);
    meter.text(&mut watch, format);
    if !stop.wait_until(Instant::now() + FIRST_WINDOW) {
        stop.cut_short()?;
    }
    Ok(meter.text(&mut watch, format))
}

/// Puts `bytes` in the place of a file in one step: a reader sees the old ones or the new ones.
///
/// # Errors
///
/// If the folder of the file cannot be written. The old file stays.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Outcome {
    let write = || {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // Others read it: a collector, a colleague.
        let mut file = tempfile::Builder::new()
            .prefix(".olivine-")
            .suffix(".tmp")
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|error: std::io::Error| {
        Failure::Failed(
            anyhow::Error::new(error).context(format!("cannot write {}", path.display())),
        )
    })
}

#[cfg(test)]
#[path = "metrics/tests.rs"]
mod tests;
