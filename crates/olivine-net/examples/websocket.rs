//! A WebSocket echo: the upgrade is ours, the protocol is that of the crate `tungstenite`.
//!
//! `cargo run --release --example websocket`, then in a browser's console:
//!
//! ```text
//! s = new WebSocket("ws://127.0.0.1:8000/"); s.onmessage = m => console.log(m.data);
//! s.onopen = () => s.send("hello");
//! ```

mod common;

use std::io::{self, Read, Write};

use clap::Parser;
use olivine_net::{
    CloseReason, ConnectionId, Slots,
    http::{self, Http, Limits, Request, Responder, Service},
};
use tungstenite::{
    Error, WebSocket,
    handshake::derive_accept_key,
    protocol::{Role, WebSocketConfig},
};

/// Sends back every WebSocket message.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: common::Common,
}

/// What stands between the engine and the protocol: bytes that came, and bytes to be sent.
#[derive(Default)]
struct Bytes {
    input: Vec<u8>,
    read: usize,
    output: Vec<u8>,
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = &self.input[self.read..];
        if left.is_empty() {
            self.input.clear();
            self.read = 0;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let length = left.len().min(buffer.len());
        buffer[..length].copy_from_slice(&left[..length]);
        self.read += length;
        Ok(length)
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes of a message, at most.
const MESSAGE_BYTES: usize = 1 << 20;

#[derive(Default)]
struct Echo {
    peers: Slots<WebSocket<Bytes>>,
}

impl Echo {
    /// Reads and answers messages until there are none; `false` if the connection is to end.
    fn answer(socket: &mut WebSocket<Bytes>) -> bool {
        loop {
            let step = match socket.read() {
                Ok(message) if message.is_text() || message.is_binary() => socket.send(message),
                Ok(_) => socket.flush(),
                Err(error) => Err(error),
            };
            match step {
                Ok(()) => {}
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return true,
                // The closing handshake is done, or the peer broke the protocol.
                Err(_) => return false,
            }
        }
    }

    fn send(&mut self, http: &mut Http<'_, ()>, id: ConnectionId) {
        let Some(socket) = self.peers.get_mut(id) else {
            return;
        };
        let output = &mut socket.get_mut().output;
        match http.shard().offer(id, output) {
            Ok(()) => {
                output.clear();
                http.shard().resume(id);
            }
            // `on_raw_writable` follows; until then no more is read.
            Err(_) => http.shard().pause(id),
        }
    }
}

impl Service for Echo {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        let offered = request.upgrade().unwrap_or("");
        let version = request.header("sec-websocket-version");
        let Some(key) = request.header("sec-websocket-key") else {
            return drop(responder.send(http, 404, &[], b""));
        };
        let fine = offered.eq_ignore_ascii_case("websocket") && request.method() == "GET";
        if !fine || version != Some(b"13") {
            let wanted = [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")];
            return drop(responder.send(http, 426, &wanted, b""));
        }
        let accept = derive_accept_key(key);
        let headers = [("Sec-WebSocket-Accept", accept.as_str())];
        if let Ok(id) = responder.upgrade(http, "websocket", &headers) {
            let limits = WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES));
            let socket = WebSocket::from_raw_socket(Bytes::default(), Role::Server, Some(limits));
            self.peers.insert(id, socket);
        }
    }

    fn on_raw_data(&mut self, http: &mut Http<'_, ()>, id: ConnectionId, data: &[u8]) -> usize {
        let Some(socket) = self.peers.get_mut(id) else {
            return data.len();
        };
        socket.get_mut().input.extend_from_slice(data);
        let goes_on = Self::answer(socket);
        self.send(http, id);
        if !goes_on {
            http.shard().close(id);
        }
        data.len()
    }

    fn on_raw_writable(&mut self, http: &mut Http<'_, ()>, id: ConnectionId) {
        self.send(http, id);
    }

    fn on_raw_close(&mut self, _: &mut Http<'_, ()>, id: ConnectionId, _: CloseReason) {
        self.peers.remove(id);
    }

    fn on_stop(&mut self, http: &mut Http<'_, ()>) {
        let ids: Vec<_> = self.peers.iter().map(|(id, _)| id).collect();
        for id in ids {
            if let Some(socket) = self.peers.get_mut(id) {
                // The closing frame is queued; the peer's answer is not waited for.
                let _ = socket.close(None);
                let _ = socket.flush();
            }
            self.send(http, id);
            http.shard().close(id);
        }
    }
}

fn main() -> Result<(), common::Failure> {
    let arguments = Arguments::parse();
    let config = arguments.common.config()?;
    let engine = http::serve(config, Limits::default(), |_| Echo::default())?;
    arguments.common.run(engine)
}
