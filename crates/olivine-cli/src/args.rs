//! The command line: one block a flag, from which help, man page and completions are made.

pub(crate) mod carry;
pub(crate) mod channel;
pub(crate) mod load;
pub(crate) mod values;

use crate::log::Level;
use carry::{BridgeArgs, RecordArgs, ReplayArgs};
use channel::ChannelArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use values::Rate;

/// Examples stand between the usage and the options, where they are seen.
pub(crate) const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}\n";

const EXAMPLES: &str = "\
Examples:
  olivine demo                                see it work, in ten seconds
  olivine sub shm://ticks                     print what others publish
  olivine pub shm://ticks hello               send one message
  olivine pub shm://log --stdin lines < file  send a file, line by line
  olivine ls                                  what is there, who is attached
  olivine bench pingpong                      measure this machine

A URI is shm://NAME?key=value&...; 'olivine pub --help' lists the keys.
Exit codes: 0 done, 1 failed, 2 wrong use.";

/// Messages between programs through shared memory: fast, nothing lost
#[derive(Debug, Parser)]
#[command(
    name = "olivine",
    version,
    help_template = TEMPLATE,
    after_help = EXAMPLES,
    max_term_width = 80,
    disable_help_subcommand = true,
    infer_subcommands = false
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags of every command.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Common {
    /// Print JSON, units in the names
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    /// How much to say on standard error
    #[arg(
        long,
        short,
        global = true,
        value_name = "LEVEL",
        default_value = "info",
        display_order = 901
    )]
    pub(crate) log_level: Level,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Pub(PubArgs),
    Sub(SubArgs),
    Ls(LsArgs),
    Inspect(InspectArgs),
    Rm(RmArgs),
    Gc(GcArgs),
    Bridge(BridgeArgs),
    Record(RecordArgs),
    Replay(ReplayArgs),
    Demo(DemoArgs),
    Bench(BenchArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    #[command(name = "__peer", hide = true)]
    Peer(PeerArgs),
    #[command(name = "__serve", hide = true)]
    Serve(load::ServeArgs),
}

/// Publish messages: arguments, standard input, or generated ones
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine pub shm://ticks hello world         two messages
  olivine pub shm://log --stdin lines < file  every line a message
  olivine pub shm://x --rate 100K --count 1M  a million generated messages,
                                              evenly spaced, 100,000 a second
  olivine pub shm://x --subscribers 3 --stdin raw < disk.img

Without MESSAGE and --stdin, messages are generated: they carry a sequence
number, their intended send time and a pattern that 'sub --verify' checks.")]
pub(crate) struct PubArgs {
    /// Channel, such as shm://ticks or shm://ticks?capacity=4MiB
    pub(crate) uri: String,
    /// Messages to send, each as it stands
    pub(crate) message: Vec<OsString>,
    /// Send what comes on standard input: lines, frames (u32 length, u32 tag,
    /// little endian, then the payload) or raw chunks
    #[arg(long, value_name = "FORM", conflicts_with = "message")]
    pub(crate) stdin: Option<InputForm>,
    /// Bytes of a generated message, 16 or more, or of a raw chunk at most; a
    /// list takes turns [default: 32; raw: 64KiB]
    #[arg(long, short, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size, value_delimiter = ',', conflicts_with = "message")]
    pub(crate) size: Vec<u64>,
    /// Stop after this many messages; given MESSAGEs take turns
    #[arg(long, short = 'c', value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) count: Option<u64>,
    /// Stop after this time
    #[arg(long, short, value_name = "TIME", allow_negative_numbers = true, value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// Messages a second, evenly spaced; 0 is full speed
    #[arg(long, short, value_name = "RATE", allow_negative_numbers = true, value_parser = values::rate, default_value = "0", hide_default_value = true)]
    pub(crate) rate: Rate,
    /// Make this many generated messages visible at once: 1 to 1024
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1024), conflicts_with_all = ["stdin", "message"])]
    pub(crate) batch: u16,
    /// Number that goes with each message
    #[arg(long, value_name = "TAG", default_value = "0", value_parser = clap::value_parser!(u32).range(..i64::from(u32::MAX)))]
    pub(crate) tag: u32,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) channel: ChannelArgs,
}

/// Subscribe: print, pass on, measure or verify what is published
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine sub shm://ticks                     every message a line
  olivine sub shm://log --out raw > copy      payload bytes as they are
  olivine sub 'shm://x?topic=a.*' --out topics   some topics, with their names
  olivine sub shm://x --verify                count lost, repeated, reordered
                                              and corrupt generated messages
  olivine sub shm://x --stats latency,interval --csv x.csv
  olivine sub shm://x --delivery latest       never hold publishers back

May be started before any publisher exists; ends when all of them closed.")]
pub(crate) struct SubArgs {
    /// Channel, such as shm://ticks
    pub(crate) uri: String,
    /// Stop after this many messages
    #[arg(long, short = 'c', value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) count: Option<u64>,
    /// Stop after this time
    #[arg(long, short, value_name = "TIME", allow_negative_numbers = true, value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// What to write to standard output [default: lines; none with --verify
    /// or --stats]
    #[arg(long, short, value_name = "FORM")]
    pub(crate) out: Option<OutputForm>,
    /// Check every byte and number of generated messages; exit 1 if any is
    /// lost, repeated, reordered or corrupt
    #[arg(long, visible_alias = "test")]
    pub(crate) verify: bool,
    /// Most messages taken from the ring in one go
    #[arg(long, value_name = "N", default_value = "65536", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: u32,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) channel: ChannelArgs,
}

/// What to report about a stream.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// What to report, comma separated: throughput, interval (a row per
    /// interval) and, of generated messages, latency
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) stats: Vec<Stat>,
    /// Time between two rows of --stats interval and --csv
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = values::duration, default_value = "1s")]
    pub(crate) interval: Duration,
    /// Write a row per interval to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// End when standard input ends.
    #[arg(long, hide = true)]
    pub(crate) tied: bool,
}

impl ReportArgs {
    pub(crate) fn wants(&self, stat: Stat) -> bool {
        self.stats.contains(&stat)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stat {
    // Messages and bytes a second at the end
    Throughput,
    // Percentiles from the intended send time (subscriber, generated messages)
    Latency,
    // A row per interval while running
    Interval,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputForm {
    Lines,
    Frames,
    Raw,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    Lines,
    // Lines with the topic and a tab before the message
    Topics,
    Frames,
    Raw,
    None,
}

/// List channels: who is attached, what lags, what is left over
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine ls
  olivine ls --json | jq '.channels[].name'")]
pub(crate) struct LsArgs {
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<PathBuf>,
}

/// Show one channel: settings, publishers, subscribers, lag, back-pressure
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine inspect shm://ticks
  olivine inspect shm://ticks --json | jq '.subscribers[].lag_bytes'")]
pub(crate) struct InspectArgs {
    /// Channel, such as shm://ticks
    pub(crate) uri: String,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<String>,
}

/// Remove channels by name
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine rm shm://ticks shm://log
  olivine rm shm://ticks --force              even if somebody is attached")]
pub(crate) struct RmArgs {
    /// Channels, such as shm://ticks
    #[arg(required = true)]
    pub(crate) uri: Vec<String>,
    /// Remove also what is in use; those attached keep their memory
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<String>,
}

/// Collect channels that nobody uses and no durable subscriber needs
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

/// Two processes, full speed and a paced rate, every byte verified
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine demo
  olivine demo --seconds 30 --size 128 --rate 1M
  olivine demo --json | jq '.paced.latency.p99_ns'")]
pub(crate) struct DemoArgs {
    /// Time in all, four parts at full speed and three at the rate
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = values::duration, default_value = "7")]
    pub(crate) seconds: Duration,
    /// Bytes of a message, 16 or more
    #[arg(long, short, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size, default_value = "32")]
    pub(crate) size: u64,
    /// Messages a second of the paced phase
    #[arg(long, short, value_name = "RATE", allow_negative_numbers = true, value_parser = values::steady_rate, default_value = "100K")]
    pub(crate) rate: f64,
    /// CPUs of publisher and subscriber [default: the first two allowed]
    #[arg(long, value_name = "A,B", allow_negative_numbers = true, value_parser = values::cpu_pair)]
    pub(crate) cpus: Option<(u32, u32)>,
    /// Bytes of the ring
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size, default_value = "1MiB")]
    pub(crate) capacity: u64,
}

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
  olivine bench compare olivine-spin pipe     which is faster, or is it noise?
  olivine bench report latency.json           a page with plots
  olivine bench http http://127.0.0.1:8000/   load a server, check each answer
  olivine bench http --peers all              ours and others, taking turns")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) scenario: Option<Scenario>,
    /// Without SCENARIO, write the table's result here, too: .json, .csv,
    /// .hlog or .html by its ending; may be given again
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
    /// Write the result here, too: .json, .csv, .hlog or .html by its ending;
    /// may be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Vec<PathBuf>,
}

/// How the measured channel is set up.
#[derive(Clone, Debug, Args)]
pub(crate) struct RingArgs {
    /// How both sides wait: spin, yield, park, adaptive
    #[arg(long, value_name = "STRATEGY", default_value = "spin")]
    pub(crate) wait: String,
    /// Bytes to which messages are padded [default: 8; pingpong: 8 and 64]
    #[arg(long, value_name = "BYTES")]
    pub(crate) align: Option<String>,
    /// Bytes of a ring [default: 1MiB]
    #[arg(long, value_name = "BYTES")]
    pub(crate) capacity: Option<String>,
}

/// The machine without a channel: cache line, copy, system call, clock
#[derive(Debug, Args)]
pub(crate) struct FloorArgs {
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Round trip of a message and its answer
#[derive(Debug, Args)]
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
        default_value = "64"
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
    /// Bytes of a message, 16 or more; a list is measured in turns [default:
    /// 32 one by one, 32 in batches of 16, 8KiB one by one]
    #[arg(long, short, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size, value_delimiter = ',')]
    pub(crate) size: Vec<u64>,
    /// Messages made visible at once, 1 to 1024; a list is measured in turns
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) batch: Vec<u16>,
    #[command(flatten)]
    pub(crate) ring: RingArgs,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Processes that share a channel.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManyArgs {
    /// Subscribers, a process each; a list is measured in turns
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
  olivine bench sweep job.toml --out found.json    goes on where it stopped")]
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
    #[arg(long, short, value_name = "RATE", allow_negative_numbers = true, value_parser = values::steady_rate, value_delimiter = ',', default_value = "1K,100K,1M")]
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

The page is one file that opens without a network, light or dark, and prints.")]
pub(crate) struct PageArgs {
    /// Results of 'olivine bench ... --json' or '--save'
    #[arg(required = true, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
    /// What to write: .html; of one file also .csv or .hlog
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
  olivine bench selfcheck --json | jq '.checks[].ok'")]
pub(crate) struct SelfcheckArgs {
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine completions bash > ~/.local/share/bash-completion/completions/olivine
  olivine completions zsh > ~/.zfunc/_olivine")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the man page, of the tool or of one command
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine man | man -l -
  olivine man pub > olivine-pub.1")]
pub(crate) struct ManArgs {
    /// Command whose page to print, such as pub or bench latency
    pub(crate) command: Vec<String>,
}

/// The second process of a measurement.
#[derive(Debug, Args)]
pub(crate) struct PeerArgs {
    /// Know the methods of the self-check, and only those.
    #[arg(long)]
    pub(crate) self_check: bool,
    pub(crate) words: PathBuf,
    pub(crate) cpu: u32,
}

/// A number of messages: 1 or more, with K, M or G for thousands.
fn count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.strip_suffix(['K', 'k', 'M', 'G']) {
        Some(digits) if text.ends_with('M') => (digits, 1_000_000),
        Some(digits) if text.ends_with('G') => (digits, 1_000_000_000),
        Some(digits) => (digits, 1_000),
        None => (text, 1),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain
        .then(|| digits.parse::<u64>().ok()?.checked_mul(factor))
        .flatten()
        .filter(|count| *count > 0)
        .ok_or_else(|| "expected a number of messages above 0 such as 10, 5K or 1M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn counts_take_decimal_units() {
        assert_eq!(count("10"), Ok(10));
        assert_eq!(count("5K"), Ok(5_000));
        assert_eq!(count("2M"), Ok(2_000_000));
        for bad in ["", "0", "K", "-1", "+1", "1.5K", "99999999999999G", "ten"] {
            assert!(count(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn no_line_of_help_is_longer_than_80_columns() {
        fn check(command: &mut clap::Command) {
            let help = command.render_long_help().to_string();
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
            for inner in command.get_subcommands_mut() {
                check(inner);
            }
        }
        let mut command = Cli::command().term_width(80);
        command.build();
        check(&mut command);
    }
}
