//! The HTTP server of `olivine metrics` and `olivine serve`, on the engine of this project.
//!
//! One thread of the engine speaks HTTP (`service`); the thread of the command looks at the
//! channels (`desk`), so that a slow look delays no connection. `access` says who may ask.
//! Everything is read-only.

pub(crate) mod access;
mod answer;
mod desk;
mod open;
mod service;

pub(crate) use desk::Desk;

use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::stop::Stop;
use access::Access;
use olivine_net::http::{self, Limits};
use olivine_net::{Engine, EngineConfig, Handler, NotPosted, StartError, WaitStrategy};
use open::Open;
use service::{Posted, Site};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

/// Connections at one time. A page takes one for its events and one for requests.
const CONNECTIONS_MAX: u64 = 256;
/// Bytes of a body: a token is the only thing that is sent here.
const BODY_MAX: u64 = 4096;
/// Time that open connections get when the command ends.
const GRACE: Duration = Duration::from_secs(2);
/// Nothing more is queued for a connection on which this much waits: a page that does not read has
/// one event waiting, and then gets the newest one.
const QUEUE_MAX: usize = 1;
/// Bytes that the kernel holds for a connection: events that wait there grow old.
const SEND_KERNEL_BYTES: usize = 64 << 10;
/// Looks and requests that may wait for the engine's thread.
const POSTED_MAX: usize = 4096;

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// `/metrics`, and a line that says so.
    Metrics,
    /// The page, its interface for programs, and `/metrics`.
    All,
}

/// Serves until a signal asks to stop.
pub(crate) fn run(
    listen: SocketAddr,
    access: Access,
    pages: Pages,
    mut desk: Desk,
    json: bool,
) -> Outcome {
    let stop = Stop::install()?;
    // `open` bounds how many there are.
    let (jobs, asked) = mpsc::channel();
    let open = Open::default();
    let config = EngineConfig::new(listen)
        .threads(1)
        .pin(false)
        .wait(WaitStrategy::Block)
        .receive_buffer(16 << 10)
        .high_water(QUEUE_MAX)
        .low_water(0)
        .send_kernel_bytes(Some(SEND_KERNEL_BYTES))
        .mailbox_max(POSTED_MAX)
        .connections_max(CONNECTIONS_MAX)
        // Events of a page come once an interval, which may be long.
        .idle_timeout(None);
    let limits = Limits::default().body_bytes_max(BODY_MAX);
    let port = access.port();
    let known = open.clone();
    let site = move |_shard| Site::new(access.clone(), pages, jobs.clone(), known.clone());
    let engine = http::serve(config, limits, site).map_err(|error| refused(listen, error))?;
    let address = engine.local_address().unwrap_or(listen);
    // No client knows the address before it is printed.
    let _ = port.set(address.port());
    let path = match pages {
        Pages::Metrics => "metrics",
        Pages::All => "",
    };
    let url = format!("http://{address}/{path}");
    if json {
        print_json(&serde_json::json!({ "url": url }))?;
    } else {
        print(&format!("{url}\n"))?;
    }
    let served = desk.serve(&stop, &asked, &open, |posted| post(&engine, posted));
    engine.stop(GRACE);
    served
}

/// Hands the engine's thread what it is to send.
fn post<H: Handler<Message = Posted>>(engine: &Engine<H>, posted: Posted) -> Outcome {
    match engine.post(0, posted) {
        Ok(()) => Ok(()),
        // A thread that does not keep up misses an event, and its requests time out.
        Err(NotPosted::BackPressured(_)) => Ok(()),
        Err(_) => Err(Failure::failed("the thread that serves pages has ended")),
    }
}

fn refused(listen: SocketAddr, error: StartError) -> Failure {
    let in_use = matches!(&error, StartError::Listen { source, .. }
        if source.kind() == std::io::ErrorKind::AddrInUse);
    let error = anyhow::Error::new(error);
    Failure::Failed(if in_use {
        let port = listen.port();
        error.context(format!(
            "port {port} is in use, perhaps by another olivine: name another one with --listen, \
             or port 0 for a free one"
        ))
    } else {
        error
    })
}
