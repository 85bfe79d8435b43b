//! Prices for a process that is not trusted: it can read them, and cannot disturb the publisher or
//! other subscribers.
//!
//! The publisher serves a socket. Here the two ends share a process. Usually they are two programs,
//! perhaps of two users: then set `peers=` and `mode=` too. Run it with `cargo run -p olivine
//! --example sealed`.

use olivine::{Publisher, ReceiveError, Subscriber};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::temp_dir().join(format!("olivine-{}.sock", std::process::id()));
    // A subscriber that reads nothing for a second loses its place and does not hold the publisher
    // back.
    let uri = format!("shm+fd://{}?capacity=64KiB&slow=evict:1s", socket.display());
    let mut publisher = Publisher::open(&uri)?;
    let reading = std::thread::spawn({
        let uri = uri.clone();
        move || -> Result<u64, ReceiveError> {
            let mut subscriber = Subscriber::open(&uri).expect("its publisher is there");
            let mut sum = 0;
            loop {
                match subscriber.receive() {
                    // A copy: the publisher cannot change it any more.
                    Ok(price) => sum += u64::from(price[0]),
                    Err(ReceiveError::Closed) => return Ok(sum),
                    Err(error) => return Err(error),
                }
            }
        }
    });
    publisher.wait_for_subscribers(1, None)?;
    for price in 1..=100_u8 {
        publisher.publish(&[price])?;
    }
    publisher.close()?;
    let sum = reading.join().expect("no panic")?;
    assert_eq!(sum, 5050);
    println!("100 prices reached the process; their sum is {sum}");
    Ok(())
}
