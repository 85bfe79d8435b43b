//! HTTP/1.1 on the engine: keep-alive, pipelining with one send per batch, bodies both ways.
//!
//! What it refuses: anything ambiguous. A request whose length can be read in two ways, or whose
//! lines could be split differently by another server in front, is answered with an error and the
//! connection closed. It does not do HTTP/2, compression, files, or proxying, and request bodies
//! are held in memory up to a limit.
//!
//! | file | what |
//! |---|---|
//! | `head` | request heads: strict, sans-I/O |
//! | `host` | the value of Host and of an absolute target's authority |
//! | `chunk` | chunked bodies, both ways |
//! | `fuzz_checks` | tests and fuzzing only: checks of `head` and `chunk` for any bytes |
//! | `message` | the request as a service sees it; rendering of answers |
//! | `service` | what an application supplies and answers through |
//! | `body` | bodies that come in pieces, and the memory of all of them |
//! | `connection` | what the server knows about one connection |
//! | `date` | the Date field |
//! | `limits` | what a peer may ask of the server |
//! | `scan` | runs of bytes of one class: the inner loop of `head` |
//! | `server` | the [`Handler`](crate::Handler) that joins them |
//! | `status` | status codes, and why a request is refused |
//!
//! ```
//! use olivine_net::EngineConfig;
//! use olivine_net::http::{self, Limits, Request, Responder, Service, StaticAnswer};
//! use std::{io::{Read, Write}, net::TcpStream, time::Duration};
//!
//! struct Hello(StaticAnswer);
//!
//! impl Service for Hello {
//!     type Message = ();
//!
//!     fn on_request(&mut self, request: &Request<'_>, responder: Responder<'_, ()>) {
//!         match (request.method(), request.path()) {
//!             ("GET", "/") => responder.send_static(&mut self.0),
//!             ("POST", "/echo") => responder.send(200, &[], request.body()).unwrap(),
//!             _ => responder.send(404, &[], b"").unwrap(),
//!         }
//!     }
//! }
//!
//! let config = EngineConfig::new("127.0.0.1:0".parse()?).threads(1);
//! let engine = http::serve(config, Limits::default(), |_shard| {
//!     Hello(StaticAnswer::new(200, &[("Content-Type", "text/plain")], b"hi").unwrap())
//! })?;
//!
//! let mut peer = TcpStream::connect(engine.local_address().unwrap())?;
//! peer.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
//! let mut answer = String::new();
//! peer.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhi"));
//! assert_eq!(engine.stop(Duration::from_secs(1)).cut, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod body;
mod chunk;
mod connection;
mod date;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_checks;
mod head;
mod host;
mod limits;
mod message;
mod scan;
mod server;
mod service;
mod status;

pub use limits::Limits;
pub use message::{AnswerError, Request, StaticAnswer};
pub use server::{Server, serve};
pub use service::{Http, Responder, Service, StreamId};
