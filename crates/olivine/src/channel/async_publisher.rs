//! A publisher whose waits are futures: a thread waits for room with it.

use super::publisher::Publisher;
use crate::error::NotSent;
use crate::message::{Outgoing, Plain, Position};
use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::fmt;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Messages that a task sends in a row before other tasks of its thread run.
const TURN_MAX: u32 = 64;
/// How long the thread waits before it looks whether the wait was given up.
const SLICE: Duration = Duration::from_millis(50);

/// Sends in tasks of any executor: tokio, smol, or another one. No call blocks the thread.
///
/// It needs no reactor. Where there is room, a call sends at once, without a system call or a
/// switch of threads; after 64 messages in a row the future lets other tasks of its thread run.
/// Under back-pressure, a thread of this handle waits for room by the wait strategy, and wakes the
/// task.
///
/// A future that is dropped before it is ready has sent nothing. The next call gets the publisher
/// back from the thread within 50 ms. So time limits and `select!` of the executor work.
///
/// ```
/// use olivine::{AsyncPublisher, Publisher, Subscriber};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let mut subscriber = Subscriber::open("inproc://awaits-room")?;
/// let publisher = Publisher::open("inproc://awaits-room")?;
/// let mut publisher = AsyncPublisher::new(publisher)?;
/// publisher.publish(b"hello").await?;
/// publisher.into_inner().await.close()?;
/// assert_eq!(&*subscriber.receive()?, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AsyncPublisher<T: ?Sized = [u8]> {
    /// `None` while the thread has it.
    publisher: Option<Publisher<T>>,
    waits: Sender<Wait<T>>,
    handover: Arc<Mutex<Handover<T>>>,
    /// Messages that the task may still send before other tasks run.
    turn: u32,
}

/// What the thread waits for.
struct Wait<T: ?Sized> {
    publisher: Publisher<T>,
    length: usize,
    topic: Option<String>,
}

/// What the thread gives back.
struct Handover<T: ?Sized> {
    returned: Option<(Publisher<T>, Result<(), NotSent>)>,
    waker: Option<Waker>,
    /// The future of this wait was dropped.
    is_given_up: bool,
}

fn lock<T: ?Sized>(handover: &Mutex<Handover<T>>) -> MutexGuard<'_, Handover<T>> {
    handover.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread: waits for room until the handle is dropped.
fn wait_for_room<T: ?Sized>(waits: &Receiver<Wait<T>>, handover: &Mutex<Handover<T>>) {
    for wait in waits {
        let Wait {
            mut publisher,
            length,
            topic,
        } = wait;
        let mut room = Outgoing::sized(length);
        if let Some(topic) = &topic {
            room = room.topic(topic);
        }
        let result = loop {
            match publisher.wait_for_room(room, Some(SLICE)) {
                Err(NotSent::BackPressured | NotSent::NotConnected)
                    if !lock(handover).is_given_up => {}
                result => break result,
            }
        };
        let waker = {
            let mut handover = lock(handover);
            handover.returned = Some((publisher, result));
            handover.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T: ?Sized + 'static> AsyncPublisher<T> {
    /// Takes a publisher, and starts its thread.
    ///
    /// Opening the publisher blocks while another participant opens or closes the same channel,
    /// milliseconds as a rule; [`Publisher::open`] says when it is longer.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub fn new(publisher: Publisher<T>) -> io::Result<Self> {
        let (waits, received) = mpsc::channel();
        let handover = Arc::new(Mutex::new(Handover {
            returned: None,
            waker: None,
            is_given_up: false,
        }));
        let shared = Arc::clone(&handover);
        let thread = thread::Builder::new().name("olivine-room".to_owned());
        thread.spawn(move || wait_for_room(&received, &shared))?;
        Ok(Self {
            publisher: Some(publisher),
            waits,
            handover,
            turn: TURN_MAX,
        })
    }

    /// The publisher, for what does not wait. Gets it back from a wait that was dropped.
    pub async fn get_mut(&mut self) -> &mut Publisher<T> {
        if self.publisher.is_none() {
            self.publisher = Some(self.take().await);
        }
        let publisher = self.publisher.as_mut();
        publisher.unwrap_or_else(|| unreachable!("it was put there"))
    }

    /// The publisher, to close it for example. Gets it back from a wait that was dropped. To drop
    /// the `AsyncPublisher` instead drops the publisher, after such a wait in its thread.
    pub async fn into_inner(mut self) -> Publisher<T> {
        self.take().await
    }

    /// Waits until a message has room: one of this length, or one of [`Outgoing::sized`] with a
    /// topic.
    ///
    /// # Errors
    ///
    /// [`NotSent`], never `BackPressured` or `NotConnected`.
    pub async fn wait_for_room<'m>(
        &mut self,
        room: impl Into<Outgoing<'m, usize>>,
    ) -> Result<(), NotSent> {
        let Outgoing { body, label } = room.into();
        let publisher = self.take().await;
        lock(&self.handover).is_given_up = false;
        let wait = Wait {
            publisher,
            length: body,
            topic: label.topic.map(str::to_owned),
        };
        if let Err(mpsc::SendError(wait)) = self.waits.send(wait) {
            // Its thread has panicked: wait here.
            let publisher = self.publisher.insert(wait.publisher);
            return publisher.wait_for_room(body, None);
        }
        let (publisher, result) = self.returned().await;
        self.publisher = Some(publisher);
        result
    }

    /// What the thread gives back.
    async fn returned(&self) -> (Publisher<T>, Result<(), NotSent>) {
        let handover = &self.handover;
        poll_fn(|context| {
            let mut handover = lock(handover);
            match handover.returned.take() {
                Some(returned) => Poll::Ready(returned),
                None => {
                    handover.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    async fn take(&mut self) -> Publisher<T> {
        if let Some(publisher) = self.publisher.take() {
            return publisher;
        }
        lock(&self.handover).is_given_up = true;
        self.returned().await.0
    }

    /// Sends a message of bytes, or of a value as bytes.
    async fn send(&mut self, message: Outgoing<'_>) -> Result<Position, NotSent> {
        if self.turn == 0 {
            self.turn = TURN_MAX;
            yield_once().await;
        }
        loop {
            match self.get_mut().await.send(message) {
                Err(NotSent::BackPressured | NotSent::NotConnected) => {}
                result => {
                    self.turn -= 1;
                    return result;
                }
            }
            let room = Outgoing::sized(message.body.len()).label(message.label);
            self.wait_for_room(room).await?;
            self.turn = TURN_MAX;
        }
    }
}

/// Lets other tasks run once.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl AsyncPublisher {
    /// Sends a copy of `message`, which is bytes or an [`Outgoing`] with a tag and a topic; waits
    /// for room. Returns the position after it.
    ///
    /// # Errors
    ///
    /// [`NotSent`], never `BackPressured` or `NotConnected`.
    pub async fn publish<'m>(
        &mut self,
        message: impl Into<Outgoing<'m>>,
    ) -> Result<Position, NotSent> {
        self.send(message.into()).await
    }
}

impl<T: Plain> AsyncPublisher<T> {
    /// Sends a copy of `value`, a `&T` or [`Outgoing::typed`]; waits for room. Returns the position
    /// after it.
    ///
    /// # Errors
    ///
    /// [`NotSent`], never `BackPressured` or `NotConnected`.
    pub async fn publish<'m>(
        &mut self,
        value: impl Into<Outgoing<'m, &'m T>>,
    ) -> Result<Position, NotSent> {
        self.send(value.into().as_bytes()).await
    }
}

impl<T: ?Sized> Drop for AsyncPublisher<T> {
    fn drop(&mut self) {
        lock(&self.handover).is_given_up = true;
    }
}

impl<T: ?Sized> fmt::Debug for AsyncPublisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncPublisher")
            .field("publisher", &self.publisher)
            .finish_non_exhaustive()
    }
}
