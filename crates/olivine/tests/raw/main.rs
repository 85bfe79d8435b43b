//! A bridge outside the crate, over a Unix socket: killed, it loses and repeats nothing.

#![cfg(not(loom))]

#[path = "../common/mod.rs"]
mod common;

use common::{Deadline, Other, Random, TestFolder, finished, kill, setting, spawn, until};
use olivine::{Bridge, Config, LinkStage, Outgoing, Publisher, ReceiveError, Subscriber, raw};
use std::path::PathBuf;
use unix::{In, Out};

/// A bridge as another program: from the ring `RAW_RING` to the socket `RAW_SOCKET`, or back.
#[test]
fn role() {
    let Some(role) = common::my_role() else {
        return;
    };
    let variable = |name: &str| std::env::var(name).unwrap();
    let ring = Config::parse(&variable("RAW_RING")).unwrap();
    let socket = PathBuf::from(variable("RAW_SOCKET"));
    let bridge: Bridge = match &*role {
        "out" => raw::bridge_out(&ring, "a socket", Out(socket), true).unwrap(),
        _ => raw::bridge_in("a socket", In(socket), &ring, true).unwrap(),
    };
    // Until it is killed, or the stream has ended.
    let end = loop {
        if bridge.has_ended() {
            break bridge.status();
        }
        std::thread::park_timeout(Deadline::STEP_MAX);
    };
    assert_eq!(end.stage, LinkStage::Ended, "{}", end.note);
}

fn program(role: &str, ring: &str, place: &TestFolder) -> Other {
    let variables = [
        ("RAW_RING", ring.to_owned()),
        ("RAW_SOCKET", place.file("socket").display().to_string()),
    ];
    spawn(role, &variables)
}

/// The next message: its number, checked against its length. `None` if there is none for a moment.
fn next(subscriber: &mut Subscriber) -> Result<Option<u64>, ReceiveError> {
    let message = subscriber.receive_timeout(Deadline::STEP_MAX)?;
    Ok(message.map(|message| {
        let number = u64::from(message.tag());
        assert_eq!(message.len(), length_of(number));
        assert!(message.iter().all(|byte| *byte == number.to_le_bytes()[0]));
        assert_eq!(message.topic(), topic_of(number));
        number
    }))
}

fn length_of(number: u64) -> usize {
    usize::try_from(number * 37 % 1500).unwrap()
}

fn topic_of(number: u64) -> &'static str {
    if number.is_multiple_of(3) {
        "every.third"
    } else {
        ""
    }
}

#[test]
fn killed_bridge_of_another_crate_loses_and_repeats_nothing() {
    const ROUNDS: u64 = 12;
    const BURST: u64 = 300;
    let place = TestFolder::new();
    let seed = setting("OLIVINE_SEED", 1);
    println!("seed {seed}: OLIVINE_SEED repeats it");
    let mut random = Random(seed);
    let (near, far) = (
        place.uri("near", "capacity=8MiB"),
        place.uri("far", "capacity=64KiB"),
    );
    let mut subscriber = Subscriber::open(&far).unwrap();
    let mut sender = program("out", &near, &place);
    let mut receiver = program("in", &far, &place);
    // The first message waits for the sending bridge.
    let mut publisher = Publisher::open(&format!("{near}&subscribers=1")).unwrap();
    let (mut published, mut expected) = (0, 0);
    let mut read_to = |wanted: u64, subscriber: &mut Subscriber| {
        let mut deadline = Deadline::new();
        while expected < wanted {
            match next(subscriber).unwrap() {
                Some(number) => {
                    assert_eq!(number, expected);
                    expected += 1;
                    deadline = Deadline::new();
                }
                None => assert!(deadline.lasts(), "nothing comes after {expected}"),
            }
        }
    };
    for round in 0..ROUNDS {
        for number in published..published + BURST {
            let bytes = vec![number.to_le_bytes()[0]; length_of(number)];
            let tag = u32::try_from(number).unwrap();
            let message = Outgoing::new(&bytes).tag(tag).topic(topic_of(number));
            publisher.publish(message).unwrap();
        }
        // Kills one or both of them somewhere in the burst.
        let wanted = published + random.below(BURST);
        published += BURST;
        read_to(wanted, &mut subscriber);
        let victims = 1 + round % 3;
        if victims & 1 != 0 {
            kill(sender);
            sender = program("out", &near, &place);
        }
        if victims & 2 != 0 {
            kill(receiver);
            receiver = program("in", &far, &place);
        }
    }
    publisher.close().unwrap();
    read_to(published, &mut subscriber);
    finished(sender);
    finished(receiver);
    let mut end = None;
    until("the stream ends", || {
        end = Some(next(&mut subscriber));
        !matches!(end, Some(Ok(None)))
    });
    assert!(matches!(end, Some(Err(ReceiveError::Closed))), "{end:?}");
}

/// The same bridge behind the rings of two handles.
#[test]
fn handles_with_a_bridge_of_another_crate_report_its_state_and_end() {
    let place = TestFolder::new();
    let socket = place.file("socket");
    let config = |name: &str| Config::parse(&format!("inproc://{name}")).unwrap();
    let mut subscriber =
        raw::subscriber(&config("raw-in"), "a socket", In(socket.clone())).unwrap();
    let mut publisher = raw::publisher(&config("raw-out"), "a socket", Out(socket)).unwrap();
    until("both are connected", || {
        [publisher.link_status(), subscriber.link_status()]
            .iter()
            .all(|status| {
                status
                    .as_ref()
                    .is_some_and(|status| status.stage == LinkStage::Connected)
            })
    });
    for number in 0..1000 {
        let bytes = vec![u64::to_le_bytes(number)[0]; length_of(number)];
        let tag = u32::try_from(number).unwrap();
        publisher
            .publish(Outgoing::new(&bytes).tag(tag).topic(topic_of(number)))
            .unwrap();
        let mut found = None;
        until("it comes", || {
            found = next(&mut subscriber).unwrap();
            found.is_some()
        });
        assert_eq!(found, Some(number));
    }
    publisher.close().unwrap();
    let mut end = Ok(None);
    until("the stream ends", || {
        end = next(&mut subscriber);
        end.is_err()
    });
    assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
}

/// A bridge over a Unix socket, written as in another crate.
///
/// The inlet listens. On each connection it sends where its lanes stopped, and the outlet goes back
/// to there. Then the outlet sends a block and waits for its acknowledgement, again and again.
///
/// ```text
/// inlet:   count, then for each lane: index, incarnation, position
/// outlet:  kind, index, incarnation, position, length, then the frames
/// inlet:   the position up to which it has committed
/// ```
///
/// Each number is a `u64`, little-endian.
mod unix {
    use olivine::LinkError;
    use olivine::raw::{
        CheckedEgress, CheckedIngress, Control, Destination, Inlet, NotRead, NotTaken, Outlet,
        ReconnectBackoff, Source,
    };
    use std::io::{self, Read as _, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::time::Duration;

    /// Kinds of blocks.
    const FRAMES: u64 = 1;
    const LANE_CLOSED: u64 = 2;
    const END: u64 = 3;

    /// Bytes of frames in a block, unless one frame is longer.
    const BLOCK_BYTES: u64 = 16 << 10;
    /// More than a ring of the tests holds: a longer block is refused.
    const BLOCK_MAX: u64 = 1 << 24;
    /// Longest wait without a look for a request to end.
    const PAUSE: Duration = Duration::from_millis(1);

    /// Sends to the socket.
    pub(crate) struct Out(pub(crate) PathBuf);

    /// Listens on the socket.
    pub(crate) struct In(pub(crate) PathBuf);

    /// Why a connection ended.
    enum Broken {
        /// A later connection may do better.
        Away(io::Error),
        Failed(LinkError),
        /// The bridge must end.
        Stopped,
    }

    impl From<io::Error> for Broken {
        fn from(error: io::Error) -> Self {
            Self::Away(error)
        }
    }

    impl From<NotRead> for Broken {
        fn from(error: NotRead) -> Self {
            Self::Failed(error.into())
        }
    }

    impl From<NotTaken> for Broken {
        fn from(error: NotTaken) -> Self {
            Self::Failed(error.into())
        }
    }

    fn protocol(problem: &str) -> Broken {
        let problem = problem.to_owned();
        Broken::Failed(LinkError::Bridge { problem })
    }

    /// A connection. A request to end interrupts its waits.
    struct Line<'a> {
        stream: UnixStream,
        is_asked: &'a dyn Fn() -> bool,
    }

    impl<'a> Line<'a> {
        fn new(stream: UnixStream, is_asked: &'a dyn Fn() -> bool) -> io::Result<Self> {
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(PAUSE))?;
            Ok(Self { stream, is_asked })
        }

        fn read(&mut self, mut into: &mut [u8]) -> Result<(), Broken> {
            while !into.is_empty() {
                match self.stream.read(into) {
                    Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                    Ok(count) => into = &mut into[count..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if (self.is_asked)() {
                            return Err(Broken::Stopped);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        }

        fn numbers<const COUNT: usize>(&mut self) -> Result<[u64; COUNT], Broken> {
            let mut found = [0; COUNT];
            for number in &mut found {
                let mut bytes = [0; 8];
                self.read(&mut bytes)?;
                *number = u64::from_le_bytes(bytes);
            }
            Ok(found)
        }

        fn send(&mut self, numbers: &[u64], rest: &[u8]) -> Result<(), Broken> {
            let mut bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            bytes.extend_from_slice(rest);
            Ok(self.stream.write_all(&bytes)?)
        }
    }

    impl Outlet for Out {
        fn run(
            self: Box<Self>,
            mut source: Source,
            control: &Arc<Control>,
            until_end: bool,
        ) -> Result<(), LinkError> {
            let mut egress = source.egress()?;
            let mut backoff = ReconnectBackoff::new(control, Duration::from_secs(1));
            loop {
                backoff.begin();
                match send(&self.0, &mut egress, control, until_end) {
                    Ok(()) => return Ok(()),
                    Err(Broken::Failed(error)) => return Err(error),
                    Err(Broken::Stopped) => break,
                    Err(Broken::Away(error)) => {
                        let delivered = || egress.is_delivered().unwrap_or(false);
                        if !backoff.may_retry(format!("waiting for the socket: {error}"), delivered)
                        {
                            break;
                        }
                    }
                }
            }
            egress.set_goal()?;
            if !egress.is_delivered()? {
                control.leave_undelivered(egress.undelivered());
            }
            Ok(())
        }
    }

    /// Sends over one connection, until everything is delivered and nothing more can come.
    fn send(
        path: &Path,
        egress: &mut CheckedEgress,
        control: &Control,
        until_end: bool,
    ) -> Result<(), Broken> {
        let is_asked = || control.must_stop();
        let mut line = Line::new(UnixStream::connect(path)?, &is_asked)?;
        let incarnation = egress.incarnation();
        let lanes = egress.look()?;
        egress.rewind();
        // Lanes that are open there.
        let mut open = vec![false; lanes];
        let [count] = line.numbers()?;
        for _ in 0..count {
            let [index, theirs, position] = line.numbers()?;
            for place in (0..lanes).filter(|_| theirs == incarnation) {
                if u64::from(egress.lane(place)?) != index {
                    continue;
                }
                open[place] = true;
                if !egress.resume(place, position)? {
                    return Err(protocol("messages are missing"));
                }
            }
        }
        control.connected("connected to the socket".to_owned());
        loop {
            if control.must_stop() {
                return Err(Broken::Stopped);
            }
            if control.stopping().is_some() {
                egress.set_goal()?;
            }
            let mut sent = false;
            for place in 0..egress.look()? {
                open.resize(open.len().max(place + 1), false);
                let index = u64::from(egress.lane(place)?);
                let closes = open[place] && egress.is_lane_ended(place)?;
                let frames = egress.frames(place, BLOCK_BYTES)?;
                let (position, end, bytes) = (frames.position(), frames.end(), frames.bytes());
                if bytes.is_empty() && !closes {
                    continue;
                }
                open[place] = !bytes.is_empty();
                let kind = if open[place] { FRAMES } else { LANE_CLOSED };
                let length = bytes.len() as u64;
                line.send(&[kind, index, incarnation, position, length], bytes)?;
                if line.numbers()? != [end] {
                    return Err(protocol("an acknowledgement of something else"));
                }
                egress.advance(place, end)?;
                egress.acknowledge(place, end)?;
                sent = true;
            }
            if !sent && egress.is_delivered()? {
                if egress.is_ended() && (until_end || control.stopping().is_some()) {
                    line.send(&[END, 0, 0, 0, 0], &[])?;
                    return line.numbers().map(|[_]| ());
                }
                if control.stopping().is_some() {
                    return Ok(());
                }
                control.pause(PAUSE);
            }
        }
    }

    impl Inlet for In {
        fn run(
            self: Box<Self>,
            destination: Destination,
            control: &Arc<Control>,
            until_end: bool,
        ) -> Result<(), LinkError> {
            let mut ingress = destination.ingress("a socket")?;
            let away = |source: io::Error| LinkError::Io {
                action: "listen on",
                place: self.0.display().to_string(),
                source: Arc::new(source),
            };
            // Of an earlier inlet.
            let _ = std::fs::remove_file(&self.0);
            let listener = UnixListener::bind(&self.0).map_err(away)?;
            listener.set_nonblocking(true).map_err(away)?;
            control.tried();
            while control.stopping().is_none() {
                let Ok((stream, _)) = listener.accept() else {
                    control.pause(PAUSE);
                    continue;
                };
                match take(stream, &mut ingress, control) {
                    Ok(()) if until_end => return Ok(()),
                    Ok(()) | Err(Broken::Away(_)) => {
                        ingress.interrupt();
                        control.report(|status| status.failures += 1);
                    }
                    Err(Broken::Stopped) => return Ok(()),
                    Err(Broken::Failed(error)) => {
                        // Before the lanes close.
                        control.give_up(&error);
                        return Err(error);
                    }
                }
            }
            Ok(())
        }
    }

    /// Takes from one connection until the far side has ended.
    fn take(
        stream: UnixStream,
        ingress: &mut CheckedIngress,
        control: &Control,
    ) -> Result<(), Broken> {
        let is_asked = || control.stopping().is_some();
        let mut line = Line::new(stream, &is_asked)?;
        let lanes = ingress.lanes();
        line.send(&[lanes.len() as u64], &[])?;
        for lane in lanes {
            let index = u64::from(lane.index);
            line.send(&[index, lane.incarnation, lane.position], &[])?;
        }
        control.connected("connected to the socket".to_owned());
        loop {
            let [kind, index, incarnation, position, length] = line.numbers()?;
            let index = u32::try_from(index).map_err(|_| protocol("no such lane"))?;
            match kind {
                FRAMES if length <= BLOCK_MAX => {
                    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
                    line.read(&mut bytes)?;
                    ingress.open_lane(incarnation, index, position)?;
                    write(ingress, control, index, position, &bytes)?;
                }
                LANE_CLOSED => ingress.close_lane(index),
                END => {
                    ingress.end();
                    return line.send(&[0], &[]);
                }
                _ => return Err(protocol("a block of another kind or length")),
            }
            let done = ingress.acknowledged(index).unwrap_or(position);
            line.send(&[done], &[])?;
        }
    }

    /// Writes whole frames, once there is room for all of them.
    fn write(
        ingress: &mut CheckedIngress,
        control: &Control,
        index: u32,
        mut position: u64,
        mut bytes: &[u8],
    ) -> Result<(), Broken> {
        loop {
            match ingress.take(index, position, bytes) {
                Ok(()) => return Ok(()),
                Err(NotTaken::NoRoom { taken }) => {
                    (position, bytes) = (position + taken as u64, &bytes[taken..]);
                    while ingress.retry_room() {
                        if control.stopping().is_some() {
                            return Err(Broken::Stopped);
                        }
                        control.pause(PAUSE);
                    }
                }
                Err(other) => return Err(other.into()),
            }
        }
    }
}
