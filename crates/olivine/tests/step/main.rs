//! Death at every instruction: a child runs one operation step by step and is killed after each
//! step. Survivors must continue.
//!
//! A death leaves shared memory and kernel state. An instruction that changes neither needs no
//! kill. So in a long operation the child is killed after each instruction that changed shared
//! memory or made a system call. In a short one it is killed after every instruction.
//!
//! `OLIVINE_STEP_EVERY=1` kills at all of these places, N at every Nth.

#![cfg(all(not(loom), target_arch = "x86_64", target_os = "linux"))]

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod operations;
mod planted;
#[path = "../common/ptrace.rs"]
mod ptrace;
mod scene;
mod stopped;
mod trace;

use operations::OPERATIONS;
use scene::{Handles, Operation, Scene};
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use trace::{Next, Traced, mark};

/// Operations of up to this many instructions are killed after each one.
const SHORT: usize = 600;
/// An operation that does not end within so many steps hangs.
const LONGEST: usize = 3_000_000;

/// No file of the channel is larger.
const LARGEST: usize = 16 * 1024;

/// A place to die: this instruction, at this pass over it.
#[derive(Clone, Copy, Debug)]
struct DeathPoint {
    at: usize,
    times: u64,
}

/// The result of one pass over an operation.
struct Path {
    instructions: usize,
    syscalls: usize,
    /// Places after which shared memory or kernel state has changed.
    places: Vec<DeathPoint>,
    /// Subscribers that were reclaimed and evicted.
    judged: (u64, u64),
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

/// The channel's memory, as seen by a survivor.
fn shared(files: &[std::fs::File], into: &mut Vec<u8>) {
    into.clear();
    for file in files {
        let start = into.len();
        into.resize(start + LARGEST, 0);
        let read = file.read_at(&mut into[start..], 0).expect("shared memory");
        into.truncate(start + read);
    }
}

/// Steps through the whole operation and records the places to die.
fn walk(operation: &Operation) -> Path {
    let mut scene = Scene::new(operation);
    let mut child = start(operation, &mut scene);
    let mut files = scene.files();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    shared(&files, &mut before);
    let mut passed: HashMap<usize, u64> = HashMap::new();
    let mut path = Path {
        instructions: 0,
        syscalls: 0,
        places: Vec::new(),
        judged: (0, 0),
    };
    loop {
        let at = child.at();
        let next = Traced::next(at);
        if next == Next::End {
            break;
        }
        assert!(
            path.instructions < LONGEST,
            "{} does not end",
            operation.name
        );
        let times = passed.entry(at).or_insert(0);
        *times += 1;
        child.step();
        path.instructions += 1;
        let is_syscall = next == Next::Syscall;
        if is_syscall {
            path.syscalls += 1;
            files = scene.files();
        }
        shared(&files, &mut after);
        if is_syscall || after != before {
            path.places.push(DeathPoint { at, times: *times });
            std::mem::swap(&mut before, &mut after);
        }
    }
    child.kill();
    path.judged = scene.judged();
    // It was killed after the last instruction: the whole operation counts.
    scene.check(operations::acknowledged(operation, true));
    path
}

/// Kills a child after `place`; `false` if it did not reach it.
fn die_at(operation: &Operation, place: DeathPoint) -> bool {
    let mut scene = Scene::new(operation);
    let mut child = start(operation, &mut scene);
    let reached = child.go_to(place.at, place.times);
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
    let every = usize::try_from(common::setting("OLIVINE_STEP_EVERY", 32)).unwrap();
    let only = std::env::var("OLIVINE_STEP_ONLY").unwrap_or_default();
    let (mut looked_at, mut deaths) = (0, 0);
    for operation in OPERATIONS.iter().filter(|found| found.name.contains(&only)) {
        let mut path = walk(operation);
        for _ in 0..8 {
            // If time matters, it may run out on a busy machine before any step.
            if !path.places.is_empty() {
                break;
            }
            operations::wait_longer();
            path = walk(operation);
        }
        let mut killed = 0;
        let mut missed = 0;
        if path.instructions <= SHORT {
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
            "{:<28} {:>7} instructions, {:>4} system calls, {:>5} different deaths, \
             {killed:>5} died, {missed} elsewhere, {} reclaimed, {} evicted",
            operation.name,
            path.instructions,
            path.syscalls,
            path.places.len(),
            path.judged.0,
            path.judged.1,
        );
        assert!(killed > 0, "{}: no child was killed", operation.name);
        // Operations that depend on time may take another path, but not all do.
        assert!(
            missed <= killed,
            "{}: it never goes the same way",
            operation.name
        );
        looked_at += path.instructions;
        deaths += killed;
    }
    println!(
        "{looked_at} instruction positions looked at, {deaths} deaths survived, every {every}"
    );
    assert!(looked_at > 0);
}
