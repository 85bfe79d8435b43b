//! Arguments of the command that measures bridges.

use super::{MethodArgs, TEMPLATE, values};
use clap::Args;
use olivine_bench::scenario::bridge::Part;
use std::path::PathBuf;

/// Compare bridges with ZeroMQ, a plain socket, the NATS client and the disk
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bench bridge                        every part
  olivine bench bridge stream --seconds 10
  olivine bench bridge disk --folder /var/lib/olivine

Parts: paced (one way over tcp:// at a fixed rate), trip (there and back over
tcp://), stream (full speed over tcp://), cost (of a message for its
publisher), stored (through nats://), disk (file://). 'cargo xtask rivals'
builds the programs of ZeroMQ and of the NATS client; 'cargo xtask test'
installs nats-server. A missing program is reported and left out.")]
pub(crate) struct FarArgs {
    /// Which parts [default: all]
    #[arg(value_name = "PART")]
    pub(crate) part: Vec<Part>,
    /// Folder of the programs that `cargo xtask rivals` builds
    /// [default: rivals/target/release]
    #[arg(long, value_name = "PATH")]
    pub(crate) rivals: Option<PathBuf>,
    /// Folder on the disk to measure [default: the temporary folder]
    #[arg(long, value_name = "PATH")]
    pub(crate) folder: Option<PathBuf>,
    /// How both ends wait in the part 'paced': spin, yield, park, adaptive
    /// [default: spin with four CPUs or more, else yield]
    #[arg(long, value_name = "STRATEGY")]
    pub(crate) wait: Option<String>,
    /// Messages per second in the part 'paced' [default: 10K]
    #[arg(
        long, short, value_name = "RATE", allow_negative_numbers = true,
        value_parser = values::latency_rate
    )]
    pub(crate) rate: Option<f64>,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}
