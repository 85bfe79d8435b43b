//! Every key of a URI: one row each, in four tables.

mod channel;
mod journal;
mod nats;
mod network;

use super::key::{Key, Schemes};
use super::{Config, Scheme};

pub(super) use journal::JOURNAL_RULE;

/// Every scheme.
const EVERYWHERE: Schemes = Schemes {
    has: Scheme::ALL,
    refusals: &[],
};

/// Every key, in canonical order.
pub(super) fn all() -> impl Iterator<Item = &'static Key> + Clone {
    [channel::KEYS, network::KEYS, journal::KEYS, nats::KEYS]
        .into_iter()
        .flatten()
}

/// The key of this name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    all().find(|key| key.name == name)
}

/// The key that was probably meant: one letter in three may be wrong, or the end is missing.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let names = all().map(|key| key.name);
    let longest = names.clone().map(str::len).max().unwrap_or(0);
    if name.len() < 2 || name.len() > longest * 2 {
        return None;
    }
    let name = name.to_ascii_lowercase().replace('-', "_");
    let (distance, meant) = names
        .clone()
        .map(|known| (edits(&name, known), known))
        .min_by_key(|(distance, _)| *distance)?;
    if distance * 3 <= name.len() {
        return Some(meant);
    }
    let mut names = names;
    names.find(|known| name.len() > 2 && known.starts_with(&name))
}

/// Number of letters to insert, remove or change to turn one word into the other.
///
/// # Source
///
/// The Levenshtein distance, computed row by row.
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (taken, ours) in from.bytes().enumerate() {
        let mut corner = taken;
        let mut left = taken + 1;
        let mut next = vec![left];
        for (above, theirs) in row.iter().skip(1).zip(to.bytes()) {
            left = (corner + usize::from(ours != theirs))
                .min(left + 1)
                .min(above + 1);
            corner = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

impl Config {
    /// Every key of a URI, in the order of [`Config::uri`]: for programs that list the settings.
    ///
    /// ```
    /// let mut keys = olivine::Config::keys();
    /// let align = keys.find(|key| key.name() == "align").ok_or("no such key")?;
    /// assert_eq!((align.value(), align.default()), ("BYTES", "8"));
    /// assert_eq!(align.rule(), "a power of two from 8 to 4096");
    /// # Ok::<(), &str>(())
    /// ```
    pub fn keys() -> impl Iterator<Item = &'static Key> {
        all()
    }
}
