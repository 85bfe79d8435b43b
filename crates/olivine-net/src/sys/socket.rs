//! TCP sockets: made non-blocking and close-on-exec, with every option the settings name.

use std::{
    fs::File,
    io,
    net::SocketAddr,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::FileExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{self, RecvFlags, SendFlags, SocketType, sockopt},
};

use crate::listen::ListenAddress;

/// Options of a listener; see the fields of the same names in `EngineConfig`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenOptions {
    pub(crate) backlog: i32,
    pub(crate) reuse_port: bool,
    pub(crate) ipv6_only: bool,
    /// Inherited by accepted sockets: the window scale fits a large value only if it is set before.
    pub(crate) receive_kernel_bytes: Option<usize>,
    /// Accepted sockets inherit it where [`INHERITS`] is true.
    pub(crate) keep_alive: Option<Duration>,
}

/// Options of a connected socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamOptions {
    pub(crate) nodelay: bool,
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) send_kernel_bytes: Option<usize>,
    pub(crate) receive_kernel_bytes: Option<usize>,
    /// Other sockets have no options of TCP.
    pub(crate) is_tcp: bool,
}

/// Whether several listeners on one port share incoming connections evenly on this system.
///
/// macOS lets many listeners bind and then gives every connection to the first.
pub(crate) const REUSE_PORT_SPREADS: bool = cfg!(target_os = "linux");

/// Whether accepted sockets have the keep-alive of their listener, so that it costs no system call
/// for each.
pub(crate) const INHERITS: bool = cfg!(target_os = "linux");

/// Keep-alive probes that a peer may leave unanswered.
const PROBES: u32 = 6;
/// Time between them, at most.
const PROBE_EVERY: Duration = Duration::from_secs(10);

/// Sends end without waiting, and without a signal where that is said at each send.
#[cfg(not(target_vendor = "apple"))]
const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
/// As above; here the socket says once that it wants no signal.
#[cfg(target_vendor = "apple")]
const SEND: SendFlags = SendFlags::DONTWAIT;

/// Binds and listens.
pub(crate) fn listen(address: SocketAddr, options: ListenOptions) -> io::Result<OwnedFd> {
    let socket = stream_socket(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if options.reuse_port {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, options.ipv6_only)?;
    }
    if let Some(bytes) = options.receive_kernel_bytes {
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    inherit_keep_alive(socket.as_fd(), options.keep_alive)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, options.backlog)?;
    Ok(socket)
}

/// Binds a Unix socket, which does not listen yet.
pub(crate) fn bind_unix(path: &Path) -> io::Result<OwnedFd> {
    let socket = new_socket(net::AddressFamily::UNIX)?;
    net::bind(&socket, &net::SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Connects to a Unix socket, without waiting for room in its queue.
pub(crate) fn try_unix(path: &Path) -> io::Result<()> {
    let socket = new_socket(net::AddressFamily::UNIX)?;
    Ok(net::connect(&socket, &net::SocketAddrUnix::new(path)?)?)
}

/// Opens or makes an empty file of this user alone, for a lock; no symbolic link is followed.
pub(crate) fn lock_file(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Starts to listen on a bound socket.
pub(crate) fn listen_on(socket: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
    Ok(net::listen(socket, backlog)?)
}

/// The address of a socket that listens; an error for any other descriptor.
pub(crate) fn listens_on(socket: BorrowedFd<'_>) -> io::Result<ListenAddress> {
    let is_stream = sockopt::socket_type(socket)? == SocketType::STREAM;
    // Elsewhere the first accept says it.
    #[cfg(not(target_vendor = "apple"))]
    let listens = sockopt::socket_acceptconn(socket)?;
    #[cfg(target_vendor = "apple")]
    let listens = true;
    if !is_stream || !listens {
        let why = "it is not a stream socket that listens";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let any = net::getsockname(socket)?;
    if let Ok(address) = SocketAddr::try_from(any.clone()) {
        return Ok(ListenAddress::Tcp(address));
    }
    let address = net::SocketAddrUnix::try_from(any)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = address.abstract_name() {
        return Ok(ListenAddress::Abstract(name.to_vec()));
    }
    let path = address.path_bytes().map(|bytes| {
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
    });
    Ok(ListenAddress::Unix(path))
}

/// Whether a socket is one of TCP.
pub(crate) fn is_tcp(socket: BorrowedFd<'_>) -> bool {
    net::getsockname(socket).is_ok_and(|any| SocketAddr::try_from(any).is_ok())
}

/// Checks that a descriptor is a connected stream socket, and prepares it for this engine.
pub(crate) fn take_over(socket: BorrowedFd<'_>) -> io::Result<()> {
    if sockopt::socket_type(socket)? != SocketType::STREAM {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    net::getpeername(socket)?;
    make_nonblocking(socket)?;
    Ok(rustix::io::fcntl_setfd(
        socket,
        rustix::io::FdFlags::CLOEXEC,
    )?)
}

/// Has calls on a socket return at once.
pub(crate) fn make_nonblocking(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(socket, true)?)
}

/// Starts connecting; the socket becomes writable when the outcome is known.
///
/// The options are set before, because the window scale fits a large receive buffer only then.
pub(crate) fn connect(address: SocketAddr, options: StreamOptions) -> io::Result<OwnedFd> {
    let socket = stream_socket(address)?;
    configure(socket.as_fd(), options)?;
    match net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Takes one connection from a listener's queue.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        let flags = net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC;
        Ok(net::accept_with(listener, flags)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let socket = net::accept(listener)?;
        prepare(&socket)?;
        Ok(socket)
    }
}

/// Sets the options of a connected socket.
pub(crate) fn configure(socket: BorrowedFd<'_>, options: StreamOptions) -> io::Result<()> {
    if options.nodelay && options.is_tcp {
        sockopt::set_tcp_nodelay(socket, true)?;
    }
    set_keep_alive(socket, options.keep_alive.filter(|_| options.is_tcp))?;
    if let Some(bytes) = options.send_kernel_bytes {
        sockopt::set_socket_send_buffer_size(socket, bytes)?;
    }
    if let Some(bytes) = options.receive_kernel_bytes {
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    Ok(())
}

/// Sets on a listener what accepted sockets inherit, where they do.
pub(crate) fn inherit_keep_alive(
    listener: BorrowedFd<'_>,
    idle: Option<Duration>,
) -> io::Result<()> {
    set_keep_alive(listener, idle.filter(|_| INHERITS))
}

fn set_keep_alive(socket: BorrowedFd<'_>, idle: Option<Duration>) -> io::Result<()> {
    let Some(idle) = idle else { return Ok(()) };
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, idle)?;
    sockopt::set_tcp_keepintvl(socket, PROBE_EVERY.min(idle))?;
    Ok(sockopt::set_tcp_keepcnt(socket, PROBES)?)
}

/// Makes the coming close a reset, so that nothing lingers in the kernel.
pub(crate) fn reset_on_close(socket: BorrowedFd<'_>) {
    // A socket that is already reset refuses the option; it needs none.
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// Ends our direction; the peer sees the end of the stream after the sent data.
pub(crate) fn finish(socket: BorrowedFd<'_>) {
    // Fails only where the connection is already gone, which the next read reports.
    let _ = net::shutdown(socket, net::Shutdown::Write);
}

/// Ends both directions, and with them all operations of the kernel on the connection.
#[cfg(target_os = "linux")]
pub(crate) fn end_both(socket: BorrowedFd<'_>) {
    // Fails only where the connection is already gone.
    let _ = net::shutdown(socket, net::Shutdown::Both);
}

/// Makes a listener stop listening at once, even if its socket has other references. io_uring
/// releases its reference some time after the ring is gone, and until then the port would look
/// taken.
#[cfg(target_os = "linux")]
pub(crate) fn stop_listening(listener: BorrowedFd<'_>) {
    // Refused by systems where it means nothing; closing does it there.
    let _ = net::shutdown(listener, net::Shutdown::Both);
}

/// The outcome of a connection attempt, once the socket is writable.
pub(crate) fn outcome(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
}

/// Bytes that wait in the kernel to be read.
pub(crate) fn unread(socket: BorrowedFd<'_>) -> u64 {
    rustix::io::ioctl_fionread(socket).unwrap_or(0)
}

/// The local address of a socket.
pub(crate) fn local_address(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let any = net::getsockname(socket)?;
    SocketAddr::try_from(any).map_err(|_| io::ErrorKind::Unsupported.into())
}

/// The peer's address; `None` once the connection is gone.
pub(crate) fn peer_address(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    SocketAddr::try_from(net::getpeername(socket).ok()??).ok()
}

/// Receives available data; `Ok(0)` is the end of the stream.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match net::recv(socket, &mut *buffer, RecvFlags::empty()) {
            Ok((length, _)) => return Ok(length),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends as much as the kernel accepts, without waiting and without a signal.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match net::send(socket, bytes, SEND) {
            Ok(length) => return Ok(length),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends up to `length` bytes of a file from `offset` on, as many as the kernel takes now; 0 at the
/// end of the file.
#[cfg(target_os = "linux")]
pub(crate) fn send_file(
    socket: BorrowedFd<'_>,
    file: &File,
    offset: u64,
    length: usize,
) -> io::Result<usize> {
    let mut offset = offset;
    loop {
        match rustix::fs::sendfile(socket, file, Some(&mut offset), length) {
            Ok(length) => return Ok(length),
            Err(Errno::INTR) => {}
            // A file that `sendfile` cannot read.
            Err(Errno::INVAL | Errno::NOSYS) => return copy_file(socket, file, offset, length),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use copy_file as send_file;

/// As `send_file`, by reading and sending.
pub(crate) fn copy_file(
    socket: BorrowedFd<'_>,
    file: &File,
    offset: u64,
    length: usize,
) -> io::Result<usize> {
    let mut buffer = [0; 32 * 1024];
    let most = length.min(buffer.len());
    match file.read_at(&mut buffer[..most], offset)? {
        0 => Ok(0),
        // What the kernel does not take is read again.
        read => send(socket, &buffer[..read]),
    }
}

/// A descriptor kept in reserve: closing it lets one more connection be accepted and turned away.
pub(crate) fn spare() -> Option<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        use rustix::event::{EventfdFlags, eventfd};
        eventfd(0, EventfdFlags::CLOEXEC).ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        File::open("/dev/null").ok().map(OwnedFd::from)
    }
}

/// Whether accepting failed because descriptors or memory ran out, so that it may work later.
pub(crate) fn is_exhaustion(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    )
}

fn stream_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    new_socket(if address.is_ipv4() {
        net::AddressFamily::INET
    } else {
        net::AddressFamily::INET6
    })
}

fn new_socket(family: net::AddressFamily) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        let flags = net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC;
        Ok(net::socket_with(family, SocketType::STREAM, flags, None)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let socket = net::socket(family, SocketType::STREAM, None)?;
        prepare(&socket)?;
        Ok(socket)
    }
}

#[cfg(not(target_os = "linux"))]
fn prepare(socket: &OwnedFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(socket, true)?;
    #[cfg(target_vendor = "apple")]
    sockopt::set_socket_nosigpipe(socket, true)?;
    Ok(rustix::io::fcntl_setfd(
        socket,
        rustix::io::FdFlags::CLOEXEC,
    )?)
}
