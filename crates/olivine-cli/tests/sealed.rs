//! `pub`, `sub` and `bridge` over sealed memory.

mod common;

use common::{TestFolder, awkward_text, said};
use olivine::{Publisher, ReceiveError, Subscriber};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn lines_reach_two_sealed_subscribers_byte_for_byte() {
    let place = TestFolder::new();
    let text = awkward_text(1 << 20);
    let uri = format!("shm+fd://{}/lines.sock", place.path().display());
    // The subscribers start first, and wait.
    let subscribers = [(); 2].map(|()| {
        let uri = format!("{uri}?timeout=60s");
        place.start(&["sub", &uri]).reading()
    });
    let publish = format!("{uri}?capacity=16KiB&subscribers=2");
    let words = ["pub", &publish, "--stdin", "lines"];
    let publisher = place.start_with(&words, text.clone()).output();
    assert!(publisher.status.success(), "{}", said(&publisher));
    for subscriber in subscribers {
        let output = subscriber.output();
        assert!(output.status.success(), "{}", said(&output));
        assert!(output.stdout == text, "{} bytes came", output.stdout.len());
    }
    assert_eq!(place.left(), Vec::<String>::new());
}

/// From a named channel into a sealed one, and from there into another named one.
#[test]
fn bridges_carry_into_and_out_of_a_sealed_channel() {
    let place = TestFolder::new();
    let named = |name: &str| format!("shm://{name}?dir={}", place.path().display());
    let socket = place.path().join("between.sock").display().to_string();
    let mut last = Subscriber::open(&named("last")).unwrap();
    let mut first = Publisher::open(&named("first")).unwrap();
    let into = place.start(&["bridge", "shm://first", &format!("shm+fd://{socket}")]);
    assert!(first.wait_for_subscribers(1, Some(LONG)).unwrap());
    let sealed = format!("shm+fd://{socket}?from=oldest&timeout=60s");
    let out = place.start(&["bridge", &sealed, "shm://last"]);
    for n in 0..5000_u64 {
        first.publish(&n.to_le_bytes()).unwrap();
        // After the second bridge is attached: earlier messages are history, limited by the ring.
        if n == 100 {
            assert_eq!(
                *last.receive_timeout(LONG).unwrap().unwrap(),
                0_u64.to_le_bytes()
            );
        }
    }
    first.close().unwrap();
    for n in 1..5000_u64 {
        assert_eq!(
            *last.receive_timeout(LONG).unwrap().unwrap(),
            n.to_le_bytes()
        );
    }
    // Their sources have ended, one after the other.
    for bridge in [into, out] {
        let output = bridge.output();
        assert!(output.status.success(), "{}", said(&output));
    }
    assert!(matches!(last.receive(), Err(ReceiveError::Closed)));
}
