//! The validation of a method: a method that gives wrong answers has no speed.
//!
//! What is sent follows from a key that only the orders contain, so an entry cannot invent what it
//! should carry. Both ends are fresh processes in each check. The first failed check is the
//! last one.

use crate::error::{BenchError, Result};
use crate::method::Description;
use crate::protocol::{Proof, Role, Work};
use crate::result::file::unix_time_s;
use crate::run::{Pair, Participants, Stopped};
use crate::scenario::{Setup, pair};
use crate::selfcheck::Finding;
use crate::text;
use olivine_arena::error::ArenaError;
use std::time::{Duration, Instant};

/// Sizes of messages that are tried, in bytes.
const SIZES: [usize; 5] = [16, 32, 100, 1024, 8192];
/// Round trips of each size.
const ROUNDS: u64 = 1_000;
/// Most streamed messages: more than a ring of the usual sizes holds.
const STREAMED_MAX: u64 = 300_000;
/// Fewest of them.
const STREAMED_MIN: u64 = 20_000;
/// Time that streamed messages may take, by the time of a round trip.
const STREAMED: Duration = Duration::from_secs(1);
/// How much later than the sender the reader begins, so that the sender meets a full ring.
const LATE_MS: u64 = 30;
/// Messages of a batch.
const BATCH: usize = 16;
/// When an end is killed, after both have begun.
const KILLED_AFTER: Duration = Duration::from_millis(50);
/// How long the other end may take to notice.
const NOTICED_WITHIN: Duration = Duration::from_millis(500);

/// The ends of a method in fresh processes.
struct Trial<'a> {
    setup: &'a Setup,
    program: usize,
    known: &'a Description,
    stopped: Stopped<'a>,
    /// What all messages follow from.
    key: u64,
}

/// Validates the method called `name`: each check, up to the first failed one.
///
/// # Errors
///
/// [`BenchError::Stopped`] after a request to stop; [`BenchError`] if there is no such method.
pub fn validate(setup: &Setup, name: &str, stopped: &dyn Fn() -> bool) -> Result<Vec<Finding>> {
    let (program, known) = setup.find(name)?;
    let trial = Trial {
        setup,
        program,
        known,
        stopped,
        key: unix_time_s().wrapping_mul(u64::from(std::process::id())),
    };
    let mut size = None;
    let mut each = Duration::ZERO;
    let mut findings = vec![trial.content(&mut size, &mut each)?];
    let size = size.unwrap_or(SIZES[0]);
    if known.streams {
        for batch in [1, BATCH] {
            if findings.iter().all(|found| found.ok) && (batch == 1 || known.batches) {
                findings.push(trial.stream(size, batch, each)?);
            }
        }
    }
    if findings.iter().all(|found| found.ok) {
        findings.push(trial.death(size)?);
    }
    Ok(findings)
}

/// A finding, unless the person asked to stop.
fn finding(check: &'static str, found: Result<String>) -> Result<Finding> {
    let (ok, what) = match found {
        Ok(what) => (true, what),
        Err(BenchError::Stopped) => return Err(BenchError::Stopped),
        Err(BenchError::Arena(ArenaError::PeerSilent { seconds })) => (
            false,
            format!("an end waited for {seconds} s: a message was lost, or an end hangs"),
        ),
        Err(error) => (false, crate::error::chain(&error)),
    };
    Ok(Finding { check, ok, what })
}

impl<'a> Trial<'a> {
    fn proof(&self, count: u64) -> Proof {
        Proof {
            first: 0,
            count,
            batch: 1,
            key: self.key,
            replies: true,
            late_ms: 0,
        }
    }

    fn start(&self) -> Result<Participants<'a>> {
        pair(self.setup, (self.program, self.known.threads), self.stopped)
    }

    fn open(&self, set: &mut Participants<'_>, size: usize, streamed: bool) -> Result<()> {
        set.open(Pair {
            role: Role::Measured,
            method: &self.known.name,
            settings: "",
            size,
            streamed,
            unpinned: false,
        })
    }

    /// Carries the messages of a proof; returns how long it took.
    fn carry(&self, set: &mut Participants<'_>, proof: Proof) -> Result<Duration> {
        let begun = Instant::now();
        let works = [Work::Prove(proof), Work::Verify(proof)];
        set.run(Role::Measured, &works, Duration::ZERO)?;
        let took = begun.elapsed();
        set.close()?;
        Ok(took)
    }

    /// Round trips of each size. A size may be refused when an end is opened, but not all of them.
    fn content(&self, common: &mut Option<usize>, each: &mut Duration) -> Result<Finding> {
        let (mut carried, mut refused) = (Vec::new(), Vec::new());
        let mut wrong = None;
        for size in SIZES {
            let mut set = self.start()?;
            if let Err(error) = self.open(&mut set, size, false) {
                refused.push((size, error));
                continue;
            }
            match self.carry(&mut set, self.proof(ROUNDS)) {
                Ok(took) => {
                    carried.push(size);
                    *common = Some(if carried.contains(&32) { 32 } else { size });
                    *each = took / u32::try_from(ROUNDS).unwrap_or(u32::MAX);
                }
                Err(error) => {
                    wrong = Some((size, error));
                    break;
                }
            }
        }
        let sizes = |sizes: &[usize]| {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            format!("{} B", sizes.join(", "))
        };
        let found = match (wrong, refused.into_iter().next()) {
            (Some((_, error)), _) => Err(error),
            (None, Some((_, error))) if carried.is_empty() => Err(error),
            (None, refused) => {
                let not = refused.map_or_else(String::new, |(size, error)| {
                    format!("; {size} B refused: {error}")
                });
                Ok(format!(
                    "{} round trips each of {}, every byte as sent{not}",
                    text::count(ROUNDS),
                    sizes(&carried)
                ))
            }
        };
        finding("content, sizes", found)
    }

    /// Messages without replies to a reader that begins late.
    fn stream(&self, size: usize, batch: usize, each: Duration) -> Result<Finding> {
        let fit = STREAMED.as_nanos() / each.as_nanos().max(1);
        let count = u64::try_from(fit).unwrap_or(u64::MAX);
        let proof = Proof {
            batch,
            replies: false,
            late_ms: LATE_MS,
            ..self.proof(count.clamp(STREAMED_MIN, STREAMED_MAX))
        };
        let carried = self.start().and_then(|mut set| {
            self.open(&mut set, size, true)?;
            self.carry(&mut set, proof)
        });
        let check = if batch == 1 { "loss, order" } else { "batches" };
        finding(
            check,
            carried.map(|_| {
                format!(
                    "{} messages of {size} B at full speed, {batch} at a time, to a reader that \
                     began {LATE_MS} ms late: all arrived, in order",
                    text::count(proof.count)
                )
            }),
        )
    }

    /// An end is killed at work; afterwards two fresh ends must work. Whether the other end notices
    /// is reported, not required: the benchmark ends it.
    fn death(&self, size: usize) -> Result<Finding> {
        const CHECK: &str = "killed peer";
        if self.known.threads {
            let what = "both ends are threads of one process".to_owned();
            return finding(CHECK, Ok(what));
        }
        let endless = Proof {
            replies: !self.known.streams,
            ..self.proof(u64::MAX / 2)
        };
        let works = [Work::Prove(endless), Work::Verify(endless)];
        let outcome = self.start().and_then(|mut set| {
            self.open(&mut set, size, self.known.streams)?;
            set.outlive(&works, KILLED_AFTER, NOTICED_WITHIN)
        });
        let again = |noticed: Option<(Duration, String)>| {
            let mut set = self.start()?;
            self.open(&mut set, size, false)?;
            self.carry(&mut set, self.proof(ROUNDS))?;
            let noticed = match noticed {
                Some((after, how)) => format!("noticed after {} ms: {how}", after.as_millis()),
                None => format!("not noticed within {} ms", NOTICED_WITHIN.as_millis()),
            };
            Ok(format!("{noticed}; two fresh ends then work"))
        };
        finding(CHECK, outcome.and_then(again))
    }
}
