//! What an access log needs of each request.

use std::time::Duration;

use crate::{handler::ConnectionId, shard::Shard};

use super::{server::Server, service::Service};

/// A request and its answer, for [`Service::on_served`](super::Service::on_served).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Served<'a> {
    /// The connection; it may be gone, and then it has no peer address.
    pub connection: ConnectionId,
    /// The method as it came.
    pub method: &'a str,
    /// The request target as it came.
    pub target: &'a str,
    /// The status of the answer; 0 if none was begun.
    pub status: u16,
    /// Bytes of content that the service gave, without framing.
    pub content_bytes: u64,
    /// Whether the answer was finished; `false` if its peer left, its time was over, or the service
    /// gave it up.
    pub is_whole: bool,
    /// Whole milliseconds from the round of the loop that read the head to the round that
    /// finished the answer; 0 for an answer that was given at once.
    pub duration: Duration,
}

/// What is kept of a request whose answer was put off.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) connection: ConnectionId,
    /// The method and the target.
    pub(crate) line: String,
    /// Bytes of the method.
    pub(crate) method: usize,
    pub(crate) status: u16,
    pub(crate) content_bytes: u64,
    pub(crate) is_whole: bool,
    pub(crate) milliseconds: u64,
}

impl<S: Service> Server<S> {
    /// Tells the service of the answers that were put off and have ended.
    pub(super) fn tell_ended(&mut self, shard: &mut Shard<S::Message>) {
        while S::LOGS && !self.state.ended.is_empty() {
            let entry = self.state.ended.remove(0);
            let (method, target) = entry.line.split_at(entry.method);
            let served = Served {
                connection: entry.connection,
                method,
                target,
                status: entry.status,
                content_bytes: entry.content_bytes,
                is_whole: entry.is_whole,
                duration: Duration::from_millis(entry.milliseconds),
            };
            let (service, mut http) = self.http(shard);
            service.on_served(&mut http, &served);
        }
    }
}
