//! Whether one thing is faster than another, or the difference is noise.
//!
//! Two rows of one session with interleaved runs are compared run by run: a disturbance of run 3
//! affects both, and cancels in their ratio. Runs of different sessions are not neighbours; their
//! ratios are taken over all pairs of medians, and the sentence says so. The margin is half of the
//! 95 % interval of the true ratio, by Student's t on the logarithms of the ratios. A difference is
//! noise if that interval contains 1, if it is below [`RESOLUTION`], or if the margin is larger
//! than the difference.

use crate::result::{Measured, Row};
use crate::text::three_figures;
use std::fmt;

/// A difference below this share is noise, however steady: two equal measurements differ as much,
/// by the memory they get.
pub const RESOLUTION: f64 = 0.01;
/// Fewest runs of a comparison: one pair has no spread.
pub const RUNS_MIN: usize = 3;

/// Two-sided 95 % points of Student's t for 1, 2, 3 … degrees of freedom.
///
/// # Source
///
/// Any table of Student's distribution; checked against its formula for 1 and 2 degrees.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same for more degrees than the table has: that of the normal distribution is a hair smaller.
const STUDENT_MANY: f64 = 2.0;

/// The compared quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Figure {
    /// Medians of durations: less is better.
    P50Ns,
    /// Rates: more is better.
    MessagesPerS,
}

/// The ratio of two rows.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// What was compared.
    pub figure: Figure,
    /// How many times faster the first is; below 1 where it is slower.
    pub ratio: f64,
    /// The true ratio is above this with 97.5 % probability.
    pub ratio_low: f64,
    /// And below this.
    pub ratio_high: f64,
    /// Runs of each.
    pub runs: usize,
    /// Whether the runs of both were interleaved.
    pub interleaved: bool,
}

/// Why two rows were not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Too few runs.
    #[error("only {found} runs in common, {RUNS_MIN} or more are needed: measure with --runs 5")]
    Runs {
        /// Runs that both have.
        found: usize,
    },
    /// A row has no figures, or the two have none in common.
    #[error("no figure in common: one failed, or a latency was put beside a rate")]
    Figures,
}

impl Comparison {
    /// Compares two measured rows; `interleaved` if their runs were interleaved in one session.
    ///
    /// # Errors
    ///
    /// [`CompareError`] if there is nothing to compare or too little of it.
    pub fn of(first: &Row, second: &Row, interleaved: bool) -> Result<Self, CompareError> {
        let (Some(first), Some(second)) = (first.measured(), second.measured()) else {
            return Err(CompareError::Figures);
        };
        for figure in [Figure::P50Ns, Figure::MessagesPerS] {
            let (ours, theirs) = (figure.runs(first), figure.runs(second));
            if !ours.is_empty() && !theirs.is_empty() {
                return Self::of_runs(figure, &ours, &theirs, interleaved);
            }
        }
        Err(CompareError::Figures)
    }

    #[allow(clippy::cast_precision_loss, reason = "a few runs")]
    fn of_runs(
        figure: Figure,
        first: &[(u32, f64)],
        second: &[(u32, f64)],
        interleaved: bool,
    ) -> Result<Self, CompareError> {
        // How many times faster: of durations the second by the first, of rates the first by the
        // second.
        let log = |first: f64, second: f64| match figure {
            Figure::P50Ns => (second / first).ln(),
            Figure::MessagesPerS => (first / second).ln(),
        };
        let (middle, margin, runs) = if interleaved {
            let pairs = first.iter().filter_map(|&(run, ours)| {
                let (_, theirs) = second.iter().find(|(other, _)| *other == run)?;
                Some(log(ours, *theirs))
            });
            let pairs: Vec<f64> = pairs.collect();
            let (mean, variance) = moments(&pairs);
            let degrees = pairs.len().saturating_sub(1);
            (
                mean,
                student(degrees as f64) * (variance / pairs.len() as f64).sqrt(),
                pairs.len(),
            )
        } else {
            let logs =
                |runs: &[(u32, f64)]| runs.iter().map(|(_, value)| value.ln()).collect::<Vec<_>>();
            let (ours, theirs) = (logs(first), logs(second));
            let ((mean_a, variance_a), (mean_b, variance_b)) = (moments(&ours), moments(&theirs));
            let (share_a, share_b) = (
                variance_a / ours.len() as f64,
                variance_b / theirs.len() as f64,
            );
            // Welch's degrees of freedom: the two need not be equally noisy.
            let below = share_a.powi(2) / (ours.len() as f64 - 1.0)
                + share_b.powi(2) / (theirs.len() as f64 - 1.0);
            let degrees = if below > 0.0 {
                (share_a + share_b).powi(2) / below
            } else {
                f64::INFINITY
            };
            let sign = if figure == Figure::P50Ns { -1.0 } else { 1.0 };
            let margin = student(degrees) * (share_a + share_b).sqrt();
            (
                (mean_a - mean_b) * sign,
                margin,
                ours.len().min(theirs.len()),
            )
        };
        if runs < RUNS_MIN {
            return Err(CompareError::Runs { found: runs });
        }
        Ok(Self {
            figure,
            ratio: middle.exp(),
            ratio_low: (middle - margin).exp(),
            ratio_high: (middle + margin).exp(),
            runs,
            interleaved,
        })
    }

    /// Whether the interval of the true ratio contains 1, the difference is below [`RESOLUTION`],
    /// or the margin is larger than the difference: then equal runs differ by more than the two do.
    #[must_use]
    pub fn is_noise(&self) -> bool {
        if self.ratio < 1.0 {
            return self.reversed().is_noise();
        }
        let difference = self.ratio - 1.0;
        self.ratio_low <= 1.0 || difference < RESOLUTION || self.margin() > difference
    }

    /// Half of the interval of the true ratio.
    fn margin(&self) -> f64 {
        (self.ratio_high - self.ratio_low) / 2.0
    }

    /// The comparison in the other direction.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            ratio: 1.0 / self.ratio,
            ratio_low: 1.0 / self.ratio_high,
            ratio_high: 1.0 / self.ratio_low,
            ..*self
        }
    }

    /// One sentence with the names of both: `A is 1.32 ± 0.05 times faster than B`.
    #[must_use]
    pub fn sentence(&self, first: &str, second: &str) -> String {
        if self.ratio < 1.0 {
            return self.reversed().sentence(second, first);
        }
        let margin = three_figures(self.margin());
        let turns = if self.interleaved {
            ""
        } else {
            "; the runs did not take turns"
        };
        if self.is_noise() && self.margin() > self.ratio {
            // A difference and a margin say little there.
            return format!(
                "no difference that {} runs can show: {first} is {} to {} times as fast as \
                {second}, which is noise{turns}",
                self.runs,
                three_figures(self.ratio_low),
                three_figures(self.ratio_high),
            );
        }
        if self.is_noise() {
            return format!(
                "no difference that {} runs can show: {first} and {second} differ by {} ± \
                {margin} times, which is noise{turns}",
                self.runs,
                three_figures(self.ratio),
            );
        }
        format!(
            "{first} is {} ± {margin} times faster than {second} ({} runs{turns})",
            three_figures(self.ratio),
            self.runs,
        )
    }
}

impl Figure {
    fn runs(self, measured: &Measured) -> Vec<(u32, f64)> {
        let name = match self {
            Self::P50Ns => "p50_ns",
            Self::MessagesPerS => "messages_per_s",
        };
        let runs = measured.runs.iter();
        let runs = runs.filter_map(|run| Some((run.run, *run.values.get(name)?)));
        runs.filter(|(_, value)| *value > 0.0).collect()
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::P50Ns => "p50",
            Self::MessagesPerS => "messages a second",
        })
    }
}

/// Mean and variance of a sample; 0 where there are too few values.
#[allow(clippy::cast_precision_loss, reason = "a few runs")]
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (count - 1.0).max(1.0))
}

/// The two-sided 95 % point for `degrees` of freedom, rounded down to whole ones.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the table"
)]
fn student(degrees: f64) -> f64 {
    let index = (degrees.floor().clamp(1.0, 1000.0)) as usize - 1;
    STUDENT.get(index).copied().unwrap_or(STUDENT_MANY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margin_above_the_difference_is_noise() {
        let found = Comparison {
            figure: Figure::P50Ns,
            ratio: 222.0,
            ratio_low: 41.0,
            ratio_high: 1200.0,
            runs: 3,
            interleaved: true,
        };
        assert!(found.is_noise() && found.reversed().is_noise());
        let said = found.sentence("a", "b");
        assert!(said.contains("which is noise"), "{said}");
        assert!(
            said.contains("a is 41.0 to ") && !said.contains('±'),
            "{said}"
        );
        let steady = Comparison {
            ratio_low: 200.0,
            ratio_high: 240.0,
            ..found
        };
        assert!(!steady.is_noise() && !steady.reversed().is_noise());
    }

    fn runs(values: &[f64]) -> Vec<(u32, f64)> {
        (0..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn steady_ratio_is_found_despite_common_drift() {
        // The machine slows down by half on the way; neighbours do so together.
        let first = runs(&[100.0, 110.0, 120.0, 135.0, 150.0]);
        let second = runs(&[132.0, 145.2, 158.4, 178.2, 198.0]);
        let found = Comparison::of_runs(Figure::P50Ns, &first, &second, true).unwrap();
        assert!(
            (found.ratio - 1.32).abs() < 1e-6 && !found.is_noise(),
            "{found:?}"
        );
        assert_eq!(
            found.sentence("A", "B"),
            "A is 1.32 ± 0.00 times faster than B (5 runs)"
        );
        assert_eq!(
            found.reversed().sentence("B", "A"),
            found.sentence("A", "B")
        );
        // The same runs, had they not been neighbours: the wandering hides the difference.
        let apart = Comparison::of_runs(Figure::P50Ns, &first, &second, false).unwrap();
        assert!(apart.ratio_high - apart.ratio_low > 0.4, "{apart:?}");
        assert!(apart.sentence("A", "B").contains("did not take turns"));
    }

    #[test]
    fn more_messages_a_second_are_faster_and_fewer_nanoseconds_too() {
        let (low, high) = (runs(&[1.0, 1.01, 0.99]), runs(&[2.0, 2.02, 1.98]));
        let rate = Comparison::of_runs(Figure::MessagesPerS, &high, &low, true).unwrap();
        let time = Comparison::of_runs(Figure::P50Ns, &low, &high, true).unwrap();
        assert!((rate.ratio - 2.0).abs() < 1e-9 && (time.ratio - 2.0).abs() < 1e-9);
        for interleaved in [true, false] {
            let slower =
                Comparison::of_runs(Figure::MessagesPerS, &low, &high, interleaved).unwrap();
            assert!(
                slower.sentence("A", "B").starts_with("B is 2"),
                "{slower:?}"
            );
        }
    }

    #[test]
    fn equal_methods_are_noise() {
        let first = runs(&[100.0, 104.0, 99.0, 103.0, 98.0]);
        let second = runs(&[101.0, 99.0, 103.0, 100.0, 102.0]);
        for interleaved in [true, false] {
            let found = Comparison::of_runs(Figure::P50Ns, &first, &second, interleaved).unwrap();
            assert!(found.is_noise(), "{found:?}");
            assert!(found.sentence("A", "B").contains("which is noise"));
        }
    }

    #[test]
    fn a_steady_difference_below_the_resolution_is_noise() {
        let slower = |share: f64| runs(&[100.0 * share, 100.1 * share, 99.9 * share]);
        let found = |share| Comparison::of_runs(Figure::P50Ns, &slower(1.0), &slower(share), true);
        assert!(found(1.008).unwrap().is_noise() && found(0.992).unwrap().is_noise());
        assert!(!found(1.02).unwrap().is_noise() && !found(0.98).unwrap().is_noise());
    }

    #[test]
    fn too_few_runs_are_refused() {
        let few = runs(&[1.0, 2.0]);
        let error = Comparison::of_runs(Figure::P50Ns, &few, &few, true).unwrap_err();
        assert_eq!(error, CompareError::Runs { found: 2 });
    }

    #[test]
    fn the_table_of_student_falls_and_fits_its_formula() {
        assert!(STUDENT.iter().rev().is_sorted());
        // One degree: tan(π (p − 1/2)); two: (2p − 1) / √(2 p (1 − p)), at p = 0.975.
        let p: f64 = 0.975;
        assert!((STUDENT[0] - (std::f64::consts::PI * (p - 0.5)).tan()).abs() < 1e-3);
        assert!((STUDENT[1] - (2.0 * p - 1.0) / (2.0 * p * (1.0 - p)).sqrt()).abs() < 1e-3);
        assert_eq!(student(f64::INFINITY), STUDENT_MANY);
        assert_eq!(student(0.2), STUDENT[0]);
    }
}
