//! Three publishers, one subscriber: order is kept for each publisher, not between them.

use olivine::{NotSent, Outgoing, Publisher, Subscriber};
use std::error::Error;
use std::thread;

const PUBLISHERS: u32 = 3;
const MESSAGES: u64 = 5_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut subscriber = Subscriber::open("inproc://fan-in?capacity=16KiB")?;
    // All publishers are open before the first one sends. The stream ends when every publisher has
    // closed, and a late publisher would come after the end.
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|_| Publisher::open("inproc://fan-in"))
        .collect::<Result<_, _>>()?;
    let threads: Vec<_> = publishers
        .into_iter()
        .zip(0_u32..)
        .map(|(mut publisher, number)| {
            thread::spawn(move || -> Result<(), NotSent> {
                for n in 0..MESSAGES {
                    // The tag travels in the frame's header and costs no payload.
                    publisher.publish(Outgoing::new(&n.to_le_bytes()).tag(number))?;
                }
                publisher.close().map(|_| ())
            })
        })
        .collect();

    let mut next = [0_u64; PUBLISHERS as usize];
    for message in subscriber.iter() {
        let message = message?;
        let next = &mut next[message.tag as usize];
        assert_eq!(message.bytes, next.to_le_bytes());
        *next += 1;
    }
    for thread in threads {
        thread.join().map_err(|_| "a publisher panicked")??;
    }
    assert_eq!(next, [MESSAGES; PUBLISHERS as usize]);
    println!("{PUBLISHERS} publishers, {MESSAGES} messages of each, in order");
    Ok(())
}
