//! Instructions of a message of 32 B, from its publisher to its subscriber, counted by valgrind's
//! callgrind. A change of the hot path shows here; times do not.
//!
//! Release builds only: `cargo xtask ci --deep` runs it. ADRs 0032, 0035 and 0036 have the figures.

#![cfg(all(target_arch = "x86_64", not(loom)))]

mod common;

use common::{my_role, skip};
use olivine::{Publisher, Subscriber};
use std::hint::black_box;
use std::process::Command;

/// Messages of the two runs whose difference is counted: it has neither start nor end.
const COUNTS: [u64; 2] = [20_000, 220_000];
const BATCH: u64 = 16;
/// Instructions that the slowed scene adds to each message, at least.
const SLOWED_BY: u64 = 16;

/// Scenes, each with the most instructions of a message, at most 5 % above those counted here,
/// which were 33.1, 56.1, 30.5, 165.1, 51.0, 54.7, 53.4 and 49.0. A batch also fetches the cache
/// lines of a next batch as long (ADR 0018), and other messages those of several (ADR 0037).
const SCENES: [(&str, f64); 8] = [
    ("publish", 34.7),
    ("claim and commit", 57.9),
    ("batches of 16", 31.1),
    (PASSED, 169.2),
    ("publish, receive", 52.3),
    ("publish 16, poll", 56.4),
    ("publish 16, receive", 54.1),
    ("batches of 16, poll", 51.4),
];
/// The scene that [`SLOWED`] slows.
const PASSED: &str = "publish, poll";
/// That scene, with more work for each message.
const SLOWED: &str = "publish, poll, slowed";

/// The program that is counted.
#[test]
fn role() {
    let Some(scene) = my_role() else {
        return;
    };
    let count = std::env::var("OLIVINE_COUNTED").expect("set by the parent");
    carry(&scene, count.parse().unwrap());
}

fn carry(scene: &str, count: u64) {
    match scene {
        "publish" => send(count, |publisher, message| {
            publisher.publish(message).unwrap();
        }),
        "claim and commit" => send(count, |publisher, message| {
            let mut claim = publisher.claim(message.len()).unwrap();
            claim.copy_from_slice(message);
            claim.commit();
        }),
        "batches of 16" => send(count / BATCH, |publisher, message| {
            let mut batch = publisher.batch();
            for _ in 0..BATCH {
                batch.push(message).unwrap();
            }
            batch.commit();
        }),
        _ => pass(scene, count),
    }
}

/// Sends by `by` as often, without a subscriber.
#[inline(always)]
fn send(count: u64, by: impl Fn(&mut Publisher, &[u8; 32])) {
    let mut publisher = Publisher::open("inproc://counted?capacity=16MiB").unwrap();
    let message = black_box([7; 32]);
    (0..count).for_each(|_| by(&mut publisher, &message));
}

fn pass(scene: &str, count: u64) {
    let mut subscriber = Subscriber::open("inproc://counted?capacity=1MiB").unwrap();
    let mut publisher = Publisher::open("inproc://counted").unwrap();
    let message = black_box([7; 32]);
    let mut bytes = 0;
    match scene {
        "publish, receive" => {
            for _ in 0..count {
                publisher.publish(&message).unwrap();
                bytes += subscriber.receive().unwrap().len();
            }
        }
        "publish 16, poll" => {
            for _ in 0..count / BATCH {
                for _ in 0..BATCH {
                    publisher.publish(&message).unwrap();
                }
                let taken = subscriber.poll(|message| bytes += message.len(), usize::MAX);
                assert_eq!(taken.unwrap() as u64, BATCH);
            }
        }
        "publish 16, receive" => {
            for _ in 0..count / BATCH {
                for _ in 0..BATCH {
                    publisher.publish(&message).unwrap();
                }
                for _ in 0..BATCH {
                    bytes += subscriber.receive().unwrap().len();
                }
            }
        }
        "batches of 16, poll" => {
            for _ in 0..count / BATCH {
                let mut batch = publisher.batch();
                for _ in 0..BATCH {
                    batch.push(&message).unwrap();
                }
                batch.commit();
                let taken = subscriber.poll(|message| bytes += message.len(), usize::MAX);
                assert_eq!(taken.unwrap() as u64, BATCH);
            }
        }
        _ => {
            let slowed = scene == SLOWED;
            for _ in 0..count {
                publisher.publish(&message).unwrap();
                if slowed {
                    for n in 0..SLOWED_BY {
                        black_box(n);
                    }
                }
                let taken = subscriber.poll(|message| bytes += message.len(), usize::MAX);
                assert_eq!(taken.unwrap(), 1);
            }
        }
    }
    assert_eq!(bytes as u64, count * 32);
}

/// Instructions of a message in this scene.
fn instructions(scene: &str) -> f64 {
    let [less, more] = COUNTS.map(|count| collected(scene, count));
    (more - less) as f64 / (COUNTS[1] - COUNTS[0]) as f64
}

/// Instructions of a whole run.
fn collected(scene: &str, count: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "role", "--nocapture", "--test-threads=1"])
        .env("OLIVINE_DEATH_ROLE", scene)
        .env("OLIVINE_COUNTED", count.to_string())
        .output()
        .expect("valgrind was there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{scene}: {said}");
    let line = said.lines().find_map(|line| line.split_once("Collected :"));
    let (_, number) = line.unwrap_or_else(|| panic!("{scene}: {said}"));
    number.trim().parse().unwrap()
}

/// Whether instructions can be counted; says why not.
fn counts() -> bool {
    if cfg!(debug_assertions) {
        skip("instructions are counted in a release build only: cargo xtask ci --deep");
        return false;
    }
    let found = Command::new("valgrind").arg("--version").output();
    if found.is_err() {
        skip("no valgrind, so instructions are not counted");
    }
    found.is_ok()
}

#[test]
fn message_takes_no_more_instructions_than_was_counted() {
    if !counts() {
        return;
    }
    let mut told = Vec::new();
    let mut failed = false;
    for (scene, most) in SCENES {
        let found = instructions(scene);
        failed |= found > most;
        told.push(format!("{scene}: {found:.1} of at most {most}"));
    }
    println!("{}", told.join("\n"));
    assert!(!failed, "{}", told.join("\n"));
}

/// The bound above is tight enough to see it.
#[test]
fn slower_path_takes_more_instructions_than_allowed() {
    if !counts() {
        return;
    }
    let (_, most) = SCENES.into_iter().find(|scene| scene.0 == PASSED).unwrap();
    let found = instructions(SLOWED);
    println!("{SLOWED}: {found:.1} of at most {most}");
    assert!(found > most, "{found}");
}
