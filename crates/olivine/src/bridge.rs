//! Bridges: they carry the messages of a ring to another place, or from another place into a ring.
//!
//! Every channel is a ring in memory. A program that opens `tcp://` (or `nats://`, `file://`) gets
//! the handle of a new ring. A thread behind it runs a bridge between that ring and the place:
//!
//! ```text
//!   Publisher -> ring -> [Egress] -> Outlet ~~ place ~~ Inlet -> [Ingress] -> ring -> Subscriber
//! ```
//!
//! [`between::Bridge`] runs the same between two URIs, as a separate process. There the ring is a
//! channel in shared memory, which outlives the bridge. [`crate::raw`] shows these parts to other
//! crates, and `nats` uses nothing else of this crate.
//!
//! # No loss, no repetition
//!
//! * [`egress::Egress`] is a reliable subscriber. Its position moves only when the far side
//!   acknowledges. Messages without an acknowledgement stay in the ring and hold publishers back.
//!   There is no other back-pressure.
//! * [`ingress::Ingress`] is a publisher for each lane of the source. It acknowledges what is
//!   committed. The memory of each lane stores its position at the source. So over shared memory
//!   the successor of a killed bridge asks for exactly the missing messages.
//!
//! # Adding a kind of place
//!
//! It supplies an [`Outlet`], an [`Inlet`] or both, and an arm in `open/schemes.rs`. Each runs on
//! its own thread until nothing is left to do, until `control.must_stop()`, or until a permanent
//! failure. During a temporary failure it waits, and reports it with `control.report`. An outlet
//! ends with `Ok` once `control.stopping()` is some and everything was delivered. Its ring:
//!
//! * a single far side (a journal, a stream of a server): [`Source::take_first`]. It subscribes
//!   before the program gets the publisher, so it has every message from the first;
//! * any number of far sides: [`Egress::open`] with [`Source::ring`] for each of them.

pub(crate) mod behind;
pub(crate) mod between;
pub(crate) mod egress;
pub(crate) mod frame;
pub(crate) mod ingress;
#[cfg(feature = "journal")]
pub mod journal;
#[cfg(feature = "nats")]
pub(crate) mod nats;
pub(crate) mod reconnect;
pub(crate) mod relay;
pub(crate) mod secret;
#[cfg(feature = "tcp")]
pub(crate) mod tcp;
#[cfg(feature = "tcp")]
pub(crate) mod wire;

#[cfg(feature = "tcp")]
use crate::channel::attach;
#[cfg(feature = "tcp")]
use crate::channel::attach::PlannedShape;
use crate::channel::attach::{ShapeRole, TypeTag, least_for};
#[cfg(feature = "tcp")]
use crate::channel::attached::Attached;
#[cfg(feature = "tcp")]
use crate::channel::fields;
use crate::channel::raw::LaneSource;
#[cfg(feature = "tcp")]
use crate::channel::raw::absent_sources;
#[cfg(feature = "tcp")]
use crate::channel::slots::{self, AbsentName};
use crate::error::{LinkError, OpenError};
use crate::link::Control;
use crate::message::KnownType;
use crate::uri::Config;
use egress::Egress;
use ingress::Ingress;
use std::sync::Arc;
use std::time::Duration;

/// Carries frames from a ring to another place.
pub trait Outlet: Send {
    /// Whether the place has a single far side, which then gets every message from the first.
    fn is_single(&self) -> bool {
        true
    }

    /// Whether its reader of the ring counts as a subscriber only once a far side has been
    /// connected.
    fn counts_once_connected(&self) -> bool {
        false
    }

    /// Whether the far side needs the capacity, align and type of the ring before the first
    /// message. Otherwise the first publisher may still fix them.
    fn needs_geometry(&self) -> bool {
        true
    }

    /// Opens or makes what it writes to, if that is at this machine: once, after its ring, and
    /// before [`Outlet::run`]. So a refused ring leaves no empty file.
    ///
    /// # Errors
    ///
    /// [`LinkError`]: the bridge does not start.
    fn open(&mut self) -> Result<(), LinkError> {
        Ok(())
    }

    /// Carries until everything is delivered and nothing more can come, or until a request to stop.
    /// With `until_end` it also ends once every publisher of the ring has closed.
    ///
    /// # Errors
    ///
    /// [`LinkError`]: a permanent failure.
    fn run(
        self: Box<Self>,
        source: Source,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError>;
}

/// What the reader of an outlet's ring does with the settings of an open one.
fn part_of(outlet: &dyn Outlet) -> ShapeRole {
    if outlet.needs_geometry() {
        ShapeRole::Names
    } else {
        ShapeRole::Leaves
    }
}

/// Carries frames from another place into a ring.
pub trait Inlet: Send {
    /// Adapts the settings of a new ring, made for this inlet alone, to the messages.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if it is already known that no message can come.
    fn shape(&mut self, _ring: &mut Config) -> Result<(), OpenError> {
        Ok(())
    }

    /// Carries until a request to stop; with `until_end`, until the place has ended.
    ///
    /// # Errors
    ///
    /// [`LinkError`]: a permanent failure.
    fn run(
        self: Box<Self>,
        destination: Destination,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError>;
}

/// The ring that an inlet carries into.
#[derive(Clone, Debug)]
pub struct Destination {
    ring: Config,
    typed: TypeTag,
    control: Arc<Control>,
}

impl Destination {
    /// The ring with the settings of `ring`, made with this type if needed, for the bridge of
    /// `control`.
    pub(crate) fn new(ring: &Config, typed: TypeTag, control: &Arc<Control>) -> Self {
        Self {
            ring: ring.clone(),
            typed,
            control: Arc::clone(control),
        }
    }

    /// Opens the ring for a source. `who` names the source. With the same name it finds its earlier
    /// lanes; another source has another name.
    ///
    /// # Errors
    ///
    /// [`LinkError::Ring`]; [`LinkError::Settings`] if the ring is of another type.
    pub(crate) fn unchecked_ingress(&self, who: &str) -> Result<Ingress, LinkError> {
        self.ingress_of(LaneSource::new(who, Duration::ZERO), who)
    }

    /// As [`Destination::unchecked_ingress`], for a source whose lanes may expire. Errors name it
    /// `who`.
    ///
    /// # Errors
    ///
    /// As [`Destination::unchecked_ingress`].
    pub(crate) fn ingress_of(&self, source: LaneSource, who: &str) -> Result<Ingress, LinkError> {
        let opened = Ingress::open(&self.ring, self.typed.clone(), source, who, &self.control);
        opened.map_err(|error| match error {
            OpenError::Type { asked, found, .. } => LinkError::Settings {
                far: "the source".into(),
                key: "type",
                theirs: asked,
                ours: found,
                rule: ingress::TYPE_RULE,
            },
            other => ring_error(other),
        })
    }

    /// The sources that expire and whose lanes an earlier bridge left in the ring.
    #[cfg(feature = "tcp")]
    pub(crate) fn absent_sources(&self) -> Vec<LaneSource> {
        let found = attach::find_open(&self.ring);
        found.map_or_else(Vec::new, |attached| absent_sources(&attached))
    }

    /// A source of [`Destination::absent_sources`] did not come back: ends its lanes with this
    /// reason, and makes them available to others. Returns where it would continue.
    ///
    /// # Errors
    ///
    /// As [`Destination::unchecked_ingress`].
    #[cfg(feature = "tcp")]
    pub(crate) fn abandon(
        &self,
        source: LaneSource,
        reason: &str,
    ) -> Result<Vec<ingress::SourcePosition>, LinkError> {
        let Some(Attached {
            geometry, control, ..
        }) = attach::find_open(&self.ring)
        else {
            return Ok(Vec::new());
        };
        let mut this = self.clone();
        this.adopt(&fields::known_type(&control, &geometry), geometry.capacity);
        let ingress = this.ingress_of(source, "a source that stays away")?;
        Ok(ingress.abandon(reason))
    }

    /// The shape that the ring has or would get. Makes nothing.
    #[cfg(feature = "tcp")]
    pub(crate) fn planned_shape(&self) -> PlannedShape {
        attach::planned_shape(&self.ring, &self.typed)
    }

    /// The type of the ring's messages.
    pub(crate) fn typed(&self) -> &TypeTag {
        &self.typed
    }

    /// Takes the type of the source if the ring accepts any type; an existing ring must then have
    /// this type. A ring of this type takes its fields, unless the program has stated some. A ring
    /// made without a `capacity=` gets at least that of the source, if a default can be so large.
    pub fn adopt(&mut self, source: &KnownType, capacity: u64) {
        self.ring.capacity_least = least_for(capacity);
        if self.typed.any {
            self.typed = TypeTag::of(source.clone());
        } else {
            self.typed.known.take_fields(source);
        }
    }
}

/// The ring that an outlet reads.
#[derive(Debug)]
pub struct Source {
    ring: Config,
    first: Option<Egress>,
    part: ShapeRole,
    /// The ring belongs to one handle: no other bridge reads it.
    #[cfg(feature = "tcp")]
    is_of_handle: bool,
}

impl Source {
    /// The ring with the settings of `ring`. With `first`, it is subscribed from here on.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub(crate) fn new(ring: &Config, first: bool, part: ShapeRole) -> Result<Self, OpenError> {
        let first = first.then(|| Egress::open(ring, part)).transpose()?;
        Ok(Self {
            ring: ring.clone(),
            part,
            first,
            #[cfg(feature = "tcp")]
            is_of_handle: false,
        })
    }

    /// The ring of a handle: no other bridge reads it.
    pub(crate) fn of_handle(
        ring: &Config,
        first: bool,
        part: ShapeRole,
    ) -> Result<Self, OpenError> {
        let source = Self::new(ring, first, part)?;
        #[cfg(feature = "tcp")]
        let source = Self {
            is_of_handle: true,
            ..source
        };
        Ok(source)
    }

    /// The subscribers that an earlier bridge of this handle's `name=` left in the ring, and that
    /// are away. Between two URIs these may belong to another bridge: then there are none.
    #[cfg(feature = "tcp")]
    pub(crate) fn absent_readers(&self) -> Vec<AbsentName> {
        let found = self.is_of_handle.then(|| attach::find_open(&self.ring));
        let found = found.flatten();
        found.map_or_else(Vec::new, |attached| slots::absent_names(&attached))
    }

    /// Whether its subscriber has a durable name that did not exist before.
    pub(crate) fn has_new_name(&self) -> bool {
        self.first.as_ref().is_some_and(Egress::has_new_name)
    }

    /// For a bridge between two URIs: [`Egress::keep_reports`].
    pub(crate) fn keep_reports(&mut self, control: &Arc<Control>) {
        if let Some(first) = self.first.as_mut() {
            first.keep_reports(control);
        }
    }

    /// For a bridge with a random name. An earlier bridge of this name may have delivered
    /// everything, reported the end, and been stopped or killed before it freed its slot. Then the
    /// end that exists already ends this bridge, too.
    pub(crate) fn accept_closed_as_end(&mut self) {
        if let Some(first) = self.first.as_mut().filter(|first| first.is_resumed()) {
            first.accept_closed_as_end();
        }
    }

    /// The subscriber of a single far side.
    ///
    /// # Errors
    ///
    /// [`LinkError::Ring`] if it was already taken and cannot be opened again.
    pub(crate) fn take_first(&mut self) -> Result<Egress, LinkError> {
        match self.first.take() {
            Some(first) => Ok(first),
            None => Egress::open(&self.ring, self.part).map_err(ring_error),
        }
    }

    /// The settings of the ring: for each of several far sides, change those of one subscriber and
    /// open it with [`CheckedEgress::open`](crate::raw::CheckedEgress::open).
    pub fn ring(&self) -> &Config {
        &self.ring
    }
}

/// The error for a ring that could not be opened.
pub(crate) fn ring_error(source: OpenError) -> LinkError {
    let source = Arc::new(source);
    LinkError::Ring { source }
}

/// The type of a ring whose messages are not read here.
pub(crate) fn any_type() -> TypeTag {
    TypeTag {
        any: true,
        ..TypeTag::default()
    }
}
