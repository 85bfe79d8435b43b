//! Server-sent events with ids: what is posted goes to all watchers, and a watcher that connects
//! again gets what it missed.
//!
//! ```text
//! cargo run --release --example events
//! curl -N http://127.0.0.1:8000/events &
//! curl -d hello http://127.0.0.1:8000/post
//! curl -N -H 'Last-Event-ID: 0' http://127.0.0.1:8000/events
//! ```

mod common;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use clap::Parser;
use olivine_net::http::{self, Event, Http, Limits, Request, Responder, Service, StreamId};

/// Sends what is posted to all watchers.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: common::Common,
}

/// An id and its text; every shard gets each.
type News = (u64, Arc<str>);

struct Watchers {
    streams: Vec<StreamId>,
    /// What a watcher that connects again may have missed.
    last: VecDeque<News>,
    /// The last id of the process.
    ids: Arc<AtomicU64>,
}

/// Texts kept for watchers that connect again.
const KEPT: usize = 1000;
/// Silence after which a comment shows that the connection lives.
const SILENCE: Duration = Duration::from_secs(15);

impl Watchers {
    fn tell(&mut self, http: &mut Http<'_, News>, (id, text): News) {
        let number = id.to_string();
        self.streams.retain(|stream| {
            let event = Event::new(&text).id(&number);
            // A watcher that is too slow is cut off: it connects again, and names its last id.
            let sent = http.event(*stream, &event);
            if sent.is_err() {
                http.abort(*stream);
            }
            sent.is_ok()
        });
        // Posts of different shards may overtake each other on the way.
        let at = self.last.partition_point(|(other, _)| *other < id);
        self.last.insert(at, (id, text));
        if self.last.len() > KEPT {
            self.last.pop_front();
        }
    }
}

impl Service for Watchers {
    type Message = News;

    fn on_start(&mut self, http: &mut Http<'_, News>) {
        http.shard().set_timer(SILENCE, 0);
    }

    fn on_request(
        &mut self,
        http: &mut Http<'_, News>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        match (request.method(), request.path()) {
            ("GET", "/events") => {
                let seen = request
                    .last_event_id()
                    .and_then(|id| id.parse::<u64>().ok());
                let stream = responder.events(http);
                for (id, text) in &self.last {
                    if seen.is_some_and(|seen| *id > seen) {
                        let _ = http.event(stream, &Event::new(text).id(&id.to_string()));
                    }
                }
                self.streams.push(stream);
            }
            ("POST", "/post") => {
                let text: Arc<str> = String::from_utf8_lossy(request.body()).into();
                // Relaxed: only that no two are equal counts.
                let id = self.ids.fetch_add(1, Ordering::Relaxed) + 1;
                for shard in 0..http.shard().count() {
                    // A shard whose mailbox is full misses this text.
                    let _ = http.shard().post(shard, (id, Arc::clone(&text)));
                }
                drop(responder.send(http, 202, &[], b""));
            }
            (_, "/events") => drop(responder.send(http, 405, &[("Allow", "GET")], b"")),
            (_, "/post") => drop(responder.send(http, 405, &[("Allow", "POST")], b"")),
            _ => drop(responder.send(http, 404, &[], b"")),
        }
    }

    fn on_message(&mut self, http: &mut Http<'_, News>, news: News) {
        self.tell(http, news);
    }

    fn on_timer(&mut self, http: &mut Http<'_, News>, token: u64) {
        for stream in &self.streams {
            // A full stream needs no sign of life.
            let _ = http.comment(*stream, "");
        }
        http.shard().set_timer(SILENCE, token);
    }

    fn on_stream_closed(&mut self, _: &mut Http<'_, News>, stream: StreamId) {
        self.streams.retain(|other| *other != stream);
    }

    fn on_stop(&mut self, http: &mut Http<'_, News>) {
        for stream in self.streams.drain(..) {
            http.finish(stream);
        }
    }
}

fn main() -> Result<(), common::Failure> {
    let arguments = Arguments::parse();
    let config = arguments.common.config()?;
    let ids = Arc::new(AtomicU64::new(0));
    let engine = http::serve(config, Limits::default(), move |_| Watchers {
        streams: Vec::new(),
        last: VecDeque::new(),
        ids: Arc::clone(&ids),
    })?;
    arguments.common.run(engine)
}
