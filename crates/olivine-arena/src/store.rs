//! What `olivine bench bridge` asks of the program of a client library: to store messages in a
//! stream of a server.

use serde::{Deserialize, Serialize};

/// The word that makes a rival's program store a [`StoreJob`].
pub const STORE: &str = "store";

/// What the program of a client library is asked to store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "made by the coordinator")]
pub struct StoreJob {
    /// Where the server is: `127.0.0.1:4222`.
    pub address: String,
    /// Subject, and name of the stream.
    pub subject: String,
    /// Payload of a message in bytes.
    pub size_bytes: usize,
    /// Messages, numbered from 0.
    pub count: u64,
    /// Each message has an id by which the server recognizes repeats, like those of a channel.
    pub ids: bool,
}

/// The result.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "made by other programs")]
pub struct Stored {
    /// From the first message to the acknowledgement of the last one.
    pub seconds: f64,
}
