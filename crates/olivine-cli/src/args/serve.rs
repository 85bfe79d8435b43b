//! Arguments of the commands that show channels to browsers and monitoring systems.

use super::{TEMPLATE, values};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Who may ask the server.
#[derive(Clone, Debug, Args)]
pub(crate) struct AccessArgs {
    /// Secret that each request must have, 16 characters or more; required to
    /// listen beyond this machine
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    pub(crate) token: Option<String>,
    /// File whose first line is the token: other users see arguments, not files
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Name under which browsers reach it besides addresses and localhost; may be
    /// repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
}

/// Serve metrics of channels for Prometheus, or write them to a file
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine metrics                             http://127.0.0.1:6549/metrics
  olivine metrics --once                      print them, and end
  olivine metrics --textfile /var/lib/node_exporter/olivine.prom
  olivine metrics --listen 0.0.0.0:6549 --token-file /etc/olivine/token

It looks at the channels only when it is asked, and only reads: no slot, no
lock, no wake-up. The text is OpenMetrics 1.0 for those who prefer it, else
Prometheus 0.0.4. docs/metrics.md lists metrics, alert rules and a dashboard.")]
pub(crate) struct MetricsArgs {
    /// Channels such as shm://ticks or ticks [default: all of the folder]
    pub(crate) uri: Vec<String>,
    /// Address and port to listen on; port 0 is any free port
    #[arg(
        long, value_name = "ADDRESS", default_value = "127.0.0.1:6549",
        value_parser = values::address
    )]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// Write the text to this file, in place of the old file at once, and end
    #[arg(long, value_name = "FILE", conflicts_with = "once")]
    pub(crate) textfile: Option<PathBuf>,
    /// Print the text, and end; exit code 1, here and with --textfile, if a named
    /// channel cannot be read
    #[arg(long)]
    pub(crate) once: bool,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<String>,
}

/// Show channels in a browser: who holds publishers back, rates, lag, this machine
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine serve                               http://127.0.0.1:6548/
  olivine serve ticks orders --interval 500ms
  olivine serve --listen 0.0.0.0:6548 --token-file /etc/olivine/token
  olivine serve --snapshot now.html           one file to send to a colleague

It only reads, and looks at the channels only while a page is open or a
request waits: no slot, no lock, no wake-up. /metrics is the text of 'olivine
metrics', /api/v1/ is JSON; docs/serve.md lists both.")]
pub(crate) struct ServeArgs {
    /// Channels such as shm://ticks or ticks [default: all of the folder]
    pub(crate) uri: Vec<String>,
    /// Address and port to listen on; port 0 is any free port
    #[arg(
        long, value_name = "ADDRESS", default_value = "127.0.0.1:6548",
        value_parser = values::address
    )]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// Time between two looks, 50ms or more
    #[arg(
        long, short = 'd', value_name = "TIME", allow_negative_numbers = true,
        value_parser = values::duration, default_value = "1s"
    )]
    pub(crate) interval: Duration,
    /// Write the page as it is after --seconds to this file, and end
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,
    /// Time to look before the snapshot is written
    #[arg(
        long, value_name = "S", allow_negative_numbers = true, value_parser = values::duration,
        default_value = "2", requires = "snapshot"
    )]
    pub(crate) seconds: Duration,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<String>,
}
