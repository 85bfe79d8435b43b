//! The side that listens: one thread for each connection, one session for each far side.

use super::absent::{AbsentSources, ExpiredDestinations, ExpiredSources};
use super::destination::Receiving;
use super::pipe::{self, ConnectionEnd, Pipe};
use super::sessions::{Disconnect, OpenSession, Sessions, Tasks};
use super::socket::{self, NAP, Socket, wait};
use super::source::{Sending, send_failure};
use super::{HELLO_TIME_MAX, LinkCounters, Tcp, greet};
use crate::bridge::egress::Egress;
use crate::bridge::ingress::Ingress;
use crate::bridge::wire::hello::{Hello, Side};
use crate::bridge::wire::{Close, WireError};
use crate::bridge::{Destination, Source, ring_error};
use crate::channel::attach::{self, ShapeRole};
use crate::channel::fields;
use crate::channel::raw::LaneSource;
use crate::error::{LinkError, OpenError};
use crate::fork::ClosedInChildren;
use crate::link::{Control, LinkStage, Stop};
use crate::message::KnownType;
use crate::ring::layout::{Geometry, fnv};
use crate::uri::{Expire, Scheme};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

/// Connections that are served at a time; further ones are refused.
const CONNECTIONS_MAX: usize = 1024;

/// Why the lanes of a far side end that did not come back.
const AWAY: &str = "its publisher was away for longer than it had asked to be waited for";

/// How the names of places begin that a ring has for far sides.
const SEAT: &str = "tcp.";

/// Connections that are accepted before the listener does other work.
const ACCEPTS_MAX: usize = 64;

/// Most connections at a time without a complete hello: an eighth of this process's descriptor
/// limit.
fn strangers_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let share = limit.map_or(CONNECTIONS_MAX as u64, |limit| limit / 8);
    usize::try_from(share).map_or(CONNECTIONS_MAX, |share| share.clamp(1, CONNECTIONS_MAX))
}

/// Serves a ring to any number of destinations.
pub(super) fn sources(
    tcp: &Tcp,
    source: &Source,
    control: &Control,
    until_end: bool,
) -> Result<(), LinkError> {
    let before = || {
        let (geometry, known) = shape(source)?;
        Ok(greet::of_source_before(tcp, &geometry, known))
    };
    let ours = before()?;
    // The ring may be another one when it is opened for a destination: the hello comes from the
    // opened one.
    let introduce = |egress: &Egress| Ok(greet::of_source(tcp, egress));
    let sessions: Sessions<Egress> = Sessions::new(Tasks {
        // The next look at the ring reports its errors.
        set_goal: |egress| drop(egress.set_goal()),
        is_delivered: Egress::is_settled,
        undelivered: Egress::undelivered,
        has_end: Egress::has_end,
        is_over: Egress::is_over,
        is_confirmed: Egress::is_confirmed,
        // A later listener finds what is in shared memory.
        owes_end: match source.ring().scheme() == Scheme::Shm || until_end {
            true => |_| false,
            false => Egress::is_ended,
        },
    });
    let open = |hello: &Hello| {
        let mut ring = source.ring().clone();
        (ring.from, ring.name) = (hello.from, None);
        if ring.scheme() == Scheme::Shm {
            // Durable, so that a later bridge finds it. Unnamed ones are kept for as long as they
            // asked.
            ring.name = Some(seat(hello));
            ring.expire = expire(hello);
        }
        Egress::open(&ring, ShapeRole::Names).map_err(|error| full_or_failed(ring_error(error)))
    };
    let expired = ExpiredDestinations::default();
    let send = |pipe: &mut Pipe, egress: &mut Egress, theirs: &Hello| {
        let key = seat(theirs);
        let resumed = greet::resume(pipe, control, egress, |egress, places| {
            expired.take_missed(&key, egress, places)
        });
        // It has told its handle that messages are missing.
        if let Err(ConnectionEnd::ByPeer {
            close: Close::Lost, ..
        }) = &resumed
        {
            expired.forget(&key);
        }
        let open_there = resumed?;
        let counters = LinkCounters(control);
        let mut sending = Sending {
            pipe,
            egress,
            control,
            counters,
            strategy: tcp.strategy(),
            until_end,
            open_there,
            theirs,
        };
        sending.run()
    };
    let serve = |pipe: &mut Pipe, egress: &mut Egress, theirs: &Hello| {
        egress.set_reader(theirs.instance, expire(theirs));
        let outcome = send(pipe, egress, theirs);
        send_failure(outcome, pipe, egress, control)
    };
    let forget = |key: &str, mut egress: Egress, left: Left<'_>| {
        if matches!(left, Left::Away) {
            expired.keep(key, &mut egress);
        }
        egress.unsubscribe();
    };
    for absent in source.absent_readers() {
        if !absent.name.starts_with(SEAT) {
            continue;
        }
        // Before the listener accepts: none of them has come back.
        match Egress::open_absent(source.ring(), &absent) {
            Ok(held) => {
                let grace = pipe::end_grace(tcp.timeout);
                sessions.add_absent(absent.name.clone(), held, absent.left(), grace);
            }
            // Its connection tries again.
            Err(error) => control.report(|status| {
                status.note = format!("the place {} cannot be opened: {error}", absent.name);
            }),
        }
    }
    let server = Server {
        tcp,
        control,
        ours: &ours,
        before: &before,
        introduce: &introduce,
        sessions: &sessions,
        awaits: &|| false,
        until_end,
        failure: Mutex::new(None),
    };
    server.run("subscribers", &open, &serve, &forget)
}

/// The `expire=` that a far side asks for.
fn expire(hello: &Hello) -> Expire {
    match Sessions::<Egress>::expire_of(hello) {
        expire if expire.is_zero() => Expire::Never,
        expire => Expire::After(expire),
    }
}

/// Receives from any number of sources.
pub(super) fn destinations(
    tcp: &Tcp,
    destination: &Destination,
    control: &Control,
    until_end: bool,
) -> Result<(), LinkError> {
    let before = || greet::of_destination(tcp, destination, false);
    let ours = before()?;
    let introduce = |_: &Ingress| greet::of_destination(tcp, destination, false);
    let sessions: Sessions<Ingress> = Sessions::new(Tasks {
        set_goal: |_| {},
        is_delivered: |_| true,
        undelivered: |_| 0,
        has_end: |_| false,
        is_over: |_| false,
        is_confirmed: |_| true,
        owes_end: |_| false,
    });
    let absent = AbsentSources::find(destination);
    let expired = ExpiredSources::default();
    let open = |hello: &Hello| {
        let mut destination = destination.clone();
        destination.adopt(&hello.known, hello.capacity);
        let key = key(hello);
        let source = LaneSource::new(&key, Sessions::<Ingress>::expire_of(hello));
        absent.came_back(source);
        let opened = destination.ingress_of(source, &key);
        let mut ingress = opened.map_err(full_or_failed)?;
        ingress.continue_at(expired.take(hello.incarnation));
        Ok(ingress)
    };
    let serve = |pipe: &mut Pipe, ingress: &mut Ingress, theirs: &Hello| {
        greet::fits(ingress, theirs)?;
        greet::put_resume(pipe, ingress, theirs.incarnation)?;
        let counters = LinkCounters(control);
        Receiving {
            pipe,
            ingress,
            control,
            counters,
            strategy: tcp.strategy(),
            incarnation: theirs.incarnation,
            fails_with_source: false,
        }
        .run()
    };
    let forget = |_: &str, mut ingress: Ingress, left: Left<'_>| match left {
        Left::Ended => ingress.end(),
        Left::Away => expired.keep(ingress.abandon(AWAY)),
        Left::Failed(reason) => expired.keep(ingress.abandon(reason)),
    };
    let server = Server {
        tcp,
        control,
        ours: &ours,
        before: &before,
        introduce: &introduce,
        sessions: &sessions,
        awaits: &|| absent.await_them(destination, control, AWAY, &expired),
        until_end,
        failure: Mutex::new(None),
    };
    server.run("publishers", &open, &serve, &forget)
}

/// Identity of a far side: its durable name, or its instance number.
fn key(hello: &Hello) -> String {
    if hello.name.is_empty() {
        format!("instance {:016x}", hello.instance)
    } else {
        format!("name {}", hello.name)
    }
}

/// The key of a far side's session. A source's ring has its place under this name.
fn seat(hello: &Hello) -> String {
    format!("{SEAT}{:016x}", fnv(key(hello).bytes()))
}

/// Geometry and type of the ring; if it does not exist, it is created and removed for that.
fn shape(source: &Source) -> Result<(Geometry, KnownType), LinkError> {
    let looked = attach::open(
        source.ring(),
        &crate::bridge::any_type(),
        ShapeRole::Names,
        |_| Ok(()),
    );
    let (mut attached, ()) = looked.map_err(ring_error)?;
    let geometry = attached.geometry.clone();
    let known = fields::known_type(&attached.control, &geometry);
    attached.leave(|_| ());
    Ok((geometry, known))
}

/// A place or a name that is in use may be free later. Every other error of the ring is a failure.
fn full_or_failed(error: LinkError) -> ConnectionEnd {
    let LinkError::Ring { source } = &error else {
        return ConnectionEnd::Failed(error);
    };
    let close = match **source {
        OpenError::SubscribersFull { .. } => Close::Full,
        OpenError::NameInUse { .. } | OpenError::SourceInUse { .. } => Close::NameInUse,
        _ => return ConnectionEnd::Failed(error),
    };
    let reason = source.to_string();
    ConnectionEnd::ByUs { close, reason }
}

/// How a far side left for good.
#[derive(Clone, Copy, Debug)]
enum Left<'a> {
    /// With the end or the failure of its stream, which the lanes have.
    Ended,
    /// Without a word, for too long.
    Away,
    /// With this reason.
    Failed(&'a str),
}

/// The common part of listening for both directions; `S` is what a session holds.
struct Server<'a, S> {
    tcp: &'a Tcp,
    control: &'a Control,
    /// Our hello at the start, to compare with new connections.
    ours: &'a Hello,
    /// Our hello before a session is opened: the ring may be another one by now.
    before: &'a (dyn Fn() -> Result<Hello, LinkError> + Sync),
    /// Our hello to the far side of this session.
    introduce: &'a (dyn Fn(&S) -> Result<Hello, LinkError> + Sync),
    sessions: &'a Sessions<S>,
    /// Ends what far sides without a session left here for too long. Whether some may come back.
    awaits: &'a (dyn Fn() -> bool + Sync),
    until_end: bool,
    /// The failure with which the stream has ended, once a far side was sent it.
    failure: Mutex<Option<LinkError>>,
}

impl<S: Send> Server<'_, S> {
    fn run(
        &self,
        peers: &str,
        open: &(impl Fn(&Hello) -> Result<S, ConnectionEnd> + Sync),
        serve: &(impl Fn(&mut Pipe, &mut S, &Hello) -> Result<(), ConnectionEnd> + Sync),
        forget: &(impl Fn(&str, S, Left<'_>) + Sync),
    ) -> Result<(), LinkError> {
        let address = &self.tcp.address;
        let refused = |source| LinkError::Io {
            action: "listen on",
            place: address.to_string(),
            source: Arc::new(source),
        };
        let (listener, local) = socket::listen(&address.host, address.port).map_err(refused)?;
        self.control.report(|status| {
            status.address = local.to_string();
            status.note = format!("waiting for {peers} on {local}");
        });
        self.control.tried();
        std::thread::scope(|scope| {
            let mut threads: Vec<ScopedJoinHandle<'_, ()>> = Vec::new();
            loop {
                threads.retain(|thread| !thread.is_finished());
                let (abandoned, messages) = self.sessions.expire(|key, held, has_all| {
                    let left = if has_all { Left::Ended } else { Left::Away };
                    forget(key, held, left);
                });
                if abandoned > 0 {
                    self.control.leave_undelivered(messages);
                    self.control.report(|status| status.abandoned += abandoned);
                }
                let awaits = (self.awaits)();
                if self.is_over(awaits) {
                    break;
                }
                let accepted = self.accept(scope, &listener, &mut threads, |stream| {
                    let serve =
                        AssertUnwindSafe(|| self.serve_connection(stream, open, serve, forget));
                    if std::panic::catch_unwind(serve).is_err() {
                        self.end_after_panic();
                    }
                });
                // Connections that wait for free descriptors keep the listener readable: it must
                // not wake us.
                let waited =
                    accepted.and_then(|()| wait(self.control, &[(listener.borrow(), false)], NAP));
                if let Err(error) = waited {
                    self.control.report(|status| {
                        status.note = format!("cannot accept on {local}: {error}");
                    });
                    self.control.pause(NAP);
                }
            }
        });
        if let Some(undelivered) = self.sessions.undelivered() {
            self.control.leave_undelivered(undelivered.messages);
            self.control.report(|status| {
                status.stage = LinkStage::Ended;
                status.note = format!("far sides that were away did not get {undelivered}");
            });
        }
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(failure) = failure.take() else {
            return Ok(());
        };
        if failure.of_source().is_some() && self.sessions.are_confirmed() {
            self.control.failure_delivered();
        }
        Err(failure)
    }

    /// Whether nothing more is to be done.
    fn is_over(&self, awaits: bool) -> bool {
        if self.control.must_stop() {
            return true;
        }
        if self.control.stopping().is_some() {
            return self.sessions.is_delivered(self.tcp.close_timeout());
        }
        // A destination that ends with its sources, or a source at the end of its stream.
        self.until_end && self.sessions.has_served() && self.sessions.is_empty() && !awaits
    }

    fn accept<'scope, 'env>(
        &self,
        scope: &'scope Scope<'scope, 'env>,
        listener: &ClosedInChildren,
        threads: &mut Vec<ScopedJoinHandle<'scope, ()>>,
        serve_connection: impl Fn(Socket) + Send + Copy + 'scope,
    ) -> io::Result<()> {
        for _ in 0..ACCEPTS_MAX {
            let (stream, far) = match socket::accept(listener) {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // That connection died in the queue; the next one may work.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted
                            | io::ErrorKind::ConnectionReset
                            | io::ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let socket = Socket::new(stream, far, self.tcp.tls.as_ref());
            let Ok(socket) = socket else { continue };
            let strangers = threads.len().saturating_sub(self.control.status().peers);
            if threads.len() >= CONNECTIONS_MAX || strangers >= strangers_max() {
                self.control.report(|status| status.refusals += 1);
                continue;
            }
            let thread = std::thread::Builder::new()
                .name("olivine-link".into())
                .spawn_scoped(scope, move || serve_connection(socket));
            match thread {
                Ok(thread) => threads.push(thread),
                Err(_) => self.control.report(|status| status.refusals += 1),
            }
        }
        Ok(())
    }

    /// A bug of one connection ends all of them: its session would wait for its end for ever.
    fn end_after_panic(&self) {
        self.control.give_up(&LinkError::Panicked);
        let failure = Some(LinkError::Panicked);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
        self.control.stop(Stop::Now);
    }

    /// Keeps the failure of a stream that is over, which a far side was sent: we end with it.
    fn note_failure(&self, outcome: &Result<(), ConnectionEnd>, pipe: &Pipe, held: &mut S) {
        let failure = match outcome {
            Err(ConnectionEnd::Failed(error)) if pipe.failure_confirmed().is_some() => Some(error),
            // Another publisher has come, and the stream goes on.
            Ok(()) => None,
            Err(_) => return,
        };
        let failure = failure.filter(|_| self.sessions.is_over(held)).cloned();
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Serves one connection from its first byte to its last.
    fn serve_connection(
        &self,
        socket: Socket,
        open: &impl Fn(&Hello) -> Result<S, ConnectionEnd>,
        serve: &impl Fn(&mut Pipe, &mut S, &Hello) -> Result<(), ConnectionEnd>,
        forget: &impl Fn(&str, S, Left<'_>),
    ) {
        let control = self.control;
        let cutter = socket.cutter();
        let mut pipe = Pipe::new(socket, self.tcp.timeout);
        let taken = pipe
            .expect_hello(control, HELLO_TIME_MAX)
            .and_then(|theirs| {
                greet::admit(self.ours, &theirs)?;
                let before = (self.before)().map_err(ConnectionEnd::Failed)?;
                greet::fit(&before, &theirs)?;
                pipe.agree_on_timeout(theirs.timeout);
                let taken = self
                    .sessions
                    .take(&seat(&theirs), &theirs, Some(cutter), || open(&theirs))?;
                Ok((theirs, taken))
            });
        let (theirs, OpenSession { mut held, key }) = match taken {
            Ok(taken) => {
                // A source has served a destination once the destination got the end; a destination
                // takes what comes.
                if self.ours.side == Side::Destination {
                    self.sessions.set_served();
                }
                taken
            }
            Err(broken) => {
                control.report(|status| {
                    status.refusals += 1;
                    status.note = format!("turned {} away: {broken}", pipe.socket.far());
                });
                pipe.close_for(control, &broken);
                return;
            }
        };
        let fit = (self.introduce)(&held)
            .map_err(ConnectionEnd::Failed)
            .and_then(|ours| {
                pipe.greet(&ours);
                greet::fit(&ours, &theirs)
            });
        control.report(|status| {
            status.stage = LinkStage::Connected;
            status.note = format!("connected to {}", pipe.socket.far());
            status.peers += 1;
            status.connections += 1;
        });
        let outcome = fit.and_then(|()| serve(&mut pipe, &mut held, &theirs));
        let named = !theirs.name.is_empty();
        let keep = match pipe.failure_confirmed() {
            // The far side is served: its handle fails. Another handle of its name may come.
            Some(true) => named && !self.sessions.is_over(&mut held),
            _ => keeps_seat(&outcome, named),
        };
        self.note_failure(&outcome, &pipe, &mut held);
        if let Err(broken) = &outcome {
            pipe.close_for(control, broken);
        }
        control.report(|status| {
            status.peers -= 1;
            if status.peers == 0 {
                status.stage = LinkStage::Waiting;
            }
            if let Err(broken) = &outcome {
                status.failures += 1;
                status.note = format!("{} left: {broken}", pipe.socket.far());
            }
            if let Err(ConnectionEnd::ByUs {
                close: Close::Evicted,
                ..
            }) = &outcome
            {
                status.abandoned += 1;
            }
        });
        let left = Disconnect::after(&outcome, &pipe);
        let far = pipe.socket.far().to_owned();
        if outcome.is_ok() || !keep && pipe.failure_confirmed() == Some(true) {
            self.sessions.set_served();
        }
        // The connection is closed before the session is free, so that the next connection finds
        // nothing of it.
        drop(pipe);
        if keep {
            self.sessions.leave(&key, held, left);
            return;
        }
        self.sessions.remove(&key);
        match &outcome {
            Ok(())
            | Err(ConnectionEnd::ByPeer {
                close: Close::Upstream,
                ..
            }) => forget(&key, held, Left::Ended),
            Err(broken) => {
                let reason = format!("{far} left before its end: {broken}");
                forget(&key, held, Left::Failed(&reason));
            }
        }
    }
}

/// Whether a far side's session is kept after a connection with this outcome: it may come back, and
/// its data is not lost.
fn keeps_seat(outcome: &Result<(), ConnectionEnd>, named: bool) -> bool {
    match outcome {
        Ok(()) => false,
        Err(ConnectionEnd::ByPeer { close, .. } | ConnectionEnd::ByUs { close, .. }) => match close
        {
            Close::Evicted | Close::Lost | Close::Upstream | Close::Gone => false,
            // A far side without a name does not come back after these.
            Close::Leaving | Close::End | Close::Protocol | Close::Type | Close::Settings => named,
            _ => true,
        },
        Err(ConnectionEnd::Wire(WireError::Checksum { .. })) => true,
        Err(ConnectionEnd::Wire(_)) => named,
        Err(_) => true,
    }
}
