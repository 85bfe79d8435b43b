//! Arguments of the commands that list, show and remove channels.

use super::TEMPLATE;
use clap::Args;
use std::path::PathBuf;

/// List channels with their publishers, subscribers and lag
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
  olivine inspect file:///data/ticks.olv      contents of a journal; reads all")]
pub(crate) struct InspectArgs {
    /// Channel such as shm://ticks or ticks, or journal such as file:///a.olv
    pub(crate) uri: String,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<String>,
}

/// Remove channels, or one durable subscriber of a channel
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine rm shm://ticks shm://log
  olivine rm shm://ticks --force              even if it is in use
  olivine rm shm://ticks --name audit         remove a durable subscriber and
                                              discard its unread messages")]
pub(crate) struct RmArgs {
    /// Channels, such as shm://ticks
    #[arg(required = true)]
    pub(crate) uri: Vec<String>,
    /// Also remove channels in use; attached processes keep their memory
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Remove the durable subscriber of this name, not the channel. It must not
    /// be attached. Publishers no longer wait for it. The channel goes too if no
    /// other process uses it
    #[arg(long, value_name = "NAME", conflicts_with = "force")]
    pub(crate) name: Option<String>,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<String>,
}

/// Remove unused channels that no durable subscriber needs
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine gc --dry-run                        print what would be removed
  olivine gc")]
pub(crate) struct GcArgs {
    /// Print what would be removed, and remove nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<PathBuf>,
}

/// Check this machine, and one channel's participants, for what slows or stops Olivine
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine doctor
  olivine doctor shm://ticks                  its participants, too
  olivine doctor --json | jq -r '.checks[] | select(.status==\"warning\").mend'

It reads, and changes nothing. Each check is good, a note (it matters to some
uses), unknown, a warning or a problem. Exit codes: 0 nothing stops Olivine,
1 a problem stops it or the command failed, 2 wrong usage.")]
pub(crate) struct DoctorArgs {
    /// Channel whose participants are checked, too, such as shm://ticks
    pub(crate) uri: Option<String>,
    /// Explain every check, not only warnings and problems
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<String>,
}
