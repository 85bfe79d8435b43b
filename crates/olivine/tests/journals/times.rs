//! Times of recording beside those of sending, on the same clock.

#![cfg(all(feature = "journal", not(loom)))]

use crate::common::TestFolder;
use crate::file::uri;
use olivine::Publisher;
use olivine::clock::wall_ns;
use olivine::journal::Replay;

/// The recorder took one time for all that it found in a pass, before it found them: a message that
/// came meanwhile had a time before it was sent, and a replay from that time missed it.
#[test]
fn no_message_is_recorded_at_a_time_before_it_was_sent() {
    const COUNT: u64 = 300_000;
    let place = TestFolder::new();
    let path = place.file("times.olv");
    let mut publisher = Publisher::open(&uri(&path, "")).unwrap();
    let mut sent_ns = Vec::new();
    for _ in 0..COUNT {
        let now = wall_ns();
        publisher.publish(&now.to_le_bytes()).unwrap();
        sent_ns.push(now);
    }
    publisher.close().unwrap();
    let mut replay = Replay::open(&path).unwrap();
    let mut count = 0;
    while let Some(run) = replay.next_run().unwrap() {
        for message in run.messages() {
            let sent = u64::from_le_bytes(message.payload.try_into().unwrap());
            assert!(run.time_ns >= sent, "{} < {sent}", run.time_ns);
            count += 1;
        }
    }
    assert_eq!(count, COUNT);
    for sent in sent_ns.iter().step_by(10_007) {
        replay.seek_time(*sent).unwrap();
        let run = replay.next_run().unwrap().expect("it is recorded later");
        let first = run.messages().next().unwrap();
        let first = u64::from_le_bytes(first.payload.try_into().unwrap());
        assert!(first <= *sent, "{first} > {sent}");
    }
}
