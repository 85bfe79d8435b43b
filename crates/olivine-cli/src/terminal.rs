//! Text of other programs on its way to a terminal: control characters are shown, never sent.
//!
//! A terminal obeys escape sequences: they set its title, its colours, and in some terminals its
//! input. Payloads, names in shared memory, and reasons of a peer may hold them. They pass through
//! here.

pub(crate) mod fit;

use crate::failure::{Failure, Outcome};
use core::fmt::Display;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

/// Whether a terminal may obey this character, or write the text around it in another order.
fn is_unsafe(character: char) -> bool {
    let turns_text = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    (character.is_control() && character != '\t') || turns_text
}

/// `text` with each unsafe character as `\x1b` or `\u{9b}`; line ends are among them.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        push_escaped(&mut out, character);
    }
    Cow::Owned(out)
}

/// Lines of `text`, each escaped; the line ends stay.
pub(crate) fn escaped_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| is_unsafe(character) && character != '\n') {
        return Cow::Borrowed(text);
    }
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(escaped).collect();
    Cow::Owned(lines.join("\n"))
}

fn push_escaped(out: &mut String, character: char) {
    match character {
        _ if !is_unsafe(character) => out.push(character),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        _ if character.is_ascii() => out.push_str(&format!("\\x{:02x}", u32::from(character))),
        _ => out.extend(character.escape_unicode()),
    }
}

/// Whether a terminal shows nothing for this character, or ends the line.
fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\t' | '\u{ad}' | '\u{200b}' | '\u{2028}' | '\u{2029}' | '\u{2060}' | '\u{feff}'
    )
}

/// Writes a payload for a terminal so that different bytes look different: as
/// [`write_escaped`], a backslash as `\\`, a tab as `\t`, and what a terminal shows nothing for as
/// `\u{200b}`.
pub(crate) fn write_payload(out: &mut impl Write, payload: &[u8]) -> io::Result<()> {
    write_by(out, payload, |shown, character| match character {
        '\\' => shown.push_str("\\\\"),
        '\t' => shown.push_str("\\t"),
        _ if is_unseen(character) => shown.extend(character.escape_unicode()),
        _ => push_escaped(shown, character),
    })
}

/// Writes text of others for a terminal: text escaped, bytes that are not UTF-8 as `\xff`.
pub(crate) fn write_escaped(out: &mut impl Write, payload: &[u8]) -> io::Result<()> {
    write_by(out, payload, push_escaped)
}

/// Writes the text of a payload by `push`, and bytes that are not UTF-8 as `\xff`.
fn write_by(
    out: &mut impl Write,
    payload: &[u8],
    push: impl Fn(&mut String, char),
) -> io::Result<()> {
    let mut shown = String::new();
    for chunk in payload.utf8_chunks() {
        shown.clear();
        for character in chunk.valid().chars() {
            push(&mut shown, character);
        }
        out.write_all(shown.as_bytes())?;
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Writes a value as JSON on one line, with escapes for what a terminal may obey.
///
/// JSON itself asks for that below U+0020 only. The result is the same value to each reader of
/// JSON.
pub(crate) fn write_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(out, EscapedJson);
    Ok(value.serialize(&mut serializer)?)
}

struct EscapedJson;

impl Formatter for EscapedJson {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + Write,
    {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unsafe) {
            let (plain, tail) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut characters = tail.chars();
            if let Some(character) = characters.next() {
                // All of them are in the first plane, where JSON has one escape for each.
                write!(writer, "\\u{:04x}", u32::from(character))?;
            }
            rest = characters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Asks before bytes are written to a terminal as they are.
///
/// # Errors
///
/// A refusal, or no terminal on standard input to ask at: wrong use.
pub(crate) fn confirm_binary(form: impl Display) -> Outcome {
    if !is_stdout() {
        return Ok(());
    }
    let remedy = "redirect standard output, or use --out lines, which escapes control characters";
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "--out {form} writes payload bytes to a terminal, which may obey them: {remedy}"
        )));
    }
    let question = format!("--out {form} writes payload bytes to this terminal. Go on? [y/N] ");
    let mut answer = String::new();
    io::stderr()
        .write_all(question.as_bytes())
        .and_then(|()| io::stdin().read_line(&mut answer))
        .map_err(|error| Failure::Failed(error.into()))?;
    if answer.trim().eq_ignore_ascii_case("y") {
        return Ok(());
    }
    Err(Failure::usage(format!("nothing was written: {remedy}")))
}

/// Rows and columns of the terminal that a stream is; `None` if it does not say.
pub(crate) fn size_of(stream: impl AsFd) -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    let (rows, columns) = (size.ws_row.into(), size.ws_col.into());
    (rows > 0 && columns > 0).then_some((rows, columns))
}

/// Whether standard output is a terminal.
pub(crate) fn is_stdout() -> bool {
    io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_text_is_kept() {
        assert_eq!(escaped("plain \t text, größe"), "plain \t text, größe");
        assert_eq!(
            escaped("\u{1b}]0;title\u{7}\u{9b}31m\r\n"),
            "\\x1b]0;title\\x07\\u{9b}31m\\r\\n"
        );
        assert_eq!(escaped("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(escaped_lines("a\n\u{1b}b\n"), "a\n\\x1bb\n");
    }

    #[test]
    fn payloads_that_are_not_text_are_shown_as_bytes() {
        let mut out = Vec::new();
        write_escaped(&mut out, b"ok\xff\x1b[1m\xc3\xa9").unwrap();
        assert_eq!(out, "ok\\xff\\x1b[1mé".as_bytes());
    }

    #[test]
    fn payloads_that_differ_look_different() {
        let shown = |payload: &[u8]| {
            let mut out = Vec::new();
            write_payload(&mut out, payload).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown("größe".as_bytes()), "größe");
        assert_eq!(shown(b"a\\nb"), r"a\\nb");
        assert_eq!(shown(b"a\nb\tc\r"), r"a\nb\tc\r");
        assert_eq!(
            shown("\u{200b}\u{202e}\u{1b}".as_bytes()),
            r"\u{200b}\u{202e}\x1b"
        );
        // A byte that is not UTF-8, and the text that names it.
        assert_eq!(
            (shown(b"\xff"), shown(b"\\xff")),
            (r"\xff".into(), r"\\xff".into())
        );
        // No two payloads look the same.
        let mut seen = std::collections::BTreeMap::new();
        let bytes = [
            b'\\', b'n', b'x', b'0', b'a', b'\n', b'\t', b'\x0a', 0x1b, 0xff, 0xc2, 0x9b,
        ];
        for payload in bytes
            .iter()
            .flat_map(|a| bytes.iter().map(move |b| [*a, *b]))
        {
            let before = seen.insert(shown(&payload), payload);
            assert!(before.is_none_or(|before| before == payload), "{payload:?}");
        }
    }

    #[test]
    fn no_control_byte_is_left_after_escaping() {
        let obeys = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).unwrap();
            text.contains(is_unsafe)
        };
        for character in (0..=0x2100_u32).filter_map(char::from_u32) {
            let text = format!("a{character}b");
            assert!(!obeys(escaped(&text).as_bytes()), "{character:?}");
            let mut json = Vec::new();
            write_json(&mut json, &text).unwrap();
            assert!(!obeys(&json), "{character:?}");
            let read: String = serde_json::from_slice(&json).unwrap();
            assert_eq!(read, text);
        }
        for byte in 0..=255 {
            let mut out = Vec::new();
            write_escaped(&mut out, &[byte, b'x']).unwrap();
            write_payload(&mut out, &[byte, b'x']).unwrap();
            assert!(!obeys(&out), "{byte}");
        }
    }
}
