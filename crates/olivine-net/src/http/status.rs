//! Status codes, and the requests that the server refuses without the service.

use crate::health::ShardCounters;

/// Why a request is refused without asking the service, or in place of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// 400: not of the form `method SP target SP HTTP/1.x CR LF`.
    RequestLine,
    /// 400: a header line that is not `name: value CR LF`.
    Field,
    /// 400: no Host, several, or a Host that RFC 3986 does not allow.
    Host,
    /// 400: the body's length is unclear: several or malformed lengths, a length and a coding, a
    /// coding whose end is not known.
    Length,
    /// 400: a malformed chunk or trailer.
    Chunk,
    /// 505: a version other than 1.x.
    Version,
    /// 501: a transfer coding or a method that the server does not know.
    NotImplemented,
    /// 414: a request line longer than [`Limits::line_bytes_max`](super::Limits::line_bytes_max).
    TargetTooLong,
    /// 431: a header line or a head longer than allowed.
    HeadTooLong,
    /// 431: more than [`Limits::headers_max`](super::Limits::headers_max) fields.
    HeadersTooMany,
    /// 413: a body longer than allowed.
    BodyTooLong,
    /// 503: the shard holds as much of other bodies as it may.
    BodiesTooMany,
    /// 417: an expectation other than `100-continue`.
    Expectation,
    /// 408: the request took too long to arrive, or its body came too slowly.
    Timeout,
    /// The status that [`Service::on_head`](super::Service::on_head) chose.
    Service(u16),
}

impl Refusal {
    /// The status that the peer gets.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::RequestLine | Self::Field | Self::Host | Self::Length | Self::Chunk => 400,
            Self::Timeout => 408,
            Self::BodyTooLong => 413,
            Self::TargetTooLong => 414,
            Self::Expectation => 417,
            Self::HeadTooLong | Self::HeadersTooMany => 431,
            Self::NotImplemented => 501,
            Self::BodiesTooMany => 503,
            Self::Version => 505,
            Self::Service(status) => status,
        }
    }

    /// Adds one to the counters of refusals.
    pub(super) fn count(self, counters: &ShardCounters) {
        counters.refused_requests.add(1);
        let of_kind = match self {
            Self::Timeout => &counters.refused_slow,
            Self::BodiesTooMany => &counters.refused_memory,
            Self::TargetTooLong | Self::HeadTooLong | Self::HeadersTooMany | Self::BodyTooLong => {
                &counters.refused_large
            }
            Self::Service(_) => &counters.refused_service,
            _ => &counters.refused_malformed,
        };
        of_kind.add(1);
    }
}

/// The phrase that goes with a status code; empty for those without a registered one.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}
