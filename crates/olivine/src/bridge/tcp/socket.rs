//! Non-blocking sockets, with or without TLS: created, connected, read, written and waited for.

use super::tls::Tls;
use super::tls::session::TlsSession;
use crate::fork::ClosedInChildren;
use crate::link::Control;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, SocketFlags, SocketType, sockopt};
use std::io::{self, IoSlice, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// One end of a connection. A forked child closes its copy: this process's death is the end of the
/// connection, also while the child lives.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Arc<ClosedInChildren>,
    /// Boxed: most connections have none.
    session: Option<Box<TlsSession>>,
    /// Address of the other end, for messages.
    far: String,
}

/// Cuts a connection from another thread.
#[derive(Debug)]
pub(super) struct Cutter(Weak<ClosedInChildren>);

impl Cutter {
    /// Ends both directions, unless the connection is closed already.
    pub(super) fn cut(&self) {
        if let Some(stream) = self.0.upgrade() {
            // Fails only if the connection is gone already.
            let _ = net::shutdown(stream.borrow(), net::Shutdown::Both);
        }
    }
}

/// Why a connection is unusable.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketError {
    /// An error of the system.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// TLS failed, or the other side could not prove its identity.
    #[error("TLS: {problem}")]
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there is no TLS"))]
    Tls {
        /// What is wrong, and what to do.
        problem: String,
        /// Another attempt with the same settings cannot succeed.
        lasting: bool,
    },
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// This many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The other end has closed its direction.
    End,
}

impl Socket {
    /// Takes over a connected stream: non-blocking, without delay, with keepalive.
    pub(super) fn new(
        stream: ClosedInChildren,
        far: String,
        tls: Option<&Tls>,
    ) -> Result<Self, SocketError> {
        let set = |stream: BorrowedFd<'_>| {
            rustix::io::ioctl_fionbio(stream, true)?;
            sockopt::set_tcp_nodelay(stream, true)?;
            sockopt::set_socket_keepalive(stream, true)
        };
        set(stream.borrow()).map_err(io::Error::from)?;
        let session = tls.map(|tls| tls.session().map(Box::new)).transpose()?;
        Ok(Self {
            stream: Arc::new(stream),
            session,
            far,
        })
    }

    /// Address of the other end, for messages.
    pub(super) fn far(&self) -> &str {
        &self.far
    }

    /// Cuts this connection from another thread.
    pub(super) fn cutter(&self) -> Cutter {
        Cutter(Arc::downgrade(&self.stream))
    }

    /// Reads what is there.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<ReadOutcome, SocketError> {
        match &mut self.session {
            Some(session) => session.read(self.stream.borrow(), into),
            None => Ok(receive(self.stream.borrow(), into)?),
        }
    }

    /// Whether the kernel's bytes are those of the other side: without TLS.
    pub(super) fn is_plain(&self) -> bool {
        self.session.is_none()
    }

    /// Whether received bytes wait in this process: the socket does not report them.
    pub(super) fn has_arrived(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| session.has_arrived())
    }

    /// Reads some of what is there and discards it; `false` at the end. Limited, so that a peer
    /// that always sends cannot block the caller.
    pub(super) fn discard(&mut self) -> bool {
        let mut rest = [0; 4096];
        for _ in 0..64 {
            match receive(self.stream.borrow(), &mut rest) {
                Ok(ReadOutcome::Bytes(_)) => {}
                Ok(ReadOutcome::Nothing) => return true,
                Ok(ReadOutcome::End) | Err(_) => return false,
            }
        }
        true
    }

    /// Writes the parts in order, as far as the kernel accepts; returns the bytes written, 0 if it
    /// accepts none now.
    pub(super) fn write(&mut self, parts: &[&[u8]]) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); 3];
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        let slices = &slices[..parts.len().min(3)];
        if let Some(session) = &mut self.session {
            return session.write(self.stream.borrow(), slices);
        }
        loop {
            match NoSigpipe(self.stream.borrow()).write_vectored(slices) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Closes our direction after the written bytes.
    pub(super) fn finish(&mut self) {
        if let Some(session) = &mut self.session {
            session.finish(self.stream.borrow());
        }
        // Fails only if the connection is gone already.
        let _ = net::shutdown(self.stream.borrow(), net::Shutdown::Write);
    }

    /// Whether written bytes wait in this process for room in the kernel.
    pub(super) fn holds_bytes(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| session.holds_bytes())
    }
}

/// A stream whose writes raise no SIGPIPE if the other end is gone: the signal could kill the host
/// program.
pub(super) struct NoSigpipe<'a>(pub(super) BorrowedFd<'a>);

impl Write for NoSigpipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut none = net::SendAncillaryBuffer::default();
        let sent = net::sendmsg(self.0, parts, &mut none, net::SendFlags::NOSIGNAL);
        Ok(sent?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads from a stream what is there.
pub(super) fn receive(stream: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<ReadOutcome> {
    loop {
        match rustix::io::read(stream, &mut *into) {
            Ok(0) => return Ok(ReadOutcome::End),
            Ok(count) => return Ok(ReadOutcome::Bytes(count)),
            Err(Errno::AGAIN) => return Ok(ReadOutcome::Nothing),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.borrow()
    }
}

/// Waits for one of the descriptors, a request to end or its deadline, for at most `longest`.
pub(super) fn wait(
    control: &Control,
    fds: &[(BorrowedFd<'_>, bool)],
    longest: Duration,
) -> io::Result<()> {
    let mut polled = Vec::with_capacity(fds.len() + 1);
    // After a request to end that descriptor stays readable: it would end every wait at once.
    if control.stopping().is_none() {
        polled.push(PollFd::from_borrowed_fd(control.wake_fd(), PollFlags::IN));
    }
    for (fd, writable) in fds {
        let flags = if *writable {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        polled.push(PollFd::from_borrowed_fd(*fd, flags));
    }
    let longest = control.until_deadline(longest);
    let longest = Timespec {
        tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: longest.subsec_nanos().into(),
    };
    match poll(&mut polled, Some(&longest)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Listens on the first address of the host that this machine has. If another program listens there
/// that is the error: on the next address of the host two listeners would not see each other.
///
/// A forked child closes its copy: a successor can listen once this process has died.
pub(super) fn listen(host: &str, port: u16) -> io::Result<(ClosedInChildren, SocketAddr)> {
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let mut local = None;
    let listener = ClosedInChildren::open(|| {
        // The standard library sets SO_REUSEADDR, so a restarted listener does not wait for old
        // connections.
        let listener = bind(&addresses)?;
        listener.set_nonblocking(true)?;
        local = Some(listener.local_addr()?);
        Ok(listener.into())
    })?;
    let local = local.ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok((listener, local))
}

fn bind(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut failure = io::ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        match TcpListener::bind(address) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => failure = error,
            bound => return bound,
        }
    }
    Err(failure)
}

/// The next connection in the queue, and its address.
pub(super) fn accept(listener: &ClosedInChildren) -> io::Result<(ClosedInChildren, String)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let mut far = String::new();
    let stream = ClosedInChildren::open(|| {
        let (stream, address) = net::acceptfrom_with(listener.borrow(), flags)?;
        let address = address.and_then(|address| SocketAddr::try_from(address).ok());
        far = address.map_or_else(String::new, |address| address.to_string());
        Ok(stream)
    })?;
    Ok((stream, far))
}

/// Connects to the first address of the host that answers within `longest`; `None` after a request
/// to end.
pub(super) fn connect(
    control: &Control,
    host: &str,
    port: u16,
    from: Option<IpAddr>,
    longest: Duration,
    tls: Option<&Tls>,
) -> Result<Option<Socket>, SocketError> {
    let mut last = None;
    // An IPv4 address in the form of IPv6 is one of IPv4, as in `bind=`.
    let canonical = |mut address: SocketAddr| {
        address.set_ip(address.ip().to_canonical());
        address
    };
    let (usable, other): (Vec<_>, Vec<_>) = (host, port)
        .to_socket_addrs()?
        .map(canonical)
        .partition(|address| from.is_none_or(|from| from.is_ipv4() == address.is_ipv4()));
    if let (Some(from), [], [address, ..]) = (from, &usable[..], &other[..]) {
        let problem = format!(
            "bind={from} and {address}, the address of the far side, are of different families: \
             give an address of its family, or drop bind="
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem).into());
    }
    for address in usable {
        match connect_to(control, address, from, longest) {
            Ok(Some(stream)) => return Socket::new(stream, address.to_string(), tls).map(Some),
            Ok(None) => return Ok(None),
            Err(error) => last = Some(error),
        }
        if control.must_stop() {
            return Ok(None);
        }
    }
    let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    Err(last.unwrap_or_else(none).into())
}

fn connect_to(
    control: &Control,
    address: SocketAddr,
    from: Option<IpAddr>,
    longest: Duration,
) -> io::Result<Option<ClosedInChildren>> {
    let family = if address.is_ipv4() {
        net::AddressFamily::INET
    } else {
        net::AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let open = || Ok(net::socket_with(family, SocketType::STREAM, flags, None)?);
    let socket = ClosedInChildren::open(open)?;
    if let Some(from) = from {
        let refused = |error: Errno| {
            let problem = format!("bind={from} cannot be used to reach {address}: {error}");
            io::Error::new(io::Error::from(error).kind(), problem)
        };
        net::bind(socket.borrow(), &SocketAddr::new(from, 0)).map_err(refused)?;
    }
    match net::connect(socket.borrow(), &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => {
            let started = std::time::Instant::now();
            loop {
                wait(control, &[(socket.borrow(), true)], longest.min(NAP))?;
                if control.must_stop() {
                    return Ok(None);
                }
                let mut polled = [PollFd::from_borrowed_fd(socket.borrow(), PollFlags::OUT)];
                if poll(&mut polled, Some(&Timespec::default()))? > 0 {
                    break;
                }
                if started.elapsed() >= longest {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            sockopt::socket_error(socket.borrow())??;
        }
        Err(error) => return Err(error.into()),
    }
    // A connection to ourselves: the port was free, and the kernel chose it as our own port.
    let local = SocketAddr::try_from(net::getsockname(socket.borrow())?);
    if local.is_ok_and(|local| local == address) {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(Some(socket))
}

/// Longest wait without a check for an end request.
pub(super) const NAP: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_listener_does_not_take_the_next_address_of_the_host() {
        let first = bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let taken = first.local_addr().unwrap();
        let next = SocketAddr::new([127, 0, 0, 2].into(), taken.port());
        let refused = bind(&[taken, next]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn listener_skips_addresses_that_the_machine_lacks() {
        // Of a documentation network, and so of no machine.
        let absent = "192.0.2.1:0".parse().unwrap();
        let listener = bind(&[absent, "127.0.0.1:0".parse().unwrap()]).unwrap();
        assert!(listener.local_addr().unwrap().ip().is_loopback());
        assert!(bind(&[absent]).is_err());
        assert!(bind(&[]).is_err());
    }
}
