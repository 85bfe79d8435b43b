//! Arguments of `olivine journal`.

use super::TEMPLATE;
use clap::{Args, Subcommand, ValueEnum};
use olivine::{Start, TopicFilter};
use std::path::PathBuf;

/// Show what a journal holds, cut a part out of it, or export it
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine journal info ticks.olv
  olivine journal cut ticks.olv hour.olv --from time:2026-01-31T08:00:00Z \\
                                         --to time:2026-01-31T09:00:00Z
  olivine journal export ticks.olv ticks.csv

A journal is never changed. 'olivine record' makes one.")]
pub(crate) struct JournalArgs {
    #[command(subcommand)]
    pub(crate) command: JournalCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    Info(InfoArgs),
    Cut(CutArgs),
    Export(ExportArgs),
}

/// Show times, counts, topics, lanes, holes, the end and the files of a journal
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine journal info ticks.olv
  olivine journal info ticks.olv --json | jq .last_unix_ns
  olivine journal info ticks.olv --exact      read and check every byte

Of a journal above 16 MiB it reads headers, indexes and a few blocks. Figures
that are estimated from these blocks start with ~, and in JSON 'estimated' names
them. What is read in whole is read behind damage, too: it lists the places,
with the bytes lost there. Exit code 1 if damage was found.")]
pub(crate) struct InfoArgs {
    /// Journal: a path such as ticks.olv, or file:///data/ticks.olv
    pub(crate) file: String,
    /// Read and check every byte of a journal of any length
    #[arg(long)]
    pub(crate) exact: bool,
}

/// Which part of a journal.
#[derive(Clone, Debug, Args)]
pub(crate) struct PartArgs {
    /// First message: oldest, time:DATE or position:BYTES; DATE is UTC, such as
    /// 2026-01-31T08:30:00Z or 2026-01-31T08:30:00.25Z [default: oldest]
    #[arg(long, value_name = "START", value_parser = start)]
    pub(crate) from: Option<Start>,
    /// End before this: time:DATE or position:BYTES [default: the end]
    #[arg(long, value_name = "END", value_parser = end)]
    pub(crate) to: Option<Start>,
    /// Only messages of this channel [default: all]
    #[arg(long = "of", value_name = "NAME")]
    pub(crate) channel: Option<String>,
    /// Only messages of these lanes, such as 0,2 [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) lane: Vec<u32>,
    /// Only messages whose topic one of these filters matches, such as
    /// orders.*.created,alarms.> [default: all]
    #[arg(long, value_name = "FILTERS", value_parser = filter)]
    pub(crate) topic: Option<TopicFilter>,
    /// An unfinished recording, or holes in it: fail (exit code 1 after
    /// everything else is done) or accept
    #[arg(long, value_name = "HOW", default_value = "fail")]
    pub(crate) unfinished: Unfinished,
    /// Go on behind damage, and count what is lost there [default: end with exit
    /// code 1 before the first damage]
    #[arg(long)]
    pub(crate) skip_damage: bool,
}

/// What an unfinished recording means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unfinished {
    // Exit code 1.
    Fail,
    // A note.
    Accept,
}

/// Cut a part of a journal into a new journal
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine journal cut ticks.olv part.olv --from time:2026-01-31T08:30:00Z
  olivine journal cut ticks.olv part.olv --to position:1000000
  olivine journal cut ticks.olv eu.olv --topic 'orders.eu.>'
  olivine journal cut ticks.olv whole.olv --skip-damage

Messages keep their times, tags, topics and lanes; without --topic also their
positions. The source is not changed, and an existing file is not overwritten.
If the source is damaged or not finished, the new journal ends there and is not
marked as finished; the exit code is 1. With --skip-damage it goes on behind
damage.")]
pub(crate) struct CutArgs {
    /// Journal to read: a path such as ticks.olv, or file:///data/ticks.olv
    pub(crate) file: String,
    /// New journal
    pub(crate) new: PathBuf,
    #[command(flatten)]
    pub(crate) part: PartArgs,
}

/// Export messages as CSV, JSON lines, Arrow IPC or MCAP
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine journal export ticks.olv            JSON lines on standard output
  olivine journal export ticks.olv ticks.csv  form from the ending: .csv,
                                              .jsonl, .arrow, .mcap
  olivine journal export ticks.olv --out csv --lane 0 --topic 'orders.>'

Each message has its time, channel, lane, position, tag and topic. A payload
is text if it is UTF-8, otherwise base64; Arrow and MCAP have the bytes. An
existing file is not overwritten. If the journal is damaged or not finished,
the messages before that are exported, and the exit code is 1. With
--skip-damage those behind damage, too.")]
pub(crate) struct ExportArgs {
    /// Journal to read: a path such as ticks.olv, or file:///data/ticks.olv
    pub(crate) file: String,
    /// New file [default: standard output]
    pub(crate) into: Option<PathBuf>,
    /// Form [default: from the file's ending; json without a file]
    #[arg(long, short, value_name = "FORM")]
    pub(crate) out: Option<ExportForm>,
    #[command(flatten)]
    pub(crate) part: PartArgs,
}

/// A form of exported messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportForm {
    // Rows with a heading
    Csv,
    // One JSON object per line
    Json,
    // Apache Arrow IPC file
    Arrow,
    // MCAP file
    Mcap,
}

fn start(text: &str) -> Result<Start, String> {
    match text.parse() {
        Ok(Start::Now) | Err(_) => Err(
            "expected oldest, time:DATE such as time:2026-01-31T08:30:00Z, or position:BYTES"
                .to_owned(),
        ),
        Ok(start) => Ok(start),
    }
}

fn end(text: &str) -> Result<Start, String> {
    match text.parse() {
        Ok(end @ (Start::Time(_) | Start::Position(_))) => Ok(end),
        _ => Err(
            "expected time:DATE such as time:2026-01-31T08:30:00Z, or position:BYTES".to_owned(),
        ),
    }
}

fn filter(text: &str) -> Result<TopicFilter, String> {
    text.parse()
}
