//! One block of a job file: its lists, checked and combined.

use super::{Point, Scenario};
use crate::method::{self, OLIVINE_PREFIX};
use crate::payload::SIZE_MIN;
use crate::result::{Parameters, Published};
use crate::scenario::{Variant, latency, throughput};
use serde::Deserialize;

/// A `[[measure]]` block. Each missing list has one default.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Block {
    scenario: Scenario,
    #[serde(default)]
    method: Vec<String>,
    size: Vec<u64>,
    #[serde(default)]
    wait: Vec<String>,
    #[serde(default)]
    capacity: Vec<String>,
    #[serde(default)]
    rate: Vec<f64>,
    #[serde(default)]
    batch: Vec<u64>,
    #[serde(default)]
    publishers: Vec<u32>,
    #[serde(default)]
    subscribers: Vec<u32>,
    #[serde(default)]
    published: Vec<Published>,
}

/// Whether a method is a channel of this library, opened with the given wait strategy.
fn is_ours(method: &str) -> bool {
    method.is_empty() || method == throughput::OWN
}

/// Whether a method has a ring of this library.
fn has_ring(method: &str) -> bool {
    is_ours(method) || method.starts_with(OLIVINE_PREFIX)
}

/// A list, or one default.
fn or<T: Clone>(list: &[T], default: T) -> Vec<T> {
    if list.is_empty() {
        vec![default]
    } else {
        list.to_vec()
    }
}

impl Block {
    /// The given lists, by their keys.
    fn lists(&self) -> [(&'static str, bool); 7] {
        [
            ("method", !self.method.is_empty()),
            ("wait", !self.wait.is_empty()),
            ("capacity", !self.capacity.is_empty()),
            ("rate", !self.rate.is_empty()),
            ("batch", !self.batch.is_empty()),
            ("publishers", !self.publishers.is_empty()),
            ("subscribers", !self.subscribers.is_empty()),
        ]
    }

    /// Refuses a list without effect on the measurement.
    fn check_keys(&self) -> Result<(), String> {
        let scenario = self.scenario.name();
        let known = self.scenario.keys();
        let mut given = self.lists().into_iter().filter(|(_, is_given)| *is_given);
        if let Some((key, _)) = given.find(|(key, _)| !known.contains(key)) {
            let known = known.join(", ");
            return Err(format!(
                "{scenario} does not use '{key}'; beside scenario, size and published it knows \
                {known}"
            ));
        }
        let takes = |takes: fn(&str) -> bool| {
            self.method.is_empty() || self.method.iter().any(|name| takes(name))
        };
        if !self.wait.is_empty() && !takes(is_ours) {
            return Err(format!(
                "none of the methods uses 'wait': only {} does, others wait in their own way",
                throughput::OWN
            ));
        }
        if !self.capacity.is_empty() && !takes(has_ring) {
            return Err(format!(
                "none of the methods uses 'capacity': only those do that start with \
                {OLIVINE_PREFIX}"
            ));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        self.check_keys()?;
        if let Some(size) = self.size.iter().find(|size| **size < SIZE_MIN as u64) {
            return Err(format!("size {size} is too small: {SIZE_MIN} or more"));
        }
        if self.scenario == Scenario::Latency && self.rate.is_empty() {
            return Err("latency needs a list of rates".to_owned());
        }
        let refused = self
            .rate
            .iter()
            .find_map(|&rate| latency::check_rate(rate).err());
        if let Some(refused) = refused {
            return Err(refused.to_string());
        }
        let most = throughput::BATCH_MAX as u64;
        if let Some(batch) = self.batch.iter().find(|batch| !(1..=most).contains(*batch)) {
            return Err(format!("batch {batch} is not within 1 to {most}"));
        }
        let counts = self.publishers.iter().chain(&self.subscribers);
        if let Some(count) = counts.copied().find(|count| !(1..=64).contains(count)) {
            return Err(format!("{count} participants is not within 1 to 64"));
        }
        let batches = or(&self.batch, 1);
        for name in self.method.iter().filter(|name| *name != throughput::OWN) {
            let found = method::find(method::BUILT_IN, name).map_err(|error| error.to_string())?;
            let streamed = self.scenario == Scenario::Throughput;
            let mut batches = batches.iter().filter(|_| streamed);
            let checked = batches.try_for_each(|&batch| method::check_stream(found, batch));
            checked.map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    }

    /// Its points, in the order of combination; `cpus` may be used.
    ///
    /// # Errors
    ///
    /// In one line: what is wrong, and what is allowed.
    pub(super) fn points(&self, cpus: usize) -> Result<Vec<Point>, String> {
        self.check()?;
        let pingpong = self.scenario == Scenario::Pingpong;
        let many = matches!(self.scenario, Scenario::Fanout | Scenario::Mesh);
        let mut points = Vec::new();
        for method in or(&self.method, String::new()) {
            for &size in &self.size {
                // Parameters that the method decides are not combined.
                let (is_ours, has_ring) = (is_ours(&method), has_ring(&method));
                let waits = or(
                    &self.wait,
                    if many { "adaptive" } else { "spin" }.to_owned(),
                );
                for wait in waits.iter().take(if is_ours { waits.len() } else { 1 }) {
                    let capacities = or(&self.capacity, String::new());
                    let crossed = if has_ring { capacities.len() } else { 1 };
                    for capacity in capacities.into_iter().take(crossed) {
                        for rate in or(
                            &self.rate.iter().map(|r| Some(*r)).collect::<Vec<_>>(),
                            None,
                        ) {
                            for batch in or(&self.batch, 1) {
                                for publishers in or(&self.publishers, 1) {
                                    for subscribers in or(&self.subscribers, 1) {
                                        let mut parameters = Parameters::pair(size);
                                        parameters.rate_per_s = rate;
                                        parameters.batch_count = batch;
                                        parameters.publishers_count = publishers;
                                        parameters.subscribers_count = subscribers;
                                        let wanted = (publishers + subscribers) as usize;
                                        parameters.oversubscribed = wanted > cpus;
                                        let variant =
                                            named(&method, pingpong, wait, &capacity, parameters)?;
                                        points.push(Point {
                                            scenario: self.scenario,
                                            variant,
                                            published: self.published.clone(),
                                        });
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(points)
    }
}

/// The capacity that a channel's URI states, in bytes.
fn ring_bytes(config: &olivine::Config) -> Option<u64> {
    let uri = config.uri();
    let text = uri
        .split(['?', '&'])
        .find_map(|setting| setting.strip_prefix("capacity="))?;
    let digits = text.trim_end_matches(char::is_alphabetic);
    let factor = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// The variant of a method with the settings of a channel.
fn named(
    method: &str,
    pingpong: bool,
    wait: &str,
    capacity: &str,
    mut parameters: Parameters,
) -> Result<Variant, String> {
    let capacity = if capacity.is_empty() {
        String::new()
    } else {
        format!("&capacity={capacity}")
    };
    let uri = format!("shm://bench?wait={wait}{capacity}");
    let config = olivine::Config::parse(&uri).map_err(|error| error.to_string())?;
    if !is_ours(method) {
        let found = method::find(method::BUILT_IN, method).map_err(|error| error.to_string())?;
        parameters.wait = Some(found.wait().to_owned());
        if has_ring(method) {
            parameters.ring_bytes = ring_bytes(&config);
            parameters.settings = capacity.trim_start_matches('&').to_owned();
        }
        return Ok(Variant {
            method: method.to_owned(),
            parameters,
        });
    }
    parameters.wait = Some(wait.to_owned());
    parameters.ring_bytes = ring_bytes(&config);
    // For round trips the strategy is part of the method's name.
    let (method, settings) = if pingpong {
        (
            format!("olivine-{wait}"),
            capacity.trim_start_matches('&').to_owned(),
        )
    } else {
        (throughput::OWN.to_owned(), format!("wait={wait}{capacity}"))
    };
    parameters.settings = settings;
    Ok(Variant { method, parameters })
}
