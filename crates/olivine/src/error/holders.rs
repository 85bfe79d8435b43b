//! Who holds what an opener needs, in words.

use std::collections::BTreeMap;

/// Holders that are named; the others are counted.
const NAMED_MAX: usize = 8;

/// A process that holds something. Its number says who it is in its own PID namespace only.
pub(crate) fn process(pid: u64, is_of_our_namespace: bool) -> String {
    match pid {
        1.. if is_of_our_namespace => format!("process {pid}"),
        _ => "a process that is not visible here".to_owned(),
    }
}

/// Joins the names of holders, each once: how many places it holds, if several.
pub(crate) fn holders(found: impl IntoIterator<Item = String>) -> String {
    let mut counts = BTreeMap::new();
    for (at, holder) in found.into_iter().enumerate() {
        let (_, count) = counts.entry(holder).or_insert((at, 0));
        *count += 1;
    }
    let mut counts: Vec<(String, (usize, usize))> = counts.into_iter().collect();
    counts.sort_by_key(|(_, (first, _))| *first);
    let left = counts.len().saturating_sub(NAMED_MAX);
    let named = counts.into_iter().take(NAMED_MAX);
    let named = named.map(|(holder, (_, count))| match count {
        1 => holder,
        count => format!("{holder} ({count} times)"),
    });
    let mut named: Vec<String> = named.collect();
    if left > 0 {
        named.push(format!("{left} more"));
    }
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_of_this_namespace_names_a_process() {
        assert_eq!(process(7, true), "process 7");
        for unknown in [process(7, false), process(0, true)] {
            assert_eq!(unknown, "a process that is not visible here");
        }
    }

    #[test]
    fn a_holder_of_several_places_is_named_once_and_many_are_counted() {
        let words = |found: &[&str]| holders(found.iter().map(|&holder| holder.to_owned()));
        assert_eq!(words(&[]), "");
        assert_eq!(words(&["7", "12", "7", "7"]), "7 (3 times), 12");
        let many = holders((1..=10).map(|pid| pid.to_string()));
        assert_eq!(many, "1, 2, 3, 4, 5, 6, 7, 8, 2 more");
    }
}
