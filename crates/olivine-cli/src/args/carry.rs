//! Commands that carry messages between channels.

use super::TEMPLATE;
use clap::Args;
use std::path::PathBuf;

/// Carry messages between channels: memory, machines, journals
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bridge shm://ticks tcp://0.0.0.0:9000/ticks     serve a channel
  olivine bridge tcp://host:9000/ticks shm://ticks        bring it here
  olivine bridge shm://ticks file:///data/ticks.olv       record it
  olivine bridge --config bridges.toml                    several at once:
                                      [[bridge]]
                                      source = \"shm://ticks\"
                                      destination = \"tcp://0.0.0.0:9000/ticks\"

At least one side is shm://. Killed and started again, it goes on where it was:
nothing is lost or repeated. Ends when every publisher has closed, without
--keep. Ctrl-C: what is published by then is delivered for as long as that makes
progress (5 s without any ends it; a second Ctrl-C ends at once). What is left
is counted as undelivered and kept for the next bridge; the exit code is 1.")]
pub(crate) struct BridgeArgs {
    /// Where messages come from, such as shm://ticks
    #[arg(requires = "destination")]
    pub(crate) source: Option<String>,
    /// Where they go
    pub(crate) destination: Option<String>,
    /// Go on when every publisher has closed
    #[arg(long)]
    pub(crate) keep: bool,
    /// TOML file with any number of bridges, each with source, destination and
    /// keep
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "keep"])]
    pub(crate) config: Option<PathBuf>,
}

/// Record a channel into a journal
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine record shm://ticks ticks.olv        until every publisher has closed
  olivine record ticks /data/ticks.olv --keep --rotate 1GiB,1h
  olivine record ticks ticks.olv --sync interval:1s

Short for 'olivine bridge shm://CHANNEL file:///PATH': killed, or ended by
SIGTERM, and started again, it goes on where it was; publishers wait for it.
When every publisher has closed, or after Ctrl-C, it gives its place up, unless
--durable names it.")]
pub(crate) struct RecordArgs {
    /// Channel to record: shm://NAME or only the name
    pub(crate) channel: String,
    /// Journal to record into, made if need be
    pub(crate) file: String,
    /// Go on when every publisher has closed
    #[arg(long)]
    pub(crate) keep: bool,
    /// What a recorded message survives: block (a power cut), interval:TIME or
    /// never [default: block]
    #[arg(long, value_name = "POLICY")]
    pub(crate) sync: Option<String>,
    /// Go on in a next file after this size, time or both, such as 1GiB,1h
    /// [default: never]
    #[arg(long, value_name = "WHEN")]
    pub(crate) rotate: Option<String>,
    /// Pack blocks: no, zstd or zstd:LEVEL [default: no]
    #[arg(long, value_name = "HOW", hide = !cfg!(feature = "zstd"))]
    pub(crate) compress: Option<String>,
    /// Keep the place in the channel under this name, also after the end:
    /// publishers wait for the next recorder of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) durable: Option<String>,
    /// Name under which the journal keeps the channel [default: its own]
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

Short for 'olivine bridge file:///PATH shm://CHANNEL'. 'olivine sub
file:///PATH' reads a journal without a channel.")]
pub(crate) struct ReplayArgs {
    /// Journal to replay
    pub(crate) file: String,
    /// Channel to publish in: shm://NAME or only the name
    pub(crate) channel: String,
    /// How fast: full, original, or a factor such as 2x [default: full]
    #[arg(long, value_name = "PACE")]
    pub(crate) pace: Option<String>,
    /// Where to start: oldest, now, time:DATE or position:BYTES
    /// [default: oldest]
    #[arg(long, value_name = "PLACE")]
    pub(crate) from: Option<String>,
    /// At the end wait for the next recorder
    #[arg(long)]
    pub(crate) follow: bool,
    /// What a recording is that was not finished: fail or accept
    /// [default: fail]
    #[arg(long, value_name = "HOW")]
    pub(crate) unfinished: Option<String>,
    /// The channel to replay, of a journal that holds several
    #[arg(long = "of", value_name = "NAME")]
    pub(crate) name_in_journal: Option<String>,
    /// Wait for this many subscribers before the first message [default: 0]
    #[arg(long, value_name = "COUNT", visible_alias = "wait-for")]
    pub(crate) subscribers: Option<String>,
}
