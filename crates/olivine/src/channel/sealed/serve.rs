//! A publisher's thread that serves its socket: lets subscribers in, one page each, and clears up after those who
//! leave, die, or are found out.
//!
//! It never waits for a subscriber: every socket is non-blocking, everything said is one datagram, and who says nothing
//! is turned away when the time is over or somebody needs the seat.

use super::listen::Listener;
use super::memory::{new_page, with_lane};
use super::wire::{Hello, LONGEST, Refusal, Said, Welcome, Why};
use crate::channel::attached::Attached;
use crate::channel::join;
use crate::error::{LinkError, OpenError};
use crate::fork::ClosedInChildren;
use crate::link::{Control, LinkStage};
use crate::liveness::Peer;
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

/// Connections that have not said what they want. Who comes when all are taken gets the place of the oldest.
const STRANGERS_MAX: usize = 16;
/// Connections accepted before the others are looked at again.
const ACCEPTS_MAX: usize = 16;
/// Pause where the system has no descriptors left and nobody is there to be turned away.
const NO_DESCRIPTORS: Duration = Duration::from_millis(20);

/// What serves the socket of one publisher.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) listener: Listener,
    /// The publisher's own control file and lane, as a participant of their own.
    pub(super) attached: Attached,
    pub(super) pages: Arc<Pages>,
    /// Readable when a subscriber was found out.
    pub(super) bell: Arc<OwnedFd>,
    pub(super) connections: Vec<Connection>,
    /// Subscribers that were let in.
    pub(super) admitted: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: ClosedInChildren,
    peer: Peer,
    death: Option<OwnedFd>,
    since: Instant,
    /// Its place, once it is a subscriber.
    seat: Option<Seat>,
}

/// A subscriber's place in the channel.
#[derive(Debug)]
struct Seat {
    slot: usize,
    /// The channel as a participant of its own, which holds the slot's lock.
    attached: Attached,
}

impl Connection {
    fn slot(&self) -> Option<usize> {
        self.seat.as_ref().map(|seat| seat.slot)
    }
}

/// What became of a connection.
enum Fate {
    Stays,
    /// It left, or died.
    Gone,
    /// It is turned away, or taken its place.
    Refused(Refusal),
}

impl Server {
    /// Serves until it is told to stop.
    ///
    /// # Errors
    ///
    /// What the system refused, for good.
    pub(super) fn run(mut self, control: &Arc<Control>) -> Result<(), LinkError> {
        control.report(|status| status.address = self.listener.path().display().to_string());
        control.tried();
        while control.stopping().is_none() {
            self.round(control)?;
        }
        Ok(())
    }

    /// Waits for something to happen, and deals with it.
    fn round(&mut self, control: &Control) -> Result<(), LinkError> {
        let (called, happened) = self.wait(control)?;
        if happened[0] {
            let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        }
        // From the end, so that those who go leave the others' places alone.
        for at in (0..self.connections.len()).rev() {
            let fate = if happened[at + 1] {
                self.hear(at)
            } else {
                self.is_late(at)
            };
            self.settle(at, fate, control);
        }
        self.expel(control);
        self.tell(control);
        if called {
            self.let_in(control)?;
        }
        Ok(())
    }

    /// Waits; whether somebody knocked, and for the bell and each connection whether something happened there.
    fn wait(&self, control: &Control) -> Result<(bool, Vec<bool>), LinkError> {
        let at = |file| PollFd::from_borrowed_fd(file, PollFlags::IN);
        let mut waited = vec![
            at(control.wake_fd()),
            at(self.listener.as_fd()),
            at(self.bell.as_fd()),
        ];
        for connection in &self.connections {
            let flags = PollFlags::IN | PollFlags::RDHUP;
            waited.push(PollFd::from_borrowed_fd(connection.socket.borrow(), flags));
        }
        // Behind all the sockets, so that those count through.
        let first_death = waited.len();
        let deaths = self.connections.iter().enumerate();
        let deaths: Vec<(usize, BorrowedFd<'_>)> = deaths
            .filter_map(|(n, connection)| Some((n, connection.death.as_ref()?.as_fd())))
            .collect();
        waited.extend(deaths.iter().map(|(_, death)| at(*death)));
        let deadline = self.connections.iter().filter(|one| one.seat.is_none());
        let deadline = deadline.map(|one| one.since + self.patience()).min();
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        // A millisecond more, or the last part of one would be spent spinning.
        let left = left.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
        match poll(&mut waited, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(self.failed("wait at", errno)),
        }
        let mut news: Vec<bool> = waited.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (n, (owner, _)) in deaths.iter().enumerate() {
            let died = news[first_death + n];
            news[3 + owner] |= died;
        }
        news.truncate(first_death);
        let called = news[1];
        Ok((called, news.split_off(2)))
    }

    fn patience(&self) -> Duration {
        self.config.remote.timeout.unwrap_or(TIMEOUT_DEFAULT)
    }

    fn failed(&self, action: &'static str, errno: Errno) -> LinkError {
        super::listen::refused(action, self.listener.path())(errno).into()
    }

    /// Takes those who knock.
    fn let_in(&mut self, control: &Control) -> Result<(), LinkError> {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok(Some(socket)) => self.meet(socket, control),
                Ok(None) => return Ok(()),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    if !self.make_way(control) {
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

    fn meet(&mut self, socket: OwnedFd, control: &Control) {
        let Ok(peer) = Peer::of(socket.as_fd()) else {
            return;
        };
        let connection = Connection {
            socket: ClosedInChildren::new(socket),
            peer,
            death: None,
            since: Instant::now(),
            seat: None,
        };
        let own = rustix::process::geteuid().as_raw();
        if !self.config.remote.peers.allow(peer.user, own) {
            let text = format!(
                "user {} is not one that peers={} allows",
                peer.user, self.config.remote.peers
            );
            return turn_away(&connection, Refusal::new(Why::User, &text), control);
        }
        let strangers = self.connections.iter().filter(|one| one.seat.is_none());
        if strangers.count() >= STRANGERS_MAX {
            self.make_way(control);
        }
        self.connections.push(connection);
    }

    /// Turns away whoever has been silent for longest; `false` if there is none.
    fn make_way(&mut self, control: &Control) -> bool {
        let silent = self.connections.iter().position(|one| one.seat.is_none());
        let Some(at) = silent else { return false };
        let text = "it did not say what it wants before others came";
        let fate = Fate::Refused(Refusal::new(Why::Protocol, text));
        self.settle(at, fate, control);
        true
    }

    fn is_late(&self, at: usize) -> Fate {
        let connection = &self.connections[at];
        if connection.seat.is_some() || connection.since.elapsed() < self.patience() {
            return Fate::Stays;
        }
        let text = format!("it said nothing for {} ms", self.patience().as_millis());
        Fate::Refused(Refusal::new(Why::Protocol, &text))
    }

    /// Something came over a connection, or it ended.
    fn hear(&mut self, at: usize) -> Fate {
        let connection = &self.connections[at];
        let mut bytes = [0; LONGEST + 1];
        // No room for descriptors: the kernel closes what is sent, and says so.
        let mut none = RecvAncillaryBuffer::default();
        let got = recvmsg(
            connection.socket.borrow(),
            &mut [IoSliceMut::new(&mut bytes)],
            &mut none,
            RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
        );
        let got = match got {
            Ok(got) => got,
            // Its process died while another one, a child, still holds the socket.
            Err(Errno::AGAIN) if has_died(connection) => return Fate::Gone,
            Err(Errno::AGAIN | Errno::INTR) => return Fate::Stays,
            Err(_) => return Fate::Gone,
        };
        let refuse = |text: &str| Fate::Refused(Refusal::new(Why::Protocol, text));
        if got.flags.contains(ReturnFlags::CTRUNC) {
            return refuse("it sent descriptors, which nobody asked for");
        }
        if got.bytes == 0 {
            return Fate::Gone;
        }
        if connection.seat.is_some() {
            return refuse("it sent something after its hello");
        }
        match Said::from_bytes(&bytes[..got.bytes.min(bytes.len())]) {
            Ok(Said::Hello(hello)) => self.admit(at, hello),
            Ok(_) => refuse("it said what only a publisher says"),
            Err(problem) => refuse(&problem),
        }
    }

    /// Joins the channel on behalf of a subscriber, and hands it its memory.
    fn admit(&mut self, at: usize, hello: Hello) -> Fate {
        let mut settings = self.config.clone();
        hello.apply(&mut settings);
        let (seat, start) = match self.join(&settings) {
            Ok(joined) => joined,
            Err(OpenError::SubscribersFull { max, .. }) => {
                let places = u32::try_from(max).unwrap_or(u32::MAX);
                let text = "every place is taken";
                return Fate::Refused(Refusal::new(Why::Full(places), text));
            }
            Err(error) => return unable(&error),
        };
        let slot = seat.slot;
        let connection = &mut self.connections[at];
        // From here on whoever removes the connection gives the place up.
        connection.seat = Some(seat);
        connection.death = connection.peer.death();
        let gates = settings.delivery == Delivery::Reliable;
        let page = new_page(&self.attached, gates, start);
        let (file, words) = match page {
            Ok(page) => page,
            Err(error) => return unable(&error),
        };
        self.pages.admit(slot, &words, gates);
        self.attached.wake_publishers();
        self.admitted += 1;
        let welcome = Said::Welcome(Welcome {
            subscribers_max: u32::try_from(self.attached.geometry.subscribers_max)
                .unwrap_or(u32::MAX),
            start,
        });
        let sent = with_lane(&self.attached, |lane| {
            let files = [lane, file.as_fd()];
            hand_over(connection.socket.borrow(), &welcome.to_bytes(), &files)
        });
        match sent {
            Some(Ok(())) => Fate::Stays,
            // It is gone already, or takes nothing: a subscriber that is there has room for its first datagram.
            _ => Fate::Gone,
        }
    }

    /// Takes a slot as a subscriber of this process would, and a position at which the publisher is held back for sure.
    fn join(&self, settings: &Config) -> Result<(Seat, u64), OpenError> {
        let attached = self.attached.beside()?;
        let membership = attached.membership()?;
        let joined = join::join(&attached, settings)?;
        drop(membership);
        let slot = joined.slot;
        let start = joined.lanes.first().map(|lane| lane.position());
        let start = start.unwrap_or(attached.geometry.origin);
        Ok((Seat { slot, attached }, start))
    }

    /// Clears a place, once nobody collects from its page any more.
    fn give_up(&self, seat: &mut Seat) {
        let slot = seat.slot;
        seat.attached.leave(|attached| {
            let Attached {
                control,
                geometry,
                locks,
                ..
            } = attached;
            self.pages.dismiss(slot, || {
                clear_slot(control, geometry, slot);
                locks.unlock(lock_byte::SLOT + slot as u64);
            });
        });
        self.attached.wake_publishers();
    }

    /// Says goodbye to those who were found out.
    fn expel(&mut self, control: &Control) {
        for (slot, fault) in self.pages.faults() {
            let found = self
                .connections
                .iter()
                .position(|one| one.slot() == Some(slot));
            let Some(at) = found else { continue };
            let why = match fault {
                Fault::Slow => Why::Slow,
                _ => Why::Position,
            };
            let fate = Fate::Refused(Refusal::new(why, &fault.to_string()));
            self.settle(at, fate, control);
        }
    }

    /// Does what `fate` says.
    fn settle(&mut self, at: usize, fate: Fate, control: &Control) {
        let refusal = match fate {
            Fate::Stays => return,
            Fate::Gone => None,
            Fate::Refused(refusal) => Some(refusal),
        };
        let mut connection = self.connections.remove(at);
        if let Some(refusal) = refusal {
            turn_away(&connection, refusal, control);
        }
        if let Some(seat) = &mut connection.seat {
            self.give_up(seat);
        }
    }

    /// Tells how many are there.
    fn tell(&self, control: &Control) {
        let peers = self.connections.iter().filter(|one| one.seat.is_some());
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
        for mut connection in std::mem::take(&mut self.connections) {
            // The end of its socket: by now the lane says whether it was closed.
            drop(connection.socket);
            if let Some(seat) = &mut connection.seat {
                self.give_up(seat);
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

fn unable(error: &OpenError) -> Fate {
    Fate::Refused(Refusal::new(Why::Unable, &error.to_string()))
}

/// Says why, and notes it.
fn turn_away(connection: &Connection, refusal: Refusal, control: &Control) {
    let was_in = connection.seat.is_some();
    let note = format!(
        "{} process {} of user {}: {}",
        if was_in { "expelled" } else { "turned away" },
        connection.peer.pid,
        connection.peer.user,
        refusal.text
    );
    // Who does not take it learns nothing.
    let refusal = Said::Refusal(refusal).to_bytes();
    let _ = hand_over(connection.socket.borrow(), &refusal, &[]);
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
pub(super) fn hand_over(
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
