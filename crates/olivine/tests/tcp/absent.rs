//! Far sides of `tcp://` that are away or silent: what closing waits for, and what the texts say.

#![cfg(not(loom))]

use crate::common::proxy::Proxy;
use crate::common::{TestFolder, free_port, kill, spawn, until};
use crate::role_setting;
use olivine::{LinkStage, NotSent, Publisher, ReceiveError, Subscriber};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

/// Numbers that a publisher sends while its subscriber is away.
const UNREAD: std::ops::Range<u64> = 1..4;

fn uri(port: u16, query: &str) -> String {
    format!("tcp://127.0.0.1:{port}/test?{query}")
}

/// The next number, or `None` at the end of the stream.
fn next(subscriber: &mut Subscriber) -> Option<u64> {
    let mut number = None;
    until("a message or the end comes", || {
        match subscriber.receive_timeout(Duration::from_millis(50)) {
            Ok(received) => {
                number = received.map(|bytes| u64::from_le_bytes((*bytes).try_into().unwrap()));
                number.is_some()
            }
            Err(ReceiveError::Closed) => true,
            Err(error) => panic!("{error}"),
        }
    });
    number
}

fn numbers(publisher: &mut Publisher, numbers: std::ops::Range<u64>) {
    for number in numbers {
        publisher.publish(&number.to_le_bytes()).unwrap();
    }
}

/// Publishes 0, and waits until the far side has acknowledged it.
fn read_number(publisher: &mut Publisher) {
    numbers(publisher, 0..1);
    assert!(publisher.wait_drained(None).unwrap());
}

fn wait_for(file: &Path) {
    until("the other process has come so far", || file.exists());
}

/// A process that publishes one number, and [`UNREAD`] once a file is there. Then it is killed.
pub(crate) fn publish_role() {
    let [uri, read, go, done] =
        ["PUBLISH_URI", "PUBLISH_READ", "PUBLISH_GO", "PUBLISH_DONE"].map(role_setting);
    let mut publisher = Publisher::open(&uri).unwrap();
    read_number(&mut publisher);
    std::fs::write(read, "").unwrap();
    wait_for(Path::new(&go));
    numbers(&mut publisher, UNREAD);
    std::fs::write(done, "").unwrap();
    loop {
        std::thread::park();
    }
}

/// A listening publisher and its subscriber, both with a name, and a proxy between them.
struct Named {
    place: TestFolder,
    proxy: Proxy,
    listens: String,
    subscriber: Subscriber,
}

impl Named {
    fn new() -> Self {
        let place = TestFolder::new();
        let port = free_port();
        let proxy = Proxy::start(port);
        let dir = place.file("channels").display().to_string();
        let ends = |port, role: &str| uri(port, &format!("role={role}&name={role}&dir={dir}"));
        let subscriber = Subscriber::open(&ends(proxy.port, "connect")).unwrap();
        Self {
            listens: ends(port, "listen") + "&subscribers=1",
            place,
            proxy,
            subscriber,
        }
    }

    fn publisher(&self, query: &str) -> Publisher {
        Publisher::open(&format!("{}{query}", self.listens)).unwrap()
    }

    /// A publisher closes while the subscriber is away: the error says what is left.
    fn closes_in_vain(&self, publisher: Publisher) {
        let error = publisher.close_described(None).unwrap_err();
        assert!(
            matches!(error.error, NotSent::Unacknowledged(left) if left.messages() == 3),
            "{error}"
        );
        let text = error.to_string();
        for word in [
            "3 messages",
            "'linger='",
            "of this 'name=' delivers the rest",
        ] {
            assert!(text.contains(word), "{text}");
        }
    }

    /// The next publisher of the name waits for the subscriber, which gets the rest and the end.
    fn next_delivers(mut self) {
        let publisher = self.publisher("");
        let closing = std::thread::spawn(move || publisher.close());
        self.proxy.set_down(false);
        for number in UNREAD {
            assert_eq!(next(&mut self.subscriber), Some(number));
        }
        assert_eq!(next(&mut self.subscriber), None);
        closing.join().unwrap().unwrap();
    }
}

/// `close` of the second publisher was `Ok`, and the subscriber waited for a third one.
#[test]
fn next_publisher_of_a_name_waits_for_subscribers_of_the_one_before() {
    let mut named = Named::new();
    let mut publisher = named.publisher("&linger=50ms");
    read_number(&mut publisher);
    assert_eq!(next(&mut named.subscriber), Some(0));
    named.proxy.set_down(true);
    numbers(&mut publisher, UNREAD);
    named.closes_in_vain(publisher);
    named.closes_in_vain(named.publisher("&linger=50ms"));
    named.next_delivers();
}

/// As above, after a kill.
#[test]
fn next_publisher_of_a_killed_one_waits_for_its_subscribers() {
    let mut named = Named::new();
    let [read, go, done] = ["read", "go", "done"].map(|name| named.place.file(name));
    let text = |path: &Path| path.display().to_string();
    let process = spawn(
        "publish",
        &[
            ("PUBLISH_URI", named.listens.clone()),
            ("PUBLISH_READ", text(&read)),
            ("PUBLISH_GO", text(&go)),
            ("PUBLISH_DONE", text(&done)),
        ],
    );
    assert_eq!(next(&mut named.subscriber), Some(0));
    wait_for(&read);
    named.proxy.set_down(true);
    std::fs::write(&go, "").unwrap();
    wait_for(&done);
    kill(process);
    named.closes_in_vain(named.publisher("&linger=50ms"));
    named.next_delivers();
}

/// A subscriber that stays away does so for its `expire` in all, however many publishers come.
#[test]
fn subscriber_that_stays_away_expires_over_several_publishers() {
    let place = TestFolder::new();
    let port = free_port();
    let dir = place.file("channels").display().to_string();
    let listens = uri(port, &format!("name=listen&dir={dir}&linger=20ms"));
    let connects = uri(port, &format!("name=away&dir={dir}&expire=400ms"));
    let mut publisher = Publisher::open(&listens).unwrap();
    let mut subscriber = Subscriber::open(&connects).unwrap();
    publisher.wait_for_subscribers(1, None).unwrap();
    read_number(&mut publisher);
    assert_eq!(next(&mut subscriber), Some(0));
    drop(subscriber);
    until("it has left", || {
        publisher.link_status().unwrap().peers == 0
    });
    numbers(&mut publisher, UNREAD);
    publisher.close().unwrap_err();
    until("no publisher waits for it", || {
        Publisher::<[u8]>::open(&listens).unwrap().close().is_ok()
    });
}

/// The text said that the next publisher of the name delivers the rest.
#[test]
fn close_promises_nothing_to_a_subscriber_that_has_expired() {
    let place = TestFolder::new();
    let port = free_port();
    let dir = place.file("channels").display().to_string();
    let listens = uri(port, &format!("name=listen&dir={dir}&linger=1h"));
    let connects = uri(port, &format!("name=away&dir={dir}&expire=200ms"));
    let mut publisher = Publisher::open(&listens).unwrap();
    let mut subscriber = Subscriber::open(&connects).unwrap();
    publisher.wait_for_subscribers(1, None).unwrap();
    read_number(&mut publisher);
    assert_eq!(next(&mut subscriber), Some(0));
    drop(subscriber);
    numbers(&mut publisher, UNREAD);
    let error = publisher.close_described(None).unwrap_err();
    let NotSent::Unacknowledged(left) = error.error else {
        panic!("{error}")
    };
    assert_eq!((left.messages(), left.has_given_up()), (3, true));
    let text = error.to_string();
    let said = "delivers the rest, but not to a far side that has expired";
    assert!(text.contains(said), "{text}");
    // It says the truth: the place is gone, and nothing is left for it.
    Publisher::<[u8]>::open(&listens).unwrap().close().unwrap();
}

/// The text named `linger=`, and no reason.
#[test]
fn close_names_the_bound_of_its_wait_and_why_it_was_in_vain() {
    let port = free_port();
    for (query, bound) in [
        ("expire=50ms", "state an 'expire=' longer"),
        ("linger=50ms", "use a longer 'linger='"),
        ("expire=50ms&linger=1h", "state an 'expire=' longer"),
    ] {
        let uri = uri(port, &format!("role=connect&{query}"));
        let mut publisher = Publisher::<[u8]>::open(&uri).unwrap();
        publisher.publish(b"unsent").unwrap();
        let text = publisher.close_described(None).unwrap_err().to_string();
        for word in [bound, &format!("waiting for 127.0.0.1:{port}: ")] {
            assert!(text.contains(word), "{query}: {text}");
        }
    }
}

#[test]
fn back_pressure_says_that_the_far_side_is_away() {
    let port = free_port();
    let proxy = Proxy::start(port);
    let full = |publisher: &mut Publisher| {
        while publisher.try_publish(&[0; 512]).is_ok() {}
        publisher.describe(NotSent::BackPressured).to_string()
    };
    let connects = uri(proxy.port, "role=connect&capacity=4KiB&linger=1ms");
    let listens = uri(port, "role=listen&capacity=4KiB");
    let mut publisher = Publisher::<[u8]>::open(&connects).unwrap();
    let text = full(&mut publisher);
    assert!(
        text.contains("no far side has been connected: waiting for 127.0.0.1:"),
        "{text}"
    );
    let subscriber = Subscriber::<[u8]>::open(&listens).unwrap();
    let stage = |publisher: &Publisher| publisher.link_status().unwrap().stage;
    until("it is connected", || {
        stage(&publisher) == LinkStage::Connected
    });
    proxy.set_down(true);
    until("it is away", || stage(&publisher) == LinkStage::Waiting);
    let text = full(&mut publisher);
    assert!(
        text.contains("the link is waiting: waiting for 127.0.0.1:"),
        "{text}"
    );
    drop(subscriber);
}

/// Accepted, and then silent. The note was empty.
#[test]
fn note_says_that_the_hello_is_awaited() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let publisher = Publisher::<[u8]>::open(&uri(port, "role=connect&linger=1ms")).unwrap();
    let note = || publisher.link_status().unwrap().note;
    until("the hello is awaited", || {
        note().contains(&format!("waiting for the hello of 127.0.0.1:{port}"))
    });
}

/// It counted its own bridge, and did not wait.
#[test]
fn connecting_publisher_counts_its_far_side_once_it_is_there() {
    let port = free_port();
    let connects = uri(port, "role=connect&subscribers=1");
    let mut publisher = Publisher::<[u8]>::open(&connects).unwrap();
    assert_eq!(publisher.count_subscribers(), 0);
    let brief = Some(Duration::from_millis(1));
    assert!(!publisher.wait_for_subscribers(1, brief).unwrap());
    assert!(publisher.wait_for_subscribers(0, brief).unwrap());
    assert_eq!(publisher.try_publish(b"early"), Err(NotSent::NotConnected));
    let text = publisher.describe(NotSent::NotConnected).to_string();
    assert!(text.contains("no far side has been connected"), "{text}");
    let waiting = std::thread::spawn(move || {
        publisher.publish(b"awaited").unwrap();
        assert!(publisher.wait_for_subscribers(1, None).unwrap());
        assert_eq!(publisher.count_subscribers(), 1);
        publisher.close().unwrap();
    });
    let listens = uri(port, "role=listen");
    let mut subscriber = Subscriber::<[u8]>::open(&listens).unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"awaited");
    waiting.join().unwrap();
}
