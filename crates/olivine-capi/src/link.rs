//! The bridge behind a handle of a channel elsewhere, to look at.

use crate::argument::fill;
use crate::failure::{Failure, Text};
use crate::handle::guard_of;
use crate::publisher::{self, Publisher};
use crate::status::Status;
use crate::structs::Versioned;
use crate::subscriber::{self, Subscriber};
use core::ffi::{CStr, c_char};
use olivine::{LinkStage as RustStage, LinkStatus as RustStatus};
use std::thread::LocalKey;

thread_local! {
    /// What `LinkStatus::note` and `address` point to: they stay here as long as the thread lives.
    static NOTE: Text = const { Text::new() };
    static ADDRESS: Text = const { Text::new() };
}

/// The state of the bridge behind a handle. Later versions may add values.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkStage {
    /// There is no bridge: `shm://` and `inproc://`.
    None = 0,
    /// No far side is connected: the bridge waits for one, or tries again.
    Waiting = 1,
    /// A far side is connected.
    Connected = 2,
    /// The far side has ended the channel: a journal, or the source of a bridge that ends with it.
    /// A handle of `tcp://` or `nats://` goes on looking for the next publisher: its stage is
    /// `CONNECTED` or `WAITING` behind the end of the stream, too.
    Ended = 3,
    /// It failed; the next call of the handle returns the reason.
    Failed = 4,
}

impl From<RustStage> for LinkStage {
    fn from(stage: RustStage) -> Self {
        match stage {
            RustStage::Connected => Self::Connected,
            RustStage::Ended => Self::Ended,
            RustStage::Failed => Self::Failed,
            _ => Self::Waiting,
        }
    }
}

/// The state of the bridge behind a handle (`tcp://`, `nats://`, `file://`, `shm+fd://`), and its
/// counters. Begin with `OLIVINE_LINK_STATUS_INIT`.
///
/// `note` and `address` are in buffers of the calling thread: valid until this thread asks for the
/// status of a link again, or ends. They are cut at 2047 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LinkStatus {
    /// Bytes of this structure, for later versions of it.
    pub struct_size: usize,
    /// The state; `NONE` if there is no bridge, and then the rest is 0 and empty.
    pub stage: LinkStage,
    /// Far sides connected now.
    pub peers: u32,
    /// What it waits for, or its newest problem: one line, empty if there is none. Never NULL.
    pub note: *const c_char,
    /// Address on which it waits for far sides, such as `127.0.0.1:4000`; empty if it does not.
    /// Never NULL.
    pub address: *const c_char,
    /// Connections made so far.
    pub connections: u64,
    /// Connections that broke or could not be made.
    pub failures: u64,
    /// Far sides that were refused.
    pub refusals: u64,
    /// Far subscribers that were given up without all messages or the end.
    pub abandoned: u64,
    /// Messages that were not delivered; known once the bridge has ended.
    pub undelivered: u64,
    /// Messages that arrived; a sending bridge counts bytes only.
    pub messages: u64,
    /// Bytes of frames carried, headers and padding included.
    pub bytes: u64,
    /// Bytes of frames that the far side has acknowledged, or that this side has.
    pub acknowledged_bytes: u64,
    /// Position in the journal behind the last message that a replay put into the ring of this
    /// handle, ahead of what the program has received; 0 elsewhere.
    pub journal_position: u64,
}

// SAFETY: `repr(C)`, `struct_size` first.
unsafe impl Versioned for LinkStatus {
    const FIRST: usize = 104;
}

const _: () = assert!(size_of::<LinkStatus>() == LinkStatus::FIRST);

/// Copies `said` for the caller.
fn kept(place: &'static LocalKey<Text>, said: &str) -> *const c_char {
    const NOTHING: &CStr = c"";
    // While the thread ends, its text can no longer be read.
    let kept = place.try_with(|text| {
        text.write(said);
        text.as_ptr()
    });
    kept.unwrap_or(NOTHING.as_ptr())
}

impl LinkStatus {
    fn of(link: Option<RustStatus>) -> Self {
        let stage = link
            .as_ref()
            .map_or(LinkStage::None, |link| link.stage.into());
        let link = link.unwrap_or_default();
        Self {
            struct_size: size_of::<Self>(),
            stage,
            peers: u32::try_from(link.peers).unwrap_or(u32::MAX),
            note: kept(&NOTE, &link.note),
            address: kept(&ADDRESS, &link.address),
            connections: link.connections,
            failures: link.failures,
            refusals: link.refusals,
            abandoned: link.abandoned,
            undelivered: link.undelivered,
            messages: link.messages,
            bytes: link.bytes,
            acknowledged_bytes: link.acknowledged_bytes,
            journal_position: link.journal_position,
        }
    }
}

/// Fills `*status` for the caller.
///
/// # Safety
///
/// As for [`fill`].
unsafe fn give(status: *mut LinkStatus, link: Option<RustStatus>) -> Result<(), Failure> {
    // SAFETY: the contract is the same.
    unsafe { fill("status", status, LinkStatus::of(link)) }
}

/// Fills `*status` with the state of the bridge behind a publisher: whether a far side is
/// connected, and why not. The stage is `NONE` for `shm://` and `inproc://`. Never waits.
///
/// # Safety
///
/// `publisher` is open; `status` begins with its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_link_status(
    publisher: *const Publisher,
    status: *mut LinkStatus,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        let link = unsafe { publisher::look(publisher, olivine::Publisher::link_status) }?;
        // SAFETY: the contract is the same.
        unsafe { give(status, link) }
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(publisher, call) }
}

/// As `olivine_publisher_link_status`, for the bridge behind a subscriber.
///
/// # Safety
///
/// `subscriber` is open; `status` begins with its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_link_status(
    subscriber: *const Subscriber,
    status: *mut LinkStatus,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        let link = unsafe { subscriber::look(subscriber, olivine::Subscriber::link_status) }?;
        // SAFETY: the contract is the same.
        unsafe { give(status, link) }
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(subscriber, call) }
}
