//! What a shard knows about one connection: about 250 bytes, and no buffer while it is idle.
//!
//! In every state an armed event reports the loss of the peer, and a timer runs for a silent peer.
//! [`Shard::is_bounded`](super::Shard::is_bounded) asserts it in debug builds whenever a connection
//! was touched; `tests/suite/states.rs` leaves by an end, a reset, both, and silence in each state,
//! with all other time-outs an hour.
//!
//! | state | armed event: mio | armed event: io_uring | an end | silence |
//! |---|---|---|---|---|
//! | `Connecting` | edge, writable | poll, writable | attempt fails | the attempt's own time-out |
//! | `Open`, read | edge | receive; poll | `on_end` | `idle_timeout` |
//! | `Open`, not read (1) | edge | poll | `on_half_close` | `idle_timeout` (2) |
//! | `Open`, half closed (3) | edge | poll | was reported | `idle_timeout` |
//! | `Leaving` | edge, sending | poll, sending | goes with it | `write_timeout` |
//! | `Finishing` | edge, the send under way | poll, the send under way | noted | `write_timeout` |
//! | `Draining` | edge | receive; poll | closed | `linger` |
//! | `Gone` | none: closed | operations that were cancelled | | |
//!
//! 1. Paused, or over the high-water mark.
//! 2. `write_timeout` while a send waits; a peer that accepts less than `write_rate_min` counts as
//!    silent.
//! 3. The end was read, and the handler keeps the connection.
//!
//! A reset ends each of them at once, also behind an end. HTTP adds its own timers to `Open`:
//!
//! | stage | timer |
//! |---|---|
//! | nothing came yet, or half a head | `header_timeout`: closed, or 408 |
//! | half a body | `body_timeout` and `body_rate_min`: 408 |
//! | between requests | `Limits::idle_timeout` |
//! | an answer is deferred | `answer_timeout`: 503 |
//! | an answer is deferred or streamed, and the peer has ended | `half_closed_timeout` (4) |
//! | a stream is silent, and the peer has not ended | `EngineConfig::idle_timeout` (5) |
//!
//! 4. It runs while no byte is sent; then 503, or the connection is cut off.
//! 5. `keep_alive` ends it if the peer's machine is gone.
//!
//! A time-out of `None` takes its timer away: such a connection lives until the kernel reports its
//! end.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use crate::{driver::Outgoing, error::CloseReason, wheel::Key};

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is free.
    Free,
    /// We are connecting.
    Connecting,
    /// Bytes flow both ways.
    Open,
    /// It goes to another shard once the queue is sent.
    Leaving,
    /// The handler has closed it; the queue is still being sent.
    Finishing,
    /// Our end is sent; input is discarded until the peer ends, too.
    Draining,
    /// Given up; the kernel may still hold its buffers.
    Gone,
}

/// Whether the peer has ended its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    No,
    /// It has, but the handler must first see the bytes that came before.
    Unseen,
    /// It has, and the handler knows.
    Reported,
}

/// An outgoing connection attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) address: SocketAddr,
    pub(crate) timeout: Duration,
    pub(crate) token: u64,
}

/// Where a connection goes that another shard gets.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) shard: usize,
    pub(crate) token: u64,
    /// The driver was asked for the socket.
    pub(crate) taken: bool,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) generation: u32,
    pub(crate) phase: Phase,
    pub(crate) end: End,
    /// The handler knows that the peer ended its direction while reading was off.
    pub(crate) half_closed: bool,
    /// The reason that `on_close` gets once the present close is complete.
    pub(crate) reason: CloseReason,
    /// The peer has sent something.
    pub(crate) heard: bool,
    /// Only its protocol moves it to another shard.
    pub(crate) bound: bool,
    /// The handler has paused reading.
    pub(crate) held: bool,
    /// More than the high-water mark was queued and the queue has not fallen to the low one yet.
    pub(crate) over: bool,
    /// The handler wants `on_writable`.
    pub(crate) notify: bool,
    /// Whether the driver was last asked to read.
    pub(crate) reading: bool,
    /// On the shard's list of connections to look at.
    pub(crate) dirty: bool,
    /// Kept bytes are to be shown again.
    pub(crate) resume: bool,
    /// A send is under way.
    pub(crate) sending: bool,
    /// Bytes of that send.
    pub(crate) sending_bytes: usize,
    /// Bytes in `segments`.
    pub(crate) segment_bytes: usize,
    /// Full pieces that wait behind the send under way.
    pub(crate) segments: VecDeque<Outgoing>,
    /// Bytes written since the last send; follows the segments.
    pub(crate) out: Vec<u8>,
    /// Bytes the handler has seen and not consumed, or not seen yet.
    pub(crate) rest: Vec<u8>,
    pub(crate) timer: Option<Key>,
    pub(crate) timer_at: u64,
    /// Tick of the last byte in either direction.
    pub(crate) activity: u64,
    /// Tick of the last completed send.
    pub(crate) sent_at: u64,
    /// Tick from which on the bytes are counted that the peer accepts; [`NEVER`] while none wait
    /// for it.
    pub(crate) write_since: u64,
    /// The bytes that it has accepted since then, as far as the shard has asked the driver.
    pub(crate) write_bytes: u64,
    pub(crate) deadline: u64,
    pub(crate) attempt: Option<Box<Attempt>>,
    /// The listener that accepted it.
    pub(crate) listener: Option<u16>,
    /// Where it goes.
    pub(crate) leaving: Option<Box<Leaving>>,
    #[cfg(feature = "rustls")]
    pub(crate) tls: Option<Box<crate::tls::Session>>,
}

impl Connection {
    pub(crate) fn new(generation: u32) -> Self {
        Self {
            generation,
            phase: Phase::Free,
            end: End::No,
            half_closed: false,
            reason: CloseReason::Closed,
            heard: false,
            bound: false,
            held: false,
            over: false,
            notify: false,
            reading: true,
            dirty: false,
            resume: false,
            sending: false,
            sending_bytes: 0,
            segment_bytes: 0,
            segments: VecDeque::new(),
            out: Vec::new(),
            rest: Vec::new(),
            timer: None,
            timer_at: NEVER,
            activity: 0,
            sent_at: 0,
            write_since: NEVER,
            write_bytes: 0,
            deadline: NEVER,
            attempt: None,
            listener: None,
            leaving: None,
            #[cfg(feature = "rustls")]
            tls: None,
        }
    }

    /// Bytes not yet accepted by the kernel.
    pub(crate) fn queued(&self) -> usize {
        self.sending_bytes + self.segment_bytes + self.out.len()
    }

    /// Whether bytes arrive sealed.
    pub(crate) fn has_tls(&self) -> bool {
        #[cfg(feature = "rustls")]
        return self.tls.is_some();
        #[cfg(not(feature = "rustls"))]
        false
    }

    /// Whether arriving bytes must wait.
    pub(crate) fn blocked(&self) -> bool {
        self.held || self.over
    }

    /// Whether the driver should read.
    pub(crate) fn wants_reading(&self) -> bool {
        match self.phase {
            Phase::Open => self.end == End::No && !self.blocked(),
            Phase::Draining => true,
            _ => false,
        }
    }
}
