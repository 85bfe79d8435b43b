//! Death at every instruction: a child runs one operation step by step and is killed after each
//! step. Survivors must continue.
//!
//! A death leaves shared memory and kernel state. An instruction that changes neither needs no
//! kill. So in a long operation the child is killed after each instruction that changed shared
//! memory or made a system call. In a short one it is killed after every instruction.
//!
//! `OLIVINE_STEP_EVERY=1` kills at all of these places, N at every Nth. To find them, 1 steps
//! through the whole operation. N steps between two system calls only if shared memory differs at
//! the second one: that takes a seventh of the steps, and misses a change that the next
//! instructions take back.

#![cfg(all(not(loom), target_arch = "x86_64", target_os = "linux"))]

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod operations;
#[path = "../common/ptrace.rs"]
mod ptrace;
mod scene;
mod shared;
mod trace;
mod walk;

use operations::OPERATIONS;
use scene::{Handles, Operation, Scene};
use std::sync::{Mutex, PoisonError};
use trace::{Next, Traced, mark};
use walk::{DeathPoint, changing_parts, walk};

/// Operations of up to this many instructions are killed after each one.
const SHORT: usize = 600;

/// Operations that depend on time: on a busy machine they may take another path.
const TIMED: [&str; 4] = [
    "judge an expired durable",
    "wait for room, reclaim",
    "evict",
    "park",
];

/// Most deaths of an operation that may fall elsewhere than planned, where `killed` fell there.
/// Others than [`TIMED`] ones depend on a random number at most.
fn missed_max(name: &str, killed: usize) -> usize {
    if TIMED.contains(&name) {
        killed
    } else {
        1 + killed / 10
    }
}

/// One test at a time: a fork copies the unfinished work of other threads.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn start(operation: &Operation, scene: &mut Scene) -> Traced {
    let uri = scene.uri();
    let child = Traced::start(|| {
        let mut handles = Handles::default();
        (operation.prepare)(&uri, &mut handles);
        mark();
        (operation.act)(&uri, &mut handles).expect("it works where nothing fails");
        mark();
        // Its handles are not dropped: a kill at the end finds exactly this operation.
        let _kept = std::mem::ManuallyDrop::new(handles);
    });
    (operation.ready)(scene);
    child
}

/// Kills a child after `place`; `false` if it did not reach it.
fn die_at(operation: &Operation, place: DeathPoint) -> bool {
    let mut scene = Scene::new(operation);
    let mut child = start(operation, &mut scene);
    let reached = child.pass_syscalls(place.calls) && child.go_to(place.at, place.times);
    if reached {
        child.step();
    }
    child.kill();
    scene.check(operations::acknowledged(operation, false));
    reached
}

/// Kills a child after `steps` instructions.
fn die_after(operation: &Operation, steps: usize) {
    let mut scene = Scene::new(operation);
    let mut child = start(operation, &mut scene);
    for _ in 0..steps {
        if Traced::next(child.at()) == Next::End {
            break;
        }
        child.step();
    }
    child.kill();
    scene.check(operations::acknowledged(operation, false));
}

#[test]
fn survivors_continue_after_a_death_at_any_instruction() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let every = usize::try_from(common::setting("OLIVINE_STEP_EVERY", 64)).unwrap();
    let only = std::env::var("OLIVINE_STEP_ONLY").unwrap_or_default();
    let (mut looked_at, mut deaths, mut elsewhere) = (0, 0, 0);
    // What a process asks the system once, this one knows then, and so does each child: all passes
    // over an operation make the same calls.
    let with_others = OPERATIONS.iter().find(|operation| operation.bystanders);
    drop(Scene::new(with_others.expect("most have bystanders")));
    for operation in OPERATIONS.iter().filter(|found| found.name.contains(&only)) {
        // What depends on time may take another path the next time.
        let changing = if every == 1 || TIMED.contains(&operation.name) {
            Vec::new()
        } else {
            changing_parts(operation)
        };
        let mut path = walk(operation, &changing);
        for _ in 0..8 {
            // If time matters, it may run out on a busy machine before any step.
            if !path.places.is_empty() {
                break;
            }
            operations::wait_longer();
            path = walk(operation, &changing);
        }
        let mut killed = 0;
        let mut missed = 0;
        if path.is_whole && path.instructions <= SHORT {
            for steps in (0..path.instructions).step_by(every) {
                die_after(operation, steps);
                killed += 1;
            }
        } else {
            for place in path.places.iter().step_by(every) {
                if die_at(operation, *place) {
                    killed += 1;
                } else {
                    missed += 1;
                }
            }
        }
        println!(
            "{:<28} {:>7} steps, {:>4} system calls, {:>5} different deaths, \
             {killed:>5} died, {missed} elsewhere, {} reclaimed, {} evicted",
            operation.name,
            path.instructions,
            path.syscalls,
            path.places.len(),
            path.judged.0,
            path.judged.1,
        );
        assert!(killed > 0, "{}: no child was killed", operation.name);
        assert!(
            missed <= missed_max(operation.name, killed),
            "{}: {missed} deaths elsewhere, {killed} where they should",
            operation.name
        );
        looked_at += path.instructions;
        deaths += killed;
        elsewhere += missed;
    }
    println!(
        "{looked_at} steps looked at, {deaths} deaths survived, every {every}; \
         {elsewhere} fell elsewhere, {} in 1000",
        elsewhere * 1000 / (deaths + elsewhere).max(1),
    );
    assert!(looked_at > 0);
}

/// Faults planted in the shared memory of a dead child: each makes the check of a scene fail.
mod planted {
    use crate::common::planted::verdict;
    use crate::operations::{OPERATIONS, acknowledged};
    use crate::scene::{Handles, Scene};
    use crate::trace::{Traced, mark};
    use crate::{ONE_AT_A_TIME, start};
    use olivine::Subscriber;
    use std::sync::PoisonError;
    use std::time::Duration;

    /// The child's lane, the first word of its ring, and the words of one of its messages with the
    /// header.
    const LANE: &str = "lane-1";
    const CURSOR: u64 = 16;
    const RING: u64 = 512;
    const FRAME: u64 = 13;
    /// Bytes of such a frame.
    const FRAME_BYTES: u64 = FRAME * 8;

    /// The result of the check after a child has sent four messages and died, and `plant` has
    /// changed its memory.
    fn found(plant: impl FnOnce(&mut Scene)) -> Result<(), String> {
        let publish = OPERATIONS.iter().find(|one| one.name == "publish").unwrap();
        let mut scene = Scene::new(publish);
        let mut child = start(publish, &mut scene);
        child.go_on();
        child.kill();
        plant(&mut scene);
        let sent = acknowledged(publish, true);
        verdict(|| scene.check(sent))
    }

    #[test]
    fn deaths_elsewhere_are_bounded() {
        assert_eq!(crate::missed_max("publish", 40), 5);
        assert_eq!(crate::missed_max("park", 40), 40);
        let is_known = |name| OPERATIONS.iter().any(|one| one.name == name);
        assert!(crate::TIMED.into_iter().all(is_known));
    }

    #[test]
    fn planted_faults_fail_the_suite() {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let fails = |verdict: Result<(), String>, what: &str| {
            let why = verdict.expect_err(what);
            assert!(why.contains(what), "{what}: {why}");
        };
        assert_eq!(found(|_| {}), Ok(()));
        // The last message is missing, and its lane ends before it.
        let lost = found(|scene| {
            scene.write_word(LANE, RING + 3 * FRAME, 0);
            scene.write_word(LANE, CURSOR, 3 * FRAME_BYTES);
        });
        fails(lost, "3 messages of the dead arrived, 4 were acknowledged");
        // The last message repeats the one before it: its first word is its number.
        let repeated = found(|scene| scene.write_word(LANE, RING + 3 * FRAME + 1, 2));
        fails(repeated, "in order, once");
        let torn = found(|scene| scene.write_word(LANE, RING + FRAME + 5, 0));
        fails(torn, "a torn message");
        let of_the_living = found(|scene| scene.write_word("lane-0", RING + FRAME + 1, 7));
        fails(of_the_living, "lost or repeated");
        let leaked = found(|scene| std::fs::write(scene.folder().join("stray"), "").unwrap());
        fails(leaked, "left behind");
        // A living subscriber that reads nothing holds publishers back, like an undetected dead
        // one.
        let mut stuck = None;
        let hung = found(|scene| {
            scene.room_timeout = Duration::from_secs(1);
            let uri = scene.uri();
            stuck = Some(Traced::start(|| {
                let handles = Handles {
                    subscriber: Some(Subscriber::open(&uri).unwrap()),
                    ..Handles::default()
                };
                mark();
                drop(handles);
            }));
        });
        fails(hung, "no room comes");
    }
}

/// A process that is stopped while it holds the membership lock: openers give up and report its
/// number.
mod stopped {
    use crate::operations::{OPERATIONS, acknowledged};
    use crate::scene::Scene;
    use crate::{ONE_AT_A_TIME, start};
    use olivine::{OpenError, Publisher, Subscriber};
    use std::sync::PoisonError;

    /// It takes as long as an opener waits: 10 s.
    #[test]
    fn opener_reports_the_process_that_stopped_while_it_allocated_a_lane() {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let attach = OPERATIONS
            .iter()
            .find(|one| one.name == "attach a publisher")
            .unwrap();
        let mut scene = Scene::new(attach);
        let mut child = start(attach, &mut scene);
        // It stands before the call that allocates the lane, under the lock.
        while child.go_to_syscall().expect("it allocates a lane").number != libc::SYS_fallocate {
            child.leave_syscall();
        }
        let uri = scene.uri();
        let opening = [
            std::thread::spawn({
                let uri = uri.clone();
                move || Publisher::open(&uri).map(drop)
            }),
            std::thread::spawn(move || Subscriber::open(&uri).map(drop)),
        ];
        // Participants that are attached continue meanwhile.
        for _ in 0..100 {
            scene.talk();
            scene.read_along();
        }
        for opener in opening {
            let refused = opener.join().unwrap().unwrap_err();
            let OpenError::Busy { pid, .. } = refused else {
                panic!("{refused}");
            };
            assert_eq!(pid, child.pid(), "{refused}");
            let text = refused.to_string();
            assert!(
                text.contains(&format!("process {pid} is stopped")),
                "{text}"
            );
        }
        // Its death frees the lock.
        child.kill();
        scene.check(acknowledged(attach, false));
    }
}
