//! A subscriber comes: it connects, says what it wants, and checks whom and what it gets before it maps anything.

use super::listen::{new_socket, refused};
use super::memory::{LANE, PAGE, check, lane_seals, page_seals};
use super::watch::Lifeline;
use super::wire::{Hello, LONGEST, Refusal, Said, Welcome, Why};
use crate::channel::attach::{Part, TypeTag, attach_inside};
use crate::channel::attached::Attached;
use crate::channel::place::InprocMemory;
use crate::channel::shape::Wanted;
use crate::error::{OpenError, SealedError};
use crate::fork::ClosedInChildren;
use crate::liveness::Peer;
use crate::region::{Ring, Words};
use crate::uri::Config;
use crate::uri::remote::TIMEOUT_DEFAULT;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, SocketAddrUnix,
    connect, recvmsg, send,
};
use std::collections::HashMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// What a subscriber gets.
#[derive(Debug)]
pub(super) struct Joined {
    /// Its page, as the control file of a channel with one lane and one slot.
    pub(super) attached: Attached,
    /// The lane, read-only.
    pub(super) lane: (Words, Ring),
    /// Position of its first frame.
    pub(super) start: u64,
    /// What ends when the publisher does.
    pub(super) lifeline: Lifeline,
}

/// What came with an answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) welcome: Welcome,
    pub(super) lane: OwnedFd,
    pub(super) page: OwnedFd,
}

/// Joins the channel of `config`, waiting for its publisher as long as `timeout` says.
///
/// # Errors
///
/// [`SealedError`], or where the settings do not fit the channel's [`OpenError::Mismatch`] or [`OpenError::Type`];
/// [`OpenError::SubscribersFull`].
pub(super) fn join(config: &Config, path: &Path, typed: &TypeTag) -> Result<Joined, OpenError> {
    let patience = config.remote.timeout.unwrap_or(TIMEOUT_DEFAULT);
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        let left = patience.saturating_sub(started.elapsed());
        if let Some(socket) = reach(path)? {
            let peer = allowed(config, path, &socket)?;
            match ask(config, path, &socket, left)? {
                Some(answer) => return accept(config, path, typed, socket, peer, answer),
                // It ended before it answered: another one may come.
                None if !left.is_zero() => {}
                None => {
                    return Err(SealedError::NoAnswer {
                        socket: path.to_owned(),
                        pid: peer.pid,
                        waited: patience,
                    }
                    .into());
                }
            }
        }
        if left.is_zero() {
            return Err(SealedError::NoPublisher {
                socket: path.to_owned(),
                waited: patience,
            }
            .into());
        }
        #[allow(
            clippy::disallowed_methods,
            reason = "a socket that does not exist can only be looked for"
        )]
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn protocol(path: &Path, problem: String) -> SealedError {
    SealedError::Protocol {
        socket: path.to_owned(),
        problem,
    }
}

/// A connection to whoever serves `path`. `None` if nobody does, or too many ask at once.
pub(super) fn reach(path: &Path) -> Result<Option<OwnedFd>, SealedError> {
    let io = |action| refused(action, path);
    let socket = new_socket().map_err(io("make"))?;
    let address = SocketAddrUnix::new(path).map_err(io("name"))?;
    match connect(&socket, &address) {
        Ok(()) => Ok(Some(socket)),
        Err(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(Errno::PROTOTYPE) => Err(protocol(path, "it is a socket of another kind".to_owned())),
        Err(errno) => Err(io("connect to")(errno)),
    }
}

/// Who serves the socket, if we may take memory from it.
fn allowed(config: &Config, path: &Path, socket: &OwnedFd) -> Result<Peer, SealedError> {
    let unknown = |source| SealedError::Io {
        action: "learn who serves",
        socket: path.to_owned(),
        source,
    };
    let peer = Peer::of(socket.as_fd()).map_err(unknown)?;
    let own = rustix::process::geteuid().as_raw();
    if config.remote.peers.allow(peer.user, own) {
        return Ok(peer);
    }
    Err(SealedError::Peer {
        socket: path.to_owned(),
        pid: peer.pid,
        user: peer.user,
        peers: config.remote.peers.to_string(),
    })
}

/// Says what we want and waits for the answer. `None` if the other end closed instead, or the time is over.
pub(super) fn ask(
    config: &Config,
    path: &Path,
    socket: &OwnedFd,
    patience: Duration,
) -> Result<Option<Answer>, OpenError> {
    let hello = Said::Hello(Hello::of(config)).to_bytes();
    match send(socket, &hello, SendFlags::NOSIGNAL) {
        Ok(_) => {}
        // A publisher that turned us away before it read has said why.
        Err(Errno::PIPE | Errno::CONNRESET) => {}
        Err(errno) => return Err(refused("send to", path)(errno).into()),
    }
    heard(config, path, socket, patience)
}

/// Waits for the answer. `None` if the other end closed instead, or the time is over.
pub(super) fn heard(
    config: &Config,
    path: &Path,
    socket: &OwnedFd,
    patience: Duration,
) -> Result<Option<Answer>, OpenError> {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        let mut waited = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut waited, left.as_ref()) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(refused("wait for", path)(errno).into()),
        }
    }
    let mut bytes = [0; LONGEST + 1];
    // Room for one descriptor too many: more are closed by the kernel, which says so.
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut extras = RecvAncillaryBuffer::new(&mut room);
    let mut receive = || {
        recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut extras,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        )
    };
    let got = match receive() {
        // It closed without having read our hello; what it said before that is still to be had.
        Err(Errno::CONNRESET) => receive(),
        got => got,
    };
    let got = match got {
        Ok(got) => got,
        Err(Errno::CONNRESET | Errno::PIPE) => return Ok(None),
        Err(errno) => return Err(refused("receive from", path)(errno).into()),
    };
    let rights = extras.drain().filter_map(|extra| match extra {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let mut files: Vec<OwnedFd> = rights.flatten().collect();
    if got.bytes == 0 && files.is_empty() {
        return Ok(None);
    }
    let said = Said::from_bytes(&bytes[..got.bytes.min(bytes.len())]);
    match said.map_err(|problem| protocol(path, problem))? {
        Said::Welcome(welcome) => {
            let many = files.len() > 2 || got.flags.contains(ReturnFlags::CTRUNC);
            let (Some(page), Some(lane), false) = (files.pop(), files.pop(), many) else {
                let problem = if many {
                    "it sent more than two descriptors".to_owned()
                } else {
                    "it sent fewer than two descriptors".to_owned()
                };
                return Err(protocol(path, problem).into());
            };
            Ok(Some(Answer {
                welcome,
                lane,
                page,
            }))
        }
        Said::Refusal(refusal) => Err(turned_away(config, path, refusal)),
        Said::Hello(_) => Err(protocol(path, "it answered as a subscriber does".to_owned()).into()),
    }
}

fn turned_away(config: &Config, path: &Path, refusal: Refusal) -> OpenError {
    match refusal.why {
        Why::Full(places) => OpenError::SubscribersFull {
            channel: config.channel().to_owned(),
            max: places.into(),
        },
        _ => SealedError::Refused {
            socket: path.to_owned(),
            reason: refusal.text,
        }
        .into(),
    }
}

/// Checks what was handed out, and maps it.
pub(super) fn accept(
    config: &Config,
    path: &Path,
    typed: &TypeTag,
    socket: OwnedFd,
    peer: Peer,
    answer: Answer,
) -> Result<Joined, OpenError> {
    let Answer {
        welcome,
        lane,
        page,
    } = answer;
    check(&page, PAGE, page_seals(), None, path)?;
    check(&lane, LANE, lane_seals(), None, path)?;
    let lanes = HashMap::from([(0, lane)]);
    let inside = InprocMemory::unnamed(path.to_owned(), page, lanes)?;
    let attached = attach_inside(config.channel(), inside);
    let attached = attached.map_err(|error| distrusted(path, PAGE, error))?;
    let shape = &attached.geometry;
    if shape.is_open() || (shape.publishers_max, shape.subscribers_max) != (1, 1) {
        return Err(SealedError::Memory {
            socket: path.to_owned(),
            memory: PAGE,
            problem: "it is not the page of one subscriber".to_owned(),
        }
        .into());
    }
    let mut found = shape.clone();
    found.subscribers_max = welcome.subscribers_max.into();
    Wanted::of(config, typed, Part::Leaves)?.agree(config.channel(), &found)?;
    let lane = attached
        .backing
        .open_lane(&attached.lane(0), false, config.hugepages);
    let lane = lane.map_err(|error| distrusted(path, LANE, error))?;
    let Some(lane) = lane else {
        return Err(protocol(path, "it handed out no lane".to_owned()).into());
    };
    let start = welcome.start;
    if start < shape.origin || !start.is_multiple_of(shape.align) {
        let problem = format!(
            "it put us at position {start}, which is no place of a frame: the first is {}, each a multiple of {}",
            shape.origin, shape.align
        );
        return Err(protocol(path, problem).into());
    }
    let lifeline = Lifeline::new(
        path,
        ClosedInChildren::new(socket),
        peer,
        &attached,
        &lane.0,
    )?;
    Ok(Joined {
        start,
        attached,
        lane,
        lifeline,
    })
}

/// An error about memory that came over the socket: what is said of files does not help there.
fn distrusted(path: &Path, memory: &'static str, error: OpenError) -> OpenError {
    let problem = match error {
        OpenError::NotAChannel { problem, .. } => {
            let told = problem.split("; ").next();
            told.unwrap_or_default().to_owned()
        }
        OpenError::Layout {
            found, expected, ..
        } => {
            format!("it has memory layout {found}, this build has {expected}")
        }
        other => return other,
    };
    SealedError::Memory {
        socket: path.to_owned(),
        memory,
        problem,
    }
    .into()
}
