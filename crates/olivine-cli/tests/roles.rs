//! Every accepted flag has an effect: flags of the other role, and flags without an effect, are
//! refused.

mod common;

use common::{TestFolder, json, said};
use olivine::journal::{Lane, Recorder, RecorderSettings};

#[test]
fn flag_without_effect_is_refused() {
    let cases: [(&[&str], &str); 12] = [
        (&["sub", "x", "--subscribers", "3"], "--subscribers"),
        (&["sub", "x", "--linger", "1s"], "--linger"),
        (&["sub", "x", "--numa", "0"], "--numa"),
        (&["pub", "x", "a", "--delivery", "latest"], "--delivery"),
        (&["pub", "x", "a", "--from", "oldest"], "--from"),
        (&["pub", "x", "a", "--name", "n"], "--name has no meaning"),
        (&["pub", "x", "a", "--stats", "latency"], "olivine sub"),
        (&["pub", "x", "a", "--interval", "2s"], "--stats interval"),
        (&["sub", "x", "--interval", "2s"], "--stats interval"),
        (
            &["pub", "x", "--stdin", "frames", "--tag", "7"],
            "--tag has no meaning",
        ),
        (
            &["pub", "x", "--stdin", "lines", "--size", "7"],
            "--size has no meaning",
        ),
        (
            &["inspect", "file:///no/journal", "--dir", "/x"],
            "--dir has no meaning",
        ),
    ];
    for (words, named) in cases {
        let place = TestFolder::new();
        let output = place.run(words);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            said(&output)
        );
        assert!(
            said(&output).contains(named),
            "{words:?}: {}",
            said(&output)
        );
        assert_eq!(place.left(), Vec::<String>::new(), "{words:?}");
    }
}

#[test]
fn bare_name_is_a_local_channel_in_each_command() {
    let place = TestFolder::new();
    let ok = |words: &[&str]| {
        let output = place.run(words);
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        output
    };
    ok(&["pub", "ticks", "hello"]);
    assert_eq!(json(&ok(&["inspect", "ticks", "--json"]))["name"], "ticks");
    let received = ok(&[
        "sub",
        "ticks?from=oldest",
        "--count",
        "1",
        "--json",
        "--out",
        "json",
    ]);
    let first = String::from_utf8(received.stdout).unwrap();
    let line: serde_json::Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    assert_eq!(line["text"], "hello");
    // A date after this test was written.
    assert!(line["received_unix_ns"].as_u64().unwrap() > 1_700_000_000_000_000_000);
    ok(&["pub", "ticks", "again"]);
    ok(&["rm", "ticks"]);
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn inspect_shows_contents_and_ending_of_a_journal() {
    let place = TestFolder::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.olv");
    let uri = format!("file://{}", path.display());
    let published = place.run(&["pub", &uri, "one", "two", "three", "--log-level", "off"]);
    assert!(published.status.success(), "{}", said(&published));
    let output = place.run(&["inspect", &uri, "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let found = json(&output);
    assert_eq!(found["state"], "complete", "{found}");
    assert_eq!(found["lanes"][0]["messages"], 3, "{found}");
    assert_eq!(found["lanes"][0]["payload_bytes"], 11, "{found}");
    let text = place.run(&["inspect", &uri]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("complete: closed by its recorder"), "{text}");
    // Messages that were not recorded are listed.
    let holes = tempfile::tempdir().unwrap();
    let holed = holes.path().join("holed.olv");
    let settings = RecorderSettings::default();
    let mut recorder = Recorder::open(&holed, &settings).unwrap();
    let lane = recorder.lane(&Lane::new("ticks", 3, 8, 1)).unwrap();
    for at in [64, 640] {
        recorder
            .append(lane, at, 5, &[8, 0, 0, 0, 1, 0, 0, 0])
            .unwrap();
    }
    recorder.close().unwrap();
    let holed = format!("file://{}", holed.display());
    let found = json(&place.run(&["inspect", &holed, "--json"]));
    assert_eq!(found["state"], "incomplete", "{found}");
    let hole = &found["holes"][0];
    assert_eq!(hole["channel"], "ticks", "{found}");
    assert_eq!(hole["publisher"], 3, "{found}");
    assert_eq!(hole["missed_bytes"], 640 - 72, "{found}");
    assert_eq!(hole["lane_position_bytes"], 72, "{found}");
    assert_eq!(hole["position_bytes"], 8, "{found}");
    assert_eq!(found["holes"].as_array().unwrap().len(), 1, "{found}");
    let text = place.run(&["inspect", &holed]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("incomplete: closed by its recorder; 568 bytes"),
        "{text}"
    );
    assert!(text.contains("MISSING BYTES"), "{text}");
    // A flipped bit is reported, and fails.
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap();
    let file = file.unwrap().path();
    let file = if file.is_dir() {
        std::fs::read_dir(file)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path()
    } else {
        file
    };
    let mut bytes = std::fs::read(&file).unwrap();
    let place_of_text = bytes
        .windows(3)
        .position(|window| window == b"two")
        .unwrap();
    bytes[place_of_text] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let output = place.run(&["inspect", &uri, "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(json(&output)["state"], "damaged");
}
