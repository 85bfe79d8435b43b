//! Self-describing messages: session, sequence, a pattern whose length depends on both, checksum.

use crate::common::Random;

/// Fills `into` with message `sequence` of `session`: mostly small, one in eight of 0.5 to 4 KiB
/// (whose lines a publisher prefetches), sometimes nearly a whole ring of 64 KiB.
pub(crate) fn fill(session: u64, sequence: u64, into: &mut Vec<u8>) {
    let mut random = Random(session << 32 ^ sequence);
    let words = match random.below(64) {
        0 => random.below(8100),
        1..4 => 0,
        4..12 => 62 + random.below(460),
        _ => random.below(40),
    };
    into.clear();
    into.extend(session.to_le_bytes());
    into.extend(sequence.to_le_bytes());
    let mut sum = session ^ sequence.rotate_left(32);
    for _ in 0..words {
        let word = random.next();
        sum = sum.rotate_left(5) ^ word;
        into.extend(word.to_le_bytes());
    }
    into.extend(sum.to_le_bytes());
}

/// Session and sequence of a valid message; `None` for a torn or invented one.
pub(crate) fn check(message: &[u8], scratch: &mut Vec<u8>) -> Option<(u64, u64)> {
    let word = |at: usize| {
        Some(u64::from_le_bytes(
            message.get(at..at + 8)?.try_into().ok()?,
        ))
    };
    let (session, sequence) = (word(0)?, word(8)?);
    fill(session, sequence, scratch);
    (message == scratch.as_slice()).then_some((session, sequence))
}
