//! The generator on the engine's io_uring back end, for closed loops.
//!
//! After each round one call sends the data of all connections to the kernel and collects what has
//! arrived. At a low depth the epoll loop needs a receive and a send for every few requests; this
//! saves most of these calls.

use super::client::{Protocol, SILENCE_NS, Tally, Times, silent};
use super::error::LoadError;
use super::{Plan, Waiting};
use crate::clock::TickClock;
use olivine_net::{
    Backend, CloseReason, ConnectError, ConnectionId, Engine, EngineConfig, Handler, Origin, Shard,
    Slots, WaitStrategy,
};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Time between two checks of the end.
const LOOK: Duration = Duration::from_millis(5);

/// Asked once, when all connections are there.
type Begin = Box<dyn FnOnce() -> Times + Send>;
/// Result of the loop.
type Ending = Result<Tally, LoadError>;

struct Link {
    index: usize,
    outstanding: usize,
    /// When the batch under way was sent, in ticks.
    asked_at: u64,
    /// Whether a part of a reply has arrived.
    partial: bool,
}

struct Loader<P> {
    address: SocketAddr,
    connections: usize,
    depth: usize,
    protocol: P,
    /// Returns the measured time; `None` once it was called, or is no longer needed.
    begin: Option<Begin>,
    /// `None` while the first connections are being made.
    times: Option<Times>,
    silence: u64,
    links: Slots<Link>,
    /// Connections that are open or being made.
    live: usize,
    /// Of the first connections, those that are being made.
    pending: usize,
    /// Of the first connections, those that were closed before all were there.
    closed_early: Vec<usize>,
    out: Vec<u8>,
    last_answer: u64,
    tally: Tally,
    /// `None` once the end was reported.
    ending: Option<mpsc::Sender<Ending>>,
}

/// Runs to the end of the measured time, or until the server has ended, on the plan's CPU. `begin`
/// returns the measured time once all connections are open.
pub(super) fn run(
    address: SocketAddr,
    plan: &Plan,
    protocol: impl Protocol + 'static,
    begin: impl FnOnce() -> Times + Send + 'static,
) -> Ending {
    let (ending, ended) = mpsc::channel();
    let loader = Loader {
        address,
        connections: plan.connections,
        depth: plan.depth,
        protocol,
        begin: Some(Box::new(begin)),
        times: None,
        silence: TickClock::calibrate().ticks_for(SILENCE_NS),
        links: Slots::new(),
        live: 0,
        pending: plan.connections,
        closed_early: Vec::new(),
        out: Vec::new(),
        last_answer: 0,
        tally: Tally::default(),
        ending: Some(ending),
    };
    let wait = match plan.waiting {
        Waiting::Spin => WaitStrategy::Spin,
        Waiting::Block => WaitStrategy::Block,
    };
    // CPUs are u32 here and usize there.
    let cpu = usize::try_from(plan.cpu).unwrap_or(usize::MAX);
    let config = EngineConfig::client()
        .cpus([cpu])
        .backend(Backend::IoUring)
        .wait(wait)
        .linger(Duration::ZERO);
    // One shard, so it is taken once.
    let loader = Mutex::new(Some(loader));
    let engine = Engine::start(config, move |_| {
        let mut loader = loader.lock().unwrap_or_else(PoisonError::into_inner);
        loader.take().expect("there is one shard")
    })
    .map_err(LoadError::Engine)?;
    let ending = ended.recv().unwrap_or(Err(LoadError::Panicked));
    engine.stop(Duration::ZERO);
    ending
}

impl<P: Protocol> Loader<P> {
    fn connect(&mut self, shard: &mut Shard<()>, index: usize) {
        self.live += 1;
        if let Err(error) = shard.connect(self.address, CONNECT_MAX, index as u64) {
            self.connect_failed(error);
        }
    }

    fn connect_failed(&mut self, source: ConnectError) {
        self.live -= 1;
        if self.times.is_none() {
            let wanted = self.connections;
            let made = wanted - self.pending;
            return self.end(Some(LoadError::Attempt {
                made,
                wanted,
                source,
            }));
        }
        self.look_for_life();
    }

    /// One of the first connections is open; with the last of them the measurement begins.
    fn connected(&mut self, shard: &mut Shard<()>) {
        self.pending = self.pending.saturating_sub(1);
        if self.pending > 0 {
            return;
        }
        let Some(begin) = self.begin.take() else {
            return;
        };
        let times = begin();
        self.times = Some(times);
        self.last_answer = times.start;
        let open: Vec<ConnectionId> = self.links.iter().map(|(id, _)| id).collect();
        for id in open {
            self.ask(shard, id, TickClock::ticks());
        }
        for index in std::mem::take(&mut self.closed_early) {
            self.connect(shard, index);
        }
    }

    /// Ends when the last connection is gone and could not be reopened.
    fn look_for_life(&mut self) {
        if self.live == 0 {
            self.tally.gone = true;
            self.end(None);
        }
    }

    fn end(&mut self, error: Option<LoadError>) {
        // Wakes the waiting side.
        self.begin = None;
        if let Some(ending) = self.ending.take() {
            let mut tally = std::mem::take(&mut self.tally);
            tally.ended = TickClock::ticks();
            // If the receiver is gone, it has given up.
            let _ = ending.send(error.map_or(Ok(tally), Err));
        }
    }

    fn ask(&mut self, shard: &mut Shard<()>, id: ConnectionId, now: u64) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        self.out.clear();
        self.protocol.ask(link.index, self.depth, &mut self.out);
        (link.outstanding, link.asked_at) = (self.depth, now);
        // The queue is empty, so the bytes are accepted; a lost connection is reported later.
        let _ = shard.offer(id, &self.out);
    }

    fn answered(&mut self, id: ConnectionId, data: &[u8]) -> Result<(usize, bool), LoadError> {
        let Some(link) = self.links.get_mut(id) else {
            return Ok((data.len(), false));
        };
        let (answers, used) = self.protocol.read(link.index, data)?;
        link.partial = used < data.len();
        self.tally.refuse_unasked(answers, link.outstanding)?;
        link.outstanding -= answers;
        if answers == 0 {
            return Ok((used, false));
        }
        let now = TickClock::ticks();
        self.last_answer = now;
        if self.times.is_some_and(|times| times.measured(now)) {
            self.tally.answers += answers as u64;
            let taken = now.saturating_sub(link.asked_at);
            self.tally.latency.record_many(taken, answers as u64);
        }
        let goes_on = self.times.is_some_and(|times| now < times.end);
        Ok((used, link.outstanding == 0 && goes_on))
    }
}

impl<P: Protocol + 'static> Handler for Loader<P> {
    type Message = ();

    fn on_start(&mut self, shard: &mut Shard<()>) {
        for index in 0..self.connections {
            self.connect(shard, index);
        }
        shard.set_timer(LOOK, 0);
    }

    fn on_open(&mut self, shard: &mut Shard<()>, id: ConnectionId, origin: Origin) {
        let Origin::Connected { token } = origin else {
            return;
        };
        let link = Link {
            // Tokens are the indices that connections were asked for with.
            index: usize::try_from(token).unwrap_or(0),
            outstanding: 0,
            asked_at: 0,
            partial: false,
        };
        self.links.insert(id, link);
        if self.times.is_some() {
            self.ask(shard, id, TickClock::ticks());
        } else {
            self.connected(shard);
        }
    }

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        match self.answered(id, data) {
            Ok((used, again)) => {
                if again {
                    self.ask(shard, id, TickClock::ticks());
                }
                used
            }
            Err(error) => {
                self.end(Some(error));
                data.len()
            }
        }
    }

    fn on_close(&mut self, shard: &mut Shard<()>, id: ConnectionId, _: CloseReason) {
        self.live -= 1;
        let Some(link) = self.links.remove(id) else {
            return;
        };
        // Closed by the end of the measurement, when no receiver is left.
        if self.ending.is_none() {
            return;
        }
        if link.partial {
            self.tally.cut += 1;
        } else {
            self.tally.closed += 1;
        }
        self.protocol.reopened(link.index);
        if self.times.is_some() {
            self.connect(shard, link.index);
        } else {
            // An immediate retry would loop forever against a server that refuses.
            self.closed_early.push(link.index);
        }
    }

    fn on_connect_failed(&mut self, _: &mut Shard<()>, _: u64, error: ConnectError) {
        self.connect_failed(error);
    }

    fn on_timer(&mut self, shard: &mut Shard<()>, _: u64) {
        shard.set_timer(LOOK, 0);
        // Until then each connection has its time-out.
        let Some(times) = self.times else { return };
        let now = TickClock::ticks();
        if now >= times.end {
            self.end(None);
        } else if now > self.last_answer + self.silence {
            self.end(Some(silent()));
        }
    }
}
