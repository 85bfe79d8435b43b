//! `olivine bench bridge`: figures of every part that can run here, and a line for each missing
//! program.

mod common;

use common::{TestFolder, json, said};

#[test]
fn every_part_has_figures_and_missing_programs_are_named() {
    if !common::has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    let folder = place.path().join("disk");
    std::fs::create_dir(&folder).unwrap();
    let words = [
        "bench",
        "bridge",
        "--runs",
        "1",
        "--seconds",
        "0.1",
        "--rate",
        "1K",
        "--rivals",
        folder.to_str().unwrap(),
        "--folder",
        folder.to_str().unwrap(),
        "--json",
    ];
    let output = place.run(&words);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    for rival in ["zeromq", "nats"] {
        let folder = folder.display();
        let line = format!("{rival} is left out: no rival-{rival} in {folder}");
        assert_eq!(told.matches(&line).count(), 1, "{told}");
    }
    let report = json(&output);
    let schema = serde_json::from_str(include_str!("../../../docs/bench-schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&report)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let rows = report["results"].as_array().unwrap();
    let has = |scenario: &str, method: &str, figure: &str| {
        rows.iter().any(|row| {
            row["scenario"] == scenario
                && row["method"] == method
                && row["values"][figure].is_object()
        })
    };
    for method in ["olivine-tcp", "bare socket"] {
        assert!(has("bridge-paced", method, "p50_ns"), "{method}: {told}");
    }
    for method in ["olivine-tcp 1 MiB", "olivine-tcp 4 MiB"] {
        assert!(has("bridge-stream", method, "messages_per_s"), "{method}");
    }
    for method in ["subscriber on shm://", "bridge to tcp://"] {
        assert!(has("bridge-cost", method, "messages_per_s"), "{method}");
    }
    for method in ["file:// sync=block", "disk, a sync each 4 MiB"] {
        assert!(has("bridge-disk", method, "messages_per_s"), "{method}");
    }
    let no_server = told.contains("no nats-server is installed")
        || told.contains("build the tool with the cargo feature 'nats'");
    assert!(no_server || has("bridge-stored", "nats://", "messages_per_s"));
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        0,
        "left behind"
    );
    std::fs::remove_dir(&folder).unwrap();
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn unknown_part_is_refused_with_the_known_ones() {
    let output = TestFolder::new().run(&["bench", "bridge", "warp"]);
    assert_eq!(output.status.code(), Some(2));
    let told = said(&output);
    assert!(
        told.contains("'warp'") && told.contains("paced, stream"),
        "{told}"
    );
}
