//! Messages as an Apache Arrow IPC file.

use super::{Form, Selected};
use arrow_array::builder::{
    BinaryBuilder, StringBuilder, StringDictionaryBuilder, TimestampNanosecondBuilder,
    UInt32Builder, UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use std::io::Write;
use std::sync::Arc;

/// Most messages of a batch.
const BATCH_MESSAGES: usize = 64 << 10;
/// Payload bytes after which a batch is written.
const BATCH_BYTES: usize = 8 << 20;

/// The columns of a batch.
#[derive(Default)]
struct Columns {
    recorded: TimestampNanosecondBuilder,
    channel: StringDictionaryBuilder<Int32Type>,
    lane: UInt32Builder,
    position: UInt64Builder,
    journal_position: UInt64Builder,
    tag: UInt32Builder,
    topic: StringBuilder,
    payload: BinaryBuilder,
    messages: usize,
    bytes: usize,
}

/// An Arrow IPC file.
pub(super) struct Arrow<W: Write> {
    out: FileWriter<W>,
    schema: SchemaRef,
    columns: Columns,
}

fn schema() -> SchemaRef {
    let utc = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let words = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let field = |name: &str, of: DataType| Field::new(name, of, false);
    Arc::new(Schema::new(vec![
        field("recorded", utc),
        field("channel", words),
        field("lane", DataType::UInt32),
        field("position", DataType::UInt64),
        field("journal_position", DataType::UInt64),
        field("tag", DataType::UInt32),
        Field::new("topic", DataType::Utf8, true),
        field("payload", DataType::Binary),
    ]))
}

impl<W: Write> Arrow<W> {
    pub(super) fn new(out: W) -> anyhow::Result<Self> {
        let schema = schema();
        Ok(Self {
            out: FileWriter::try_new(out, &schema).map_err(plain)?,
            schema,
            columns: Columns::default(),
        })
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let mut columns = std::mem::take(&mut self.columns);
        if columns.messages == 0 {
            return Ok(());
        }
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(columns.recorded.finish().with_timezone("UTC")),
            Arc::new(columns.channel.finish()),
            Arc::new(columns.lane.finish()),
            Arc::new(columns.position.finish()),
            Arc::new(columns.journal_position.finish()),
            Arc::new(columns.tag.finish()),
            Arc::new(columns.topic.finish()),
            Arc::new(columns.payload.finish()),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(plain)?;
        self.out.write(&batch).map_err(plain)
    }
}

impl<W: Write> Form for Arrow<W> {
    fn write(&mut self, selected: &Selected<'_>) -> anyhow::Result<()> {
        let (run, message) = (&selected.run, &selected.message);
        let columns = &mut self.columns;
        // Nanoseconds fit 63 bits until the year 2262.
        let recorded = i64::try_from(run.time_ns).unwrap_or(i64::MAX);
        columns.recorded.append_value(recorded);
        columns.channel.append(&run.lane.channel).map_err(plain)?;
        columns.lane.append_value(run.lane.publisher);
        columns.position.append_value(message.position);
        let position = run.journal_position + (message.position - run.position);
        columns.journal_position.append_value(position);
        columns.tag.append_value(message.tag);
        let topic = Some(message.topic).filter(|topic| !topic.is_empty());
        columns.topic.append_option(topic);
        columns.payload.append_value(message.payload);
        columns.messages += 1;
        columns.bytes += message.payload.len();
        if columns.messages >= BATCH_MESSAGES || columns.bytes >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        self.out.finish().map_err(plain)?;
        Ok(self.out.get_mut().flush()?)
    }
}

/// The system's error inside one of the Arrow library, so that its kind is seen.
fn plain(error: ArrowError) -> anyhow::Error {
    match error {
        ArrowError::IoError(_, error) => error.into(),
        other => other.into(),
    }
}
