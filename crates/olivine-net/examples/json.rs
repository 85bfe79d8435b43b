//! JSON in and out, a counter, and a stream of server-sent events.
//!
//! ```text
//! cargo run --release --example json
//! curl http://127.0.0.1:8000/json
//! curl -d '[1, 2, 3.5]' http://127.0.0.1:8000/sum
//! curl -N http://127.0.0.1:8000/events
//! ```

mod common;

use std::time::Duration;

use clap::Parser;
use olivine_net::http::{self, Event, Http, Limits, Request, Responder, Service, StreamId};
use serde_json::{Value, json};

/// Serves JSON over HTTP/1.1.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: common::Common,
}

#[derive(Default)]
struct Api {
    served: u64,
    /// Reused for every answer.
    text: Vec<u8>,
    watchers: Vec<StreamId>,
}

const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

impl Api {
    fn reply(
        &mut self,
        http: &mut Http<'_, ()>,
        responder: Responder<'_>,
        status: u16,
        value: &Value,
    ) {
        self.text.clear();
        // Writing to a vector cannot fail.
        let _ = serde_json::to_writer(&mut self.text, value);
        let _ = responder.send(http, status, &JSON, &self.text);
    }
}

impl Service for Api {
    type Message = ();

    fn on_start(&mut self, http: &mut Http<'_, ()>) {
        http.shard().set_timer(Duration::from_secs(1), 0);
    }

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        self.served += 1;
        match (request.method(), request.path()) {
            ("GET", "/json") => {
                self.reply(http, responder, 200, &json!({ "message": "Hello, World!" }));
            }
            ("POST", "/sum") => match serde_json::from_slice::<Vec<f64>>(request.body()) {
                Ok(numbers) => {
                    self.reply(
                        http,
                        responder,
                        200,
                        &json!({ "sum": numbers.iter().sum::<f64>() }),
                    );
                }
                Err(error) => {
                    self.reply(http, responder, 400, &json!({ "error": error.to_string() }))
                }
            },
            ("GET", "/events") => self.watchers.push(responder.events(http)),
            (_, "/json" | "/sum" | "/events") => drop(responder.send(http, 405, &[], b"")),
            _ => drop(responder.send(http, 404, &[], b"")),
        }
    }

    fn on_timer(&mut self, http: &mut Http<'_, ()>, token: u64) {
        let text = json!({ "served": self.served }).to_string();
        self.watchers.retain(|stream| http.is_open(*stream));
        for stream in &self.watchers {
            // A peer that is too slow for one event a second may miss one.
            let _ = http.event(*stream, &Event::new(&text).name("count"));
        }
        http.shard().set_timer(Duration::from_secs(1), token);
    }

    fn on_stop(&mut self, http: &mut Http<'_, ()>) {
        for stream in self.watchers.drain(..) {
            http.finish(stream);
        }
    }
}

fn main() -> Result<(), common::Failure> {
    let arguments = Arguments::parse();
    let config = arguments.common.config()?;
    let engine = http::serve(config, Limits::default(), |_| Api::default())?;
    arguments.common.run(engine)
}
