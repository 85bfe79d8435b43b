//! `hugepages=`: the kernel reports the required large pages, and messages pass as usual.

mod common;

use common::TestFolder;
use olivine::{OpenError, Publisher, Subscriber};

/// KiB of lane 0 that this process has mapped as large pages.
fn large_kib() -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_lane = false;
    let mut sum = 0;
    for line in maps.lines() {
        if let Some(kib) = line.strip_prefix("ShmemPmdMapped:") {
            let kib = kib.trim().trim_end_matches(" kB");
            sum += if is_lane { kib.parse().unwrap() } else { 0 };
        } else if line.contains(" rw-s ") || line.contains(" r--s ") {
            is_lane = line.ends_with("/lane-0");
        }
    }
    sum
}

#[test]
fn required_large_pages_are_used() {
    let place = TestFolder::new();
    for (capacity, mib) in [("2MiB", 2), ("8MiB", 8)] {
        let uri = place.uri("large", &format!("hugepages=require&capacity={capacity}"));
        let mut publisher = match Publisher::open(&uri) {
            Ok(publisher) => publisher,
            // Only if the machine has none.
            Err(OpenError::HugePages { problem }) if problem.contains("the kernel gives none") => {
                return common::skip(&format!("hugepages=require: {problem}"));
            }
            Err(other) => panic!("{other}"),
        };
        let mut subscriber = Subscriber::open(&uri).unwrap();
        // Each end has whole large pages in the first half; the header cuts the first large page of
        // the second half.
        let each = mib * 1024 + (mib - 2) * 1024;
        assert_eq!(large_kib(), 2 * each, "{capacity}");
        // Three laps, so that messages cross every page border.
        for n in 0..3 * mib as u64 * 1024 {
            let message = [n.to_le_bytes(); 128];
            publisher.publish(message.as_flattened()).unwrap();
            assert_eq!(&*subscriber.receive().unwrap(), message.as_flattened());
        }
        drop((publisher, subscriber));
        assert_eq!(large_kib(), 0, "{capacity}: unmapped");
    }
}

#[test]
fn ring_below_a_large_page_is_refused_if_required() {
    let place = TestFolder::new();
    let error = Publisher::open(&place.uri("small", "hugepages=require&capacity=1MiB"));
    let error = error.unwrap_err();
    assert!(matches!(error, OpenError::HugePages { .. }), "{error}");
    assert!(error.to_string().contains("below 2MiB"), "{error}");
    assert!(!place.channel("small").join("lane-0").exists());
    // Nor if others use the channel.
    let _subscriber = Subscriber::open(&place.uri("used", "capacity=1MiB")).unwrap();
    Publisher::open(&place.uri("used", "hugepages=require")).unwrap_err();
    assert!(!place.channel("used").join("lane-0").exists());
    // `try` is not `require`: a normal channel.
    Publisher::open(&place.uri("small", "hugepages=try&capacity=1MiB")).unwrap();
}
