//! Looks at the channels for the server, only while a page or a scrape waits for them.
//!
//! The page's looks come at a fixed interval, a scrape's when it is asked. They have separate
//! trackers, so that a scrape does not shorten the time that the page's rates are of.

use super::answer::{Answer, JSON};
use super::open::Open;
use super::service::Posted;
use crate::failure::{Failure, Outcome};
use crate::metrics::{Format, Meter};
use crate::output::json_line;
use crate::serve::history::{History, unix_ms};
use crate::serve::page::{self, Source};
use crate::stop::{LOOK, Stop};
use crate::watch::view::View;
use crate::watch::{FIRST_WINDOW, Watch};
use crate::{doctor, failure};
use olivine_net::http::StreamId;
use serde::Serialize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long the checks of the machine are shown before they are made again.
const DOCTOR_AGE_MAX: Duration = Duration::from_secs(30);
/// Without a look for this long, and for a few intervals, rates begin anew: those of a long pause
/// would say little about now.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The channels stay open for this long at most between looks.
const KEEP_MAX: Duration = Duration::from_secs(60);

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Page,
    Snapshot,
    View,
    History,
    Doctor,
    Metrics(Format),
}

/// What the engine's thread asks of the desk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    Answer(StreamId, Wanted),
    /// The number of streams of events is another one.
    Watchers,
}

/// The newest look of the page.
struct Seen {
    at: Instant,
    /// In milliseconds since 1970.
    at_ms: u64,
    view: View,
}

/// The JSON form of a look.
#[derive(Serialize)]
struct Shown<'a> {
    at_unix_ms: u64,
    #[serde(flatten)]
    view: &'a View,
}

impl Seen {
    fn json(&self) -> Outcome<String> {
        json_line(&Shown {
            at_unix_ms: self.at_ms,
            view: &self.view,
        })
    }
}

/// Looks, and writes what was seen.
pub(crate) struct Desk {
    watch: Watch,
    meter: Meter,
    interval: Duration,
    history: History,
    seen: Option<Seen>,
    /// Why the newest look of the page failed.
    failure: Option<String>,
    /// When the page looked last, and when the page or a scrape did.
    tried: Option<Instant>,
    used: Used,
    doctor: Option<(Instant, Arc<str>)>,
    watchers: usize,
    /// Requests that wait for the second of two looks.
    waiting: Vec<(StreamId, Wanted)>,
    /// When the next look is due; `None` while no page waits for it.
    next: Option<Instant>,
}

impl Desk {
    pub(crate) fn new(watch: Watch, interval: Duration) -> Self {
        Self {
            meter: Meter::new(&watch, true),
            watch,
            interval,
            history: History::default(),
            seen: None,
            failure: None,
            tried: None,
            used: Used::default(),
            doctor: None,
            watchers: 0,
            waiting: Vec::new(),
            next: None,
        }
    }

    /// Serves jobs until it is to stop.
    ///
    /// # Errors
    ///
    /// If the engine's thread has ended.
    pub(super) fn serve(
        &mut self,
        stop: &Stop,
        jobs: &Receiver<Job>,
        open: &Open,
        post: impl Fn(Posted) -> Outcome,
    ) -> Outcome {
        while !stop.now() {
            let left = self
                .next
                .map_or(LOOK, |next| next.saturating_duration_since(Instant::now()));
            match jobs.recv_timeout(left.min(LOOK)) {
                Ok(Job::Watchers) => self.set_watchers(open.watchers()),
                Ok(Job::Answer(stream, _)) if !open.leave(stream) => {}
                Ok(Job::Answer(stream, wanted)) => {
                    if let Some(answer) = self.answer(stream, wanted) {
                        post(Posted::Answer(stream, answer))?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::failed("the thread that serves pages has ended"));
                }
            }
            if self.next.is_some_and(|next| next <= Instant::now()) {
                self.tick(&post, open)?;
            }
            if self.used.is_over() {
                self.watch.release();
            }
        }
        Ok(())
    }

    fn set_watchers(&mut self, count: usize) {
        self.watchers = count;
        if count == 0 && self.waiting.is_empty() {
            self.next = None;
        } else if self.next.is_none() {
            if self.is_over() {
                // The first of two. If it fails, so does the next, which is reported.
                let _ = self.look();
            }
            self.soon();
        }
    }

    /// Plans the look that gives the first rates, or the next ones.
    fn soon(&mut self) {
        let window = match self.is_fresh() {
            true => self.interval,
            false => self.interval.min(FIRST_WINDOW),
        };
        self.next = Some(Instant::now() + window);
    }

    /// Whether the newest look is one of a series that goes on, and did not fail.
    fn is_fresh(&self) -> bool {
        let limit = self.interval + self.interval.min(FIRST_WINDOW);
        let is_new = |seen: &Seen| seen.at.elapsed() <= limit && seen.view.window_ns.is_some();
        self.failure.is_none() && self.seen.as_ref().is_some_and(is_new)
    }

    /// Whether the newest look, if there is any, was before a long pause.
    fn is_over(&self) -> bool {
        let limit = PAUSE_MAX.max(self.interval * 3);
        self.tried.is_none_or(|tried| tried.elapsed() > limit)
    }

    /// One look of the page. What was seen before a pause is forgotten.
    fn look(&mut self) -> Outcome<&Seen> {
        if self.is_over() {
            self.watch.forget();
            self.history = History::default();
            self.seen = None;
        }
        self.tried = Some(Instant::now());
        self.used.now();
        let looked = self.watch.look();
        self.failure = looked.as_ref().err().map(failure::reason);
        let (view, at_ms) = (looked?, unix_ms());
        self.history.push(at_ms, &view);
        let at = Instant::now();
        Ok(self.seen.insert(Seen { at, at_ms, view }))
    }

    /// The look that is due: for every open page, and for the requests that wait.
    fn tick(&mut self, post: &impl Fn(Posted) -> Outcome, open: &Open) -> Outcome {
        self.next = None;
        let event = match self.look() {
            Ok(seen) => ("view", seen.json()?),
            Err(error) => ("failure", reason_json(&error)),
        };
        if self.watchers > 0 {
            let text = event.1.trim_end();
            post(Posted::Event(event.0, text.into()))?;
            // From the end of this look: no window is shorter than the interval.
            self.next = Some(Instant::now() + self.interval);
        }
        for (stream, wanted) in std::mem::take(&mut self.waiting) {
            if !open.is_wanted(stream) {
                continue;
            }
            let answer = match event.0 {
                "view" => self.write(wanted),
                _ => Answer::new(500, JSON, &*event.1),
            };
            post(Posted::Answer(stream, answer))?;
        }
        Ok(())
    }

    /// The answer, or `None` if it waits for a look.
    fn answer(&mut self, stream: StreamId, wanted: Wanted) -> Option<Answer> {
        match wanted {
            Wanted::Metrics(format) => {
                self.used.now();
                let text = self.meter.text(&mut self.watch, format);
                return Some(Answer::new(200, format.content_type(), text));
            }
            Wanted::Doctor | Wanted::History => return Some(self.write(wanted)),
            _ if self.is_fresh() => return Some(self.write(wanted)),
            Wanted::Page | Wanted::View | Wanted::Snapshot => {}
        }
        // The first of two looks, unless a second one is coming.
        if self.next.is_none() {
            match self.look() {
                // The page says so, and follows the events.
                Err(_) if wanted == Wanted::Page => return Some(self.write(wanted)),
                Err(error) => return Some(failed(&error)),
                Ok(_) => self.soon(),
            }
        }
        if wanted == Wanted::Page && (self.seen.is_some() || self.failure.is_some()) {
            // The page is there at once, and its first rates come as an event.
            if self.watchers == 0 && self.waiting.is_empty() {
                self.next = None;
            }
            return Some(self.write(wanted));
        }
        self.waiting.push((stream, wanted));
        None
    }

    /// What was seen, in the form that is wanted.
    fn write(&mut self, wanted: Wanted) -> Answer {
        self.written(wanted).unwrap_or_else(|error| failed(&error))
    }

    fn written(&mut self, wanted: Wanted) -> Outcome<Answer> {
        let json = |text: String| Ok(Answer::new(200, JSON, text));
        match wanted {
            Wanted::Metrics(format) => {
                self.used.now();
                let text = self.meter.text(&mut self.watch, format);
                Ok(Answer::new(200, format.content_type(), text))
            }
            Wanted::Doctor => {
                let report = self.doctor()?;
                json(report.to_string())
            }
            Wanted::History => json(json_line(&self.history.shown())?),
            Wanted::View => match &self.seen {
                Some(seen) => json(seen.json()?),
                None => Err(Failure::failed("nothing was seen yet")),
            },
            Wanted::Page => {
                let (nonce, html) = self.page(true)?;
                Ok(Answer::page(200, &nonce, html))
            }
            Wanted::Snapshot => {
                let (nonce, html) = self.page(false)?;
                let name = format!("attachment; filename=\"olivine-{}.html\"", unix_ms() / 1000);
                Ok(Answer::page(200, &nonce, html).with("Content-Disposition", name))
            }
        }
    }

    /// The nonce and the text of the page.
    fn page(&mut self, is_live: bool) -> Outcome<(String, String)> {
        // A page that stays open asks for the checks of the machine itself.
        let doctor = match is_live {
            true => None,
            false => Some(self.doctor()?),
        };
        let nothing = View::default();
        let (view, at_ms) = match (&self.seen, &self.failure) {
            (Some(seen), _) => (&seen.view, seen.at_ms),
            (None, Some(_)) if is_live => (&nothing, unix_ms()),
            _ => return Err(Failure::failed("nothing was seen yet")),
        };
        let source = Source {
            view,
            at_ms,
            failure: self.failure.as_deref(),
            history: &self.history,
            interval: self.interval,
            folder: self.watch.dir(),
            doctor: doctor.as_deref(),
            is_live,
        };
        page::page(&source)
    }

    fn doctor(&mut self) -> Outcome<Arc<str>> {
        match &self.doctor {
            Some((at, report)) if at.elapsed() < DOCTOR_AGE_MAX => Ok(Arc::clone(report)),
            _ => {
                let report: Arc<str> = json_line(&doctor::machine(self.watch.dir()))?.into();
                self.doctor = Some((Instant::now(), Arc::clone(&report)));
                Ok(report)
            }
        }
    }

    /// Looks for `time`, and returns the page as a file.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read, or a signal came before.
    pub(crate) fn snapshot(&mut self, stop: &Stop, time: Duration) -> Outcome<String> {
        let begun = Instant::now();
        self.look()?;
        let mut next = begun;
        loop {
            let end = begun + time;
            next = (next + self.interval).min(end);
            if !stop.wait_until(next) {
                stop.cut_short()?;
                return Err(Failure::failed("stopped before the snapshot was written"));
            }
            self.look()?;
            if next >= end {
                return Ok(self.page(false)?.1);
            }
        }
    }

    /// As [`Watch::check_asked`].
    pub(crate) fn check_asked(&self) -> Outcome {
        self.watch.check_asked()
    }
}

/// When the page or a scrape looked last.
#[derive(Debug, Default)]
struct Used {
    last: Option<Instant>,
    /// Time between the last two looks.
    pause: Duration,
}

impl Used {
    fn now(&mut self) {
        self.pause = self.last.map_or(Duration::ZERO, |last| last.elapsed());
        self.last = Some(Instant::now());
    }

    /// Whether no next look is expected soon; true once after the last one. Scrapes that come
    /// regularly find the channels open.
    fn is_over(&mut self) -> bool {
        let limit = PAUSE_MAX.max((self.pause * 2).min(KEEP_MAX));
        self.last.take_if(|last| last.elapsed() > limit).is_some()
    }
}

fn failed(error: &Failure) -> Answer {
    Answer::new(500, JSON, reason_json(error))
}

fn reason_json(error: &Failure) -> String {
    serde_json::json!({ "error": failure::reason(error) }).to_string()
}
