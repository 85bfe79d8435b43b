//! The protocol of the socket, and its memory, written a second time by hand from `docs/layout.md`.

use crate::common::mapped::Mapped;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind,
    connect, listen, recvmsg, sendmsg, socket_with,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Words of a page that its subscriber may write, and their meaning.
pub(crate) const SLEEPERS: usize = 48;
pub(crate) const ATTACHED: usize = 80;
/// The word on which a publisher sleeps that waits for this subscriber.
pub(crate) const SLOT_STATE: usize = 512;
pub(crate) const LANE_ENTRY: usize = SLOT_STATE + 48;
pub(crate) const ROOM: usize = LANE_ENTRY + 16;
pub(crate) const PARK: usize = SLOT_STATE + 32;
pub(crate) const POSITION: usize = LANE_ENTRY + 32;
pub(crate) const PAGE_BYTES: u64 = 8192;
/// Words of a lane.
pub(crate) const CURSOR: usize = 16;
pub(crate) const LIMIT: usize = 32;
pub(crate) const STATE: usize = 33;
pub(crate) const RING: usize = 512;

/// A hello of a reliable subscriber that starts now and parks.
pub(crate) fn hello() -> Vec<u8> {
    let mut bytes = b"OLIVSEAL\x02\0\x01\0\x06\0\0\0\0\0\x02".to_vec();
    bytes.resize(32, 0);
    bytes
}

/// A handshake reply that starts at position 0.
pub(crate) fn welcome() -> Vec<u8> {
    let mut bytes = b"OLIVSEAL\x02\0\x02\0\x06\0\0\0\x40".to_vec();
    bytes.resize(32, 0);
    bytes
}

fn new_socket() -> OwnedFd {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    socket_with(AddressFamily::UNIX, kind, flags, None).unwrap()
}

/// A connection to the process that serves `path`.
pub(crate) fn call(path: &Path) -> rustix::io::Result<OwnedFd> {
    let socket = new_socket();
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// A socket that listens at `path`.
pub(crate) fn serve(path: &Path) -> OwnedFd {
    let socket = new_socket();
    bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&socket, 16).unwrap();
    socket
}

/// The next connection, and its hello.
pub(crate) fn meet(listener: &OwnedFd) -> OwnedFd {
    let socket = accept(listener).unwrap();
    let (said, files) = hear(&socket);
    // The settings follow.
    assert_eq!((&said[..16], said.len()), (&hello()[..16], 32));
    assert_eq!(files.len(), 0);
    socket
}

/// Sends one datagram with descriptors.
pub(crate) fn say(
    socket: &OwnedFd,
    bytes: &[u8],
    files: &[BorrowedFd<'_>],
) -> rustix::io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut extras = SendAncillaryBuffer::new(&mut room);
    assert!(files.is_empty() || extras.push(SendAncillaryMessage::ScmRights(files)));
    sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut extras,
        SendFlags::NOSIGNAL,
    )
}

/// One datagram and its descriptors; empty once the other end has closed.
pub(crate) fn hear(socket: &OwnedFd) -> (Vec<u8>, Vec<OwnedFd>) {
    let mut bytes = [0; 1024];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut extras = RecvAncillaryBuffer::new(&mut room);
    let mut receive = || {
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        recvmsg(socket, parts, &mut extras, RecvFlags::CMSG_CLOEXEC)
    };
    let got = match receive() {
        // It closed with unread data; its earlier data is still readable.
        Err(rustix::io::Errno::CONNRESET) => receive(),
        got => got,
    };
    let length = got.map_or(0, |got| got.bytes);
    let rights = extras.drain().filter_map(|extra| match extra {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    (bytes[..length].to_vec(), rights.flatten().collect())
}

/// The text of a refusal.
pub(crate) fn refusal(bytes: &[u8]) -> String {
    assert!(
        bytes.len() >= 32 && bytes[10] == 3,
        "no refusal: {bytes:02x?}"
    );
    String::from_utf8(bytes[32..].to_vec()).unwrap()
}

/// What a subscriber gets.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) socket: OwnedFd,
    pub(crate) lane_file: OwnedFd,
    pub(crate) page_file: OwnedFd,
    pub(crate) lane: Mapped,
    pub(crate) page: Mapped,
}

impl Joined {
    /// The publisher's position.
    pub(crate) fn cursor(&self) -> u64 {
        self.lane.word(CURSOR).load(Ordering::Acquire)
    }

    /// Publishes our read position.
    pub(crate) fn claim(&self, position: u64) {
        self.page.word(POSITION).store(position, Ordering::Release);
    }

    /// Our published read position.
    pub(crate) fn claimed(&self) -> u64 {
        self.page.word(POSITION).load(Ordering::Relaxed)
    }
}

/// Joins like a subscriber.
pub(crate) fn join(path: &Path) -> Joined {
    let socket = call(path).unwrap();
    say(&socket, &hello(), &[]).unwrap();
    let (bytes, files) = hear(&socket);
    assert_eq!(bytes.get(10), Some(&2), "no welcome: {bytes:02x?}");
    let [lane_file, page_file] = <[OwnedFd; 2]>::try_from(files).expect("two descriptors");
    Joined {
        socket,
        lane: Mapped::of(&lane_file, false).unwrap(),
        page: Mapped::of(&page_file, true).unwrap(),
        lane_file,
        page_file,
    }
}

/// Sealable memory with these words, and a writable mapping of it.
pub(crate) fn memory(bytes: u64, words: &[(usize, u64)]) -> (OwnedFd, Mapped) {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("hostile", flags).unwrap();
    // Allocated completely: a lane with holes is refused.
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).unwrap();
    let mapped = Mapped::of(&file, true).unwrap();
    for (index, value) in words {
        mapped.word(*index).store(*value, Ordering::Relaxed);
    }
    (file, mapped)
}

/// The seals that a lane must have.
pub(crate) fn lane_seals() -> SealFlags {
    page_seals() | SealFlags::FUTURE_WRITE
}

/// The seals that a page must have.
pub(crate) fn page_seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

/// The memory of a publisher: a lane of 4 KiB and a page, not sealed yet.
#[derive(Debug)]
pub(crate) struct Handout {
    pub(crate) lane_file: OwnedFd,
    pub(crate) page_file: OwnedFd,
    pub(crate) lane: Mapped,
    pub(crate) page: Mapped,
}

impl Handout {
    pub(crate) fn new() -> Self {
        let capacity = 4096;
        let mut geometry = [0_u64; 24];
        geometry[..4].copy_from_slice(&[capacity, 8, 1, 1]);
        // Fixed by a publisher.
        geometry[16] = 1 << 6;
        geometry[23] = fnv(&geometry[..23]);
        let magic = |text: &[u8; 8]| u64::from_le_bytes(*text);
        let mut words = vec![(0, magic(b"OLIVINE1")), (1, 6), (2, 1), (22, 7), (112, 1)];
        words.extend(
            geometry
                .iter()
                .enumerate()
                .map(|(n, word)| (256 + n, *word)),
        );
        words.extend([
            (LANE_ENTRY, 1),
            (ATTACHED, 1),
            (SLOT_STATE, 1),
            (POSITION, 0),
        ]);
        let (page_file, page) = memory(PAGE_BYTES, &words);
        let words = [
            (0, magic(b"OLIVLANE")),
            (1, 6),
            (2, capacity),
            // The incarnation of the page.
            (5, 7),
            (LIMIT, capacity),
            (STATE, 3),
        ];
        let (lane_file, lane) = memory(4096 + capacity, &words);
        Self {
            lane_file,
            page_file,
            lane,
            page,
        }
    }

    /// Seals both like a publisher.
    pub(crate) fn seal(&self) {
        fcntl_add_seals(&self.lane_file, lane_seals()).unwrap();
        fcntl_add_seals(&self.page_file, page_seals()).unwrap();
    }

    /// Sends both to a connected subscriber.
    pub(crate) fn hand_over(&self, socket: &OwnedFd) {
        let files = [self.lane_file.as_fd(), self.page_file.as_fd()];
        say(socket, &welcome(), &files).unwrap();
    }
}

/// The check word of a geometry: FNV-1a, 64 bits.
fn fnv(words: &[u64]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
