//! What the last minute was like: lag and time held of each channel and subscriber.

use crate::watch::view::{Participant, Role, View};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

/// How far it reaches back, in milliseconds.
pub(crate) const LENGTH_MS: u64 = 60_000;
/// Looks that are closer together share a point, which keeps the larger value.
const STEP_MS: u64 = 500;

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    olivine::clock::wall_ns() / 1_000_000
}

/// A channel, or a subscriber of it: index of its slot, and its process.
type Key = (String, Option<(usize, u64)>);

/// The points of the last minute.
#[derive(Debug, Default)]
pub(crate) struct History {
    at_ms: VecDeque<u64>,
    series: HashMap<Key, VecDeque<Option<Point>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Point {
    behind_bytes: u64,
    held_share: f64,
}

/// The JSON form. What was 0 all the time is left out.
#[derive(Debug, Serialize)]
pub(crate) struct Shown<'a> {
    at_unix_ms: &'a VecDeque<u64>,
    series: Vec<ShownSeries<'a>>,
}

/// A point for each of `at_unix_ms`; `null` where it was not seen.
#[derive(Debug, Serialize)]
struct ShownSeries<'a> {
    channel: &'a str,
    /// Index of the subscriber's slot; `null` for the channel.
    slot: Option<usize>,
    process_id: Option<u64>,
    behind_bytes: Vec<Option<u64>>,
    held_share: Vec<Option<f64>>,
}

impl History {
    /// Adds what was seen at this time.
    pub(crate) fn push(&mut self, at_ms: u64, view: &View) {
        if self.at_ms.back().is_some_and(|last| *last > at_ms) {
            // The clock was set back.
            *self = Self::default();
        }
        let is_new = self
            .at_ms
            .back()
            .is_none_or(|last| at_ms.saturating_sub(*last) >= STEP_MS);
        if is_new {
            self.at_ms.push_back(at_ms);
            for points in self.series.values_mut() {
                points.push_back(None);
            }
        }
        let length = self.at_ms.len();
        let mut add = |key: Key, point: Point| {
            let points = self.series.entry(key);
            let points = points.or_insert_with(|| VecDeque::from(vec![None; length]));
            if let Some(last) = points.back_mut() {
                let old = last.unwrap_or_default();
                *last = Some(Point {
                    behind_bytes: old.behind_bytes.max(point.behind_bytes),
                    held_share: old.held_share.max(point.held_share),
                });
            }
        };
        for channel in view.channels.iter().filter(|one| one.error.is_none()) {
            let point = Point {
                behind_bytes: channel.behind_bytes,
                held_share: channel.held_share.unwrap_or(0.0),
            };
            add((channel.name.clone(), None), point);
            let subscribers = channel.participants.iter();
            for one in subscribers.filter(|one| one.role == Role::Subscriber) {
                add((channel.name.clone(), Some(id(one))), of(one));
            }
        }
        while self
            .at_ms
            .front()
            .is_some_and(|first| at_ms.saturating_sub(*first) > LENGTH_MS)
        {
            self.at_ms.pop_front();
            for points in self.series.values_mut() {
                points.pop_front();
            }
        }
        let is_known = |points: &VecDeque<Option<Point>>| points.iter().any(Option::is_some);
        self.series.retain(|_, points| is_known(points));
    }

    /// The JSON form.
    pub(crate) fn shown(&self) -> Shown<'_> {
        let matters = |point: &Point| point.behind_bytes > 0 || point.held_share > 0.0;
        let known = self.series.iter();
        let known = known.filter(|(_, points)| points.iter().flatten().any(matters));
        let mut series: Vec<ShownSeries<'_>> = known
            .map(|((channel, subscriber), points)| ShownSeries {
                channel,
                slot: subscriber.map(|(slot, _)| slot),
                process_id: subscriber.map(|(_, process_id)| process_id),
                behind_bytes: each(points, |point| point.behind_bytes),
                // Three digits are more than a small picture shows.
                held_share: each(points, |point| (point.held_share * 1000.0).round() / 1000.0),
            })
            .collect();
        series.sort_by(|a, b| (a.channel, a.slot).cmp(&(b.channel, b.slot)));
        Shown {
            at_unix_ms: &self.at_ms,
            series,
        }
    }
}

fn each<T>(points: &VecDeque<Option<Point>>, value: impl Fn(Point) -> T) -> Vec<Option<T>> {
    points.iter().map(|point| point.map(&value)).collect()
}

fn id(one: &Participant) -> (usize, u64) {
    (one.index, one.process_id)
}

fn of(one: &Participant) -> Point {
    Point {
        behind_bytes: one.behind_bytes,
        held_share: one.held_share.unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tracker::tests::troubled;

    fn shown(history: &History) -> serde_json::Value {
        serde_json::to_value(history.shown()).unwrap()
    }

    #[test]
    fn a_minute_is_kept_and_calm_series_are_left_out() {
        let view = troubled();
        let mut history = History::default();
        for second in 0..100 {
            history.push(second * 1000, &view);
        }
        let shown = shown(&history);
        let times = shown["at_unix_ms"].as_array().unwrap();
        assert_eq!((times.len(), &times[0]), (61, &39_000.into()));
        let series = shown["series"].as_array().unwrap();
        let names: Vec<_> = series
            .iter()
            .map(|one| (one["channel"].as_str().unwrap(), one["slot"].as_u64()))
            .collect();
        // 'audit' in slot 1 holds; 'orders' and slot 0 were calm.
        assert_eq!(names, [("ticks", None), ("ticks", Some(1))]);
        assert_eq!(series[1]["behind_bytes"][60], 4096);
        assert_eq!(series[1]["held_share"][60], 1.0);
    }

    #[test]
    fn close_looks_share_a_point_and_what_is_gone_is_dropped() {
        let view = troubled();
        let mut calm = view.clone();
        for channel in &mut calm.channels {
            channel.behind_bytes = 0;
            channel.participants.clear();
        }
        let mut history = History::default();
        history.push(1000, &view);
        history.push(1100, &calm);
        history.push(1600, &calm);
        let seen = shown(&history);
        assert_eq!(seen["at_unix_ms"].as_array().unwrap().len(), 2);
        assert_eq!(
            seen["series"][0]["behind_bytes"],
            serde_json::json!([4096, 0])
        );
        assert_eq!(
            seen["series"][1]["behind_bytes"],
            serde_json::json!([4096, null])
        );
        history.push(70_000, &calm);
        assert_eq!(shown(&history)["at_unix_ms"], serde_json::json!([70_000]));
        history.push(2000, &calm);
        assert_eq!(shown(&history)["at_unix_ms"], serde_json::json!([2000]));
        assert!(
            history
                .series
                .keys()
                .all(|(_, subscriber)| subscriber.is_none())
        );
    }
}
