//! Arguments of the command that measures bridges.

use super::{MethodArgs, TEMPLATE, values};
use clap::Args;
use olivine_bench::scenario::bridge::Part;
use std::path::PathBuf;

/// Bridges beside other transports, a bare socket, a server's own client, the disk
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bench bridge                        every part, contenders in turns
  olivine bench bridge stream --seconds 10
  olivine bench bridge disk --folder /var/lib/olivine

Parts: paced (one way over tcp:// at a rate), stream (full speed over tcp://),
cost (of a message for its publisher), stored (through nats://), disk (file://).
ZeroMQ and the NATS client are programs that 'cargo xtask rivals' builds, and
nats-server is what 'cargo xtask test' installs; who is missing is named.")]
pub(crate) struct FarArgs {
    /// Which parts [default: all]
    #[arg(value_name = "PART")]
    pub(crate) part: Vec<Part>,
    /// Folder of the rivals that `cargo xtask rivals` has built
    /// [default: rivals/target/release]
    #[arg(long, value_name = "PATH")]
    pub(crate) rivals: Option<PathBuf>,
    /// Folder on the disk to be measured [default: the one for temporary files]
    #[arg(long, value_name = "PATH")]
    pub(crate) folder: Option<PathBuf>,
    /// How both ends wait where messages are paced: spin, yield, park, adaptive
    /// [default: spin where four CPUs are allowed, else yield]
    #[arg(long, value_name = "STRATEGY")]
    pub(crate) wait: Option<String>,
    /// Messages a second where they are paced [default: 10K]
    #[arg(long, short, value_name = "RATE", allow_negative_numbers = true, value_parser = values::latency_rate)]
    pub(crate) rate: Option<f64>,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}
