//! Checks of the parser of URIs for any text.

#![allow(unreachable_pub, reason = "reached by the fuzz targets only")]

use super::{Config, UriError};

/// Checks that a text is refused with a reason, or means the same after it is printed.
///
/// # Panics
///
/// If a check fails.
pub fn check_uri(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    match Config::parse(text) {
        Ok(config) => {
            let written = config.uri();
            let again = Config::parse(&written)
                .unwrap_or_else(|error| panic!("{written:?} of {text:?}: {error}"));
            // Secrets are not printed.
            let mut shown = config.clone();
            let (groups, read) = (&mut shown.groups, &again.groups);
            groups.nats.password.clone_from(&read.nats.password);
            groups.nats.nkey.clone_from(&read.nats.nkey);
            let (nats, tcp) = (&mut groups.nats.connection, &mut groups.tcp.connection);
            nats.token.clone_from(&read.nats.connection.token);
            tcp.token.clone_from(&read.tcp.connection.token);
            assert_eq!(again, shown, "{written:?} of {text:?}");
            assert_eq!(again.uri(), written);
            let channel = config.channel();
            let inside = !channel.contains(['/', '\0']) && channel != "." && channel != "..";
            assert!(inside, "{channel:?} leads out of its folder");
        }
        Err(error) => refused(text, &error),
    }
}

/// Checks that the reason fits this text.
fn refused(text: &str, error: &UriError) {
    // Escaped text differs from the given text.
    let has = |word: &str| word.contains('\\') || text.contains(word);
    let is_true = match error {
        UriError::NoScheme { .. } => !text.contains("://"),
        UriError::UnknownScheme { scheme } => has(scheme),
        UriError::Name { name } => has(name),
        UriError::NoName { uri, .. } => has(uri),
        // A port is printed in another form: 00 as 0, and the default port if none was given.
        UriError::Address { address, .. } => {
            has(address.rsplit_once(':').map_or(address, |(host, _)| host))
        }
        UriError::Path { path } | UriError::Socket { path } => has(path),
        UriError::UnknownKey { key, .. } => has(key),
        UriError::Repeated { key } => text.matches(key.as_str()).count() >= 2,
        // The part before `?` holds the channel, except for a journal. A value is printed in
        // another form, with another unit, and a secret not at all.
        UriError::Misplaced { key, scheme, .. } => has(key) && has(scheme),
        UriError::Value { key, .. } => *key == "channel" || has(key),
        UriError::Pair { first, second, .. } => {
            let of_the_place = first.ends_with("'s name");
            let words = [first, second]
                .into_iter()
                .flat_map(|side| side.split([',', ' ']));
            of_the_place || words.filter(|word| !word.is_empty()).any(has)
        }
    };
    assert!(is_true, "{text:?}: {error}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason shows a value in another form than the text, or another key.
    #[test]
    fn rewritten_values_match_their_reason() {
        for text in [
            "shm://x?align=8192",
            "shm://x?linger=\u{7f}",
            "nats://host:00/a",
            "nats://host/a..b",
            "nats://host/a?max_age=0.05s",
            "nats://host/a?password=%20&user=",
            "tcp://h:1/a?tls=yes&tls_key=/k",
            "tcp://h:1/a?tls_ca=/c",
            "file:///a b",
            "shm+fd:///.sock",
            "shm://x?replicas=3",
            "nats://h/a?user=a&password=b&nkey=c",
            "shm://x?=&=",
        ] {
            assert!(Config::parse(text).is_err(), "{text}");
            check_uri(text.as_bytes());
        }
    }

    #[test]
    #[should_panic(expected = "is not usable")]
    fn wrong_reason_is_detected() {
        refused(
            "shm://x?align=1",
            &Config::parse("shm://x?linger=z").unwrap_err(),
        );
    }
}
