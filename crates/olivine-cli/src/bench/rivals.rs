//! Rivals in the table: their programs measure themselves in turns with Olivine.

use olivine_bench::error::chain;
use olivine_bench::result::{Load, Parameters, Row};
use olivine_bench::rival::{Job, Program};
use olivine_bench::scenario::{Setup, Variant};
use std::collections::BTreeSet;

/// Round trips of a rival's methods at the sizes of `variants`. What fails is a row that says why.
pub(super) fn pingpong(rival: &Program, setup: &Setup, variants: &[Variant]) -> Vec<Row> {
    let sizes: BTreeSet<u64> = variants.iter().map(|v| v.parameters.size_bytes).collect();
    let measured = rival.methods().and_then(|known| {
        let mut wanted = Vec::new();
        for &size in &sizes {
            for method in &known {
                let mut parameters = Parameters::pair(size);
                parameters.wait = Some(method.wait.clone());
                wanted.push(Variant {
                    method: method.name.clone(),
                    parameters,
                });
            }
        }
        rival.measure(&Job {
            scenario: "pingpong".to_owned(),
            variants: wanted,
            cpus: setup.cpus,
            runs: setup.runs,
            seconds: setup.seconds,
        })
    });
    match measured {
        // Olivine took its turns so that both had the same conditions; its own row is measured already.
        Ok(rows) => rows
            .into_iter()
            .filter(|row| !row.method.starts_with(super::OLIVINE_PREFIX))
            .collect(),
        Err(error) => {
            let failed = |&size: &u64| {
                let parameters = Parameters::pair(size);
                Row::failed(
                    "pingpong",
                    Load::Closed,
                    &rival.name(),
                    parameters,
                    chain(&error),
                )
            };
            sizes.iter().map(failed).collect()
        }
    }
}
