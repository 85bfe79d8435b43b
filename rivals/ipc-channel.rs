//! ipc-channel: Servo's channels over sockets, between processes.

use ipc_channel::ipc::{
    IpcBytesReceiver, IpcBytesSender, IpcOneShotServer, IpcSender, TryRecvError, bytes_channel,
};
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::method::{Driver, End, Method, Rendezvous, Side, drive};
use olivine_arena::run;
use std::process::ExitCode;

const IPC_CHANNEL: Method = Method::new(
    "ipc-channel",
    "ipc-channel bytes channels, spinning with try_recv",
    "spin",
    open,
)
.streaming();

fn main() -> ExitCode {
    static METHODS: [Method; 1] = [IPC_CHANNEL];
    run(&METHODS)
}

fn says(error: impl std::fmt::Debug) -> ArenaError {
    ArenaError::Library {
        library: "ipc-channel",
        message: format!("{error:?}"),
    }
}

/// What the answering side hands over: where to send to, and where answers come from.
type Ends = (IpcBytesSender, IpcBytesReceiver);

fn open(
    side: Side,
    rendezvous: &mut Rendezvous,
    size: usize,
    _settings: &str,
) -> Result<Box<dyn Driver>> {
    let (to, from) = match side {
        Side::Client => {
            let (server, name) = IpcOneShotServer::<Ends>::new().map_err(says)?;
            rendezvous.tell(name)?;
            // The other side has sent before it says so, so this does not wait.
            rendezvous.hear()?;
            server.accept().map_err(says)?.1
        }
        Side::Server => {
            let name = rendezvous.hear()?;
            let ends = IpcSender::<Ends>::connect(name).map_err(says)?;
            let (there, taken) = bytes_channel().map_err(says)?;
            let (back, answered) = bytes_channel().map_err(says)?;
            ends.send((there, answered)).map_err(says)?;
            rendezvous.tell("sent")?;
            (back, taken)
        }
    };
    let message = vec![0; size];
    Ok(drive(Channels { to, from, message }, size))
}

struct Channels {
    to: IpcBytesSender,
    from: IpcBytesReceiver,
    message: Vec<u8>,
}

impl Channels {
    /// Waits for a message.
    fn next(&self) -> Result<Vec<u8>> {
        loop {
            match self.from.try_recv() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Empty) => {}
                Err(error) => return Err(says(error)),
            }
        }
    }
}

impl End for Channels {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        fill(&mut self.message);
        self.to.send(&self.message).map_err(says)
    }

    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let message = self.next()?;
        let fits = check(&message);
        if fits {
            self.to.send(&message).map_err(says)?;
        }
        Ok(fits)
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.next().map(|message| handle(&message))
    }
}
