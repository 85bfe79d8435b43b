//! Answers with the header fields that keep a browser from doing more with them than showing them.

use olivine_net::http::{AnswerError, Http, Responder, StreamId};

/// An answer that is complete.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    /// Beside those of every answer.
    pub(crate) more: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const EVENTS: &str = "text/event-stream";

/// What a browser may do with anything but a page: nothing.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";
const POLICY: &str = "Content-Security-Policy";
const ALWAYS: [(&str, &str); 6] = [
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    // What is shown is of this moment, and may be secret.
    ("Cache-Control", "no-store"),
];

impl Answer {
    pub(crate) fn new(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            content_type,
            more: Vec::new(),
            body: body.into(),
        }
    }

    /// A refusal or failure, for programs.
    pub(crate) fn error(status: u16, reason: &str) -> Self {
        let body = serde_json::json!({ "error": reason });
        Self::new(status, JSON, body.to_string())
    }

    /// A page whose scripts and styles have this nonce.
    pub(crate) fn page(status: u16, nonce: &str, body: String) -> Self {
        let policy = format!(
            "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
             connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; \
             frame-ancestors 'none'"
        );
        Self::new(status, HTML, body).with(POLICY, policy)
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.more.push((name, value.into()));
        self
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = vec![("Content-Type", self.content_type)];
        headers.extend(ALWAYS);
        if self.more.iter().all(|(name, _)| *name != POLICY) {
            headers.push((POLICY, NOTHING));
        }
        headers.extend(self.more.iter().map(|(name, value)| (*name, &**value)));
        headers
    }

    pub(crate) fn send<M>(&self, http: &mut Http<'_, M>, responder: Responder<'_>) {
        // The peer gets 500 if a field cannot be sent; all of them are our text.
        let _ = responder.send(http, self.status, &self.headers(), &self.body);
    }

    pub(crate) fn send_later<M>(&self, http: &mut Http<'_, M>, stream: StreamId) {
        let _ = http.respond(stream, self.status, &self.headers(), &self.body);
    }
}

/// Begins a stream of events.
pub(crate) fn events<M>(
    http: &mut Http<'_, M>,
    responder: Responder<'_>,
) -> Result<StreamId, AnswerError> {
    responder.stream(http, 200, &Answer::new(200, EVENTS, "").headers())
}
