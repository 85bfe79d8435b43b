//! Sessions of far sides at a listener: kept while a connection is broken, and given to the side
//! that comes back.

use super::pipe::{ConnectionEnd, Pipe};
use super::socket::Cutter;
use crate::bridge::wire::Close;
use crate::bridge::wire::hello::Hello;
use crate::uri::EXPIRE_DEFAULT;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a newer connection of the same far side waits for the older one to end.
const LET_GO_MAX: Duration = Duration::from_secs(2);
/// Most sessions at a time, connected or not.
const SESSIONS_MAX: usize = 4096;

/// Shortest time for which a session is kept: zero is for ever.
const EXPIRE_MIN: Duration = Duration::from_millis(1);

/// The sessions of a listener; `S` is what each holds: the far side's position in the ring.
#[derive(Debug)]
pub(super) struct Sessions<S> {
    state: Mutex<State<S>>,
    changed: Condvar,
    tasks: Tasks<S>,
}

/// What is still to be done for a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tasks<S> {
    /// An end is requested: later messages are not for it.
    pub(super) set_goal: fn(&mut S),
    /// Nothing is left to deliver.
    pub(super) is_delivered: fn(&mut S) -> bool,
    /// Messages that are left to deliver.
    pub(super) undelivered: fn(&mut S) -> u64,
    /// The stream has ended or failed, and the far side must learn it.
    pub(super) has_end: fn(&mut S) -> bool,
    /// Every publisher has closed or failed: nothing more comes.
    pub(super) is_over: fn(&mut S) -> bool,
    /// The far side has confirmed each failure of the stream.
    pub(super) is_confirmed: fn(&mut S) -> bool,
    /// Every publisher has closed, and no later listener can tell that to the far side.
    pub(super) owes_end: fn(&mut S) -> bool,
}

#[derive(Debug)]
struct State<S> {
    sessions: HashMap<String, PeerSession<S>>,
    /// See [`Sessions::set_served`].
    served: bool,
    /// A far side was given up that has not confirmed with which failure its stream was over.
    unconfirmed: bool,
}

#[derive(Debug)]
struct PeerSession<S> {
    instance: u64,
    /// Whether the far side has a durable name.
    named: bool,
    /// How long it is kept without a connection; zero for ever.
    expire: Duration,
    attachment: Attachment<S>,
}

#[derive(Debug)]
enum Attachment<S> {
    /// A connection uses it; how to cut it.
    Connected(Option<Cutter>),
    /// No connection uses it, since then.
    Away {
        held: Box<S>,
        since: Instant,
        left: Disconnect,
    },
}

/// How the last connection of a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disconnect {
    /// One of the two sides sent a leave, with a reason.
    InOrder,
    /// The far side left, and said that it has the end of the stream.
    HasEnd,
    /// It broke. The far side has this long to come back and get the end of the stream.
    Broke(Duration),
    /// It broke after the end of the stream was sent and before the far side replied. If the far
    /// side got it, it does not come back; otherwise it has this long to do so.
    EndSent(Duration),
    /// As [`Disconnect::EndSent`], with a failure of the stream in place of its end.
    FailureSent(Duration),
}

impl Disconnect {
    /// After a connection with this outcome. A side that reports changed bytes comes back, like
    /// after a broken connection.
    pub(super) fn after(outcome: &Result<(), ConnectionEnd>, pipe: &Pipe) -> Self {
        match outcome {
            Ok(()) => Self::InOrder,
            Err(ConnectionEnd::ByPeer { .. }) if pipe.has_end => Self::HasEnd,
            Err(broken @ (ConnectionEnd::ByPeer { .. } | ConnectionEnd::ByUs { .. }))
                if !broken.is_corrupt() =>
            {
                Self::InOrder
            }
            _ if pipe.has_sent_end() => Self::EndSent(pipe.end_grace()),
            _ if pipe.failure_confirmed() == Some(true) => Self::InOrder,
            _ if pipe.failure_confirmed().is_some() => Self::FailureSent(pipe.end_grace()),
            _ => Self::Broke(pipe.end_grace()),
        }
    }

    /// Whether the far side may lack the end of a stream that has ended.
    fn owes_end(self) -> bool {
        !matches!(self, Self::HasEnd)
    }

    /// Whether the far side may come back to get the end of the stream, `away` after it left.
    pub(super) fn may_come_back(self, away: Duration) -> bool {
        match self {
            Self::InOrder | Self::HasEnd => false,
            Self::Broke(grace) | Self::EndSent(grace) | Self::FailureSent(grace) => away < grace,
        }
    }
}

/// What far sides that are away did not get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Undelivered {
    pub(super) messages: u64,
    /// The end of the stream, which no later listener can tell one of them.
    pub(super) end: bool,
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.end { " and the end" } else { "" };
        write!(f, "{} messages{end}", self.messages)
    }
}

/// A session that a connection uses.
#[derive(Debug)]
pub(super) struct OpenSession<S> {
    pub(super) held: S,
    /// Its key, to leave or remove it.
    pub(super) key: String,
}

impl<S> Sessions<S> {
    /// No sessions yet.
    pub(super) fn new(tasks: Tasks<S>) -> Self {
        Self {
            state: Mutex::new(State {
                sessions: HashMap::new(),
                served: false,
                unconfirmed: false,
            }),
            changed: Condvar::new(),
            tasks,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a session is kept without a connection; zero means for ever, which needs a name.
    pub(super) fn expire_of(hello: &Hello) -> Duration {
        if !hello.name.is_empty() {
            hello.expire
        } else if hello.expire.is_zero() {
            EXPIRE_DEFAULT
        } else {
            hello.expire.min(EXPIRE_DEFAULT)
        }
    }

    /// Adds the session of a far side that an earlier listener served, and that is away. It has
    /// `grace` to come back and get the end of the stream, and messages are kept for `left`, for
    /// ever if that is `None`.
    pub(super) fn add_absent(&self, key: String, held: S, left: Option<Duration>, grace: Duration) {
        let session = PeerSession {
            // No handle has this one. Name and instance follow when it comes back.
            instance: 0,
            named: true,
            expire: left.map_or(Duration::ZERO, |left| left.max(EXPIRE_MIN)),
            attachment: Attachment::Away {
                held: Box::new(held),
                since: Instant::now(),
                left: Disconnect::Broke(grace),
            },
        };
        self.lock().sessions.insert(key, session);
    }

    /// Takes the session of `key`; `open` creates a missing one. A newer connection of the same
    /// handle cuts the older one, whose break was not noticed. A connection of another handle is
    /// refused.
    pub(super) fn take(
        &self,
        key: &str,
        hello: &Hello,
        mut cutter: Option<Cutter>,
        open: impl FnOnce() -> Result<S, ConnectionEnd>,
    ) -> Result<OpenSession<S>, ConnectionEnd> {
        let key = key.to_owned();
        let until = Instant::now() + LET_GO_MAX;
        let mut state = self.lock();
        loop {
            let full = state.sessions.len() >= SESSIONS_MAX;
            match state.sessions.get_mut(&key) {
                None if full => {
                    return Err(ConnectionEnd::ByUs {
                        close: Close::Full,
                        reason: format!(
                            "{SESSIONS_MAX} far sides have a session here: try again after one left"
                        ),
                    });
                }
                None => {
                    // No other connection can take it: the session is ours before the ring is
                    // opened.
                    let session = PeerSession {
                        instance: hello.instance,
                        named: !hello.name.is_empty(),
                        expire: Self::expire_of(hello),
                        attachment: Attachment::Connected(cutter.take()),
                    };
                    state.sessions.insert(key.clone(), session);
                    drop(state);
                    let opened = open();
                    if opened.is_err() {
                        self.remove(&key);
                    }
                    return opened.map(|held| OpenSession { held, key });
                }
                Some(found) if matches!(found.attachment, Attachment::Away { .. }) => {
                    (found.instance, found.expire) = (hello.instance, Self::expire_of(hello));
                    found.named = !hello.name.is_empty();
                    let before = std::mem::replace(
                        &mut found.attachment,
                        Attachment::Connected(cutter.take()),
                    );
                    if let Attachment::Away { held, .. } = before {
                        return Ok(OpenSession { held: *held, key });
                    }
                }
                Some(found) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if found.instance != hello.instance || left.is_zero() {
                        return Err(ConnectionEnd::ByUs {
                            close: Close::NameInUse,
                            reason: format!(
                                "'{}' is connected already: use another 'name='",
                                hello.name
                            ),
                        });
                    }
                    if let Attachment::Connected(Some(old)) = &found.attachment {
                        old.cut();
                    }
                    let waited = self.changed.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
            }
        }
    }

    /// The connection has ended: keeps the session for the far side.
    pub(super) fn leave(&self, key: &str, held: S, left: Disconnect) {
        if let Some(found) = self.lock().sessions.get_mut(key) {
            let (held, since) = (Box::new(held), Instant::now());
            found.attachment = Attachment::Away { held, since, left };
        }
        self.changed.notify_all();
    }

    /// The far side does not come back.
    pub(super) fn remove(&self, key: &str) {
        self.lock().sessions.remove(key);
        self.changed.notify_all();
    }

    /// Removes sessions whose far side did not come back in time. Returns how many lack messages or
    /// the end, and how many messages that were. A far side without a name that was sent the end of
    /// the stream, did not reply and did not come back has received it. `forget` gets the key, and
    /// whether that is so.
    pub(super) fn expire(&self, forget: impl Fn(&str, S, bool)) -> (u64, u64) {
        let tasks = &self.tasks;
        let mut state = self.lock();
        let mut heard = false;
        // Whether it has received the end; `None` if it is kept.
        let mut expired = |session: &mut PeerSession<S>| match &mut session.attachment {
            Attachment::Away { held, since, left } => {
                let away = since.elapsed();
                let is_gone = !left.may_come_back(away);
                let owes_end = session.named && (tasks.owes_end)(held);
                let (has_heard, is_over) = match left {
                    Disconnect::EndSent(_) if is_gone && !owes_end => {
                        let ended = (tasks.is_delivered)(held) && (tasks.has_end)(held);
                        (ended, ended)
                    }
                    // Other publishers may continue: then another handle of the name may come.
                    Disconnect::FailureSent(_) if is_gone => {
                        let is_over = (tasks.is_over)(held);
                        (is_over || !session.named, is_over)
                    }
                    _ => (false, false),
                };
                heard |= is_over;
                let is_late = !session.expire.is_zero() && away > session.expire;
                (has_heard || is_late).then_some(has_heard)
            }
            Attachment::Connected(_) => None,
        };
        let gone: Vec<(String, bool)> = state
            .sessions
            .iter_mut()
            .filter_map(|(key, session)| Some((key.clone(), expired(session)?)))
            .collect();
        state.served |= heard;
        let (mut abandoned, mut messages) = (0, 0);
        for (key, has_heard) in gone {
            if let Some(PeerSession {
                named,
                attachment: Attachment::Away { mut held, left, .. },
                ..
            }) = state.sessions.remove(&key)
            {
                let owes_end = named && left.owes_end() && (tasks.owes_end)(&mut held);
                if owes_end || !(tasks.is_delivered)(&mut held) {
                    abandoned += 1;
                    messages += (tasks.undelivered)(&mut held);
                }
                state.unconfirmed |= (tasks.is_over)(&mut held) && !(tasks.is_confirmed)(&mut held);
                forget(&key, *held, has_heard);
            }
        }
        (abandoned, messages)
    }

    /// After a request to end: whether every far side has everything, or has been away for longer
    /// than `close_timeout`. After a broken connection a far side has a moment to come back and get
    /// the end of the stream. One with a name has all this time, if nothing can tell it that later.
    pub(super) fn is_delivered(&self, close_timeout: Duration) -> bool {
        let tasks = &self.tasks;
        let done = |session: &mut PeerSession<S>| match &mut session.attachment {
            Attachment::Connected(_) => false,
            Attachment::Away { held, since, left } => {
                (tasks.set_goal)(held);
                let away = since.elapsed();
                let end_is_due = left.may_come_back(away) && (tasks.has_end)(held)
                    || session.named && left.owes_end() && (tasks.owes_end)(held);
                ((tasks.is_delivered)(held) && !end_is_due) || away > close_timeout
            }
        };
        self.lock().sessions.values_mut().all(done)
    }

    /// What far sides that are away lack; `None` if they have everything. A named far side needs
    /// the end of the stream, too, if nothing can tell it that later.
    pub(super) fn undelivered(&self) -> Option<Undelivered> {
        let tasks = &self.tasks;
        let mut all: Option<Undelivered> = None;
        for session in self.lock().sessions.values_mut() {
            let (owes_end, messages) = match &mut session.attachment {
                Attachment::Connected(_) => (false, 0),
                Attachment::Away { held, left, .. } => {
                    (tasks.set_goal)(held);
                    let owes_end = session.named && left.owes_end() && (tasks.owes_end)(held);
                    if (tasks.is_delivered)(held) && !owes_end {
                        continue;
                    }
                    (owes_end, (tasks.undelivered)(held))
                }
            };
            let all = all.get_or_insert_default();
            all.end |= owes_end;
            all.messages += messages;
        }
        all
    }

    /// Whether every far side that is away has confirmed the failures of its stream, also each one
    /// given up.
    pub(super) fn are_confirmed(&self) -> bool {
        let mut state = self.lock();
        let is_confirmed = |session: &mut PeerSession<S>| match &mut session.attachment {
            Attachment::Connected(_) => true,
            Attachment::Away { held, .. } => (self.tasks.is_confirmed)(held),
        };
        !state.unconfirmed && state.sessions.values_mut().all(is_confirmed)
    }

    /// A far side was served: a listener that ends with its stream may end once all sessions are
    /// gone.
    pub(super) fn set_served(&self) {
        self.lock().served = true;
    }

    /// Whether a far side was served.
    pub(super) fn has_served(&self) -> bool {
        self.lock().served
    }

    /// Whether nothing more comes for this far side.
    pub(super) fn is_over(&self, held: &mut S) -> bool {
        (self.tasks.is_over)(held)
    }

    /// Whether there is no session.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().sessions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_is_kept_forever_only_with_a_name() {
        let kept = |name: &str, expire| {
            Sessions::<()>::expire_of(&Hello {
                name: name.to_owned(),
                expire,
                ..Hello::default()
            })
        };
        let year = Duration::from_secs(365 * 86400);
        assert_eq!(kept("audit", Duration::ZERO), Duration::ZERO);
        assert_eq!(kept("audit", year), year);
        assert_eq!(kept("", Duration::ZERO), EXPIRE_DEFAULT);
        assert_eq!(kept("", year), EXPIRE_DEFAULT);
        let short = Duration::from_secs(1);
        assert_eq!(kept("", short), short);
    }

    /// Every far side has everything.
    const DONE: Tasks<()> = Tasks {
        set_goal: |()| {},
        is_delivered: |()| true,
        undelivered: |()| 0,
        has_end: |()| false,
        is_over: |()| false,
        is_confirmed: |()| true,
        owes_end: |()| false,
    };

    /// A regression: the note named the end, although a later listener had it for the far side.
    #[test]
    fn note_names_the_end_only_if_it_is_owed() {
        let lacks = |tasks| {
            let sessions = Sessions::<()>::new(tasks);
            let hello = Hello {
                name: "audit".into(),
                ..Hello::default()
            };
            let taken = sessions.take("audit", &hello, None, || Ok(()));
            sessions.leave(&taken.unwrap().key, (), Disconnect::InOrder);
            sessions.undelivered().map(|lacks| lacks.to_string())
        };
        assert_eq!(lacks(DONE), None);
        let messages = Tasks {
            is_delivered: |()| false,
            undelivered: |()| 3,
            ..DONE
        };
        assert_eq!(lacks(messages).unwrap(), "3 messages");
        let end = Tasks {
            owes_end: |()| true,
            ..DONE
        };
        assert_eq!(lacks(end).unwrap(), "0 messages and the end");
    }

    #[test]
    fn session_count_is_limited() {
        let sessions = Sessions::<()>::new(DONE);
        let hello = Hello::default();
        for number in 0..SESSIONS_MAX {
            let taken = sessions.take(&number.to_string(), &hello, None, || Ok(()));
            sessions.leave(&taken.unwrap().key, (), Disconnect::InOrder);
        }
        let refused = sessions.take("one more", &hello, None, || Ok(()));
        assert!(
            matches!(
                refused,
                Err(ConnectionEnd::ByUs {
                    close: Close::Full,
                    ..
                })
            ),
            "{refused:?}"
        );
        assert!(sessions.take("0", &hello, None, || Ok(())).is_ok());
    }
}
