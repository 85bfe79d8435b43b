//! A bridge between two URIs, for a process that does nothing else.

use super::egress::Egress;
use super::{Destination, Source, any_type, inlet, outlet, relay, ring_error};
use crate::channel::attach::ShapeRole;
use crate::error::{LinkError, OpenError};
use crate::link::{Control, Link, LinkStage, LinkStatus, Stop};
use crate::ring::layout::fnv;
use crate::uri::{Config, Scheme, UriError};
use std::sync::Arc;
use std::time::Duration;

/// Carries messages from one channel to another until it is stopped.
///
/// At least one of the two is `shm://` (or `inproc://`): the ring that the bridge reads or writes.
/// Between `shm://` and another scheme it loses and repeats no message, also if it is killed and
/// started again with the same two URIs on the same machine. [`Bridge::start`] describes the name
/// that makes this work.
///
/// ```
/// use olivine::{Bridge, Config, Publisher, Subscriber};
/// use std::time::Duration;
///
/// let mut subscriber = Subscriber::open("inproc://copy")?;
/// let mut publisher = Publisher::open("inproc://original")?;
/// let (from, to) = (Config::parse("inproc://original")?, Config::parse("inproc://copy")?);
/// let bridge = Bridge::start(&from, &to, true)?;
/// publisher.publish(b"carried")?;
/// assert_eq!(&*subscriber.receive()?, b"carried");
/// publisher.close()?;
/// bridge.stop(Duration::from_secs(1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Bridge {
    link: Link,
    /// Name of its durable position in the source, if the source is in shared memory.
    place: Option<String>,
}

impl Bridge {
    /// Starts a thread that copies messages from `source` to `destination`. With `until_end` it
    /// ends once every publisher of the source has closed and everything is delivered. Otherwise it
    /// runs until it is stopped.
    ///
    /// The durable `name` in the remote URI identifies this bridge. The default name is made from
    /// the two URIs and the name of this machine, so the next bridge between the two continues at
    /// this one's position. A position with a default name is given up when the source has ended
    /// and everything is delivered, and by [`Bridge::leave`]. A position with a given name is kept.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; two remote channels are refused as a pair.
    pub fn start(
        source: &Config,
        destination: &Config,
        until_end: bool,
    ) -> Result<Self, OpenError> {
        source.validate()?;
        destination.validate()?;
        if source.topic.is_some() || destination.topic.is_some() {
            return Err(UriError::Pair {
                first: "topic",
                second: "a bridge",
                rule: "it carries every topic; give 'topic=' to publishers and subscribers",
            }
            .into());
        }
        let words = format!("{} to {}", source.uri(), destination.uri());
        let refused = |source: std::io::Error| LinkError::Io {
            action: "start a thread for",
            place: words.clone(),
            source: Arc::new(source),
        };
        let control = Control::new().map_err(refused)?;
        let name = default_name(&words);
        let mut place = None;
        let link = match (is_near(source), is_near(destination)) {
            (true, true) => {
                let ring = named(source, &name);
                place.clone_from(&ring.name);
                let given_up = ring.clone();
                let is_ours = source.name.is_none();
                let mut from = Source::new(&ring, true, ShapeRole::Names)?;
                if is_ours {
                    from.accept_closed_as_end();
                }
                let to = Destination::new(destination, any_type(), &control);
                Link::start(words.clone(), control, move |control| {
                    relay::run(from, to, control, until_end)?;
                    give_up_place(&given_up, ShapeRole::Names, is_ours, control)
                })
            }
            (true, false) => {
                let outlet = outlet(&named(destination, &name))?;
                let single = outlet.is_single();
                let ring = if single {
                    named(source, &name)
                } else {
                    source.clone()
                };
                let is_ours = single && source.name.is_none();
                place = ring.name.clone().filter(|_| single);
                let part = outlet.part();
                let mut from = Source::new(&ring, single, part)?;
                if is_ours {
                    from.accept_closed_as_end();
                }
                Link::start(words.clone(), control, move |control| {
                    outlet.run(from, control, until_end)?;
                    give_up_place(&ring, part, is_ours, control)
                })
            }
            (false, true) => {
                let mut inlet = inlet(&named(source, &name))?;
                let mut ring = destination.clone();
                inlet.shape(&mut ring)?;
                let to = Destination::new(&ring, any_type(), &control);
                Link::start(words.clone(), control, move |control| {
                    inlet.run(to, control, until_end)
                })
            }
            (false, false) => {
                return Err(UriError::Pair {
                    first: "a source elsewhere",
                    second: "a destination elsewhere",
                    rule: "put a channel in shared memory between them, and two bridges",
                }
                .into());
            }
        };
        let link = link.map_err(refused)?;
        link.wait_tried(Duration::from_secs(1))?;
        Ok(Self { link, place })
    }

    /// What it is doing.
    #[must_use]
    pub fn status(&self) -> LinkStatus {
        self.link.control().status()
    }

    /// Whether it has ended without a request, or failed.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.status().stage, LinkStage::Ended | LinkStage::Failed)
    }

    /// Like [`Bridge::finish`], and permanent: if everything was delivered and the name of its
    /// position in the source is the default one, the position is given up. Publishers then no
    /// longer wait for it.
    ///
    /// # Errors
    ///
    /// Why it failed, if it did.
    pub fn leave(&mut self, linger: Duration) -> Result<bool, LinkError> {
        self.link.control().leave();
        self.finish(linger)
    }

    /// The name of its position in the source, which publishers wait for. `None` if it has none, or
    /// gave it up.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        let control = self.link.control();
        let is_given_up = control.status().is_place_given_up;
        self.place.as_deref().filter(|_| !is_given_up)
    }

    /// Stops it like [`Bridge::finish`], without counts afterwards.
    ///
    /// # Errors
    ///
    /// Why it failed, if it did.
    pub fn stop(mut self, linger: Duration) -> Result<bool, LinkError> {
        self.finish(linger)
    }

    /// Asks it to deliver what is published so far and then to end. Returns at once;
    /// [`Bridge::has_ended`] reports the end. Later messages are left for the next bridge.
    /// [`Bridge::finish`] ends it early.
    pub fn ask_to_finish(&self) {
        self.link.control().stop(Stop::Delivered(None));
    }

    /// Like [`Bridge::ask_to_finish`]; its position in the ring is treated as by [`Bridge::leave`].
    pub fn ask_to_leave(&self) {
        self.link.control().leave();
        self.ask_to_finish();
    }

    /// Stops it after it has delivered what is published so far, or after `linger`; zero means no
    /// limit. Returns whether everything was delivered. Undelivered messages stay in the ring for
    /// the next bridge. [`Bridge::status`] then has the final counts.
    ///
    /// # Errors
    ///
    /// Why it failed, if it did.
    pub fn finish(&mut self, linger: Duration) -> Result<bool, LinkError> {
        let delivered = self.link.finish(linger);
        let failure = self.link.control().failure();
        failure.map_or(Ok(delivered), Err)
    }
}

/// Gives up the position of a bridge that ended without error, if it has a default name: `is_ours`.
fn give_up_place(
    ring: &Config,
    part: ShapeRole,
    is_ours: bool,
    control: &Control,
) -> Result<(), LinkError> {
    if is_ours && ring.name.is_some() && control.leaves() {
        Egress::open(ring, part).map_err(ring_error)?.unsubscribe();
        control.report(|status| status.is_place_given_up = true);
    }
    Ok(())
}

fn is_near(config: &Config) -> bool {
    matches!(
        config.scheme(),
        Scheme::Shm | Scheme::Sealed | Scheme::Inproc
    )
}

/// `config` with a durable name, if it can have one and has none.
fn named(config: &Config, name: &str) -> Config {
    let mut config = config.clone();
    let can = matches!(config.scheme(), Scheme::Shm | Scheme::Tcp | Scheme::Nats);
    if can && config.name.is_none() && config.delivery == crate::uri::Delivery::Reliable {
        config.name = Some(name.to_owned());
    }
    config
}

/// The same name for the same two URIs on the same machine.
fn default_name(words: &str) -> String {
    // If the system reports no host name, all machines share one: then two of them need `name=`.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let bytes = host.trim().bytes().chain(words.bytes());
    format!("bridge.{:016x}", fnv(bytes))
}
