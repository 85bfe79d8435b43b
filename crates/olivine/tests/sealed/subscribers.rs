//! Hostile subscribers, each in its own process, and the required result.

use crate::common::mapped::{Mapped, nonsense};
use crate::common::{Random, WATCHDOG, finished, setting, until};
use crate::raw::{
    self, ATTACHED, Joined, LANE_ENTRY, PAGE_BYTES, PARK, POSITION, ROOM, SLEEPERS, SLOT_STATE,
    hello,
};
use crate::stage::{Outcome, SocketFolder, beside_honest_peers, length};
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MprotectFlags};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The attacker.
pub(crate) fn play(attack: &str, path: &Path) {
    match attack {
        "resize" => resize(&raw::join(path)),
        "write" => write(&raw::join(path)),
        "punch" => punch(&raw::join(path)),
        "back" => lie(&raw::join(path), "went back from", |cursor| [cursor, 0]),
        "ahead" => lie(&raw::join(path), "is after", |cursor| {
            [cursor, cursor + (1 << 40)]
        }),
        "between" => lie(&raw::join(path), "not the start of a message", |cursor| {
            [cursor - 8, cursor - 8]
        }),
        "scribble" => scribble(path),
        "read nothing" => {
            let said = raw::hear(&raw::join(path).socket).0;
            assert!(raw::refusal(&said).contains("slow=evict:"));
        }
        "storm" => storm(path),
        "toy" => toy(&raw::join(path)),
        "lock" => lock(&raw::join(path)),
        "garbage" => garbage(path),
        "descriptors" => descriptors(path),
        "look" => look(path),
        _ => panic!("there is no attack '{attack}'"),
    }
}

/// Runs an attack beside honest peers; returns the result.
fn attacked_by(attack: &str, query: &str) -> Outcome {
    let place = SocketFolder::new();
    let query = format!("capacity=64KiB&{query}");
    let outcome = beside_honest_peers(&place, &query, || {
        finished(place.spawn(&format!("subscriber.{attack}")));
    });
    assert!(outcome.messages > 200);
    outcome
}

#[test]
fn a4_lane_and_page_cannot_be_resized() {
    attacked_by("resize", "wait=park");
}

fn resize(joined: &Joined) {
    for file in [&joined.lane_file, &joined.page_file] {
        for bytes in [0, 4096, 1 << 30] {
            assert_eq!(rustix::fs::ftruncate(file, bytes), Err(Errno::PERM));
        }
        let grow = rustix::fs::fallocate(file, FallocateFlags::empty(), 0, 1 << 30);
        assert_eq!(grow, Err(Errno::PERM));
        let seals = rustix::fs::fcntl_add_seals(file, rustix::fs::SealFlags::WRITE);
        assert_eq!(seals, Err(Errno::PERM));
    }
}

/// A hole in its own page reads as zeros: a decreasing position.
#[test]
fn a4_punched_page_counts_as_invalid_position() {
    let outcome = attacked_by("punch", "wait=park");
    assert_eq!(outcome.status.abandoned, 1, "{:?}", outcome.status);
}

fn punch(joined: &Joined) {
    let cursor = after_some_messages(joined);
    joined.claim(cursor);
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    until("the publisher reads on, and says goodbye", || {
        joined.page.word(POSITION).store(cursor, Ordering::Release);
        rustix::fs::fallocate(&joined.page_file, flags, 0, PAGE_BYTES).unwrap();
        has_ended(joined)
    });
}

/// Whether the other end has sent something or closed.
fn has_ended(joined: &Joined) -> bool {
    let mut waited = [rustix::event::PollFd::new(
        &joined.socket,
        rustix::event::PollFlags::IN,
    )];
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    rustix::event::poll(&mut waited, Some(&now)).unwrap() > 0
}

#[test]
fn a5_the_lane_cannot_be_written() {
    attacked_by("write", "wait=park");
}

fn write(joined: &Joined) {
    let file = &joined.lane_file;
    let bytes = joined.lane.words() * 8;
    let before = joined.lane.word(0).load(Ordering::Relaxed);
    assert_eq!(Mapped::of(file, true).unwrap_err(), Errno::PERM);
    assert_eq!(rustix::io::pwrite(file, b"nonsense", 0), Err(Errno::PERM));
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for flags in [hole, FallocateFlags::ZERO_RANGE] {
        assert!(rustix::fs::fallocate(file, flags, 0, 4096).is_err());
    }
    let base = joined.lane.base().cast();
    let writable = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: our own mapping, without references; the call is refused, as checked below.
    let changed = unsafe { rustix::mm::mprotect(base, bytes, writable) };
    assert_eq!(changed, Err(Errno::ACCESS));
    // SAFETY: as above.
    let removed = unsafe { rustix::mm::madvise(base, bytes, Advice::LinuxRemove) };
    assert!(removed.is_err());
    // Through other paths to the file.
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(again) = rustix::fs::open(name, flags, Mode::empty()) {
        assert_eq!(Mapped::of(&again, true).unwrap_err(), Errno::PERM);
        assert_eq!(rustix::io::pwrite(&again, b"nonsense", 0), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&again, 0), Err(Errno::PERM));
    }
    let options = std::fs::File::options().write(true).open("/proc/self/mem");
    let memory = options.unwrap();
    let place = joined.lane.base() as u64;
    assert!(memory.write_at(b"nonsense", place).is_err());
    assert_eq!(joined.lane.word(0).load(Ordering::Relaxed), before);
}

#[test]
fn a6_decreasing_position_is_detected() {
    let outcome = attacked_by("back", "wait=park");
    assert!(outcome.status.note.contains("its position went back"));
    assert_eq!(outcome.status.abandoned, 1);
}

#[test]
fn a6_position_past_the_end_is_detected() {
    let outcome = attacked_by("ahead", "wait=adaptive");
    assert!(outcome.status.note.contains("is after"));
}

#[test]
fn a6_position_inside_a_message_is_detected() {
    let outcome = attacked_by("between", "wait=yield");
    let note = &outcome.status.note;
    assert!(note.contains("not the start of a message"), "{note}");
}

/// The cursor, once it is far enough for a false position.
fn after_some_messages(joined: &Joined) -> u64 {
    let mut cursor = 0;
    let start = joined.claimed();
    until("messages come", || {
        cursor = joined.cursor();
        cursor > start + 8192
    });
    cursor
}

/// First sends a true position, then those of `positions`, and reads the reason of its eviction.
fn lie(joined: &Joined, reason: &str, positions: impl Fn(u64) -> [u64; 2]) {
    let [first, then] = positions(after_some_messages(joined));
    joined.claim(first);
    if first != then {
        let far = joined.cursor() + 65536;
        // By then the publisher has read the first position.
        until("a lap is over", || {
            joined.claim(joined.cursor());
            joined.cursor() > far
        });
        joined.claim(then);
    }
    let said = raw::refusal(&raw::hear(&joined.socket).0);
    assert!(said.contains(reason), "{said}");
}

/// Random writes to everything that it may write: positions, flags, park words, the geometry.
#[test]
fn a6_a13_overwritten_page_harms_no_other_process() {
    for wait in ["park", "spin"] {
        let outcome = attacked_by("scribble", &format!("wait={wait}"));
        assert!(outcome.status.abandoned > 0, "{:?}", outcome.status);
    }
}

fn scribble(path: &Path) {
    let started = Instant::now();
    let mut random = Random(setting("OLIVINE_SEED", 1));
    let mut written = 0_u64;
    let mut ended = false;
    // On a busy machine the publisher may read none of it in that time.
    while !ended || started.elapsed() < length() {
        assert!(started.elapsed() < length() + WATCHDOG, "nothing was found");
        let joined = raw::join(path);
        let begun = Instant::now();
        while !has_ended(&joined) && begun.elapsed() < length() {
            for _ in 0..1000 {
                let index = match random.below(3) {
                    0 => [POSITION, ROOM, PARK, SLEEPERS, ATTACHED, SLOT_STATE]
                        [usize::try_from(random.below(6)).unwrap()],
                    _ => usize::try_from(random.below(PAGE_BYTES / 8)).unwrap(),
                };
                let word = joined.page.word(index);
                let now = joined.cursor();
                word.store(nonsense(&mut random, now), Ordering::Relaxed);
                written += 1;
            }
        }
        ended |= has_ended(&joined);
    }
    assert!(written > 0);
    if std::env::var_os("OLIVINE_HOSTILE_MS").is_some() {
        // Standard output belongs to the parent; a long run shows its progress here.
        eprintln!(
            "{written} words of a page overwritten, a third of them where positions and flags are"
        );
    }
}

#[test]
fn a10_silent_subscriber_is_evicted() {
    let outcome = attacked_by("read nothing", "wait=park&slow=evict:3s");
    assert_eq!(outcome.stats.evicted, 1);
}

/// More connections than slots; most of them send nothing or read nothing.
#[test]
fn a11_many_connections_are_refused_without_blocking() {
    let query = "wait=park&subscribers_max=4&timeout=300ms";
    let outcome = attacked_by("storm", query);
    assert!(outcome.status.refusals > 500, "{:?}", outcome.status);
}

fn storm(path: &Path) {
    let mut open = Vec::new();
    let mut full = 0;
    for n in 0..1000 {
        let Ok(socket) = raw::call(path) else {
            continue;
        };
        if n % 5 == 0 {
            let _ = raw::say(&socket, &hello(), &[]);
            let (said, _) = raw::hear(&socket);
            full += u32::from(said.get(16) == Some(&1));
        }
        open.push(socket);
        if open.len() > 200 {
            open.clear();
        }
    }
    assert!(full > 0, "no refusal for want of slots");
}

/// It reads, but always claims to sleep, and never lets the publisher sleep on its page.
#[test]
fn a13_futile_wakes_cost_one_per_message() {
    let outcome = attacked_by("toy", "wait=park");
    // Three subscribers, one of them hostile.
    assert!(outcome.stats.wakes <= outcome.messages * 3);
    assert_eq!(outcome.status.abandoned, 0);
}

fn toy(joined: &Joined) {
    let started = Instant::now();
    while started.elapsed() < length() {
        for _ in 0..2000 {
            joined.page.word(ROOM).store(0, Ordering::Relaxed);
            joined.page.word(SLEEPERS).store(1, Ordering::Relaxed);
            joined.page.word(PARK).store(1, Ordering::Relaxed);
        }
        joined.claim(joined.cursor());
    }
}

/// Locks of all kinds on everything that it received: they decide no participant's life.
#[test]
fn a14_locks_on_shared_memory_have_no_effect() {
    let outcome = attacked_by("lock", "wait=park");
    assert_eq!(outcome.status.abandoned, 1);
}

fn lock(joined: &Joined) {
    for file in [&joined.lane_file, &joined.page_file] {
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        let _ = rustix::fs::flock(file, exclusive);
        let _ = rustix::fs::fcntl_lock(file, exclusive);
    }
    // It is evicted all the same.
    lie(joined, "is after", |cursor| [cursor, cursor + (1 << 40)]);
}

#[test]
fn a15_invalid_hello_is_refused() {
    let outcome = attacked_by("garbage", "wait=park");
    assert!(outcome.status.refusals > 500, "{:?}", outcome.status);
}

fn garbage(path: &Path) {
    let mut random = Random(setting("OLIVINE_SEED", 1));
    let mut said: Vec<(Vec<u8>, &str)> = Vec::new();
    for n in 0..1000 {
        let mut bytes = hello();
        match n % 4 {
            0 => bytes.truncate(usize::try_from(1 + random.below(31)).unwrap()),
            1 => bytes.resize(usize::try_from(33 + random.below(4000)).unwrap(), 0),
            2 => bytes.iter_mut().for_each(|byte| *byte ^= 0x5a),
            _ => bytes[19 + usize::try_from(random.below(13)).unwrap()] = 1,
        }
        said.push((bytes, ""));
    }
    let mut other = hello();
    other[8] = 9;
    said.push((other, "version 9"));
    let mut other = hello();
    other[12] = 9;
    said.push((other, "layout 9"));
    said.push((raw::welcome(), "only a publisher"));
    said.push((vec![0; 16384], "do not start"));
    for (bytes, reason) in said {
        let socket = raw::call(path).unwrap();
        raw::say(&socket, &bytes, &[]).unwrap();
        let answer = raw::refusal(&raw::hear(&socket).0);
        assert!(answer.contains(reason), "{answer}");
    }
    // An attached subscriber may send nothing more.
    let joined = raw::join(path);
    raw::say(&joined.socket, &hello(), &[]).unwrap();
    let answer = raw::refusal(&raw::hear(&joined.socket).0);
    assert!(answer.contains("after its hello"), "{answer}");
}

#[test]
fn a15_unexpected_descriptors_are_closed() {
    let place = SocketFolder::new();
    let query = "capacity=64KiB&wait=park";
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    beside_honest_peers(&place, query, || {
        let before = open();
        finished(place.spawn("subscriber.descriptors"));
        // Other tests open and close descriptors at the same time.
        until("what was sent is closed", || open() < before + 200);
    });
}

fn descriptors(path: &Path) {
    let files: Vec<OwnedFd> = (0..253)
        .map(|_| std::fs::File::open("/dev/null").unwrap().into())
        .collect();
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    for count in [1, 2, 100, 253] {
        let socket = raw::call(path).unwrap();
        raw::say(&socket, &hello(), &files[..count]).unwrap();
        let answer = raw::refusal(&raw::hear(&socket).0);
        assert!(answer.contains("descriptors"), "{answer}");
    }
}

#[test]
fn a16_new_page_holds_no_old_data() {
    attacked_by("look", "wait=park");
}

fn look(path: &Path) {
    for _ in 0..4 {
        let joined = raw::join(path);
        // The header and its geometry, the one lane and the one slot.
        let known = |n: usize| {
            n <= 24
                || (256..280).contains(&n)
                || [
                    ATTACHED,
                    112,
                    LANE_ENTRY,
                    LANE_ENTRY + 1,
                    LANE_ENTRY + 2,
                    ROOM,
                    SLEEPERS,
                ]
                .contains(&n)
                || [SLOT_STATE, PARK, POSITION].contains(&n)
        };
        for n in (0..joined.page.words()).filter(|n| !known(*n)) {
            let found = joined.page.word(n).load(Ordering::Relaxed);
            assert_eq!(found, 0, "word {n} of a new page");
            joined.page.word(n).store(0x5ec7e7, Ordering::Relaxed);
        }
    }
}
