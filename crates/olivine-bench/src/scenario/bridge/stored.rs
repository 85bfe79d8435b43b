//! Storing messages in a stream of a NATS server: through `nats://`, and by its client library.
//!
//! Timed: from the first message to the server's acknowledgement of the last one. Each message of a
//! channel is one of the stream, so both store the same number, with the same payload, in a file.
//! Afterwards every message is read back and checked.

use super::{Field, LONGEST, Part, Plan, Target, count_in, publish_all, read_back};
use crate::clock::TickClock;
use crate::error::Result;
use crate::result::{Figures, Parameters};
use crate::run::Program;
use crate::scenario::Setup;
use olivine_arena::error::ArenaError;
use olivine_arena::store::{STORE, StoreJob, Stored};
use std::rc::Rc;

const SIZES: [usize; 2] = [32, 8192];
/// Messages, and bytes of them, stored per second of a run; equal for both.
const PER_S: f64 = 100e3;
const BYTES_PER_S: f64 = 256e6;
/// Ring in front of the stream: room for as many messages as a client has in flight.
const RING: u64 = 8 << 20;
const OURS: &str = "nats://";
const CLIENT: &str = "NATS client";
const CLIENT_IDS: &str = "NATS client, ids";
const TARGET: Target = Target::AtLeast(0.8);

pub(super) fn enter(field: &mut Field<'_>, plan: &Plan) {
    let Some(server) = field.server(plan) else {
        return;
    };
    let client = field.rival(plan, "nats");
    for size_bytes in SIZES {
        let size = size_bytes as u64;
        let parameters = Parameters::pair(size);
        let own = Rc::clone(&server);
        let with_ring = Parameters {
            ring_bytes: Some(RING),
            settings: format!("capacity={RING}"),
            ..parameters.clone()
        };
        field.add(Part::Stored, OURS, with_ring, move |clock, setup| {
            let (address, subject) = own.take();
            ours(
                clock,
                setup,
                &format!("nats://{address}/{subject}"),
                size_bytes,
            )
        });
        let Some(client) = &client else {
            continue;
        };
        for (method, ids) in [(CLIENT, false), (CLIENT_IDS, true)] {
            let (own, client) = (Rc::clone(&server), client.clone());
            field.add(Part::Stored, method, parameters.clone(), move |_, setup| {
                let (address, subject) = own.take();
                let job = StoreJob {
                    address,
                    subject,
                    size_bytes,
                    count: count(setup, size_bytes),
                    ids,
                };
                theirs(&client, &job, setup)
            });
            field.compare(Part::Stored, size, OURS, method, TARGET);
        }
    }
}

/// Messages of a run.
#[allow(clippy::cast_precision_loss, reason = "sizes stay far below 2^52")]
fn count(setup: &Setup, size: usize) -> u64 {
    count_in(setup, PER_S.min(BYTES_PER_S / size as f64))
}

fn ours(clock: &TickClock, setup: &Setup, stream: &str, size: usize) -> Result<Figures> {
    let count = count(setup, size);
    let uri = format!("{stream}?storage=file&linger=5s&capacity={RING}");
    let figures = publish_all(clock, &uri, size, count, |mut publisher| {
        if publisher.wait_drained(Some(LONGEST))? {
            return Ok(Some(publisher));
        }
        let found = "a message that was not stored in a minute".to_owned();
        Err(ArenaError::Protocol { found }.into())
    })?;
    read_back(&format!("{stream}?from=oldest"), count)?;
    Ok(figures)
}

#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn theirs(client: &Program, job: &StoreJob, setup: &Setup) -> Result<Figures> {
    let stored: Stored = client.ask(STORE, job, LONGEST, &|| setup.is_stopped())?;
    let StoreJob {
        address, subject, ..
    } = job;
    read_back(
        &format!("nats://{address}/{subject}?from=oldest"),
        job.count,
    )?;
    Ok(Figures::rate(job.count as f64 / stored.seconds.max(1e-9)))
}
