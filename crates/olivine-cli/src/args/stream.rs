//! Arguments of `olivine pub` and `olivine sub`.

use super::channel::{PublisherArgs, SubscriberArgs, keys_without_flags};
use super::values::Rate;
use super::{TEMPLATE, values};
use crate::failure::{Failure, Outcome};
use crate::{complete, typed};
use clap::{Args, ValueEnum};
use olivine::MessageType;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const PUB_EXAMPLES: &str = "\
Examples:
  olivine pub shm://ticks hello world         two messages
  olivine pub shm://log --stdin lines < file  one message for each line
  olivine pub shm://x --rate 100K --count 1M  a million generated messages,
                                              100,000 per second, evenly spaced
  olivine pub shm://x --subscribers 3 --stdin raw < disk.img
  olivine pub shm://x --type 't v1: n u64' '{\"n\":1}'

Without MESSAGE and --stdin, messages are generated. Each has a sequence number,
its intended send time and a pattern; 'sub --verify' checks them.

Besides the settings below, a URI of these schemes accepts these keys:";

/// Publish messages: from arguments, from standard input, or generated
#[derive(Debug, Args)]
#[command(
    help_template = TEMPLATE, after_help = format!("{PUB_EXAMPLES}{}", keys_without_flags())
)]
pub(crate) struct PubArgs {
    /// Channel, such as ticks, shm://ticks or shm://ticks?capacity=4MiB
    #[arg(add = complete::channel())]
    pub(crate) uri: String,
    /// Messages to send, one for each argument
    pub(crate) message: Vec<OsString>,
    /// Send standard input as lines, frames (u32 length, u32 tag, both little
    /// endian, then the payload), raw chunks, or JSON lines (with --type)
    #[arg(long, value_name = "FORM", conflicts_with = "message")]
    pub(crate) stdin: Option<InputForm>,
    /// Bytes of a generated message (16 or more), or most bytes of a raw chunk;
    /// sizes of a list alternate [default: 32; raw: 64KiB]
    #[arg(
        long, short, value_name = "BYTES", allow_negative_numbers = true,
        value_parser = values::size, value_delimiter = ',', conflicts_with = "message"
    )]
    pub(crate) size: Vec<u64>,
    /// Stop after this many messages; MESSAGEs repeat until then [default: each
    /// MESSAGE once; otherwise never]
    #[arg(
        long, short = 'c', value_name = "N", allow_negative_numbers = true,
        value_parser = values::count
    )]
    pub(crate) count: Option<u64>,
    /// Stop after this time, also before --count is reached, no error [default: never]
    #[arg(
        long, short, value_name = "TIME", allow_negative_numbers = true,
        value_parser = values::duration
    )]
    pub(crate) duration: Option<Duration>,
    /// Messages per second, evenly spaced; 0 is full speed
    #[arg(
        long, short, value_name = "RATE", allow_negative_numbers = true,
        value_parser = values::rate, default_value = "0"
    )]
    pub(crate) rate: Rate,
    /// Make this many generated messages visible at once: 1 to 1024
    #[arg(
        long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u16).range(1..=1024),
        conflicts_with_all = ["stdin", "message"]
    )]
    pub(crate) batch: u16,
    /// Number sent with each message [default: 0]
    #[arg(
        long, value_name = "TAG",
        value_parser = clap::value_parser!(u32).range(..i64::from(u32::MAX))
    )]
    pub(crate) tag: Option<u32>,
    /// Publish values of this type, each from an object in JSON: MESSAGEs, or
    /// --stdin json. 'quote v1: bid i64, ask i64' is a name and fields;
    /// '; size=BYTES; align=BYTES' is for what differs from C
    #[arg(long = "type", value_name = "TYPE", value_parser = typed::parse)]
    pub(crate) stated: Option<MessageType>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) channel: PublisherArgs,
}

impl PubArgs {
    /// Number sent with each message.
    pub(crate) fn tag(&self) -> u32 {
        self.tag.unwrap_or(0)
    }
}

/// Subscribe: print, copy, measure or verify messages
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine sub shm://ticks                     one line for each message
  olivine sub ticks --last                    newest value, then end
  olivine sub shm://log --out raw > copy      payload bytes, unchanged
  olivine sub shm://x --topic 'a.*' --out topics   some topics, with their names
  olivine sub shm://x --verify                count lost, repeated, reordered
                                              and corrupt generated messages
  olivine sub shm://x --stats latency,interval --csv x.csv
  olivine sub shm://x --stats latency --worst 10   why the worst were late
  olivine sub shm://x --delivery latest       publishers do not wait for it

It may start before any publisher. It continues after all publishers have
closed, unless --once is given. If the stream fails, it prints the reason and
ends with exit code 1. 'olivine pub --help' lists the keys of a URI.")]
pub(crate) struct SubArgs {
    /// Channel, such as ticks, shm://ticks or file:///data/ticks.olv
    #[arg(add = complete::channel())]
    pub(crate) uri: String,
    /// Stop after this many messages [default: never]
    #[arg(
        long, short = 'c', value_name = "N", allow_negative_numbers = true,
        value_parser = values::count
    )]
    pub(crate) count: Option<u64>,
    /// Stop after this time, also before --count is reached, no error [default: never]
    #[arg(
        long, short, value_name = "TIME", allow_negative_numbers = true,
        value_parser = values::duration
    )]
    pub(crate) duration: Option<Duration>,
    /// Print the newest message of each publisher, and end. Without one in the
    /// ring, wait for the first, at most for --duration (then exit code 1). If
    /// no other program uses the channel, it ends with this one, and so do its
    /// messages
    #[arg(
        long,
        conflicts_with_all = [
            "count", "once", "verify", "stats", "worst", "save", "csv", "from", "delivery",
            "name"
        ]
    )]
    pub(crate) last: bool,
    /// Stop when the last publisher has closed and everything is read; without
    /// a publisher yet, wait for one
    #[arg(long)]
    pub(crate) once: bool,
    /// Format on standard output; json is one object per line
    /// [default: lines, json with --json; none with --verify or --stats]
    #[arg(long, short, value_name = "FORM")]
    pub(crate) out: Option<OutputForm>,
    /// Check every byte and sequence number of generated messages; exit code 1
    /// if any is lost, repeated, reordered or corrupt, or if none was received
    #[arg(long, visible_alias = "test")]
    pub(crate) verify: bool,
    /// Most messages read from the ring at once, 1 or more
    #[arg(
        long, value_name = "N", default_value = "65536",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) batch: u32,
    /// With --stats latency: list the N worst messages, each with its cause, as
    /// far as the system and the ring show it
    #[arg(
        long, value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    pub(crate) worst: Option<u16>,
    /// With --stats latency: also write the histogram to this .hlog file, which
    /// the libraries called HdrHistogram read
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Receive values of this type only, and print their fields with --out json
    /// where the channel has none: 'quote v1: bid i64, ask i64'
    #[arg(long = "type", value_name = "TYPE", value_parser = typed::parse)]
    pub(crate) stated: Option<MessageType>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) channel: SubscriberArgs,
}

/// Options of the report about a stream.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Reports, separated by commas: throughput, interval (one row per interval)
    /// and, for generated messages, latency [default: none]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) stats: Vec<Stat>,
    /// Time between rows of --stats interval and --csv [default: 1s]
    #[arg(
        long, value_name = "TIME", allow_negative_numbers = true,
        value_parser = values::duration
    )]
    pub(crate) interval: Option<Duration>,
    /// Write one row per interval to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// End when standard input ends.
    #[arg(long, hide = true)]
    pub(crate) tied: bool,
}

impl ReportArgs {
    /// Time between two rows.
    ///
    /// # Errors
    ///
    /// `--interval` is given, but no report has rows.
    pub(crate) fn interval(&self) -> Outcome<Duration> {
        let has_rows = self.wants(Stat::Interval) || self.csv.is_some();
        if self.interval.is_some() && !has_rows {
            return Err(Failure::usage(
                "--interval is the time between two rows: add --stats interval or --csv FILE",
            ));
        }
        Ok(self.interval.unwrap_or(Duration::from_secs(1)))
    }

    pub(crate) fn wants(&self, stat: Stat) -> bool {
        self.stats.contains(&stat)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stat {
    // Messages and bytes per second at the end
    Throughput,
    // Percentiles from the intended send time (subscriber, generated messages)
    Latency,
    // One row per interval while running
    Interval,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputForm {
    Lines,
    Frames,
    Raw,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    Lines,
    // Lines with the topic and a tab before the message
    Topics,
    // One JSON object per line: event, lane, tag, topic, and fields, text, or base64 if it is not
    // UTF-8
    Json,
    Frames,
    Raw,
    None,
}

impl OutputForm {
    /// Its word on the command line.
    pub(crate) fn word(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
