//! What a fuzzer gives, read as numbers.

/// Bytes of a fuzzer as numbers; zeros once they are used up.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_is_used_up_goes_on_with_zeros() {
        let mut input = Input::new(&[1, 2, 3, 4]);
        assert_eq!((input.byte(), input.half(), input.word()), (1, 0x302, 4));
        assert!(input.is_empty() && input.bytes(3).is_empty() && input.word() == 0);
    }
}
