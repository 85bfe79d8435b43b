//! Words of `olivine bench`.

use super::{FarArgs, TEMPLATE, load, values};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Findings are no rows of figures.
const FINDINGS: &str = "Write what it found here, too: .json; may be given again";

/// Measure this machine, always next to what it does without a channel
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, args_conflicts_with_subcommands = true, after_help = "\
Without a command: round trips of every method there is, in under a minute.

Examples:
  olivine bench                               every method, with its ratio
  olivine bench list                          what can be measured
  olivine bench floor                         the machine without a channel
  olivine bench pingpong --slots 64,1024      does room for subscribers cost?
  olivine bench throughput --size 32 --batch 1,16
  olivine bench latency --rate 1K,1M --save latency.json
  olivine bench bridge stream                 tcp:// beside ZeroMQ and NATS
  olivine bench compare olivine-spin pipe     which is faster, or is it noise?
  olivine bench report latency.json           a page with plots
  olivine bench http http://127.0.0.1:8000/   load a server, check each answer
  olivine bench http --peers all              ours and others, taking turns")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) scenario: Option<Scenario>,
    /// Without SCENARIO, write the table's result here, too: .json, .csv,
    /// .hlog, .html or .md by its ending; may be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Scenario {
    Floor(FloorArgs),
    Pingpong(PingpongArgs),
    Throughput(ThroughputArgs),
    Latency(LatencyArgs),
    Fanout(FanoutArgs),
    Mesh(MeshArgs),
    Sweep(SweepArgs),
    Bridge(FarArgs),
    Http(load::HttpArgs),
    Tcp(load::TcpArgs),
    Compare(CompareArgs),
    Report(PageArgs),
    Selfcheck(SelfcheckArgs),
    /// List the scenarios
    List,
}

/// How a measurement is made.
#[derive(Clone, Debug, Args)]
pub(crate) struct MethodArgs {
    /// CPUs of the two processes [default: the first two allowed]
    #[arg(long, value_name = "A,B", allow_negative_numbers = true, value_parser = values::cpu_pair)]
    pub(crate) cpus: Option<(u32, u32)>,
    /// Runs, which take turns; quote a figure from five or more
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// Seconds for each variant, over all runs
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = values::duration, default_value = "2")]
    pub(crate) seconds: Duration,
    /// Run both under SCHED_FIFO, before everything else on their CPUs
    #[arg(long)]
    pub(crate) fifo: bool,
    /// Lock the memory of both (mlockall)
    #[arg(long)]
    pub(crate) mlock: bool,
    /// Write the result here, too: .json, .csv, .hlog, .html or .md by its
    /// ending; may be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Vec<PathBuf>,
}

/// How the measured channel is set up.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RingArgs {
    /// How both sides wait: spin, yield, park, adaptive [default: spin]
    #[arg(long, value_name = "STRATEGY")]
    pub(crate) wait: Option<String>,
    /// Bytes to which messages are padded [default: 8; pingpong: 8 and 64]
    #[arg(long, value_name = "BYTES")]
    pub(crate) align: Option<String>,
    /// Bytes of a ring [default: 1MiB; throughput: 1MiB and 4MiB]
    #[arg(long, value_name = "BYTES")]
    pub(crate) capacity: Option<String>,
}

impl RingArgs {
    /// How both sides wait.
    pub(crate) fn wait(&self) -> &str {
        self.wait.as_deref().unwrap_or("spin")
    }
}

/// The machine without a channel: cache line, copy, system call, clock
#[derive(Debug, Args)]
pub(crate) struct FloorArgs {
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Round trip of a message and its answer
#[derive(Debug, Args)]
#[command(mut_arg("wait", |arg| arg.conflicts_with("method")))]
pub(crate) struct PingpongArgs {
    /// What carries the messages: names from `olivine bench list`, or all
    /// [default: olivine with the wait strategy of --wait]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) method: Vec<String>,
    /// Also the rivals that `cargo xtask rivals` has built, from this folder
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "rivals/target/release")]
    pub(crate) rivals: Option<PathBuf>,
    /// Bytes of a message, 16 or more; a list is measured in turns
    #[arg(long, short, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size, value_delimiter = ',', default_value = "32")]
    pub(crate) size: Vec<u64>,
    /// Room for this many subscribers (subscribers_max); a list is measured in
    /// turns
    #[arg(
        long,
        value_name = "COUNT",
        value_delimiter = ',',
        default_value = "64",
        conflicts_with = "method"
    )]
    pub(crate) slots: Vec<u32>,
    #[command(flatten)]
    pub(crate) ring: RingArgs,
    #[command(flatten)]
    pub(crate) method_args: MethodArgs,
}

/// Messages a second at full speed, one publisher and one subscriber
#[derive(Debug, Args)]
pub(crate) struct ThroughputArgs {
    /// What carries the messages: names from `olivine bench list`, or all that
    /// can be streamed [default: olivine-shm, at its fastest]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) method: Vec<String>,
    /// Also the rivals that `cargo xtask rivals` has built, from this folder
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "rivals/target/release")]
    pub(crate) rivals: Option<PathBuf>,
    /// Bytes of a message, 16 or more; a list is measured in turns [default:
    /// 32 one by one, 32 in batches of 16, 8KiB one by one]
    #[arg(long, short, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size, value_delimiter = ',')]
    pub(crate) size: Vec<u64>,
    /// Messages made visible at once, 1 to 1024; a list is measured in turns
    /// [default: with --size 1]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) batch: Vec<u16>,
    #[command(flatten)]
    pub(crate) ring: RingArgs,
    #[command(flatten)]
    pub(crate) method_args: MethodArgs,
}

/// Processes that share a channel.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManyArgs {
    /// Subscribers, a process each; a list is measured in turns [default: fanout
    /// 1,2,4,8; mesh 6]
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) subscribers: Vec<u32>,
    /// Bytes of a message, 16 or more; a list is measured in turns
    #[arg(long, short, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size, value_delimiter = ',', default_value = "32")]
    pub(crate) size: Vec<u64>,
    /// Messages made visible at once, 1 to 1024; a list is measured in turns
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024), default_value = "1")]
    pub(crate) batch: Vec<u16>,
    /// How all wait: yield, park, adaptive, or spin where each has a CPU
    #[arg(long, value_name = "STRATEGY", default_value = "adaptive")]
    pub(crate) wait: String,
    /// Bytes of a ring [default: 1MiB]
    #[arg(long, value_name = "BYTES")]
    pub(crate) capacity: Option<String>,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Full speed, one publisher to several subscribers that get every message
#[derive(Debug, Args)]
pub(crate) struct FanoutArgs {
    #[command(flatten)]
    pub(crate) many: ManyArgs,
}

/// Full speed, each of several publishers to each of several subscribers
#[derive(Debug, Args)]
pub(crate) struct MeshArgs {
    /// Publishers, a process each; a list is measured in turns
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64), default_value = "6")]
    pub(crate) publishers: Vec<u32>,
    #[command(flatten)]
    pub(crate) many: ManyArgs,
}

/// Measure a job file or a preset point by point; taken up again if stopped
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bench sweep --preset olive          what Olive published, here
  olivine bench sweep job.toml --out found.json
  olivine bench sweep job.toml --out found.json    goes on where it stopped

A job file has an 'about' and any number of blocks. Each block crosses its
lists; a list that its scenario ignores is refused:
  about = \"sizes against methods\"
  [[measure]]
  scenario = \"pingpong\"            # or latency, throughput, fanout, mesh
  size = [32, 1024]                # bytes of a message; all scenarios
  method = [\"olivine-shm\", \"pipe\"]   # pingpong, throughput
  wait = [\"spin\", \"adaptive\"]      # of channels of this library
  capacity = [\"64KiB\", \"1MiB\"]     # of channels of this library
  rate = [1000.0]                  # latency: messages a second
  batch = [1, 16]                  # throughput, fanout, mesh
  publishers = [6]                 # mesh
  subscribers = [1, 2, 4]          # fanout, mesh")]
pub(crate) struct SweepArgs {
    /// Job file in TOML
    #[arg(required_unless_present = "preset", conflicts_with = "preset")]
    pub(crate) job: Option<PathBuf>,
    /// A published experiment: ipc-bench, octane, olive, ring-buffer, solace
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Where results are kept after each point, and looked for first
    #[arg(long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// One-way latency at a fixed rate, from the intended send time
#[derive(Debug, Args)]
pub(crate) struct LatencyArgs {
    /// Messages a second; a list is measured in turns
    #[arg(long, short, value_name = "RATE", allow_negative_numbers = true, value_parser = values::latency_rate, value_delimiter = ',', default_value = "1K,100K,1M")]
    pub(crate) rate: Vec<f64>,
    /// Bytes of a message, 16 or more
    #[arg(long, short, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size, default_value = "32")]
    pub(crate) size: u64,
    #[command(flatten)]
    pub(crate) ring: RingArgs,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Say which of two is faster, by how much, and whether that is noise
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bench compare olivine-spin pipe     measured now, runs in turns
  olivine bench compare olivine-spin olivine-spin
                                              how much is noise here?
  olivine bench compare before.json after.json
  olivine bench compare all.json:pipe all.json:fifo

Files are results of 'olivine bench ... --json' or '--save'. Rows of the same
situation are compared. The margin covers the true ratio in 95 of 100 cases.")]
pub(crate) struct CompareArgs {
    /// Method, result file, or FILE:METHOD
    pub(crate) first: String,
    /// What it is compared with
    pub(crate) second: String,
    /// Bytes of a message where methods are measured; a list in turns
    #[arg(long, short, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size, value_delimiter = ',', default_value = "32")]
    pub(crate) size: Vec<u64>,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Make a page of result files: tables and plots in one HTML file
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bench --save all.json
  olivine bench report all.json --out all.html
  olivine bench report *.json --out all.html --svg plots
  olivine bench report all.json --out all.csv
  olivine bench report *.json --out all.md    headline tables for a README

The page is one file that opens without a network, light or dark, and prints.")]
pub(crate) struct PageArgs {
    /// Results of 'olivine bench ... --json' or '--save'
    #[arg(required = true, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
    /// What to write: .html, .md; of one file also .csv, .hlog or .json (without
    /// most of its histograms); - prints the tables
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub(crate) out: PathBuf,
    /// Write each plot into this folder, too
    #[arg(long, value_name = "FOLDER")]
    pub(crate) svg: Option<PathBuf>,
}

/// Measure the measuring: a stall, a wrong answer and the same thing twice
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bench selfcheck                     exit code 1 if it misses any
  olivine bench selfcheck --json | jq '.checks[].ok'", mut_arg("save", |arg| arg.help(FINDINGS)))]
pub(crate) struct SelfcheckArgs {
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}
