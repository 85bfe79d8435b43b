//! Several messages in one call: of any objects, or the rows of an array.

use crate::arguments::tag;
use crate::errors::of_described;
use crate::publisher::{find_room, is_everyday, label};
use crate::rows::{Rows, Tags};
use crate::views::Bytes;
use crate::waits::{Cancel, Deadline};
use olivine::{BatchNotSent, Label, Outgoing, Publisher as RustPublisher};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Messages to send together.
pub(crate) trait Messages {
    /// How many there are.
    fn count(&self) -> usize;

    /// One of them, while the interpreter is held.
    fn get<'a>(&'a self, py: Python<'a>, index: usize) -> Outgoing<'a>;

    /// The room that it needs.
    fn size(&self, index: usize) -> Outgoing<'_, usize>;
}

impl Messages for [Part] {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn get<'a>(&'a self, py: Python<'a>, index: usize) -> Outgoing<'a> {
        let part = &self[index];
        Outgoing::new(part.bytes.get(py)).label(part.label())
    }

    fn size(&self, index: usize) -> Outgoing<'_, usize> {
        Outgoing::sized(self[index].length()).label(self[index].label())
    }
}

/// The rows of an array as messages.
pub(crate) struct Array<'a> {
    pub(crate) rows: Rows,
    pub(crate) tags: Tags,
    pub(crate) topic: Option<&'a str>,
}

impl Messages for Array<'_> {
    fn count(&self) -> usize {
        self.rows.count
    }

    #[inline]
    fn get<'a>(&'a self, py: Python<'a>, index: usize) -> Outgoing<'a> {
        let tag = self.tags.get(py, index);
        Outgoing::new(self.rows.get(py, index)).label(label(tag, self.topic))
    }

    fn size(&self, _index: usize) -> Outgoing<'_, usize> {
        Outgoing::sized(self.rows.row).label(label(0, self.topic))
    }
}

/// One of several messages to send together.
pub(crate) struct Part {
    bytes: Bytes,
    tag: u32,
    topic: Option<String>,
}

impl Part {
    /// Bytes, or a tuple of bytes, a tag, and a topic.
    pub(crate) fn of(item: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(tuple) = item.cast::<PyTuple>() else {
            return Ok(Self {
                bytes: Bytes::of(item)?,
                tag: 0,
                topic: None,
            });
        };
        if !(1..=3).contains(&tuple.len()) {
            return Err(PyValueError::new_err(format!(
                "a tuple of {} is not a message: give (message, tag) or (message, tag, topic)",
                tuple.len()
            )));
        }
        let second = tuple.get_item(1).ok();
        let third = tuple.get_item(2).ok();
        Ok(Self {
            bytes: Bytes::of(&tuple.get_item(0)?)?,
            tag: second.map_or(Ok(0), |given| tag(&given))?,
            topic: third.map_or(Ok(None), |topic| topic.extract())?,
        })
    }

    /// How many bytes it has.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    fn label(&self) -> Label<'_> {
        label(self.tag, self.topic.as_deref())
    }
}

/// Sends in batches until the deadline, counting in `published`.
pub(crate) fn send_batch<M: Messages + ?Sized>(
    py: Python<'_>,
    cancel: &Cancel,
    publisher: &mut RustPublisher,
    messages: &M,
    deadline: Deadline,
    published: &mut usize,
) -> PyResult<()> {
    loop {
        // Also where a slow reader makes room each time.
        py.check_signals()?;
        let rest = (*published..messages.count()).map(|index| messages.get(py, index));
        let Err(BatchNotSent {
            published: more,
            reason,
        }) = publisher.try_publish_batch(rest)
        else {
            *published = messages.count();
            return Ok(());
        };
        *published += more;
        let refused = match is_everyday(reason) {
            true if deadline.is_over() => return Ok(()),
            true => find_room(
                py,
                cancel,
                publisher,
                messages.size(*published),
                deadline.left(),
            )?,
            false => Err(reason),
        };
        match refused {
            Err(reason) if is_everyday(reason) => return Ok(()),
            Err(reason) => {
                let described = publisher.describe(reason).of_batch(*published);
                return Err(of_described(py, &described));
            }
            Ok(()) => {}
        }
    }
}
