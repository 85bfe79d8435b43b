//! Messages of one plain-data type, sent and read as their own bytes.

use olivine::{OpenError, Publisher, Subscriber};
use std::error::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[derive(Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Quote {
    bid: i64,
    ask: i64,
    sequence: u64,
}

// Name and fields are stored in the channel: `olivine sub --out json` prints them.
olivine::plain!(Quote, "quote v1", [bid, ask, sequence]);

fn main() -> Result<(), Box<dyn Error>> {
    let mut subscriber = Subscriber::<Quote>::typed("inproc://quotes")?;
    let mut publisher = Publisher::<Quote>::typed("inproc://quotes")?;
    let quote = Quote {
        bid: 10_150,
        ask: 10_153,
        sequence: 1,
    };
    publisher.publish(&quote)?;
    let received = subscriber.receive()?;
    assert_eq!(*received, quote);
    println!("received {:?}", *received);

    // A subscriber without a type reads the messages as bytes. A publisher without a type is
    // refused.
    let _bytes = Subscriber::open("inproc://quotes")?;
    match Publisher::open("inproc://quotes") {
        Err(error @ OpenError::Type { .. }) => println!("refused: {error}"),
        other => return Err(format!("not refused: {other:?}").into()),
    }
    Ok(())
}
