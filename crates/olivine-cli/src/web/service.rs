//! What each path answers. What needs a look at the channels is asked of the desk.

use super::Pages;
use super::access::{Access, secret};
use super::answer::{Answer, EVENTS, TEXT, events};
use super::desk::{Job, Wanted};
use super::open::{JOBS_MAX, Open};
use crate::metrics::Format;
use crate::serve;
use crate::terminal::escaped;
use olivine_net::http::{Event, Http, Request, Responder, Service, StreamId};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Streams of events at one time.
const WATCHERS_MAX: usize = 64;

/// What the desk sends.
#[derive(Clone, Debug)]
pub(crate) enum Posted {
    /// To one request.
    Answer(StreamId, Answer),
    /// To every stream of events: its name and its data.
    Event(&'static str, Arc<str>),
}

/// The service of the engine's one thread.
pub(super) struct Site {
    access: Access,
    pages: Pages,
    jobs: Sender<Job>,
    open: Open,
    watchers: Vec<Watcher>,
    /// Of the last look.
    newest: Option<(&'static str, Arc<str>)>,
}

/// A stream of events.
#[derive(Debug)]
struct Watcher {
    stream: StreamId,
    /// It was too slow for the newest event.
    misses: bool,
}

impl Site {
    pub(super) fn new(access: Access, pages: Pages, jobs: Sender<Job>, open: Open) -> Self {
        Self {
            access,
            pages,
            jobs,
            open,
            watchers: Vec::new(),
            newest: None,
        }
    }

    fn route(&self, request: &Request<'_>) -> Result<Route, Answer> {
        let host = request.host();
        if !self.access.is_our_host(host) {
            let reason = format!(
                "no answers for host '{}': use an address or localhost, or start it with --host",
                escaped(host)
            );
            return Err(Answer::error(403, &reason));
        }
        let (method, path) = (request.method(), request.path());
        if !self.access.is_our_page(request) {
            let reason =
                "a page of another site or port asks: type its address, or open it from a bookmark";
            return Err(Answer::error(403, reason));
        }
        let is_all = self.pages == Pages::All;
        if is_all && path == "/login" {
            return match method {
                "POST" => Err(self.sign_in(request.body())),
                _ => Err(not_allowed("POST")),
            };
        }
        if !self.access.admits(request) {
            return Err(match path {
                "/" if is_all => sign_in_page(""),
                _ => Answer::error(
                    401,
                    "a token is missing or wrong: send it as a bearer token",
                )
                .with("WWW-Authenticate", "Bearer realm=\"olivine\""),
            });
        }
        let route = match path {
            "/metrics" => Wanted::Metrics(Format::accepted(request.header("accept"))).into(),
            "/" if !is_all => {
                return Err(Answer::new(200, TEXT, "olivine metrics: see /metrics\n"));
            }
            "/" => Wanted::Page.into(),
            "/snapshot" if is_all => Wanted::Snapshot.into(),
            "/api/v1/view" if is_all => Wanted::View.into(),
            "/api/v1/history" if is_all => Wanted::History.into(),
            "/api/v1/doctor" if is_all => Wanted::Doctor.into(),
            // Only a reader opens a stream.
            "/api/v1/events" if is_all && method == "HEAD" => {
                return Err(Answer::new(200, EVENTS, ""));
            }
            "/api/v1/events" if is_all => Route::Events,
            _ => {
                let known = match self.pages {
                    Pages::Metrics => "/metrics",
                    Pages::All => {
                        "/, /snapshot, /metrics, /api/v1/view, /api/v1/history, /api/v1/doctor, \
                         /api/v1/events"
                    }
                };
                return Err(Answer::error(404, &format!("nothing is here: try {known}")));
            }
        };
        match method {
            "GET" | "HEAD" => Ok(route),
            _ => Err(not_allowed("GET, HEAD")),
        }
    }

    fn sign_in(&self, form: &[u8]) -> Answer {
        match self.access.sign_in(form) {
            Some(cookie) => Answer::new(303, TEXT, "")
                .with("Location", "/")
                .with("Set-Cookie", cookie),
            None => sign_in_page("This is not the token."),
        }
    }

    /// Tells the desk how many streams of events there are.
    fn count(&self) {
        if self.open.set_watchers(self.watchers.len()) {
            // The desk has ended when the engine is about to.
            let _ = self.jobs.send(Job::Watchers);
        }
    }
}

enum Route {
    Events,
    Desk(Wanted),
}

impl From<Wanted> for Route {
    fn from(wanted: Wanted) -> Self {
        Self::Desk(wanted)
    }
}

fn not_allowed(allow: &'static str) -> Answer {
    let reason = format!("this path answers {allow} only: nothing can be changed here");
    Answer::error(405, &reason).with("Allow", allow)
}

fn sign_in_page(note: &str) -> Answer {
    match secret() {
        Ok(nonce) => Answer::page(401, &nonce, serve::sign_in(&nonce, note)),
        Err(_) => Answer::error(500, "the kernel gave no random bytes"),
    }
}

impl Service for Site {
    type Message = Posted;

    fn on_request(
        &mut self,
        http: &mut Http<'_, Posted>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        match self.route(request) {
            Err(answer) => answer.send(http, responder),
            Ok(Route::Desk(wanted)) => {
                if !self.open.enter() {
                    let reason = format!("{JOBS_MAX} requests wait: ask again later");
                    let answer = Answer::error(503, &reason).with("Retry-After", "1");
                    return answer.send(http, responder);
                }
                let stream = responder.later(http);
                self.open.add(stream);
                // Without a desk the engine is about to end, and the answer with it.
                let _ = self.jobs.send(Job::Answer(stream, wanted));
            }
            Ok(Route::Events) if self.watchers.len() >= WATCHERS_MAX => {
                let reason = format!("{WATCHERS_MAX} streams are open: close one");
                Answer::error(503, &reason).send(http, responder);
            }
            Ok(Route::Events) => {
                let stream = events(http, responder).ok();
                self.watchers.extend(stream.map(|stream| Watcher {
                    stream,
                    misses: false,
                }));
                self.count();
            }
        }
    }

    fn on_stream_closed(&mut self, _: &mut Http<'_, Posted>, stream: StreamId) {
        self.open.remove(stream);
        let before = self.watchers.len();
        self.watchers.retain(|watcher| watcher.stream != stream);
        if self.watchers.len() < before {
            self.count();
        }
    }

    /// A browser ends its direction only when it leaves.
    fn on_half_close(&mut self, http: &mut Http<'_, Posted>, stream: StreamId) {
        if self.watchers.iter().any(|one| one.stream == stream) {
            http.abort(stream);
            self.on_stream_closed(http, stream);
        }
    }

    /// A page that was too slow gets the newest event, not those that it missed.
    fn on_writable(&mut self, http: &mut Http<'_, Posted>, stream: StreamId) {
        let watcher = self.watchers.iter_mut().find(|one| one.stream == stream);
        let watcher = watcher.filter(|one| one.misses);
        if let (Some(watcher), Some((name, data))) = (watcher, &self.newest) {
            watcher.misses = http.event(stream, &Event::new(data).name(name)).is_err();
        }
    }

    fn on_message(&mut self, http: &mut Http<'_, Posted>, message: Posted) {
        match message {
            Posted::Answer(stream, answer) => {
                self.open.remove(stream);
                answer.send_later(http, stream);
            }
            Posted::Event(name, data) => {
                let event = Event::new(&data).name(name);
                for watcher in &mut self.watchers {
                    watcher.misses = http.event(watcher.stream, &event).is_err();
                }
                self.newest = Some((name, data));
            }
        }
    }

    fn on_stop(&mut self, http: &mut Http<'_, Posted>) {
        for watcher in self.watchers.drain(..) {
            http.finish(watcher.stream);
        }
    }
}
