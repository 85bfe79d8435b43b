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
mod server;
mod stored;
mod stream;
mod trip;

use super::turns::{Candidate, measure_all};
use super::{Setup, Watch};
use crate::clock::TickClock;
use crate::error::{Result, chain};
use crate::method::publish;
use crate::payload::{self, Stamp};
use crate::result::ratio::{self, Ratio, Target};
use crate::result::{Figures, Load, Parameters, Results, Row};
use crate::run::Program;
use crate::text;
use olivine::{Publisher, Scheme, Subscriber};
use olivine_arena::error::ArenaError;
use serde::Deserialize;
use server::NatsServer;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

/// Longest wait for a server, the disk or a message.
const LONGEST: Duration = Duration::from_secs(60);

/// A part of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
#[non_exhaustive]
pub enum Part {
    /// One way over `tcp://` at a fixed rate, compared with a plain socket.
    Paced,
    /// There and back over `tcp://`, compared with a plain socket.
    Trip,
    /// Full speed over `tcp://`, compared with a plain socket and other libraries.
    Stream,
    /// Publisher's cost of a message with a bridge attached, compared with a plain subscriber.
    Cost,
    /// Storing through `nats://`, compared with its client library.
    Stored,
    /// Recording into a journal, compared with writing as many bytes.
    Disk,
}

/// Every part, with its scenario's name in results.
pub const PARTS: [(Part, &str); 6] = [
    (Part::Paced, "bridge-paced"),
    (Part::Trip, "bridge-trip"),
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
            Self::Trip => Load::Closed,
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

impl TryFrom<String> for Part {
    type Error = String;

    fn try_from(word: String) -> std::result::Result<Self, String> {
        word.parse()
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

/// A ratio to be measured: p50 to p50, or rate to rate.
struct Expected {
    part: Part,
    size_bytes: u64,
    ours: String,
    /// The other candidate of the same run; a rate in words.
    beside: String,
    /// That rate.
    per_s: Option<f64>,
    target: Target,
}

impl Expected {
    /// What `rows` say; `None` if one of the two has no figure.
    fn of(&self, rows: &[Row]) -> Option<Ratio> {
        let figure = match self.part.load() {
            Load::Open | Load::Closed => "p50_ns",
            Load::Saturated => "messages_per_s",
        };
        let runs = |name: &str| {
            ratio::runs(rows, figure, |row| {
                row.scenario == self.part.scenario()
                    && row.parameters.size_bytes == self.size_bytes
                    && row.method == name
            })
        };
        let ours = runs(&self.ours);
        let theirs = match self.per_s {
            Some(per_s) => ours.iter().map(|(run, _)| (*run, per_s)).collect(),
            None => runs(&self.beside),
        };
        Some(Ratio {
            scenario: self.part.scenario().to_owned(),
            figure: figure.to_owned(),
            ours: self.ours.clone(),
            beside: self.beside.clone(),
            situation: text::bytes(self.size_bytes),
            ratio: ratio::of_runs(&ours, &theirs)?,
            target: Some(self.target),
        })
    }
}

/// Candidates, and how they are compared.
#[derive(Default)]
struct Field<'a> {
    candidates: Vec<Candidate<'a>>,
    ratios: Vec<Expected>,
    left_out: Vec<String>,
    /// Programs of other libraries.
    rivals: Vec<Program>,
    /// Those that are measured.
    used: Vec<Program>,
    server: Option<Rc<NatsServer>>,
}

impl<'a> Field<'a> {
    fn add(
        &mut self,
        part: Part,
        method: &str,
        parameters: Parameters,
        play: impl Fn(&TickClock, &Setup) -> Result<Figures> + 'a,
    ) {
        self.candidates.push(Candidate {
            scenario: part.scenario(),
            load: part.load(),
            method: method.to_owned(),
            lacks: String::new(),
            parameters,
            slices: 1,
            play: Box::new(move |turn| {
                let setup = turn.session.setup;
                turn.slice(|_, clock| play(clock, setup)).map(|_| ())
            }),
        });
    }

    /// A candidate of another scenario, under this name.
    fn enter(&mut self, part: Part, method: &str, candidate: Candidate<'a>) {
        self.candidates.push(Candidate {
            scenario: part.scenario(),
            method: method.to_owned(),
            ..candidate
        });
    }

    fn compare(&mut self, part: Part, size_bytes: u64, ours: &str, theirs: &str, target: Target) {
        self.ratios.push(Expected {
            part,
            size_bytes,
            ours: ours.to_owned(),
            beside: theirs.to_owned(),
            per_s: None,
            target,
        });
    }

    /// A rate that ours should reach.
    fn expect(&mut self, part: Part, size_bytes: u64, ours: &str, per_s: f64) {
        let target = Target::AtLeast(1.0);
        self.compare(part, size_bytes, ours, &text::rate(per_s), target);
        let last = self.ratios.last_mut();
        last.into_iter().for_each(|last| last.per_s = Some(per_s));
    }

    /// The running NATS server, unless it is missing.
    fn server(&mut self, plan: &Plan) -> Option<Rc<NatsServer>> {
        if self.server.is_none() {
            let started = match Scheme::Nats.is_built() {
                true => NatsServer::start(&plan.folder).map_err(|error| chain(&error)),
                false => Err("build the tool with the cargo feature 'nats'".to_owned()),
            };
            match started {
                Ok(server) => self.server = Some(Rc::new(server)),
                Err(why) => self.leave_out(format!("NATS is left out: {why}")),
            }
        }
        self.server.clone()
    }

    fn leave_out(&mut self, missing: String) {
        if !self.left_out.contains(&missing) {
            self.left_out.push(missing);
        }
    }

    /// The program of a rival, unless it is missing.
    fn rival(&mut self, plan: &Plan, name: &str) -> Option<Program> {
        let found = self.rivals.iter().position(|rival| rival.name() == name);
        self.used.extend(found.map(|at| self.rivals.remove(at)));
        let program = self.used.iter().find(|rival| rival.name() == name);
        let program = program.cloned();
        if program.is_none() {
            let folder = plan.rivals.display();
            self.leave_out(format!(
                "{name} is left out: no rival-{name} in {folder}; `cargo xtask rivals` builds it"
            ));
        }
        program
    }
}

/// Measures the parts of `plan`, all candidates interleaved, until `watch` breaks between two turns
/// or a long turn sees the request to stop; that turn then counts neither as a figure nor as a
/// failure.
///
/// # Errors
///
/// [`BenchError`](crate::BenchError) if the participants cannot be started, or the person stopped
/// before there was a result.
pub fn run(setup: &Setup, plan: &Plan, watch: Watch<'_>) -> Result<Results> {
    let mut field = Field {
        rivals: Program::find(&plan.rivals).unwrap_or_default(),
        ..Field::default()
    };
    for part in &plan.parts {
        match part {
            Part::Paced => paced::enter(&mut field, setup, plan),
            Part::Trip => trip::enter(&mut field, setup),
            Part::Stream => stream::enter(&mut field, setup, plan),
            Part::Cost => cost::enter(&mut field, setup),
            Part::Stored => stored::enter(&mut field, plan),
            Part::Disk => disk::enter(&mut field, plan),
        }
    }
    let mut setup = setup.clone();
    for mut rival in field.used {
        // If it does not list its methods, its rows say so.
        let _ = rival.look(&|| setup.is_stopped());
        setup.programs.push(rival);
    }
    let rows = measure_all(&setup, field.candidates, watch)?.concat();
    Ok(Results {
        ratios: field
            .ratios
            .iter()
            .filter_map(|ratio| ratio.of(&rows))
            .collect(),
        rows,
        left_out: field.left_out,
        ..Results::default()
    })
}

/// Number of events in a run at `per_s` events per second.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number"
)]
fn count_in(setup: &Setup, per_s: f64) -> u64 {
    ((setup.run_s() * per_s) as u64).max(1)
}

/// The rate of `count` events since a clock reading.
#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn rate(clock: &TickClock, count: u64, start: u64) -> Figures {
    let elapsed = TickClock::ticks().saturating_sub(start);
    Figures::rate(count as f64 / crate::floor::nanos(clock, elapsed).max(1.0) * 1e9)
}

/// Publishes `count` messages of `size` bytes, then does what makes them safe: messages a second.
fn publish_all(
    clock: &TickClock,
    uri: &str,
    size: usize,
    count: u64,
    finish: impl FnOnce(Publisher) -> Result<Option<Publisher>>,
) -> Result<Figures> {
    let mut publisher = Publisher::open(uri)?;
    let start = TickClock::ticks();
    for sequence in 0..count {
        let stamp = Stamp { sequence, ticks: 0 };
        publish(&mut publisher, size, stamp, Some(LONGEST))?;
    }
    let left = finish(publisher)?;
    let figures = rate(clock, count, start);
    left.map(Publisher::close).transpose()?;
    Ok(figures)
}

/// Receives `count` messages, numbered from 0, and checks every byte.
fn read_back(uri: &str, count: u64) -> Result<()> {
    let mut subscriber = Subscriber::open(uri)?;
    for sequence in 0..count {
        if !subscriber.wait(LONGEST)? {
            let seconds = LONGEST.as_secs();
            return Err(ArenaError::PeerSilent { seconds }.into());
        }
        let stamp = crate::channel::receive(&mut subscriber, 0, |message| payload::check(message))?;
        if stamp.is_none_or(|stamp| stamp.sequence != sequence) {
            return Err(ArenaError::Wrong { sequence }.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latency;
    use crate::result::{Collector, Placement, Slice};

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

    fn row(method: &str, rates: &[f64]) -> Vec<Row> {
        let mut collector = Collector::new(TickClock::calibrate());
        for (run, messages_per_s) in (0..).zip(rates) {
            // Each run in another placement: the ratio is still of neighbours in time.
            let placement = Placement::of(f64::from(run) * 90.0);
            let (floor, figures) = (Latency::new(), Figures::rate(*messages_per_s));
            let slice = Slice::of(run, placement, &floor, &figures);
            collector.add(&Parameters::pair(32), &slice);
        }
        let scenario = Part::Stream.scenario();
        collector.rows(scenario, Load::Saturated, method, &Parameters::pair(32))
    }

    #[test]
    fn a_ratio_compares_turns_of_the_same_run() {
        let mut rows = row("ours", &[10.0, 20.0, 60.0]);
        rows.extend(row("theirs", &[5.0, 10.0, 20.0]));
        let mut field = Field::default();
        field.compare(Part::Stream, 32, "ours", "theirs", Target::AtLeast(2.5));
        let found = field.ratios[0].of(&rows).unwrap().ratio;
        assert_eq!((found.min, found.median, found.max), (2.0, 2.0, 3.0));
        assert!(!field.ratios[0].target.is_met(found.median));
        assert!(Target::AtMost(2.0).is_met(found.median));
        field.compare(Part::Stream, 64, "ours", "theirs", Target::AtLeast(2.5));
        assert_eq!(field.ratios[1].of(&rows), None);
        field.expect(Part::Stream, 32, "ours", 40.0);
        assert_eq!(field.ratios[2].of(&rows).unwrap().ratio.median, 0.5);
    }
}
