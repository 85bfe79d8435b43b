//! Counts of a run, for the report.

use crate::aim::ELSEWHERE;
use crate::stage::{Findings, Progress};
use core::fmt;
use std::collections::BTreeMap;
use std::time::Duration;

/// Openings of one round that may time out. The library tries for 10 s, and at least a hundred
/// times, so only a process that was stopped for this long may time out.
const RETRIES_MAX: u64 = 2;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    kills: BTreeMap<&'static str, u64>,
    /// By the mode of the channel.
    modes: BTreeMap<&'static str, u64>,
    /// Core files of the aimed kills.
    places: BTreeMap<String, u64>,
    /// Waits for survivors that began, and that ended.
    waits: (u64, u64),
    pub(crate) stops: u64,
    pub(crate) zombies: u64,
    /// All survivors sleep while they wait.
    parked: Times,
    /// At least one of them spins.
    spinning: Times,
    laps: Times,
    calm: Times,
    checked: u64,
    lost: u64,
    torn: u64,
    repeated: u64,
    invented: u64,
    gaps: u64,
    forked: u64,
    evicted: u64,
    /// Openings that timed out and were repeated.
    retries: u64,
    rounds: u64,
}

/// Times of one kind.
#[derive(Debug, Default)]
struct Times {
    micros: Vec<u32>,
    worst: Option<(Duration, &'static str)>,
    disturbed: u64,
}

impl Times {
    fn add(&mut self, progress: Progress, role: &'static str) {
        if progress.is_disturbed {
            self.disturbed += 1;
            return;
        }
        let micros = u32::try_from(progress.took.as_micros()).unwrap_or(u32::MAX);
        self.micros.push(micros);
        self.worst = self.worst.max(Some((progress.took, role)));
    }

    /// How many took longer than `goal`.
    fn beyond(&self, goal: Duration) -> usize {
        let late = |micros: &&u32| u128::from(**micros) > goal.as_micros();
        self.micros.iter().filter(late).count()
    }

    fn append(&mut self, other: Self) {
        self.micros.extend(other.micros);
        self.worst = self.worst.max(other.worst);
        self.disturbed += other.disturbed;
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut micros = self.micros.clone();
        micros.sort_unstable();
        let at = |part: usize| {
            let place = micros.len().saturating_sub(1) * part / 1000;
            micros
                .get(place)
                .map_or(0.0, |found| f64::from(*found) / 1e3)
        };
        write!(
            f,
            "median {:.2} ms, 99 % {:.2} ms, 99.9 % {:.2} ms, worst {:.2} ms ({}), of {}; {} more \
             while the suite itself \
             did not run",
            at(500),
            at(990),
            at(999),
            at(1000),
            self.worst.map_or("none", |found| found.1),
            micros.len(),
            self.disturbed
        )
    }
}

impl Tally {
    /// One kill of a participant of a channel in `mode`.
    pub(crate) fn kill(&mut self, role: &'static str, mode: &'static str) {
        *self.kills.entry(role).or_insert(0) += 1;
        *self.modes.entry(mode).or_insert(0) += 1;
    }

    /// Kills in one mode.
    pub(crate) fn kills_in(&self, mode: &str) -> u64 {
        self.modes.get(mode).copied().unwrap_or(0)
    }

    /// Core file of an aimed kill.
    pub(crate) fn fell(&mut self, place: String) {
        *self.places.entry(place).or_insert(0) += 1;
    }

    /// Aimed kills in the core.
    pub(crate) fn in_core(&self) -> u64 {
        let places = self.places.iter();
        let inside = places.filter(|(place, _)| *place != ELSEWHERE);
        inside.map(|(_, kills)| kills).sum()
    }

    /// A wait for survivors begins.
    pub(crate) fn waits(&mut self) {
        self.waits.0 += 1;
    }

    /// It has ended.
    pub(crate) fn waited(&mut self) {
        self.waits.1 += 1;
    }

    /// When the others had sent one more message after `role` was killed.
    pub(crate) fn recovery(&mut self, role: &'static str, spins: bool, progress: Progress) {
        let times = if spins {
            &mut self.spinning
        } else {
            &mut self.parked
        };
        times.add(progress, role);
    }

    /// When the others had sent more than the ring holds after `role` was killed.
    pub(crate) fn lap(&mut self, role: &'static str, progress: Progress) {
        self.laps.add(progress, role);
    }

    /// Time for one more message without a kill.
    pub(crate) fn calm(&mut self, progress: Progress) {
        self.calm.add(progress, "none");
    }

    pub(crate) fn kills(&self) -> u64 {
        self.kills.values().sum()
    }

    /// Adds the counts of another tally.
    pub(crate) fn append(&mut self, other: Self) {
        for (role, kills) in other.kills {
            *self.kills.entry(role).or_insert(0) += kills;
        }
        for (mode, kills) in other.modes {
            *self.modes.entry(mode).or_insert(0) += kills;
        }
        for (place, kills) in other.places {
            *self.places.entry(place).or_insert(0) += kills;
        }
        self.waits.0 += other.waits.0;
        self.waits.1 += other.waits.1;
        self.parked.append(other.parked);
        self.spinning.append(other.spinning);
        self.laps.append(other.laps);
        self.calm.append(other.calm);
        self.stops += other.stops;
        self.zombies += other.zombies;
        self.checked += other.checked;
        self.lost += other.lost;
        self.torn += other.torn;
        self.repeated += other.repeated;
        self.invented += other.invented;
        self.gaps += other.gaps;
        self.forked += other.forked;
        self.evicted += other.evicted;
        self.retries += other.retries;
        self.rounds += other.rounds;
    }

    /// Kills and findings in one line.
    pub(crate) fn line(&self) -> String {
        format!(
            "{} kills, {} messages, lost {}, torn {}, repeated {}, invented {}",
            self.kills(),
            self.checked,
            self.lost,
            self.torn + self.gaps,
            self.repeated,
            self.invented
        )
    }

    /// The findings of a round, and the errors of its participants.
    pub(crate) fn add(&mut self, findings: &Findings, complaints: [u64; 6]) {
        let [torn, gaps, forked, evicted, checked, retries] = complaints;
        self.retries += retries;
        self.rounds += 1;
        self.checked += findings.checked + checked;
        self.lost += findings.lost;
        self.torn += findings.torn + torn;
        self.repeated += findings.repeated;
        self.invented += findings.invented;
        self.gaps += gaps;
        self.forked += forked;
        self.evicted += evicted + findings.evicted;
    }

    /// Evicted subscribers, including the observer.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    pub(crate) fn assert_clean(&self, seed: u64) {
        let most = RETRIES_MAX * self.rounds;
        let found = [
            ("lost", self.lost),
            ("torn", self.torn),
            ("repeated", self.repeated),
            ("invented", self.invented),
            ("gaps seen by victims", self.gaps),
            ("handles that worked in a child", self.forked),
            ("survivors that hung", self.waits.0 - self.waits.1),
            ("openings that timed out", self.retries.saturating_sub(most)),
        ];
        let bad: Vec<String> = found
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{what} {count}"))
            .collect();
        assert!(
            bad.is_empty(),
            "{}, round with seed {seed}\n{self}",
            bad.join(", ")
        );
        assert!(self.checked > 0, "nothing was checked");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kills = self.kills();
        let roles: Vec<String> = self
            .kills
            .iter()
            .map(|(role, count)| format!("{role} {count}"))
            .collect();
        writeln!(f, "kills {kills} ({})", roles.join(", "))?;
        let modes: Vec<String> = self
            .modes
            .iter()
            .map(|(mode, count)| format!("{mode} {count}"))
            .collect();
        writeln!(f, "by mode of the channel: {}", modes.join(", "))?;
        writeln!(
            f,
            "of these left unburied {}, stops {}, evictions {}, openings tried again {}",
            self.zombies, self.stops, self.evicted, self.retries
        )?;
        writeln!(
            f,
            "messages checked {}, lost {}, torn {}, repeated {}, invented {}, hung {}",
            self.checked,
            self.lost,
            self.torn + self.gaps,
            self.repeated,
            self.invented,
            self.waits.0 - self.waits.1
        )?;
        let aimed: u64 = self.places.values().sum();
        if aimed > 0 {
            let places = self.places.iter();
            let places: Vec<String> = places
                .map(|(place, kills)| format!("{place} {kills}"))
                .collect();
            let inside = self.in_core();
            writeln!(
                f,
                "aimed kills {aimed}, in code of the core {inside}: {}",
                places.join(", ")
            )?;
        }
        for (times, how, goal) in [
            (&self.parked, "sleep", Duration::from_millis(10)),
            (&self.spinning, "spin", Duration::from_millis(100)),
        ] {
            writeln!(f, "survivors that {how} go on after: {times}")?;
            writeln!(
                f,
                "  {} of them after more than {} ms",
                times.beyond(goal),
                goal.as_millis()
            )?;
        }
        writeln!(f, "and past a whole ring after: {}", self.laps)?;
        writeln!(f, "continue without a kill after: {}", self.calm)?;
        if kills > 0 {
            #[allow(clippy::cast_precision_loss, reason = "a bound of two digits")]
            let bound = 3.0 / kills as f64;
            write!(
                f,
                "no failure in {kills} kills: with 95 % confidence fewer than {bound:.2e} a kill \
                (rule of three)"
            )?;
        }
        Ok(())
    }
}

/// Faults planted in the observer's input: each kind must fail a round.
mod planted {
    use crate::common::TestFolder;
    use crate::common::mapped::SharedWords;
    use crate::tally::Tally;
    use crate::{lanes, roles, stage};

    /// Each kind of fault: the round must fail, and name it.
    #[test]
    fn planted_faults_fail_the_suite() {
        /// Of the first ten messages of this session only this one is empty.
        const SESSION: u64 = 19;
        const EMPTY: usize = 7;
        fn message(sequence: u64) -> Vec<u8> {
            let mut message = Vec::new();
            lanes::fill(SESSION, sequence, &mut message);
            message
        }
        /// Messages 0 to 9 of one session, one of them empty, after `spoil`.
        fn found(spoil: fn(&mut Vec<Vec<u8>>)) -> Result<(), String> {
            let mut messages: Vec<Vec<u8>> = (0..10).map(message).collect();
            let empty = |message: &Vec<u8>| message.is_empty();
            assert_eq!(messages.iter().position(empty), Some(EMPTY));
            spoil(&mut messages);
            let place = TestFolder::new();
            let sessions = SESSION + 1;
            let words = SharedWords::create(&place.file("words"), roles::words(sessions)).unwrap();
            words.store(roles::acknowledged(SESSION), 10);
            let mut findings = stage::Findings::default();
            for message in &messages {
                findings.take(0, message);
            }
            findings.settle(&words, sessions);
            let mut tally = Tally::default();
            tally.add(&findings, [0; 6]);
            let checked = std::panic::catch_unwind(|| tally.assert_clean(0));
            checked.map_err(|why| why.downcast_ref::<String>().cloned().unwrap_or_default())
        }
        /// A round without loss, with `waits` unfinished waits and `retries` repeated openings.
        fn stuck(waits: u64, retries: u64) -> Result<(), String> {
            let mut tally = Tally::default();
            let mut findings = stage::Findings::default();
            findings.checked = 1;
            tally.add(&findings, [0, 0, 0, 0, 0, retries]);
            (0..waits).for_each(|_| tally.waits());
            let checked = std::panic::catch_unwind(|| tally.assert_clean(0));
            checked.map_err(|why| why.downcast_ref::<String>().cloned().unwrap_or_default())
        }
        assert_eq!(found(|_| {}), Ok(()));
        let fails = |verdict: Result<(), String>, what: &str| {
            let why = verdict.expect_err(what);
            // The rest is the whole report, which contains every word.
            let said = why.lines().next().unwrap_or_default();
            assert!(said.contains(what), "{what}: {why}");
        };
        fails(found(|messages| drop(messages.remove(4))), "lost");
        fails(found(|messages| drop(messages.pop())), "lost");
        fails(found(|messages| messages[3][9] ^= 1), "torn");
        fails(found(|messages| messages.swap(2, 3)), "lost");
        fails(
            found(|messages| {
                let again = messages[5].clone();
                messages.insert(6, again);
            }),
            "repeated",
        );
        fails(
            found(|messages| {
                messages.extend((10..12).map(message));
            }),
            "invented",
        );
        fails(found(Vec::clear), "lost");
        fails(found(|messages| drop(messages.remove(EMPTY))), "lost");
        fails(
            found(|messages| messages.insert(EMPTY, Vec::new())),
            "repeated",
        );
        fails(
            found(|messages| messages.insert(EMPTY - 2, Vec::new())),
            "torn",
        );
        fails(found(|messages| messages.insert(0, Vec::new())), "invented");
        fails(found(|messages| messages[2].clear()), "torn");
        assert_eq!(stuck(0, 2), Ok(()));
        fails(stuck(1, 0), "survivors that hung");
        fails(stuck(0, 3), "openings that timed out");
    }
}
