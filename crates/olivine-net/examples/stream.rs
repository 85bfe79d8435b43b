//! Streams answers of any length, at the speed of each reader.
//!
//! ```text
//! cargo run --release --example stream
//! curl 'http://127.0.0.1:8000/count?5'
//! curl --raw 'http://127.0.0.1:8000/count?1000000' | tail -3
//! ```
//!
//! The last line is a trailer field with the sum of all numbers.

mod common;

use clap::Parser;
use olivine_net::{
    Slots,
    http::{self, Http, Limits, Request, Responder, Service, StreamId},
};

/// Streams the numbers from 1 on.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: common::Common,
}

/// A stream under way.
struct Count {
    next: u64,
    last: u64,
    sum: u64,
}

#[derive(Default)]
struct Counter {
    counts: Slots<Count>,
    text: Vec<u8>,
}

/// Bytes written at once.
const PIECE: usize = 16 * 1024;

impl Counter {
    /// Writes until the peer has enough for now; `on_writable` goes on.
    fn go_on(&mut self, http: &mut Http<'_, ()>, stream: StreamId) {
        let Some(count) = self.counts.get_mut(stream.connection()) else {
            return;
        };
        while count.next <= count.last {
            let (first, sum) = (count.next, count.sum);
            self.text.clear();
            while count.next <= count.last && self.text.len() < PIECE {
                self.text
                    .extend_from_slice(count.next.to_string().as_bytes());
                self.text.push(b'\n');
                count.sum = count.sum.wrapping_add(count.next);
                count.next += 1;
            }
            if http.write(stream, &self.text).is_err() {
                // Not sent: the same numbers come again.
                (count.next, count.sum) = (first, sum);
                return;
            }
        }
        let sum = count.sum.to_string();
        self.counts.remove(stream.connection());
        // A number is a valid value.
        let _ = http.finish_with(stream, &[("Sum", &sum)]);
    }
}

impl Service for Counter {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let last = request.query().unwrap_or("10").parse::<u64>();
        match (request.method(), request.path(), last) {
            ("GET", "/count", Ok(last)) => {
                let headers = [("Content-Type", "text/plain"), ("Trailer", "Sum")];
                if let Ok(stream) = responder.stream(http, 200, &headers) {
                    let count = Count {
                        next: 1,
                        last,
                        sum: 0,
                    };
                    self.counts.insert(stream.connection(), count);
                    self.go_on(http, stream);
                }
            }
            ("GET", "/count", Err(error)) => {
                drop(responder.send(http, 400, &[], error.to_string().as_bytes()));
            }
            (_, "/count", _) => drop(responder.send(http, 405, &[("Allow", "GET")], b"")),
            _ => drop(responder.send(http, 404, &[], b"")),
        }
    }

    fn on_writable(&mut self, http: &mut Http<'_, ()>, stream: StreamId) {
        self.go_on(http, stream);
    }

    fn on_stream_closed(&mut self, _: &mut Http<'_, ()>, stream: StreamId) {
        self.counts.remove(stream.connection());
    }
}

fn main() -> Result<(), common::Failure> {
    let arguments = Arguments::parse();
    let config = arguments.common.config()?;
    let engine = http::serve(config, Limits::default(), |_| Counter::default())?;
    arguments.common.run(engine)
}
