//! What must hold of the parser of URIs for any text.

#![allow(unreachable_pub, reason = "reached by the fuzz targets only")]

use super::Config;

/// Checks that a text is refused with a reason, or means the same when it is written out again.
///
/// # Panics
///
/// If a claim does not hold.
pub fn check_uri(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    match Config::parse(text) {
        Ok(config) => {
            let written = config.uri();
            let again = Config::parse(&written)
                .unwrap_or_else(|error| panic!("{written:?} of {text:?}: {error}"));
            // Secrets are not written out.
            let mut shown = config.clone();
            let (nats, read) = (&mut shown.remote.nats, &again.remote.nats);
            nats.password.clone_from(&read.password);
            nats.nkey.clone_from(&read.nkey);
            shown.remote.token.clone_from(&again.remote.token);
            assert_eq!(again, shown, "{written:?} of {text:?}");
            assert_eq!(again.uri(), written);
            let channel = config.channel();
            let inside = !channel.contains(['/', '\0']) && channel != "." && channel != "..";
            assert!(inside, "{channel:?} leads out of its folder");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
