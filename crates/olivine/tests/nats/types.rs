//! The type of a stream: who states it, and who is refused.

#![cfg(all(not(loom), feature = "nats"))]

use crate::common;
use crate::common::proxy::{Proxy, Way};
use crate::common::until;
use crate::nats_server::server;
use crate::{joined, next_number, status};
use olivine::{Bridge, Config, LinkStage, MessageType, Publisher, ReceiveError, Subscriber};

/// Subscribers of the values could not read bytes.
#[test]
fn a_publisher_of_bytes_is_refused_by_a_stream_of_values() {
    let Some(server) = server("") else {
        return;
    };
    let config = |uri: &str| Config::parse(uri).unwrap();
    let quotes = server.uri("quotes", "storage=memory");
    let quote = MessageType::new("quote v1", 8, 8).unwrap();
    let mut publisher = Publisher::open_for(&config(&quotes), &quote).unwrap();
    publisher.publish(&7_u64.to_le_bytes()).unwrap();
    publisher.close().unwrap();
    let error = Publisher::open(&quotes).unwrap_err().to_string();
    assert!(
        error.contains("quote v1") && error.contains("untyped bytes"),
        "{error}"
    );
    let mut subscriber = joined(&server.uri("quotes", "from=oldest"));
    assert_eq!(next_number(&mut subscriber), 7);
}

/// A type of one number.
fn number_type(name: &str) -> MessageType {
    MessageType::new(name, 8, 8).unwrap()
}

#[test]
fn both_ends_of_another_type_are_refused_with_both_names() {
    let Some(server) = server("") else {
        return;
    };
    let config = Config::parse(&server.uri("quotes", "storage=memory")).unwrap();
    let quote = number_type("quote v1");
    let _publisher = Publisher::open_for(&config, &quote).unwrap();
    let larger = MessageType::new("quote v1", 16, 8).unwrap();
    for (other, shown) in [
        (
            number_type("order v1"),
            "type=quote v1, this side has type=order v1: use",
        ),
        (
            larger,
            "type=quote v1 (8 bytes, aligned to 8), this side has type=quote v1 (16 bytes, \
             aligned to 8): use",
        ),
    ] {
        for refused in [
            Publisher::open_for(&config, &other).map(|_| ()),
            Subscriber::open_for(&config, &other).map(|_| ()),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(shown), "{error}");
            assert!(error.ends_with("in another stream"), "{error}");
        }
    }
    Publisher::open_for(&config, &quote).unwrap();
    Subscriber::open_for(&config, &quote).unwrap();
}

#[test]
fn publisher_adds_its_fields_to_a_stream_of_its_type_that_has_none() {
    let Some(server) = server("") else {
        return;
    };
    let config = Config::parse(&server.uri("numbers", "storage=memory")).unwrap();
    let fields_of = || {
        let info = server.ask("$JS.API.STREAM.INFO.numbers", "");
        let found = info.split("\"olivine-type-fields\":\"").nth(1);
        found.map(|rest| rest.split('"').next().unwrap_or_default().to_owned())
    };
    let with = |fields: &str| number_type("number v1").with_fields(fields).unwrap();
    Publisher::open_for(&config, &number_type("number v1")).unwrap();
    assert_eq!(fields_of(), None);
    Publisher::open_for(&config, &with("value u64")).unwrap();
    assert_eq!(fields_of().unwrap(), "value u64");
    let error = Publisher::open_for(&config, &with("value i64")).unwrap_err();
    assert!(
        error.to_string().contains("(value u64 at byte 0)"),
        "{error}"
    );
    // A later version has written what this one cannot read.
    let later = server.ask("$JS.API.STREAM.INFO.numbers", "");
    let start = later.find("\"config\":").unwrap() + "\"config\":".len();
    let end = start + later[start..].find(",\"created\"").unwrap();
    let changed = later[start..end].replace("value u64", "value u128");
    server.ask("$JS.API.STREAM.UPDATE.numbers", &changed);
    assert_eq!(fields_of().unwrap(), "value u128");
    Publisher::open_for(&config, &with("value i64")).unwrap();
    assert_eq!(fields_of().unwrap(), "value u128");
}

#[test]
fn fields_that_a_later_publisher_adds_are_compared_at_its_first_message() {
    let Some(server) = server("") else {
        return;
    };
    let config = |query: &str| Config::parse(&server.uri("late", query)).unwrap();
    let with = |fields: &str| number_type("number v1").with_fields(fields).unwrap();
    let made = config("storage=memory");
    let _first = Publisher::open_for(&made, &number_type("number v1")).unwrap();
    let from = config("from=oldest");
    let mut early = Subscriber::open_for(&from, &with("value i64")).unwrap();
    until("it is connected", || {
        early.link_status().unwrap().stage == LinkStage::Connected
    });
    let mut later = Publisher::open_for(&made, &with("value u64")).unwrap();
    later.publish(&7_u64.to_le_bytes()).unwrap();
    let refused = early.receive_timeout(common::WATCHDOG).map(|_| ());
    let ReceiveError::Failed(refused) = refused.unwrap_err() else {
        panic!("not a failure of the bridge");
    };
    let next = Subscriber::open_for(&from, &with("value i64")).map(|_| ());
    for error in [refused.to_string(), next.unwrap_err().to_string()] {
        for named in ["(value u64 at byte 0)", "(value i64 at byte 0)"] {
            assert!(error.contains(named), "{error}");
        }
    }
}

/// A regression: a publisher that stated fields was refused by a stream that it may not change.
#[test]
fn publisher_whose_fields_no_stream_takes_goes_on_without() {
    let users = "authorization { users = [ { user: admin, password: p }, { user: writer, \
    password: p, permissions: { publish: { allow: \">\", deny: \"$JS.API.STREAM.UPDATE.*\" } } } \
    ] }";
    let Some(server) = server(users) else {
        return;
    };
    let config = |channel: &str, user: &str| {
        let query = format!("user={user}&password=p&storage=memory&timeout=500ms");
        Config::parse(&server.uri(channel, &query)).unwrap()
    };
    let plain = number_type("number v1");
    let stating = plain.clone().with_fields("value u64").unwrap();
    let mut first = Publisher::open_for(&config("fixed", "admin"), &plain).unwrap();
    first.publish(&7_u64.to_le_bytes()).unwrap();
    let mut publisher = Publisher::open_for(&config("fixed", "writer"), &stating).unwrap();
    publisher.publish(&8_u64.to_le_bytes()).unwrap();
    let mut subscriber = joined(&server.uri("fixed", "user=admin&password=p&from=oldest"));
    // Two publishers have no order.
    let mut found = [0, 0].map(|_| next_number(&mut subscriber));
    found.sort_unstable();
    assert_eq!(found, [7, 8]);
}

/// It kept its durable name in the ring, and publishers waited for it.
#[test]
fn refused_bridge_leaves_nothing_that_holds_publishers_back() {
    let Some(server) = server("") else {
        return;
    };
    let quotes = Config::parse(&server.uri("quotes", "storage=memory")).unwrap();
    let _quotes = Publisher::open_for(&quotes, &number_type("quote v1")).unwrap();
    let place = common::TestFolder::new();
    let ring = place.uri("ticks", "capacity=4KiB");
    let mut publisher = Publisher::open(&ring).unwrap();
    let error = Bridge::start(&Config::parse(&ring).unwrap(), &quotes, false).unwrap_err();
    assert!(error.to_string().contains("quote v1"), "{error}");
    for _ in 0..1_000 {
        publisher
            .publish_timeout(&[0; 24], common::WATCHDOG)
            .unwrap();
    }
}

/// A subscriber of values stated its type, and the publishers of bytes were refused from then on.
#[test]
fn subscriber_of_values_leaves_a_stream_of_bytes_to_its_publishers() {
    let Some(server) = server("") else {
        return;
    };
    let uri = server.uri("bytes", "storage=memory");
    let config = Config::parse(&uri).unwrap();
    let quote = number_type("quote v1");
    let _first = Publisher::open(&uri).unwrap();
    let early = Subscriber::open_for(&config, &quote).unwrap();
    until("it is connected", || {
        status(&early).stage == LinkStage::Connected
    });
    let mut publisher = Publisher::open(&uri).unwrap();
    publisher.publish(&7_u64.to_le_bytes()).unwrap();
    let from = Config::parse(&server.uri("bytes", "from=oldest")).unwrap();
    let mut subscriber = Subscriber::open_for(&from, &quote).unwrap();
    assert_eq!(next_number(&mut subscriber), 7);
    Publisher::open(&uri).unwrap();
}

/// Subscribers of the values could not read the bytes before them.
#[test]
fn publisher_of_values_is_refused_by_a_stream_that_has_had_bytes() {
    let Some(server) = server("") else {
        return;
    };
    let quote = number_type("quote v1");
    for (channel, is_purged) in [("kept", false), ("purged", true)] {
        let uri = server.uri(channel, "storage=memory");
        let config = Config::parse(&uri).unwrap();
        let mut publisher = Publisher::open(&uri).unwrap();
        publisher.publish(b"bytes").unwrap();
        publisher.close().unwrap();
        if is_purged {
            let purged = server.ask(&format!("$JS.API.STREAM.PURGE.{channel}"), "");
            assert!(purged.contains("\"success\":true"), "{purged}");
        }
        let error = Publisher::open_for(&config, &quote)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("type=untyped bytes") && error.contains("type=quote v1"),
            "{error}"
        );
        Publisher::open(&uri).unwrap();
    }
    // Its subscriber made it, and nothing was published yet.
    let uri = server.uri("new", "storage=memory");
    let mut subscriber = joined(&uri);
    let mut publisher = Publisher::open_for(&Config::parse(&uri).unwrap(), &quote).unwrap();
    publisher.publish(&7_u64.to_le_bytes()).unwrap();
    assert_eq!(next_number(&mut subscriber), 7);
    Publisher::open(&uri).unwrap_err();
}

/// The reply to the first one's statement showed its own type, after the second one's.
#[test]
fn publisher_whose_type_another_client_replaces_at_once_is_refused() {
    let Some(server) = server("") else {
        return;
    };
    let stream = |metadata: &str| {
        format!(
            "{{\"name\":\"raced\",\"subjects\":[\"raced\"],\"storage\":\"memory\",\
             \"metadata\":{{{metadata}}}}}"
        )
    };
    let made = server.ask("$JS.API.STREAM.CREATE.raced", &stream(""));
    assert!(made.contains("\"subjects\":[\"raced\"]"), "{made}");
    let proxy = Proxy::start(server.port);
    let uri = format!("nats://127.0.0.1:{}/raced", proxy.port);
    let orders =
        stream("\"olivine-type-hash\":\"0000000000000009\",\"olivine-type-name\":\"order v1\"");
    proxy.rewrite(Way::FromListener, move |bytes| {
        let reply = String::from_utf8_lossy(bytes);
        if reply.contains("stream_update_response") {
            let changed = server.ask("$JS.API.STREAM.UPDATE.raced", &orders);
            assert!(changed.contains("order v1"), "{changed}");
        }
        bytes.to_vec()
    });
    let config = Config::parse(&uri).unwrap();
    let error = Publisher::open_for(&config, &number_type("quote v1"));
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("type=order v1") && error.contains("type=quote v1"),
        "{error}"
    );
}
