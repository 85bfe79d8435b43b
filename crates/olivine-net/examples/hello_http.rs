//! The seed's hello world: a fixed answer, from every physical core.
//!
//! `cargo run --release --example hello_http`, then `curl http://127.0.0.1:8000/`.
//!
//! With `--parse none` requests are only counted, by the empty lines that end them: the fastest and
//! least useful HTTP server there is, for comparison with others that do the same.

mod common;

use clap::{Parser, ValueEnum};
use olivine_net::{
    ConnectionId, Engine, Handler, Shard,
    http::{self, Http, Limits, Request, Responder, Service, StaticAnswer},
};

/// Serves "Hello, World!" over HTTP/1.1.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: common::Common,
    /// Whether requests are parsed and checked, or only counted.
    #[arg(long, value_enum, default_value_t = Parse::Full)]
    parse: Parse,
}

#[derive(Clone, Copy, ValueEnum)]
enum Parse {
    None,
    Full,
}

struct Hello(StaticAnswer);

impl Service for Hello {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        match (request.method(), request.path()) {
            ("GET" | "HEAD", "/" | "/plaintext") => responder.send_static(http, &mut self.0),
            _ => drop(responder.send(http, 404, &[], b"")),
        }
    }
}

/// Answers each empty line.
struct Count(Vec<u8>);

impl Handler for Count {
    type Message = ();

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        let mut end = 0;
        for at in memchr::memmem::find_iter(data, b"\r\n\r\n") {
            if shard.offer(id, &self.0).is_err() {
                break;
            }
            end = at + 4;
        }
        end
    }
}

fn main() -> Result<(), common::Failure> {
    let arguments = Arguments::parse();
    let config = arguments.common.config()?;
    let headers = [("Server", "olivine"), ("Content-Type", "text/plain")];
    let hello = StaticAnswer::new(200, &headers, b"Hello, World!")?;
    match arguments.parse {
        Parse::Full => {
            let service = move |_| Hello(hello.clone());
            arguments
                .common
                .run(http::serve(config, Limits::default(), service)?)
        }
        Parse::None => {
            let answer = b"HTTP/1.1 200 OK\r\nServer: olivine\r\nContent-Type: text/plain\r\n\
                Content-Length: 13\r\n\r\nHello, World!";
            arguments
                .common
                .run(Engine::start(config, |_| Count(answer.to_vec()))?)
        }
    }
}
