//! Files of version 1, read as the present version.

use super::{Load, Parameters, floor as limits};
use serde_json::{Map, Value, json};

/// The first field of such a file.
pub(super) const SCHEMA: &str = "olivine-bench/1";

/// Spreads of a row, as they are.
const SPREADS: [&str; 5] = [
    "messages_per_s",
    "ratio_p50",
    "messages_per_floor_round_trip",
    "copy_bytes_per_s",
    "ratio_to_copy",
];
/// Values of a run.
const OF_RUNS: [&str; 3] = ["p50_ns", "messages_per_s", "floor_p50_ns"];

/// Costs of the hardware, with the methods of their rows.
const COSTS: [(&str, &str); 4] = [
    ("system_call_ns", limits::CALL),
    ("futex_wake_ns", limits::WAKE),
    ("futex_round_trip_ns", limits::SLEEPERS),
    ("clock_cost_ns", limits::CLOCK),
];

/// A file of version 1 as a value of the present one.
pub(super) fn translated(mut file: Value) -> Value {
    for row in file["results"].as_array_mut().into_iter().flatten() {
        if row["status"] == "measured" {
            translate(row);
        }
    }
    let floor = file.as_object_mut().and_then(|file| file.remove("floor"));
    let lines = floor.filter(|floor| !floor.is_null());
    if let (Some(floor), Some(results)) = (lines, file["results"].as_array_mut()) {
        results.extend(floor_rows(&floor));
    }
    file["schema"] = json!(super::file::SCHEMA);
    file
}

/// Takes a field that is not null.
fn take(row: &mut Map<String, Value>, name: &str) -> Option<Value> {
    row.remove(name).filter(|value| !value.is_null())
}

fn translate(row: &mut Value) {
    let (bytes, subscribers) = (
        row["size_bytes"].as_f64().unwrap_or(0.0),
        row["subscribers_count"].as_f64().unwrap_or(1.0),
    );
    let Some(row) = row.as_object_mut() else {
        return;
    };
    let mut values = Map::new();
    for name in SPREADS {
        values.extend(take(row, name).map(|spread| (name.to_owned(), spread)));
    }
    // Both were stored for the median run only.
    for name in ["deliveries_per_s", "bytes_per_s"] {
        row.remove(name);
    }
    if let Some(rate) = values.get("messages_per_s").cloned() {
        values.insert("deliveries_per_s".to_owned(), times(&rate, subscribers));
        values.insert("bytes_per_s".to_owned(), times(&rate, subscribers * bytes));
    }
    let distribution = take(row, "round_trip").or_else(|| take(row, "one_way"));
    row.remove("one_way");
    let has_p50 = distribution
        .as_ref()
        .is_some_and(|found| !found["p50_ns"].is_null());
    row.extend(distribution.map(|found| ("distribution".to_owned(), found)));
    let floor = take(row, "floor_round_trip");
    row.extend(floor.map(|found| ("floor".to_owned(), found)));
    let mut medians: Vec<(&str, Vec<f64>)> = OF_RUNS.map(|name| (name, Vec::new())).to_vec();
    for run in row["runs"].as_array_mut().into_iter().flatten() {
        let mut found = Map::new();
        for (name, medians) in &mut medians {
            if let Some(value) = run[*name].as_f64() {
                medians.push(value);
                found.insert((*name).to_owned(), json!(value));
            }
        }
        *run = json!({ "run": run["run"], "values": found });
    }
    for (name, medians) in medians {
        let is_known = name != "p50_ns" || has_p50;
        if let Some(spread) = crate::spread::Spread::of(&medians).filter(|_| is_known) {
            values.entry(name).or_insert_with(|| json!(spread));
        }
    }
    row.insert("values".to_owned(), Value::Object(values));
}

/// A spread with all values multiplied.
fn times(spread: &Value, factor: f64) -> Value {
    let mut spread = spread.clone();
    for name in ["median", "min", "max"] {
        spread[name] = json!(spread[name].as_f64().unwrap_or(0.0) * factor);
    }
    spread
}

/// The hardware limits, which were a separate part.
fn floor_rows(floor: &Value) -> Vec<Value> {
    let lines = floor["cache_line"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let place = lines
        .first()
        .map_or_else(|| json!("changed"), |line| line["placement"].clone());
    let row = |method: &str, parameters: Parameters, values: Value| {
        let mut row = json!({
            "scenario": limits::SCENARIO, "load": Load::Closed, "method": method,
            "status": "measured",
            "placement": place, "slices_count": values_runs(&values), "values": values,
            "runs": [],
            "kernel": crate::kernel::Counts::default(),
        });
        let parameters = json!(parameters);
        if let (Some(row), Value::Object(parameters)) = (row.as_object_mut(), parameters) {
            row.extend(parameters);
        }
        row
    };
    let mut rows = Vec::new();
    for line in lines {
        let values = json!({ "p50_ns": line["round_trip_p50_ns"] });
        let mut line_row = row(limits::LINE, Parameters::pair(0), values);
        line_row["placement"] = line["placement"].clone();
        line_row["slices_count"] = line["slices"].clone();
        line_row["distribution"] = line["round_trip"].clone();
        line_row["distribution"]["buckets_ns"] = json!([]);
        rows.push(line_row);
    }
    let copy = json!({ "bytes_per_s": floor["copy_bytes_per_s"] });
    rows.push(row(limits::COPY, Parameters::pair(0), copy));
    for (name, method) in COSTS {
        if !floor[name].is_null() {
            rows.push(row(
                method,
                Parameters::pair(0),
                json!({ "p50_ns": floor[name] }),
            ));
        }
    }
    rows
}

/// Runs of the only value.
fn values_runs(values: &Value) -> Value {
    let first = values.as_object().and_then(|values| values.values().next());
    first.map_or_else(|| json!(1), |spread| spread["runs"].clone())
}
