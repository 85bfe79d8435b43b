//! A bridge between two URIs, for a process that does nothing else.

use super::egress::Egress;
use super::{Destination, Source, any_type, inlet, outlet, relay, ring_error};
use crate::channel::attach::Part;
use crate::error::{LinkError, OpenError};
use crate::link::{Control, Link, LinkStage, LinkStatus, Stop};
use crate::ring::layout::fnv;
use crate::uri::{Config, Scheme, UriError};
use std::sync::Arc;
use std::time::Duration;

/// Carries messages from one channel to another until it is stopped.
///
/// At least one of the two is `shm://` (or `inproc://`): the ring that the bridge reads, or writes. Between
/// `shm://` and a place elsewhere it loses and repeats nothing, also when it is killed and started again with the same
/// two URIs on the same machine; see [`Bridge::start`] for the name that makes that so.
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
    /// The name under which it has a durable place in its source, where that is in shared memory.
    place: Option<String>,
}

impl Bridge {
    /// Starts a thread that carries from `source` to `destination`. With `until_end` it ends once every publisher
    /// of the source has closed and everything is delivered; else it goes on for as long as it is not stopped.
    ///
    /// A durable `name` in the URI elsewhere says who this bridge is. Left out, it is made from the two URIs and the
    /// name of this machine, so that the next bridge between the two takes this one's place. A place under such a name is
    /// given up when the source has ended and everything is delivered, and by [`Bridge::leave`]; one under a name that
    /// was given is kept.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; two channels elsewhere are refused as a pair.
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
                let mut from = Source::new(&ring, true, Part::Names)?;
                if is_ours {
                    from.expect_end();
                }
                let to = Destination::new(destination, any_type(), &control);
                Link::start(words.clone(), control, move |control| {
                    relay::run(from, to, control, until_end)?;
                    give_up_place(&given_up, Part::Names, is_ours, control)
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
                    from.expect_end();
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

    /// Whether it has ended by itself, or failed.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.status().stage, LinkStage::Ended | LinkStage::Failed)
    }

    /// As [`Bridge::finish`], for good: where everything was delivered and its place in the source goes by a name that
    /// was not given, the place is given up, and publishers wait for it no longer.
    ///
    /// # Errors
    ///
    /// Why it failed, if it did.
    pub fn leave(&mut self, linger: Duration) -> Result<bool, LinkError> {
        self.link.control().leave();
        self.finish(linger)
    }

    /// The name under which its place in the source is kept for the next one, while publishers wait for it; `None` if
    /// it has none, or gave it up.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        let control = self.link.control();
        let is_given_up = control.status().is_place_given_up;
        self.place.as_deref().filter(|_| !is_given_up)
    }

    /// Stops it as [`Bridge::finish`] does, for whoever needs no counts afterwards.
    ///
    /// # Errors
    ///
    /// Why it failed, if it did.
    pub fn stop(mut self, linger: Duration) -> Result<bool, LinkError> {
        self.finish(linger)
    }

    /// Asks it to deliver what is published and to end then, and returns at once: [`Bridge::has_ended`] says when it
    /// has. What is published later is left for the next bridge. [`Bridge::finish`] cuts it short.
    pub fn ask_to_finish(&self) {
        self.link.control().stop(Stop::Delivered(None));
    }

    /// As [`Bridge::ask_to_finish`], and as [`Bridge::leave`] for its place in the ring.
    pub fn ask_to_leave(&self) {
        self.link.control().leave();
        self.ask_to_finish();
    }

    /// Stops it, after it has delivered what is published, for which it has `linger`; zero leaves that open.
    /// Returns whether it did. What it did not deliver stays in the ring, for the next one. [`Bridge::status`] has the
    /// final counts afterwards.
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

/// Gives the place of a bridge that has ended well up, if it does not stay for the next one: `is_ours` says that its name
/// was not given.
fn give_up_place(
    ring: &Config,
    part: Part,
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

/// `config` with a durable name, where it can have one and has none.
fn named(config: &Config, name: &str) -> Config {
    let mut config = config.clone();
    let can = matches!(config.scheme(), Scheme::Shm | Scheme::Tcp | Scheme::Nats);
    if can && config.name.is_none() && config.delivery == crate::uri::Delivery::Reliable {
        config.name = Some(name.to_owned());
    }
    config
}

/// The same for the same two URIs on the same machine.
fn default_name(words: &str) -> String {
    // Where the system does not tell, all machines have the same name: then two of them need `name=`.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let bytes = host.trim().bytes().chain(words.bytes());
    format!("bridge.{:016x}", fnv(bytes))
}
