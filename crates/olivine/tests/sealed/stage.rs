//! A publisher that continues and honest subscribers that check every message, during an attack.

use crate::common::{Other, WATCHDOG, spawn, until};
use olivine::{LinkStatus, NotSent, Publisher, PublisherStats, ReceiveError, Subscriber};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A private folder, and the socket in it.
#[derive(Debug)]
pub(crate) struct SocketFolder {
    folder: tempfile::TempDir,
}

impl SocketFolder {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("olv-").tempdir();
        Self {
            folder: folder.unwrap(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("x.sock")
    }

    pub(crate) fn uri(&self, query: &str) -> String {
        let mark = if query.is_empty() { "" } else { "?" };
        format!("shm+fd://{}{mark}{query}", self.path().display())
    }

    /// Starts another process at the socket.
    pub(crate) fn spawn(&self, role: &str) -> Other {
        spawn(role, &variables(&self.path()))
    }

    /// All files in the folder.
    pub(crate) fn names(&self) -> Vec<String> {
        let found = std::fs::read_dir(self.folder.path()).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().into_string().unwrap()
        };
        found.map(name).collect()
    }
}

pub(crate) fn variables(path: &Path) -> Vec<(&'static str, String)> {
    vec![("OLIVINE_DEATH_PATH", path.display().to_string())]
}

/// Message number `n`: its length varies, its bytes identify it.
pub(crate) fn message(n: u64) -> Vec<u8> {
    let length = usize::try_from(n * 37 % 200).unwrap();
    let mut bytes = n.to_le_bytes().to_vec();
    bytes.resize(8 + length, n.to_le_bytes()[0]);
    bytes
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Messages that every honest subscriber got, once and in order and whole.
    pub(crate) messages: u64,
    pub(crate) stats: PublisherStats,
    pub(crate) status: LinkStatus,
}

/// Runs `attack` while a publisher at `place` sends and two honest subscribers check that nothing
/// is lost.
pub(crate) fn beside_honest_peers(
    place: &SocketFolder,
    query: &str,
    attack: impl FnOnce(),
) -> Outcome {
    beside_peers(place, query, message, attack)
}

/// Stops a thread, also if another one failed.
struct Stops(Arc<AtomicBool>);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Like [`beside_honest_peers`], with a publisher that sends the messages of `said`.
pub(crate) fn beside_peers(
    place: &SocketFolder,
    query: &str,
    said: fn(u64) -> Vec<u8>,
    attack: impl FnOnce(),
) -> Outcome {
    let uri = place.uri(query);
    let mut publisher = Publisher::open(&uri).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let read = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let stops = Stops(Arc::clone(&stop));
    let mut honest: Vec<_> = (0..2)
        .map(|who| {
            let (uri, read) = (uri.clone(), Arc::clone(&read));
            std::thread::spawn(move || {
                let mut subscriber = Subscriber::open(&uri).unwrap();
                loop {
                    let next = read[who].load(Ordering::Relaxed);
                    match subscriber.receive_timeout(WATCHDOG) {
                        Ok(Some(received)) => assert_eq!(*received, message(next)[..]),
                        Ok(None) => panic!("nothing came for {WATCHDOG:?}"),
                        Err(ReceiveError::Closed) => return next,
                        Err(error) => panic!("an honest subscriber got: {error}"),
                    }
                    read[who].store(next + 1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let all = publisher.wait_for_subscribers(2, Some(WATCHDOG));
    assert!(all.unwrap(), "the honest ones come");
    let publishing = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                match publisher.publish_timeout(&said(sent), WATCHDOG) {
                    Ok(_) => sent += 1,
                    Err(NotSent::BackPressured) => panic!("held back for {WATCHDOG:?}"),
                    Err(error) => panic!("{error}"),
                }
                if sent % 64 == 0 {
                    // Other processes need the two processors, too.
                    std::thread::yield_now();
                }
            }
            let (stats, status) = (publisher.stats(), publisher.link_status().unwrap());
            publisher.close().unwrap();
            (sent, stats, status)
        }
    });
    attack();
    // After the attack it still continues.
    for who in read.iter() {
        let before = who.load(Ordering::Relaxed);
        until("more is read after the attack", || {
            assert!(!publishing.is_finished(), "the publisher ended");
            if let Some(failed) = honest.iter().position(|one| one.is_finished()) {
                match honest.remove(failed).join() {
                    Ok(next) => panic!("an honest subscriber ended at message {next}"),
                    Err(why) => std::panic::resume_unwind(why),
                }
            }
            who.load(Ordering::Relaxed) > before + 100
        });
    }
    drop(stops);
    let (sent, stats, status) = publishing.join().unwrap();
    for subscriber in honest {
        assert_eq!(subscriber.join().unwrap(), sent, "messages were lost");
    }
    assert_eq!(
        place.names(),
        Vec::<String>::new(),
        "something stays behind"
    );
    println!("{sent} messages, {stats:?}, {status:?}");
    Outcome {
        messages: sent,
        stats,
        status,
    }
}

/// Length of an attack without a natural end.
pub(crate) fn length() -> Duration {
    Duration::from_millis(crate::common::setting("OLIVINE_HOSTILE_MS", 500))
}

/// Faults planted in the messages of the publisher during an attack, and in the leftovers: each
/// must fail the run.
mod planted {
    use crate::common::planted::verdict;
    use crate::stage::{SocketFolder, beside_peers, message};

    /// The message with the fault.
    const AT: u64 = 50;

    fn found(said: fn(u64) -> Vec<u8>, attack: impl FnOnce(&SocketFolder)) -> Result<(), String> {
        let place = SocketFolder::new();
        let run = || {
            drop(beside_peers(
                &place,
                "capacity=64KiB&wait=park",
                said,
                || attack(&place),
            ))
        };
        verdict(run)
    }

    #[test]
    fn planted_faults_fail_the_suite() {
        let fails = |verdict: Result<(), String>, what: &str| {
            let why = verdict.expect_err(what);
            assert!(why.contains(what), "{what}: {why}");
        };
        let number = |n: u64| format!("{:?}", message(n));
        // An unexpected message is shown in full.
        let differs = |verdict: Result<(), String>, got: &str| {
            let why = verdict.expect_err("a message that is not the next one");
            assert!(why.contains("left == right"), "{why}");
            assert!(why.contains(got) && why.contains(&number(AT)), "{why}");
        };
        assert_eq!(found(message, |_| {}), Ok(()));
        let lost = found(|n| message(n + u64::from(n >= AT)), |_| {});
        differs(lost, &number(AT + 1));
        let repeated = found(|n| message(n - u64::from(n >= AT)), |_| {});
        differs(repeated, &number(AT - 1));
        let torn = |n| {
            let mut bytes = message(n);
            if n == AT {
                bytes[8] ^= 1;
            }
            bytes
        };
        let bytes = format!("{:?}", torn(AT));
        differs(found(torn, |_| {}), &bytes);
        let stray = found(message, |place| {
            std::fs::write(place.path().with_extension("stray"), "").unwrap();
        });
        fails(stray, "something stays behind");
    }
}
