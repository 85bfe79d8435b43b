//! Refusals by the system are named errors and leave nothing behind. More busy processes than
//! processors, and positions near overflow, change nothing.
//!
//! `OLIVINE_CROWD` is the number of busy processes.

#![cfg(not(loom))]

mod common;

use crate::common::mapped::SharedWords;
use common::message::{check, fill};
use common::planted::verdict;
use common::{TestFolder, WATCHDOG, setting, spawn, until};
use olivine::{Config, Publisher, ReceiveError, Subscriber};
use std::error::Error;

/// Shared words: the order to stop, whether the reader is there, messages that it has read.
const STOP: usize = 0;
const READY: usize = 1;
const READ: usize = 2;
const WORDS: usize = 3;
/// Messages of a stream across an overflow: several laps of the ring.
const STREAM: u64 = 2000;

fn text(name: &str) -> String {
    std::env::var(name).expect("set by the parent")
}

fn config() -> Config {
    let origin = text("OLIVINE_ORIGIN").parse().expect("a number");
    Config::parse(&text("OLIVINE_DEATH_URI"))
        .unwrap()
        .origin(origin)
}

/// The other processes.
#[test]
fn role() {
    let Some(role) = common::my_role() else {
        return;
    };
    match role.as_str() {
        "descriptors" => few_descriptors(&text("OLIVINE_DEATH_URI")),
        "removing" => few_descriptors_to_remove(&text("OLIVINE_DEATH_URI")),
        "mappings" => few_mappings(&text("OLIVINE_DEATH_URI")),
        "locked" => no_locked_memory(&text("OLIVINE_DEATH_URI")),
        "leaking" => {
            let subscriber = Subscriber::open(&text("OLIVINE_DEATH_URI")).unwrap();
            // It ends without leaving: no participant removes the channel.
            let _kept = std::mem::ManuallyDrop::new(subscriber);
        }
        _ => with_words(&role),
    }
}

fn with_words(role: &str) {
    let words = SharedWords::attach(text("OLIVINE_DEATH_WORDS").as_ref()).unwrap();
    match role {
        "busy" => {
            while words.load(STOP) == 0 {
                std::hint::spin_loop();
            }
        }
        "reader" => read(&words),
        "writer" => write(&words, |sequence, _| sequence),
        "losing" => write(&words, |sequence, _| sequence + sequence / 1000),
        "repeating" => write(&words, |sequence, _| sequence - sequence / 1000),
        "tearing" => write(&words, |sequence, message| {
            message[9] ^= u8::from(sequence == 1000);
            sequence
        }),
        other => panic!("no role {other}"),
    }
}

/// Reads session 1 in order, until the end of the stream.
fn read(words: &SharedWords) {
    let mut subscriber = Subscriber::open_with(&config()).unwrap();
    words.store(READY, 1);
    let (mut scratch, mut next) = (Vec::new(), 0);
    loop {
        match subscriber.receive() {
            Ok(message) => assert_eq!(check(&message, &mut scratch), Some((1, next))),
            Err(ReceiveError::Closed) => break,
            Err(error) => panic!("{error}"),
        }
        next += 1;
        words.store(READ, next);
    }
}

/// Continues after its predecessor, until it is killed or has sent everything. `spoil` may change
/// the message of a number, and names the message that it is.
fn write(words: &SharedWords, spoil: fn(u64, &mut Vec<u8>) -> u64) {
    let mut publisher = Publisher::open_with(&config()).unwrap();
    // A message whose publisher died before it could report it still exists.
    assert!(publisher.wait_drained(Some(WATCHDOG)).unwrap());
    let mut message = Vec::new();
    for sequence in words.load(READ)..STREAM {
        fill(1, sequence, &mut message);
        let named = spoil(sequence, &mut message);
        if named != sequence {
            fill(1, named, &mut message);
        }
        publisher.publish(&message).unwrap();
    }
    publisher.close().unwrap();
}

/// Sends a message through a channel.
fn attempt(uri: &str) -> Result<(), Box<dyn Error>> {
    let mut subscriber = Subscriber::open(uri)?;
    let mut publisher = Publisher::open(uri)?;
    publisher.publish(b"through")?;
    // The first check for messages maps a lane.
    assert_eq!(&*subscriber.receive()?, b"through");
    Ok(())
}

/// Checks that the error includes its causes.
fn refused(error: &dyn Error, wanted: &str) {
    let mut causes = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(next) = cause {
        causes.push(next.to_string());
        cause = next.source();
    }
    let all = causes.join(": ");
    assert!(all.contains(wanted), "{all}");
}

fn limit(which: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: reads one structure that outlives the call.
    let set = unsafe { libc::setrlimit(which, &raw const limit) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Takes all available descriptors, then one less each time, until they suffice for a channel.
fn few_descriptors(uri: &str) {
    limit(libc::RLIMIT_NOFILE, 256);
    let mut taken: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    let mut refusals = 0;
    let config = Config::parse(uri).unwrap();
    let channel = config.get_dir().unwrap().join(config.channel());
    while let Err(error) = attempt(uri) {
        refused(&*error, "Too many open files");
        refusals += 1;
        taken.pop().expect("it never gets enough descriptors");
        // The rest must be checkable without an additional descriptor.
        let left = std::fs::symlink_metadata(&channel);
        assert!(left.is_err(), "left behind by refusal {refusals}: {error}");
    }
    assert!(refusals > 3, "only {refusals} refusals");
    println!("{refusals} openings refused for want of descriptors");
}

/// A channel that cannot be read is not damaged, and stays.
fn few_descriptors_to_remove(uri: &str) {
    let config = Config::parse(uri).unwrap();
    let channel = config.get_dir().unwrap().join(config.channel());
    let _subscriber = Subscriber::open(uri).unwrap();
    let _publisher = Publisher::open(uri).unwrap();
    limit(libc::RLIMIT_NOFILE, 256);
    let mut taken: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    let mut refusals = 0;
    while let Err(error) = olivine::admin::remove(&config, true) {
        refused(&error, "Too many open files");
        assert!(channel.join("control").exists() && channel.join("lane-0").exists());
        refusals += 1;
        taken.pop().expect("it never gets enough descriptors");
    }
    assert!(refusals > 3, "only {refusals} refusals");
}

/// Neither locked memory nor the right to it is needed.
fn no_locked_memory(uri: &str) {
    limit(libc::RLIMIT_MEMLOCK, 0);
    attempt(uri).unwrap();
}

/// Bytes of a page of this machine.
fn page_size() -> usize {
    // SAFETY: takes no pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap()
}

/// Takes all available mappings, then fewer, until they suffice for a channel.
fn few_mappings(uri: &str) {
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let most: usize = most.trim().parse().unwrap();
    let (page, pages) = (page_size(), 2 * most);
    let protect = |at: usize, how| {
        // SAFETY: inside the range reserved below, which no other code uses.
        unsafe { libc::mprotect((at * page) as *mut libc::c_void, page, how) }
    };
    // SAFETY: a new mapping at an address chosen by the kernel overlaps no other mapping.
    let base = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            pages * page,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    assert_ne!(base, libc::MAP_FAILED);
    let base = base as usize / page;
    // Every other page is a separate mapping.
    let mut taken = Vec::with_capacity(most);
    let mut at = base + 1;
    while at < base + pages && protect(at, libc::PROT_READ) == 0 {
        taken.push(at);
        at += 2;
    }
    assert!(taken.len() > most / 4, "{} of {most} mappings", taken.len());
    let mut refusals = 0;
    while let Err(error) = attempt(uri) {
        refused(&*error, "Cannot allocate memory");
        refusals += 1;
        let at = taken.pop().expect("it never gets enough mappings");
        assert_eq!(protect(at, libc::PROT_NONE), 0);
    }
    assert!(refusals > 0, "nothing was refused");
    println!("{refusals} openings refused for want of mappings");
}

fn ends_well(role: &str) {
    let place = TestFolder::new();
    let uri = place.uri("limited", "capacity=64KiB");
    let child = spawn(role, &[("OLIVINE_DEATH_URI", uri)]);
    common::finished(child);
    let left: Vec<_> = std::fs::read_dir(place.dir()).unwrap().flatten().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn too_few_descriptors_are_a_named_error() {
    ends_well("descriptors");
}

#[test]
fn too_few_descriptors_remove_nothing() {
    ends_well("removing");
}

#[test]
fn too_few_mappings_are_a_named_error() {
    ends_well("mappings");
}

#[test]
fn no_locked_memory_is_needed() {
    ends_well("locked");
}

/// Other processes around one channel.
struct Others {
    words: SharedWords,
    variables: Vec<(&'static str, String)>,
}

impl Others {
    fn new(place: &TestFolder, uri: &str, origin: u64) -> Self {
        let path = place.file("words");
        let words = SharedWords::create(&path, WORDS).unwrap();
        let variables = vec![
            ("OLIVINE_DEATH_WORDS", path.display().to_string()),
            ("OLIVINE_DEATH_URI", uri.to_owned()),
            ("OLIVINE_ORIGIN", origin.to_string()),
        ];
        Self { words, variables }
    }

    fn spawn(&self, role: &str) -> common::Other {
        spawn(role, &self.variables)
    }

    /// A stream whose publishers are killed, except the last, and a reader that checks it.
    fn stream(&self, deaths: u64) {
        let reader = self.spawn("reader");
        until("the reader is there", || self.words.load(READY) == 1);
        for death in 1..=deaths {
            let writer = self.spawn("writer");
            let goal = STREAM * death / (deaths + 1);
            until("it has sent some", || self.words.load(READ) >= goal);
            common::kill(writer);
        }
        common::finished(self.spawn("writer"));
        common::finished(reader);
        assert_eq!(self.words.load(READ), STREAM);
    }
}

/// Positions count bytes from a number that a channel chooses.
#[test]
fn streams_cross_position_overflow_between_processes() {
    for edge in [1 << 32, 1 << 62, 1 << 63] {
        let place = TestFolder::new();
        let uri = place.uri("edge", "capacity=64KiB&wait=park");
        Others::new(&place, &uri, edge - 4096).stream(3);
        assert!(!place.channel("edge").exists());
    }
}

#[test]
fn planted_faults_fail_the_suite() {
    let fails = |verdict: Result<(), String>, what: &str| {
        let why = verdict.expect_err(what);
        assert!(why.contains(what), "{what}: {why}");
    };
    let place = TestFolder::new();
    let uri = place.uri("planted", "capacity=64KiB&wait=park");
    for writer in ["writer", "losing", "repeating", "tearing"] {
        let _ = std::fs::remove_file(place.file("words"));
        let others = Others::new(&place, &uri, 0);
        let reader = others.spawn("reader");
        until("the reader is there", || others.words.load(READY) == 1);
        common::finished(others.spawn(writer));
        match verdict(|| common::finished(reader)) {
            good if writer == "writer" => assert_eq!(good, Ok(())),
            // The reader prints it to its standard error; its exit status only says that it failed.
            bad => fails(bad, "exit status: 101"),
        }
        let read = others.words.load(READ);
        assert_eq!(read, if writer == "writer" { STREAM } else { 1000 });
    }
    fails(verdict(|| ends_well("leaking")), "left behind");
    let mut held = Subscriber::open(&uri).unwrap();
    assert!(matches!(held.try_receive(), Ok(None)));
    let other = Subscriber::open(&place.uri("planted", "capacity=4KiB")).unwrap_err();
    fails(
        verdict(|| refused(&other, "Too many open files")),
        "capacity",
    );
}

#[test]
fn busy_processes_do_not_block_a_stream() {
    let place = TestFolder::new();
    for wait in ["park", "adaptive", "yield", "spin"] {
        let uri = place.uri("crowd", &format!("capacity=64KiB&wait={wait}"));
        let _ = std::fs::remove_file(place.file("words"));
        let others = Others::new(&place, &uri, 0);
        let crowd: Vec<_> = (0..setting("OLIVINE_CROWD", 4))
            .map(|_| others.spawn("busy"))
            .collect();
        others.stream(1);
        others.words.store(STOP, 1);
        let count = crowd.len();
        crowd.into_iter().for_each(common::finished);
        println!("wait={wait}: {STREAM} messages and a death among {count} busy processes");
    }
}
