//! A request as a service sees it, and answers that are rendered once.

use super::{
    date,
    head::{Field, Framing, Head, absolute},
    scan::Span,
    status::reason,
};
use crate::sys::bytes::text;

/// A request: its parts borrow the receive buffer, nothing is copied.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub(crate) message: &'a Message<'a>,
    pub(crate) fields: &'a [Field],
}

/// What came of a request, beside its fields. Passed by reference: a copy of what was just written
/// would wait for it.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) head: &'a Head,
    /// The bytes of the head.
    pub(crate) bytes: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) trailers: Trailers<'a>,
}

/// The trailer fields of a chunked body; most have none.
///
/// They come from the peer behind the body, and were checked for their form only. Never treat one
/// as a header field: a server in front has checked those, and not these.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trailers<'a>(pub(crate) &'a [u8]);

impl<'a> Trailers<'a> {
    /// All fields, in order: names, and values without surrounding spaces.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let lines = self.0.split(|byte| *byte == b'\n');
        lines.filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((text(&line[..colon]), line[colon + 1..].trim_ascii()))
        })
    }

    /// The value of the first field called `name`, in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        let wanted = |(field, _): &(&str, _)| field.eq_ignore_ascii_case(name);
        self.iter().find(wanted).map(|(_, value)| value)
    }
}

impl<'a> Request<'a> {
    /// The method as it came: `GET`, `POST`, …; case matters.
    #[must_use]
    #[inline]
    pub fn method(&self) -> &'a str {
        match self.message.head.method.of(self.message.bytes) {
            // Known to be text without looking at it again.
            b"GET" => "GET",
            b"POST" => "POST",
            other => text(other),
        }
    }

    /// The request target as it came: `/path?query`, `http://host/path`, or `*`.
    #[must_use]
    pub fn target(&self) -> &'a str {
        text(self.target_bytes())
    }

    /// The path, without query, percent-escapes untouched: what to `match` on for routing.
    #[must_use]
    #[inline]
    pub fn path(&self) -> &'a str {
        let Head { target, query, .. } = self.message.head;
        let path = Span {
            end: *query,
            ..*target
        }
        .of(self.message.bytes);
        if path.first() == Some(&b'/') {
            return text(path);
        }
        // The absolute form; a `*` is none, and has no query.
        match absolute(path) {
            Some((_, b"")) => "/",
            Some((_, path)) => text(path),
            None => text(path),
        }
    }

    /// The query behind the `?`, percent-escapes untouched; `None` if there is no `?`.
    #[must_use]
    pub fn query(&self) -> Option<&'a str> {
        // Only what follows the authority of an absolute target has one: no authority holds a `?`.
        let Head { target, query, .. } = self.message.head;
        let query = Span {
            start: *query,
            ..*target
        }
        .of(self.message.bytes);
        Some(text(query.strip_prefix(b"?")?))
    }

    fn target_bytes(&self) -> &'a [u8] {
        self.message.head.target.of(self.message.bytes)
    }

    /// The host asked for: from the target if it names one, otherwise from the Host field.
    #[must_use]
    pub fn host(&self) -> &'a str {
        match absolute(self.target_bytes()) {
            Some((authority, _)) => text(authority),
            None => self.header("host").map_or("", text),
        }
    }

    /// Whether the request is HTTP/1.0 rather than 1.1.
    #[must_use]
    pub fn is_http_10(&self) -> bool {
        self.message.head.minor == 0
    }

    /// The value of the first header field called `name`, in any case, without surrounding spaces.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let (wanted, bytes) = (name.as_bytes(), self.message.bytes);
        let found = |field: &&Field| field.name.of(bytes).eq_ignore_ascii_case(wanted);
        let field = self.fields.iter().find(found)?;
        Some(field.value.of(bytes))
    }

    /// All header fields, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let (fields, bytes) = (self.fields, self.message.bytes);
        fields
            .iter()
            .map(move |field| (text(field.name.of(bytes)), field.value.of(bytes)))
    }

    /// The body, whole, chunked coding already undone; empty if there is none, if it is streamed
    /// ([`Admit::Stream`](super::Admit::Stream)), and in
    /// [`Service::on_head`](super::Service::on_head).
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.message.body
    }

    /// The length of the body that the head announces, 0 without one; `None` for a chunked body,
    /// whose length its end shows.
    #[must_use]
    pub fn body_length(&self) -> Option<u64> {
        match self.message.head.framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked => None,
        }
    }

    /// The fields behind a chunked body that came whole.
    #[must_use]
    pub fn trailers(&self) -> Trailers<'a> {
        self.message.trailers
    }

    /// The protocol that the peer offers to change to, by `Connection: upgrade`; such as
    /// `websocket`. [`Responder::upgrade`](super::Responder::upgrade) accepts it.
    #[must_use]
    pub fn upgrade(&self) -> Option<&'a str> {
        let value = self
            .header("upgrade")
            .filter(|_| self.message.head.upgrade)?;
        std::str::from_utf8(value).ok()
    }

    /// The id of the last event that a reconnecting client of server-sent events has seen.
    #[must_use]
    pub fn last_event_id(&self) -> Option<&'a str> {
        std::str::from_utf8(self.header("last-event-id")?).ok()
    }
}

/// An answer that cannot be sent. Nothing of it was; the peer gets 500 instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// A header name or value holds bytes that would break the message apart, or a name that the
    /// server writes itself (Content-Length, Transfer-Encoding, Connection, Date).
    #[error("header {name:?} cannot be sent: its name or value is not allowed")]
    Header {
        /// The name given.
        name: String,
    },
    /// A status outside 200 to 599.
    #[error("status {status} cannot be sent: it must be 200 to 599")]
    Status {
        /// The status given.
        status: u16,
    },
    /// The request offers no upgrade, or its body is still to come.
    #[error("the connection cannot be upgraded: the request does not offer it")]
    Upgrade,
    /// The part of a file that an answer names is not in the file.
    #[error("the file has {length} bytes, and the answer names the bytes up to {end}")]
    Range {
        /// The length of the file.
        length: u64,
        /// The end of the part.
        end: u64,
    },
    /// The file cannot be read.
    #[error("the file cannot be read: {kind}")]
    File {
        /// What the system said.
        kind: std::io::ErrorKind,
    },
}

/// How the end of an answer's content is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Length(u64),
    Chunked,
    /// HTTP/1.0 knows no chunks: the end of the connection ends the body.
    UntilClose,
    /// The status says that the answer has no body: it names no length and no coding.
    Nothing,
}

impl Extent {
    /// The framing of every answer is decided here. `length` is that of the content; `None` for a
    /// stream.
    ///
    /// 1xx never comes here ([`check`]). 204: no length (RFC 9110 8.6), no coding (RFC 9112 6.1).
    /// 304: no length other than that of the corresponding 200 (RFC 9110 8.6), which is unknown
    /// here. 205: no content (RFC 9110 15.3.6), but clients read one unless its length is 0 (RFC
    /// 9112 6.3).
    pub(crate) fn of(status: u16, length: Option<u64>, http_10: bool) -> Self {
        match (status, length) {
            (204 | 304, _) => Self::Nothing,
            (205, _) => Self::Length(0),
            (_, Some(length)) => Self::Length(length),
            (_, None) if http_10 => Self::UntilClose,
            (_, None) => Self::Chunked,
        }
    }
}

/// Whether answers of this status may have content.
pub(crate) fn has_content(status: u16) -> bool {
    !matches!(status, 204 | 205 | 304)
}

/// The value of the Connection field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The field is not needed.
    Silent,
    /// An HTTP/1.0 peer asked to keep the connection.
    Alive,
    Close,
}

/// Checks a status and header fields against what may be sent.
pub(crate) fn check(status: u16, headers: &[(&str, &str)]) -> Result<(), AnswerError> {
    if !(200..=599).contains(&status) {
        return Err(AnswerError::Status { status });
    }
    check_fields(headers)
}

/// Checks fields of a head or a trailer.
pub(crate) fn check_fields(fields: &[(&str, &str)]) -> Result<(), AnswerError> {
    for (name, value) in fields {
        let ours = ["content-length", "transfer-encoding", "connection", "date"];
        let name_fine = !name.is_empty()
            && name
                .bytes()
                .all(|byte| super::scan::TOKEN[usize::from(byte)])
            && !ours
                .iter()
                .any(|reserved| name.eq_ignore_ascii_case(reserved));
        let value_fine = value
            .bytes()
            .all(|byte| super::scan::VALUE[usize::from(byte)]);
        if !name_fine || !value_fine {
            return Err(AnswerError::Header {
                name: (*name).to_owned(),
            });
        }
    }
    Ok(())
}

/// Appends a checked head.
pub(crate) fn write_head(
    out: &mut Vec<u8>,
    status: u16,
    headers: &[(&str, &str)],
    extent: Extent,
    keep: Keep,
    date: &[u8; date::LENGTH],
) {
    write_status(out, status);
    out.extend_from_slice(date);
    for (name, value) in headers {
        out.extend_from_slice(b"\r\n");
        write_field(out, name, value);
    }
    match extent {
        Extent::Length(length) => {
            out.extend_from_slice(b"\r\nContent-Length: ");
            write_decimal(out, length);
        }
        Extent::Chunked => out.extend_from_slice(b"\r\nTransfer-Encoding: chunked"),
        Extent::UntilClose | Extent::Nothing => {}
    }
    write_end(out, keep);
}

/// Status line and the name of the Date field, which always comes first.
fn write_status(out: &mut Vec<u8>, status: u16) {
    if status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\nDate: ");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    write_decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\nDate: ");
}

/// Appends the head that accepts an upgrade to `protocol`.
pub(crate) fn write_upgrade(out: &mut Vec<u8>, protocol: &str, headers: &[(&str, &str)]) {
    out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade");
    for (name, value) in [("Upgrade", protocol)].iter().chain(headers) {
        out.extend_from_slice(b"\r\n");
        write_field(out, name, value);
    }
    out.extend_from_slice(b"\r\n\r\n");
}

/// Appends what ends a chunked body, with trailer fields.
pub(crate) fn write_trailers(out: &mut Vec<u8>, fields: &[(&str, &str)]) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in fields {
        write_field(out, name, value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

fn write_field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
}

fn write_end(out: &mut Vec<u8>, keep: Keep) {
    out.extend_from_slice(match keep {
        Keep::Silent => b"\r\n\r\n",
        Keep::Alive => b"\r\nConnection: keep-alive\r\n\r\n",
        Keep::Close => b"\r\nConnection: close\r\n\r\n",
    });
}

fn write_decimal(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0; 20];
    out.extend_from_slice(decimal(value, &mut digits));
}

/// The digits of a number, in `digits`.
pub(super) fn decimal(mut value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    &digits[at..]
}

/// An answer rendered once and sent many times: sending it is one copy, its date patched once a
/// second.
///
/// ```
/// use olivine_net::http::StaticAnswer;
///
/// let hello = StaticAnswer::new(200, &[("Content-Type", "text/plain")], b"Hello, World!")?;
/// assert!(StaticAnswer::new(200, &[("X", "a\r\nY: b")], b"").is_err());
/// # Ok::<(), olivine_net::http::AnswerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StaticAnswer {
    /// The whole answer for a connection that is kept.
    whole: Vec<u8>,
    /// The place of the date.
    date_at: usize,
    /// Where the empty line begins, that ends the head.
    end_at: usize,
    /// The rendering of the date in it.
    version: u64,
    status: u16,
}

impl StaticAnswer {
    /// Renders an answer.
    ///
    /// # Errors
    ///
    /// [`AnswerError`] if the status or a header cannot be sent.
    pub fn new(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Result<Self, AnswerError> {
        check(status, headers)?;
        let mut whole = Vec::new();
        write_status(&mut whole, status);
        let date_at = whole.len();
        whole.clear();
        let body = if has_content(status) { body } else { &[] };
        let extent = Extent::of(status, Some(body.len() as u64), false);
        write_head(
            &mut whole,
            status,
            headers,
            extent,
            Keep::Silent,
            &[b' '; date::LENGTH],
        );
        let end_at = whole.len() - 4;
        whole.extend_from_slice(body);
        Ok(Self {
            whole,
            date_at,
            end_at,
            version: 0,
            status,
        })
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// Bytes of its content.
    pub(super) fn content_bytes(&self) -> u64 {
        (self.whole.len() - self.end_at - 4) as u64
    }

    #[inline]
    pub(crate) fn write(
        &mut self,
        out: &mut Vec<u8>,
        keep: Keep,
        without_body: bool,
        (date, version): (&[u8; date::LENGTH], u64),
    ) {
        if self.version != version {
            self.whole[self.date_at..self.date_at + date::LENGTH].copy_from_slice(date);
            self.version = version;
        }
        if keep == Keep::Silent && !without_body {
            out.extend_from_slice(&self.whole);
            return;
        }
        out.extend_from_slice(&self.whole[..self.end_at]);
        write_end(out, keep);
        if !without_body {
            out.extend_from_slice(&self.whole[self.end_at + 4..]);
        }
    }
}
