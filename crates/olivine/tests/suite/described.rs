//! What a publisher knows of an error, and what an error of a journal's file says to do.

use crate::common::TestFolder;
use olivine::{NotSent, Outgoing, Publisher, Subscriber};
use std::error::Error;

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

#[test]
#[cfg(feature = "journal")]
fn error_of_a_journal_without_its_folder_says_what_to_do() {
    let place = TestFolder::new();
    let path = place.file("no/such/x.olv");
    let error = Publisher::open(&format!("file://{}", path.display())).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("its folder must be there"), "{text}");
    assert!(error.source().is_some(), "{text}");
    let error = Subscriber::open(&format!("file://{}", path.display()));
    let text = match error {
        Err(error) => error.to_string(),
        Ok(mut subscriber) => {
            let error = subscriber.receive().unwrap_err();
            error.source().map(ToString::to_string).unwrap_or_default()
        }
    };
    assert!(text.contains("'follow=yes'"), "{text}");
}
