//! Messages as text: CSV and JSON lines.

use super::{Form, Selected};
use crate::terminal;
use data_encoding::BASE64;
use serde::Serialize;
use std::borrow::Cow;
use std::io::Write;

/// A message as a row.
#[derive(Serialize)]
struct Row<'a> {
    recorded_unix_ns: u64,
    channel: &'a str,
    lane: u32,
    /// Start of its frame in the lane, and in the journal.
    position: u64,
    journal_position: u64,
    tag: u32,
    topic: &'a str,
    #[serde(flatten)]
    payload: Payload<'a>,
}

/// A payload as text.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Payload<'a> {
    Text(Cow<'a, str>),
    Base64(String),
}

impl<'a> Payload<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(Cow::Borrowed(text)),
            Err(_) => Self::Base64(BASE64.encode(bytes)),
        }
    }
}

impl<'a> Row<'a> {
    fn of(selected: &'a Selected<'_>) -> Self {
        let (run, message) = (&selected.run, &selected.message);
        Self {
            recorded_unix_ns: run.time_ns,
            channel: &run.lane.channel,
            lane: run.lane.publisher,
            position: message.position,
            journal_position: run.journal_position + (message.position - run.position),
            tag: message.tag,
            topic: message.topic,
            payload: Payload::of(message.payload),
        }
    }
}

/// The columns of CSV.
const HEADINGS: [&str; 9] = [
    "recorded_unix_ns",
    "channel",
    "lane",
    "position",
    "journal_position",
    "tag",
    "topic",
    "encoding",
    "payload",
];

/// One JSON object per line.
pub(super) struct Json<W> {
    out: W,
}

impl<W: Write> Json<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out }
    }
}

impl<W: Write> Form for Json<W> {
    fn write(&mut self, selected: &Selected<'_>) -> anyhow::Result<()> {
        terminal::write_json(&mut self.out, &Row::of(selected))?;
        Ok(self.out.write_all(b"\n")?)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }
}

/// Rows with a heading, as RFC 4180 has them, with line feeds.
pub(super) struct Csv<W: Write> {
    out: csv::Writer<W>,
    /// For a terminal: control characters are escaped.
    escape: bool,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(out: W, escape: bool) -> anyhow::Result<Self> {
        let mut out = csv::Writer::from_writer(out);
        out.write_record(HEADINGS).map_err(plain)?;
        Ok(Self { out, escape })
    }
}

impl<W: Write> Form for Csv<W> {
    fn write(&mut self, selected: &Selected<'_>) -> anyhow::Result<()> {
        let row = Row::of(selected);
        let (encoding, payload) = match &row.payload {
            Payload::Text(text) if self.escape => ("text", terminal::escaped(text)),
            Payload::Text(text) => ("text", Cow::Borrowed(text.as_ref())),
            Payload::Base64(text) => ("base64", Cow::Borrowed(text.as_str())),
        };
        let written = self.out.write_record([
            row.recorded_unix_ns.to_string().as_str(),
            row.channel,
            &row.lane.to_string(),
            &row.position.to_string(),
            &row.journal_position.to_string(),
            &row.tag.to_string(),
            row.topic,
            encoding,
            &payload,
        ]);
        written.map_err(plain)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }
}

/// The system's error inside one of the CSV library, so that its kind is seen.
fn plain(error: csv::Error) -> anyhow::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        other => anyhow::anyhow!("cannot write a row: {other:?}"),
    }
}
