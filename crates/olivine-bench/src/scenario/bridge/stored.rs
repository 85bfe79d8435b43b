//! Storing messages in a stream of a NATS server: through `nats://`, and by its client library.
//!
//! Timed: from the first message to the server's acknowledgement of the last one. Each message of a
//! channel is one of the stream, so both store the same number, with the same payload, in a file.
//! Afterwards every message is read back and checked.

use super::{Field, Part, Plan, Resources, Target, count_in, rate, read_back};
use crate::clock::TickClock;
use crate::error::{BenchError, Result};
use crate::method::publish;
use crate::payload::Stamp;
use crate::result::{Figures, Parameters};
use crate::run::Program;
use olivine::Publisher;
use olivine_arena::error::ArenaError;
use olivine_arena::store::{STORE, StoreJob, Stored};
use std::rc::Rc;
use std::time::Duration;

const SIZES: [u64; 2] = [32, 8192];
/// Messages, and bytes of them, stored per second of a run; equal for both.
const PER_S: f64 = 100e3;
const BYTES_PER_S: f64 = 256e6;
/// Ring in front of the stream: room for as many messages as a client has in flight.
const RING: u64 = 8 << 20;
const STORE_MAX: Duration = Duration::from_secs(60);
const OURS: &str = "nats://";
const CLIENT: &str = "NATS client";
const CLIENT_IDS: &str = "NATS client, ids";
const TARGET: Target = Target::AtLeast(0.8);
pub(super) fn enter(field: &mut Field<'_>, plan: &Plan) {
    let Some(shared) = field.server(plan) else {
        return;
    };
    let client = field.rival(plan, "nats");
    for size in SIZES {
        let parameters = Parameters::pair(size);
        let size_bytes = usize::try_from(size).unwrap_or(usize::MAX);
        let own = Rc::clone(&shared);
        let with_ring = Parameters {
            ring_bytes: Some(RING),
            settings: format!("capacity={RING}"),
            ..parameters.clone()
        };
        field.add(Part::Stored, OURS, with_ring, move |turn| {
            let (address, subject) = own.borrow_mut().take()?;
            ours(turn, &address, &subject, size_bytes)
        });
        let Some(client) = &client else {
            continue;
        };
        for (method, ids) in [(CLIENT, false), (CLIENT_IDS, true)] {
            let (own, client) = (Rc::clone(&shared), client.clone());
            field.add(Part::Stored, method, parameters.clone(), move |turn| {
                let (address, subject) = own.borrow_mut().take()?;
                let job = StoreJob {
                    address,
                    subject,
                    size_bytes,
                    count: count(turn, size_bytes),
                    ids,
                };
                theirs(&client, &job, &|| turn.setup.is_stopped())
            });
            field.compare(Part::Stored, size, OURS, method, TARGET);
        }
    }
}

/// Messages of a run.
#[allow(clippy::cast_precision_loss, reason = "sizes stay far below 2^52")]
fn count(turn: &Resources<'_>, size: usize) -> u64 {
    count_in(turn.seconds(), PER_S.min(BYTES_PER_S / size as f64))
}

fn ours(turn: &mut Resources<'_>, address: &str, subject: &str, size: usize) -> Result<Figures> {
    let count = count(turn, size);
    let uri = format!("nats://{address}/{subject}?storage=file&linger=5s&capacity={RING}");
    let mut publisher = Publisher::open(&uri)?;
    let start = TickClock::ticks();
    for sequence in 0..count {
        let stamp = Stamp { sequence, ticks: 0 };
        publish(&mut publisher, size, stamp, Some(STORE_MAX))?;
    }
    let is_stored = publisher.wait_drained(Some(STORE_MAX))?;
    let end = TickClock::ticks();
    if !is_stored {
        return Err(missing("was not stored in a minute"));
    }
    publisher.close()?;
    check(address, subject, count)?;
    Ok(Figures::rate(rate(&turn.clock, count, start, end)))
}

#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn theirs(client: &Program, job: &StoreJob, stopped: &dyn Fn() -> bool) -> Result<Figures> {
    let stored: Stored = client.ask(STORE, job, STORE_MAX, stopped)?;
    check(&job.address, &job.subject, job.count)?;
    Ok(Figures::rate(job.count as f64 / stored.seconds.max(1e-9)))
}

/// Reads every message back.
fn check(address: &str, subject: &str, count: u64) -> Result<()> {
    read_back(
        &format!("nats://{address}/{subject}?from=oldest"),
        count,
        STORE_MAX,
    )
}

fn missing(what: &str) -> BenchError {
    ArenaError::Protocol {
        found: format!("a message that {what}"),
    }
    .into()
}
