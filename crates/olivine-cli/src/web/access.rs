//! Who may ask the server: tokens, and names of this host.
//!
//! A web page of another site can send requests to this machine. It cannot read the answers, unless
//! its name leads here too (DNS rebinding). So a request must name an address, `localhost`, or a
//! name that was given. Such a page cannot make this server look at channels either: the browser
//! says which page asks, and that page must be ours.

use crate::args::AccessArgs;
use crate::failure::{Failure, Outcome};
use data_encoding::HEXLOWER;
use olivine_net::http::Request;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;

/// Characters of a token at least.
const TOKEN_MIN: usize = 16;
/// Bytes of a token at most.
const TOKEN_MAX: usize = 512;
/// How long a browser is not asked for the token again.
const SESSION_AGE: Duration = Duration::from_secs(12 * 3600);
/// Browsers that are signed in at one time. One more ends the oldest session.
const SESSIONS_MAX: usize = 64;
/// Random bytes of a secret.
const SECRET_BYTES: usize = 16;

/// What browsers that gave the token send instead, the oldest first. They end with this process.
type Sessions = VecDeque<(Instant, String)>;

/// The rules. It has no `Debug`: it holds secrets.
#[derive(Clone)]
pub(crate) struct Access {
    /// `None` if every user of this machine may ask.
    token: Option<Arc<str>>,
    sessions: Arc<Mutex<Sessions>>,
    /// The port in the name of the cookie: ports of one host share their cookies.
    port: Arc<OnceLock<u16>>,
    hosts: Arc<[String]>,
}

impl Access {
    /// The rules of the arguments for a server at `listen`.
    ///
    /// # Errors
    ///
    /// Wrong usage: an address beyond this machine without a token, a weak token, a wrong name. A
    /// file that cannot be read is a failure.
    pub(crate) fn new(listen: SocketAddr, args: &AccessArgs) -> Outcome<Self> {
        let token = match (&args.token, &args.token_file) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(file)) => Some(first_line(file)?),
            (None, None) => None,
        };
        if let Some(token) = &token {
            check_token(token)?;
        }
        if token.is_none() && !listen.ip().to_canonical().is_loopback() {
            return Err(Failure::usage(format!(
                "--listen {listen} can be reached from other machines: add --token-file FILE (or \
                 --token) with a secret such as that of 'openssl rand -hex 16', or listen on \
                 127.0.0.1:{}",
                listen.port()
            )));
        }
        for host in &args.host {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            if host.is_empty() || !host.chars().all(is_name) {
                return Err(Failure::usage(format!(
                    "--host '{host}' is not a host name: give a name such as box.example.org, \
                     without a port"
                )));
            }
        }
        Ok(Self {
            token: token.map(Into::into),
            sessions: Arc::default(),
            port: Arc::default(),
            hosts: args.host.iter().map(|host| host.to_lowercase()).collect(),
        })
    }

    /// Where the port is put once the server listens.
    pub(crate) fn port(&self) -> Arc<OnceLock<u16>> {
        Arc::clone(&self.port)
    }

    fn cookie(&self) -> String {
        format!("olivine-{}", self.port.get().unwrap_or(&0))
    }

    /// Whether a request comes from a page of this server, from a program, or from a person who
    /// opened the page by a link or by hand.
    pub(crate) fn is_our_page(&self, request: &Request<'_>) -> bool {
        let is = |name, value: &[u8]| request.header(name) == Some(value);
        let is_opened = is("sec-fetch-mode", b"navigate")
            && is("sec-fetch-dest", b"document")
            && matches!(request.method(), "GET" | "HEAD")
            && request.path() == "/";
        if is_opened {
            return true;
        }
        match request.header("sec-fetch-site") {
            Some(site) => matches!(site, b"same-origin" | b"none"),
            // Browsers say less to a server without TLS on another machine.
            None => request.header("origin").is_none_or(|origin| {
                self.is_our_origin(origin, request.host())
                    // Our form has no origin: the page forbids to name it. It needs the token.
                    || origin == b"null" && request.path() == "/login"
            }),
        }
    }

    /// Whether an origin is that of `host`, or of a name that was given: a proxy may ask for
    /// another host than the browser.
    fn is_our_origin(&self, origin: &[u8], host: &str) -> bool {
        let Ok(origin) = std::str::from_utf8(origin) else {
            return false;
        };
        let Some((_, authority)) = origin.split_once("://") else {
            return false;
        };
        let name = authority.split(':').next().unwrap_or_default();
        authority.eq_ignore_ascii_case(host) || self.hosts.contains(&name.to_ascii_lowercase())
    }

    /// Whether a request for `host`, with or without a port, is for this server.
    pub(crate) fn is_our_host(&self, host: &str) -> bool {
        if let Some(rest) = host.strip_prefix('[') {
            let Some((address, port)) = rest.split_once(']') else {
                return false;
            };
            return address.parse::<Ipv6Addr>().is_ok() && is_port(port);
        }
        let (name, port) = match host.find(':') {
            Some(at) => host.split_at(at),
            None => (host, ""),
        };
        let name = name.to_ascii_lowercase();
        let is_known =
            name == "localhost" || name.parse::<IpAddr>().is_ok() || self.hosts.contains(&name);
        is_known && is_port(port)
    }

    /// Whether a request has the token, or the cookie of a browser that gave it.
    pub(crate) fn admits(&self, request: &Request<'_>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let given = request.header("authorization").and_then(bearer);
        if given.is_some_and(|given| is_equal(given, token)) {
            return true;
        }
        let cookies = request.headers();
        let cookies = cookies.filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
        let mut pairs = cookies.flat_map(|(_, value)| value.split(|byte| *byte == b';'));
        let cookie = self.cookie();
        pairs.any(|pair| {
            let pair = pair.trim_ascii();
            let value = pair.strip_prefix(cookie.as_bytes());
            let value = value.and_then(|rest| rest.strip_prefix(b"="));
            value.is_some_and(|value| self.is_session(value, Instant::now()))
        })
    }

    /// Whether a value is that of a session which has not ended at `now`.
    fn is_session(&self, value: &[u8], now: Instant) -> bool {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|(begun, _)| now.saturating_duration_since(*begun) < SESSION_AGE);
        // All are compared: the time does not depend on which one it is.
        let equal = sessions.iter().map(|(_, secret)| is_equal(value, secret));
        equal.fold(false, |one, other| one | other)
    }

    /// The cookie for a browser whose form `token=…` holds the token.
    pub(crate) fn sign_in(&self, form: &[u8]) -> Option<String> {
        let mut fields = form.split(|byte| *byte == b'&');
        let given = fields.find_map(|field| field.strip_prefix(b"token="))?;
        let token = self.token.as_ref()?;
        if !is_equal(&unquoted(given), token) {
            return None;
        }
        let session = secret().ok()?;
        let (name, age) = (self.cookie(), SESSION_AGE.as_secs());
        let cookie = format!("{name}={session}; Max-Age={age}; Path=/; HttpOnly; SameSite=Strict");
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.push_back((Instant::now(), session));
        if sessions.len() > SESSIONS_MAX {
            sessions.pop_front();
        }
        Some(cookie)
    }
}

/// Random bytes, as text.
///
/// # Errors
///
/// If the kernel has no random bytes.
pub(crate) fn secret() -> Outcome<String> {
    let mut bytes = [0; SECRET_BYTES];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match got {
        Ok(SECRET_BYTES) => Ok(HEXLOWER.encode(&bytes)),
        Ok(_) => Err(Failure::failed("the kernel gave too few random bytes")),
        Err(errno) => Err(Failure::Failed(
            anyhow::Error::new(errno).context("the kernel gave no random bytes"),
        )),
    }
}

/// Compares in a time that depends on the lengths only.
fn is_equal(given: &[u8], secret: &str) -> bool {
    given.ct_eq(secret.as_bytes()).into()
}

fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(port) => port.is_empty() || port.parse::<u16>().is_ok(),
        None => text.is_empty(),
    }
}

/// The token of `Bearer TOKEN`.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

/// A value of a form, without its percent-escapes.
fn unquoted(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        out.push(match byte {
            b'+' => b' ',
            b'%' => match hexadecimal(tail) {
                Some((byte, tail)) => {
                    rest = tail;
                    byte
                }
                None => b'%',
            },
            byte => byte,
        });
    }
    out
}

fn hexadecimal(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, tail) = bytes.split_at_checked(2)?;
    let digits = std::str::from_utf8(digits).ok()?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_plain)?;
    Some((byte, tail))
}

fn check_token(token: &str) -> Outcome {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
    if token.len() < TOKEN_MIN || token.len() > TOKEN_MAX || !token.chars().all(is_plain) {
        // The token itself is not shown.
        return Err(Failure::usage(format!(
            "the token has {} bytes: it needs {TOKEN_MIN} to {TOKEN_MAX} letters, digits or \
             -._~+/=, such as those of 'openssl rand -hex 16'",
            token.len()
        )));
    }
    Ok(())
}

fn first_line(path: &Path) -> Outcome<String> {
    let failed = |error: std::io::Error| {
        Failure::Failed(
            anyhow::Error::new(error).context(format!("cannot read the token {}", path.display())),
        )
    };
    let file = File::open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    // A pipe such as that of <(pass show olivine) is read by the user that made it.
    if meta.is_file() && meta.permissions().mode() & 0o077 != 0 {
        let path = path.display();
        return Err(Failure::usage(format!(
            "others may read the token in {path} (mode {:03o}): chmod 600 {path}",
            meta.permissions().mode() & 0o777
        )));
    }
    let mut line = String::new();
    let limit = TOKEN_MAX as u64 + 2;
    BufReader::new(file.take(limit))
        .read_line(&mut line)
        .map_err(failed)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn access(listen: &str, token: Option<&str>, host: &[&str]) -> Outcome<Access> {
        let args = AccessArgs {
            token: token.map(str::to_owned),
            token_file: None,
            host: host.iter().map(|host| (*host).to_owned()).collect(),
        };
        Access::new(listen.parse().unwrap(), &args)
    }

    fn refusal(outcome: Outcome<Access>) -> String {
        match outcome {
            Err(Failure::Usage(error)) => error.to_string(),
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("not refused"),
        }
    }

    #[test]
    fn only_loopback_needs_no_token() {
        for listen in [
            "127.0.0.1:1",
            "127.9.9.9:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(access(listen, None, &[]).is_ok(), "{listen}");
        }
        for listen in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[2001:db8::1]:1"] {
            let said = refusal(access(listen, None, &[]));
            assert!(said.contains("--token-file"), "{said}");
            assert!(access(listen, Some(TOKEN), &[]).is_ok(), "{listen}");
        }
    }

    #[test]
    fn weak_tokens_and_wrong_names_are_refused_without_showing_the_token() {
        for token in ["", "short", "with a space and more", &"x".repeat(513)] {
            let said = refusal(access("127.0.0.1:1", Some(token), &[]));
            assert!(said.contains("it needs 16 to 512"), "{said}");
            assert!(token.is_empty() || !said.contains(token), "{said}");
        }
        for host in ["", "a b", "a:1", "http://a"] {
            let said = refusal(access("127.0.0.1:1", None, &[host]));
            assert!(said.contains("is not a host name"), "{said}");
        }
    }

    #[test]
    fn only_addresses_localhost_and_given_names_are_our_hosts() {
        let access = access("127.0.0.1:1", None, &["Box.example.org"])
            .unwrap_or_else(|error| panic!("{error:?}"));
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1",
            "192.0.2.7:1",
            "[::1]",
            "[::1]:6548",
            "box.example.org",
            "BOX.EXAMPLE.ORG:443",
            "localhost:",
        ] {
            assert!(access.is_our_host(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::1",
            "[evil]",
            "localhost:x",
            "localhost:70000",
            "[::1]x",
            "a@localhost",
            "localhost:1:2",
        ] {
            assert!(!access.is_our_host(host), "{host}");
        }
    }

    #[test]
    fn a_form_with_the_token_gets_a_cookie_and_no_other_form_does() {
        let access = access("127.0.0.1:0", Some("0123456789abc+/="), &[])
            .unwrap_or_else(|error| panic!("{error:?}"));
        access.port().set(7).unwrap();
        let cookie = access.sign_in(b"x=1&token=0123456789abc%2b%2F%3D").unwrap();
        assert!(
            cookie.starts_with("olivine-7=") && cookie.contains("HttpOnly"),
            "{cookie}"
        );
        assert!(!cookie.contains("0123456789abc"), "{cookie}");
        for form in [
            &b""[..],
            b"token=",
            b"token=0123456789abc",
            b"token=0123456789abc%2",
            b"token",
            b"token=\xff%zz",
            b"token=0123456789abc+/=",
        ] {
            assert_eq!(access.sign_in(form), None, "{form:?}");
        }
    }

    #[test]
    fn session_ends_at_its_age_and_the_oldest_of_too_many_ends() {
        let access =
            access("127.0.0.1:0", Some(TOKEN), &[]).unwrap_or_else(|error| panic!("{error:?}"));
        let form = format!("token={TOKEN}");
        let session = || {
            let cookie = access.sign_in(form.as_bytes()).unwrap();
            assert!(cookie.contains("; Max-Age=43200;"), "{cookie}");
            let (_, value) = cookie.split_once('=').unwrap();
            value.split(';').next().unwrap().to_owned()
        };
        let first = session();
        let now = Instant::now();
        assert!(access.is_session(first.as_bytes(), now));
        assert!(!access.is_session(b"", now) && !access.is_session(b"x", now));
        let others: Vec<String> = (0..SESSIONS_MAX).map(|_| session()).collect();
        assert!(!access.is_session(first.as_bytes(), now));
        assert!(access.is_session(others[0].as_bytes(), now));
        assert!(!access.is_session(others[0].as_bytes(), now + SESSION_AGE * 2));
    }

    #[test]
    fn origins_of_other_hosts_and_ports_are_not_ours() {
        let access = access("127.0.0.1:1", None, &["box.example.org"])
            .unwrap_or_else(|error| panic!("{error:?}"));
        for origin in [
            "http://localhost:6548",
            "http://LOCALHOST:6548",
            "https://box.example.org",
        ] {
            assert!(
                access.is_our_origin(origin.as_bytes(), "localhost:6548"),
                "{origin}"
            );
        }
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:1",
            "http://evil.example",
        ] {
            assert!(
                !access.is_our_origin(origin.as_bytes(), "localhost:6548"),
                "{origin}"
            );
        }
    }

    #[test]
    fn secrets_differ_and_bearer_is_read_in_any_case() {
        let (a, b) = (secret(), secret());
        assert_ne!(a.unwrap_or_default(), b.unwrap_or_default());
        assert_eq!(bearer(b"bearer  abc "), Some(&b"abc"[..]));
        for other in [&b"Basic abc"[..], b"Bear", b"", b"Bearerabc"] {
            assert_eq!(bearer(other), None, "{other:?}");
        }
    }
}
