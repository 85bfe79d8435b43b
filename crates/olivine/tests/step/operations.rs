//! The operations that are killed everywhere.

use crate::scene::{Handles, Operation, Scene, childs};
use olivine::{Publisher, Subscriber};
use std::time::Duration;

/// Messages that the child has sent, for certain, when it is killed in `operation`, or behind it.
pub(crate) fn acknowledged(operation: &Operation, done: bool) -> u64 {
    match operation.name {
        "attach to a dead lane" => 3,
        "publish" | "claim and commit" | "batch" | "wake" => PREPARED + u64::from(done),
        "detach a publisher" | "wait for room, reclaim" => PREPARED,
        _ => 0,
    }
}

/// Messages a publishing child sends beforehand.
const PREPARED: u64 = 3;

fn nothing(_: &mut Scene) {}

fn idle(_: &str, _: &mut Handles) {}

fn publisher(uri: &str, handles: &mut Handles) {
    let mut publisher = Publisher::open(uri).unwrap();
    for number in 0..PREPARED {
        publisher.publish(&childs(number)).unwrap();
    }
    handles.publisher = Some(publisher);
}

fn open_publisher(uri: &str, handles: &mut Handles) -> Result<(), String> {
    let publisher = Publisher::open(uri).map_err(|error| error.to_string())?;
    handles.publisher = Some(publisher);
    Ok(())
}

fn open_subscriber(uri: &str, handles: &mut Handles) -> Result<(), String> {
    let uri = format!("{uri}&from=oldest");
    let subscriber = Subscriber::open(&uri).map_err(|error| error.to_string())?;
    handles.subscriber = Some(subscriber);
    Ok(())
}

fn subscriber(uri: &str, handles: &mut Handles) {
    open_subscriber(uri, handles).unwrap();
}

fn of(handles: &mut Handles) -> &mut Publisher {
    handles.publisher.as_mut().unwrap()
}

pub(crate) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "create by publishing",
        query: "",
        bystanders: false,
        before: nothing,
        prepare: idle,
        ready: nothing,
        act: open_publisher,
    },
    Operation {
        name: "create by subscribing",
        query: "",
        bystanders: false,
        before: nothing,
        prepare: idle,
        ready: nothing,
        act: open_subscriber,
    },
    Operation {
        name: "attach a publisher",
        query: "",
        bystanders: true,
        before: nothing,
        prepare: idle,
        ready: nothing,
        act: open_publisher,
    },
    Operation {
        name: "attach to a dead lane",
        query: "",
        bystanders: true,
        before: Scene::leave_a_stale_lane,
        prepare: idle,
        ready: nothing,
        act: open_publisher,
    },
    Operation {
        name: "attach a subscriber",
        query: "",
        bystanders: true,
        before: nothing,
        prepare: idle,
        ready: nothing,
        act: open_subscriber,
    },
    Operation {
        name: "attach to a dead slot",
        query: "",
        bystanders: true,
        before: Scene::leave_a_dead_subscriber,
        prepare: idle,
        ready: nothing,
        act: open_subscriber,
    },
    Operation {
        name: "come back as durable",
        query: "",
        bystanders: true,
        before: Scene::leave_a_durable_place,
        prepare: idle,
        ready: nothing,
        act: |uri, handles| {
            let uri = format!("{uri}&name=durable");
            let subscriber = Subscriber::open(&uri).map_err(|error| error.to_string())?;
            handles.subscriber = Some(subscriber);
            Ok(())
        },
    },
    Operation {
        name: "publish",
        query: "",
        bystanders: true,
        before: nothing,
        prepare: publisher,
        ready: nothing,
        act: |_, handles| {
            of(handles).offer(&childs(PREPARED)).unwrap();
            Ok(())
        },
    },
    Operation {
        name: "claim and commit",
        query: "",
        bystanders: true,
        before: nothing,
        prepare: publisher,
        ready: nothing,
        act: |_, handles| {
            let message = childs(PREPARED);
            let mut claim = of(handles).claim(message.len()).unwrap();
            claim.copy_from_slice(&message);
            claim.commit();
            Ok(())
        },
    },
    Operation {
        name: "batch",
        query: "",
        bystanders: true,
        before: nothing,
        prepare: publisher,
        ready: nothing,
        act: |_, handles| {
            let mut batch = of(handles).batch();
            batch.push(&childs(PREPARED)).unwrap();
            batch.commit();
            Ok(())
        },
    },
    Operation {
        name: "wake",
        query: "",
        bystanders: true,
        before: nothing,
        prepare: publisher,
        ready: Scene::fall_asleep,
        act: |_, handles| {
            of(handles).offer(&childs(PREPARED)).unwrap();
            Ok(())
        },
    },
    Operation {
        name: "wait for room, reclaim",
        query: "",
        bystanders: true,
        before: Scene::leave_a_dead_subscriber,
        prepare: publisher,
        ready: nothing,
        // The bystander reads nothing meanwhile, so room never comes; the dead one is found and cleared.
        act: |_, handles| {
            let long = Duration::from_millis(100);
            let _ = of(handles).wait_for_room(4000, Some(long));
            Ok(())
        },
    },
    Operation {
        name: "evict",
        query: "&slow=evict:1ns",
        bystanders: false,
        before: nothing,
        prepare: |uri, handles| {
            subscriber(uri, handles);
            handles.publisher = Some(Publisher::open(uri).unwrap());
        },
        ready: nothing,
        act: |_, handles| {
            let long = Duration::from_secs(1);
            for _ in 0..3 {
                of(handles).publish_timeout(&[7; 2000], long).unwrap();
            }
            Ok(())
        },
    },
    Operation {
        name: "poll and release",
        query: "",
        bystanders: true,
        before: nothing,
        prepare: subscriber,
        ready: nothing,
        act: |_, handles| {
            let subscriber = handles.subscriber.as_mut().unwrap();
            subscriber
                .poll(|message| assert_eq!(message.len(), 96), 64)
                .unwrap();
            Ok(())
        },
    },
    Operation {
        name: "park",
        query: "",
        bystanders: true,
        before: nothing,
        prepare: |uri, handles| {
            handles.subscriber = Some(Subscriber::open(uri).unwrap());
        },
        ready: nothing,
        act: |_, handles| {
            let subscriber = handles.subscriber.as_mut().unwrap();
            subscriber
                .receive_timeout(Duration::from_millis(250))
                .unwrap();
            Ok(())
        },
    },
    Operation {
        name: "detach a publisher",
        query: "",
        bystanders: true,
        before: nothing,
        prepare: publisher,
        ready: nothing,
        act: |_, handles| {
            drop(handles.publisher.take());
            Ok(())
        },
    },
    Operation {
        name: "detach a subscriber",
        query: "",
        bystanders: true,
        before: nothing,
        prepare: subscriber,
        ready: nothing,
        act: |_, handles| {
            drop(handles.subscriber.take());
            Ok(())
        },
    },
    Operation {
        name: "the last one out",
        query: "",
        bystanders: false,
        before: nothing,
        prepare: |uri, handles| {
            subscriber(uri, handles);
            publisher(uri, handles);
            drop(handles.publisher.take());
        },
        ready: nothing,
        act: |_, handles| {
            drop(handles.subscriber.take());
            Ok(())
        },
    },
];
