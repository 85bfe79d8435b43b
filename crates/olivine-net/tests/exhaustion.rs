//! Running out of descriptors, and ten thousand connections: one test, because the limit it lowers
//! belongs to the whole process.

mod support;

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use olivine_net::{ConnectionId, Engine, Handler, Shard};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{backends, client, config, exchange, wait_until};

struct Echo;

impl Handler for Echo {
    type Message = ();

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        shard.offer(id, data).map_or(0, |()| data.len())
    }
}

#[test]
fn engine_survives_descriptor_exhaustion() {
    let limit = getrlimit(Resource::Nofile);
    for backend in backends() {
        // Both ends of each connection are ours, so half of the limit is within reach.
        let most = limit.current.unwrap_or(1 << 20).saturating_sub(500) / 2;
        let count = usize::try_from(most).unwrap().min(10_000);
        let engine = Engine::start(config(backend).backlog(4096), |_| Echo).unwrap();
        let address = engine.local_address().unwrap();
        let mut peers: Vec<TcpStream> = (0..count).map(|_| client(address)).collect();
        wait_until("all are accepted", || {
            engine.counters()[0].open == count as u64
        });
        // All send before any reads: more than the shard has buffers for, or handles in one round.
        for peer in &mut peers {
            peer.write_all(b"ping").unwrap();
        }
        for peer in &mut peers {
            let mut answer = [0; 4];
            peer.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"ping", "{backend:?}");
        }
        println!("{backend:?}: {count} connections open at once");
        drop(peers);
        wait_until("all are gone", || engine.counters()[0].open == 0);
        drop(engine);

        // The next sockets are made first; then the table is filled, and they connect. The limit
        // falls before the engine starts, because io_uring accepts by the limit it started with.
        let fresh = || {
            use rustix::net::{AddressFamily, SocketType, socket};
            (0..20).map(|_| socket(AddressFamily::INET, SocketType::STREAM, None).unwrap())
        };
        let (turned_away, waiting): (Vec<_>, Vec<_>) = (fresh().collect(), fresh().collect());
        let low = Rlimit {
            current: Some(200),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, low).unwrap();
        let engine = Engine::start(config(backend), |_| Echo).unwrap();
        let address = engine.local_address().unwrap();
        let mut first = client(address);
        assert_eq!(exchange(&mut first, b"one", 3), b"one");
        let mut filler = Vec::new();
        while let Ok(copy) = rustix::io::dup(&turned_away[0]) {
            filler.push(copy);
        }
        for socket in &turned_away {
            // The engine may reset it before this call returns.
            match rustix::net::connect(socket, &address) {
                Ok(()) | Err(Errno::CONNRESET) => {}
                Err(error) => panic!("{error}"),
            }
        }
        wait_until("all are turned away", || {
            engine.counters()[0].refused_descriptors == 20
        });
        assert_eq!(exchange(&mut first, b"still", 5), b"still");
        // Without even the reserve, connections wait until descriptors are free again.
        let none = Rlimit {
            current: Some(3),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, none).unwrap();
        for socket in &waiting {
            rustix::net::connect(socket, &address).unwrap();
        }
        for _ in 0..100 {
            assert_eq!(exchange(&mut first, b"still", 5), b"still");
        }
        assert_eq!(engine.counters()[0].accepted, 1);
        setrlimit(Resource::Nofile, limit).unwrap();
        drop(filler);
        wait_until("those that waited are in", || {
            engine.counters()[0].accepted == 21
        });
        assert_eq!(exchange(&mut client(address), b"again", 5), b"again");
        println!("{backend:?}: 20 turned away, 20 waited");
    }
}
