//! Cuts and exports of a journal with damage in the middle.

use super::{Bench, Recorded, code, contents, frame};
use crate::common::{json, said};
use olivine::journal::{Lane, Recorder, RecorderSettings};
use olivine::{Rotation, SyncPolicy};
use serde_json::Value;
use std::path::PathBuf;

/// Records nine messages, and damages these in `bad.olv`. Returns all.
fn damaged(bench: &Bench, messages: &[u32]) -> Vec<Recorded> {
    let mut recorder = bench.recorder("long.olv");
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    for n in 0..9 {
        let end = recorder.end(lane);
        let sent = frame(n, "", format!("message {n}").as_bytes());
        recorder.append(lane, end, u64::from(n), &sent).unwrap();
        // A block for each message.
        recorder.flush().unwrap();
    }
    recorder.close().unwrap();
    let (all, _) = contents(&bench.path("long.olv"));
    let mut bytes = std::fs::read(bench.path("long.olv")).unwrap();
    for n in messages {
        let payload = format!("message {n}");
        let place = bytes
            .windows(9)
            .position(|bytes| bytes == payload.as_bytes());
        bytes[place.unwrap()] ^= 1;
    }
    std::fs::write(bench.path("bad.olv"), &bytes).unwrap();
    all
}

#[test]
fn cut_and_export_that_skip_damage_have_all_that_can_be_read() {
    let bench = Bench::new();
    let mut all = damaged(&bench, &[2, 3, 6]);
    let skips = ["--skip-damage", "--json"];
    let output = bench.run(&[&["cut", "bad.olv", "cut.olv"][..], &skips].concat());
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert!(
        said(&output).contains("accepted: 72 bytes of frames were lost by damage, in 2 places"),
        "{}",
        said(&output)
    );
    let counts = json(&output);
    let [messages, places, bytes] =
        ["messages", "damaged_places", "lost_bytes"].map(|name| counts[name].clone());
    assert_eq!((messages, places, bytes), (6.into(), 2.into(), 72.into()));
    assert_eq!(counts["complete"], false, "{counts}");
    for lost in [6, 3, 2] {
        all.remove(lost);
    }
    // The copy is finished, with holes where messages were lost.
    let found = contents(&bench.path("cut.olv"));
    assert_eq!(found, (all, true));
    let info = json(&bench.run(&["info", "cut.olv", "--json"]));
    assert_eq!(
        (&info["state"], &info["missed_bytes"]),
        (&"incomplete".into(), &72.into())
    );
    let output = bench.run(&["export", "bad.olv", "--skip-damage"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert_eq!(output.stdout.split(|byte| *byte == b'\n').count(), 6 + 1);
}

/// It stopped at the first damage.
#[test]
fn info_reads_on_behind_damage() {
    let bench = Bench::new();
    damaged(&bench, &[2, 3, 6]);
    let output = bench.run(&["info", "bad.olv", "--exact", "--json"]);
    assert_eq!(code(&output), 1, "{}", said(&output));
    let found = json(&output);
    let [state, messages, position, last, places, bytes] = [
        "state",
        "messages",
        "position_bytes",
        "last_unix_ns",
        "damaged_places",
        "lost_bytes",
    ]
    .map(|name| found[name].clone());
    assert_eq!((state, messages), ("damaged".into(), 6.into()), "{found}");
    assert_eq!((position, last), (216.into(), 8.into()), "{found}");
    assert_eq!((places, bytes), (2.into(), 72.into()), "{found}");
    let listed = found["damage"].as_array().unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|place| (&place["lost_bytes"], &place["next_position_bytes"]))
        .collect();
    assert_eq!(
        listed,
        [(&48.into(), &96.into()), (&24.into(), &168.into())],
        "{found}"
    );
    let text = bench.run(&["info", "bad.olv"]);
    assert_eq!(code(&text), 1);
    let text = String::from_utf8(text.stdout).unwrap();
    let told = "; 72 bytes of frames were lost by damage, in 2 places; closed by";
    assert!(text.contains(told), "{text}");
    assert!(text.contains("LOST BYTES"), "{text}");
    // A journal without damage has none.
    let whole = json(&bench.run(&["info", "long.olv", "--json"]));
    let [state, places, bytes, listed] =
        ["state", "damaged_places", "lost_bytes", "damage"].map(|name| whole[name].clone());
    assert_eq!((state, places), ("complete".into(), 0.into()), "{whole}");
    assert_eq!(
        (bytes, listed),
        (0.into(), serde_json::json!([])),
        "{whole}"
    );
}

/// Records messages in several files, and damages the headers of these. Returns all, with the
/// position at which each begins.
fn damaged_headers(bench: &Bench, terms: &[usize]) -> Vec<(PathBuf, u64)> {
    let path = bench.path("files.olv");
    let settings = RecorderSettings::default().rotate(Rotation::by_size(4096));
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    for n in 0..20 {
        let end = recorder.end(lane);
        let sent = frame(n, "", &[7; 1000]);
        recorder.append(lane, end, u64::from(n), &sent).unwrap();
        recorder.flush().unwrap();
    }
    recorder.close().unwrap();
    let later = (1..).map(|term| path.with_extension(format!("olv.{term:06}")));
    let later = later.take_while(|path| path.exists());
    let files: Vec<_> = std::iter::once(path.clone())
        .chain(later)
        .map(|path| {
            let header = std::fs::read(&path).unwrap();
            let start = header[40..48].try_into().unwrap();
            (path, u64::from_le_bytes(start))
        })
        .collect();
    assert!(files.len() > 4);
    for term in terms {
        let path = &files[*term].0;
        let mut bytes = std::fs::read(path).unwrap();
        // Readers flip one bit of a header back.
        bytes[20] ^= 5;
        std::fs::write(path, bytes).unwrap();
    }
    files
}

/// It said 0 bytes.
#[test]
fn lost_bytes_are_unknown_behind_files_that_were_removed() {
    let bench = Bench::new();
    let files = damaged_headers(&bench, &[1]);
    std::fs::remove_file(&files[0].0).unwrap();
    for command in ["cut", "export"] {
        let words = [command, "files.olv", "new.jsonl", "--skip-damage", "--json"];
        let output = bench.run(&words);
        assert_eq!(code(&output), 0, "{}", said(&output));
        let told = "accepted: an unknown number of bytes of frames were lost by damage, in 1 place \
                    that was skipped";
        assert!(said(&output).contains(told), "{}", said(&output));
        let found = json(&output);
        assert_eq!(
            (
                &found["damaged_places"],
                &found["lost_bytes"],
                &found["complete"]
            ),
            (&1.into(), &Value::Null, &false.into()),
            "{command}"
        );
        std::fs::remove_file(bench.path("new.jsonl")).unwrap();
    }
}

#[test]
fn damage_behind_the_end_of_the_part_does_not_count() {
    let bench = Bench::new();
    let last = damaged_headers(&bench, &[]).len() - 1;
    // The damage of the last file has no place behind it.
    for term in [2, last] {
        let bench = Bench::new();
        let files = damaged_headers(&bench, &[term]);
        let start = files[term].1;
        for skips in [&[][..], &["--skip-damage"]] {
            let cut = |to: u64| {
                let to = format!("position:{to}");
                let words = ["cut", "files.olv", "new.olv", "--json", "--to", &to];
                let output = bench.run(&[&words[..], skips].concat());
                std::fs::remove_file(bench.path("new.olv")).unwrap();
                output
            };
            let whole = cut(start);
            assert_eq!(code(&whole), 0, "{}", said(&whole));
            assert_eq!(json(&whole)["complete"], true, "{}", said(&whole));
            // One more message is behind the damage.
            let part = cut(start + 1);
            assert_eq!(json(&part)["complete"], false, "{}", said(&part));
        }
    }
    // The first file was asked for.
    let bench = Bench::new();
    let files = damaged_headers(&bench, &[0]);
    let to = format!("position:{}", files[1].1);
    let output = bench.run(&["cut", "files.olv", "new.olv", "--to", &to]);
    assert_eq!(code(&output), 1, "{}", said(&output));
}

/// A start in a file whose header is lost was refused.
#[test]
fn cut_that_skips_damage_may_begin_in_a_lost_file() {
    let bench = Bench::new();
    let path = bench.path("files.olv");
    let settings = RecorderSettings::default()
        .sync(SyncPolicy::Never)
        .rotate(Rotation::by_size(4096));
    let mut recorder = Recorder::open(&path, &settings).unwrap();
    let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
    for n in 0..12 {
        let end = recorder.end(lane);
        let sent = frame(n, "", &[7; 1000]);
        // In 1971.
        let time = (40_000_000 + u64::from(n)) * 1_000_000_000;
        recorder.append(lane, end, time, &sent).unwrap();
        recorder.flush().unwrap();
    }
    recorder.close().unwrap();
    let (all, _) = contents(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    // One wrong bit would be flipped back.
    bytes[20] ^= 3;
    std::fs::write(&path, &bytes).unwrap();
    for start in ["position:0", "position:100", "time:1971-01-01T00:00:00Z"] {
        let copy = format!("{}.olv", start.replace(':', "-"));
        let words = ["cut", "files.olv", &copy, "--skip-damage", "--from", start];
        let output = bench.run(&words);
        assert_eq!(code(&output), 0, "{start}: {}", said(&output));
        let (found, _) = contents(&bench.path(&copy));
        // The lost file has the first messages.
        assert!((6..12).contains(&found.len()), "{start}: {}", found.len());
        assert!(all.ends_with(&found), "{start}");
    }
}

#[test]
fn journal_is_read_on_behind_damage_from_the_position_of_the_error() {
    let bench = Bench::new();
    let all = damaged(&bench, &[4]);
    let before = bench.run(&["cut", "bad.olv", "before.olv"]);
    assert_eq!(code(&before), 1);
    let said = said(&before);
    let (_, next) = said.split_once("'from=position:").expect(&said);
    let (next, _) = next.split_once('\'').unwrap();
    let start = format!("position:{next}");
    let behind = bench.run(&["cut", "bad.olv", "behind.olv", "--from", &start]);
    assert_eq!(code(&behind), 0, "{}", crate::common::said(&behind));
    assert_eq!(
        contents(&bench.path("behind.olv")),
        (all[5..].to_vec(), true)
    );
    // A handle reads on there, too.
    let uri = format!("file://{}?from={start}", bench.path("bad.olv").display());
    let mut subscriber = olivine::Subscriber::open(&uri).unwrap();
    for message in &all[5..] {
        assert_eq!(*subscriber.receive().unwrap(), *message.payload);
    }
    assert!(matches!(
        subscriber.receive(),
        Err(olivine::ReceiveError::Closed)
    ));
}

/// Only `olivine record` said so.
#[test]
fn publisher_into_a_journal_says_what_it_cut_off() {
    let bench = Bench::new();
    damaged(&bench, &[]);
    let path = bench.path("long.olv");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();
    let uri = format!("file://{}", path.display());
    let publish = || bench.place.olivine(&["pub", &uri, "one more"]).output();
    let first = publish().unwrap();
    assert_eq!(code(&first), 0, "{}", said(&first));
    assert!(
        said(&first).contains("cut a torn tail of "),
        "{}",
        said(&first)
    );
    let second = publish().unwrap();
    assert!(!said(&second).contains("torn tail"), "{}", said(&second));
}
