//! HTTP replies: the first one is parsed and becomes the model of all others.
//!
//! A reply that equals the model byte for byte, except its date, is correct: the fast and usual
//! case. Any other is parsed: status and body must be the model's, fields may differ.

use super::client::Protocol;
use super::error::{LoadError, io, shown};
use super::url::Url;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Most fields of a reply.
const FIELDS_MAX: usize = 64;
/// Longest reply that is learned.
const ANSWER_BYTES_MAX: usize = 16 << 20;
const LEARN_MAX: Duration = Duration::from_secs(5);

/// The model, and the request for it.
#[derive(Clone, Debug)]
pub(super) struct ReplyModel {
    request: Vec<u8>,
    /// The request, repeated up to the largest batch so far.
    batch: Vec<u8>,
    model: Vec<u8>,
    /// Position of the date in the model: start and end, equal if there is none.
    date: (usize, usize),
    status: u16,
    body: Vec<u8>,
    count: u64,
}

/// A parsed reply.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    status: u16,
    body: Vec<u8>,
    date: (usize, usize),
    length: usize,
}

impl ReplyModel {
    /// Requests once, on a new connection.
    pub(super) fn learn(url: &Url) -> Result<Self, LoadError> {
        let address = url.address;
        let mut socket = TcpStream::connect_timeout(&address, LEARN_MAX)
            .map_err(|source| LoadError::Connect { address, source })?;
        socket
            .set_read_timeout(Some(LEARN_MAX))
            .map_err(io("set a time-out"))?;
        let request = url.request();
        socket
            .write_all(&request)
            .map_err(io("send the first request"))?;
        let mut data = Vec::new();
        let mut piece = vec![0; 64 * 1024];
        let parts = loop {
            if let Some(parts) = take_apart(&data)? {
                break parts;
            }
            let length = socket
                .read(&mut piece)
                .map_err(io("read the first answer"))?;
            if length == 0 || data.len() > ANSWER_BYTES_MAX {
                let why = "it ends early or never";
                return Err(unreadable(why, &data));
            }
            data.extend_from_slice(&piece[..length]);
        };
        if !(200..300).contains(&parts.status) {
            return Err(LoadError::Status {
                status: parts.status,
            });
        }
        data.truncate(parts.length);
        Ok(Self {
            request,
            batch: Vec::new(),
            model: data,
            date: parts.date,
            status: parts.status,
            body: parts.body,
            count: 0,
        })
    }

    /// Whether `data` begins with a complete or partial reply that equals the model except the
    /// date.
    fn is_like_the_model(&self, data: &[u8]) -> bool {
        let shared = data.len().min(self.model.len());
        let (data, model) = (&data[..shared], &self.model[..shared]);
        let (start, end) = (self.date.0.min(shared), self.date.1.min(shared));
        data[..start] == model[..start] && data[end..] == model[end..]
    }

    /// Checks a reply that differs from the model; returns its length, or `None` if it is
    /// incomplete.
    fn check(&self, data: &[u8]) -> Result<Option<usize>, LoadError> {
        let Some(parts) = take_apart(data)? else {
            return Ok(None);
        };
        if parts.status == self.status && parts.body == self.body {
            return Ok(Some(parts.length));
        }
        Err(LoadError::Wrong {
            number: self.count + 1,
            found: format!("status {}, {}", parts.status, shown(&parts.body)),
        })
    }
}

impl Protocol for ReplyModel {
    fn ask(&mut self, _: usize, count: usize, out: &mut Vec<u8>) {
        let bytes = count * self.request.len();
        while self.batch.len() < bytes {
            self.batch.extend_from_slice(&self.request);
        }
        out.extend_from_slice(&self.batch[..bytes]);
    }

    fn read(&mut self, _: usize, data: &[u8]) -> Result<(usize, usize), LoadError> {
        let (mut answers, mut at) = (0, 0);
        // The replies of a batch are nearly always equal: then one comparison of the batch with
        // itself, shifted by one reply, shows this, and only the first is compared with the model.
        let mut alike = true;
        while at < data.len() {
            let rest = &data[at..];
            let (length, count) = if self.is_like_the_model(rest) {
                let length = self.model.len();
                let whole = rest.len() / length;
                if whole == 0 {
                    break;
                }
                alike = alike && rest[..(whole - 1) * length] == rest[length..whole * length];
                (length, if alike { whole } else { 1 })
            } else {
                match self.check(rest)? {
                    Some(length) => (length, 1),
                    None => break,
                }
            };
            at += length * count;
            answers += count;
            self.count += count as u64;
        }
        Ok((answers, at))
    }

    fn reopened(&mut self, _: usize) {}
}

/// Parses one reply; `None` if it is incomplete.
fn take_apart(data: &[u8]) -> Result<Option<Parts>, LoadError> {
    let mut room = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut room);
    let behind = match head.parse(data) {
        Ok(httparse::Status::Complete(behind)) => behind,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(unreadable("its head is malformed", data)),
    };
    let field = |name: &str| {
        let mut fields = head.headers.iter();
        fields
            .find(|field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    };
    let date = field("date").map_or((0, 0), |value| {
        let start = value.as_ptr().addr() - data.as_ptr().addr();
        (start, start + value.len())
    });
    let status = head.code.unwrap_or(0);
    let chunked =
        field("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case(b"chunked"));
    let (body, length) = if chunked {
        match chunks(&data[behind..], data)? {
            Some((body, length)) => (body, behind + length),
            None => return Ok(None),
        }
    } else if matches!(status, 204 | 304) {
        (Vec::new(), behind)
    } else {
        let length = field("content-length").and_then(|value| std::str::from_utf8(value).ok());
        let Some(length) = length.and_then(|value| value.trim().parse::<usize>().ok()) else {
            return Err(unreadable("it does not say how long it is", data));
        };
        match data.get(behind..behind.saturating_add(length)) {
            Some(body) => (body.to_vec(), behind + length),
            None => return Ok(None),
        }
    };
    Ok(Some(Parts {
        status,
        body,
        date,
        length,
    }))
}

/// A chunked body and its length on the wire; `None` if it is incomplete. Trailers are refused.
fn chunks(mut rest: &[u8], data: &[u8]) -> Result<Option<(Vec<u8>, usize)>, LoadError> {
    let whole = rest.len();
    let mut body = Vec::new();
    loop {
        let (start, size) = match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete((start, size))) => (start, size),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(unreadable("a chunk has no size", data)),
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let Some(chunk) = rest.get(start..start.saturating_add(size).saturating_add(2)) else {
            return Ok(None);
        };
        let Some(bytes) = chunk.strip_suffix(b"\r\n") else {
            return Err(unreadable(
                "a chunk is longer than its size, or there is a trailer",
                data,
            ));
        };
        body.extend_from_slice(bytes);
        rest = &rest[start + size + 2..];
        if size == 0 {
            return Ok(Some((body, whole - rest.len())));
        }
    }
}

fn unreadable(why: &'static str, data: &[u8]) -> LoadError {
    LoadError::Unreadable {
        why,
        start: shown(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &[u8] =
        b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\n\r\nhi";

    fn answers() -> ReplyModel {
        let parts = take_apart(FIRST).unwrap().unwrap();
        ReplyModel {
            request: Vec::new(),
            batch: Vec::new(),
            model: FIRST.to_vec(),
            date: parts.date,
            status: parts.status,
            body: parts.body,
            count: 0,
        }
    }

    fn read(data: &[u8]) -> Result<(usize, usize), String> {
        answers().read(0, data).map_err(|error| error.to_string())
    }

    #[test]
    fn only_date_and_fields_may_differ() {
        let text = String::from_utf8(FIRST.to_vec()).unwrap();
        let later = text.replace("08:49:37", "09:00:00");
        let fields = text.replace("Date: Sun, 06 Nov 1994 08:49:37 GMT", "Connection: close");
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n";
        let all = [text.as_str(), &later, &fields, chunked].concat();
        assert_eq!(read(all.as_bytes()), Ok((4, all.len())));
        // Many alike, the clock's second in the midst of them, and one wrong at every place.
        let batch = [text.repeat(5), later.repeat(6)].concat();
        assert_eq!(read(batch.as_bytes()), Ok((11, batch.len())));
        for at in 0..11 {
            let mut batch = batch.clone().into_bytes();
            batch[(at + 1) * FIRST.len() - 1] = b'o';
            assert!(read(&batch).is_err(), "answer {at}");
        }
        for bad in [
            text.replace("hi", "ho"),
            text.replace("200 OK", "404 NO"),
            text.replace("HTTP/1.1", "HTTQ/1.1"),
            text.replace("Length: 2", "Length: 3") + "x",
            text.replace("Content-Length: 2\r\n", ""),
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn cut_reply_is_incomplete() {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        for whole in [FIRST, chunked] {
            for cut in 0..whole.len() {
                assert_eq!(read(&whole[..cut]), Ok((0, 0)), "cut at {cut}");
                let two = [FIRST, &whole[..cut]].concat();
                assert_eq!(read(&two), Ok((1, FIRST.len())), "second cut at {cut}");
            }
        }
    }
}
