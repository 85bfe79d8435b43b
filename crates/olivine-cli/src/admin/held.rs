//! Back-pressure: publishers without room, and the subscribers they wait for.

use olivine::admin::{ChannelInfo, ProcessState, PublisherInfo, SubscriberInfo};
use olivine_bench::text;

/// The state of a subscriber, in a word.
pub(super) fn state(subscriber: &SubscriberInfo) -> &'static str {
    match (subscriber.alive, subscriber.process, subscriber.parked) {
        (false, ..) => "gone",
        (true, ProcessState::Stopped, _) => "stopped",
        (true, _, true) => "asleep",
        (true, _, false) => "awake",
    }
}

/// A line for each publisher that currently waits for room.
pub(super) fn lines(info: &ChannelInfo) -> String {
    let blocked = info
        .publishers
        .iter()
        .filter(|publisher| publisher.blocked_ns > 0);
    blocked.map(|publisher| line(info, publisher)).collect()
}

#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn line(info: &ChannelInfo, publisher: &PublisherInfo) -> String {
    let slot = publisher.blocked_by;
    let reader = info.subscribers.iter().find(|one| Some(one.slot) == slot);
    let reader = match reader {
        Some(found) => {
            let name = found.name.as_ref();
            let name = name.map_or_else(String::new, |name| format!("'{name}', "));
            format!("subscriber {} ({name}{})", found.pid, state(found))
        }
        None => "a subscriber that has gone since".to_owned(),
    };
    format!(
        "held back    {}: publisher {} for {} by {reader}\n",
        info.name,
        publisher.pid,
        text::nanos(publisher.blocked_ns as f64),
    )
}
