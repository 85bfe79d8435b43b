//! The cases of Http11Probe by their names, with the statuses that this server answers.
//!
//! Http11Probe (github.com/MDA2AV/Http11Probe, 215 cases in 2026) sends each case over a fresh
//! connection. The requests here are written anew from its descriptions. A case of two steps is one
//! text here: both requests, one behind the other. Cases about cookies, caching and what an answer
//! says (Allow, Content-Type, 204) are in `probe_site.rs`, with an application that they test as
//! well.
//!
//! Two statuses differ from what the tool asks for, or may:
//!
//! * `COMP-HOST-EMPTY-VALUE` asks for 400. RFC 9112 3.2 has clients send an empty value where the
//!   target has no authority, so it is taken.
//! * `COMP-LEADING-CRLF`, `COMP-HTTP10-NO-HOST`, `COMP-HTTP12-VERSION`, leading zeros and spaces
//!   around lengths are within RFC 9110 and 9112, and are taken; the tool warns of them.

/// A case: its name, what is sent, and the statuses answered, in order.
pub type Case = (&'static str, &'static str, &'static [u16]);

/// Behind the request line of most cases.
macro_rules! post {
    ($fields:literal, $body:literal) => {
        concat!("POST / HTTP/1.1\r\nHost: a\r\n", $fields, "\r\n", $body)
    };
}
macro_rules! chunked {
    ($body:literal) => {
        post!("Transfer-Encoding: chunked\r\n", $body)
    };
}
macro_rules! get {
    ($fields:literal) => {
        concat!("GET / HTTP/1.1\r\n", $fields, "\r\n")
    };
}

const NEXT: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Steps that a case sends behind its first request.
pub const FOLLOWED: &[&str] = &[
    "SMUG-CLTE-CONN-CLOSE",
    "SMUG-TECL-CONN-CLOSE",
    "SMUG-CLTE-DESYNC",
    "SMUG-TECL-DESYNC",
    "SMUG-CL0-BODY-POISON",
    "SMUG-GET-CL-BODY-DESYNC",
    "SMUG-OPTIONS-CL-BODY-DESYNC",
    "SMUG-EXPECT-100-CL-DESYNC",
    "SMUG-OPTIONS-TE-OBS-FOLD",
    "SMUG-CHUNK-INVALID-SIZE-DESYNC",
    "SMUG-PIPELINE-SAFE",
];

/// What follows a case that is among [`FOLLOWED`].
pub fn follow_up(name: &str) -> &'static str {
    if FOLLOWED.contains(&name) { NEXT } else { "" }
}

/// All cases but those with texts that are made ([`made`]).
#[rustfmt::skip]
pub const CASES: &[Case] = &[
    ("COMP-BASELINE", get!("Host: a\r\n"), &[200]),
    ("RFC9112-2.2-BARE-LF-REQUEST-LINE", "GET / HTTP/1.1\nHost: a\r\n\r\n", &[400]),
    ("RFC9112-2.2-BARE-LF-HEADER", get!("Host: a\nX-Test: value\r\n"), &[400]),
    ("RFC9112-5.1-OBS-FOLD", get!("Host: a\r\nX-Test: value\r\n continued\r\n"), &[400]),
    ("RFC9110-5.6.2-SP-BEFORE-COLON", get!("Host: a\r\nX-Test : value\r\n"), &[400]),
    ("RFC9112-3-MULTI-SP-REQUEST-LINE", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
    ("RFC9112-7.1-MISSING-HOST", get!(""), &[400]),
    ("RFC9112-2.3-INVALID-VERSION", "GET / HTTP/9.9\r\nHost: a\r\n\r\n", &[505]),
    ("RFC9112-5-EMPTY-HEADER-NAME", get!("Host: a\r\n: empty-name\r\n"), &[400]),
    ("RFC9112-3-CR-ONLY-LINE-ENDING", "GET / HTTP/1.1\rHost: a\r\n\r\n", &[400]),
    ("RFC9112-3-MISSING-TARGET", "GET HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
    ("RFC9112-3.2-FRAGMENT-IN-TARGET", "GET /path#frag HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
    ("RFC9112-2.3-HTTP09-REQUEST", "GET /\r\n", &[400]),
    ("RFC9112-5-INVALID-HEADER-NAME", get!("Host: a\r\nBad[Name: value\r\n"), &[400]),
    ("RFC9112-5-HEADER-NO-COLON", get!("Host: a\r\nNoColonHere\r\n"), &[400]),
    ("RFC9110-5.4-DUPLICATE-HOST", get!("Host: a\r\nHost: other.example.com\r\n"), &[400]),
    ("RFC9112-6.1-CL-NON-NUMERIC", post!("Content-Length: abc\r\n", ""), &[400]),
    ("RFC9112-6.1-CL-PLUS-SIGN", post!("Content-Length: +5\r\n", "hello"), &[400]),
    ("COMP-WHITESPACE-BEFORE-HEADERS", get!(" \r\nHost: a\r\n"), &[400]),
    ("COMP-DUPLICATE-HOST-SAME", get!("Host: a\r\nHost: a\r\n"), &[400]),
    ("COMP-HOST-WITH-USERINFO", get!("Host: user@a\r\n"), &[400]),
    ("COMP-HOST-WITH-PATH", get!("Host: a/path\r\n"), &[400]),
    ("COMP-HOST-EMPTY-VALUE", get!("Host: \r\n"), &[200]),
    ("COMP-ASTERISK-WITH-GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
    ("COMP-OPTIONS-STAR", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
    ("COMP-UNKNOWN-TE-501", post!("Transfer-Encoding: gzip\r\n", ""), &[400]),
    ("COMP-LEADING-CRLF", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
    ("COMP-ABSOLUTE-FORM", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
    ("COMP-POST-CL-BODY", post!("Content-Length: 5\r\n", "hello"), &[200]),
    ("COMP-POST-CL-ZERO", post!("Content-Length: 0\r\n", ""), &[200]),
    ("COMP-POST-NO-CL-NO-TE", post!("", ""), &[200]),
    ("COMP-POST-CL-UNDERSEND", post!("Content-Length: 10\r\n", "hello"), &[]),
    ("COMP-CHUNKED-BODY", chunked!("5\r\nhello\r\n0\r\n\r\n"), &[200]),
    ("COMP-CHUNKED-MULTI", chunked!("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"), &[200]),
    ("COMP-CHUNKED-EMPTY", chunked!("0\r\n\r\n"), &[200]),
    ("COMP-CHUNKED-NO-FINAL", chunked!("5\r\nhello\r\n"), &[]),
    ("COMP-CHUNKED-EXTENSION", chunked!("5;ext=value\r\nhello\r\n0\r\n\r\n"), &[200]),
    ("COMP-CHUNKED-TRAILER-VALID", chunked!("5\r\nhello\r\n0\r\nX-Checksum: abc\r\n\r\n"), &[200]),
    ("COMP-CHUNKED-HEX-UPPERCASE", chunked!("A\r\nhelloworld\r\n0\r\n\r\n"), &[200]),
    ("COMP-METHOD-CONNECT", "CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", &[501]),
    ("COMP-EXPECT-UNKNOWN", get!("Host: a\r\nExpect: 200-ok\r\n"), &[417]),
    ("COMP-GET-WITH-CL-BODY",
     "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", &[200]),
    ("COMP-REQUEST-LINE-TAB", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
    ("COMP-VERSION-MISSING-MINOR", "GET / HTTP/1\r\nHost: a\r\n\r\n", &[400]),
    ("COMP-VERSION-LEADING-ZEROS", "GET / HTTP/01.01\r\nHost: a\r\n\r\n", &[400]),
    ("COMP-VERSION-WHITESPACE", "GET / HTTP/ 1.1\r\nHost: a\r\n\r\n", &[400]),
    ("COMP-VERSION-CASE", "GET / http/1.1\r\nHost: a\r\n\r\n", &[400]),
    ("COMP-CONNECTION-CLOSE", get!("Host: a\r\nConnection: close\r\n"), &[200]),
    ("COMP-HTTP10-DEFAULT-CLOSE", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", &[200]),
    ("COMP-HTTP10-NO-HOST", "GET / HTTP/1.0\r\n\r\n", &[200]),
    ("COMP-HTTP12-VERSION", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", &[200]),
    ("COMP-NO-1XX-HTTP10",
     "POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
     &[200]),
    ("COMP-SPACE-IN-TARGET", "GET /pa th HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
    ("WS-UPGRADE-HTTP10",
     "GET / HTTP/1.0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", &[200]),
    ("WS-UPGRADE-MISSING-CONN", get!("Host: a\r\nUpgrade: websocket\r\n"), &[200]),

    ("SMUG-CL-TE-BOTH", post!("Content-Length: 23\r\nTransfer-Encoding: chunked\r\n",
     "D\r\nhello-bananas\r\n0\r\n\r\n"), &[400]),
    ("SMUG-DUPLICATE-CL",
     post!("Content-Length: 5\r\nContent-Length: 10\r\n", "helloworld"), &[400]),
    ("SMUG-CL-LEADING-ZEROS", post!("Content-Length: 005\r\n", "hello"), &[200]),
    ("SMUG-TE-XCHUNKED",
     post!("Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-TE-TRAILING-SPACE",
     post!("Transfer-Encoding: chunked \r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-TE-SP-BEFORE-COLON",
     post!("Transfer-Encoding : chunked\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-CL-NEGATIVE", post!("Content-Length: -1\r\n", ""), &[400]),
    ("SMUG-CLTE-PIPELINE",
     post!("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), &[400]),
    ("SMUG-TECL-PIPELINE",
     post!("Transfer-Encoding: chunked\r\nContent-Length: 30\r\n", "0\r\n\r\n"), &[400]),
    ("SMUG-CL-TRAILING-SPACE", post!("Content-Length: 5 \r\n", "hello"), &[200]),
    ("SMUG-TE-DOUBLE-CHUNKED",
     post!("Transfer-Encoding: chunked, chunked\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-CL-EXTRA-LEADING-SP", post!("Content-Length:  5\r\n", "hello"), &[200]),
    ("SMUG-TE-CASE-MISMATCH",
     post!("Transfer-Encoding: Chunked\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-CL-COMMA-DIFFERENT", post!("Content-Length: 5, 10\r\n", "hello"), &[400]),
    ("SMUG-CL-COMMA-SAME", post!("Content-Length: 5, 5\r\n", "hello"), &[400]),
    ("SMUG-CL-COMMA-TRIPLE", post!("Content-Length: 5, 5, 5\r\n", "hello"), &[400]),
    ("SMUG-TE-NOT-FINAL-CHUNKED",
     post!("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"), &[400]),
    ("SMUG-TE-HTTP10",
     "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello",
     &[400]),
    ("SMUG-CHUNK-BARE-SEMICOLON", chunked!("5;\r\nhello\r\n0\r\n\r\n"), &[400]),
    ("SMUG-CHUNK-EXT-INVALID-TOKEN", chunked!("5;bad[=x\r\nhello\r\n0\r\n\r\n"), &[400]),
    ("SMUG-BARE-CR-HEADER-VALUE",
     post!("Content-Length: 5\r\nX-Test: val\rue\r\n", "hello"), &[400]),
    ("SMUG-CL-OCTAL", post!("Content-Length: 0o5\r\n", "hello"), &[400]),
    ("SMUG-CHUNK-UNDERSCORE", chunked!("1_0\r\nhello world!!!!!\r\n0\r\n\r\n"), &[400]),
    ("SMUG-TE-EMPTY-VALUE", post!("Transfer-Encoding: \r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-TE-LEADING-COMMA",
     post!("Transfer-Encoding: , chunked\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-TE-DUPLICATE-HEADERS",
     post!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n",
           "hello"), &[400]),
    ("SMUG-CHUNK-HEX-PREFIX", chunked!("0x5\r\nhello\r\n0\r\n\r\n"), &[400]),
    ("SMUG-CHUNK-SIZE-PLUS", chunked!("+5\r\nhello\r\n0\r\n\r\n"), &[400]),
    ("SMUG-CHUNK-SIZE-TRAILING-OWS", chunked!("5 \r\nhello\r\n0\r\n\r\n"), &[400]),
    ("SMUG-CL-HEX-PREFIX", post!("Content-Length: 0x5\r\n", "hello"), &[400]),
    ("SMUG-CL-INTERNAL-SPACE", post!("Content-Length: 1 0\r\n", "hello12345"), &[400]),
    ("SMUG-CHUNK-LEADING-SP", chunked!(" 5\r\nhello\r\n0\r\n\r\n"), &[400]),
    ("SMUG-CHUNK-MISSING-TRAILING-CRLF", chunked!("5\r\nhello0\r\n\r\n"), &[400]),
    ("SMUG-CHUNK-EXT-LF", chunked!("5;\nhello\r\n0\r\n\r\n"), &[400]),
    ("SMUG-CHUNK-SPILL", chunked!("5\r\nhello!!\r\n0\r\n\r\n"), &[400]),
    ("SMUG-CHUNK-LF-TERM", chunked!("5\r\nhello\n0\r\n\r\n"), &[400]),
    ("SMUG-CHUNK-EXT-CTRL", chunked!("5;\0ext\r\nhello\r\n0\r\n\r\n"), &[400]),
    ("SMUG-CHUNK-EXT-CR", chunked!("5;a\rX\r\nhello\r\n0\r\n\r\n"), &[400]),
    ("SMUG-CHUNK-BARE-CR-TERM", chunked!("5\rhello\r\n0\r\n\r\n"), &[400]),
    ("SMUG-TE-VTAB",
     post!("Transfer-Encoding: \x0bchunked\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-TE-FORMFEED",
     post!("Transfer-Encoding: \x0cchunked\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-TE-NULL",
     post!("Transfer-Encoding: chunked\0\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-CHUNK-LF-TRAILER", chunked!("5\r\nhello\r\n0\r\n\n"), &[400]),
    ("SMUG-TE-IDENTITY",
     post!("Transfer-Encoding: identity\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-CHUNK-NEGATIVE", chunked!("-1\r\nhello\r\n0\r\n\r\n"), &[400]),
    // Another name, which the server does not know: the length counts.
    ("SMUG-TRANSFER_ENCODING",
     post!("Transfer_Encoding: chunked\r\nContent-Length: 5\r\n", "hello"), &[200]),
    ("SMUG-CHUNKED-WITH-PARAMS",
     post!("Transfer-Encoding: chunked;ext=val\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-EXPECT-100-CL",
     post!("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello"), &[200]),
    ("SMUG-TRAILER-CL", chunked!("5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n"), &[200]),
    ("SMUG-TRAILER-TE", chunked!("5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"), &[200]),
    ("SMUG-TRAILER-HOST", chunked!("5\r\nhello\r\n0\r\nHost: evil.example.com\r\n\r\n"), &[200]),
    ("SMUG-TRAILER-AUTH", chunked!("5\r\nhello\r\n0\r\nAuthorization: x\r\n\r\n"), &[200]),
    ("SMUG-TRAILER-CONTENT-TYPE",
     chunked!("5\r\nhello\r\n0\r\nContent-Type: text/evil\r\n\r\n"), &[200]),
    ("SMUG-OPTIONS-CL-BODY",
     "OPTIONS / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", &[200]),
    ("SMUG-CL-UNDERSCORE", post!("Content-Length: 1_0\r\n", "helloworld"), &[400]),
    ("SMUG-CL-NEGATIVE-ZERO", post!("Content-Length: -0\r\n", ""), &[400]),
    ("SMUG-CL-DOUBLE-ZERO", post!("Content-Length: 00\r\n", ""), &[200]),
    ("SMUG-TE-OBS-FOLD",
     post!("Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-TE-TRAILING-COMMA",
     post!("Transfer-Encoding: chunked,\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-TE-TAB-BEFORE-VALUE",
     post!("Transfer-Encoding:\tchunked\r\nContent-Length: 5\r\n", "hello"), &[400]),
    ("SMUG-ABSOLUTE-URI-HOST-MISMATCH",
     "GET http://other.example.com/ HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
    ("SMUG-MULTIPLE-HOST-COMMA", get!("Host: a, other.example.com\r\n"), &[400]),
    ("SMUG-CLTE-CONN-CLOSE",
     post!("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), &[400]),
    ("SMUG-TECL-CONN-CLOSE",
     post!("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), &[400]),
    ("SMUG-CLTE-DESYNC",
     post!("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nX"), &[400]),
    ("SMUG-TECL-DESYNC",
     post!("Transfer-Encoding: chunked\r\nContent-Length: 30\r\n", "0\r\n\r\nX"), &[400]),
    ("SMUG-CLTE-SMUGGLED-GET",
     post!("Content-Length: 32\r\nTransfer-Encoding: chunked\r\n",
           "0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[400]),
    ("SMUG-CLTE-SMUGGLED-GET-CL-PLUS",
     post!("Content-Length: +32\r\nTransfer-Encoding: chunked\r\n",
           "0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[400]),
    ("SMUG-CLTE-SMUGGLED-GET-CL-NON-NUMERIC",
     post!("Content-Length: 32x\r\nTransfer-Encoding: chunked\r\n",
           "0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[400]),
    ("SMUG-CLTE-SMUGGLED-GET-TE-OBS-FOLD",
     post!("Transfer-Encoding:\r\n chunked\r\nContent-Length: 32\r\n",
           "0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[400]),
    ("SMUG-CLTE-SMUGGLED-HEAD",
     post!("Content-Length: 33\r\nTransfer-Encoding: chunked\r\n",
           "0\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\n"), &[400]),
    ("SMUG-CLTE-SMUGGLED-GET-TE-TRAILING-SPACE",
     post!("Content-Length: 32\r\nTransfer-Encoding: chunked \r\n",
           "0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[400]),
    ("SMUG-CLTE-SMUGGLED-GET-TE-LEADING-COMMA",
     post!("Content-Length: 32\r\nTransfer-Encoding: , chunked\r\n",
           "0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[400]),
    ("SMUG-CLTE-SMUGGLED-GET-TE-CASE-MISMATCH",
     post!("Content-Length: 32\r\nTransfer-Encoding: Chunked\r\n",
           "0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[400]),
    ("SMUG-TE-DUPLICATE-HEADERS-SMUGGLED-GET",
     post!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nContent-Length: 32\r\n",
           "0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[400]),
    ("SMUG-TECL-SMUGGLED-GET",
     post!("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
           "2e\r\nGET / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n\r\n0\r\n\r\n"), &[400]),
    ("SMUG-DUPLICATE-CL-SMUGGLED-GET",
     post!("Content-Length: 4\r\nContent-Length: 31\r\n",
           "PINGGET / HTTP/1.1\r\nHost: a\r\n\r\n"), &[400]),
    ("SMUG-GET-CL-PREFIX-DESYNC",
     "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 25\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\
      \r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", &[200, 200]),
    ("SMUG-CL0-BODY-POISON", post!("Content-Length: 0\r\n", "X"), &[200, 200]),
    ("SMUG-GET-CL-BODY-DESYNC",
     "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", &[200, 200]),
    ("SMUG-OPTIONS-CL-BODY-DESYNC",
     "OPTIONS / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", &[200, 200]),
    ("SMUG-EXPECT-100-CL-DESYNC",
     post!("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello"), &[200, 200]),
    ("SMUG-OPTIONS-TE-OBS-FOLD",
     "OPTIONS / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n\
      hello", &[400]),
    ("SMUG-CHUNK-INVALID-SIZE-DESYNC", chunked!("+0\r\n\r\nX"), &[400]),
    ("SMUG-PIPELINE-SAFE", get!("Host: a\r\n"), &[200, 200]),

    ("MAL-NUL-IN-URL", "GET /\0test HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
    ("MAL-CONTROL-CHARS-HEADER", get!("Host: a\r\nX-Test: abc\x07\x08\x0bdef\r\n"), &[400]),
    ("MAL-INCOMPLETE-REQUEST", "GET / HTTP/1.1\r\nHost: a\r\nX-Test: value", &[]),
    ("MAL-EMPTY-REQUEST", "", &[]),
    ("MAL-NON-ASCII-HEADER-NAME", get!("Host: a\r\nX-T\u{eb}st: value\r\n"), &[400]),
    ("MAL-NON-ASCII-URL", "GET /caf\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
    ("MAL-CL-OVERFLOW", post!("Content-Length: 99999999999999999999\r\n", ""), &[400]),
    ("MAL-WHITESPACE-ONLY-LINE", "   \r\n\r\n", &[400]),
    ("MAL-NUL-IN-HEADER-VALUE", get!("Host: a\r\nX-Test: val\0ue\r\n"), &[400]),
    ("MAL-CHUNK-SIZE-OVERFLOW", chunked!("FFFFFFFFFFFFFFFF0\r\nhello\r\n0\r\n\r\n"), &[400]),
    ("MAL-H2-PREFACE", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[505]),
    ("MAL-CL-EMPTY", post!("Content-Length: \r\n", ""), &[400]),
    ("MAL-CL-TAB-BEFORE-VALUE", post!("Content-Length:\t5\r\n", "hello"), &[200]),
    ("MAL-POST-CL-HUGE-NO-BODY", post!("Content-Length: 999999999\r\n", ""), &[413]),

    ("NORM-SP-BEFORE-COLON-CL", post!("Content-Length : 5\r\n", "hello"), &[400]),
    ("NORM-TAB-IN-NAME", post!("Content\tLength: 5\r\n", "hello"), &[400]),
    ("NORM-CASE-TE",
     post!("TRANSFER-ENCODING: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"), &[200]),
    // Other fields: neither has a meaning here.
    ("NORM-UNDERSCORE-CL", post!("Content_Length: 99\r\n", ""), &[200]),
    ("NORM-UNDERSCORE-TE",
     post!("Transfer_Encoding: chunked\r\nContent-Length: 5\r\n", "hello"), &[200]),
    ("SMUG-HEAD-CL-BODY",
     "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", &[200]),
    ("SMUG-HEADER-INJECTION", get!("Host: a\r\nTest: val\r\nInjected: yes\r\n"), &[200]),

    // What is well-formed and for the service to judge: all of it arrives there.
    ("COMP-HEAD-NO-BODY", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
    ("COMP-DATE-HEADER", get!("Host: a\r\n"), &[200]),
    ("COMP-METHOD-CASE", "get / HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
    ("COMP-METHOD-TRACE", "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
    ("COMP-TRACE-WITH-BODY",
     "TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", &[200]),
    ("COMP-UNKNOWN-METHOD", "FOOBAR / HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
    ("WS-UPGRADE-POST",
     post!("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", ""),
     &[200]),
    ("WS-UPGRADE-UNKNOWN",
     get!("Host: a\r\nConnection: Upgrade\r\nUpgrade: totally-made-up/1.0\r\n"), &[200]),
    ("WS-UPGRADE-INVALID-VER",
     get!("Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
           Sec-WebSocket-Version: 99\r\n"), &[200]),
    ("COMP-ACCEPT-NONSENSE", get!("Host: a\r\nAccept: nonsense\r\n"), &[200]),
    ("COMP-DUPLICATE-CT",
     post!("Content-Type: text/plain\r\nContent-Type: text/html\r\nContent-Length: 5\r\n",
           "hello"), &[200]),
    ("COMP-POST-UNSUPPORTED-CT",
     post!("Content-Type: application/x-nonsense\r\nContent-Length: 5\r\n", "hello"), &[200]),
    ("COMP-RANGE-POST", post!("Range: bytes=0-10\r\nContent-Length: 5\r\n", "hello"), &[200]),
    ("COMP-RANGE-INVALID", get!("Host: a\r\nRange: bytes=abc-xyz\r\n"), &[200]),
    ("MAL-RANGE-OVERLAPPING", get!("Host: a\r\nRange: bytes=0-,0-,0-,0-,0-\r\n"), &[200]),
    ("MAL-URL-BACKSLASH", "GET /path\\file HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
    ("MAL-URL-PERCENT-NULL", "GET /path%00.html HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
    ("MAL-URL-PERCENT-CRLF",
     "GET /path%0d%0aX-Injected:%20true HTTP/1.1\r\nHost: a\r\n\r\n", &[200]),
    ("COMP-CONNECT-EMPTY-PORT", "CONNECT a: HTTP/1.1\r\nHost: a:\r\n\r\n", &[501]),
    ("COMP-CONNECT-ORIGIN-FORM", "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", &[501]),
    ("COMP-METHOD-CONNECT-NO-PORT", "CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", &[501]),
];

/// Cases whose text is long or any: name, bytes, statuses.
pub fn made() -> Vec<(&'static str, Vec<u8>, &'static [u16])> {
    let long = |bytes: usize| "A".repeat(bytes);
    let request = |line: String| format!("{line}Host: a\r\n\r\n").into_bytes();
    let mut many = "GET / HTTP/1.1\r\nHost: a\r\n".to_owned();
    (0..10_000).for_each(|n| many += &format!("X-H-{n}: value\r\n"));
    let garbage = (0..=u8::MAX)
        .map(|n| n.wrapping_mul(167).wrapping_add(91))
        .collect();
    let extension = format!("{};ext={}\r\n", chunked!("5"), long(65_536));
    let octal = format!("{}{}", post!("Content-Length: 0200\r\n", ""), long(200));
    vec![
        ("MAL-BINARY-GARBAGE", garbage, &[400]),
        (
            "MAL-URL-OVERLONG-UTF8",
            b"GET /\xc0\xaf HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            &[400],
        ),
        (
            "MAL-LONG-URL",
            request(format!("GET /{} HTTP/1.1\r\n", long(100_000))),
            &[414],
        ),
        (
            "COMP-LONG-URL-OK",
            request(format!("GET /{} HTTP/1.1\r\n", long(7900))),
            &[200],
        ),
        (
            "MAL-LONG-HEADER-VALUE",
            request(format!("GET / HTTP/1.1\r\nX-Big: {}\r\n", long(100_000))),
            &[431],
        ),
        (
            "MAL-LONG-HEADER-NAME",
            request(format!("GET / HTTP/1.1\r\n{}: val\r\n", long(100_000))),
            &[431],
        ),
        (
            "MAL-LONG-METHOD",
            request(format!("{} / HTTP/1.1\r\n", long(100_000))),
            &[400],
        ),
        ("MAL-MANY-HEADERS", (many + "\r\n").into_bytes(), &[431]),
        ("MAL-CHUNK-EXT-64K", extension.into_bytes(), &[400]),
        ("SMUG-CL-LEADING-ZEROS-OCTAL", octal.into_bytes(), &[200]),
    ]
}
