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
    mailbox::Letter,
    sys::socket,
};

impl<H: Handler> Runner<H> {
    pub(super) fn accepted(&mut self, socket: OwnedFd) {
        let common = &self.shard.common;
        if !common.connections.take(common.config.connections_max) {
            self.shard.count_up().refused_cap.add(1);
            socket::reset_on_close(socket.as_fd());
            return;
        }
        self.shard.count_up().accepted.add(1);
        if !common.hand_over {
            return self.adopt(socket);
        }
        let mut letter = Letter::Connection(socket);
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
        if let Letter::Connection(socket) = letter {
            self.adopt(socket);
        }
    }

    /// Takes a connection in that counts against the cap already.
    pub(super) fn adopt(&mut self, socket: OwnedFd) {
        let slot = self.shard.allocate();
        let mut options = self.shard.stream_options();
        if socket::INHERITS {
            options.keep_alive = None;
        }
        let result = socket::configure(socket.as_fd(), options);
        #[cfg(feature = "rustls")]
        let result = result.and_then(|()| self.shard.start_tls(slot));
        let result = result.and_then(|()| self.shard.driver.attach(slot, socket, false));
        if result.is_err() {
            // The peer reset the connection already, or its TLS session could not start.
            self.shard.count_up().broken.add(1);
            self.shard.count_up().closed.add(1);
            self.shard.unallocate(slot);
            return;
        }
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
