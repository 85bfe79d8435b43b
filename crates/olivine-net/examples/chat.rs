//! A line of one peer reaches all others, on every core: messages between shards.
//!
//! `cargo run --release --example chat`, then several times `nc 127.0.0.1 8000`.

mod common;

use std::sync::Arc;

use clap::Parser;
use olivine_net::{CloseReason, ConnectionId, Engine, Handler, Origin, Shard, Slots};

/// Relays each line to all other clients.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: common::Common,
}

/// A line and its author.
type Line = (ConnectionId, Arc<[u8]>);

#[derive(Default)]
struct Room {
    present: Slots<()>,
}

impl Room {
    /// Sends a line to every peer of this shard but its author. A slow peer misses it.
    fn tell(&self, shard: &mut Shard<Line>, (author, line): &Line) {
        for (id, ()) in self.present.iter().filter(|(id, ())| id != author) {
            let _ = shard.offer(id, line);
        }
    }
}

impl Handler for Room {
    type Message = Line;

    fn on_open(&mut self, shard: &mut Shard<Line>, id: ConnectionId, _: Origin) {
        self.present.insert(id, ());
        let _ = shard.offer(id, b"welcome\n");
    }

    fn on_data(&mut self, shard: &mut Shard<Line>, id: ConnectionId, data: &[u8]) -> usize {
        let Some(end) = memchr::memrchr(b'\n', data) else {
            return 0;
        };
        let line: Line = (id, data[..=end].into());
        for other in (0..shard.count()).filter(|other| *other != shard.index()) {
            // A shard that has no room for it misses this line.
            let _ = shard.post(other, line.clone());
        }
        self.tell(shard, &line);
        end + 1
    }

    fn on_message(&mut self, shard: &mut Shard<Line>, line: Line) {
        self.tell(shard, &line);
    }

    fn on_close(&mut self, _: &mut Shard<Line>, id: ConnectionId, _: CloseReason) {
        self.present.remove(id);
    }
}

fn main() -> Result<(), common::Failure> {
    let arguments = Arguments::parse();
    let engine = Engine::start(arguments.common.config()?, |_| Room::default())?;
    arguments.common.run(engine)
}
