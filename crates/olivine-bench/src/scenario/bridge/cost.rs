//! Publisher's cost of a message: with a plain subscriber on the channel, and with a bridge
//! instead.
//!
//! Bursts that fit the ring are timed; between them the ring is emptied. So this is the cost of
//! publishing, whatever happens to the messages later.

use super::{Field, Part, RunSlot, Target, rate, rated};
use crate::channel::TemporaryChannel;
use crate::clock::TickClock;
use crate::deadline::Deadline;
use crate::error::{BenchError, Result, io};
use crate::payload::Stamp;
use crate::peer::Order;
use crate::result::Parameters;
use crate::rival::unpinned;
use crate::scenario::latency::publish;
use crate::scenario::turns::Taken;
use crate::spread::Spread;
use crate::sys::child;
use olivine::{OpenError, Publisher};
use rustix::process::Signal;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SIZE: usize = 32;
/// Messages in a burst: 40 KiB of a ring of 1 MiB.
const BURST: u64 = 1000;
/// Bursts before anything counts.
const WARM_UP: u64 = 20;
/// Least bursts that count, however short a run is.
const BURSTS_MIN: u64 = 20;
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// Rates, so that a lower cost is a higher figure.
const TARGET: Target = Target::AtLeast(0.95);
const PLAIN: &str = "subscriber on shm://";
const BRIDGED: &str = "bridge to tcp://";
const SETTINGS: &str = "wait=park";

pub(super) fn enter(field: &mut Field<'_>) {
    let parameters = || Parameters {
        wait: Some("park".to_owned()),
        ..Parameters::pair(SIZE as u64)
    };
    field.add(Part::Cost, PLAIN, parameters(), |turn| {
        let channel = channel()?;
        let there = channel.uri();
        turn.peer.run(&Order::Open { there })?;
        bursts(turn, &channel)
    });
    field.add(Part::Cost, BRIDGED, parameters(), |turn| {
        let channel = channel()?;
        let port = free_port()?;
        let far = |role: &str| format!("tcp://127.0.0.1:{port}/bench?{SETTINGS}&role={role}");
        turn.peer.run(&Order::Open {
            there: far("listen"),
        })?;
        let mut command = Command::new(&turn.setup.program);
        command.args(["bridge", &channel.uri(), &far("connect")]);
        let _bridge = Bridge::start(command)?;
        bursts(turn, &channel)
    });
    field.compare(Part::Cost, SIZE as u64, BRIDGED, PLAIN, TARGET);
}

fn channel() -> Result<TemporaryChannel> {
    Ok(TemporaryChannel::new("bench", 0, SETTINGS).map_err(OpenError::from)?)
}

/// A port that is unused at the moment.
fn free_port() -> Result<u16> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    Ok(bound.map_err(io("find a free port"))?.port())
}

/// Publishes burst by burst for a run; the middle burst is the figure.
fn bursts(turn: &mut RunSlot<'_>, channel: &TemporaryChannel) -> Result<Taken> {
    let mut publisher = Publisher::open(&channel.uri())?;
    if !publisher.wait_for_subscribers(1, Some(DRAIN_MAX))? {
        return Err(BenchError::Protocol {
            found: "no subscriber joined the channel".to_owned(),
        });
    }
    let clock = turn.clock;
    let until = Instant::now() + Duration::from_secs_f64(turn.seconds());
    let mut rates = Vec::new();
    let (mut burst, mut first) = (0, 0);
    while burst < WARM_UP + BURSTS_MIN || Instant::now() < until {
        turn.peer.begin(&Order::Consume {
            size_bytes: SIZE,
            first,
            count: BURST,
            timed: false,
        })?;
        let mut deadline = Deadline::of(DRAIN_MAX);
        let start = TickClock::ticks();
        for sequence in first..first + BURST {
            let stamp = Stamp { sequence, ticks: 0 };
            publish(&mut publisher, SIZE, stamp, &mut deadline)?;
        }
        let end = TickClock::ticks();
        turn.peer.end()?;
        if !publisher.wait_drained(Some(DRAIN_MAX))? {
            return Err(BenchError::Protocol {
                found: "a burst that was not acknowledged".to_owned(),
            });
        }
        if burst >= WARM_UP {
            rates.push(rate(&clock, BURST, start, end));
        }
        burst += 1;
        first += BURST;
    }
    drop(publisher);
    turn.peer.run(&Order::Close)?;
    let middle = Spread::of(&rates).ok_or(BenchError::Stopped)?;
    Ok(rated(middle.median))
}

/// A process that carries; ended when dropped.
struct Bridge(Child);

impl Bridge {
    fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        let child = unpinned(|| child::start(&mut command, Signal::KILL));
        let child = child.map_err(io("start a bridge"))?;
        Ok(Self(child))
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // Its messages were checked on the far side.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
