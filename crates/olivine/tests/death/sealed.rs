//! Participants of a sealed channel: one serves its socket, the others read; who dies is replaced
//! by one of them.

use crate::lanes::fill;
use crate::roles::{EVERYBODY, PUBLISHERS, REST_MAX, Seen, Stage};
use olivine::{LinkError, NotSent, OpenError, Publisher, ReceiveError, SealedError, Subscriber};
use std::time::Duration;

/// Messages of one life as the publisher: then it makes way for another one.
const LIFE: u64 = 200;

impl Stage<'_> {
    /// Publishes where nobody else does, and else receives, again and again.
    pub(crate) fn publish_or_receive(&self) {
        let mut sequence = 0;
        while !self.stopped(EVERYBODY) {
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

    /// Sends messages from `sequence` on; which one comes next.
    fn serve(&self, mut publisher: Publisher, mut sequence: u64) -> u64 {
        let mut message = Vec::new();
        for _ in 0..LIFE {
            if self.stopped(PUBLISHERS) || !self.may_send(sequence) {
                self.bell.wait(self.bell.count(), REST_MAX);
                break;
            }
            fill(self.session, sequence, &mut message);
            match publisher.publish_timeout(&message, Duration::from_millis(20)) {
                Ok(_) => sequence += 1,
                // A stopped one may hold it back.
                Err(NotSent::BackPressured) => {}
                Err(error) => panic!("{error}"),
            }
        }
        sequence
    }

    /// Reads what one publisher sends, until its end.
    fn listen(&self) {
        let mut subscriber = match Subscriber::open(self.uri) {
            Ok(subscriber) => subscriber,
            // It went, died, or was stopped before it answered.
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
        while !self.stopped(EVERYBODY) {
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
