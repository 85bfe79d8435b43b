//! The loop of one shard: wait, handle events, fire timers, read the mail, flush.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use super::{
    Alarm, Shard,
    connection::{End, NEVER, Phase},
};
use crate::{
    config::WaitStrategy,
    driver::{Event, HEADROOM, Slot},
    error::{CloseReason, ConnectError},
    handler::{Handler, Origin},
    mailbox::Letter,
    sys::socket::{self, StreamOptions},
};

/// Events handled before timers and mail get their turn.
const EVENTS_PER_ROUND: usize = 1024;
/// Time between attempts to accept while descriptors are exhausted.
const STARVED: Duration = Duration::from_millis(50);
/// How often a stopping shard looks for connections that have become idle.
const SWEEP: Duration = Duration::from_millis(2);

/// A shard together with its handler.
#[derive(Debug)]
pub(crate) struct Runner<H: Handler> {
    shard: Shard<H::Message>,
    handler: H,
    options: StreamOptions,
    mail: Vec<Letter<H::Message>>,
    due: Vec<Alarm>,
    /// The shard that gets the next connection, where connections are handed over.
    next_shard: usize,
    retry_at: Instant,
    last_event: Instant,
    last_sweep: u64,
}

impl<H: Handler> Runner<H> {
    pub(crate) fn new(shard: Shard<H::Message>, handler: H) -> Self {
        let config = &shard.common.config;
        let options = StreamOptions {
            nodelay: config.nodelay,
            keep_alive: config.keep_alive,
            send_kernel_bytes: config.send_kernel_bytes,
            receive_kernel_bytes: config.receive_kernel_bytes,
        };
        let now = shard.now;
        Self {
            shard,
            handler,
            options,
            mail: Vec::new(),
            due: Vec::new(),
            next_shard: 0,
            retry_at: now,
            last_event: now,
            last_sweep: 0,
        }
    }

    /// Runs until the engine stops; returns how many connections were cut.
    pub(crate) fn run(mut self) -> io::Result<u64> {
        self.handler.on_start(&mut self.shard);
        self.settle();
        loop {
            self.round()?;
            if self.shard.is_stopping() && self.shard.live == 0 {
                return Ok(self.shard.cut);
            }
        }
    }

    fn round(&mut self) -> io::Result<()> {
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
        let counters = self.shard.count_up();
        counters.rounds.add(1);
        counters.open.set(self.shard.live as u64);
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
            WaitStrategy::Adaptive(span) => shard.now - self.last_event < span,
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
        [timer, starved, sweep].into_iter().flatten().min()
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
                let length = buffer.bytes().len();
                self.shard.sent(slot, buffer, length, result);
                self.shard.flush(slot);
                self.shard.mark(slot);
            }
            Event::Accepted(socket) => self.accepted(socket),
            Event::TurnedAway => self.shard.count_up().refused_descriptors.add(1),
            Event::Broken { slot, error } => {
                self.shard.count_up().broken.add(1);
                self.shard
                    .detach(slot, CloseReason::Broken(error.kind()), true);
            }
            Event::Connected { slot, result } => self.connected(slot, result),
            Event::Released { slot } => self.shard.unallocate(slot),
        }
    }

    fn accepted(&mut self, socket: OwnedFd) {
        let common = &self.shard.common;
        if !common.connections.take(common.config.connections_max) {
            self.shard.count_up().refused_cap.add(1);
            socket::reset_on_close(socket.as_fd());
            return;
        }
        self.shard.count_up().accepted.add(1);
        let target = if common.hand_over {
            self.next_shard = (self.next_shard + 1) % common.mailboxes.len();
            self.next_shard
        } else {
            self.shard.index
        };
        if target == self.shard.index {
            self.adopt(socket);
        } else {
            common.mailboxes[target].command(Letter::Connection(socket));
        }
    }

    /// Takes a connection in that counts against the cap already.
    fn adopt(&mut self, socket: OwnedFd) {
        let slot = self.shard.allocate();
        let result = socket::configure(socket.as_fd(), self.options)
            .and_then(|()| self.shard.driver.attach(slot, socket, false));
        if result.is_err() {
            // The peer was quicker to reset than we to look.
            self.shard.count_up().broken.add(1);
            self.shard.count_up().closed.add(1);
            self.shard.unallocate(slot);
            return;
        }
        #[cfg(feature = "rustls")]
        self.shard.start_tls(slot);
        self.open(slot, Origin::Accepted);
    }

    fn open(&mut self, slot: Slot, origin: Origin) {
        let connection = &mut self.shard.connections[slot as usize];
        connection.phase = Phase::Open;
        connection.deadline = NEVER;
        connection.activity = self.shard.tick;
        if self.shard.common.config.idle_timeout.is_some() {
            self.shard.arm(slot);
        }
        let id = self.shard.id(slot);
        self.handler.on_open(&mut self.shard, id, origin);
    }

    fn connected(&mut self, slot: Slot, result: io::Result<()>) {
        let connection = &mut self.shard.connections[slot as usize];
        if connection.phase != Phase::Connecting {
            return;
        }
        match result {
            Ok(()) => {
                let token = connection.attempt.take().map_or(0, |attempt| attempt.token);
                self.shard.count_up().connected.add(1);
                self.open(slot, Origin::Connected { token });
            }
            Err(error) => {
                self.shard
                    .detach(slot, CloseReason::Broken(error.kind()), false);
            }
        }
    }

    /// Takes in `length` bytes, which lie in `buffer` behind the headroom.
    fn received(&mut self, slot: Slot, buffer: &mut [u8], length: usize) {
        let tick = self.shard.tick;
        let connection = &mut self.shard.connections[slot as usize];
        match connection.phase {
            Phase::Open if length == 0 => {
                // A TLS peer may have said so before.
                if connection.end == End::No {
                    connection.end = End::Unseen;
                }
                self.end_of_stream(slot);
            }
            Phase::Open => {
                connection.activity = tick;
                let counters = self.shard.count_up();
                counters.receives.add(1);
                counters.received_bytes.add(length as u64);
                #[cfg(feature = "rustls")]
                if self.shard.connections[slot as usize].tls.is_some() {
                    let bytes = &buffer[HEADROOM..HEADROOM + length];
                    let plain = self.shard.unseal(slot, bytes);
                    if !plain.is_empty() {
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
            Phase::Draining if length == 0 => {
                let reason = connection.reason;
                self.shard.detach(slot, reason, false);
            }
            Phase::Finishing if length == 0 => connection.end = End::Told,
            _ => {}
        }
    }

    /// As [`Runner::deliver`], for bytes with headroom in front of them: what was kept goes there if it
    /// fits, so that only that is copied.
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
        let consumed = self.handler.on_data(&mut self.shard, id, data);
        rest.clear();
        rest.extend_from_slice(&data[consumed.min(data.len())..]);
        self.keep(slot, rest);
    }

    /// Shows bytes to the handler and keeps what it does not consume.
    fn deliver(&mut self, slot: Slot, bytes: &[u8]) {
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
            let consumed = if blocked {
                0
            } else {
                self.handler.on_data(&mut self.shard, id, &rest)
            };
            rest.drain(..consumed.min(rest.len()));
            self.keep(slot, rest);
        } else {
            let consumed = self.handler.on_data(&mut self.shard, id, bytes);
            if consumed < bytes.len() {
                let mut rest = self.shard.take_buffer();
                rest.extend_from_slice(&bytes[consumed..]);
                self.keep(slot, rest);
            }
        }
    }

    fn keep(&mut self, slot: Slot, rest: Vec<u8>) {
        let connection = &mut self.shard.connections[slot as usize];
        if connection.phase != Phase::Open || rest.is_empty() {
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
    fn end_of_stream(&mut self, slot: Slot) {
        let connection = &mut self.shard.connections[slot as usize];
        let waits = connection.blocked() && !connection.rest.is_empty();
        if connection.phase == Phase::Open && connection.end == End::Unseen && !waits {
            connection.end = End::Told;
            let id = self.shard.id(slot);
            self.handler.on_end(&mut self.shard, id);
        }
        self.shard.mark(slot);
    }

    /// Brings every connection that was touched to where it should be: output sent, reading on or
    /// off, kept bytes shown, closes advanced. Then tells the handler of those that ended.
    fn settle(&mut self) {
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
                self.handler
                    .on_connect_failed(&mut self.shard, attempt.token, error);
            } else {
                self.shard.count_up().closed.add(1);
                self.handler.on_close(&mut self.shard, id, reason);
            }
        }
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
                self.handler.on_writable(&mut self.shard, id);
                self.shard.flush(slot);
            }
            self.show_again(slot);
        }
        self.advance_close(slot);
        let connection = &mut self.shard.connections[slot as usize];
        let wants = connection.wants_reading();
        if connection.reading != wants && !matches!(connection.phase, Phase::Free | Phase::Gone) {
            connection.reading = wants;
            self.shard.driver.set_reading(slot, wants);
        }
    }

    /// Shows kept bytes to a handler that can take them again.
    fn show_again(&mut self, slot: Slot) {
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

    fn fire(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        self.shard.wheel.advance(self.shard.tick, &mut due);
        for alarm in due.drain(..) {
            match alarm {
                Alarm::Handler { token } => {
                    self.shard.count_up().timers.add(1);
                    self.handler.on_timer(&mut self.shard, token);
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
        let progressed = self.shard.driver.take_progress(slot);
        let connection = &mut self.shard.connections[slot as usize];
        if connection.generation != generation || connection.phase == Phase::Gone {
            return;
        }
        connection.timer = None;
        if progressed && connection.write_since != NEVER {
            connection.write_since = tick;
            connection.activity = tick;
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
                _ => self.handler.on_deadline(&mut self.shard, id),
            }
        } else if connection.write_since != NEVER
            && passed(connection.write_since, config.write_timeout)
        {
            counters.timed_out.add(1);
            self.shard.detach(slot, CloseReason::WriteTimeout, true);
        } else if connection.phase == Phase::Open
            && connection.queued() == 0
            && passed(connection.activity, config.idle_timeout)
        {
            counters.timed_out.add(1);
            self.shard.close_for(id, CloseReason::IdleTimeout);
        }
        let connection = &self.shard.connections[slot as usize];
        if connection.generation == generation && connection.timer.is_none() {
            // Nothing queued and idle for long, but something keeps it: look again a tick later.
            self.shard.arm(slot);
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
                    self.handler.on_message(&mut self.shard, message);
                }
                Letter::Connection(socket) => self.adopt(socket),
                Letter::Stop(at) => {
                    self.shard.stop_at = Some(at);
                    self.shard.driver.stop_listening();
                    self.handler.on_stop(&mut self.shard);
                }
            }
        }
        self.mail = mail;
        count
    }

    /// While stopping: closes what is idle, and past the deadline cuts the rest.
    fn sweep(&mut self) {
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
                    if quiet && self.handler.is_idle(id) && !self.shard.driver.has_unread(slot) {
                        self.shard.close(id);
                    }
                }
                Phase::Connecting => self.shard.detach(slot, CloseReason::Cut, false),
                Phase::Draining if late => {
                    let reason = connection.reason;
                    self.shard.detach(slot, reason, false);
                }
                Phase::Open | Phase::Finishing if late => {
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

/// Whole milliseconds.
fn ticks(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(NEVER / 2)
}
