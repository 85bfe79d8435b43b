//! Messages that are numbers, sent and expected in order.

use olivine::{Publisher, Subscriber};
use std::time::Duration;

pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const SHORT: Duration = Duration::from_millis(20);

pub(crate) fn number(message: &[u8]) -> u32 {
    u32::from_le_bytes(message.try_into().unwrap())
}

pub(crate) fn send(publisher: &mut Publisher, numbers: std::ops::Range<u32>) {
    for n in numbers {
        publisher.publish(&n.to_le_bytes()).unwrap();
    }
}

pub(crate) fn expect(subscriber: &mut Subscriber, numbers: std::ops::Range<u32>) {
    for n in numbers {
        let received = super::receive(subscriber, |message| number(message));
        assert_eq!(received, n);
    }
}

/// Sends until there is no room; returns how many fitted.
pub(crate) fn fill(publisher: &mut Publisher) -> u32 {
    let mut sent = 0_u32;
    while publisher.try_publish(&sent.to_le_bytes()).is_ok() {
        sent += 1;
    }
    sent
}
