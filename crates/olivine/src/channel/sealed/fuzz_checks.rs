//! Checks of both ends of a sealed channel's socket for any datagrams, descriptors and memory. The
//! fuzz target and the replay of the kept inputs run them.

#![allow(unreachable_pub, reason = "reached by the fuzz targets only")]

use super::connect::{self, Answer};
use super::listen::new_socket;
use super::memory::{lane_seals, page_seals};
use super::serve::send_datagram;
use super::wire::{Datagram, HandshakeReply, Hello, LONGEST};
use super::{consumer, path_of};
use crate::channel::attach::TypeTag;
use crate::channel::backing::memory_file;
use crate::channel::publisher::Publisher;
use crate::error::{LinkError, OpenError, ReceiveError};
use crate::fuzz_checks::input::Input;
use crate::liveness::Peer;
use crate::region::Words;
use crate::segment::map_control;
use crate::sync::Ordering;
use crate::uri::{Config, Delivery, WaitStrategy};
use rustix::fs::{FileType, SealFlags, fcntl_add_seals, fstat};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::cell::RefCell;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Longest wait for the other thread. Far above what it needs, because the process may be stopped
/// from outside.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Messages read from a damaged lane: the lane may be endless, a call must return.
const TAKEN_MAX: usize = 100;
/// Number of words that a hostile subscriber writes.
const WRITES_MAX: usize = 64;
const LANE_BYTES: usize = 300;

/// A publisher with its socket, and the memory that it hands out.
struct Harness {
    publisher: Publisher,
    config: Config,
    page: Vec<u8>,
    lane: Vec<u8>,
    _folder: tempfile::TempDir,
}

thread_local! {
    /// One for all inputs of a thread.
    static HARNESS: RefCell<Harness> = RefCell::new(Harness::new());
}

/// Checks both ends against any input. A datagram that is understood is what was sent, and control
/// characters of it reach no terminal. A subscriber gets an error with a name, or memory that it
/// can read. A publisher answers and continues, and has all its room again when the hostile
/// subscriber is gone.
///
/// # Panics
///
/// If a check fails.
pub fn check_sealed(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 3 {
        0 => check_datagram(input.bytes(data.len())),
        1 => HARNESS.with_borrow(|stage| stage.check_subscriber(&mut input)),
        _ => HARNESS.with_borrow_mut(|stage| stage.check_publisher(&mut input)),
    }
}

fn check_datagram(bytes: &[u8]) {
    match Datagram::from_bytes(bytes) {
        Ok(said) => {
            let is_clean = match &said {
                Datagram::Refusal(refusal) => {
                    assert!(!refusal.text.chars().any(char::is_control), "{said:?}");
                    // Escaping makes it longer than what was sent.
                    bytes.ends_with(refusal.text.as_bytes())
                }
                Datagram::Hello(_) | Datagram::Welcome(_) => true,
            };
            assert!(!is_clean || said.to_bytes() == bytes, "{said:?}");
            for cut in 0..bytes.len() {
                assert!(Datagram::from_bytes(&bytes[..cut]).is_err(), "{cut} bytes");
            }
        }
        Err(problem) => assert!(!problem.is_empty()),
    }
}

/// The reasons to refuse the other end: it breaks the rules, it has another shape than was asked
/// for, or there is no free slot.
fn refused(error: &OpenError) {
    assert!(
        matches!(
            error,
            OpenError::Link(LinkError::Sealed(_))
                | OpenError::Mismatch { .. }
                | OpenError::SubscribersFull { .. }
        ),
        "{error}"
    );
}

/// A valid datagram with settings from the input, or any bytes.
fn datagram(input: &mut Input<'_>, good: impl FnOnce(&mut Input<'_>) -> Datagram) -> Vec<u8> {
    match input.byte() {
        choice if choice < 200 => good(input).to_bytes(),
        _ => {
            let length = usize::from(input.half()) % (LONGEST + 20);
            input.bytes(length).to_vec()
        }
    }
}

fn any_hello(input: &mut Input<'_>) -> Hello {
    let choice = input.byte();
    Hello {
        delivery: if choice & 1 == 0 {
            Delivery::Reliable
        } else {
            Delivery::Latest
        },
        oldest: choice & 2 == 0,
        wait: WaitStrategy::ALL[usize::from(choice / 4) % WaitStrategy::ALL.len()],
    }
}

impl Harness {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s").display().to_string();
        let uri = format!("shm+fd://{path}?capacity=4KiB&subscribers_max=16");
        let config = Config::parse(&uri).expect("a good one");
        let mut publisher = Publisher::open_with(&config).expect("a publisher");
        for length in [0, 8, 100, 250] {
            publisher
                .publish(&vec![length; length.into()])
                .expect("room");
        }
        let socket = Self::call(&config);
        let answer = connect::handshake(&config, path_of(&config), &socket, TIMEOUT);
        let Answer { lane, page, .. } = answer.expect("an answer").expect("a welcome");
        Self {
            publisher,
            page: content(page),
            lane: content(lane),
            config,
            _folder: folder,
        }
    }

    fn call(config: &Config) -> OwnedFd {
        let start = std::time::Instant::now();
        loop {
            if let Some(socket) = connect::connect_socket(path_of(config)).expect("a socket") {
                return socket;
            }
            assert!(start.elapsed() < TIMEOUT, "no publisher serves the socket");
            std::thread::yield_now();
        }
    }

    /// A subscriber against a publisher that sends, hands out and writes anything.
    fn check_subscriber(&self, input: &mut Input<'_>) {
        let path = path_of(&self.config);
        let shape = input.byte();
        let said = datagram(input, |input| {
            Datagram::Welcome(HandshakeReply {
                subscribers_max: u32::from(input.byte() % 4),
                start: match input.byte() {
                    0..128 => 0,
                    _ => input.word(),
                },
            })
        });
        let (mut page, mut lane) = (self.page.clone(), self.lane.clone());
        input.damage([&mut page, &mut lane]);
        let lane = handed_out(&lane, lane_seals(), shape & 1 != 0, &self.config);
        let page = handed_out(&page, page_seals(), shape & 2 != 0, &self.config);
        let files = [lane.as_fd(), page.as_fd()];
        let files: &[BorrowedFd<'_>] = match shape >> 2 {
            1 => &[],
            2 => &files[..1],
            3 => &[files[1], files[0]],
            _ => &files,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (hostile, socket) = pair.expect("two ends");
        send_datagram(hostile.as_fd(), &said, files).expect("room for a datagram");
        // Before the socket is closed: otherwise an empty datagram would give no result.
        let answer = connect::handshake(&self.config, path, &socket, Duration::ZERO);
        let answer = match answer.map_err(|error| refused(&error)) {
            Ok(Some(answer)) => answer,
            Ok(None) => return assert!(said.is_empty(), "an answer was not seen"),
            Err(()) => return,
        };
        let peer = Peer::of(socket.as_fd()).expect("the two of us");
        let tag = TypeTag::default();
        match connect::accept_answer(&self.config, path, &tag, socket, peer, answer) {
            Ok(joined) => read(&self.config, joined),
            Err(error) => refused(&error),
        }
    }

    /// A publisher against a subscriber that sends and writes anything.
    fn check_publisher(&mut self, input: &mut Input<'_>) {
        let config = self.config.clone();
        let path = path_of(&config);
        let said = datagram(input, |input| Datagram::Hello(any_hello(input)));
        let socket = Self::call(&config);
        let extra = usize::from(input.byte()).saturating_sub(253);
        let unrelated = new_socket().expect("a socket");
        let extra = &[unrelated.as_fd(), unrelated.as_fd()][..extra];
        send_datagram(socket.as_fd(), &said, extra).expect("room for a datagram");
        let is_hello = matches!(Datagram::from_bytes(&said), Ok(Datagram::Hello(_)));
        match connect::receive_answer(&config, path, &socket, TIMEOUT) {
            Ok(Some(answer)) => {
                assert!(is_hello && extra.is_empty(), "let in with {said:02x?}");
                self.overwrite_page(&answer, input);
                if input.byte() & 1 == 1 {
                    // The publisher may have detected it already and closed the socket.
                    let _ = send_datagram(socket.as_fd(), &said, &[]);
                    if let Err(error) = connect::receive_answer(&config, path, &socket, TIMEOUT) {
                        refused(&error);
                    }
                }
            }
            Ok(None) => assert!(said.is_empty() && extra.is_empty(), "no answer"),
            Err(error) => {
                refused(&error);
                assert!(!is_hello || !extra.is_empty(), "{error}");
            }
        }
        drop(socket);
        // More than the ring holds: a subscriber that is gone must not hold the publisher back.
        for _ in 0..2 * 4096 / LANE_BYTES {
            self.publisher
                .publish_timeout(&[7; LANE_BYTES], TIMEOUT)
                .expect("room after a stranger");
        }
    }

    /// Writes words of the input into the subscriber's own page while the publisher sends.
    fn overwrite_page(&mut self, answer: &Answer, input: &mut Input<'_>) {
        let length = fstat(&answer.page).expect("memory").st_size;
        let length = u64::try_from(length).expect("a length");
        let path = path_of(&self.config);
        let page: Words = map_control(answer.page.as_fd(), path, length, true).expect("our page");
        let words = usize::try_from(length / 8).expect("a page");
        for _ in 0..WRITES_MAX {
            if input.is_empty() {
                break;
            }
            let (place, value) = (usize::from(input.half()), input.word());
            page.word(place % words).store(value, Ordering::Release);
            let _ = self.publisher.try_publish(&[3; LANE_BYTES]);
        }
    }
}

/// All bytes of a descriptor from the publisher.
fn content(file: OwnedFd) -> Vec<u8> {
    let kind = FileType::from_raw_mode(fstat(&file).expect("memory").st_mode);
    assert_eq!(kind, FileType::RegularFile);
    let mut bytes = Vec::new();
    File::from(file).read_to_end(&mut bytes).expect("readable");
    bytes
}

/// Memory to hand out; one seal is missing if `open` is set.
fn handed_out(bytes: &[u8], seals: SealFlags, open: bool, config: &Config) -> OwnedFd {
    let length = (bytes.len() as u64).max(8);
    let file = memory_file(path_of(config), length, None, bytes).expect("memory");
    let left_out = if open {
        SealFlags::SHRINK
    } else {
        SealFlags::empty()
    };
    fcntl_add_seals(&file, seals - left_out).expect("seals");
    file
}

/// Reads the messages of a lane that may be damaged.
fn read(config: &Config, joined: connect::AcceptedAnswer) {
    let (words, ring) = joined.lane;
    let mut lane = consumer(&joined.attached, config, 0, 0, words, ring, joined.start);
    let (mut sum, mut seen) = (0_u64, 0);
    let walked = lane.walk(TAKEN_MAX, |frame, payload| {
        assert_eq!(frame.length, payload.len());
        sum += payload.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        seen += 1;
    });
    match walked {
        Ok(count) => assert_eq!(count, seen),
        Err(error) => assert!(matches!(error, ReceiveError::Corrupt { .. }), "{error}"),
    }
    lane.release();
    std::hint::black_box(sum);
}
