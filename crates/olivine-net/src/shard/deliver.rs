//! Delivery of arrived bytes to the handler, and keeping of unconsumed bytes.

use super::{
    connection::{End, Phase},
    run::Runner,
};
use crate::{
    driver::{HEADROOM, Slot},
    error::CloseReason,
    handler::{ConnectionId, Handler},
};

impl<H: Handler> Runner<H> {
    /// Takes in `length` bytes, in `buffer` behind the headroom.
    pub(super) fn received(&mut self, slot: Slot, buffer: &mut [u8], length: usize) {
        let tick = self.shard.tick;
        let connection = &mut self.shard.connections[slot as usize];
        connection.heard = true;
        match connection.phase {
            Phase::Open if length == 0 => {
                // A TLS peer may have said so before.
                if connection.end == End::No {
                    connection.end = End::Unseen;
                }
                self.end_of_stream(slot);
            }
            Phase::Open => {
                // Of TLS only what it carries is activity: new keys come on idle connections too.
                if !connection.has_tls() {
                    connection.activity = tick;
                }
                let counters = self.shard.count_up();
                counters.receives.add(1);
                counters.received_bytes.add(length as u64);
                #[cfg(feature = "rustls")]
                if self.shard.connections[slot as usize].tls.is_some() {
                    let bytes = &buffer[HEADROOM..HEADROOM + length];
                    let plain = self.shard.unseal(slot, bytes);
                    if !plain.is_empty() {
                        self.shard.connections[slot as usize].activity = tick;
                        self.deliver(slot, &plain);
                    }
                    self.shard.give_back(plain);
                    self.shard.flush(slot);
                    self.end_of_stream(slot);
                    return;
                }
                self.deliver_behind(slot, buffer, length);
                self.shard.flush(slot);
            }
            Phase::Leaving if length > 0 => {
                let counters = self.shard.count_up();
                counters.receives.add(1);
                counters.received_bytes.add(length as u64);
                let bytes = &buffer[HEADROOM..HEADROOM + length];
                #[cfg(feature = "rustls")]
                if self.shard.connections[slot as usize].tls.is_some() {
                    let plain = self.shard.unseal(slot, bytes);
                    self.shard.connections[slot as usize]
                        .rest
                        .extend_from_slice(&plain);
                    self.shard.give_back(plain);
                    return;
                }
                self.shard.connections[slot as usize]
                    .rest
                    .extend_from_slice(bytes);
            }
            Phase::Draining if length == 0 => {
                let reason = connection.reason;
                self.shard.detach(slot, reason, false);
            }
            Phase::Finishing if length == 0 => connection.end = End::Reported,
            _ => {}
        }
    }

    /// As [`Runner::deliver`], for bytes with headroom in front of them: what was kept goes there
    /// if it fits, so that only that is copied.
    fn deliver_behind(&mut self, slot: Slot, buffer: &mut [u8], length: usize) {
        let connection = &mut self.shard.connections[slot as usize];
        let kept = connection.rest.len();
        if connection.blocked() || kept == 0 || kept > HEADROOM {
            return self.deliver(slot, &buffer[HEADROOM..HEADROOM + length]);
        }
        let mut rest = std::mem::take(&mut connection.rest);
        let start = HEADROOM - kept;
        buffer[start..HEADROOM].copy_from_slice(&rest);
        let data = &buffer[start..HEADROOM + length];
        let id = self.shard.id(slot);
        let consumed = self.show(id, data);
        rest.clear();
        rest.extend_from_slice(&data[consumed.min(data.len())..]);
        self.keep(slot, rest);
    }

    /// Shows bytes to the handler and keeps what it does not consume.
    pub(super) fn deliver(&mut self, slot: Slot, bytes: &[u8]) {
        let id = self.shard.id(slot);
        let connection = &mut self.shard.connections[slot as usize];
        if connection.blocked() || !connection.rest.is_empty() {
            let mut rest = std::mem::take(&mut connection.rest);
            if rest.capacity() == 0 {
                rest = self.shard.take_buffer();
            }
            let connection = &self.shard.connections[slot as usize];
            let blocked = connection.blocked();
            rest.extend_from_slice(bytes);
            let consumed = if blocked { 0 } else { self.show(id, &rest) };
            rest.drain(..consumed.min(rest.len()));
            self.keep(slot, rest);
        } else {
            let consumed = self.show(id, bytes);
            if consumed < bytes.len() {
                let mut rest = self.shard.take_buffer();
                rest.extend_from_slice(&bytes[consumed..]);
                self.keep(slot, rest);
            }
        }
    }

    fn show(&mut self, id: ConnectionId, data: &[u8]) -> usize {
        let consumed = self.tell(Some(id), |handler, shard| handler.on_data(shard, id, data));
        consumed.unwrap_or(data.len())
    }

    fn keep(&mut self, slot: Slot, rest: Vec<u8>) {
        let connection = &mut self.shard.connections[slot as usize];
        // What a handler leaves that hands the connection over goes along.
        if !matches!(connection.phase, Phase::Open | Phase::Leaving) || rest.is_empty() {
            self.shard.give_back(rest);
            return;
        }
        let length = rest.len();
        connection.rest = rest;
        // What a paused connection has not shown yet is bounded by the receive buffers instead.
        if length > self.shard.common.config.unconsumed_max && !connection.blocked() {
            self.shard.detach(slot, CloseReason::UnconsumedMax, true);
        }
    }

    /// Tells the handler about the peer's end, unless bytes wait to be shown before it.
    pub(super) fn end_of_stream(&mut self, slot: Slot) {
        let connection = &mut self.shard.connections[slot as usize];
        let waits = connection.blocked() && !connection.rest.is_empty();
        if connection.phase == Phase::Open && connection.end == End::Unseen && !waits {
            connection.end = End::Reported;
            let id = self.shard.id(slot);
            self.tell(Some(id), |handler, shard| handler.on_end(shard, id));
        } else if connection.end == End::Unseen {
            self.half_closed(slot);
        }
        self.shard.mark(slot);
    }

    /// Tells the handler, once, that the peer has ended its direction while bytes before it wait to
    /// be shown.
    pub(super) fn half_closed(&mut self, slot: Slot) {
        let connection = &mut self.shard.connections[slot as usize];
        if connection.phase == Phase::Open && !connection.half_closed {
            connection.half_closed = true;
            let id = self.shard.id(slot);
            self.tell(Some(id), |handler, shard| handler.on_half_close(shard, id));
            self.shard.mark(slot);
        }
    }

    /// Shows kept bytes to a handler that can take them again.
    pub(super) fn show_again(&mut self, slot: Slot) {
        let connection = &mut self.shard.connections[slot as usize];
        if !connection.resume || connection.blocked() || connection.phase != Phase::Open {
            return;
        }
        connection.resume = false;
        if !connection.rest.is_empty() {
            self.deliver(slot, &[]);
            self.shard.flush(slot);
        }
        self.end_of_stream(slot);
    }
}
