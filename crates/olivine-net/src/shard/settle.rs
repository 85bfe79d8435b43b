//! The end of a round: sends output, turns reading on or off, advances closes, reports ends.

use super::{
    connection::{End, Phase},
    run::{EVENTS_PER_ROUND, Runner, ticks},
};
use crate::{
    driver::Slot,
    error::{CloseReason, ConnectError},
    handler::Handler,
};

impl<H: Handler> Runner<H> {
    /// Brings every connection that was touched to where it should be: output sent, reading on or
    /// off, kept bytes shown, closes advanced. Then tells the handler of those that ended.
    pub(super) fn settle(&mut self) {
        let mut index = 0;
        // Handlers called from here may touch further connections, which then join the list. What
        // they do on and on, such as answering each on_writable, is left to the next round.
        let mut budget = self.shard.dirty.len() + EVENTS_PER_ROUND;
        while index < self.shard.dirty.len() && budget > 0 {
            let slot = self.shard.dirty[index];
            self.shard.connections[slot as usize].dirty = false;
            self.settle_one(slot);
            index += 1;
            budget -= 1;
        }
        self.shard.dirty.drain(..index);
        while let Some((id, reason, attempt)) = self.shard.ended.pop() {
            if let Some(attempt) = attempt {
                self.shard.count_up().connect_failed.add(1);
                let error = match reason {
                    CloseReason::Deadline => ConnectError::Timeout {
                        address: attempt.address,
                        timeout: attempt.timeout,
                    },
                    CloseReason::Broken(kind) => ConnectError::Io {
                        address: attempt.address,
                        source: kind.into(),
                    },
                    _ => ConnectError::Refused,
                };
                let token = attempt.token;
                self.tell(None, |handler, shard| {
                    handler.on_connect_failed(shard, token, error);
                });
            } else {
                let counters = self.shard.count_up();
                match reason {
                    CloseReason::HandedOver => counters.handed_over.add(1),
                    _ => counters.closed.add(1),
                }
                self.tell(Some(id), |handler, shard| {
                    handler.on_close(shard, id, reason);
                });
            }
        }
        self.shard.free.append(&mut self.shard.freed);
    }

    fn settle_one(&mut self, slot: Slot) {
        self.shard.flush(slot);
        let config = &self.shard.common.config;
        let (high, low) = (config.high_water, config.low_water);
        let connection = &mut self.shard.connections[slot as usize];
        if connection.phase == Phase::Open {
            let queued = connection.queued();
            if queued >= high {
                connection.over = true;
            } else if connection.over && queued <= low {
                connection.over = false;
                connection.resume = true;
            }
            if connection.notify && queued <= low {
                connection.notify = false;
                let id = self.shard.id(slot);
                self.tell(Some(id), |handler, shard| handler.on_writable(shard, id));
                self.shard.flush(slot);
            }
            self.show_again(slot);
        }
        self.advance_close(slot);
        self.advance_leave(slot);
        let connection = &mut self.shard.connections[slot as usize];
        let wants = connection.wants_reading();
        let taken = connection
            .leaving
            .as_ref()
            .is_some_and(|leaving| leaving.taken);
        let there = !taken && !matches!(connection.phase, Phase::Free | Phase::Gone);
        if connection.reading != wants && there {
            connection.reading = wants;
            self.shard.driver.set_reading(slot, wants);
        }
        debug_assert!(
            self.shard.is_bounded(slot),
            "{:?}",
            self.shard.connections[slot as usize]
        );
    }

    /// Asks the driver for the socket of a connection that another shard gets, once nothing is to
    /// be sent here.
    fn advance_leave(&mut self, slot: Slot) {
        let connection = &mut self.shard.connections[slot as usize];
        let quiet = connection.phase == Phase::Leaving && connection.queued() == 0;
        if let Some(leaving) = connection.leaving.as_mut().filter(|_| quiet)
            && !leaving.taken
        {
            leaving.taken = true;
            if let Some(timer) = connection.timer.take() {
                self.shard.wheel.cancel(timer);
            }
            self.shard.driver.take(slot);
        }
    }

    fn advance_close(&mut self, slot: Slot) {
        let connection = &mut self.shard.connections[slot as usize];
        if connection.phase != Phase::Finishing || connection.queued() > 0 {
            return;
        }
        let linger = self.shard.common.config.linger;
        if connection.end != End::No || linger.is_zero() {
            let reason = connection.reason;
            self.shard.detach(slot, reason, false);
            return;
        }
        connection.phase = Phase::Draining;
        connection.deadline = self.shard.tick + ticks(linger) + 1;
        self.shard.driver.finish(slot);
        self.shard.arm(slot);
    }
}
