//! The basics: publishers, subscribers, order, room, the end.

use olivine::{NotSent, Outgoing, OwnedClaim, Publisher, ReceiveError, Subscriber};

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
        while let Err(error) = publisher.try_publish(&n.to_le_bytes()) {
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

/// Committed, dropped or refused, the claim returns its publisher, which continues where it was.
#[test]
fn owned_claim_returns_its_publisher() {
    let uri = channel("owned");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let publisher = Box::new(Publisher::open(&uri).unwrap());
    let mut claim = OwnedClaim::try_claim(publisher, Outgoing::sized(3).tag(7)).unwrap();
    claim.copy_from_slice(b"one");
    assert!(subscriber.try_receive().unwrap().is_none());
    assert_eq!(claim.publisher().cursor().0, 0);
    let (publisher, position) = claim.commit();
    assert_eq!(position.unwrap(), publisher.cursor());

    let mut claim = OwnedClaim::try_claim(publisher, 1000).unwrap();
    claim.fill(0xff);
    let publisher = claim.abort();
    let (mut publisher, error) = OwnedClaim::try_claim(publisher, 1 << 20).unwrap_err();
    assert!(matches!(error, NotSent::TooLong { .. }), "{error}");
    publisher.publish(b"two").unwrap();
    let message = subscriber.receive().unwrap();
    assert_eq!((&*message, message.tag()), (&b"one"[..], 7));
    assert_eq!(&*subscriber.receive().unwrap(), b"two");

    // A dropped claim closes its publisher: the stream ends after the committed messages.
    let claim = OwnedClaim::try_claim(publisher, 5).unwrap();
    drop(claim);
    assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
}
