//! Blocks of `tcp://` for tests that change them on the way: see `docs/wire.md`.

/// First bytes of each direction of a connection.
const MAGIC: &[u8] = b"OLIVWIRE";
/// Bytes before the fields of a hello, of a checksum, and of a block's header.
const PREAMBLE: usize = 16;
const SUM: usize = 4;
const HEADER: usize = 24;

/// A lane is open, frames, a lane's end, an acknowledgement, a close.
pub(crate) const LANE: u8 = 2;
pub(crate) const FRAMES: u8 = 3;
pub(crate) const LANE_END: u8 = 4;
pub(crate) const ACK: u8 = 5;
pub(crate) const CLOSE: u8 = 8;
/// Codes of a close.
pub(crate) const END: u8 = 1;
pub(crate) const LEAVING: u8 = 2;
pub(crate) const UPSTREAM: u8 = 16;

/// A block as on the wire. The header's checksum covers 20 bytes, with the body's checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) header: [u8; HEADER],
    pub(crate) body: Vec<u8>,
}

impl Block {
    /// A close with this code and no reason.
    pub(crate) fn close(code: u8) -> Self {
        let mut header = [0; HEADER];
        (header[0], header[1]) = (CLOSE, code);
        let body = Vec::new();
        Self { header, body }
    }

    pub(crate) fn kind(&self) -> u8 {
        self.header[0]
    }

    /// The code of a close.
    pub(crate) fn code(&self) -> u8 {
        self.header[1]
    }

    pub(crate) fn position(&self) -> u64 {
        u64::from_le_bytes(*self.header[8..].first_chunk().expect("eight bytes"))
    }

    pub(crate) fn set_position(&mut self, position: u64) {
        self.header[8..16].copy_from_slice(&position.to_le_bytes());
    }

    /// Whether it is a close with this code.
    pub(crate) fn closes_with(&self, code: u8) -> bool {
        self.kind() == CLOSE && self.code() == code
    }

    /// Its bytes, unchanged.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [&self.header[..], &self.body[..]].concat()
    }

    /// Its bytes with the right length and checksums.
    pub(crate) fn sealed(mut self) -> Vec<u8> {
        let length = u32::try_from(self.body.len()).expect("a short body");
        self.header[4..8].copy_from_slice(&length.to_le_bytes());
        let body = crc32c::crc32c(&self.body);
        self.header[16..20].copy_from_slice(&body.to_le_bytes());
        let sum = crc32c::crc32c(&self.header[..20]);
        self.header[20..].copy_from_slice(&sum.to_le_bytes());
        self.bytes()
    }
}

/// For `Proxy::rewrite`: passes each whole block of a connection without TLS through `change`. An
/// incomplete block is kept. Each connection begins with its hello.
pub(crate) fn by_block(
    mut change: impl FnMut(Block) -> Vec<u8> + Send + 'static,
) -> impl FnMut(&[u8]) -> Vec<u8> + Send + 'static {
    let mut kept: Vec<u8> = Vec::new();
    let mut greeted = false;
    move |bytes| {
        if bytes.starts_with(MAGIC) {
            (kept, greeted) = (Vec::new(), false);
        }
        kept.extend(bytes);
        let mut out = Vec::new();
        loop {
            let at = if greeted { 4 } else { 12 };
            let Some(length) = kept.get(at..).and_then(|rest| rest.first_chunk::<4>()) else {
                return out;
            };
            let length = u32::from_le_bytes(*length) as usize;
            let whole = if greeted {
                HEADER + length
            } else {
                PREAMBLE + length + SUM
            };
            if kept.len() < whole {
                return out;
            }
            let rest = kept.split_off(whole);
            let piece = std::mem::replace(&mut kept, rest);
            if greeted {
                let (header, body) = piece.split_at(HEADER);
                out.extend(change(Block {
                    header: header.try_into().expect("as long"),
                    body: body.to_vec(),
                }));
            } else {
                greeted = true;
                out.extend(piece);
            }
        }
    }
}
