//! NATS through its own client library: core messages between two processes, and messages stored in
//! a stream.

use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use async_nats::{Client, ConnectOptions, Subject, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use olivine_arena::affinity;
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::method::{Driver, End, Method, Rendezvous, Side, drive};
use olivine_arena::payload::{self, Stamp};
use olivine_arena::run;
use olivine_arena::store::{STORE, StoreJob, Stored};
use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

/// Messages that wait in this process before the library drops them: more than a slice has.
const WAITING_MAX: usize = 1 << 22;
/// Messages whose acknowledgements are awaited at a time. More were not faster.
const AWAITED_MAX: usize = 4096;

const CORE: Method = Method::new(
    "nats-core",
    "NATS core messages through nats-server, its threads not pinned; settings: the server's \
            address",
    "block",
    open,
)
.streaming();

fn main() -> ExitCode {
    static METHODS: [Method; 1] = [CORE];
    if std::env::args().nth(1).as_deref() != Some(STORE) {
        return run(&METHODS);
    }
    match store() {
        Ok(stored) => {
            println!("{stored}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn says(error: impl std::fmt::Display) -> ArenaError {
    ArenaError::Library {
        library: "NATS",
        message: error.to_string(),
    }
}

/// A runtime whose thread may run on any CPU.
fn runtime() -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    affinity::unpinned(|| builder.build()).map_err(says)
}

async fn connect(address: &str) -> Result<Client> {
    let options = ConnectOptions::new().subscription_capacity(WAITING_MAX);
    options.connect(address).await.map_err(says)
}

fn open(
    side: Side,
    rendezvous: &mut Rendezvous,
    size: usize,
    settings: &str,
) -> Result<Box<dyn Driver>> {
    if settings.is_empty() {
        return Err(says(
            "it needs a server: 'olivine bench bridge stream' starts one",
        ));
    }
    let runtime = runtime()?;
    let opened = runtime.block_on(async {
        let client = connect(settings).await?;
        // A subject that is new.
        let inbox = match side {
            Side::Client => client.new_inbox(),
            Side::Server => String::new(),
        };
        Ok::<_, ArenaError>((client, inbox))
    });
    let (client, inbox) = opened?;
    let inbox = match side {
        Side::Client => {
            rendezvous.tell(&inbox)?;
            inbox
        }
        Side::Server => rendezvous.hear()?,
    };
    let (from, to) = side.from_to(format!("{inbox}.there"), format!("{inbox}.back"));
    let subscriber = runtime.block_on(async {
        let subscriber = client.subscribe(from).await.map_err(says)?;
        // The server has heard of it, once it answers.
        client.flush().await.map_err(says)?;
        Ok::<_, ArenaError>(subscriber)
    })?;
    rendezvous.exchange("subscribed")?;
    Ok(drive(
        Core {
            runtime,
            client,
            subscriber,
            to: Subject::from(to),
            outgoing: vec![0; size],
        },
        size,
    ))
}

struct Core {
    runtime: Runtime,
    client: Client,
    subscriber: Subscriber,
    to: Subject,
    outgoing: Vec<u8>,
}

impl Core {
    /// Waits for the next message.
    fn next(&mut self) -> Result<Bytes> {
        let message = self.runtime.block_on(self.subscriber.next());
        message
            .map(|message| message.payload)
            .ok_or(ArenaError::EndClosed)
    }
}

impl End for Core {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        fill(&mut self.outgoing);
        let payload = Bytes::copy_from_slice(&self.outgoing);
        let sent = self.client.publish(self.to.clone(), payload);
        self.runtime.block_on(sent).map_err(says)
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.next().map(|message| handle(&message))
    }

    fn send_many(&mut self, count: usize, mut fill: impl FnMut(usize, &mut [u8])) -> Result<()> {
        let Self {
            runtime,
            client,
            to,
            outgoing,
            ..
        } = self;
        runtime.block_on(async {
            for number in 0..count {
                fill(number, outgoing);
                let payload = Bytes::copy_from_slice(outgoing);
                client.publish(to.clone(), payload).await.map_err(says)?;
            }
            Ok(())
        })
    }

    fn receive_many(&mut self, limit: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
        handle(&self.next()?);
        let mut taken = 1;
        while taken < limit {
            match self.subscriber.next().now_or_never() {
                Some(Some(message)) => handle(&message.payload),
                _ => break,
            }
            taken += 1;
        }
        Ok(taken)
    }
}

/// Stores what standard input asks for.
fn store() -> Result<String> {
    let text = std::io::read_to_string(std::io::stdin()).map_err(says)?;
    let job: StoreJob = serde_json::from_str(&text).map_err(says)?;
    let seconds = runtime()?.block_on(stored(&job))?;
    serde_json::to_string(&Stored { seconds }).map_err(says)
}

/// Publishes with as many acknowledgements on their way as are good for it.
async fn stored(job: &StoreJob) -> Result<f64> {
    let client = connect(&job.address).await?;
    let context = async_nats::jetstream::context::ContextBuilder::new()
        .max_ack_inflight(AWAITED_MAX)
        .build(client);
    let config = Config {
        name: job.subject.clone(),
        subjects: vec![job.subject.clone()],
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        ..Config::default()
    };
    context.create_stream(config).await.map_err(says)?;
    let subject = Subject::from(job.subject.clone());
    let mut awaited: VecDeque<PublishAckFuture> = VecDeque::with_capacity(AWAITED_MAX);
    let mut message = vec![0; job.size_bytes];
    let start = Instant::now();
    for sequence in 0..job.count {
        payload::fill(&mut message, Stamp { sequence, ticks: 0 });
        let payload = Bytes::copy_from_slice(&message);
        let mut publish = PublishMessage::build().payload(payload);
        if job.ids {
            publish = publish.message_id(sequence.to_string());
        }
        if awaited.len() == AWAITED_MAX
            && let Some(first) = awaited.pop_front()
        {
            first.await.map_err(says)?;
        }
        let sent = context.send_publish(subject.clone(), publish).await;
        awaited.push_back(sent.map_err(says)?);
    }
    for ack in awaited {
        ack.await.map_err(says)?;
    }
    Ok(start.elapsed().as_secs_f64())
}
