//! Sends a thousand numbered messages to the example `subscribe`, another process.
//!
//! Start both, in any order: `cargo run -p olivine --example subscribe` and `--example publish`.

use olivine::Publisher;
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    // The URI holds the settings: a publisher that closes waits up to ten seconds until everything
    // is read.
    let mut publisher = Publisher::open("shm://example-numbers?capacity=64KiB&linger=10s")?;
    // Without a subscriber the messages would not be delivered: a subscriber that comes later
    // starts with the next message.
    let found = publisher.wait_for_subscribers(1, Some(Duration::from_secs(30)))?;
    assert!(found, "no subscriber came: run the example 'subscribe' too");
    for n in 0..1_000_u64 {
        publisher.publish(&n.to_le_bytes())?;
    }
    let end = publisher.close()?;
    println!("published 1000 messages, up to position {end}; all of them were read");
    Ok(())
}
