//! The model of the commands that watch channels: `top`, `metrics` and `serve`.
//!
//! It only reads: the shared words of the channels and `/proc`. `sample` takes a look at
//! everything, `past` keeps what looks said, `tracker` compares two, `finding` says what is wrong,
//! `view` is what the commands show, and `format` has its figures and names in short.

mod behind;
pub(crate) mod finding;
pub(crate) mod format;
pub(crate) mod past;
pub(crate) mod sample;
pub(crate) mod tracker;
pub(crate) mod view;

use crate::admin::{self, Looks};
use crate::failure::{Failure, Outcome, complain};
use crate::process;
use crate::quote;
use finding::Help;
use rustix::process::{Resource, getrlimit, setrlimit};
use sample::{Sample, Sampler};
use std::path::Path;
use std::time::Duration;
use tracker::Tracker;
use view::View;

/// Longest time until the first rates are shown.
pub(crate) const FIRST_WINDOW: Duration = Duration::from_millis(500);
/// Shortest interval between two looks: more of them would cost more than they show.
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Longest interval, and longest time before a snapshot.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Refuses an interval that costs too much, or is longer than a day.
///
/// # Errors
///
/// Wrong usage.
pub(crate) fn check_interval(interval: Duration) -> Outcome {
    if interval < INTERVAL_MIN {
        return Err(Failure::usage(format!(
            "--interval {interval:?} is too short: give {INTERVAL_MIN:?} or more"
        )));
    }
    if interval > TIME_MAX {
        return Err(Failure::usage(format!(
            "--interval {interval:?} is too long: give {TIME_MAX:?} or less"
        )));
    }
    Ok(())
}

/// Looks at all channels, one look after the other.
pub(crate) struct Watch {
    sampler: Sampler,
    tracker: Tracker,
    /// Samples taken.
    samples: u64,
    help: Help,
}

impl Watch {
    /// The channels asked for, or those of a folder.
    pub(crate) fn new(uris: &[String], dir: Option<&str>, looks: Looks) -> Outcome<Self> {
        let mut asked: Vec<olivine::Config> = Vec::new();
        for uri in uris {
            let config = admin::config(uri, dir)?;
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
        let own_dirs = || asked.iter().map(olivine::Config::get_dir);
        let folder = match own_dirs().next().flatten() {
            // No channel is looked for in the folder of the environment: it need not exist.
            Some(first) if dir.is_none() && own_dirs().all(|dir| dir.is_some()) => first.to_owned(),
            _ => admin::directory(dir.map(Path::new), looks)?,
        };
        let place = |config: &olivine::Config| {
            let dir = config.get_dir()?;
            Some((config.channel().to_owned(), quote::dir(Some(dir))))
        };
        let help = Help {
            place: quote::dir(dir.map(Path::new)),
            own_places: asked.iter().filter_map(place).collect(),
            has_gdb: process::is_installed("gdb"),
        };
        raise_descriptor_limit();
        Ok(Self {
            sampler: Sampler::new(folder, asked),
            tracker: Tracker::new(help.clone()),
            samples: 0,
            help,
        })
    }

    /// The folder whose channels are looked at.
    pub(crate) fn dir(&self) -> &Path {
        self.sampler.dir()
    }

    /// The difference between this look and the one before.
    ///
    /// # Errors
    ///
    /// As [`Watch::sample`].
    pub(crate) fn look(&mut self) -> Outcome<View> {
        let sample = self.sample(true)?;
        Ok(self.tracker.advance(&sample))
    }

    /// Prints why channels that were asked for could not be read in the last sample.
    ///
    /// # Errors
    ///
    /// [`Failure::BadResult`] if there is one.
    pub(crate) fn check_asked(&self) -> Outcome {
        let unreadable = self.sampler.unreadable();
        for reason in unreadable {
            complain(reason);
        }
        match unreadable.is_empty() {
            true => Ok(()),
            false => Err(Failure::BadResult),
        }
    }

    /// Forgets the looks before: rates and ages begin anew.
    pub(crate) fn forget(&mut self) {
        self.tracker = self.another_tracker();
    }

    /// Everything now, without comparing it. The sizes of frames, which `sizes` adds, cost as much
    /// as the rest.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read or trusted.
    pub(crate) fn sample(&mut self, sizes: bool) -> Outcome<Sample> {
        self.samples += 1;
        let sample = self.sampler.sample(sizes);
        sample.map_err(|error| Failure::Failed(error.into()))
    }

    /// Lets go of all channels: a removed one would stay in memory until the next sample.
    pub(crate) fn release(&mut self) {
        self.sampler.release();
    }

    /// How many samples were taken, those that failed included.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    /// Compares samples that are taken at other times than those of [`Watch::look`].
    pub(crate) fn another_tracker(&self) -> Tracker {
        Tracker::new(self.help.clone())
    }
}

/// Each channel takes a few descriptors while it is watched. A limit that cannot be raised shows
/// itself in the channels that cannot be opened.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown and the exit code are of one look.
    #[test]
    fn channel_that_becomes_readable_after_the_look_was_unreadable() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().to_str().unwrap();
        let mut watch = Watch::new(&["late".to_owned()], Some(dir), Looks::Once).unwrap();
        watch.sample(true).unwrap();
        let config = olivine::Config::new(olivine::Scheme::Shm, "late").dir(dir);
        let _publisher = olivine::Publisher::open_with(&config).unwrap();
        assert!(matches!(watch.check_asked(), Err(Failure::BadResult)));
        let [reason] = watch.sampler.unreadable() else {
            panic!("{:?}", watch.sampler.unreadable())
        };
        assert!(reason.ends_with(" [open.missing]"), "{reason}");
        watch.sample(true).unwrap();
        assert!(watch.check_asked().is_ok());
    }
}
