//! An asynchronous publisher as a `Sink`: it keeps at most one message, until that has room.

use super::{AsyncPublisher, TURN_MAX, Task};
use crate::error::NotSent;
use crate::message::{Outgoing, Plain};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use futures_sink::Sink;
use std::fmt;
use std::panic::resume_unwind;

/// What subscribers get if a sink is dropped with the message that it keeps.
const KEPT: &str = "its sink was dropped with a message that had no room yet: flush or close it";

/// What the thread does with the publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    /// Nothing: the sink has the publisher, or a future that was dropped has left it there.
    Idle,
    /// It waits until the kept message has room.
    Room,
    /// It closes the publisher, or has closed it.
    Close,
}

/// An [`AsyncPublisher`] as a `Sink`, by [`AsyncPublisher::into_item_publisher`].
///
/// Needs the feature `stream`.
///
/// Items are bytes (`Vec<u8>`, `String`, …), [`OwnedMessage`](crate::OwnedMessage) with its tag and
/// topic, or values of a typed publisher. An item goes out at once where it has room. Otherwise the
/// sink keeps it, and is ready for the next one once it is sent.
///
/// Use `feed` and `flush` with time limits and `select!`: a dropped `feed` has taken nothing, and a
/// dropped `flush` leaves the item in the sink, which sends it once, in a later call. After a
/// dropped `send`, which is both, a program cannot tell whether the sink has taken the item.
///
/// Closing waits for a kept item and for `linger`, as [`AsyncPublisher::close`] does. If it is
/// dropped while it keeps an item, the stream ends as failed.
///
/// An error is that of the item which was not sent, and the sink goes on with the next one. `feed`
/// and `send` also return the error of the item that was kept before: then neither that one nor the
/// new one is sent. Closing returns that error, too; call it again then.
///
/// ```
/// use futures_util::SinkExt;
/// use olivine::{AsyncPublisher, Publisher, Subscriber};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let mut subscriber = Subscriber::open("inproc://sunk")?;
/// let publisher = AsyncPublisher::new(Publisher::open("inproc://sunk")?)?;
/// let mut sink = publisher.into_item_publisher();
/// sink.send("hello").await?;
/// sink.close().await?;
/// assert_eq!(&*subscriber.receive()?, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ItemPublisher<M, T: ?Sized = [u8]> {
    publisher: AsyncPublisher<T>,
    /// The message of an item.
    outgoing: for<'m> fn(&'m M) -> Outgoing<'m>,
    kept: Option<M>,
    thread: Thread,
}

// Nothing in it is pinned: futures of the publisher live within a call.
impl<M, T: ?Sized> Unpin for ItemPublisher<M, T> {}

impl AsyncPublisher {
    /// This publisher as a `Sink` of items whose references are messages.
    #[must_use]
    pub fn into_item_publisher<M>(self) -> ItemPublisher<M>
    where
        for<'m> &'m M: Into<Outgoing<'m>>,
    {
        ItemPublisher::new(self, |item| item.into())
    }
}

impl<T: Plain> AsyncPublisher<T> {
    /// This publisher as a `Sink` of values.
    #[must_use]
    pub fn into_item_publisher(self) -> ItemPublisher<T, T> {
        ItemPublisher::new(self, |value| Outgoing::typed(value).as_bytes())
    }
}

impl<M, T: ?Sized> ItemPublisher<M, T> {
    fn new(publisher: AsyncPublisher<T>, outgoing: for<'m> fn(&'m M) -> Outgoing<'m>) -> Self {
        Self {
            publisher,
            outgoing,
            kept: None,
            thread: Thread::Idle,
        }
    }

    /// The publisher, for what a sink cannot do: sending other items, a look at its counters.
    ///
    /// What it sends goes out before an item that the sink keeps.
    pub fn get_mut(&mut self) -> &mut AsyncPublisher<T> {
        if self.thread == Thread::Room {
            // The call ends the thread's wait; the next one of the sink begins another.
            self.thread = Thread::Idle;
        }
        &mut self.publisher
    }

    /// Whether an item waits for room: it is sent by the next call that flushes.
    #[must_use]
    pub fn is_keeping(&self) -> bool {
        self.kept.is_some()
    }

    /// Gets the publisher back from the thread, and the result of what it did there.
    fn poll_back(&mut self, context: &Context<'_>) -> Poll<Result<(), NotSent>> {
        let this = &mut self.publisher;
        if this.publisher.is_some() {
            return Poll::Ready(Ok(()));
        }
        if self.thread == Thread::Idle {
            // A future that was dropped has left it in a wait.
            this.worker.end_wait();
        }
        let (publisher, result) = ready!(this.worker.poll_returned(context))?;
        this.publisher = Some(publisher);
        let result = result.unwrap_or_else(|panic| resume_unwind(panic));
        match self.thread {
            // That of a future that was dropped.
            Thread::Idle => Poll::Ready(Ok(())),
            Thread::Room => {
                self.thread = Thread::Idle;
                Poll::Ready(result.map(|_| ()))
            }
            Thread::Close => Poll::Ready(result.map(|_| ())),
        }
    }

    fn start(&mut self, task: Task, thread: Thread) -> Result<(), NotSent> {
        let this = &mut self.publisher;
        if !this.worker.is_ours() {
            return Err(NotSent::Forked);
        }
        let Some(publisher) = this.publisher.take() else {
            unreachable!("the caller has it")
        };
        this.worker.run(publisher, task);
        self.thread = thread;
        Ok(())
    }

    /// Sends a message, or says that it has no room. The caller has the publisher.
    fn try_send(&mut self, message: Outgoing<'_>) -> Result<bool, NotSent> {
        let Some(publisher) = &mut self.publisher.publisher else {
            panic!("an item is for a sink that is ready: `poll_ready` comes first");
        };
        match publisher.send(message) {
            Ok(_) => Ok(true),
            Err(NotSent::BackPressured | NotSent::NotConnected) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends the kept item.
    fn poll_kept(&mut self, context: &Context<'_>) -> Poll<Result<(), NotSent>> {
        loop {
            if let Err(error) = ready!(self.poll_back(context)) {
                // It is that of the item: it will not be sent.
                self.kept = None;
                return Poll::Ready(Err(error));
            }
            let Some(item) = self.kept.take() else {
                return Poll::Ready(Ok(()));
            };
            let message = (self.outgoing)(&item);
            if self.try_send(message)? {
                return Poll::Ready(Ok(()));
            }
            let room = Outgoing::sized(message.body.len()).label(message.label);
            let room = Task::room(room);
            self.kept = Some(item);
            self.start(room, Thread::Room)?;
        }
    }
}

impl<M, T: ?Sized> Sink<M> for ItemPublisher<M, T> {
    type Error = NotSent;

    fn poll_ready(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), NotSent>> {
        let this = self.get_mut();
        if this.publisher.turn == 0 {
            this.publisher.turn = TURN_MAX;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.poll_kept(context)
    }

    fn start_send(self: Pin<&mut Self>, item: M) -> Result<(), NotSent> {
        let this = self.get_mut();
        assert!(
            this.kept.is_none(),
            "an item is for a sink that is ready: `poll_ready` comes first"
        );
        if !this.try_send((this.outgoing)(&item))? {
            this.kept = Some(item);
        }
        this.publisher.turn = this.publisher.turn.saturating_sub(1);
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), NotSent>> {
        self.get_mut().poll_kept(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), NotSent>> {
        let this = self.get_mut();
        if this.thread != Thread::Close {
            ready!(this.poll_kept(context))?;
            this.start(Task::End { failure: None }, Thread::Close)?;
        }
        this.poll_back(context)
    }
}

impl<M, T: ?Sized> Drop for ItemPublisher<M, T> {
    fn drop(&mut self) {
        if self.kept.is_some() {
            // Ended by the drop of the publisher, which comes next.
            self.publisher.failure = Some(KEPT.to_owned());
        }
    }
}

impl<M, T: ?Sized> fmt::Debug for ItemPublisher<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemPublisher")
            .field("publisher", &self.publisher)
            .field("is_keeping", &self.is_keeping())
            .finish_non_exhaustive()
    }
}
