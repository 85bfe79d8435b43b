//! Participants of a sealed channel: one serves its socket, the others read; one of them replaces a
//! dead publisher.

use crate::lanes::fill;
use crate::roles::{ALL, PUBLISHERS, REST_MAX, Seen, Stage};
use olivine::{LinkError, NotSent, OpenError, Publisher, ReceiveError, SealedError, Subscriber};
use std::time::Duration;

/// Messages of one publisher before it lets another one publish.
const LIFE: u64 = 200;

impl Stage<'_> {
    /// Publishes if no other does, otherwise receives, again and again.
    pub(crate) fn publish_or_receive(&self) {
        let mut sequence = 0;
        while !self.stopped(ALL) {
            match Publisher::open(self.uri) {
                Ok(publisher) => sequence = self.serve(publisher, sequence),
                Err(OpenError::Link(LinkError::Sealed(error)))
                    if matches!(&*error, SealedError::InUse { .. }) =>
                {
                    self.listen();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Sends messages from `sequence` on; returns the next one.
    fn serve(&self, mut publisher: Publisher, mut sequence: u64) -> u64 {
        let mut message = Vec::new();
        for _ in 0..LIFE {
            if self.stopped(PUBLISHERS) || !self.may_send(sequence) {
                self.wake_word.wait(self.wake_word.count(), REST_MAX);
                break;
            }
            fill(self.session, sequence, &mut message);
            match publisher.publish_timeout(&message, Duration::from_millis(20)) {
                Ok(_) => sequence += 1,
                // A stopped subscriber may hold it back.
                Err(NotSent::BackPressured) => {}
                Err(error) => panic!("{error}"),
            }
        }
        sequence
    }

    /// Reads one publisher's messages until its end.
    fn listen(&self) {
        let mut subscriber = match Subscriber::open(self.uri) {
            Ok(subscriber) => subscriber,
            // It left, died, or was stopped before it replied.
            Err(OpenError::Link(LinkError::Sealed(error)))
                if matches!(
                    &*error,
                    SealedError::NoPublisher { .. } | SealedError::NoAnswer { .. }
                ) =>
            {
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let mut seen = Seen::default();
        while !self.stopped(ALL) {
            match subscriber.receive_timeout(REST_MAX) {
                Ok(Some(message)) => self.take(&message, &mut seen),
                Ok(None) => {}
                Err(ReceiveError::Closed) => return,
                Err(ReceiveError::Failed(LinkError::Sealed(error)))
                    if matches!(&*error, SealedError::Died { .. }) =>
                {
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
