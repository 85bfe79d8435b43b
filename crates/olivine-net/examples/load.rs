//! A client on the engine: keeps connections busy with pipelined requests from one core.
//!
//! Every answer must have the first one's length, and its first 12 and last 8 bytes: enough to see
//! an error or a shift, not a change in the middle. Prints requests per second and, where the
//! server's process is named, its CPU time per request. Closed loop: it says nothing about latency.
//!
//! `cargo run --release --example load -- 127.0.0.1:8000 --connections 64 --depth 16 --cpu 1`

use std::{
    error::Error,
    fs,
    net::SocketAddr,
    sync::mpsc,
    time::{Duration, Instant},
};

use clap::Parser;
use olivine_net::{
    Backend, CloseReason, ConnectError, ConnectionId, Engine, EngineConfig, Handler, Origin, Shard,
    Slots, WaitStrategy,
};

/// Loads an HTTP server.
#[derive(Parser, Clone)]
struct Arguments {
    /// Address and port of the server.
    server: SocketAddr,
    /// Connections kept open.
    #[arg(long, default_value_t = 64)]
    connections: u64,
    /// Requests sent at once on each.
    #[arg(long, default_value_t = 16)]
    depth: usize,
    /// Seconds to measure, after half a second of warm-up.
    #[arg(long, default_value_t = 2.0)]
    duration: f64,
    /// CPU to run on.
    #[arg(long, default_value_t = 1)]
    cpu: usize,
    /// Process of the server, for its CPU time.
    #[arg(long)]
    pid: Option<u32>,
    /// Path asked for.
    #[arg(long, default_value = "/plaintext")]
    path: String,
    /// Spin instead of sleeping.
    #[arg(long)]
    spin: bool,
}

/// One connection's state: bytes of the batch still to come.
struct Client {
    arguments: Arguments,
    batch: Vec<u8>,
    /// The first answer, date blanked.
    answer: Vec<u8>,
    left: Slots<usize>,
    answers: mpsc::Sender<u64>,
    count: u64,
}

const WARM_UP: Duration = Duration::from_millis(500);

impl Handler for Client {
    type Message = ();

    fn on_start(&mut self, shard: &mut Shard<()>) {
        for token in 0..self.arguments.connections {
            if let Err(error) = shard.connect(self.arguments.server, Duration::from_secs(2), token)
            {
                eprintln!("{error}");
            }
        }
        shard.set_timer(WARM_UP, 0);
        shard.set_timer(
            WARM_UP + Duration::from_secs_f64(self.arguments.duration),
            1,
        );
    }

    fn on_open(&mut self, shard: &mut Shard<()>, id: ConnectionId, _: Origin) {
        // The first reply shows the length of all.
        let first = self.batch.len() / self.arguments.depth;
        self.left.insert(id, 0);
        let _ = shard.offer(id, &self.batch[..first]);
    }

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        let Some(left) = self.left.get_mut(id) else {
            return data.len();
        };
        if *left == 0 {
            let Some(head) = memchr::memmem::find(data, b"\r\n\r\n") else {
                return 0;
            };
            let text = String::from_utf8_lossy(&data[..head]).to_ascii_lowercase();
            let length = text
                .split("content-length:")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next())
                .and_then(|length| length.trim().parse::<usize>().ok());
            let total = head + 4 + length.unwrap_or(0);
            if data.len() < total {
                return 0;
            }
            self.answer = data[..total].to_vec();
            *left = total * self.arguments.depth;
            let _ = shard.offer(id, &self.batch);
            return data.len();
        }
        let length = self.answer.len();
        let whole = data.len() - data.len() % length;
        for answer in data[..whole].chunks_exact(length) {
            // The head's first and the body's last bytes: a shifted answer fails both.
            let same = answer[..12] == self.answer[..12]
                && answer[length - 8..] == self.answer[length - 8..];
            assert!(
                same,
                "a different answer: {:?}",
                String::from_utf8_lossy(answer)
            );
        }
        self.count += (whole / length) as u64;
        *left -= whole;
        if *left == 0 {
            *left = length * self.arguments.depth;
            let _ = shard.offer(id, &self.batch);
        }
        whole
    }

    fn on_timer(&mut self, _: &mut Shard<()>, _: u64) {
        let _ = self.answers.send(self.count);
    }

    fn on_close(&mut self, _: &mut Shard<()>, _: ConnectionId, reason: CloseReason) {
        if !matches!(reason, CloseReason::Cut | CloseReason::Closed) {
            eprintln!("a connection ended: {reason:?}");
        }
    }

    fn on_connect_failed(&mut self, _: &mut Shard<()>, _: u64, error: ConnectError) {
        eprintln!("{error}");
    }
}

/// CPU time of a process in nanoseconds, all threads.
fn cpu_time(pid: u32) -> Option<u64> {
    let mut total = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        total += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    Some(total)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", arguments.path);
    // A server that was started together with this may need a moment.
    let give_up = Instant::now() + Duration::from_secs(5);
    while std::net::TcpStream::connect(arguments.server).is_err() && Instant::now() < give_up {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let (answers, counts) = mpsc::channel();
    let wait = if arguments.spin {
        WaitStrategy::Spin
    } else {
        WaitStrategy::Block
    };
    let config = EngineConfig::client()
        .cpus([arguments.cpu])
        .backend(Backend::Mio)
        .wait(wait);
    let client = arguments.clone();
    let engine = Engine::start(config, move |_| Client {
        batch: request.repeat(client.depth).into_bytes(),
        arguments: client.clone(),
        answer: Vec::new(),
        left: Slots::new(),
        answers: answers.clone(),
        count: 0,
    })?;
    let first = counts.recv()?;
    let (start, cpu_before) = (Instant::now(), arguments.pid.and_then(cpu_time));
    let own_before = cpu_time(std::process::id());
    let last = counts.recv()?;
    let elapsed = start.elapsed();
    let cpu = arguments
        .pid
        .and_then(cpu_time)
        .zip(cpu_before)
        .map(|(after, before)| after - before);
    let own = cpu_time(std::process::id())
        .zip(own_before)
        .map(|(after, before)| after - before);
    drop(engine);
    let requests = last - first;
    print!(
        "{:.0} requests/s, {} connections, depth {}",
        requests as f64 / elapsed.as_secs_f64(),
        arguments.connections,
        arguments.depth,
    );
    let share = |cpu: u64| 100.0 * cpu as f64 / elapsed.as_nanos() as f64;
    if let Some(cpu) = cpu {
        print!(
            ", server {:.0} ns/request, {:.0} % busy",
            cpu as f64 / requests as f64,
            share(cpu)
        );
    }
    if let Some(own) = own {
        print!(", client {:.0} % busy", share(own));
    }
    println!();
    Ok(())
}
