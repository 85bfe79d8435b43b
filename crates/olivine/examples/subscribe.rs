//! Receives what the example `publish`, another process, sends. It may be started first.

use olivine::{ReceiveError, Subscriber};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut subscriber = Subscriber::open("shm://example-numbers?capacity=64KiB")?;
    let mut next = 0_u64;
    loop {
        match subscriber.receive_timeout(Duration::from_secs(30)) {
            // A message is a view of the ring: nothing is copied.
            Ok(Some(message)) => {
                assert_eq!(u64::from_le_bytes(message[..].try_into()?), next);
                next += 1;
            }
            Ok(None) => return Err("no publisher came: run the example 'publish' too".into()),
            // Every publisher has closed and everything was read.
            Err(ReceiveError::Closed) => break,
            Err(error) => return Err(error.into()),
        }
    }
    assert_eq!(next, 1_000);
    println!("received {next} messages, none missing, in order");
    Ok(())
}
