//! A load generator for servers: closed loop or evenly paced, every reply checked.
//!
//! One thread on one CPU keeps many connections busy. Its cost per batch is a receive, a send and a
//! comparison of bytes, so one core can load one server core. It measures requests per second,
//! latency, and the CPU time of both sides for each request. The CPU time ranks servers more
//! reliably than the rate: a rate may be the generator's limit, and the table shows when it is.
//!
//! | file | what |
//! |---|---|
//! | `client` | the loop of the generator over epoll |
//! | `driven` | the generator on the engine's io_uring back end |
//! | `answer` | HTTP answers: learned once, then compared byte by byte |
//! | `echo` | messages that must come back as they were sent |
//! | `frames` | a stream of small frames, decoded and counted by the other side |
//! | `url` | what to ask and where |
//! | `usage` | which processes serve an address, and their CPU time |
//! | `server` | servers on `olivine-net` to measure |
//! | `plain` | loops without an engine, to compare with |
//! | `process` | servers in separate, pinned processes |
//! | `rivals` | other people's servers: found, configured, started |
//!
//! **Closed loop**: each connection sends `depth` requests at once, and the next ones after all
//! replies. Latency is then the time of a batch, and says nothing about a server at a given load.
//! **Open loop** (`rate`): request `n` is due at `start + n / rate` whatever the server does, and
//! latency counts from its due time. One table never contains both.

mod answer;
mod client;
mod driven;
mod echo;
mod error;
pub mod frames;
mod plain;
mod process;
pub mod rivals;
pub mod server;
mod url;
mod usage;

pub use error::LoadError;
pub use process::Server;
pub use url::Url;

use crate::clock::TickClock;
use crate::cpus;
use crate::latency::Latency;
use crate::pace::{Pacer, Rest};
use answer::ReplyModel;
use client::{Client, Protocol, Tally, Times};
use echo::Echo;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;
use usage::Usage;

/// Time before the measurement, for caches and windows.
const WARM_UP: Duration = Duration::from_millis(300);

/// How an idle generator waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// Never sleeps: exact times, but its CPU is always busy.
    Spin,
    /// Sleeps until data comes, so that its CPU time is meaningful.
    Block,
}

impl Waiting {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Block => "block",
        }
    }
}

/// Kernel interface of the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interface {
    /// A receive and a send for each batch.
    Epoll,
    /// One call for all connections with data; closed loops only.
    IoUring,
}

/// The load of a server.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections kept open; one or more.
    pub connections: usize,
    /// Requests in flight on each connection: sent at once in a closed loop, at most in an open
    /// one.
    pub depth: usize,
    /// Requests a second over all connections, evenly spaced; `None` is a closed loop.
    pub rate_per_s: Option<f64>,
    /// Seconds measured, after a warm-up of 0.3 s.
    pub seconds: f64,
    /// CPU of the generator.
    pub cpu: u32,
    /// How the generator waits.
    pub waiting: Waiting,
    /// Kernel interface of the generator.
    pub interface: Interface,
}

/// The result, with everything needed to judge a figure.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// Round trips, or from the due time in an open loop.
    pub latency: Latency,
    /// From the due time to the send; empty in a closed loop.
    pub send_delay: Latency,
    /// Answers in the measured time.
    answers: u64,
    /// Requests without an answer at its end.
    unanswered: u64,
    /// Connections that ended between two answers, and were opened again.
    closed: u64,
    /// Connections that ended inside an answer.
    cut: u64,
    /// Whether the server was gone before the end.
    gone: bool,
    /// The time measured.
    seconds: f64,
    /// CPU time of the server's processes; `None` if they are on another machine or may not be
    /// read.
    server: Option<Usage>,
    /// CPU time of this process.
    client_cpu_ns: u64,
}

#[allow(
    clippy::cast_precision_loss,
    reason = "counts and times stay far below 2^52"
)]
impl Outcome {
    /// What was counted and measured besides times, by the names of statistics: messages a second,
    /// CPU time of a request in nanoseconds, shares of one CPU, connections.
    ///
    /// # Errors
    ///
    /// [`LoadError::Gone`] if the server ended early, [`LoadError::Cut`] if an answer was cut: such
    /// a run has no figure.
    pub fn values(&self) -> Result<Vec<(&'static str, f64)>, LoadError> {
        let Self { answers, cut, .. } = *self;
        if self.gone {
            return Err(LoadError::Gone { answers, cut });
        }
        if cut > 0 {
            return Err(LoadError::Cut { count: cut });
        }
        let some = |count: u64| (count > 0).then_some(count as f64);
        let (answers, seconds) = (answers as f64, self.seconds);
        // Shares of one CPU: above 1 with several threads.
        let share = |ns: u64| ns as f64 / seconds / 1e9;
        let server = |of: fn(Usage) -> u64| self.server.map(|used| share(of(used)));
        let total_ns = self.server.map(|used| used.total as f64);
        let own_ns = self.client_cpu_ns as f64;
        let values = [
            ("messages_per_s", Some(answers / seconds)),
            (
                "cpu_ns",
                total_ns.filter(|_| answers > 0.0).map(|ns| ns / answers),
            ),
            ("generator_cpu_ns", Some(own_ns / answers.max(1.0))),
            ("busy", server(|used| used.total)),
            ("user_busy", server(|used| used.user)),
            ("system_busy", server(|used| used.system)),
            ("softirq_busy", server(|used| used.softirq)),
            ("generator_busy", Some(share(self.client_cpu_ns))),
            ("closed_count", some(self.closed)),
            ("unanswered_count", some(self.unanswered)),
        ];
        let values = values.into_iter();
        Ok(values
            .filter_map(|(name, value)| Some((name, value?)))
            .collect())
    }
}

/// Loads an HTTP server with `GET` requests for one page.
///
/// The first reply is parsed and becomes the model: each later one must have the same status and
/// the same body, with any date.
///
/// # Errors
///
/// [`LoadError`], also if a single reply differs: a wrong reply has no figure.
pub fn http(url: &Url, plan: &Plan) -> Result<Outcome, LoadError> {
    let answers = ReplyModel::learn(url)?;
    load(url.address, plan, answers)
}

/// Loads an echo server with messages of `size` bytes, 16 or more, each of which must come back
/// unchanged.
///
/// # Errors
///
/// As [`http`].
pub fn echo(address: SocketAddr, size: usize, plan: &Plan) -> Result<Outcome, LoadError> {
    load(address, plan, Echo::new(size, plan.connections))
}

fn load(
    address: SocketAddr,
    plan: &Plan,
    protocol: impl Protocol + 'static,
) -> Result<Outcome, LoadError> {
    let clock = TickClock::calibrate();
    let servers = usage::servers(address);
    let measured = Duration::from_secs_f64(plan.seconds);
    let (tell, told) = mpsc::channel();
    let begin = move || {
        let times = Times::from_now(&clock, WARM_UP, measured);
        // Without a listener there is nothing to report to.
        let _ = tell.send(times);
        times
    };
    let (plan, cpu) = (plan.clone(), plan.cpu);
    let generator = std::thread::spawn(move || match plan.interface {
        Interface::IoUring if plan.rate_per_s.is_none() => {
            driven::run(address, &plan, protocol, begin)
        }
        Interface::IoUring => Err(LoadError::Paced),
        Interface::Epoll => {
            cpus::pin(cpu).map_err(|source| LoadError::Pin { cpu, source })?;
            Client::connect(address, &plan, protocol, begin)?.run()
        }
    });
    // A failed connection ends the generator before it begins; its return value has the reason.
    let Ok(times) = told.recv() else {
        let ended = generator.join().map_err(|_| LoadError::Panicked)?;
        return Err(ended.err().unwrap_or(LoadError::Panicked));
    };
    // This thread only reads the CPU clocks at the start and the end of the measured time.
    let pacer = Pacer::start(clock, 1.0);
    let mut used = [(None, 0); 2];
    for (at, used) in [times.begin, times.end].into_iter().zip(&mut used) {
        pacer.wait(at, Rest::Gentle, || generator.is_finished());
        *used = (Usage::of(&servers), usage::own_cpu_ns());
    }
    let tally: Tally = generator.join().map_err(|_| LoadError::Panicked)??;
    if tally.answers == 0 && !tally.gone {
        return Err(LoadError::Unanswered {
            seconds: measured.as_secs_f64(),
        });
    }
    let server = used[1].0.zip(used[0].0);
    // If the server ends early, the measured time ends with it.
    let end = times.end.min(tally.ended).max(times.begin);
    Ok(Outcome {
        latency: tally.latency,
        send_delay: tally.send_delay,
        answers: tally.answers,
        unanswered: tally.unanswered,
        closed: tally.closed,
        cut: tally.cut,
        gone: tally.gone,
        seconds: clock.nanos(end - times.begin).max(1) as f64 / 1e9,
        server: server.map(|(after, before)| after.since(before)),
        client_cpu_ns: used[1].1.saturating_sub(used[0].1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn server_that_ended_early_or_cut_a_reply_has_no_figure() {
        let outcome = |gone, cut| Outcome {
            latency: Latency::default(),
            send_delay: Latency::default(),
            answers: 50,
            unanswered: 0,
            closed: 1,
            cut,
            gone,
            seconds: 1.0,
            server: Some(Usage {
                total: 100,
                ..Usage::default()
            }),
            client_cpu_ns: 1,
        };
        let found: BTreeMap<_, _> = outcome(false, 0).values().unwrap().into_iter().collect();
        let values = [
            "messages_per_s",
            "cpu_ns",
            "closed_count",
            "unanswered_count",
        ];
        let values = values.map(|name| found.get(name).copied());
        assert_eq!(values, [Some(50.0), Some(2.0), Some(1.0), None]);
        for (gone, cut, why) in [
            (true, 0, "after 50 answers; 0 connections ended"),
            (true, 2, "after 50 answers; 2 connections ended"),
            (false, 3, "3 connections ended inside an answer"),
        ] {
            let error = outcome(gone, cut).values().unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// Whether a client waits for a connection at `port`: a row of the kernel's table with that
    /// remote port and state 2.
    fn is_awaited(port: u16) -> bool {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let remote = format!(":{port:04X}");
        table.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[2].ends_with(&remote) && words[3] == "02"
        })
    }

    fn echo_back(mut socket: TcpStream) {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = socket.read(&mut buffer) {
            if socket.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
    }

    /// A server that accepts only after a client waits: opening the connections takes more than a
    /// second.
    fn slow_to_accept() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        std::thread::spawn(move || {
            while !is_awaited(address.port()) {
                std::thread::yield_now();
            }
            for socket in listener.incoming() {
                std::thread::spawn(move || echo_back(socket.unwrap()));
            }
        });
        address
    }

    #[test]
    fn measured_time_begins_after_all_connections_are_open() {
        for interface in [Interface::Epoll, Interface::IoUring] {
            let plan = Plan {
                connections: 4,
                depth: 1,
                rate_per_s: None,
                seconds: 0.1,
                cpu: cpus::allowed()[0],
                waiting: Waiting::Block,
                interface,
            };
            let found = match echo(slow_to_accept(), 16, &plan) {
                Err(LoadError::Engine(_)) if interface == Interface::IoUring => continue,
                found => found.unwrap(),
            };
            let Outcome {
                answers,
                closed,
                gone,
                ..
            } = found;
            assert!(answers > 0, "{interface:?}");
            assert_eq!((closed, gone), (0, false), "{interface:?}");
        }
    }
}
