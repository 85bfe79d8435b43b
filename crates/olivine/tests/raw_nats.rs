//! The bridge of `nats://`, built as a part of another crate: what it names is public.

#![cfg(all(feature = "nats", not(loom)))]

mod common;

// What `crate::` is in the bridge.
#[allow(unused_imports, reason = "the bridge names what it needs")]
use olivine::*;

#[path = "../src/bridge"]
mod bridge {
    pub(crate) mod nats;
}

const PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

#[test]
fn nats_bridge_of_another_crate_waits_for_its_server() {
    let uri = format!("nats://127.0.0.1:{}/raw", common::free_port());
    // Closing waits so long for a server that is away.
    let config = Config::parse(&uri).unwrap().expire(Expire::After(PAUSE));
    let bridge = || bridge::nats::Nats::new(&config).unwrap();
    let ring = |name: &str| Config::new(Scheme::Inproc, name);
    let mut publisher = raw::publisher(&ring("raw-nats-out"), &uri, bridge()).unwrap();
    publisher.publish(b"kept").unwrap();
    let subscriber = raw::subscriber(&ring("raw-nats-in"), &uri, bridge()).unwrap();
    common::until("both have tried", || {
        [publisher.link_status(), subscriber.link_status()]
            .iter()
            .all(|status| status.as_ref().is_some_and(|status| status.failures > 0))
    });
    let status = publisher.link_status().unwrap();
    assert_eq!(status.stage, LinkStage::Waiting, "{}", status.note);
    assert!(status.note.contains(&uri), "{}", status.note);
}
