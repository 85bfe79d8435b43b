//! The thread of a publisher that serves its socket. It admits subscribers, one page each, and
//! removes those that leave, die or break the rules.
//!
//! It never waits for a subscriber: every socket is non-blocking, and every message on it is one
//! datagram. A connection that sends nothing is refused after a time-out, or when another one needs
//! its place.

use super::listen::Listener;
use super::memory::{new_page, with_lane};
use super::wire::{Datagram, HandshakeReply, Hello, LONGEST, Refusal, RefusalCode};
use crate::channel::attached::Attached;
use crate::channel::join;
use crate::error::{LinkError, OpenError, holders, process};
use crate::fork::ClosedInChildren;
use crate::link::{Control, LinkStage};
use crate::liveness::Peer;
use crate::ring::ending;
use crate::ring::gate::clear_slot;
use crate::ring::layout::lock_byte;
use crate::ring::pages::{Fault, Pages};
use crate::uri::remote::TIMEOUT_DEFAULT;
use crate::uri::{Config, Delivery};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections that have not sent their hello. A further connection takes the place of the oldest.
const UNADMITTED_MAX: usize = 16;
/// Connections accepted before the others are checked again.
const ACCEPTS_MAX: usize = 16;
/// Pause if the system has no descriptors left and no connection can be refused.
const NO_DESCRIPTORS: Duration = Duration::from_millis(20);

/// The server of one publisher's socket.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) listener: Listener,
    /// The publisher's control file and lane, for a participant besides the publisher.
    pub(super) attached: Attached,
    pub(super) pages: Arc<Pages>,
    /// Readable when a subscriber broke the rules.
    pub(super) fault_event: Arc<OwnedFd>,
    pub(super) connections: Vec<Connection>,
    /// Number of subscribers admitted so far.
    pub(super) admitted: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: ClosedInChildren,
    peer: Peer,
    death: Option<OwnedFd>,
    since: Instant,
    /// Its session, once it is admitted.
    session: Option<Session>,
}

/// An admitted subscriber.
#[derive(Debug)]
struct Session {
    slot: usize,
    /// The channel for this participant, which holds the slot's lock.
    attached: Attached,
}

impl Connection {
    fn slot(&self) -> Option<usize> {
        self.session.as_ref().map(|session| session.slot)
    }
}

/// What happens to a connection.
enum Outcome {
    Open,
    /// It left or died.
    Closed,
    /// It is refused, or expelled.
    Refused(Refusal),
}

impl Server {
    /// Serves until the control asks it to stop.
    ///
    /// # Errors
    ///
    /// A permanent error of the system.
    pub(super) fn run(mut self, control: &Arc<Control>) -> Result<(), LinkError> {
        control.report(|status| status.address = self.listener.path().display().to_string());
        control.tried();
        while control.stopping().is_none() {
            self.round(control)?;
        }
        Ok(())
    }

    /// Waits for an event, and handles it.
    fn round(&mut self, control: &Control) -> Result<(), LinkError> {
        let (must_accept, ready) = self.wait(control)?;
        if ready[0] {
            let _ = rustix::io::read(&*self.fault_event, &mut [0; 8]);
        }
        // From the last one on, so that a removal does not move the others that follow.
        for at in (0..self.connections.len()).rev() {
            let outcome = if ready[at + 1] {
                self.receive(at)
            } else {
                self.check_timeout(at)
            };
            self.apply(at, outcome, control);
        }
        self.remove_faulty(control);
        self.report_peers(control);
        if must_accept {
            self.accept_connections(control)?;
        }
        Ok(())
    }

    /// Waits. Returns whether a connection is queued, and for the fault event and each connection
    /// whether it is ready.
    fn wait(&self, control: &Control) -> Result<(bool, Vec<bool>), LinkError> {
        let at = |file| PollFd::from_borrowed_fd(file, PollFlags::IN);
        let mut waited = vec![
            at(control.wake_fd()),
            at(self.listener.as_fd()),
            at(self.fault_event.as_fd()),
        ];
        for connection in &self.connections {
            let flags = PollFlags::IN | PollFlags::RDHUP;
            waited.push(PollFd::from_borrowed_fd(connection.socket.borrow(), flags));
        }
        // After all the sockets, so that their indices match the connections.
        let first_death = waited.len();
        let deaths = self.connections.iter().enumerate();
        let deaths: Vec<(usize, BorrowedFd<'_>)> = deaths
            .filter_map(|(n, connection)| Some((n, connection.death.as_ref()?.as_fd())))
            .collect();
        waited.extend(deaths.iter().map(|(_, death)| at(*death)));
        let deadline = self.connections.iter().filter(|one| one.session.is_none());
        let deadline = deadline
            .map(|one| one.since + self.handshake_timeout())
            .min();
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        // One millisecond more: otherwise the last part of a millisecond would be spent spinning.
        let left = left.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
        match poll(&mut waited, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(self.failed("wait at", errno)),
        }
        let mut ready: Vec<bool> = waited.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (n, (owner, _)) in deaths.iter().enumerate() {
            let died = ready[first_death + n];
            ready[3 + owner] |= died;
        }
        ready.truncate(first_death);
        let must_accept = ready[1];
        Ok((must_accept, ready.split_off(2)))
    }

    fn handshake_timeout(&self) -> Duration {
        self.config
            .groups
            .sealed
            .connection
            .timeout
            .unwrap_or(TIMEOUT_DEFAULT)
    }

    fn failed(&self, action: &'static str, errno: Errno) -> LinkError {
        super::listen::refused(action, self.listener.path())(errno).into()
    }

    /// Accepts queued connections.
    fn accept_connections(&mut self, control: &Control) -> Result<(), LinkError> {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok(Some(socket)) => self.add_connection(socket, control),
                Ok(None) => return Ok(()),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    if !self.drop_oldest_unadmitted(control) {
                        control.report(|status| {
                            status.note =
                                "no descriptors or memory left for subscribers".to_owned();
                        });
                        control.pause(NO_DESCRIPTORS);
                    }
                    return Ok(());
                }
                Err(errno) => return Err(self.failed("accept at", errno)),
            }
        }
        Ok(())
    }

    fn add_connection(&mut self, socket: OwnedFd, control: &Control) {
        let Ok(peer) = Peer::of(socket.as_fd()) else {
            return;
        };
        let connection = Connection {
            socket: ClosedInChildren::new(socket),
            peer,
            death: None,
            since: Instant::now(),
            session: None,
        };
        let own = rustix::process::geteuid().as_raw();
        if !self.config.groups.sealed.peers.allow(peer.user, own) {
            let text = format!(
                "peers={} does not allow user {}",
                self.config.groups.sealed.peers, peer.user
            );
            return send_refusal(&connection, Refusal::new(RefusalCode::User, &text), control);
        }
        let unadmitted = self.connections.iter().filter(|one| one.session.is_none());
        if unadmitted.count() >= UNADMITTED_MAX {
            self.drop_oldest_unadmitted(control);
        }
        self.connections.push(connection);
    }

    /// Refuses the oldest connection without a hello; `false` if there is none.
    fn drop_oldest_unadmitted(&mut self, control: &Control) -> bool {
        let silent = self
            .connections
            .iter()
            .position(|one| one.session.is_none());
        let Some(at) = silent else { return false };
        let text = "it did not say what it wants before others came";
        let outcome = Outcome::Refused(Refusal::new(RefusalCode::Protocol, text));
        self.apply(at, outcome, control);
        true
    }

    fn check_timeout(&self, at: usize) -> Outcome {
        let connection = &self.connections[at];
        if connection.session.is_some() || connection.since.elapsed() < self.handshake_timeout() {
            return Outcome::Open;
        }
        let text = format!(
            "it said nothing for {} ms",
            self.handshake_timeout().as_millis()
        );
        Outcome::Refused(Refusal::new(RefusalCode::Protocol, &text))
    }

    /// Handles a datagram of a connection, or its end.
    fn receive(&mut self, at: usize) -> Outcome {
        let connection = &self.connections[at];
        let mut bytes = [0; LONGEST + 1];
        // No room for descriptors: the kernel closes those that are sent, and sets a flag.
        let mut none = RecvAncillaryBuffer::default();
        let got = recvmsg(
            connection.socket.borrow(),
            &mut [IoSliceMut::new(&mut bytes)],
            &mut none,
            RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
        );
        let got = match got {
            Ok(got) => got,
            // Its process died, while a child still holds the socket.
            Err(Errno::AGAIN) if has_died(connection) => return Outcome::Closed,
            Err(Errno::AGAIN | Errno::INTR) => return Outcome::Open,
            Err(_) => return Outcome::Closed,
        };
        let refuse = |text: &str| Outcome::Refused(Refusal::new(RefusalCode::Protocol, text));
        if got.flags.contains(ReturnFlags::CTRUNC) {
            return refuse("it sent descriptors, which the protocol does not allow");
        }
        if got.bytes == 0 {
            return Outcome::Closed;
        }
        if connection.session.is_some() {
            return refuse("it sent something after its hello");
        }
        match Datagram::from_bytes(&bytes[..got.bytes.min(bytes.len())]) {
            Ok(Datagram::Hello(hello)) => self.admit(at, hello),
            Ok(_) => refuse("it said what only a publisher says"),
            Err(problem) => refuse(&problem),
        }
    }

    /// Joins the channel on behalf of a subscriber, and sends it its memory.
    fn admit(&mut self, at: usize, hello: Hello) -> Outcome {
        let mut settings = self.config.clone();
        hello.apply(&mut settings);
        let (session, start) = match self.join(&settings) {
            Ok(joined) => joined,
            Err(OpenError::SubscribersFull { max, .. }) => {
                let places = u32::try_from(max).unwrap_or(u32::MAX);
                let served = self.connections.iter().filter(|one| one.session.is_some());
                // The kernel gives the number in our namespace, and 0 if there is none.
                let number = |pid| u64::try_from(pid).unwrap_or(0);
                let held = holders(served.map(|one| process(number(one.peer.pid), true)));
                return Outcome::Refused(Refusal::new(RefusalCode::Full(places), &held));
            }
            Err(error) => return refuse_unable(&error),
        };
        let slot = session.slot;
        let connection = &mut self.connections[at];
        // From here on, removing the connection ends the session.
        connection.session = Some(session);
        connection.death = connection.peer.death();
        let gates = settings.delivery == Delivery::Reliable;
        let page = new_page(&self.attached, gates, start);
        let (file, words) = match page {
            Ok(page) => page,
            Err(error) => return refuse_unable(&error),
        };
        self.pages.admit(slot, &words, gates);
        self.attached.wake_publishers();
        self.admitted += 1;
        let welcome = Datagram::Welcome(HandshakeReply {
            subscribers_max: u32::try_from(self.attached.geometry.subscribers_max)
                .unwrap_or(u32::MAX),
            start,
        });
        let sent = with_lane(&self.attached, |lane| {
            let files = [lane, file.as_fd()];
            send_datagram(connection.socket.borrow(), &welcome.to_bytes(), &files)
        });
        match sent {
            Some(Ok(())) => Outcome::Open,
            // It is gone, or reads nothing: a living subscriber has room for its first datagram.
            _ => Outcome::Closed,
        }
    }

    /// Takes a slot like a subscriber of this process, and a position that holds the publisher
    /// back.
    fn join(&self, settings: &Config) -> Result<(Session, u64), OpenError> {
        let attached = self.attached.attach_again()?;
        let membership = attached.membership()?;
        let joined = join::join(&attached, settings)?;
        drop(membership);
        let slot = joined.slot;
        let start = joined.lanes.first().map(|lane| lane.position());
        let start = start.unwrap_or(attached.geometry.origin);
        Ok((Session { slot, attached }, start))
    }

    /// Clears the slot, after the publisher has stopped reading the page. `may_overwrite`: the
    /// publisher goes on.
    fn end_session(&self, session: &mut Session, may_overwrite: bool) {
        let slot = session.slot;
        session.attached.leave(|attached| {
            let Attached {
                control,
                geometry,
                locks,
                ..
            } = attached;
            self.pages.remove_page(slot, may_overwrite, || {
                clear_slot(control, geometry, slot);
                locks.unlock(lock_byte::SLOT + slot as u64);
            });
        });
        self.attached.wake_publishers();
    }

    /// Refuses the subscribers that broke the rules.
    fn remove_faulty(&mut self, control: &Control) {
        for (slot, fault) in self.pages.faults() {
            let found = self
                .connections
                .iter()
                .position(|one| one.slot() == Some(slot));
            let Some(at) = found else { continue };
            let code = match fault {
                Fault::Slow => RefusalCode::Slow,
                _ => RefusalCode::Position,
            };
            let outcome = Outcome::Refused(Refusal::new(code, &fault.to_string()));
            self.apply(at, outcome, control);
        }
    }

    /// Applies `outcome`.
    fn apply(&mut self, at: usize, outcome: Outcome, control: &Control) {
        let refusal = match outcome {
            Outcome::Open => return,
            Outcome::Closed => None,
            Outcome::Refused(refusal) => Some(refusal),
        };
        let mut connection = self.connections.remove(at);
        if let Some(refusal) = refusal {
            send_refusal(&connection, refusal, control);
        }
        if let Some(session) = &mut connection.session {
            self.end_session(session, true);
        }
    }

    /// Reports the number of subscribers.
    fn report_peers(&self, control: &Control) {
        let peers = self.connections.iter().filter(|one| one.session.is_some());
        let peers = peers.count();
        control.report(|status| {
            status.connections = self.admitted;
            status.peers = peers;
            status.stage = if peers > 0 {
                LinkStage::Connected
            } else {
                LinkStage::Waiting
            };
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // By now the lane's state says whether it was closed. What was published before stays.
        let lane = self.attached.lane(0);
        let words = self.attached.backing.look_at_lane(&lane);
        let is_closed =
            words.is_ok_and(|words| words.is_some_and(|words| ending::state(&words) & 1 == 0));
        for mut connection in std::mem::take(&mut self.connections) {
            // Closes the socket.
            drop(connection.socket);
            if let Some(session) = &mut connection.session {
                self.end_session(session, !is_closed);
            }
        }
    }
}

fn has_died(connection: &Connection) -> bool {
    let Some(death) = &connection.death else {
        return false;
    };
    let mut waited = [PollFd::new(death, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut waited, Some(&now)).is_ok_and(|ready| ready > 0)
}

fn refuse_unable(error: &OpenError) -> Outcome {
    Outcome::Refused(Refusal::new(RefusalCode::Unable, &error.to_string()))
}

/// Sends the reason, and reports it in the status.
fn send_refusal(connection: &Connection, refusal: Refusal, control: &Control) {
    let was_in = connection.session.is_some();
    let note = format!(
        "{} process {} of user {}: {}",
        if was_in { "expelled" } else { "turned away" },
        connection.peer.pid,
        connection.peer.user,
        refusal.text
    );
    // A peer that does not read it gets no reason.
    let refusal = Datagram::Refusal(refusal).to_bytes();
    let _ = send_datagram(connection.socket.borrow(), &refusal, &[]);
    control.report(|status| {
        status.note = note;
        if was_in {
            status.abandoned += 1;
        } else {
            status.refusals += 1;
        }
    });
}

/// Sends one datagram with descriptors, or fails at once.
pub(super) fn send_datagram(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    files: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut extras = SendAncillaryBuffer::new(&mut room);
    if !files.is_empty() && !extras.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut extras, flags).map(|_| ())
}
