//! ZeroMQ (libzmq): PAIR sockets over TCP and over its ipc transport, between processes.

use olivine_arena::affinity;
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::method::{Driver, End, Method, Rendezvous, Side, drive};
use olivine_arena::run;
use std::process::ExitCode;

/// Longest single wait in milliseconds.
const WAIT_MS: i32 = 400;

const IPC: Method = Method::new(
    "zeromq-ipc",
    "ZeroMQ PAIR sockets over ipc (UNIX sockets), blocking, I/O threads not pinned",
    "block",
    |side, rendezvous, size, _| {
        let endpoint = format!("ipc://{}", rendezvous.folder().join("zeromq").display());
        open(side, rendezvous, size, &endpoint)
    },
)
.streaming();

const TCP: Method = Method::new(
    "zeromq-tcp",
    "ZeroMQ PAIR sockets over TCP, blocking, I/O threads not pinned",
    "block",
    |side, rendezvous, size, _| open(side, rendezvous, size, "tcp://127.0.0.1:*"),
)
.streaming();

fn main() -> ExitCode {
    static METHODS: [Method; 2] = [IPC, TCP];
    run(&METHODS)
}

fn says(error: zmq::Error) -> ArenaError {
    ArenaError::Library {
        library: "ZeroMQ",
        message: error.message().to_owned(),
    }
}

fn open(
    side: Side,
    rendezvous: &mut Rendezvous,
    size: usize,
    endpoint: &str,
) -> Result<Box<dyn Driver>> {
    let socket = affinity::unpinned(|| -> Result<zmq::Socket> {
        // The socket keeps the context alive.
        let socket = zmq::Context::new().socket(zmq::PAIR).map_err(says)?;
        socket.set_linger(0).map_err(says)?;
        socket.set_rcvtimeo(WAIT_MS).map_err(says)?;
        socket.set_sndtimeo(WAIT_MS).map_err(says)?;
        match side {
            Side::Client => {
                socket.bind(endpoint).map_err(says)?;
                let bound = socket.get_last_endpoint().map_err(says)?;
                rendezvous.exchange(bound.unwrap_or_else(|_| endpoint.to_owned()))?;
            }
            Side::Server => {
                let bound = rendezvous.hear()?;
                socket.connect(&bound).map_err(says)?;
                rendezvous.tell("connected")?;
            }
        }
        Ok(socket)
    })?;
    let message = zmq::Message::new();
    Ok(drive(
        Pair {
            socket,
            message,
            outgoing: vec![0; size],
        },
        size,
    ))
}

struct Pair {
    socket: zmq::Socket,
    message: zmq::Message,
    outgoing: Vec<u8>,
}

impl Pair {
    /// Sends a message. It is copied, because the library drops an owned message when an alarm
    /// interrupts the call.
    fn pass(&self, message: &[u8]) -> Result<()> {
        loop {
            match self.socket.send(message, 0) {
                Ok(()) => return Ok(()),
                Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => {}
                Err(error) => return Err(says(error)),
            }
        }
    }

    /// Waits for a message.
    fn next(&mut self) -> Result<()> {
        loop {
            match self.socket.recv(&mut self.message, 0) {
                Ok(()) => return Ok(()),
                Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => {}
                Err(error) => return Err(says(error)),
            }
        }
    }
}

impl End for Pair {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        fill(&mut self.outgoing);
        self.pass(&self.outgoing)
    }

    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        self.next()?;
        let fits = check(&self.message);
        if fits {
            self.pass(&self.message)?;
        }
        Ok(fits)
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.next()?;
        Ok(handle(&self.message))
    }
}
