//! A bridge between two URIs.

use super::is_here;
use super::schemes::{inlet, outlet};
use crate::bridge::between::{Bridge, default_name, named, refuse_topic};
use crate::bridge::relay::Relay;
use crate::error::OpenError;
use crate::uri::{Config, UriError};

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
        refuse_topic(source)?;
        refuse_topic(destination)?;
        let words = format!("{} to {}", source.uri(), destination.uri());
        let name = default_name(&words);
        match (is_here(source), is_here(destination)) {
            (true, true) => {
                let outlet = Box::new(Relay::new(destination));
                Self::out_of(source, words, outlet, until_end)
            }
            (true, false) => {
                let outlet = outlet(&named(destination, &name))?;
                Self::out_of(source, words, outlet, until_end)
            }
            (false, true) => {
                let inlet = inlet(&named(source, &name))?;
                Self::into_ring(destination, words, inlet, until_end)
            }
            (false, false) => Err(UriError::Pair {
                first: "a source elsewhere",
                second: "a destination elsewhere",
                rule: "put a channel in shared memory between them, and two bridges",
            }
            .into()),
        }
    }
}
