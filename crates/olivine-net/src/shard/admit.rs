//! How connections come to a shard: accepted, handed over, or made by us.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use super::{
    connection::{NEVER, Phase},
    run::Runner,
};
use crate::{
    driver::Slot,
    error::CloseReason,
    handler::{Handler, Origin},
    mailbox::{Letter, Passed},
    sys::socket,
};

impl<H: Handler> Runner<H> {
    pub(super) fn accepted(&mut self, socket: OwnedFd, listener: u16) {
        let common = &self.shard.common;
        if !common.connections.take(common.config.connections_max) {
            self.shard.count_up().refused_cap.add(1);
            socket::reset_on_close(socket.as_fd());
            return;
        }
        self.shard.count_up().accepted.add(1);
        let place = common.places.get(usize::from(listener));
        let passed = Passed::fresh(socket, Some(listener), Origin::Accepted);
        if !place.is_some_and(|place| place.hand_over) {
            return self.adopt(passed);
        }
        let mut letter = Letter::Connection(passed);
        loop {
            let common = &self.shard.common;
            self.next_shard = (self.next_shard + 1) % common.mailboxes.len();
            if self.next_shard == self.shard.index {
                break;
            }
            match common.mailboxes[self.next_shard].command(letter) {
                Ok(()) => return,
                // That shard has ended: the next one takes the connection, or finally this one.
                Err(returned) => letter = returned,
            }
        }
        if let Letter::Connection(passed) = letter {
            self.adopt(passed);
        }
    }

    /// Takes a connection in that counts against the cap already.
    pub(super) fn adopt(&mut self, passed: Passed) {
        let slot = self.shard.allocate();
        let place = passed.listener.map(usize::from);
        let place = place.and_then(|index| self.shard.common.places.get(index));
        let is_tcp = match place {
            Some(place) => place.is_tcp,
            None => socket::is_tcp(passed.socket.as_fd()),
        };
        #[cfg(feature = "rustls")]
        let plain = place.is_some_and(|place| place.plain);
        let mut options = self.shard.stream_options();
        options.is_tcp = is_tcp;
        if socket::INHERITS && passed.listener.is_some() {
            options.keep_alive = None;
        }
        let mut result = Ok(());
        match passed.origin {
            Origin::Accepted => result = socket::configure(passed.socket.as_fd(), options),
            Origin::HandedOver { .. } => self.shard.count_up().adopted.add(1),
            Origin::Adopted { .. } => {
                self.shard.count_up().adopted.add(1);
                result = socket::configure(passed.socket.as_fd(), options);
            }
            Origin::Connected { .. } => {}
        }
        let connection = &mut self.shard.connections[slot as usize];
        (connection.listener, connection.rest) = (passed.listener, passed.rest);
        #[cfg(feature = "rustls")]
        if let Some(session) = passed.tls {
            connection.tls = Some(session);
        } else if !plain && !matches!(passed.origin, Origin::HandedOver { .. }) {
            result = result.and_then(|()| self.shard.start_tls(slot));
        }
        let socket = passed.socket;
        let result = result.and_then(|()| self.shard.driver.attach(slot, socket, false));
        if result.is_err() {
            // The peer reset the connection already, or its TLS session could not start.
            self.shard.count_up().broken.add(1);
            self.shard.count_up().closed.add(1);
            self.shard.unallocate(slot);
            return;
        }
        self.open(slot, passed.origin);
        let connection = &mut self.shard.connections[slot as usize];
        if connection.phase == Phase::Open && !connection.rest.is_empty() {
            // Shown once the handler knows the connection.
            connection.resume = true;
            self.shard.mark(slot);
        }
    }

    /// Passes a connection on to the shard that is to get it.
    pub(super) fn hand_on(&mut self, slot: Slot, socket: OwnedFd) {
        let id = self.shard.id(slot);
        let connection = &mut self.shard.connections[slot as usize];
        let (leaving, rest) = (
            connection.leaving.take(),
            std::mem::take(&mut connection.rest),
        );
        let listener = connection.listener;
        #[cfg(feature = "rustls")]
        let tls = connection.tls.take();
        let Some(leaving) = leaving else {
            // It was given up meanwhile.
            socket::reset_on_close(socket.as_fd());
            self.shard.unallocate(slot);
            return;
        };
        let letter = Letter::Connection(Passed {
            socket,
            listener,
            origin: Origin::HandedOver {
                token: leaving.token,
            },
            rest,
            #[cfg(feature = "rustls")]
            tls,
        });
        let mailbox = self.shard.common.mailboxes.get(leaving.shard);
        let reason = match mailbox.map(|mailbox| mailbox.command(letter)) {
            Some(Ok(())) => CloseReason::HandedOver,
            Some(Err(Letter::Connection(passed))) => {
                socket::reset_on_close(passed.socket.as_fd());
                self.shard.common.connections.give();
                CloseReason::Aborted
            }
            _ => CloseReason::Aborted,
        };
        self.shard.ended.push((id, reason, None));
        self.shard.leave(slot);
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
        self.tell(Some(id), |handler, shard| {
            handler.on_open(shard, id, origin)
        });
    }

    pub(super) fn connected(&mut self, slot: Slot, result: io::Result<()>) {
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
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        sync::Arc,
        time::Duration,
    };

    use super::*;
    use crate::{
        config::{EngineConfig, WaitStrategy},
        driver::{Driver, Waker, readiness::Readiness},
        handler::ConnectionId,
        health::{ShardCounters, Vitals},
        mailbox::Mailbox,
        shard::{Common, Shard},
        sync::Gauge,
    };

    #[derive(Debug, Default)]
    struct Ends {
        opened: usize,
        reasons: Vec<CloseReason>,
    }

    impl Handler for Ends {
        type Message = ();

        fn on_open(&mut self, _: &mut Shard<()>, _: ConnectionId, _: Origin) {
            self.opened += 1;
        }

        fn on_data(&mut self, _: &mut Shard<()>, _: ConnectionId, data: &[u8]) -> usize {
            data.len()
        }

        fn on_close(&mut self, _: &mut Shard<()>, _: ConnectionId, reason: CloseReason) {
            self.reasons.push(reason);
        }
    }

    fn drivers() -> Vec<(Box<dyn Driver>, Waker)> {
        let (driver, waker) = Readiness::new(4096).unwrap();
        let mut drivers: Vec<(Box<dyn Driver>, Waker)> = vec![(Box::new(driver), waker)];
        #[cfg(target_os = "linux")]
        if let Ok((driver, waker)) = crate::sys::uring::Uring::new(4096) {
            drivers.push((Box::new(driver), waker));
        }
        drivers
    }

    fn runner(driver: Box<dyn Driver>, waker: Waker) -> Runner<Ends> {
        let common = Common {
            config: EngineConfig::client().wait(WaitStrategy::Spin),
            mailboxes: vec![Mailbox::new(1)],
            counters: vec![ShardCounters::default()],
            connections: Gauge::default(),
            vitals: vec![Vitals::default()],
            places: Vec::new(),
            listeners: Vec::new(),
        };
        common.mailboxes[0].set_waker(waker);
        Runner::new(Shard::new(0, driver, Arc::new(common)), Ends::default())
    }

    /// The kernel has reported the reset when the driver is asked for the socket, and the shard has
    /// not handled it.
    #[test]
    fn connection_that_is_reset_while_it_moves_leaves_nothing_behind() {
        for (driver, waker) in drivers() {
            let name = driver.name();
            let mut runner = runner(driver, waker);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let ours = OwnedFd::from(listener.accept().unwrap().0);
            socket::take_over(ours.as_fd()).unwrap();
            assert!(runner.shard.common.connections.take(1));
            runner.adopt(Passed::fresh(ours, None, Origin::Adopted { token: 1 }));
            runner.round().unwrap();
            let id = runner.shard.open().next().unwrap();
            socket::reset_on_close(peer.as_fd());
            drop(peer);
            let long = Some(Duration::from_secs(10));
            runner.shard.driver.wait(long).unwrap();
            runner.shard.hand_over(id, 0, 7).unwrap();
            runner.settle();
            for _ in 0..100 {
                runner.round().unwrap();
            }
            let Ends { opened, reasons } = &runner.handler;
            assert_eq!((runner.shard.live, reasons.len()), (0, *opened), "{name}");
            let broken = matches!(reasons.last(), Some(CloseReason::Broken(_)));
            assert!(broken, "{name}: {reasons:?}");
            // It counts no more.
            assert!(runner.shard.common.connections.take(1), "{name}");
        }
    }
}
