//! Messages that must come back unchanged: a number, then bytes that differ between messages.

use super::client::Protocol;
use super::error::{LoadError, shown};

/// Source of the patterns; neighbouring messages start at different offsets.
const FILLING: usize = 251;

/// Both ends of every connection's numbering.
pub(super) struct Echo {
    size: usize,
    filling: Vec<u8>,
    /// By connection: the next number to send and the next to come back.
    numbers: Vec<(u64, u64)>,
    expected: Vec<u8>,
}

impl Echo {
    pub(super) fn new(size: usize, connections: usize) -> Self {
        // A multiplicative walk through a prime's residues: no short period within a message.
        let filling = (0..size + FILLING).map(|at| u8::try_from(at * 97 % FILLING).unwrap_or(0));
        Self {
            size,
            filling: filling.collect(),
            numbers: vec![(0, 0); connections],
            expected: Vec::new(),
        }
    }

    fn write(&self, number: u64, out: &mut Vec<u8>) {
        let start = usize::try_from(number % FILLING as u64).unwrap_or(0);
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&self.filling[start..start + self.size - 8]);
    }
}

impl Protocol for Echo {
    fn ask(&mut self, connection: usize, count: usize, out: &mut Vec<u8>) {
        for _ in 0..count {
            let number = self.numbers[connection].0;
            self.write(number, out);
            self.numbers[connection].0 += 1;
        }
    }

    fn read(&mut self, connection: usize, data: &[u8]) -> Result<(usize, usize), LoadError> {
        let mut answers = 0;
        for message in data.chunks_exact(self.size) {
            let number = self.numbers[connection].1;
            let mut expected = std::mem::take(&mut self.expected);
            expected.clear();
            self.write(number, &mut expected);
            self.expected = expected;
            if message != self.expected {
                return Err(LoadError::Wrong {
                    number: number + 1,
                    found: shown(message),
                });
            }
            self.numbers[connection].1 += 1;
            answers += 1;
        }
        Ok((answers, answers * self.size))
    }

    fn reopened(&mut self, connection: usize) {
        self.numbers[connection].1 = self.numbers[connection].0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unchanged_echoes_are_counted() {
        let mut echo = Echo::new(100, 2);
        let mut wire = Vec::new();
        echo.ask(1, 3, &mut wire);
        assert_eq!(wire.len(), 300);
        assert_eq!(echo.read(1, &wire[..250]).unwrap(), (2, 200));
        let mut changed = wire[200..].to_vec();
        changed[99] ^= 1;
        assert!(echo.read(1, &changed).is_err());
        assert_eq!(echo.read(1, &wire[200..]).unwrap(), (1, 100));
        assert!(echo.read(1, &wire[200..]).is_err(), "a repeated message");
        assert!(
            echo.read(0, &wire[100..200]).is_err(),
            "one of another connection"
        );
    }
}
