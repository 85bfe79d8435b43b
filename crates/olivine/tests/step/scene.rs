//! The scene of a death, and what must be true after it.

use crate::common::{TestFolder, WATCHDOG};
use olivine::{
    Config, MessageType, NotSent, OpenError, Publisher, ReceiveError, Subscriber, admin,
};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Small, so that every check fills the whole ring, and comparing after each step is cheap.
const SHAPE: &str = "publishers_max=4&subscribers_max=4&wait=park";

/// Fields of the messages, as participants state them, and as the child that fixes the shape does.
const FIELDS: &str = "number u64, mark u8[88]";
pub(crate) const OTHER_FIELDS: &str = "number u64, mark i8[88]";

/// Numbers of the messages with which the successors fill their rings start at multiples of this.
const FILLING: u64 = 10_000;

/// Words of the control file, see `docs/layout.md`.
const SLEEPERS: u64 = 48;
const SLOTS: u64 = 512;
const SLOT_STRIDE: u64 = 48;
const PARK: u64 = 32;
/// Words of a lane's header.
const CURSOR: u64 = 16;

/// The child's end of the channel.
#[derive(Default)]
pub(crate) struct Handles {
    pub(crate) publisher: Option<Publisher>,
    pub(crate) subscriber: Option<Subscriber>,
}

/// One operation that is killed at every place.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Settings besides the geometry.
    pub(crate) query: &'static str,
    /// Whether the channel has living participants.
    pub(crate) bystanders: bool,
    /// What the parent prepares for the child.
    pub(crate) before: fn(&mut Scene),
    /// What the child does before the mark.
    pub(crate) prepare: fn(&str, &mut Handles),
    /// What the parent does while the child stands at the mark.
    pub(crate) ready: fn(&mut Scene),
    /// The operation that is killed.
    pub(crate) act: fn(&str, &mut Handles) -> Result<(), String>,
}

/// A channel with bystanders.
pub(crate) struct Scene {
    place: TestFolder,
    query: &'static str,
    publisher: Option<Publisher>,
    pub(crate) subscriber: Option<Subscriber>,
    sent: u64,
    seen: u64,
    /// Numbers of messages of others that the bystander has read.
    theirs: Vec<u64>,
    /// Settings of participants that open the channel after the death.
    capacity: &'static str,
    fields: &'static str,
    /// The bystander came first without settings: the child fixes the geometry.
    open: bool,
    /// How long to wait for room.
    pub(crate) room_timeout: Duration,
}

/// A message of the bystander: marked, numbered, longer than a cache line.
fn message(kind: u8, number: u64) -> [u8; 96] {
    let mut bytes = [kind; 96];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The type of the messages, with these fields.
fn stated(fields: &str) -> MessageType {
    let stated = MessageType::new("step v1", 96, 8).unwrap();
    stated.with_fields(fields).unwrap()
}

/// Opens a publisher that states `fields`.
pub(crate) fn publisher_of(uri: &str, fields: &str) -> Result<Publisher, OpenError> {
    Publisher::open_for(&Config::parse(uri)?, &stated(fields))
}

/// Opens a publisher that states the fields of most participants.
pub(crate) fn publisher(uri: &str) -> Result<Publisher, OpenError> {
    publisher_of(uri, FIELDS)
}

/// Opens a subscriber that states them.
pub(crate) fn subscriber(uri: &str) -> Result<Subscriber, OpenError> {
    Subscriber::open_for(&Config::parse(uri)?, &stated(FIELDS))
}

/// A message of the child.
pub(crate) fn childs(number: u64) -> [u8; 96] {
    message(b'c', number)
}

impl Scene {
    pub(crate) fn new(operation: &Operation) -> Self {
        let mut scene = Self {
            place: TestFolder::new(),
            query: operation.query,
            publisher: None,
            subscriber: None,
            sent: 0,
            seen: 0,
            theirs: Vec::new(),
            capacity: "4KiB",
            fields: FIELDS,
            open: false,
            room_timeout: WATCHDOG,
        };
        if operation.bystanders {
            scene.subscriber = Some(Subscriber::open(&scene.uri()).unwrap());
            scene.publisher = Some(publisher(&scene.uri()).unwrap());
            for _ in 0..3 {
                scene.talk();
            }
        }
        (operation.before)(&mut scene);
        scene
    }

    pub(crate) fn uri(&self) -> String {
        // As root a group other than our own, so that it must be set explicitly.
        let group = match rustix::process::getegid().as_raw() {
            0 => 44_001,
            own => own,
        };
        let query = self.query.replace("GROUP", &group.to_string());
        let capacity = self.capacity;
        self.place
            .uri("step", &format!("capacity={capacity}&{SHAPE}{query}"))
    }

    /// A subscriber without settings has come first.
    pub(crate) fn wait_for_the_first_publisher(&mut self) {
        let bare = self.place.uri("step", "wait=park");
        self.subscriber = Some(Subscriber::open(&bare).unwrap());
        self.open = true;
    }

    /// The dead child has fixed the whole geometry with the type, or nothing. It has stated its
    /// fields, or none.
    fn find_the_shape(&mut self) {
        for _ in 0..2 {
            match publisher_of(&self.uri(), self.fields) {
                Ok(_) => return,
                Err(OpenError::Mismatch {
                    key: "capacity",
                    found,
                    ..
                }) if found == "8192" => self.capacity = "8KiB",
                Err(OpenError::Type { found, .. }) if found.contains("mark i8") => {
                    self.fields = OTHER_FIELDS;
                }
                Err(other) => panic!("{other}"),
            }
        }
        publisher_of(&self.uri(), self.fields).unwrap();
    }

    /// The folder of the channel's files.
    pub(crate) fn folder(&self) -> std::path::PathBuf {
        self.place.channel("step")
    }

    /// The channel's files that exist.
    pub(crate) fn files(&self) -> Vec<std::fs::File> {
        let folder = self.folder();
        let names = ["control", "lane-0", "lane-1", "lane-2"];
        names
            .iter()
            .filter_map(|name| std::fs::File::open(folder.join(name)).ok())
            .collect()
    }

    pub(crate) fn write_word(&self, file: &str, word: u64, value: u64) {
        let path = self.place.channel("step").join(file);
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(&value.to_le_bytes(), word * 8).unwrap();
    }

    /// Raises the flags of the bystander, as if it slept.
    pub(crate) fn fall_asleep(&mut self) {
        self.write_word("control", SLEEPERS, 1);
        self.write_word("control", SLOTS + PARK, 1);
        self.write_word("control", SLOTS + SLOT_STRIDE + PARK, 1);
    }

    /// A publisher has died with its last messages before the cursor.
    pub(crate) fn leave_a_stale_lane(&mut self) {
        self.in_a_child_that_dies(|uri| {
            let mut publisher = publisher(uri).unwrap();
            for number in 0..3 {
                publisher.publish(&childs(number)).unwrap();
            }
            let _kept = std::mem::ManuallyDrop::new(publisher);
        });
        // The cursor of lane 1 is after its first message; the two later ones must be walked.
        self.write_word("lane-1", CURSOR, 104);
    }

    /// A subscriber has died without reading.
    pub(crate) fn leave_a_dead_subscriber(&mut self) {
        self.in_a_child_that_dies(|uri| {
            let subscriber = Subscriber::open(uri).unwrap();
            let _kept = std::mem::ManuallyDrop::new(subscriber);
        });
    }

    /// A durable subscriber has left, and keeps its slot.
    pub(crate) fn leave_a_durable_place(&mut self) {
        drop(Subscriber::open(&format!("{}&name=durable", self.uri())).unwrap());
        self.talk();
    }

    /// A durable subscriber was absent for too long: it was evicted, and missed messages were
    /// overwritten.
    pub(crate) fn leave_a_lost_place(&mut self) {
        let query = "&name=durable&expire=1ns";
        drop(Subscriber::open(&format!("{}{query}", self.uri())).unwrap());
        for _ in 0..100 {
            self.talk();
            self.read_along();
        }
    }

    /// A durable subscriber has left, and has expired.
    pub(crate) fn leave_an_expired_place(&mut self) {
        let query = "&name=durable&expire=1ns&from=oldest";
        drop(Subscriber::open(&format!("{}{query}", self.uri())).unwrap());
    }

    fn in_a_child_that_dies(&self, body: impl FnOnce(&str)) {
        let uri = self.uri();
        crate::trace::Traced::start(|| {
            body(&uri);
            crate::trace::mark();
        })
        .kill();
    }

    /// The bystander reads all messages and releases them.
    pub(crate) fn read_along(&mut self) {
        if let Some(subscriber) = &mut self.subscriber {
            read(subscriber, &mut self.seen, &mut self.theirs);
            subscriber.release();
        }
    }

    /// Subscribers reclaimed and evicted so far; none if the channel was removed.
    pub(crate) fn judged(&self) -> (u64, u64) {
        let config = Config::parse(&self.uri()).unwrap();
        match admin::inspect(&config) {
            Ok(found) => (found.reclaims, found.evictions),
            Err(OpenError::Missing { .. }) => (0, 0),
            Err(error) => panic!("{error}"),
        }
    }

    /// The bystander sends one message and reads all messages.
    pub(crate) fn talk(&mut self) {
        let Some(publisher) = &mut self.publisher else {
            return;
        };
        let started = Instant::now();
        while let Err(error) = publisher.try_publish(&message(b'b', self.sent)) {
            assert_eq!(error, NotSent::BackPressured);
            assert!(started.elapsed() < self.room_timeout, "no room comes");
            std::thread::yield_now();
            if let Some(subscriber) = &mut self.subscriber {
                read(subscriber, &mut self.seen, &mut Vec::new());
            }
        }
        self.sent += 1;
    }

    /// All `successors` send until there is no room, because the durable subscriber gates: it gets
    /// everything, in order.
    fn fill(
        &mut self,
        successors: &mut [Publisher],
        durable: &mut Subscriber,
        theirs: &mut Vec<u64>,
    ) {
        let mut got = Vec::new();
        while durable.poll(|_| {}, 1000).is_ok_and(|count| count > 0) {}
        let mut sent = 0;
        for (lane, successor) in successors.iter_mut().enumerate() {
            for number in 0.. {
                match successor.try_publish(&message(b'h', FILLING * (1 + lane as u64) + number)) {
                    Ok(_) => sent += 1,
                    Err(error) => {
                        assert_eq!(error, NotSent::BackPressured);
                        break;
                    }
                }
                assert!(number < 100, "the durable subscriber does not gate");
            }
        }
        read(durable, &mut self.seen.clone(), &mut got);
        assert_eq!(got.len(), sent, "the durable one gets everything");
        for lane in 0..successors.len() as u64 {
            let of_lane = got.iter().filter(|number| **number / FILLING == 1 + lane);
            assert!(of_lane.copied().is_sorted(), "in order");
        }
        if let Some(subscriber) = &mut self.subscriber {
            read(subscriber, &mut self.seen, theirs);
            let of_successors = theirs.iter().filter(|number| **number >= FILLING);
            assert_eq!(of_successors.count(), sent, "so does the bystander");
        }
    }

    /// All survivors continue, newcomers open the channel without help, and no files remain.
    /// `acknowledged` messages of the child are sure; another one may have been committed.
    pub(crate) fn check(mut self, acknowledged: u64) {
        let mut theirs = std::mem::take(&mut self.theirs);
        if self.open {
            self.find_the_shape();
        }
        // A dead durable subscriber gates until another one opens with its name.
        let durable = format!("{}&name=durable", self.uri());
        let mut durable = Subscriber::open(&durable).unwrap();
        for _ in 0..100 {
            // It must read, too, or no publisher could continue.
            while durable.poll(|_| {}, 1000).is_ok_and(|count| count > 0) {}
            self.talk();
            if let Some(subscriber) = &mut self.subscriber {
                read(subscriber, &mut self.seen, &mut theirs);
            }
        }
        // A successor takes the dead child's lane over; the child's messages come before its own.
        let mut successors = Vec::new();
        let full = loop {
            match publisher_of(&self.uri(), self.fields) {
                Ok(successor) => successors.push(successor),
                Err(error) => break error,
            }
        };
        assert!(matches!(full, OpenError::PublishersFull { .. }), "{full}");
        assert_eq!(successors.len(), 4 - usize::from(self.publisher.is_some()));
        self.fill(&mut successors, &mut durable, &mut theirs);
        durable.unsubscribe();
        let mut late = Subscriber::open(&self.uri()).unwrap();
        assert_eq!(late.fields().to_string(), self.fields, "stored fields");
        for (number, successor) in successors.iter_mut().enumerate() {
            let number = 1000 + number as u64;
            successor.publish(&message(b'h', number)).unwrap();
        }
        let mut of_successors = Vec::new();
        read(&mut late, &mut 0, &mut of_successors);
        assert_eq!(
            of_successors.len(),
            successors.len(),
            "a newcomer gets what is new"
        );
        if let Some(subscriber) = &mut self.subscriber {
            read(subscriber, &mut self.seen, &mut theirs);
            assert_eq!(self.seen, self.sent, "the bystander has everything");
            let childs: Vec<u64> = theirs.iter().copied().filter(|n| *n < 1000).collect();
            let all: Vec<u64> = (0..childs.len() as u64).collect();
            assert_eq!(childs, all, "in order, once");
            let count = childs.len() as u64;
            assert!(
                (acknowledged..=acknowledged + 1).contains(&count),
                "{count} messages of the dead arrived, {acknowledged} were acknowledged"
            );
        }
        drop((successors, late));
        self.subscriber = None;
        self.publisher = None;
        let left: Vec<_> = std::fs::read_dir(self.place.dir())
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

/// Reads all messages: the bystander's numbers must continue from `seen`; others are collected.
fn read(subscriber: &mut Subscriber, seen: &mut u64, others: &mut Vec<u64>) {
    let mut each = |bytes: &[u8]| {
        let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert_eq!(*bytes, message(bytes[8], number), "a torn message");
        if bytes[8] == b'b' {
            assert_eq!(number, *seen, "lost or repeated");
            *seen += 1;
        } else {
            others.push(number);
        }
    };
    // The second read finds a lane that appeared meanwhile.
    for _ in 0..2 {
        match subscriber.poll(|message| each(&message), usize::MAX) {
            Ok(_) | Err(ReceiveError::Closed) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
