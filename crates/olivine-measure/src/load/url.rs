//! Page addresses.

use super::error::LoadError;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The address of a page: `http://HOST[:PORT][/PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Url {
    /// Where the server listens; the first address of the host.
    pub address: SocketAddr,
    /// Host and port as given, for the Host field.
    pub host: String,
    /// Path and query; at least `/`.
    pub path: String,
}

impl Url {
    /// The page `path` of a server on this machine.
    #[must_use]
    pub fn local(address: SocketAddr, path: &str) -> Self {
        Self {
            address,
            host: "localhost".to_owned(),
            path: path.to_owned(),
        }
    }

    /// The bytes of a request for it.
    pub(super) fn request(&self) -> Vec<u8> {
        format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", self.path, self.host).into_bytes()
    }
}

impl FromStr for Url {
    type Err = LoadError;

    fn from_str(url: &str) -> Result<Self, LoadError> {
        let bad = |rule| LoadError::Url {
            url: url.to_owned(),
            rule,
        };
        let rest = url
            .strip_prefix("http://")
            .ok_or_else(|| bad("only http://HOST[:PORT][/PATH] can"))?;
        let slash = rest.find('/').unwrap_or(rest.len());
        let (host, path) = rest.split_at(slash);
        let fine = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        if host.is_empty() || host.contains('@') || !rest.bytes().all(fine) {
            return Err(bad("host and path must be visible ASCII, without @ and #"));
        }
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.ends_with(']'));
        let place = if has_port {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        let address = place
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next())
            .ok_or_else(|| bad("the host has no address, or the port is not a number"))?;
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self {
            address,
            host: host.to_owned(),
            path: path.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_defaults_and_bad_ones_are_refused() {
        let url: Url = "http://127.0.0.1:8000".parse().unwrap();
        assert_eq!((url.path.as_str(), url.address.port()), ("/", 8000));
        assert_eq!(
            url.request(),
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n"
        );
        let url: Url = "http://[::1]/a?b".parse().unwrap();
        assert_eq!(url.address, "[::1]:80".parse().unwrap());
        assert_eq!(url.path, "/a?b");
        for bad in [
            "",
            "127.0.0.1",
            "https://127.0.0.1/",
            "http://",
            "http:///x",
            "http://a b/",
            "http://127.0.0.1:x/",
            "http://127.0.0.1/\r\nX: y",
            "http://u@127.0.0.1/",
        ] {
            assert!(bad.parse::<Url>().is_err(), "{bad:?}");
        }
    }
}
