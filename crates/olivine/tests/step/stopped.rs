//! A process that is stopped while it holds the membership lock: openers give up and report its
//! number.

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
