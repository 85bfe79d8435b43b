//! `tcp://`: either side listens, programs or bridges at either end, and a proxy in between.

use crate::checker::Checker;
#[cfg(feature = "tls")]
use crate::common::certificates::{Authority, Purpose};
use crate::common::proxy::Proxy;
use crate::common::{Other, Random, TestFolder, bridges, free_port, kill};
use crate::faults::{Fault, Faults};
use crate::options::{Run, say};
use crate::traffic::{HUNG, Plan, Publishers, receive_all};
use olivine::{Bridge, Config, Subscriber};
use std::time::Duration;

/// Silence after which a connection is given up.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(250);
/// First bytes of a connection that no fault changes: magic and version, which define the rest.
pub(crate) const PREAMBLE: u64 = 16;
/// The same under TLS: a changed handshake is refused permanently, like a wrong certificate.
const HANDSHAKE: u64 = 16 << 10;

/// What is at one end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    /// A program that opens `tcp://`.
    Program,
    /// A bridge to a channel in shared memory.
    Bridge,
    /// The same in its own process, which is sometimes killed.
    Process,
}

/// What starts, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Component {
    Publishers,
    Source,
    Destination,
    Subscriber,
}

/// The random options of a run.
#[derive(Clone, Debug)]
struct Options {
    source: Endpoint,
    destination: Endpoint,
    source_listens: bool,
    tls: bool,
    order: [Component; 4],
    publishers: usize,
    messages: u64,
    longest: u64,
    /// Bridges continue after the source has ended.
    keep: bool,
    /// Publishers close while the link is down.
    close_down: bool,
    capacities_kib: [u64; 2],
    /// Faults, each after a number of messages.
    faults: Vec<(u64, Fault)>,
    /// Kills of the source and of the destination, each after a number of messages.
    kills: Vec<(u64, Component)>,
}

impl Options {
    fn draw(random: &mut Random) -> Self {
        let coin = |random: &mut Random| random.below(2) == 1;
        let end = |random: &mut Random| match random.below(4) {
            0 => Endpoint::Program,
            1 | 2 => Endpoint::Bridge,
            _ => Endpoint::Process,
        };
        let (source, destination) = (end(random), end(random));
        let mut order = [
            Component::Publishers,
            Component::Source,
            Component::Destination,
            Component::Subscriber,
        ];
        for last in (1..order.len()).rev() {
            order.swap(
                last,
                usize::try_from(random.below(last as u64 + 1)).unwrap(),
            );
        }
        let publishers = match source {
            Endpoint::Program => 1,
            _ => 1 + usize::try_from(random.below(3)).unwrap(),
        };
        let messages = 200 + random.below(4000);
        let all = messages * publishers as u64;
        let mut faults: Vec<_> = (0..1 + random.below(6))
            .map(|_| (random.below(all), Fault::draw(random, TIMEOUT)))
            .collect();
        faults.sort_by_key(|(at, _)| *at);
        let mut kills = Vec::new();
        for (end, component) in [
            (source, Component::Source),
            (destination, Component::Destination),
        ] {
            if end == Endpoint::Process {
                let count = 1 + random.below(2);
                kills.extend((0..count).map(|_| (random.below(all), component)));
            }
        }
        kills.sort_by_key(|(at, _)| *at);
        let small = 16 << random.below(3);
        Self {
            source,
            destination,
            source_listens: coin(random),
            tls: random.below(4) == 0 && cfg!(feature = "tls"),
            order,
            publishers,
            messages,
            longest: 64 + random.below(1900),
            keep: coin(random),
            // The bridge of a program ends when the program closes.
            close_down: source != Endpoint::Program && coin(random),
            capacities_kib: [small, small << random.below(2)],
            faults,
            kills,
        }
    }
}

/// A link between a channel and the connection, in a thread or a process.
enum Link {
    Inside(Bridge),
    Process(Other),
}

/// The running components and their options.
struct Scene {
    options: Options,
    faults: Faults,
    kills: Vec<(u64, Component)>,
    /// A publisher closes while the link is down.
    down: bool,
    /// Source and destination of the two links.
    source: [String; 2],
    destination: [String; 2],
    links: [Option<Link>; 2],
}

/// Runs the scene.
pub(crate) fn run(random: &mut Random) -> Run {
    let options = Options::draw(random);
    say(&options);
    let place = TestFolder::new();
    let port = free_port();
    let spared = if options.tls { HANDSHAKE } else { PREAMBLE };
    let proxy = Proxy::sparing(port, spared);
    #[cfg(feature = "tls")]
    let authority = options.tls.then(|| Authority::new("chaos"));
    let far = |listens: bool, capacity: u64| {
        let (role, port) = match listens {
            true => ("listen", port),
            false => ("connect", proxy.port),
        };
        let timeout = TIMEOUT.as_millis();
        let uri = format!(
            "tcp://127.0.0.1:{port}/chaos?role={role}&timeout={timeout}ms&capacity={capacity}KiB"
        );
        #[cfg(feature = "tls")]
        if let Some(authority) = &authority {
            let own = match listens {
                true => authority.sign("server", Purpose::Server, |_| {}),
                false => format!("tls_ca={}", authority.ca().display()),
            };
            return format!("{uri}&tls=yes&{own}");
        }
        uri
    };
    let [ours, theirs] = options.capacities_kib;
    let from = place.uri("from", &format!("capacity={ours}KiB"));
    let to = place.uri("to", &format!("capacity={theirs}KiB"));
    let (sending, receiving) = (
        far(options.source_listens, ours),
        far(!options.source_listens, theirs),
    );
    let publish = match options.source {
        Endpoint::Program => &sending,
        _ => &from,
    };
    let publish = vec![format!("{publish}&subscribers=1"); options.publishers];
    let subscribe = match options.destination {
        Endpoint::Program => receiving.clone(),
        _ => to.clone(),
    };
    let mut scene = Scene {
        faults: Faults::new(proxy, options.faults.clone()),
        kills: options.kills.iter().rev().copied().collect(),
        down: false,
        source: [from, sending],
        destination: [receiving, format!("{to}&subscribers=1")],
        links: [None, None],
        options,
    };
    let (mut publishers, mut subscriber) = (None, None);
    for component in scene.options.order {
        match component {
            Component::Publishers => {
                let Options {
                    messages, longest, ..
                } = scene.options;
                let started = Publishers::start(&publish, messages, longest, random);
                publishers = Some(started);
            }
            Component::Subscriber => subscriber = Some(Subscriber::open(&subscribe).unwrap()),
            component => scene.start(component),
        }
    }
    let (mut publishers, mut subscriber) = (publishers.unwrap(), subscriber.unwrap());
    let checker = receive_all(&mut publishers, &mut subscriber, &mut scene, HUNG);
    let mut faults = std::mem::take(&mut scene.faults.counts);
    faults.insert("flips that hit", scene.faults.proxy.flipped());
    faults.insert("connections", scene.faults.proxy.connections());
    let verdict = checker.verdict();
    if !verdict.is_good() {
        scene.complain();
    }
    Run { verdict, faults }
}

impl Scene {
    fn start(&mut self, component: Component) {
        let (place, end, uris) = match component {
            Component::Source => (0, self.options.source, &self.source),
            Component::Destination => (1, self.options.destination, &self.destination),
            other => panic!("{other:?} is not a link"),
        };
        let [from, to] = uris;
        self.links[place] = match end {
            Endpoint::Program => None,
            Endpoint::Bridge => {
                let config = |uri: &str| Config::parse(uri).unwrap();
                let bridge = Bridge::start(&config(from), &config(to), !self.options.keep);
                Some(Link::Inside(bridge.unwrap()))
            }
            Endpoint::Process => Some(Link::Process(bridges::keeping(from, to))),
        };
    }

    /// Prints the status of the links.
    fn complain(&self) {
        for link in self.links.iter().flatten() {
            if let Link::Inside(bridge) = link {
                println!("  {:?}", bridge.status());
            }
        }
    }
}

impl Plan for Scene {
    fn look(&mut self, received: u64, checker: &mut Checker) {
        if !self.down {
            self.faults.look(received);
        }
        for link in &mut self.links {
            if let Some(Link::Process(process)) = link
                && let Some(status) = process.try_wait().unwrap()
            {
                checker.failed(format!("a bridge's process ended: {status}"));
                *link = None;
            }
        }
        while let Some((_, component)) = self.kills.pop_if(|(at, _)| *at <= received) {
            let place = usize::from(component == Component::Destination);
            if let Some(Link::Process(process)) = self.links[place].take() {
                kill(process);
                *self.faults.counts.entry("killed").or_default() += 1;
            }
            self.start(component);
        }
    }

    fn before_close(&mut self) {
        if self.options.close_down {
            self.faults.settle();
            self.faults.proxy.set_down(true);
            self.down = true;
            *self.faults.counts.entry("closed while down").or_default() += 1;
        }
    }

    fn after_close(&mut self) {
        if self.options.close_down {
            self.faults.proxy.set_down(false);
            self.down = false;
        }
    }
}
