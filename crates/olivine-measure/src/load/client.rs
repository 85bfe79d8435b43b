//! The loop of the generator: one thread, many connections, readiness by epoll.

use super::error::{LoadError, io};
use super::{Plan, Waiting};
use crate::clock::TickClock;
use crate::latency::Latency;
use crate::pace::Pacer;
use rustix::event::{Timespec, epoll};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Bytes received at once.
const RECEIVE_BYTES: usize = 256 * 1024;
/// Connections that a spinning generator reads in turn, without asking for readiness.
const DIRECT_MAX: usize = 4;
/// A server that replies nothing for this long is abandoned.
pub(super) const SILENCE_NS: u64 = 10_000_000_000;
/// How long replies of an open loop may come after its end.
const DRAIN_NS: u64 = 2_000_000_000;
/// Longest sleep, so that the end is noticed.
const SLEEP_MAX_NS: u64 = 20_000_000;
const CONNECT_MAX: Duration = Duration::from_secs(5);
const EVENTS: usize = 512;

/// The error of a server that was silent for this long.
pub(super) fn silent() -> LoadError {
    LoadError::Silent {
        seconds: SILENCE_NS / 1_000_000_000,
    }
}

/// The protocol of the connections.
pub(super) trait Protocol: Send {
    /// Appends the next `count` requests of a connection.
    fn ask(&mut self, connection: usize, count: usize, out: &mut Vec<u8>);

    /// Checks the complete replies at the start of `data`; returns their number and bytes.
    fn read(&mut self, connection: usize, data: &[u8]) -> Result<(usize, usize), LoadError>;

    /// A connection was reopened; earlier requests on it get no reply.
    fn reopened(&mut self, connection: usize);
}

/// The measured time, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) start: u64,
    pub(super) begin: u64,
    pub(super) end: u64,
}

impl Times {
    /// Starts now.
    pub(super) fn from_now(clock: &TickClock, warm_up: Duration, measured: Duration) -> Self {
        let ticks =
            |span: Duration| clock.ticks_for(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        let start = TickClock::ticks();
        let begin = start + ticks(warm_up);
        Self {
            start,
            begin,
            end: begin + ticks(measured),
        }
    }

    pub(super) fn measured(&self, at: u64) -> bool {
        (self.begin..self.end).contains(&at)
    }
}

/// Counts of the loop.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Replies within the measured time (closed loop), or to requests due in it (open loop).
    pub(super) answers: u64,
    /// Time from request to reply, in ticks.
    pub(super) latency: Latency,
    /// Delay of the send after the due time, in ticks; empty in a closed loop.
    pub(super) send_delay: Latency,
    /// Requests of the open loop without a reply.
    pub(super) unanswered: u64,
    /// Connections that the server closed between two replies; reopened while it accepted them.
    pub(super) closed: u64,
    /// Connections that ended inside a reply.
    pub(super) cut: u64,
    /// Whether the server was gone before the time was over.
    pub(super) gone: bool,
    /// When the loop ended, in ticks.
    pub(super) ended: u64,
}

impl Tally {
    /// More replies than `outstanding` requests on a connection are an error.
    pub(super) fn refuse_unasked(
        &self,
        answers: usize,
        outstanding: usize,
    ) -> Result<(), LoadError> {
        match answers.checked_sub(outstanding) {
            None | Some(0) => Ok(()),
            Some(unasked) => Err(LoadError::Wrong {
                number: self.answers + 1,
                found: format!("{unasked} answers without a request"),
            }),
        }
    }
}

#[derive(Debug)]
struct Link {
    socket: Option<TcpStream>,
    writable: bool,
    /// Requests to send, and how much of them is sent.
    out: Vec<u8>,
    sent: usize,
    /// An incomplete reply.
    rest: Vec<u8>,
    /// Requests without a reply: when, and how many at once. Oldest first.
    asked: VecDeque<(u64, usize)>,
    outstanding: usize,
    /// Due times of requests that wait for room in the pipeline.
    waiting: VecDeque<u64>,
}

/// The generator.
pub(super) struct Client<P> {
    address: SocketAddr,
    protocol: P,
    links: Vec<Link>,
    epoll: OwnedFd,
    depth: usize,
    spins: bool,
    pacer: Option<Pacer>,
    clock: TickClock,
    times: Times,
    /// The next request of the open loop.
    next: u64,
    buffer: Vec<u8>,
    last_answer: u64,
    tally: Tally,
}

impl<P: Protocol> Client<P> {
    /// Opens the connections; `begin` returns the measured time once all are open.
    pub(super) fn connect(
        address: SocketAddr,
        plan: &Plan,
        protocol: P,
        begin: impl FnOnce() -> Times,
    ) -> Result<Self, LoadError> {
        let clock = TickClock::calibrate();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| io("make an epoll")(error.into()))?;
        let rate = plan.rate_per_s;
        let link = |index| {
            Ok(Link {
                socket: Some(connection(&epoll, address, index)?),
                writable: true,
                out: Vec::new(),
                sent: 0,
                rest: Vec::new(),
                asked: VecDeque::new(),
                outstanding: 0,
                waiting: VecDeque::new(),
            })
        };
        let links = (0..plan.connections)
            .map(link)
            .collect::<Result<_, LoadError>>()?;
        let buffer = vec![0; RECEIVE_BYTES];
        let times = begin();
        Ok(Self {
            address,
            protocol,
            links,
            epoll,
            depth: plan.depth,
            spins: plan.waiting == Waiting::Spin,
            pacer: rate.map(|rate| Pacer::start_at(clock, rate, times.start)),
            clock,
            times,
            next: 0,
            buffer,
            last_answer: times.start,
            tally: Tally::default(),
        })
    }

    /// Runs to the end of the measured time, or until the server has ended.
    pub(super) fn run(mut self) -> Result<Tally, LoadError> {
        if self.pacer.is_none() {
            for index in 0..self.links.len() {
                self.ask(index, self.depth, TickClock::ticks());
                self.flush(index)?;
            }
        }
        let direct = self.spins && self.links.len() <= DIRECT_MAX;
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let now = TickClock::ticks();
            self.send_due(now)?;
            if self.is_over(now)? {
                break;
            }
            if direct {
                for index in 0..self.links.len() {
                    self.links[index].writable = true;
                    self.receive(index, false)?;
                }
                continue;
            }
            let timeout = self.timeout(now);
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io("wait for sockets")(error.into()).into()),
            }
            for event in &events {
                let index = usize::try_from(event.data.u64()).unwrap_or(0);
                let flags = event.flags;
                if flags.contains(epoll::EventFlags::OUT) {
                    self.links[index].writable = true;
                    self.flush(index)?;
                }
                // The end may have come with the last bytes, without a separate edge.
                let over =
                    epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                self.receive(index, flags.intersects(over))?;
            }
        }
        let open = self.pacer.is_some();
        for link in self.links.iter().filter(|_| open) {
            let due = link
                .asked
                .iter()
                .flat_map(|(at, count)| std::iter::repeat_n(at, *count));
            let measured = due
                .chain(&link.waiting)
                .filter(|at| self.times.measured(**at));
            self.tally.unanswered += measured.count() as u64;
        }
        self.tally.ended = TickClock::ticks();
        Ok(self.tally)
    }

    /// Sends the due requests of the open loop.
    fn send_due(&mut self, now: u64) -> Result<(), LoadError> {
        let Some(pacer) = self.pacer else {
            return Ok(());
        };
        let until = now.min(self.times.end);
        let first = self.next;
        while pacer.due(self.next) < until {
            let due = pacer.due(self.next);
            let index = usize::try_from(self.next % self.links.len() as u64).unwrap_or(0);
            self.next += 1;
            if self.links[index].outstanding < self.depth && self.links[index].waiting.is_empty() {
                self.note_delay(due, now);
                self.ask(index, 1, due);
            } else {
                self.links[index].waiting.push_back(due);
            }
        }
        for number in first..self.next.min(first + self.links.len() as u64) {
            self.flush(usize::try_from(number % self.links.len() as u64).unwrap_or(0))?;
        }
        Ok(())
    }

    fn note_delay(&mut self, due: u64, now: u64) {
        if self.times.measured(due) {
            self.tally.send_delay.record(now.saturating_sub(due));
        }
    }

    fn is_over(&mut self, now: u64) -> Result<bool, LoadError> {
        if self.links.iter().all(|link| link.socket.is_none()) {
            self.tally.gone = true;
            return Ok(true);
        }
        let outstanding = || self.links.iter().any(|link| link.outstanding > 0);
        if now >= self.times.end {
            let waits = self.pacer.is_some() && outstanding();
            return Ok(!waits || now >= self.times.end + self.clock.ticks_for(DRAIN_NS));
        }
        if now > self.last_answer + self.clock.ticks_for(SILENCE_NS) && outstanding() {
            return Err(silent());
        }
        Ok(false)
    }

    fn timeout(&self, now: u64) -> Timespec {
        let mut nanos = 0;
        if !self.spins {
            let due = self
                .pacer
                .map_or(self.times.end, |pacer| pacer.due(self.next));
            nanos = self.clock.nanos(due.saturating_sub(now)).min(SLEEP_MAX_NS);
            if now >= self.times.end {
                nanos = SLEEP_MAX_NS;
            }
        }
        Timespec {
            tv_sec: 0,
            // At most 20 ms.
            tv_nsec: nanos.cast_signed(),
        }
    }

    /// Puts `count` requests into a connection's output, stamped `at`.
    fn ask(&mut self, index: usize, count: usize, at: u64) {
        let link = &mut self.links[index];
        if link.socket.is_none() {
            return;
        }
        self.protocol.ask(index, count, &mut link.out);
        link.asked.push_back((at, count));
        link.outstanding += count;
    }

    fn flush(&mut self, index: usize) -> Result<(), LoadError> {
        let link = &mut self.links[index];
        while link.writable && link.sent < link.out.len() {
            let Some(socket) = &mut link.socket else {
                break;
            };
            match socket.write(&link.out[link.sent..]) {
                Ok(length) => link.sent += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => link.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Broken: `receive` reads the rest and the end.
                Err(_) => break,
            }
        }
        if link.sent == link.out.len() {
            link.out.clear();
            link.sent = 0;
        }
        Ok(())
    }

    /// Reads a connection, and sends the next requests; reads to the end if it is `ending`.
    fn receive(&mut self, index: usize, ending: bool) -> Result<(), LoadError> {
        loop {
            let Some(socket) = &mut self.links[index].socket else {
                return Ok(());
            };
            match socket.read(&mut self.buffer) {
                Ok(0) => return self.reopen(index),
                Ok(length) => {
                    self.received(index, length)?;
                    // A short read has emptied the socket; the next arrival makes a new edge.
                    if length < self.buffer.len() && !ending {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.reopen(index),
            }
        }
    }

    fn received(&mut self, index: usize, length: usize) -> Result<(), LoadError> {
        let now = TickClock::ticks();
        let link = &mut self.links[index];
        let data = &self.buffer[..length];
        let answers = if link.rest.is_empty() {
            let (answers, used) = self.protocol.read(index, data)?;
            link.rest.extend_from_slice(&data[used..]);
            answers
        } else {
            link.rest.extend_from_slice(data);
            let (answers, used) = self.protocol.read(index, &link.rest)?;
            link.rest.drain(..used);
            answers
        };
        self.tally.refuse_unasked(answers, link.outstanding)?;
        if answers > 0 {
            self.last_answer = now;
            self.count(index, answers, now);
            self.ask_again(index, now)?;
        }
        Ok(())
    }

    /// Records how long `answers` requests took, the oldest first.
    fn count(&mut self, index: usize, answers: usize, now: u64) {
        let open = self.pacer.is_some();
        let link = &mut self.links[index];
        link.outstanding -= answers;
        let mut left = answers;
        while left > 0
            && let Some((at, count)) = link.asked.front_mut()
        {
            let take = left.min(*count);
            if self.times.measured(if open { *at } else { now }) {
                self.tally.answers += take as u64;
                self.tally
                    .latency
                    .record_many(now.saturating_sub(*at), take as u64);
            }
            left -= take;
            *count -= take;
            if *count == 0 {
                link.asked.pop_front();
            }
        }
    }

    fn ask_again(&mut self, index: usize, now: u64) -> Result<(), LoadError> {
        if self.pacer.is_none() {
            if self.links[index].outstanding == 0 && now < self.times.end {
                self.ask(index, self.depth, now);
                self.flush(index)?;
            }
            return Ok(());
        }
        while self.links[index].outstanding < self.depth
            && let Some(due) = self.links[index].waiting.pop_front()
        {
            self.note_delay(due, now);
            self.ask(index, 1, due);
        }
        self.flush(index)
    }

    /// The server closed a connection: reopens it, unless the server refuses.
    fn reopen(&mut self, index: usize) -> Result<(), LoadError> {
        let link = &mut self.links[index];
        if link.rest.is_empty() {
            self.tally.closed += 1;
        } else {
            self.tally.cut += 1;
        }
        let open = self.pacer.is_some();
        let lost = link
            .asked
            .drain(..)
            .filter(|(at, _)| open && self.times.measured(*at));
        self.tally.unanswered += lost.map(|(_, count)| count as u64).sum::<u64>();
        link.rest.clear();
        link.out.clear();
        (link.sent, link.outstanding, link.writable, link.socket) = (0, 0, true, None);
        self.protocol.reopened(index);
        match connection(&self.epoll, self.address, index) {
            Ok(socket) => {
                self.links[index].socket = Some(socket);
                self.ask_again(index, TickClock::ticks())
            }
            // The last connection shows whether the server has ended.
            Err(LoadError::Connect { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Connects, and registers it in `epoll` as `index`.
fn connection(epoll: &OwnedFd, address: SocketAddr, index: usize) -> Result<TcpStream, LoadError> {
    let socket = TcpStream::connect_timeout(&address, CONNECT_MAX)
        .map_err(|source| LoadError::Connect { address, source })?;
    socket.set_nodelay(true).map_err(io("set TCP_NODELAY"))?;
    socket
        .set_nonblocking(true)
        .map_err(io("make a socket non-blocking"))?;
    let flags = epoll::EventFlags::IN
        | epoll::EventFlags::OUT
        | epoll::EventFlags::RDHUP
        | epoll::EventFlags::ET;
    let data = epoll::EventData::new_u64(index as u64);
    epoll::add(epoll, &socket, data, flags).map_err(|error| io("watch a socket")(error.into()))?;
    Ok(socket)
}
