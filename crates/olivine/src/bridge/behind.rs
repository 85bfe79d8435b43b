//! A handle with a bridge behind its ring.

use super::between::give_up_refused;
use super::{Destination, Inlet, Outlet, Source, part_of};
use crate::channel::attach::{ShapeRole, TypeTag};
use crate::channel::publisher::Publisher;
use crate::channel::status::Durable;
use crate::channel::subscriber::Subscriber;
use crate::error::OpenError;
use crate::link::{self, FIRST_ANSWER_MAX};
use crate::uri::{Config, Start};

/// A publisher of `ring` whose messages go through `outlet`. `place` names the far side.
///
/// # Errors
///
/// [`OpenError`]; nothing is left behind.
pub(crate) fn publisher<T: ?Sized>(
    ring: &Config,
    typed: &TypeTag,
    place: String,
    mut outlet: Box<dyn Outlet>,
) -> Result<Publisher<T>, OpenError> {
    let mut publisher = Publisher::open_as(ring, typed, None)?;
    let mut follower = ring.clone();
    // The bridge carries every topic.
    (follower.cpu, follower.subscribers, follower.topic) = (None, 0, None);
    let part = part_of(&*outlet);
    let source = Source::of_handle(&follower, outlet.is_single(), part)?;
    let is_new = source.has_new_name();
    let counts_once_connected = outlet.counts_once_connected();
    let start = || {
        outlet.open()?;
        let link = link::start(place, move |control| outlet.run(source, control, false))?;
        link.wait_tried(FIRST_ANSWER_MAX).map(|()| link)
    };
    match start() {
        Ok(link) => {
            publisher.set_link(link, counts_once_connected);
            Ok(publisher)
        }
        Err(refused) => {
            if is_new {
                give_up_refused(&follower, part);
            }
            Err(refused.into())
        }
    }
}

/// A subscriber of `ring` whose messages come through `inlet`. `place` names the far side.
///
/// # Errors
///
/// [`OpenError`]; nothing is left behind.
pub(crate) fn subscriber<T: ?Sized>(
    ring: &Config,
    typed: &TypeTag,
    place: String,
    mut inlet: Box<dyn Inlet>,
) -> Result<Subscriber<T>, OpenError> {
    let mut ring = ring.clone();
    // The ring is new, and everything in it is for this subscriber.
    ring.from = Start::Oldest;
    // The far publisher decides how many subscribers it waits for.
    ring.subscribers = 0;
    inlet.shape(&mut ring)?;
    let in_ring = in_ring(typed);
    let mut subscriber = Subscriber::open_as(&ring, typed, ShapeRole::Leaves)?;
    let start = || {
        let link = link::start(place, move |control| {
            let destination = Destination::new(&ring, in_ring, control);
            inlet.run(destination, control, false)
        })?;
        link.wait_tried(FIRST_ANSWER_MAX).map(|()| link)
    };
    match start() {
        Ok(link) => {
            subscriber.set_link(link);
            Ok(subscriber)
        }
        Err(refused) => {
            // A new name has received nothing: its ring would only take memory.
            if subscriber.durable() == Some(Durable::Created) {
                subscriber.unsubscribe();
            }
            Err(refused.into())
        }
    }
}

/// The type of the ring in front of a remote channel, for a subscriber of this type. A subscriber
/// of bytes reads any type, so its ring takes the type of the source.
fn in_ring(typed: &TypeTag) -> TypeTag {
    TypeTag {
        any: typed.known.hash == 0,
        ..typed.clone()
    }
}
