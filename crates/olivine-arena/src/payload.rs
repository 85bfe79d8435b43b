//! Checkable messages: a sequence number and a time stamp determine every byte.
//!
//! # Layout (little endian)
//!
//! | bytes  | meaning                                                          |
//! |--------|------------------------------------------------------------------|
//! | 0..8   | sequence number; `olivine pub` keeps its identity in the top bits |
//! | 8..16  | intended send time in clock ticks                                |
//! | 16..   | pattern that follows from both                                   |
//!
//! The pattern of a message of up to 256 bytes is a run of words, each the previous one plus a
//! constant; a last word may be cut. A longer pattern consists of blocks of 4 KiB: a word, and a
//! piece of a fixed table at an offset from this word. So building is a copy and checking is a
//! comparison, both far below the cost of moving the bytes between two cores; torn or shifted bytes
//! are detected.

/// Bits of a sequence number that count messages. The higher bits identify publishers of one lane.
pub const NUMBER_BITS: u32 = 40;

/// Smallest checkable message in bytes: sequence number and time stamp.
pub const SIZE_MIN: usize = 16;

/// Odd, so that all words of a message differ: 2^64 divided by the golden ratio.
pub(crate) const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
/// Spreads neighbouring sequence numbers over the word.
const SPREAD: u64 = 0xD6E8_FEB8_6659_FD93;
/// Longest message in bytes whose pattern is words throughout.
const WORDS_MAX: usize = 256;
/// Bytes of a block: its word and a piece of the table.
const BLOCK: usize = 4096;
/// The most common size: small market data. Its code has no loop.
pub const COMMON: usize = 32;

/// Source of the blocks of long messages: two blocks long, so that a piece may start anywhere in
/// the first.
static TABLE: [u8; 2 * BLOCK] = table();

/// The stamp of a checked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Sequence number given by the publisher, counted from [`first_of`] its identity.
    pub sequence: u64,
    /// Intended send time in clock ticks.
    pub ticks: u64,
}

impl Stamp {
    /// Identity of the publisher; 0 if it gave none.
    #[must_use]
    pub const fn publisher(self) -> u64 {
        self.sequence >> NUMBER_BITS
    }

    /// How many messages of this publisher came before.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.sequence & ((1 << NUMBER_BITS) - 1)
    }
}

/// Sequence number of the first message of the publisher with this identity.
/// The low 24 bits of the identity count.
#[must_use]
pub const fn first_of(publisher: u64) -> u64 {
    publisher << NUMBER_BITS
}

/// The output of `SplitMix64` in this state, which [`STEP`] moves on; Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", 2014.
pub(crate) const fn mixed(state: u64) -> u64 {
    let mut word = state;
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

const fn table() -> [u8; 2 * BLOCK] {
    let mut table = [0; 2 * BLOCK];
    let mut state = STEP;
    let mut at = 0;
    while at < table.len() {
        state = state.wrapping_add(STEP);
        let bytes = mixed(state).to_le_bytes();
        let mut index = 0;
        while index < 8 {
            table[at + index] = bytes[index];
            index += 1;
        }
        at += 8;
    }
    table
}

/// The first pattern word.
#[inline(always)]
fn seed(stamp: Stamp) -> u64 {
    stamp
        .sequence
        .wrapping_mul(SPREAD)
        .wrapping_add(stamp.ticks.rotate_left(32))
}

/// The piece of the table that follows `word` in a block, `length` bytes.
#[inline(always)]
fn piece(word: u64, length: usize) -> &'static [u8] {
    // The top bits, in steps of 8 bytes: always within the first block.
    let start = usize::try_from(word >> 55).unwrap_or(0) * 8;
    &TABLE[start..start + length]
}

/// Writes a checkable message over the whole of `message`.
///
/// Stores whole words and loads nothing, so it may fill claimed ring memory in place.
///
/// # Panics
///
/// If `message` is shorter than [`SIZE_MIN`].
#[inline(always)]
pub fn fill(message: &mut [u8], stamp: Stamp) {
    if let Ok(common) = <&mut [u8; COMMON]>::try_from(&mut *message) {
        let word = seed(stamp);
        let words = [stamp.sequence, stamp.ticks, word, word.wrapping_add(STEP)];
        for (place, word) in common.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        return;
    }
    fill_any(message, stamp);
}

/// A checkable message of a size that the compiler knows, built in registers.
///
/// # Panics
///
/// If `SIZE` is below [`SIZE_MIN`].
#[inline(always)]
#[must_use]
pub fn build<const SIZE: usize>(stamp: Stamp) -> [u8; SIZE] {
    let mut message = [0; SIZE];
    fill(&mut message, stamp);
    message
}

#[inline]
fn fill_any(message: &mut [u8], stamp: Stamp) {
    let long = message.len() > WORDS_MAX;
    let (head, rest) = message.split_at_mut(SIZE_MIN);
    head[..8].copy_from_slice(&stamp.sequence.to_le_bytes());
    head[8..].copy_from_slice(&stamp.ticks.to_le_bytes());
    let mut word = seed(stamp);
    if long {
        for block in rest.chunks_mut(BLOCK) {
            let (first, rest) = block.split_at_mut(block.len().min(8));
            first.copy_from_slice(&word.to_le_bytes()[..first.len()]);
            rest.copy_from_slice(piece(word, rest.len()));
            word = word.wrapping_add(STEP);
        }
        return;
    }
    let (words, tail) = rest.as_chunks_mut::<8>();
    for place in words {
        *place = word.to_le_bytes();
        word = word.wrapping_add(STEP);
    }
    if !tail.is_empty() {
        tail.copy_from_slice(&word.to_le_bytes()[..tail.len()]);
    }
}

/// Checks a message that was sent with `size` bytes; `None` if it has another length, or as
/// [`check`].
///
/// The start of a correct message of up to 256 bytes is also correct: callers that know the size
/// use this function.
#[inline(always)]
#[must_use]
pub fn check_whole(message: &[u8], size: usize) -> Option<Stamp> {
    // The size is the same for all messages of a stream, so only one comparison is left for each.
    if size == COMMON {
        check_common(message)
    } else if message.len() == size {
        check_any(message)
    } else {
        None
    }
}

/// Checks a message; `None` if it is too short or any byte does not fit its stamp.
#[inline(always)]
#[must_use]
pub fn check(message: &[u8]) -> Option<Stamp> {
    if message.len() == COMMON {
        check_common(message)
    } else {
        check_any(message)
    }
}

/// [`check_whole`] of messages of [`COMMON`] bytes.
#[inline(always)]
pub fn check_common(message: &[u8]) -> Option<Stamp> {
    let message: &[u8; COMMON] = message.try_into().ok()?;
    let word = |index: usize| u64::from_le_bytes(message.as_chunks::<8>().0[index]);
    let stamp = Stamp {
        sequence: word(0),
        ticks: word(1),
    };
    let expected = seed(stamp);
    let difference = (word(2) ^ expected) | (word(3) ^ expected.wrapping_add(STEP));
    (difference == 0).then_some(stamp)
}

#[inline]
fn check_any(message: &[u8]) -> Option<Stamp> {
    let (head, rest) = message.split_at_checked(SIZE_MIN)?;
    let [sequence, ticks] = head.as_chunks::<8>().0 else {
        return None;
    };
    let stamp = Stamp {
        sequence: u64::from_le_bytes(*sequence),
        ticks: u64::from_le_bytes(*ticks),
    };
    let mut word = seed(stamp);
    if message.len() > WORDS_MAX {
        for block in rest.chunks(BLOCK) {
            let (first, rest) = block.split_at(block.len().min(8));
            if first != &word.to_le_bytes()[..first.len()] || rest != piece(word, rest.len()) {
                return None;
            }
            word = word.wrapping_add(STEP);
        }
        return Some(stamp);
    }
    let mut difference = 0;
    let (words, tail) = rest.as_chunks::<8>();
    for found in words {
        difference |= u64::from_le_bytes(*found) ^ word;
        word = word.wrapping_add(STEP);
    }
    let same = difference == 0 && (tail.is_empty() || tail == &word.to_le_bytes()[..tail.len()]);
    same.then_some(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_message_is_valid_at_every_size() {
        for size in (SIZE_MIN..300).chain([4095, 4096, 4112, 4113, 4120, 8192, 8193, 100_000]) {
            let stamp = Stamp {
                sequence: size as u64 * 7,
                ticks: u64::MAX - size as u64,
            };
            let mut message = vec![0xAA; size];
            fill(&mut message, stamp);
            assert_eq!(check(&message), Some(stamp), "size {size}");
        }
    }

    #[test]
    fn any_changed_byte_is_detected() {
        for size in [24, 32, 61, 300, 5000] {
            let mut message = vec![0; size];
            fill(
                &mut message,
                Stamp {
                    sequence: 12,
                    ticks: 34,
                },
            );
            for at in 0..message.len() {
                message[at] ^= 1 << (at % 8);
                assert_eq!(check(&message), None, "size {size} byte {at}");
                message[at] ^= 1 << (at % 8);
            }
        }
    }

    #[test]
    fn torn_message_is_detected() {
        let mut old = vec![0; 9000];
        let mut new = vec![0; 9000];
        fill(
            &mut old,
            Stamp {
                sequence: 7,
                ticks: 1000,
            },
        );
        fill(
            &mut new,
            Stamp {
                sequence: 8,
                ticks: 1010,
            },
        );
        for at in (8..9000).step_by(8) {
            let mut torn = new[..at].to_vec();
            torn.extend_from_slice(&old[at..]);
            assert_eq!(check(&torn), None, "torn at {at}");
        }
    }

    #[test]
    fn a_shifted_or_short_message_is_refused() {
        let mut message = vec![0; 64];
        fill(
            &mut message,
            Stamp {
                sequence: 5,
                ticks: 6,
            },
        );
        assert_eq!(check(&message[8..]), None);
        assert!(
            check(&message[..48]).is_some(),
            "why `check_whole` is there"
        );
        assert_eq!(check_whole(&message[..48], 64), None);
        assert!(check_whole(&message, 64).is_some());
        assert_eq!(check(&message[..SIZE_MIN - 1]), None);
        assert_eq!(check(&[]), None);
    }
}
