//! A publisher whose waits are futures: a thread waits for room with it, and closes it.

#[cfg(feature = "stream")]
mod sink;
mod worker;

use super::publisher::{Ending, PANICKED, Publisher};
use crate::error::NotSent;
use crate::message::{Outgoing, Plain, Position};
use core::future::poll_fn;
use core::task::Poll;
use std::fmt;
use std::io;
use std::panic::resume_unwind;
use worker::{Task, Worker};

#[cfg(feature = "stream")]
pub use sink::ItemPublisher;

/// Messages that a task sends in a row before other tasks of its thread run.
const TURN_MAX: u32 = 64;

/// What subscribers get if an asynchronous publisher cannot be made.
const NO_THREAD: &str = "its publisher got no thread or no memory for its waits";

/// Sends in tasks of any executor: tokio, smol, or another one. No future blocks the thread.
///
/// It needs no reactor. Where there is room, a call sends at once, without a system call or a
/// switch of threads; after 64 messages in a row the future lets other tasks of its thread run.
/// Under back-pressure, a thread of this handle waits for room and wakes the task. It parks for
/// every `wait=`, so it takes no CPU from the executor.
///
/// A future that is dropped before it is ready has sent nothing. The next call ends the thread's
/// wait and gets the publisher back. So time limits and `select!` of the executor work.
///
/// With the feature `stream`, `AsyncPublisher::into_item_publisher` makes a `Sink` of it.
///
/// Close it by [`AsyncPublisher::close`]. Dropping it blocks as dropping a [`Publisher`] does: it
/// ends the thread's wait and closes the publisher, and so waits for `linger`; over a bridge
/// without `linger` it waits until the far side has everything. A panic that drops it ends the
/// stream as failed.
///
/// In a forked child calls return [`NotSent::Forked`], and dropping it does nothing.
///
/// ```
/// use olivine::{AsyncPublisher, Publisher, Subscriber};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let mut subscriber = Subscriber::open("inproc://awaits-room")?;
/// let publisher = Publisher::open("inproc://awaits-room")?;
/// let mut publisher = AsyncPublisher::new(publisher)?;
/// publisher.publish(b"hello").await?;
/// publisher.close().await?;
/// assert_eq!(&*subscriber.receive()?, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AsyncPublisher<T: ?Sized = [u8]> {
    /// `None` while the worker has it.
    publisher: Option<Publisher<T>>,
    worker: Worker<T>,
    /// Messages that the task may still send before other tasks run.
    turn: u32,
    /// Why the stream fails when this is closed or dropped; `None` if it ends.
    failure: Option<String>,
}

impl<T: ?Sized + 'static> AsyncPublisher<T> {
    /// Takes a publisher, and starts its thread.
    ///
    /// Opening the publisher blocks while another participant opens or closes the same channel,
    /// milliseconds as a rule; [`Publisher::open`] says when it is longer.
    ///
    /// # Errors
    ///
    /// If the system has no thread or memory left. Then the stream ends as failed, which blocks as
    /// [`Publisher::close`] does.
    pub fn new(mut publisher: Publisher<T>) -> io::Result<Self> {
        match Worker::start() {
            Ok(worker) => Ok(Self {
                publisher: Some(publisher),
                worker,
                turn: TURN_MAX,
                failure: None,
            }),
            Err(error) => {
                // The caller gets the error of the thread; in a forked child the lane is the
                // parent's.
                let _ = publisher.end(&Ending::Failed(NO_THREAD));
                Err(error)
            }
        }
    }
}

impl<T: ?Sized> AsyncPublisher<T> {
    /// The publisher, for what does not wait. Gets it back from a wait that was dropped.
    ///
    /// # Errors
    ///
    /// [`NotSent::Forked`] in a forked child, if the parent's thread had the publisher.
    pub async fn get_mut(&mut self) -> Result<&mut Publisher<T>, NotSent> {
        // Left in its place where it is: each message passes here.
        if self.publisher.is_none() {
            self.publisher = Some(self.take().await?);
        }
        let publisher = self.publisher.as_mut();
        Ok(publisher.unwrap_or_else(|| unreachable!("it was put there")))
    }

    /// The publisher. Gets it back from a wait that was dropped.
    ///
    /// [`Publisher::close`] blocks its thread: in a task, call [`AsyncPublisher::close`] instead.
    ///
    /// # Errors
    ///
    /// [`NotSent::Forked`] in a forked child, if the parent's thread had the publisher.
    pub async fn into_inner(mut self) -> Result<Publisher<T>, NotSent> {
        self.take().await
    }

    /// Closes the publisher as [`Publisher::close`] does; a thread waits for `linger`.
    ///
    /// Dropping the future before it is ready does not take this back, also if it was never
    /// polled. It blocks until the publisher is closed.
    ///
    /// # Errors
    ///
    /// As [`Publisher::close`].
    pub async fn close(mut self) -> Result<Position, NotSent> {
        self.end().await
    }

    /// Ends the stream as failed as [`Publisher::close_failed`] does; a thread waits for `linger`.
    ///
    /// Dropping the future before it is ready does not take this back, also if it was never
    /// polled. It blocks until the publisher is closed.
    ///
    /// # Errors
    ///
    /// As [`Publisher::close_failed`].
    pub fn close_failed(
        mut self,
        reason: &str,
    ) -> impl Future<Output = Result<Position, NotSent>> + use<T> {
        // Here, not in the future: it may be dropped before it is polled.
        self.failure = Some(reason.to_owned());
        async move { self.end().await }
    }

    async fn end(&mut self) -> Result<Position, NotSent> {
        let failure = self.failure.clone();
        self.run(Task::End { failure }).await
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
        let room = room.into();
        match self.get_mut().await?.has_room(room) {
            Err(NotSent::BackPressured | NotSent::NotConnected) => {}
            found => return found,
        }
        self.run(Task::room(room)).await.map(|_| ())
    }

    /// Lets the worker do a task with the publisher.
    async fn run(&mut self, task: Task) -> Result<Position, NotSent> {
        let publisher = self.take().await?;
        if !self.worker.is_ours() {
            self.publisher = Some(publisher);
            return Err(NotSent::Forked);
        }
        self.worker.run(publisher, task);
        let (publisher, result) = self.worker.returned().await?;
        self.publisher = Some(publisher);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    async fn take(&mut self) -> Result<Publisher<T>, NotSent> {
        if let Some(publisher) = self.publisher.take() {
            return Ok(publisher);
        }
        self.worker.end_wait();
        let (publisher, result) = self.worker.returned().await?;
        if let Err(panic) = result {
            self.publisher = Some(publisher);
            resume_unwind(panic);
        }
        Ok(publisher)
    }

    /// Sends a message of bytes, or of a value as bytes.
    async fn send(&mut self, message: Outgoing<'_>) -> Result<Position, NotSent> {
        if self.turn == 0 {
            self.turn = TURN_MAX;
            yield_once().await;
        }
        loop {
            match self.get_mut().await?.send(message) {
                Err(NotSent::BackPressured | NotSent::NotConnected) => {}
                result => {
                    self.turn -= 1;
                    return result;
                }
            }
            let room = Outgoing::sized(message.body.len()).label(message.label);
            self.run(Task::room(room)).await?;
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
        // Closed here, not in the thread: only here it is known whether a panic drops it.
        let stopped = self.worker.stop();
        let has_panicked = matches!(&stopped, Some((_, Err(_))));
        let publisher = stopped.map(|(publisher, _)| publisher);
        let failure = self.failure.as_deref();
        let failure = failure.or_else(|| has_panicked.then_some(PANICKED));
        if let Some(mut publisher) = publisher.or_else(|| self.publisher.take())
            && let Some(reason) = failure
        {
            // As dropping a publisher: the error has no reader. It is closed already if
            // the thread has closed it.
            let _ = publisher.end(&Ending::Failed(reason));
        }
    }
}

impl<T: ?Sized> fmt::Debug for AsyncPublisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncPublisher")
            .field("publisher", &self.publisher)
            .finish_non_exhaustive()
    }
}
