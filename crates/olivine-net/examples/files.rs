//! Serves the files of a folder.
//!
//! ```text
//! cargo run --release --example files -- --folder docs
//! curl -I http://127.0.0.1:8000/method.md
//! curl -r 0-99 http://127.0.0.1:8000/method.md
//! ```
//!
//! It has no listings, and follows no link out of the folder.

mod common;

use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Parser;
use olivine_net::http::{self, Http, Limits, Request, Responder, Service};

/// Serves the files of a folder.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: common::Common,
    /// The folder.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
}

struct Files {
    /// Without links, so that the start of a path tells whether it is inside.
    folder: PathBuf,
}

/// The bytes that a path of a URL names; `None` for a broken escape.
fn unescape(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte == b'%' {
            let digits = std::str::from_utf8(behind.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &behind[2..];
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("txt" | "md" | "rs" | "toml") => "text/plain; charset=utf-8",
        Some("css") => "text/css",
        Some("js") => "text/javascript",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg") => "image/jpeg",
        _ => "application/octet-stream",
    }
}

/// The part that a Range field asks for: `None` where it asks for all, `Some(None)` where it asks
/// for nothing that is there. Several parts at once are as good as all.
fn part(request: &Request<'_>, length: u64) -> Option<Option<Range<u64>>> {
    let text = std::str::from_utf8(request.header("range")?).ok()?;
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    if last.contains(',') {
        return None;
    }
    let number = |text: &str| text.parse::<u64>().ok();
    let range = match (first, last) {
        ("", last) => length.saturating_sub(number(last)?)..length,
        (first, "") => number(first)?..length,
        (first, last) => number(first)?..number(last)?.saturating_add(1).min(length),
    };
    Some((!range.is_empty()).then_some(range))
}

impl Files {
    fn open(&self, path: &str) -> Option<(PathBuf, File, u64)> {
        let name = unescape(path)?;
        let name = match name.trim_start_matches('/') {
            "" => "index.html",
            name => name,
        };
        let path = self.folder.join(name).canonicalize().ok()?;
        if !path.starts_with(&self.folder) {
            return None;
        }
        let file = File::open(&path).ok()?;
        let metadata = file.metadata().ok()?;
        metadata.is_file().then_some((path, file, metadata.len()))
    }
}

impl Service for Files {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        if !matches!(request.method(), "GET" | "HEAD") {
            return drop(responder.send(http, 405, &[("Allow", "GET, HEAD")], b""));
        }
        let Some((path, file, length)) = self.open(request.path()) else {
            return drop(responder.send(http, 404, &[], b""));
        };
        let kind = ("Content-Type", kind(&path));
        let file = Arc::new(file);
        // What can go wrong is a file that became shorter just now; its peer gets 500.
        let _ = match part(request, length) {
            None => {
                let headers = [kind, ("Accept-Ranges", "bytes")];
                responder.send_file(http, 200, &headers, &file, 0..length)
            }
            Some(Some(range)) => {
                let shown = format!("bytes {}-{}/{length}", range.start, range.end - 1);
                let headers = [kind, ("Content-Range", shown.as_str())];
                responder.send_file(http, 206, &headers, &file, range)
            }
            Some(None) => {
                let shown = format!("bytes */{length}");
                responder.send(http, 416, &[("Content-Range", &shown)], b"")
            }
        };
    }
}

fn main() -> Result<(), common::Failure> {
    let arguments = Arguments::parse();
    let folder = arguments.folder.canonicalize()?;
    let config = arguments.common.config()?;
    let engine = http::serve(config, Limits::default(), move |_| Files {
        folder: folder.clone(),
    })?;
    arguments.common.run(engine)
}
