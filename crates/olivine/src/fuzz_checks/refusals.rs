//! Errors that damaged memory explains. The test `hostile` includes this file, too.

use super::{LinkError, OpenError, ReceiveError};

/// Whether opening may fail for this reason, for any content of the files of a channel.
pub(crate) fn is_refusal(error: &OpenError) -> bool {
    matches!(
        error,
        OpenError::NotAChannel { .. }
            | OpenError::Layout { .. }
            | OpenError::EarlierBoot { .. }
            | OpenError::Mismatch { .. }
            | OpenError::Type { .. }
            | OpenError::PublishersFull { .. }
            | OpenError::SubscribersFull { .. }
    )
}

/// Whether a subscriber may stop reading for this reason; `refused` judges a lane that it cannot
/// open.
pub(crate) fn ends_reading(error: &ReceiveError, refused: impl Fn(&OpenError) -> bool) -> bool {
    match error {
        ReceiveError::Closed
        | ReceiveError::Evicted
        | ReceiveError::Overrun { .. }
        | ReceiveError::Corrupt { .. }
        | ReceiveError::Failed(LinkError::Upstream { .. }) => true,
        ReceiveError::Lane { source, .. } => refused(source),
        _ => false,
    }
}
