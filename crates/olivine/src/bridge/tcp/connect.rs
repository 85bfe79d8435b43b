//! The side that connects: opens the connection, and opens it again after a break.

use super::destination::Receiving;
use super::greet;
use super::pipe::{ConnectionEnd, Pipe};
use super::sessions::Disconnect;
use super::socket;
use super::source::{Sending, send_failure};
use super::{LinkCounters, Tcp};
use crate::bridge::egress::Egress;
use crate::bridge::ingress::Ingress;
use crate::bridge::reconnect::{PAUSE_MAX, ReconnectBackoff};
use crate::bridge::wire::Close;
use crate::bridge::{Destination, Source, ring_error};
use crate::error::{LinkError, chain};
use crate::link::{Control, LinkStage};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long to retry while another connection seems to hold our session, in our time-outs.
const IN_USE_TIMEOUTS: u32 = 3;
/// Consecutive handshakes that may be damaged on the way, if the far side spoke the protocol
/// before.
const STRANGE_MAX: u32 = 3;

/// Sends a ring to a listener.
pub(super) fn source(
    tcp: &Tcp,
    mut source: Source,
    control: &Control,
    until_end: bool,
) -> Result<(), LinkError> {
    let mut egress = source.take_first()?;
    // The end of the last connection, and its time.
    let left: Cell<Option<(Disconnect, Instant)>> = Cell::new(None);
    let is_delivered = |egress: &mut Egress| {
        let goal = match control.stopping() {
            Some(_) => egress.set_goal(),
            None => Ok(()),
        };
        goal.is_ok() && matches!(egress.is_delivered(), Ok(true))
    };
    let may_go = |egress: &mut Egress| {
        let come_back = |(left, since): (Disconnect, Instant)| left.may_come_back(since.elapsed());
        let (may_come_back, end_sent) = match left.get() {
            Some(left) => (come_back(left), matches!(left.0, Disconnect::EndSent(_))),
            None => (false, false),
        };
        let is_asked = control.stopping().is_some();
        let delivered = is_delivered(egress);
        if egress.is_failed() {
            // It is awaited as the end is, from the first connection that was lost.
            return match left.get() {
                Some((Disconnect::FailureSent(_), _)) => !may_come_back,
                Some(_) => is_asked && !may_come_back && egress.is_acknowledged().unwrap_or(false),
                None => false,
            };
        }
        let ended = delivered && egress.is_ended();
        // A far side that got the end of the stream, did not reply and does not come back has
        // received it.
        (is_asked || (end_sent && ended)) && delivered && !(may_come_back && ended)
    };
    let session = |egress: &mut Egress, pipe: &mut Pipe, known| {
        // With the fields that are stored by now.
        let ours = greet::of_source(tcp, egress);
        let theirs = greet::call(pipe, control, &ours, known)?;
        let open_there = greet::resume(pipe, control, egress, |_, _| None)?;
        control.connected(format!("connected to {}", pipe.socket.far()));
        let counters = LinkCounters(control);
        let mut sending = Sending {
            pipe,
            egress,
            control,
            counters,
            strategy: tcp.strategy(),
            until_end,
            open_there,
            theirs: &theirs,
        };
        sending.run()
    };
    let session = |egress: &mut Egress, pipe: &mut Pipe, known| {
        let outcome = session(egress, pipe, known);
        let outcome = send_failure(outcome, pipe, egress, control);
        match pipe.failure_confirmed() {
            Some(false) => Err(ConnectionEnd::Unconfirmed),
            _ => outcome,
        }
    };
    let ended = attempts(tcp, control, &mut egress, may_go, |egress, pipe, known| {
        let connections = control.status().connections;
        let outcome = session(egress, pipe, known);
        let was_connected = control.status().connections > connections;
        let now = Disconnect::after(&outcome, pipe);
        let is_kept = match left.get() {
            // Nothing else is sent after a failure, until another publisher opens the lane: each
            // attempt repeats it.
            Some((Disconnect::FailureSent(_), _)) => egress.is_failed(),
            // An address that only accepts connections does not show whether the far side got the
            // end, nor that it is back.
            Some((Disconnect::EndSent(_), _)) => !was_connected,
            Some(_) => !was_connected && matches!(now, Disconnect::Broke(_)),
            None => false,
        };
        if !is_kept {
            left.set(Some((now, Instant::now())));
        }
        outcome
    });
    let failure_sent = matches!(left.get(), Some((Disconnect::FailureSent(_), _)));
    let ended = match egress.failure() {
        Some(error) if failure_sent => Err(error),
        _ => ended,
    };
    let is_failure = matches!(&ended, Err(error) if error.of_source().is_some());
    let is_confirmed = is_failure && egress.is_confirmed();
    if is_confirmed {
        control.failure_delivered();
    }
    let is_over = is_delivered(&mut egress) || is_confirmed;
    // Also of lanes beside a failed one.
    let left = egress.undelivered();
    if left > 0 || !is_over {
        control.leave_undelivered(left);
    }
    ended
}

/// Receives from a listener into a ring.
pub(super) fn destination(
    tcp: &Tcp,
    mut destination: Destination,
    control: &Control,
    until_end: bool,
) -> Result<(), LinkError> {
    let who = format!("{}/{}", tcp.address, tcp.config.channel());
    let mut ingress: Option<Ingress> = None;
    // Message count when the source ended last.
    let mut ended: Option<u64> = None;
    // The source has ended since then, and may lack our answer. It is given this time to get it.
    let unanswered: Cell<Option<(Instant, Duration)>> = Cell::new(None);
    loop {
        let may_go = |_: &mut Option<Ingress>| {
            let is_over = |(since, grace): (Instant, Duration)| since.elapsed() >= grace;
            control.stopping().is_some() || unanswered.get().is_some_and(is_over)
        };
        let outcome = attempts(tcp, control, &mut ingress, may_go, |kept, pipe, known| {
            let ours = greet::of_destination(tcp, &destination, kept.is_some());
            let ours = ours.map_err(ConnectionEnd::Failed)?;
            let theirs = greet::call(pipe, control, &ours, known)?;
            destination.adopt(&theirs.known, theirs.capacity);
            let ingress = match kept.as_mut() {
                Some(ingress) => ingress,
                None => kept.insert(
                    destination
                        .unchecked_ingress(&who)
                        .map_err(ConnectionEnd::Failed)?,
                ),
            };
            greet::fits(ingress, &theirs)?;
            greet::put_resume(pipe, ingress, theirs.incarnation)?;
            control.connected(format!("connected to {}", pipe.socket.far()));
            let counters = LinkCounters(control);
            let mut receiving = Receiving {
                pipe,
                ingress,
                control,
                counters,
                strategy: tcp.strategy(),
                incarnation: theirs.incarnation,
                fails_with_source: true,
            };
            let outcome = receiving.run();
            if !ingress.has_ended() {
                // Another stream has begun.
                unanswered.set(None);
            }
            match outcome {
                Ok(()) if until_end && !pipe.has_answered() => {
                    let since = unanswered
                        .get()
                        .map_or_else(Instant::now, |(since, _)| since);
                    unanswered.set(Some((since, pipe.end_grace())));
                    Err(ConnectionEnd::Cut)
                }
                // The source had ended, and holds nothing for us any more: what it has now is
                // another stream.
                Err(ConnectionEnd::ByPeer {
                    close: Close::Lost,
                    reason,
                }) if ended == Some(ingress.messages()) => {
                    ingress.end();
                    let close = Close::Leaving;
                    Err(ConnectionEnd::ByPeer { close, reason })
                }
                // What is missing does not come back: the next handle goes on without it.
                Err(ConnectionEnd::ByPeer {
                    close: close @ Close::Lost,
                    reason,
                }) => {
                    let far = pipe.socket.far().to_owned();
                    let failure = LinkError::Refused {
                        far,
                        reason: reason.clone(),
                    };
                    // Before the lanes: the handle of this link reports it once, as that of the
                    // link.
                    control.give_up(&failure);
                    let told = ingress.lose(&chain(&failure));
                    told.map_err(|error| ConnectionEnd::Failed(ring_error(error)))?;
                    Err(ConnectionEnd::ByPeer { close, reason })
                }
                outcome => outcome,
            }
        });
        match outcome {
            // A source that has its answer may be gone: another one may have its address.
            Err(error) if unanswered.get().is_some() => control.report(|status| {
                status.stage = LinkStage::Ended;
                status.note = format!("after the end: {}", chain(&error));
            }),
            outcome => outcome.inspect_err(|error| control.give_up(error))?,
        }
        if until_end || control.stopping().is_some() {
            return Ok(());
        }
        // Publishers may come back; until then, the subscriber sees the end of the stream. The
        // position in their ring is kept: older messages there are delivered already.
        if let Some(ingress) = &mut ingress {
            ingress.close_lanes();
            ended = Some(ingress.messages());
        }
        control.pause(PAUSE_MAX);
    }
}

/// Connects and runs `session` with `state` until it ends or fails. Between two attempts `may_go`
/// says whether nothing is left to do. After a request to end, it does not wait long for a far side
/// that is away. `session` gets whether the far side spoke the protocol before.
fn attempts<S>(
    tcp: &Tcp,
    control: &Control,
    state: &mut S,
    may_go: impl Fn(&mut S) -> bool,
    mut session: impl FnMut(&mut S, &mut Pipe, bool) -> Result<(), ConnectionEnd>,
) -> Result<(), LinkError> {
    let mut backoff = ReconnectBackoff::new(control, tcp.close_timeout());
    let mut in_use_since: Option<Instant> = None;
    // Consecutive attempts that ended before the other side's hello was understood.
    let mut strange = 0;
    loop {
        backoff.begin();
        let connections = control.status().connections;
        let known = connections > 0 && strange < STRANGE_MAX;
        let broken = match attempt(tcp, control, |pipe| session(state, pipe, known)) {
            Ok(()) | Err(ConnectionEnd::Stopped) => return Ok(()),
            Err(broken) => broken,
        };
        strange = match broken.is_corrupt() && control.status().connections == connections {
            true => strange + 1,
            false => 0,
        };
        let waited = match &broken {
            ConnectionEnd::ByPeer {
                close: Close::NameInUse,
                ..
            } => in_use_since.get_or_insert_with(Instant::now).elapsed(),
            _ => {
                in_use_since = None;
                Duration::ZERO
            }
        };
        if broken.is_final() || waited > tcp.timeout * IN_USE_TIMEOUTS {
            return Err(broken.into_error(&tcp.address.to_string()));
        }
        let note = format!("waiting for {}: {broken}", tcp.address);
        if may_go(state) || !backoff.may_retry(note, || false) {
            return Ok(());
        }
    }
}

fn attempt(
    tcp: &Tcp,
    control: &Control,
    session: impl FnOnce(&mut Pipe) -> Result<(), ConnectionEnd>,
) -> Result<(), ConnectionEnd> {
    control.report(|status| {
        // The outcome of an earlier attempt says more.
        if status.note.is_empty() {
            status.note = format!("connecting to {}", tcp.address);
        }
    });
    let host = &tcp.address.host;
    let found = socket::connect(
        control,
        host,
        tcp.address.port,
        tcp.config.groups.tcp.bind,
        tcp.timeout,
        tcp.tls.as_ref(),
    )?;
    let Some(socket) = found else {
        return Err(ConnectionEnd::Stopped);
    };
    let mut pipe = Pipe::new(socket, tcp.timeout);
    let outcome = session(&mut pipe);
    match &outcome {
        // We come back: a leave message would give our session up.
        Ok(()) | Err(ConnectionEnd::Silent { .. }) => {}
        Err(broken) => pipe.close_for(control, broken),
    }
    outcome
}
