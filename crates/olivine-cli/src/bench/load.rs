//! `olivine bench http` and `olivine bench tcp`: servers under load.

mod kept;

use super::Bench;
use crate::args::Common;
use crate::args::load::{
    BackendName, HttpArgs, InterfaceName, KindName, LoadArgs, ServeArgs, TcpArgs, WaitName, word,
};
use crate::failure::{Failure, Outcome};
use crate::log;
use crate::stop::Stop;
use olivine_bench::error::chain;
use olivine_bench::load::compare::{self, Row};
use olivine_bench::load::server::{self, PATH, Settings};
use olivine_bench::load::{self, LoadError, Plan, Server, Url, Waiting, frames, rivals};
use olivine_bench::scenario::{Progress, Setup};
use olivine_bench::view;
use olivine_net::WaitStrategy;
use std::net::SocketAddr;
use std::path::Path;

/// The command of a server that is measured.
pub(crate) const SERVE_COMMAND: &str = "__serve";
/// Smallest message with a number and a checkable pattern.
const SIZE_MIN: u64 = 16;

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Url { .. } | LoadError::Paced => Self::Usage(error.into()),
            _ => Self::Failed(error.into()),
        }
    }
}

/// Format of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Columns on a terminal.
    Text,
    /// Tables in Markdown.
    Markdown,
}

/// A server that cannot be compared, and why.
type LeftOut = (String, String);

fn form(load: &LoadArgs, common: Common) -> Outcome<Form> {
    match (load.markdown, common.json) {
        (true, true) => Err(Failure::usage(
            "--markdown and --json cannot be combined: leave one out",
        )),
        (true, false) => Ok(Form::Markdown),
        (false, _) => Ok(Form::Text),
    }
}

/// Runs `bench http`.
pub(super) fn http(args: &HttpArgs, common: Common) -> Outcome {
    let form = form(&args.load, common)?;
    refuse_pace_on_io_uring(&args.load)?;
    kept::refuse_unfit(&args.method)?;
    let bench = Bench::new("http", &args.method)?;
    let plans: Vec<Plan> = args
        .depth
        .iter()
        .map(|&depth| plan(&bench, args.connections, depth, &args.load, WaitName::Block))
        .collect();
    let folder = tempfile::tempdir().map_err(|error| {
        Failure::Failed(anyhow::Error::new(error).context("cannot make a temporary folder"))
    })?;
    let mut servers = Vec::new();
    let mut targets = Vec::new();
    let mut left_out = Vec::new();
    if let Some(url) = &args.url {
        targets.push((url.host.clone(), url.clone()));
    } else {
        let kind = if args.unparsed {
            KindName::Unparsed
        } else {
            KindName::Hello
        };
        for &backend in &args.load.backend {
            servers.push(own(&bench.setup, kind, backend, WaitName::Block)?);
        }
        let (found, missing) = peers(&bench, &args.peers, &args.rivals, folder.path())?;
        servers.extend(found);
        left_out = missing;
        let target =
            |server: &Server| (server.name().to_owned(), Url::local(server.address(), PATH));
        targets.extend(servers.iter().map(target));
    }
    let (names, urls): (Vec<_>, Vec<_>) = targets.into_iter().unzip();
    let runs = bench.setup.runs;
    let rows = bench.measure(|_, watch| {
        compare::run(&names, &plans, runs, watch, |server, plan| {
            load::http(&urls[server], plan)
        })
    })?;
    let section = view::http(&rows, &left_out);
    kept::report(&bench, &args.method.save, common, form, &rows, section)?;
    verdict(&rows)?;
    bench.stop.cut_short()
}

/// Runs `bench tcp`.
pub(super) fn tcp(args: &TcpArgs, common: Common) -> Outcome {
    let form = form(&args.load, common)?;
    kept::refuse_unfit(&args.method)?;
    if args.frames {
        return stream(args, common, form);
    }
    refuse_pace_on_io_uring(&args.load)?;
    let size = usize::try_from(args.size)
        .ok()
        .filter(|_| args.size >= SIZE_MIN)
        .ok_or_else(|| {
            Failure::usage(format!(
                "--size {} is too small: a checked message takes {SIZE_MIN} bytes or more",
                args.size
            ))
        })?;
    let bench = Bench::new("tcp", &args.method)?;
    let plan = plan(
        &bench,
        args.connections,
        args.depth,
        &args.load,
        WaitName::Spin,
    );
    let wait = args.load.wait.unwrap_or(WaitName::Spin);
    let mut ours: Vec<(KindName, BackendName)> = Vec::new();
    if args.address.is_none() {
        ours.extend(
            args.load
                .backend
                .iter()
                .map(|&backend| (KindName::Echo, backend)),
        );
        // The plain loop serves one connection and one message at a time, and always spins.
        if (args.connections, args.depth, wait) == (1, 1, WaitName::Spin) {
            ours.push((KindName::Bare, BackendName::Mio));
        }
    }
    let names: Vec<String> = match args.address {
        Some(address) => vec![address.to_string()],
        None => ours
            .iter()
            .map(|&(kind, backend)| name(kind, backend).to_owned())
            .collect(),
    };
    let runs = bench.setup.runs;
    let rows = bench.measure(|setup, watch| {
        compare::run(&names, &[plan], runs, watch, |server, plan| {
            match args.address {
                Some(address) => load::echo(address, size, plan),
                None => {
                    // Only for its turn: a spinning server would take the CPU from the next one.
                    let (kind, backend) = ours[server];
                    let server = own(setup, kind, backend, wait)?;
                    load::echo(server.address(), size, plan)
                }
            }
        })
    })?;
    let section = view::echo(&rows, args.size);
    kept::report(&bench, &args.method.save, common, form, &rows, section)?;
    verdict(&rows)?;
    bench.stop.cut_short()
}

fn stream(args: &TcpArgs, common: Common, form: Form) -> Outcome {
    if args.load.generator != InterfaceName::Epoll {
        return Err(Failure::usage(
            "--generator io-uring does not go with --frames: a stream is one blocking sender",
        ));
    }
    let bench = Bench::new("tcp", &args.method)?;
    let wait = args.load.wait.unwrap_or(WaitName::Spin);
    let runs = bench.setup.runs;
    let seconds = bench.setup.seconds / f64::from(runs);
    let backends = &args.load.backend;
    let cells: Vec<(u32, BackendName)> = args
        .batch
        .iter()
        .flat_map(|&batch| backends.iter().map(move |&backend| (batch, backend)))
        .collect();
    let mut found: Vec<Vec<frames::Streamed>> = vec![Vec::new(); cells.len()];
    bench.measure(|setup, watch| {
        let total = u64::from(runs) * cells.len() as u64;
        let mut done = 0;
        for _ in 0..runs {
            for ((batch, backend), found) in cells.iter().zip(&mut found) {
                if watch(Progress::of(done, total)).is_break() {
                    return Ok(());
                }
                done += 1;
                let batch = usize::try_from(*batch).unwrap_or(1);
                let server = own(setup, KindName::Frames, *backend, wait)?;
                let (address, cpu) = (server.address(), setup.cpus.1);
                found.push(frames::stream(address, batch, seconds, cpu)?);
            }
        }
        Ok::<(), LoadError>(())
    })?;
    let rows: Vec<frames::Rates> = cells
        .iter()
        .zip(&found)
        .filter_map(|((batch, backend), found)| {
            frames::Rates::of(name(KindName::Frames, *backend), *batch, found)
        })
        .collect();
    if rows.is_empty() {
        bench.stop.cut_short()?;
        return Err(LoadError::Stopped.into());
    }
    let section = view::frames(&rows);
    kept::report(&bench, &args.method.save, common, form, &rows, section)?;
    bench.stop.cut_short()
}

/// Runs as a server that another process of this tool measures, until standard input ends.
pub(crate) fn serve(args: &ServeArgs) -> Outcome {
    let stop = Stop::install()?;
    stop.follow_stdin();
    let settings = Settings {
        cpu: args.cpu,
        backend: args.backend.into(),
        wait: match args.wait {
            WaitName::Spin => WaitStrategy::Spin,
            WaitName::Block => WaitStrategy::Block,
        },
    };
    let announce = |address: SocketAddr| {
        // The parent reads one line; if this fails, the parent is gone and standard input ends.
        let _ = crate::output::print(&format!("{address}\n"));
    };
    Ok(server::serve(args.kind.into(), settings, announce, || {
        stop.now()
    })?)
}

fn plan(bench: &Bench, connections: u32, depth: u32, load: &LoadArgs, default: WaitName) -> Plan {
    let default = if load.rate.is_some() {
        WaitName::Spin
    } else {
        default
    };
    Plan {
        connections: usize::try_from(connections).unwrap_or(1),
        depth: usize::try_from(depth).unwrap_or(1),
        rate_per_s: load.rate,
        seconds: bench.setup.seconds / f64::from(bench.setup.runs),
        cpu: bench.setup.cpus.1,
        waiting: Waiting::from(load.wait.unwrap_or(default)),
        interface: load.generator.into(),
    }
}

/// Checked once before anything is started, not for each server.
fn refuse_pace_on_io_uring(load: &LoadArgs) -> Outcome {
    if load.rate.is_some() && load.generator == InterfaceName::IoUring {
        return Err(LoadError::Paced.into());
    }
    Ok(())
}

/// Starts one of our own servers on the first CPU.
fn own(
    setup: &Setup,
    kind: KindName,
    backend: BackendName,
    wait: WaitName,
) -> Result<Server, LoadError> {
    let cpu = setup.cpus.0;
    let words = [
        SERVE_COMMAND.to_owned(),
        word(kind),
        word(backend),
        word(wait),
        cpu.to_string(),
    ];
    Server::own(name(kind, backend), &setup.program, &words, cpu)
}

fn name(kind: KindName, backend: BackendName) -> &'static str {
    match (kind, backend) {
        (KindName::Bare, _) => "bare loop",
        (KindName::Unparsed, BackendName::Mio) => "olivine, unparsed",
        (KindName::Unparsed, BackendName::IoUring) => "olivine io_uring, unparsed",
        (_, BackendName::Mio) => "olivine",
        (_, BackendName::IoUring) => "olivine io_uring",
    }
}

/// Starts the servers to compare with, and reports the missing ones.
fn peers(
    bench: &Bench,
    names: &[String],
    folder: &Path,
    place: &Path,
) -> Outcome<(Vec<Server>, Vec<LeftOut>)> {
    let known = rivals::names();
    let wanted: Vec<&str> = if names.iter().any(|name| name == "all") {
        known
    } else {
        if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(Failure::usage(format!(
                "--peers {unknown} is not known: all, or some of {}",
                known.join(", ")
            )));
        }
        names.iter().map(String::as_str).collect()
    };
    let mut servers = Vec::new();
    let mut left_out = Vec::new();
    for name in wanted {
        let started = rivals::find(name, folder).and_then(|rival| {
            rival
                .start(bench.setup.cpus.0, place)
                .map_err(|error| chain(&error))
        });
        match started {
            Ok(server) => servers.push(server),
            Err(why) => {
                log::warn(&format!("{name} is left out: {why}"));
                left_out.push((name.to_owned(), why));
            }
        }
    }
    Ok((servers, left_out))
}

/// A server without a figure makes the command fail, after the table is printed.
fn verdict(rows: &[Row]) -> Outcome {
    if rows
        .iter()
        .any(|row| row.failure.is_some() || row.cut_count > 0)
    {
        return Err(Failure::BadResult);
    }
    Ok(())
}
