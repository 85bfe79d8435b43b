//! Fills messages in place: without a buffer, without a copy.

use olivine::{Outgoing, Publisher, Subscriber};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut subscriber = Subscriber::open("inproc://claims")?;
    let mut publisher = Publisher::open("inproc://claims")?;

    let mut claim = publisher.claim(Outgoing::sized(16).tag(42))?;
    // The first content of the bytes is unspecified: write all of them.
    claim[..8].copy_from_slice(&7_u64.to_le_bytes());
    claim[8..].copy_from_slice(&9_u64.to_le_bytes());
    claim.commit();

    // A dropped claim is given up: it stays invisible.
    let mut given_up = publisher.claim(1_000)?;
    given_up.fill(0xff);
    drop(given_up);

    publisher.publish(b"after")?;

    let message = subscriber.receive()?;
    assert_eq!((message.tag(), message.len()), (42, 16));
    assert_eq!((message[0], message[8]), (7, 9));
    assert_eq!(&*subscriber.receive()?, b"after");
    assert!(subscriber.try_receive()?.is_none());
    println!("one claim was committed, one given up");
    Ok(())
}
