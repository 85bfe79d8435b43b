//! The operations that are killed at every place.

use crate::scene::{self, Handles, OTHER_FIELDS, Operation, Scene, childs};
use olivine::{Durable, Publisher, Subscriber};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long "park" waits, in milliseconds: it must not end before it was stepped through.
static WAIT_MS: AtomicU64 = AtomicU64::new(250);

/// The machine is too busy for operations with a time limit: doubles the time from here on.
pub(crate) fn wait_longer() {
    // Relaxed: one thread.
    WAIT_MS.fetch_add(WAIT_MS.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Messages that the child has surely sent when it is killed in `operation`, or after it.
pub(crate) fn acknowledged(operation: &Operation, done: bool) -> u64 {
    match operation.name {
        "attach to a dead lane" => 3,
        "publish" | "claim and commit" | "batch" | "wake" => PREPARED + u64::from(done),
        "detach a publisher" | "wait for room, reclaim" => PREPARED,
        _ => 0,
    }
}

/// Messages that a publishing child sends before the operation.
const PREPARED: u64 = 3;

/// An error with its causes.
fn described(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

fn nothing(_: &mut Scene) {}

fn idle(_: &str, _: &mut Handles) {}

fn publisher(uri: &str, handles: &mut Handles) {
    let mut publisher = scene::publisher(uri).unwrap();
    for number in 0..PREPARED {
        publisher.publish(&childs(number)).unwrap();
    }
    handles.publisher = Some(publisher);
}

fn open_publisher(uri: &str, handles: &mut Handles) -> Result<(), String> {
    let publisher = scene::publisher(uri).map_err(|error| described(&error))?;
    handles.publisher = Some(publisher);
    Ok(())
}

fn open_subscriber(uri: &str, handles: &mut Handles) -> Result<(), String> {
    let uri = format!("{uri}&from=oldest");
    let subscriber = scene::subscriber(&uri).map_err(|error| described(&error))?;
    handles.subscriber = Some(subscriber);
    Ok(())
}

fn subscriber(uri: &str, handles: &mut Handles) {
    open_subscriber(uri, handles).unwrap();
}

fn of(handles: &mut Handles) -> &mut Publisher {
    handles.publisher.as_mut().unwrap()
}

/// Settings of a channel that a group shares. `GROUP` is replaced by a group that this process can
/// set.
const SHARED: &str = "&mode=0660&group=GROUP";

/// The defaults: a channel of the usual geometry with other participants.
const PLAIN: Operation = Operation {
    name: "",
    query: "",
    bystanders: true,
    before: nothing,
    prepare: idle,
    ready: nothing,
    act: |_, _| Err("there is nothing to kill".to_owned()),
};

pub(crate) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "create by publishing",
        bystanders: false,
        act: open_publisher,
        ..PLAIN
    },
    Operation {
        name: "create by subscribing",
        bystanders: false,
        act: open_subscriber,
        ..PLAIN
    },
    Operation {
        name: "create a shared channel",
        query: SHARED,
        bystanders: false,
        act: open_publisher,
        ..PLAIN
    },
    Operation {
        name: "fix the shape",
        bystanders: false,
        before: Scene::wait_for_the_first_publisher,
        act: |uri, handles| {
            let uri = uri.replace("capacity=4KiB", "capacity=8KiB");
            let publisher = scene::publisher_of(&uri, OTHER_FIELDS);
            handles.publisher = Some(publisher.map_err(|error| described(&error))?);
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "attach a publisher",
        act: open_publisher,
        ..PLAIN
    },
    Operation {
        name: "attach to a shared channel",
        query: SHARED,
        act: open_publisher,
        ..PLAIN
    },
    Operation {
        name: "attach to a dead lane",
        before: Scene::leave_a_stale_lane,
        act: open_publisher,
        ..PLAIN
    },
    Operation {
        name: "attach a subscriber",
        act: open_subscriber,
        ..PLAIN
    },
    Operation {
        name: "attach to a dead slot",
        before: Scene::leave_a_dead_subscriber,
        act: open_subscriber,
        ..PLAIN
    },
    Operation {
        name: "come back as durable",
        before: Scene::leave_a_durable_place,
        act: |uri, handles| {
            let uri = format!("{uri}&name=durable");
            let subscriber = Subscriber::open(&uri).map_err(|error| described(&error))?;
            handles.subscriber = Some(subscriber);
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "come back to a lost place",
        before: Scene::leave_a_lost_place,
        act: |uri, handles| {
            let uri = format!("{uri}&name=durable");
            let subscriber = Subscriber::open(&uri).map_err(|error| described(&error))?;
            let told = subscriber.durable();
            handles.subscriber = Some(subscriber);
            match told {
                Some(Durable::LostPlace { .. }) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        },
        ..PLAIN
    },
    Operation {
        name: "unsubscribe a durable",
        bystanders: false,
        prepare: |uri, handles| {
            let uri = format!("{uri}&name=durable");
            handles.subscriber = Some(Subscriber::open(&uri).unwrap());
            publisher(&uri, handles);
        },
        act: |_, handles| {
            handles.subscriber.take().unwrap().unsubscribe();
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "judge an expired durable",
        bystanders: false,
        prepare: publisher,
        ready: Scene::leave_an_expired_place,
        // It read nothing: there is no room until its slot is cleared.
        act: |_, handles| {
            let long = Duration::from_secs(120);
            let room = of(handles).wait_for_room(4000, Some(long));
            room.map_err(|error| described(&error))?;
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "publish",
        prepare: publisher,
        act: |_, handles| {
            of(handles).try_publish(&childs(PREPARED)).unwrap();
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "claim and commit",
        prepare: publisher,
        act: |_, handles| {
            let message = childs(PREPARED);
            let mut claim = of(handles).try_claim(message.len()).unwrap();
            claim.copy_from_slice(&message);
            claim.commit();
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "batch",
        prepare: publisher,
        act: |_, handles| {
            let mut batch = of(handles).batch();
            batch.push(&childs(PREPARED)).unwrap();
            batch.commit();
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "wake",
        prepare: publisher,
        ready: Scene::fall_asleep,
        act: |_, handles| {
            of(handles).try_publish(&childs(PREPARED)).unwrap();
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "wait for room, reclaim",
        before: Scene::leave_a_dead_subscriber,
        prepare: publisher,
        // Then the dead subscriber is the slowest, and its clearing makes room.
        ready: Scene::read_along,
        act: |_, handles| {
            let long = Duration::from_secs(120);
            let room = of(handles).wait_for_room(4000, Some(long));
            room.map_err(|error| described(&error))?;
            match of(handles).stats().reclaimed {
                1 => Ok(()),
                count => Err(format!("{count} reclaimed")),
            }
        },
        ..PLAIN
    },
    Operation {
        name: "evict",
        query: "&slow=evict:1ns",
        bystanders: false,
        prepare: |uri, handles| {
            subscriber(uri, handles);
            handles.publisher = Some(scene::publisher(uri).unwrap());
        },
        act: |_, handles| {
            let long = Duration::from_secs(120);
            for _ in 0..3 {
                of(handles).publish_timeout(&[7; 2000], long).unwrap();
            }
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "poll and release",
        prepare: subscriber,
        act: |_, handles| {
            let subscriber = handles.subscriber.as_mut().unwrap();
            subscriber
                .poll(|message| assert_eq!(message.len(), 96), 64)
                .unwrap();
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "park",
        prepare: |uri, handles| {
            handles.subscriber = Some(Subscriber::open(uri).unwrap());
        },
        act: |_, handles| {
            let subscriber = handles.subscriber.as_mut().unwrap();
            // Relaxed: one thread.
            let wait = Duration::from_millis(WAIT_MS.load(Ordering::Relaxed));
            subscriber.receive_timeout(wait).unwrap();
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "detach a publisher",
        prepare: publisher,
        act: |_, handles| {
            drop(handles.publisher.take());
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "detach a subscriber",
        prepare: subscriber,
        act: |_, handles| {
            drop(handles.subscriber.take());
            Ok(())
        },
        ..PLAIN
    },
    Operation {
        name: "the last one out",
        bystanders: false,
        prepare: |uri, handles| {
            subscriber(uri, handles);
            publisher(uri, handles);
            drop(handles.publisher.take());
        },
        act: |_, handles| {
            drop(handles.subscriber.take());
            Ok(())
        },
        ..PLAIN
    },
];
