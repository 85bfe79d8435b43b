//! The protocol of `tcp://`: decodes received bytes and encodes blocks. It does no input or output.
//!
//! `docs/wire.md` describes it for other implementations. Each side begins with a [`Hello`]. Then
//! come **blocks**, each with a header of 24 bytes and a body. Frames are sent unchanged from the
//! ring. Every received byte is untrusted until it is checked: a length is compared with its limit
//! before memory is reserved, and an unexpected block ends the connection. Checksums cover every
//! byte, and nothing of a block is used before its checksum was compared.
#![forbid(unsafe_code)]

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_checks;
pub(crate) mod hello;
#[cfg(test)]
mod tests;

use hello::Hello;

/// Version of everything in this file. It is compared first.
pub(crate) const WIRE_VERSION: u32 = 3;
/// First bytes on a connection.
pub(super) const MAGIC: [u8; 8] = *b"OLIVWIRE";
/// First byte of a TLS peer: an alert, because it understood nothing, or the start of a handshake.
const TLS_ALERT: u8 = 21;
const TLS_HANDSHAKE: u8 = 22;
/// Bytes before the hello's fields: magic, version, length of the fields.
pub(super) const PREAMBLE_BYTES: usize = 16;
/// Longest hello in bytes, without its preamble.
pub(super) const HELLO_MAX: usize = 4096;
/// Bytes of a checksum: CRC-32C, little endian.
const SUM_BYTES: usize = 4;
/// Bytes of a block's header before its checksums.
const HEAD_BYTES: usize = 16;
/// Bytes of a block's header: the checksum of the body, then that of everything before it.
pub(super) const HEADER_BYTES: usize = HEAD_BYTES + 2 * SUM_BYTES;
/// Longest body of frames in bytes. A block is used once it is whole, so this adds to the latency
/// of a long run, and it must fit into the buffer.
pub(super) const FRAMES_MAX: usize = 1 << 16;
/// Longest text of a close in bytes.
const REASON_MAX: usize = 512;
/// Bytes of one lane in a resume.
const LANE_RESUME_BYTES: usize = 16;
/// Most lanes a channel has.
const LANES_MAX: usize = 256;
const _: () = assert!(LANES_MAX as u64 == crate::uri::PUBLISHERS_LIMIT);
/// Bytes of the receive buffer: enough for several blocks.
const BUFFER_BYTES: usize = 256 * 1024;
const _: () = assert!(BUFFER_BYTES >= 2 * (HEADER_BYTES + FRAMES_MAX));
/// Flag of a lane in a resume: it is open at the destination.
const LANE_RESUME_OPEN: u32 = 1;

const KIND_RESUME: u8 = 1;
const KIND_LANE: u8 = 2;
const KIND_FRAMES: u8 = 3;
const KIND_LANE_END: u8 = 4;
const KIND_ACK: u8 = 5;
const KIND_WANT: u8 = 6;
const KIND_BEAT: u8 = 7;
const KIND_CLOSE: u8 = 8;

/// Why one side ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Close {
    /// Every publisher has closed and everything was acknowledged.
    End = 1,
    /// This side stops; a durable session is kept.
    Leaving = 2,
    /// The other side broke the protocol.
    Protocol = 3,
    /// Another version of the protocol.
    Version = 4,
    /// The token is missing or wrong.
    Token = 5,
    /// No such channel here.
    Channel = 6,
    /// Both sides send, or both receive.
    Direction = 7,
    /// The messages are of another type.
    Type = 8,
    /// A setting does not fit.
    Settings = 9,
    /// The durable name is in use.
    NameInUse = 10,
    /// There is no room for another subscriber.
    Full = 11,
    /// Held a publisher back for longer than it allows.
    Evicted = 12,
    /// The requested data is gone.
    Lost = 13,
    /// This side cannot continue.
    Failed = 14,
    /// Bytes were changed on the way.
    Corrupt = 15,
    /// The source of the channel failed: its lanes end with this reason.
    Upstream = 16,
    /// This side stops and does not come back: its session and its name are forgotten.
    Gone = 17,
}

impl Close {
    const ALL: [Self; 17] = [
        Self::End,
        Self::Leaving,
        Self::Protocol,
        Self::Version,
        Self::Token,
        Self::Channel,
        Self::Direction,
        Self::Type,
        Self::Settings,
        Self::NameInUse,
        Self::Full,
        Self::Evicted,
        Self::Lost,
        Self::Failed,
        Self::Corrupt,
        Self::Upstream,
        Self::Gone,
    ];

    fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|close| *close as u8 == code)
    }
}

/// Where a destination continues in one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneResume {
    /// Index at the source.
    pub(crate) lane: u32,
    /// The first byte there that it has not committed.
    pub(crate) position: u64,
    /// The lane is open at the destination: its end has not arrived.
    pub(crate) open: bool,
}

/// A received block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrived<'a> {
    /// The hello of the other side: first, and once.
    Hello(Hello),
    /// Destination to source: where to continue in each lane, in the channel of this incarnation;
    /// once, before anything else.
    Resume {
        incarnation: u64,
        places: Vec<LaneResume>,
    },
    /// Source to destination: a lane is open and continues from this position.
    Lane { lane: u32, position: u64 },
    /// Source to destination: whole or partial frames, a multiple of 8 bytes: the rest of a whole
    /// block. They stay until [`Decoder::took`].
    Frames {
        lane: u32,
        position: u64,
        bytes: &'a [u8],
    },
    /// Source to destination: the lane's publisher has closed it.
    LaneEnd { lane: u32 },
    /// Destination to source: everything before `position` is committed, and whole frames up to
    /// `room` have room.
    Ack { lane: u32, position: u64, room: u64 },
    /// Source to destination: the next message, of `length` bytes, has no room.
    Want { lane: u32, length: u64 },
    /// A keepalive.
    Beat,
    /// The last block of the other side.
    Close { close: Close, reason: String },
}

/// Why received bytes are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// The first bytes are not ours.
    #[error("it does not start with the mark of the protocol")]
    Magic,
    /// The first byte is one of TLS.
    #[error("it speaks TLS, this side does not: give 'tls=yes' on both sides, or on none")]
    Tls,
    /// Another version.
    #[error("version {found}, where this build speaks {WIRE_VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// A length above its limit.
    #[error("{what} of {found} bytes, where {most} are allowed")]
    Length {
        /// Of what.
        what: &'static str,
        /// Length found.
        found: u64,
        /// The limit.
        most: u64,
    },
    /// A checksum that does not match.
    #[error("the checksum of {what} does not match: bytes were changed on the way")]
    Checksum {
        /// Of what.
        what: &'static str,
    },
    /// Something that no implementation sends.
    #[error("{0}")]
    Invalid(String),
}

impl WireError {
    /// Whether it concerns the first bytes of a connection, which no checksum covers.
    pub(crate) fn is_of_the_preamble(&self) -> bool {
        match self {
            Self::Magic | Self::Tls | Self::Version { .. } | Self::Length { .. } => true,
            Self::Checksum { .. } | Self::Invalid(_) => false,
        }
    }
}

fn invalid(text: impl Into<String>) -> WireError {
    WireError::Invalid(text.into())
}

/// Decodes bytes that arrive in pieces of any size.
#[derive(Debug)]
pub(crate) struct Decoder {
    buffer: Vec<u8>,
    /// Bounds of the bytes that have arrived and are not consumed.
    start: usize,
    end: usize,
    stage: Stage,
    /// Length of the hello, in its stage.
    hello_bytes: usize,
    /// The rest of the body, in the stage of frames.
    frames: Rest,
}

/// A stage has no fields: the compiler would look at them before it knows the stage, which valgrind
/// reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Preamble,
    Hello,
    Block,
    /// Inside a whole body of frames.
    Frames,
    /// After a close nothing more is read.
    Closed,
}

/// What is left of a whole body of frames.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    lane: u32,
    /// Position of the next byte.
    position: u64,
    left: usize,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            stage: Stage::Preamble,
            hello_bytes: 0,
            frames: Rest::default(),
        }
    }

    /// Where the next bytes go; empty only while received bytes have not been consumed. Report the
    /// count with [`Decoder::filled`].
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            // Only the beginning of a block, or frames without room, are ever moved.
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.buffer[self.end..]
    }

    /// `count` bytes were put into [`Decoder::space`].
    pub(crate) fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.buffer.len());
    }

    /// Whether there is no space until received bytes are consumed.
    pub(crate) fn is_full(&self) -> bool {
        self.end - self.start == self.buffer.len()
    }

    /// The next received block; `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// [`WireError`]: the connection is unusable.
    pub(crate) fn next(&mut self) -> Result<Option<Arrived<'_>>, WireError> {
        loop {
            let bytes = &self.buffer[self.start..self.end];
            match self.stage {
                Stage::Preamble => {
                    let Some(length) = preamble(bytes)? else {
                        return Ok(None);
                    };
                    self.hello_bytes = length;
                    self.stage = Stage::Hello;
                }
                Stage::Hello => {
                    let end = PREAMBLE_BYTES + self.hello_bytes;
                    let Some(sum) = word32(bytes, end) else {
                        return Ok(None);
                    };
                    compare("the hello", &bytes[..end], sum)?;
                    let hello = Hello::decode(&bytes[PREAMBLE_BYTES..end])?;
                    self.start += end + SUM_BYTES;
                    self.stage = Stage::Block;
                    return Ok(Some(Arrived::Hello(hello)));
                }
                Stage::Frames => {
                    let Rest {
                        lane,
                        position,
                        left,
                    } = self.frames;
                    if left == 0 {
                        self.stage = Stage::Block;
                        continue;
                    }
                    // The whole body is there: the checksum was compared.
                    let bytes = bytes.get(..left).unwrap_or_default();
                    return Ok(Some(Arrived::Frames {
                        lane,
                        position,
                        bytes,
                    }));
                }
                Stage::Block => {
                    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
                        return Ok(None);
                    };
                    let block = Header::decode(header)?;
                    let body = HEADER_BYTES..HEADER_BYTES + block.length;
                    let Some(body) = bytes.get(body) else {
                        return Ok(None);
                    };
                    compare(block.what, body, block.body_sum)?;
                    if block.kind == KIND_FRAMES {
                        self.start += HEADER_BYTES;
                        self.stage = Stage::Frames;
                        self.frames = Rest {
                            lane: block.lane,
                            position: block.position,
                            left: block.length,
                        };
                        continue;
                    }
                    let arrived = block.arrived(body)?;
                    self.start += HEADER_BYTES + block.length;
                    if matches!(arrived, Arrived::Close { .. }) {
                        self.stage = Stage::Closed;
                    }
                    return Ok(Some(arrived));
                }
                Stage::Closed => return Ok(None),
            }
        }
    }

    /// The first `count` bytes of the last frames were handled; a multiple of 8.
    pub(crate) fn took(&mut self, count: usize) {
        if self.stage == Stage::Frames {
            let rest = &mut self.frames;
            let count = count.min(rest.left);
            rest.position = rest.position.wrapping_add(count as u64);
            rest.left -= count;
            self.start += count;
        }
    }
}

/// Length of the hello that follows, once the whole preamble is there. Refuses at the first wrong
/// byte, without waiting for the rest.
fn preamble(bytes: &[u8]) -> Result<Option<usize>, WireError> {
    if let Some(&(TLS_ALERT | TLS_HANDSHAKE)) = bytes.first() {
        return Err(WireError::Tls);
    }
    let mark = bytes.len().min(MAGIC.len());
    if bytes[..mark] != MAGIC[..mark] {
        return Err(WireError::Magic);
    }
    let Some(version) = word32(bytes, 8) else {
        return Ok(None);
    };
    if version != WIRE_VERSION {
        return Err(WireError::Version { found: version });
    }
    let Some(length) = word32(bytes, 12) else {
        return Ok(None);
    };
    match usize::try_from(length) {
        Ok(length) if length <= HELLO_MAX => Ok(Some(length)),
        _ => Err(WireError::Length {
            what: "a hello",
            found: length.into(),
            most: HELLO_MAX as u64,
        }),
    }
}

/// Compares `bytes` with the received checksum.
fn compare(what: &'static str, bytes: &[u8], sum: u32) -> Result<(), WireError> {
    match crc32c::crc32c(bytes) == sum {
        true => Ok(()),
        false => Err(WireError::Checksum { what }),
    }
}

/// A block's header, checked.
#[derive(Clone, Copy, Debug)]
struct Header {
    /// Its kind, for messages.
    what: &'static str,
    kind: u8,
    code: u8,
    lane: u32,
    length: usize,
    position: u64,
    body_sum: u32,
}

impl Header {
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, WireError> {
        let (head, sum) = bytes.split_at(HEAD_BYTES + SUM_BYTES);
        compare("a header", head, word32(sum, 0).unwrap_or(0))?;
        let [kind, code, low, high, rest @ ..] = *bytes;
        let lane = u32::from(u16::from_le_bytes([low, high]));
        let (length, position) = (word32(&rest, 0), word64(&rest, 4));
        let (Some(length), Some(position), Some(body_sum)) = (length, position, word32(&rest, 12))
        else {
            return Err(invalid("half a header"));
        };
        let (what, most) = match kind {
            KIND_RESUME => ("a resume", LANE_RESUME_BYTES * LANES_MAX),
            KIND_FRAMES => ("frames", FRAMES_MAX),
            KIND_ACK => ("an acknowledgement", 8),
            KIND_CLOSE => ("a close", REASON_MAX),
            KIND_LANE | KIND_LANE_END | KIND_WANT | KIND_BEAT => ("a block without a body", 0),
            other => return Err(invalid(format!("a block of kind {other}"))),
        };
        let found = u64::from(length);
        if found > most as u64 {
            let most = most as u64;
            return Err(WireError::Length { what, found, most });
        }
        if lane as usize >= LANES_MAX {
            return Err(invalid(format!("lane {lane}")));
        }
        if kind == KIND_FRAMES && (!length.is_multiple_of(8) || !position.is_multiple_of(8)) {
            let text = format!("{length} bytes of frames at position {position}");
            return Err(invalid(text));
        }
        Ok(Self {
            what,
            kind,
            code,
            lane,
            length: length as usize,
            position,
            body_sum,
        })
    }

    /// Decodes a block without frames.
    fn arrived(self, body: &[u8]) -> Result<Arrived<'static>, WireError> {
        let Self { lane, position, .. } = self;
        Ok(match self.kind {
            KIND_RESUME => {
                let mut places = Vec::new();
                for place in body.chunks(LANE_RESUME_BYTES) {
                    let (lane, flags) = (word32(place, 0), word32(place, 4));
                    let (Some(lane), Some(flags), Some(position)) = (lane, flags, word64(place, 8))
                    else {
                        return Err(invalid("half a place in a resume"));
                    };
                    if lane as usize >= LANES_MAX || flags & !LANE_RESUME_OPEN != 0 {
                        return Err(invalid(format!("lane {lane} with flags {flags:#x}")));
                    }
                    places.push(LaneResume {
                        lane,
                        position,
                        open: flags & LANE_RESUME_OPEN != 0,
                    });
                }
                Arrived::Resume {
                    incarnation: position,
                    places,
                }
            }
            KIND_LANE => Arrived::Lane { lane, position },
            KIND_LANE_END => Arrived::LaneEnd { lane },
            KIND_ACK => {
                let Some(room) = word64(body, 0) else {
                    return Err(invalid("an acknowledgement without room"));
                };
                Arrived::Ack {
                    lane,
                    position,
                    room,
                }
            }
            KIND_WANT => Arrived::Want {
                lane,
                length: position,
            },
            KIND_CLOSE => {
                let code = self.code;
                let close = Close::of(code).ok_or_else(|| invalid(format!("close {code}")))?;
                // Printable, whatever the peer sends: the text may reach a terminal.
                let text = String::from_utf8_lossy(body);
                let reason = text.chars().filter(|c| !c.is_control()).collect();
                Arrived::Close { close, reason }
            }
            _ => Arrived::Beat,
        })
    }
}

/// Little-endian word at `at`, if it is there.
fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*word))
}

/// Like `word32`, of 8 bytes.
fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*word))
}

/// The header of a block with this body.
fn header(kind: u8, code: u8, lane: u32, position: u64, body: &[u8]) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    // Lanes and lengths are bounded by their callers: a lane by 256, a body by `FRAMES_MAX`.
    let lane = u16::try_from(lane).unwrap_or(u16::MAX);
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    (bytes[0], bytes[1]) = (kind, code);
    bytes[2..4].copy_from_slice(&lane.to_le_bytes());
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    bytes[8..16].copy_from_slice(&position.to_le_bytes());
    bytes[16..20].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..20]);
    bytes[20..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The header of these frame bytes, at most [`FRAMES_MAX`]; the bytes follow unchanged.
pub(crate) fn frames_header(lane: u32, position: u64, bytes: &[u8]) -> [u8; HEADER_BYTES] {
    header(KIND_FRAMES, 0, lane, position, bytes)
}

/// Puts a block.
fn put(out: &mut Vec<u8>, kind: u8, code: u8, lane: u32, position: u64, body: &[u8]) {
    out.extend(header(kind, code, lane, position, body));
    out.extend(body);
}

/// Puts a resume.
pub(crate) fn put_resume(out: &mut Vec<u8>, incarnation: u64, places: &[LaneResume]) {
    let mut body = Vec::with_capacity(places.len() * LANE_RESUME_BYTES);
    for place in places {
        body.extend(place.lane.to_le_bytes());
        body.extend((u32::from(place.open) * LANE_RESUME_OPEN).to_le_bytes());
        body.extend(place.position.to_le_bytes());
    }
    put(out, KIND_RESUME, 0, 0, incarnation, &body);
}

/// Puts the opening of a lane.
pub(crate) fn put_lane(out: &mut Vec<u8>, lane: u32, position: u64) {
    put(out, KIND_LANE, 0, lane, position, &[]);
}

/// Puts the end of a lane.
pub(crate) fn put_lane_end(out: &mut Vec<u8>, lane: u32) {
    put(out, KIND_LANE_END, 0, lane, 0, &[]);
}

/// Puts an acknowledgement.
pub(crate) fn put_ack(out: &mut Vec<u8>, lane: u32, position: u64, room: u64) {
    put(out, KIND_ACK, 0, lane, position, &room.to_le_bytes());
}

/// Puts a request for room.
pub(crate) fn put_want(out: &mut Vec<u8>, lane: u32, length: u64) {
    put(out, KIND_WANT, 0, lane, length, &[]);
}

/// Puts a keepalive.
pub(crate) fn put_beat(out: &mut Vec<u8>) {
    put(out, KIND_BEAT, 0, 0, 0, &[]);
}

/// Puts a close.
pub(crate) fn put_close(out: &mut Vec<u8>, close: Close, reason: &str) {
    let mut end = reason.len().min(REASON_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let text = &reason.as_bytes()[..end];
    put(out, KIND_CLOSE, close as u8, 0, 0, text);
}
