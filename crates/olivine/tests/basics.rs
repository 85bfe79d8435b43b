//! What a user sees first: publishers, subscribers, order, room, the end.

use olivine::{NotSent, Publisher, ReceiveError, Subscriber};

fn channel(name: &str) -> String {
    format!("inproc://basics-{name}?capacity=4KiB")
}

#[test]
fn every_subscriber_gets_every_message_in_order() {
    let uri = channel("order");
    let mut subscribers: Vec<_> = (0..3).map(|_| Subscriber::open(&uri).unwrap()).collect();
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut next = [0_u32; 3];
    for n in 0..10_000_u32 {
        while let Err(error) = publisher.offer(&n.to_le_bytes()) {
            assert_eq!(error, NotSent::BackPressured);
            for (subscriber, next) in subscribers.iter_mut().zip(&mut next) {
                let take = |message: olivine::Message<'_>| {
                    assert_eq!(*message, next.to_le_bytes());
                    *next += 1;
                };
                subscriber.poll(take, usize::MAX).unwrap();
            }
        }
    }
    publisher.close().unwrap();
    for (subscriber, next) in subscribers.iter_mut().zip(next) {
        let number = |m: Result<olivine::OwnedMessage, _>| {
            u32::from_le_bytes(m.unwrap().bytes.try_into().unwrap())
        };
        let left: Vec<_> = subscriber.iter().map(number).collect();
        assert_eq!(left, (next..10_000).collect::<Vec<_>>());
        assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
    }
}
