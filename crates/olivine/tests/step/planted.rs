//! Faults planted in the shared memory of a dead child: each makes the check of a scene fail.

use crate::operations::{OPERATIONS, acknowledged};
use crate::scene::{Handles, Scene};
use crate::trace::{Traced, mark};
use crate::{ONE_AT_A_TIME, start};
use olivine::Subscriber;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// The result of the check after a child has sent four messages and died, and `plant` has changed
/// its memory.
fn found(plant: impl FnOnce(&mut Scene)) -> Result<(), String> {
    let publish = OPERATIONS.iter().find(|one| one.name == "publish").unwrap();
    let mut scene = Scene::new(publish);
    let mut child = start(publish, &mut scene);
    child.go_on();
    child.kill();
    plant(&mut scene);
    let sent = acknowledged(publish, true);
    let checked = catch_unwind(AssertUnwindSafe(|| scene.check(sent)));
    checked.map_err(|why| match why.downcast::<String>() {
        Ok(text) => *text,
        Err(why) => why
            .downcast_ref::<&str>()
            .copied()
            .unwrap_or_default()
            .to_owned(),
    })
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
    // A living subscriber that reads nothing holds publishers back, like an undetected dead one.
    let mut stuck = None;
    let hung = found(|scene| {
        scene.patience = Duration::from_secs(1);
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
