//! `nats://` with wrong settings, absent, full or killed servers, and killed processes.

#![cfg(all(not(loom), feature = "nats"))]

#[path = "../common/mod.rs"]
mod common;
mod failures;
#[path = "../nats_server/mod.rs"]
mod nats_server;
mod security;
mod types;

use common::{Busy, bridges, until};
use nats_server::{Server, cluster, server};
use olivine::{
    Bridge, Config, LinkError, LinkStage, LinkStatus, OpenError, Outgoing, Publisher, ReceiveError,
    Subscriber,
};

/// The other processes.
#[test]
fn role() {
    if common::my_role().is_some() {
        bridges::role();
    }
}

fn status(subscriber: &Subscriber) -> LinkStatus {
    subscriber.link_status().expect("a bridge")
}

/// A subscriber whose consumer exists at the server: it gets every later message.
fn joined(uri: &str) -> Subscriber {
    let subscriber = Subscriber::open(uri).expect("a subscriber");
    until("it is connected", || {
        status(&subscriber).stage == LinkStage::Connected
    });
    subscriber
}

fn publish_numbers(uri: String, count: u64) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut publisher = Publisher::open(&uri).expect("a publisher");
        for number in 0..count {
            publisher.publish(&number.to_le_bytes()).expect("room");
        }
        publisher.close().expect("a good end");
    })
}

fn next_number(subscriber: &mut Subscriber) -> u64 {
    let received = subscriber.receive_timeout(2 * common::WATCHDOG);
    let received = received.expect("no error").expect("a message in time");
    u64::from_le_bytes((*received).try_into().expect("eight bytes"))
}

#[test]
fn wrong_credentials_are_refused_and_the_right_ones_served() {
    let users = "authorization { users = [ { user: audit, password: sesame } ] }";
    let Some(server) = server(users) else {
        return;
    };
    for query in ["", "user=audit&password=wrong", "token=sesame"] {
        let error = Publisher::open(&server.uri("secret", query)).unwrap_err();
        let OpenError::Link(LinkError::Refused { far, reason }) = &error else {
            panic!("{query}: {error:?}");
        };
        assert!(far.starts_with("nats://127.0.0.1"), "{far}");
        assert!(
            reason.contains("user=") && !reason.contains("wrong"),
            "{reason}"
        );
    }
    let uri = server.uri("secret", "user=audit&password=sesame");
    let mut subscriber = joined(&uri);
    let mut publisher = Publisher::open(&uri).unwrap();
    publisher.publish(b"open").unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"open");
    assert!(!format!("{publisher:?}").contains("sesame"));
}

#[test]
fn missing_stream_permission_is_reported() {
    let users = "authorization { users = [ { user: reader, password: p, permissions: { publish: \
    [\"$JS.API.STREAM.INFO.*\", \"$JS.API.STREAM.NAMES\"] } } ] }";
    let Some(server) = server(users) else {
        return;
    };
    let uri = server.uri("closed", "user=reader&password=p&timeout=500ms");
    let subscriber = Subscriber::open(&uri);
    let failure = match subscriber {
        Err(OpenError::Link(error)) => error,
        Err(error) => panic!("{error:?}"),
        Ok(mut subscriber) => match subscriber.receive() {
            Err(ReceiveError::Failed(error)) => error,
            other => panic!("{other:?}"),
        },
    };
    assert!(
        matches!(&failure, LinkError::Refused { reason, .. }
            if reason.contains("STREAM.CREATE.closed")),
        "{failure:?}"
    );
}

#[test]
fn a_stream_with_other_settings_is_refused_with_key_and_values() {
    let Some(server) = server("") else {
        return;
    };
    let _first = joined(&server.uri("ticks", "max_bytes=1MiB&storage=memory"));
    for (query, expected) in [
        ("max_bytes=2MiB", "max_bytes=1048576"),
        ("max_messages=7", "max_messages=-1"),
        ("storage=file", "storage=memory"),
        ("retention=interest", "retention=limits"),
        ("replicas=3", "replicas=1"),
        ("max_age=1h", "max_age=0ns"),
        ("duplicates=1s", "duplicates=120s"),
    ] {
        let error = Publisher::open(&server.uri("ticks", query)).unwrap_err();
        assert!(error.to_string().contains(expected), "{query}: {error}");
    }
    let second = Publisher::open(&server.uri("ticks", "max_bytes=1MiB")).unwrap();
    assert_ne!(second.link_status().unwrap().stage, LinkStage::Failed);
}

#[test]
fn too_long_message_is_an_error_with_the_limit() {
    let Some(server) = server("max_payload: 4096") else {
        return;
    };
    let mut publisher = Publisher::open(&server.uri("big", "")).unwrap();
    publisher.publish(&[1; 3000]).unwrap();
    publisher.publish(&[1; 5000]).unwrap();
    until("it has failed", || publisher.link_failure().is_some());
    let failure = publisher.link_failure().unwrap().to_string();
    assert!(
        failure.contains("5000 bytes") && failure.contains("max_payload"),
        "{failure}"
    );
}

#[test]
fn late_server_is_waited_for() {
    let Some(mut server) = server("") else {
        return;
    };
    server.kill();
    let uri = server.uri("late", "timeout=1s");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let publishing = publish_numbers(format!("{uri}&subscribers=1"), 10);
    until("it says that it waits", || {
        let status = status(&subscriber);
        status.stage == LinkStage::Waiting && status.note.contains("waiting for nats://")
    });
    server.start();
    for number in 0..10 {
        assert_eq!(next_number(&mut subscriber), number);
    }
    publishing.join().unwrap();
    assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
}

#[test]
fn killed_server_loses_and_repeats_nothing() {
    const COUNT: u64 = 30_000;
    let Some(mut server) = server("") else {
        return;
    };
    let uri = server.uri("killed", "timeout=1s");
    let mut subscriber = joined(&uri);
    let publishing = publish_numbers(uri, COUNT);
    for number in 0..COUNT {
        assert_eq!(next_number(&mut subscriber), number);
        if number % 8000 == 4000 {
            server.kill();
            server.start();
        }
    }
    publishing.join().unwrap();
    assert!(
        status(&subscriber).failures > 0,
        "{:?}",
        status(&subscriber)
    );
    until("every message is counted, once", || {
        status(&subscriber).messages == COUNT
    });
}

#[test]
fn full_stream_holds_the_publisher_back() {
    full_stream_loses_nothing("", "&max_bytes=16KiB", "\"max_bytes\":16384,", 5000);
}

#[test]
fn stream_with_the_most_messages_holds_the_publisher_back() {
    full_stream_loses_nothing("", "&max_messages=64", "\"max_msgs\":64,", 1000);
}

/// The server answers with another code than for a full stream, and the bridge ended.
#[test]
fn full_account_holds_the_publisher_back() {
    let account = "accounts { A { jetstream { max_file: 20000, max_mem: 20000 }, \
                   users: [{ user: a, password: a }] } }\nno_auth_user: a\n";
    full_stream_loses_nothing(account, "", "\"max_bytes\":-1,", 5000);
}

/// All of `count` messages arrive in order through a stream with the limit `limit`, which the
/// server shows as `shown`; `config` is added to the server's.
fn full_stream_loses_nothing(config: &str, limit: &str, shown: &str, count: u64) {
    let Some(server) = server(config) else {
        return;
    };
    let uri = server.uri("full", &format!("retention=interest{limit}&capacity=16KiB"));
    let mut subscriber = joined(&uri);
    let publishing = publish_numbers(uri, count);
    let mut said = false;
    for number in 0..count {
        assert_eq!(next_number(&mut subscriber), number);
        if number == 0 {
            until("the server is full of unread messages", || {
                let info = server.ask("$JS.API.STREAM.INFO.full", "");
                info.contains("\"messages\":") && !info.contains("\"messages\":0,")
            });
            said = true;
        }
    }
    publishing.join().unwrap();
    assert!(said);
    until("every message is counted, once", || {
        status(&subscriber).messages == count
    });
    let info = server.ask("$JS.API.STREAM.INFO.full", "");
    assert!(info.contains(shown), "{info}");
}

#[test]
fn other_clients_send_and_receive() {
    let Some(server) = server("") else {
        return;
    };
    let uri = server.uri("shared", "");
    let mut subscriber = joined(&uri);
    let answer = server.ask("shared", "from elsewhere");
    assert!(answer.contains("\"stream\":\"shared\""), "{answer}");
    assert_eq!(&*subscriber.receive().unwrap(), b"from elsewhere");
    let mut publisher = Publisher::open(&uri).unwrap();
    publisher
        .publish(Outgoing::new(b"from here").tag(7))
        .unwrap();
    let received = subscriber.receive().unwrap();
    assert_eq!((received.tag(), &*received), (7, &b"from here"[..]));
    let stored = server.ask("$JS.API.STREAM.MSG.GET.shared", "{\"seq\":2}");
    // "from here", as the server's interface encodes it.
    assert!(stored.contains("\"data\":\"ZnJvbSBoZXJl\""), "{stored}");
}

#[test]
fn durable_subscriber_continues_where_it_was() {
    let Some(server) = server("") else {
        return;
    };
    let place = common::TestFolder::new();
    let query = format!("name=audit&dir={}", place.dir().display());
    let uri = server.uri("durable", &query);
    let mut publisher = Publisher::open(&server.uri("durable", "")).unwrap();
    for round in 0..5_u64 {
        let mut subscriber = joined(&uri);
        for number in round * 100..round * 100 + 100 {
            publisher.publish(&number.to_le_bytes()).unwrap();
        }
        // Half of them are read now, the others by the next subscriber.
        let first = round * 100 - if round > 0 { 50 } else { 0 };
        for number in first..round * 100 + 50 {
            assert_eq!(next_number(&mut subscriber), number);
        }
        subscriber.close();
    }
}

#[test]
fn a_durable_name_is_for_one_subscriber_at_a_time() {
    let Some(server) = server("") else {
        return;
    };
    // As on two machines.
    let places = [common::TestFolder::new(), common::TestFolder::new()];
    let [first, second] = places.each_ref().map(|place| {
        let query = format!("name=au_d.it&dir={}", place.dir().display());
        server.uri("single", &query)
    });
    let first = joined(&first);
    let mut publisher = Publisher::open(&server.uri("single", "")).unwrap();
    let mut second = Subscriber::open(&second).unwrap();
    until("it says that the name is in use", || {
        let status = status(&second);
        status.stage == LinkStage::Waiting && status.note.contains("use another 'name='")
    });
    drop(first);
    until("it is connected", || {
        status(&second).stage == LinkStage::Connected
    });
    publisher.publish(b"for the second").unwrap();
    assert_eq!(&*second.receive().unwrap(), b"for the second");
}

#[test]
fn removed_messages_are_reported_as_lost() {
    let Some(server) = server("") else {
        return;
    };
    let place = common::TestFolder::new();
    let query = format!("name=audit&dir={}", place.dir().display());
    let uri = server.uri("purged", &query);
    let mut publisher = Publisher::open(&server.uri("purged", "")).unwrap();
    let mut subscriber = joined(&uri);
    publisher.publish(b"read").unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"read");
    subscriber.close();
    let acknowledged = publisher.link_status().unwrap().acknowledged_bytes;
    publisher.publish(b"lost").unwrap();
    until("it is stored", || {
        publisher.link_status().unwrap().acknowledged_bytes > acknowledged
    });
    let purged = server.ask("$JS.API.STREAM.PURGE.purged", "");
    assert!(purged.contains("\"success\":true"), "{purged}");
    publisher.publish(b"kept").unwrap();
    let lost = match Subscriber::open(&uri) {
        Err(OpenError::Link(error)) => error,
        Err(error) => panic!("{error:?}"),
        Ok(mut subscriber) => match subscriber.receive_timeout(common::WATCHDOG) {
            Err(ReceiveError::Failed(error)) => error,
            other => panic!("{other:?}"),
        },
    };
    assert!(matches!(lost, LinkError::Lost { .. }), "{lost:?}");
    let mut again = joined(&uri);
    publisher.publish(b"from then on").unwrap();
    until("the newest message", || {
        &*again.receive().unwrap() == b"from then on"
    });
}

#[test]
fn subscriber_of_a_purged_stream_gets_the_loss() {
    let Some(server) = server("") else {
        return;
    };
    let place = common::TestFolder::new();
    let query = format!("name=audit&dir={}", place.dir().display());
    let uri = server.uri("emptied", &query);
    let mut publisher = Publisher::open(&server.uri("emptied", "")).unwrap();
    let mut subscriber = joined(&uri);
    publisher.publish(b"read").unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"read");
    subscriber.close();
    let stored = |publisher: &Publisher| publisher.link_status().unwrap().acknowledged_bytes;
    let before = stored(&publisher);
    publisher.publish(b"purged").unwrap();
    until("it is stored", || stored(&publisher) > before);
    let purged = server.ask("$JS.API.STREAM.PURGE.emptied", "");
    assert!(purged.contains("\"success\":true"), "{purged}");
    publisher.close().unwrap();
    let mut subscriber = Subscriber::open(&uri).unwrap();
    match subscriber.receive_timeout(common::WATCHDOG) {
        Err(ReceiveError::Failed(LinkError::Lost { position, .. })) => assert!(position > 0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn publisher_status_warns_of_unsynced_server() {
    let Some(server) = server("") else {
        return;
    };
    for (storage, says) in [("file", true), ("memory", false)] {
        let uri = server.uri(storage, &format!("storage={storage}"));
        let publisher = Publisher::open(&uri).unwrap();
        until("it is connected", || {
            publisher.link_status().unwrap().stage == LinkStage::Connected
        });
        let note = publisher.link_status().unwrap().note;
        assert_eq!(note.contains("sync_interval: always"), says, "{note}");
    }
}

#[test]
fn subscriber_of_a_truncated_stream_receives_later_messages() {
    let Some(mut server) = server("") else {
        return;
    };
    let uri = server.uri("rewound", "timeout=1s");
    let publish = |first: u64, count: u64| {
        let mut publisher = Publisher::open(&uri).expect("a publisher");
        for number in first..first + count {
            publisher.publish(&number.to_le_bytes()).expect("room");
        }
        publisher
    };
    let mut subscriber = joined(&uri);
    let first = publish(0, 1);
    assert_eq!(next_number(&mut subscriber), 0);
    server.kill();
    server.keep();
    server.start();
    let second = publish(1, 100);
    for number in 1..101 {
        assert_eq!(next_number(&mut subscriber), number);
    }
    until("all of it is acknowledged", || {
        second.link_status().unwrap().acknowledged_bytes >= 1600
    });
    server.kill();
    server.go_back();
    server.start();
    // The stream reuses sequence numbers.
    let third = publish(101, 20);
    for number in 101..121 {
        assert_eq!(next_number(&mut subscriber), number);
    }
    for publisher in [first, second, third] {
        publisher.close().expect("a good end");
    }
    until("the end is reported", || {
        matches!(subscriber.try_receive(), Err(ReceiveError::Closed))
    });
}

#[test]
fn subscriber_to_other_clients_gets_truncation_error() {
    let publish = |server: &Server, first: u64, count: u64| {
        for number in first..first + count {
            let text = format!("{number:08}");
            let stored = server.ask("told", &text);
            assert!(stored.contains("seq"), "{stored}");
        }
    };
    let Some(mut server) = server("") else {
        return;
    };
    let uri = server.uri("told", "timeout=1s");
    let mut subscriber = joined(&uri);
    publish(&server, 0, 1);
    server.kill();
    server.keep();
    server.start();
    publish(&server, 1, 20);
    for number in 0..21 {
        let received = subscriber.receive_timeout(2 * common::WATCHDOG);
        let received = received.unwrap().expect("a message in time");
        assert_eq!(&*received, format!("{number:08}").as_bytes());
    }
    server.kill();
    server.go_back();
    server.start();
    publish(&server, 21, 5);
    match subscriber.receive_timeout(2 * common::WATCHDOG) {
        Err(ReceiveError::Failed(LinkError::Lost { problem, .. })) => {
            assert!(problem.contains("lost its last messages"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn subscriber_of_a_recreated_stream_receives_other_clients() {
    let Some(server) = server("") else {
        return;
    };
    let mut subscriber = joined(&server.uri("anew", "timeout=1s"));
    let mut receive = |expected: &[u8]| {
        let received = subscriber.receive_timeout(2 * common::WATCHDOG);
        assert_eq!(&*received.unwrap().expect("a message in time"), expected);
    };
    for text in ["one", "two"] {
        let stored = server.ask("anew", text);
        assert!(stored.contains("seq"), "{stored}");
        receive(text.as_bytes());
    }
    let gone = server.ask("$JS.API.STREAM.DELETE.anew", "");
    assert!(gone.contains("true"), "{gone}");
    let stream = r#"{"name":"anew","subjects":["anew"]}"#;
    server.ask("$JS.API.STREAM.CREATE.anew", stream);
    // Its number in the new stream is that of a message of the old one.
    let stored = server.ask("anew", "three");
    assert!(stored.contains("seq"), "{stored}");
    receive(b"three");
}

#[test]
fn publisher_status_reports_missing_acknowledgements() {
    let Some(server) = server("") else {
        return;
    };
    let stream = r#"{"name":"mute","subjects":["mute"],"no_ack":true}"#;
    let made = server.ask("$JS.API.STREAM.CREATE.mute", stream);
    assert!(made.contains("\"created\""), "{made}");
    let mut publisher = Publisher::open(&server.uri("mute", "timeout=200ms&linger=1ms")).unwrap();
    publisher.publish(b"unheard").unwrap();
    until("the note says so", || {
        let note = publisher.link_status().unwrap().note;
        note.contains("acknowledged no message") && note.contains("critical write error")
    });
}

#[test]
fn killed_bridges_lose_and_repeat_nothing() {
    let Some(server) = server("") else {
        return;
    };
    let uri = server.uri("carried", "capacity=64KiB&timeout=1s");
    // Otherwise the later bridge would start with the next message.
    let back = format!("{uri}&from=oldest");
    bridges::Pair::new(&uri, &back).carry_and_kill(40_000, 6000, |_| ());
}

/// It waited for the next message: every end was acknowledged by the bridge before it.
#[test]
fn bridge_whose_predecessor_acknowledged_the_end_ends() {
    let Some(server) = server("") else {
        return;
    };
    let place = common::TestFolder::new();
    let to = place.uri("to", "");
    let uri = server.uri("over", "timeout=1s");
    let config = |uri: &str| Config::parse(uri).unwrap();
    let mut subscriber = Subscriber::open(&to).unwrap();
    let from = config(&format!("{uri}&from=oldest"));
    let first = Bridge::start(&from, &config(&to), false).unwrap();
    publish_numbers(uri, 10).join().unwrap();
    for number in 0..10 {
        assert_eq!(next_number(&mut subscriber), number);
    }
    let end = subscriber.receive_timeout(common::WATCHDOG);
    assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
    assert!(first.stop(common::WATCHDOG).unwrap());
    for _later in 0..2 {
        let bridge = Bridge::start(&from, &config(&to), true).unwrap();
        until("it has ended", || bridge.has_ended());
        assert_eq!(bridge.status().messages, 0);
        assert!(bridge.stop(common::WATCHDOG).unwrap());
    }
}

#[test]
fn publishing_bridge_ends_on_request_while_its_publisher_continues() {
    let Some(server) = server("") else {
        return;
    };
    let place = common::TestFolder::new();
    let ring = place.uri("busy", "capacity=64KiB");
    let uri = server.uri("busy", "timeout=1s");
    let mut subscriber = joined(&uri);
    let config = |uri: &str| Config::parse(uri).unwrap();
    let start = || Bridge::start(&config(&ring), &config(&uri), true).unwrap();
    let mut publisher = None;
    let mut expected = 0;
    for _ in 0..3 {
        let bridge = start();
        let busy = publisher.get_or_insert_with(|| Busy::start(&ring, 8));
        for _ in 0..5000 {
            assert_eq!(next_number(&mut subscriber), expected);
            expected += 1;
        }
        bridge.ask_to_finish();
        until("it has ended", || bridge.has_ended());
        assert!(bridge.stop(common::WATCHDOG).unwrap());
        assert!(busy.is_running());
    }
    let bridge = start();
    let published = publisher.unwrap().stop();
    while expected < published {
        assert_eq!(next_number(&mut subscriber), expected);
        expected += 1;
    }
    until("it has ended", || bridge.has_ended());
    assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
}

fn leader(server: &Server, stream: &str) -> Option<String> {
    let info = server.ask(&format!("$JS.API.STREAM.INFO.{stream}"), "");
    let (_, rest) = info.split_once("\"leader\":\"")?;
    Some(rest.split_once('"')?.0.to_owned())
}

#[test]
fn cluster_with_killed_leaders_loses_and_repeats_nothing() {
    const COUNT: u64 = 100_000;
    let Some(mut servers) = cluster() else {
        return;
    };
    let others: Vec<_> = servers[1..]
        .iter()
        .map(|server| format!("127.0.0.1:{}", server.port))
        .collect();
    let query = format!("replicas=3&timeout=2s&servers={}", others.join(","));
    let uri = servers[0].uri("cluster", &query);
    let mut subscriber = joined(&uri);
    let publishing = publish_numbers(uri, COUNT);
    let mut killed = None;
    for number in 0..COUNT {
        assert_eq!(next_number(&mut subscriber), number);
        if [20_000, 60_000].contains(&number) {
            let mut found = None;
            until("the stream has a leader", || {
                let alive = (0..3).find(|index| Some(*index) != killed);
                found = leader(&servers[alive.expect("two live")], "cluster");
                found.is_some()
            });
            let at = servers
                .iter()
                .position(|server| Some(server.name()) == found);
            let at = at.expect("one of ours");
            if let Some(back) = killed.replace(at) {
                servers[back].start();
            }
            servers[at].kill();
        }
    }
    publishing.join().unwrap();
    until("every message is counted, once", || {
        status(&subscriber).messages == COUNT
    });
}
