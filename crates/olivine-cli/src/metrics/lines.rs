//! The lines of channels as they were written: labels, and the samples of each family.
//!
//! Labels depend on the name of a channel, the indexes of its lanes and slots, and the durable
//! names. While these stay, they are not written again.

use super::exposition::{Part, labels};
use super::families::of_states;
use crate::watch::sample::Channel;
use std::collections::HashMap;

/// The lines of all channels of the last text, by the name of the channel.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    channels: HashMap<String, ChannelLines>,
    text_bytes: usize,
}

/// The lines of one channel.
#[derive(Debug)]
pub(super) struct ChannelLines {
    /// Labels of the channel.
    pub(super) own: String,
    /// Labels of the numbers of participants.
    pub(super) states: Vec<String>,
    /// By index.
    pub(super) lanes: Vec<(usize, String)>,
    /// By slot and durable name.
    pub(super) readers: Vec<((usize, Option<String>), String)>,
    /// Samples by family.
    pub(super) parts: Vec<Part>,
}

impl Lines {
    /// The lines of a channel; new ones, with `parts` families, if its labels are others.
    pub(super) fn of(&mut self, name: &str, channel: &Channel, parts: usize) -> ChannelLines {
        let known = self.channels.remove(name);
        known
            .filter(|known| known.fit(channel))
            .unwrap_or_else(|| ChannelLines::new(name, channel, parts))
    }

    /// Keeps the lines of these channels, and no others.
    pub(super) fn keep<'n>(&mut self, lines: impl Iterator<Item = (&'n str, ChannelLines)>) {
        self.channels.clear();
        let named = lines.map(|(name, lines)| (name.to_owned(), lines));
        self.channels.extend(named);
    }

    /// The text that was written has so many bytes.
    pub(super) fn note_text(&mut self, bytes: usize) {
        self.text_bytes = bytes;
    }

    /// Bytes that the next text will probably have at most.
    pub(super) fn text_bytes(&self) -> usize {
        self.text_bytes + self.text_bytes / 8
    }
}

impl ChannelLines {
    fn new(name: &str, channel: &Channel, parts: usize) -> Self {
        let own = labels(&[("channel", name)]);
        let lane = |index: usize| {
            let text = labels(&[("channel", name), ("lane", &index.to_string())]);
            (index, text)
        };
        let reader = |slot: usize, durable: &Option<String>| {
            let text = of_reader(name, slot, durable.as_deref());
            ((slot, durable.clone()), text)
        };
        Self {
            states: of_states(&own),
            own,
            lanes: channel.lanes.iter().map(|one| lane(one.index)).collect(),
            readers: channel
                .readers
                .iter()
                .map(|one| reader(one.slot, &one.name))
                .collect(),
            parts: std::iter::repeat_with(Part::default).take(parts).collect(),
        }
    }

    /// Whether its labels are those of the channel now.
    fn fit(&self, channel: &Channel) -> bool {
        let lanes = channel.lanes.iter().map(|one| one.index);
        let readers = channel.readers.iter().map(|one| (one.slot, &one.name));
        lanes.eq(self.lanes.iter().map(|(index, _)| *index))
            && readers.eq(self.readers.iter().map(|((slot, name), _)| (*slot, name)))
    }
}

/// The labels of a subscriber.
pub(super) fn of_reader(channel: &str, slot: usize, name: Option<&str>) -> String {
    let name = name.unwrap_or_default();
    let slot = slot.to_string();
    labels(&[("channel", channel), ("slot", &slot), ("subscriber", name)])
}
