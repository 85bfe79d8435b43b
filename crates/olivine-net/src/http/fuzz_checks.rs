//! What must hold of the parsers for any bytes at all: the fuzz targets, the property tests and the
//! replay of the kept inputs run the same checks.
//!
//! A claim that does not hold panics, which is what a fuzzer and a test look for.

#![allow(unreachable_pub, reason = "reached by the fuzz targets only")]

use super::{
    chunk::{self, Decoder},
    head::{self, Field, Head},
    limits::Limits,
    message::{Message, Request, Trailers},
    status::Refusal,
};

/// Above this length a text is cut at some places only, so that checking stays linear in practice.
const EVERY_CUT_MAX: usize = 300;
/// Bytes of body a checked decoder may collect.
const BODY_MAX: u64 = 1000;

/// Checks everything that is claimed of a request head that starts with `data`.
///
/// # Panics
///
/// If a claim does not hold.
pub fn check_head(data: &[u8]) {
    let tight = Limits::default()
        .line_bytes_max(64)
        .headers_max(4)
        .head_bytes_max(200);
    for limits in [Limits::default(), tight] {
        let whole = verdict(data, &limits);
        if let Ok(Some((head, fields))) = &whole {
            check_request(data, head, fields);
            check_against_another_parser(data, head, fields);
            // Bytes behind the head change nothing.
            let alone = verdict(&data[..head.length], &limits);
            assert_eq!(parts(&alone), parts(&whole), "without what follows");
        }
        for cut in cuts(data.len()) {
            match verdict(&data[..cut], &limits) {
                Ok(None) => {}
                early @ Ok(Some(_)) => assert_eq!(parts(&early), parts(&whole), "cut at {cut}"),
                Err(_) => assert!(whole.is_err(), "refused at {cut} and accepted whole"),
            }
        }
    }
}

/// Checks everything that is claimed of a chunked body that starts with `data`. The first byte
/// chooses how it is cut.
///
/// # Panics
///
/// If a claim does not hold.
pub fn check_chunked(data: &[u8]) {
    let Some((&seed, data)) = data.split_first() else {
        return;
    };
    let whole = decode(data, usize::MAX);
    let pieces = usize::from(seed).max(1);
    assert_eq!(decode(data, 1), whole, "byte by byte");
    assert_eq!(decode(data, pieces), whole, "in pieces of {pieces}");
    let Ok((body, used, done)) = whole else {
        return;
    };
    assert!(used <= data.len() && body.len() as u64 <= BODY_MAX);
    assert!(done || used == data.len(), "stopped before the end");
    let mut wire = Vec::new();
    body.chunks(pieces)
        .for_each(|piece| chunk::encode(&mut wire, piece));
    wire.extend_from_slice(chunk::LAST);
    let length = wire.len();
    wire.extend_from_slice(data);
    assert_eq!(decode(&wire, usize::MAX), Ok((body, length, true)));
}

type Verdict = Result<Option<(Head, Vec<Field>)>, Refusal>;

fn verdict(data: &[u8], limits: &Limits) -> Verdict {
    let mut fields = Vec::new();
    let head = head::parse(data, limits, &mut fields)?;
    Ok(head.map(|head| (head, fields)))
}

/// What two verdicts must share to be the same.
fn parts(verdict: &Verdict) -> Result<Option<(usize, usize, bool, head::Framing)>, Refusal> {
    let parts = |(head, fields): &(Head, Vec<Field>)| {
        (head.length, fields.len(), head.keep_alive, head.framing)
    };
    verdict
        .as_ref()
        .map(|head| head.as_ref().map(parts))
        .map_err(|reject| *reject)
}

/// Where to cut a text of `length` bytes in two: everywhere, or at most at some hundred places.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    (0..length).step_by((length / EVERY_CUT_MAX).max(1))
}

/// The request's accessors agree with each other on any accepted head.
fn check_request(data: &[u8], head: &Head, fields: &[Field]) {
    assert!(head.length <= data.len() && data[..head.length].ends_with(b"\r\n\r\n"));
    let message = Message {
        head,
        bytes: data,
        body: &[],
        trailers: Trailers::default(),
    };
    let request = Request {
        message: &message,
        fields,
    };
    assert!(!request.method().is_empty() && !request.path().is_empty());
    let query = request.query().map_or(0, str::len);
    assert!(request.path().len() + query <= request.target().len() + 1);
    assert_eq!(request.headers().count(), fields.len());
    for (name, _) in request.headers() {
        assert!(!name.is_empty() && request.header(name).is_some());
    }
    assert!(request.is_http_10() || request.header("Host").is_some());
}

/// `httparse` accepts every accepted head, with the same parts.
fn check_against_another_parser(data: &[u8], head: &Head, fields: &[Field]) {
    let mut room = [httparse::EMPTY_HEADER; 128];
    let mut other = httparse::Request::new(&mut room);
    match other.parse(data) {
        // It knows 1.0 and 1.1 only; RFC 9110 2.5 has us serve a later minor version as 1.1.
        Err(httparse::Error::Version) => return,
        status => assert_eq!(status, Ok(httparse::Status::Complete(head.length))),
    }
    assert_eq!(other.method.map(str::as_bytes), Some(head.method.of(data)));
    assert_eq!(other.path.map(str::as_bytes), Some(head.target.of(data)));
    assert_eq!(other.version, Some(head.minor));
    assert_eq!(other.headers.len(), fields.len());
    for (theirs, ours) in other.headers.iter().zip(fields) {
        assert_eq!(theirs.name.as_bytes(), ours.name.of(data));
        assert_eq!(theirs.value, ours.value.of(data));
    }
}

/// Body, bytes used and whether the end was reached, feeding at most `pieces` bytes at a time.
fn decode(data: &[u8], pieces: usize) -> Result<(Vec<u8>, usize, bool), Refusal> {
    let (mut decoder, mut body, mut used) = (Decoder::new(), Vec::new(), 0);
    for piece in data.chunks(pieces) {
        let took = decoder.feed(piece, &mut body, BODY_MAX)?;
        used += took;
        if took < piece.len() {
            assert!(decoder.is_done(), "left bytes without reaching the end");
            break;
        }
    }
    Ok((body, used, decoder.is_done()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::seeded_cases;
    use data_encoding::HEXLOWER;
    use proptest::prelude::*;
    use std::{fs, path::Path};

    /// Checks every input of a corpus; returns how many there were.
    fn replay(corpus: &str, check: fn(&[u8])) -> usize {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let packed = fs::read_to_string(folder.join(format!("{corpus}.hex")))
            .unwrap_or_else(|error| panic!("corpus {corpus}: {error}"));
        for line in packed.lines() {
            println!("{line}");
            check(&HEXLOWER.decode(line.as_bytes()).unwrap());
        }
        let count = packed.lines().count();
        println!("{corpus}: {count} kept inputs hold");
        count
    }

    #[test]
    fn kept_fuzz_inputs_pass() {
        assert!(replay("head", check_head) > 50);
        assert!(replay("chunked", check_chunked) > 20);
    }

    /// Pieces of requests, good and bad, so that random texts reach deep into the parser.
    fn request() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            6 => prop::sample::select(vec![
                "GET ", "POST ", "/ ", "/a?b ", "* ", "http://h/x ", "HTTP/1.1\r\n", "HTTP/1.0\r\n",
                "HTTP/2.0\r\n", "Host: a\r\n", "Host: b\r\n", "Content-Length: 5\r\n",
                "Content-Length: +5\r\n", "Transfer-Encoding: chunked\r\n", "TE: x\r\n",
                "X : y\r\n", "A:\t b \r\n", " folded\r\n", "Connection: close\r\n",
                "Expect: 100-continue\r\n",
                "\r\n", "\n", "\r", " ", ":", "\0",
            ]).prop_map(|text| text.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..4),
        ];
        prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
    }

    /// Pieces of chunked bodies, behind a byte that chooses the cuts.
    fn chunks() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec![
            "0",
            "5",
            "a",
            "F",
            "\r\n",
            "\r",
            "\n",
            ";",
            "x=y",
            "hello",
            " ",
            "0\r\n",
            "\r\n\r\n",
            "1\r\nz\r\n",
            "N: v\r\n",
            "ffffffff",
        ]);
        let body = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
        (any::<u8>(), body).prop_map(|(seed, body)| [&[seed], body.as_bytes()].concat())
    }

    proptest! {
        #![proptest_config(seeded_cases(10_000))]

        #[test]
        fn random_requests_hold(data in request()) {
            check_head(&data);
        }

        #[test]
        fn random_bytes_hold(data in prop::collection::vec(any::<u8>(), 0..200)) {
            check_head(&data);
            check_chunked(&data);
        }

        #[test]
        fn random_chunks_hold(data in chunks()) {
            check_chunked(&data);
        }
    }
}
