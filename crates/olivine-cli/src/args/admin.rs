//! Words of the commands that look after channels.

use super::TEMPLATE;
use clap::Args;
use std::path::PathBuf;

/// List channels: who is attached, what lags, what is left over
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine ls
  olivine ls --json | jq '.channels[].name'

Sealed channels (shm+fd://) have no name in the folder and are not listed.")]
pub(crate) struct LsArgs {
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<PathBuf>,
}

/// Show a channel (settings, publishers, subscribers, lag) or a journal
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine inspect shm://ticks
  olivine inspect ticks --json | jq '.subscribers[].lag_bytes'
  olivine inspect file:///data/ticks.olv      what a journal holds; reads it all")]
pub(crate) struct InspectArgs {
    /// Channel, such as shm://ticks or ticks, or journal, such as file:///a.olv
    pub(crate) uri: String,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<String>,
}

/// Remove channels by name, or forget a durable subscriber of one
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine rm shm://ticks shm://log
  olivine rm shm://ticks --force              even if it is in use
  olivine rm shm://ticks --name audit         forget a durable subscriber that
                                              is gone, and what it has not read")]
pub(crate) struct RmArgs {
    /// Channels, such as shm://ticks
    #[arg(required = true)]
    pub(crate) uri: Vec<String>,
    /// Remove also what is in use; those attached keep their memory
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Forget the durable subscriber of this name instead, which must not be
    /// attached; publishers wait for it no longer. The channel stays, unless
    /// no other process uses it
    #[arg(long, value_name = "NAME", conflicts_with = "force")]
    pub(crate) name: Option<String>,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<String>,
}

/// Collect unused channels that no durable subscriber needs
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine gc --dry-run                        say what would go
  olivine gc")]
pub(crate) struct GcArgs {
    /// Only say what would be removed
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<PathBuf>,
}
