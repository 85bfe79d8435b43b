//! Arguments of the commands that list, show and remove channels.

use super::{TEMPLATE, values};
use crate::complete;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

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
    /// Channel such as shm://ticks or ticks, or journal such as file:///a.olv;
    /// tcp://host:1/x?name=NAME is the ring that this name has here
    #[arg(add = complete::channel())]
    pub(crate) uri: String,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<String>,
}

/// Watch channels: who is attached, who is behind, who holds a publisher back
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine top                                 all channels of the folder
  olivine top shm://ticks                     one channel
  olivine top --once                          two looks half a second apart
  olivine top --json | jq -r '.findings[].text'

The first line names the subscriber that holds a publisher back, for how long,
and what its process does; the line below it is a command that helps. It only
reads, also without root, and costs the participants nothing. What starts with
~ is estimated from the headers of some messages.

In a build with the feature 'screen' a terminal gets a screen with keys: ? lists
them. Elsewhere each look is printed.")]
pub(crate) struct TopArgs {
    /// Channels such as shm://ticks or ticks [default: all of the folder]
    #[arg(add = complete::channel())]
    pub(crate) uri: Vec<String>,
    /// Print what two looks show, and end; exit code 1 if a named channel cannot be
    /// read
    #[arg(long)]
    pub(crate) once: bool,
    /// Time between two looks, 50ms or more
    #[arg(
        long, short = 'd', value_name = "TIME", allow_negative_numbers = true,
        value_parser = values::duration, default_value = "1s"
    )]
    pub(crate) interval: Duration,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<String>,
}

/// Print the messages of a channel as they pass, without a place in it
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine tap shm://ticks                     time, lane, tag, length, topic,
                                              start of the payload
  olivine tap ticks --sample 1000             one of 1,000 messages
  olivine tap ticks --hz                      rates, lengths, longest pause
  olivine tap ticks --json | jq -r .topic

It takes no slot, wakes no process and stores nothing: no publisher waits for
it. Messages that are overwritten between two looks are reported as missed. A
lane that comes and goes between two looks is not seen: --interval makes them
more frequent. The time is that of the look, in UTC.")]
pub(crate) struct TapArgs {
    /// Channel such as shm://ticks or ticks; it may come later
    #[arg(add = complete::channel())]
    pub(crate) uri: String,
    /// Stop after this many messages, or rows of --hz [default: never]
    #[arg(
        long, short = 'c', value_name = "N", allow_negative_numbers = true,
        value_parser = values::count
    )]
    pub(crate) count: Option<u64>,
    /// Stop after this time [default: never]
    #[arg(
        long, short, value_name = "TIME", allow_negative_numbers = true,
        value_parser = values::duration
    )]
    pub(crate) duration: Option<Duration>,
    /// Print one of N messages
    #[arg(
        long, value_name = "N", allow_negative_numbers = true, value_parser = values::count,
        default_value = "1", conflicts_with = "hz"
    )]
    pub(crate) sample: u64,
    /// Bytes of each payload to print, at most 4096
    #[arg(
        long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(0..=4096),
        allow_negative_numbers = true, default_value = "48", conflicts_with = "hz"
    )]
    pub(crate) head: u16,
    /// Print rates each second instead of messages; payloads are not read
    #[arg(long)]
    pub(crate) hz: bool,
    /// Time between two looks, 1ms or more
    #[arg(
        long, value_name = "TIME", allow_negative_numbers = true,
        value_parser = values::duration, default_value = "10ms"
    )]
    pub(crate) interval: Duration,
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
    /// Channels, such as shm://ticks; tcp://host:1/x?name=NAME is the ring that this
    /// name has here
    #[arg(required = true, add = complete::channel())]
    pub(crate) uri: Vec<String>,
    /// Also remove channels in use or of another version; attached processes
    /// keep their memory
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
uses), unknown, a warning or a problem. Of a channel it finds who holds a
publisher back, as 'olivine top' does (channel-held: a problem if that one is
gone, stopped or reads nothing); stopped and invisible participants; and their
CPUs, namespaces and users. Exit codes: 0 no check found a problem, 1 one did or
the command failed, 2 wrong usage.")]
pub(crate) struct DoctorArgs {
    /// Channel whose participants are checked, too, such as shm://ticks
    #[arg(add = complete::channel())]
    pub(crate) uri: Option<String>,
    /// Explain every check, not only warnings and problems
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<String>,
}
