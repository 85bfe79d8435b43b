//! What a peer may ask of the server.

use std::time::Duration;

use crate::error::ConfigError;

/// Limits of the HTTP server; each is enforced before the memory is spent.
///
/// The *head* of a request is its request line and its header fields.
#[derive(Clone, Debug)]
#[must_use = "limits do nothing until a server is started with them"]
pub struct Limits {
    pub(crate) line_bytes_max: usize,
    pub(crate) headers_max: usize,
    pub(crate) head_bytes_max: usize,
    pub(crate) body_bytes_max: u64,
    pub(crate) bodies_bytes_max: Option<u64>,
    pub(crate) header_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) body_rate_min: Option<u32>,
    pub(crate) body_rate_window: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) answer_timeout: Option<Duration>,
    pub(crate) half_closed_timeout: Option<Duration>,
}

/// What all bodies of a shard may hold together where nothing is said.
const BODIES_BYTES: u64 = 128 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes_max: 8 * 1024,
            headers_max: 100,
            head_bytes_max: 32 * 1024,
            body_bytes_max: 1024 * 1024,
            bodies_bytes_max: None,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(60),
            body_rate_min: Some(240),
            body_rate_window: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            answer_timeout: Some(Duration::from_secs(60)),
            half_closed_timeout: Some(Duration::from_secs(10)),
        }
    }
}

impl Limits {
    /// Bytes of the request line (414 beyond) and of each header field (431 beyond), 64 to 64 KiB.
    /// Default 8 KiB.
    pub fn line_bytes_max(mut self, bytes: usize) -> Self {
        self.line_bytes_max = bytes;
        self
    }

    /// Header fields of a request, 1 to 1,000; 431 beyond. Default 100.
    pub fn headers_max(mut self, fields: usize) -> Self {
        self.headers_max = fields;
        self
    }

    /// Bytes of the whole head, 128 to 1 MiB; 431 beyond. Default 32 KiB.
    pub fn head_bytes_max(mut self, bytes: usize) -> Self {
        self.head_bytes_max = bytes;
        self
    }

    /// Bytes of a request's body, 0 to 1 GiB; 413 beyond. Default 1 MiB. Bodies are held in memory
    /// until they are complete. [`Service::on_head`](super::Service::on_head) may choose another
    /// limit for a request, or have the body in pieces.
    pub fn body_bytes_max(mut self, bytes: u64) -> Self {
        self.body_bytes_max = bytes;
        self
    }

    /// Bytes that all bodies of a shard which are not complete may hold together, with the copies
    /// of their heads; 503 to the request that would hold more. At least `body_bytes_max` and
    /// `head_bytes_max` together, at most 1 TiB. Default 128 MiB, or that sum where it is more.
    ///
    /// A body that comes in several pieces holds at least 32 KiB. A body that comes whole with its
    /// head holds nothing. The present value:
    /// [`ShardHealth::body_bytes`](crate::ShardHealth::body_bytes).
    pub fn bodies_bytes_max(mut self, bytes: u64) -> Self {
        self.bodies_bytes_max = Some(bytes);
        self
    }

    /// What the bodies of a shard may hold together.
    pub(super) fn bodies_bytes(&self) -> usize {
        let bytes = self
            .bodies_bytes_max
            .unwrap_or_else(|| BODIES_BYTES.max(self.bodies_bytes_min()));
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    fn bodies_bytes_min(&self) -> u64 {
        self.body_bytes_max + self.head_bytes_max as u64
    }

    /// Time from the first byte of a head (or from the start of the connection) to its end, 1 ms to
    /// 1 h; 408 beyond, and a connection on which nothing came is closed. Default 10 s. Bytes that
    /// arrived in time are read first, even if the shard is late.
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.header_timeout = timeout;
        self
    }

    /// Time from the head to the end of a body that is collected, 1 ms to 24 h; 408 beyond. Default
    /// 60 s. What has arrived in time is read first, as for [`Limits::header_timeout`]. A body that
    /// the service gets in pieces has no such limit, only [`Limits::body_rate_min`].
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Bytes per second that a body must bring, on average over each
    /// [`Limits::body_rate_window`], 1 to 1 Gi; 408 beyond, or a reset where the answer has begun.
    /// Default 240; `None` takes any rate. Time in which the service has paused the body, or the
    /// peer does not read what is queued for it, is left out. How fast a peer must read is
    /// [`EngineConfig::write_rate_min`](crate::EngineConfig::write_rate_min).
    pub fn body_rate_min(mut self, bytes_per_second: Option<u32>) -> Self {
        self.body_rate_min = bytes_per_second;
        self
    }

    /// Time over which the rate of a body is measured, 100 ms to 1 h. Default 10 s. A body that
    /// stops is refused after at most twice this time.
    pub fn body_rate_window(mut self, window: Duration) -> Self {
        self.body_rate_window = window;
        self
    }

    /// Time between requests, from the end of an answer to the first byte of the next head, 1 ms to
    /// 24 h; the connection is closed in good order then. Default 60 s. With TLS the first byte
    /// counts once its record is whole.
    ///
    /// A pending, streamed or queued answer is not idle time: an event stream has no limit but
    /// [`Limits::answer_timeout`] and [`Limits::half_closed_timeout`]. Queued bytes are those that
    /// the kernel's send buffer has no room for. Bytes in that buffer count as sent, read or not,
    /// and are delivered after the close too. A request that has arrived in time is answered, even
    /// if the shard reads it late.
    /// [`EngineConfig::idle_timeout`](crate::EngineConfig::idle_timeout) knows no requests, and
    /// ends these too.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Time from a request to the start of an answer that the service has put off
    /// ([`Responder::later`](super::Responder::later)), 1 ms to 24 h; 503 beyond, and the service
    /// gets [`Service::on_stream_closed`](super::Service::on_stream_closed). Default 60 s; `None`
    /// waits without limit. A body is part of the request: where it comes in pieces, the time
    /// begins at its end.
    ///
    /// A streamed answer has begun: [`EngineConfig::idle_timeout`] bounds its silence.
    ///
    /// [`EngineConfig::idle_timeout`]: crate::EngineConfig::idle_timeout
    pub fn answer_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// Time that a pending or streamed answer may be silent after its peer has ended its direction,
    /// 1 ms to 24 h. Default 10 s; `None` waits as if it had not. It is also the time for which a
    /// service may pause the body of such a peer.
    ///
    /// Such a peer has left, or has only stopped sending: until a byte is sent the two look the
    /// same. A peer that has left resets the connection with the first byte. A peer that still
    /// reads is served as long as bytes go out. Beyond this time an answer that has not begun is
    /// 503 (408 while its body is paused), a begun answer is cut off, and the service gets
    /// [`Service::on_stream_closed`](super::Service::on_stream_closed).
    pub fn half_closed_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.half_closed_timeout = timeout;
        self
    }

    /// Checks every limit. Starting a server does this first.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which names the limit, its value and the rule it breaks.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let body = usize::try_from(self.body_bytes_max).unwrap_or(usize::MAX);
        for (setting, value, low, high) in [
            ("line_bytes_max", self.line_bytes_max, 64, 64 << 10),
            ("headers_max", self.headers_max, 1, 1000),
            ("head_bytes_max", self.head_bytes_max, 128, 1 << 20),
            ("body_bytes_max", body, 0, 1 << 30),
        ] {
            if value < low || value > high {
                return Err(ConfigError::range(
                    setting,
                    value,
                    &format!("{low} to {high}"),
                ));
            }
        }
        if let Some(rate) = self.body_rate_min
            && !(1..=1 << 30).contains(&rate)
        {
            let rate = usize::try_from(rate).unwrap_or(usize::MAX);
            return Err(ConfigError::range("body_rate_min", rate, "1 to 1073741824"));
        }
        let least = usize::try_from(self.bodies_bytes_min()).unwrap_or(usize::MAX);
        if self.bodies_bytes() < least || self.bodies_bytes_max > Some(1 << 40) {
            let rule = format!("{least} (body_bytes_max and head_bytes_max together) to 1 TiB");
            let bytes = self.bodies_bytes();
            return Err(ConfigError::range("bodies_bytes_max", bytes, &rule));
        }
        let window = self.body_rate_window;
        if window < Duration::from_millis(100) || window > Duration::from_secs(3600) {
            let range = "100 ms to 1 h";
            return Err(ConfigError::duration(
                "body_rate_window",
                Some(window),
                range,
            ));
        }
        let millisecond = Duration::from_millis(1);
        let day = "1 ms to 24 h";
        for (setting, timeout, hours, range) in [
            (
                "header_timeout",
                Some(self.header_timeout),
                1,
                "1 ms to 1 h",
            ),
            ("body_timeout", Some(self.body_timeout), 24, day),
            ("idle_timeout", Some(self.idle_timeout), 24, day),
            ("answer_timeout", self.answer_timeout, 24, day),
            ("half_closed_timeout", self.half_closed_timeout, 24, day),
        ] {
            let Some(timeout) = timeout else { continue };
            if timeout < millisecond || timeout.as_secs() > hours * 3600 {
                return Err(ConfigError::duration(setting, Some(timeout), range));
            }
        }
        Ok(())
    }
}
