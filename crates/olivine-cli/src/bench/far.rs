//! `olivine bench bridge`: bridges beside what they are compared with.

use super::Bench;
use super::print::bridges;
use crate::args::{Common, FarArgs};
use crate::failure::Outcome;
use crate::log;
use olivine::Config;
use olivine_bench::BenchError;
use olivine_bench::scenario::bridge::{self, PARTS, Plan};

/// CPUs from which on both ends and both bridges can spin.
const SPINNING_FROM: usize = 4;

/// Runs the command.
pub(super) fn run(args: &FarArgs, common: Common) -> Outcome {
    let bench = Bench::new("bridge", &args.method)?;
    let wait = args.wait.clone().unwrap_or_else(|| {
        let spins = bench.setup.allowed.len() >= SPINNING_FROM;
        if spins { "spin" } else { "yield" }.to_owned()
    });
    let _checked = Config::parse(&format!("tcp://127.0.0.1:0/bench?wait={wait}"))?;
    let plan = Plan {
        parts: if args.part.is_empty() {
            PARTS.map(|(part, _)| part).to_vec()
        } else {
            args.part.clone()
        },
        rivals: args.rivals.clone(),
        folder: args.folder.clone().unwrap_or_else(std::env::temp_dir),
        wait,
        rate_per_s: args.rate,
    };
    let found = bench.measure(|setup, watch| {
        let found = bridge::run(setup, &plan, watch, &|| bench.stop.now())?;
        Ok::<_, BenchError>(found)
    })?;
    for line in &found.left_out {
        log::warn(line);
    }
    let text = bridges(&found);
    bench.report(common, found.rows.into(), text)
}
