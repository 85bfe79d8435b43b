//! The model of the commands that watch channels: `top`, `metrics` and `serve`.
//!
//! It only reads: the shared words of the channels and `/proc`. `sample` takes a look at
//! everything, `tracker` compares two looks, `finding` says what is wrong, `view` is what the
//! commands show, and `format` has its figures and names in short.

mod behind;
mod finding;
pub(crate) mod format;
pub(crate) mod sample;
pub(crate) mod tracker;
pub(crate) mod view;

use crate::admin;
use crate::failure::{Failure, Outcome};
use rustix::process::{Resource, getrlimit, setrlimit};
use sample::Sampler;
use std::path::Path;
use tracker::Tracker;
use view::View;

/// Looks at all channels, one look after the other.
pub(crate) struct Watch {
    sampler: Sampler,
    tracker: Tracker,
}

impl Watch {
    /// The channels asked for, or those of a folder.
    pub(crate) fn new(uris: &[String], dir: Option<&str>) -> Outcome<Self> {
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
        let folder = admin::directory(dir.map(Path::new))?;
        let place = dir.map_or_else(String::new, |dir| format!(" --dir {dir}"));
        raise_descriptor_limit();
        Ok(Self {
            sampler: Sampler::new(folder, asked),
            tracker: Tracker::new(place),
        })
    }

    /// The folder whose channels are looked at.
    pub(crate) fn dir(&self) -> &Path {
        self.sampler.dir()
    }

    /// The difference between this look and the one before.
    pub(crate) fn look(&mut self) -> Outcome<View> {
        let sample = self.sampler.sample();
        let sample = sample.map_err(|error| Failure::Failed(error.into()))?;
        Ok(self.tracker.advance(&sample))
    }
}

/// Each channel takes a few descriptors while it is watched. A limit that cannot be raised shows
/// itself in the channels that cannot be opened.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}
