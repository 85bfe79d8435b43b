//! Messages as an MCAP file.

use super::{Form, Selected};
use mcap::records::MessageHeader;
use mcap::write::NoSeek;
use mcap::{McapError, WriteOptions, Writer};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

/// What one channel of the file holds: a channel, a lane, a topic.
type Origin = (String, u32, String);

/// An MCAP file.
pub(super) struct Mcap<W: Write> {
    /// Absent behind the end of the file.
    out: Option<Writer<NoSeek<W>>>,
    channels: HashMap<Origin, u16>,
}

impl<W: Write> Mcap<W> {
    pub(super) fn new(out: W) -> anyhow::Result<Self> {
        // Standard output cannot go back.
        let options = WriteOptions::new()
            .compression(None)
            .library(concat!("olivine ", env!("CARGO_PKG_VERSION")))
            .disable_seeking(true);
        let out = Writer::with_options(NoSeek::new(out), options).map_err(plain)?;
        Ok(Self {
            out: Some(out),
            channels: HashMap::new(),
        })
    }

    fn channel(&mut self, selected: &Selected<'_>) -> anyhow::Result<u16> {
        let (lane, topic) = (selected.run.lane, selected.message.topic);
        let origin = (lane.channel.clone(), lane.publisher, topic.to_owned());
        if let Some(number) = self.channels.get(&origin) {
            return Ok(*number);
        }
        let name = match topic {
            "" => format!("/{}", lane.channel),
            topic => format!("/{}/{topic}", lane.channel),
        };
        let facts = BTreeMap::from([
            ("channel".to_owned(), lane.channel.clone()),
            ("lane".to_owned(), lane.publisher.to_string()),
            ("topic".to_owned(), topic.to_owned()),
            ("type".to_owned(), lane.message_type.name.clone()),
        ]);
        // Its payloads have no schema: the program knows what they are.
        let out = self.out.as_mut().ok_or_else(ended)?;
        let number = out
            .add_channel(0, &name, "x-olivine-bytes", &facts)
            .map_err(plain)?;
        self.channels.insert(origin, number);
        Ok(number)
    }
}

impl<W: Write> Form for Mcap<W> {
    fn write(&mut self, selected: &Selected<'_>) -> anyhow::Result<()> {
        let header = MessageHeader {
            channel_id: self.channel(selected)?,
            // The field is free for numbers of the program.
            sequence: selected.message.tag,
            log_time: selected.run.time_ns,
            publish_time: selected.run.time_ns,
        };
        let payload = selected.message.payload;
        let out = self.out.as_mut().ok_or_else(ended)?;
        out.write_to_known_channel(&header, payload).map_err(plain)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let mut out = self.out.take().ok_or_else(ended)?;
        out.finish().map_err(plain)?;
        Ok(out.into_inner().flush()?)
    }
}

fn ended() -> anyhow::Error {
    anyhow::anyhow!("the file has ended")
}

/// The system's error inside one of the MCAP library, so that its kind is seen.
fn plain(error: McapError) -> anyhow::Error {
    match error {
        McapError::Io(error) => error.into(),
        other => other.into(),
    }
}
