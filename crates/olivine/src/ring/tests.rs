//! Compares the layout with its documents and tests the arithmetic of geometry and headers.

use super::layout::*;
use crate::region::HEADER_BYTES;
use std::collections::BTreeMap;
use std::path::Path;

/// Every named offset, in bytes.
fn places() -> BTreeMap<String, u64> {
    let words: &[(&str, usize)] = &[
        ("control.magic", control::MAGIC),
        ("control.version", control::VERSION),
        ("control.state", control::STATE),
        ("control.geometry", control::GEOMETRY),
        ("control.creator_pid", control::CREATOR_PID),
        ("control.incarnation", control::INCARNATION),
        ("control.boot", control::BOOT),
        ("control.lanes_epoch", control::LANES_EPOCH),
        ("control.sleepers", control::SLEEPERS),
        ("control.gating", control::GATING),
        ("control.attached", control::ATTACHED),
        ("control.member_pid", control::MEMBER_PID),
        ("control.subscribers_ever", control::SUBSCRIBERS_EVER),
        ("control.evictions", control::EVICTIONS),
        ("control.reclaims", control::RECLAIMS),
        ("control.always", control::ALWAYS),
        ("control.fields_length", control::FIELDS_LENGTH),
        ("control.fields_check", control::FIELDS_CHECK),
        ("control.fields", control::FIELDS),
        ("control.geometry_turn", control::GEOMETRY_TURN),
        ("control.slots", control::SLOTS),
        ("lane_entry.present", lane_entry::PRESENT),
        ("lane_entry.pid", lane_entry::PID),
        ("lane_entry.pid_space", lane_entry::PID_SPACE),
        ("lane_entry.park", lane_entry::PARK),
        ("slot.state", slot::STATE),
        ("slot.pid", slot::PID),
        ("slot.delivery", slot::DELIVERY),
        ("slot.wait", slot::WAIT),
        ("slot.lost_bytes", slot::LOST_BYTES),
        ("slot.absent_since", slot::ABSENT_SINCE),
        ("slot.expire_ns", slot::EXPIRE_NS),
        ("slot.name_length", slot::NAME_LENGTH),
        ("slot.name", slot::NAME),
        ("slot.ticket", slot::TICKET),
        ("slot.missed_bytes", slot::MISSED_BYTES),
        ("slot.told_bytes", slot::TOLD_BYTES),
        ("slot.told_end", slot::TOLD_END),
        ("slot.told_evicted", slot::TOLD_EVICTED),
        ("slot.told_failures", slot::TOLD_FAILURES),
        ("slot.pid_space", slot::PID_SPACE),
        ("slot.parks", slot::PARKS),
        ("slot.overruns", slot::OVERRUNS),
        ("slot.park", slot::PARK),
        ("lane.magic", lane::MAGIC),
        ("lane.version", lane::VERSION),
        ("lane.capacity", lane::CAPACITY),
        ("lane.index", lane::INDEX),
        ("lane.origin", lane::ORIGIN),
        ("lane.incarnation", lane::INCARNATION),
        ("lane.cursor", lane::CURSOR),
        ("lane.limit", lane::LIMIT),
        ("lane.state", lane::STATE),
        ("lane.back_pressure_count", lane::BACK_PRESSURE_COUNT),
        ("lane.back_pressure_ns", lane::BACK_PRESSURE_NS),
        ("lane.wakes", lane::WAKES),
        ("lane.takeovers", lane::TAKEOVERS),
        ("lane.back_pressure_since", lane::BACK_PRESSURE_SINCE),
        ("lane.back_pressure_slot", lane::BACK_PRESSURE_SLOT),
        ("lane.link_key", lane::LINK_KEY),
        ("lane.link_lane", lane::LINK_LANE),
        ("lane.link_turn", lane::LINK_TURN),
        ("lane.link_records", lane::LINK_RECORDS),
        ("lane.link_failure", lane::LINK_FAILURE),
        ("lane.link_expire", lane::LINK_EXPIRE),
        ("lane.failure_state", lane::FAILURE_STATE),
        ("lane.failure_position", lane::FAILURE_POSITION),
        ("lane.failure_length", lane::FAILURE_LENGTH),
        ("lane.failure_check", lane::FAILURE_CHECK),
        ("lane.failure_text", lane::FAILURE_TEXT),
        ("lane.failure_count", lane::FAILURE_COUNT),
        ("lane.failure_first", lane::FAILURE_FIRST),
        ("lane.failure_last", lane::FAILURE_LAST),
        ("lane.ring", lane::WORDS),
    ];
    let bytes = [
        ("lock_byte.membership", lock_byte::MEMBERSHIP),
        ("lock_byte.lane", lock_byte::LANE),
        ("lock_byte.slot", lock_byte::SLOT),
        ("lock_byte.end", lock_byte::END),
    ];
    let words = words.iter().map(|(name, word)| (*name, *word as u64 * 8));
    let all: Vec<_> = words.chain(bytes).chain(geometry_places()).collect();
    let found: BTreeMap<_, _> = all.iter().map(|(name, at)| ((*name).into(), *at)).collect();
    assert_eq!(found.len(), all.len(), "a name is given twice");
    found
}

/// Offsets inside the geometry, found by changing one field at a time.
fn geometry_places() -> Vec<(&'static str, u64)> {
    let base = sample();
    let with = |change: fn(&mut Geometry)| {
        let mut changed = base.clone();
        change(&mut changed);
        changed.to_words()
    };
    let before = base.to_words();
    let first_difference = |after: [u64; control::GEOMETRY_WORDS], from: usize| {
        let at = (from..before.len()).find(|n| before[*n] != after[*n]);
        at.map_or(u64::MAX, |word| word as u64 * 8)
    };
    let named = with(|g| g.type_name = "x".into());
    vec![
        (
            "geometry.capacity",
            first_difference(with(|g| g.capacity *= 2), 0),
        ),
        (
            "geometry.align",
            first_difference(with(|g| g.align *= 2), 0),
        ),
        (
            "geometry.publishers_max",
            first_difference(with(|g| g.publishers_max += 1), 0),
        ),
        (
            "geometry.subscribers_max",
            first_difference(with(|g| g.subscribers_max += 1), 0),
        ),
        (
            "geometry.origin",
            first_difference(with(|g| g.origin += 4096), 0),
        ),
        (
            "geometry.evict_after_ns",
            first_difference(with(|g| g.evict_after_ns += 1), 0),
        ),
        (
            "geometry.type_hash",
            first_difference(with(|g| g.type_hash += 1), 0),
        ),
        ("geometry.type_name_length", first_difference(named, 0)),
        ("geometry.type_name", first_difference(named, 8)),
        (
            "geometry.fixed",
            first_difference(with(|g| g.fixed |= 1), 0),
        ),
        (
            "geometry.fixed_by",
            first_difference(with(|g| g.fixed_by[0] = 1), 0),
        ),
        ("geometry.check", (control::GEOMETRY_WORDS as u64 - 1) * 8),
    ]
}

fn sample() -> Geometry {
    Geometry {
        capacity: 1 << 20,
        align: 8,
        publishers_max: 16,
        subscribers_max: 64,
        origin: 0,
        evict_after_ns: 0,
        type_hash: 0,
        type_name: String::new(),
        fixed: fixed::SHAPED,
        fixed_by: [0; 6],
    }
}

/// Values that follow from the offsets: sizes, marks, and the bytes of a whole geometry.
fn derived() -> BTreeMap<String, String> {
    let shape = sample();
    let typed = Geometry {
        origin: 4096,
        evict_after_ns: 5,
        type_hash: 0x0102_0304_0506_0708,
        type_name: "quote v1".into(),
        ..sample()
    };
    let hex = |words: &[u64]| -> String {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        bytes.map(|byte| format!("{byte:02x}")).collect()
    };
    let in_bytes = |words: usize| (words * 8).to_string();
    [
        ("sample.lane_entry(0)", in_bytes(shape.lane_entry(0))),
        ("sample.lane_entry(1)", in_bytes(shape.lane_entry(1))),
        ("sample.slot(0)", in_bytes(shape.slot(0))),
        ("sample.slot(1)", in_bytes(shape.slot(1))),
        ("sample.position(0,0)", in_bytes(shape.position(0, 0))),
        ("sample.position(1,3)", in_bytes(shape.position(1, 3))),
        (
            "sample.open_bytes",
            shape.reopened().control_bytes().to_string(),
        ),
        ("sample.control_bytes", shape.control_bytes().to_string()),
        ("sample.lane_bytes", shape.lane_bytes().to_string()),
        ("sample.message_max", shape.message_max().to_string()),
        ("control.mark", hex(&[CONTROL_MAGIC])),
        ("lane.mark", hex(&[LANE_MAGIC])),
        ("geometry.typed", hex(&typed.to_words())),
        ("geometry.record_bytes", in_bytes(control::GEOMETRY_WORDS)),
        ("fields.text_bytes", FIELDS_BYTES.to_string()),
        (
            "fields.typed",
            hex(&fields_to_words(typed.type_hash, "bid i64, ask i64")[..4]),
        ),
        ("frame.header(7,3)", hex(&[header_word(7, 3)])),
        (
            "frame.header(7,with_topic(3))",
            hex(&[header_word(7, with_topic(3))]),
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn layout_matches_golden_file_of_its_version() {
    let mut found = derived();
    found.extend(
        places()
            .into_iter()
            .map(|(name, at)| (name, at.to_string())),
    );
    let found: String = found
        .iter()
        .map(|(name, value)| format!("{name} {value}\n"))
        .collect();
    let golden = read(&format!("tests/golden/layout-{LAYOUT_VERSION}.txt"));
    assert_eq!(
        found, golden,
        "the layout changed: raise LAYOUT_VERSION and write the new text as layout-(version).txt"
    );
}

#[test]
fn layout_document_matches_code() {
    let text = read("../../docs/layout.md");
    assert!(
        text.contains(&format!("\nLayout version: {LAYOUT_VERSION}\n")),
        "docs/layout.md names another version"
    );
    // `| 256 | `control.lanes_epoch` | what |`
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let offset = cells.next()?.parse::<u64>().ok()?;
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        Some((name.to_owned(), offset))
    });
    let rows: Vec<_> = rows.collect();
    let documented: BTreeMap<_, _> = rows.iter().cloned().collect();
    assert_eq!(documented.len(), rows.len(), "a row stands twice");
    assert_eq!(documented, places());
}

#[test]
fn words_of_different_writers_do_not_overlap() {
    for lanes in [1, 15, 16, 17, 256] {
        let shape = Geometry {
            publishers_max: lanes,
            subscribers_max: 3,
            ..sample()
        };
        let last = shape.lanes() - 1;
        assert!(shape.slot(2) + slot::STRIDE <= shape.lane_entry(0));
        assert!(shape.lane_entry(last) + lane_entry::STRIDE <= shape.position(0, 0));
        assert!(shape.lane_entry(0).is_multiple_of(16), "{lanes} lanes");
        for index in 0..2 {
            assert!(shape.position(index, last) < shape.position(index + 1, 0));
            assert!(shape.position(index, 0).is_multiple_of(16), "{lanes} lanes");
            assert!(shape.slot(index).is_multiple_of(16), "{lanes} lanes");
        }
        assert_eq!(shape.reopened().slot(2), shape.slot(2));
        assert!(shape.position(2, last) < shape.control_words());
        assert!(shape.control_bytes() >= shape.control_words() as u64 * 8);
        assert!(shape.control_bytes().is_multiple_of(4096));
    }
}

#[test]
fn geometry_round_trips() {
    for capacity in [4096, 1 << 20, 1 << 31] {
        for (align, lanes, slots) in [(8, 1, 1), (64, 16, 64), (2048, 256, 1024)] {
            for name in ["", "q", "quote v1", &"n".repeat(TYPE_NAME_BYTES)] {
                let shape = Geometry {
                    capacity,
                    align,
                    publishers_max: lanes,
                    subscribers_max: slots,
                    origin: u64::MAX / 2 / 4096 * 4096,
                    evict_after_ns: u64::MAX,
                    type_hash: 7,
                    type_name: name.into(),
                    fixed: fixed::SHAPED | 5,
                    fixed_by: [1, 2, 3, 4, 5, u64::MAX],
                };
                assert_eq!(Geometry::from_words(&shape.to_words()), Ok(shape));
            }
        }
    }
}

#[test]
fn invalid_geometry_is_refused() {
    type Spoil = fn(&mut Geometry);
    let bad: &[(&str, Spoil)] = &[
        ("capacity", |g| g.capacity = 0),
        ("capacity", |g| g.capacity = 2048),
        ("capacity", |g| g.capacity = 1 << 32),
        ("capacity", |g| g.capacity = 4097),
        ("align", |g| g.align = 4),
        ("align", |g| g.align = 24),
        ("align", |g| g.align = 8192),
        ("align", |g| (g.align, g.capacity) = (4096, 4096)),
        ("publishers_max", |g| g.publishers_max = 0),
        ("publishers_max", |g| g.publishers_max = 257),
        ("subscribers_max", |g| g.subscribers_max = 0),
        ("subscribers_max", |g| g.subscribers_max = 1025),
        ("mark of fixed settings", |g| g.fixed = 0x80),
        ("origin", |g| g.origin = 8),
        ("origin", |g| g.origin = u64::MAX - 4095),
    ];
    for (key, spoil) in bad {
        let mut shape = sample();
        spoil(&mut shape);
        // The check word is right: only the range is wrong.
        let refused = Geometry::from_words(&shape.to_words()).unwrap_err();
        let value = match *key {
            "capacity" => shape.capacity,
            "align" => shape.align,
            "publishers_max" => shape.publishers_max,
            "subscribers_max" => shape.subscribers_max,
            "mark of fixed settings" => {
                assert!(refused.starts_with("its mark of fixed settings is 0x80"));
                continue;
            }
            _ => shape.origin,
        };
        let told = format!("its {key} is {value}, which must be ");
        assert!(refused.starts_with(&told), "{shape:?}: {refused}");
    }
}

#[test]
fn geometry_with_flipped_bit_is_refused() {
    let words = sample().to_words();
    for word in 0..words.len() {
        for bit in 0..64 {
            let mut damaged = words;
            damaged[word] ^= 1 << bit;
            assert!(
                Geometry::from_words(&damaged).is_err(),
                "bit {bit} of word {word}"
            );
        }
    }
}

#[test]
fn header_round_trips_and_is_never_zero() {
    for payload in [0, 1, 7, 8, 9, 4095, (1 << 31) - 16] {
        for tag in [0, 1, 0x8000_0000, u32::MAX] {
            let word = header_word(tag, payload);
            assert_ne!(word, 0);
            assert_eq!(frame_bytes(word), payload as u64 + HEADER_BYTES);
            assert_eq!(frame_tag(word), tag);
            assert!(!has_topic(word));
            let marked = header_word(tag, with_topic(payload));
            assert_eq!(marked, word | TOPIC);
            assert_eq!(frame_bytes(marked), payload as u64 + HEADER_BYTES);
            assert!(has_topic(marked));
        }
    }
}

#[test]
fn longest_message_leaves_room_for_next_header() {
    for capacity in [4096_u64, 1 << 20, 1 << 31] {
        for align in [8_u64, 64, 2048] {
            let shape = Geometry {
                capacity,
                align,
                ..sample()
            };
            let need =
                |payload: u64| (payload + HEADER_BYTES).next_multiple_of(align) + HEADER_BYTES;
            assert!(need(shape.message_max()) <= capacity);
            assert!(need(shape.message_max() + 1) > capacity);
        }
    }
}

#[test]
fn packed_text_round_trips_and_invalid_text_is_refused() {
    for text in ["", "a", "12345678", "123456789", "grün"] {
        let mut words = [0; 6];
        pack(text.as_bytes(), &mut words);
        assert_eq!(unpack(&words, text.len() as u64).as_deref(), Some(text));
    }
    let mut words = [0; 6];
    assert_eq!(unpack(&words, 49), None, "longer than its words");
    assert_eq!(unpack(&words, u64::MAX), None);
    pack(&[0xff, 0xfe], &mut words);
    assert_eq!(unpack(&words, 2), None, "no UTF-8");
    pack(b"a\x1b", &mut words);
    assert_eq!(unpack(&words, 2), None, "a control character");
}
