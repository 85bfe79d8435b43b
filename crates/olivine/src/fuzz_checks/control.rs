//! The files of a channel with damaged words.

use super::input::Input;
use super::refusals::{ends_reading, is_refusal};
use crate::admin;
use crate::channel::publisher::Publisher;
use crate::channel::subscriber::Subscriber;
use crate::error::{OpenError, ReceiveError};
use crate::uri::Config;
use std::path::{Path, PathBuf};

/// Messages taken from a damaged lane: it may be endless, a call must return.
const TAKEN_MAX: usize = 100;

thread_local! {
    /// One folder for all inputs of a thread, removed with it.
    static TEMPLATE: Template = Template::new();
}

/// An unused channel with unread messages.
struct Template {
    folder: tempfile::TempDir,
    control: Vec<u8>,
    lane: Vec<u8>,
}

impl Template {
    fn channel(&self) -> PathBuf {
        self.folder.path().join("claimed")
    }

    fn uri(&self, query: &str) -> String {
        let folder = self.folder.path().display();
        format!(
            "shm://claimed?dir={folder}&capacity=4KiB&publishers_max=3&subscribers_max=4{query}"
        )
    }

    fn new() -> Self {
        let mut made = Self {
            folder: tempfile::tempdir_in("/dev/shm").expect("a folder in shared memory"),
            control: Vec::new(),
            lane: Vec::new(),
        };
        drop(Subscriber::open(&made.uri("&name=durable")).expect("a place"));
        let mut publisher = Publisher::open(&made.uri("")).expect("a lane");
        for length in [0, 8, 100, 250] {
            publisher
                .publish(&vec![length; length.into()])
                .expect("room");
        }
        drop(publisher);
        let read = |name| std::fs::read(made.channel().join(name)).expect("left behind");
        (made.control, made.lane) = (read("control"), read("lane-0"));
        made
    }
}

/// Checks that with any content of the files, opening, inspecting, reading and sending stay inside
/// the mapping and return a result or a named error.
///
/// # Panics
///
/// If a check fails.
pub fn check_control(data: &[u8]) {
    TEMPLATE.with(|template| check(template, data));
}

fn check(template: &Template, data: &[u8]) {
    let folder = template.channel();
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut input = Input::new(data);
    let choice = input.byte();
    write(&folder, template, &mut input);

    let uri = template
        .uri(["", "&from=oldest", "&delivery=latest", "&name=durable"][usize::from(choice) % 4]);
    let config = Config::parse(&uri).expect("a good one");
    if let Err(error) = admin::inspect(&config) {
        refused(&error);
    }
    if let Ok(mut subscriber) = Subscriber::open_with(&config).map_err(|error| refused(&error)) {
        receive(&mut subscriber);
        if let Ok(mut publisher) = Publisher::open_with(&config).map_err(|error| refused(&error)) {
            for length in [0, 40, 900] {
                let _ = publisher.try_publish(&vec![1; length]);
            }
            receive(&mut subscriber);
        }
    }
    std::fs::remove_dir_all(&folder)
        .or_else(only_if_there)
        .expect("removed");
}

fn only_if_there(error: std::io::Error) -> std::io::Result<()> {
    match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

fn refused(error: &OpenError) {
    assert!(is_refusal(error), "{error}");
}

fn unread(error: &ReceiveError) {
    assert!(ends_reading(error, is_refusal), "{error}");
}

/// The original files, except the words and lengths that the input changes.
fn write(folder: &Path, template: &Template, input: &mut Input<'_>) {
    let (mut control, mut lane) = (template.control.clone(), template.lane.clone());
    input.damage([&mut control, &mut lane]);
    std::fs::write(folder.join("control"), control).expect("written");
    std::fs::write(folder.join("lane-0"), lane).expect("written");
}

fn receive(subscriber: &mut Subscriber) {
    let mut sum = 0_u64;
    let read = |message: &[u8]| message.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    match subscriber.poll(|message| sum += read(&message), TAKEN_MAX) {
        Ok(count) => assert!(count <= TAKEN_MAX),
        Err(error) => unread(&error),
    }
    match subscriber.try_receive() {
        Ok(message) => sum += message.map_or(0, |message| read(&message)),
        Err(error) => unread(&error),
    }
    std::hint::black_box((
        sum,
        subscriber.lag(),
        subscriber.position(),
        subscriber.inspect_lanes(),
    ));
}
