//! The lines of channels as they were written: labels, and the samples of each family.
//!
//! Labels depend on the name of a channel, the indexes of its lanes and slots, and the durable
//! names. While these stay, they are not written again.

use super::exposition::{Known, Part, labels};
use super::families::of_states;
use crate::watch::past::Past;
use crate::watch::sample::Channel;

/// The lines of all channels of the last text, by the name of the channel.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    channels: Past<ChannelLines>,
    text_bytes: usize,
}

/// How many families have one sample a channel, a lane and a subscriber.
#[derive(Clone, Copy, Debug)]
pub(super) struct Families {
    pub(super) channel: usize,
    pub(super) lane: usize,
    pub(super) reader: usize,
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
    /// Their values, in the order of the families.
    pub(super) known: Vec<Known>,
}

impl Lines {
    /// The lines of a channel of the next text; new ones, with samples of `families`, if its labels
    /// are others.
    pub(super) fn of(
        &mut self,
        name: &str,
        channel: &Channel,
        families: Families,
    ) -> &mut ChannelLines {
        let new = || ChannelLines::new(name, channel, families);
        self.channels.of(name, |known| known.fit(channel), new).0
    }

    /// The lines of a channel that the next text has.
    pub(super) fn get(&self, name: &str) -> Option<&ChannelLines> {
        self.channels.get(name)
    }

    /// The text was written, with so many bytes. Lines of channels that it has not are forgotten.
    pub(super) fn note_text(&mut self, bytes: usize) {
        self.text_bytes = bytes;
        self.channels.forget_unnamed();
    }

    /// Bytes that the next text will probably have at most.
    pub(super) fn text_bytes(&self) -> usize {
        self.text_bytes + self.text_bytes / 8
    }
}

impl ChannelLines {
    fn new(name: &str, channel: &Channel, families: Families) -> Self {
        let own = labels(&[("channel", name)]);
        let lane = |index: usize| {
            let text = labels(&[("channel", name), ("lane", &index.to_string())]);
            (index, text)
        };
        let reader = |slot: usize, durable: &Option<String>| {
            let text = of_reader(name, slot, durable.as_deref());
            ((slot, durable.clone()), text)
        };
        let states = of_states(&own);
        let Families {
            channel: single,
            lane: per_lane,
            reader: per_reader,
        } = families;
        let (lanes, readers) = (channel.lanes.len(), channel.readers.len());
        let known = single + states.len() + per_lane * lanes + per_reader * readers;
        // One more: that of the states.
        let parts = single + 1 + per_lane + per_reader;
        Self {
            states,
            own,
            lanes: channel.lanes.iter().map(|one| lane(one.index)).collect(),
            readers: channel
                .readers
                .iter()
                .map(|one| reader(one.slot, &one.name))
                .collect(),
            parts: std::iter::repeat_with(Part::default).take(parts).collect(),
            known: vec![None; known],
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
