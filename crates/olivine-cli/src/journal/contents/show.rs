//! The contents of a journal as text and as JSON.

use super::{
    Contents, End, FailedRecording, Hole, LaneContents, failures_sentence, missed_sentence,
};
use crate::journal::damage::{Damage, DamagedPlace};
use crate::output::table;
use olivine::Start;
use olivine_bench::text;
use serde_json::{Value, json};
use std::path::Path;

/// Most topics and files in the text. JSON has all.
const ROWS: usize = 20;

fn date(time_ns: u64) -> String {
    let start = Start::Time(time_ns).to_string();
    start.strip_prefix("time:").unwrap_or(&start).to_owned()
}

fn date_or_dash(time_ns: Option<u64>) -> String {
    time_ns.map_or_else(|| "-".to_owned(), date)
}

/// For tables: with the nanoseconds, which JSON has, a row would be longer than 80 columns.
fn second_or_dash(time_ns: Option<u64>) -> String {
    date_or_dash(time_ns.map(|time_ns| time_ns - time_ns % 1_000_000_000))
}

impl Contents {
    fn word(&self) -> &'static str {
        match self.end.word() {
            _ if self.is_damaged() => "damaged",
            "complete" if self.outline.missed_bytes.is_some_and(|bytes| bytes > 0) => "incomplete",
            "complete" if !self.failed().is_empty() => "incomplete",
            word => word,
        }
    }

    fn failed(&self) -> &[FailedRecording] {
        self.failures.as_deref().unwrap_or_default()
    }

    fn sentence(&self) -> String {
        let mut parts = Vec::from_iter(self.first_damage.clone());
        parts.extend(self.damage.as_ref().and_then(Damage::sentence));
        parts.push(self.end.sentence());
        parts.extend(failures_sentence(self.failed()));
        let (holes, missed) = (self.holes.len() as u64, self.outline.missed_bytes);
        match (missed, self.is_exact) {
            (Some(bytes), true) => parts.extend(missed_sentence(holes, bytes)),
            (Some(0) | None, false) => {}
            (Some(bytes), false) => parts.push(format!(
                "{bytes} bytes of frames were never recorded, --exact lists the places"
            )),
            (None, true) => {}
        }
        if !self.is_exact {
            let damage = match self.end {
                End::Damaged(_) => "more damage",
                End::State(_) => "damage",
            };
            let missing = match missed {
                Some(_) => "",
                None => ", missing messages",
            };
            parts.push(format!(
                "not checked in whole: only --exact finds {damage}{missing} and earlier failures"
            ));
        }
        parts.join("; ")
    }

    /// A count, with a mark if it is estimated.
    fn count(&self, count: u64) -> String {
        self.marked(if self.is_exact {
            count.to_string()
        } else {
            text::count(count)
        })
    }

    fn marked(&self, figure: String) -> String {
        if self.is_exact {
            figure
        } else {
            format!("~{figure}")
        }
    }

    fn messages(&self) -> u64 {
        self.lanes.values().map(|lane| lane.messages).sum()
    }

    fn payload_bytes(&self) -> u64 {
        self.lanes.values().map(|lane| lane.payload_bytes).sum()
    }

    pub(super) fn as_text(&self, path: &Path) -> String {
        let outline = &self.outline;
        let mut out = format!(
            "journal      {}\nstate        {}: {}\nmessages     {}\n\
             payloads     {}\nposition     {} bytes of frames\nfirst        {}\n\
             last         {}\nfiles        {}, {}\n",
            path.display(),
            self.word(),
            self.sentence(),
            self.count(self.messages()),
            self.marked(text::bytes(self.payload_bytes())),
            self.position,
            date_or_dash(outline.first_ns),
            date_or_dash(outline.last_ns),
            outline.files.len(),
            text::bytes(outline.file_bytes()),
        );
        if outline.start > 0 {
            let with = match self.is_damaged() {
                true => "their files were removed, or are damaged",
                false => "with the oldest files",
            };
            out.push_str(&format!(
                "removed      the first {} bytes of frames, {with}\n",
                outline.start
            ));
        }
        if !self.is_exact {
            out.push_str(&format!(
                "estimated    what begins with ~, from {} blocks with {} messages; --exact reads \
                 all\n",
                outline.read.blocks, outline.read.messages
            ));
            if !outline.has_all_lanes {
                out.push_str("lanes        some may be missing here; --exact finds all\n");
            }
        }
        out.push_str(&self.lanes_as_text());
        out.push_str(&self.topics_as_text());
        out.push_str(&self.holes_as_text());
        out.push_str(&self.damage_as_text());
        out.push_str(&self.failures_as_text());
        if outline.files.len() > 1 {
            out.push('\n');
            let files = outline.files.iter().take(ROWS);
            let rows = files.map(|file| {
                vec![
                    file.path.display().to_string(),
                    text::bytes(file.bytes),
                    file.start.to_string(),
                    (if file.has_index { "index" } else { "no index" }).to_owned(),
                ]
            });
            let heads = ["FILE", "BYTES", "FROM", "END"];
            out.push_str(&table(&heads, &[1, 2], rows.collect()));
            out.push_str(&left_out(outline.files.len(), "files"));
        }
        out
    }

    fn lanes_as_text(&self) -> String {
        if self.lanes.is_empty() {
            return String::new();
        }
        let heads = ["CHANNEL", "LANE", "MESSAGES", "BYTES", "FIRST", "LAST"];
        let row = |((channel, publisher), lane): (&(String, u32), &LaneContents)| {
            vec![
                channel.clone(),
                publisher.to_string(),
                self.count(lane.messages),
                self.marked(text::bytes(lane.payload_bytes)),
                second_or_dash(lane.times.map(|times| times.0)),
                second_or_dash(lane.times.map(|times| times.1)),
            ]
        };
        let rows = self.lanes.iter().map(row).collect();
        format!("\n{}", table(&heads, &[1, 2, 3], rows))
    }

    fn topics_as_text(&self) -> String {
        let mut topics: Vec<(&String, u64)> = self
            .topics
            .iter()
            .map(|(topic, count)| (topic, *count))
            .collect();
        if topics.iter().all(|(topic, _)| topic.is_empty()) {
            return String::new();
        }
        topics.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        let row = |(topic, count): &(&String, u64)| {
            let name = if topic.is_empty() { "-" } else { topic };
            vec![name.to_owned(), self.count(*count)]
        };
        let mut rows: Vec<Vec<String>> = topics.iter().take(ROWS).map(row).collect();
        if self.other_topics > 0 {
            rows.push(vec![
                "(further topics)".to_owned(),
                self.count(self.other_topics),
            ]);
        }
        let table = table(&["TOPIC", "MESSAGES"], &[1], rows);
        format!("\n{table}{}", left_out(topics.len(), "topics"))
    }

    fn holes_as_text(&self) -> String {
        if self.holes.is_empty() {
            return String::new();
        }
        let heads = ["MISSING BYTES", "CHANNEL", "LANE", "FROM", "AT", "BEFORE"];
        let row = |hole: &Hole| {
            vec![
                hole.bytes.to_string(),
                hole.channel.clone(),
                hole.publisher.to_string(),
                hole.lane_position.to_string(),
                hole.position.to_string(),
                second_or_dash(Some(hole.next_ns)),
            ]
        };
        let rows = self.holes.iter().map(row).collect();
        format!("\n{}", table(&heads, &[0, 2, 3, 4], rows))
    }

    fn damage_as_text(&self) -> String {
        let Some(damage) = self.damage.as_ref().filter(|damage| damage.places > 0) else {
            return String::new();
        };
        let row = |place: &DamagedPlace| {
            vec![
                place
                    .lost_bytes
                    .map_or_else(|| "?".to_owned(), |bytes| bytes.to_string()),
                place
                    .next
                    .map_or_else(|| "-".to_owned(), |next| next.to_string()),
                place.offset.to_string(),
                place.path.display().to_string(),
            ]
        };
        let rows = damage.listed.iter().take(ROWS).map(row).collect();
        let table = table(&["LOST BYTES", "UP TO", "BYTE", "FILE"], &[0, 1, 2], rows);
        let places = usize::try_from(damage.places).unwrap_or(usize::MAX);
        format!("\n{table}{}", left_out(places, "damaged places"))
    }

    fn failures_as_text(&self) -> String {
        if self.failed().is_empty() {
            return String::new();
        }
        let row =
            |failed: &FailedRecording| vec![failed.position.to_string(), failed.reason.clone()];
        let rows = self.failed().iter().map(row).collect();
        format!("\n{}", table(&["FAILED AT", "REASON"], &[0], rows))
    }

    pub(super) fn as_json(&self, path: &Path) -> Value {
        let outline = &self.outline;
        let lane = |((channel, publisher), lane): (&(String, u32), &LaneContents)| {
            json!({
                "channel": channel,
                "publisher": publisher,
                "type_name": lane.type_name,
                "messages": lane.messages,
                "payload_bytes": lane.payload_bytes,
                "first_unix_ns": lane.times.map(|times| times.0),
                "last_unix_ns": lane.times.map(|times| times.1),
            })
        };
        let hole = |hole: &Hole| {
            json!({
                "channel": hole.channel,
                "publisher": hole.publisher,
                "missed_bytes": hole.bytes,
                "lane_position_bytes": hole.lane_position,
                "position_bytes": hole.position,
                "next_unix_ns": hole.next_ns,
            })
        };
        let failed = |failed: &FailedRecording| {
            let (position, reason) = (failed.position, &failed.reason);
            json!({ "position_bytes": position, "reason": reason })
        };
        let failures = self.failures.as_ref();
        let failures = failures.map(|all| all.iter().map(failed).collect::<Vec<_>>());
        let damaged = |place: &DamagedPlace| {
            json!({
                "path": place.path,
                "offset_bytes": place.offset,
                "problem": place.problem,
                "lost_bytes": place.lost_bytes,
                "next_position_bytes": place.next,
            })
        };
        let damage = self.damage.as_ref();
        let files = outline.files.iter().map(|file| {
            json!({
                "path": file.path,
                "file_bytes": file.bytes,
                "position_bytes": file.start,
                "has_index": file.has_index,
            })
        });
        let topics = self
            .topics
            .iter()
            .map(|(topic, count)| json!({ "topic": topic, "messages": count }));
        let estimated: &[&str] = if self.is_exact {
            &[]
        } else {
            &["messages", "payload_bytes", "lanes", "topics"]
        };
        json!({
            "path": path,
            "state": self.word(),
            "reason": self.sentence(),
            "exact": self.is_exact,
            "estimated": estimated,
            "messages": self.messages(),
            "payload_bytes": self.payload_bytes(),
            "position_bytes": self.position,
            "removed_bytes": outline.start,
            "missed_bytes": outline.missed_bytes,
            "first_unix_ns": outline.first_ns,
            "last_unix_ns": outline.last_ns,
            "file_bytes": outline.file_bytes(),
            "files": files.collect::<Vec<_>>(),
            "has_all_lanes": self.is_exact || outline.has_all_lanes,
            "lanes": self.lanes.iter().map(lane).collect::<Vec<_>>(),
            "topics": topics.collect::<Vec<_>>(),
            "other_topics_messages": self.other_topics,
            // Their places are known only if every byte was read.
            "holes": self.is_exact.then(|| self.holes.iter().map(hole).collect::<Vec<_>>()),
            "failures": failures,
            "damaged_places": damage.map(|damage| damage.places),
            "lost_bytes": damage.and_then(Damage::bytes),
            "damage": damage.map(|all| all.listed.iter().map(damaged).collect::<Vec<_>>()),
        })
    }
}

/// What a table of at most [`ROWS`] rows leaves out.
fn left_out(count: usize, what: &str) -> String {
    if count <= ROWS {
        return String::new();
    }
    format!("and {} more {what}; --json lists them\n", count - ROWS)
}
