//! Server-sent events.

use std::time::Duration;

/// A server-sent event; [`Http::event`](super::Http::event) sends it.
///
/// ```
/// use olivine_net::http::Event;
///
/// let event = Event::new("18.5").name("temperature").id("41");
/// assert_eq!(event.to_string(), "event: temperature\nid: 41\ndata: 18.5\n\n");
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "an event does nothing until it is sent"]
pub struct Event<'a> {
    data: &'a str,
    name: &'a str,
    id: Option<&'a str>,
    retry: Option<Duration>,
}

impl<'a> Event<'a> {
    /// An event with `data`, whose lines may end in any way.
    pub fn new(data: &'a str) -> Self {
        Self {
            data,
            ..Self::default()
        }
    }

    /// The type of the event. Default none, which clients call `message`. Line ends are left out.
    pub fn name(mut self, name: &'a str) -> Self {
        self.name = name;
        self
    }

    /// The id of the event. A client that connects again sends the last one it saw
    /// ([`Request::last_event_id`](super::Request::last_event_id)); an empty one makes it forget.
    /// Line ends and zero bytes are left out. Default none.
    pub fn id(mut self, id: &'a str) -> Self {
        self.id = Some(id);
        self
    }

    /// How long a client waits before it connects again, in whole milliseconds. Default none: the
    /// client decides.
    pub fn retry(mut self, after: Duration) -> Self {
        self.retry = Some(after);
        self
    }

    /// Bytes of the event on the wire.
    pub(super) fn length(&self) -> usize {
        let mut length = 0;
        self.render(&mut |piece| length += piece.len());
        length
    }

    /// Passes the event to `emit`, in pieces.
    pub(super) fn render(&self, emit: &mut impl FnMut(&[u8])) {
        if !self.name.is_empty() {
            field(emit, b"event: ", self.name);
        }
        if let Some(id) = self.id {
            field(emit, b"id: ", id);
        }
        if let Some(retry) = self.retry {
            let mut digits = [0; 20];
            let milliseconds = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
            emit(b"retry: ");
            emit(super::message::decimal(milliseconds, &mut digits));
            emit(b"\n");
        }
        lines(emit, b"data: ", self.data);
        emit(b"\n");
    }
}

impl std::fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = Vec::with_capacity(self.length());
        self.render(&mut |piece| text.extend_from_slice(piece));
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

/// One line, without the bytes that would end it or the field.
fn field(emit: &mut impl FnMut(&[u8]), name: &[u8], value: &str) {
    emit(name);
    for piece in value.split(['\r', '\n', '\0']) {
        emit(piece.as_bytes());
    }
    emit(b"\n");
}

/// Each line of `text` behind `name`.
pub(super) fn lines(emit: &mut impl FnMut(&[u8]), name: &[u8], text: &str) {
    let mut rest = text.as_bytes();
    loop {
        let end = memchr::memchr2(b'\r', b'\n', rest);
        emit(name);
        emit(&rest[..end.unwrap_or(rest.len())]);
        emit(b"\n");
        let Some(end) = end else { break };
        let both = rest[end..].starts_with(b"\r\n");
        rest = &rest[end + if both { 2 } else { 1 }..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_cannot_be_broken_apart_and_lengths_agree() {
        for (event, text) in [
            (Event::new(""), "data: \n\n"),
            (
                Event::new("a\r\nb\rc\n"),
                "data: a\ndata: b\ndata: c\ndata: \n\n",
            ),
            (
                Event::new("x").name("n\r\nid: 7"),
                "event: nid: 7\ndata: x\n\n",
            ),
            (
                Event::new("x").id("1\n\0data: y"),
                "id: 1data: y\ndata: x\n\n",
            ),
            (Event::new("x").id(""), "id: \ndata: x\n\n"),
            (
                Event::new("x").retry(Duration::from_millis(1500)),
                "retry: 1500\ndata: x\n\n",
            ),
        ] {
            assert_eq!(event.to_string(), text);
            assert_eq!(event.length(), text.len());
        }
    }
}
