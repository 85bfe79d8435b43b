//! The one document: HTML with its style, its script and its values inside. It fetches nothing from
//! other hosts, and as a file nothing at all.

use super::history::{History, Shown, unix_ms};
use crate::failure::Outcome;
use crate::output::json_line;
use crate::terminal::escaped;
use crate::watch::view::View;
use crate::web::access::secret;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

const PAGE: &str = include_str!("page.html");
const SIGN_IN: &str = include_str!("sign_in.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: [&str; 4] = [
    include_str!("format.js"),
    include_str!("map.js"),
    include_str!("tables.js"),
    include_str!("page.js"),
];

/// What the page shows.
pub(crate) struct Source<'a> {
    pub(crate) view: &'a View,
    /// When it was seen, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Why nothing newer was seen.
    pub(crate) failure: Option<&'a str>,
    pub(crate) history: &'a History,
    pub(crate) interval: Duration,
    pub(crate) folder: &'a Path,
    /// The report as JSON; a live page asks for it.
    pub(crate) doctor: Option<&'a str>,
    /// Whether a server is behind it.
    pub(crate) is_live: bool,
}

/// The values in the page.
#[derive(Serialize)]
struct Data<'a> {
    version: &'static str,
    at_unix_ms: u64,
    written_unix_ms: u64,
    failure: Option<&'a str>,
    interval_ms: u64,
    is_live: bool,
    folder: String,
    host: String,
    view: &'a View,
    history: Shown<'a>,
    doctor: Option<serde_json::Value>,
}

/// A nonce, and the page with it.
///
/// # Errors
///
/// If the kernel has no random bytes.
pub(crate) fn page(source: &Source<'_>) -> Outcome<(String, String)> {
    let nonce = secret()?;
    let data = Data {
        version: env!("CARGO_PKG_VERSION"),
        at_unix_ms: source.at_ms,
        written_unix_ms: unix_ms(),
        failure: source.failure,
        interval_ms: u64::try_from(source.interval.as_millis()).unwrap_or(u64::MAX),
        is_live: source.is_live,
        folder: source.folder.display().to_string(),
        host: host(),
        view: source.view,
        history: source.history.shown(),
        doctor: source
            .doctor
            .and_then(|json| serde_json::from_str(json).ok()),
    };
    let data = json_line(&data)?;
    let script = SCRIPT.concat();
    let headline = html(&headline(source));
    let connect = if source.is_live { "'self'" } else { "'none'" };
    let values = [
        ("nonce", &*nonce),
        ("connect", connect),
        ("style", STYLE),
        ("script", &script),
        ("headline", &headline),
        ("data", &in_script(&data)),
    ];
    Ok((nonce.clone(), fill(PAGE, &values)))
}

/// The page that asks for the token.
pub(crate) fn sign_in(nonce: &str, note: &str) -> String {
    fill(
        SIGN_IN,
        &[("nonce", nonce), ("style", STYLE), ("note", &html(note))],
    )
}

/// The first sentence, as `top` says it; it is there before the script has run.
fn headline(source: &Source<'_>) -> String {
    let view = source.view;
    match view.findings.first() {
        // Nothing that is shown was seen.
        None if source.failure.is_some() && view.channels.is_empty() => {
            "The channels cannot be read.".to_owned()
        }
        Some(worst) => worst.text.clone(),
        None if view.channels.is_empty() => "There are no channels here.".to_owned(),
        None => "No subscriber holds a publisher back.".to_owned(),
    }
}

/// The name of this host.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "this host".to_owned(), |name| name.trim().to_owned())
}

/// `template` with each `{{name}}` replaced once; values are not looked through.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len() + 100_000);
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once("{{") {
        out.push_str(before);
        let (name, tail) = behind.split_once("}}").unwrap_or((behind, ""));
        let value = values.iter().find(|(known, _)| *known == name);
        out.push_str(value.map_or("", |(_, value)| value));
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// Text for HTML.
fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in escaped(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// JSON that cannot end the element which holds it.
fn in_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 16);
    let mut rest = json;
    while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        let (plain, tail) = rest.split_at(at);
        out.push_str(plain);
        let mut characters = tail.chars();
        if let Some(character) = characters.next() {
            out.push_str(&format!("\\u{:04x}", u32::from(character)));
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tracker::tests::troubled;

    fn written(view: &View, is_live: bool) -> String {
        let history = History::default();
        let source = Source {
            view,
            at_ms: 1,
            failure: None,
            history: &history,
            interval: Duration::from_secs(1),
            folder: Path::new("/dev/shm/</script>"),
            doctor: Some("{\"ok\":true}"),
            is_live,
        };
        page(&source).unwrap_or_else(|error| panic!("{error:?}")).1
    }

    #[test]
    fn page_is_whole_and_names_no_other_host() {
        for is_live in [true, false] {
            let page = written(&troubled(), is_live);
            assert!(!page.contains("{{") && page.ends_with("</html>\n"));
            // Names of SVG and links in comments are not fetched; a page has neither.
            let addresses = page.matches("://").count();
            let known = page.matches("shm://").count() + page.matches("http://www.w3.org/").count();
            assert_eq!(addresses, known, "another host is named");
            let policy = page.contains("connect-src 'self'");
            assert_eq!(policy, is_live);
        }
    }

    #[test]
    fn hostile_names_end_no_element_and_no_script() {
        let mut view = troubled();
        let evil = "</script><script>alert(1)</script>{{nonce}}\u{2028}\u{1b}";
        for channel in &mut view.channels {
            channel.name = evil.to_owned();
            for one in &mut channel.participants {
                one.name = Some(evil.to_owned());
            }
        }
        view.findings[0].text = format!("{evil}: held <b>'\"&");
        let page = written(&view, true);
        assert!(!page.contains("alert(1)</script>") && !page.contains("<script>alert"));
        assert!(
            page.contains("held &lt;b&gt;&#39;&quot;&amp;"),
            "the headline is escaped"
        );
        assert!(!page.contains('\u{1b}'));
        let opened = page.matches("<script").count();
        assert_eq!((opened, page.matches("</script>").count()), (2, 2));
        // The values are read as they were.
        let (_, behind) = page.split_once("type=\"application/json\"").unwrap();
        let (_, behind) = behind.split_once('>').unwrap();
        let (data, _) = behind.split_once("</script>").unwrap();
        assert!(!data.contains(['<', '&', '\u{2028}']), "{data}");
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["view"]["channels"][0]["name"], evil);
        assert_eq!(data["folder"], "/dev/shm/</script>");
        assert_eq!(data["doctor"]["ok"], true);
    }
}
