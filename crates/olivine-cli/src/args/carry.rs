//! Arguments of the commands that carry messages between channels.

use super::TEMPLATE;
use crate::complete;
use clap::Args;
use std::path::PathBuf;

/// Copy messages between shared memory, other machines and journals
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bridge shm://ticks tcp://0.0.0.0:9000/ticks     serve a channel
  olivine bridge tcp://host:9000/ticks shm://ticks        subscribe to it
  olivine bridge shm://ticks 'tcp://far:9000/ticks?role=connect'   send it there
  olivine bridge shm://ticks file:///data/ticks.olv       record it
  olivine bridge --config bridges.toml                    several bridges:
                                      [[bridge]]
                                      source = \"shm://ticks\"
                                      destination = \"tcp://0.0.0.0:9000/ticks\"

At least one side is shm://. A killed bridge that starts again continues where
it stopped: no message is lost or repeated. Without --keep it ends when every
publisher has closed. After Ctrl-C a bridge out of a ring delivers what is
published so far; it ends after 5 s without progress, after 30 s in all, or at
once after a second Ctrl-C that comes a second later or more. Undelivered
messages are counted and kept for the next bridge with the same two URIs; the
exit code is then 1. A bridge into a ring ends at once: what it has not taken
stays at the source.

At the end a table has a row for each bridge. CARRIED counts frames, which are
longer than their messages. BROKEN are connections that broke, REFUSED far sides
that were refused, ABANDONED far sides that were given up, and UNDELIVERED
messages that wait for the next bridge. MESSAGES is '-' on a side that sends.

On a terminal a line shows the messages and bytes carried so far, of a journal
also the per cent; --log-level warn leaves it out.")]
pub(crate) struct BridgeArgs {
    /// URI to read messages from, such as shm://ticks
    #[arg(requires = "destination", add = complete::channel())]
    pub(crate) source: Option<String>,
    /// URI to write messages to
    #[arg(add = complete::channel())]
    pub(crate) destination: Option<String>,
    /// Continue after every publisher has closed
    #[arg(long)]
    pub(crate) keep: bool,
    /// TOML file with any number of bridges, each with source, destination and
    /// keep; at most 1 MiB
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "keep"])]
    pub(crate) config: Option<PathBuf>,
}

/// Record channels into journals, one each
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, override_usage = "\
olivine record [OPTIONS] <CHANNEL> <FILE>
       olivine record [OPTIONS] <CHANNEL> <CHANNEL>... <FOLDER>
       olivine record [OPTIONS] --all <FOLDER>", after_help = "\
Examples:
  olivine record shm://ticks ticks.olv        until every publisher has closed
  olivine record ticks /data/ticks.olv --keep --rotate 1GiB,1h
  olivine record ticks ticks.olv --sync interval:1s
  olivine record ticks orders /data           /data/ticks.olv, /data/orders.olv
  olivine record --all /data --keep

Same as 'olivine bridge shm://CHANNEL file:///PATH'. It begins with the next
message; 'shm://CHANNEL?from=oldest' as CHANNEL takes what the ring has, too.
A recorder that was killed or ended by SIGTERM continues where it stopped; until
then publishers wait for it. After Ctrl-C, or when every publisher has closed,
publishers no longer wait, unless --durable is given.")]
pub(crate) struct RecordArgs {
    /// Channels to record, as shm://NAME or only the names; then the journal, or
    /// the folder of several. Both are created if missing
    #[arg(required = true, value_name = "CHANNEL|FILE", add = complete::channel())]
    pub(crate) words: Vec<String>,
    /// Record every channel that exists now; the only argument is the folder
    #[arg(long)]
    pub(crate) all: bool,
    /// Continue after every publisher has closed
    #[arg(long)]
    pub(crate) keep: bool,
    /// When to sync to disk: block (after each block), interval:TIME or never
    /// [default: block]
    #[arg(long, value_name = "POLICY")]
    pub(crate) sync: Option<String>,
    /// Start a new file after this size, time or both, such as 1GiB,1h
    /// [default: never]
    #[arg(long, value_name = "WHEN")]
    pub(crate) rotate: Option<String>,
    /// Compress blocks: no, zstd or zstd:LEVEL [default: no]
    #[arg(long, value_name = "HOW", hide = !cfg!(feature = "zstd"))]
    pub(crate) compress: Option<String>,
    /// Keep the position in the channel under this name after the end, as
    /// name= does: publishers wait for the next recorder of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) durable: Option<String>,
    /// Name of the channel in the journal [default: the channel's name]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name_in_journal: Option<String>,
}

/// Replay a journal into a channel
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine replay ticks.olv shm://again --subscribers 1
  olivine replay ticks.olv again --pace 10x --follow
  olivine replay ticks.olv again --from time:2026-01-31T08:30:00Z

Same as 'olivine bridge file:///PATH shm://CHANNEL'. 'olivine sub
file:///PATH' reads a journal without a channel.

A channel keeps the position of a replay that was stopped or killed early, also
with --follow: the next replay of the journal into it continues there,
whatever --from is, and says so. 'olivine rm CHANNEL' forgets it.")]
pub(crate) struct ReplayArgs {
    /// Journal to replay
    pub(crate) file: String,
    /// Channel to publish in: shm://NAME or only the name
    #[arg(add = complete::channel())]
    pub(crate) channel: String,
    /// How fast: full, original, or a factor such as 2x [default: full]
    #[arg(long, value_name = "PACE")]
    pub(crate) pace: Option<String>,
    /// Start position: oldest, now, time:DATE or position:BYTES. A position behind
    /// the end is refused, unless the journal grows or with --follow
    /// [default: oldest]
    #[arg(long, value_name = "START")]
    pub(crate) from: Option<String>,
    /// Wait for the next recorder at the end of the journal
    #[arg(long)]
    pub(crate) follow: bool,
    /// An unfinished recording: fail or accept [default: fail]
    #[arg(long, value_name = "HOW")]
    pub(crate) unfinished: Option<String>,
    /// Channel to replay, if the journal holds several
    #[arg(long = "of", value_name = "NAME")]
    pub(crate) name_in_journal: Option<String>,
    /// Wait for this many subscribers before the first message, or before the end
    /// if an earlier replay sent all of them [default: 0]
    #[arg(long, value_name = "COUNT", visible_alias = "wait-for")]
    pub(crate) subscribers: Option<String>,
}
