//! The native part of the Python package `olivine`; `python/olivine` is the rest of it, and its
//! documentation.
//!
//! What is received or claimed is memory of the ring, and Python may keep a view of it for as long
//! as it likes. So everything that would end the life of those bytes (the next receive, a commit,
//! an abort) is refused with `BufferError` as long as there are views: see `views`. Waits release
//! the interpreter, and look for signals at bounded intervals: see `waits`.

mod ending;
mod errors;
mod publisher;
mod settings;
mod subscriber;
mod views;
mod waits;

/// The native part of the package.
#[pyo3::pymodule]
#[pyo3(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::errors::{
        BackPressured, Closed, Corrupt, EndOfStream, Error, Evicted, Forked, InUse, LinkFailed,
        NotConnected, NotSent, OpenError, Overrun, ReceiveError, TooLong, UriError,
    };
    #[pymodule_export]
    use crate::publisher::{Claim, Publisher};
    #[pymodule_export]
    use crate::subscriber::{Message, Subscriber};

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
