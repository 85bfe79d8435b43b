//! Sparse index of block starts by position and time: it stays small for files of any length.

use super::format::{IndexEntry, Seal, Sealed};
use super::lane::{self, Known, Lanes};
use zerocopy::{FromBytes, IntoBytes};

/// Most entries of an index; at twice as many, every other one is removed.
const ENTRIES_MAX: usize = 1 << 15;
/// Initial distance between two entries in bytes of the file.
const STRIDE_BYTES: u64 = 256 << 10;

/// Starts of frame blocks in one file, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Index {
    places: Vec<IndexEntry>,
    stride: u64,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            stride: STRIDE_BYTES,
        }
    }
}

impl Index {
    /// A block of frames starts at `offset`.
    pub(super) fn add(&mut self, offset: u64, sequence: u64, position: u64, time: u64) {
        let near = |last: &IndexEntry| offset < last.offset.get() + self.stride;
        if self.places.last().is_some_and(near) {
            return;
        }
        if self.places.len() == ENTRIES_MAX {
            let mut keep = false;
            self.places.retain(|_| {
                keep = !keep;
                keep
            });
            self.stride *= 2;
        }
        self.places.push(IndexEntry {
            offset: offset.into(),
            sequence: sequence.into(),
            position: position.into(),
            time: time.into(),
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of its entries and its seal.
    pub(super) fn bytes(&self) -> u64 {
        (size_of_val(&self.places[..]) + size_of::<Seal>()) as u64
    }

    /// The last entry that `is_before` the target.
    pub(super) fn last(&self, is_before: impl Fn(&IndexEntry) -> bool) -> Option<&IndexEntry> {
        let after = self.places.partition_point(is_before);
        self.places[..after].last()
    }

    /// Byte and number of each block that it names.
    pub(super) fn places(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let place = |entry: &IndexEntry| (entry.offset.get(), entry.sequence.get());
        self.places.iter().map(place)
    }

    /// The body of an index block at `offset`: every lane, the entries, the seal.
    pub(super) fn encode(
        &self,
        lanes: &[Known],
        offset: u64,
        time: u64,
        sealed: Sealed,
    ) -> Vec<u8> {
        let mut body = Vec::new();
        lane::encode(0, lanes, &mut body);
        for place in &self.places {
            body.extend_from_slice(place.as_bytes());
        }
        let seal = Seal::new(offset, time, sealed);
        body.extend_from_slice(seal.as_bytes());
        body
    }

    /// Reads the body of an index block with `count` lanes.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn decode(
        count: u32,
        body: &[u8],
        lanes: &mut Lanes,
    ) -> Result<(Self, Seal), &'static str> {
        let rest = lane::decode(count, body, lanes)?;
        let (places, seal) = Seal::read_from_suffix(rest).map_err(|_| "an index is cut")?;
        if seal.sealed() == Sealed::No || !places.len().is_multiple_of(size_of::<IndexEntry>()) {
            return Err("an index does not end with its seal");
        }
        let places: Vec<IndexEntry> = places
            .chunks_exact(size_of::<IndexEntry>())
            .filter_map(|bytes| IndexEntry::read_from_bytes(bytes).ok())
            .collect();
        let rises = |pair: &[IndexEntry]| {
            pair[0].offset.get() < pair[1].offset.get()
                && pair[0].sequence.get() < pair[1].sequence.get()
                && pair[0].position.get() <= pair[1].position.get()
                && pair[0].time.get() <= pair[1].time.get()
        };
        if places.len() > ENTRIES_MAX || !places.windows(2).all(rises) {
            return Err("an index is out of order");
        }
        let stride = STRIDE_BYTES;
        Ok((Self { places, stride }, seal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_stays_small_and_finds_near_entries() {
        let mut index = Index::default();
        let blocks = 5 * ENTRIES_MAX as u64;
        for n in 0..blocks {
            index.add(64 + n * STRIDE_BYTES, n, n * 100, n * 10);
        }
        assert!(index.places.len() <= ENTRIES_MAX);
        for n in [0, 1, 77, blocks / 2, blocks - 1] {
            let found = index.last(|place| place.position.get() <= n * 100).unwrap();
            assert!(
                found.sequence.get() <= n && n - found.sequence.get() <= 8,
                "block {n}"
            );
        }
        let body = index.encode(&[], 7, 9, Sealed::Closed);
        let (again, seal) = Index::decode(0, &body, &mut Lanes::default()).unwrap();
        assert_eq!(again.places, index.places);
        assert_eq!((seal.offset.get(), seal.time.get()), (7, 9));
    }
}
