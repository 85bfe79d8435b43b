//! Rings of this machine behind the ends of channels elsewhere: their names, and the file `uri`
//! that says to which end of which channel a ring belongs.
//!
//! The name of a ring is a hash of what the file says. So a file that was changed, or that belongs
//! to another ring, is not believed.

use crate::ring::layout::fnv;
use crate::segment::{self, ChannelFolder, URI};
use crate::uri::{Config, End, Scheme};
use std::ffi::OsStr;
use std::os::fd::AsFd;

/// What the names of these rings begin with.
const PREFIX: &str = "link.";
/// Longest text that is stored: a longer one is that of a journal with a very long path.
const NOTE_LENGTH_MAX: usize = 4096;

/// The name of a ring behind an end that has no `name=`.
pub(crate) fn unnamed_ring(number: u64) -> String {
    format!("{PREFIX}{number:016x}")
}

/// Whether a channel has the name of such a ring. A user's channel may begin with the same word.
pub(crate) fn is_ring(channel: &str) -> bool {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let number = channel.strip_prefix(PREFIX);
    number.is_some_and(|hash| hash.len() == 16 && hash.bytes().all(is_digit))
}

/// The name of the ring behind this end, with its `name=`. It says nothing of other settings: the
/// next program of that name finds the ring with all of them.
pub(crate) fn ring(end: End, config: &Config, name: &str) -> String {
    let path = || Some(config.path()?.display().to_string());
    let address = config.address().map(ToString::to_string);
    let words = format!(
        "{} {}://{}/{}/{name}",
        word(end),
        config.scheme().word(),
        address.or_else(path).unwrap_or_default(),
        config.channel()
    );
    unnamed_ring(fnv(words.bytes()))
}

/// What the file `uri` of the ring says: the end, and its URI with the settings that decide the
/// name of the ring. No secret is one of them.
pub(crate) fn note(end: End, config: &Config) -> String {
    format!("{} {}\n", word(end), plain(config).uri())
}

/// Stores `note` beside the ring, unless it is there. The caller holds the membership lock.
///
/// The ring works without it: a failure is not reported, and the next opener tries again.
pub(super) fn store(folder: &ChannelFolder, note: &str) {
    if note.len() <= NOTE_LENGTH_MAX && !folder.has(URI) {
        let _ = segment::create_file(folder, URI, note.len() as u64, None, note.as_bytes());
    }
}

/// The end, and its URI, to which the ring `channel` of `folder` belongs; `None` for another
/// channel, or if nothing is stored that is true.
pub(crate) fn stored(folder: &ChannelFolder, channel: &str) -> Option<(End, String)> {
    if !is_ring(channel) {
        return None;
    }
    let file = segment::open_file(folder, URI, false).ok()??;
    let mut bytes = [0; NOTE_LENGTH_MAX];
    let read = rustix::io::pread(file.as_fd(), &mut bytes, 0).ok()?;
    read_note(core::str::from_utf8(&bytes[..read]).ok()?, channel)
}

fn read_note(note: &str, channel: &str) -> Option<(End, String)> {
    let (found, uri) = note.strip_suffix('\n')?.split_once(' ')?;
    let ends = [End::Publisher, End::Subscriber];
    let end = ends.into_iter().find(|end| word(*end) == found)?;
    let config = Config::parse(uri).ok()?;
    (ring(end, &config, config.get_name()?) == channel).then(|| (end, plain(&config).uri()))
}

/// The settings that decide the name of the ring, and no other.
fn plain(config: &Config) -> Config {
    let mut plain = Config::new(config.scheme(), config.channel());
    match config.scheme() {
        Scheme::Tcp => plain.groups.tcp.address = config.address().cloned(),
        Scheme::Nats => plain.groups.nats.address = config.address().cloned(),
        _ => {
            let path = config.path();
            let stem = path.and_then(|path| path.file_stem());
            plain.groups.file.named = stem != Some(OsStr::new(config.channel()));
            plain.groups.file.path = path.map(ToOwned::to_owned);
        }
    }
    plain.name = config.get_name().map(str::to_owned);
    plain
}

fn word(end: End) -> &'static str {
    match end {
        End::Publisher => "publisher",
        End::Subscriber | End::Both => "subscriber",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(uri: &str) -> Config {
        Config::parse(uri).unwrap()
    }

    #[test]
    fn ring_of_remote_channel_belongs_to_one_end_and_scheme() {
        let ring = |uri: &str, end| ring(end, &config(uri), "a");
        let (tcp, nats) = ("tcp://h:4222/t?name=a", "nats://h:4222/t?name=a");
        assert_eq!(ring(tcp, End::Subscriber), ring(tcp, End::Subscriber));
        assert_ne!(ring(tcp, End::Subscriber), ring(tcp, End::Publisher));
        assert_ne!(ring(tcp, End::Subscriber), ring(nats, End::Subscriber));
    }

    #[test]
    fn note_names_the_uri_without_secrets_and_is_believed_for_its_own_ring_only() {
        let uris = [
            (
                "tcp://h:1/t?name=a&token=secret&wait=park",
                "tcp://h:1/t?name=a",
            ),
            (
                "tcp://[::1]:1/t?name=a&role=listen",
                "tcp://[::1]:1/t?name=a",
            ),
            (
                "nats://h/t.u?name=a&capacity=1MiB",
                "nats://h:4222/t.u?name=a",
            ),
            (
                "file:///d/a b.olv?name=a&channel=c&sync=never",
                "file:///d/a b.olv?name=a&channel=c",
            ),
        ];
        for (uri, shown) in uris {
            let config = config(uri);
            for end in [End::Publisher, End::Subscriber] {
                let note = note(end, &config);
                assert!(!note.contains("secret"), "{note}");
                let own = ring(end, &config, "a");
                assert_eq!(read_note(&note, &own), Some((end, shown.to_owned())));
                assert_eq!(read_note(&note, &ring(end, &config, "b")), None);
                assert_eq!(read_note(&note.replace('a', "b"), &own), None);
            }
        }
        for text in [
            "",
            "\n",
            "publisher\n",
            "publisher x\n",
            "both tcp://h:1/t?name=a\n",
        ] {
            assert_eq!(read_note(text, &unnamed_ring(1)), None, "{text}");
        }
    }
}
