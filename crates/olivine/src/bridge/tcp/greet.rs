//! Introductions: who we are, and whether who they are fits.

use super::pipe::{Broken, Pipe};
use super::{HELLO_TIME_MAX, Tcp};
use crate::bridge::egress::Egress;
use crate::bridge::ingress::Ingress;
use crate::bridge::wire::hello::{Hello, Side};
use crate::bridge::wire::{Arrived, Close, WireError};
use crate::bridge::{Destination, wire};
use crate::channel::attach;
use crate::link::Control;
use crate::ring::layout::Geometry;
use crate::uri::Start;

/// The hello of a source with this ring.
pub(super) fn of_source(tcp: &Tcp, incarnation: u64, geometry: &Geometry) -> Hello {
    Hello {
        side: Side::Source,
        incarnation,
        capacity: geometry.capacity,
        align: geometry.align,
        type_hash: geometry.type_hash,
        type_name: geometry.type_name.clone(),
        name: tcp.config.name.clone().unwrap_or_default(),
        ..common(tcp)
    }
}

/// The hello of a destination, of the ring as it is, or as it would be made. `again` says that it was connected before,
/// and wants whatever there is.
pub(super) fn of_destination(tcp: &Tcp, destination: &Destination, again: bool) -> Hello {
    let typed = destination.typed();
    let found = destination.look();
    let any_type = typed.any && found.is_none();
    let geometry = found.unwrap_or_else(|| attach::wanted(destination.ring(), typed));
    Hello {
        side: Side::Destination,
        capacity: geometry.capacity,
        align: geometry.align,
        type_hash: geometry.type_hash,
        type_name: geometry.type_name,
        any_type,
        name: tcp.config.name.clone().unwrap_or_default(),
        from: if again {
            Start::Oldest
        } else {
            tcp.config.from
        },
        ..common(tcp)
    }
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

/// Whether who they are fits who we are.
///
/// # Errors
///
/// [`Broken::Ours`] with what they are told. The token is compared first: strangers learn nothing else.
fn check(ours: &Hello, theirs: &Hello) -> Result<(), Broken> {
    admit(ours, theirs)?;
    fit(ours, theirs)
}

/// Whether they may know of our channel, and are of the other kind.
///
/// # Errors
///
/// As [`check`].
pub(super) fn admit(ours: &Hello, theirs: &Hello) -> Result<(), Broken> {
    let refuse = |close, reason: String| Err(Broken::Ours { close, reason });
    if !same_token(&ours.token, &theirs.token) {
        let reason = match (ours.token.is_empty(), theirs.token.is_empty()) {
            (true, _) => {
                "this side has no token, yours was not expected: drop 'token=' or give it on both sides"
            }
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

/// Whether their messages, or ours, can lie in both rings.
///
/// # Errors
///
/// As [`check`].
pub(super) fn fit(ours: &Hello, theirs: &Hello) -> Result<(), Broken> {
    let refuse = |close, reason: String| Err(Broken::Ours { close, reason });
    if !ours.any_type && !theirs.any_type && ours.type_hash != theirs.type_hash {
        let show = crate::ring::layout::type_shown;
        let reason = format!(
            "the channel carries '{}' on one side and '{}' on the other: use one type",
            show(&theirs.type_name),
            show(&ours.type_name)
        );
        return refuse(Close::Type, reason);
    }
    let (source, destination) = match ours.side {
        Side::Source => (ours, theirs),
        Side::Destination => (theirs, ours),
    };
    if source.align != destination.align {
        let reason = format!(
            "align={} at the publisher and align={} at the subscriber: give both the same 'align='",
            source.align, destination.align
        );
        return refuse(Close::Settings, reason);
    }
    if destination.capacity < source.capacity {
        let reason = format!(
            "capacity={} at the publisher and capacity={} at the subscriber, whose ring must be as large at least: \
             give it a larger 'capacity='",
            source.capacity, destination.capacity
        );
        return refuse(Close::Settings, reason);
    }
    Ok(())
}

/// Compares without telling by the time it takes how much was right.
fn same_token(ours: &str, theirs: &str) -> bool {
    let pairs = ours.bytes().zip(theirs.bytes());
    let difference = pairs.fold(0, |found, (a, b)| found | (a ^ b));
    ours.len() == theirs.len() && std::hint::black_box(difference) == 0
}

/// Connecting: says who we are, hears who they are, and checks it.
pub(super) fn call(pipe: &mut Pipe, control: &Control, ours: &Hello) -> Result<Hello, Broken> {
    pipe.greet(ours);
    let theirs = pipe.expect_hello(control, HELLO_TIME_MAX)?;
    check(ours, &theirs)?;
    pipe.agree_on_timeout(theirs.timeout);
    Ok(theirs)
}

/// A source hears where the destination wants to go on, and goes there.
pub(super) fn resume(
    pipe: &mut Pipe,
    control: &Control,
    egress: &mut Egress,
) -> Result<(), Broken> {
    let (incarnation, places) = pipe.expect(control, HELLO_TIME_MAX, |arrived| match arrived {
        Arrived::Resume {
            incarnation,
            places,
        } => Ok(Some((incarnation, places))),
        Arrived::Close { close, reason } => Err(Broken::Told { close, reason }),
        Arrived::Beat => Ok(None),
        _ => Err(WireError::Nonsense("no resume comes first".into()).into()),
    })?;
    egress.rewind();
    if incarnation != egress.incarnation() {
        return Ok(());
    }
    let lanes = egress.look().map_err(super::source::ring)?;
    for (lane, position) in places {
        let place = (0..lanes).find(|place| egress.lane(*place) == lane);
        let there = match place {
            Some(place) => egress
                .resume(place, position)
                .map_err(super::source::ring)?,
            None => false,
        };
        if !there {
            return Err(Broken::Ours {
                close: Close::Lost,
                reason: format!(
                    "position {position} of lane {lane} is not held any more: messages are missing; open the \
                     channel again to go on without them"
                ),
            });
        }
    }
    Ok(())
}

/// Whether the source's frames can lie in the ring that is open by now, which may be another one than was looked at.
///
/// # Errors
///
/// [`Broken::Ours`] with what they are told.
pub(super) fn fits(ingress: &Ingress, theirs: &Hello) -> Result<(), Broken> {
    let source = Geometry {
        capacity: theirs.capacity,
        align: theirs.align,
        type_hash: theirs.type_hash,
        type_name: theirs.type_name.clone(),
        ..ingress.geometry().clone()
    };
    let fits = ingress.fits("the publisher", &source);
    fits.map_err(|error| Broken::Ours {
        close: Close::Settings,
        reason: error.to_string(),
    })
}

/// A destination says where it wants to go on.
pub(super) fn put_resume(pipe: &mut Pipe, ingress: &mut Ingress, incarnation: u64) {
    ingress.interrupt();
    wire::put_resume(&mut pipe.out, incarnation, &ingress.resume(incarnation));
}
