//! The value of a Host field: RFC 9112 3.2 answers 400 to what RFC 3986 3.2.2 and 3.2.3 do not
//! allow.
//!
//! Two servers in a row that read a host differently serve one user the pages of another, so what
//! is not exactly a name, an IPv4 address or an address in brackets, with or without a port, is
//! refused.

use std::net::Ipv6Addr;

use super::scan::{self, NAME};

/// Whether `value` is `uri-host [ ":" port ]`; an empty one is (RFC 9112 3.2), and a port without a
/// host is not.
#[inline]
pub(super) fn is_valid(value: &[u8]) -> bool {
    // Nearly all are a name without escapes, and perhaps a port.
    let name = scan::name(value);
    match value[name..].split_first() {
        None => true,
        Some((b':', port)) => name > 0 && is_port(port),
        Some(_) => is_other(value),
    }
}

/// [`is_valid`] of a value with brackets or escapes.
fn is_other(value: &[u8]) -> bool {
    if let Some(inner) = value.strip_prefix(b"[") {
        let Some(end) = inner.iter().position(|byte| *byte == b']') else {
            return false;
        };
        let behind = &inner[end + 1..];
        let port = match behind.split_first() {
            None => true,
            Some((b':', port)) => is_port(port),
            Some(_) => false,
        };
        return port && is_address(&inner[..end]);
    }
    match value.iter().position(|byte| *byte == b':') {
        None => is_name(value),
        Some(colon) => colon > 0 && is_name(&value[..colon]) && is_port(&value[colon + 1..]),
    }
}

/// RFC 3986 `reg-name`, of which an IPv4 address is a case: percent escapes are whole.
fn is_name(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some((byte, behind)) = rest.split_first() {
        rest = match (byte, behind) {
            (b'%', [high, low, behind @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                behind
            }
            _ if NAME[usize::from(*byte)] => behind,
            _ => return false,
        };
    }
    true
}

/// What may stand in brackets: an IPv6 address without a zone, or `IPvFuture`.
fn is_address(address: &[u8]) -> bool {
    if let Some(future) = address
        .strip_prefix(b"v")
        .or_else(|| address.strip_prefix(b"V"))
    {
        let Some(dot) = future.iter().position(|byte| *byte == b'.') else {
            return false;
        };
        let (version, rest) = (&future[..dot], &future[dot + 1..]);
        let fine = |byte: &u8| *byte == b':' || NAME[usize::from(*byte)];
        return !version.is_empty()
            && version.iter().all(u8::is_ascii_hexdigit)
            && !rest.is_empty()
            && rest.iter().all(fine);
    }
    std::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// Digits, none included, of a number that a port can be.
#[inline]
fn is_port(digits: &[u8]) -> bool {
    let mut port = 0_u32;
    digits.iter().all(|digit| {
        let digit = u32::from(digit.wrapping_sub(b'0'));
        // Below 655,360 before each step; leading zeros may be many.
        port = port * 10 + digit;
        digit <= 9 && port <= 65_535
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_rfc_3986_are_taken_and_others_refused() {
        for fine in [
            "",
            "a",
            "a:",
            "a:80",
            "a:65535",
            "a:00080",
            "example.com",
            "a_b.c~d!$&'()*+;=",
            "%41%7e",
            "127.0.0.1:8080",
            "999.1.1.1",
            "[::1]",
            "[::1]:",
            "[::1]:80",
            "[2001:db8::1.2.3.4]",
            "[v1.a:b]",
            "[VF.x]:1",
        ] {
            assert!(is_valid(fine.as_bytes()), "{fine:?} must be taken");
        }
        for bad in [
            "x:abc",
            "x:99999",
            "x:65536",
            "x:-1",
            "x:+1",
            "x: 1",
            "a:b:c",
            "a::1",
            "::1",
            ":80",
            ":",
            "[::1",
            "::1]",
            "]][[",
            "[]",
            "[]:80",
            "[::1]x",
            "[::1]80",
            "[::1]:x",
            "[[::1]]",
            "[127.0.0.1]",
            "[:::]",
            "[fe80::1%25eth0]",
            "[fe80::1%eth0]",
            "[v.a]",
            "[v1.]",
            "[v1]",
            "[vg.a]",
            "[v1.a/b]",
            "a[::1]",
            "%zz",
            "%4",
            "%",
            "a%2",
            "a,b",
            "u@a",
            "a/b",
            "a?b",
            "a#b",
            "a b",
            "a\tb",
            "a\\b",
            "a\"b",
            "a<b",
            "\u{e9}",
        ] {
            assert!(!is_valid(bad.as_bytes()), "{bad:?} must be refused");
        }
    }
}
