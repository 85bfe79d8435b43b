//! Arguments of the commands that load servers.

use super::{MethodArgs, values};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use olivine_bench::load::server::Kind;
use olivine_bench::load::{Interface, Url, Waiting};
use olivine_net::Backend;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Load an HTTP server and check every reply
#[derive(Debug, Args)]
#[command(
    mut_arg("fifo", |arg| arg.hide(true)),
    mut_arg("mlock", |arg| arg.hide(true)),
    mut_arg("backend", |arg| arg.conflicts_with("url")),
)]
pub(crate) struct HttpArgs {
    /// Page to load, such as http://127.0.0.1:8000/ [default: our own server]
    pub(crate) url: Option<Url>,
    /// Servers to compare with ours, or 'all'. A missing server is reported and
    /// left out
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        conflicts_with = "url"
    )]
    pub(crate) peers: Vec<String>,
    /// Folder of the servers that rivals/http/build builds
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "rivals/http/bin",
        requires = "peers"
    )]
    pub(crate) rivals: PathBuf,
    /// Our own servers, measured in turns: the first parses requests, the second
    /// only counts them, and the third is a plain loop without an engine: the floor
    #[arg(
        long, value_name = "SERVERS", value_delimiter = ',', default_value = "parsed",
        conflicts_with = "url", value_parser = one_of(&OURS)
    )]
    pub(crate) ours: Vec<Kind>,
    /// Requests in flight on each connection (with --rate: at most); a list is
    /// measured in turns
    #[arg(
        long, value_name = "N", value_delimiter = ',', default_value = "1,16",
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub(crate) depth: Vec<u32>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Open connections
    #[arg(
        long, short, value_name = "N", default_value = "64",
        value_parser = clap::value_parser!(u32).range(1..=50_000)
    )]
    pub(crate) connections: u32,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Load a TCP server with echoed messages or a stream of frames
#[derive(Debug, Args)]
#[command(
    mut_arg("fifo", |arg| arg.hide(true)),
    mut_arg("mlock", |arg| arg.hide(true)),
    mut_arg("backend", |arg| arg.conflicts_with("address")),
    mut_arg("rate", |arg| arg.conflicts_with("frames")),
)]
pub(crate) struct TcpArgs {
    /// Address and port of an echo server [default: our own server, and a plain
    /// loop of recv and send for comparison]
    pub(crate) address: Option<SocketAddr>,
    /// Stream frames of 32 B one way; our own server decodes and checks each
    #[arg(long, conflicts_with_all = ["address", "size", "depth", "connections"])]
    pub(crate) frames: bool,
    /// Frames in each send; a list is measured in turns
    #[arg(
        long, value_name = "N", requires = "frames", value_delimiter = ',',
        default_value = "64,2048",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub(crate) batch: Vec<u32>,
    /// Bytes of a message, 16 or more
    #[arg(
        long, short, value_name = "BYTES", allow_negative_numbers = true,
        value_parser = values::size, default_value = "100"
    )]
    pub(crate) size: u64,
    /// Messages in flight on each connection
    #[arg(
        long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub(crate) depth: u32,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Open connections
    #[arg(
        long, short, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=50_000)
    )]
    pub(crate) connections: u32,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Options of the load generator.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Requests per second over all connections, evenly spaced; latency counts
    /// from the intended send time [default: as fast as replies come]
    #[arg(
        long, short, value_name = "RATE", allow_negative_numbers = true,
        value_parser = values::steady_rate
    )]
    pub(crate) rate: Option<f64>,
    /// How the generator waits [default: block for http, spin for tcp and --rate]
    #[arg(long, value_parser = one_of(&WAITS))]
    pub(crate) wait: Option<Waiting>,
    /// Kernel interface of the generator; io-uring only without --rate
    #[arg(
        long, value_name = "INTERFACE", default_value = "epoll",
        value_parser = one_of(&INTERFACES)
    )]
    pub(crate) generator: Interface,
    /// Kernel interface of Olivine's server; a list is measured in turns
    #[arg(
        long, value_delimiter = ',', default_value = "mio", value_parser = one_of(&BACKENDS)
    )]
    pub(crate) backend: Vec<Backend>,
    /// Print the tables in Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// Words of the generator's wait strategies.
pub(crate) const WAITS: [(&str, Waiting); 2] = [("spin", Waiting::Spin), ("block", Waiting::Block)];
/// Words of the generator's kernel interfaces.
const INTERFACES: [(&str, Interface); 2] = [
    ("epoll", Interface::Epoll),
    ("io-uring", Interface::IoUring),
];
/// Words of the engine's back ends.
pub(crate) const BACKENDS: [(&str, Backend); 2] =
    [("mio", Backend::Mio), ("io-uring", Backend::IoUring)];
/// Words of the HTTP servers of `bench http`.
const OURS: [(&str, Kind); 3] = [
    ("parsed", Kind::Hello),
    ("unparsed", Kind::Unparsed),
    ("floor", Kind::Floor),
];
/// Words of Olivine's servers.
pub(crate) const KINDS: [(&str, Kind); 6] = [
    ("hello", Kind::Hello),
    ("unparsed", Kind::Unparsed),
    ("echo", Kind::Echo),
    ("frames", Kind::Frames),
    ("bare", Kind::Bare),
    ("floor", Kind::Floor),
];

/// Arguments of a server process that this tool starts and measures.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[arg(value_parser = one_of(&KINDS))]
    pub(crate) kind: Kind,
    #[arg(value_parser = one_of(&BACKENDS))]
    pub(crate) backend: Backend,
    #[arg(value_parser = one_of(&WAITS))]
    pub(crate) wait: Waiting,
    pub(crate) cpu: u32,
}

/// Accepts one of these words.
fn one_of<T: Copy + Send + Sync + 'static>(
    known: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let words = known.iter().map(|(word, _)| *word);
    let value = |found: String| known.iter().find(|(word, _)| *word == found);
    PossibleValuesParser::new(words)
        .try_map(move |found| value(found).map(|(_, value)| *value).ok_or("no such word"))
}

/// The word of a value.
pub(crate) fn word<T: PartialEq>(known: &[(&str, T)], value: &T) -> String {
    let found = known.iter().find(|(_, one)| one == value);
    found.map_or_else(String::new, |(word, _)| (*word).to_owned())
}
