//! Arguments of the commands that load servers.

use super::{MethodArgs, values};
use clap::{Args, ValueEnum};
use olivine_bench::load::{Interface, Url, Waiting, server};
use olivine_net::Backend;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Figures of servers fit fewer forms than those of channels.
const SAVE: &str = "Write the result here, too: .json or .md by its ending; may be given again";

/// Load an HTTP server, ours or any other, and check every answer
#[derive(Debug, Args)]
#[command(
    mut_arg("fifo", |arg| arg.hide(true)),
    mut_arg("mlock", |arg| arg.hide(true)),
    mut_arg("save", |arg| arg.help(SAVE)),
    mut_arg("backend", |arg| arg.conflicts_with("url")),
)]
pub(crate) struct HttpArgs {
    /// Page to load, such as http://127.0.0.1:8000/ [default: our own server]
    pub(crate) url: Option<Url>,
    /// Servers to compare ours with, or 'all': those that are not there are
    /// named and left out
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        conflicts_with = "url"
    )]
    pub(crate) peers: Vec<String>,
    /// Folder of the servers that rivals/http/build makes
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "rivals/http/bin",
        requires = "peers"
    )]
    pub(crate) rivals: PathBuf,
    /// Have our own server count requests instead of parsing them
    #[arg(long, conflicts_with = "url")]
    pub(crate) unparsed: bool,
    /// Requests sent at once on each connection, or with --rate at most; a list
    /// is measured in turns
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,16", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) depth: Vec<u32>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Connections kept open
    #[arg(long, short, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) connections: u32,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// Send messages to an echo server and back, or stream frames to be counted
#[derive(Debug, Args)]
#[command(
    mut_arg("fifo", |arg| arg.hide(true)),
    mut_arg("mlock", |arg| arg.hide(true)),
    mut_arg("save", |arg| arg.help(SAVE)),
    mut_arg("backend", |arg| arg.conflicts_with("address")),
    mut_arg("rate", |arg| arg.conflicts_with("frames")),
)]
pub(crate) struct TcpArgs {
    /// Address and port of an echo server [default: our own, and a bare loop of
    /// receive and send to compare it with]
    pub(crate) address: Option<SocketAddr>,
    /// Stream 32 B frames one way instead; our own server decodes and checks each
    #[arg(long, conflicts_with_all = ["address", "size", "depth", "connections"])]
    pub(crate) frames: bool,
    /// Frames in each send; a list is measured in turns
    #[arg(long, value_name = "N", requires = "frames", value_delimiter = ',', default_value = "64,2048", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) batch: Vec<u32>,
    /// Bytes of a message, 16 or more
    #[arg(long, short, value_name = "BYTES", allow_negative_numbers = true, value_parser = values::size, default_value = "100")]
    pub(crate) size: u64,
    /// Messages under way at once on each connection
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) depth: u32,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Connections kept open
    #[arg(long, short, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) connections: u32,
    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// How a server is loaded.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Requests a second over all connections, evenly spaced, latency from when
    /// each was due [default: as many as are answered]
    #[arg(long, short, value_name = "RATE", allow_negative_numbers = true, value_parser = values::steady_rate)]
    pub(crate) rate: Option<f64>,
    /// How the generator waits [default: http block, tcp and with --rate spin]
    #[arg(long, value_enum)]
    pub(crate) wait: Option<WaitName>,
    /// Kernel interface of the generator; io-uring without --rate only
    #[arg(long, value_enum, default_value = "epoll", value_name = "INTERFACE")]
    pub(crate) generator: InterfaceName,
    /// Kernel interface of our own server; a list is measured in turns
    #[arg(long, value_enum, value_delimiter = ',', default_value = "mio")]
    pub(crate) backend: Vec<BackendName>,
    /// Print the tables for a document, in Markdown
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

/// Names of our own servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindName {
    Hello,
    Unparsed,
    Echo,
    Frames,
    Bare,
}

/// A server that another process of this tool measures.
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

/// The word by which a value is given on the command line.
pub(crate) fn word(name: impl ValueEnum) -> String {
    // Every value of these enums has a name.
    name.to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}
