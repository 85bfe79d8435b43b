//! Authentication of `nats://`: NKeys, credentials files, TLS and mutual TLS, against a server that
//! requires them.

#![cfg(all(not(loom), feature = "nats"))]

use crate::common::{WATCHDOG, until};
use crate::nats_server::{Server, server};
use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use olivine::{LinkError, OpenError, Publisher, Subscriber};
use std::path::PathBuf;

/// Opens both ends with `query`, and carries a message.
fn carries(server: &Server, query: &str) {
    let uri = server.uri("guarded", query);
    let mut publisher = Publisher::open(&uri).expect("a publisher");
    publisher.publish(b"let in").expect("room");
    assert_eq!(publisher.wait_drained(Some(WATCHDOG)), Ok(true));
    let mut subscriber = Subscriber::open(&format!("{uri}&from=oldest")).expect("a subscriber");
    let received = subscriber.receive_timeout(WATCHDOG).expect("no error");
    assert_eq!(&*received.expect("a message in time"), b"let in");
}

/// The reason for which `query` is refused.
fn refusal(server: &Server, query: &str) -> LinkError {
    match Publisher::open(&server.uri("guarded", query)) {
        Err(OpenError::Link(error)) => error,
        Err(other) => panic!("{query}: {other:?}"),
        // If the server resets the connection before its reason is read, try again.
        Ok(publisher) => {
            until("the reason is reported", || {
                publisher.link_failure().is_some()
            });
            publisher.link_failure().expect("a reason")
        }
    }
}

/// Files of one test.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

#[test]
fn nkey_is_accepted_and_missing_credentials_are_named() {
    let (ours, stranger) = (KeyPair::new_user(), KeyPair::new_user());
    let users = format!(
        "authorization {{ users = [ {{ nkey: {} }} ] }}",
        ours.public_key()
    );
    let Some(server) = server(&users) else {
        return;
    };
    let files = Files::new();
    let seed = |name: &str, pair: &KeyPair| {
        let path = files.write(name, &pair.seed().expect("a seed"));
        format!("nkey=@{}", path.display())
    };
    carries(&server, &seed("ours", &ours));
    for query in [seed("stranger", &stranger), "timeout=2s".to_owned()] {
        let error = refusal(&server, &query);
        let LinkError::Refused { far, reason } = &error else {
            panic!("{query}: {error:?}");
        };
        assert!(far.starts_with("nats://127.0.0.1"), "{far}");
        assert!(reason.contains("'nkey='"), "{reason}");
        let seed = stranger.seed().expect("a seed");
        assert!(!error.to_string().contains(&seed), "a secret is shown");
    }
    let error = refusal(&server, "nkey=SUNOSEED");
    assert!(error.to_string().contains("nkey"), "{error}");
    let gone = refusal(&server, "nkey=@/nonexistent/seed");
    assert!(gone.to_string().contains("/nonexistent/seed"), "{gone}");
}

/// A signed token of claims, as the NATS tools write them.
fn token(issuer: &KeyPair, subject: &KeyPair, name: &str, claims: &str) -> String {
    let header = r#"{"typ":"JWT","alg":"ed25519-nkey"}"#;
    let body = format!(
        r#"{{"jti":"{name}","iat":1700000000,"iss":"{}",
            "name":"{name}","sub":"{}","nats":{claims}}}"#,
        issuer.public_key(),
        subject.public_key(),
    );
    let parts = [header, &body].map(|part| BASE64URL_NOPAD.encode(part.as_bytes()));
    let signed = parts.join(".");
    let signature = issuer.sign(signed.as_bytes()).expect("a signature");
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
}

/// A file as `nsc` writes it.
fn credentials(token: &str, user: &KeyPair) -> String {
    let seed = user.seed().expect("a seed");
    format!(
        "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

#[test]
fn credentials_file_of_the_account_is_accepted() {
    const USER: &str =
        r#"{"pub":{},"sub":{},"subs":-1,"data":-1,"payload":-1,"type":"user","version":2}"#;
    const ACCOUNT: &str = r#"{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,
        "exports":-1,"wildcards":true,"conn":-1,"leaf":-1,"mem_storage":-1,"disk_storage":-1,
        "streams":-1,"consumer":-1},"default_permissions":{"pub":{},"sub":{}},"type":"account",
        "version":2}"#;
    const SYSTEM: &str = r#"{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,
        "exports":-1,"wildcards":true,"conn":-1,"leaf":-1},
        "default_permissions":{"pub":{},"sub":{}},"type":"account","version":2}"#;
    let (operator, account, system) = (
        KeyPair::new_operator(),
        KeyPair::new_account(),
        KeyPair::new_account(),
    );
    let (user, stranger, foreign) = (
        KeyPair::new_user(),
        KeyPair::new_user(),
        KeyPair::new_account(),
    );
    let whole = token(
        &operator,
        &operator,
        "operator",
        r#"{"type":"operator","version":2}"#,
    );
    let settings = format!(
        "operator: \"{whole}\"\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n{}: \
         \"{}\"\n{}: \"{}\"\n}}",
        system.public_key(),
        account.public_key(),
        token(&operator, &account, "audit", ACCOUNT),
        system.public_key(),
        token(&operator, &system, "system", SYSTEM),
    );
    let Some(server) = server(&settings) else {
        return;
    };
    let files = Files::new();
    let file = |name: &str, issuer: &KeyPair, user: &KeyPair| {
        let text = credentials(&token(issuer, user, name, USER), user);
        format!("creds={}", files.write(name, &text).display())
    };
    carries(&server, &file("ours", &account, &user));
    let error = refusal(&server, &file("theirs", &foreign, &stranger));
    assert!(
        matches!(&error, LinkError::Refused { reason, .. } if reason.contains("'creds='")),
        "{error:?}"
    );
    let nonsense = files.write("nonsense", "nothing of use");
    let error = refusal(&server, &format!("creds={}", nonsense.display()));
    assert!(error.to_string().contains("the credentials"), "{error}");
    let error = refusal(&server, "creds=/nonexistent/file");
    assert!(error.to_string().contains("/nonexistent/file"), "{error}");
}

#[cfg(feature = "tls")]
mod tls {
    use super::*;
    use crate::common::certificates::{Authority, Purpose};

    /// Settings of a server with a certificate that `authority` signs.
    fn settings(authority: &Authority, more: &str) -> String {
        let signed = authority.sign("server", Purpose::Server, |_| {});
        let files: Vec<&str> = signed
            .split('&')
            .filter_map(|pair| Some(pair.split_once('=')?.1))
            .collect();
        let [certificate, key] = files[..] else {
            panic!("{signed}");
        };
        format!("tls {{ cert_file: \"{certificate}\", key_file: \"{key}\", timeout: 5 {more} }}")
    }

    #[test]
    fn server_certificate_needs_its_authority() {
        let (authority, other) = (Authority::new("ours"), Authority::new("another authority"));
        let Some(server) = server(&settings(&authority, "")) else {
            return;
        };
        let ca = |of: &Authority| format!("tls=yes&tls_ca={}", of.ca().display());
        carries(&server, &ca(&authority));
        let error = refusal(&server, &format!("{}&timeout=2s", ca(&other)));
        assert!(matches!(&error, LinkError::Tls { .. }), "{error:?}");
        assert!(error.to_string().contains("certificate"), "{error}");
    }

    #[test]
    fn client_certificate_needs_its_authority() {
        let (authority, other) = (Authority::new("ours"), Authority::new("another authority"));
        let verify = format!(", verify: true, ca_file: \"{}\"", authority.ca().display());
        let Some(server) = server(&settings(&authority, &verify)) else {
            return;
        };
        let ca = format!("tls=yes&timeout=2s&tls_ca={}", authority.ca().display());
        let own = authority.sign("client", Purpose::Client, |_| {});
        carries(&server, &format!("{ca}&{own}"));
        let strange = other.sign("client", Purpose::Client, |_| {});
        for query in [ca.clone(), format!("{ca}&{strange}")] {
            let error = refusal(&server, &query);
            assert!(
                matches!(&error, LinkError::Tls { .. }),
                "{query}: {error:?}"
            );
        }
    }
}
