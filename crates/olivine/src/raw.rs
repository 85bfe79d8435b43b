//! Bridges outside this crate: frames in and out of a ring, with positions that move only on
//! acknowledgement.
//!
//! A bridge carries the messages of a ring to another place, or from another place into a ring. A
//! kind of place supplies an [`Outlet`], an [`Inlet`], or both. `nats://` is written with this
//! module and other public items only.
//!
//! ```text
//!   Publisher -> ring -> CheckedEgress  -> Outlet ~~ place
//!   place ~~ Inlet  -> CheckedIngress -> ring -> Subscriber
//! ```
//!
//! [`publisher`] and [`subscriber`] open a handle with such a bridge behind its ring.
//! [`bridge_out`] and [`bridge_in`] run a bridge between a place and the ring of other programs, as
//! a [`Bridge`]. Each bridge runs on a separate thread.
//!
//! # Writing an outlet
//!
//! 1. Take the [`CheckedEgress`] from [`Source::egress`].
//! 2. For each lane, send [`CheckedEgress::frames`] and [`CheckedEgress::advance`] behind them.
//! 3. When the far side has stored them, [`CheckedEgress::acknowledge`] its position. Only this
//!    lets publishers write there again: a message that is lost on the way is still in the ring.
//! 4. When a connection breaks, go back by [`CheckedEgress::rewind`], or by
//!    [`CheckedEgress::resume`] to where the far side says it is.
//! 5. End with `Ok` when [`Control::must_stop`]; when [`Control::stopping`] and everything up to
//!    the goal is delivered; and with `until_end` when the ring has ended and everything is
//!    delivered.
//! 6. [`CheckedEgress::look`] returns the failure of a publisher. Pass its reason on, and end with
//!    it. Call [`Control::failure_delivered`] before, if every far side has confirmed the reason or
//!    keeps it: without that `close_failed` of the publisher returns
//!    [`NotSent::Unacknowledged`](crate::NotSent::Unacknowledged).
//!
//! # Writing an inlet
//!
//! 1. Open the [`CheckedIngress`] by [`Destination::ingress`] with a name of the far side.
//! 2. Tell the far side where each lane stopped: [`CheckedIngress::lanes`].
//! 3. [`CheckedIngress::take`] its frames, or [`CheckedIngress::add_frame`] messages that come
//!    without them, and acknowledge [`CheckedIngress::acknowledged`] to the far side.
//! 4. End with `Ok` soon after [`Control::stopping`]: the next bridge continues. If the far side
//!    has ended, call [`CheckedIngress::end`] first. Before returning an error, call
//!    [`Control::give_up`]: subscribers then get the reason behind the last message.
//!
//! Both keep retrying during a temporary failure ([`ReconnectBackoff`]), and return an error only
//! for a permanent one. A far side that stores positions with its messages, as the memory of a ring
//! does, then loses and repeats nothing, whichever process is killed.
//!
//! # Example
//!
//! A place that is a queue of this process. Its messages have no positions, so the inlet counts
//! them.
//!
//! ```
//! use olivine::raw::{self, Control, Destination, Inlet, Outlet, Source};
//! use olivine::{LinkError, Outgoing};
//! use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
//! use std::{sync::Arc, time::Duration};
//!
//! const PAUSE: Duration = Duration::from_millis(1);
//!
//! struct Out(Sender<Vec<u8>>);
//!
//! impl Outlet for Out {
//!     fn run(
//!         self: Box<Self>,
//!         mut source: Source,
//!         control: &Arc<Control>,
//!         until_end: bool,
//!     ) -> Result<(), LinkError> {
//!         let mut egress = source.egress()?;
//!         control.connected("connected to a queue".into());
//!         loop {
//!             if control.stopping().is_some() {
//!                 egress.set_goal()?;
//!             }
//!             for place in 0..egress.look()? {
//!                 let frames = egress.frames(place, 1 << 16)?;
//!                 let end = frames.end();
//!                 for frame in frames {
//!                     let queued = self.0.send(frame?.payload().to_vec());
//!                     queued.map_err(|_| LinkError::Bridge { problem: "no receiver".into() })?;
//!                 }
//!                 egress.advance(place, end)?;
//!                 egress.acknowledge(place, end)?; // It is in the queue.
//!             }
//!             let ends = control.stopping().is_some() || until_end && egress.is_ended();
//!             if control.must_stop() || ends && egress.is_delivered()? {
//!                 return Ok(());
//!             }
//!             control.pause(PAUSE);
//!         }
//!     }
//! }
//!
//! struct In(Receiver<Vec<u8>>);
//!
//! impl Inlet for In {
//!     fn run(
//!         self: Box<Self>,
//!         destination: Destination,
//!         control: &Arc<Control>,
//!         _until_end: bool,
//!     ) -> Result<(), LinkError> {
//!         let mut ingress = destination.ingress("a queue")?;
//!         let (incarnation, lane, mut position) = (1, 0, 0);
//!         ingress.open_lane(incarnation, lane, position)?;
//!         control.connected("connected to a queue".into());
//!         while control.stopping().is_none() {
//!             let message = match self.0.recv_timeout(PAUSE) {
//!                 Ok(message) => message,
//!                 Err(RecvTimeoutError::Timeout) => continue,
//!                 Err(RecvTimeoutError::Disconnected) => {
//!                     ingress.end();
//!                     break;
//!                 }
//!             };
//!             let mut frame = Vec::new();
//!             let pushed = ingress.add_frame(&mut frame, Outgoing::new(&message));
//!             pushed.map_err(|error| LinkError::Bridge { problem: error.to_string() })?;
//!             while let Err(raw::NotTaken::NoRoom { .. }) = ingress.take(lane, position, &frame) {
//!                 while ingress.retry_room() && !control.must_stop() {
//!                     control.pause(PAUSE);
//!                 }
//!             }
//!             position += frame.len() as u64;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! let (sender, receiver) = channel();
//! let near = "inproc://near".parse()?;
//! let mut subscriber = raw::subscriber(&"inproc://far".parse()?, "a queue", In(receiver))?;
//! let mut publisher = raw::publisher(&near, "a queue", Out(sender))?;
//! publisher.publish(b"carried")?;
//! assert_eq!(&*subscriber.receive()?, b"carried");
//! publisher.close()?;
//! assert!(subscriber.receive().is_err_and(|error| error.is_final()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod egress;
mod ingress;

pub use crate::bridge::frame::{Frame, Frames, NoFrame};
pub use crate::bridge::ingress::NotTaken;
pub use crate::bridge::reconnect::ReconnectBackoff;
pub use crate::bridge::secret::{read as read_secret, settings_bytes, settings_text};
pub use crate::bridge::{Destination, Inlet, Outlet, Source};
pub use crate::channel::attach::random_id;
pub use crate::link::{Control, Stop};
pub use crate::message::KnownType;
pub use crate::uri::remote::{TIMEOUT_DEFAULT, host_and_port};
pub use crate::uri::topic::is_topic;
pub use egress::{CheckedEgress, LaneFailure, NotRead};
pub use ingress::{CheckedIngress, LaneOrigin};

use crate::bridge::behind;
use crate::bridge::between::{Bridge, refuse_topic};
use crate::channel::attach::TypeTag;
use crate::channel::publisher::Publisher;
use crate::channel::subscriber::Subscriber;
use crate::error::{LinkError, OpenError};
use crate::message::{MessageType, Plain};
use crate::uri::{Config, End, Scheme, UriError};
use std::sync::Arc;

/// Opens a publisher of `ring` (`shm://` or `inproc://`) whose messages go through `outlet`.
/// `place` names the far side in errors.
///
/// With a durable `name=` in `ring`, the next publisher continues where this one's outlet stopped.
///
/// # Errors
///
/// [`OpenError`]; nothing is left behind.
pub fn publisher(
    ring: &Config,
    place: &str,
    outlet: impl Outlet + 'static,
) -> Result<Publisher, OpenError> {
    validate_publisher(ring)?;
    let outlet = Box::new(outlet);
    behind::publisher(ring, &TypeTag::default(), place.to_owned(), outlet)
}

/// As [`publisher`], for messages of type `T`.
///
/// # Errors
///
/// As [`publisher`]; `Type` if the ring has another type.
pub fn typed_publisher<T: Plain>(
    ring: &Config,
    place: &str,
    outlet: impl Outlet + 'static,
) -> Result<Publisher<T>, OpenError> {
    validate_publisher(ring)?;
    behind::publisher(
        ring,
        &(&MessageType::of::<T>()).into(),
        place.to_owned(),
        Box::new(outlet),
    )
}

/// Opens a subscriber of `ring` (`shm://` or `inproc://`) whose messages come through `inlet`.
/// `place` names the far side in errors.
///
/// It reads the ring from the oldest message on. Its `subscribers=` is left out: the far publisher
/// decides for how many it waits.
///
/// # Errors
///
/// [`OpenError`]; nothing is left behind.
pub fn subscriber(
    ring: &Config,
    place: &str,
    inlet: impl Inlet + 'static,
) -> Result<Subscriber, OpenError> {
    validate_subscriber(ring)?;
    let inlet = validated(inlet, validate_subscriber);
    behind::subscriber(ring, &TypeTag::default(), place.to_owned(), inlet)
}

/// As [`subscriber`], for messages of type `T`.
///
/// # Errors
///
/// As [`subscriber`]; `Type` if the ring has another type.
pub fn typed_subscriber<T: Plain>(
    ring: &Config,
    place: &str,
    inlet: impl Inlet + 'static,
) -> Result<Subscriber<T>, OpenError> {
    validate_subscriber(ring)?;
    let inlet = validated(inlet, validate_subscriber);
    behind::subscriber(
        ring,
        &(&MessageType::of::<T>()).into(),
        place.to_owned(),
        inlet,
    )
}

/// Carries the messages of `ring` through `outlet`, as [`Bridge::start`] does. `place` names the
/// far side, and makes the default name of the bridge's position in the ring: it must be the same
/// for the same far side.
///
/// # Errors
///
/// [`OpenError`].
pub fn bridge_out(
    ring: &Config,
    place: &str,
    outlet: impl Outlet + 'static,
    until_end: bool,
) -> Result<Bridge, OpenError> {
    validate_ring(ring)?;
    let words = format!("{} to {place}", ring.uri());
    Bridge::out_of(ring, words, Box::new(outlet), until_end)
}

/// Carries messages into `ring` through `inlet`, as [`Bridge::start`] does. `place` names the far
/// side in errors.
///
/// # Errors
///
/// [`OpenError`].
pub fn bridge_in(
    place: &str,
    inlet: impl Inlet + 'static,
    ring: &Config,
    until_end: bool,
) -> Result<Bridge, OpenError> {
    validate_ring(ring)?;
    let inlet = validated(inlet, validate_ring);
    let words = format!("{place} to {}", ring.uri());
    Bridge::into_ring(ring, words, inlet, until_end)
}

/// FNV-1a over the bytes, 64 bits: the same number in every process and version. For incarnations
/// and names; it finds accidents, not attackers.
#[must_use]
pub fn stable_hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    crate::ring::layout::fnv(bytes)
}

/// An inlet of another crate: the settings that it adapts are validated again.
struct Validated<I> {
    inlet: Box<I>,
    validate: fn(&Config) -> Result<(), UriError>,
}

impl<I: Inlet> Inlet for Validated<I> {
    fn shape(&mut self, ring: &mut Config) -> Result<(), OpenError> {
        self.inlet.shape(ring)?;
        Ok((self.validate)(ring)?)
    }

    fn run(
        self: Box<Self>,
        destination: Destination,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError> {
        self.inlet.run(destination, control, until_end)
    }
}

/// Boxes an inlet of another crate.
fn validated<I: Inlet + 'static>(
    inlet: I,
    validate: fn(&Config) -> Result<(), UriError>,
) -> Box<dyn Inlet> {
    let inlet = Box::new(inlet);
    Box::new(Validated { inlet, validate })
}

/// Validates the ring of a bridge between a ring and a place.
fn validate_ring(config: &Config) -> Result<(), UriError> {
    config.validate()?;
    refuse_topic(config)?;
    let is_ring = matches!(
        config.scheme(),
        Scheme::Shm | Scheme::Sealed | Scheme::Inproc
    );
    must(config, is_ring, "use shm://, shm+fd:// or inproc://")
}

/// Validates the ring of a publisher with a bridge behind it. A thread of a `shm+fd://` handle
/// serves the socket already.
fn validate_publisher(config: &Config) -> Result<(), UriError> {
    config.validate_for(End::Publisher)?;
    must(config, is_plain(config), "use shm:// or inproc://")
}

/// As [`validate_publisher`], for a subscriber.
fn validate_subscriber(config: &Config) -> Result<(), UriError> {
    config.validate_for(End::Subscriber)?;
    must(config, is_plain(config), "use shm:// or inproc://")
}

fn is_plain(config: &Config) -> bool {
    matches!(config.scheme(), Scheme::Shm | Scheme::Inproc)
}

fn must(config: &Config, holds: bool, rule: &'static str) -> Result<(), UriError> {
    holds.then_some(()).ok_or_else(|| UriError::Pair {
        first: "the ring of a bridge",
        second: config.scheme().word(),
        rule,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Nowhere;

    impl Outlet for Nowhere {
        fn run(
            self: Box<Self>,
            _source: Source,
            _control: &Arc<Control>,
            _until_end: bool,
        ) -> Result<(), LinkError> {
            Ok(())
        }
    }

    #[test]
    fn channel_without_a_ring_is_refused() {
        for uri in ["tcp://h:1/t", "nats://h/t", "file:///tmp/t.olv"] {
            let config = Config::parse(uri).unwrap();
            let errors = [
                CheckedEgress::open(&config).map(|_| ()).unwrap_err(),
                publisher(&config, "x", Nowhere).map(|_| ()).unwrap_err(),
                bridge_out(&config, "x", Nowhere, true)
                    .map(|_| ())
                    .unwrap_err(),
            ];
            for error in errors {
                assert!(
                    error.to_string().contains("the ring of a bridge"),
                    "{error}"
                );
            }
        }
        let sealed = Config::parse("shm+fd:///tmp/t.sock").unwrap();
        let error = publisher(&sealed, "x", Nowhere).unwrap_err().to_string();
        assert!(error.contains("use shm:// or inproc://"), "{error}");
    }

    struct Shaping(fn(&mut Config));

    impl Inlet for Shaping {
        fn shape(&mut self, ring: &mut Config) -> Result<(), OpenError> {
            (self.0)(ring);
            Ok(())
        }

        fn run(
            self: Box<Self>,
            _destination: Destination,
            _control: &Arc<Control>,
            _until_end: bool,
        ) -> Result<(), LinkError> {
            Ok(())
        }
    }

    /// A capacity that is not a power of two would not map twice in a row.
    #[test]
    fn settings_that_an_inlet_shapes_are_validated() {
        let config = Config::parse("inproc://raw-shape").unwrap();
        let odd = |ring: &mut Config| *ring = ring.clone().capacity(5000);
        let elsewhere = |ring: &mut Config| *ring = Config::new(Scheme::File, "x");
        let shapes = [odd as fn(&mut Config), elsewhere];
        for (shape, expected) in shapes.into_iter().zip(["capacity", "file"]) {
            let errors = [
                subscriber(&config, "x", Shaping(shape))
                    .map(|_| ())
                    .unwrap_err(),
                bridge_in("x", Shaping(shape), &config, true)
                    .map(|_| ())
                    .unwrap_err(),
            ];
            for error in errors {
                assert!(error.to_string().contains(expected), "{error}");
            }
        }
    }

    #[test]
    fn topic_of_a_bridge_is_refused() {
        let config = Config::parse("inproc://raw-topic?topic=a").unwrap();
        let errors = [
            CheckedEgress::open(&config).map(|_| ()).unwrap_err(),
            bridge_out(&config, "x", Nowhere, true)
                .map(|_| ())
                .unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains("topic"), "{error}");
        }
    }
}
