//! Arguments of the commands that load servers.

use super::{MethodArgs, values};
use clap::{Args, ValueEnum};
use olivine_bench::load::{Interface, Url, Waiting, server};
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
    /// Our own server counts requests and does not parse them
    #[arg(long, conflicts_with = "url")]
    pub(crate) unparsed: bool,
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
    /// from the planned send time [default: as fast as replies come]
    #[arg(
        long, short, value_name = "RATE", allow_negative_numbers = true,
        value_parser = values::steady_rate
    )]
    pub(crate) rate: Option<f64>,
    /// How the generator waits [default: block for http, spin for tcp and --rate]
    #[arg(long, value_enum)]
    pub(crate) wait: Option<WaitName>,
    /// Kernel interface of the generator; io-uring only without --rate
    #[arg(long, value_enum, default_value = "epoll", value_name = "INTERFACE")]
    pub(crate) generator: InterfaceName,
    /// Kernel interface of Olivine's server; a list is measured in turns
    #[arg(long, value_enum, value_delimiter = ',', default_value = "mio")]
    pub(crate) backend: Vec<BackendName>,
    /// Print the tables in Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// Names of the generator's wait strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitName {
    Spin,
    Block,
}

/// Names of the generator's kernel interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InterfaceName {
    Epoll,
    IoUring,
}

/// Names of the engine's back ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendName {
    Mio,
    IoUring,
}

/// Names of Olivine's servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindName {
    Hello,
    Unparsed,
    Echo,
    Frames,
    Bare,
}

/// Arguments of a server process that this tool starts and measures.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    pub(crate) kind: KindName,
    pub(crate) backend: BackendName,
    pub(crate) wait: WaitName,
    pub(crate) cpu: u32,
}

impl From<WaitName> for Waiting {
    fn from(name: WaitName) -> Self {
        match name {
            WaitName::Spin => Self::Spin,
            WaitName::Block => Self::Block,
        }
    }
}

impl From<InterfaceName> for Interface {
    fn from(name: InterfaceName) -> Self {
        match name {
            InterfaceName::Epoll => Self::Epoll,
            InterfaceName::IoUring => Self::IoUring,
        }
    }
}

impl From<BackendName> for Backend {
    fn from(name: BackendName) -> Self {
        match name {
            BackendName::Mio => Self::Mio,
            BackendName::IoUring => Self::IoUring,
        }
    }
}

impl From<KindName> for server::Kind {
    fn from(name: KindName) -> Self {
        match name {
            KindName::Hello => Self::Hello,
            KindName::Unparsed => Self::Unparsed,
            KindName::Echo => Self::Echo,
            KindName::Frames => Self::Frames,
            KindName::Bare => Self::Bare,
        }
    }
}

/// The word for a value on the command line.
pub(crate) fn word(name: impl ValueEnum) -> String {
    // Every value of these enums has a name.
    name.to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}
