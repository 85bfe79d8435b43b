//! The last messages that were taken, by number and time: they tell a message that the server
//! delivers again from another one under the same number, whatever the server's clock does.

use std::collections::VecDeque;

/// Messages that are remembered.
const SEEN_MAX: usize = 4096;

/// Numbers in the stream, ascending, each with the time at which the server stored the message.
#[derive(Debug, Default)]
pub(super) struct Seen(VecDeque<(u64, u64)>);

impl Seen {
    /// A message was taken. Later numbers are those of messages that the stream lost.
    pub(super) fn took(&mut self, sequence: u64, time_ns: u64) {
        let kept = self.0.partition_point(|(number, _)| *number < sequence);
        self.0.truncate(kept);
        if self.0.len() == SEEN_MAX {
            self.0.pop_front();
        }
        self.0.push_back((sequence, time_ns));
    }

    /// When the message was stored that had this number last; `None` if it is not remembered.
    pub(super) fn time_of(&self, sequence: u64) -> Option<u64> {
        let found = self
            .0
            .binary_search_by_key(&sequence, |(number, _)| *number);
        found.ok().map(|place| self.0[place].1)
    }

    /// The stream was made again: its numbers begin again.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_given_again_replaces_what_followed() {
        let mut seen = Seen::default();
        for number in 1..=9 {
            seen.took(number, 100 + number);
        }
        assert_eq!(seen.time_of(7), Some(107));
        // The clock went back, and so did the numbers.
        seen.took(4, 50);
        assert_eq!((seen.time_of(4), seen.time_of(7)), (Some(50), None));
        assert_eq!(seen.time_of(3), Some(103));
        for number in 5..5 + SEEN_MAX as u64 {
            seen.took(number, 1);
        }
        assert_eq!((seen.time_of(4), seen.time_of(5)), (None, Some(1)));
        seen.clear();
        assert_eq!(seen.time_of(5), None);
    }
}
