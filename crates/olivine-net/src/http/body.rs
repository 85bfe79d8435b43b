//! Request bodies that come in several pieces: how they grow, and what all of a shard hold
//! together.

use crate::{handler::ConnectionId, shard::Shard};

use super::{chunk::Decoder, connection::State, server::Server, service::Service, status::Refusal};

/// Those of complete bodies that are kept for use again.
const SPARE_MAX: usize = 64;

/// How the rest of an incomplete body is read.
#[derive(Clone, Debug)]
pub(super) enum Incoming {
    Length(u64),
    Chunked(Decoder),
}

/// A body that comes in pieces: apart from its connection, because most have none.
#[derive(Debug)]
pub(crate) struct Arriving {
    pub(super) incoming: Incoming,
    /// The most bytes that it may have.
    pub(super) max: u64,
    /// Bytes that came since its rate was last looked at.
    pub(super) rate_bytes: u64,
    /// The tick at which the rate of a streamed body is looked at, unless it is paused.
    pub(super) rate_until: u64,
    /// Milliseconds to that time when the service paused it.
    pub(super) rate_left: u64,
    /// The tick at which the time of a collected body is over.
    pub(super) until: u64,
    /// The head of the request asks for an interim answer, which is still to be sent.
    pub(super) awaits_continue: bool,
    /// A copy of the head of a collected one.
    pub(super) head: Vec<u8>,
    /// What of it was collected.
    pub(super) body: Vec<u8>,
    /// Capacity of `head` and `body` as the server has counted it.
    held: usize,
}

impl State {
    /// What a body needs that comes in pieces; a spare piece of memory if there is any.
    pub(super) fn arriving(&mut self, incoming: Incoming, max: u64) -> Box<Arriving> {
        let fresh = Arriving {
            incoming,
            max,
            rate_bytes: 0,
            rate_until: 0,
            rate_left: 0,
            until: u64::MAX,
            awaits_continue: false,
            head: Vec::new(),
            body: Vec::new(),
            held: 0,
        };
        match self.spare.pop() {
            Some(mut spare) => {
                *spare = fresh;
                spare
            }
            None => Box::new(fresh),
        }
    }

    /// Takes back what a body needed, which holds nothing any more.
    pub(super) fn spare(&mut self, arriving: Box<Arriving>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(arriving);
        }
    }
}

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
        if let Some(connection) = self.state.connections.get_mut(id)
            && let Some(arriving) = &mut connection.arriving
        {
            let holds = arriving.head.capacity() + arriving.body.capacity();
            let held = std::mem::replace(&mut arriving.held, holds);
            self.state.held = self.state.held - held + holds;
            shard.note_body_bytes(self.state.held);
        }
    }

    /// Takes the body of a connection off it, and its bytes off the count.
    pub(super) fn take_arriving(
        &mut self,
        shard: &Shard<S::Message>,
        id: ConnectionId,
    ) -> Option<Box<Arriving>> {
        let arriving = self.state.connections.get_mut(id)?.arriving.take()?;
        self.state.held -= arriving.held;
        shard.note_body_bytes(self.state.held);
        Some(arriving)
    }

    /// Releases what a body held.
    pub(super) fn release(&mut self, shard: &mut Shard<S::Message>, mut arriving: Box<Arriving>) {
        shard.give_back(std::mem::take(&mut arriving.head));
        shard.give_back_body(std::mem::take(&mut arriving.body));
        // Its trailers.
        arriving.incoming = Incoming::Length(0);
        self.state.spare(arriving);
    }

    /// Releases what a connection holds of a request that will not be served.
    pub(super) fn free_body(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        if let Some(arriving) = self.take_arriving(shard, id) {
            self.release(shard, arriving);
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
