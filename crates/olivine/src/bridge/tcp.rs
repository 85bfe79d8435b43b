//! `tcp://`: ring bytes over a connection. `docs/wire.md` describes the protocol; `docs/adr/0010`
//! why this runs on separate threads.
//!
//! One side listens, the other connects, as `role=` says. This is independent of the direction of
//! the messages.
//!
//! | | listens | connects |
//! |---|---|---|
//! | source (publisher) | [`sessions`]: a ring subscriber for each destination | [`connect`] |
//! | destination (subscriber) | [`sessions`]: a lane for each source | [`connect`] |
//!
//! Each session has a thread.
//!
//! The side that connects restores a broken connection, with a pause that doubles up to a second.
//! The stream continues from the destination's last commit. The side that listens keeps the other
//! side's session in the meantime.

mod absent;
mod connect;
mod destination;
mod greet;
mod listen;
mod pipe;
mod sessions;
mod socket;
mod source;
#[cfg_attr(not(feature = "tls"), path = "tcp/tls_absent.rs")]
mod tls;
mod waker;

use super::wire::hello::Side;
use super::{Destination, Inlet, Outlet, Source, secret};
use crate::channel::attach::random_id;
use crate::error::{LinkError, OpenError};
use crate::link::Control;
use crate::uri::remote::{Address, TIMEOUT_DEFAULT};
use crate::uri::{BIND_RULE, Config, EXPIRE_DEFAULT, Expire, Role, UriError, WaitStrategy};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::Tls;

/// Longest wait for the whole hello, from the accept, or from our own hello. A side that connects
/// waits for its time-out, if that is shorter.
const HELLO_TIME_MAX: Duration = Duration::from_secs(5);
/// How long an adaptive bridge polls before it sleeps.
const ADAPTIVE_SPIN: Duration = Duration::from_micros(50);

/// One side of `tcp://`, as its settings say.
#[derive(Clone, Debug)]
pub(crate) struct Tcp {
    config: Config,
    role: Role,
    address: Address,
    tls: Option<Tls>,
    token: String,
    timeout: Duration,
    /// Random, for this handle or bridge.
    instance: u64,
}

impl Tcp {
    /// Reads the files that the settings name, for this side of the channel.
    pub(crate) fn new(config: &Config, side: Side) -> Result<Self, OpenError> {
        let tcp = &config.groups.tcp;
        let connection = &tcp.connection;
        let role = tcp.role.unwrap_or(match side {
            Side::Source => Role::Listen,
            Side::Destination => Role::Connect,
        });
        if tcp.bind.is_some() && role == Role::Listen {
            return Err(OpenError::Uri(UriError::Pair {
                first: "bind",
                second: "the side that listens",
                rule: BIND_RULE,
            }));
        }
        // `validate` has checked that there is one.
        let address = tcp.address.clone().unwrap_or(Address {
            host: String::new(),
            port: 0,
        });
        if address.port == 0 && role == Role::Connect {
            return Err(OpenError::Uri(UriError::Address {
                address: address.to_string(),
                rule: "the side that connects names the port that the other side has, from 1 to \
                       65535; only a side that listens can let the system choose, with 0",
            }));
        }
        let tls = connection
            .tls
            .then(|| Tls::new(role, &address, connection))
            .transpose()?;
        let token = match connection.token.as_deref() {
            Some(token) => secret::read("read the token from", token)?,
            None => String::new(),
        };
        Ok(Self {
            config: config.clone(),
            role,
            address,
            tls,
            token,
            timeout: connection.timeout.unwrap_or(TIMEOUT_DEFAULT),
            instance: random_id(),
        })
    }

    fn strategy(&self) -> WaitStrategy {
        self.config.wait
    }

    /// How long the other side is to keep our session; zero for ever.
    fn expire(&self) -> Duration {
        match (self.config.expire, &self.config.name) {
            (Expire::After(after), _) => after,
            (Expire::Never, Some(_)) => Duration::ZERO,
            (Expire::Never, None) => EXPIRE_DEFAULT,
        }
    }

    fn close_timeout(&self) -> Duration {
        self.config.close_timeout()
    }
}

impl Outlet for Tcp {
    fn is_single(&self) -> bool {
        self.role == Role::Connect
    }

    fn counts_once_connected(&self) -> bool {
        self.role == Role::Connect
    }

    fn run(
        self: Box<Self>,
        source: Source,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError> {
        match self.role {
            Role::Listen => listen::sources(&self, &source, control, until_end),
            Role::Connect => connect::source(&self, source, control, until_end),
        }
    }
}

impl Inlet for Tcp {
    fn run(
        self: Box<Self>,
        destination: Destination,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError> {
        match self.role {
            Role::Listen => listen::destinations(&self, &destination, control, until_end),
            Role::Connect => connect::destination(&self, destination, control, until_end),
        }
    }
}

/// Counts what was carried, for [`LinkStatus`].
#[derive(Clone, Copy, Debug)]
struct LinkCounters<'a>(&'a Control);

impl LinkCounters<'_> {
    fn carried(&self, bytes: u64) {
        self.0.report(|status| status.bytes += bytes);
    }

    fn acknowledged(&self, bytes: u64) {
        if bytes > 0 {
            self.0.report(|status| status.acknowledged_bytes += bytes);
        }
    }

    fn messages(&self, count: u64) {
        if count > 0 {
            self.0.report(|status| status.messages += count);
        }
    }
}

/// Measures how long a thread of a bridge has found nothing to do, and decides when to sleep.
#[derive(Debug)]
struct IdlePolls {
    strategy: WaitStrategy,
    since: Option<Instant>,
    slept: bool,
}

impl IdlePolls {
    fn new(strategy: WaitStrategy) -> Self {
        Self {
            strategy,
            since: None,
            slept: false,
        }
    }

    /// Something was found.
    fn reset(&mut self) {
        (self.since, self.slept) = (None, false);
    }

    /// Nothing was found: whether to poll again at once.
    fn poll_again(&mut self) -> bool {
        match self.strategy {
            WaitStrategy::Spin => std::hint::spin_loop(),
            WaitStrategy::Yield => std::thread::yield_now(),
            WaitStrategy::Park => return false,
            WaitStrategy::Adaptive => {
                let since = *self.since.get_or_insert_with(Instant::now);
                return !self.slept && since.elapsed() < ADAPTIVE_SPIN;
            }
        }
        true
    }

    /// We slept: look once, and sleep again if there is nothing to do.
    fn woke(&mut self) {
        self.slept = true;
    }
}
