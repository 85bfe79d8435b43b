//! What a run counted, as it is reported.

use crate::stage::Findings;
use core::fmt;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    kills: BTreeMap<&'static str, u64>,
    pub(crate) stops: u64,
    pub(crate) zombies: u64,
    recoveries: Vec<(Duration, &'static str)>,
    calm: Vec<Duration>,
    checked: u64,
    lost: u64,
    torn: u64,
    repeated: u64,
    invented: u64,
    gaps: u64,
    forked: u64,
    evicted: u64,
}

impl Tally {
    /// One kill; `counts` if others could go on without a successor, and `recovery` says when they did.
    pub(crate) fn kill(&mut self, role: &'static str, recovery: Duration, counts: bool) {
        *self.kills.entry(role).or_insert(0) += 1;
        if counts {
            self.recoveries.push((recovery, role));
        }
    }

    /// How long the same progress takes when nobody was killed.
    pub(crate) fn calm(&mut self, progress: Duration) {
        self.calm.push(progress);
    }

    /// What a round found, and what its victims complained of.
    pub(crate) fn add(&mut self, findings: &Findings, complaints: [u64; 5]) {
        let [torn, gaps, forked, evicted, checked] = complaints;
        self.checked += findings.checked + checked;
        self.lost += findings.lost;
        self.torn += findings.torn + torn;
        self.repeated += findings.repeated;
        self.invented += findings.invented;
        self.gaps += gaps;
        self.forked += forked;
        self.evicted += evicted;
    }

    pub(crate) fn assert_clean(&self, seed: u64) {
        let found = [
            ("lost", self.lost),
            ("torn", self.torn),
            ("repeated", self.repeated),
            ("invented", self.invented),
            ("gaps seen by victims", self.gaps),
            ("handles that worked in a child", self.forked),
        ];
        for (what, count) in found {
            assert_eq!(count, 0, "{what}, round with seed {seed}\n{self}");
        }
        assert!(self.checked > 0, "nothing was checked");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kills: u64 = self.kills.values().sum();
        let roles: Vec<String> = self
            .kills
            .iter()
            .map(|(role, count)| format!("{role} {count}"))
            .collect();
        writeln!(f, "kills {kills} ({})", roles.join(", "))?;
        writeln!(
            f,
            "of these left unburied {}, stops {}, evictions {}",
            self.zombies, self.stops, self.evicted
        )?;
        writeln!(
            f,
            "messages checked {}, lost {}, torn {}, repeated {}, invented {}, hung 0",
            self.checked,
            self.lost,
            self.torn + self.gaps,
            self.repeated,
            self.invented
        )?;
        let mut calm = self.calm.clone();
        calm.sort_unstable();
        let mut recoveries = self.recoveries.clone();
        recoveries.sort_unstable();
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let at = |part: usize| {
            let place = recoveries.len().saturating_sub(1) * part / 1000;
            recoveries.get(place).map_or(0.0, |found| ms(found.0))
        };
        let worst = recoveries.last().map_or("nobody", |found| found.1);
        writeln!(
            f,
            "survivors go on after: median {:.2} ms, 99 % {:.2} ms, 99.9 % {:.2} ms, worst {:.2} ms (after {worst})",
            at(500),
            at(990),
            at(999),
            at(1000)
        )?;
        writeln!(
            f,
            "the same without a kill: median {:.2} ms, worst {:.2} ms of {}",
            calm.get(calm.len() / 2).map_or(0.0, |found| ms(*found)),
            calm.last().map_or(0.0, |found| ms(*found)),
            calm.len()
        )?;
        if kills > 0 {
            #[allow(clippy::cast_precision_loss, reason = "a bound of two digits")]
            let bound = 3.0 / kills as f64;
            write!(
                f,
                "no failure in {kills} kills: with 95 % confidence fewer than {bound:.2e} a kill (rule of three)"
            )?;
        }
        Ok(())
    }
}
