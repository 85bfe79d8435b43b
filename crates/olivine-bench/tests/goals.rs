//! Goals of scenarios, from rows that follow a formula.

mod common;

use common::{Kind, rows};
use olivine_bench::result::{Load, Outcome, Parameters, Ratio, Row};
use olivine_bench::scenario::registry::reached;

/// Rows of one session.
fn measured(method: &str, load: Load, parameters: Parameters, value: f64) -> Vec<Row> {
    let kind = Kind {
        scenario: match load {
            Load::Closed => "pingpong",
            _ => "throughput",
        },
        method,
        parameters,
        value,
        load,
        samples: 5_000,
    };
    let mut rows = rows(&kind);
    for row in &mut rows {
        if let Outcome::Measured(measured) = &mut row.outcome {
            measured.session = Some("one".to_owned());
        }
    }
    rows
}

fn stream(method: &str, settings: &str, batch: u64, per_s: f64) -> Vec<Row> {
    let parameters = Parameters {
        batch_count: batch,
        settings: settings.to_owned(),
        ..Parameters::pair(32)
    };
    measured(method, Load::Saturated, parameters, per_s)
}

/// Each ratio: ours, beside, situation, and the median with two digits.
fn said(ratios: &[Ratio]) -> Vec<String> {
    let line = |ratio: &Ratio| {
        let met = ratio
            .target
            .map(|target| target.is_met(ratio.ratio.median))
            .unwrap();
        format!(
            "{} | {} | {} | {:.2} {met}",
            ratio.ours, ratio.beside, ratio.situation, ratio.ratio.median
        )
    };
    ratios.iter().map(line).collect()
}

#[test]
fn streams_are_held_against_polling_and_against_the_best_of_others() {
    let rows = [
        stream("olivine-shm", "wait=spin", 1, 100e6),
        stream("olivine-shm", "wait=spin&take=receive", 1, 70e6),
        stream("olivine-shm", "wait=spin&capacity=1MiB", 16, 200e6),
        stream("olivine-shm", "wait=spin&capacity=4MiB", 16, 400e6),
        stream("olivine-spin", "", 16, 900e6),
        stream("disruptor", "threads", 16, 320e6),
        stream("pipe", "", 16, 38e6),
    ];
    let expected = [
        "olivine-shm take=receive | olivine-shm | 32 B, CPUs shared L3 | 0.70 false",
        "olivine-shm take=receive | olivine-shm | 32 B, CPUs far apart | 0.70 false",
        "olivine-shm capacity=4MiB | disruptor threads | 32 B, batches of 16, CPUs shared L3 \
         | 1.25 true",
        "olivine-shm capacity=4MiB | disruptor threads | 32 B, batches of 16, CPUs far apart \
         | 1.25 true",
        "olivine-shm | 120 M/s | 32 B, CPUs far apart | 0.42 false",
        "olivine-shm take=receive | 120 M/s | 32 B, CPUs far apart | 0.29 false",
        "olivine-shm capacity=1MiB | 150 M/s | 32 B, batches of 16, CPUs far apart | 0.67 false",
        "olivine-shm capacity=4MiB | 150 M/s | 32 B, batches of 16, CPUs far apart | 1.33 true",
    ];
    assert_eq!(said(&reached(&rows.concat())), expected);
}

#[test]
fn rows_that_took_no_turns_are_not_compared() {
    let mut rows = [
        stream("olivine-shm", "", 16, 400e6),
        stream("disruptor", "threads", 16, 320e6),
    ]
    .concat();
    let beside = |rows: &[Row]| {
        let found = reached(rows);
        let is_it = |ratio: &&Ratio| ratio.beside.starts_with("disruptor");
        found.iter().filter(is_it).count()
    };
    assert_eq!(beside(&rows), 2);
    for row in &mut rows[2..] {
        if let Outcome::Measured(measured) = &mut row.outcome {
            measured.session = Some("another".to_owned());
        }
    }
    assert_eq!(beside(&rows), 0);
}

#[test]
fn a_message_of_a_kilobyte_is_held_against_its_copy() {
    let large = |size| measured("olivine-shm", Load::Saturated, Parameters::pair(size), 6e6);
    let found = reached(&[large(1024), large(4096)].concat());
    let copies = found.iter().filter(|ratio| ratio.beside == "copy");
    let copies: Vec<String> = said(&copies.cloned().collect::<Vec<_>>());
    assert_eq!(
        copies,
        [
            "olivine-shm | copy | 1 KiB, CPUs shared L3 | 0.51 false",
            "olivine-shm | copy | 1 KiB, CPUs far apart | 0.26 false",
        ]
    );
}

#[test]
fn round_trips_are_held_against_the_floor_and_over_tcp_against_a_socket() {
    let trip = |method: &str, settings: &str, ns: f64| {
        let parameters = Parameters {
            settings: settings.to_owned(),
            ..Parameters::pair(32)
        };
        measured(method, Load::Closed, parameters, ns)
    };
    let rows = [
        trip("olivine-spin", "", 91.5),
        trip("olivine-spin", "align=64", 61.0),
        trip("olivine-tcp", "", 9_150.0),
        trip("tcp", "", 9_150.0),
        trip("udp", "", 900.0),
    ];
    let found = reached(&rows.concat());
    let near = found.iter().filter(|ratio| ratio.situation.ends_with("L3"));
    let near: Vec<String> = said(&near.cloned().collect::<Vec<_>>());
    assert_eq!(
        near,
        [
            "olivine-spin | bare line, to and fro | 32 B, CPUs shared L3 | 0.75 true",
            "olivine-tcp | tcp | 32 B, CPUs shared L3 | 1.00 true",
        ]
    );
}
