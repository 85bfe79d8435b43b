//! Every case of the conformance list, whole, cut in two at every byte, and byte by byte, over real
//! sockets and on each back end. Prints how many passed of how many.

#[allow(missing_docs, unreachable_pub, reason = "a list of data")]
#[path = "vectors/probe.rs"]
mod probe_cases;
#[allow(missing_docs, unreachable_pub, reason = "a list of data")]
#[path = "vectors/probe_site.rs"]
mod probe_site;
#[allow(missing_docs, unreachable_pub, reason = "a list of data")]
#[path = "vectors/mod.rs"]
mod vectors;

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use crate::support::{backends, client, config, read_to_end, wait_until};
use olivine_net::{
    Backend, Engine, WaitStrategy,
    http::{self, Http, Limits, Request, Responder, Server, Service},
};
use vectors::{CASES, Case};

/// Answers `METHOD target body`, so that a body read as a request would show.
struct Mirror;

impl Service for Mirror {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let mut body = format!("{} {} ", request.method(), request.target()).into_bytes();
        body.extend_from_slice(request.body());
        responder.send(http, 200, &[], &body).unwrap();
    }
}

fn server(backend: Backend) -> Engine<Server<Mirror>> {
    // Nothing here is about time: a busy machine is slow to send a byte at a time.
    let limits = Limits::default()
        .header_timeout(Duration::from_secs(600))
        .body_timeout(Duration::from_secs(600))
        .line_bytes_max(128)
        .headers_max(8)
        .head_bytes_max(512)
        .body_bytes_max(100);
    let wait = WaitStrategy::Adaptive(Duration::from_millis(1));
    http::serve(config(backend).wait(wait), limits, |_| Mirror).unwrap()
}

/// Sends the pieces, each only after the server has read the one before, and collects the answers.
fn answers(engine: &Engine<Server<Mirror>>, pieces: &[&[u8]]) -> Vec<u8> {
    let mut peer = client(engine.local_address().unwrap());
    let base = engine.counters()[0].received_bytes;
    let mut sent = 0;
    for piece in pieces {
        if peer.write_all(piece).is_err() {
            break;
        }
        sent += piece.len() as u64;
        if pieces.len() > 1 && sent < pieces.iter().map(|piece| piece.len() as u64).sum() {
            let mut refused = false;
            wait_until("the server has read the piece", || {
                refused = is_answered_with_an_error(&peer);
                refused || engine.counters()[0].received_bytes >= base + sent
            });
        }
    }
    // A server that has refused may have closed already.
    let _ = peer.shutdown(Shutdown::Write);
    read_to_end(&mut peer)
}

/// Whether the server will read no more; looks without taking.
fn is_answered_with_an_error(peer: &TcpStream) -> bool {
    peer.set_nonblocking(true).unwrap();
    let mut start = [0; 4096];
    let seen = peer.peek(&mut start).unwrap_or(0);
    peer.set_nonblocking(false).unwrap();
    // After a refusal and after an answer that closes, further pieces are not counted.
    let text = String::from_utf8_lossy(&start[..seen]).into_owned();
    text.contains("Connection: close")
}

/// Splits a stream of replies and compares them with the expected ones.
fn check(wire: &[u8], expected: &[(u16, &[u8])]) -> Result<(), String> {
    let mut rest = wire;
    for (status, body) in expected {
        let mut room = [httparse::EMPTY_HEADER; 16];
        let mut answer = httparse::Response::new(&mut room);
        let Ok(httparse::Status::Complete(head)) = answer.parse(rest) else {
            return Err(format!(
                "no answer {status} in {:?}",
                rest.escape_ascii().to_string()
            ));
        };
        if answer.code != Some(*status) {
            return Err(format!("{:?} instead of {status}", answer.code));
        }
        let field = |name: &str| {
            answer
                .headers
                .iter()
                .find(|header| header.name == name)
                .map(|header| header.value)
        };
        let length = field("Content-Length").ok_or("no length")?;
        let length: usize = String::from_utf8_lossy(length)
            .parse()
            .map_err(|_| "bad length")?;
        if field("Date").is_none_or(|date| date.len() != 29) {
            return Err("no date".into());
        }
        let is_head = *body == b"HEAD";
        let end = if is_head { head } else { head + length };
        let shown = rest.get(head..end).ok_or("body cut off")?;
        if !is_head && shown != *body {
            return Err(format!("body {:?}", shown.escape_ascii().to_string()));
        }
        if *status >= 400 && field("Connection") != Some(b"close") {
            return Err("refused without closing".into());
        }
        rest = &rest[end..];
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "more than expected: {:?}",
            rest.escape_ascii().to_string()
        ))
    }
}

/// Runs one way of splitting over all cases; returns the number of exchanges and the failures.
fn run(
    engine: &Engine<Server<Mirror>>,
    cut: impl Fn(&'static [u8]) -> Vec<Vec<&'static [u8]>>,
) -> (usize, Vec<String>) {
    let mut count = 0;
    let mut failures = Vec::new();
    for (name, request, expected) in CASES as &[Case] {
        for (n, pieces) in cut(request).into_iter().enumerate() {
            count += 1;
            if let Err(what) = check(&answers(engine, &pieces), expected) {
                failures.push(format!("{name} (cut {n}): {what}"));
            }
        }
    }
    (count, failures)
}

fn report(what: &str, backend: Backend, (count, failures): (usize, Vec<String>)) {
    // Not by `println!`: a passing test does not show it.
    let passed = count - failures.len();
    let mut out = std::io::stdout();
    writeln!(
        out,
        "conformance, {backend:?}, {what}: {passed} of {count} passed"
    )
    .unwrap();
    assert!(
        count > 0 && failures.is_empty(),
        "{backend:?}, {what}:\n{}",
        failures.join("\n")
    );
}

#[test]
fn every_case_in_one_piece() {
    for backend in backends() {
        report(
            "in one piece",
            backend,
            run(&server(backend), |request| vec![vec![request]]),
        );
    }
}

#[test]
fn every_case_cut_at_every_byte() {
    for backend in backends() {
        let cut = |request: &'static [u8]| {
            (1..request.len())
                .map(|at| vec![&request[..at], &request[at..]])
                .collect()
        };
        report(
            "cut in two at every byte",
            backend,
            run(&server(backend), cut),
        );
    }
}

#[test]
fn every_case_byte_by_byte() {
    for backend in backends() {
        let cut = |request: &'static [u8]| vec![request.chunks(1).collect()];
        report("byte by byte", backend, run(&server(backend), cut));
    }
}

/// A client that waits for permission gets it, and only then sends its body.
#[test]
fn expect_continue_is_answered_before_the_body() {
    for backend in backends() {
        let engine = server(backend);
        let mut peer = client(engine.local_address().unwrap());
        let head =
            b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
        peer.write_all(head).unwrap();
        let mut go = [0; 25];
        peer.read_exact(&mut go).unwrap();
        assert_eq!(&go, b"HTTP/1.1 100 Continue\r\n\r\n");
        peer.write_all(b"ok").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        check(&read_to_end(&mut peer), &[(200, b"POST / ok")]).unwrap();
    }
}

/// The statuses of the answers in `wire`, without interim ones. The mirror's bodies have none.
fn statuses(wire: &[u8]) -> Vec<u16> {
    let starts = memchr::memmem::find_iter(wire, b"HTTP/1.1 ");
    let status = |at: usize| {
        let digits = std::str::from_utf8(wire.get(at + 9..at + 12)?).ok()?;
        digits.parse().ok().filter(|status| *status >= 200)
    };
    starts.filter_map(status).collect()
}

#[test]
fn cases_of_http11probe_get_the_named_statuses() {
    let fixed = probe_cases::CASES.iter().map(|(name, request, expected)| {
        let request = [request, probe_cases::follow_up(name)].concat();
        (*name, request.into_bytes(), *expected)
    });
    let cases: Vec<_> = fixed.chain(probe_cases::made()).collect();
    let sites = probe_site::cases();
    let names = cases.iter().map(|(name, ..)| *name);
    let mut names: Vec<_> = names.chain(sites.iter().map(|(name, ..)| *name)).collect();
    // The tool's list, and some that it had before.
    assert!(names.len() >= 215, "{}", names.len());
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "a case is there twice");
    for backend in backends() {
        let engine = http::serve(config(backend), Limits::default(), |_| Mirror).unwrap();
        let mut failures = Vec::new();
        for (name, request, expected) in &cases {
            let mut peer = client(engine.local_address().unwrap());
            // A server that refuses reads no further.
            let _ = peer.write_all(request);
            let _ = peer.shutdown(Shutdown::Write);
            let got = statuses(&read_to_end(&mut peer));
            if got != *expected {
                failures.push(format!("{name}: {got:?} instead of {expected:?}"));
            }
        }
        println!(
            "{backend:?}: {} of {} cases",
            cases.len() - failures.len(),
            cases.len()
        );
        assert!(failures.is_empty(), "{backend:?}: {}", failures.join("\n"));
    }
}

/// A site for the cases that test one: its methods, and the cookies that arrived, one in a line.
struct Site;

impl Service for Site {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let Some(allow) = probe_site::ALLOW.split_once(": ") else {
            return;
        };
        match request.method() {
            "GET" => {
                let mut body = Vec::new();
                for (_, cookie) in request.headers().filter(|(name, _)| *name == "Cookie") {
                    body.extend_from_slice(cookie);
                    body.push(b'\n');
                }
                responder.send(http, 200, &[("Content-Type", "text/plain")], &body)
            }
            "OPTIONS" => responder.send(http, 204, &[allow], b"left out"),
            _ => responder.send(http, 405, &[allow], b"not here"),
        }
        .unwrap();
    }
}

/// Whether a date is as in `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 5.6.7).
fn is_fixed_date(date: &str) -> bool {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let form = "ddd, 00 mmm 0000 00:00:00 GMT";
    let letters = DAYS.iter().any(|day| date.starts_with(day))
        && date.get(8..11).is_some_and(|month| MONTHS.contains(&month));
    letters
        && date.len() == form.len()
        && date
            .bytes()
            .zip(form.bytes())
            .all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                b'd' | b'm' => true,
                other => byte == other,
            })
}

#[test]
fn cases_of_http11probe_about_a_site_get_the_named_answers() {
    assert!(is_fixed_date("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert!(!is_fixed_date("Sunday, 06-Nov-94 08:49:37 GMT"));
    for backend in backends() {
        let engine = http::serve(config(backend), Limits::default(), |_| Site).unwrap();
        for (name, request, expected) in probe_site::cases() {
            let mut peer = client(engine.local_address().unwrap());
            let _ = peer.write_all(request.as_bytes());
            let _ = peer.shutdown(Shutdown::Write);
            let wire = String::from_utf8(read_to_end(&mut peer)).unwrap();
            let answers: Vec<&str> = wire.split("HTTP/1.1 ").skip(1).collect();
            assert_eq!(answers.len(), expected.len(), "{backend:?}, {name}: {wire}");
            for (answer, (status, part)) in answers.into_iter().zip(expected) {
                let what = format!("{backend:?}, {name}: {answer}");
                assert!(answer.starts_with(&status.to_string()), "{what}");
                assert!(answer.contains(part), "{what}");
                let field = |name| answer.lines().find_map(|line| line.strip_prefix(name));
                assert!(!answer.contains("secret"), "{what}");
                assert_eq!(field("Content-Length: ").is_none(), status == 204, "{what}");
                assert!(field("Date: ").is_some_and(is_fixed_date), "{what}");
            }
        }
    }
}
