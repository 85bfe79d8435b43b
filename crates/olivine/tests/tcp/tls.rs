//! `tcp://` under TLS: in both roles, over broken connections, and against sides without a valid
//! certificate.

#![cfg(all(feature = "tls", not(loom)))]

use crate::common::certificates::{Authority, Purpose, identity};
use crate::common::proxy::{Proxy, nothing_is_lost_in_cuts};
use crate::common::{free_port, until};
use olivine::{LinkError, OpenError, Publisher, ReceiveError, Subscriber};
use std::io::{Read, Write};
use std::net::TcpStream;

/// An authority that both sides trust, with a certificate for each.
struct Stage {
    authority: Authority,
    server: String,
    client: String,
}

impl Stage {
    fn new() -> Self {
        let authority = Authority::new("ours");
        let server = authority.sign("server", Purpose::Server, |_| {});
        let client = authority.sign("client", Purpose::Client, |_| {});
        Self {
            authority,
            server,
            client,
        }
    }

    fn ca(&self) -> String {
        format!("tls_ca={}", self.authority.ca().display())
    }
}

fn uri(port: u16, query: &str) -> String {
    format!("tcp://127.0.0.1:{port}/test?{query}")
}

/// The error of a refused subscriber while a publisher listens, and the publisher's note.
fn refused(publish: &str, subscribe: &str) -> (String, String) {
    let port = free_port();
    let publisher = Publisher::open(&uri(port, publish)).expect(publish);
    let error = match Subscriber::open(&uri(port, subscribe)) {
        Err(error) => error.to_string(),
        // The reply came after opening had waited for it.
        Ok(mut subscriber) => match subscriber.receive() {
            Err(ReceiveError::Failed(error)) => error.to_string(),
            other => panic!("{subscribe}: {other:?}"),
        },
    };
    let status = || publisher.link_status().expect("a bridge");
    until("the refusal is counted", || status().refusals >= 1);
    (error, status().note)
}

#[test]
fn both_roles_carry_every_message_encrypted() {
    const SECRET: &[u8] = b"attack at dawn";
    const COUNT: u32 = 20_000;
    let stage = Stage::new();
    for (reversed, mutual) in [(false, false), (false, true), (true, false), (true, true)] {
        let (port, ca) = (free_port(), stage.ca());
        let proxy = Proxy::start(port);
        let mut listens = format!("tls=yes&{}", stage.server);
        let mut calls = format!("tls=yes&{ca}");
        if mutual {
            listens = format!("{listens}&{ca}");
            calls = format!("{calls}&{}", stage.client);
        }
        let (publish, subscribe) = if reversed {
            (
                uri(proxy.port, &format!("{calls}&role=connect&subscribers=1")),
                uri(port, &format!("{listens}&role=listen")),
            )
        } else {
            (
                uri(port, &format!("{listens}&subscribers=1")),
                uri(proxy.port, &calls),
            )
        };
        let publishing = std::thread::spawn(move || {
            let mut publisher = Publisher::open(&publish).unwrap();
            for number in 0..COUNT {
                publisher
                    .publish(&[&number.to_le_bytes(), SECRET].concat())
                    .unwrap();
            }
            publisher.close().unwrap();
        });
        let mut subscriber = Subscriber::open(&subscribe).unwrap();
        for number in 0..COUNT {
            let message = subscriber.receive().unwrap();
            assert_eq!(*message, [&number.to_le_bytes(), SECRET].concat()[..]);
        }
        assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
        publishing.join().unwrap();
        assert!(proxy.heard() > 100_000, "the proxy was gone round");
        assert!(!proxy.has_heard(SECRET) && !proxy.has_heard(b"OLIVWIRE"));
    }
}

#[test]
fn connections_that_break_lose_and_repeat_nothing() {
    let stage = Stage::new();
    let port = free_port();
    let proxy = Proxy::start(port);
    let publish = uri(
        port,
        &format!("tls=yes&{}&subscribers=1&capacity=64KiB", stage.server),
    );
    let subscribe = uri(
        proxy.port,
        &format!("tls=yes&{}&capacity=64KiB", stage.ca()),
    );
    nothing_is_lost_in_cuts(&proxy, &publish, &subscribe, 60_000);
}

#[test]
fn listener_with_invalid_certificate_is_reported() {
    let stage = Stage::new();
    let stranger = Authority::new("another authority");
    let ca = format!("tls=yes&{}", stage.ca());
    let sign = |name: &str, change: fn(&mut rcgen::CertificateParams)| {
        let signed = stage.authority.sign(name, Purpose::Server, change);
        format!("tls=yes&{signed}")
    };
    let cases = [
        (
            sign("late", |params| {
                params.not_after = rcgen::date_time_ymd(2020, 1, 1)
            }),
            "its certificate expired",
        ),
        (
            sign("early", |params| {
                params.not_before = rcgen::date_time_ymd(2999, 1, 1)
            }),
            "not valid yet",
        ),
        (
            sign("elsewhere", |params| {
                params.subject_alt_names = vec![rcgen::SanType::DnsName(
                    "elsewhere.example".try_into().unwrap(),
                )];
            }),
            "its certificate is for elsewhere.example, not for 127.0.0.1",
        ),
        (
            sign("caller", |params| {
                params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            }),
            "its certificate is refused",
        ),
        (
            format!(
                "tls=yes&{}",
                stranger.sign("server", Purpose::Server, |_| {})
            ),
            "not signed by an authority in 'tls_ca=' of this side",
        ),
    ];
    for (publish, expected) in cases {
        let (error, note) = refused(&publish, &ca);
        assert!(error.contains(expected), "{error}");
        assert!(error.starts_with("TLS with 127.0.0.1:"), "{error}");
        assert!(!error.contains('\n'), "one line: {error}");
        assert!(note.contains("certificate"), "the listener says: {note}");
    }
}

#[test]
fn client_with_invalid_certificate_is_refused() {
    let stage = Stage::new();
    let stranger = Authority::new("another authority");
    let publish = format!("tls=yes&{}&{}", stage.server, stage.ca());
    let expired = stage.authority.sign("late", Purpose::Client, |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let cases = [
        (
            String::new(),
            "asks for a certificate: give 'tls_cert=' and 'tls_key='",
            "it sent no certificate",
        ),
        (
            format!("&{}", stranger.sign("client", Purpose::Client, |_| {})),
            "does not know the authority of our certificate",
            "not signed by an authority",
        ),
        (
            format!("&{expired}"),
            "found our certificate expired",
            "its certificate expired",
        ),
        (
            format!("&{}", stage.server),
            "refuses our certificate",
            "its certificate is refused",
        ),
    ];
    for (identity, expected, noted) in cases {
        let subscribe = format!("tls=yes&{}{identity}", stage.ca());
        let (error, note) = refused(&publish, &subscribe);
        assert!(error.contains(expected), "{error}");
        assert!(note.contains(noted), "{note}");
    }
}

#[test]
fn tls_on_one_side_is_reported_on_both() {
    let stage = Stage::new();
    let plain = "linger=0s";
    let (error, note) = refused(&format!("tls=yes&{}", stage.server), plain);
    assert!(error.contains("give 'tls=yes' on both sides"), "{error}");
    assert!(note.contains("does not speak TLS"), "{note}");
    let (error, note) = refused(plain, &format!("tls=yes&{}", stage.ca()));
    assert!(error.contains("does not speak TLS"), "{error}");
    assert!(note.contains("it speaks TLS, this side does not"), "{note}");
}

#[test]
fn invalid_tls_clients_are_refused_without_harm() {
    let stage = Stage::new();
    let port = free_port();
    let listens = format!("tls=yes&{}&subscribers=1", stage.server);
    let mut publisher = Publisher::open(&uri(port, &listens)).unwrap();
    let calls = format!("tls=yes&{}", stage.ca());
    let mut subscriber = Subscriber::open(&uri(port, &calls)).unwrap();
    // Garbage; half a handshake and then the end; a record with an excessive length.
    let hostile: [&[u8]; 3] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        &[22, 3, 1, 2, 0, 1],
        &[22, 3, 1, 255, 255, 1],
    ];
    for (count, bytes) in hostile.iter().enumerate() {
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stranger.write_all(bytes).unwrap();
        stranger.shutdown(std::net::Shutdown::Write).unwrap();
        // It sends them an alert, or nothing.
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        assert!(matches!(answer.first(), None | Some(21)), "{answer:?}");
        until("it is turned away", || {
            publisher.link_status().unwrap().refusals == count as u64 + 1
        });
        publisher.publish(&[7]).unwrap();
        assert_eq!(&*subscriber.receive().unwrap(), &[7]);
    }
}

#[test]
fn missing_or_invalid_files_are_named() {
    let stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    let nothing = folder.path().join("nothing.pem");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "no certificate").unwrap();
    let file = |query: &str, key: &str| {
        let (_, rest) = query.split_once(&format!("{key}=")).unwrap();
        std::path::PathBuf::from(rest.split('&').next().unwrap())
    };
    let (certificate, key) = (
        file(&stage.server, "tls_cert"),
        file(&stage.server, "tls_key"),
    );
    let others_key = file(&stage.client, "tls_key");
    let listen = |query: &str| {
        let opened = Publisher::open(&uri(free_port(), &format!("tls=yes&{query}")));
        opened.unwrap_err()
    };
    let missing = listen(&identity(&nothing, &key));
    assert!(
        matches!(&missing, OpenError::Link(LinkError::Io { action: "read the certificate \
        from", place, .. })
            if *place == nothing.display().to_string()),
        "{missing:?}"
    );
    let cases = [
        (stage.ca(), "give 'tls_cert=' and 'tls_key='"),
        (identity(&empty, &key), "there is no certificate in it"),
        (
            identity(&certificate, &empty),
            "there is no private key in it",
        ),
        (
            identity(&certificate, &others_key),
            "does not belong to the private key",
        ),
        (
            format!("{}&tls_ca={}", stage.server, empty.display()),
            "there is no certificate in it",
        ),
    ];
    for (query, expected) in cases {
        let error = listen(query.trim_start_matches('&')).to_string();
        assert!(error.contains(expected), "{query}: {error}");
    }
    let error = Subscriber::open(&uri(free_port(), "tls=yes")).unwrap_err();
    assert!(error.to_string().contains("give 'tls_ca='"), "{error}");
}
