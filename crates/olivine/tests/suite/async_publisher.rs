//! Sending in tasks: under tokio, under smol, and what ends a wait for room.

use crate::common::numbers::{self, expect};
use crate::common::tasks::{Count, once, tokio};
use crate::common::{TestFolder, until};
use olivine::{
    AsyncPublisher, Config, NotSent, Outgoing, Plain, Publisher, ReceiveError, Subscriber, admin,
};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

const MESSAGES: u32 = 5_000;

fn open(uri: &str) -> AsyncPublisher {
    AsyncPublisher::new(Publisher::open(uri).unwrap()).unwrap()
}

/// Sends numbers until the ring is full, and leaves the thread in its wait for room. Returns how
/// many were sent.
fn fill(publisher: &mut AsyncPublisher) -> u32 {
    let Poll::Ready(filled) = once(publisher.get_mut()) else {
        panic!("no wait was dropped");
    };
    let sent = numbers::fill(filled.unwrap());
    assert!(once(publisher.publish(b"no room")).is_pending());
    sent
}

/// The ring is far smaller than what is sent, so the tasks wait for room.
#[test]
fn tasks_of_tokio_and_of_smol_send_every_message_once() {
    let place = TestFolder::new();
    for (name, is_tokio) in [("of-tokio", true), ("of-smol", false)] {
        let uri = place.uri(name, "capacity=4KiB");
        let mut subscriber = Subscriber::open(&uri).unwrap();
        let publisher = Publisher::open(&uri).unwrap();
        let sends = async move {
            let mut publisher = AsyncPublisher::new(publisher).unwrap();
            for n in 0..MESSAGES {
                publisher.publish(&n.to_le_bytes()).await.unwrap();
            }
            publisher.close().await.unwrap();
        };
        let sender = thread::spawn(move || match is_tokio {
            true => tokio().block_on(sends),
            false => smol::block_on(sends),
        });
        let config = Config::parse(&uri).unwrap();
        until("back-pressure", || {
            let info = admin::inspect(&config).unwrap();
            info.publishers
                .iter()
                .any(|publisher| publisher.back_pressure_count > 0)
        });
        for expected in 0..MESSAGES {
            assert_eq!(*subscriber.receive().unwrap(), expected.to_le_bytes());
        }
        assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
        sender.join().unwrap();
    }
}

#[test]
fn dropped_future_has_sent_nothing_and_the_publisher_goes_on() {
    let mut subscriber = Subscriber::open("inproc://dropped-sends?capacity=4KiB").unwrap();
    let publisher = Publisher::open("inproc://dropped-sends").unwrap();
    let mut publisher = AsyncPublisher::new(publisher).unwrap();
    tokio().block_on(async {
        let mut sent = 0_u32;
        for round in 0..5 {
            // Full: the future waits, other tasks run, and the limit drops it.
            let limit = Duration::from_millis(20);
            loop {
                let value = sent.to_le_bytes();
                let message = Outgoing::new(&value).tag(round);
                match tokio::time::timeout(limit, publisher.publish(message)).await {
                    Ok(result) => result.unwrap(),
                    Err(_) => break,
                };
                sent += 1;
            }
            let mut received = 0;
            while let Some(message) = subscriber.try_receive().unwrap() {
                assert_eq!(message.tag(), round);
                received += 1;
            }
            subscriber.release();
            let cursor = publisher.get_mut().await.unwrap().cursor();
            assert!(
                received > 10 && cursor == subscriber.position(),
                "round {round}"
            );
        }
    });
}

#[test]
fn task_that_always_finds_room_lets_others_run() {
    let mut publisher = AsyncPublisher::new(Publisher::open("inproc://room").unwrap()).unwrap();
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut pauses = 0;
    for _ in 0..1000 {
        let mut future = pin!(publisher.publish(b"x"));
        while future
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            pauses += 1;
        }
    }
    assert_eq!((pauses, woken.now()), (15, 15));
}

/// Whether `ending` is next, without a wait: what happened before is visible. Not every call that
/// finds no message looks for the end.
fn assert_next(subscriber: &mut Subscriber, ending: fn(&ReceiveError) -> bool) {
    let mut calls = (0..8).map(|_| subscriber.try_receive().map(|message| message.is_some()));
    let found = calls.find(|found| !matches!(found, Ok(false)));
    assert!(
        matches!(&found, Some(Err(error)) if ending(error)),
        "{found:?}"
    );
}

/// Why the stream failed.
fn failure(subscriber: &mut Subscriber) -> String {
    match subscriber.receive() {
        Err(ReceiveError::Failed(error)) => error.to_string(),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn drop_during_a_wait_closes_the_publisher_before_it_returns() {
    let place = TestFolder::new();
    for uri in [
        "inproc://dropped-waiting?capacity=4KiB".to_owned(),
        place.uri("dropped-waiting", "capacity=4KiB"),
        place.uri("dropped-spinning", "capacity=4KiB&wait=spin"),
    ] {
        let mut subscriber = Subscriber::open(&uri).unwrap();
        let mut publisher = open(&uri);
        let sent = fill(&mut publisher);
        drop(publisher);
        expect(&mut subscriber, 0..sent);
        assert_next(&mut subscriber, |error| {
            matches!(error, ReceiveError::Closed)
        });
    }
}

#[test]
fn panic_during_a_wait_ends_the_stream_as_failed() {
    let mut subscriber = Subscriber::open("inproc://panicked-waiting?capacity=4KiB").unwrap();
    let mut publisher = open("inproc://panicked-waiting");
    let (tell, told) = std::sync::mpsc::channel();
    let panicked = thread::spawn(move || {
        tell.send(fill(&mut publisher)).unwrap();
        panic!("for the test");
    });
    let sent = told.recv().unwrap();
    panicked.join().unwrap_err();
    expect(&mut subscriber, 0..sent);
    assert!(failure(&mut subscriber).contains("panicked"));
}

#[test]
fn close_waits_in_its_thread_and_other_tasks_run() {
    let place = TestFolder::new();
    let uri = place.uri("lingers", "capacity=4KiB&linger=1h");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    tokio().block_on(async {
        let mut publisher = open(&uri);
        publisher.publish(b"first").await.unwrap();
        let mut close = pin!(publisher.close());
        let limit = Duration::from_millis(20);
        assert!(tokio::time::timeout(limit, &mut close).await.is_err());
        // This thread, which the wait did not block, reads what it waits for.
        assert_eq!(&*subscriber.receive().unwrap(), b"first");
        // The next call consumes it.
        assert!(subscriber.try_receive().unwrap().is_none());
        subscriber.release();
        close.await.unwrap();
    });
    assert_next(&mut subscriber, |error| {
        matches!(error, ReceiveError::Closed)
    });

    let publisher = open(&uri);
    let closed = smol::block_on(publisher.close_failed("no more disk"));
    closed.unwrap();
    assert!(failure(&mut subscriber).contains("no more disk"));
}

#[test]
fn close_says_that_a_subscriber_has_not_read_everything() {
    let place = TestFolder::new();
    let uri = place.uri("not-read", "linger=1ms");
    let _subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = open(&uri);
    smol::block_on(async {
        publisher.publish(b"unread").await.unwrap();
        assert_eq!(publisher.close().await, Err(NotSent::BackPressured));
    });
}

#[test]
fn topics_wait_for_their_room() {
    let mut subscriber = Subscriber::open("inproc://topics-wait?capacity=4KiB").unwrap();
    let mut publisher = open("inproc://topics-wait");
    let sends = thread::spawn(move || {
        smol::block_on(async {
            for n in 0..2000_u32 {
                let topic = format!("topic-{}", n % 7);
                let bytes = n.to_le_bytes();
                if n % 2 == 0 {
                    let room = Outgoing::sized(bytes.len()).topic(&topic);
                    publisher.wait_for_room(room).await.unwrap();
                }
                let message = Outgoing::new(&bytes).topic(&topic);
                publisher.publish(message).await.unwrap();
            }
            let refused = publisher
                .publish(Outgoing::new(b"").topic("no topic"))
                .await;
            assert_eq!(refused, Err(NotSent::Topic));
            let refused = publisher.wait_for_room(1 << 20).await;
            assert!(
                matches!(refused, Err(NotSent::TooLong { .. })),
                "{refused:?}"
            );
            publisher.close().await.unwrap();
        });
    });
    for n in 0..2000_u32 {
        let message = subscriber.receive().unwrap();
        assert_eq!(*message, n.to_le_bytes());
        assert_eq!(message.topic(), format!("topic-{}", n % 7));
    }
    sends.join().unwrap();
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
    const TYPE_NAME: &'static str = "sent quote v1";
}

#[test]
fn typed_tasks_send_values() {
    let mut subscriber = Subscriber::<Quote>::typed("inproc://sent-quotes?capacity=4KiB").unwrap();
    let publisher = Publisher::<Quote>::typed("inproc://sent-quotes").unwrap();
    let sends = thread::spawn(move || {
        smol::block_on(async {
            let mut publisher = AsyncPublisher::new(publisher).unwrap();
            for bid in 0..1000 {
                publisher
                    .publish(&Quote { bid, ask: bid + 1 })
                    .await
                    .unwrap();
            }
            publisher.into_inner().await.unwrap().close().unwrap();
        });
    });
    for bid in 0..1000 {
        let value = subscriber.receive().unwrap();
        assert_eq!(*value, Quote { bid, ask: bid + 1 });
    }
    sends.join().unwrap();
}

#[test]
fn silent_subscriber_is_evicted_during_a_wait() {
    let place = TestFolder::new();
    let uri = place.uri("evicts", "capacity=4KiB&slow=evict:1ms");
    let mut silent = Subscriber::open(&uri).unwrap();
    let mut publisher = open(&uri);
    smol::block_on(async {
        for n in 0..2000_u32 {
            publisher.publish(&n.to_le_bytes()).await.unwrap();
        }
        assert_eq!(publisher.get_mut().await.unwrap().stats().evicted, 1);
    });
    assert_next(&mut silent, |error| matches!(error, ReceiveError::Evicted));
}

/// States of the threads that wait for publishers, of this test and of others.
fn waiting_threads() -> Vec<char> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let stats =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    let state = |stat: String| stat.split_once("(olivine-room) ")?.1.chars().next();
    stats.filter_map(state).collect()
}

#[test]
fn wait_is_shown_as_one_and_parks_for_every_strategy() {
    let place = TestFolder::new();
    for strategy in ["spin", "yield", "adaptive", "park"] {
        let uri = place.uri(strategy, &format!("capacity=4KiB&wait={strategy}"));
        let subscriber = Subscriber::open(&uri).unwrap();
        let mut publisher = open(&uri);
        fill(&mut publisher);
        let config = Config::parse(&uri).unwrap();
        // Longer than any step of the wait, except a long nap.
        until("one wait of 100 ms", || {
            let info = admin::inspect(&config).unwrap();
            let publisher = &info.publishers[0];
            publisher.blocked_ns > 100_000_000 && publisher.back_pressure_count == 1
        });
        // A thread that looks in a loop never sleeps. Those of other tests sleep now and then.
        until("all sleep at once", || {
            let states = waiting_threads();
            !states.is_empty() && states.iter().all(|state| *state == 'S')
        });
        drop((subscriber, publisher));
    }
}

#[test]
fn failure_counts_although_its_future_is_dropped() {
    let uri = "inproc://failed-unpolled?capacity=4KiB";
    for is_waiting in [false, true] {
        let mut subscriber = Subscriber::open(uri).unwrap();
        let mut publisher = open(uri);
        let sent = if is_waiting { fill(&mut publisher) } else { 0 };
        drop(publisher.close_failed("no more disk"));
        expect(&mut subscriber, 0..sent);
        assert!(failure(&mut subscriber).contains("no more disk"));
    }
}

/// An executor that ends in the call that wakes its task: by a panic, or by dropping the task.
#[derive(Default)]
struct Ends {
    task: Mutex<Option<AsyncPublisher>>,
    has_begun: AtomicBool,
}

impl Wake for Ends {
    fn wake(self: Arc<Self>) {
        self.has_begun.store(true, Ordering::SeqCst);
        // The lock is free while the task is dropped.
        let task = self.task.lock().unwrap().take();
        match task {
            Some(publisher) => drop(publisher),
            None => panic!("for the test"),
        }
    }
}

#[test]
fn executor_that_ends_in_its_waker_ends_no_stream_wrongly() {
    let uri = "inproc://ends-in-waker?capacity=4KiB";
    for is_dropped in [false, true] {
        let mut subscriber = Subscriber::open(uri).unwrap();
        let mut publisher = open(uri);
        let sent = fill(&mut publisher);
        let ends = Arc::new(Ends::default());
        {
            let waker = Waker::from(Arc::clone(&ends));
            let mut wait = pin!(publisher.wait_for_room(4));
            assert!(
                wait.as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
        }
        let kept = if is_dropped {
            *ends.task.lock().unwrap() = Some(publisher);
            None
        } else {
            Some(publisher)
        };
        expect(&mut subscriber, 0..sent);
        // Otherwise the next call would end the wait, and the waker would not be called.
        until("the waker is called", || {
            ends.has_begun.load(Ordering::SeqCst)
        });
        if let Some(mut publisher) = kept {
            let closes = thread::spawn(move || {
                smol::block_on(async {
                    publisher.publish(&sent.to_le_bytes()).await.unwrap();
                    publisher.close().await.unwrap();
                });
            });
            until("it is closed", || closes.is_finished());
            closes.join().unwrap();
            expect(&mut subscriber, sent..sent + 1);
        }
        let end = subscriber.receive().map(|_| ());
        assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
    }
}

#[cfg(feature = "stream")]
mod sinks {
    use super::*;
    use futures_util::{SinkExt as _, StreamExt as _, TryStreamExt as _, sink::Sink};
    use olivine::{AsyncSubscriber, ItemPublisher};

    fn sink(uri: &str) -> ItemPublisher<Vec<u8>> {
        open(uri).into_item_publisher()
    }

    fn item(n: u32) -> Vec<u8> {
        n.to_le_bytes().to_vec()
    }

    /// Feeds the sink until it keeps an item. Returns how many it has taken.
    fn fill(sink: &mut ItemPublisher<Vec<u8>>) -> u32 {
        let mut taken = 0;
        while !sink.is_keeping() {
            match once(sink.feed(item(taken))) {
                Poll::Ready(result) => {
                    result.unwrap();
                    taken += 1;
                }
                // It lets other tasks run.
                Poll::Pending => {}
            }
        }
        taken
    }

    #[test]
    fn sink_sends_every_item_once_under_tokio_and_smol() {
        let place = TestFolder::new();
        for (name, is_tokio) in [("sunk-by-tokio", true), ("sunk-by-smol", false)] {
            let uri = place.uri(name, "capacity=4KiB");
            let mut subscriber = Subscriber::open(&uri).unwrap();
            let mut sink = sink(&uri);
            let sends = async move {
                let items = (0..MESSAGES).map(|n| Ok(item(n)));
                sink.send_all(&mut smol::stream::iter(items)).await.unwrap();
                sink.close().await.unwrap();
                let refused = sink.feed(item(0)).await;
                assert_eq!(refused, Err(NotSent::Closed));
            };
            let sender = thread::spawn(move || match is_tokio {
                true => tokio().block_on(sends),
                false => smol::block_on(sends),
            });
            expect(&mut subscriber, 0..MESSAGES);
            assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
            sender.join().unwrap();
        }
    }

    #[test]
    fn dropped_feed_has_taken_nothing_and_dropped_flush_keeps_the_item() {
        let place = TestFolder::new();
        let uri = place.uri("dropped-feeds", "capacity=4KiB");
        let mut subscriber = Subscriber::open(&uri).unwrap();
        let mut sink = sink(&uri);
        tokio().block_on(async {
            let limit = Duration::from_millis(5);
            let (mut taken, mut expected) = (0, 0);
            for round in 0..20 {
                let mut dropped = 0;
                while dropped < 3 {
                    let is_dropped = if round % 2 == 0 || !sink.is_keeping() {
                        let fed = tokio::time::timeout(limit, sink.feed(item(taken))).await;
                        if let Ok(result) = &fed {
                            result.as_ref().unwrap();
                            taken += 1;
                        }
                        fed.is_err()
                    } else {
                        tokio::time::timeout(limit, sink.flush()).await.is_err()
                    };
                    dropped += u32::from(is_dropped);
                }
                while let Some(message) = subscriber.try_receive().unwrap() {
                    assert_eq!(numbers::number(&message), expected, "round {round}");
                    expected += 1;
                }
                subscriber.release();
                assert_eq!(expected + 1, taken, "round {round}: it keeps the last one");
            }
            sink.flush().await.unwrap();
            assert!(!sink.is_keeping());
            expect(&mut subscriber, expected..taken);
        });
    }

    #[test]
    fn stream_forwarded_to_a_sink_keeps_tags_and_topics() {
        let subscriber = Subscriber::open("inproc://forwarded-from").unwrap();
        let subscriber = AsyncSubscriber::new(subscriber).unwrap();
        let mut last = Subscriber::open("inproc://forwarded-to?capacity=4KiB").unwrap();
        let mut publisher = Publisher::open("inproc://forwarded-from").unwrap();
        let sink = open("inproc://forwarded-to?topic=its-own").into_item_publisher();
        let forwards = thread::spawn(move || {
            let sink = sink.sink_map_err(|error: NotSent| error.to_string());
            let stream = subscriber.map_err(|error| error.to_string());
            tokio().block_on(stream.forward(sink)).unwrap();
        });
        for n in 0..MESSAGES {
            let message = item(n);
            let message = Outgoing::new(&message).tag(n % 3);
            let topic = format!("topic-{}", n % 7);
            let message = if n % 7 == 0 {
                message
            } else {
                message.topic(&topic)
            };
            publisher.publish(message).unwrap();
        }
        publisher.close().unwrap();
        for n in 0..MESSAGES {
            let message = last.receive().unwrap();
            assert_eq!((numbers::number(&message), message.tag()), (n, n % 3));
            match n % 7 {
                0 => assert_eq!(message.topic(), ""),
                topic => assert_eq!(message.topic(), format!("topic-{topic}")),
            }
        }
        assert!(matches!(last.receive(), Err(ReceiveError::Closed)));
        forwards.join().unwrap();
    }

    #[test]
    fn sink_dropped_with_an_item_ends_the_stream_as_failed() {
        let place = TestFolder::new();
        let uri = place.uri("dropped-sink", "capacity=4KiB");
        for is_waiting in [false, true] {
            let mut subscriber = Subscriber::open(&uri).unwrap();
            let mut sink = sink(&uri);
            let taken = fill(&mut sink);
            if is_waiting {
                assert!(once(sink.flush()).is_pending());
            }
            drop(sink);
            expect(&mut subscriber, 0..taken - 1);
            assert!(failure(&mut subscriber).contains("sink was dropped"));
        }
        // Without one the stream just ends.
        let mut subscriber = Subscriber::open(&uri).unwrap();
        let mut sink = sink(&uri);
        assert!(once(sink.feed(item(0))).is_ready());
        drop(sink);
        expect(&mut subscriber, 0..1);
        assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
    }

    #[test]
    fn sink_goes_on_behind_an_item_that_was_refused() {
        let mut subscriber = Subscriber::open("inproc://refused-item?capacity=4KiB").unwrap();
        let mut sink = sink("inproc://refused-item");
        smol::block_on(async {
            let refused = sink.send(vec![0; 5000]).await;
            assert!(
                matches!(refused, Err(NotSent::TooLong { .. })),
                "{refused:?}"
            );
            sink.send(item(0)).await.unwrap();
        });
        expect(&mut subscriber, 0..1);
    }

    #[test]
    fn publisher_of_a_sink_is_used_between_its_items() {
        let mut subscriber = Subscriber::open("inproc://between-items?capacity=4KiB").unwrap();
        let mut sink = sink("inproc://between-items");
        let taken = fill(&mut sink);
        assert!(once(sink.flush()).is_pending());
        smol::block_on(async {
            // It ends the wait of the flush.
            let cursor = sink.get_mut().get_mut().await.unwrap().cursor();
            expect(&mut subscriber, 0..taken - 1);
            assert!(subscriber.try_receive().unwrap().is_none());
            assert_eq!(cursor, subscriber.position());
            subscriber.release();
            sink.flush().await.unwrap();
        });
        expect(&mut subscriber, taken - 1..taken);
    }

    #[test]
    fn close_sends_the_kept_item_and_waits_while_other_tasks_run() {
        let place = TestFolder::new();
        let uri = place.uri("sink-lingers", "capacity=4KiB&linger=1h");
        let mut subscriber = Subscriber::open(&uri).unwrap();
        let mut sink = sink(&uri);
        let taken = fill(&mut sink);
        tokio().block_on(async {
            let limit = Duration::from_millis(20);
            assert!(tokio::time::timeout(limit, sink.close()).await.is_err());
            // This thread, which the wait did not block, reads what it waits for.
            expect(&mut subscriber, 0..taken - 1);
            subscriber.release();
            assert!(tokio::time::timeout(limit, sink.close()).await.is_err());
            expect(&mut subscriber, taken - 1..taken);
            assert!(subscriber.try_receive().unwrap().is_none());
            subscriber.release();
            sink.close().await.unwrap();
        });
        assert_next(&mut subscriber, |error| {
            matches!(error, ReceiveError::Closed)
        });
    }

    #[test]
    fn sink_of_values_sends_them() {
        let uri = "inproc://sunk-quotes?capacity=4KiB";
        let mut subscriber = Subscriber::<Quote>::typed(uri).unwrap();
        let publisher = AsyncPublisher::new(Publisher::<Quote>::typed(uri).unwrap()).unwrap();
        let mut sink = publisher.into_item_publisher();
        let sends = thread::spawn(move || {
            smol::block_on(async {
                for bid in 0..1000 {
                    sink.feed(Quote { bid, ask: bid + 1 }).await.unwrap();
                }
                sink.close().await.unwrap();
            });
        });
        for bid in 0..1000 {
            let value = subscriber.receive().unwrap();
            assert_eq!(*value, Quote { bid, ask: bid + 1 });
        }
        sends.join().unwrap();
    }

    #[test]
    fn sink_that_always_finds_room_lets_others_run() {
        let mut sink = sink("inproc://sink-room");
        let woken = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut pauses = 0;
        for n in 0..1000 {
            while pin!(&mut sink).poll_ready(&mut context).is_pending() {
                pauses += 1;
            }
            pin!(&mut sink).start_send(item(n)).unwrap();
        }
        assert_eq!((pauses, woken.now()), (15, 15));
    }
}
