//! What the loop and the protocols of this crate do to a shard, beyond what handlers may: finding,
//! making and giving up connections, buffers, time-outs, and handing output to the driver.

use std::{fs::File, ops::Range, sync::Arc, time::Duration};

use super::{
    Alarm, BUFFER_BYTES, POOL_BYTES_MAX, POOL_MAX, POOLED_BYTES_MAX, Shard, TRIM_AFTER, TRIM_BYTES,
    connection::{Connection, End, NEVER, Phase},
};
use crate::{
    driver::{Outgoing, SendState, Slot},
    error::{CloseReason, NotSent},
    handler::ConnectionId,
    health::ShardCounters,
    sys::{self, socket::StreamOptions},
};

/// When to check again a timed-out connection that is still to be read.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);

impl<M> Shard<M> {
    /// The connection's output, to be appended to; the bytes leave with the next flush.
    pub(crate) fn writer(&mut self, id: ConnectionId) -> Result<&mut Vec<u8>, NotSent> {
        let high_water = self.common.config.high_water;
        let connection = self.find_open(id)?;
        if connection.queued() >= high_water {
            connection.notify = true;
            // Also shows the bytes again that a handler kept because of this.
            connection.over = true;
            self.mark(id.slot);
            self.count_up().back_pressured.add(1);
            return Err(NotSent::BackPressured);
        }
        if connection.out.capacity() == 0 {
            let buffer = self.take_buffer();
            self.connections[id.slot as usize].out = buffer;
        }
        self.mark(id.slot);
        Ok(&mut self.connections[id.slot as usize].out)
    }

    /// Whether the connection is open and its queue below the high-water mark. If only the queue is
    /// not, what the handler leaves unconsumed is shown again once it has fallen to the low mark.
    pub(crate) fn has_room(&mut self, id: ConnectionId) -> bool {
        let high_water = self.common.config.high_water;
        let Ok(connection) = self.find_open(id) else {
            return false;
        };
        if connection.queued() < high_water {
            return true;
        }
        connection.over = true;
        self.mark(id.slot);
        false
    }

    /// Whether bytes of the connection wait because its queue was over the high-water mark.
    pub(crate) fn is_blocked(&self, id: ConnectionId) -> bool {
        self.find(id).is_some_and(|connection| connection.over)
    }

    /// Queues bytes that end a begun answer, also above the water mark.
    pub(crate) fn append(&mut self, id: ConnectionId, bytes: &[u8]) {
        self.append_with(id, |out| out.extend_from_slice(bytes));
    }

    /// As [`Shard::append`], for bytes that `write` appends.
    pub(crate) fn append_with(&mut self, id: ConnectionId, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.is_open(id) {
            return;
        }
        if self.connections[id.slot as usize].out.capacity() == 0 {
            self.connections[id.slot as usize].out = self.take_buffer();
        }
        write(&mut self.connections[id.slot as usize].out);
        self.mark(id.slot);
    }

    /// As [`Shard::append`], without a copy.
    pub(crate) fn append_shared(&mut self, id: ConnectionId, bytes: Arc<[u8]>) {
        self.append_segment(id, Outgoing::Shared(bytes));
    }

    /// As [`Shard::append`], of a part of a file.
    pub(crate) fn append_file(&mut self, id: ConnectionId, file: Arc<File>, range: Range<u64>) {
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let offset = range.start;
        self.append_segment(
            id,
            Outgoing::File {
                file,
                offset,
                length,
            },
        );
    }

    fn append_segment(&mut self, id: ConnectionId, segment: Outgoing) {
        let length = segment.length();
        let Ok(connection) = self.find_open(id) else {
            return;
        };
        if length == 0 {
            return;
        }
        if !connection.out.is_empty() {
            let out = std::mem::take(&mut connection.out);
            connection.segment_bytes += out.len();
            connection.segments.push_back(Outgoing::Owned(out));
        }
        connection.segment_bytes += length;
        connection.segments.push_back(segment);
        self.mark(id.slot);
    }

    /// The options of every connection, accepted or made by us.
    pub(super) fn stream_options(&self) -> StreamOptions {
        let config = &self.common.config;
        StreamOptions {
            nodelay: config.nodelay,
            keep_alive: config.keep_alive,
            send_kernel_bytes: config.send_kernel_bytes,
            receive_kernel_bytes: config.receive_kernel_bytes,
            is_tcp: true,
        }
    }

    /// Stores the bytes that incomplete bodies hold.
    pub(crate) fn note_body_bytes(&self, bytes: usize) {
        self.common.vitals[self.index].body_bytes.set(bytes as u64);
    }

    /// As [`Shard::give_back`], for a body: after many large bodies memory also returns to the
    /// system.
    pub(crate) fn give_back_body(&mut self, body: Vec<u8>) {
        if body.capacity() > POOLED_BYTES_MAX {
            self.freed_bytes += body.capacity();
            if self.freed_bytes >= TRIM_BYTES && self.trim_at.is_none() {
                self.trim_at = Some(self.tick + TRIM_AFTER);
            }
        }
        self.give_back(body);
    }

    /// Gives memory back to the system, if it is time.
    pub(super) fn trim(&mut self) {
        if self.trim_at.is_some_and(|at| at <= self.tick) {
            (self.trim_at, self.freed_bytes) = (None, 0);
            sys::trim();
        }
    }

    pub(crate) fn count_up(&self) -> &ShardCounters {
        &self.common.counters[self.index]
    }

    pub(crate) fn id(&self, slot: Slot) -> ConnectionId {
        let generation = self.connections[slot as usize].generation;
        // At most 1,024 shards.
        ConnectionId {
            shard: u16::try_from(self.index).unwrap_or(u16::MAX),
            slot,
            generation,
        }
    }

    /// The connection, unless it has ended.
    pub(super) fn find(&self, id: ConnectionId) -> Option<&Connection> {
        let connection = self.connections.get(id.slot as usize)?;
        let ours = usize::from(id.shard) == self.index && connection.generation == id.generation;
        let alive = !matches!(connection.phase, Phase::Free | Phase::Gone);
        (ours && alive).then_some(connection)
    }

    pub(super) fn find_open(&mut self, id: ConnectionId) -> Result<&mut Connection, NotSent> {
        match self.connections.get_mut(id.slot as usize) {
            Some(connection)
                if connection.phase == Phase::Open
                    && connection.generation == id.generation
                    && usize::from(id.shard) == self.index =>
            {
                Ok(connection)
            }
            _ => Err(NotSent::Closed),
        }
    }

    /// Has the connection moved by its protocol alone, which knows when that is possible.
    pub(crate) fn bind(&mut self, id: ConnectionId) {
        if let Ok(connection) = self.find_open(id) {
            connection.bound = true;
        }
    }

    pub(crate) fn tick_after(&self, after: Duration) -> u64 {
        let millis = u64::try_from(after.as_millis()).unwrap_or(NEVER / 2);
        // The tick under way has partly passed, so one more keeps the promise not to be early.
        self.tick.saturating_add(millis).saturating_add(1)
    }

    pub(crate) fn mark(&mut self, slot: Slot) {
        let connection = &mut self.connections[slot as usize];
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(slot);
        }
    }

    pub(crate) fn allocate(&mut self) -> Slot {
        self.live += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.connections.push(Connection::new(0));
            // The descriptor table ends long before 2³² connections.
            Slot::try_from(self.connections.len() - 1).unwrap_or(Slot::MAX)
        });
        self.connections[slot as usize].activity = self.tick;
        slot
    }

    /// Makes a slot free again, once the kernel holds nothing of it.
    pub(crate) fn unallocate(&mut self, slot: Slot) {
        if self.leave(slot) {
            self.common.connections.give();
        }
    }

    /// As [`Shard::unallocate`], for a connection that goes on elsewhere.
    pub(crate) fn leave(&mut self, slot: Slot) -> bool {
        if let Some(connection) = self.connections.get_mut(slot as usize) {
            let mut fresh = Connection::new(connection.generation.wrapping_add(1));
            fresh.dirty = connection.dirty;
            *connection = fresh;
            // By slot the handler still has its state of an ended connection, until it gets the
            // report.
            if self.ended.is_empty() {
                self.free.push(slot);
            } else {
                self.freed.push(slot);
            }
            self.live -= 1;
            return true;
        }
        false
    }

    /// Gives a connection up; the handler gets the report later in this round.
    pub(crate) fn detach(&mut self, slot: Slot, reason: CloseReason, reset: bool) {
        let id = self.id(slot);
        let connection = &mut self.connections[slot as usize];
        if matches!(connection.phase, Phase::Free | Phase::Gone) {
            return;
        }
        let attempt = connection.attempt.take();
        // A socket that the driver gives back is closed then.
        let taken = connection
            .leaving
            .take()
            .is_some_and(|leaving| leaving.taken);
        connection.phase = Phase::Gone;
        let buffers = [
            std::mem::take(&mut connection.out),
            std::mem::take(&mut connection.rest),
        ];
        connection.segments.clear();
        if let Some(timer) = connection.timer.take() {
            self.wheel.cancel(timer);
        }
        for buffer in buffers {
            self.give_back(buffer);
        }
        if !taken {
            self.driver.detach(slot, reset);
        }
        self.ended.push((id, reason, attempt));
    }

    /// An empty buffer, from the pool if it has one.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        match self.pool.pop() {
            Some(buffer) => {
                self.pool_bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(BUFFER_BYTES),
        }
    }

    /// Keeps a buffer for use again. Frees a buffer that grew large, and surplus buffers.
    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        let useful = (1..=POOLED_BYTES_MAX).contains(&bytes);
        if useful && self.pool.len() < POOL_MAX && self.pool_bytes + bytes <= POOL_BYTES_MAX {
            buffer.clear();
            self.pool_bytes += bytes;
            self.pool.push(buffer);
        }
    }

    /// The rest of `timeout` since the last sent byte: all of it while bytes are queued, and a
    /// short time while the handler has not seen all bytes.
    pub(crate) fn quiet_left(&self, id: ConnectionId, timeout: Duration) -> Duration {
        match self.find(id) {
            Some(connection) if connection.queued() == 0 => {
                let quiet = self.tick.saturating_sub(connection.sent_at);
                let left = timeout.saturating_sub(Duration::from_millis(quiet));
                if left.is_zero() && self.has_unshown(id.slot) {
                    LOOK_AGAIN
                } else {
                    left
                }
            }
            _ => timeout,
        }
    }

    /// Whether bytes of the peer are still to be shown to the handler. A delayed shard finds
    /// time-outs over before it has read the bytes that came in time.
    pub(super) fn has_unshown(&self, slot: Slot) -> bool {
        let connection = &self.connections[slot as usize];
        let kept = connection.resume && !connection.rest.is_empty();
        let unread = connection.end == End::No && self.driver.has_unread(slot);
        !connection.blocked() && (kept || unread)
    }

    /// As [`Shard::has_unshown`], for a connection that may be gone.
    pub(crate) fn has_unshown_of(&self, id: ConnectionId) -> bool {
        self.find(id).is_some() && self.has_unshown(id.slot)
    }

    /// Closes, in good order, a connection that was idle for too long.
    pub(crate) fn close_idle(&mut self, id: ConnectionId) {
        self.close_late(id, CloseReason::IdleTimeout);
    }

    /// Closes a connection in good order because a time-out has passed.
    pub(crate) fn close_late(&mut self, id: ConnectionId, reason: CloseReason) {
        self.count_up().timed_out.add(1);
        self.close_for(id, reason);
    }

    /// Makes the wheel check this connection no later than its next time-out.
    pub(crate) fn arm(&mut self, slot: Slot) {
        let config = &self.common.config;
        let connection = &self.connections[slot as usize];
        let after = |since: u64, timeout: Option<Duration>| match timeout {
            Some(timeout) if since != NEVER => since
                .saturating_add(u64::try_from(timeout.as_millis()).unwrap_or(NEVER))
                .max(1),
            _ => NEVER,
        };
        let open = connection.phase == Phase::Open;
        let idle = after(connection.activity, config.idle_timeout.filter(|_| open));
        let write = after(connection.write_since, config.write_timeout);
        let at = connection.deadline.min(idle).min(write);
        if at == NEVER || (connection.timer.is_some() && connection.timer_at <= at) {
            return;
        }
        let generation = connection.generation;
        if let Some(timer) = connection.timer {
            self.wheel.cancel(timer);
        }
        let timer = self
            .wheel
            .insert(at, Alarm::Connection { slot, generation });
        let connection = &mut self.connections[slot as usize];
        (connection.timer, connection.timer_at) = (Some(timer), at);
    }

    /// Whether this connection cannot hang: an armed event reports its loss, and a timer runs for a
    /// silent peer, unless the settings disable it. The table is in `shard/connection.rs`.
    pub(super) fn is_bounded(&self, slot: Slot) -> bool {
        let config = &self.common.config;
        let connection = &self.connections[slot as usize];
        let timer = match connection.phase {
            Phase::Free | Phase::Gone => return true,
            // The driver gives the socket back soon.
            Phase::Leaving if connection.leaving.as_ref().is_some_and(|l| l.taken) => return true,
            Phase::Connecting | Phase::Draining => true,
            Phase::Open => config.idle_timeout.is_some(),
            Phase::Leaving | Phase::Finishing => {
                connection.write_since != NEVER && config.write_timeout.is_some()
            }
        };
        (connection.timer.is_some() || !timer) && self.driver.is_watched(slot)
    }

    /// Passes queued bytes to the driver, one send at a time, as long as each completes at once.
    pub(crate) fn flush(&mut self, slot: Slot) {
        loop {
            let connection = &mut self.connections[slot as usize];
            let sendable = match connection.phase {
                Phase::Open | Phase::Finishing => true,
                Phase::Leaving => connection.leaving.as_ref().is_some_and(|l| !l.taken),
                _ => false,
            };
            if connection.sending || !sendable {
                return;
            }
            #[cfg(feature = "rustls")]
            if connection.tls.is_some() && !self.seal(slot) {
                return;
            }
            let connection = &mut self.connections[slot as usize];
            let buffer = match connection.segments.pop_front() {
                Some(buffer) => {
                    connection.segment_bytes -= buffer.length();
                    buffer
                }
                None if connection.out.is_empty() => {
                    // An empty buffer goes back, so that an idle connection holds none.
                    if connection.out.capacity() > 0 {
                        let out = std::mem::take(&mut connection.out);
                        self.give_back(out);
                    }
                    return;
                }
                None => Outgoing::Owned(std::mem::take(&mut connection.out)),
            };
            let length = buffer.length();
            let counters = &self.common.counters[self.index];
            counters.sends.add(1);
            match self.driver.send(slot, buffer) {
                SendState::Done(buffer, result) => self.sent(slot, buffer, length, result),
                SendState::UnderWay => {
                    let connection = &mut self.connections[slot as usize];
                    connection.sending = true;
                    connection.sending_bytes = length;
                    if connection.write_since == NEVER {
                        connection.write_since = self.tick;
                    }
                    if self.common.config.write_timeout.is_some() {
                        self.arm(slot);
                    }
                }
            }
        }
    }

    /// Accounts for a completed send.
    pub(crate) fn sent(
        &mut self,
        slot: Slot,
        buffer: Outgoing,
        length: usize,
        result: std::io::Result<()>,
    ) {
        let connection = &mut self.connections[slot as usize];
        connection.sending = false;
        connection.sending_bytes = 0;
        if connection.queued() == 0 {
            connection.write_since = NEVER;
        }
        connection.activity = self.tick;
        connection.sent_at = self.tick;
        if let Outgoing::Owned(buffer) = buffer {
            self.give_back(buffer);
        }
        match result {
            Ok(()) => self.count_up().sent_bytes.add(length as u64),
            Err(error) => {
                self.count_up().broken.add(1);
                self.detach(slot, CloseReason::Broken(error.kind()), true);
            }
        }
    }
}
