//! The wait for a channel that is named and not recorded yet.

use super::JournalInlet;
use crate::bridge::journal::outlet::link_error;
use crate::bridge::journal::stop_when::StopWhen;
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
        stop: &StopWhen,
        control: &Control,
    ) -> Result<(), LinkError> {
        if !self.is_awaited || self.is_reported {
            return Ok(());
        }
        self.is_reported = true;
        let others = match self.others.take() {
            Some(others) => others,
            None => match inlet.find_lane(Start::Oldest, stop).map_err(link_error)? {
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
