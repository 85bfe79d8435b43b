//! Axes: the position of a value, and the labelled values.

use crate::view::{AxisPlan, Scale};

/// A scale with its ends, ticks and title.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    /// Values with their texts, rising.
    pub(super) ticks: Vec<(f64, String)>,
    /// What it shows, with the unit.
    pub(super) title: String,
}

impl Axis {
    /// The axis of a plan for `values`.
    pub(super) fn of(plan: &AxisPlan, values: impl IntoIterator<Item = f64>) -> Self {
        let AxisPlan { scale, title, unit } = plan;
        if *scale != Scale::Choices {
            return Self::for_values(*scale, values, title, *unit);
        }
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        Self::of_choices(&values, title, *unit)
    }

    /// An axis for `values`, labelled with `unit`; a logarithmic one leaves values of 0 or less
    /// out.
    fn for_values(
        scale: Scale,
        values: impl IntoIterator<Item = f64>,
        title: &str,
        unit: fn(f64) -> String,
    ) -> Self {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for value in values {
            if value > 0.0 && value.is_finite() {
                least = least.min(value);
                most = most.max(value);
            }
        }
        if least > most {
            (least, most) = (1.0, 10.0);
        }
        let (from, to, values) = match scale {
            Scale::Linear => even(most),
            Scale::Log | Scale::Choices => by_ratio(least, most),
            Scale::Nines => nines(most),
        };
        Self {
            scale,
            from,
            to,
            ticks: values
                .into_iter()
                .map(|value| (value, unit(value)))
                .collect(),
            title: title.to_owned(),
        }
    }

    /// An axis whose ticks are the values themselves: a few chosen values, such as sizes.
    fn of_choices(values: &[f64], title: &str, unit: fn(f64) -> String) -> Self {
        let mut axis = Self::for_values(Scale::Log, values.iter().copied(), title, unit);
        let (first, last) = (values.first().copied(), values.last().copied());
        if let (Some(first), Some(last)) = (first, last) {
            // A little room at both ends, so that no mark is on a border.
            let room = (last / first).powf(0.04).max(1.05);
            (axis.from, axis.to) = (first / room, last * room);
        }
        axis.ticks = values.iter().map(|&value| (value, unit(value))).collect();
        axis
    }

    /// Where `value` is: 0 at the start, 1 at the end; outside values at the nearer end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log | Scale::Choices => {
                (value.max(f64::MIN_POSITIVE) / self.from).ln() / (self.to / self.from).ln()
            }
            Scale::Nines => rarity(value) / rarity(self.to),
        };
        share.clamp(0.0, 1.0)
    }

    /// Removes ticks whose labels would touch: `room` is the least share of the axis between two.
    pub(super) fn thin(&mut self, room: impl Fn(&str) -> f64) {
        let mut end = f64::NEG_INFINITY;
        let mut kept = Vec::new();
        for (value, text) in std::mem::take(&mut self.ticks) {
            let (at, half) = (self.place(value), room(&text) / 2.0);
            if at - half >= end {
                end = at + half;
                kept.push((value, text));
            }
        }
        self.ticks = kept;
    }
}

/// 0, 1, 2, 3 … for a quantile of 0, 0.9, 0.99, 0.999.
fn rarity(quantile: f64) -> f64 {
    -(1.0 - quantile).max(1e-9).log10()
}

/// Even ticks from 0 to the first one not below `most`.
fn even(most: f64) -> (f64, f64, Vec<f64>) {
    let rough = most / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
    let step = steps
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(most);
    let mut ticks = vec![0.0];
    while ticks.last().is_some_and(|last| *last < most * 0.999) {
        ticks.push(ticks.len() as f64 * step);
    }
    let to = ticks.last().copied().unwrap_or(most);
    (0.0, to, ticks)
}

/// Ticks at 1, 2, 5 of each tenfold, or at 1 where there are many.
fn by_ratio(least: f64, most: f64) -> (f64, f64, Vec<f64>) {
    let (from, to) = (least / 1.15, most * 1.15);
    let decades = (to / from).log10();
    let parts: &[f64] = match decades {
        d if d < 0.7 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
        d if d < 3.2 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let mut ticks = Vec::new();
    let mut power = 10_f64.powf(from.log10().floor());
    while power <= to {
        let of_decade = parts.iter().map(|part| part * power);
        ticks.extend(of_decade.filter(|tick| *tick >= from && *tick <= to));
        power *= 10.0;
    }
    (from, to, ticks)
}

/// The quantiles that tables have, up to `most`.
fn nines(most: f64) -> (f64, f64, Vec<f64>) {
    let shown = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
    let to = most.max(0.5);
    let ticks = shown
        .into_iter()
        .filter(|tick| *tick <= to + 1e-9)
        .collect();
    (0.0, to, ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(value: f64) -> String {
        value.to_string()
    }

    #[test]
    fn every_scale_puts_values_in_order_between_its_ends() {
        for scale in [Scale::Linear, Scale::Log, Scale::Nines] {
            let values = [0.3, 0.5, 0.93, 0.9991];
            let axis = Axis::for_values(scale, values, "", plain);
            let places: Vec<f64> = values.iter().map(|value| axis.place(*value)).collect();
            assert!(
                places.is_sorted() && places[0] > 0.0 && places[3] <= 1.0,
                "{scale:?} {places:?}"
            );
            assert!(axis.ticks.len() >= 3, "{scale:?} {:?}", axis.ticks);
            assert!(axis.ticks.iter().map(|tick| tick.0).is_sorted());
        }
    }

    #[test]
    fn linear_axis_covers_zero_to_the_maximum() {
        for most in [0.004, 3.0, 99.0, 101.0, 3.4e8] {
            let axis = Axis::for_values(Scale::Linear, [most], "", plain);
            assert_eq!(axis.place(0.0), 0.0);
            assert!(
                axis.to >= most * 0.999 && axis.to <= most * 2.1,
                "{most} {}",
                axis.to
            );
            assert!(
                (3..=8).contains(&axis.ticks.len()),
                "{most} {:?}",
                axis.ticks
            );
        }
    }

    #[test]
    fn each_nine_has_the_same_width() {
        let axis = Axis::for_values(Scale::Nines, [0.9999], "", plain);
        for (value, place) in [(0.9, 0.25), (0.99, 0.5), (0.999, 0.75), (0.9999, 1.0)] {
            assert!((axis.place(value) - place).abs() < 1e-6, "{value}");
        }
    }

    #[test]
    fn unusual_values_do_not_break_an_axis() {
        for values in [vec![], vec![0.0], vec![f64::NAN], vec![5.0, 5.0]] {
            for scale in [Scale::Linear, Scale::Log] {
                let axis = Axis::for_values(scale, values.clone(), "", plain);
                assert!(
                    axis.place(5.0).is_finite() && axis.from < axis.to,
                    "{values:?}"
                );
            }
        }
    }

    #[test]
    fn crowded_ticks_are_left_out() {
        let mut axis = Axis::of_choices(&[16.0, 20.0, 24.0, 1e6], "", plain);
        axis.thin(|_| 0.1);
        let kept: Vec<f64> = axis.ticks.iter().map(|tick| tick.0).collect();
        assert_eq!(kept, [16.0, 1e6]);
    }
}
