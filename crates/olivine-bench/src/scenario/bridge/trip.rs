//! There and back over `tcp://`, compared with a plain socket: the scenario `pingpong` with two
//! methods. All ends sleep.

use super::paced::{BARE, OURS};
use super::{Field, Part, Target};
use crate::method::{OLIVINE_TCP, SOCKET};
use crate::result::Parameters;
use crate::scenario::pingpong::PingPong;
use crate::scenario::turns::Candidate;
use crate::scenario::{Setup, Variant};

const SIZES: [u64; 2] = [32, 1024];
/// p50 beside a bare socket.
const TARGET: Target = Target::AtMost(1.2);

pub(super) fn enter(field: &mut Field<'_>, setup: &Setup) {
    for size in SIZES {
        for (name, method, wait) in [(OURS, OLIVINE_TCP, "park"), (BARE, SOCKET, "block")] {
            let variant = Variant {
                method: method.to_owned(),
                parameters: Parameters {
                    wait: Some(wait.to_owned()),
                    ..Parameters::pair(size)
                },
            };
            field.enter(Part::Trip, name, Candidate::of::<PingPong>(setup, variant));
        }
        field.compare(Part::Trip, size, OURS, BARE, TARGET);
    }
}
