//! The cases of Http11Probe about what a site answers, by their names: cookies, caching, and the
//! fields of an answer.
//!
//! A site sets most of it, beside the server: which methods it has, what it makes of a cookie,
//! whether it answers by 304. The site here has no validators, so a condition has no effect on it;
//! it shows the cookies that arrive.

/// A case: its name, what is sent, and for each answer its status and a text that is in it.
pub type Case = (&'static str, String, Vec<(u16, &'static str)>);

/// What the site answers with to other methods.
pub const ALLOW: &str = "Allow: GET, OPTIONS";

const TEXT: &str = "Content-Type: text/plain";
const NEXT: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn request(method: &str, fields: &str) -> String {
    format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// All of them.
pub fn cases() -> Vec<Case> {
    let answers = [
        ("COMP-405-ALLOW", "DELETE", "", 405, ALLOW),
        ("COMP-CONTENT-TYPE", "GET", "", 200, TEXT),
        ("COMP-DATE-FORMAT", "GET", "", 200, "Date: "),
        ("COMP-NO-CL-IN-204", "OPTIONS", "", 204, ALLOW),
        ("COMP-OPTIONS-ALLOW", "OPTIONS", "", 204, ALLOW),
        // Not sent back.
        (
            "COMP-TRACE-SENSITIVE",
            "TRACE",
            "Authorization: Bearer secret\r\n",
            405,
            ALLOW,
        ),
    ];
    let answers = answers.map(|(name, method, fields, status, part)| {
        (name, request(method, fields), vec![(status, part)])
    });
    let many: Vec<String> = (0..1000).map(|n| format!("k{n}=v{n}")).collect();
    let large = format!("big={}", "A".repeat(65_536));
    let cookies = [
        ("COOK-ECHO", "foo=bar", 200, "foo=bar"),
        ("COOK-OVERSIZED", &large, 431, ""),
        ("COOK-EMPTY", "", 200, TEXT),
        ("COOK-NUL", "foo=\0bar", 400, ""),
        ("COOK-CONTROL-CHARS", "foo=\x01\x02\x03", 400, ""),
        // 11 KiB: a line of a head has at most 8 by default.
        ("COOK-MANY-PAIRS", &many.join("; "), 431, ""),
        ("COOK-MALFORMED", "===;;;", 200, "===;;;"),
        ("COOK-MULTI-HEADER", "a=1\r\nCookie: b=2", 200, "a=1\nb=2\n"),
        ("COOK-PARSED-BASIC", "foo=bar", 200, "foo=bar"),
        ("COOK-PARSED-MULTI", "a=1; b=2; c=3", 200, "a=1; b=2; c=3"),
        ("COOK-PARSED-EMPTY-VAL", "foo=", 200, "foo="),
        (
            "COOK-PARSED-SPECIAL",
            "a=hello world; b=x=y",
            200,
            "a=hello world; b=x=y",
        ),
    ];
    let cookies = cookies.map(|(name, cookie, status, part)| {
        (
            name,
            request("GET", &format!("Cookie: {cookie}\r\n")),
            vec![(status, part)],
        )
    });
    let conditions = [
        ("CAP-ETAG-304", "If-None-Match: \"one\""),
        (
            "CAP-LAST-MODIFIED-304",
            "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        ),
        ("CAP-ETAG-IN-304", "If-None-Match: \"one\""),
        (
            "CAP-INM-PRECEDENCE",
            "If-None-Match: \"other\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        ),
        ("CAP-INM-WILDCARD", "If-None-Match: *"),
        (
            "CAP-IMS-FUTURE",
            "If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT",
        ),
        ("CAP-IMS-INVALID", "If-Modified-Since: not-a-date"),
        ("CAP-INM-UNQUOTED", "If-None-Match: one"),
        ("CAP-ETAG-WEAK", "If-None-Match: W/\"one\""),
    ];
    let conditions = conditions.map(|(name, field)| {
        let second = request("GET", &format!("{field}\r\n"));
        (
            name,
            format!("{NEXT}{second}"),
            vec![(200, TEXT), (200, TEXT)],
        )
    });
    answers
        .into_iter()
        .chain(cookies)
        .chain(conditions)
        .collect()
}
