//! One way over `tcp://` at a fixed rate, compared with a plain socket: the scenario `latency` with
//! two methods.

use super::{Field, Part, Plan, Target};
use crate::pace::Rest;
use crate::result::Parameters;
use crate::scenario::latency::Line;
use crate::scenario::turns::Candidate;
use crate::scenario::{Session, Setup, Variant};

const SIZE: u64 = 32;
/// p50 beside a bare socket.
const TARGET: Target = Target::AtMost(1.15);

pub(super) const OURS: &str = "olivine-tcp";
pub(super) const BARE: &str = "bare socket";

pub(super) fn enter(field: &mut Field<'_>, setup: &Setup, plan: &Plan) {
    let rest = if plan.wait == "yield" {
        Rest::Yield
    } else {
        Rest::Gentle
    };
    let variant = |method: &str, wait: &str, settings: String| Variant {
        method: method.to_owned(),
        parameters: Parameters {
            rate_per_s: Some(plan.rate_per_s),
            wait: Some(wait.to_owned()),
            settings,
            ..Parameters::pair(SIZE)
        },
    };
    let ours = variant(OURS, &plan.wait, format!("wait={}", plan.wait));
    let bare = match plan.wait.as_str() {
        "spin" | "yield" => variant("tcp-busy", "spin", String::new()),
        _ => variant("tcp", "block", String::new()),
    };
    for (name, variant, rest) in [(OURS, ours, rest), (BARE, bare, Rest::Gentle)] {
        // A bridge may run on any CPU.
        let open = move |session: &mut Session<'_>, variant: &Variant| {
            Line::<false>::resting(session, variant, rest, true)
        };
        let candidate = Candidate::opened(setup, variant, open);
        field.enter(Part::Paced, name, candidate);
    }
    field.compare(Part::Paced, SIZE, OURS, BARE, TARGET);
}
