//! `olivine journal`: contents, cuts and exports of whole, unfinished, holed and damaged journals.

mod damage;

use crate::common::{TestFolder, json, said};
use olivine::SyncPolicy;
use olivine::journal::{KnownType, Lane, Recorder, RecorderSettings, Replay};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A text that a terminal, a CSV file or JSON could take for something else.
const HOSTILE: &[u8] = b"\x1b]0;x\x07\",\r\n'=1+1\\ \xc2\x9b";

/// One frame as in a ring, padded to 8 bytes, with an optional topic.
fn frame(tag: u32, topic: &str, payload: &[u8]) -> Vec<u8> {
    let mut body = payload.to_vec();
    if !topic.is_empty() {
        body.extend_from_slice(topic.as_bytes());
        body.push(u8::try_from(topic.len()).unwrap());
    }
    let has_topic = u32::from(!topic.is_empty()) << 31;
    let length = u32::try_from(8 + body.len()).unwrap() | has_topic;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(tag.to_le_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// A message of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Recorded {
    channel: String,
    lane: u32,
    position: u64,
    time_ns: u64,
    tag: u32,
    topic: String,
    payload: Vec<u8>,
}

/// Every message of the journal at `path`, and whether its recording was finished.
fn contents(path: &Path) -> (Vec<Recorded>, bool) {
    let mut replay = Replay::open(path).unwrap();
    let mut found = Vec::new();
    while let Some(run) = replay.next_run().unwrap() {
        found.extend(run.messages().map(|message| Recorded {
            channel: run.lane.channel.clone(),
            lane: run.lane.publisher,
            position: message.position,
            time_ns: run.time_ns,
            tag: message.tag,
            topic: message.topic.to_owned(),
            payload: message.payload.to_vec(),
        }));
    }
    (found, replay.check_finished().is_ok())
}

/// A folder for journals, and the tool.
struct Bench {
    place: TestFolder,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            place: TestFolder::new(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = self.place.olivine(&["journal"]);
        command.args(words).current_dir(self.folder.path());
        command.output().unwrap()
    }

    fn recorder(&self, name: &str) -> Recorder {
        let settings = RecorderSettings::default().sync(SyncPolicy::Never);
        let mut recorder = Recorder::open(&self.path(name), &settings).unwrap();
        recorder.finish_only_by_close();
        recorder
    }

    /// Six messages on three lanes of two channels, one a second from 1970-01-01T00:00:10Z on.
    fn record(&self, name: &str) -> Recorder {
        let mut recorder = self.recorder(name);
        let topics = [
            "orders.eu.new",
            "",
            "orders.us.new",
            "alarms",
            "orders.eu.end",
            "",
        ];
        let channels = [("ticks", 0), ("ticks", 2), ("log", 0)];
        let mut ends = [64, 0, 0];
        for (n, topic) in topics.into_iter().enumerate() {
            let (channel, lane) = channels[n % 3];
            let id = recorder.lane(&Lane::new(channel, lane, 8, 1)).unwrap();
            let payload = match n {
                4 => HOSTILE.to_vec(),
                5 => vec![0xff, 0, 1],
                _ => format!("message {n}").into_bytes(),
            };
            let bytes = frame(u32::try_from(n).unwrap(), topic, &payload);
            let time = (10 + n as u64) * 1_000_000_000;
            recorder.append(id, ends[n % 3], time, &bytes).unwrap();
            ends[n % 3] += bytes.len() as u64;
            recorder.flush().unwrap();
        }
        recorder
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn info_shows_times_counts_topics_lanes_and_files() {
    let bench = Bench::new();
    bench.record("a.olv").close().unwrap();
    let output = bench.run(&["info", "a.olv", "--json"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let found = json(&output);
    assert_eq!(found["state"], "complete");
    assert_eq!(
        (&found["exact"], &found["messages"]),
        (&true.into(), &6.into())
    );
    assert_eq!(found["first_unix_ns"], 10_000_000_000_u64);
    assert_eq!(found["last_unix_ns"], 15_000_000_000_u64);
    assert_eq!(found["lanes"].as_array().unwrap().len(), 3);
    let topics = found["topics"].as_array().unwrap();
    let without = topics.iter().find(|one| one["topic"] == "").unwrap();
    assert_eq!((topics.len(), &without["messages"]), (5, &2.into()));
    assert_eq!(found["missed_bytes"], 0);
    let bytes = std::fs::metadata(bench.path("a.olv")).unwrap().len();
    assert_eq!(found["file_bytes"], bytes);
    // A URI names the same.
    let uri = format!("file://{}", bench.path("a.olv").display());
    let same = json(&bench.run(&["info", &uri, "--json"]));
    assert_eq!(same["messages"], 6);
    let refused = bench.run(&["info", &format!("{uri}?channel=ticks")]);
    assert_eq!(code(&refused), 2, "{}", said(&refused));
    let text = bench.run(&["info", "a.olv"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("first        1970-01-01T00:00:10Z"), "{text}");
    assert!(text.contains("orders.eu.new"), "{text}");
}

/// Bytes that the tool read, as the system counts them.
#[test]
fn info_of_a_long_journal_reads_little_and_says_what_it_estimated() {
    let bench = Bench::new();
    let mut recorder = bench.recorder("long.olv");
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    let run = frame(1, "orders.eu.new", &[b'x'; 978]).repeat(200);
    let mut position = 0;
    for n in 0..400 {
        recorder.append(lane, position, n, &run).unwrap();
        position += run.len() as u64;
    }
    recorder.close().unwrap();
    let bytes = std::fs::metadata(bench.path("long.olv")).unwrap().len();
    assert!(bytes > 80_000_000, "{bytes}");
    let quick = json(&bench.run(&["info", "long.olv", "--json"]));
    assert_eq!(quick["exact"], false);
    assert!(quick["failures"].is_null());
    let reason = quick["reason"].as_str().unwrap();
    let unchecked = "; not checked in whole: only --exact finds damage and earlier failures";
    assert!(reason.ends_with(unchecked), "{reason}");
    assert_eq!(
        quick["estimated"],
        serde_json::json!(["messages", "payload_bytes", "lanes", "topics"])
    );
    // All messages have one size, so the estimate is right.
    assert_eq!(quick["messages"], 80_000, "{quick}");
    assert_eq!(quick["position_bytes"], position);
    assert_eq!(
        (&quick["missed_bytes"], &quick["state"]),
        (&0.into(), &"complete".into())
    );
    let text = String::from_utf8(bench.run(&["info", "long.olv"]).stdout).unwrap();
    assert!(text.contains("messages     ~"), "{text}");
    let exact = json(&bench.run(&["info", "long.olv", "--json", "--exact"]));
    assert_eq!(
        (&exact["exact"], &exact["messages"]),
        (&true.into(), &80_000.into())
    );
    assert_eq!(exact["payload_bytes"], quick["payload_bytes"]);
}

#[test]
fn cut_keeps_a_range_of_times_with_positions_and_leaves_the_source_alone() {
    let bench = Bench::new();
    bench.record("a.olv").close().unwrap();
    let before = std::fs::read(bench.path("a.olv")).unwrap();
    let (all, _) = contents(&bench.path("a.olv"));
    let words = [
        "cut",
        "a.olv",
        "b.olv",
        "--from",
        "time:1970-01-01T00:00:11Z",
        "--to",
        "time:1970-01-01T00:00:14Z",
    ];
    let output = bench.run(&words);
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert_eq!(contents(&bench.path("b.olv")), (all[1..4].to_vec(), true));
    assert_eq!(std::fs::read(bench.path("a.olv")).unwrap(), before);
    // A second time it would overwrite.
    let cut = std::fs::read(bench.path("b.olv")).unwrap();
    let output = bench.run(&words);
    assert_eq!(code(&output), 1);
    assert!(
        said(&output).contains("is not overwritten"),
        "{}",
        said(&output)
    );
    assert_eq!(std::fs::read(bench.path("b.olv")).unwrap(), cut);
    // Positions of the journal count bytes of frames.
    let from = 2 * 8 + 24 + 16;
    let (from, to) = (format!("position:{from}"), format!("position:{}", from + 1));
    let output = bench.run(&["cut", "a.olv", "c.olv", "--from", &from, "--to", &to]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert_eq!(contents(&bench.path("c.olv")).0.len(), 1);
}

/// It made an empty journal, with exit code 0.
#[test]
fn part_without_a_message_in_any_journal_is_refused() {
    let bench = Bench::new();
    bench.record("a.olv").close().unwrap();
    let later = ["--from", "position:200", "--to", "position:100"];
    let behind = ["--from", "position:99999999"];
    let times = [
        "--from",
        "time:1970-01-01T00:00:14Z",
        "--to",
        "time:1970-01-01T00:00:14Z",
    ];
    for (part, expected, words) in [
        (&later[..], 2, "--from is not before --to"),
        (&times, 2, "--from is not before --to"),
        (&behind, 1, "has no position 99999999: it ends at"),
    ] {
        for command in ["cut", "export"] {
            let output = bench.run(&[&[command, "a.olv", "part.csv"], part].concat());
            assert_eq!(code(&output), expected, "{command}: {}", said(&output));
            assert!(said(&output).contains(words), "{}", said(&output));
            assert!(!bench.path("part.csv").exists(), "{command} {part:?}");
        }
    }
    let export = || bench.run(&["export", "a.olv", "part.csv"]);
    assert_eq!(code(&export()), 0);
    let again = export();
    let complaint = said(&again);
    let words = "is not overwritten: name another file [journal.exists]\n";
    assert!(
        code(&again) == 1 && complaint.ends_with(words),
        "{complaint}"
    );
}

#[test]
fn cut_by_lane_and_topic_leaves_a_finished_journal_without_holes() {
    let bench = Bench::new();
    bench.record("a.olv").close().unwrap();
    let (all, _) = contents(&bench.path("a.olv"));
    let lanes = [
        "cut",
        "a.olv",
        "lanes.olv",
        "--of",
        "ticks",
        "--lane",
        "0,2",
    ];
    assert_eq!(code(&bench.run(&lanes)), 0);
    let expected: Vec<_> = all
        .iter()
        .filter(|one| one.channel == "ticks")
        .cloned()
        .collect();
    assert_eq!(contents(&bench.path("lanes.olv")), (expected, true));
    let topics = ["cut", "a.olv", "eu.olv", "--topic", "orders.eu.*"];
    assert_eq!(code(&bench.run(&topics)), 0);
    let (found, finished) = contents(&bench.path("eu.olv"));
    let tags: Vec<_> = found
        .iter()
        .map(|one| (one.tag, one.topic.as_str()))
        .collect();
    assert_eq!(tags, [(0, "orders.eu.new"), (4, "orders.eu.end")]);
    assert!(finished);
    let info = json(&bench.run(&["info", "eu.olv", "--json"]));
    assert_eq!(info["state"], "complete", "{info}");
    // A lane or channel that is not there is not an empty part.
    for missing in [["--lane", "7"], ["--of", "other"]] {
        let output = bench.run(&[&["cut", "a.olv", "none.olv"], &missing[..]].concat());
        assert_eq!(code(&output), 1);
        assert!(said(&output).contains("2 of 'ticks'"), "{}", said(&output));
    }
}

/// A channel that was made again has the same lanes, from position 0 on.
#[test]
fn cut_by_topic_keeps_the_messages_of_each_incarnation() {
    let bench = Bench::new();
    let mut recorder = bench.recorder("twice.olv");
    for incarnation in [1, 2] {
        let lane = Lane::new("ticks", 0, 8, incarnation);
        let id = recorder.lane(&lane).unwrap();
        let bytes = frame(u32::try_from(incarnation).unwrap(), "eu", b"same length");
        recorder.append(id, 0, incarnation, &bytes).unwrap();
    }
    recorder.close().unwrap();
    let output = bench.run(&["cut", "twice.olv", "eu.olv", "--topic", "eu"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let (found, finished) = contents(&bench.path("eu.olv"));
    let tags: Vec<_> = found.iter().map(|one| one.tag).collect();
    assert_eq!((tags, finished), (vec![1, 2], true));
}

/// The first and the last message of a lane, with messages between that were never recorded.
/// Recorders refuse that now, and it stopped the cut half way.
#[test]
fn cut_copies_a_channel_of_several_types() {
    let bench = Bench::new();
    let settings = RecorderSettings::default().sync(SyncPolicy::Never);
    let settings = settings.mixed_types(true);
    let mut recorder = Recorder::open(&bench.path("mixed.olv"), &settings).unwrap();
    for (publisher, name) in [(0, ""), (1, "quote v1"), (2, "order v1")] {
        let lane = Lane::new("ticks", publisher, 8, 1);
        let lane = lane.typed(KnownType::new(publisher.into(), name, ""));
        let id = recorder.lane(&lane).unwrap();
        recorder
            .append(id, 0, 1, &frame(publisher, "", &[0; 8]))
            .unwrap();
    }
    recorder.close().unwrap();
    let output = bench.run(&["cut", "mixed.olv", "cut.olv"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let all = contents(&bench.path("mixed.olv"));
    assert_eq!(all.0.len(), 3);
    assert_eq!(contents(&bench.path("cut.olv")), all);
}

#[test]
fn hole_inside_a_cut_stays_visible_and_must_be_accepted() {
    let bench = Bench::new();
    let mut recorder = bench.recorder("holed.olv");
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    for at in [64, 640] {
        recorder.append(lane, at, 5, &frame(1, "a", b"x")).unwrap();
    }
    recorder.close().unwrap();
    for more in [&[][..], &["--topic", "a"]] {
        let name = format!("cut{}.olv", more.len());
        let output = bench.run(&[&["cut", "holed.olv", &name], more].concat());
        assert_eq!(code(&output), 1);
        let text = said(&output);
        assert!(
            text.contains("560 bytes of frames were never recorded"),
            "{text}"
        );
        let info = json(&bench.run(&["info", &name, "--json"]));
        assert_eq!(
            (&info["state"], &info["missed_bytes"]),
            (&"failed".into(), &560.into())
        );
        let accepted = format!("accepted-{name}");
        let words = ["cut", "holed.olv", &accepted, "--unfinished", "accept"];
        let output = bench.run(&[&words[..], more].concat());
        assert_eq!(code(&output), 0, "{}", said(&output));
        let info = json(&bench.run(&["info", &accepted, "--json"]));
        assert_eq!(info["state"], "incomplete", "{info}");
    }
}

#[test]
fn each_reader_tells_the_reason_of_a_failed_recorder() {
    let bench = Bench::new();
    let recorder = bench.record("failed.olv");
    recorder.close_failed("the sensor is gone").unwrap();
    let info = json(&bench.run(&["info", "failed.olv", "--json"]));
    assert_eq!(info["state"], "failed", "{info}");
    let info = bench.run(&["info", "failed.olv"]);
    let text = String::from_utf8_lossy(&info.stdout);
    assert!(
        text.contains("its recorder failed: the sensor is gone"),
        "{text}"
    );
    let cut = bench.run(&["cut", "failed.olv", "cut.olv"]);
    let uri = format!("file://{}?channel=log", bench.path("failed.olv").display());
    let read = bench.place.olivine(&["sub", &uri]).output().unwrap();
    for (output, id) in [(cut, ""), (read, "[journal.failed]")] {
        let text = said(&output);
        assert_eq!(code(&output), 1, "{text}");
        assert!(text.contains("failed: the sensor is gone"), "{text}");
        assert!(text.contains(id), "{text}");
    }
    let words = [
        "cut",
        "failed.olv",
        "accepted.olv",
        "--unfinished",
        "accept",
    ];
    let output = bench.run(&words);
    assert_eq!(code(&output), 0, "{}", said(&output));
}

/// A later recording hid it; `sub` ended at it, and could not go on; an export of everything said
/// that it was not all; a cut said that its recorder had died.
#[test]
fn each_reader_tells_of_a_failed_recording_before_a_later_one() {
    let bench = Bench::new();
    let recorder = bench.record("failed.olv");
    recorder.close_failed("the sensor is gone").unwrap();
    let mut later = bench.recorder("failed.olv");
    let lane = later.lane(&Lane::new("log", 1, 8, 1)).unwrap();
    later
        .append(lane, 0, 20_000_000_000, &frame(1, "", b"behind"))
        .unwrap();
    later.close().unwrap();
    let info = json(&bench.run(&["info", "failed.olv", "--json"]));
    assert_eq!(info["state"], "incomplete", "{info}");
    assert_eq!(info["failures"][0]["reason"], "the sensor is gone");
    let info = bench.run(&["info", "failed.olv"]);
    let text = String::from_utf8_lossy(&info.stdout);
    assert!(
        text.contains("; 1 earlier recording failed, at position 176: the sensor is gone"),
        "{text}"
    );
    assert!(text.contains("FAILED AT"), "{text}");
    let uri = format!("file://{}?channel=log", bench.path("failed.olv").display());
    for words in [
        &["journal", "cut", "failed.olv", "cut.olv"][..],
        &["journal", "export", "failed.olv", "out.csv"],
        &["sub", &uri],
    ] {
        let mut command = bench.place.olivine(words);
        let output = command.current_dir(bench.path("")).output().unwrap();
        let text = said(&output);
        assert_eq!(code(&output), 1, "{words:?}: {text}");
        assert!(text.contains(": the sensor is gone"), "{words:?}: {text}");
        assert_eq!(text.matches("olivine: ").count(), 1, "{words:?}: {text}");
        match words[0] {
            "sub" => assert!(output.stdout.ends_with(b"behind\n"), "{output:?}"),
            _ => assert!(
                text.contains("messages, all that were recorded: "),
                "{text}"
            ),
        }
    }
    let info = bench.run(&["info", "cut.olv"]);
    let text = String::from_utf8_lossy(&info.stdout);
    assert!(
        text.contains("its recorder failed: the part that was cut"),
        "{text}"
    );
    assert!(text.contains("the sensor is gone"), "{text}");
    let words = ["cut", "failed.olv", "new.olv", "--unfinished", "accept"];
    let output = bench.run(&words);
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert!(said(&output).contains(": the sensor is gone"));
}

#[test]
fn torn_tail_fails_after_everything_before_it_is_cut_and_exported() {
    let bench = Bench::new();
    bench.record("a.olv").close().unwrap();
    let (all, _) = contents(&bench.path("a.olv"));
    let bytes = std::fs::read(bench.path("a.olv")).unwrap();
    // Inside the block of the last message.
    let place = bytes
        .windows(3)
        .rposition(|bytes| bytes == [0xff, 0, 1])
        .unwrap();
    std::fs::write(bench.path("torn.olv"), &bytes[..place]).unwrap();
    let info = bench.run(&["info", "torn.olv", "--json"]);
    assert_eq!((code(&info), &json(&info)["state"]), (0, &"torn".into()));
    let output = bench.run(&["cut", "torn.olv", "cut.olv"]);
    assert_eq!(code(&output), 1);
    assert!(
        said(&output).contains("not a whole block"),
        "{}",
        said(&output)
    );
    assert_eq!(contents(&bench.path("cut.olv")), (all[..5].to_vec(), false));
    for name in ["out.csv", "out.jsonl"] {
        let output = bench.run(&["export", "torn.olv", name]);
        assert_eq!(code(&output), 1);
        let text = said(&output);
        assert!(
            text.contains("an export of 5 messages, and not all"),
            "{text}"
        );
        let output = bench.run(&["export", "torn.olv", name]);
        assert!(
            said(&output).contains("is not overwritten"),
            "{}",
            said(&output)
        );
    }
    let lines = std::fs::read_to_string(bench.path("out.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 5);
    let words = ["export", "torn.olv", "--unfinished", "accept"];
    assert_eq!(code(&bench.run(&words)), 0);
    // Whole blocks before the torn one are all that was asked for.
    let words = ["export", "torn.olv", "--to", "time:1970-01-01T00:00:13Z"];
    let output = bench.run(&words);
    assert_eq!(
        (
            code(&output),
            output.stdout.split(|byte| *byte == b'\n').count()
        ),
        (0, 4)
    );
}

#[test]
fn damage_fails_also_if_unfinished_recordings_are_accepted() {
    let bench = Bench::new();
    bench.record("a.olv").close().unwrap();
    let mut bytes = std::fs::read(bench.path("a.olv")).unwrap();
    let place = bytes
        .windows(9)
        .position(|bytes| bytes == b"message 3")
        .unwrap();
    bytes[place] ^= 1;
    std::fs::write(bench.path("bad.olv"), &bytes).unwrap();
    let output = bench.run(&["export", "bad.olv", "--unfinished", "accept"]);
    assert_eq!(code(&output), 1);
    assert!(
        said(&output).contains("is damaged at byte"),
        "{}",
        said(&output)
    );
    assert_eq!(output.stdout.split(|byte| *byte == b'\n').count(), 3 + 1);
    assert_eq!(code(&bench.run(&["info", "bad.olv"])), 1);
    let output = bench.run(&["export", "none.olv", "none.csv"]);
    assert_eq!(code(&output), 1);
    assert!(!bench.path("none.csv").exists(), "{}", said(&output));
}

#[test]
fn json_lines_and_csv_have_every_field_of_hostile_messages() {
    let bench = Bench::new();
    bench.record("a.olv").close().unwrap();
    let (all, _) = contents(&bench.path("a.olv"));
    let lines = bench.run(&["export", "a.olv"]);
    assert_eq!(code(&lines), 0, "{}", said(&lines));
    let lines = String::from_utf8(lines.stdout).unwrap();
    assert!(
        !lines.contains('\x1b') && !lines.contains('\u{9b}'),
        "{lines}"
    );
    let decode = |text: &str| data_encoding::BASE64.decode(text.as_bytes()).unwrap();
    let parsed: Vec<Recorded> = lines
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let payload = match (&row["text"], &row["base64"]) {
                (Value::String(text), Value::Null) => text.clone().into_bytes(),
                (Value::Null, Value::String(text)) => decode(text),
                other => panic!("{other:?}"),
            };
            Recorded {
                channel: row["channel"].as_str().unwrap().to_owned(),
                lane: u32::try_from(row["lane"].as_u64().unwrap()).unwrap(),
                position: row["position"].as_u64().unwrap(),
                time_ns: row["recorded_unix_ns"].as_u64().unwrap(),
                tag: u32::try_from(row["tag"].as_u64().unwrap()).unwrap(),
                topic: row["topic"].as_str().unwrap().to_owned(),
                payload,
            }
        })
        .collect();
    assert_eq!(parsed, all);
    let output = bench.run(&["export", "a.olv", "a.csv", "--json"]);
    assert_eq!(json(&output)["messages"], 6, "{}", said(&output));
    let mut rows = csv::Reader::from_path(bench.path("a.csv")).unwrap();
    let parsed: Vec<Recorded> = rows
        .records()
        .map(|row| {
            let row = row.unwrap();
            let payload = match &row[7] {
                "text" => row[8].as_bytes().to_vec(),
                "base64" => decode(&row[8]),
                other => panic!("{other}"),
            };
            Recorded {
                channel: row[1].to_owned(),
                lane: row[2].parse().unwrap(),
                position: row[3].parse().unwrap(),
                time_ns: row[0].parse().unwrap(),
                tag: row[5].parse().unwrap(),
                topic: row[6].to_owned(),
                payload,
            }
        })
        .collect();
    assert_eq!(parsed, all);
}

/// Another program of the same library reads what was written.
#[cfg(feature = "arrow")]
#[test]
fn arrow_files_have_every_field() {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, TimestampNanosecondType, UInt32Type, UInt64Type};
    let bench = Bench::new();
    bench.record("a.olv").close().unwrap();
    let (all, _) = contents(&bench.path("a.olv"));
    let output = bench.run(&["export", "a.olv", "a.arrow"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let file = std::fs::File::open(bench.path("a.arrow")).unwrap();
    let mut found = Vec::new();
    for batch in arrow_ipc::reader::FileReader::try_new(file, None).unwrap() {
        let batch = batch.unwrap();
        let column = |name: &str| batch.column_by_name(name).unwrap().clone();
        let (times, lanes) = (column("recorded"), column("lane"));
        let (positions, tags) = (column("position"), column("tag"));
        let (channels, topics, payloads) = (column("channel"), column("topic"), column("payload"));
        let channels = channels.as_dictionary::<Int32Type>();
        let names = channels.values().as_string::<i32>();
        for row in 0..batch.num_rows() {
            let topics = topics.as_string::<i32>();
            let has_topic = arrow_array::Array::is_valid(topics, row);
            let time = times.as_primitive::<TimestampNanosecondType>().value(row);
            found.push(Recorded {
                channel: names.value(channels.key(row).unwrap()).to_owned(),
                lane: lanes.as_primitive::<UInt32Type>().value(row),
                position: positions.as_primitive::<UInt64Type>().value(row),
                time_ns: u64::try_from(time).unwrap(),
                tag: tags.as_primitive::<UInt32Type>().value(row),
                topic: if has_topic {
                    topics.value(row).to_owned()
                } else {
                    String::new()
                },
                payload: payloads.as_binary::<i32>().value(row).to_vec(),
            });
        }
    }
    assert_eq!(found, all);
}

/// Another program of the same library reads what was written, also through a pipe.
#[cfg(feature = "mcap")]
#[test]
fn mcap_files_have_times_topics_and_payloads() {
    let bench = Bench::new();
    bench.record("a.olv").close().unwrap();
    let (all, _) = contents(&bench.path("a.olv"));
    let output = bench.run(&["export", "a.olv", "a.mcap"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let file = std::fs::read(bench.path("a.mcap")).unwrap();
    assert_eq!(
        bench.run(&["export", "a.olv", "--out", "mcap"]).stdout,
        file
    );
    let mut found = Vec::new();
    for message in mcap::MessageStream::new(&file).unwrap() {
        let message = message.unwrap();
        let facts = &message.channel.metadata;
        found.push(Recorded {
            channel: facts["channel"].clone(),
            lane: facts["lane"].parse().unwrap(),
            position: 0,
            time_ns: message.log_time,
            tag: message.sequence,
            topic: facts["topic"].clone(),
            payload: message.data.to_vec(),
        });
    }
    let all: Vec<_> = all
        .into_iter()
        .map(|one| Recorded { position: 0, ..one })
        .collect();
    assert_eq!(found, all);
    let summary = mcap::Summary::read(&file).unwrap().unwrap();
    assert_eq!(summary.stats.unwrap().message_count, 6);
}

/// A limit on the size of files acts like a full disk.
#[test]
fn export_that_cannot_be_written_leaves_no_file_for_the_next_try() {
    let place = TestFolder::new();
    let folder = tempfile::tempdir().unwrap();
    let [journal, csv] = ["a.olv", "a.csv"].map(|name| folder.path().join(name));
    let uri = format!("file://{}", journal.display());
    let published = place.run(&["pub", &uri, &"x".repeat(10_000)]);
    assert!(published.status.success(), "{}", said(&published));
    let [journal, shown] = [&journal, &csv].map(|path| path.display().to_string());
    let words = ["journal", "export", &journal, &shown];
    let script = "ulimit -f 4; exec \"$@\"";
    let mut shell = std::process::Command::new("sh");
    let shell = shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_olivine")]);
    let output = shell
        .args(words)
        .env("OLIVINE_CONFIG", "")
        .output()
        .unwrap();
    assert_eq!(code(&output), 1, "{}", said(&output));
    let refused = format!("cannot write to {shown}: File too large");
    assert!(said(&output).contains(&refused), "{}", said(&output));
    assert!(!csv.exists());
    let output = place.run(&words);
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert!(std::fs::metadata(&csv).unwrap().len() > 10_000);
}

/// Help lists the form, and the refusal names the way to it.
#[cfg(not(feature = "mcap"))]
#[test]
fn form_without_its_library_is_refused_with_the_remedy() {
    let bench = Bench::new();
    bench.record("a.olv").close().unwrap();
    let output = bench.run(&["export", "a.olv", "--out", "mcap"]);
    assert_eq!(code(&output), 2, "{}", said(&output));
    assert!(
        said(&output).contains("cargo feature 'mcap'"),
        "{}",
        said(&output)
    );
}
