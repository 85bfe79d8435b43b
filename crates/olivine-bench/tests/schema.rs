//! The published schema and the result file say the same.

use olivine_bench::clock::TickClock;
use olivine_bench::kernel::Counts;
use olivine_bench::latency::Latency;
use olivine_bench::machine::{Check, Machine};
use olivine_bench::privileges::Privileges;
use olivine_bench::result::file::{SCHEMA, unix_time_s};
use olivine_bench::result::{
    ClockAhead, Collector, Figures, Load, MeasuringError, Outcome, Pair, Parameters, Placement,
    Published, ResultFile, Row, Slice,
};
use serde_json::{Value, json};
use std::path::Path;

/// Makes a bad file of a good one.
type Spoil = fn(&mut Value);

fn schema() -> Value {
    let text = include_str!("../../../docs/bench-schema.json");
    serde_json::from_str(text).unwrap()
}

fn recorder(values: impl IntoIterator<Item = u64>) -> Latency {
    let mut latency = Latency::new();
    values.into_iter().for_each(|value| latency.record(value));
    latency
}

/// A file with a row of each kind, every optional part present somewhere and absent elsewhere.
fn file() -> ResultFile {
    let clock = TickClock::calibrate();
    let samples = recorder((0..20_000).map(|n| 400 + n * n % 977));
    let few = recorder([5, 6, 7]);
    let floor = recorder((0..5_000).map(|n| 300 + n % 40));
    let collect = |figures: &Figures, load, parameters: &Parameters| -> Vec<Row> {
        let mut collector = Collector::new(clock);
        if load == Load::Closed {
            collector.set_session("9f3a");
        }
        for run in 0..5 {
            let slice = Slice {
                run,
                placement: if run == 4 {
                    Placement::Changed
                } else {
                    Placement::Far
                },
                floor: &floor,
                at_s: 0.5,
                kernel: Counts::default(),
                figures,
            };
            collector.add(parameters, &slice);
        }
        collector.rows("pingpong", load, "olivine-shm", parameters)
    };
    let pair = Parameters::pair(32);
    let mut results = collect(&Figures::round_trips(samples.clone()), Load::Closed, &pair);
    let open = Parameters {
        rate_per_s: Some(1e5),
        ring_bytes: Some(1 << 20),
        wait: Some("spin".to_owned()),
        settings: "wait=spin".to_owned(),
        ..pair.clone()
    };
    let mut one_way = Figures::one_way(samples, few);
    one_way.clock_ahead = Some(ClockAhead {
        least_ns: -12.0,
        most_ns: 31.5,
    });
    results.extend(collect(&one_way, Load::Open, &open));
    for figures in [
        Figures::rate(2e6),
        Figures::rate(2e6).with("copy_bytes_per_s", 1e10),
    ] {
        results.extend(collect(&figures, Load::Saturated, &pair));
    }
    if let Outcome::Measured(measured) = &mut results[0].outcome {
        measured.pairs.push(Pair {
            publisher: 0,
            subscriber: 1,
            messages_per_s: 1e6,
        });
    }
    results[0].lacks = "no queue".to_owned();
    results[0].published.push(Published {
        figure: "p50_ns".to_owned(),
        value: 157.0,
        source: "a paper".to_owned(),
        machine: "their machine".to_owned(),
    });
    results.push(Row::failed(
        "pingpong",
        Load::Closed,
        "posix-queue",
        pair,
        "no room for a queue",
    ));
    ResultFile {
        schema: SCHEMA.to_owned(),
        scenario: "pingpong".to_owned(),
        started_unix_s: unix_time_s(),
        machine: Machine {
            checks: vec![Check {
                id: "swap".to_owned(),
                status: "good".to_owned(),
                value: "none".to_owned(),
            }],
            ..Machine::look()
        },
        cpus: vec![0, 1],
        runs: 5,
        seconds_per_variant: 2.0,
        interrupted: false,
        cut_short: true,
        privileges: Privileges {
            real_time: true,
            locked_memory: false,
        },
        measuring_error: MeasuringError::of(&results[..1], &results[..1]),
        results,
        ratios: vec![],
        left_out: vec!["hyper (it has not been built)".to_owned()],
    }
}

#[test]
fn a_result_file_follows_the_published_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let value = serde_json::to_value(file()).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn the_schema_refuses_what_no_result_may_be() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let good = serde_json::to_value(file()).unwrap();
    let spoil: [(&str, Spoil); 6] = [
        ("an unknown field", |v| v["mean_ns"] = json!(3)),
        ("another version", |v| {
            v["schema"] = json!("olivine-bench/0")
        }),
        ("no machine", |v| {
            drop(v.as_object_mut().unwrap().remove("machine"))
        }),
        ("a row without a method", |v| {
            drop(v["results"][0].as_object_mut().unwrap().remove("method"));
        }),
        ("a failure with a figure", |v| {
            let last = v["results"].as_array_mut().unwrap().last_mut().unwrap();
            last["values"] = json!({});
        }),
        ("an unknown cause", |v| {
            v["results"][0]["worst"]["cause"] = json!("bad luck");
        }),
    ];
    for (what, change) in spoil {
        let mut bad = good.clone();
        change(&mut bad);
        assert_ne!(bad, good, "{what}: nothing was changed");
        assert!(!validator.is_valid(&bad), "{what} was accepted");
    }
}

#[test]
fn a_file_reads_back_as_it_was_written() {
    let file = file();
    let text = serde_json::to_string_pretty(&file).unwrap();
    let back = ResultFile::parse(Path::new("x.json"), &text).unwrap();
    assert_eq!(back.results.len(), file.results.len());
    assert_eq!(
        serde_json::to_value(&back).unwrap(),
        serde_json::to_value(&file).unwrap()
    );
    assert_eq!(back.failures().count(), 1);
    let mut whole = back.clone();
    assert!(!back.is_quotable(), "its time was up before it was whole");
    whole.cut_short = false;
    assert!(whole.is_quotable());
}
