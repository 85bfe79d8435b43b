//! What the participants do until they are killed or asked to stop.

use crate::common::Random;
use crate::common::mapped::SharedWords;
use crate::common::message::check;
use crate::lanes::{Found, Lanes, fill, is_empty};
use crate::wake_word::WakeWord;
use crate::zygote::{Order, fork, linger};
use olivine::{
    Config, Message, MessageType, NotSent, OpenError, Publisher, ReceiveError, Subscriber,
};
use std::collections::{HashMap, HashSet};
use std::io::PipeReader;
use std::time::Duration;

/// Shared words: errors found by participants, and the order to stop.
pub(crate) const TORN: usize = 0;
pub(crate) const GAPS: usize = 1;
pub(crate) const STOP: usize = 2;
/// Values of that order: first publishers stop, so that no subscriber leaves that they wait for;
/// then the others.
pub(crate) const PUBLISHERS: u64 = 1;
pub(crate) const ALL: u64 = 2;
/// Times a subscriber of an evicting channel was evicted and joined again.
pub(crate) const EVICTED: usize = 3;
/// Messages checked by participants, roughly.
pub(crate) const CHECKED: usize = 4;
/// Handles that worked in a forked child.
pub(crate) const FORKED: usize = 5;
/// Openings that timed out and were repeated.
pub(crate) const RETRIES: usize = 6;
/// Messages that the durable subscriber got twice, beyond what its deaths allow.
pub(crate) const REPEATS: usize = 7;
/// Repetitions that its deaths still allow: each life may get the message again that the one before
/// it got last.
pub(crate) const REPEATS_LEFT: usize = 8;
/// First of six words for each session.
const SESSIONS: usize = 9;
const WORDS_PER_SESSION: usize = 6;
/// Longest pause of a participant before it checks the order to stop.
pub(crate) const REST_MAX: Duration = Duration::from_millis(50);
/// Sessions that one participant may use: a recoverer starts a new one each time.
pub(crate) const SESSIONS_EACH: u64 = 8;

/// Words needed for `sessions`.
pub(crate) fn words(sessions: u64) -> usize {
    SESSIONS + usize::try_from(sessions).unwrap() * WORDS_PER_SESSION
}

fn word(session: u64, which: usize) -> usize {
    SESSIONS + usize::try_from(session).unwrap() * WORDS_PER_SESSION + which
}

/// Messages of this session that were sent successfully.
pub(crate) fn acknowledged(session: u64) -> usize {
    word(session, 0)
}

/// Rounds that the participant with this session has run.
pub(crate) fn beats(session: u64) -> usize {
    word(session, 1)
}

/// Pid of the child of a forker, 0 before.
pub(crate) fn orphan(session: u64) -> usize {
    word(session, 2)
}

/// 1 once the child of a forker runs: it has closed the inherited locks.
pub(crate) fn settled(session: u64) -> usize {
    word(session, 5)
}

/// The message of this session that the durable subscriber expects next.
fn durable_next(session: u64) -> usize {
    word(session, 3)
}

/// Number of messages the participant may send in each of its sessions.
pub(crate) fn allowance(session: u64) -> usize {
    word(session, 4)
}

pub(crate) fn bump(words: &SharedWords, index: usize) {
    words.store(index, words.load(index) + 1);
}

/// Runs the role of `order` until it is asked to stop.
pub(crate) fn play(order: &Order, words: &SharedWords, wake_word: &WakeWord, alive: &PipeReader) {
    if !order.die_at.is_empty() {
        // SAFETY: this process has one thread.
        unsafe { std::env::set_var("OLIVINE_DIE_AT", &order.die_at) };
    }
    let stage = Stage {
        uri: &order.uri,
        words,
        wake_word,
        session: order.session,
    };
    match order.role.as_str() {
        "publisher" => stage.publish(),
        "recoverer" => stage.recover(),
        "subscriber" | "latest" => stage.receive(Seen::default()),
        "evictable" => stage.receive_until_evicted(),
        "durable" => stage.receive(Seen::durable()),
        "sealed" => stage.publish_or_receive(),
        "both" => stage.both(),
        "creator" => stage.create(),
        "forker-publisher" => stage.fork_publisher(alive),
        "forker-subscriber" => stage.fork_subscriber(alive),
        other => panic!("no role {other}"),
    }
}

pub(crate) struct Stage<'a> {
    pub(crate) uri: &'a str,
    pub(crate) words: &'a SharedWords,
    pub(crate) wake_word: &'a WakeWord,
    pub(crate) session: u64,
}

/// The next message of each session.
enum Next {
    /// As this process has seen it.
    Private(HashMap<u64, u64>),
    /// As all processes of the durable subscriber have seen it, and the sessions that this one has
    /// seen.
    Shared(HashSet<u64>),
}

/// What a subscriber has seen, and what it expects.
pub(crate) struct Seen {
    next: Next,
    lanes: Lanes,
}

impl Seen {
    fn of(next: Next) -> Self {
        let lanes = Lanes::default();
        Self { next, lanes }
    }

    /// At the start of a life of the durable subscriber.
    pub(crate) fn durable() -> Self {
        Self::of(Next::Shared(HashSet::new()))
    }
}

impl Default for Seen {
    fn default() -> Self {
        Self::of(Next::Private(HashMap::new()))
    }
}

impl Stage<'_> {
    fn publisher(&self) -> Publisher {
        self.open_with_retry(|| Publisher::open(self.uri))
    }

    fn subscriber(&self) -> Subscriber {
        self.open_with_retry(|| Subscriber::open(self.uri))
    }

    /// Opens; repeats it once if the first attempt timed out, which means nothing if this process
    /// was stopped. Each repetition is counted, and few are allowed.
    fn open_with_retry<T: std::fmt::Debug>(&self, open: impl Fn() -> Result<T, OpenError>) -> T {
        match open() {
            Err(OpenError::Restless { .. }) => {
                bump(self.words, RETRIES);
                open().unwrap()
            }
            opened => opened.unwrap(),
        }
    }

    pub(crate) fn stopped(&self, group: u64) -> bool {
        bump(self.words, beats(self.session));
        self.words.load(STOP) >= group
    }

    /// Waits until message `sequence` may be sent. `false` once none may.
    pub(crate) fn may_send(&self, sequence: u64) -> bool {
        loop {
            let seen = self.wake_word.count();
            if self.stopped(PUBLISHERS) {
                return false;
            }
            if self.is_allowed(sequence) {
                return true;
            }
            self.wake_word.wait(seen, REST_MAX);
        }
    }

    fn is_allowed(&self, sequence: u64) -> bool {
        sequence < self.words.load(allowance(self.session))
    }

    fn publish(&self) {
        let mut publisher = self.publisher();
        self.publish_with(&mut publisher, self.session, u64::MAX);
        close(publisher);
    }

    /// Sends up to `count` messages of `session` with every send call.
    fn publish_with(&self, publisher: &mut Publisher, session: u64, count: u64) {
        let mut message = Vec::new();
        for sequence in 0..count {
            if !self.may_send(sequence) {
                break;
            }
            fill(session, sequence, &mut message);
            match sequence % 4 {
                0 => {
                    publisher.publish(&message).unwrap();
                }
                1 => {
                    let mut claim = publisher.claim(message.len()).unwrap();
                    claim.copy_from_slice(&message);
                    claim.commit();
                }
                2 => {
                    publisher.wait_for_room(message.len(), None).unwrap();
                    // A dropped claim leaves nothing.
                    let mut given_up = publisher.try_claim(message.len()).unwrap();
                    given_up.fill(0xee);
                    given_up.abort();
                    publisher.try_publish(&message).unwrap();
                }
                _ => {
                    publisher.wait_for_room(message.len(), None).unwrap();
                    let mut batch = publisher.batch();
                    batch.push(&message).unwrap();
                    batch.commit();
                }
            }
            self.words.store(acknowledged(session), sequence + 1);
        }
    }

    /// Takes over the lanes of dead publishers again and again.
    fn recover(&self) {
        for session in self.session..self.session + SESSIONS_EACH - 1 {
            let mut publisher = self.publisher();
            self.publish_with(&mut publisher, session, 20);
            close(publisher);
        }
        let mut publisher = self.publisher();
        let last = self.session + SESSIONS_EACH - 1;
        self.publish_with(&mut publisher, last, u64::MAX);
        close(publisher);
    }

    fn receive(&self, mut seen: Seen) {
        let mut subscriber = self.subscriber();
        while !self.stopped(ALL) {
            match subscriber.receive_timeout(REST_MAX) {
                Ok(Some(message)) => self.take(&message, &mut seen),
                Ok(None) => {}
                Err(ReceiveError::Closed) => break,
                // Only `delivery=latest` is ever overrun: the next message is unknown.
                Err(ReceiveError::Overrun { .. }) if self.uri.contains("latest") => {
                    seen = Seen::default();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Like `receive`; joins again after an eviction.
    fn receive_until_evicted(&self) {
        while !self.stopped(ALL) {
            let mut subscriber = self.subscriber();
            let mut seen = Seen::default();
            while !self.stopped(ALL) {
                match subscriber.receive_timeout(REST_MAX) {
                    Ok(Some(message)) => self.take(&message, &mut seen),
                    Ok(None) => {}
                    Err(ReceiveError::Closed) => return,
                    Err(ReceiveError::Evicted) => {
                        bump(self.words, EVICTED);
                        break;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    pub(crate) fn take(&self, message: &Message<'_>, seen: &mut Seen) {
        take(self.words, message.lane(), message, seen);
    }

    /// The last life of the durable subscriber, after every publisher has closed: takes the rest.
    pub(crate) fn take_rest(&self) {
        let (mut subscriber, mut seen) = (self.subscriber(), Seen::durable());
        loop {
            match subscriber.try_receive() {
                Ok(Some(message)) => self.take(&message, &mut seen),
                Ok(None) | Err(ReceiveError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
        subscriber.unsubscribe();
    }

    /// Publisher and subscriber of one channel in one process.
    fn both(&self) {
        let mut subscriber = self.subscriber();
        let mut publisher = self.publisher();
        let (mut message, mut seen) = (Vec::new(), Seen::default());
        let mut sequence = 0;
        fill(self.session, sequence, &mut message);
        while !self.stopped(PUBLISHERS) {
            if self.is_allowed(sequence) {
                match publisher.try_publish(&message) {
                    Ok(_) => {
                        sequence += 1;
                        self.words.store(acknowledged(self.session), sequence);
                        fill(self.session, sequence, &mut message);
                    }
                    Err(NotSent::BackPressured) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            let handed = subscriber.poll(|message| self.take(&message, &mut seen), 64);
            let rest = match handed {
                Ok(0) if self.is_allowed(sequence) => Duration::from_micros(100),
                Ok(0) => Duration::from_millis(5),
                Ok(_) => continue,
                Err(ReceiveError::Closed) => break,
                Err(error) => panic!("{error}"),
            };
            match subscriber.receive_timeout(rest) {
                Ok(Some(message)) => self.take(&message, &mut seen),
                Ok(None) => {}
                Err(ReceiveError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
        drop(subscriber);
        close(publisher);
    }

    /// Creates and removes its channel, which others create and remove at the same time. Its
    /// publisher fixes the type, and states the fields.
    fn create(&self) {
        let mut random = Random(self.session);
        let config = Config::parse(self.uri).unwrap();
        let stated = MessageType::new("short v1", 8, 8).unwrap();
        let stated = stated.with_fields("number u64").unwrap();
        let (mut message, mut scratch) = (Vec::new(), Vec::new());
        while !self.stopped(ALL) {
            let mut subscriber = self.subscriber();
            if random.below(4) == 0 {
                continue;
            }
            let seen = self.wake_word.count();
            let mut publisher = self.open_with_retry(|| Publisher::open_for(&config, &stated));
            assert_eq!(&subscriber.fields(), stated.fields());
            fill(self.session, 0, &mut message);
            match publisher.publish_timeout(&message, Duration::from_millis(20)) {
                // A stopped participant may hold it back.
                Ok(_) | Err(NotSent::BackPressured) => {}
                Err(error) => panic!("{error}"),
            }
            let handed = subscriber.poll(
                |message| {
                    if check(&message, &mut scratch).is_none() {
                        bump(self.words, TORN);
                    }
                },
                64,
            );
            if let Err(error) = handed {
                assert_eq!(error.to_string(), ReceiveError::Closed.to_string());
            }
            if random.below(2) == 0 {
                // The next round begins after progress elsewhere, not at once.
                drop((subscriber, publisher));
                self.wake_word.wait(seen, REST_MAX);
            }
        }
    }

    /// Forks without `exec`: the child's handles refuse, and the child does not count as the
    /// parent.
    fn fork_publisher(&self, alive: &PipeReader) {
        let mut publisher = self.publisher();
        self.publish_with(&mut publisher, self.session, 20);
        let child = fork(|| {
            self.words.store(settled(self.session), 1);
            let offered = publisher.try_publish(b"never");
            if offered != Err(NotSent::Forked) || publisher.try_claim(8).is_ok() {
                bump(self.words, FORKED);
            }
            linger(alive);
        });
        self.announce(child);
        let session = self.session + 1;
        self.publish_with(&mut publisher, session, u64::MAX);
        close(publisher);
    }

    fn fork_subscriber(&self, alive: &PipeReader) {
        let mut subscriber = self.subscriber();
        let child = fork(|| {
            self.words.store(settled(self.session), 1);
            if !matches!(subscriber.try_receive(), Err(ReceiveError::Forked)) {
                bump(self.words, FORKED);
            }
            linger(alive);
        });
        self.announce(child);
        let mut seen = Seen::default();
        while !self.stopped(ALL) {
            match subscriber.receive_timeout(REST_MAX) {
                Ok(Some(message)) => self.take(&message, &mut seen),
                Ok(None) => {}
                Err(ReceiveError::Closed) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn announce(&self, child: libc::pid_t) {
        let child = u64::try_from(child).expect("a process");
        self.words.store(orphan(self.session), child);
    }
}

/// Checks one message of a subscriber, and counts what is wrong in `words`.
pub(crate) fn take(words: &SharedWords, lane: usize, message: &[u8], seen: &mut Seen) {
    bump(words, CHECKED);
    let (session, sequence, is_first) = match seen.lanes.take(lane, message) {
        Found::Whole {
            session,
            sequence,
            is_first,
        } => (session, sequence, is_first),
        Found::Unknown => return,
        Found::Torn => return bump(words, TORN),
    };
    match &mut seen.next {
        Next::Private(next) => {
            let expected = next.insert(session, sequence + 1);
            if expected.is_some_and(|expected| expected != sequence) {
                bump(words, GAPS);
            }
        }
        // At least once: the message that an earlier process was handling may come again, but
        // none is left out.
        Next::Shared(sessions) => {
            let word = durable_next(session);
            let expected = words.load(word);
            // An empty message that came first in this process, or in an earlier one, was not
            // identified.
            let was_next = is_first && sequence == expected + 1 && is_empty(session, expected);
            if sequence > expected && !was_next {
                bump(words, GAPS);
            }
            let is_new = sessions.insert(session);
            if sequence < expected {
                let left = words.load(REPEATS_LEFT);
                if is_new && sequence + 1 == expected && left > 0 {
                    words.store(REPEATS_LEFT, left - 1);
                } else {
                    bump(words, REPEATS);
                }
            }
            words.store(word, expected.max(sequence + 1));
        }
    }
}

/// Acknowledged messages that no life of the durable subscriber has got.
pub(crate) fn missed_by_durable(words: &SharedWords, sessions: u64) -> u64 {
    let missed = |session| {
        let (next, sent) = (
            words.load(durable_next(session)),
            words.load(acknowledged(session)),
        );
        // An empty message that comes first in a process is not identified.
        let unknown = u64::from(next < sent && is_empty(session, next));
        sent.saturating_sub(next + unknown)
    };
    (0..sessions).map(missed).sum()
}

fn close(publisher: Publisher) {
    match publisher.close() {
        // No participant lingers here, so nothing else can fail.
        Ok(_) => {}
        Err(error) => panic!("{error}"),
    }
}
