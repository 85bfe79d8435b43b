//! Joining, leaving and dying without trust, and limits.

use crate::common::{WATCHDOG, finished, kill, signal, spawn_piped, until};
use crate::raw;
use crate::stage::{SocketFolder, variables};
use olivine::{
    LaneState, LinkError, LinkStage, NotSent, OpenError, Publisher, ReceiveError, SealedError,
    Subscriber,
};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The other processes.
pub(crate) fn play(part: &str, path: &Path) {
    let uri = format!("shm+fd://{}?wait=park&timeout=60s", path.display());
    match part {
        "subscriber" => {
            let mut subscriber = Subscriber::open(&uri).unwrap();
            while subscriber.receive().is_ok() {}
        }
        "publisher" => {
            let mut publisher = Publisher::open(&uri).unwrap();
            publisher.wait_for_subscribers(1, Some(WATCHDOG)).unwrap();
            for n in 0..100_u32 {
                publisher.publish(&n.to_le_bytes()).unwrap();
            }
            // Until it is killed.
            let _ = std::io::stdin().read(&mut [0]);
        }
        "holder" => {
            let _ = std::io::stdin().read(&mut [0]);
        }
        "father" => {
            // A child that keeps the socket open, and outlives its parent.
            let joined = raw::join(path);
            rustix::io::fcntl_setfd(&joined.socket, rustix::io::FdFlags::empty()).unwrap();
            let me = std::env::current_exe().unwrap();
            let mut child = std::process::Command::new(me);
            child.args(["--exact", "role"]).stdin(Stdio::inherit());
            child.env("OLIVINE_DEATH_ROLE", "end.holder");
            child.env("OLIVINE_DEATH_OUTLIVES", "its father");
            #[allow(clippy::zombie_processes, reason = "it outlives us on purpose")]
            let _child = child.stdout(Stdio::null()).spawn().unwrap();
        }
        _ => panic!("there is no part '{part}'"),
    }
}

fn sealed(error: &OpenError) -> &SealedError {
    match error {
        OpenError::Link(LinkError::Sealed(error)) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn killed_subscriber_is_detected_by_its_socket() {
    let place = SocketFolder::new();
    let mut publisher = Publisher::open(&place.uri("capacity=4KiB&wait=park")).unwrap();
    let subscriber = place.spawn("end.subscriber");
    assert!(publisher.wait_for_subscribers(1, Some(WATCHDOG)).unwrap());
    signal(&subscriber, rustix::process::Signal::STOP);
    while publisher.try_publish(&[1; 100]).is_ok() {}
    // A stopped subscriber is not dead.
    let waited = publisher.publish_timeout(&[2; 100], Duration::from_millis(100));
    assert_eq!(waited, Err(NotSent::BackPressured));
    kill(subscriber);
    publisher.publish_timeout(&[3; 100], WATCHDOG).unwrap();
    until("it is gone", || publisher.count_subscribers() == 0);
}

/// The pidfd: a socket stays open in a child that inherited it.
#[test]
fn a14_dead_subscriber_with_open_socket_is_detected() {
    let place = SocketFolder::new();
    let publisher = Publisher::open(&place.uri("capacity=4KiB&wait=park")).unwrap();
    let mut father = spawn_piped("end.father", &variables(&place.path()));
    let came = || publisher.link_status().unwrap().connections;
    until("the father comes", || came() == 1);
    // The child waits for the end of the input that it inherited from its parent.
    let input = father.stdin.take();
    finished(father);
    until("the father's death is noticed", || {
        publisher.count_subscribers() == 0
    });
    drop(input);
}

#[test]
fn killed_publisher_ends_the_stream_and_is_replaced() {
    let place = SocketFolder::new();
    for event in [false, true] {
        let publisher = spawn_piped("end.publisher", &variables(&place.path()));
        let mut subscriber = Subscriber::open(&place.uri("timeout=60s&wait=park")).unwrap();
        for n in 0..100_u32 {
            let message = subscriber.receive_timeout(WATCHDOG).unwrap();
            assert_eq!(*message.unwrap(), n.to_le_bytes());
        }
        assert_eq!(subscriber.inspect_lanes()[0].state, LaneState::Open);
        if event {
            let waited = subscriber.event_fd().unwrap();
            let waited = waited.try_clone_to_owned().unwrap();
            assert!(matches!(subscriber.try_receive(), Ok(None)));
            kill(publisher);
            let mut waited = [rustix::event::PollFd::new(
                &waited,
                rustix::event::PollFlags::IN,
            )];
            let longest = rustix::event::Timespec::try_from(WATCHDOG).unwrap();
            assert_eq!(rustix::event::poll(&mut waited, Some(&longest)), Ok(1));
        } else {
            kill(publisher);
        }
        let error = loop {
            match subscriber.receive_timeout(WATCHDOG) {
                Ok(found) => assert!(found.is_none(), "nothing more was published"),
                Err(error) => break error,
            }
        };
        let ReceiveError::Failed(LinkError::Sealed(error)) = error else {
            panic!("{error}");
        };
        assert!(matches!(&*error, SealedError::Died { .. }), "{error}");
        assert_eq!(subscriber.inspect_lanes()[0].state, LaneState::Dead);
        assert_eq!(subscriber.link_status().unwrap().stage, LinkStage::Failed);
        // The socket file of a dead publisher blocks no other.
        assert_eq!(place.names(), ["x.sock"]);
    }
    drop(Publisher::open(&place.uri("")).unwrap());
    assert_eq!(place.names(), Vec::<String>::new());
}

/// What it has committed is there: the subscriber has the memory.
#[test]
fn messages_of_a_killed_publisher_are_read_before_its_death_is_reported() {
    let place = SocketFolder::new();
    let publisher = spawn_piped("end.publisher", &variables(&place.path()));
    let mut subscriber = Subscriber::open(&place.uri("timeout=60s&wait=park")).unwrap();
    until("all are published", || {
        let lane = &subscriber.inspect_lanes()[0];
        lane.cursor.0 - lane.position.0 >= 100 * 16
    });
    let refused = Publisher::open(&place.uri("")).unwrap_err().to_string();
    assert!(
        refused.contains("is served by another publisher"),
        "{refused}"
    );
    kill(publisher);
    for n in 0..100_u32 {
        let message = subscriber.receive_timeout(WATCHDOG).unwrap();
        assert_eq!(*message.unwrap(), n.to_le_bytes());
    }
    let error = subscriber
        .receive_timeout(WATCHDOG)
        .map(|_| ())
        .unwrap_err();
    assert!(
        matches!(error, ReceiveError::Failed(LinkError::Sealed(_))),
        "{error}"
    );
}

#[test]
fn a_closed_channel_ends_after_its_last_message() {
    let place = SocketFolder::new();
    let uri = place.uri("capacity=64KiB&linger=60s");
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut subscriber = Subscriber::open(&uri).unwrap();
    publisher.publish(b"the last").unwrap();
    let reading = std::thread::spawn(move || {
        assert_eq!(&*subscriber.receive().unwrap(), b"the last");
        assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
    });
    // It lingers until all is read.
    publisher.close().unwrap();
    reading.join().unwrap();
}

#[test]
fn slow_subscriber_gets_evicted_error() {
    let place = SocketFolder::new();
    let uri = place.uri("capacity=4KiB&slow=evict:50ms&wait=park");
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut subscriber = Subscriber::open(&uri).unwrap();
    publisher.publish(b"read").unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"read");
    for _ in 0..100 {
        publisher.publish(&[7; 100]).unwrap();
    }
    assert_eq!(publisher.stats().evicted, 1);
    let error = loop {
        match subscriber.receive() {
            // Unread messages that are still valid.
            Ok(message) => assert_eq!(*message, [7; 100]),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ReceiveError::Evicted), "{error}");
    until("its place is free", || {
        publisher.link_status().unwrap().peers == 0
    });
}

/// Both the end of a subscriber and its reading wake a publisher that sleeps on the pages.
#[test]
fn publisher_sleeping_for_room_is_woken() {
    let place = SocketFolder::new();
    let uri = place.uri("capacity=4KiB&wait=park");
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut reader = Subscriber::open(&uri).unwrap();
    let idler = Subscriber::open(&uri).unwrap();
    assert!(publisher.wait_for_subscribers(2, Some(WATCHDOG)).unwrap());
    let publishing = std::thread::spawn(move || {
        for n in 0..1000_u64 {
            publisher.publish(&n.to_le_bytes()).unwrap();
        }
        publisher.close().unwrap();
    });
    for n in 0..50_u64 {
        assert_eq!(*reader.receive().unwrap(), n.to_le_bytes());
    }
    drop(idler);
    for n in 50..1000_u64 {
        assert_eq!(*reader.receive().unwrap(), n.to_le_bytes());
    }
    publishing.join().unwrap();
}

#[test]
fn one_publisher_serves_a_socket() {
    let place = SocketFolder::new();
    let first = Publisher::open(&place.uri("")).unwrap();
    let error = Publisher::open(&place.uri("")).unwrap_err();
    let own = i32::try_from(std::process::id()).unwrap();
    assert!(
        matches!(sealed(&error), SealedError::InUse { pid, .. } if *pid == own),
        "{error}"
    );
    drop(first);
    drop(Publisher::open(&place.uri("")).unwrap());
}

/// A3: many find a dead publisher's socket at once; one gets it, and it is never taken from a
/// living one.
#[test]
fn a3_racing_publishers_leave_one() {
    let place = SocketFolder::new();
    for _ in 0..30 {
        drop(raw::serve(&place.path()));
        assert_eq!(place.names(), ["x.sock"], "a dead one's");
        let racing: Vec<_> = (0..4)
            .map(|_| {
                let uri = place.uri("capacity=4KiB");
                std::thread::spawn(move || Publisher::open(&uri))
            })
            .collect();
        let opened: Vec<_> = racing.into_iter().map(|one| one.join().unwrap()).collect();
        let mut winners = Vec::new();
        for one in opened {
            match one {
                Ok(publisher) => winners.push(publisher),
                Err(error) => assert!(
                    matches!(sealed(&error), SealedError::InUse { .. }),
                    "{error}"
                ),
            }
        }
        assert_eq!(winners.len(), 1);
        let subscriber = Subscriber::open(&place.uri("")).unwrap();
        assert_eq!(winners[0].link_status().unwrap().failures, 0);
        drop(subscriber);
        drop(winners);
        assert_eq!(place.names(), Vec::<String>::new());
    }
}

#[test]
fn early_subscriber_waits_and_reports_the_timeout() {
    let place = SocketFolder::new();
    let error = Subscriber::open(&place.uri("timeout=100ms")).unwrap_err();
    assert!(
        matches!(sealed(&error), SealedError::NoPublisher { .. }),
        "{error}"
    );
    let uri = place.uri("timeout=60s");
    let waiting = std::thread::spawn(move || Subscriber::open(&uri).map(drop));
    let publisher = Publisher::open(&place.uri("")).unwrap();
    waiting.join().unwrap().unwrap();
    drop(publisher);
}

#[test]
fn every_slot_is_free_after_its_subscriber_leaves() {
    let place = SocketFolder::new();
    let uri = place.uri("subscribers_max=2&capacity=4KiB");
    let publisher = Publisher::open(&uri).unwrap();
    for _ in 0..20 {
        let both = [(); 2].map(|()| Subscriber::open(&uri).unwrap());
        let error = Subscriber::open(&uri).unwrap_err();
        let held = format!("process {} (2 times)", std::process::id());
        let OpenError::SubscribersFull {
            max: 2, holders, ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!(holders, held);
        drop(both);
        until("they are gone", || {
            publisher.link_status().unwrap().peers == 0
        });
    }
    assert_eq!(publisher.link_status().unwrap().connections, 40);
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Quote(u64);

impl olivine::Plain for Quote {
    const TYPE_NAME: &'static str = "quote v1";
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Order(u64);

impl olivine::Plain for Order {
    const TYPE_NAME: &'static str = "order v1";
}

#[test]
fn unfit_settings_are_refused_by_name() {
    let place = SocketFolder::new();
    let _publisher = Publisher::<Quote>::typed(&place.uri("capacity=64KiB&align=64")).unwrap();
    let refused = |query: &str| Subscriber::<Quote>::typed(&place.uri(query)).unwrap_err();
    for query in [
        "capacity=4KiB",
        "align=8",
        "subscribers_max=1",
        "slow=evict:1s",
    ] {
        let error = refused(query);
        assert!(
            matches!(error, OpenError::Mismatch { .. }),
            "{query}: {error}"
        );
    }
    let error = Subscriber::<Order>::typed(&place.uri("")).unwrap_err();
    assert!(matches!(error, OpenError::Type { .. }), "{error}");
    let fits = Subscriber::<Quote>::typed(&place.uri("capacity=64KiB&align=64&subscribers_max=64"));
    assert!(fits.is_ok());
}

#[test]
fn users_and_permissions_are_what_the_uri_says() {
    use std::os::unix::fs::MetadataExt;
    let place = SocketFolder::new();
    for (query, mode) in [
        ("", 0o600),
        ("mode=0660", 0o660),
        ("mode=0666&peers=any", 0o666),
    ] {
        let publisher = Publisher::open(&place.uri(query)).unwrap();
        let found = std::fs::metadata(place.path()).unwrap();
        assert_eq!(found.mode() & 0o777, mode, "{query}");
        drop(publisher);
    }
    let publisher = Publisher::open(&place.uri("peers=4242")).unwrap();
    let error = Subscriber::open(&place.uri("")).unwrap_err();
    assert!(
        matches!(sealed(&error), SealedError::Refused { reason, .. }
            if reason.contains("peers=4242")),
        "{error}"
    );
    until("it is noted", || {
        publisher.link_status().unwrap().refusals == 1
    });
}

#[test]
fn nothing_stays_open_or_mapped() {
    let place = SocketFolder::new();
    let seen = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.matches("memfd:olivine").count()
    };
    let uri = place.uri("capacity=64KiB");
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut late = Subscriber::open(&uri).unwrap();
    publisher.publish(b"kept").unwrap();
    publisher.close().unwrap();
    // The memory outlives the publisher, for unread messages.
    assert_eq!(&*late.receive().unwrap(), b"kept");
    assert!(seen() > 0);
    assert!(
        late.event_fd()
            .unwrap()
            .as_fd()
            .try_clone_to_owned()
            .is_ok()
    );
    drop(late);
}
