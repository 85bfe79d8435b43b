//! A bridge between a ring and a far side, for a process that does nothing else.

use super::egress::Egress;
use super::{Destination, Inlet, Outlet, Source, any_type, part_of, ring_error};
use crate::channel::attach::ShapeRole;
use crate::error::{LinkError, OpenError};
use crate::link::{self, Control, FIRST_ANSWER_MAX, Link, LinkStage, LinkStatus, Stop};
use crate::ring::layout::fnv;
use crate::uri::{Config, Scheme, UriError};
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
    /// Carries from `ring` through `outlet`. `words` name the bridge in errors, and make the name
    /// of its position unless `ring` has one.
    pub(crate) fn out_of(
        ring: &Config,
        words: String,
        mut outlet: Box<dyn Outlet>,
        until_end: bool,
    ) -> Result<Self, OpenError> {
        refuse_topic(ring)?;
        let (single, part) = (outlet.is_single(), part_of(&*outlet));
        let is_ours = single && ring.name.is_none();
        let ring = if single {
            named(ring, &default_name(&words))
        } else {
            ring.clone()
        };
        let place = ring.name.clone().filter(|_| single);
        let mut source = Source::new(&ring, single, part)?;
        let is_new = source.has_new_name();
        let start = || {
            outlet.open()?;
            let ring = ring.clone();
            let link = link::start(words, move |control| {
                source.keep_reports(control);
                if is_ours {
                    source.accept_closed_as_end();
                }
                outlet.run(source, control, until_end)?;
                give_up_place(&ring, part, is_ours, control)
            })?;
            Self::started(link, place)
        };
        let started = start();
        if started.is_err() && is_new {
            give_up_refused(&ring, part);
        }
        started
    }

    /// Carries into `ring` through `inlet`. `words` name the bridge in errors.
    pub(crate) fn into_ring(
        ring: &Config,
        words: String,
        mut inlet: Box<dyn Inlet>,
        until_end: bool,
    ) -> Result<Self, OpenError> {
        refuse_topic(ring)?;
        let mut ring = ring.clone();
        inlet.shape(&mut ring)?;
        let link = link::start(words, move |control| {
            let to = Destination::new(&ring, any_type(), control);
            inlet.run(to, control, until_end)
        })?;
        Self::started(link, None)
    }

    fn started(link: Link, place: Option<String>) -> Result<Self, OpenError> {
        link.wait_tried(FIRST_ANSWER_MAX)?;
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
        let is_given_up = self.link.control().is_place_given_up();
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
        control.place_given_up();
    }
    Ok(())
}

/// Gives up the new durable name of a bridge that failed before it carried anything. Publishers
/// would wait for it, and its ring would only take memory. Messages that no subscriber has seen
/// stay.
pub(crate) fn give_up_refused(ring: &Config, part: ShapeRole) {
    if let Ok(egress) = Egress::open(ring, part) {
        egress.unsubscribe_unused();
    }
}

/// Refuses a topic in an end of a bridge.
pub(crate) fn refuse_topic(end: &Config) -> Result<(), UriError> {
    if end.topic.is_none() {
        return Ok(());
    }
    Err(UriError::Pair {
        first: "topic",
        second: "a bridge",
        rule: "it carries every topic; give 'topic=' to publishers and subscribers",
    })
}

/// `config` with a durable name, if it can have one and has none.
pub(crate) fn named(config: &Config, name: &str) -> Config {
    let mut config = config.clone();
    let can = matches!(config.scheme(), Scheme::Shm | Scheme::Tcp | Scheme::Nats);
    if can && config.name.is_none() && config.delivery == crate::uri::Delivery::Reliable {
        config.name = Some(name.to_owned());
    }
    config
}

/// The same name for the same two URIs on the same machine.
pub(crate) fn default_name(words: &str) -> String {
    // If the system reports no host name, all machines share one: then two of them need `name=`.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let bytes = host.trim().bytes().chain(words.bytes());
    format!("bridge.{:016x}", fnv(bytes))
}
