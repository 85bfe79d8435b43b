//! `nats://`: messages in a stream of a NATS server, with acknowledgement. `docs/nats.md` describes
//! the stored form.
//!
//! Each message of a ring is one message of the stream, so any NATS client can read it. A message
//! that a NATS client publishes on the channel's subject reaches the subscribers. Publishers and
//! subscribers meet only in the stream.
//!
//! * [`publish`] has many messages in flight; [`window`] decides which are stored and may be
//!   released.
//! * [`subscribe`] pulls through a consumer of the server, in the order of the stream; [`sources`]
//!   writes each lane to a lane of this side, which stores its position.
//! * [`label`] connects the two: each message names its lane and frame.
//!
//! The client library is asynchronous. Each bridge runs it on its own thread; no other code sees
//! it.
//!
//! It names [`crate::raw`] and other public items of the crate, nothing else: a crate of another
//! repository could be the same. `tests/raw_nats.rs` builds it as one. The pauses between attempts
//! and the reading of files are shared with `tcp://`, so `raw` shows them.

mod connect;
mod label;
mod publish;
mod seen;
mod settings;
mod sources;
mod stream;
mod subscribe;
mod window;

use crate::raw::{Control, Destination, Inlet, Outlet, Source};
use crate::{Config, LinkError, OpenError};
use settings::Settings;
use std::sync::Arc;

/// One side of `nats://` with its settings.
#[derive(Debug)]
pub(crate) struct Nats {
    settings: Settings,
}

impl Nats {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub(crate) fn new(config: &Config) -> Result<Self, OpenError> {
        let settings = Settings::new(config)?;
        Ok(Self { settings })
    }
}

/// The event loop of the client library on the bridge's thread.
fn runtime(settings: &Settings) -> Result<tokio::runtime::Runtime, LinkError> {
    let built = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    built.map_err(|source| LinkError::Io {
        action: "start an event loop for",
        place: settings.place(),
        source: Arc::new(source),
    })
}

impl Outlet for Nats {
    fn run(
        self: Box<Self>,
        source: Source,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError> {
        let run = publish::run(&self.settings, source, control, until_end);
        runtime(&self.settings)?.block_on(run)
    }
}

impl Inlet for Nats {
    fn run(
        self: Box<Self>,
        destination: Destination,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError> {
        let run = subscribe::run(&self.settings, destination, control, until_end);
        runtime(&self.settings)?.block_on(run)
    }
}
