//! Stores bodies of any length in a folder, piece by piece, and sends them back.
//!
//! ```text
//! cargo run --release --example upload -- --folder /tmp/uploads
//! curl -T README.md http://127.0.0.1:8000/readme
//! curl http://127.0.0.1:8000/readme
//! ```
//!
//! A name that is taken, or cannot be a name, is refused from the head: curl then sends no body.

mod common;

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Parser;
use olivine_net::{
    ConnectionId, Slots,
    http::{self, Admit, Http, Limits, Request, Responder, Service, StreamId, Trailers},
};

/// Stores uploads, and sends them back.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: common::Common,
    /// Folder of the files; made if it is missing.
    #[arg(long, default_value = "uploads")]
    folder: PathBuf,
    /// Bytes of an upload, at most.
    #[arg(long, default_value_t = 10 << 30)]
    bytes_max: u64,
}

/// A file that is being written.
struct Upload {
    file: File,
    /// Its name until it is whole.
    part: PathBuf,
    path: PathBuf,
    bytes: u64,
}

struct Store {
    folder: PathBuf,
    bytes_max: u64,
    uploads: Slots<Upload>,
}

/// The file of a path such as `/name`: letters, digits, `-`, `_`, and dots behind the first byte.
fn file_of(folder: &Path, path: &str) -> Option<PathBuf> {
    let name = path.strip_prefix('/')?;
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=100).contains(&name.len()) && name.bytes().all(fine);
    (is_name && !name.starts_with('.')).then(|| folder.join(name))
}

impl Store {
    /// Begins a file beside its later place, so that no peer reads half of one.
    fn begin(&self, id: ConnectionId, path: PathBuf) -> std::io::Result<Upload> {
        let part = self.folder.join(format!(".{id:?}.part"));
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&part)?;
        Ok(Upload {
            file,
            part,
            path,
            bytes: 0,
        })
    }
}

impl Service for Store {
    type Message = ();

    fn on_head(&mut self, _: &mut Http<'_, ()>, request: &Request<'_>) -> Admit {
        match (request.method(), file_of(&self.folder, request.path())) {
            ("PUT", Some(path)) if path.exists() => Admit::Refuse(409),
            ("PUT", Some(_)) => Admit::Stream(self.bytes_max),
            ("PUT", None) => Admit::Refuse(400),
            _ => Admit::Refuse(405),
        }
    }

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let path = file_of(&self.folder, request.path());
        let id = responder.connection();
        match (request.method(), path) {
            ("PUT", Some(path)) => match self.begin(id, path) {
                Ok(upload) => {
                    let stream = responder.later(http);
                    self.uploads.insert(id, upload);
                    // A request without a body stores an empty file.
                    if request.body_length() == Some(0) {
                        self.on_body_end(http, stream, Trailers::default());
                    }
                }
                Err(error) => {
                    eprintln!("{error}");
                    drop(responder.send(http, 500, &[], b""));
                }
            },
            ("GET" | "HEAD", Some(path)) => match File::open(path).and_then(|file| {
                let length = file.metadata()?.len();
                Ok((Arc::new(file), length))
            }) {
                Ok((file, length)) => {
                    let kind = [("Content-Type", "application/octet-stream")];
                    drop(responder.send_file(http, 200, &kind, &file, 0..length));
                }
                Err(_) => drop(responder.send(http, 404, &[], b"")),
            },
            (_, Some(_)) => drop(responder.send(http, 405, &[("Allow", "GET, HEAD, PUT")], b"")),
            (_, None) => drop(responder.send(http, 404, &[], b"")),
        }
    }

    fn on_body(&mut self, http: &mut Http<'_, ()>, stream: StreamId, piece: &[u8]) {
        if let Some(upload) = self.uploads.get_mut(stream.connection()) {
            upload.bytes += piece.len() as u64;
            if let Err(error) = upload.file.write_all(piece) {
                eprintln!("{error}");
                let _ = http.respond(stream, 507, &[], b"");
                self.on_stream_closed(http, stream);
            }
        }
    }

    fn on_body_end(&mut self, http: &mut Http<'_, ()>, stream: StreamId, _: Trailers<'_>) {
        let Some(upload) = self.uploads.remove(stream.connection()) else {
            return;
        };
        let text = format!("{} bytes\n", upload.bytes);
        // `hard_link` refuses a name that another upload took meanwhile.
        let linked = fs::hard_link(&upload.part, &upload.path);
        let _ = fs::remove_file(&upload.part);
        let _ = match linked {
            Ok(()) => http.respond(stream, 201, &[], text.as_bytes()),
            Err(_) => http.respond(stream, 409, &[], b""),
        };
    }

    fn on_stream_closed(&mut self, _: &mut Http<'_, ()>, stream: StreamId) {
        if let Some(upload) = self.uploads.remove(stream.connection()) {
            let _ = fs::remove_file(upload.part);
        }
    }
}

fn main() -> Result<(), common::Failure> {
    let arguments = Arguments::parse();
    fs::create_dir_all(&arguments.folder)?;
    let config = arguments.common.config()?;
    let (folder, bytes_max) = (arguments.folder.clone(), arguments.bytes_max);
    let engine = http::serve(config, Limits::default(), move |_| Store {
        folder: folder.clone(),
        bytes_max,
        uploads: Slots::new(),
    })?;
    arguments.common.run(engine)
}
