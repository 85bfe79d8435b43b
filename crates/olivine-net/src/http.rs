//! HTTP/1.1 on the engine: keep-alive, pipelining with one send per batch, bodies both ways.
//!
//! What it refuses: anything ambiguous. A request whose length can be read in two ways, or whose
//! lines could be split differently by another server in front, is answered with an error and the
//! connection closed. It does not do HTTP/2, routing, compression or proxying. A request body is
//! held in memory up to a limit, or passed to the service in pieces.
//!
//! Complete servers are in the folder `examples`: `json` (routes), `upload` (bodies of any length),
//! `files`, `stream`, `events` and `websocket`.
//!
//! | file | what |
//! |---|---|
//! | `head` | request heads: strict, sans-I/O |
//! | `host` | the value of Host and of an absolute target's authority |
//! | `chunk` | chunked bodies, both ways |
//! | `fuzz_checks` | tests and fuzzing only: checks of `head` and `chunk` for any bytes |
//! | `message` | the request as a service sees it; rendering of answers |
//! | `service` | what an application supplies |
//! | `responder` | the right to answer one request |
//! | `answer` | answers now, later and in pieces |
//! | `event` | server-sent events |
//! | `log` | what an access log needs |
//! | `request` | from a complete head to the service |
//! | `body` | bodies that are collected, and the memory of all of them |
//! | `connection` | what the server knows about one connection |
//! | `date` | the Date field |
//! | `limits` | what a peer may ask of the server |
//! | `scan` | runs of bytes of one class: the inner loop of `head` |
//! | `server` | the [`Handler`](crate::Handler) that joins them |
//! | `status` | status codes, and why a request is refused |
//!
//! ```
//! use olivine_net::EngineConfig;
//! use olivine_net::http::{self, Http, Limits, Request, Responder, Service, StaticAnswer};
//! use std::{io::{Read, Write}, net::TcpStream, time::Duration};
//!
//! struct Hello(StaticAnswer);
//!
//! impl Service for Hello {
//!     type Message = ();
//!
//!     fn on_request(
//!         &mut self,
//!         http: &mut Http<'_, ()>,
//!         request: &Request<'_>,
//!         responder: Responder<'_>,
//!     ) {
//!         match (request.method(), request.path()) {
//!             ("GET", "/") => responder.send_static(http, &mut self.0),
//!             ("POST", "/echo") => responder.send(http, 200, &[], request.body()).unwrap(),
//!             _ => responder.send(http, 404, &[], b"").unwrap(),
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

//! # What is refused
//!
//! RFC 9110 and 9112 to the letter where two servers in a row could read a request differently, and
//! a little more. Beside it what nginx 1.22 (`return 200`) and hyper 1.12 (body read, then 200)
//! answer to the same bytes; "-" means that the connection closes without an answer.
//!
//! | request | here | nginx | hyper |
//! |---|---|---|---|
//! | a line that ends in LF alone | 400 | 200 | 200 |
//! | CR, NUL or another control byte in a value | 400 | 400, 200 for others | - |
//! | a folded field; a space before the colon | 400 | 400 | - |
//! | two spaces in the request line | 400 | 200 | - |
//! | `#` in the target | 400 | 200 | 200 |
//! | bytes above ASCII in the target | 400 | 200 | 200 |
//! | three empty lines before a request (two are taken) | 400 | 200 | 200 |
//! | no Host in HTTP/1.1; two of them, also equal ones | 400 | 400 | 200 |
//! | Host `x:abc`, `x:99999`, `a:b:c`, `[::1`, `]][[`, `%zz`, `u@a` | 400 | 200 | 200 |
//! | Host `a/b`, `a, b` | 400 | 400 | 200 |
//! | an empty Host (RFC 9112 3.2 allows it) | 200 | 400 | 200 |
//! | Content-Length twice, also equal ones | 400 | 400 | 200 |
//! | Content-Length `5, 5`, `+5` | 400 | 400 | - |
//! | Content-Length `005` (digits are digits) | 200 | 200 | 200 |
//! | Content-Length beside Transfer-Encoding | 400 | 400 | 200 |
//! | Transfer-Encoding `gzip, chunked` | 501 | 501 | 200 |
//! | Transfer-Encoding `, chunked`, `chunked` twice | 400 | 501, 400 | 200 |
//! | Transfer-Encoding in HTTP/1.0 | 400 | 400 | - |
//! | a chunk size that ends in LF alone | 400 | 200 | - |
//! | a space behind a chunk size; an extension `;` or `;a[=b` | 400 | 200 | 200 |
//! | a malformed trailer field | 400 | 200 | 400 |
//! | another expectation than `100-continue` | 417 | 200 | 200 |
//! | a method of more than 128 bytes | 400 | 200 | 200 |
//! | CONNECT; `*` with GET | 501; 400 | 400 | 200 |
//! | HTTP/1.2 (taken as 1.1); HTTP/2.0 | 200; 505 | 200; 505 | - |
//!
//! Beyond a limit of [`Limits`] the answer is 414 for the request line, 431 for fields and the
//! head, 413 for a body, 408 for what comes too late, and 503 where bodies together are too large;
//! then the connection closes. Pipelined requests are answered in their order: while one is not
//! answered, no further one is read.
//!
//! `tests/suite/vectors` has more than 300 requests with their answers, among them the cases of
//! Http11Probe by their names.

mod answer;
mod body;
mod chunk;
mod connection;
mod date;
mod event;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_checks;
mod head;
mod host;
mod limits;
mod log;
mod message;
mod request;
mod responder;
mod scan;
mod server;
mod service;
mod status;

pub use answer::Http;
pub use event::Event;
pub use limits::Limits;
pub use log::Served;
pub use message::{AnswerError, Request, StaticAnswer, Trailers};
pub use responder::Responder;
pub use server::{Server, serve};
pub use service::{Admit, Handed, Service, StreamId};
pub use status::Refusal;
