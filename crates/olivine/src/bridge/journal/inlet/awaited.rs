//! The wait for a channel that is named and not recorded yet.

use super::JournalInlet;
use crate::bridge::journal::outlet::link_error;
use crate::bridge::journal::search::Search;
use crate::error::LinkError;
use crate::link::{Control, LinkStage};
use crate::uri::Start;
use std::collections::BTreeSet;

/// A channel that is named and that the journal does not hold yet.
#[derive(Debug, Default)]
pub(super) struct AwaitedChannel {
    is_awaited: bool,
    /// The channels that it holds, once they were looked for.
    others: Option<BTreeSet<String>>,
    /// They are in the status.
    is_reported: bool,
}

impl AwaitedChannel {
    pub(super) fn new(is_awaited: bool) -> Self {
        Self {
            is_awaited,
            ..Self::default()
        }
    }

    /// A run of another channel was recorded.
    pub(super) fn saw(&mut self, channel: &str) {
        if let Some(others) = &mut self.others
            && !others.contains(channel)
        {
            others.insert(channel.to_owned());
            self.is_reported = false;
        }
    }

    /// The end of the journal is reached: reports the wait, unless the journal holds the channel.
    pub(super) fn report(
        &mut self,
        inlet: &JournalInlet,
        search: &Search,
        control: &Control,
    ) -> Result<(), LinkError> {
        if !self.is_awaited || self.is_reported {
            return Ok(());
        }
        self.is_reported = true;
        crate::points::look("journal.sought");
        let others = match self.others.take() {
            Some(others) => others,
            None => match inlet.find_lane(Start::Oldest, search).map_err(link_error)? {
                Ok(_) => {
                    self.is_awaited = false;
                    return Ok(());
                }
                Err(others) => others,
            },
        };
        let names: Vec<&str> = others.iter().map(String::as_str).collect();
        let held = match names.as_slice() {
            [] => "no channel yet".to_owned(),
            names => names.join(", "),
        };
        control.report(|status| {
            status.stage = LinkStage::Waiting;
            status.note = format!(
                "waiting for the channel '{}' to be recorded into {}, which holds {held}",
                inlet.config.channel(),
                inlet.path().display()
            );
        });
        self.others = Some(others);
        Ok(())
    }

    /// A run of the channel was recorded.
    pub(super) fn has_come(&mut self, inlet: &JournalInlet, control: &Control) {
        self.is_awaited = false;
        if self.others.take().is_some() {
            control.report(|status| {
                status.stage = LinkStage::Connected;
                status.note = format!("the channel '{}' is recorded", inlet.config.channel());
            });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::bridge::journal::lane::Lane;
    use crate::bridge::journal::{Recorder, RecorderSettings};
    use crate::bridge::{Destination, Inlet, any_type};
    use crate::channel::subscriber::Subscriber;
    use crate::link::Stop;
    use crate::uri::{Config, SyncPolicy};

    /// A request to stop that came while the channel was looked for was an error.
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no ring twice")]
    fn request_to_stop_does_not_fail_a_replay_that_looks_for_its_channel() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.olv");
        let settings = RecorderSettings::default().sync(SyncPolicy::Never);
        let mut recorder = Recorder::open(&path, &settings).unwrap();
        let lane = recorder.lane(&Lane::new("one", 0, 8, 1)).unwrap();
        let message = [16, 0, 0, 0, 9, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        recorder.append(lane, 0, 1, &message).unwrap();
        recorder.close().unwrap();
        for follow in ["no", "yes"] {
            let channels = folder.path().join(follow);
            let uri = format!("shm://ring?dir={}&capacity=4KiB", channels.display());
            let mut keeper = Subscriber::open(&uri).unwrap();
            let control = Control::new().unwrap();
            let ring = Config::parse(&uri).unwrap();
            let destination = Destination::new(&ring, any_type(), &control);
            let far = format!("file://{}?channel=none&follow={follow}", path.display());
            let inlet = Box::new(JournalInlet::new(&Config::parse(&far).unwrap()));
            let asked = control.clone();
            crate::points::hook::at("journal.sought", move || asked.stop(Stop::Now));
            inlet.run(destination, &control, false).unwrap();
            assert!(control.must_stop(), "{follow}: it looked for the channel");
            assert!(keeper.try_receive().unwrap().is_none(), "{follow}");
        }
    }
}
