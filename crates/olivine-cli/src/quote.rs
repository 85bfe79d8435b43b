//! Words of command lines that a person copies into a shell.

use crate::terminal::escaped;
use std::path::Path;

/// A word for a shell, in quotes where it needs them; `None` if it has characters that a line
/// cannot show.
pub(crate) fn word(text: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    match escaped(text) {
        shown if shown != text || text.contains(['\t', '\n', '\r']) => None,
        _ if text.starts_with(|c: char| c != '-') && text.chars().all(is_plain) => {
            Some(text.to_owned())
        }
        _ => Some(format!("'{}'", text.replace('\'', "'\\''"))),
    }
}

/// As [`word`]; text that a line cannot show becomes `stand_in`.
pub(crate) fn word_or(text: &str, stand_in: &str) -> String {
    word(text).unwrap_or_else(|| stand_in.to_owned())
}

/// The command that lets stopped processes go on.
pub(crate) fn resume<P: ToString>(processes: impl IntoIterator<Item = P>) -> String {
    let processes = processes.into_iter();
    let words = processes.map(|process| process.to_string());
    format!("kill -CONT {}", words.collect::<Vec<_>>().join(" "))
}

/// The option that names a folder of channels, with a space before it; empty without a folder.
pub(crate) fn dir(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| {
        let shown = path.to_str().map(|path| word_or(path, "DIR"));
        format!(" --dir {}", shown.as_deref().unwrap_or("DIR"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_reads_each_quoted_word_as_it_was() {
        for text in [
            "plain-1_2.olv",
            "/dev/shm/olivine-0",
            "/tmp/chan dir",
            "/tmp/a;touch x",
            "it's",
            "$HOME/`id`",
            "~",
            "",
            "-x",
            "a\"b\\c",
            "Grüße",
        ] {
            let line = format!("olivine ls --dir {}", word(text).unwrap());
            let words = shlex::split(&line).unwrap();
            assert_eq!(words, ["olivine", "ls", "--dir", text]);
        }
        assert_eq!(word("/dev/shm/a").as_deref(), Some("/dev/shm/a"));
        assert_eq!(word("a\nb"), None);
        assert_eq!(word("a\x1b[2J"), None);
    }

    #[test]
    fn folder_becomes_an_option() {
        assert_eq!(dir(None), "");
        assert_eq!(dir(Some(Path::new("/tmp/a b"))), " --dir '/tmp/a b'");
        assert_eq!(dir(Some(Path::new("/tmp/a\nb"))), " --dir DIR");
    }
}
