//! The loop of one shard: wait, handle events, fire timers, read the mail, flush.

use std::{
    io,
    time::{Duration, Instant},
};

use super::{
    Alarm, Shard,
    connection::{End, NEVER},
    spin::Spin,
};
use crate::{
    config::WaitStrategy, driver::Event, error::CloseReason, handler::Handler, mailbox::Letter,
};

/// Events handled before timers and mail get their turn.
pub(super) const EVENTS_PER_ROUND: usize = 1024;
/// Time between attempts to accept while descriptors are exhausted.
const STARVED: Duration = Duration::from_millis(50);
/// How often a stopping shard looks for connections that have become idle.
const SWEEP: Duration = Duration::from_millis(2);

/// A shard together with its handler. The files beside this one have its actions, by their causes.
#[derive(Debug)]
pub(crate) struct Runner<H: Handler> {
    pub(super) shard: Shard<H::Message>,
    pub(super) handler: H,
    mail: Vec<Letter<H::Message>>,
    pub(super) due: Vec<Alarm>,
    /// The shard that gets the next connection, where connections are handed over.
    pub(super) next_shard: usize,
    retry_at: Instant,
    last_event: Instant,
    spin: Spin,
    pub(super) last_sweep: u64,
}

impl<H: Handler> Runner<H> {
    pub(crate) fn new(shard: Shard<H::Message>, handler: H) -> Self {
        let now = shard.now;
        Self {
            shard,
            handler,
            mail: Vec::new(),
            due: Vec::new(),
            next_shard: 0,
            retry_at: now,
            last_event: now,
            spin: Spin::new(),
            last_sweep: 0,
        }
    }

    /// Runs until the engine stops; returns how many connections were cut.
    pub(crate) fn run(mut self) -> io::Result<u64> {
        self.handler.on_start(&mut self.shard);
        self.settle();
        loop {
            self.round()?;
            let Some(stop_at) = self.shard.stop_at else {
                continue;
            };
            // Letters that were accepted are read. When the time is over, no more are accepted.
            let over = self.shard.now >= stop_at;
            let empty = self.shard.live == 0 && !self.shard.driver.has_arrivals();
            if empty && self.shard.common.mailboxes[self.shard.index].end(over) {
                return Ok(self.shard.cut);
            }
        }
    }

    pub(super) fn round(&mut self) -> io::Result<()> {
        let timeout = self.timeout();
        let sleeps = timeout != Some(Duration::ZERO);
        self.shard.driver.wait(timeout)?;
        if sleeps {
            self.mailbox_wakes();
        }
        let now = Instant::now();
        self.shard.now = now;
        self.shard.tick = ticks(now - self.shard.started);
        let mut events = 0;
        while events < EVENTS_PER_ROUND {
            let Some(event) = self.shard.driver.next() else {
                break;
            };
            self.handle(event);
            events += 1;
        }
        self.fire();
        self.shard.trim();
        events += self.read_mail();
        if self.shard.driver.is_starved() && now >= self.retry_at {
            self.shard.driver.retry_accept();
            self.retry_at = now + STARVED;
        }
        self.settle();
        if self.shard.is_stopping() {
            self.sweep();
        }
        if events > 0 {
            self.last_event = now;
        }
        self.spin.round(events > 0, sleeps);
        let counters = self.shard.count_up();
        counters.rounds.add(1);
        counters.open.set(self.shard.live as u64);
        let vitals = &self.shard.common.vitals[self.shard.index];
        vitals.pooled_bytes.set(self.shard.pool_bytes as u64);
        Ok(())
    }

    fn mailbox_wakes(&self) {
        self.shard.common.mailboxes[self.shard.index].wake_up();
    }

    /// How long the next wait may be.
    fn timeout(&self) -> Option<Duration> {
        let shard = &self.shard;
        let busy = !shard.dirty.is_empty() || !shard.ended.is_empty();
        let spins = match shard.common.config.wait {
            WaitStrategy::Spin => true,
            WaitStrategy::Adaptive(span) => self.spin.is_on() && shard.now - self.last_event < span,
            WaitStrategy::Block => false,
        };
        if busy || spins || !shard.common.mailboxes[shard.index].fall_asleep() {
            return Some(Duration::ZERO);
        }
        let timer = shard.wheel.next_tick().map(|tick| {
            (shard.started + Duration::from_millis(tick)).saturating_duration_since(shard.now)
        });
        let starved = shard.driver.is_starved().then_some(STARVED);
        let sweep = shard.is_stopping().then_some(SWEEP);
        let trim = shard
            .trim_at
            .map(|at| Duration::from_millis(at.saturating_sub(shard.tick) + 1));
        [timer, starved, sweep, trim].into_iter().flatten().min()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Received {
                slot,
                mut buffer,
                length,
            } => {
                self.received(slot, &mut buffer, length);
                self.shard.driver.recycle(buffer);
            }
            Event::Sent {
                slot,
                buffer,
                result,
            } => {
                let length = buffer.length();
                self.shard.sent(slot, buffer, length, result);
                self.shard.flush(slot);
                self.shard.mark(slot);
            }
            Event::Accepted(socket, listener) => self.accepted(socket, listener),
            Event::TurnedAway => self.shard.count_up().refused_descriptors.add(1),
            Event::Broken { slot, error } => {
                self.shard.count_up().broken.add(1);
                self.shard
                    .detach(slot, CloseReason::Broken(error.kind()), true);
            }
            Event::PeerEnded { slot } => {
                if self.shard.connections[slot as usize].end == End::No {
                    self.half_closed(slot);
                }
            }
            Event::Connected { slot, result } => self.connected(slot, result),
            Event::Released { slot } => self.shard.unallocate(slot),
            Event::Taken { slot, socket } => self.hand_on(slot, socket),
        }
    }

    fn read_mail(&mut self) -> usize {
        let mut mail = std::mem::take(&mut self.mail);
        self.shard.common.mailboxes[self.shard.index].take(&mut mail);
        let count = mail.len();
        for letter in mail.drain(..) {
            match letter {
                Letter::Message(message) => {
                    self.shard.count_up().messages.add(1);
                    self.tell(None, |handler, shard| handler.on_message(shard, message));
                }
                Letter::Connection(passed) => self.adopt(passed),
                Letter::Stop(at) => match self.shard.stop_at {
                    // A later order may only shorten the time.
                    Some(before) => self.shard.stop_at = Some(before.min(at)),
                    None => {
                        self.shard.stop_at = Some(at);
                        self.shard.driver.stop_listening();
                        self.tell(None, |handler, shard| handler.on_stop(shard));
                    }
                },
            }
        }
        self.mail = mail;
        count
    }
}

/// Whole milliseconds.
pub(super) fn ticks(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(NEVER / 2)
}
