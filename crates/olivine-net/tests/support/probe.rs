//! A handler that echoes, reports what it sees, and follows a test's orders.

use std::{
    net::SocketAddr,
    sync::{Arc, mpsc},
    time::Duration,
};

use olivine_net::{
    CloseReason, ConnectError, ConnectionId, Engine, EngineConfig, Handler, NotSent, Origin, Shard,
};

use super::next;

/// What a probe saw; sent out of the shard so that tests can wait for it.
#[derive(Debug, PartialEq)]
pub enum Seen {
    Open(ConnectionId, Origin),
    Data(usize),
    Writable,
    End,
    Close(CloseReason),
    Timer(u64),
    Failed(u64, String),
    Full(usize),
    Held,
}

/// Orders to a probe.
pub enum Order {
    Connect(SocketAddr, Duration, u64),
    Timer(Duration, u64),
    Pause(ConnectionId),
    Resume(ConnectionId),
    Offer(ConnectionId, Vec<u8>),
    Share(ConnectionId, Arc<[u8]>),
    SendNow(ConnectionId, Vec<u8>),
    FillUp(ConnectionId),
    Close(ConnectionId),
    Abort(ConnectionId),
    Deadline(ConnectionId, Duration),
    HandOver(ConnectionId, usize, u64),
    /// Lets the shard do nothing until the other end is dropped.
    Hold(mpsc::Receiver<()>),
}

/// Echoes whole lines (or every byte with `frame` 1) and reports what happens.
pub struct Probe {
    pub frame: usize,
    pub busy: bool,
    pub seen: mpsc::Sender<Seen>,
    pub unsent: Vec<u8>,
}

impl Handler for Probe {
    type Message = Order;

    fn on_open(&mut self, _: &mut Shard<Order>, id: ConnectionId, origin: Origin) {
        let _ = self.seen.send(Seen::Open(id, origin));
    }

    fn on_data(&mut self, shard: &mut Shard<Order>, id: ConnectionId, data: &[u8]) -> usize {
        let whole = data.len() - data.len() % self.frame;
        let _ = self.seen.send(Seen::Data(data.len()));
        match shard.offer(id, &data[..whole]) {
            Ok(()) => whole,
            Err(_) => 0,
        }
    }

    fn on_writable(&mut self, shard: &mut Shard<Order>, id: ConnectionId) {
        let _ = self.seen.send(Seen::Writable);
        if !self.unsent.is_empty()
            && let Ok(sent) = shard.send_now(id, &self.unsent)
        {
            self.unsent.drain(..sent);
        }
    }

    fn on_end(&mut self, shard: &mut Shard<Order>, id: ConnectionId) {
        let _ = self.seen.send(Seen::End);
        shard.close(id);
    }

    fn on_close(&mut self, _: &mut Shard<Order>, _: ConnectionId, reason: CloseReason) {
        let _ = self.seen.send(Seen::Close(reason));
    }

    fn on_timer(&mut self, _: &mut Shard<Order>, token: u64) {
        let _ = self.seen.send(Seen::Timer(token));
    }

    fn on_message(&mut self, here: &mut Shard<Order>, order: Order) {
        match order {
            Order::Connect(address, timeout, token) => {
                if let Err(error) = here.connect(address, timeout, token) {
                    let _ = self.seen.send(Seen::Failed(token, error.to_string()));
                }
            }
            Order::Timer(after, token) => drop(here.set_timer(after, token)),
            Order::Pause(id) => here.pause(id),
            Order::Resume(id) => here.resume(id),
            Order::Offer(id, bytes) => drop(here.offer(id, &bytes)),
            Order::Share(id, bytes) => {
                for _ in 0..4 {
                    here.offer(id, b"<").unwrap();
                    here.offer_shared(id, Arc::clone(&bytes)).unwrap();
                    here.offer(id, b">").unwrap();
                }
            }
            Order::SendNow(id, bytes) => {
                let sent = here.send_now(id, &bytes).unwrap();
                self.unsent = bytes[sent..].to_vec();
            }
            Order::FillUp(id) => {
                let mut taken = 0;
                while here.offer(id, &[b'x'; 1000]) != Err(NotSent::BackPressured) {
                    taken += 1000;
                }
                let _ = self.seen.send(Seen::Full(taken));
            }
            Order::HandOver(id, shard, token) => {
                if let Err(error) = here.hand_over(id, shard, token) {
                    let _ = self.seen.send(Seen::Failed(token, error.to_string()));
                }
            }
            Order::Close(id) => here.close(id),
            Order::Abort(id) => here.abort(id),
            Order::Hold(until) => {
                let _ = self.seen.send(Seen::Held);
                let _ = until.recv();
            }
            Order::Deadline(id, after) => here.set_deadline(id, Some(after)),
        }
    }

    fn on_connect_failed(&mut self, _: &mut Shard<Order>, token: u64, error: ConnectError) {
        let _ = self.seen.send(Seen::Failed(token, error.to_string()));
    }

    fn is_idle(&self, _: ConnectionId) -> bool {
        !self.busy
    }
}

pub fn start(config: EngineConfig) -> (Engine<Probe>, mpsc::Receiver<Seen>, SocketAddr) {
    start_with(config, 1, false)
}

pub fn start_with(
    config: EngineConfig,
    frame: usize,
    busy: bool,
) -> (Engine<Probe>, mpsc::Receiver<Seen>, SocketAddr) {
    let (seen, events) = mpsc::channel();
    let probe = move |_| Probe {
        frame,
        busy,
        seen: seen.clone(),
        unsent: Vec::new(),
    };
    let engine = Engine::start(config, probe).unwrap();
    let address = engine
        .local_address()
        .unwrap_or_else(|| "127.0.0.1:9".parse().unwrap());
    (engine, events, address)
}

/// The next event that is not about data.
pub fn event(events: &mpsc::Receiver<Seen>) -> Seen {
    loop {
        match next(events) {
            Seen::Data(_) => {}
            other => return other,
        }
    }
}

pub fn opened(events: &mpsc::Receiver<Seen>) -> ConnectionId {
    match event(events) {
        Seen::Open(id, _) => id,
        other => panic!("{other:?} instead of an open connection"),
    }
}

pub fn post(engine: &Engine<Probe>, order: Order) {
    assert!(engine.post(0, order).is_ok());
}

/// Blocks the shard until the returned value is dropped.
pub fn hold(engine: &Engine<Probe>) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel();
    post(engine, Order::Hold(held));
    release
}
