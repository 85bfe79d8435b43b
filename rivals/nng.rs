//! nng: PAIR sockets over TCP and over its ipc transport, between processes.

use nng::options::{Options, RecvBufferSize, RecvTimeout, SendBufferSize, SendTimeout};
use nng::{Protocol, Socket};
use olivine_arena::affinity;
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::method::{Driver, End, Method, Rendezvous, Side, drive};
use olivine_arena::run;
use std::net::{Ipv4Addr, TcpListener};
use std::process::ExitCode;
use std::time::Duration;

/// Longest single wait.
const WAIT: Duration = Duration::from_millis(400);
/// Messages that a socket holds in each direction while streaming; without, every message is waited
/// for.
const STREAMED: i32 = 1024;

const IPC: Method = Method::new(
    "nng-ipc",
    "nng PAIR sockets over ipc (UNIX sockets), blocking, its threads not pinned",
    "block",
    |side, rendezvous, size, _| {
        let endpoint = format!("ipc://{}", rendezvous.folder().join("nng").display());
        open(side, rendezvous, size, endpoint)
    },
)
.streaming();

// This version cannot say which port it was given, so a free one is looked for first.
const TCP: Method = Method::new(
    "nng-tcp",
    "nng PAIR sockets over TCP, blocking, its threads not pinned",
    "block",
    |side, rendezvous, size, _| {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .map_err(says)?
            .port();
        open(side, rendezvous, size, format!("tcp://127.0.0.1:{port}"))
    },
)
.streaming();

fn main() -> ExitCode {
    static METHODS: [Method; 2] = [IPC, TCP];
    run(&METHODS)
}

fn says(error: impl std::fmt::Display) -> ArenaError {
    ArenaError::Library {
        library: "nng",
        message: error.to_string(),
    }
}

fn open(
    side: Side,
    rendezvous: &mut Rendezvous,
    size: usize,
    endpoint: String,
) -> Result<Box<dyn Driver>> {
    let socket = affinity::unpinned(|| -> Result<Socket> {
        let socket = Socket::new(Protocol::Pair0).map_err(says)?;
        socket.set_opt::<RecvTimeout>(Some(WAIT)).map_err(says)?;
        socket.set_opt::<SendTimeout>(Some(WAIT)).map_err(says)?;
        match side {
            Side::Client => {
                socket.listen(&endpoint).map_err(says)?;
                rendezvous.exchange(endpoint)?;
            }
            Side::Server => {
                socket.dial(&rendezvous.hear()?).map_err(says)?;
                rendezvous.tell("connected")?;
            }
        }
        Ok(socket)
    })?;
    if rendezvous.streamed() {
        socket.set_opt::<SendBufferSize>(STREAMED).map_err(says)?;
        socket.set_opt::<RecvBufferSize>(STREAMED).map_err(says)?;
    }
    Ok(drive(Pair { socket, size }, size))
}

struct Pair {
    socket: Socket,
    size: usize,
}

impl Pair {
    /// Sends a message, which is the socket's from then on.
    fn pass(&self, mut message: nng::Message) -> Result<()> {
        loop {
            match self.socket.send(message) {
                Ok(()) => return Ok(()),
                Err((back, nng::Error::TimedOut)) => {
                    message = back;
                }
                Err((_, error)) => return Err(says(error)),
            }
        }
    }

    /// Waits for a message.
    fn next(&self) -> Result<nng::Message> {
        loop {
            match self.socket.recv() {
                Ok(message) => return Ok(message),
                Err(nng::Error::TimedOut) => {}
                Err(error) => return Err(says(error)),
            }
        }
    }
}

impl End for Pair {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let mut message = nng::Message::with_zeros(self.size);
        fill(&mut message);
        self.pass(message)
    }

    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let message = self.next()?;
        let fits = check(&message);
        if fits {
            // The same message goes back, as a program would send it.
            self.pass(message)?;
        }
        Ok(fits)
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.next().map(|message| handle(&message))
    }
}
