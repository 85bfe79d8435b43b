//! The native part of the Python package `olivine`; `python/olivine` is the rest of it, and its
//! documentation.
//!
//! What is received or claimed is memory of the ring, and Python may keep a view of it for as long
//! as it likes. So everything that would end the life of those bytes (the next receive, a commit,
//! an abort) is refused with `BufferError` as long as there are views: see `views`. Waits release
//! the interpreter, and look for signals at bounded intervals: see `waits`.

mod arguments;
mod batch;
mod claim;
mod ending;
mod errors;
mod exclusive;
mod iterator;
mod message;
mod publisher;
mod rows;
mod settings;
mod stated;
mod subscriber;
mod tensor;
mod views;
mod waits;

/// The native part of the package. It needs the interpreter's lock: a free-threaded interpreter
/// takes the lock again when it imports the package.
#[pyo3::pymodule(gil_used = true)]
#[pyo3(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::claim::Claim;
    #[pymodule_export]
    use crate::errors::{
        BackPressured, Cancelled, Closed, Corrupt, EndOfStream, Error, Evicted, Forked, InUse,
        LinkFailed, NotConnected, NotSent, OpenError, Overrun, ReceiveError, TooLong, UriError,
        WrongLength,
    };
    #[pymodule_export]
    use crate::message::Message;
    #[pymodule_export]
    use crate::publisher::Publisher;
    #[pymodule_export]
    use crate::settings::settings;
    #[pymodule_export]
    use crate::subscriber::Subscriber;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// `DETAILS` is what came with each message, as fields of a structure of numpy.
    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::PyModuleMethods as _;
        crate::errors::install(module.py())?;
        crate::publisher::install(module.py())?;
        crate::ending::watch_exit(module.py())?;
        module.add("DETAILS", crate::rows::DETAILS.to_vec())
    }
}
