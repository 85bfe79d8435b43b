//! A subscriber that does not read holds its publisher back; nothing is dropped.

use olivine::{NotSent, Publisher, Subscriber};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut subscriber = Subscriber::open("inproc://pressure?capacity=4KiB")?;
    let mut publisher = Publisher::open("inproc://pressure")?;

    // `try_publish` never waits: it returns `BackPressured`.
    let mut sent = 0_u64;
    while publisher.try_publish(&sent.to_le_bytes()).is_ok() {
        sent += 1;
    }
    assert_eq!(
        publisher.try_publish(&sent.to_le_bytes()),
        Err(NotSent::BackPressured)
    );
    let waited = publisher.publish_timeout(&sent.to_le_bytes(), Duration::from_millis(5));
    assert_eq!(waited, Err(NotSent::BackPressured));
    println!("{sent} messages fit, up to position {}", publisher.cursor());

    // `publish` waits. The subscriber, in another thread, reads and so releases room.
    let reading = std::thread::spawn(move || -> Result<u64, olivine::ReceiveError> {
        let mut next = 0;
        for message in subscriber.iter() {
            assert_eq!(message?.bytes, u64::to_le_bytes(next));
            next += 1;
        }
        Ok(next)
    });
    for n in sent..10_000 {
        publisher.publish(&n.to_le_bytes())?;
    }
    let count = publisher.stats().back_pressure_count;
    publisher.close()?;
    let read = reading
        .join()
        .map_err(|_| "the reading thread panicked")??;
    assert_eq!(read, 10_000);
    println!("{read} messages read in order; the publisher found no room {count} times");
    Ok(())
}
