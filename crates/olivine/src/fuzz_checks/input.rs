//! The input of a fuzzer as numbers.

/// Largest number of places in two files that one input may change.
const PLACES_MAX: usize = 32;

/// Bytes of a fuzzer as numbers; zeros after the last byte.
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Up to `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut found = [0; N];
        let bytes = self.bytes(N);
        found[..bytes.len()].copy_from_slice(bytes);
        found
    }

    pub(crate) fn byte(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub(crate) fn half(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// Changes words of two files, and sometimes truncates a file, with the rest of the input.
    pub(crate) fn damage(&mut self, files: [&mut Vec<u8>; 2]) {
        for _ in 0..PLACES_MAX {
            if self.is_empty() {
                break;
            }
            let which = self.byte();
            let file = &mut *files[usize::from(which & 1)];
            let place = usize::from(self.half());
            if which & 0xfe == 0xfe {
                // Truncate.
                file.truncate(place * 8 % file.len().max(1));
                continue;
            }
            // Small offsets contain cursors and flags.
            let words = file.len() / 8;
            let at = if which & 2 == 0 {
                place % words.clamp(1, 64)
            } else {
                place % words.max(1)
            };
            let value = self.word();
            if let Some(word) = file.get_mut(at * 8..at * 8 + 8) {
                word.copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhausted_input_continues_with_zeros() {
        let mut input = Input::new(&[1, 2, 3, 4]);
        assert_eq!((input.byte(), input.half(), input.word()), (1, 0x302, 4));
        assert!(input.is_empty() && input.bytes(3).is_empty() && input.word() == 0);
    }
}
