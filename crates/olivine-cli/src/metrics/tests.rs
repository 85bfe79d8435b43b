//! Texts of invented looks, and a checker of the grammar.

use super::Waits;
use super::exposition::Format;
use super::families::{self, Scrape};
use super::lines::Lines;
use crate::watch::sample::{Channel, Sample, Seen};
use crate::watch::tracker::Tracker;
use crate::watch::tracker::tests::troubled_samples;
use crate::watch::view::View;
use std::time::Duration;

#[path = "../../tests/common/grammar.rs"]
mod grammar;

fn text_of(sample: &Sample, view: &View, format: Format, goes_on: bool) -> String {
    let scrape = Scrape {
        looked: Ok((sample, view)),
        looks: 7,
        errors: 2,
        took: Duration::from_micros(1500),
        goes_on,
    };
    families::text(&scrape, &mut Lines::default(), format)
}

fn looked(change: impl Fn(&mut Sample)) -> (Sample, View) {
    let mut tracker = Tracker::default();
    let [mut first, mut second] = troubled_samples();
    change(&mut first);
    change(&mut second);
    tracker.advance(&first);
    let view = tracker.advance(&second);
    (second, view)
}

#[test]
fn text_of_a_held_publisher_names_the_subscriber_in_both_formats() {
    let (sample, view) = looked(|_| {});
    for (format, is_open) in [(Format::OpenMetrics, true), (Format::Prometheus, false)] {
        let text = text_of(&sample, &view, format, true);
        let found =
            grammar::check(&text, is_open).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let of_audit = [("channel", "ticks"), ("slot", "1"), ("subscriber", "audit")];
        let hold = found.value("olivine_hold_seconds", &of_audit).unwrap();
        assert!((hold - 3.1).abs() < 1e-9, "{hold}");
        let held = found.value("olivine_held_back_seconds_total", &of_audit);
        assert_eq!(held, Some(1.0));
        assert_eq!(found.value("olivine_lag_bytes", &of_audit), Some(4096.0));
        let lane = [("channel", "ticks"), ("lane", "0")];
        assert_eq!(found.value("olivine_ring_fill_ratio", &lane), Some(1.0));
        assert_eq!(
            found.value("olivine_published_bytes_total", &lane),
            Some(4096.0)
        );
        let waited = found.value("olivine_without_room_seconds_total", &lane);
        assert_eq!(waited, Some(3.1));
        let state = |role, state| {
            let labels = [("channel", "ticks"), ("role", role), ("state", state)];
            found.value("olivine_participants", &labels)
        };
        assert_eq!(state("subscriber", "stopped"), Some(1.0));
        assert_eq!(
            (state("publisher", "held"), state("publisher", "gone")),
            (Some(1.0), Some(0.0))
        );
        let readable = |name| found.value("olivine_channel_readable", &[("channel", name)]);
        assert_eq!(
            (readable("broken"), readable("orders")),
            (Some(0.0), Some(1.0))
        );
        assert_eq!(found.value("olivine_scrape_errors_total", &[]), Some(2.0));
        assert_eq!(
            found.value("olivine_scrape_duration_seconds", &[]),
            Some(0.0015)
        );
    }
}

#[test]
fn text_that_is_written_once_counts_nothing_of_its_process() {
    let (sample, view) = looked(|_| {});
    let text = text_of(&sample, &view, Format::Prometheus, false);
    for name in [
        "olivine_looks",
        "olivine_scrape_errors",
        "olivine_held_back_seconds",
    ] {
        assert!(!text.contains(name), "{name}");
    }
    assert!(text.contains("olivine_hold_seconds{"), "{text}");
}

#[test]
fn unreadable_folder_is_a_text_of_its_state() {
    let scrape = Scrape {
        looked: Err(()),
        looks: 1,
        errors: 1,
        took: Duration::ZERO,
        goes_on: true,
    };
    let text = families::text(&scrape, &mut Lines::default(), Format::OpenMetrics);
    let found = grammar::check(&text, true).unwrap();
    assert_eq!(found.value("olivine_folder_readable", &[]), Some(0.0));
    assert_eq!(found.value("olivine_channels", &[]), None);
}

#[test]
fn hostile_names_stay_in_their_labels() {
    let evil = "a\"} 1\nolivine_build_info{b=\"\\\u{1b}[2J\u{202e}</script>";
    let (sample, view) = looked(|sample| {
        for seen in &mut sample.channels {
            if let Ok(channel) = &mut seen.looked {
                channel
                    .readers
                    .iter_mut()
                    .for_each(|one| one.name = Some(evil.to_owned()));
            }
        }
    });
    for (format, is_open) in [(Format::OpenMetrics, true), (Format::Prometheus, false)] {
        let text = text_of(&sample, &view, format, true);
        let found =
            grammar::check(&text, is_open).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let shown = evil
            .replace('\n', "\\n")
            .replace('\u{1b}', "\\x1b")
            .replace('\u{202e}', "\\u{202e}");
        let labels = [("channel", "ticks"), ("slot", "1"), ("subscriber", &*shown)];
        assert_eq!(
            found.value("olivine_lag_bytes", &labels),
            Some(4096.0),
            "{text}"
        );
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    }
}

/// The same texts as those that nothing is kept for.
#[test]
fn text_with_kept_lines_is_the_text_without() {
    let mut lines = Lines::default();
    let changes: [&dyn Fn(&mut Sample); 6] = [
        &|_| {},
        &|_| {},
        &|sample| change_ticks(sample, |channel| channel.lanes[0].cursor += 64),
        &|sample| change_ticks(sample, |channel| channel.readers[0].slot = 9),
        &|sample| {
            change_ticks(sample, |channel| {
                channel.readers[0].name = Some("other".to_owned());
            });
        },
        &|sample| sample.channels.retain(|seen| seen.name != "orders"),
    ];
    for change in changes {
        let (sample, view) = looked(change);
        for format in [Format::OpenMetrics, Format::Prometheus] {
            let scrape = Scrape {
                looked: Ok((&sample, &view)),
                looks: 7,
                errors: 2,
                took: Duration::from_micros(1500),
                goes_on: true,
            };
            let text = families::text(&scrape, &mut lines, format);
            assert_eq!(text, text_of(&sample, &view, format, true));
        }
    }
}

fn change_ticks(sample: &mut Sample, change: impl Fn(&mut Channel)) {
    let mut all = sample.channels.iter_mut();
    let ticks = all.find(|seen| seen.name == "ticks").unwrap();
    change(ticks.looked.as_mut().unwrap());
}

#[test]
fn too_many_participants_are_left_out_and_counted() {
    let (sample, view) = looked(|sample| {
        // 13,000 subscribers in one channel, more than the text has room for.
        let seen = sample.channels.last_mut().unwrap();
        let channel = seen.looked.as_mut().unwrap();
        let one = channel.readers[0].clone();
        channel.readers = (0..13_000)
            .map(|slot| {
                let mut other = one.clone();
                other.slot = slot;
                other
            })
            .collect();
    });
    let text = text_of(&sample, &view, Format::OpenMetrics, true);
    let found = grammar::check(&text, true).unwrap();
    assert_eq!(found.value("olivine_collapsed_channels", &[]), Some(1.0));
    let lag = |channel| {
        found.value(
            "olivine_lag_bytes",
            &[("channel", channel), ("slot", "0"), ("subscriber", "")],
        )
    };
    assert_eq!((lag("ticks"), lag("orders")), (None, Some(0.0)));
    let subscribers = found.value("olivine_subscribers", &[("channel", "ticks")]);
    assert_eq!(subscribers, Some(13_000.0));
}

#[test]
fn time_without_room_never_falls_and_begins_anew_with_a_new_channel() {
    let mut waits = Waits::default();
    let mut waited = |incarnation, ns| {
        let [mut sample, _] = troubled_samples();
        let channel = sample.channels.last_mut().unwrap().looked.as_mut().unwrap();
        (channel.incarnation, channel.lanes[0].waited_ns) = (incarnation, ns);
        waits.keep(&mut sample);
        let channel = sample.channels.pop().unwrap().looked.unwrap();
        channel.lanes[0].waited_ns
    };
    // A publisher died in a wait of 3; the 5 after it are counted whole.
    assert_eq!([waited(1, 10), waited(1, 7), waited(1, 12)], [10, 10, 15]);
    assert_eq!(waited(2, 1), 1);
}

#[test]
fn unreadable_look_takes_nothing_from_counters() {
    let mut tracker = Tracker::default();
    let mut waits = Waits::default();
    let mut totals = |mut sample: Sample| {
        let view = tracker.advance(&sample);
        waits.keep(&mut sample);
        let text = text_of(&sample, &view, Format::OpenMetrics, true);
        let found = grammar::check(&text, true).unwrap();
        let of_audit = [("channel", "ticks"), ("slot", "1"), ("subscriber", "audit")];
        let lane = [("channel", "ticks"), ("lane", "0")];
        (
            found.value("olivine_held_back_seconds_total", &of_audit),
            found.value("olivine_without_room_seconds_total", &lane),
        )
    };
    let [first, second] = troubled_samples();
    let later = |seconds: u64| {
        let mut sample = second.clone();
        sample.at_ns += seconds * 1_000_000_000;
        sample
    };
    let channel = |sample: &mut Sample, change: &dyn Fn(&mut Seen)| {
        let mut all = sample.channels.iter_mut();
        change(all.find(|seen| seen.name == "ticks").unwrap());
    };
    totals(first);
    let (held, waited) = totals(second.clone());
    assert_eq!((held, waited), (Some(1.0), Some(3.1)));
    let mut fallen = later(1);
    channel(&mut fallen, &|seen| {
        seen.looked.as_mut().unwrap().lanes[0].waited_ns -= 100_000_000;
    });
    assert_eq!(totals(fallen.clone()).1, waited);
    let mut unreadable = later(2);
    channel(&mut unreadable, &|seen| {
        seen.looked = Err("too many open files".to_owned());
    });
    assert_eq!(totals(unreadable), (None, None));
    fallen.at_ns = later(3).at_ns;
    let (held_later, waited_later) = totals(fallen);
    assert_eq!(waited_later, waited);
    // All three seconds were held, also the second that was not seen.
    assert_eq!(held_later, Some(4.0));
}
