//! What a publisher knows of an error.

use crate::common::TestFolder;
use olivine::{NotSent, Outgoing, Publisher, Subscriber};

#[test]
fn described_refusals_have_the_values_of_their_publisher() {
    let place = TestFolder::new();
    let uri = place.uri("described", "subscribers=3");
    let mut publisher = Publisher::open(&uri).unwrap();
    let _one = Subscriber::open(&place.uri("described", "")).unwrap();
    let error = publisher.try_publish(b"x").unwrap_err();
    assert_eq!(error, NotSent::NotConnected);
    let described = publisher.describe(error);
    assert_eq!(described.id(), "send.not-connected");
    let text = described.to_string();
    assert!(text.contains("1 of 'subscribers=3' are there"), "{text}");

    let long = format!("a..\u{1b}{}", "b".repeat(1000));
    let error = publisher.try_publish(Outgoing::new(b"x").topic(&long));
    assert_eq!(error, Err(NotSent::Topic));
    let text = publisher.describe(NotSent::Topic).to_string();
    let shown = format!("given was 'a..\\u{{1b}}{}'", "b".repeat(124));
    assert!(text.ends_with(&shown), "{text}");
}
