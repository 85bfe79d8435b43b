//! The exceptions: families as those of the errors in Rust, and the everyday ones by name.

use olivine::error_chain;
use pyo3::PyTypeInfo as _;
use pyo3::exceptions::{
    PyBufferError, PyException, PyOSError, PyOverflowError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use std::io;

pyo3::create_exception!(
    olivine,
    Error,
    PyException,
    "Whatever goes wrong in Olivine.

`id` is the name of its kind, such as \"journal.damaged\": `olivine explain ID` of the tool explains
it. None where the core has no error, such as for a handle that was closed here."
);
pyo3::create_exception!(olivine, UriError, Error, "The URI or a setting is wrong.");
pyo3::create_exception!(
    olivine,
    OpenError,
    Error,
    "The channel could not be opened; nothing was left behind."
);
pyo3::create_exception!(olivine, Closed, Error, "The handle is closed.");
pyo3::create_exception!(
    olivine,
    Forked,
    Error,
    "The handle belongs to the parent process: open the channel again after fork.

In a forked child every call of a handle raises it. `close`, `close_failed`, `drop` and the end of a
`with` block of a publisher or a subscriber do not: they let go of the child's copy, and the parent
goes on. The end of a `with` block of a claim or a message raises it, unless an exception leaves the
block."
);
pyo3::create_exception!(
    olivine,
    InUse,
    Error,
    "The handle is in use by a call in another thread, or by a poll whose handler runs."
);
pyo3::create_exception!(
    olivine,
    Cancelled,
    Error,
    "Another thread called `cancel` while this call waited, or before it did."
);
pyo3::create_exception!(olivine, NotSent, Error, "Nothing was sent.");
pyo3::create_exception!(
    olivine,
    BackPressured,
    NotSent,
    "There was no room in time: a subscriber has not read far enough."
);
pyo3::create_exception!(
    olivine,
    NotConnected,
    NotSent,
    "The subscribers that 'subscribers=' asks for did not come in time."
);
pyo3::create_exception!(
    olivine,
    TooLong,
    NotSent,
    "The message does not fit the ring at all; `max` is how long it may be, in bytes."
);
pyo3::create_exception!(
    olivine,
    LinkFailed,
    NotSent,
    "The far side of a channel elsewhere cannot be reached any more."
);
pyo3::create_exception!(olivine, ReceiveError, Error, "Nothing was received.");
pyo3::create_exception!(
    olivine,
    EndOfStream,
    ReceiveError,
    "Every publisher has closed and everything was read."
);
pyo3::create_exception!(
    olivine,
    Overrun,
    ReceiveError,
    "Unread messages of a delivery=latest subscriber were overwritten; `lost_bytes` counts their \
     bytes. It continues with the next message of that lane."
);
pyo3::create_exception!(
    olivine,
    Evicted,
    ReceiveError,
    "The subscriber lost its place: it held a publisher back for too long, or its name had expired."
);
pyo3::create_exception!(
    olivine,
    Corrupt,
    ReceiveError,
    "A lane holds something that no publisher of this version writes."
);

pyo3::create_exception!(
    olivine,
    WrongLength,
    ReceiveError,
    "The next message does not fit a row of the array. It has `length` bytes, a row has \
     `expected`. It is not lost: the next call that receives gets it."
);

/// A URI or a setting was refused.
pub(crate) fn of_uri(error: &olivine::UriError) -> PyErr {
    let more = match error {
        olivine::UriError::UnknownKey { .. } => ", and so does olivine.settings()",
        _ => "",
    };
    let made = UriError::new_err(format!("{error}{more}"));
    Python::attach(|py| with(py, made, "id", error.id()))
}

/// Every exception has an `id`: `None` where the package raises it, and the core knows nothing.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    Error::type_object(py).setattr("id", py.None())
}

/// A channel could not be opened.
pub(crate) fn of_open(py: Python<'_>, error: &olivine::OpenError) -> PyErr {
    match error {
        olivine::OpenError::Uri(error) => of_uri(error),
        error => {
            let made = with(py, OpenError::new_err(error_chain(error)), "id", error.id());
            match errno(error) {
                Some(errno) => with(py, made, "errno", errno),
                None => made,
            }
        }
    }
}

/// What the system answered, if it is among the causes of `error`.
fn errno(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.raw_os_error();
        }
        cause = error.source();
    }
    None
}

/// The system refused something that is not a message.
pub(crate) fn of_system(action: &str, error: &io::Error) -> PyErr {
    let text = format!("cannot {action}: {error}");
    match error.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, text)),
        None => PyOSError::new_err(text),
    }
}

/// A message was not sent by `publisher`.
pub(crate) fn of_sent(
    py: Python<'_>,
    error: olivine::NotSent,
    publisher: &olivine::Publisher,
) -> PyErr {
    of_described(py, &publisher.describe(error))
}

/// A message was not sent, or a stream not ended as it should be.
pub(crate) fn of_described(py: Python<'_>, described: &olivine::Described) -> PyErr {
    let text = described.to_string();
    let error = match described.error {
        olivine::NotSent::BackPressured | olivine::NotSent::Unacknowledged { .. } => {
            BackPressured::new_err(text)
        }
        olivine::NotSent::NotConnected => NotConnected::new_err(text),
        olivine::NotSent::Closed => Closed::new_err(text),
        olivine::NotSent::TooLong { max } => with(py, TooLong::new_err(text), "max", max as u64),
        olivine::NotSent::Forked => Forked::new_err(text),
        olivine::NotSent::LinkFailed => LinkFailed::new_err(text),
        _ => NotSent::new_err(text),
    };
    with(py, error, "id", described.error.id())
}

/// `error` of the message with this index in a batch. An exception of the program stays as it is.
pub(crate) fn of_batch(py: Python<'_>, index: usize, error: PyErr) -> PyErr {
    let kind = error.get_type(py);
    let is_builtin = kind.is(PyTypeError::type_object(py))
        || kind.is(PyValueError::type_object(py))
        || kind.is(PyOverflowError::type_object(py))
        || kind.is(PyBufferError::type_object(py));
    if !is_builtin && !error.is_instance_of::<Error>(py) {
        return error;
    }
    let text = olivine::Described::text_of_batch(index, error.value(py));
    let made = PyErr::from_type(kind, text);
    match error.value(py).getattr("id") {
        Ok(id) => with(py, made, "id", id),
        Err(_) => made,
    }
}

/// Nothing was received.
pub(crate) fn of_received(py: Python<'_>, error: &olivine::ReceiveError) -> PyErr {
    let text = error_chain(error);
    let exception = match error {
        olivine::ReceiveError::Closed => EndOfStream::new_err(text),
        olivine::ReceiveError::Overrun { lost_bytes } => {
            with(py, Overrun::new_err(text), "lost_bytes", *lost_bytes)
        }
        olivine::ReceiveError::Evicted => Evicted::new_err(text),
        olivine::ReceiveError::Corrupt { .. } => Corrupt::new_err(text),
        olivine::ReceiveError::Forked => Forked::new_err(text),
        _ => ReceiveError::new_err(text),
    };
    with(py, exception, "id", error.id())
}

/// The next message does not fit a row.
pub(crate) fn wrong_length(py: Python<'_>, length: usize, expected: usize) -> PyErr {
    let error = WrongLength::new_err(format!(
        "the next message has {length} bytes, and a row of the array has {expected}: receive it \
         alone, by receive() for example, or use rows of that length"
    ));
    let error = with(py, error, "length", length);
    with(py, error, "expected", expected)
}

/// The exception with its object, which pyo3 otherwise makes at the first look at it. While the
/// interpreter exits it cannot: it panics.
pub(crate) fn made(py: Python<'_>, error: PyErr) -> PyErr {
    error.restore(py);
    PyErr::fetch(py)
}

/// An exception with an attribute.
pub(crate) fn with<'py>(
    py: Python<'py>,
    error: PyErr,
    name: &str,
    value: impl IntoPyObject<'py>,
) -> PyErr {
    let error = made(py, error);
    match error.value(py).setattr(name, value) {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// The handle was closed here.
pub(crate) fn closed(what: &str) -> PyErr {
    Closed::new_err(format!("the {what} is closed: open another one"))
}

/// Refuses what process `opener` opened in a child that was forked since.
pub(crate) fn ours(opener: u32, what: &str) -> PyResult<()> {
    if opener == std::process::id() {
        return Ok(());
    }
    Err(Forked::new_err(format!(
        "the {what} belongs to the parent process: open the channel again after fork"
    )))
}

/// Another thread is in the middle of a call.
pub(crate) fn in_use(what: &str) -> PyErr {
    InUse::new_err(format!(
        "the {what} is in use by a call in another thread: open one for each thread, or end that \
         call by cancel()"
    ))
}

/// `async with` of a handle that blocks.
pub(crate) fn not_async(class: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "olivine.{class} blocks: use it by `with`, or olivine.aio.{class} by `async with`"
    ))
}

/// The handler of a message receives.
pub(crate) fn in_handler() -> PyErr {
    InUse::new_err(
        "a handler of poll must not receive: its message is not consumed yet; return from it, and \
         receive after the poll",
    )
}

/// Bytes are still looked at whose life a call would end.
pub(crate) fn viewed(what: &str, views: usize) -> PyErr {
    PyBufferError::new_err(format!(
        "{what} still has {views} view{} (memoryview, numpy array): release or delete {}, or copy \
         the bytes",
        if views == 1 { "" } else { "s" },
        if views == 1 { "it" } else { "them" },
    ))
}
