//! Receiving in tasks: under tokio, under smol, and under executors that do odd things.

use crate::common::numbers::{LONG, number, send};
use crate::common::tasks::{Count, Panics, tokio};
use crate::common::{TestFolder, until};
use olivine::{AsyncSubscriber, Outgoing, Plain, Publisher, ReceiveError, Subscriber};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

const MESSAGES: u32 = 5_000;

fn open(uri: &str) -> AsyncSubscriber {
    AsyncSubscriber::new(Subscriber::open(uri).unwrap()).unwrap()
}

/// Polls a new future once and drops it; what it received.
fn receive_once(subscriber: &mut AsyncSubscriber, waker: &Waker) -> Poll<u32> {
    let future = pin!(subscriber.receive());
    let polled = future.poll(&mut Context::from_waker(waker));
    polled.map(|message| number(&message.unwrap()))
}

/// Receives all numbers and the end.
async fn expect_all(mut subscriber: AsyncSubscriber) -> u32 {
    for expected in 0..MESSAGES {
        assert_eq!(number(&subscriber.receive().await.unwrap()), expected);
    }
    let end = subscriber.receive().await;
    assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
    MESSAGES
}

/// Sends all numbers in bursts, so that the task waits now and then.
fn send_all(uri: String) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut publisher = Publisher::open(&uri).unwrap();
        for first in (0..MESSAGES).step_by(100) {
            send(&mut publisher, first..first + 100);
            assert!(publisher.wait_drained(Some(LONG)).unwrap());
        }
        publisher.close().unwrap();
    })
}

#[test]
fn tasks_of_tokio_and_of_smol_get_every_message_and_the_end() {
    let place = TestFolder::new();
    let uri = place.uri("awaited", "capacity=4KiB");
    let subscribers = [open(&uri), open(&uri), open(&uri)];
    let publisher = send_all(uri);
    let [first, second, third] = subscribers;
    let smol = thread::spawn(move || {
        // The second one moves between the threads of smol.
        let moving = smol::spawn(expect_all(second));
        smol::block_on(async move { (expect_all(first).await, moving.await) })
    });
    assert_eq!(tokio().block_on(expect_all(third)), MESSAGES);
    assert_eq!(smol.join().unwrap(), (MESSAGES, MESSAGES));
    publisher.join().unwrap();
}

#[test]
fn dropped_future_loses_no_message_and_its_task_is_woken_for_the_next() {
    let mut subscriber = open("inproc://dropped-futures");
    let mut publisher = Publisher::open("inproc://dropped-futures").unwrap();
    for n in 0..100 {
        let woken = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&woken));
        assert_eq!(receive_once(&mut subscriber, &waker), Poll::Pending);
        assert_eq!(woken.now(), 0, "nothing has changed");
        send(&mut publisher, n..n + 1);
        until("the task is woken", || woken.now() > 0);
        // The future that received is dropped with its message: it was handed out.
        assert_eq!(receive_once(&mut subscriber, &waker), Poll::Ready(n));
    }
}

#[test]
fn time_limits_of_tokio_end_a_wait_and_lose_nothing() {
    let place = TestFolder::new();
    let uri = place.uri("limits", "capacity=4KiB");
    let mut subscriber = open(&uri);
    let limit = |micros| std::time::Duration::from_micros(u64::from(micros));
    tokio().block_on(async {
        let nothing = tokio::time::timeout(limit(1000), subscriber.receive()).await;
        assert!(nothing.is_err(), "{nothing:?}");
        let publisher = send_all(uri);
        let mut expected = 0;
        loop {
            match tokio::time::timeout(limit(expected % 50), subscriber.receive()).await {
                Ok(Ok(message)) => {
                    assert_eq!(number(&message), expected);
                    expected += 1;
                }
                Ok(Err(ReceiveError::Closed)) => break,
                Ok(Err(error)) => panic!("{error}"),
                Err(_) => {}
            }
        }
        assert_eq!(expected, MESSAGES);
        publisher.join().unwrap();
    });
}

#[test]
fn task_that_always_finds_messages_lets_others_run() {
    let mut subscriber = open("inproc://turns?capacity=64KiB");
    let mut publisher = Publisher::open("inproc://turns").unwrap();
    send(&mut publisher, 0..1000);
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let (mut expected, mut turns) = (0, 0);
    while expected < 1000 {
        match receive_once(&mut subscriber, &waker) {
            Poll::Ready(n) => {
                assert_eq!(n, expected);
                expected += 1;
            }
            Poll::Pending => {
                turns += 1;
                assert_eq!(
                    woken.now(),
                    turns,
                    "a task that gives its turn away is woken"
                );
            }
        }
    }
    assert_eq!(turns, (1000 - 1) / 64);
}

#[test]
fn ready_waits_for_the_next_publisher_after_the_end() {
    let mut subscriber = open("inproc://next-publisher");
    smol::block_on(async {
        for round in 0..20 {
            let waits = thread::spawn(move || {
                let mut publisher = Publisher::open("inproc://next-publisher").unwrap();
                send(&mut publisher, round..round + 1);
                publisher.close().unwrap();
            });
            subscriber.ready().await.unwrap();
            assert_eq!(number(&subscriber.receive().await.unwrap()), round);
            for _ in 0..2 {
                let end = subscriber.receive().await;
                assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
            }
            waits.join().unwrap();
        }
    });
}

#[test]
fn failure_and_eviction_end_a_wait() {
    let place = TestFolder::new();
    let mut failed = open("inproc://failed-stream");
    let publisher = Publisher::open("inproc://failed-stream").unwrap();
    let fails = thread::spawn(move || publisher.close_failed("no more disk").unwrap());
    let error = smol::block_on(failed.receive()).map(|_| ()).unwrap_err();
    assert!(matches!(error, ReceiveError::Failed(_)), "{error}");
    fails.join().unwrap();

    let uri = place.uri("evicted", "capacity=4KiB&slow=evict:1ms");
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut slow = open(&uri);
    let evicts = thread::spawn(move || {
        for n in 0..2000 {
            send(&mut publisher, n..n + 1);
        }
        publisher
    });
    let publisher = evicts.join().unwrap();
    smol::block_on(async {
        let error = loop {
            if let Err(error) = slow.receive().await {
                break error;
            }
        };
        assert!(matches!(error, ReceiveError::Evicted), "{error}");
    });
    drop(publisher);
}

#[test]
fn task_waits_for_its_topic_alone() {
    let mut subscriber = open("inproc://task-topics?topic=wanted");
    let mut publisher = Publisher::open("inproc://task-topics?capacity=64KiB").unwrap();
    let sends = thread::spawn(move || {
        for n in 0..2000_u32 {
            let topic = if n % 100 == 99 { "wanted" } else { "other" };
            let bytes = n.to_le_bytes();
            let message = Outgoing::new(&bytes).topic(topic);
            publisher.publish(message).unwrap();
        }
        publisher
    });
    tokio().block_on(async {
        for n in 1..=20 {
            let message = subscriber.receive().await.unwrap();
            assert_eq!((number(&message), message.topic()), (n * 100 - 1, "wanted"));
        }
    });
    drop(sends.join().unwrap());
}

#[test]
fn subscriber_goes_on_after_a_waker_panicked() {
    let mut subscriber = open("inproc://panics-in-wake");
    let mut publisher = Publisher::open("inproc://panics-in-wake").unwrap();
    let panics = Arc::new(Panics::default());
    let waker = Waker::from(Arc::clone(&panics));
    assert_eq!(receive_once(&mut subscriber, &waker), Poll::Pending);
    send(&mut publisher, 0..1);
    until("the waker panics", || panics.has_begun());
    let first = smol::block_on(subscriber.receive());
    assert_eq!(number(&first.unwrap()), 0);
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert_eq!(receive_once(&mut subscriber, &waker), Poll::Pending);
    send(&mut publisher, 1..2);
    until("the task is woken", || woken.now() > 0);
    assert_eq!(receive_once(&mut subscriber, &waker), Poll::Ready(1));
}

/// An executor that runs the task in the call that wakes it, and ends it there.
struct EndsInWake(Mutex<Option<AsyncSubscriber>>);

impl Wake for EndsInWake {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn subscriber_that_is_dropped_in_the_call_that_wakes_leaves_the_channel() {
    let mut publisher = Publisher::open("inproc://dropped-in-wake").unwrap();
    let task = Arc::new(EndsInWake(Mutex::default()));
    let mut subscriber = open("inproc://dropped-in-wake");
    let waker = Waker::from(Arc::clone(&task));
    assert_eq!(receive_once(&mut subscriber, &waker), Poll::Pending);
    *task.0.lock().unwrap() = Some(subscriber);
    send(&mut publisher, 0..1);
    until("the subscriber has left", || {
        publisher.count_subscribers() == 0
    });
}

#[derive(
    Debug,
    PartialEq,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
#[repr(C)]
struct Quote {
    bid: i64,
    ask: i64,
}

impl Plain for Quote {
    const TYPE_NAME: &'static str = "awaited quote v1";
}

#[test]
fn typed_tasks_get_values() {
    let subscriber = Subscriber::<Quote>::typed("inproc://awaited-quotes").unwrap();
    let mut subscriber = AsyncSubscriber::new(subscriber).unwrap();
    let mut publisher = Publisher::<Quote>::typed("inproc://awaited-quotes").unwrap();
    let sends = thread::spawn(move || {
        for bid in 0..100 {
            publisher.publish(&Quote { bid, ask: bid + 1 }).unwrap();
        }
        publisher
    });
    smol::block_on(async {
        for bid in 0..100 {
            let value = subscriber.receive().await.unwrap();
            assert_eq!(*value, Quote { bid, ask: bid + 1 });
        }
    });
    drop(sends.join().unwrap());
}

#[cfg(feature = "stream")]
mod streams {
    use super::*;
    use smol::stream::StreamExt as _;

    #[test]
    fn stream_is_over_at_the_end_although_a_publisher_comes_later() {
        let mut subscriber = open("inproc://streamed");
        for round in 0..2 {
            let mut publisher = Publisher::open("inproc://streamed").unwrap();
            send(&mut publisher, 0..200);
            publisher.close().unwrap();
            if round == 0 {
                let items: Vec<_> = smol::block_on((&mut subscriber).collect());
                let numbers = items
                    .iter()
                    .map(|item| number(&item.as_ref().unwrap().bytes));
                assert!(numbers.eq(0..200), "{items:?}");
            }
            assert!(smol::block_on(subscriber.next()).is_none());
        }
    }

    #[test]
    fn stream_of_values_returns_an_error_as_its_last_item() {
        let subscriber = Subscriber::<Quote>::typed("inproc://streamed-quotes").unwrap();
        let mut subscriber = AsyncSubscriber::new(subscriber).unwrap();
        let mut publisher = Publisher::<Quote>::typed("inproc://streamed-quotes").unwrap();
        publisher.publish(&Quote { bid: 1, ask: 2 }).unwrap();
        publisher.close_failed("its source is gone").unwrap();
        tokio().block_on(async {
            let first = subscriber.next().await.unwrap().unwrap();
            assert_eq!(first, Quote { bid: 1, ask: 2 });
            let second = subscriber.next().await.unwrap();
            assert!(matches!(second, Err(ReceiveError::Failed(_))), "{second:?}");
            assert!(subscriber.next().await.is_none());
        });
    }
}
