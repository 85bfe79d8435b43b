//! One pass over an operation, instruction by instruction: where its deaths differ.

use crate::scene::{Operation, Scene};
use crate::shared::Shared;
use crate::trace::{Next, Traced};
use crate::{operations, start};
use std::collections::HashMap;

/// An operation that does not end within so many steps hangs.
const LONGEST: usize = 3_000_000;

/// A place to die: this instruction, at this pass over it since the last of so many system calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeathPoint {
    pub(crate) calls: usize,
    pub(crate) at: usize,
    pub(crate) times: u64,
}

/// The result of one pass over an operation.
pub(crate) struct Path {
    /// Instructions that were stepped through.
    pub(crate) instructions: usize,
    /// None was left out.
    pub(crate) is_whole: bool,
    pub(crate) syscalls: usize,
    /// Places after which shared memory or kernel state has changed.
    pub(crate) places: Vec<DeathPoint>,
    /// Subscribers that were reclaimed and evicted.
    pub(crate) judged: (u64, u64),
}

/// For each part of an operation that ends with a system call, and for the last one: whether it
/// changes shared memory.
pub(crate) fn changing_parts(operation: &Operation) -> Vec<bool> {
    let mut scene = Scene::new(operation);
    let mut child = start(operation, &mut scene);
    let mut shared = Shared::new(&scene);
    let mut parts = Vec::new();
    loop {
        let call = child.go_to_syscall();
        parts.push(shared.has_changed());
        if call.is_none() {
            return parts;
        }
        child.leave_syscall();
        shared.map(&scene);
    }
}

/// Steps through the operation and records the places to die. Parts that change nothing, by the
/// list `changing`, are left out; those beyond its end are not.
pub(crate) fn walk(operation: &Operation, changing: &[bool]) -> Path {
    let mut scene = Scene::new(operation);
    let mut child = start(operation, &mut scene);
    let mut shared = Shared::new(&scene);
    let mut passed: HashMap<usize, u64> = HashMap::new();
    let mut path = Path {
        instructions: 0,
        is_whole: true,
        syscalls: 0,
        places: Vec::new(),
        judged: (0, 0),
    };
    let mut at = child.at();
    loop {
        let calls = path.syscalls;
        if passed.is_empty() && changing.get(calls) == Some(&false) {
            path.is_whole = false;
            let Some(call) = child.go_to_syscall() else {
                break;
            };
            child.leave_syscall();
            path.places.push(DeathPoint {
                calls,
                at: call.at,
                times: 1,
            });
            path.syscalls += 1;
            shared.map(&scene);
            at = child.at();
            continue;
        }
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
        let times = *times;
        let place = DeathPoint { calls, at, times };
        at = child.step();
        path.instructions += 1;
        let is_syscall = next == Next::Syscall;
        if is_syscall {
            path.syscalls += 1;
            passed.clear();
            shared.map(&scene);
        }
        if is_syscall || shared.has_changed() {
            path.places.push(place);
        }
    }
    child.kill();
    path.judged = scene.judged();
    // It was killed after the last instruction: the whole operation counts.
    scene.check(operations::acknowledged(operation, true));
    path
}
