//! Inspecting a channel maps only what is read, not the rings, which may be as large as the
//! machine's memory.
//!
//! A separate program with one test: it limits the mappings of the whole process.

#![cfg(not(loom))]

mod common;

use common::TestFolder;
use common::mapped::Mapped;
use olivine::{Config, OpenError, Publisher, Subscriber, admin};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of a ring, far more than everything else that this process maps.
const LARGE: u64 = 1 << 30;

/// Words of the control file and of a lane's header, see `docs/layout.md`.
const GEOMETRY_TURN: u64 = 3;
const GEOMETRY: u64 = 256;
const GEOMETRY_WORDS: u64 = 24;
const LANE_CAPACITY: u64 = 2;
const LANE_LIMIT: u64 = 32;

/// The words covered by the geometry's check word.
const CHECKED: u64 = GEOMETRY_WORDS - 1;

fn open(place: &TestFolder, name: &str) -> File {
    let path = place.channel("large").join(name);
    let mut options = File::options();
    options.read(true).write(true).open(path).unwrap()
}

fn read_word(file: &File, word: u64) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, word * 8).unwrap();
    u64::from_le_bytes(bytes)
}

fn write_word(file: &File, word: u64, value: u64) {
    file.write_all_at(&value.to_le_bytes(), word * 8).unwrap();
}

/// FNV-1a, 64 bits.
fn fnv(words: impl Iterator<Item = u64>) -> u64 {
    words
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

/// Creates a channel with an unread message, and then makes its ring large, without memory behind
/// it.
fn leave_a_large_one(place: &TestFolder) -> String {
    let uri = place.uri("large", "");
    let mut publisher = Publisher::open(&place.uri("large", "capacity=4KiB")).unwrap();
    publisher.publish(b"unseen").unwrap();
    drop(publisher);
    let (control, lane) = (open(place, "control"), open(place, "lane-0"));
    let record = GEOMETRY + read_word(&control, GEOMETRY_TURN) * GEOMETRY_WORDS;
    write_word(&control, record, LARGE);
    let words = (0..CHECKED).map(|n| read_word(&control, record + n));
    write_word(&control, record + CHECKED, fnv(words));
    write_word(&lane, LANE_CAPACITY, LARGE);
    write_word(&lane, LANE_LIMIT, LARGE);
    lane.set_len(4096 + LARGE).unwrap();
    uri
}

/// From here on, this process has no addresses for a ring.
fn leave_no_room_for_a_ring() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let mapped = kib.unwrap().parse::<u64>().unwrap() * 1024;
    let mut limit = getrlimit(Resource::As);
    limit.current = Some(mapped + LARGE / 2);
    setrlimit(Resource::As, limit).unwrap();
}

#[test]
fn inspecting_maps_no_ring() {
    let place = TestFolder::new();
    let uri = leave_a_large_one(&place);
    let config = Config::parse(&uri).unwrap();
    leave_no_room_for_a_ring();
    // The precondition: a ring can no longer be mapped, not even once.
    Mapped::of(open(&place, "lane-0"), false).unwrap_err();
    let found = admin::inspect(&config).unwrap();
    assert_eq!((found.capacity_bytes, found.publishers.len()), (LARGE, 1));
    assert_eq!(admin::list(&place.dir()).unwrap().len(), 1);
    let collected = admin::collect(&place.dir(), true).unwrap();
    assert_eq!(collected.len(), 1);
    // Whether another geometry may replace it: not while its message may be needed.
    let refused = Subscriber::open(&place.uri("large", "capacity=8KiB")).unwrap_err();
    assert!(matches!(refused, OpenError::Mismatch { .. }), "{refused}");
}
