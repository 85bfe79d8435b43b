//! Request bodies that come in several pieces: how they grow, and what all of a shard hold
//! together.

use crate::{handler::ConnectionId, shard::Shard};

use super::{connection::Incoming, server::Server, service::Service, status::Refusal};

impl<S: Service> Server<S> {
    /// Bytes that bodies may still take.
    pub(super) fn room(&self) -> usize {
        self.state
            .limits
            .bodies_bytes()
            .saturating_sub(self.state.held)
    }

    /// Updates the count of what a connection holds.
    pub(super) fn count_body(&mut self, shard: &Shard<S::Message>, id: ConnectionId) {
        if let Some(connection) = self.state.connections.get_mut(id) {
            let holds = connection.head.capacity() + connection.body.capacity();
            let held = std::mem::replace(&mut connection.held, holds);
            self.state.held = self.state.held - held + holds;
            shard.note_body_bytes(self.state.held);
        }
    }

    /// Releases what a connection holds of a request that will not be served.
    pub(super) fn free_body(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        if let Some(connection) = self.state.connections.get_mut(id)
            && connection.held > 0
        {
            shard.give_back(std::mem::take(&mut connection.head));
            shard.give_back_body(std::mem::take(&mut connection.body));
            self.count_body(shard, id);
        }
    }
}

/// Moves what belongs to the body from `data` into `body`, which may grow by `room` bytes; returns
/// how many bytes that was.
pub(super) fn take_body(
    incoming: &mut Incoming,
    data: &[u8],
    body: &mut Vec<u8>,
    max: u64,
    room: usize,
) -> Result<usize, Refusal> {
    match incoming {
        Incoming::Chunked(decoder) => {
            // No chunked body is longer than what carries it.
            grow(body, data.len(), max, room)?;
            decoder.feed(data, body, max)
        }
        Incoming::Length(left) => {
            let take = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
            grow(body, take, body.len() as u64 + *left, room)?;
            body.extend_from_slice(&data[..take]);
            *left -= take as u64;
            Ok(take)
        }
    }
}

/// Makes place for `more` bytes: twice as much as there was, so that a body in many pieces is
/// copied few times, but no more than `total` asks for and `room` allows.
fn grow(body: &mut Vec<u8>, more: usize, total: u64, room: usize) -> Result<(), Refusal> {
    let (have, needed) = (body.capacity(), body.len() + more);
    if needed <= have {
        return Ok(());
    }
    if needed - have > room {
        return Err(Refusal::BodiesTooMany);
    }
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    let wanted = (2 * have).min(total).min(have + room).max(needed);
    body.reserve_exact(wanted - body.len());
    Ok(())
}

pub(super) fn is_complete(incoming: &Incoming) -> bool {
    match incoming {
        Incoming::Length(left) => *left == 0,
        Incoming::Chunked(decoder) => decoder.is_done(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_grows_by_doubling_up_to_its_length_and_never_beyond_its_room() {
        let mut body = Vec::with_capacity(100);
        body.extend_from_slice(&[0; 90]);
        assert_eq!(grow(&mut body, 10, 1000, 0), Ok(()));
        assert_eq!(grow(&mut body, 11, 1000, 0), Err(Refusal::BodiesTooMany));
        assert_eq!(grow(&mut body, 11, 1000, 50), Ok(()));
        assert_eq!(body.capacity(), 150);
        body.extend_from_slice(&[0; 60]);
        assert_eq!(grow(&mut body, 1, 1000, 1000), Ok(()));
        assert_eq!(body.capacity(), 300);
        body.extend_from_slice(&[0; 150]);
        assert_eq!(grow(&mut body, 1, 310, 1000), Ok(()));
        assert_eq!(body.capacity(), 310);
    }
}
