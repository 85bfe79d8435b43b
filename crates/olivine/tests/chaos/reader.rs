//! A program that subscribes by a durable name, is killed again and again, and forwards what it
//! receives.

use crate::common::{Other, TestFolder, signal, spawn};
use crate::traffic::{Got, LOOK, Receive};
use olivine::{ReceiveError, Subscriber};
use rustix::process::Signal;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// In place of a length: the stream has ended, or failed with the text that follows.
const CLOSED: u32 = u32::MAX;
const FAILED: u32 = u32::MAX - 1;
/// First word: it has subscribed.
const OPEN: u32 = u32::MAX - 2;

/// The process: forwards every message with its length.
pub(crate) fn role() {
    let text = |name: &str| std::env::var(name).expect("set by the parent");
    let mut out = UnixStream::connect(text("READER_SOCKET")).expect("the parent");
    let mut say = |word: u32, bytes: &[u8]| {
        let all = [&word.to_le_bytes()[..], bytes].concat();
        // The parent has ended; so do we.
        if out.write_all(&all).is_err() {
            std::process::exit(0);
        }
    };
    let failed = |why: String| {
        let length = u32::try_from(why.len()).unwrap();
        [&length.to_le_bytes()[..], why.as_bytes()].concat()
    };
    let opened = Subscriber::open(&text("READER_URI"));
    say(OPEN, &[]);
    let mut subscriber = match opened {
        Ok(subscriber) => subscriber,
        Err(error) => return say(FAILED, &failed(format!("{error:?}"))),
    };
    loop {
        match subscriber.receive_timeout(LOOK) {
            Ok(Some(bytes)) => say(u32::try_from(bytes.len()).unwrap(), &bytes),
            Ok(None) => {}
            Err(ReceiveError::Closed) => {
                say(CLOSED, &[]);
                std::thread::park_timeout(LOOK);
            }
            Err(error) => return say(FAILED, &failed(format!("{error:?}"))),
        }
    }
}

/// The process, and its unread output.
pub(crate) struct Reader {
    uri: String,
    path: PathBuf,
    listener: UnixListener,
    process: Other,
    /// It was killed and started again, and the output of the killed one is not all read.
    is_restarted: bool,
    stream: UnixStream,
    heard: Vec<u8>,
    at: usize,
    /// Kills to come, the next one last: each after a number of messages.
    kills: Vec<u64>,
}

impl Reader {
    /// Starts it. `kills` are the message counts at which it is killed.
    pub(crate) fn start(place: &TestFolder, uri: &str, kills: &[u64]) -> Self {
        let path = place.file("reader");
        let listener = UnixListener::bind(&path).expect("a socket");
        let mut kills = kills.to_vec();
        kills.sort_unstable_by(|one, other| other.cmp(one));
        let (process, mut stream) = launch(uri, &path, &listener);
        let mut first = [0; 4];
        stream.read_exact(&mut first).expect("its first word");
        assert_eq!(u32::from_le_bytes(first), OPEN);
        stream.set_read_timeout(Some(LOOK)).expect("a time-out");
        Self {
            uri: uri.to_owned(),
            path,
            listener,
            process,
            is_restarted: false,
            stream,
            heard: Vec::new(),
            at: 0,
            kills,
        }
    }

    /// The next complete item of the output.
    fn word(&mut self) -> Option<Got> {
        let rest = &self.heard[self.at..];
        let number = |at: usize| Some(u32::from_le_bytes(*rest.get(at..)?.first_chunk::<4>()?));
        let (got, used) = match number(0)? {
            OPEN => (Got::Nothing, 4),
            CLOSED => (Got::Closed, 4),
            FAILED => {
                let length = number(4)? as usize;
                let why = String::from_utf8_lossy(rest.get(8..8 + length)?).into_owned();
                (Got::Failed(why), 8 + length)
            }
            length => {
                let end = 4 + length as usize;
                (Got::Message(rest.get(4..end)?.to_vec()), end)
            }
        };
        self.at += used;
        Some(got)
    }

    /// Kills it, reads the rest of its output, and starts the next one. If every publisher has
    /// closed by then, the next one gets everything that the killed one did not, including the end.
    /// Does not wait until it has subscribed: the next kill may come before that.
    fn restart(&mut self) {
        signal(&self.process, Signal::KILL);
        self.process.wait().expect("its end");
        while self.hear() {}
        (self.process, self.stream) = launch(&self.uri, &self.path, &self.listener);
        let timeout = self.stream.set_read_timeout(Some(LOOK));
        timeout.expect("a time-out");
        self.is_restarted = true;
    }

    /// Reads more; `false` at the end.
    fn hear(&mut self) -> bool {
        self.heard.drain(..self.at);
        self.at = 0;
        let mut bytes = [0; 1 << 16];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.heard.extend(&bytes[..count]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(_) => true,
        }
    }
}

impl Receive for Reader {
    fn next(&mut self, received: u64) -> Got {
        // One at a time: the output of a killed one is read before the next kill.
        let is_due = !self.is_restarted && self.kills.last().is_some_and(|at| *at <= received);
        if is_due {
            self.kills.pop();
            self.restart();
        }
        loop {
            if let Some(got) = self.word() {
                return got;
            }
            if std::mem::take(&mut self.is_restarted) {
                // A partly written message was not received.
                self.heard.clear();
                self.at = 0;
                return Got::Restarted;
            }
            let before = self.heard.len() - self.at;
            if !self.hear() {
                return Got::Failed("the reader ended".to_owned());
            }
            if self.heard.len() == before {
                return Got::Nothing;
            }
        }
    }
}

fn launch(uri: &str, path: &std::path::Path, listener: &UnixListener) -> (Other, UnixStream) {
    let variables = [
        ("READER_URI", uri.to_owned()),
        ("READER_SOCKET", path.display().to_string()),
    ];
    let process = spawn("reader", &variables);
    let (stream, _) = listener.accept().expect("the reader");
    (process, stream)
}
