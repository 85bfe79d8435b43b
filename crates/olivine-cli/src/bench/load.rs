//! `olivine bench http` and `olivine bench tcp`: servers under load.

use super::Bench;
use crate::args::load::{BACKENDS, HttpArgs, KINDS, LoadArgs, ServeArgs, TcpArgs, WAITS, word};
use crate::args::{Common, MethodArgs};
use crate::failure::{Failure, Outcome};
use crate::stop::Stop;
use olivine_bench::error::chain;
use olivine_bench::job::beside_requests;
use olivine_bench::load::server::{self, Kind, PATH, Settings};
use olivine_bench::load::{self, Interface, LoadError, Plan, Server, Url, Waiting, frames, rivals};
use olivine_bench::scenario::Setup;
use olivine_bench::servers::{self, Contest};
use olivine_net::{Backend, WaitStrategy};
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

/// A measurement of servers.
fn bench(
    name: &'static str,
    method: &MethodArgs,
    load: &LoadArgs,
    common: Common,
) -> Outcome<Bench> {
    if load.markdown && common.json {
        return Err(Failure::usage(
            "--markdown and --json cannot be combined: leave one out",
        ));
    }
    // Checked once before anything is started, not for each server.
    if load.rate.is_some() && load.generator == Interface::IoUring {
        return Err(LoadError::Paced.into());
    }
    for (asked, option) in [(method.fifo, "--fifo"), (method.mlock, "--mlock")] {
        if asked {
            return Err(Failure::usage(format!(
                "{option} does not go with http and tcp: a server chooses its own threads; \
                 leave it out"
            )));
        }
    }
    let mut bench = Bench::new(name, method)?;
    bench.markdown = load.markdown;
    Ok(bench)
}

/// Runs `bench http`.
pub(super) fn http(args: &HttpArgs, common: Common) -> Outcome {
    let bench = bench("http", &args.method, &args.load, common)?;
    let depths = args.depth.iter();
    let plan = |&depth| plan(&bench, args.connections, depth, &args.load, Waiting::Block);
    let plans: Vec<Plan> = depths.map(plan).collect();
    let folder = tempfile::tempdir().map_err(|error| {
        Failure::Failed(anyhow::Error::new(error).context("cannot make a temporary folder"))
    })?;
    let mut servers = Vec::new();
    let mut targets = Vec::new();
    let mut left_out = Vec::new();
    if let Some(url) = &args.url {
        targets.push((url.host.clone(), url.clone()));
    } else {
        for &kind in &args.ours {
            // The floor has no engine, so no back end.
            let backends = match kind {
                Kind::Floor => &[Backend::Mio][..],
                _ => &args.load.backend,
            };
            for &backend in backends {
                servers.push(own(&bench.setup, kind, backend, Waiting::Block)?);
            }
        }
        let found = peers(&bench, &args.peers, &args.rivals, folder.path())?;
        servers.extend(found.0);
        left_out = found.1;
        let target =
            |server: &Server| (server.name().to_owned(), Url::local(server.address(), PATH));
        targets.extend(servers.iter().map(target));
    }
    let (names, urls): (Vec<_>, Vec<_>) = targets.into_iter().unzip();
    let contest = Contest {
        scenario: "http",
        servers: &names,
        plans: &plans,
        size_bytes: 0,
        figure: "cpu_ns",
        reference: 0,
    };
    let mut found = bench.measure(|setup, watch| {
        contest.run(setup, watch, |server, plan| load::http(&urls[server], plan))
    })?;
    found.left_out = left_out;
    beside_requests(&mut found.rows)?;
    bench.report(common, found)
}

/// Runs `bench tcp`.
pub(super) fn tcp(args: &TcpArgs, common: Common) -> Outcome {
    if args.frames && args.load.generator != Interface::Epoll {
        return Err(Failure::usage(
            "--generator io-uring does not go with --frames: a stream is one blocking sender",
        ));
    }
    let size = usize::try_from(args.size).ok();
    let size = size.filter(|_| args.size >= SIZE_MIN).ok_or_else(|| {
        Failure::usage(format!(
            "--size {} is too small: a checked message takes {SIZE_MIN} bytes or more",
            args.size
        ))
    })?;
    let bench = bench("tcp", &args.method, &args.load, common)?;
    let wait = args.load.wait.unwrap_or(Waiting::Spin);
    if args.frames {
        return stream(args, common, bench, wait);
    }
    let plan = plan(
        &bench,
        args.connections,
        args.depth,
        &args.load,
        Waiting::Spin,
    );
    let backends = args.load.backend.iter();
    let mut ours: Vec<_> = backends.map(|&backend| (Kind::Echo, backend)).collect();
    // The plain loop serves one connection and one message at a time, and always spins.
    if (args.connections, args.depth, wait) == (1, 1, Waiting::Spin) {
        ours.push((Kind::Bare, Backend::Mio));
    }
    let names: Vec<String> = match args.address {
        Some(address) => vec![address.to_string()],
        None => ours
            .iter()
            .map(|&(kind, backend)| name(kind, backend).to_owned())
            .collect(),
    };
    let contest = Contest {
        scenario: "tcp",
        servers: &names,
        plans: &[plan],
        size_bytes: args.size,
        figure: "p50_ns",
        reference: names.len() - 1,
    };
    let found = bench.measure(|setup, watch| {
        contest.run(setup, watch, |server, plan| match args.address {
            Some(address) => load::echo(address, size, plan),
            None => {
                // Only for its turn: a spinning server would take the CPU from the next one.
                let (kind, backend) = ours[server];
                let server = own(setup, kind, backend, wait)?;
                load::echo(server.address(), size, plan)
            }
        })
    })?;
    bench.report(common, found)
}

fn stream(args: &TcpArgs, common: Common, bench: Bench, wait: Waiting) -> Outcome {
    let backends = &args.load.backend;
    let batches = args.batch.iter();
    let cases = batches.flat_map(|&batch| backends.iter().map(move |&backend| (backend, batch)));
    let cases: Vec<(Backend, u32)> = cases.collect();
    let names = cases.iter();
    let names = names.map(|&(backend, batch)| (name(Kind::Frames, backend).to_owned(), batch));
    let names: Vec<(String, u32)> = names.collect();
    let found = bench.measure(|setup, watch| {
        servers::stream(setup, &names, watch, |case| {
            let (backend, batch) = cases[case];
            let batch = usize::try_from(batch).unwrap_or(1);
            let server = own(setup, Kind::Frames, backend, wait)?;
            frames::stream(server.address(), batch, setup.run_s(), setup.cpus.1)
        })
    })?;
    bench.report(common, found)
}

/// Runs as a server that another process of this tool measures, until standard input ends.
pub(crate) fn serve(args: &ServeArgs) -> Outcome {
    let stop = Stop::install()?;
    stop.follow_stdin();
    let settings = Settings {
        cpu: args.cpu,
        backend: args.backend,
        wait: match args.wait {
            Waiting::Spin => WaitStrategy::Spin,
            _ => WaitStrategy::Block,
        },
    };
    let announce = |address: SocketAddr| {
        // The parent reads one line; if this fails, the parent is gone and standard input ends.
        let _ = crate::output::print(&format!("{address}\n"));
    };
    Ok(server::serve(args.kind, settings, announce, || stop.now())?)
}

fn plan(bench: &Bench, connections: u32, depth: u32, load: &LoadArgs, default: Waiting) -> Plan {
    let default = if load.rate.is_some() {
        Waiting::Spin
    } else {
        default
    };
    Plan {
        connections: usize::try_from(connections).unwrap_or(1),
        depth: usize::try_from(depth).unwrap_or(1),
        rate_per_s: load.rate,
        seconds: bench.setup.run_s(),
        cpu: bench.setup.cpus.1,
        waiting: load.wait.unwrap_or(default),
        interface: load.generator,
    }
}

/// Starts one of Olivine's servers on the first CPU.
fn own(setup: &Setup, kind: Kind, backend: Backend, wait: Waiting) -> Result<Server, LoadError> {
    let cpu = setup.cpus.0;
    let words = [
        SERVE_COMMAND.to_owned(),
        word(&KINDS, &kind),
        word(&BACKENDS, &backend),
        word(&WAITS, &wait),
        cpu.to_string(),
    ];
    Server::own(name(kind, backend), setup.programs[0].path(), &words, cpu)
}

fn name(kind: Kind, backend: Backend) -> &'static str {
    match (kind, backend) {
        (Kind::Bare, _) => "bare loop",
        (Kind::Floor, _) => "floor, unparsed",
        (Kind::Unparsed, Backend::IoUring) => "olivine io_uring, unparsed",
        (Kind::Unparsed, _) => "olivine, unparsed",
        (_, Backend::IoUring) => "olivine io_uring",
        (_, _) => "olivine",
    }
}

/// Starts the servers to compare with; a line for each missing one.
fn peers(
    bench: &Bench,
    names: &[String],
    folder: &Path,
    place: &Path,
) -> Outcome<(Vec<Server>, Vec<String>)> {
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
            Err(why) => left_out.push(format!("{name} is left out: {why}")),
        }
    }
    Ok((servers, left_out))
}
