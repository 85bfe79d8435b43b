//! Polls of frames that no publisher of the channel writes.

use crate::error::{Damage, ReceiveError};
use crate::ring::layout::with_topic;
use crate::{Publisher, Subscriber};

#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn first_of_several_bad_frames_is_reported() {
    let uri = "inproc://bad-frames?capacity=4KiB";
    let mut publisher = Publisher::open(uri).unwrap();
    let mut subscriber = Subscriber::open(uri).unwrap();
    publisher.publish(b"good").unwrap();
    let first = publisher.cursor().0;
    for length in 2..5 {
        // Marked as one with a topic. Its last byte gives a topic that is longer than the message.
        let mut claim = publisher.try_claim(length).unwrap();
        claim.fill(200);
        claim.carried = with_topic(length);
        claim.commit();
    }
    publisher.publish(b"good").unwrap();
    let mut good = 0;
    let error = subscriber.poll(|_| good += 1, 10).unwrap_err();
    let ReceiveError::Corrupt {
        position,
        damage: Damage::Topic { bytes },
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((position, bytes, good), (first, 2, 2));
}
