//! What a peer may ask of the server.

use std::time::Duration;

use crate::error::ConfigError;

/// Limits of the HTTP server; each is enforced before the memory is spent.
#[derive(Clone, Debug)]
#[must_use = "limits do nothing until a server is started with them"]
pub struct Limits {
    pub(crate) line_bytes_max: usize,
    pub(crate) headers_max: usize,
    pub(crate) head_bytes_max: usize,
    pub(crate) body_bytes_max: u64,
    pub(crate) header_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) idle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes_max: 8 * 1024,
            headers_max: 100,
            head_bytes_max: 32 * 1024,
            body_bytes_max: 1024 * 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// Bytes of the request line (414 beyond) and of each header line (431 beyond), 64 to 64 KiB.
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
    /// until they are complete.
    pub fn body_bytes_max(mut self, bytes: u64) -> Self {
        self.body_bytes_max = bytes;
        self
    }

    /// Time from the first byte of a head (or from the start of the connection) to its end, 1 ms to
    /// 1 h; 408 beyond. Default 10 s. What has arrived in time is read first, however late the shard comes to it.
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.header_timeout = timeout;
        self
    }

    /// Time from the head to the end of the body, 1 ms to 24 h; 408 beyond. Default 60 s. What has arrived in time is
    /// read first, as for [`Limits::header_timeout`].
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Time between requests, from the end of an answer to the first byte of the next head, 1 ms to 24 h; the
    /// connection is closed in good order then. Default 60 s. With TLS the first byte counts once its record is whole.
    ///
    /// An answer that is owed, streamed, or queued in this process is no idle time: event streams live as long as they
    /// like. Queued is what the kernel's send buffer has no room for; what it has taken counts as sent, whether the peer
    /// has read it or not, and is delivered after the close too. A request that has arrived in time is answered, however
    /// late the shard comes to read it.
    /// [`EngineConfig::idle_timeout`](crate::EngineConfig::idle_timeout) knows no requests, and ends these too.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
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
        let millisecond = Duration::from_millis(1);
        for (setting, timeout, hours, range) in [
            ("header_timeout", self.header_timeout, 1, "1 ms to 1 h"),
            ("body_timeout", self.body_timeout, 24, "1 ms to 24 h"),
            ("idle_timeout", self.idle_timeout, 24, "1 ms to 24 h"),
        ] {
            if timeout < millisecond || timeout.as_secs() > hours * 3600 {
                return Err(ConfigError::duration(setting, Some(timeout), range));
            }
        }
        Ok(())
    }
}
