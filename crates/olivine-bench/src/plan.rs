//! What is measured: lists that are crossed, checked before anything starts.
//!
//! Arguments of the tool and blocks of job files build a [`Matrix`]; only [`Matrix::variants`]
//! makes variants of it.

use crate::channel::{Channel, SPIN_THEN_PARK};
use crate::method::{self, BUILT_IN, Method, OLIVINE, OLIVINE_PREFIX};
use crate::payload::SIZE_MIN;
use crate::result::{Load, Parameters, Published};
use crate::scenario::registry::Scenario;
use crate::scenario::throughput::{BATCH_MAX, OWN};
use crate::scenario::{Variant, latency};
use olivine_arena::error::ArenaError;
use serde::Deserialize;
use std::num::NonZeroU64;

/// Selects every built-in method.
pub const ALL: &str = "all";
/// Most participants of one side.
const PARTICIPANTS_MAX: u32 = 64;
/// Settings of a fast channel: packed, and a cache line for each message, because either may be
/// faster.
const ALIGNS: [&str; 2] = ["", "64"];
/// The calls that take messages.
const POLL: &str = "poll";
const RECEIVE: &str = "receive";
/// Rings of a fast stream: the smallest and the largest default capacity (ADR 0019).
const RINGS: [&str; 2] = ["1MiB", "4MiB"];

/// Lists of one scenario, each crossed with all others. An empty list has one default.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::exhaustive_structs, reason = "made by the tool")]
pub struct Matrix {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// Names of methods, or [`ALL`].
    #[serde(default)]
    pub method: Vec<String>,
    /// Bytes of a message.
    pub size: Vec<u64>,
    /// How both sides of a channel wait.
    #[serde(default)]
    pub wait: Vec<String>,
    /// Bytes to which messages of a channel are padded.
    #[serde(skip)]
    pub align: Vec<String>,
    /// Bytes of a channel's ring.
    #[serde(default)]
    pub capacity: Vec<String>,
    /// Room of a channel for subscribers.
    #[serde(skip)]
    pub slots: Vec<u32>,
    /// Messages a second.
    #[serde(default)]
    pub rate: Vec<f64>,
    /// Messages made visible at once.
    #[serde(default)]
    pub batch: Vec<u64>,
    /// Round trips of each run, in place of a time. Not crossed.
    #[serde(default)]
    pub count: Option<NonZeroU64>,
    /// Processes that publish.
    #[serde(default)]
    pub publishers: Vec<u32>,
    /// Processes that subscribe.
    #[serde(default)]
    pub subscribers: Vec<u32>,
    /// Topics that each publisher's messages have in turns, and by which every subscriber filters.
    /// Not crossed: one list for all.
    #[serde(default)]
    pub topic: Vec<String>,
    /// The calls by which a subscriber takes messages: `poll`, `receive`.
    #[serde(default)]
    pub take: Vec<String>,
    /// Methods of other programs, which are measured if these are there.
    #[serde(default)]
    pub rival: Vec<String>,
    /// Whether missing settings of a channel are those that may be the fastest: several.
    #[serde(skip)]
    pub tuned: bool,
    /// Figures that others published for this situation.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// Why a matrix cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A list has no effect or an impossible value.
    #[error("{key} {message}")]
    List {
        /// Its key.
        key: &'static str,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// There is no such method.
    #[error(transparent)]
    Method(#[from] ArenaError),
    /// The settings of the channel are refused.
    #[error(transparent)]
    Channel(#[from] olivine::UriError),
}

/// Whether a method is a channel of this library, opened with the given settings.
fn is_own(method: &str) -> bool {
    method.is_empty() || method == OWN
}

/// Whether a method has a ring of this library.
fn has_ring(method: &str) -> bool {
    is_own(method) || method.starts_with(OLIVINE_PREFIX)
}

/// A list, or one default.
fn or<T: Clone>(list: &[T], default: T) -> Vec<T> {
    if list.is_empty() {
        vec![default]
    } else {
        list.to_vec()
    }
}

fn wrong(key: &'static str, message: String) -> PlanError {
    PlanError::List { key, message }
}

impl Matrix {
    /// Messages of some sizes, all else by default.
    #[must_use]
    pub fn new(scenario: &'static Scenario, size: &[u64]) -> Self {
        Self {
            scenario,
            method: Vec::new(),
            size: size.to_vec(),
            wait: Vec::new(),
            align: Vec::new(),
            capacity: Vec::new(),
            slots: Vec::new(),
            rate: Vec::new(),
            batch: Vec::new(),
            count: None,
            publishers: Vec::new(),
            subscribers: Vec::new(),
            topic: Vec::new(),
            take: Vec::new(),
            rival: Vec::new(),
            tuned: true,
            published: Vec::new(),
        }
    }

    /// The same by `receive` alone; `None` if that is already said, or cannot be.
    #[must_use]
    pub fn by_receive(&self) -> Option<Self> {
        let streams = self.scenario.reads("take") && self.take.is_empty();
        let is_ours = |name: &String| name == ALL || is_own(name);
        let is_own = self.method.is_empty() || self.method.iter().any(is_ours);
        (streams && is_own && !self.looks()).then(|| Self {
            method: vec![OWN.to_owned()],
            rival: Vec::new(),
            take: vec![RECEIVE.to_owned()],
            ..self.clone()
        })
    }

    /// Whether a side looks some times before it sleeps, which `receive` does not do.
    fn looks(&self) -> bool {
        self.wait
            .iter()
            .any(|wait| wait.starts_with(SPIN_THEN_PARK))
    }

    /// The given lists, by their keys.
    fn lists(&self) -> [(&'static str, bool); 11] {
        [
            ("method", !self.method.is_empty()),
            ("wait", !self.wait.is_empty()),
            ("capacity", !self.capacity.is_empty()),
            ("rate", !self.rate.is_empty()),
            ("batch", !self.batch.is_empty()),
            ("count", self.count.is_some()),
            ("publishers", !self.publishers.is_empty()),
            ("subscribers", !self.subscribers.is_empty()),
            ("topic", !self.topic.is_empty()),
            ("take", !self.take.is_empty()),
            ("rival", !self.rival.is_empty()),
        ]
    }

    /// Refuses a list without effect on the measurement.
    fn check_keys(&self) -> Result<(), PlanError> {
        let mut given = self.lists().into_iter().filter(|(_, is_given)| *is_given);
        if let Some((key, _)) = given.find(|(key, _)| !self.scenario.reads(key)) {
            let (name, known) = (self.scenario.name, self.scenario.keys.join(", "));
            return Err(wrong(
                key,
                format!(
                    "is not used by {name}; beside scenario, size and published it knows {known}"
                ),
            ));
        }
        let takes = |takes: fn(&str) -> bool| {
            let mut names = self.method.iter();
            let ours = self.method.is_empty() && self.rival.is_empty();
            ours || names.any(|name| name == ALL || takes(name))
        };
        let named = [&self.method[..], &self.rival].concat().join(",");
        if !self.wait.is_empty() && !takes(is_own) {
            return Err(wrong(
                "wait",
                format!(
                    "does not go with method {named}: a method waits as its name says; only {OWN} \
                     has strategies; name it, or leave wait out"
                ),
            ));
        }
        if !self.take.is_empty() && !takes(is_own) {
            return Err(wrong(
                "take",
                format!("does not go with method {named}: only {OWN} has two calls; leave one out"),
            ));
        }
        let several = self.subscribers.iter().any(|count| *count > 1);
        for (key, is_given) in [("subscribers", several), ("topic", !self.topic.is_empty())] {
            let mut others = self.method.iter().filter(|name| !is_own(name));
            if let Some(other) = others
                .next()
                .or_else(|| self.rival.first())
                .filter(|_| is_given)
            {
                return Err(wrong(
                    key,
                    format!("does not go with method {other}: only {OWN} has it; leave one out"),
                ));
            }
        }
        for (key, list) in [("align", &self.align), ("capacity", &self.capacity)] {
            if !list.is_empty() && !takes(has_ring) {
                return Err(wrong(
                    key,
                    format!(
                        "does not go with method {named}: only methods that start with \
                         {OLIVINE_PREFIX} have a ring; name one of those, or leave {key} out"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Refuses what cannot be measured.
    fn check(&self) -> Result<(), PlanError> {
        self.check_keys()?;
        let is_wait = |wait: &str| {
            wait.strip_prefix(SPIN_THEN_PARK).map_or_else(
                || ["spin", "yield", "park", "adaptive"].contains(&wait),
                |looks| looks.parse::<u32>().is_ok_and(|looks| looks > 0),
            )
        };
        if let Some(wait) = self.wait.iter().find(|wait| !is_wait(wait)) {
            return Err(wrong(
                "wait",
                format!(
                    "'{wait}' is none of spin, yield, park, adaptive, or spin:N for N looks, 1 or \
                     more, before it sleeps"
                ),
            ));
        }
        let is_call = |call: &str| call == POLL || call == RECEIVE;
        if let Some(call) = self.take.iter().find(|call| !is_call(call)) {
            return Err(wrong(
                "take",
                format!("'{call}' is neither {POLL} nor {RECEIVE}"),
            ));
        }
        if self.take.iter().any(|call| call == RECEIVE) && self.looks() {
            let message = format!("{RECEIVE} waits by the library's strategies, not by looks");
            return Err(wrong("take", message));
        }
        if let Some(size) = self.size.iter().find(|size| **size < SIZE_MIN as u64) {
            return Err(wrong(
                "size",
                format!(
                    "{size} is too small: a checked message takes {SIZE_MIN} bytes or more, for \
                     its number and time stamp"
                ),
            ));
        }
        if self.scenario.load == Load::Open && self.rate.is_empty() {
            let message = format!("is missing: {} needs a list of rates", self.scenario.name);
            return Err(wrong("rate", message));
        }
        if let Some(topic) = self.topic.iter().find(|topic| topic.contains(['*', '>'])) {
            let message = format!("'{topic}' is a filter: a message has a topic without * and >");
            return Err(wrong("topic", message));
        }
        for &rate in &self.rate {
            latency::check_rate(rate).map_err(|error| wrong("rate", error.to_string()))?;
        }
        let most = BATCH_MAX as u64;
        if let Some(batch) = self.batch.iter().find(|batch| !(1..=most).contains(*batch)) {
            return Err(wrong("batch", format!("{batch} is not within 1 to {most}")));
        }
        for (key, counts) in [
            ("publishers", &self.publishers),
            ("subscribers", &self.subscribers),
        ] {
            let is_wrong = |count: &&u32| !(1..=PARTICIPANTS_MAX).contains(*count);
            if let Some(count) = counts.iter().find(is_wrong) {
                let message = format!("{count} is not within 1 to {PARTICIPANTS_MAX}");
                return Err(wrong(key, message));
            }
        }
        Ok(())
    }

    /// The named methods for batches of one size: for [`ALL`] those that can be measured so.
    fn methods(&self, batch: u64) -> Result<Vec<String>, PlanError> {
        let streamed = !self.scenario.in_harness;
        let can = |method: &Method| match streamed {
            true => method::check_stream(&method.into(), batch),
            false => Ok(()),
        };
        let mut chosen = Vec::new();
        let given = match self.rival.is_empty() {
            true => or(&self.method, String::new()),
            false => self.method.clone(),
        };
        for name in given {
            if name == ALL {
                chosen.extend(streamed.then(|| OWN.to_owned()));
                let all = BUILT_IN.iter().filter(|method| can(method).is_ok());
                chosen.extend(all.map(|method| method.name.to_owned()));
                continue;
            }
            if !is_own(&name) {
                let found = method::find(BUILT_IN, &name)?;
                can(found).map_err(|error| wrong("method", format!("{name}: {error}")))?;
            }
            chosen.push(name);
        }
        chosen.extend(self.rival.iter().cloned());
        Ok(chosen)
    }

    /// Values of a setting of a channel for `method`: those given, or some that may be the fastest,
    /// or the default.
    fn settings<'a>(
        &self,
        method: &str,
        given: &'a [String],
        fastest: &'a [&'a str],
        is_tuned: bool,
    ) -> Vec<&'a str> {
        if !has_ring(method) {
            vec![""]
        } else if !given.is_empty() {
            given.iter().map(String::as_str).collect()
        } else if self.tuned && is_tuned {
            fastest.to_vec()
        } else {
            vec![""]
        }
    }

    fn aligns(&self, method: &str) -> Vec<&str> {
        let is_plain = method == OLIVINE.name && self.capacity.is_empty();
        let in_harness = self.scenario.in_harness && (method.is_empty() || is_plain);
        let is_tuned = in_harness || (self.scenario.load == Load::Open && is_own(method));
        self.settings(method, &self.align, &ALIGNS, is_tuned)
    }

    fn rings(&self, method: &str) -> Vec<&str> {
        let is_tuned = self.scenario.streams() && is_own(method);
        self.settings(method, &self.capacity, &RINGS, is_tuned)
    }

    /// Its variants, in the order of combination; `cpus` may be used.
    ///
    /// # Errors
    ///
    /// [`PlanError`]: which list, what is wrong, and what is allowed.
    pub fn variants(&self, cpus: usize) -> Result<Vec<Variant>, PlanError> {
        self.check()?;
        let mut variants = Vec::new();
        for (size, batch) in crossed(&self.size, &or(&self.batch, 1)) {
            for method in self.methods(batch)? {
                for variant in self.of_method(&method, cpus)? {
                    for rate in or(
                        &self.rate.iter().copied().map(Some).collect::<Vec<_>>(),
                        None,
                    ) {
                        let counts = (or(&self.publishers, 1), or(&self.subscribers, 1));
                        for (publishers, subscribers) in crossed(&counts.0, &counts.1) {
                            let mut variant = variant.clone();
                            let parameters = &mut variant.parameters;
                            parameters.size_bytes = size;
                            parameters.batch_count = batch;
                            parameters.messages_count = self.count.map(NonZeroU64::get);
                            parameters.rate_per_s = rate;
                            parameters.publishers_count = publishers;
                            parameters.subscribers_count = subscribers;
                            let wanted = (publishers + subscribers) as usize;
                            parameters.oversubscribed = wanted > cpus;
                            variants.push(variant);
                        }
                    }
                }
            }
        }
        Ok(variants)
    }

    /// A method with every setting that it takes. Parameters that the method decides are not
    /// crossed.
    fn of_method(&self, method: &str, cpus: usize) -> Result<Vec<Variant>, PlanError> {
        let most = |list: &[u32]| list.iter().max().copied().unwrap_or(1);
        let wanted = (most(&self.publishers) + most(&self.subscribers)) as usize;
        // Those that share a CPU must not spin; the others wait alike, to compare.
        let many = !self.scenario.reads("method") || wanted > cpus.max(2);
        let usual = if many { "adaptive" } else { "spin" };
        let topics = self.topic.join(",");
        let mut waits = or(&self.wait, usual.to_owned());
        waits.truncate(if is_own(method) { waits.len() } else { 1 });
        let slots = if method.is_empty() {
            &self.slots[..]
        } else {
            &[]
        };
        let slots = or(
            &slots.iter().map(u32::to_string).collect::<Vec<_>>(),
            String::new(),
        );
        let mut variants = Vec::new();
        let mut takes = or(&self.take, POLL.to_owned());
        takes.truncate(if is_own(method) { takes.len() } else { 1 });
        let ways = crossed(&waits, &takes);
        for ((wait, take), slots) in crossed(&ways, &slots) {
            let take = if take == RECEIVE { RECEIVE } else { "" };
            for (align, ring) in crossed(&self.aligns(method), &self.rings(method)) {
                let pairs = [
                    ("wait", wait.as_str()),
                    ("align", align),
                    ("capacity", ring),
                    ("subscribers_max", slots.as_str()),
                    ("topic", topics.as_str()),
                    ("take", take),
                ];
                variants.push(self.variant(method, &pairs)?);
            }
        }
        Ok(variants)
    }

    /// A method with settings of a channel; those without a value are left out.
    fn variant(&self, method: &str, pairs: &[(&str, &str)]) -> Result<Variant, PlanError> {
        let query = |pairs: &[(&str, &str)]| {
            let given = pairs.iter().filter(|(_, value)| !value.is_empty());
            let given = given.map(|(key, value)| format!("{key}={value}"));
            given.collect::<Vec<_>>().join("&")
        };
        let channel = Channel::parse(&format!("shm://bench?{}", query(pairs)))?;
        let mut parameters = Parameters::pair(0);
        if has_ring(method) {
            parameters.ring_bytes = channel.subscriber.get_capacity();
            parameters.settings = query(&pairs[1..]);
        }
        let (_, wait) = pairs[0];
        if is_own(method) {
            parameters.wait = Some(wait.to_owned());
        }
        // In the harness the strategy is part of the method's name.
        let is_named = self.scenario.in_harness && !wait.starts_with(SPIN_THEN_PARK);
        let method = match is_own(method) {
            true if is_named => format!("{OLIVINE_PREFIX}{wait}"),
            true => {
                parameters.settings = query(pairs);
                OWN.to_owned()
            }
            false => method.to_owned(),
        };
        if let Ok(found) = method::find(BUILT_IN, &method) {
            parameters.wait = Some(found.wait.to_owned());
        }
        Ok(Variant { method, parameters })
    }
}

/// Every pair of two lists, the second one first.
fn crossed<A: Clone, B: Clone>(first: &[A], second: &[B]) -> Vec<(A, B)> {
    let pairs = first
        .iter()
        .flat_map(|a| second.iter().map(move |b| (a.clone(), b.clone())));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{latency, pingpong, throughput};

    fn stream(methods: &[&str], sizes: &[u64], batches: &[u64], capacity: &str) -> Matrix {
        let mut matrix = Matrix::new(&throughput::SCENARIO, sizes);
        matrix.method = methods.iter().map(|name| (*name).to_owned()).collect();
        matrix.batch = batches.to_vec();
        matrix.capacity = capacity.split_terminator(',').map(str::to_owned).collect();
        matrix
    }

    #[test]
    fn lists_are_crossed_and_missing_ones_have_defaults() {
        let matrix = stream(&[], &[16, 32], &[1, 2], "1MiB");
        let variants = matrix.variants(2).unwrap();
        let shape = variants.iter().map(|variant| {
            let of = &variant.parameters;
            (of.size_bytes, of.batch_count)
        });
        assert!(shape.eq([(16, 1), (16, 2), (32, 1), (32, 2)]));
        // Without a given ring, each case is measured with both.
        let both = stream(&[], &[64], &[], "").variants(2).unwrap();
        let rings = both.iter().map(|variant| variant.parameters.ring_bytes);
        assert!(rings.eq([Some(1 << 20), Some(4 << 20)]));
        assert!(stream(&[], &[8], &[], "").variants(2).is_err());
        let mut one = stream(&[], &[64], &[], "");
        one.tuned = false;
        assert_eq!(one.variants(2).unwrap().len(), 1);
    }

    #[test]
    fn exactly_the_streaming_methods_are_measured() {
        for batch in [1, 16] {
            let matrix = stream(&[ALL], &[32], &[batch], "4MiB");
            let variants = matrix.variants(2).unwrap();
            assert_eq!(variants[0].method, OWN);
            let expected: Vec<_> = BUILT_IN
                .iter()
                .filter(|method| method.streams && (batch == 1 || method.batches))
                .collect();
            assert_eq!(expected.len(), variants.len() - 1);
            for (method, variant) in expected.into_iter().zip(&variants[1..]) {
                assert_eq!(variant.method, method.name);
                assert_eq!(variant.parameters.batch_count, batch);
                let ours = method.name.starts_with(OLIVINE_PREFIX);
                let settings = if ours { "capacity=4MiB" } else { "" };
                assert_eq!(variant.parameters.settings, settings, "{}", method.name);
            }
        }
        let wrong = stream(&["pigeon"], &[32], &[], "").variants(2).unwrap_err();
        assert!(wrong.to_string().contains("pigeon"), "{wrong}");
    }

    #[test]
    fn received_messages_are_a_separate_variant() {
        let mut matrix = stream(&[OWN, "pipe"], &[32], &[], "1MiB");
        matrix.wait = vec!["spin".to_owned()];
        matrix.take = vec![POLL.to_owned(), RECEIVE.to_owned()];
        let settings = |matrix: &Matrix| -> Vec<String> {
            let variants = matrix.variants(2).unwrap().into_iter();
            variants.map(|found| found.parameters.settings).collect()
        };
        let polled = "wait=spin&capacity=1MiB";
        let received = format!("{polled}&take=receive");
        assert_eq!(settings(&matrix), [polled, &received, ""]);
        // What the tool adds where nothing is said.
        assert!(matrix.by_receive().is_none());
        matrix.take.clear();
        assert_eq!(settings(&matrix.by_receive().unwrap()), [received]);
        assert!(stream(&["pipe"], &[32], &[], "").by_receive().is_none());
        for (take, wait, method) in [
            ("give", "spin", OWN),
            (RECEIVE, "spin:9", OWN),
            (POLL, "spin", "pipe"),
        ] {
            let mut matrix = stream(&[method], &[32], &[], "");
            matrix.take = vec![take.to_owned()];
            matrix.wait = vec![wait.to_owned()];
            let error = matrix.variants(2).unwrap_err().to_string();
            assert!(error.starts_with("take") || method == "pipe", "{error}");
        }
        let mut paced = Matrix::new(&latency::SCENARIO, &[32]);
        (paced.rate, paced.take) = (vec![1e3], vec![RECEIVE.to_owned()]);
        assert!(paced.variants(2).is_err());
    }

    #[test]
    fn settings_are_part_of_a_variant_and_checked_by_the_library() {
        let mut matrix = Matrix::new(&pingpong::SCENARIO, &[32]);
        matrix.slots = vec![5];
        let settings = |matrix: &Matrix| -> Vec<(String, String)> {
            let variants = matrix.variants(2).unwrap();
            let named = |found: Variant| (found.method, found.parameters.settings);
            variants.into_iter().map(named).collect()
        };
        let of = |settings: &str| ("olivine-spin".to_owned(), settings.to_owned());
        let both = [of("subscribers_max=5"), of("align=64&subscribers_max=5")];
        assert_eq!(settings(&matrix), both);
        let mut late = Matrix::new(&latency::SCENARIO, &[32]);
        (late.rate, late.align) = (vec![1e3], vec!["128".to_owned()]);
        late.wait = vec!["park".to_owned()];
        let expected = [(OWN.to_owned(), "wait=park&align=128".to_owned())];
        assert_eq!(settings(&late), expected);
        for (wait, align, slots) in [("nap", "64", 5), ("spin", "3", 5), ("spin", "64", 9999)] {
            matrix.wait = vec![wait.to_owned()];
            matrix.align = vec![align.to_owned()];
            matrix.slots = vec![slots];
            assert!(matrix.variants(2).is_err(), "{wait} {align} {slots}");
        }
    }
}
