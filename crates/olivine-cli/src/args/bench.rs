//! Arguments of `olivine bench`.

use super::{FarArgs, TEMPLATE, load, values};
use crate::bench::files::{report_help, save_help};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use olivine_bench::plan::{ALL, Matrix};
use olivine_bench::result::Load;
use olivine_bench::scenario::registry::{self, SCENARIOS};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

/// The self-check has no table of figures, so it has one format.
const FINDINGS: &str = "Also write the result to this .json file; repeatable";

/// Benchmark messaging on this machine against its hardware limits
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, args_conflicts_with_subcommands = true, after_help = "\
Without a command: round trips of every available method, in under a minute.

Examples:
  olivine bench                               round trips of every method
  olivine bench list                          list scenarios and methods
  olivine bench floor                         hardware limits of this machine
  olivine bench pingpong --slots 64,1024      cost of room for subscribers
  olivine bench pingpong --method all -c 100000 -s 100,1024    as ipc-bench
  olivine bench throughput --size 32 --batch 1,16
  olivine bench latency --rate 1K,1M --save latency.json
  olivine bench latency --subscribers 1,2 --capacity 64KiB,1MiB
  olivine bench mesh --publishers 4 --subscribers 4 --topic a.b,a.c
  olivine bench latency --worst 10            why the worst messages were late
  olivine bench bridge stream                 tcp:// against ZeroMQ and NATS
  olivine bench compare olivine-spin pipe     compare two methods
  olivine bench report latency.json           an HTML page with plots
  olivine bench arena my-ring                 add a library of another project
  olivine bench http http://127.0.0.1:8000/   load a server, check each reply
  olivine bench http --peers all              our server against others")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,
    #[arg(
        long, value_name = "FILE",
        help = format!("Without COMMAND: {}", save_help().replacen("Also", "also", 1))
    )]
    pub(crate) save: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Floor(FloorArgs),
    #[command(flatten)]
    Registered(Registered),
    Sweep(SweepArgs),
    Bridge(FarArgs),
    Http(load::HttpArgs),
    Tcp(load::TcpArgs),
    Arena(ArenaArgs),
    Compare(CompareArgs),
    Report(PageArgs),
    Site(SiteArgs),
    Submit(SubmitArgs),
    Selfcheck(SelfcheckArgs),
    /// List the scenarios and methods
    List,
}

/// Options of every measurement.
#[derive(Clone, Debug, Args)]
pub(crate) struct MethodArgs {
    /// CPUs of the two processes [default: the first two allowed]
    #[arg(long, value_name = "A,B", allow_negative_numbers = true, value_parser = values::cpu_pair)]
    pub(crate) cpus: Option<(u32, u32)>,
    /// Runs of each variant, interleaved; quote only figures of 5 or more
    #[arg(
        long, value_name = "N", default_value = "5",
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub(crate) runs: u32,
    /// Total seconds for each variant, over all runs
    #[arg(
        long, value_name = "S", allow_negative_numbers = true, value_parser = values::duration,
        default_value = "2"
    )]
    pub(crate) seconds: Duration,
    /// Run both processes under SCHED_FIFO (real-time priority)
    #[arg(long)]
    pub(crate) fifo: bool,
    /// Lock the memory of both processes (mlockall)
    #[arg(long)]
    pub(crate) mlock: bool,
    #[arg(long, value_name = "FILE", help = save_help())]
    pub(crate) save: Vec<PathBuf>,
}

/// Hardware limits: cache line, copy, system call, futex, clock
#[derive(Debug, Args)]
pub(crate) struct FloorArgs {
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// A scenario of the registry: each has a command with the options that it reads.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) scenario: &'static registry::Scenario,
    pub(crate) args: RegisteredArgs,
}

/// `text` with a capital letter at its start.
fn capitalized(text: &str) -> String {
    let (first, rest) = text.split_at_checked(1).unwrap_or(("", text));
    first.to_uppercase() + rest
}

impl FromArgMatches for Registered {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let found = matches.subcommand();
        let found = found.and_then(|(name, matches)| Some((registry::find(name)?, matches)));
        let (scenario, matches) =
            found.ok_or_else(|| clap::Error::new(ErrorKind::InvalidSubcommand))?;
        let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let mut all = matches.ids().map(clap::Id::as_str);
        if let Some(id) = all.find(|id| given(id) && !is_read(scenario, id)) {
            let mut error = clap::Error::new(ErrorKind::UnknownArgument);
            let option = ContextValue::String(format!("--{id}"));
            error.insert(ContextKind::InvalidArg, option);
            return Err(error);
        }
        Ok(Self {
            scenario,
            args: RegisteredArgs::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What a stream measures if neither is given.
const STREAMED: [(&str, &str); 3] = [
    (
        "size",
        "32 one by one, 32 in batches of 16, 1KiB and 8KiB one by one",
    ),
    ("batch", "with --size 1"),
    (
        "take",
        "poll, and receive for 32 one by one; with --size or --batch poll",
    ),
];

/// Whether a scenario reads an option: those that are lists of some scenario, if it has the list;
/// those of every measurement always.
fn is_read(scenario: &registry::Scenario, id: &str) -> bool {
    match id {
        "rivals" | "align" => scenario.reads("method"),
        "slots" => scenario.in_harness,
        "worst" => scenario.load == Load::Open,
        _ => scenario.reads(id) || readers(id).next().is_none(),
    }
}

/// Names of the scenarios that have the list `key`.
fn readers(key: &str) -> impl Iterator<Item = &'static str> {
    let having = SCENARIOS.iter().filter(move |scenario| scenario.reads(key));
    having.map(|scenario| scenario.name)
}

impl Subcommand for Registered {
    fn augment_subcommands(command: Command) -> Command {
        SCENARIOS.iter().fold(command, |command, scenario| {
            let of = RegisteredArgs::augment_args(Command::new(scenario.name));
            let of = of.mut_args(|arg| {
                let id = arg.get_id().as_str();
                let mut defaults = scenario.defaults.iter();
                let default = defaults.find(|(key, _)| *key == id);
                let is_hidden = !is_read(scenario, id);
                let is_streamed = scenario.streams() && !is_hidden;
                let mut cases = STREAMED.iter().filter(|_| is_streamed);
                match (default, cases.find(|(key, _)| *key == id)) {
                    (Some((_, value)), _) => arg.default_value(*value),
                    (None, Some((_, cases))) => {
                        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                        arg.help(format!("{help} [default: {cases}]"))
                    }
                    (None, None) => arg.hide(is_hidden),
                }
            });
            command.subcommand(of.about(capitalized(scenario.about)))
        })
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        registry::find(name).is_some()
    }
}

/// Options of the scenarios in the registry. A row there says which it reads, and their defaults.
#[derive(Debug, Args)]
pub(crate) struct RegisteredArgs {
    /// Methods from `olivine bench list`, or all that fit [default: a channel of
    /// this library, with its fastest settings]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) method: Vec<String>,
    /// Also measure the rivals that `cargo xtask rivals` has built in this folder
    #[arg(
        long, value_name = "PATH", num_args = 0..=1,
        default_missing_value = "rivals/target/release"
    )]
    pub(crate) rivals: Option<PathBuf>,
    /// Messages a second; a list is measured in turns
    #[arg(
        long, short, value_name = "RATE", allow_negative_numbers = true,
        value_parser = values::latency_rate, value_delimiter = ','
    )]
    pub(crate) rate: Vec<f64>,
    /// Publishers, a process each; a list is measured in turns
    #[arg(
        long, value_name = "COUNT", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    pub(crate) publishers: Vec<u32>,
    /// Subscribers, a process each; a list is measured in turns
    #[arg(
        long, value_name = "COUNT", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=64), conflicts_with = "rivals"
    )]
    pub(crate) subscribers: Vec<u32>,
    /// Bytes of a message, 16 or more; a list is measured in turns
    #[arg(
        long, short, value_name = "BYTES", allow_negative_numbers = true,
        value_parser = values::size, value_delimiter = ','
    )]
    pub(crate) size: Vec<u64>,
    /// Messages made visible at once, 1 to 1024; a list is measured in turns
    #[arg(
        long, value_name = "N", value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    pub(crate) batch: Vec<u16>,
    /// Round trips of each run, in place of --seconds
    #[arg(long, short, value_name = "N", conflicts_with = "seconds")]
    pub(crate) count: Option<NonZeroU64>,
    /// Room for this many subscribers (subscribers_max); a list is measured in
    /// turns
    #[arg(
        long,
        value_name = "COUNT",
        value_delimiter = ',',
        conflicts_with = "method"
    )]
    pub(crate) slots: Vec<u32>,
    /// How both sides wait: spin, yield, park, adaptive, or spin:N for N looks
    /// before it sleeps; a list is measured in turns [default: spin; adaptive for
    /// fanout and mesh, and if processes share a CPU]
    #[arg(long, value_name = "STRATEGY", value_delimiter = ',')]
    pub(crate) wait: Vec<String>,
    /// Bytes to which messages are padded; a list is measured in turns
    /// [default: 8; pingpong and latency: 8 and 64]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    pub(crate) align: Vec<String>,
    /// Bytes of a ring; a list is measured in turns [default: 1MiB; streams:
    /// 1MiB and 4MiB]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    pub(crate) capacity: Vec<String>,
    /// Topics of messages, in turns; all subscribers filter by them [default:
    /// no topic]
    #[arg(
        long, value_name = "TOPIC", value_delimiter = ',', conflicts_with_all = ["method", "rivals"]
    )]
    pub(crate) topic: Vec<String>,
    /// How a channel's messages are taken: poll, receive; a list is measured in
    /// turns
    #[arg(long, value_name = "CALL", value_delimiter = ',')]
    pub(crate) take: Vec<String>,
    /// List the N worst messages of each rate, each with its cause, as far as
    /// the system and the ring show it
    #[arg(
        long, value_name = "N", conflicts_with_all = ["method", "rivals", "subscribers"],
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    pub(crate) worst: Option<u16>,
    #[command(flatten)]
    pub(crate) method_args: MethodArgs,
}

impl RegisteredArgs {
    /// What is measured.
    pub(crate) fn matrix(&self, scenario: &'static registry::Scenario) -> Matrix {
        let mut matrix = Matrix::new(scenario, &self.size);
        matrix.method.clone_from(&self.method);
        matrix.rate.clone_from(&self.rate);
        matrix.publishers.clone_from(&self.publishers);
        matrix.subscribers.clone_from(&self.subscribers);
        matrix.batch = self.batch.iter().copied().map(u64::from).collect();
        matrix.count = self.count;
        if self.method.is_empty() {
            matrix.slots.clone_from(&self.slots);
        }
        matrix.wait.clone_from(&self.wait);
        matrix.align.clone_from(&self.align);
        matrix.capacity.clone_from(&self.capacity);
        matrix.topic.clone_from(&self.topic);
        matrix.take.clone_from(&self.take);
        matrix
    }
}

/// What a job file is, with the lists that each scenario reads.
fn job_help() -> String {
    let of = |key| readers(key).collect::<Vec<_>>().join(", ");
    let scenarios: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    let (first, others) = scenarios.split_first().unwrap_or((&"", &[]));
    format!(
        "\
Examples:
  olivine bench sweep --preset olive          repeat what Olive published
  olivine bench sweep --preset olive --print-job > job.toml
  olivine bench sweep job.toml --out found.json
  olivine bench sweep job.toml --out found.json    again: resumes

A job file has an 'about' line and any number of blocks. Each block measures
every combination of its lists. A list that its scenario lacks is refused:
  about = \"sizes against methods\"
  [[measure]]
  {scenario}# or {others}
  size = [32, 1024]                # bytes of a message; all scenarios
  method = [\"olivine-shm\", \"pipe\"]   # {method}
  wait = [\"spin\", \"adaptive\"]      # of channels of this library
  capacity = [\"64KiB\", \"1MiB\"]     # of channels of this library
  rival = [\"zeromq-ipc\"]           # methods of other programs
  count = 100000                   # {count}: round trips of a run, not a time
  rate = [1000.0]                  # {rate}: messages per second
  batch = [1, 16]                  # {batch}
  publishers = [6]                 # {publishers}
  subscribers = [1, 2, 4]          # {subscribers}
  topic = [\"a.b\", \"a.c\"]           # {topic}: in turns
  take = [\"poll\", \"receive\"]       # {take}: how messages are taken
  [bridge]                         # as 'olivine bench bridge', all in turns
  part = [\"paced\", \"stored\"]",
        scenario = format_args!("{:<33}", format!("scenario = \"{first}\"")),
        others = others.join(", "),
        method = of("method"),
        count = of("count"),
        rate = of("rate"),
        batch = of("batch"),
        publishers = of("publishers"),
        subscribers = of("subscribers"),
        topic = of("topic"),
        take = of("take"),
    )
}

/// Measure every point of a job file or preset; resumes after a stop
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = job_help())]
pub(crate) struct SweepArgs {
    /// Job file in TOML, of at most 1 MiB
    #[arg(required_unless_present = "preset", conflicts_with = "preset")]
    pub(crate) job: Option<PathBuf>,
    /// A published experiment, ipc-bench, octane, olive, ring-buffer or solace;
    /// or the bridges: bridges
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Folder of the programs that `cargo xtask rivals` builds
    #[arg(long, value_name = "PATH", default_value = "rivals/target/release")]
    pub(crate) rivals: PathBuf,
    /// Print the job file, without measuring: a start for another one
    #[arg(long, conflicts_with_all = ["out", "save"])]
    pub(crate) print_job: bool,
    /// File of the results: saved after each point, read at the start if it
    /// has at most 64 MiB
    #[arg(long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Validate libraries of others, then rank them among all methods
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bench arena my-ring                 validate it, and rank it
  olivine bench arena my-ring --check         validate it only
  olivine bench arena rivals/target/release --check

A FOLDER has an entry.toml and a library behind five functions in C, C++ or
Rust, or programs called rival-NAME, or folders with an entry.toml. An entry
that loses, repeats, reorders or changes a message, or stalls, has no figure.
docs/arena.md shows how to write one.")]
pub(crate) struct ArenaArgs {
    /// Folders of entries
    #[arg(required = true, value_name = "FOLDER")]
    pub(crate) folder: Vec<PathBuf>,
    /// Only validate; exit code 1 if an entry fails
    #[arg(long)]
    pub(crate) check: bool,
    /// Methods from `olivine bench list` to rank them among, or all
    #[arg(long = "method", value_name = "NAME", value_delimiter = ',', default_value = ALL)]
    pub(crate) among: Vec<String>,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Compare two methods or result files, with the margin of error
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bench compare olivine-spin pipe     measured now, runs interleaved
  olivine bench compare olivine-spin olivine-spin
                                              the noise of this machine
  olivine bench compare before.json after.json
  olivine bench compare all.json:pipe all.json:fifo

Files are results of 'olivine bench ... --json' or '--save'. Rows with equal
parameters are compared. The margin covers the true ratio in 95 of 100 cases.")]
pub(crate) struct CompareArgs {
    /// Method, result file, or FILE:METHOD; files of at most 64 MiB
    pub(crate) first: String,
    /// Method, result file, or FILE:METHOD to compare with
    pub(crate) second: String,
    /// Bytes of a message if methods are measured; a list is measured in turns
    #[arg(
        long, short, value_name = "BYTES", allow_negative_numbers = true,
        value_parser = values::size, value_delimiter = ',', default_value = "32"
    )]
    pub(crate) size: Vec<u64>,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Write one HTML page with tables and plots from result files
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bench --save all.json
  olivine bench report all.json --out all.html
  olivine bench report *.json --out all.html --svg plots
  olivine bench report all.json --out all.csv
  olivine bench report all.json --card all.svg
  olivine bench report *.json --out all.md    headline tables for a README

The page is one file. It needs no network, and has a light and a dark theme.")]
pub(crate) struct PageArgs {
    /// Results of 'olivine bench ... --json' or '--save', at most 64 MiB each
    #[arg(required = true, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
    #[arg(long, value_name = "FILE", default_value = "report.html", help = report_help())]
    pub(crate) out: PathBuf,
    /// Also write each plot into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) svg: Option<PathBuf>,
    /// Also write one picture to share, 1200 by 630, to this .svg file
    #[arg(long, value_name = "FILE")]
    pub(crate) card: Option<PathBuf>,
}

/// Write a folder of pages with machines side by side, and badges
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bench site public results         index.html, a page a machine, badges
  olivine bench site public mine.json theirs.json")]
pub(crate) struct SiteArgs {
    /// Folder to write
    pub(crate) out: PathBuf,
    /// A machine each: a folder of result files, or a file of 'bench submit'; or
    /// a folder of such folders and files
    #[arg(required = true, value_name = "MACHINE")]
    pub(crate) machine: Vec<PathBuf>,
}

/// Measure this machine for others: one small file, fit for a pull request
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bench submit my-machine.json
  olivine bench submit my-machine.json rivals/target/release

It has floor, round trips, full speed and paced latency of every method, the
machine, the findings of 'olivine doctor', the command and the spread.")]
pub(crate) struct SubmitArgs {
    /// File to write, at most 256 KiB
    pub(crate) file: PathBuf,
    /// Folders of entries as of 'olivine bench arena', validated first
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Vec<PathBuf>,
    /// Methods from `olivine bench list`, or all
    #[arg(long = "method", value_name = "NAME", value_delimiter = ',', default_value = ALL)]
    pub(crate) among: Vec<String>,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Check the benchmark: does it find a stall, a wrong reply, two equal methods?
#[derive(Debug, Args)]
#[command(help_template = TEMPLATE, after_help = "\
Examples:
  olivine bench selfcheck                     exit code 1 if one is missed
  olivine bench selfcheck --json | jq '.checks[].ok'", mut_arg("save", |arg| arg.help(FINDINGS)))]
pub(crate) struct SelfcheckArgs {
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}
