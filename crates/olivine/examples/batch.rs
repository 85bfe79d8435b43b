//! Messages that become visible together, at the cost of one.

use olivine::{NotSent, Publisher, Subscriber};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut subscriber = Subscriber::open("inproc://batches?capacity=4KiB")?;
    let mut publisher = Publisher::open("inproc://batches")?;

    let mut batch = publisher.batch();
    for text in ["bid 101", "ask 103", "trade 102"] {
        batch.push(text.as_bytes())?;
    }
    assert_eq!(batch.len(), 3);
    batch.commit();

    let mut seen = Vec::new();
    let keep = |message: olivine::Message<'_>| seen.push(message.to_vec());
    assert_eq!(subscriber.poll(keep, 10)?, 3);
    assert_eq!(seen, [&b"bid 101"[..], b"ask 103", b"trade 102"]);

    // A batch holds as much as the ring has room for. The rest goes into the next batch.
    let mut batch = publisher.batch();
    let refused = loop {
        if let Err(refused) = batch.push(&[0; 56]) {
            break refused;
        }
    };
    assert_eq!(refused, NotSent::BackPressured);
    let fitted = batch.len();
    batch.commit();
    assert_eq!(subscriber.poll(|_| {}, usize::MAX)?, fitted);
    println!("three messages at once, then the {fitted} that fit a ring of 4 KiB");
    Ok(())
}
