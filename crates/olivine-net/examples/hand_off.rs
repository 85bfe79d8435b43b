//! Rooms without locks: each room belongs to one shard, and a connection moves to the shard of the
//! room that it names.
//!
//! `cargo run --release --example hand_off`, then in several terminals `nc 127.0.0.1 8000`. The
//! first line is the name of a room; each further line goes to all who are in it.

mod common;

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use clap::Parser;
use olivine_net::{CloseReason, ConnectionId, Engine, Handler, Origin, Shard, Slots};

/// Chat rooms, each on one shard.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: common::Common,
}

/// The rooms of one shard.
#[derive(Default)]
struct Rooms {
    /// The room of each connection, by its number.
    present: Slots<u64>,
    members: HashMap<u64, Vec<ConnectionId>>,
}

fn room_of(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.trim_ascii().hash(&mut hasher);
    hasher.finish()
}

impl Handler for Rooms {
    type Message = ();

    fn on_open(&mut self, shard: &mut Shard<()>, id: ConnectionId, origin: Origin) {
        // The token of a connection that was handed over is its room.
        if let Origin::HandedOver { token } = origin {
            self.present.insert(id, token);
            let members = self.members.entry(token).or_default();
            members.push(id);
            let text = format!("{} here, on shard {}\n", members.len(), shard.index());
            let _ = shard.offer(id, text.as_bytes());
        } else {
            let _ = shard.offer(id, b"which room?\n");
        }
    }

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        let Some(room) = self.present.get(id) else {
            let Some(end) = memchr::memchr(b'\n', data) else {
                return 0;
            };
            let room = room_of(&data[..end]);
            let target = usize::try_from(room % shard.count() as u64).unwrap_or(0);
            // Lines behind the name go along. A peer that has left needs no room.
            let _ = shard.hand_over(id, target, room);
            return end + 1;
        };
        let Some(end) = memchr::memrchr(b'\n', data) else {
            return 0;
        };
        for member in self.members.get(room).into_iter().flatten() {
            if *member != id {
                // A member that reads too slowly misses lines.
                let _ = shard.offer(*member, &data[..=end]);
            }
        }
        end + 1
    }

    fn on_close(&mut self, _: &mut Shard<()>, id: ConnectionId, _: CloseReason) {
        if let Some(room) = self.present.remove(id)
            && let Some(members) = self.members.get_mut(&room)
        {
            members.retain(|member| *member != id);
            if members.is_empty() {
                self.members.remove(&room);
            }
        }
    }
}

fn main() -> Result<(), common::Failure> {
    let arguments = Arguments::parse();
    let engine = Engine::start(arguments.common.config()?, |_| Rooms::default())?;
    arguments.common.run(engine)
}
