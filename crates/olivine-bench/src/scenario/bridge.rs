//! Bridges, interleaved with their references: other transports, a plain socket, the client of the
//! server, the disk.
//!
//! A turn is one run of one candidate: it opens everything and closes it again. Turns of all
//! candidates alternate, with the floor in between, so that a disturbance affects all alike, and
//! ratios are taken within a run. Missing candidates (a program that is not built or installed) are
//! left out with the reason; failed ones are rows without figures.
//!
//! Measures: messages that were checked, every byte, on the far side. Does not measure: other
//! machines; loopback has no wire.

mod cost;
mod disk;
mod paced;
mod ratio;
mod server;
mod stored;
mod stream;

pub use ratio::{Beside, Ratio, Target};
pub use stored::{STORE, StoreJob, Stored};

use super::turns::Taken;
use super::{Session, Setup, Watch};
use crate::clock::TickClock;
use crate::deadline::Deadline;
use crate::error::{BenchError, Result, chain};
use crate::payload;
use crate::peer::Peer;
use crate::result::{Collector, Load, Parameters, Row};
use crate::rival::Program;
use olivine::{Scheme, Subscriber};
use server::Shared;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

/// A part of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Part {
    /// One way over `tcp://` at a fixed rate, compared with a plain socket.
    Paced,
    /// Full speed over `tcp://`, compared with other libraries.
    Stream,
    /// Publisher's cost of a message with a bridge attached, compared with a plain subscriber.
    Cost,
    /// Storing through `nats://`, compared with its client library.
    Stored,
    /// Recording into a journal, compared with writing as many bytes.
    Disk,
}

/// Every part, with its scenario's name in results.
pub const PARTS: [(Part, &str); 5] = [
    (Part::Paced, "bridge-paced"),
    (Part::Stream, "bridge-stream"),
    (Part::Cost, "bridge-cost"),
    (Part::Stored, "bridge-stored"),
    (Part::Disk, "bridge-disk"),
];

impl Part {
    /// Its scenario's name.
    #[must_use]
    pub fn scenario(self) -> &'static str {
        let found = PARTS.iter().find(|(part, _)| *part == self);
        found.map_or("", |(_, name)| *name)
    }

    fn load(self) -> Load {
        match self {
            Self::Paced => Load::Open,
            _ => Load::Saturated,
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Self, String> {
        let short = |name: &'static str| name.trim_start_matches("bridge-");
        let found = PARTS.iter().find(|(_, name)| short(name) == word);
        found.map(|(part, _)| *part).ok_or_else(|| {
            let known: Vec<&str> = PARTS.iter().map(|(_, name)| short(name)).collect();
            format!("there is no part '{word}'; there are {}", known.join(", "))
        })
    }
}

/// A request for comparisons.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which parts.
    pub parts: Vec<Part>,
    /// Folder of the rivals' programs.
    pub rivals: PathBuf,
    /// Folder on the disk that journals are recorded to, and a server stores to.
    pub folder: PathBuf,
    /// How both ends of `tcp://` wait where messages are paced: `spin`, `yield`, `park`,
    /// `adaptive`.
    pub wait: String,
    /// Messages a second where they are paced.
    pub rate_per_s: f64,
}

/// The results.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BridgeResult {
    /// A row for each candidate and placement, or one for its failure.
    pub rows: Vec<Row>,
    /// How they compare.
    pub ratios: Vec<Ratio>,
    /// Missing candidates and the reasons: one line each.
    pub left_out: Vec<String>,
}

/// The resources of a turn.
struct RunSlot<'a> {
    peer: &'a mut Peer,
    clock: TickClock,
    setup: &'a Setup,
    stopped: &'a dyn Fn() -> bool,
}

impl RunSlot<'_> {
    /// Seconds of one run.
    fn seconds(&self) -> f64 {
        self.setup.seconds / f64::from(self.setup.runs.max(1))
    }
}

type Play<'a> = Box<dyn FnMut(&mut RunSlot<'_>) -> Result<Taken> + 'a>;

/// A candidate of a comparison.
struct Candidate<'a> {
    part: Part,
    method: String,
    parameters: Parameters,
    play: Play<'a>,
}

/// Candidates, and how they are compared.
#[derive(Default)]
struct Field<'a> {
    candidates: Vec<Candidate<'a>>,
    ratios: Vec<Ratio>,
    left_out: Vec<String>,
    server: Option<Rc<RefCell<Shared>>>,
}

impl<'a> Field<'a> {
    fn add(
        &mut self,
        part: Part,
        method: &str,
        parameters: Parameters,
        play: impl FnMut(&mut RunSlot<'_>) -> Result<Taken> + 'a,
    ) {
        self.candidates.push(Candidate {
            part,
            method: method.to_owned(),
            parameters,
            play: Box::new(play),
        });
    }

    fn compare(&mut self, part: Part, size_bytes: u64, ours: &str, theirs: &str, target: Target) {
        let beside = Beside::Candidate(theirs.to_owned());
        self.expect(part, size_bytes, ours, beside, target);
    }

    fn expect(&mut self, part: Part, size_bytes: u64, ours: &str, beside: Beside, target: Target) {
        self.ratios.push(Ratio {
            ours: ours.to_owned(),
            beside,
            size_bytes,
            part,
            ratio: None,
            target,
        });
    }

    /// The NATS server, unless it is missing.
    fn server(&mut self, plan: &Plan) -> Option<Rc<RefCell<Shared>>> {
        if self.server.is_none() {
            let missing = if Scheme::Nats.is_built() {
                self.server = Shared::find(&plan.folder).map(|found| Rc::new(RefCell::new(found)));
                "NATS is left out: no nats-server is installed; `cargo xtask test` installs it"
            } else {
                "NATS is left out: build the tool with the cargo feature 'nats'"
            };
            if self.server.is_none() && !self.left_out.iter().any(|line| line == missing) {
                self.left_out.push(missing.to_owned());
            }
        }
        self.server.clone()
    }

    /// The program of a rival, unless it is missing.
    fn rival(&mut self, plan: &Plan, name: &str) -> Option<Program> {
        let found = Program::find(&plan.rivals).unwrap_or_default();
        let program = found.into_iter().find(|program| program.name() == name);
        let folder = plan.rivals.display();
        let missing = format!(
            "{name} is left out: no rival-{name} in {folder}; `cargo xtask rivals` builds it"
        );
        if program.is_none() && !self.left_out.contains(&missing) {
            self.left_out.push(missing);
        }
        program
    }
}

/// Measures the parts of `plan`, all candidates interleaved, until `watch` breaks between two turns
/// or a long turn sees `stopped`; that turn then counts neither as a figure nor as a failure.
///
/// # Errors
///
/// [`BenchError`] if the two processes cannot be started, or the person stopped before there was a
/// result.
pub fn run(
    setup: &Setup,
    plan: &Plan,
    watch: Watch<'_>,
    stopped: &dyn Fn() -> bool,
) -> Result<BridgeResult> {
    let mut field = Field::default();
    for part in &plan.parts {
        match part {
            Part::Paced => paced::enter(&mut field, plan),
            Part::Stream => stream::enter(&mut field, plan),
            Part::Cost => cost::enter(&mut field),
            Part::Stored => stored::enter(&mut field, plan),
            Part::Disk => disk::enter(&mut field, plan),
        }
    }
    let total = u64::from(setup.runs) * field.candidates.len() as u64;
    let mut session = Session::start(setup, total, watch)?;
    let mut found: Vec<(Collector, Option<String>)> = field
        .candidates
        .iter()
        .map(|_| (Collector::new(session.clock), None))
        .collect();
    'runs: for run in 0..setup.runs {
        let turns = field.candidates.iter_mut().zip(&mut found);
        for (candidate, (collector, failure)) in turns {
            if failure.is_none()
                && let Err(error) = one_turn(&mut session, candidate, run, collector, stopped)
            {
                if stopped() {
                    break 'runs;
                }
                *failure = Some(chain(&error));
                session.renew()?;
            }
            if session.step().is_break() {
                break 'runs;
            }
        }
    }
    let mut result = BridgeResult {
        left_out: field.left_out,
        ..BridgeResult::default()
    };
    for (candidate, (collector, failure)) in field.candidates.iter().zip(&found) {
        let (scenario, load) = (candidate.part.scenario(), candidate.part.load());
        let parameters = &candidate.parameters;
        match failure {
            Some(reason) => result.rows.push(Row::failed(
                scenario,
                load,
                &candidate.method,
                parameters.clone(),
                reason,
            )),
            None => {
                result
                    .rows
                    .extend(collector.rows(scenario, load, &candidate.method, parameters))
            }
        }
    }
    if result.rows.is_empty() && !field.candidates.is_empty() {
        return Err(BenchError::Stopped);
    }
    for mut ratio in field.ratios {
        ratio.ratio = ratio.of(&result.rows);
        result.ratios.push(ratio);
    }
    Ok(result)
}

fn one_turn(
    session: &mut Session<'_>,
    candidate: &mut Candidate<'_>,
    run: u32,
    collector: &mut Collector,
    stopped: &dyn Fn() -> bool,
) -> Result<()> {
    let (clock, setup) = (session.clock, session.setup);
    let slice = session.slice(|peer| {
        let mut turn = RunSlot {
            peer,
            clock,
            setup,
            stopped,
        };
        (candidate.play)(&mut turn)
    })?;
    session.keep(collector, candidate.parameters.size_bytes, run, &slice);
    Ok(())
}

/// Number of events in `seconds` at `per_s` events per second.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number"
)]
fn count_in(seconds: f64, per_s: f64) -> u64 {
    ((seconds * per_s) as u64).max(1)
}

/// A turn that gave a rate.
fn rated(messages_per_s: f64) -> Taken {
    Taken::Rate {
        messages_per_s,
        copy_bytes_per_s: None,
        pairs: Vec::new(),
    }
}

/// The rate of `count` events between two clock readings.
#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn rate(clock: &TickClock, count: u64, start: u64, end: u64) -> f64 {
    count as f64 / crate::floor::nanos(clock, end.saturating_sub(start)).max(1.0) * 1e9
}

/// Receives `count` messages, numbered from 0, and checks every byte.
fn read_back(uri: &str, count: u64, longest: Duration) -> Result<()> {
    let mut subscriber = Subscriber::open(uri)?;
    let mut deadline = Deadline::of(longest);
    for sequence in 0..count {
        let look = || deadline.look();
        let stamp =
            crate::channel::receive(&mut subscriber, look, |message| payload::check(message))?;
        if stamp.is_none_or(|stamp| stamp.sequence != sequence) {
            return Err(BenchError::Wrong { sequence });
        }
        deadline.renew();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_names() {
        for (part, name) in PARTS {
            assert_eq!(part.scenario(), name);
            assert_eq!(name.trim_start_matches("bridge-").parse(), Ok(part));
        }
        let error = "speed".parse::<Part>().unwrap_err();
        assert!(
            error.contains("'speed'") && error.contains("paced"),
            "{error}"
        );
    }
}
