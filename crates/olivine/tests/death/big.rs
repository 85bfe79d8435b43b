//! Large processes die slowly: the kernel releases their locks only after their memory and their
//! core dump.
//!
//! `OLIVINE_BIG_MIB` is the resident memory of each.

use crate::common::mapped::SharedWords;
use crate::common::message::{check, fill};
use crate::common::{self, Deadline, TestFolder, setting, signal, until};
use olivine::{Publisher, Subscriber};
use rustix::process::Signal;

/// A silent subscriber in a process with much memory.
pub(crate) fn role(uri: &str, words: &SharedWords) {
    let core = setting("OLIVINE_BIG_CORE", 0) == 1;
    let limit = if core { libc::RLIM_INFINITY } else { 0 };
    let limit = libc::rlimit {
        rlim_cur: limit,
        rlim_max: limit,
    };
    // SAFETY: the limit outlives the call. A process that may not raise it has a smaller dump, or
    // none.
    let _refused = unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) };
    // Folder of a core file named without a folder.
    let path = std::env::var("OLIVINE_DEATH_WORDS").unwrap();
    std::env::set_current_dir(std::path::Path::new(&path).parent().unwrap()).unwrap();
    let bytes = usize::try_from(setting("OLIVINE_BIG_MIB", 256)).unwrap() << 20;
    let memory = vec![1_u8; bytes];
    let subscriber = Subscriber::open(uri).unwrap();
    words.store(0, 1);
    until("the end", || words.load(0) == 2);
    drop((memory, subscriber));
}

#[test]
fn dying_process_blocks_others_only_until_its_locks_are_free() {
    for (core, how) in [(0, Signal::KILL), (1, Signal::ABORT)] {
        let place = TestFolder::new();
        let path = place.file("words");
        let words = SharedWords::create(&path, 2).unwrap();
        let uri = place.uri("big", "capacity=64KiB&wait=park");
        let mut publisher = Publisher::open(&uri).unwrap();
        let mut other = Subscriber::open(&uri).unwrap();
        let child = common::spawn(
            "big",
            &[
                ("OLIVINE_DEATH_URI", uri),
                ("OLIVINE_DEATH_WORDS", path.display().to_string()),
                ("OLIVINE_BIG_CORE", core.to_string()),
            ],
        );
        until("it is there", || words.load(0) == 1);
        let (mut message, mut scratch) = (Vec::new(), Vec::new());
        let (mut sent, mut got) = (0, 0);
        signal(&child, how);
        let mut deadline = Deadline::new();
        // Four laps of the ring: far more than the dead subscriber holds back.
        while sent < 4000 {
            fill(7, sent, &mut message);
            if publisher
                .publish_timeout(&message, Deadline::STEP_MAX)
                .is_ok()
            {
                sent += 1;
            } else {
                assert!(deadline.lasts(), "held back for ever");
            }
            other
                .poll(
                    |message| {
                        assert_eq!(check(&message, &mut scratch), Some((7, got)));
                        got += 1;
                    },
                    usize::MAX,
                )
                .unwrap();
        }
        let mib = setting("OLIVINE_BIG_MIB", 256);
        println!(
            "{mib} MiB, {how:?}: {:?} until {sent} were sent",
            deadline.waited()
        );
        assert_eq!((got, publisher.stats().reclaimed), (sent, 1));
        let mut child = child;
        assert!(!child.wait().unwrap().success());
    }
}
