//! Median and range of repeated runs. No mean anywhere.

use std::collections::BTreeMap;

/// Median, smallest and largest of some runs.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Spread {
    /// The middle run; the mean of the middle two if their number is even.
    pub median: f64,
    /// The smallest run.
    pub min: f64,
    /// The largest run.
    pub max: f64,
    /// Number of runs.
    pub runs: usize,
}

impl Spread {
    /// Sums up `values`; `None` if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self {
            median: median_of_sorted(&sorted),
            min,
            max,
            runs: sorted.len(),
        })
    }

    /// Sums up samples that belong to runs: the median of each run first, then the spread over the
    /// runs.
    #[must_use]
    pub fn over_runs(samples: &[(u32, f64)]) -> Option<Self> {
        let medians: Vec<f64> = Self::medians_of_runs(samples)
            .into_iter()
            .map(|(_, median)| median)
            .collect();
        Self::of(&medians)
    }

    /// The median of each run of samples that belong to runs, by rising run.
    #[must_use]
    pub fn medians_of_runs(samples: &[(u32, f64)]) -> Vec<(u32, f64)> {
        let mut runs: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for &(run, value) in samples {
            runs.entry(run).or_default().push(value);
        }
        let runs = runs.into_iter();
        runs.filter_map(|(run, values)| Some((run, Self::of(&values)?.median)))
            .collect()
    }
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_and_the_edges_are_kept() {
        let spread = Spread::of(&[5.0, 1.0, 9.0]).unwrap();
        assert_eq!(
            (spread.median, spread.min, spread.max, spread.runs),
            (5.0, 1.0, 9.0, 3)
        );
        assert_eq!(Spread::of(&[4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_run_counts_once_however_many_samples_it_has() {
        let samples = [(1, 10.0), (1, 10.0), (1, 10.0), (2, 1.0), (3, 2.0)];
        let spread = Spread::over_runs(&samples).unwrap();
        assert_eq!((spread.median, spread.runs), (2.0, 3));
    }
}
