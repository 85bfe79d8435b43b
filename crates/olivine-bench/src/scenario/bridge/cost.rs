//! Publisher's cost of a message: with a plain subscriber on the channel, and with a bridge
//! instead. It is the scenario `cost`, whatever happens to the messages later.

use super::{Field, Part, Target};
use crate::error::{Result, io};
use crate::method::Side;
use crate::protocol::Role;
use crate::result::Parameters;
use crate::run::{CLIENT, SERVER};
use crate::scenario::cost::Bursts;
use crate::scenario::throughput::{OWN, Stream, channel, stream_ns};
use crate::scenario::turns::Candidate;
use crate::scenario::{Session, Setup, Variant};
use olivine_arena::error::ArenaError;
use olivine_arena::sys::process::{self, Ended};
use rustix::process::Signal;
use std::process::{Command, Stdio};

const SIZE: u64 = 32;
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
    field.enter(Part::Cost, PLAIN, plain);
    field.enter(Part::Cost, BRIDGED, bridged);
    field.compare(Part::Cost, SIZE, BRIDGED, PLAIN, TARGET);
}

/// A channel whose only subscriber is a bridge to the second participant.
fn bridged(session: &mut Session<'_>, variant: &Variant) -> Result<Bursts> {
    session.prepare(crate::method::OLIVINE.name)?;
    let (uri, ring) = channel(session, SETTINGS)?;
    let port = process::free_port().map_err(io("find a free port"))?;
    let far = |role: &str| format!("tcp://127.0.0.1:{port}/bench?{SETTINGS}&role={role}");
    let set = &mut session.set;
    set.open_channel(SERVER, Side::Server, &far("listen"), variant.size())?;
    let own = session
        .setup
        .programs
        .first()
        .ok_or(ArenaError::EndClosed)?;
    let mut command = Command::new(own.path());
    command
        .args(["bridge", &uri, &far("connect")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let bridge = process::start(&mut command, Signal::KILL);
    let bridge = Ended(bridge.map_err(io("start a bridge"))?);
    let set = &mut session.set;
    set.open_channel(CLIENT, Side::Client, &uri, variant.size())?;
    let ring = usize::try_from(ring.unwrap_or(0)).unwrap_or(usize::MAX);
    let stream = Stream::over(session, Role::Measured, ring, variant, stream_ns(variant))?;
    Ok(Bursts::into(stream, variant, Some(bridge)))
}
