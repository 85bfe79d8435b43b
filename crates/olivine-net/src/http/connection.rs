//! What the HTTP server knows about one connection.

use super::{chunk::Decoder, service::Pending};

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestStage {
    /// A head is awaited.
    Head,
    /// The rest of a body is awaited.
    Body,
    /// The service owes an answer.
    Responding,
    /// Nothing more is read.
    Closing,
}

/// How the rest of an incomplete body is read.
#[derive(Clone, Debug)]
pub(super) enum Incoming {
    Length(u64),
    Chunked(Decoder),
}

/// The HTTP state of one connection.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    pub(crate) stage: RequestStage,
    pub(crate) pending: Option<Pending>,
    pub(crate) serial: u32,
    /// The peer has ended its direction, and all it sent before was read.
    pub(crate) ended: bool,
    /// The tick from which an answer that is owed has its time.
    pub(super) owed_since: u64,
    /// The tick from which a peer that has ended its direction has its time.
    pub(super) half_closed: Option<u64>,
    /// A time-out for the request under way is set; else one for the time between requests may be.
    pub(super) armed: bool,
    /// Checks a timed-out request that is not completely read.
    pub(super) late_looks: u8,
    /// Bytes of the unfinished head that were read without reaching its end.
    pub(super) scanned: usize,
    pub(super) incoming: Incoming,
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    /// Capacity of `head` and `body` as the server has counted it.
    pub(super) held: usize,
}

impl HttpConnection {
    pub(super) fn new() -> Self {
        Self {
            stage: RequestStage::Head,
            pending: None,
            serial: 0,
            ended: false,
            owed_since: 0,
            half_closed: None,
            armed: true,
            late_looks: 0,
            scanned: 0,
            incoming: Incoming::Length(0),
            head: Vec::new(),
            body: Vec::new(),
            held: 0,
        }
    }

    /// Whether a request may come and none has begun to, after there was one before.
    pub(super) fn is_idle(&self) -> bool {
        self.stage == RequestStage::Head && !self.armed
    }
}
