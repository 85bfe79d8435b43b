//! `file://` and `nats://`: recorders, replays, bridges, programs and a server are killed and
//! started again.

use crate::checker::Checker;
use crate::common::{Other, Random, TestFolder, bridges, kill};
#[cfg(feature = "nats")]
use crate::nats_server::Server;
use crate::options::{Run, say};
use crate::reader::Reader;
use crate::traffic::{Got, HUNG, Plan, Publishers, Receive, receive_all};
use olivine::{Bridge, Config, Subscriber};
use std::collections::BTreeMap;

/// The transport of the messages.
pub(crate) enum Far<'s> {
    Journal,
    #[cfg(feature = "nats")]
    Nats(&'s mut Server),
    #[cfg(not(feature = "nats"))]
    _None(std::marker::PhantomData<&'s ()>),
}

/// What is at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    /// A program that opens the URI.
    Program,
    /// A bridge to a channel in shared memory, which is sometimes stopped and started again.
    Bridge,
    /// The same in its own process, which is killed.
    Process,
}

/// What starts, in any order, and may be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Component {
    Publishers,
    Source,
    Destination,
    Receiver,
    Server,
}

/// The random options of a run.
#[derive(Clone, Debug)]
struct Options {
    source: Endpoint,
    destination: Endpoint,
    /// The receiver is a program with a durable name.
    named: bool,
    order: [Component; 4],
    publishers: usize,
    messages: u64,
    longest: u64,
    /// The server is away while publishers close.
    #[cfg_attr(
        not(feature = "nats"),
        expect(dead_code, reason = "a journal has no server")
    )]
    close_down: bool,
    capacities_kib: [u64; 2],
    /// Settings of the place elsewhere.
    query: String,
    /// Kills, each when so many messages have arrived.
    kills: Vec<(u64, Component)>,
    channel: u64,
}

impl Options {
    fn draw(random: &mut Random, is_journal: bool) -> Self {
        let coin = |random: &mut Random| random.below(2) == 1;
        let end = |random: &mut Random| match random.below(4) {
            0 => Endpoint::Program,
            1 => Endpoint::Bridge,
            _ => Endpoint::Process,
        };
        let (source, destination, named) = (end(random), end(random), coin(random));
        let mut order = [
            Component::Publishers,
            Component::Source,
            Component::Destination,
            Component::Receiver,
        ];
        for last in (1..order.len()).rev() {
            let other = random.below(last as u64 + 1);
            order.swap(last, usize::try_from(other).unwrap());
        }
        let publishers = match source {
            Endpoint::Program => 1,
            _ => 1 + usize::try_from(random.below(3)).unwrap(),
        };
        let messages = 200 + random.below(3000);
        let all = messages * publishers as u64;
        let mut kills = Vec::new();
        for (component, may) in [
            (Component::Source, source != Endpoint::Program),
            (Component::Destination, destination != Endpoint::Program),
            // A recorder that is stopped closes its journal: a reader that is killed has had the
            // end, then.
            (
                Component::Receiver,
                named && !(is_journal && source == Endpoint::Bridge),
            ),
            (Component::Server, !is_journal),
        ] {
            let count = random.below(3);
            if may {
                kills.extend((0..count).map(|_| (random.below(all), component)));
            }
        }
        kills.sort_by_key(|(at, _)| *at);
        let one_of = |random: &mut Random, words: &[&'static str]| -> &'static str {
            words[usize::try_from(random.below(words.len() as u64)).unwrap()]
        };
        let close_down = !is_journal && coin(random);
        let query = if is_journal {
            let sync = one_of(random, &["never", "block", "interval:5ms"]);
            let rotate = one_of(random, &["never", "16KiB", "64KiB", "1MiB"]);
            let packed = if random.below(4) == 0 && cfg!(feature = "zstd") {
                "&compress=zstd"
            } else {
                ""
            };
            format!("sync={sync}&rotate={rotate}{packed}")
        } else {
            let retention = one_of(random, &["limits", "interest"]);
            format!("timeout=1s&retention={retention}")
        };
        let small = 16 << random.below(3);
        Self {
            source,
            destination,
            named,
            order,
            publishers,
            messages,
            longest: 64 + random.below(1900),
            close_down,
            capacities_kib: [small, small << random.below(2)],
            query,
            kills,
            channel: random.next(),
        }
    }
}

/// Last lines of the server's log that a failing run prints.
#[cfg(feature = "nats")]
const LOG_LINES: usize = 40;

enum Link {
    Inside(Bridge),
    Process(Other),
}

/// A planted fault that the checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    Lost,
    Repeated,
    Torn,
    Hung,
    SilentEnd,
}

/// A receiver that fails after half of the messages.
struct AtFault {
    inner: Box<dyn Receive>,
    planted: Option<Planted>,
    after: u64,
    again: Option<Vec<u8>>,
}

impl Receive for AtFault {
    fn next(&mut self, received: u64) -> Got {
        if let Some(again) = self.again.take() {
            return Got::Message(again);
        }
        let Some(planted) = self.planted.filter(|_| received >= self.after) else {
            return self.inner.next(received);
        };
        match planted {
            Planted::Hung => return Got::Nothing,
            Planted::SilentEnd => return Got::Closed,
            _ => {}
        }
        let Got::Message(mut bytes) = self.inner.next(received) else {
            return Got::Nothing;
        };
        self.planted = None;
        match planted {
            Planted::Lost => return Got::Nothing,
            Planted::Torn => bytes[9] ^= 4,
            _ => self.again = Some(bytes.clone()),
        }
        Got::Message(bytes)
    }
}

/// The running components and their options.
struct Scene<'a> {
    options: Options,
    far: Far<'a>,
    kills: Vec<(u64, Component)>,
    counts: BTreeMap<&'static str, u64>,
    /// Source and destination of the two links.
    source: [String; 2],
    destination: [String; 2],
    links: [Option<Link>; 2],
}

/// Runs the scene. With `planted` the receiver fails, and waits are short.
pub(crate) fn run(random: &mut Random, far: Far<'_>, planted: Option<Planted>) -> Run {
    let is_journal = matches!(far, Far::Journal);
    let options = Options::draw(random, is_journal);
    say(&options);
    let place = TestFolder::new();
    let dir = place.dir();
    let [ours, theirs] = options.capacities_kib;
    let channel = format!("chaos-{:016x}", options.channel);
    let (sending, receiving) = match &far {
        Far::Journal => {
            let path = place.file("chaos.olv");
            let uri = |query: &str| format!("file://{}?{query}", path.display());
            (uri(&options.query), uri("follow=yes"))
        }
        #[cfg(feature = "nats")]
        Far::Nats(server) => {
            let query = &options.query;
            // With interest retention, messages without a subscriber are not kept.
            let awaited = format!("{query}&subscribers=1");
            let oldest = format!("{query}&from=oldest");
            (
                server.uri(&channel, &awaited),
                server.uri(&channel, &oldest),
            )
        }
        #[cfg(not(feature = "nats"))]
        Far::_None(_) => (String::new(), channel.clone()),
    };
    let sending = format!("{sending}&capacity={ours}KiB");
    let receiving = format!("{receiving}&capacity={theirs}KiB&dir={}", dir.display());
    let from = place.uri("from", &format!("capacity={ours}KiB"));
    let to = place.uri("to", &format!("capacity={theirs}KiB"));
    let publish = match options.source {
        Endpoint::Program => sending.clone(),
        _ => format!("{from}&subscribers=1"),
    };
    let publish = vec![publish; options.publishers];
    let subscribe = match options.destination {
        Endpoint::Program => receiving.clone(),
        _ => to.clone(),
    };
    let is_of_reader =
        |(at, component): &(u64, Component)| (*component == Component::Receiver).then_some(*at);
    let reader_kills: Vec<u64> = options.kills.iter().filter_map(is_of_reader).collect();
    let mut kills = options.kills.clone();
    kills.retain(|(_, component)| *component != Component::Receiver);
    kills.reverse();
    let mut scene = Scene {
        far,
        kills,
        counts: BTreeMap::new(),
        source: [from, sending],
        destination: [receiving, format!("{to}&subscribers=1")],
        links: [None, None],
        options,
    };
    let (mut publishers, mut receiver) = (None, None);
    for component in scene.options.order {
        match component {
            Component::Publishers => {
                let Options {
                    messages, longest, ..
                } = scene.options;
                let started = Publishers::start(&publish, messages, longest, random);
                publishers = Some(started);
            }
            Component::Receiver if scene.options.named => {
                let uri = format!("{subscribe}&name=reader");
                let reader = Reader::start(&place, &uri, &reader_kills);
                receiver = Some(Box::new(reader) as Box<dyn Receive>);
            }
            Component::Receiver => receiver = Some(Box::new(Subscriber::open(&subscribe).unwrap())),
            component => scene.start(component),
        }
    }
    let mut publishers = publishers.unwrap();
    let mut receiver = AtFault {
        inner: receiver.unwrap(),
        planted,
        after: scene.options.messages * scene.options.publishers as u64 / 2,
        again: None,
    };
    let hung = match planted {
        Some(_) => HUNG / 10,
        None => HUNG,
    };
    let checker = receive_all(&mut publishers, &mut receiver, &mut scene, hung);
    let verdict = checker.verdict();
    if !verdict.is_good() && planted.is_none() {
        scene.complain();
    }
    let mut faults = std::mem::take(&mut scene.counts);
    faults.insert("readers to kill", reader_kills.len() as u64);
    drop(receiver);
    drop(scene.links);
    #[cfg(feature = "nats")]
    if let Far::Nats(server) = scene.far {
        server.ask(&format!("$JS.API.STREAM.DELETE.{channel}"), "");
    }
    Run { verdict, faults }
}

impl Scene<'_> {
    fn start(&mut self, component: Component) {
        let (place, end, uris) = match component {
            Component::Source => (0, self.options.source, &self.source),
            Component::Destination => (1, self.options.destination, &self.destination),
            other => panic!("{other:?} is not a link"),
        };
        let [from, to] = uris;
        // A source ends with its publishers; a destination could see that too early.
        let until_end = component == Component::Source;
        self.links[place] = match end {
            Endpoint::Program => None,
            Endpoint::Bridge => {
                let config = |uri: &str| Config::parse(uri).unwrap();
                let bridge = Bridge::start(&config(from), &config(to), until_end);
                Some(Link::Inside(bridge.unwrap()))
            }
            Endpoint::Process if until_end => Some(Link::Process(bridges::ending(from, to))),
            Endpoint::Process => Some(Link::Process(bridges::keeping(from, to))),
        };
    }

    fn kill(&mut self, component: Component) {
        let place = match component {
            Component::Source => 0,
            Component::Destination => 1,
            _ => return self.kill_server(),
        };
        let word = match self.links[place].take() {
            // Its process has ended together with its source.
            None => return,
            Some(Link::Process(process)) => {
                kill(process);
                "bridges killed"
            }
            Some(Link::Inside(bridge)) => {
                drop(bridge);
                "bridges stopped"
            }
        };
        *self.counts.entry(word).or_default() += 1;
        self.start(component);
    }

    fn kill_server(&mut self) {
        #[cfg(feature = "nats")]
        // It is down already while its publishers close.
        if let Far::Nats(server) = &mut self.far
            && server.is_running()
        {
            server.kill();
            server.start();
            *self.counts.entry("servers killed").or_default() += 1;
        }
    }

    /// Prints the status of the links and the log of the server.
    fn complain(&self) {
        #[cfg(feature = "nats")]
        if let Far::Nats(server) = &self.far {
            let channel = format!("chaos-{:016x}", self.options.channel);
            for subject in ["STREAM.INFO", "CONSUMER.LIST"] {
                let subject = format!("$JS.API.{subject}.{channel}");
                println!("  {}", server.ask(&subject, ""));
            }
            let log = server.log();
            let lines: Vec<&str> = log.lines().collect();
            for line in lines.iter().skip(lines.len().saturating_sub(LOG_LINES)) {
                println!("  {line}");
            }
        }
        for link in self.links.iter().flatten() {
            if let Link::Inside(bridge) = link {
                println!("  {:?}", bridge.status());
            }
        }
    }
}

impl Plan for Scene<'_> {
    fn look(&mut self, received: u64, checker: &mut Checker) {
        for link in &mut self.links {
            if let Some(Link::Process(process)) = link
                && let Some(status) = process.try_wait().unwrap()
            {
                *link = None;
                if !status.success() {
                    checker.failed(format!("a bridge's process ended: {status}"));
                }
            }
        }
        while let Some((_, component)) = self.kills.pop_if(|(at, _)| *at <= received) {
            self.kill(component);
        }
    }

    fn before_close(&mut self) {
        #[cfg(feature = "nats")]
        if let (true, Far::Nats(server)) = (self.options.close_down, &mut self.far) {
            server.kill();
            if self.options.source == Endpoint::Program {
                // It closes when the server is back, but does not know that yet.
                server.start();
            }
            *self.counts.entry("closed while down").or_default() += 1;
        }
    }

    fn after_close(&mut self) {
        #[cfg(feature = "nats")]
        if let (true, Far::Nats(server)) = (self.options.close_down, &mut self.far)
            && self.options.source != Endpoint::Program
        {
            server.start();
        }
    }

    fn may_end_early(&self) -> bool {
        match self.far {
            // A stopped recorder closes its journal.
            Far::Journal => {
                let is_stopped =
                    |(_, component): &(u64, Component)| *component == Component::Source;
                self.options.source == Endpoint::Bridge && self.options.kills.iter().any(is_stopped)
            }
            // Lanes are known from their first message on.
            #[cfg(feature = "nats")]
            Far::Nats(_) => self.options.publishers > 1,
            #[cfg(not(feature = "nats"))]
            Far::_None(_) => false,
        }
    }
}
