//! The iterator over the messages of a subscriber.

use crate::exclusive::Exclusive;
use crate::message::Message;
use crate::subscriber::Subscriber;
use pyo3::prelude::*;

/// Copies of messages, in order. It waits for each, and ends with the stream.
#[pyclass(frozen, module = "olivine")]
pub(crate) struct Messages {
    subscriber: Py<Subscriber>,
    kept: Exclusive<Kept>,
    /// Where a message has its weak references, in bytes from its beginning.
    weakrefs: Option<usize>,
}

/// The two small messages that were handed out last. A loop has let go of the older one when it
/// asks for the next message, which is then put in that object: no object is made or freed.
#[derive(Default)]
struct Kept {
    messages: [Option<Py<Message>>; 2],
    /// The place of the newer one.
    last: usize,
}

impl Messages {
    pub(crate) fn of(subscriber: Bound<'_, Subscriber>) -> PyResult<Self> {
        let offset = subscriber
            .py()
            .get_type::<Message>()
            .getattr("__weakrefoffset__")?;
        Ok(Self {
            subscriber: subscriber.unbind(),
            kept: Exclusive::new(Kept::default()),
            // 0 or less: elsewhere, as later versions of the interpreter may have it.
            weakrefs: offset.extract().ok().filter(|offset| *offset > 0),
        })
    }
}

#[pymethods]
impl Messages {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, Message>>> {
        let py = slf.py();
        let this = slf.get();
        let subscriber = this.subscriber.bind(py);
        // Dropped last: with its weak references it may run code that uses the subscriber.
        let mut earlier = None;
        Subscriber::next_copy(subscriber, |serial, message| {
            let (Some(mut kept), Some(weakrefs)) = (this.kept.take(py), this.weakrefs) else {
                return Message::copy_of(subscriber, serial, message);
            };
            let turn = kept.last ^ 1;
            if let Some(old) = &kept.messages[turn]
                && Message::refill(old.bind(py), weakrefs, serial, message)
            {
                let again = old.bind(py).clone();
                kept.last = turn;
                return Ok(again);
            }
            let made = Message::copy_of(subscriber, serial, message)?;
            if made.get().is_small() {
                kept.last = turn;
                earlier = kept.messages[turn].replace(made.clone().unbind());
            }
            Ok(made)
        })
    }
}
