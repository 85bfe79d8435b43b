//! A table of per-connection state.

use crate::handler::ConnectionId;

/// State of a handler for each of its shard's connections, found by index, without hashing.
///
/// Room once taken is kept, so that after warm-up opening a connection allocates nothing here.
///
/// An entry belongs to one connection: looking it up by the id of another that had the same slot
/// before finds nothing.
#[derive(Clone, Debug)]
pub struct Slots<T> {
    entries: Vec<Option<(ConnectionId, T)>>,
    count: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            count: 0,
        }
    }
}

impl<T> Slots<T> {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the state of a connection and returns the previous one.
    pub fn insert(&mut self, id: ConnectionId, value: T) -> Option<T> {
        if self.entries.len() <= id.slot() {
            self.entries.resize_with(id.slot() + 1, || None);
        }
        let old = self.entries[id.slot()].replace((id, value));
        self.count += usize::from(old.is_none());
        old.map(|(_, value)| value)
    }

    /// The state of a connection.
    #[must_use]
    pub fn get(&self, id: ConnectionId) -> Option<&T> {
        match self.entries.get(id.slot()) {
            Some(Some((owner, value))) if *owner == id => Some(value),
            _ => None,
        }
    }

    /// The state of a connection, to be changed.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut T> {
        match self.entries.get_mut(id.slot()) {
            Some(Some((owner, value))) if *owner == id => Some(value),
            _ => None,
        }
    }

    /// Takes the state of a connection out.
    pub fn remove(&mut self, id: ConnectionId) -> Option<T> {
        self.get(id)?;
        self.count -= 1;
        self.entries[id.slot()].take().map(|(_, value)| value)
    }

    /// Connections in the table.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// All connections and their state, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (ConnectionId, &T)> {
        self.entries
            .iter()
            .flatten()
            .map(|(id, value)| (*id, value))
    }

    /// All connections and their state, to be changed, by slot.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ConnectionId, &mut T)> {
        self.entries
            .iter_mut()
            .flatten()
            .map(|(id, value)| (*id, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_is_found_only_by_its_connection() {
        let id = |slot, generation| ConnectionId {
            shard: 0,
            slot,
            generation,
        };
        let mut slots = Slots::new();
        assert_eq!(slots.insert(id(3, 1), 'a'), None);
        assert_eq!(slots.get(id(3, 1)), Some(&'a'));
        assert_eq!(slots.get(id(3, 2)), None);
        assert_eq!(slots.get_mut(id(9, 0)), None);
        assert_eq!(slots.remove(id(3, 2)), None);
        assert_eq!(
            (slots.count(), slots.remove(id(3, 1)), slots.count()),
            (1, Some('a'), 0)
        );
    }
}
