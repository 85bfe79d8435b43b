//! `olivine sub --last`: the newest message of each publisher.

use crate::args::{OutputForm, SubArgs};
use crate::failure::{Failure, Outcome};
use crate::framing::{Written, write_message};
use crate::stop::{LOOK, Stop};
use crate::{settings, terminal};
use olivine::{Message, ReceiveError, Scheme, Subscriber};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

/// Messages read at once.
const BATCH: usize = 65_536;

/// The newest message of a lane.
#[derive(Default)]
struct Newest {
    tag: u32,
    topic: String,
    payload: Vec<u8>,
}

/// Runs the command.
pub(super) fn run(args: &SubArgs, form: OutputForm) -> Outcome {
    // It reads what is in the ring, and no publisher waits for it.
    let newest = args
        .channel
        .with(&[("from", "oldest"), ("delivery", "latest")]);
    let config = newest.config(&args.uri)?;
    if config.scheme() != Scheme::Shm {
        return Err(Failure::usage(format!(
            "--last reads the ring of a channel in shared memory, and {} is elsewhere: use \
             --count 1",
            settings::short(&config)
        )));
    }
    if settings::is_durable(&config) {
        return Err(Failure::usage(
            "--last starts at the oldest message of the ring, and 'name=' at a stored position: \
             leave one of them out",
        ));
    }
    let stop = Stop::install()?.with_time_limit(args.duration);
    let stated = args.stated.as_ref();
    let mut subscriber = super::opened(&config, stated)?;
    let found = read(&mut subscriber, &stop)?;
    if found.is_empty() {
        stop.cut_short()?;
        return Err(Failure::failed(format!(
            "{} has no message yet",
            settings::short(&config)
        )));
    }
    let fields = stated.map_or_else(|| subscriber.fields(), |stated| stated.fields().clone());
    let mut out = BufWriter::new(io::stdout().lock());
    for (lane, newest) in &found {
        let written = Written {
            lane: *lane,
            tag: newest.tag,
            topic: &newest.topic,
            payload: &newest.payload,
            fields: &fields,
            escape: terminal::is_stdout(),
        };
        write_message(&mut out, form, &written).map_err(Failure::stdout)?;
    }
    out.flush().map_err(Failure::stdout)
}

/// Reads up to what was published when it began; without a message waits for the first.
fn read(subscriber: &mut Subscriber, stop: &Stop) -> Outcome<BTreeMap<usize, Newest>> {
    let lanes = subscriber.inspect_lanes();
    let ends: BTreeMap<usize, u64> = lanes
        .iter()
        .map(|lane| (lane.index, lane.cursor.0))
        .collect();
    let mut found: BTreeMap<usize, Newest> = BTreeMap::new();
    let mut take = |message: Message<'_>| {
        let newest = found.entry(message.lane()).or_default();
        newest.tag = message.tag();
        message.topic().clone_into(&mut newest.topic);
        newest.payload.clear();
        newest.payload.extend_from_slice(&message);
    };
    let mut has_message = false;
    loop {
        let is_empty = match subscriber.poll(&mut take, BATCH) {
            Ok(count) => {
                has_message |= count > 0;
                count == 0
            }
            Err(ReceiveError::Closed) => true,
            // It reads on with what is left.
            Err(ReceiveError::Overrun { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        let lanes = subscriber.inspect_lanes();
        let is_behind =
            |index: usize, position: u64| ends.get(&index).is_some_and(|end| position < *end);
        let reached = !lanes
            .iter()
            .any(|lane| is_behind(lane.index, lane.position.0));
        if (has_message && (is_empty || reached)) || stop.now() {
            break;
        }
        if is_empty {
            match subscriber.wait(LOOK) {
                Ok(_) | Err(ReceiveError::Closed) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(found)
}
