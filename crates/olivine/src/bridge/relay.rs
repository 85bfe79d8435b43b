//! From one ring of this machine into another.

use super::egress::Egress;
use super::ingress::{Ingress, NotTaken};
use super::{Destination, Outlet, Source, any_type, ring_error};
use crate::error::{LinkError, ReceiveError, chain};
use crate::link::{Control, LinkStage};
use crate::uri::Config;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of one lane before the next lane's turn.
const TURN_BYTES: u64 = 1 << 20;
/// Longest sleep without a check for an end request.
const NAP: Duration = Duration::from_millis(100);
/// Sleep while there is no room.
const ROOM_NAP: Duration = Duration::from_micros(100);

/// Carries into another ring of this machine.
#[derive(Debug)]
pub(crate) struct Relay {
    destination: Config,
}

impl Relay {
    /// Into the ring with the settings of `destination`.
    pub(crate) fn new(destination: &Config) -> Self {
        let destination = destination.clone();
        Self { destination }
    }
}

impl Outlet for Relay {
    fn run(
        self: Box<Self>,
        source: Source,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError> {
        let destination = Destination::new(&self.destination, any_type(), control);
        run(source, destination, control, until_end)
    }
}

/// Copies until an end is requested and everything is delivered, or, with `until_end`, until every
/// publisher has closed.
fn run(
    mut source: Source,
    mut destination: Destination,
    control: &Control,
    until_end: bool,
) -> Result<(), LinkError> {
    let who = format!("ring {}", source.ring().uri());
    let mut egress = source.take_first()?;
    let geometry = egress.geometry().clone();
    let known = egress.known_type();
    destination.adopt(&known, geometry.capacity);
    let mut ingress = destination.unchecked_ingress(&who)?;
    if ingress.incarnation() == egress.incarnation() {
        // The same ring under another URI: a symbolic link to the folder, or an explicit default.
        egress.unsubscribe();
        return Err(LinkError::Loop {
            far: destination.ring.uri(),
        });
    }
    ingress.fits("the source", geometry.capacity, geometry.align, &known)?;
    // Before the lanes are closed, so that readers get the reason.
    carry(&mut egress, &mut ingress, control, until_end).inspect_err(|error| {
        control.give_up(error);
        if error.of_source().is_some() {
            control.failure_delivered();
        }
    })
}

fn carry(
    egress: &mut Egress,
    ingress: &mut Ingress,
    control: &Control,
    until_end: bool,
) -> Result<(), LinkError> {
    let mut state = State {
        open: resume(egress, ingress)?,
        compared: None,
    };
    control.report(|status| {
        status.stage = LinkStage::Connected;
        (status.peers, status.connections) = (1, 1);
    });
    control.tried();
    loop {
        if control.must_stop() {
            egress.set_goal().map_err(reading)?;
            if !egress.is_delivered().map_err(reading)? {
                control.leave_undelivered(egress.undelivered());
            }
            return Ok(());
        }
        let asked = control.stopping().is_some();
        if asked {
            egress.set_goal().map_err(reading)?;
        }
        let Pass { bytes, full } = pass(egress, ingress, &mut state)?;
        if bytes > 0 {
            control.report(|status| {
                status.bytes += bytes;
                status.acknowledged_bytes += bytes;
                status.messages = ingress.messages();
            });
            continue;
        }
        let ended = egress.is_delivered().map_err(reading)? && !full;
        if ended && (asked || (until_end && egress.is_ended())) {
            if egress.is_ended() {
                ingress.end();
            }
            return Ok(());
        }
        if full {
            ingress.retry_room();
            control.pause(ROOM_NAP);
            continue;
        }
        sleep(egress, control)?;
    }
}

/// What a relay knows of both rings.
#[derive(Debug, Default)]
struct State {
    /// For each lane of the source whether it is open at the destination.
    open: Vec<bool>,
    /// The check words of the fields of both rings when they were compared.
    compared: Option<[u64; 2]>,
}

struct Pass {
    bytes: u64,
    /// Frames wait for room.
    full: bool,
}

/// Copies what is there, one round over the lanes.
fn pass(
    egress: &mut Egress,
    ingress: &mut Ingress,
    State { open, compared }: &mut State,
) -> Result<Pass, LinkError> {
    let lanes = egress.look().map_err(reading)?;
    open.resize(lanes, false);
    let (incarnation, source_fields) = (egress.incarnation(), egress.fields_check());
    let mut carried = Pass {
        bytes: 0,
        full: false,
    };
    for (place, open) in open.iter_mut().enumerate() {
        let lane = egress.lane(place);
        let position = egress.position(place);
        if !*open && !egress.is_lane_ended(place) {
            ingress
                .open_from(incarnation, lane, position)
                .map_err(writing)?;
            *open = true;
        }
        if !*open {
            continue;
        }
        let found = egress.next_frames(place, TURN_BYTES).map_err(reading)?;
        let mut bytes = found.bytes();
        if bytes.is_empty() {
            continue;
        }
        let length = bytes.len() as u64;
        // Their publisher may have stated fields that the source did not have before, and a
        // subscriber of the destination others. Fields are stored before the first message.
        let fields = [source_fields.value(), ingress.fields_check().value()];
        if *compared != Some(fields) {
            ingress.check_type("the source", &egress.known_type())?;
            *compared = Some(fields);
            bytes = egress.next_frames(place, length).map_err(reading)?.bytes();
        }
        match ingress.take(lane, position, bytes) {
            Ok(()) => {}
            Err(NotTaken::NoRoom { .. }) => {
                carried.full = true;
                ingress.request_room(lane, 0);
            }
            Err(error) => return Err(writing(error)),
        }
        // Committed messages are released here; a partly copied message is not.
        let done = ingress.acknowledged(lane).unwrap_or(position);
        ingress.interrupt();
        egress.advance(place, done);
        egress.acknowledge(place, done);
        carried.bytes += done - position;
    }
    close_ended(egress, ingress, open);
    Ok(carried)
}

/// Closes the lanes that have ended. At a handover another lane is open before, also here: without
/// it, readers would get the end of the stream.
fn close_ended(egress: &mut Egress, ingress: &mut Ingress, open: &mut [bool]) {
    let is_over = |place: &usize| {
        egress.position(*place) < egress.goal(*place) && egress.is_lane_ended(*place)
    };
    let places = (0..open.len()).filter(|place| open[*place]);
    let (ended, stays): (Vec<_>, Vec<_>) = places.partition(is_over);
    // END: after the states of the lanes. A publisher that opened another lane before the last one
    // closed is counted.
    if stays.is_empty() && !egress.is_ended() {
        return;
    }
    for place in ended {
        ingress.close_lane(egress.lane(place));
        open[place] = false;
    }
}

/// Continues at the positions of the destination: messages that it has from an earlier, killed run
/// are released. Returns the lanes that are open there: they may have ended here, which must still
/// be reported. Lanes that an earlier run left open for another channel of this name fail: that
/// channel's undelivered messages are lost.
///
/// # Errors
///
/// [`LinkError::Lost`] if the source no longer has the position of a lane, because the relay was
/// evicted. Each such lane is freed with this reason, so that the next relay goes on.
fn resume(egress: &mut Egress, ingress: &mut Ingress) -> Result<Vec<bool>, LinkError> {
    let followed = ingress.follow(egress.incarnation());
    followed.map_err(|problem| LinkError::Damaged {
        place: "the source".into(),
        problem,
    })?;
    let (lanes, evicted) = match egress.look() {
        Ok(lanes) => (lanes, None),
        // The name reports that it lost its place. The lanes show what is missing.
        Err(error @ ReceiveError::Evicted) => (egress.lanes(), Some(error)),
        Err(error) => return Err(reading(error)),
    };
    let mut open = vec![false; lanes];
    let mut lost = None;
    for (lane, position) in ingress.resume(egress.incarnation()) {
        let place = (0..lanes).find(|place| egress.lane(*place) == lane);
        let there = match place {
            Some(place) => egress.resume(place, position).map_err(reading)?,
            None => false,
        };
        if !there {
            let error = LinkError::Lost {
                far: "the source".into(),
                lane,
                position,
                problem: "the ring no longer has it".into(),
            };
            ingress.fail_lane(lane, &chain(&error)).map_err(writing)?;
            lost.get_or_insert(error);
            continue;
        }
        if let Some(place) = place {
            open[place] = ingress.is_open(lane);
        }
    }
    if let Some(error) = lost.or_else(|| evicted.map(reading)) {
        return Err(error);
    }
    if open.contains(&true) {
        // It has an end to report, though its publishers may have closed before we looked.
        egress.accept_closed_as_end();
    }
    Ok(open)
}

fn sleep(egress: &mut Egress, control: &Control) -> Result<(), LinkError> {
    let refused = |source: std::io::Error| LinkError::Io {
        action: "wait for messages of",
        place: "the source".into(),
        source: Arc::new(source),
    };
    egress.event_fd().map_err(refused)?;
    egress.arm();
    if !egress.is_delivered().map_err(reading)? {
        return Ok(());
    }
    let ring = egress.event_fd().map_err(refused)?;
    let wake = control.wake_fd();
    let mut polled = vec![PollFd::from_borrowed_fd(ring, PollFlags::IN)];
    if control.stopping().is_none() {
        polled.push(PollFd::from_borrowed_fd(wake, PollFlags::IN));
    }
    let nap = Timespec::try_from(NAP).unwrap_or_default();
    match poll(&mut polled, Some(&nap)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(refused(errno.into())),
    }
}

fn reading(source: ReceiveError) -> LinkError {
    let source = Arc::new(source);
    LinkError::Receive { source }
}

fn writing(error: NotTaken) -> LinkError {
    match error {
        NotTaken::Ring(source) => ring_error(source),
        other => LinkError::Protocol {
            far: "the source".into(),
            problem: other.to_string(),
        },
    }
}

/// One round over the lanes, while publishers come and go.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::attach::{ShapeRole, TypeTag};
    use crate::channel::publisher::Publisher;
    use crate::link::Stop;

    fn publisher(uri: &str) -> Publisher {
        Publisher::open_as(&Config::parse(uri).unwrap(), &TypeTag::default(), None).unwrap()
    }

    /// A relay whose bridge was asked to stop.
    fn relay(from: &str, to: &str) -> (Egress, Ingress) {
        let egress = Egress::open(&Config::parse(from).unwrap(), ShapeRole::Names).unwrap();
        let control = Control::new().unwrap();
        control.stop(Stop::Now);
        let to = Config::parse(to).unwrap();
        let destination = Destination::new(&to, any_type(), &control);
        (egress, destination.unchecked_ingress("a test").unwrap())
    }

    /// Its readers got the end of the stream: the lane was closed before the next one was opened.
    #[test]
    fn lane_stays_open_at_a_handover_until_the_next_one_is_open() {
        let from = "inproc://handover-from?capacity=4KiB";
        let to = "inproc://handover-to?capacity=4KiB&publishers_max=1";
        let (mut egress, mut ingress) = relay(from, to);
        let mut state = State::default();
        let mut first = publisher(from);
        first.publish(&[1; 24]).unwrap();
        assert_eq!(
            pass(&mut egress, &mut ingress, &mut state).unwrap().bytes,
            32
        );
        let next = publisher(from);
        first.close().unwrap();
        // The destination has no room for another lane.
        assert!(pass(&mut egress, &mut ingress, &mut state).is_err());
        assert!(ingress.is_open(0));
        drop(next);
    }

    /// The next lane was opened after the look for lanes.
    #[test]
    fn last_open_lane_closes_only_at_the_end_of_the_stream() {
        let from = "inproc://late-from?capacity=4KiB";
        let (mut egress, mut ingress) = relay(from, "inproc://late-to");
        let mut state = State::default();
        let first = publisher(from);
        pass(&mut egress, &mut ingress, &mut state).unwrap();
        let next = publisher(from);
        first.close().unwrap();
        close_ended(&mut egress, &mut ingress, &mut state.open);
        assert!(ingress.is_open(0));
        pass(&mut egress, &mut ingress, &mut state).unwrap();
        assert!(!ingress.is_open(0) && ingress.is_open(1));
        next.close().unwrap();
        pass(&mut egress, &mut ingress, &mut state).unwrap();
        assert!(!ingress.is_open(1));
    }
}
