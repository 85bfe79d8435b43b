//! Status codes, and the requests that the server refuses without the service.

/// Why a request is refused without asking the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reject {
    /// Not of the form `method SP target SP HTTP/1.x CR LF`.
    RequestLine,
    /// A header line that is not `name: value CR LF`.
    Field,
    /// No Host, several, or one with impossible bytes.
    Host,
    /// The body's length is unclear: several or malformed lengths, both kinds, a coding we cannot
    /// end.
    Length,
    /// A malformed chunk.
    Chunk,
    /// A version other than 1.x.
    Version,
    /// A transfer coding or a method we do not do.
    NotImplemented,
    TargetTooLong,
    HeadTooLong,
    HeadersTooMany,
    BodyTooLong,
    /// The shard holds as much of other bodies as it may.
    BodiesTooMany,
    /// An expectation other than `100-continue`.
    Expectation,
    /// The request took too long to arrive.
    Timeout,
}

impl Reject {
    pub(crate) fn status(self) -> u16 {
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
        }
    }
}

/// The phrase that goes with a status code; empty for those without a registered one.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
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
