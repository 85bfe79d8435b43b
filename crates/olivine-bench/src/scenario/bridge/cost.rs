//! Publisher's cost of a message: with a plain subscriber on the channel, and with a bridge
//! instead. It is the scenario `cost`, whatever happens to the messages later.

use super::{Field, Part, Target};
use crate::channel::TemporaryChannel;
use crate::error::{BenchError, Result, io};
use crate::peer::Order;
use crate::result::Parameters;
use crate::rival::unpinned;
use crate::scenario::cost::Bursts;
use crate::scenario::throughput::{OWN, SLICE_NS, Stream, Way};
use crate::scenario::turns::Candidate;
use crate::scenario::{Session, Setup, Variant};
use crate::sys::process::{self, Ended};
use olivine::{OpenError, Publisher};
use rustix::process::Signal;
use std::process::{Command, Stdio};
use std::time::Duration;

const SIZE: u64 = 32;
const JOIN_MAX: Duration = Duration::from_secs(10);
/// Rates, so that a lower cost is a higher figure.
const TARGET: Target = Target::AtLeast(0.95);
const PLAIN: &str = "subscriber on shm://";
const BRIDGED: &str = "bridge to tcp://";
const SETTINGS: &str = "wait=park";

pub(super) fn enter(field: &mut Field<'_>, setup: &Setup) {
    let variant = Variant {
        method: OWN.to_owned(),
        parameters: Parameters {
            wait: Some("park".to_owned()),
            settings: SETTINGS.to_owned(),
            ..Parameters::pair(SIZE)
        },
    };
    let plain = Candidate::of::<Bursts>(setup, variant.clone());
    let bridged = Candidate::opened(setup, variant, bridged);
    for (name, candidate) in [(PLAIN, plain), (BRIDGED, bridged)] {
        field.candidates.push(Candidate {
            scenario: Part::Cost.scenario(),
            method: name.to_owned(),
            ..candidate
        });
    }
    field.compare(Part::Cost, SIZE, BRIDGED, PLAIN, TARGET);
}

/// A channel whose only subscriber is a bridge to the second process.
fn bridged(session: &mut Session<'_>, variant: &Variant) -> Result<Bursts> {
    let channel = TemporaryChannel::new("bench", 0, SETTINGS).map_err(OpenError::from)?;
    let port = process::free_port().map_err(io("find a free port"))?;
    let far = |role: &str| format!("tcp://127.0.0.1:{port}/bench?{SETTINGS}&role={role}");
    session.peer.run(&Order::Open {
        there: far("listen"),
    })?;
    let mut command = Command::new(&session.setup.program);
    command
        .args(["bridge", &channel.uri(), &far("connect")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let bridge = unpinned(|| process::start(&mut command, Signal::KILL));
    let bridge = Ended(bridge.map_err(io("start a bridge"))?);
    let mut publisher = Publisher::open(&channel.uri())?;
    if !publisher.wait_for_subscribers(1, Some(JOIN_MAX))? {
        return Err(BenchError::Protocol {
            found: "no subscriber joined the channel".to_owned(),
        });
    }
    let way = Way::Channel {
        publisher,
        _channel: channel,
    };
    let stream = Stream::over(session, way, variant, SLICE_NS)?;
    Ok(Bursts::into(stream, variant, Some(bridge)))
}
