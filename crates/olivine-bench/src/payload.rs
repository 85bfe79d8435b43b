//! Messages that can be checked: every byte follows from a sequence number and a time stamp.
//!
//! # Layout (little endian)
//!
//! | bytes  | meaning                                                          |
//! |--------|------------------------------------------------------------------|
//! | 0..8   | sequence number, 0 for a publisher's first message               |
//! | 8..16  | intended send time in clock ticks                                |
//! | 16..   | pattern words that follow from both; a last word may be cut      |
//!
//! The pattern is one addition a word, so that building and checking stay far below the cost of moving the
//! bytes, and no two words of a message are equal, so that a torn or shifted payload never passes.

/// Smallest checkable message in bytes: sequence number and time stamp.
pub const SIZE_MIN: usize = 16;

/// Odd, so that all words of a message differ: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
/// Spreads neighbouring sequence numbers over the word.
const SPREAD: u64 = 0xD6E8_FEB8_6659_FD93;

/// What a checked message says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Sequence number given by the publisher, counted from 0.
    pub sequence: u64,
    /// Intended send time in clock ticks.
    pub ticks: u64,
}

/// The first pattern word.
#[inline(always)]
fn seed(stamp: Stamp) -> u64 {
    stamp
        .sequence
        .wrapping_mul(SPREAD)
        .wrapping_add(stamp.ticks.rotate_left(32))
}

/// Writes a checkable message over the whole of `message`.
///
/// Stores whole words and loads nothing back, so it may fill claimed ring memory in place.
///
/// # Panics
///
/// If `message` is shorter than [`SIZE_MIN`].
#[inline]
pub fn fill(message: &mut [u8], stamp: Stamp) {
    let (head, rest) = message.split_at_mut(SIZE_MIN);
    head[..8].copy_from_slice(&stamp.sequence.to_le_bytes());
    head[8..].copy_from_slice(&stamp.ticks.to_le_bytes());
    let mut word = seed(stamp);
    let mut words = rest.chunks_exact_mut(8);
    for place in &mut words {
        place.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(STEP);
    }
    let tail = words.into_remainder();
    let length = tail.len();
    tail.copy_from_slice(&word.to_le_bytes()[..length]);
}

/// Reads a message back; `None` if it is too short or any byte is not what its stamp demands.
#[inline]
#[must_use]
pub fn check(message: &[u8]) -> Option<Stamp> {
    let (head, rest) = message.split_at_checked(SIZE_MIN)?;
    let stamp = Stamp {
        sequence: word_at(&head[..8]),
        ticks: word_at(&head[8..]),
    };
    let mut word = seed(stamp);
    let mut difference = 0;
    let words = rest.chunks_exact(8);
    let tail = words.remainder();
    for found in words {
        difference |= word_at(found) ^ word;
        word = word.wrapping_add(STEP);
    }
    let same = difference == 0 && tail == &word.to_le_bytes()[..tail.len()];
    same.then_some(stamp)
}

#[inline(always)]
fn word_at(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_message_reads_back_at_every_size() {
        for size in SIZE_MIN..200 {
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
    fn any_changed_byte_after_the_stamp_is_seen() {
        let mut message = vec![0; 61];
        fill(
            &mut message,
            Stamp {
                sequence: 12,
                ticks: 34,
            },
        );
        for at in 0..message.len() {
            for bit in 0..8 {
                message[at] ^= 1 << bit;
                assert_eq!(check(&message), None, "byte {at} bit {bit}");
                message[at] ^= 1 << bit;
            }
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
        assert_eq!(check(&message[..SIZE_MIN - 1]), None);
        assert_eq!(check(&[]), None);
    }
}
