//! The columns of both tables.

use super::layout::{Column, bar};
use crate::watch::format::{
    NOTHING, about_rate, age, behind, messages, percent, rate, role, share, who,
};
use crate::watch::view::{ChannelView, Participant};

pub(super) const CHANNELS: &[Column<ChannelView>] = &[
    Column {
        head: "CHANNEL",
        width: 0,
        right: false,
        rank: 0,
        cell: |one| one.name.clone(),
    },
    Column {
        head: "RATE",
        width: 9,
        right: true,
        rank: 3,
        cell: |one| rate(one.bytes_per_s),
    },
    Column {
        head: "MESSAGES",
        width: 10,
        right: true,
        rank: 7,
        cell: |one| about_rate(one.messages_per_s_estimate),
    },
    Column {
        head: "RING",
        width: 10,
        right: false,
        rank: 6,
        cell: |one| match (&one.error, one.capacity_bytes) {
            (Some(_), _) => "unreadable".to_owned(),
            (None, 0) => "open".to_owned(),
            _ => bar(one.ring_fill, 10),
        },
    },
    Column {
        head: "FULL",
        width: 5,
        right: true,
        rank: 1,
        cell: |one| known(one, || percent(one.ring_fill)),
    },
    Column {
        head: "HELD",
        width: 5,
        right: true,
        rank: 2,
        cell: |one| share(one.held_share),
    },
    Column {
        head: "PUB",
        width: 3,
        right: true,
        rank: 5,
        cell: |one| known(one, || one.publishers_count.to_string()),
    },
    Column {
        head: "SUB",
        width: 3,
        right: true,
        rank: 4,
        cell: |one| known(one, || one.subscribers_count.to_string()),
    },
    Column {
        head: "GONE",
        width: 4,
        right: true,
        rank: 8,
        cell: |one| known(one, || one.gone_count.to_string()),
    },
];

/// A figure of a channel that can be read.
fn known(channel: &ChannelView, figure: impl Fn() -> String) -> String {
    match channel.error {
        Some(_) => NOTHING.to_owned(),
        None => figure(),
    }
}

pub(super) const PARTICIPANTS: &[Column<Participant>] = &[
    Column {
        head: "",
        width: 3,
        right: false,
        rank: 5,
        cell: |one| role(one).to_owned(),
    },
    Column {
        head: "PID",
        width: 7,
        right: true,
        rank: 4,
        cell: |one| one.process_id.to_string(),
    },
    Column {
        head: "NAME",
        width: 0,
        right: false,
        rank: 0,
        cell: who,
    },
    Column {
        head: "STATE",
        width: 8,
        right: false,
        rank: 1,
        cell: |one| one.state.word().to_owned(),
    },
    Column {
        head: "CPU",
        width: 3,
        right: true,
        rank: 9,
        cell: |one| {
            one.cpu
                .map_or_else(|| "-".to_owned(), |cpu| cpu.to_string())
        },
    },
    Column {
        head: "%CPU",
        width: 5,
        right: true,
        rank: 6,
        cell: |one| share(one.cpu_share),
    },
    Column {
        head: "BEHIND",
        width: 8,
        right: true,
        rank: 3,
        cell: behind,
    },
    Column {
        head: "MESSAGES",
        width: 8,
        right: true,
        rank: 8,
        cell: messages,
    },
    Column {
        head: "AGE",
        width: 7,
        right: true,
        rank: 7,
        cell: age,
    },
    Column {
        head: "HELD",
        width: 5,
        right: true,
        rank: 2,
        cell: |one| share(one.held_share),
    },
];
