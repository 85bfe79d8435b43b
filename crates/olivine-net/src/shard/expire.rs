//! Timers, time-outs, and the end of a stopping shard.

use std::time::Duration;

use super::{
    Alarm,
    connection::{NEVER, Phase},
    run::{Runner, ticks},
};
use crate::{driver::Slot, error::CloseReason, handler::Handler};

/// Milliseconds that a stopping shard leaves to a new connection for its first byte.
const FRESH: u64 = 500;

impl<H: Handler> Runner<H> {
    pub(super) fn fire(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        self.shard.wheel.advance(self.shard.tick, &mut due);
        for alarm in due.drain(..) {
            match alarm {
                Alarm::Handler { token } => {
                    self.shard.count_up().timers.add(1);
                    self.tell(None, |handler, shard| handler.on_timer(shard, token));
                }
                Alarm::Connection { slot, generation } => self.check_timeouts(slot, generation),
            }
        }
        self.due = due;
    }

    fn check_timeouts(&mut self, slot: Slot, generation: u32) {
        let tick = self.shard.tick;
        let config = &self.shard.common.config;
        let passed = |since: u64, timeout: Option<Duration>| {
            timeout.is_some_and(|timeout| since.saturating_add(ticks(timeout)) <= tick)
        };
        let taken = self.shard.driver.take_progress(slot);
        let connection = &mut self.shard.connections[slot as usize];
        if connection.generation != generation || connection.phase == Phase::Gone {
            return;
        }
        connection.timer = None;
        if connection.write_since == NEVER {
            connection.write_bytes = 0;
        } else if taken > 0 {
            connection.write_bytes += taken;
            connection.activity = tick;
        }
        let enough = connection.write_bytes >= config.write_bytes_min();
        if enough && passed(connection.write_since, config.write_timeout) {
            (connection.write_since, connection.write_bytes) = (tick, 0);
        }
        let id = self.shard.id(slot);
        let connection = &mut self.shard.connections[slot as usize];
        let counters = &self.shard.common.counters[self.shard.index];
        if connection.deadline <= tick {
            connection.deadline = NEVER;
            counters.timers.add(1);
            match connection.phase {
                Phase::Connecting => self.shard.detach(slot, CloseReason::Deadline, true),
                Phase::Draining => {
                    let reason = connection.reason;
                    self.shard.detach(slot, reason, false);
                }
                _ => {
                    self.tell(Some(id), |handler, shard| handler.on_deadline(shard, id));
                }
            }
        } else if connection.write_since != NEVER
            && passed(connection.write_since, config.write_timeout)
        {
            counters.timed_out.add(1);
            self.shard.detach(slot, CloseReason::WriteTimeout, true);
        } else if connection.phase == Phase::Open
            && connection.queued() == 0
            && passed(connection.activity, config.idle_timeout)
            && !self.shard.has_unshown(slot)
        {
            self.shard.close_idle(id);
        }
        let connection = &self.shard.connections[slot as usize];
        if connection.generation == generation && connection.timer.is_none() {
            // Idle for long, but something keeps it, such as bytes to be read: look again a tick
            // later.
            self.shard.arm(slot);
        }
    }

    /// While stopping: closes idle connections, and aborts the rest at the deadline.
    pub(super) fn sweep(&mut self) {
        let late = self.shard.stop_at.is_some_and(|at| self.shard.now >= at);
        if !late && self.last_sweep == self.shard.tick {
            return;
        }
        self.last_sweep = self.shard.tick;
        for index in 0..self.shard.connections.len() {
            // The table was filled by slots, which are u32.
            let Ok(slot) = Slot::try_from(index) else {
                break;
            };
            let id = self.shard.id(slot);
            let connection = &self.shard.connections[index];
            match connection.phase {
                Phase::Free | Phase::Gone => {}
                Phase::Open if !late => {
                    let quiet = connection.queued() == 0 && connection.rest.is_empty();
                    // A peer that has just connected is about to ask.
                    let age = self.shard.tick.saturating_sub(connection.activity);
                    let fresh = !connection.heard && age < FRESH;
                    if quiet
                        && !fresh
                        && self.tell(Some(id), |handler, _| handler.is_idle(id)) == Some(true)
                        && !self.shard.driver.has_unread(slot)
                    {
                        self.shard.close(id);
                    }
                }
                Phase::Connecting => self.shard.detach(slot, CloseReason::Cut, false),
                Phase::Draining if late => {
                    let reason = connection.reason;
                    self.shard.detach(slot, reason, false);
                }
                Phase::Open | Phase::Leaving | Phase::Finishing if late => {
                    self.shard.cut += 1;
                    self.shard.count_up().cut.add(1);
                    self.shard.detach(slot, CloseReason::Cut, true);
                }
                _ => {}
            }
        }
        self.settle();
    }
}
