//! Death at every instruction: a child does one operation step by step and is killed after each; what is left must
//! do.
//!
//! A death leaves shared memory and what the kernel keeps. An instruction that changes neither leaves what the one
//! before it left, so of a long operation every instruction is looked at, and the child is killed wherever the
//! shared memory has changed or a system call was made. A short one is killed at every single instruction.
//!
//! `OLIVINE_STEP_EVERY=1` kills at all of these places, N at every Nth.

#![cfg(all(not(loom), target_arch = "x86_64", target_os = "linux"))]

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod operations;
mod planted;
mod scene;
mod trace;

use operations::OPERATIONS;
use scene::{Handles, Operation, Scene};
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use trace::{Next, Traced, mark};

/// Up to this many instructions each one is a death of its own.
const SHORT: usize = 600;
/// An operation that does not end within so many steps does not end.
const LONGEST: usize = 3_000_000;

/// No file of the channel is larger.
const LARGEST: usize = 16 * 1024;

/// A place to die: at this instruction, when it is reached for this many times, after which it is over.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    times: u64,
}

/// What one pass over an operation found.
struct Path {
    instructions: usize,
    syscalls: usize,
    /// Places after which shared memory or the kernel's part differs from before.
    places: Vec<Place>,
    /// Subscribers that were reclaimed and evicted.
    judged: (u64, u64),
}

/// One test at a time: a fork copies what other threads are in the middle of.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn start(operation: &Operation, scene: &mut Scene) -> Traced {
    let uri = scene.uri();
    let child = Traced::start(|| {
        let mut handles = Handles::default();
        (operation.prepare)(&uri, &mut handles);
        mark();
        (operation.act)(&uri, &mut handles).expect("it works where nothing fails");
        mark();
        // Its handles are not dropped: what is killed at the end has done just this.
        let _kept = std::mem::ManuallyDrop::new(handles);
    });
    (operation.ready)(scene);
    child
}

/// The channel's memory, as a survivor sees it.
fn shared(files: &[std::fs::File], into: &mut Vec<u8>) {
    into.clear();
    for file in files {
        let start = into.len();
        into.resize(start + LARGEST, 0);
        let read = file.read_at(&mut into[start..], 0).expect("shared memory");
        into.truncate(start + read);
    }
}

/// Steps through the whole operation and writes down where it matters.
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
            path.places.push(Place { at, times: *times });
            std::mem::swap(&mut before, &mut after);
        }
    }
    child.kill();
    path.judged = scene.judged();
    // It was killed behind the last instruction: everything it did counts.
    scene.check(operations::acknowledged(operation, true));
    path
}

/// Kills a child after `place`; `false` if this time it did not come there.
fn die_at(operation: &Operation, place: Place) -> bool {
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
fn a_death_after_any_instruction_is_survived() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let every = usize::try_from(common::setting("OLIVINE_STEP_EVERY", 16)).unwrap();
    let only = std::env::var("OLIVINE_STEP_ONLY").unwrap_or_default();
    let (mut looked_at, mut deaths) = (0, 0);
    for operation in OPERATIONS.iter().filter(|found| found.name.contains(&only)) {
        let mut path = walk(operation);
        for _ in 0..8 {
            // Where time decides, a busy machine may let it run out before anything is done.
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
            "{:<28} {:>7} instructions, {:>4} system calls, {:>5} different deaths, {killed:>5} died, {missed} elsewhere, {} reclaimed, {} evicted",
            operation.name,
            path.instructions,
            path.syscalls,
            path.places.len(),
            path.judged.0,
            path.judged.1,
        );
        assert!(killed > 0, "{}: nobody was killed", operation.name);
        // What depends on time may take another path; not all of it does.
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
