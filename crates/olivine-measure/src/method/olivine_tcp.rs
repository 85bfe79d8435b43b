//! Olivine over `tcp://` on loopback: on each side a publisher that listens, and a subscriber of
//! the other one.
//!
//! Both sides are pinned, and each has one thread per connection on its CPU. A spinning end would
//! block the thread that it waits for, so this method sleeps.

use super::olivine_shm::Channels;
use super::{Driven, Method, Rendezvous, Side, drive};
use olivine::{Publisher, Subscriber};
use olivine_arena::error::ArenaError;
use std::time::Duration;

/// Longest wait for the other side's subscriber.
const CONNECT_MAX: Duration = Duration::from_secs(5);

pub(super) const TCP: Method = Method::new(
    "olivine-tcp",
    "tcp:// on 127.0.0.1 with wait=park",
    "park",
    open,
)
.batching();

fn open(side: Side, rendezvous: &mut Rendezvous, size: usize, settings: &str) -> Driven {
    let more = if settings.is_empty() { "" } else { "&" };
    // The other end does not wait long for a killed one.
    let wait = if settings.contains("wait=") {
        ""
    } else {
        "wait=park&"
    };
    let query = format!("{wait}linger=1s&expire=1s{more}{settings}");
    let (theirs, ours) = side.from_to("there", "back");
    let mut publisher = Publisher::open(&format!("tcp://127.0.0.1:0/{ours}?{query}"))
        .map_err(ArenaError::method)?;
    let address = publisher.link_status().unwrap_or_default().address;
    let far = rendezvous.exchange(address)?;
    let subscriber =
        Subscriber::open(&format!("tcp://{far}/{theirs}?{query}")).map_err(ArenaError::method)?;
    let joined = publisher.wait_for_subscribers(1, Some(CONNECT_MAX));
    if !joined.map_err(ArenaError::method)? {
        return Err(ArenaError::Protocol {
            found: "no connection of the other side".to_owned(),
        });
    }
    rendezvous.exchange("open")?;
    Ok(drive(Channels::new(publisher, subscriber, size), size))
}
