//! Faults planted in the messages of the publisher during an attack, and in the leftovers: each
//! must fail the run.

use crate::stage::{SocketFolder, beside_peers, message};
use std::panic::{AssertUnwindSafe, catch_unwind};

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
    let checked = catch_unwind(AssertUnwindSafe(run));
    checked.map_err(|why| why.downcast_ref::<String>().cloned().unwrap_or_default())
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
