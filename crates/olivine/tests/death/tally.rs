//! Counts of a run, for the report.

use crate::aim::ELSEWHERE;
use crate::stage::{Complaints, Findings, Hung, Progress};
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
    /// Waits for survivors that did not end.
    hung: u64,
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
    /// By the durable subscriber, beyond what its deaths allow.
    repeats: u64,
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

    /// What a wait for survivors has shown. A hang ends the round of `seed`.
    pub(crate) fn waited(&mut self, waited: Result<Progress, Hung>, seed: u64) -> Progress {
        waited.unwrap_or_else(|hung| {
            self.hung += 1;
            println!("{hung}");
            self.assert_clean(seed);
            unreachable!("a hang is not clean")
        })
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
        self.hung += other.hung;
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
        self.repeats += other.repeats;
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
            self.repeated + self.repeats,
            self.invented
        )
    }

    /// The findings of a round, and the errors of its participants.
    pub(crate) fn add(&mut self, findings: &Findings, complaints: Complaints) {
        let [torn, gaps, forked, evicted, checked, retries, repeats] = complaints;
        self.retries += retries;
        self.rounds += 1;
        self.checked += findings.checked + checked;
        self.lost += findings.lost;
        self.torn += findings.torn + torn;
        self.repeated += findings.repeated;
        self.invented += findings.invented;
        self.gaps += gaps;
        self.repeats += repeats;
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
            ("repeats to a durable name", self.repeats),
            ("handles that worked in a child", self.forked),
            ("survivors that hung", self.hung),
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
            self.repeated + self.repeats,
            self.invented,
            self.hung
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
