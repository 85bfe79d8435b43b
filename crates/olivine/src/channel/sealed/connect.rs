//! The subscriber's side of the handshake: it connects, sends its hello, and checks the peer and
//! the memory before it maps anything.

use super::listen::{new_socket, refused};
use super::memory::{LANE, PAGE, check, lane_seals, page_seals};
use super::watch::PublisherWatch;
use super::wire::{Datagram, HandshakeReply, Hello, LONGEST, Refusal, RefusalCode};
use crate::channel::attach::{ShapeRole, TypeTag, attach_inproc};
use crate::channel::attached::Attached;
use crate::channel::backing::InprocMemory;
use crate::channel::fields;
use crate::channel::shape::ShapeRequest;
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

/// The checked result of the handshake.
#[derive(Debug)]
pub(super) struct AcceptedAnswer {
    /// Its page, as the control file of a channel with one lane and one slot.
    pub(super) attached: Attached,
    /// The lane, read-only.
    pub(super) lane: (Words, Ring),
    /// Position of its first frame.
    pub(super) start: u64,
    /// Watches for the end of the publisher.
    pub(super) publisher_watch: PublisherWatch,
}

/// An answer with its descriptors.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) welcome: HandshakeReply,
    pub(super) lane: OwnedFd,
    pub(super) page: OwnedFd,
}

/// Joins the channel of `config`; waits up to `timeout` for its publisher.
///
/// # Errors
///
/// [`SealedError`]; [`OpenError::SubscribersFull`]; [`OpenError::Mismatch`] or [`OpenError::Type`]
/// if the settings do not fit the channel.
pub(super) fn join(
    config: &Config,
    path: &Path,
    typed: &TypeTag,
) -> Result<AcceptedAnswer, OpenError> {
    let timeout = config
        .groups
        .sealed
        .connection
        .timeout
        .unwrap_or(TIMEOUT_DEFAULT);
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        let left = timeout.saturating_sub(started.elapsed());
        if let Some(socket) = connect_socket(path)? {
            let peer = check_peer(config, path, &socket)?;
            match handshake(config, path, &socket, left)? {
                Some(answer) => return accept_answer(config, path, typed, socket, peer, answer),
                // The publisher ended before it answered: another one may come.
                None if !left.is_zero() => {}
                None => {
                    return Err(SealedError::NoAnswer {
                        socket: path.to_owned(),
                        pid: peer.pid,
                        waited: timeout,
                    }
                    .into());
                }
            }
        }
        if left.is_zero() {
            return Err(SealedError::NoPublisher {
                socket: path.to_owned(),
                waited: timeout,
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

/// Connects to the publisher at `path`. `None` if no publisher serves it, or its queue is full.
pub(super) fn connect_socket(path: &Path) -> Result<Option<OwnedFd>, SealedError> {
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

/// The peer that serves the socket, if `peers=` allows its user.
fn check_peer(config: &Config, path: &Path, socket: &OwnedFd) -> Result<Peer, SealedError> {
    let unknown = |source| SealedError::Io {
        action: "learn who serves",
        socket: path.to_owned(),
        source,
    };
    let peer = Peer::of(socket.as_fd()).map_err(unknown)?;
    let own = rustix::process::geteuid().as_raw();
    if config.groups.sealed.peers.allow(peer.user, own) {
        return Ok(peer);
    }
    Err(SealedError::Peer {
        socket: path.to_owned(),
        pid: peer.pid,
        user: peer.user,
        peers: config.groups.sealed.peers.to_string(),
    })
}

/// Sends the hello and waits for the answer. `None` if the other end closed, or the time is over.
pub(super) fn handshake(
    config: &Config,
    path: &Path,
    socket: &OwnedFd,
    timeout: Duration,
) -> Result<Option<Answer>, OpenError> {
    let hello = Datagram::Hello(Hello::of(config)).to_bytes();
    match send(socket, &hello, SendFlags::NOSIGNAL) {
        Ok(_) => {}
        // A publisher that refused us before it read the hello has sent the reason.
        Err(Errno::PIPE | Errno::CONNRESET) => {}
        Err(errno) => return Err(refused("send to", path)(errno).into()),
    }
    receive_answer(config, path, socket, timeout)
}

/// Waits for the answer. `None` if the other end closed, or the time is over.
pub(super) fn receive_answer(
    config: &Config,
    path: &Path,
    socket: &OwnedFd,
    timeout: Duration,
) -> Result<Option<Answer>, OpenError> {
    let deadline = Instant::now() + timeout;
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
    // Room for one descriptor too many. The kernel closes further ones and sets a flag.
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
        // It closed without reading our hello. The datagram that it sent before can still be read.
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
    let said = Datagram::from_bytes(&bytes[..got.bytes.min(bytes.len())]);
    match said.map_err(|problem| protocol(path, problem))? {
        Datagram::Welcome(welcome) => {
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
        Datagram::Refusal(refusal) => Err(refusal_error(config, path, refusal)),
        Datagram::Hello(_) => {
            Err(protocol(path, "it answered as a subscriber does".to_owned()).into())
        }
    }
}

fn refusal_error(config: &Config, path: &Path, refusal: Refusal) -> OpenError {
    match refusal.code {
        RefusalCode::Full(places) => OpenError::SubscribersFull {
            channel: config.channel().to_owned(),
            max: places.into(),
            holders: refusal.text,
        },
        _ => SealedError::Refused {
            socket: path.to_owned(),
            reason: refusal.text,
        }
        .into(),
    }
}

/// Checks the memory from the publisher, and maps it.
pub(super) fn accept_answer(
    config: &Config,
    path: &Path,
    typed: &TypeTag,
    socket: OwnedFd,
    peer: Peer,
    answer: Answer,
) -> Result<AcceptedAnswer, OpenError> {
    let Answer {
        welcome,
        lane,
        page,
    } = answer;
    check(&page, PAGE, page_seals(), None, path)?;
    check(&lane, LANE, lane_seals(), None, path)?;
    let lanes = HashMap::from([(0, lane)]);
    let memory = InprocMemory::unnamed(path.to_owned(), page, lanes)?;
    let attached = attach_inproc(config.channel(), memory);
    let attached = attached.map_err(|error| memory_error(path, PAGE, error))?;
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
    let stored = fields::stored(&attached.control, found.type_hash);
    let request = ShapeRequest::of(config, typed, ShapeRole::Leaves);
    request.agree(config.channel(), &found, &stored)?;
    let lane = attached
        .backing
        .open_lane(&attached.lane(0), false, config.hugepages);
    let lane = lane.map_err(|error| memory_error(path, LANE, error))?;
    let Some(lane) = lane else {
        return Err(protocol(path, "it handed out no lane".to_owned()).into());
    };
    let start = welcome.start;
    if start < shape.origin || !start.is_multiple_of(shape.align) {
        let problem = format!(
            "it put us at position {start}, where no frame can start: the first is {}, each a \
             multiple of {}",
            shape.origin, shape.align
        );
        return Err(protocol(path, problem).into());
    }
    let publisher_watch = PublisherWatch::new(
        path,
        ClosedInChildren::new(socket),
        peer,
        &attached,
        &lane.0,
    )?;
    Ok(AcceptedAnswer {
        start,
        attached,
        lane,
        publisher_watch,
    })
}

/// Turns an error about files into one about memory from the socket. Advice about files does not
/// apply there.
fn memory_error(path: &Path, memory: &'static str, error: OpenError) -> OpenError {
    let problem = match error {
        OpenError::NotAChannel { problem, .. } => {
            let reason = problem.split("; ").next();
            reason.unwrap_or_default().to_owned()
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
