//! Messages in parts, while subscribers join and leave between the parts.

use super::*;
use crate::Subscriber;
use crate::link::Stop;
use crate::region::HEADER_BYTES;

/// Bytes of the ring, and of a message that takes most of it.
const CAPACITY: usize = 4096;
const LONG: usize = 2000;

/// A frame as in a ring: header, payload, padding.
fn frame(kind: u8, length: usize) -> Vec<u8> {
    let mut bytes = (length as u64 + HEADER_BYTES).to_le_bytes().to_vec();
    bytes.resize(bytes.len() + length, kind);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// An ingress from lane 0 of a source into the ring `uri`.
fn carrier(uri: &str) -> Ingress {
    let mut carrier = ingress(uri);
    carrier.open_from(7, 0, 0).unwrap();
    carrier
}

/// An ingress whose bridge was asked to stop, into the ring `uri`.
fn ingress(uri: &str) -> Ingress {
    let typed = TypeTag {
        any: true,
        ..TypeTag::default()
    };
    let config = Config::parse(uri).unwrap();
    let control = Control::new().unwrap();
    control.stop(Stop::Now);
    let source = LaneSource::new("a test", Duration::ZERO);
    Ingress::open(&config, typed, source, "a test", &control).unwrap()
}

fn shm(name: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!(
        "shm://{name}?dir={}&capacity={CAPACITY}",
        folder.path().join("channels").display()
    );
    (folder, uri)
}

fn kinds(subscriber: &mut Subscriber) -> Vec<(u8, usize)> {
    let mut found = Vec::new();
    subscriber
        .poll(
            |message| {
                assert!(message.iter().all(|byte| *byte == message[0]), "torn");
                found.push((message[0], message.len()));
            },
            100,
        )
        .unwrap();
    found
}

/// Room for the first part is room for the last part, whichever subscriber joins in between: no
/// later part is refused.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn joining_subscriber_takes_no_room_of_a_partial_message() {
    for from in ["now", "oldest"] {
        let (_folder, uri) = shm("pieces");
        let mut carrier = carrier(&uri);
        let mut position = 0;
        // No subscriber: the oldest messages are forgotten, and the rest is history.
        for kind in 0..20 {
            let bytes = frame(kind, 400);
            carrier.take(0, position, &bytes).unwrap();
            position += bytes.len() as u64;
        }
        let whole = frame(99, LONG);
        let mut joined = Vec::new();
        let mut sent = 0;
        for part in [8, 800, 1000, whole.len() - 1808] {
            carrier
                .take(0, position + sent as u64, &whole[sent..sent + part])
                .unwrap();
            sent += part;
            if sent < whole.len() {
                joined.push(Subscriber::open(&format!("{uri}&from={from}")).unwrap());
                assert_eq!(carrier.acknowledged(0), Some(position), "half a message");
                // Both read the gate between two parts.
                carrier.room(0);
                carrier.request_room(0, 0);
                carrier.retry_room();
            }
        }
        assert_eq!(carrier.acknowledged(0), Some(position + whole.len() as u64));
        for subscriber in &mut joined {
            let found = kinds(subscriber);
            assert_eq!(found.last(), Some(&(99, LONG)), "{from}: {found:?}");
            assert_eq!(found.len() == 1, from == "now", "{from}: {found:?}");
        }
    }
}

/// A message without room is not taken, not even its first part; messages before it are. The source
/// sends all of it again.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn first_part_without_room_is_refused() {
    let (_folder, uri) = shm("no-room");
    let mut carrier = carrier(&uri);
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let first = frame(1, LONG);
    carrier.take(0, 0, &first).unwrap();
    let (small, second) = (frame(2, 100), frame(3, LONG));
    let place = first.len() as u64;
    let both = [&small[..], &second[..800]].concat();
    let answer = carrier.take(0, place, &both).unwrap_err();
    let NotTaken::NoRoom { taken } = answer else {
        panic!("{answer}");
    };
    assert_eq!(taken, small.len());
    let place = place + taken as u64;
    assert_eq!(carrier.acknowledged(0), Some(place));
    assert_eq!(kinds(&mut subscriber), [(1, LONG), (2, 100)]);
    drop(subscriber);
    let mut late = Subscriber::open(&uri).unwrap();
    carrier.take(0, place, &second[..800]).unwrap();
    carrier.take(0, place + 800, &second[800..]).unwrap();
    assert_eq!(kinds(&mut late), [(3, LONG)]);
}

/// It left the lane like that of a dead publisher, and the next source was reported as a loss.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn ended_lane_stays_ended_after_a_bridge_whose_source_did_not_come() {
    let (_folder, uri) = shm("ended");
    let _near = Subscriber::open(&uri).unwrap();
    let mut carrier = carrier(&uri);
    carrier.close_lane(0);
    drop(carrier);
    for _ in 0..2 {
        let later = ingress(&uri);
        assert_eq!(later.lanes[0].kept, Some(false));
    }
}

/// A subscriber got a second end, before the first message of the next source.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn bridge_without_a_source_ends_no_lane_again() {
    let (_folder, uri) = shm("again");
    let _near = Subscriber::open(&uri).unwrap();
    let mut carrier = carrier(&uri);
    carrier.close_lane(0);
    drop(carrier);
    let mut late = Subscriber::open(&uri).unwrap();
    let mut later = ingress(&uri);
    later.follow(99).unwrap();
    let mut sees_no_end = || (0..100).for_each(|_| assert_eq!(late.poll(|_| (), 1).unwrap(), 0));
    sees_no_end();
    drop(later);
    drop(ingress(&uri));
    sees_no_end();
}

/// Subscribers got the failure of before behind the new messages.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn stopped_bridge_leaves_a_lane_open_that_failed_before_and_went_on() {
    let (_folder, uri) = shm("went-on");
    let mut near = Subscriber::open(&uri).unwrap();
    let mut failing = carrier(&uri);
    failing.fail_lanes("worn", AfterFailure::Kept).unwrap();
    drop(failing);
    assert!(near.receive().is_err());
    let mut later = ingress(&uri);
    let frame = frame(1, 100);
    // As a relay does: the lane is open, so it is not announced.
    let place = later.acknowledged(0).unwrap();
    later.take(0, place, &frame).unwrap();
    drop(later);
    assert_eq!(kinds(&mut near), [(1, 100)]);
    for _ in 0..100 {
        assert_eq!(near.poll(|_| (), 1).unwrap(), 0);
    }
}

/// The check was before the taking, and a bridge that was between the two took another lane.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn lane_of_a_source_is_taken_by_one_bridge() {
    let (_folder, uri) = shm("once");
    let (mut first, mut second) = (ingress(&uri), ingress(&uri));
    let opened = [first.open_from(7, 0, 0), second.open_from(7, 0, 0)];
    let [Ok(()), Err(NotTaken::Ring(refused))] = opened else {
        panic!("{opened:?}");
    };
    assert!(refused.to_string().contains("a test"), "{refused}");
    drop(first);
    second.open_from(7, 0, 0).unwrap();
}

/// An end without messages removed the ring, and the next message found none.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn lane_opens_again_after_the_last_participant_removed_the_ring() {
    let (_folder, uri) = shm("removed");
    let mut carrier = carrier(&uri);
    carrier.close_lane(0);
    carrier.open_from(7, 0, 0).unwrap();
    carrier.take(0, 0, &frame(1, 100)).unwrap();
}

/// A regression: a source that stayed away until its lanes were freed, and came back, went back to
/// its last acknowledgement and repeated what was committed since.
#[test]
#[cfg(feature = "tcp")]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn source_of_freed_lanes_continues_behind_the_last_commit() {
    let (_folder, uri) = shm("freed");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut source = carrier(&uri);
    let (first, second) = (frame(1, 400), frame(2, 400));
    let end = first.len() as u64;
    source.take(0, 0, &first).unwrap();
    assert_eq!(kinds(&mut subscriber), [(1, 400)]);
    let freed = source.abandon("it stayed away");
    let failed = subscriber.receive_timeout(Duration::from_secs(60));
    assert!(
        matches!(failed, Err(crate::ReceiveError::Failed(_))),
        "{failed:?}"
    );

    let mut source = ingress(&uri);
    assert_eq!(source.resume(7), [], "the lane is free for others");
    source.continue_at(freed);
    assert_eq!(source.resume(7), [(0, end)]);
    assert_eq!(source.resume(8), [], "another channel of the source");
    let refused = source.open_from(7, 0, 0).unwrap_err();
    assert!(matches!(refused, NotTaken::Wrong { .. }), "{refused:?}");
    source.open_from(7, 0, end).unwrap();
    source.take(0, end, &second).unwrap();
    assert_eq!(kinds(&mut subscriber), [(2, 400)]);
    let end = end + second.len() as u64;
    assert_eq!(source.resume(7), [(0, end)]);

    // It stays away once more, and again before it announces anything.
    let freed = source.abandon("it stayed away");
    let mut source = ingress(&uri);
    source.continue_at(freed.clone());
    assert_eq!(source.abandon("it stayed away"), freed);
}
