//! One program for every scheme: it publishes numbered messages of many lengths, and receives each
//! of them once, in order and whole.
//!
//! ```text
//! anywhere [URI]                both ends in this process; by default inproc://anywhere
//! anywhere URI publish          one end; the other one is in another process, on another
//! anywhere URI subscribe        machine, or runs on another day
//! ```
//!
//! Try `shm://numbers`, `tcp://localhost:9000/numbers`, `nats://localhost/numbers`,
//! `file:///tmp/numbers.olv`. The conformance suite runs these two functions over every scheme.

use olivine::{Publisher, ReceiveError, Subscriber, error_chain};
use std::error::Error;

/// Number of messages.
pub const COUNT: u32 = 20_000;
/// Bytes of the longest message.
const LENGTH_MAX: u32 = 3000;

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Done<()> {
    let mut arguments = std::env::args().skip(1);
    let uri = arguments.next();
    let uri = uri.unwrap_or_else(|| "inproc://anywhere".to_owned());
    match arguments.next().as_deref() {
        None => both(&uri),
        Some("publish") => publish(&uri),
        Some("subscribe") => report(&uri, subscribe(&uri)?),
        Some(other) => Err(format!("'{other}' is neither publish nor subscribe").into()),
    }
}

fn both(uri: &str) -> Done<()> {
    // The publisher waits for the subscriber. A journal needs no subscriber, and is read when it is
    // whole.
    let is_file = uri.starts_with("file:");
    let mark = if uri.contains('?') { '&' } else { '?' };
    let awaiting = format!("{uri}{mark}subscribers=1");
    if is_file {
        publish(uri)?;
        return report(uri, subscribe(uri)?);
    }
    let publishing = std::thread::spawn(move || publish(&awaiting));
    let found = subscribe(uri)?;
    publishing
        .join()
        .map_err(|_| "the publisher has panicked")??;
    report(uri, found)
}

fn report(uri: &str, count: u32) -> Done<()> {
    println!("{count} messages through {uri}: none missing, none twice, in order, whole");
    Ok(())
}

/// Message `number`: the number, and a body computed from it.
fn message(number: u32) -> Vec<u8> {
    let mut word = u64::from(number) + 1;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word
    };
    let most = if next() % 16 == 0 { LENGTH_MAX } else { 64 };
    let length = next() % u64::from(most);
    let body = (0..length).map(|_| next().to_le_bytes()[0]);
    number.to_le_bytes().into_iter().chain(body).collect()
}

/// Sends every message, and returns when all are delivered.
///
/// # Errors
///
/// The error of the channel.
pub fn publish(uri: &str) -> Done<()> {
    let mut publisher = Publisher::open(uri)?;
    for number in 0..COUNT {
        publisher.publish(&message(number))?;
    }
    publisher.close()?;
    Ok(())
}

/// Receives up to the end of the stream; returns the number of messages.
///
/// # Errors
///
/// The error of the channel, or the number of a message that is missing, repeated or damaged.
pub fn subscribe(uri: &str) -> Done<u32> {
    let mut subscriber = Subscriber::open(uri)?;
    let mut expected = 0;
    loop {
        match subscriber.receive() {
            Ok(received) if *received == message(expected)[..] => expected += 1,
            Ok(received) => {
                let found = received.get(..4).map(<[u8]>::to_vec);
                return Err(format!("message {expected} is not as it was sent: {found:?}").into());
            }
            // Every publisher has closed, and everything was received.
            Err(ReceiveError::Closed) if expected == COUNT => return Ok(expected),
            Err(error) => {
                let why = error_chain(&error);
                return Err(format!("after {expected} messages: {why}").into());
            }
        }
    }
}
