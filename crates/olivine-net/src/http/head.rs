//! Request heads: a strict parser that never touches a socket.
//!
//! It reads each byte once, validates while it goes, and keeps offsets, so nothing is copied or
//! allocated. It is stricter than RFC 9112 asks, because every laxity here is a smuggling door when
//! another server stands in front: lines end in CR LF and nothing else, one space separates the
//! parts of the request line, no line is folded, no space precedes a colon, the message length has
//! exactly one source.

use super::{
    host,
    limits::Limits,
    scan::{self, Span},
    status::Refusal,
};

/// Bytes of a method: several times the longest registered one.
const METHOD_BYTES_MAX: usize = 128;

/// One header field, as offsets into the head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Field {
    pub(crate) name: Span,
    pub(crate) value: Span,
}

/// How the body's length is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By Content-Length; 0 if neither field is there.
    Length(u64),
    /// By Transfer-Encoding.
    Chunked,
}

/// A complete head; the fields are in the parser's list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// Bytes of the head, the empty line included.
    pub(crate) length: usize,
    pub(crate) method: Span,
    pub(crate) target: Span,
    /// Where the first `?` of the target is, or its end.
    pub(crate) query: u32,
    /// 0 for HTTP/1.0, 1 for HTTP/1.1 and later.
    pub(crate) minor: u8,
    pub(crate) framing: Framing,
    /// The peer wants the connection kept after this exchange.
    pub(crate) keep_alive: bool,
    /// The peer waits for 100 before it sends the body.
    pub(crate) expects_continue: bool,
    /// Connection names Upgrade.
    pub(crate) upgrade: bool,
}

/// Reads a head from the start of `data`; `Ok(None)` if it is not complete yet.
///
/// `fields` is cleared and filled. Bytes behind the head are not looked at. What can be refused
/// before the head is complete is refused at once.
pub(crate) fn parse(
    data: &[u8],
    limits: &Limits,
    fields: &mut Vec<Field>,
) -> Result<Option<Head>, Refusal> {
    fields.clear();
    let mut at = 0;
    // RFC 9112 2.2: an empty line before the request line may be passed over. Two are.
    for _ in 0..2 {
        match data.get(at..) {
            Some([b'\r', b'\n', ..]) => at += 2,
            Some([] | [b'\r']) | None => return Ok(None),
            Some(_) => break,
        }
    }
    let Some(line) = request_line(data, at, limits)? else {
        return Ok(None);
    };
    let mut facts = Facts::default();
    at = line.next;
    loop {
        match data.get(at..) {
            Some([b'\r', b'\n', ..]) => break,
            Some([] | [b'\r']) | None => return unfinished(data, limits),
            Some(_) => {}
        }
        let Some((field, next)) = field_line(data, at, limits)? else {
            return unfinished(data, limits);
        };
        if fields.len() >= limits.headers_max {
            return Err(Refusal::HeadersTooMany);
        }
        facts.note(field.name.of(data), field.value.of(data), line.minor)?;
        fields.push(field);
        at = next;
    }
    let length = at + 2;
    if length > limits.head_bytes_max {
        return Err(Refusal::HeadTooLong);
    }
    facts.conclude(line.minor)?;
    check_target(line.method.of(data), line.target.of(data))?;
    Ok(Some(Head {
        length,
        method: line.method,
        target: line.target,
        query: line.query,
        minor: line.minor,
        framing: if facts.chunked {
            Framing::Chunked
        } else {
            Framing::Length(facts.length.unwrap_or(0))
        },
        keep_alive: !facts.close && (line.minor >= 1 || facts.keep_alive),
        expects_continue: facts.expects_continue && line.minor >= 1,
        upgrade: facts.upgrade && line.minor >= 1,
    }))
}

fn unfinished(data: &[u8], limits: &Limits) -> Result<Option<Head>, Refusal> {
    if data.len() >= limits.head_bytes_max {
        Err(Refusal::HeadTooLong)
    } else {
        Ok(None)
    }
}

struct RequestLine {
    method: Span,
    target: Span,
    query: u32,
    minor: u8,
    next: usize,
}

/// Reads the request line from `start`; `Ok(None)` if it is not complete yet.
fn request_line(
    data: &[u8],
    start: usize,
    limits: &Limits,
) -> Result<Option<RequestLine>, Refusal> {
    let unfinished = || {
        let long = data.len() - start > limits.line_bytes_max;
        if long {
            Err(Refusal::TargetTooLong)
        } else {
            Ok(None)
        }
    };
    let found = match data[start..].first_chunk() {
        // Most requests, compared as a word.
        Some(b"GET ") => Some((Span::new(start, start + 3), b' ')),
        _ => scan::token(data, start),
    };
    let Some((method, space)) = found else {
        return match data.len() - start {
            0..=METHOD_BYTES_MAX => unfinished(),
            _ => Err(Refusal::RequestLine),
        };
    };
    let length = (method.end - method.start) as usize;
    if space != b' ' || length == 0 || length > METHOD_BYTES_MAX {
        return Err(Refusal::RequestLine);
    }
    let Some((path, mut space)) = scan::path(data, method.end as usize + 1) else {
        return unfinished();
    };
    let mut target = path;
    if space == b'?' {
        let Some((query, behind)) = scan::target(data, path.end as usize) else {
            return unfinished();
        };
        (target.end, space) = (query.end, behind);
    }
    if space != b' ' || target.end == target.start {
        return Err(Refusal::RequestLine);
    }
    let version = target.end as usize + 1;
    let next = version + 10;
    if next - start > limits.line_bytes_max {
        return Err(Refusal::TargetTooLong);
    }
    let there = &data[version..data.len().min(next)];
    let minor = match there {
        // Nearly all of them, compared as words.
        _ if there == b"HTTP/1.1\r\n" => 1,
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            b'1',
            b'.',
            minor @ b'0'..=b'9',
            b'\r',
            b'\n',
        ] => u8::from(*minor != b'0'),
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            b'0'..=b'9',
            b'.',
            b'0'..=b'9',
            b'\r',
            b'\n',
        ] => {
            return Err(Refusal::Version);
        }
        _ if there.len() < 10 && could_be_version(there) => return Ok(None),
        _ => return Err(Refusal::RequestLine),
    };
    Ok(Some(RequestLine {
        method,
        target,
        query: path.end,
        minor,
        next,
    }))
}

/// Whether more bytes could make a version and a line end of these.
fn could_be_version(there: &[u8]) -> bool {
    there.iter().zip(b"HTTP/0.0\r\n").all(|(byte, like)| {
        if *like == b'0' {
            byte.is_ascii_digit()
        } else {
            byte == like
        }
    })
}

/// Reads one field line from `start`; `Ok(None)` if it is not complete yet.
fn field_line(
    data: &[u8],
    start: usize,
    limits: &Limits,
) -> Result<Option<(Field, usize)>, Refusal> {
    let unfinished = || {
        let long = data.len() - start > limits.line_bytes_max;
        if long {
            Err(Refusal::HeadTooLong)
        } else {
            Ok(None)
        }
    };
    let Some((name, colon)) = scan::token(data, start) else {
        return unfinished();
    };
    // Refuses an empty name, a space before the colon and a folded line alike.
    if colon != b':' || name.end == name.start {
        return Err(Refusal::Field);
    }
    let Some((value, end)) = scan::value(data, name.end as usize + 1) else {
        return unfinished();
    };
    let stop = value.end as usize;
    match (end, data.get(stop + 1)) {
        (b'\r', Some(b'\n')) => {}
        (b'\r', None) => return unfinished(),
        _ => return Err(Refusal::Field),
    }
    if stop + 2 - start > limits.line_bytes_max {
        return Err(Refusal::HeadTooLong);
    }
    // `trim_ascii` trims form feeds too, but VALUE has let none in.
    let behind = value.of(data).trim_ascii_start();
    let from = stop - behind.len();
    let value = Span::new(from, from + behind.trim_ascii_end().len());
    Ok(Some((Field { name, value }, stop + 2)))
}

/// The origin form for paths, the absolute form for proxies, `*` for OPTIONS.
fn check_target(method: &[u8], target: &[u8]) -> Result<(), Refusal> {
    if method == b"CONNECT" {
        return Err(Refusal::NotImplemented);
    }
    let fine = match target {
        [b'/', ..] => true,
        b"*" => method == b"OPTIONS",
        _ => match absolute(target) {
            Some((authority, _)) => !authority.is_empty() && host::is_valid(authority),
            None => false,
        },
    };
    if fine {
        Ok(())
    } else {
        Err(Refusal::RequestLine)
    }
}

/// Splits an absolute target into its authority and its path.
pub(crate) fn absolute(target: &[u8]) -> Option<(&[u8], &[u8])> {
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| {
        target
            .get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })?;
    let rest = &target[scheme.len()..];
    let slash = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?'))
        .unwrap_or(rest.len());
    Some(rest.split_at(slash))
}

/// What the fields say about the message as a whole.
#[derive(Default)]
struct Facts {
    hosts: u32,
    length: Option<u64>,
    chunked: bool,
    unknown_coding: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
    upgrade: bool,
}

impl Facts {
    fn note(&mut self, name: &[u8], value: &[u8], minor: u8) -> Result<(), Refusal> {
        // By length first: most fields are none of these.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                self.hosts += 1;
                if self.hosts > 1 || !host::is_valid(value) {
                    return Err(Refusal::Host);
                }
            }
            6 if name.eq_ignore_ascii_case(b"expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Refusal::Expectation);
                }
                self.expects_continue = true;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    self.upgrade |= option.eq_ignore_ascii_case(b"upgrade");
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                // A second one is refused even if it agrees: a proxy might use the other.
                if self.length.is_some() {
                    return Err(Refusal::Length);
                }
                self.length = Some(decimal(value).ok_or(Refusal::Length)?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if self.chunked || self.unknown_coding || minor == 0 {
                    return Err(Refusal::Length);
                }
                self.codings(value)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn codings(&mut self, value: &[u8]) -> Result<(), Refusal> {
        let mut codings = value
            .split(|byte| *byte == b',')
            .map(<[u8]>::trim_ascii)
            .rev();
        // Only a final `chunked` tells where the body ends.
        if !codings
            .next()
            .is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"))
        {
            return Err(Refusal::Length);
        }
        for other in codings {
            if other.is_empty() || other.eq_ignore_ascii_case(b"chunked") {
                return Err(Refusal::Length);
            }
            self.unknown_coding = true;
        }
        self.chunked = true;
        Ok(())
    }

    fn conclude(&self, minor: u8) -> Result<(), Refusal> {
        if self.chunked && self.length.is_some() {
            return Err(Refusal::Length);
        }
        if minor >= 1 && self.hosts == 0 {
            return Err(Refusal::Host);
        }
        if self.unknown_coding {
            return Err(Refusal::NotImplemented);
        }
        Ok(())
    }
}

/// One or more digits and nothing else, up to 2⁶⁴ − 1.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}
