//! Cuts and exports of a journal with damage in the middle.

use super::{Bench, Recorded, code, contents, frame};
use crate::common::{json, said};
use olivine::journal::Lane;

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
