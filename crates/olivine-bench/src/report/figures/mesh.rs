//! Maps of meshes: by numbers of participants, and pair by pair.

use super::rows::{deliveries, rate_note};
use super::{Context, Figure};
use crate::report::plot::{Field, heat};
use crate::report::select::{Entry, Param, varied};
use crate::text;

impl Context<'_> {
    /// Deliveries by numbers of publishers and subscribers, one map for what else differs.
    pub(super) fn mesh(&self, entries: &[Entry<'_>]) -> Vec<Figure> {
        let mut params = varied(entries);
        if !params.contains(&Param::Publishers) || !params.contains(&Param::Subscribers) {
            return Vec::new();
        }
        params.retain(|param| {
            !matches!(param, Param::Publishers | Param::Subscribers | Param::Crowd)
        });
        let mut groups: Vec<(String, Vec<Entry<'_>>)> = Vec::new();
        for entry in entries.iter().filter(|entry| deliveries(entry).is_some()) {
            let name = entry.name(&params);
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, members)) => members.push(*entry),
                None => groups.push((name, vec![*entry])),
            }
        }
        groups.retain(|(_, members)| members.len() > 1);
        let map = |(name, members): &(String, Vec<Entry<'_>>)| {
            let counts = |of: fn(&Entry<'_>) -> u32| {
                let found: std::collections::BTreeSet<u32> = members.iter().map(of).collect();
                found.into_iter().collect::<Vec<u32>>()
            };
            let publishers = counts(|entry| entry.row.parameters.publishers_count);
            let subscribers = counts(|entry| entry.row.parameters.subscribers_count);
            let mut cells = Vec::new();
            for n in &publishers {
                for m in &subscribers {
                    let cell = members.iter().find(|entry| {
                        let of = &entry.row.parameters;
                        of.publishers_count == *n && of.subscribers_count == *m
                    });
                    cells.push(cell.and_then(|entry| {
                        let (value, range) = deliveries(entry)?;
                        let what = format!("{n} publishers, {m} subscribers");
                        Some((
                            value,
                            text::rate(value),
                            rate_note(entry, &what, value, range),
                        ))
                    }));
                }
            }
            let names = |counts: &[u32]| counts.iter().map(u32::to_string).collect::<Vec<_>>();
            let field = Field {
                columns: &names(&subscribers),
                rows: &names(&publishers),
                column_title: "subscribers",
                row_title: "publishers",
                cells: &cells,
            };
            let svg = heat(
                "Messages received a second, all subscribers together",
                &field,
            );
            let caption = format!("{}.", self.holds(members, &varied(members)));
            self.figure(&format!("mesh-{name}"), svg, caption)
        };
        groups.iter().map(map).collect()
    }

    /// Rows that were measured pair by pair.
    pub(super) fn pairs(&self, entries: &[Entry<'_>]) -> Vec<Figure> {
        let params = varied(entries);
        let mut figures = Vec::new();
        for entry in entries {
            let of = &entry.row.parameters;
            // Of one publisher or one subscriber, pairs say no more than the table.
            let square = of.publishers_count > 1 && of.subscribers_count > 1;
            let Some(measured) = entry
                .measured()
                .filter(|measured| square && !measured.pairs.is_empty())
            else {
                continue;
            };
            let pair = |publisher: u32, subscriber: u32| {
                let found = measured
                    .pairs
                    .iter()
                    .find(|pair| pair.publisher == publisher && pair.subscriber == subscriber)?;
                let text = text::rate(found.messages_per_s);
                let note = format!(
                    "publisher {publisher} to subscriber {subscriber}: {text}, n = {} slices",
                    measured.slices_count
                );
                Some((found.messages_per_s, text, note))
            };
            let cells: Vec<_> = (0..of.publishers_count)
                .flat_map(|publisher| {
                    (0..of.subscribers_count).map(move |subscriber| (publisher, subscriber))
                })
                .map(|(publisher, subscriber)| pair(publisher, subscriber))
                .collect();
            let names = |count: u32| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
            let field = Field {
                columns: &names(of.subscribers_count),
                rows: &names(of.publishers_count),
                column_title: "subscriber",
                row_title: "publisher",
                cells: &cells,
            };
            let svg = heat("Messages a second, pair by pair", &field);
            let name = entry.name(&params);
            let caption = format!("{name}; {}.", self.holds(&[*entry], &params));
            figures.push(self.figure(&format!("pairs-{name}"), svg, caption));
        }
        figures
    }
}
