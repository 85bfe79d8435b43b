//! Publishers fix the geometry of a channel; an earlier subscriber fixes only the settings that it
//! names.

use crate::common::TestFolder;
use olivine::{Config, OpenError, Publisher, ReceiveError, Subscriber, admin};
use std::sync::Barrier;
use std::time::Duration;

/// The URI of a channel with these settings.
type Uri = Box<dyn Fn(&str) -> String>;

/// URIs of one channel in files and of one in this process's memory; `query` names settings.
fn both(place: &TestFolder, name: &str) -> [Uri; 2] {
    let files = place.uri(name, "");
    let inproc = format!("inproc://{name}.{}", place.dir().display()).replace('/', "_");
    let inproc = inproc.replacen("inproc:__", "inproc://", 1);
    [
        Box::new(move |query: &str| format!("{files}&{query}").trim_end_matches('&').to_owned()),
        Box::new(move |query: &str| format!("{inproc}?{query}").trim_end_matches('?').to_owned()),
    ]
}

#[test]
fn early_subscriber_without_settings_takes_the_publishers() {
    let place = TestFolder::new();
    for query in [
        "capacity=64KiB",
        "align=64",
        "publishers_max=1",
        "publishers_max=200",
        "subscribers_max=1",
        "subscribers_max=300",
        "slow=evict:10s",
        "subscribers=1",
        "capacity=4KiB&align=512&publishers_max=2&subscribers_max=2&slow=evict:10s&subscribers=1",
    ] {
        for uri in both(&place, "first") {
            let mut subscriber = Subscriber::open(&uri("")).unwrap();
            assert_eq!(subscriber.capacity(), 0, "no publisher has fixed it");
            let mut publisher = Publisher::open(&uri(query)).unwrap();
            for n in 0..3_u8 {
                // Never waits: with `subscribers=1` the subscriber without settings counts.
                publisher.try_publish(&[n]).unwrap();
            }
            publisher.close().unwrap();
            for n in 0..3_u8 {
                assert_eq!(&*subscriber.receive().unwrap(), &[n], "{query}");
            }
            if query.contains("capacity=64KiB") {
                assert_eq!(subscriber.capacity(), 64 << 10);
            }
            let ended = subscriber.receive().unwrap_err();
            assert!(matches!(ended, ReceiveError::Closed), "{query}: {ended}");
        }
    }
}

#[test]
fn subscribers_before_the_publisher_get_every_message() {
    let place = TestFolder::new();
    for uri in both(&place, "many") {
        let mut subscribers: Vec<Subscriber> = (0..64)
            .map(|_| Subscriber::open(&uri("")).unwrap())
            .collect();
        let full = Subscriber::open(&uri("")).unwrap_err();
        assert!(matches!(full, OpenError::SubscribersFull { max: 64, .. }));
        // One leaves, and its slot is reused.
        subscribers.remove(10);
        subscribers.push(Subscriber::open(&uri("")).unwrap());
        let query = "capacity=4KiB&subscribers_max=200&publishers_max=40";
        let mut publisher = Publisher::open(&uri(query)).unwrap();
        let sent: u64 = crate::common::setting("OLIVINE_SHAPE_MESSAGES", 2000);
        let mut received = vec![0; subscribers.len()];
        for n in 0..sent {
            while publisher.try_publish(&n.to_le_bytes()).is_err() {
                for (subscriber, next) in subscribers.iter_mut().zip(&mut received) {
                    read(subscriber, next);
                    subscriber.release();
                }
            }
        }
        for (subscriber, next) in subscribers.iter_mut().zip(&mut received) {
            read(subscriber, next);
            assert_eq!(*next, sent);
        }
        // More than the channel had slots for before.
        let more: Vec<Subscriber> = (0..136)
            .map(|_| Subscriber::open(&uri("")).unwrap())
            .collect();
        let full = Subscriber::open(&uri("")).unwrap_err();
        assert!(matches!(full, OpenError::SubscribersFull { max: 200, .. }));
        drop((more, subscribers));
    }
}

fn read(subscriber: &mut Subscriber, next: &mut u64) {
    let look = |message: olivine::Message<'_>| {
        assert_eq!(*message, next.to_le_bytes());
        *next += 1;
    };
    subscriber.poll(look, usize::MAX).unwrap();
}

#[test]
fn early_subscriber_fixes_only_its_settings() {
    let place = TestFolder::new();
    for uri in both(&place, "named") {
        let _first = Subscriber::open(&uri("")).unwrap();
        let _second = Subscriber::open(&uri("capacity=8KiB&subscribers_max=100")).unwrap();
        for (query, key) in [
            ("capacity=16KiB", "capacity"),
            ("subscribers_max=99", "subscribers_max"),
        ] {
            match Publisher::open(&uri(query)).unwrap_err() {
                OpenError::Mismatch {
                    key: found, pid, ..
                } => {
                    assert_eq!(found, key);
                    assert_eq!(pid, u64::from(std::process::id()), "who fixed it");
                }
                other => panic!("{query}: {other}"),
            }
        }
        let publisher = Publisher::open(&uri("align=64&slow=evict:1s")).unwrap();
        assert_eq!(publisher.capacity(), 8 << 10);
        // From here on a subscriber with another setting is refused.
        let refused = Subscriber::open(&uri("align=8")).unwrap_err();
        assert!(matches!(refused, OpenError::Mismatch { key: "align", .. }));
    }
}

#[test]
fn publisher_with_too_small_subscribers_max_gets_an_error() {
    let place = TestFolder::new();
    for uri in both(&place, "less") {
        let waiting: Vec<Subscriber> = (0..3)
            .map(|_| Subscriber::open(&uri("")).unwrap())
            .collect();
        let refused = Publisher::open(&uri("subscribers_max=2")).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("subscribers_max=at least 3"), "{text}");
        assert!(
            text.contains(&format!("process {}", std::process::id())),
            "{text}"
        );
        // The failed attempt fixed nothing.
        let publisher = Publisher::open(&uri("subscribers_max=3&capacity=4KiB")).unwrap();
        assert_eq!(publisher.capacity(), 4 << 10);
        drop(waiting);
    }
}

#[test]
fn racing_publishers_with_different_capacities_leave_one() {
    let place = TestFolder::new();
    for round in 0..20 {
        for uri in both(&place, &format!("race{round}")) {
            let mut subscriber = Subscriber::open(&uri("")).unwrap();
            let start = Barrier::new(2);
            let opened = ["capacity=4KiB", "capacity=8KiB"].map(|query| (uri(query), query));
            let results = std::thread::scope(|scope| {
                let start = &start;
                opened
                    .map(|(uri, query)| {
                        scope.spawn(move || {
                            start.wait();
                            Publisher::open(&uri).map_err(|error| (error, query))
                        })
                    })
                    .map(|thread| thread.join().unwrap())
            });
            let (mut good, mut refused) = (Vec::new(), Vec::new());
            for result in results {
                match result {
                    Ok(publisher) => good.push(publisher),
                    Err(error) => refused.push(error),
                }
            }
            let [publisher] = &mut good[..] else {
                panic!("{good:?} {refused:?}");
            };
            assert!(
                matches!(
                    &refused[..],
                    [(
                        OpenError::Mismatch {
                            key: "capacity",
                            ..
                        },
                        _
                    )]
                ),
                "{refused:?}"
            );
            publisher.publish(b"x").unwrap();
            assert_eq!(&*subscriber.receive().unwrap(), b"x");
            assert_eq!(subscriber.capacity(), publisher.capacity());
        }
    }
}

#[test]
fn durable_subscriber_of_an_open_channel_misses_nothing() {
    let place = TestFolder::new();
    let uri = |query: &str| place.uri("durable", query);
    drop(Subscriber::open(&uri("name=a")).unwrap());
    // It joins and leaves while the geometry is open.
    drop(Subscriber::open(&uri("name=a")).unwrap());
    let mut publisher = Publisher::open(&uri("capacity=4KiB&publishers_max=3")).unwrap();
    publisher.publish(b"for a").unwrap();
    let mut subscriber = Subscriber::open(&uri("name=a")).unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"for a");
    subscriber.unsubscribe();
}

#[test]
fn early_subscriber_is_evicted_by_the_publishers_setting() {
    let place = TestFolder::new();
    for uri in both(&place, "evict") {
        let mut subscriber = Subscriber::open(&uri("")).unwrap();
        let mut publisher = Publisher::open(&uri("capacity=4KiB&slow=evict:20ms")).unwrap();
        for _ in 0..20 {
            let long = Duration::from_secs(60);
            publisher.publish_timeout(&[7; 1000], long).unwrap();
        }
        assert!(publisher.stats().evicted > 0);
        // Some messages may be copied before the eviction is seen; none is torn.
        let error = loop {
            match subscriber.receive() {
                Ok(message) => assert_eq!(*message, [7; 1000]),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ReceiveError::Evicted), "{error}");
    }
}

#[test]
fn publisher_without_a_lane_fixes_nothing() {
    let place = TestFolder::new();
    let uri = |query: &str| place.uri("fails", query);
    let mut subscriber = Subscriber::open(&uri("")).unwrap();
    for _ in 0..2 {
        let refused = Publisher::open(&uri("capacity=1MiB&align=64&hugepages=require"));
        assert!(matches!(refused, Err(OpenError::HugePages { .. })));
    }
    let open = admin::inspect(&Config::parse(&uri("")).unwrap()).unwrap();
    assert_eq!(
        (open.capacity_bytes, open.align_bytes),
        (0, 0),
        "still open"
    );
    assert_eq!(open.subscribers.len(), 1);
    let query = "capacity=8KiB&publishers_max=2&subscribers_max=5";
    let mut publisher = Publisher::open(&uri(query)).unwrap();
    publisher.publish(b"now").unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"now");
    let fixed = admin::inspect(&Config::parse(&uri("")).unwrap()).unwrap();
    assert_eq!((fixed.capacity_bytes, fixed.align_bytes), (8 << 10, 8));
    assert_eq!((fixed.publishers_max, fixed.subscribers_max), (2, 5));
}

#[test]
fn the_default_capacity_is_a_power_of_two_up_to_4_mib_and_is_shown() {
    let place = TestFolder::new();
    let uri = place.uri("default", "");
    let subscriber = Subscriber::open(&uri).unwrap();
    let publisher = Publisher::open(&uri).unwrap();
    let capacity = publisher.capacity();
    assert!(capacity.is_power_of_two(), "{capacity}");
    assert!((64 << 10..=4 << 20).contains(&capacity), "{capacity}");
    let shown = admin::inspect(&Config::parse(&uri).unwrap()).unwrap();
    assert_eq!(shown.capacity_bytes, capacity);
    drop((publisher, subscriber));
}
