//! Named subscribers of `tcp://` that come back after their `expire=`, some without their own ring:
//! each learns once that messages are missing, and only then.

#![cfg(not(loom))]

use crate::common::{TestFolder, free_port, until};
use olivine::{Publisher, ReceiveError, Subscriber};
use std::time::Duration;

/// Folders with channels. A subscriber in the other one has no ring of before, as after a reboot.
const FOLDERS: [&str; 2] = ["here", "there"];

/// A listening publisher, and the URI of its subscriber in each of [`FOLDERS`].
struct Listening {
    _place: TestFolder,
    listens: String,
    connects: [String; 2],
    publisher: Publisher,
    published: u64,
}

impl Listening {
    fn new(query: &str) -> Self {
        let place = TestFolder::new();
        let uri = format!("tcp://127.0.0.1:{}/test?", free_port());
        let dir = |folder: &str| format!("&dir={}", place.file(folder).display());
        let listens = format!("{uri}role=listen&linger=20ms{query}{}", dir(FOLDERS[0]));
        Self {
            publisher: Publisher::open(&listens).unwrap(),
            connects: FOLDERS.map(|folder| format!("{uri}name=away&expire=100ms{}", dir(folder))),
            listens,
            published: 0,
            _place: place,
        }
    }

    /// The next publisher of its name; the one before gives its messages up.
    fn start_again(self) -> Self {
        self.publisher.close().unwrap_err();
        let publisher = Publisher::open(&self.listens).unwrap();
        Self { publisher, ..self }
    }

    fn publish(&mut self, messages: u64) {
        for number in self.published..self.published + messages {
            self.publisher.publish(&number.to_le_bytes()).unwrap();
        }
        self.published += messages;
    }

    /// A subscriber in this folder reads a message, which is acknowledged, and leaves.
    ///
    /// # Errors
    ///
    /// The text of the error that opening or receiving returns.
    fn visit(&mut self, folder: usize) -> Result<(), String> {
        until("the one before has left", || self.peers() == 0);
        let opened = Subscriber::<[u8]>::open(&self.connects[folder]);
        let mut subscriber = opened.map_err(|error| error.to_string())?;
        let mut early = Ok(());
        until("it is connected or fails", || {
            let received = subscriber.receive_timeout(Duration::from_millis(1));
            early = received.map(drop).map_err(text);
            early.is_err() || self.peers() == 1
        });
        early?;
        self.publish(1);
        let last = (self.published - 1).to_le_bytes();
        assert_eq!(*subscriber.receive().map_err(text)?, last);
        assert!(self.publisher.wait_drained(None).unwrap());
        // A drop would not release the message.
        subscriber.close();
        until("it has left", || self.peers() == 0);
        Ok(())
    }

    /// A subscriber in this folder fails because messages are missing, with the text that is
    /// returned. The next one does not.
    fn fails_once(&mut self, folder: usize) -> String {
        let text = self.visit(folder).unwrap_err();
        assert!(text.contains("messages are missing"), "{text}");
        self.visit(folder).unwrap();
        text
    }

    fn peers(&self) -> usize {
        self.publisher.link_status().unwrap().peers
    }

    fn await_expiry(&self) {
        until("it has expired", || self.publisher.count_subscribers() == 0);
    }
}

/// With its source.
fn text(error: ReceiveError) -> String {
    format!("{error:?}")
}

/// It started at `from=`, and nothing was reported.
#[test]
fn expired_subscriber_without_its_ring_fails_once_if_messages_are_missing() {
    for (kept, later) in [(3, 0), (0, 3), (3, 3)] {
        let mut listening = Listening::new("");
        listening.visit(0).unwrap();
        listening.publish(kept);
        listening.await_expiry();
        listening.publish(later);
        let text = listening.fails_once(1);
        assert!(text.contains("'expire='"), "{kept} {later}: {text}");
    }
}

#[test]
fn expired_subscriber_that_missed_nothing_gets_no_failure() {
    for folder in [0, 1] {
        let mut listening = Listening::new("");
        listening.visit(0).unwrap();
        listening.await_expiry();
        listening.visit(folder).unwrap();
    }
}

/// The second publisher finds its place in the ring of the first.
#[test]
fn subscriber_that_expired_over_two_publishers_fails_once() {
    let mut listening = Listening::new("&name=listen");
    listening.visit(0).unwrap();
    listening.publish(3);
    let mut listening = listening.start_again();
    listening.await_expiry();
    listening.fails_once(1);
}

/// Its own ring has a position that the publisher has overwritten since.
#[test]
fn expired_subscriber_with_its_ring_fails_once_if_its_next_message_is_gone() {
    let mut listening = Listening::new("&capacity=64KiB");
    listening.visit(0).unwrap();
    listening.await_expiry();
    listening.publish(10_000);
    listening.fails_once(0);
}

/// The ring keeps the `expire=` that the subscriber asked for last, also for the next publisher.
#[test]
fn place_in_a_ring_has_the_last_expire_of_its_subscriber() {
    let mut listening = Listening::new("&name=listen");
    let short = listening.connects[0].clone();
    listening.connects[0] = short.replace("expire=100ms", "expire=1h");
    listening.visit(0).unwrap();
    listening.publish(1);
    let mut listening = listening.start_again();
    listening.connects[0] = short;
    let opened = Subscriber::<[u8]>::open(&listening.connects[0]);
    let mut subscriber = opened.unwrap();
    subscriber.receive().unwrap();
    assert!(listening.publisher.wait_drained(None).unwrap());
    listening.publish(1);
    drop(subscriber);
    listening.start_again().await_expiry();
}
