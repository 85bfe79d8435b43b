//! `tcp://` with wrong settings, invalid clients, broken connections, and killed processes.

#![cfg(not(loom))]

mod absent;
#[path = "../common/mod.rs"]
mod common;
mod ends;
mod expired;
mod failures;
mod places;
mod tls;

use common::proxy::{Proxy, nothing_is_lost_in_cuts};
use common::{Random, TestFolder, bridges, free_port, kill, spawn, until};
use olivine::{
    Bridge, Config, LinkError, LinkStage, LinkStatus, OpenError, Outgoing, Publisher, ReceiveError,
    Subscriber,
};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

fn uri(port: u16, query: &str) -> String {
    let mark = if query.is_empty() { "" } else { "?" };
    format!("tcp://127.0.0.1:{port}/test{mark}{query}")
}

fn status(publisher: &Publisher) -> LinkStatus {
    publisher.link_status().expect("a bridge")
}

#[test]
fn unfit_settings_are_refused_with_key_and_values() {
    let cases = [
        ("token=sesame", "", "a token is needed"),
        ("token=sesame", "token=other", "the token is wrong"),
        ("", "token=sesame", "this side has no token"),
        (
            "align=64",
            "align=8",
            "align=64 at the publisher and align=8",
        ),
        (
            "capacity=1MiB",
            "capacity=64KiB",
            "capacity=1048576 at the publisher",
        ),
    ];
    for (ours, theirs, expected) in cases {
        let port = free_port();
        let publisher = Publisher::open(&uri(port, ours)).unwrap();
        let error = Subscriber::open(&uri(port, theirs))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{ours} {theirs}: {error}");
        until("the refusal is counted", || {
            status(&publisher).refusals == 1
        });
        // A fitting one is still served.
        let mut good = Subscriber::open(&uri(port, ours)).unwrap();
        let mut publisher = publisher;
        until("it is there", || publisher.count_subscribers() == 1);
        publisher.publish(b"good").unwrap();
        assert_eq!(&*good.receive().unwrap(), b"good");
    }
}

#[test]
fn wrong_channel_or_direction_is_refused() {
    let port = free_port();
    let _publisher = Publisher::open(&uri(port, "")).unwrap();
    let other = format!("tcp://127.0.0.1:{port}/other");
    let error = Subscriber::open(&other).unwrap_err().to_string();
    assert!(error.contains("channel 'other' is not here"), "{error}");
    let error = Publisher::open(&uri(port, "role=connect")).unwrap_err();
    assert!(error.to_string().contains("both sides publish"), "{error}");
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let port = free_port();
    let _first = Publisher::open(&uri(port, "")).unwrap();
    let error = Publisher::open(&uri(port, "")).unwrap_err();
    assert!(
        matches!(&error, OpenError::Link(LinkError::Io { action: "listen on", place, .. })
            if place.ends_with(&port.to_string())),
        "{error:?}"
    );
}

#[test]
fn early_subscriber_waits_and_reports_it() {
    let port = free_port();
    let mut subscriber = Subscriber::open(&uri(port, "")).unwrap();
    let waiting = subscriber.link_status().unwrap();
    assert_eq!(waiting.stage, LinkStage::Waiting);
    assert!(waiting.note.contains("refused"), "{}", waiting.note);
    let mut publisher = Publisher::open(&uri(port, "subscribers=1")).unwrap();
    publisher.publish(b"first").unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"first");
}

#[test]
fn invalid_clients_are_refused_without_harm() {
    let port = free_port();
    let mut publisher = Publisher::open(&uri(port, "subscribers=1")).unwrap();
    let mut subscriber = Subscriber::open(&uri(port, "")).unwrap();
    let mut random = Random(11);
    let garbage: Vec<u8> = (0..5000).map(|_| random.next().to_le_bytes()[0]).collect();
    let mut bomb = b"OLIVWIRE".to_vec();
    bomb.extend(2_u32.to_le_bytes());
    bomb.extend(u32::MAX.to_le_bytes());
    let mut later = b"OLIVWIRE".to_vec();
    later.extend(99_u32.to_le_bytes());
    later.extend([0; 4]);
    let hostile: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        &garbage,
        &bomb,
        &later,
        &[],
    ];
    for (count, bytes) in hostile.iter().enumerate() {
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // It may be cut while it writes.
        let _ = stranger.write_all(bytes);
        if bytes.is_empty() {
            stranger.shutdown(Shutdown::Both).unwrap();
        }
        until("it is turned away", || {
            status(&publisher).refusals == count as u64 + 1
        });
        publisher.publish(&[7]).unwrap();
        assert_eq!(&*subscriber.receive().unwrap(), &[7]);
    }
    // A slowloris: it sends a little and then nothing.
    let mut slow = TcpStream::connect(("127.0.0.1", port)).unwrap();
    slow.write_all(b"OLIV").unwrap();
    until("the slow one is turned away", || {
        status(&publisher).refusals == 6
    });
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    publisher.publish(&[8]).unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), &[8]);
}

#[test]
fn foreign_listener_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        let _ = peer.read_to_end(&mut Vec::new());
    });
    let error = Subscriber::open(&uri(port, "")).unwrap_err().to_string();
    assert!(error.contains("does not speak the protocol"), "{error}");
    server.join().unwrap();
}

#[test]
fn side_that_connects_uses_the_address_that_bind_names() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        [(); 3].map(|()| {
            let (mut peer, from) = listener.accept().unwrap();
            peer.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
            let _ = peer.read_to_end(&mut Vec::new());
            from.ip().to_string()
        })
    });
    Subscriber::open(&uri(port, "bind=127.0.0.2")).unwrap_err();
    // An address of IPv4 in the form of IPv6 is of IPv4, on either side.
    Subscriber::open(&uri(port, "bind=::ffff:127.0.0.2")).unwrap_err();
    let far = format!("tcp://[::ffff:127.0.0.1]:{port}/test?bind=127.0.0.2");
    Subscriber::open(&far).unwrap_err();
    assert_eq!(server.join().unwrap(), ["127.0.0.2"; 3]);
    // An address for documents: no machine has it.
    let waiting = Subscriber::open(&uri(port, "bind=192.0.2.1")).unwrap();
    let note = waiting.link_status().unwrap().note;
    let expected = format!("bind=192.0.2.1 cannot be used to reach 127.0.0.1:{port}");
    assert!(note.contains(&expected), "{note}");
    let listens = Publisher::open(&uri(port, "bind=127.0.0.2")).unwrap_err();
    assert!(listens.to_string().contains("drop bind="), "{listens}");
    let portless = Subscriber::open("tcp://127.0.0.1:0/test").unwrap_err();
    assert!(
        portless.to_string().contains("names the port"),
        "{portless}"
    );
    // The family of the far side decides, also while nothing listens there.
    let waiting = Subscriber::open(&uri(port, "bind=2001:db8::7")).unwrap();
    let note = waiting.link_status().unwrap().note;
    assert!(note.contains("different families"), "{note}");
}

/// Half-open: accepted, and then silent.
#[test]
fn silent_listener_is_retried_and_reported() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let subscriber = Subscriber::open(&uri(port, "timeout=100ms")).unwrap();
    let mut held = Vec::new();
    until("it has tried twice", || {
        silent.set_nonblocking(true).unwrap();
        held.extend(silent.accept().ok());
        subscriber.link_status().unwrap().failures >= 2
    });
    let status = subscriber.link_status().unwrap();
    assert!(held.len() >= 2, "one connection was waited for for ever");
    assert_eq!(status.stage, LinkStage::Waiting, "{status:?}");
    let said = "nothing was heard for 100 ms in place of its hello";
    until("the time-out ends the wait for the hello", || {
        subscriber.link_status().unwrap().note.contains(said)
    });
}

#[test]
fn connections_that_break_lose_and_repeat_nothing() {
    for role in ["", "role=connect"] {
        let far = free_port();
        let proxy = Proxy::start(far);
        let listens = |query: &str| uri(far, query);
        let calls = |query: &str| uri(proxy.port, query);
        let (publish, subscribe) = if role.is_empty() {
            (
                listens("subscribers=1&capacity=64KiB"),
                calls("capacity=64KiB"),
            )
        } else {
            (
                calls("role=connect&subscribers=1&capacity=64KiB"),
                listens("role=listen&capacity=64KiB"),
            )
        };
        nothing_is_lost_in_cuts(&proxy, &publish, &subscribe, 60_000);
    }
}

/// The socket is full most of the time: blocks are sent in parts, and lanes open during a partial
/// block.
#[test]
fn large_messages_arrive_while_publishers_join() {
    const SIZE: usize = 8 << 10;
    const COUNTS: [u64; 4] = [14_000, 1_000, 1_000, 1_000];
    let fill = |number: u64, bytes: &mut [u8]| {
        for (at, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *word = (number << 16 | at as u64).to_le_bytes();
        }
    };
    let place = TestFolder::new();
    let port = free_port();
    let source = place.uri("flood", "");
    let config = |uri: &str| Config::parse(uri).unwrap();
    let flood = |number: usize, mut publisher: Publisher| {
        for n in 0..COUNTS[number] {
            let tag = u32::try_from(number).unwrap();
            let mut claim = publisher.claim(Outgoing::sized(SIZE).tag(tag)).unwrap();
            fill(n, &mut claim);
            claim.commit();
        }
        publisher.close().unwrap();
    };
    let first = Publisher::open(&source).unwrap();
    let bridge = Bridge::start(&config(&source), &config(&uri(port, "")), false).unwrap();
    let mut subscriber = Subscriber::open(&uri(port, "")).unwrap();
    let mut next = [0; COUNTS.len()];
    std::thread::scope(|scope| {
        scope.spawn(|| flood(0, first));
        let mut expected = vec![0; SIZE];
        while next != COUNTS {
            let message = subscriber.receive_timeout(common::WATCHDOG).unwrap();
            let message = message.expect("a message in time");
            let number = message.tag() as usize;
            fill(next[number], &mut expected);
            assert!(*message == expected, "publisher {number}: {}", next[number]);
            next[number] += 1;
            if number == 0 && next[0] % 1_000 == 0 && next[0] / 1_000 < COUNTS.len() as u64 {
                let comes = usize::try_from(next[0] / 1_000).unwrap();
                let publisher = Publisher::open(&source).unwrap();
                scope.spawn(move || flood(comes, publisher));
            }
        }
    });
    assert!(bridge.stop(common::WATCHDOG).unwrap());
}

#[test]
fn slow_remote_subscriber_gets_evicted_error() {
    let port = free_port();
    let query = "capacity=4KiB&slow=evict:50ms";
    let mut publisher = Publisher::open(&uri(port, query)).unwrap();
    let mut subscriber = Subscriber::open(&uri(port, "capacity=4KiB")).unwrap();
    until("it is there", || publisher.count_subscribers() == 1);
    let mut sent = 0_u64;
    until("it is evicted", || {
        publisher.publish(&sent.to_le_bytes()).unwrap();
        sent += 1;
        publisher.stats().evicted == 1
    });
    let mut next = 0_u64;
    let error = loop {
        match subscriber.receive() {
            Ok(received) => {
                assert_eq!(*received, next.to_le_bytes());
                next += 1;
            }
            Err(ReceiveError::Closed) => panic!("the end is not what happened"),
            Err(error) => break error,
        }
    };
    let ReceiveError::Failed(cause) = error else {
        panic!("{error:?}");
    };
    assert!(cause.to_string().contains("evicted"), "{cause}");
    assert!(next < sent);
}

fn role_setting(name: &str) -> String {
    std::env::var(name).expect("set by the parent")
}

/// The other processes.
#[test]
fn role() {
    let Some(role) = common::my_role() else {
        return;
    };
    match role.as_str() {
        "collector" => collect(
            &role_setting("TCP_TEST_FIRST"),
            &role_setting("TCP_TEST_SECOND"),
        ),
        "bridge" => bridges::role(),
        "publish" => absent::publish_role(),
        other => panic!("no role {other}"),
    }
}

/// Appends every received number to a file, before it requests the next one.
fn collect(uri: &str, file: &str) {
    let mut file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(file)
        .unwrap();
    let mut subscriber = Subscriber::open(uri).unwrap();
    while let Ok(received) = subscriber.receive() {
        file.write_all(&received).unwrap();
    }
}

#[test]
fn killed_durable_receiver_continues_at_its_position() {
    const COUNT: u64 = 40_000;
    let place = TestFolder::new();
    let port = free_port();
    let subscribe = format!(
        "{}&dir={}",
        uri(port, "name=audit&capacity=16KiB"),
        place.dir().display()
    );
    let file = place.file("numbers");
    let start = || {
        spawn(
            "collector",
            &[
                ("TCP_TEST_FIRST", subscribe.clone()),
                ("TCP_TEST_SECOND", file.display().to_string()),
            ],
        )
    };
    let length = || std::fs::metadata(&file).map_or(0, |found| found.len() / 8);
    let publish = uri(port, "capacity=16KiB&subscribers=1");
    let publishing = std::thread::spawn(move || {
        let mut publisher = Publisher::open(&publish).unwrap();
        for number in 0..COUNT {
            publisher.publish(&number.to_le_bytes()).unwrap();
        }
        publisher.close().unwrap();
    });
    let mut restarts = Vec::new();
    for round in 1..=6 {
        let collector = start();
        until("it has received more", || length() >= round * 3000);
        kill(collector);
        restarts.push(length());
    }
    let last = start();
    publishing.join().unwrap();
    common::finished(last);
    let bytes = std::fs::read(&file).unwrap();
    let numbers: Vec<u64> = bytes
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let mut next = 0;
    for (index, number) in numbers.iter().enumerate() {
        // The message that it was handling when it was killed may come again: it was not released.
        let again = restarts.contains(&(index as u64)) && number + 1 == next;
        assert!(*number == next || again, "{number} in place of {next}");
        next = number + 1;
    }
    assert_eq!(next, COUNT);
}

#[test]
fn killed_bridges_lose_and_repeat_nothing() {
    let uri = uri(free_port(), "capacity=64KiB");
    bridges::Pair::new(&uri, &uri).carry_and_kill(80_000, 8000, |_| ());
}
