//! One way over `tcp://` at a fixed rate, compared with plain sockets with the same options and
//! wait strategy.

use super::{Field, Part, Plan, RunSlot, Target, count_in};
use crate::deadline::Deadline;
use crate::error::{BenchError, Result, io};
use crate::floor::distribution;
use crate::pace::Rest;
use crate::payload::Stamp;
use crate::peer::Order;
use crate::peer::socket::Bare;
use crate::result::Parameters;
use crate::rival::unpinned;
use crate::scenario::latency::{Paced, publish};
use crate::scenario::turns::Taken;
use olivine::Publisher;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

const SIZE: usize = 32;
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Messages sent at the rate before anything counts.
const WARM_UP: u64 = 500;
/// p50 beside a bare socket.
const TARGET: Target = Target::AtMost(1.15);

pub(super) const OURS: &str = "olivine-tcp";
const BARE: &str = "bare socket";

pub(super) fn enter(field: &mut Field<'_>, plan: &Plan) {
    let rate_per_s = plan.rate_per_s;
    let parameters = |wait: &str| Parameters {
        rate_per_s: Some(rate_per_s),
        wait: Some(wait.to_owned()),
        ..Parameters::pair(SIZE as u64)
    };
    let wait = plan.wait.clone();
    field.add(Part::Paced, OURS, parameters(&plan.wait), move |turn| {
        ours(turn, rate_per_s, &wait)
    });
    let spins = plan.wait == "spin" || plan.wait == "yield";
    let wait = if spins { "spin" } else { "block" };
    field.add(Part::Paced, BARE, parameters(wait), move |turn| {
        bare(turn, rate_per_s, spins)
    });
    field.compare(Part::Paced, SIZE as u64, OURS, BARE, TARGET);
}

fn ours(turn: &mut RunSlot<'_>, rate_per_s: f64, wait: &str) -> Result<Taken> {
    let (mut publisher, subscriber) = listen(wait)?;
    turn.peer.run(&Order::Open { there: subscriber })?;
    await_subscriber(&mut publisher)?;
    let rest = if wait == "yield" {
        Rest::Yield
    } else {
        Rest::Gentle
    };
    let pace = Pace {
        rate_per_s,
        rest,
        is_channel: true,
    };
    let sample = paced(turn, &pace, |stamp, deadline| {
        publish(&mut publisher, SIZE, stamp, deadline)
    })?;
    turn.peer.run(&Order::Close)?;
    Ok(sample)
}

/// A publisher that listens, and the URI of its subscribers. Its bridge may run on any CPU.
pub(super) fn listen(query: &str) -> Result<(Publisher, String)> {
    let query = format!("wait={query}&linger=1s&expire=1s");
    let publisher = unpinned(|| Publisher::open(&format!("tcp://127.0.0.1:0/bench?{query}")))?;
    let address = publisher.link_status().unwrap_or_default().address;
    Ok((publisher, format!("tcp://{address}/bench?{query}")))
}

pub(super) fn await_subscriber(publisher: &mut Publisher) -> Result<()> {
    if publisher.wait_for_subscribers(1, Some(CONNECT_MAX))? {
        return Ok(());
    }
    Err(BenchError::Protocol {
        found: "no connection of the other side".to_owned(),
    })
}

fn bare(turn: &mut RunSlot<'_>, rate_per_s: f64, spins: bool) -> Result<Taken> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io("listen on 127.0.0.1"))?;
    let address = listener.local_addr().map_err(io("look at a socket"))?;
    turn.peer.run(&Order::Connect {
        port: address.port(),
        size_bytes: SIZE,
        spins,
    })?;
    // It has connected: this does not wait.
    let (stream, _) = listener.accept().map_err(io("accept over TCP"))?;
    let mut socket = Bare::over(stream, SIZE, spins)?;
    let pace = Pace {
        rate_per_s,
        rest: Rest::Gentle,
        is_channel: false,
    };
    let sample = paced(turn, &pace, |stamp, deadline| socket.send(stamp, deadline))?;
    turn.peer.run(&Order::Close)?;
    Ok(sample)
}

/// How messages are sent.
struct Pace {
    rate_per_s: f64,
    rest: Rest,
    /// The peer has a subscriber, not a socket.
    is_channel: bool,
}

/// Sends a few, then as many as fit a run.
fn paced(
    turn: &mut RunSlot<'_>,
    pace: &Pace,
    mut send: impl FnMut(Stamp, &mut Deadline<'_>) -> Result<()>,
) -> Result<Taken> {
    let measured = count_in(turn.seconds(), pace.rate_per_s);
    let mut delays = Vec::new();
    let mut first = 0;
    let mut one_way = None;
    for count in [WARM_UP, measured] {
        turn.peer.begin(&if pace.is_channel {
            Order::Consume {
                size_bytes: SIZE,
                first,
                count,
                timed: true,
            }
        } else {
            Order::Hear { first, count }
        })?;
        let paced = Paced {
            rate_per_s: pace.rate_per_s,
            rest: pace.rest,
            first,
            count,
        };
        let clock = turn.clock;
        let found = paced.send(turn.peer, clock, &mut delays, |stamp, _, deadline| {
            send(stamp, deadline)
        })?;
        one_way = Some(found);
        first += count;
    }
    Ok(Taken::OneWay {
        clock_ahead: None,
        one_way: one_way.unwrap_or_default(),
        send_delay: distribution(&delays),
    })
}
