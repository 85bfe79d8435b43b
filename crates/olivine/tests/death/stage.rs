//! The stage: a channel, its participants, an observer that verifies, and the kills.

use crate::common::mapped::SharedWords;
use crate::common::{self, Deadline, Random, TestFolder, until};
use crate::lanes::{Found, Lanes};
use crate::roles::{self, SESSIONS_EACH};
use crate::wake_word::WakeWord;
use crate::zygote::{End, Order, Zygote, signal};
use olivine::{OpenError, Publisher, ReceiveError, Subscriber};
use rustix::process::{Pid, Signal};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PARKING: [&str; 3] = ["park", "park", "adaptive"];
const SPINNING: [&str; 4] = ["park", "adaptive", "yield", "spin"];
/// Messages of one publisher that fill more than its ring.
pub(crate) const LAP: u64 = 300;
/// More than exist at once.
const PUBLISHERS_MAX: usize = 10;

/// What the observer found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    seen: HashMap<u64, u64>,
    lanes: Lanes,
    pub(crate) checked: u64,
    pub(crate) torn: u64,
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) invented: u64,
    /// Times the observer was evicted and joined again: what it missed is not lost.
    pub(crate) evicted: u64,
}

impl Findings {
    pub(crate) fn take(&mut self, lane: usize, message: &[u8]) {
        self.checked += 1;
        let (session, sequence) = match self.lanes.take(lane, message) {
            Found::Whole {
                session, sequence, ..
            } => (session, sequence),
            Found::Unknown => {
                // An observer that joined at the start knows every lane.
                self.invented += u64::from(self.evicted == 0);
                return;
            }
            Found::Torn => {
                self.torn += 1;
                return;
            }
        };
        let joined_at = if self.evicted > 0 { sequence } else { 0 };
        let next = self.seen.entry(session).or_insert(joined_at);
        self.lost += sequence.saturating_sub(*next);
        self.repeated += u64::from(sequence < *next);
        *next = (*next).max(sequence + 1);
    }

    /// Compares with the publishers' counts: every acknowledged message was seen, and at most one
    /// more, whose publisher died before it could count it.
    pub(crate) fn settle(&mut self, words: &SharedWords, sessions: u64) {
        if self.evicted > 0 {
            return;
        }
        for session in 0..sessions {
            let acknowledged = words.load(roles::acknowledged(session));
            let seen = self.seen.get(&session).copied().unwrap_or(0);
            self.lost += acknowledged.saturating_sub(seen);
            self.invented += seen.saturating_sub(acknowledged + 1);
        }
    }
}

/// Reads until every publisher has closed; `count` is its progress. After an eviction it joins
/// again by `uri`.
fn observe(mut subscriber: Subscriber, uri: &str, count: &AtomicU64) -> Findings {
    let mut findings = Findings::default();
    loop {
        match subscriber.receive() {
            Ok(message) => findings.take(message.lane(), &message),
            Err(ReceiveError::Closed) => return findings,
            Err(ReceiveError::Evicted) => {
                findings.evicted += 1;
                findings.seen.clear();
                findings.lanes = Lanes::default();
                subscriber = Subscriber::open(uri).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        count.store(findings.checked, Ordering::Release);
    }
}

/// The words in which participants count.
pub(crate) type Complaints = [u64; 7];

/// How long the survivors took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) took: Duration,
    /// The suite did not run for a while, so the time is meaningless.
    pub(crate) is_disturbed: bool,
}

/// Survivors that do not go on: their names.
#[derive(Debug)]
pub(crate) struct Hung(String);

impl core::fmt::Display for Hung {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the survivors do not go on: {}", self.0)
    }
}

/// The file of the shared wake-up word.
pub(crate) fn wake_word_of(words: &Path) -> PathBuf {
    words.with_extension("wake_word")
}

/// A participant.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) pid: Pid,
    pub(crate) role: &'static str,
    pub(crate) session: u64,
    wait: &'static str,
}

impl Actor {
    /// It waits without sleeping.
    pub(crate) fn spins(&self) -> bool {
        ["yield", "spin"].contains(&self.wait)
    }
}

pub(crate) struct Stage {
    pub(crate) place: TestFolder,
    pub(crate) words: SharedWords,
    pub(crate) random: Random,
    pub(crate) zygote: Zygote,
    wake_word: WakeWord,
    /// Random wait strategies of participants.
    waits: &'static [&'static str],
    sessions: u64,
    query: String,
    pub(crate) seed: u64,
    /// A durable subscriber reads, and is owed every message.
    has_durable: bool,
    observer: Option<(JoinHandle<Findings>, Arc<AtomicU64>)>,
    /// A silent publisher: without it the stream would end when all others are dead and a recoverer
    /// has closed their lanes.
    silent: Option<Publisher>,
}

impl Stage {
    /// A channel with the settings of `query`, and words for `participants`.
    pub(crate) fn new(query: &str, participants: u64, seed: u64) -> Self {
        let place = TestFolder::new();
        let file = place.file("words");
        let words = roles::words((participants + 16) * SESSIONS_EACH);
        let words = SharedWords::create(&file, words).unwrap();
        let wake_word = WakeWord::create(&wake_word_of(&file));
        let zygote = Zygote::start(&file);
        Self {
            place,
            words,
            random: Random(seed),
            zygote,
            wake_word,
            waits: &PARKING,
            sessions: 0,
            query: query.to_owned(),
            seed,
            has_durable: false,
            observer: None,
            silent: None,
        }
    }

    /// The report's name for a channel in which `role` is killed.
    pub(crate) fn mode(&self, role: &str) -> &'static str {
        match () {
            () if role == "sealed" => "shm+fd://",
            () if self.query.contains("mode=0660") => "mode=0660",
            () if self.query.contains("evict") => "slow=evict",
            () => "mode=0600",
        }
    }

    /// The sealed channel of this stage.
    fn sealed(&self) -> (PathBuf, String) {
        let socket = self.place.file("sealed.sock");
        let uri = format!("shm+fd://{}?capacity=64KiB&timeout=1s", socket.display());
        (socket, uri)
    }

    /// The channel that is created and removed all the time.
    fn short_lived(&self, query: &str) -> String {
        let Self { query: shape, .. } = self;
        self.place
            .uri("short_lived", &format!("capacity=64KiB{shape}{query}"))
    }

    /// From here on participants may spin, which needs all processors.
    pub(crate) fn spin(&mut self) {
        self.waits = &SPINNING;
    }

    pub(crate) fn uri(&self, query: &str) -> String {
        let Self { query: shape, .. } = self;
        let and = if query.is_empty() { "" } else { "&" };
        let all = format!("capacity=64KiB&publishers_max={PUBLISHERS_MAX}{shape}{and}{query}");
        self.place.uri("death", &all)
    }

    /// Starts the observer, which sees everything from here on.
    pub(crate) fn observe(&mut self) {
        let uri = self.uri("wait=park");
        let bystander = Subscriber::open(&uri).unwrap();
        let count = Arc::new(AtomicU64::new(0));
        let thread = std::thread::spawn({
            let count = Arc::clone(&count);
            move || observe(bystander, &uri, &count)
        });
        self.observer = Some((thread, count));
        self.silent = Some(Publisher::open(&self.uri("")).unwrap());
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        let choice = self.random.below(from.len() as u64);
        from[usize::try_from(choice).unwrap()]
    }

    /// Starts a participant, which kills itself at the point `die_at` if that is not empty.
    pub(crate) fn enter(&mut self, role: &'static str, die_at: &str) -> Actor {
        let session = self.sessions;
        self.sessions += SESSIONS_EACH;
        let wait = self.pick(self.waits);
        let from = self.pick(&["now", "oldest"]);
        let uri = match role {
            "creator" => self.short_lived(&format!("&wait={wait}")),
            "sealed" => format!("{}&wait={wait}", self.sealed().1),
            "latest" => self.uri(&format!("wait={wait}&delivery=latest&from={from}")),
            "durable" => self.uri(&format!("wait={wait}&name=durable")),
            "evictable" => self.uri(&format!("wait={wait}")),
            "publisher" | "recoverer" | "both" | "forker-publisher" => {
                self.uri(&format!("wait={wait}"))
            }
            _ => self.uri(&format!("wait={wait}&from={from}")),
        };
        if role == "durable" {
            self.begin_durable_life();
        }
        let allowed = self.some();
        self.words.store(roles::allowance(session), allowed);
        let order = Order {
            role: role.to_owned(),
            session,
            die_at: die_at.to_owned(),
            uri,
        };
        Actor {
            pid: self.zygote.spawn(&order),
            role,
            session,
            wait,
        }
    }

    /// The durable subscriber begins another life. Where subscribers are evicted, it may miss
    /// messages.
    fn begin_durable_life(&mut self) {
        if self.has_durable {
            roles::bump(&self.words, roles::REPEATS_LEFT);
        }
        self.has_durable = !self.query.contains("evict");
    }

    pub(crate) fn acknowledged(&self, actor: &Actor) -> u64 {
        self.words.load(roles::acknowledged(actor.session))
    }

    /// A number of messages: mostly few, sometimes more than a ring holds.
    fn some(&mut self) -> u64 {
        let most = [8, 8, 32, 32, 64, 128, LAP, 4 * LAP];
        let choice = self.random.below(most.len() as u64);
        1 + self.random.below(most[usize::try_from(choice).unwrap()])
    }

    /// Lets each of `actors` send some more messages.
    pub(crate) fn allow(&mut self, actors: &[Actor]) {
        for actor in actors {
            let more = self.some();
            self.allow_until(actor, self.acknowledged(actor) + more);
        }
        self.wake_word.wake_all();
    }

    fn allow_until(&self, actor: &Actor, goal: u64) {
        let word = roles::allowance(actor.session);
        self.words.store(word, goal.max(self.words.load(word)));
    }

    /// Waits until each of `actors`, all publishers, has sent `count` more messages, while the
    /// observer reads them. The time counts from the start of `deadline`.
    ///
    /// # Errors
    ///
    /// [`Hung`] if `deadline` is over first.
    pub(crate) fn progress(
        &self,
        actors: &[&Actor],
        count: u64,
        mut deadline: Deadline,
    ) -> Result<Progress, Hung> {
        let goals: Vec<u64> = actors
            .iter()
            .map(|actor| self.acknowledged(actor) + count)
            .collect();
        for (actor, goal) in actors.iter().zip(&goals) {
            self.allow_until(actor, *goal);
        }
        self.wake_word.wake_all();
        let gone_on = || {
            self.check_observer();
            let mut all = actors.iter().zip(&goals);
            all.all(|(actor, goal)| self.acknowledged(actor) >= *goal)
        };
        while !gone_on() {
            if !deadline.lasts() {
                return Err(Hung(format!("{actors:?}")));
            }
        }
        Ok(Progress {
            took: deadline.waited(),
            is_disturbed: deadline.was_absent(),
        })
    }

    /// For a planted fault: the stream ends for the observer in the middle of a round.
    pub(crate) fn end_stream_early(&mut self) {
        drop(self.silent.take());
        let observer = self.observer.as_ref().map(|(thread, _)| thread);
        until("the end of the stream", || {
            observer.is_some_and(JoinHandle::is_finished)
        });
    }

    fn check_observer(&self) {
        if let Some((thread, _)) = &self.observer {
            assert!(!thread.is_finished(), "the bystander gave up");
        }
    }

    /// Waits until a forker has forked and its child runs. Before that, the child still has the
    /// parent's locks open: a successor would find the lane taken.
    pub(crate) fn await_fork(&self, actor: &Actor) {
        let said = [roles::orphan, roles::settled].map(|word| word(actor.session));
        until("the child of a forker", || {
            said.iter().all(|word| self.words.load(*word) != 0)
        });
    }

    /// Kills. It stays a zombie until [`Stage::bury`], and its child lives until then.
    pub(crate) fn kill(&mut self, actor: &Actor) {
        signal(actor.pid, Signal::KILL);
    }

    /// Kills it in code of the core while it works; returns the core file, or
    /// [`crate::aim::ELSEWHERE`]. It is dead when this returns.
    pub(crate) fn kill_in_core(&mut self, actor: &Actor) -> String {
        // Enough messages for the time that aiming takes.
        self.allow_until(actor, self.acknowledged(actor) + 8 * LAP);
        self.wake_word.wake_all();
        crate::aim::kill(actor.pid.as_raw_pid(), actor.role, &mut self.random)
    }

    /// Reaps a killed participant and ends its child.
    pub(crate) fn bury(&mut self, actor: &Actor) -> End {
        let end = self.reap(actor);
        self.end_orphan(actor);
        end
    }

    /// Reaps a killed participant; its child lives on.
    pub(crate) fn reap(&mut self, actor: &Actor) -> End {
        let end = self.zygote.reap(actor.pid);
        assert_ne!(end, End::Bad, "a participant failed: {actor:?}");
        end
    }

    /// Ends the child of a participant.
    pub(crate) fn end_orphan(&self, actor: &Actor) {
        let orphan = self.words.load(roles::orphan(actor.session));
        let orphan = i32::try_from(orphan).ok().and_then(Pid::from_raw);
        if let Some(orphan) = orphan {
            // It only waits for the end of the zygote, so the pid is still its own.
            signal(orphan, Signal::KILL);
        }
    }

    /// How it ended, if it killed itself.
    #[cfg(feature = "points")]
    pub(crate) fn has_ended(&mut self, actor: &Actor) -> Option<End> {
        self.zygote.try_reap(actor.pid)
    }

    /// The last life of the durable subscriber: it gets the rest, and so has got every message.
    fn end_durable(&mut self, findings: &mut Findings) {
        let uri = self.uri("name=durable");
        if !self.has_durable {
            Subscriber::open(&uri).unwrap().unsubscribe();
            return;
        }
        self.begin_durable_life();
        let stage = roles::Stage {
            uri: &uri,
            words: &self.words,
            wake_word: &self.wake_word,
            session: self.sessions,
        };
        stage.take_rest();
        findings.lost += roles::missed_by_durable(&self.words, self.sessions);
    }

    /// Lets all finish, closes the lanes of dead publishers, and checks for losses and leftovers.
    pub(crate) fn finish(mut self, actors: Vec<Actor>) -> (Findings, Complaints) {
        let publishes = |actor: &Actor| {
            ["publisher", "recoverer", "both", "forker-publisher"].contains(&actor.role)
        };
        let (publishers, others): (Vec<_>, Vec<_>) = actors.into_iter().partition(publishes);
        drop(self.silent.take());
        for (order, actors) in [(roles::PUBLISHERS, publishers), (roles::ALL, others)] {
            self.words.store(roles::STOP, order);
            self.wake_word.wake_all();
            for actor in actors {
                assert_eq!(self.bury(&actor), End::Good, "{actor:?}");
            }
        }
        // Taking over a dead publisher's lane closes it.
        let mut successors = Vec::new();
        let refused = loop {
            match Publisher::open(&self.uri("")) {
                Ok(successor) => successors.push(successor),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(refused, OpenError::PublishersFull { .. }),
            "{refused}"
        );
        assert_eq!(
            successors.len(),
            PUBLISHERS_MAX,
            "every lane can be taken over"
        );
        drop(successors);
        let mut findings = Findings::default();
        if let Some((thread, _)) = self.observer.take() {
            until("the end of the stream", || thread.is_finished());
            findings = thread.join().unwrap();
            findings.settle(&self.words, self.sessions);
        }
        // The next participant cleans up if one was killed while it created or removed a channel.
        for uri in [self.short_lived(""), self.uri("")] {
            drop(Subscriber::open(&uri).unwrap());
        }
        let (socket, uri) = self.sealed();
        drop(Publisher::open(&uri).unwrap());
        assert!(!socket.exists(), "the socket of the dead is left behind");
        if self.place.channel("death").exists() {
            // A durable subscriber may come back: this one does.
            self.end_durable(&mut findings);
        }
        let left: Vec<_> = std::fs::read_dir(self.place.dir())
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        let held = common::held_inside(&self.place.dir());
        assert!(held.is_empty(), "still held: {held:?}");
        let complaints = [
            roles::TORN,
            roles::GAPS,
            roles::FORKED,
            roles::EVICTED,
            roles::CHECKED,
            roles::RETRIES,
            roles::REPEATS,
        ];
        let complaints = complaints.map(|word| self.words.load(word));
        self.zygote.finish();
        (findings, complaints)
    }
}
