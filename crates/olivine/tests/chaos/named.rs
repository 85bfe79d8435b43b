//! `tcp://` between two programs that both have a `name=`: each is killed and started again, and
//! the connection breaks. Every program of the publisher's name has a number, and its messages
//! have that number.

use crate::checker::{Checker, SHORTEST, message};
use crate::common::proxy::Proxy;
use crate::common::{Deadline, Other, Random, TestFolder, free_port, kill, spawn};
use crate::faults::{Fault, Faults};
use crate::options::{Run, say};
use crate::reader::Reader;
use crate::tcp::{PREAMBLE, TIMEOUT};
use crate::traffic::{Got, HUNG, Receive as _};
use olivine::Publisher;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Looks for messages behind the end.
const LOOKS_BEHIND: u32 = 50;

/// A program of the publisher's name.
#[derive(Clone, Copy, Debug)]
struct Program {
    messages: u64,
    /// It is killed once it has published so many; otherwise it closes.
    killed_at: Option<u64>,
}

/// The random options of a run.
#[derive(Clone, Debug)]
struct Options {
    source_listens: bool,
    programs: Vec<Program>,
    longest: u64,
    capacities_kib: [u64; 2],
    /// Each after a number of messages.
    faults: Vec<(u64, Fault)>,
    /// Kills of the subscriber, each after a number of messages. Several after one number come
    /// while it opens the channel.
    kills: Vec<u64>,
}

impl Options {
    fn draw(random: &mut Random) -> Self {
        let count = 2 + random.below(4);
        let programs: Vec<_> = (1..=count)
            .map(|number| {
                let messages = 1 + random.below(1500);
                let may_close = number == count || random.below(3) == 0;
                let killed_at = (!may_close).then(|| random.below(messages));
                Program {
                    messages,
                    killed_at,
                }
            })
            .collect();
        let all = programs.iter().map(|program| program.messages).sum();
        let mut faults: Vec<_> = (0..random.below(4))
            .map(|_| (random.below(all), Fault::draw(random, TIMEOUT)))
            .collect();
        faults.sort_by_key(|(at, _)| *at);
        let small = 16 << random.below(3);
        Self {
            source_listens: random.below(2) == 1,
            programs,
            longest: 64 + random.below(1900),
            capacities_kib: [small, small << random.below(2)],
            faults,
            kills: (0..random.below(3))
                .flat_map(|_| {
                    let (at, times) = (random.below(all), 1 + random.below(3));
                    (0..times).map(move |_| at)
                })
                .collect(),
        }
    }
}

/// The process: publishes, and stores in a file how many messages it has published.
pub(crate) fn role() {
    let text = |name: &str| std::env::var(name).expect("set by the parent");
    let number = |name: &str| text(name).parse::<u64>().expect("a number");
    let (program, messages) = (number("NAMED_PROGRAM"), number("NAMED_MESSAGES"));
    let mut random = Random(number("NAMED_SEED"));
    let longest = number("NAMED_LONGEST");
    let published = File::create(text("NAMED_FILE")).expect("a file");
    let mut publisher = Publisher::open(&text("NAMED_URI")).expect("a publisher");
    for number in 0..messages {
        let length = usize::try_from(random.below(longest)).unwrap();
        let bytes = message(
            u32::try_from(program).unwrap(),
            number,
            length.max(SHORTEST),
        );
        publisher.publish(&bytes).expect("room");
        let count = (number + 1).to_le_bytes();
        published.write_all_at(&count, 0).expect("a stored count");
    }
    publisher.close().expect("a good end");
}

/// A process of [`role`].
struct Sender {
    number: u32,
    process: Option<Other>,
    file: PathBuf,
}

impl Sender {
    fn start(place: &TestFolder, number: u32, program: Program, uri: &str, set: &Setting) -> Self {
        let file = place.file(&format!("published-{number}"));
        let variables = [
            ("NAMED_URI", uri.to_owned()),
            ("NAMED_PROGRAM", number.to_string()),
            ("NAMED_MESSAGES", program.messages.to_string()),
            ("NAMED_LONGEST", set.longest.to_string()),
            ("NAMED_SEED", set.seed.to_string()),
            ("NAMED_FILE", file.display().to_string()),
        ];
        let process = Some(spawn("sender", &variables));
        Self {
            number,
            process,
            file,
        }
    }

    fn published(&self) -> u64 {
        published(&self.file)
    }
}

/// The count in the file of a sender; 0 before the first message.
fn published(file: &Path) -> u64 {
    let mut count = [0; 8];
    let read = File::open(file).and_then(|file| file.read_exact_at(&mut count, 0));
    read.map_or(0, |()| u64::from_le_bytes(count))
}

/// What the messages of a sender depend on.
struct Setting {
    longest: u64,
    seed: u64,
}

/// Runs the scene.
pub(crate) fn run(random: &mut Random) -> Run {
    let options = Options::draw(random);
    say(&options);
    let place = TestFolder::new();
    let port = free_port();
    let proxy = Proxy::sparing(port, PREAMBLE);
    let dir = place.dir().display().to_string();
    let [ours, theirs] = options.capacities_kib;
    let end = |listens: bool, name: &str, capacity: u64| {
        let (role, port) = match listens {
            true => ("listen", port),
            false => ("connect", proxy.port),
        };
        let timeout = TIMEOUT.as_millis();
        format!(
            "tcp://127.0.0.1:{port}/chaos?role={role}&name={name}&dir={dir}&timeout={timeout}ms\
             &capacity={capacity}KiB"
        )
    };
    let sending = end(options.source_listens, "sender", ours) + "&subscribers=1";
    let receiving = end(!options.source_listens, "reader", theirs);
    let mut scene = Scene {
        reader: Reader::start(&place, &receiving, &options.kills),
        faults: Faults::new(proxy, options.faults.clone()),
        checker: Checker::default(),
        sent: Vec::new(),
        random: Random(random.next()),
    };
    for (number, program) in (0..).zip(&options.programs) {
        let set = Setting {
            longest: options.longest,
            seed: random.next(),
        };
        let mut sender = Sender::start(&place, number, *program, &sending, &set);
        if scene.carry(&mut sender, *program).is_none() {
            break;
        }
    }
    if !scene.checker.has_failed() {
        // A failure is in the verdict.
        let _ = scene.finish();
    }
    let mut faults = scene.faults.counts;
    faults.insert("reader kills", options.kills.len() as u64);
    Run {
        verdict: scene.checker.verdict(),
        faults,
    }
}

/// The running parts, but the sender.
struct Scene {
    reader: Reader,
    faults: Faults,
    checker: Checker,
    /// Messages of each program of the publisher's name. A killed one may have published one more
    /// than it has stored.
    sent: Vec<u64>,
    random: Random,
}

impl Scene {
    /// Takes one item of the reader, and returns whether it is an end of the stream. `None` after a
    /// failure.
    fn take(&mut self, hung: &mut Deadline) -> Option<bool> {
        self.faults.look(self.checker.received());
        let got = self.reader.next(self.checker.received());
        match &got {
            Got::Message(bytes) => {
                self.checker.take(bytes);
                *hung = Deadline::of(HUNG);
            }
            Got::Restarted => {
                self.checker.receiver_killed();
                // Some way into its opening, if the next kill is due.
                let while_opening = self.random.below(4000);
                std::thread::park_timeout(Duration::from_micros(while_opening));
            }
            Got::Failed(why) => {
                self.checker.failed(why.clone());
                return None;
            }
            Got::Nothing | Got::Closed => {
                if !hung.lasts() {
                    self.checker.hung();
                    self.checker.failed("nothing came any more".to_owned());
                    return None;
                }
            }
        }
        Some(matches!(got, Got::Closed))
    }

    /// Receives while the sender runs, and kills it if that is planned. `None` after a failure.
    fn carry(&mut self, sender: &mut Sender, program: Program) -> Option<()> {
        let mut hung = Deadline::of(HUNG);
        loop {
            let published = sender.published();
            if program.killed_at.is_some_and(|at| published >= at) {
                if let Some(process) = sender.process.take() {
                    kill(process);
                }
                let published = sender.published();
                self.sent.push(published);
                *self.faults.counts.entry("senders killed").or_default() += 1;
                self.checker.sent(sender.number, published);
                self.checker.closed(sender.number);
                return Some(());
            }
            let ended = sender
                .process
                .as_mut()
                .and_then(|one| one.try_wait().unwrap());
            if let Some(status) = ended {
                self.sent.push(program.messages);
                self.checker.sent(sender.number, program.messages);
                self.checker.closed(sender.number);
                if !status.success() {
                    self.checker.failed(format!("a sender ended: {status}"));
                    return None;
                }
                // It has closed: everything is acknowledged, also without another sender.
                while !self.has_all() {
                    self.take(&mut hung)?;
                }
                return Some(());
            }
            self.take(&mut hung)?;
        }
    }

    /// Whether everything has arrived that was published for certain.
    fn has_all(&self) -> bool {
        let mut programs = (0..).zip(&self.sent);
        programs.all(|(number, sent)| self.checker.arrived(number) >= *sent)
    }

    /// The last sender has closed: the reader gets the end, and nothing follows it.
    fn finish(&mut self) -> Option<()> {
        let mut hung = Deadline::of(HUNG);
        while !self.take(&mut hung)? {}
        // A kill that was due comes before the end, and what was sent twice comes behind it.
        for _ in 0..LOOKS_BEHIND {
            self.take(&mut hung)?;
        }
        for (number, sent) in (0..).zip(&self.sent) {
            let arrived = self.checker.arrived(number);
            if arrived == sent + 1 {
                // Published, and killed before it could store that.
                self.checker.sent(number, arrived);
            } else if arrived > *sent {
                let why = format!("{arrived} messages of sender {number}, which sent {sent}");
                self.checker.failed(why);
            }
        }
        self.checker.ended();
        Some(())
    }
}
