//! Far sides of `tcp://` that are away or silent: what closing waits for, and what the texts say.

#![cfg(not(loom))]

use crate::common::proxy::Proxy;
use crate::common::{free_port, until};
use olivine::{LinkStage, NotSent, Publisher, Subscriber};
use std::net::TcpListener;

fn uri(port: u16, query: &str) -> String {
    format!("tcp://127.0.0.1:{port}/test?{query}")
}

/// The text named `linger=`, and no reason.
#[test]
fn close_names_the_bound_of_its_wait_and_why_it_was_in_vain() {
    let port = free_port();
    for (query, bound) in [
        ("expire=50ms", "'expire='"),
        ("linger=50ms", "'linger='"),
        ("expire=50ms&linger=1h", "'expire='"),
    ] {
        let uri = uri(port, &format!("role=connect&{query}"));
        let mut publisher = Publisher::<[u8]>::open(&uri).unwrap();
        publisher.publish(b"unsent").unwrap();
        let text = publisher.close_described(None).unwrap_err().to_string();
        for word in [
            &format!("use a longer {bound}"),
            &format!("waiting for 127.0.0.1:{port}: "),
        ] {
            assert!(text.contains(word.as_str()), "{query}: {text}");
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
