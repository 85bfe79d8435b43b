//! What a publisher knows of an error, and what an error of a journal's file says to do.

use crate::common::TestFolder;
use olivine::{BatchNotSent, NotSent, Outgoing, Publisher, Subscriber};
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
fn error_of_a_batch_says_which_message_was_refused() {
    let mut publisher = Publisher::open("inproc://refused-of-batch?capacity=4KiB").unwrap();
    let long = vec![0; 1 << 20];
    let error = publisher.publish_batch([&b"one"[..], b"two", &long]);
    let BatchNotSent { published, reason } = error.unwrap_err();
    assert_eq!(published, 2);
    let begin = "message 2 of the batch, counted from 0, was not sent: the message is too long";
    assert!(error.unwrap_err().to_string().starts_with(begin));
    let described = publisher.describe(reason).of_batch(published);
    assert_eq!(described.index, Some(2));
    assert!(described.to_string().starts_with(begin), "{described}");
    assert!(
        described.to_string().contains("it has 1048576 bytes, and"),
        "{described}"
    );
    assert_eq!(described.id(), reason.id());
}

/// Such a publisher waited for ever.
#[test]
#[cfg(all(feature = "journal", feature = "tcp"))]
fn more_subscribers_than_a_single_far_side_are_refused() {
    let place = TestFolder::new();
    let path = place.file("x.olv");
    for (uri, is_refused) in [
        (format!("file://{}?subscribers=2", path.display()), true),
        (format!("file://{}?subscribers=1", path.display()), false),
        (
            "tcp://127.0.0.1:1/a?role=connect&subscribers=2".to_owned(),
            true,
        ),
        (
            "tcp://127.0.0.1:0/a?role=listen&subscribers=2".to_owned(),
            false,
        ),
    ] {
        match Publisher::<[u8]>::open(&uri) {
            Err(error) if is_refused => {
                assert!(error.to_string().contains("subscribers above 1"), "{error}");
            }
            opened => assert_eq!(opened.is_err(), is_refused, "{uri}: {opened:?}"),
        }
    }
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

/// A NUL in a URI or a value is never the silent end of it.
#[test]
fn nul_in_a_text_is_refused_in_words() {
    for uri in [
        "shm://a\0b",
        "inproc://a\0b",
        "shm://a?dir=/tmp/a\0b",
        "shm://a?name=a\0b",
        "inproc://a?topic=a\0b",
        #[cfg(feature = "journal")]
        "file:///tmp/a\0b.olv",
        "shm+fd:///tmp/a\0b",
        #[cfg(feature = "tcp")]
        "tcp://127.0.0.1:1/a\0b",
        #[cfg(feature = "tcp")]
        "tcp://127.0.0.1\0:1/a",
    ] {
        for error in [
            Publisher::open(uri).map(drop).unwrap_err(),
            Subscriber::open(uri).map(drop).unwrap_err(),
        ] {
            let text = error.to_string();
            let shown = text.contains("a\\u{0}b") || text.contains("127.0.0.1\\u{0}");
            assert!(shown && text.is_ascii(), "{uri:?}: {text:?}");
            assert!(error.id().starts_with("uri."), "{uri:?}: {text:?}");
        }
    }
}

#[test]
fn folder_that_cannot_be_made_says_what_to_do() {
    let place = TestFolder::new();
    let missing = place.file("no/such");
    let error = Publisher::open(&format!("shm://x?dir={}", missing.display())).unwrap_err();
    let text = error.to_string();
    let expected = format!(
        "{} (check the path: its folder must be there)",
        missing.display()
    );
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn key_of_another_scheme_is_refused_with_its_value_and_the_scheme() {
    for (uri, expected) in [
        (
            "shm://x?sync=never",
            "sync=never and shm:// cannot be combined",
        ),
        (
            "file:///x?replicas=3",
            "replicas=3 and file:// cannot be combined",
        ),
        (
            "shm://x?token=hidden",
            "token=*** and shm:// cannot be combined",
        ),
        (
            "shm+fd:///x?publishers_max=2",
            "publishers_max=2 and shm+fd://",
        ),
        ("shm://x?from=position:5", "from=position:5 and shm://"),
    ] {
        let error = olivine::Config::parse(uri).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(error.id(), "uri.misplaced");
    }
}
