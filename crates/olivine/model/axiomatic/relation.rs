//! Relations between the events of one execution, as rows of bits.

/// A relation over at most 64 events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relation {
    rows: Vec<u64>,
}

impl Relation {
    /// The empty relation over `size` events.
    pub(crate) fn new(size: usize) -> Self {
        assert!(size <= 64, "an execution has at most 64 events, not {size}");
        Self {
            rows: vec![0; size],
        }
    }

    /// Pairs that `holds` accepts.
    pub(crate) fn of(size: usize, holds: impl Fn(usize, usize) -> bool) -> Self {
        let mut relation = Self::new(size);
        for from in 0..size {
            for to in 0..size {
                if holds(from, to) {
                    relation.add(from, to);
                }
            }
        }
        relation
    }

    pub(crate) fn add(&mut self, from: usize, to: usize) {
        self.rows[from] |= 1 << to;
    }

    pub(crate) fn has(&self, from: usize, to: usize) -> bool {
        self.rows[from] >> to & 1 == 1
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    pub(crate) fn both(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    fn zip(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let pairs = self.rows.iter().zip(&other.rows);
        Self {
            rows: pairs.map(|(a, b)| combine(*a, *b)).collect(),
        }
    }

    /// First this relation, then `other`.
    pub(crate) fn then(&self, other: &Self) -> Self {
        let row = |row: &u64| {
            let mut rest = *row;
            let mut to = 0;
            while rest != 0 {
                to |= other.rows[rest.trailing_zeros() as usize];
                rest &= rest - 1;
            }
            to
        };
        Self {
            rows: self.rows.iter().map(row).collect(),
        }
    }

    /// This relation from events that `from` accepts to events that `to` accepts.
    pub(crate) fn between(&self, from: impl Fn(usize) -> bool, to: impl Fn(usize) -> bool) -> Self {
        let size = self.rows.len();
        let ends = (0..size).fold(0, |bits, event| bits | u64::from(to(event)) << event);
        let rows = self.rows.iter().enumerate();
        Self {
            rows: rows
                .map(|(event, row)| if from(event) { row & ends } else { 0 })
                .collect(),
        }
    }

    /// This relation and the identity.
    pub(crate) fn maybe(&self) -> Self {
        let rows = self.rows.iter().enumerate();
        Self {
            rows: rows.map(|(event, row)| row | 1 << event).collect(),
        }
    }

    pub(crate) fn inverse(&self) -> Self {
        Self::of(self.rows.len(), |from, to| self.has(to, from))
    }

    /// The transitive closure.
    pub(crate) fn closure(&self) -> Self {
        let mut rows = self.rows.clone();
        for through in 0..rows.len() {
            let reached = rows[through];
            for row in &mut rows {
                if *row >> through & 1 == 1 {
                    *row |= reached;
                }
            }
        }
        Self { rows }
    }

    pub(crate) fn is_irreflexive(&self) -> bool {
        (0..self.rows.len()).all(|event| !self.has(event, event))
    }

    pub(crate) fn is_acyclic(&self) -> bool {
        self.closure().is_irreflexive()
    }
}
