//! Full speed over `tcp://`, beside a plain socket, and libraries that carry messages over TCP,
//! with a server or without.

use super::paced::{BARE, OURS};
use super::{Field, Part, Plan, Target};
use crate::method::SOCKET;
use crate::result::Parameters;
use crate::scenario::throughput::Stream;
use crate::scenario::turns::{Candidate, Subject as _};
use crate::scenario::{Session, Setup, Variant};

const SMALL: u64 = 32;
const LARGE: u64 = 8192;
/// Messages that are made visible at once, where a candidate can do that.
const BATCH: u64 = 16;
/// Rings that are tried: the smallest default, and one with more room than a socket.
const RINGS: [u64; 2] = [1 << 20, 4 << 20];
/// Rates beside each rival, for small messages.
const TARGET: Target = Target::AtLeast(5.0);
/// What a stream of small messages should reach alone, in messages a second, and one of large ones,
/// in bytes.
const SMALL_PER_S: f64 = 120e6;
const LARGE_PER_S: f64 = ((1 << 30) / LARGE) as f64;

/// Rivals: the program, the method of it, and whether it needs a NATS server.
const RIVALS: [(&str, &str, bool); 2] =
    [("zeromq", "zeromq-tcp", false), ("nats", "nats-core", true)];

pub(super) fn enter(field: &mut Field<'_>, setup: &Setup, plan: &Plan) {
    let parameters = |size: u64, batch: u64, settings: &str| Parameters {
        batch_count: batch,
        settings: settings.to_owned(),
        ..Parameters::pair(size)
    };
    for (size, batch) in [(SMALL, BATCH), (LARGE, 1)] {
        for ring in RINGS {
            let name = format!("{OURS} {}", crate::text::bytes(ring));
            let variant = Variant {
                method: OURS.to_owned(),
                parameters: Parameters {
                    ring_bytes: Some(ring),
                    ..parameters(size, batch, &format!("capacity={ring}"))
                },
            };
            let candidate = Candidate::of::<Stream>(setup, variant);
            field.enter(Part::Stream, &name, candidate);
        }
        let bare = Variant {
            method: SOCKET.to_owned(),
            parameters: parameters(size, batch, ""),
        };
        field.enter(Part::Stream, BARE, Candidate::of::<Stream>(setup, bare));
    }
    let best = format!("{OURS} {}", crate::text::bytes(RINGS[1]));
    for (size, per_s) in [(SMALL, SMALL_PER_S), (LARGE, LARGE_PER_S)] {
        field.expect(Part::Stream, size, &best, per_s);
    }
    for (program, method, needs_server) in RIVALS {
        if field.rival(plan, program).is_none() {
            continue;
        }
        let server = needs_server.then(|| field.server(plan)).flatten();
        if needs_server && server.is_none() {
            continue;
        }
        // Neither has batches.
        for size in [SMALL, LARGE] {
            let variant = Variant {
                method: method.to_owned(),
                parameters: parameters(size, 1, ""),
            };
            let server = server.clone();
            let open = move |session: &mut Session<'_>, variant: &Variant| {
                let mut variant = variant.clone();
                if let Some(server) = &server {
                    variant.parameters.settings = server.take().0;
                }
                Stream::open(session, &variant)
            };
            let candidate = Candidate::opened(setup, variant, open);
            field.enter(Part::Stream, method, candidate);
            if size == SMALL {
                field.compare(Part::Stream, size, &best, method, TARGET);
            }
        }
    }
}
