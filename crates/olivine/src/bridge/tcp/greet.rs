//! Handshake: who we are, and whether the other side fits.

use super::Tcp;
use super::pipe::{ConnectionEnd, Pipe};
use crate::bridge::egress::Egress;
use crate::bridge::ingress::Ingress;
use crate::bridge::wire::hello::{Hello, Side};
use crate::bridge::wire::{Arrived, Close, LaneResume, WireError};
use crate::bridge::{Destination, wire};
use crate::error::LinkError;
use crate::link::Control;
use crate::message::KnownType;
use crate::ring::layout::Geometry;
use crate::uri::Start;

/// The hello of a source that sends from `egress`: the incarnation is that of this ring.
pub(super) fn of_source(tcp: &Tcp, egress: &Egress) -> Hello {
    Hello {
        incarnation: egress.incarnation(),
        ..of_source_before(tcp, egress.geometry(), egress.known_type())
    }
}

/// The hello of a source whose ring is not open yet, for comparison with others: it names no
/// incarnation.
pub(super) fn of_source_before(tcp: &Tcp, geometry: &Geometry, known: KnownType) -> Hello {
    Hello {
        side: Side::Source,
        capacity: geometry.capacity,
        align: geometry.align,
        known,
        name: tcp.config.name.clone().unwrap_or_default(),
        ..common(tcp)
    }
}

/// The hello of a destination for its existing or future ring. `again` says that it was connected
/// before, and wants every message.
///
/// # Errors
///
/// [`LinkError::Ring`] if the ring's settings exclude each other.
pub(super) fn of_destination(
    tcp: &Tcp,
    destination: &Destination,
    again: bool,
) -> Result<Hello, LinkError> {
    let planned = destination.planned_shape();
    let any_type = destination.typed().any && !planned.is_typed;
    Ok(Hello {
        side: Side::Destination,
        capacity: planned.geometry.capacity,
        align: planned.geometry.align,
        known: planned.known,
        any_type,
        name: tcp.config.name.clone().unwrap_or_default(),
        from: if again {
            Start::Oldest
        } else {
            tcp.config.from
        },
        ..common(tcp)
    })
}

fn common(tcp: &Tcp) -> Hello {
    Hello {
        channel: tcp.config.channel().to_owned(),
        token: tcp.token.clone(),
        instance: tcp.instance,
        expire: tcp.expire(),
        timeout: tcp.timeout,
        ..Hello::default()
    }
}

/// Whether the other side fits us.
///
/// # Errors
///
/// [`ConnectionEnd::ByUs`] with the reason that the other side gets. The token is compared first:
/// strangers learn nothing else.
fn check(ours: &Hello, theirs: &Hello) -> Result<(), ConnectionEnd> {
    admit(ours, theirs)?;
    fit(ours, theirs)
}

/// Whether the other side may know our channel, and has the opposite direction.
///
/// # Errors
///
/// As [`check`].
pub(super) fn admit(ours: &Hello, theirs: &Hello) -> Result<(), ConnectionEnd> {
    let refuse = |close, reason: String| Err(ConnectionEnd::ByUs { close, reason });
    if !same_token(&ours.token, &theirs.token) {
        let reason = match (ours.token.is_empty(), theirs.token.is_empty()) {
            (true, _) => "this side has no token: drop 'token=' or give it on both sides",
            (_, true) => "a token is needed: give 'token='",
            _ => "the token is wrong: give both sides the same 'token='",
        };
        return refuse(Close::Token, reason.into());
    }
    if ours.channel != theirs.channel {
        let reason = format!(
            "channel '{}' is not here, this address serves '{}'",
            theirs.channel.escape_default(),
            ours.channel
        );
        return refuse(Close::Channel, reason);
    }
    if ours.side == theirs.side {
        let both = match ours.side {
            Side::Source => "both sides publish",
            Side::Destination => "both sides subscribe",
        };
        return refuse(Close::Direction, format!("{both}: connect the other kind"));
    }
    Ok(())
}

/// Whether messages of one side fit the ring of the other.
///
/// # Errors
///
/// As [`check`].
pub(super) fn fit(ours: &Hello, theirs: &Hello) -> Result<(), ConnectionEnd> {
    let refuse = |close, reason: String| Err(ConnectionEnd::ByUs { close, reason });
    let (source, destination) = match ours.side {
        Side::Source => (ours, theirs),
        Side::Destination => (theirs, ours),
    };
    fit_types(&source.known, destination)?;
    if source.align != destination.align {
        let reason = format!(
            "align={} at the publisher and align={} at the subscriber: give both the same 'align='",
            source.align, destination.align
        );
        return refuse(Close::Settings, reason);
    }
    if destination.capacity < source.capacity {
        let reason = format!(
            "capacity={} at the publisher and capacity={} at the subscriber, whose ring must be \
                 as large at least: give it a larger 'capacity='",
            source.capacity, destination.capacity
        );
        return refuse(Close::Settings, reason);
    }
    Ok(())
}

/// Whether messages of the type `source` are allowed on the destination's side.
///
/// # Errors
///
/// As [`check`].
pub(super) fn fit_types(source: &KnownType, destination: &Hello) -> Result<(), ConnectionEnd> {
    if destination.any_type {
        return Ok(());
    }
    match source.difference(&destination.known) {
        None => Ok(()),
        Some((source, destination)) => Err(ConnectionEnd::ByUs {
            close: Close::Type,
            reason: format!(
                "the publisher's side has '{source}' and the subscriber's side has \
                 '{destination}': use one type"
            ),
        }),
    }
}

/// Compares in constant time, so that the duration does not reveal the matching part.
fn same_token(ours: &str, theirs: &str) -> bool {
    let pairs = ours.bytes().zip(theirs.bytes());
    let difference = pairs.fold(0, |found, (a, b)| found | (a ^ b));
    ours.len() == theirs.len() && std::hint::black_box(difference) == 0
}

/// The side that connects: sends its hello, reads the other one, and checks it. With `known`, the
/// far side spoke the protocol before: an invalid hello was damaged on the way, and is tried again.
pub(super) fn call(
    pipe: &mut Pipe,
    control: &Control,
    ours: &Hello,
    known: bool,
) -> Result<Hello, ConnectionEnd> {
    pipe.greet(ours);
    control.report(|status| {
        status.note = format!("waiting for the hello of {}", pipe.socket.far());
    });
    let theirs = pipe.expect_hello(control, pipe.hello_time());
    let theirs = theirs.map_err(|broken| match broken {
        ConnectionEnd::Wire(error) if known && error.is_of_the_preamble() => {
            WireError::Checksum { what: "the hello" }.into()
        }
        ConnectionEnd::ByPeer {
            close: Close::Protocol | Close::Version,
            reason,
        } if known => ConnectionEnd::ByPeer {
            close: Close::Corrupt,
            reason,
        },
        other => other,
    })?;
    check(ours, &theirs)?;
    pipe.agree_on_timeout(theirs.timeout);
    Ok(theirs)
}

/// A source reads where the destination continues, and goes there. `missed` gets these places, and
/// returns a lane of whose messages some are missing. Returns the lanes that are open there.
pub(super) fn resume(
    pipe: &mut Pipe,
    control: &Control,
    egress: &mut Egress,
    missed: impl FnOnce(&mut Egress, &[LaneResume]) -> Option<u32>,
) -> Result<Vec<u32>, ConnectionEnd> {
    let (longest, awaited) = (pipe.hello_time(), " in place of its positions");
    let (incarnation, places) =
        pipe.expect(control, longest, awaited, |arrived| match arrived {
            Arrived::Resume {
                incarnation,
                places,
            } => Ok(Some((incarnation, places))),
            Arrived::Close { close, reason } => Err(ConnectionEnd::ByPeer { close, reason }),
            Arrived::Beat => Ok(None),
            _ => Err(WireError::Invalid("no resume comes first".into()).into()),
        })?;
    go_on_at(egress, incarnation, &places, missed)?;
    let open = places.iter().filter(|place| place.open);
    Ok(open.map(|place| place.lane).collect())
}

/// Moves to the positions that a destination named; `missed` as in [`resume`].
fn go_on_at(
    egress: &mut Egress,
    incarnation: u64,
    places: &[LaneResume],
    missed: impl FnOnce(&mut Egress, &[LaneResume]) -> Option<u32>,
) -> Result<(), ConnectionEnd> {
    let ours = egress.incarnation();
    if incarnation != ours {
        // The resume replies to the hello, which named our channel. Going back to the last
        // acknowledgement would repeat messages.
        return Err(ConnectionEnd::ByUs {
            close: Close::Protocol,
            reason: format!(
                "a resume in channel {incarnation:016x}, where this connection carries channel \
                {ours:016x}"
            ),
        });
    }
    egress.rewind();
    let lanes = egress.look().map_err(super::source::ring)?;
    let lost = |what: String| ConnectionEnd::ByUs {
        close: Close::Lost,
        reason: format!(
            "{what}: messages are missing; open the channel again to go on without them"
        ),
    };
    let missed = missed(egress, places);
    for &LaneResume { lane, position, .. } in places {
        let place = (0..lanes).find(|place| egress.lane(*place) == lane);
        let there = match place {
            Some(place) => egress
                .resume(place, position)
                .map_err(super::source::ring)?,
            None => false,
        };
        if !there {
            return Err(lost(format!("position {position} of lane {lane} is gone")));
        }
    }
    match missed {
        Some(lane) => Err(lost(format!(
            "the subscriber was away for longer than its 'expire=', and came back without its \
             position in lane {lane}"
        ))),
        None => Ok(()),
    }
}

/// Whether the source's frames fit the open ring, which may differ from the checked one.
///
/// # Errors
///
/// [`ConnectionEnd::ByUs`] with the reason that the source gets.
pub(super) fn fits(ingress: &mut Ingress, theirs: &Hello) -> Result<(), ConnectionEnd> {
    ingress.adopt(&theirs.known);
    if ingress.incarnation() == theirs.incarnation {
        let far = "the channel of the other side".to_owned();
        return Err(ConnectionEnd::ByUs {
            close: Close::Settings,
            reason: LinkError::Loop { far }.to_string(),
        });
    }
    let fits = ingress.fits(
        "the publisher",
        theirs.capacity,
        theirs.align,
        &theirs.known,
    );
    fits.map_err(|error| ConnectionEnd::ByUs {
        close: Close::Settings,
        reason: error.to_string(),
    })
}

/// A destination sends where it continues in the source's channel, unless its lanes belong to
/// another channel.
///
/// # Errors
///
/// [`ConnectionEnd::ByUs`] with the reason that the source gets.
pub(super) fn put_resume(
    pipe: &mut Pipe,
    ingress: &mut Ingress,
    incarnation: u64,
) -> Result<(), ConnectionEnd> {
    ingress.interrupt();
    ingress
        .follow(incarnation)
        .map_err(|reason| ConnectionEnd::ByUs {
            close: Close::Lost,
            reason,
        })?;
    let place = |(lane, position)| LaneResume {
        lane,
        position,
        open: ingress.is_open(lane),
    };
    let places: Vec<_> = ingress.resume(incarnation).into_iter().map(place).collect();
    wire::put_resume(&mut pipe.out, incarnation, &places);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::attach::{ShapeRole, TypeTag};
    use crate::channel::publisher::Publisher;
    use crate::uri::Config;

    /// A regression: the source went back to the last acknowledgement and repeated committed
    /// messages.
    #[test]
    fn a_resume_in_another_incarnation_is_refused_and_moves_nothing() {
        let config = Config::parse("inproc://shifted").unwrap();
        let mut egress = Egress::open(&config, ShapeRole::Names).unwrap();
        let mut publisher: Publisher =
            Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
        let end = publisher.publish(&[1; 24]).unwrap().0;
        assert_eq!(egress.look().unwrap(), 1);
        egress.advance(0, end);
        let ours = egress.incarnation();
        let refused = go_on_at(&mut egress, ours ^ 1, &[], |_, _| None);
        assert!(
            matches!(
                refused,
                Err(ConnectionEnd::ByUs {
                    close: Close::Protocol,
                    ..
                })
            ),
            "{refused:?}"
        );
        assert_eq!(egress.position(0), end);
        go_on_at(&mut egress, ours, &[], |_, _| None).unwrap();
        assert!(egress.position(0) < end, "not acknowledged");
    }
}
