//! Sends back all input: the smallest possible handler.
//!
//! `cargo run --release --example echo`, then `nc 127.0.0.1 8000`.

mod common;

use clap::Parser;
use olivine_net::{ConnectionId, Engine, Handler, Shard};

/// Echoes every byte.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: common::Common,
}

struct Echo;

impl Handler for Echo {
    type Message = ();

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        // What does not fit stays unconsumed, and comes again when there is room.
        shard.offer(id, data).map_or(0, |()| data.len())
    }
}

fn main() -> Result<(), common::Failure> {
    let arguments = Arguments::parse();
    let engine = Engine::start(arguments.common.config()?, |_| Echo)?;
    arguments.common.run(engine)
}
