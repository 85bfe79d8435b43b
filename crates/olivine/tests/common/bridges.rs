//! Bridges as separate processes, killed while they run.

use super::{Deadline, Other, TestFolder, finished, kill, receive, spawn, spawn_in};
use olivine::{Bridge, Config, Publisher, Subscriber};
use std::time::Duration;

/// The process of [`start`]: runs until the source has ended, or until it is killed.
pub(crate) fn role() {
    let config = |name: &str| {
        let uri = std::env::var(name).expect("set by the parent");
        Config::parse(&uri).expect("a URI")
    };
    let (from, to) = (config("BRIDGE_FROM"), config("BRIDGE_TO"));
    let until_end = std::env::var_os("BRIDGE_KEEP").is_none();
    let bridge = Bridge::start(&from, &to, until_end).expect("a bridge");
    let mut deadline = Deadline::new();
    while !bridge.has_ended() {
        // Otherwise two bridges would keep a small machine busy with polling.
        deadline.rest();
    }
    assert!(bridge.stop(Duration::from_secs(1)).expect("a good end"));
}

/// Two bridges: from shared memory to another transport, and back.
pub(crate) struct Pair {
    there: String,
    back: String,
    /// Network namespaces of the two; by default that of the caller.
    pub(crate) namespaces: [Option<String>; 2],
}

impl Pair {
    pub(crate) fn new(there: &str, back: &str) -> Self {
        Self {
            there: there.to_owned(),
            back: back.to_owned(),
            namespaces: [None, None],
        }
    }

    /// Carries `count` numbers, and kills the two in turn, each time after `every` more numbers.
    /// The last quarter is published after the last kill: an idle bridge waits for more. `watch` is
    /// called for each number that arrives.
    pub(crate) fn carry_and_kill(&self, count: u64, every: u64, mut watch: impl FnMut(u64)) {
        let place = TestFolder::new();
        let from = place.uri("from", "capacity=64KiB");
        let to = place.uri("to", "capacity=64KiB");
        let mut subscriber = Subscriber::open(&to).expect("a subscriber");
        let killed_until = count / 4 * 3;
        let (over, is_over) = std::sync::mpsc::channel();
        let publishing = std::thread::spawn({
            let from = from.clone();
            move || {
                let uri = format!("{from}&subscribers=1");
                let mut publisher = Publisher::open(&uri).expect("a publisher");
                for number in 0..count {
                    if number == killed_until {
                        is_over.recv().expect("the end of the killing");
                    }
                    publisher.publish(&number.to_le_bytes()).expect("room");
                }
                publisher.close().expect("a good end");
            }
        });
        let start = |leg: usize| match leg {
            0 => self.start(0, &from, &self.there),
            _ => self.start(1, &self.back, &to),
        };
        let mut bridges = [Some(start(0)), Some(start(1))];
        for number in 0..count {
            let received = receive(&mut subscriber, |message| message.to_vec());
            assert_eq!(received, number.to_le_bytes());
            watch(number);
            if number % every == every / 2 && number < killed_until {
                let leg = usize::from(number / every % 2 == 1);
                kill(bridges[leg].take().expect("a bridge"));
                bridges[leg] = Some(start(leg));
            }
            if number + 1 == killed_until {
                over.send(()).expect("a publisher");
            }
        }
        publishing.join().expect("no panic");
        bridges.into_iter().flatten().for_each(finished);
    }

    fn start(&self, leg: usize, from: &str, to: &str) -> Other {
        spawn_in(self.namespaces[leg].as_deref(), "bridge", &ends(from, to))
    }
}

/// The arguments of a bridge's process.
fn ends(from: &str, to: &str) -> [(&'static str, String); 2] {
    [
        ("BRIDGE_FROM", from.to_owned()),
        ("BRIDGE_TO", to.to_owned()),
    ]
}

/// A bridge as a separate process, which continues after its source has ended.
pub(crate) fn keeping(from: &str, to: &str) -> Other {
    let [from, to] = ends(from, to);
    spawn("bridge", &[from, to, ("BRIDGE_KEEP", String::new())])
}

/// A bridge as a separate process, which ends with its source.
pub(crate) fn ending(from: &str, to: &str) -> Other {
    spawn("bridge", &ends(from, to))
}
