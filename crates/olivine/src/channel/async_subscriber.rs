//! A subscriber whose waits are futures: the thread behind the descriptor wakes tasks.

use super::poll::CHECKS_NEXT;
use super::slow_state::would_find;
use super::subscriber::Subscriber;
use super::typed::Typed;
use crate::error::ReceiveError;
use crate::message::{Message, Plain};
use crate::ring::consume::Frame;
use core::future::poll_fn;
use core::task::{Context, Poll};
use std::io;

/// Messages that a task gets in a row before other tasks of its thread run.
const TURN_MAX: u32 = 64;

/// Receives in tasks of any executor: tokio, smol, or another one. No call blocks the thread.
///
/// It needs no reactor: a thread of this handle parks for the task and wakes it. A message that is
/// there already costs no system call and no switch of threads. After 64 messages in a row the
/// future lets other tasks of its thread run.
///
/// A future that is dropped before it is ready has received nothing: no message is lost. So time
/// limits and `select!` of the executor work. A durable subscriber (`name=`) consumes a message
/// when the next one is asked for, as [`Subscriber`] does.
///
/// With the feature `stream` it is a `Stream` of copies, whose items and end are those of
/// [`Subscriber::iter`]; the implementation has an example.
///
/// ```
/// use olivine::{AsyncSubscriber, Publisher, ReceiveError, Subscriber};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let subscriber = Subscriber::open("inproc://awaited")?;
/// let mut subscriber = AsyncSubscriber::new(subscriber)?;
/// let mut publisher = Publisher::open("inproc://awaited")?;
/// publisher.publish(b"hello")?;
/// publisher.close()?;
/// assert_eq!(&*subscriber.receive().await?, b"hello");
/// assert!(matches!(subscriber.receive().await, Err(ReceiveError::Closed)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AsyncSubscriber<T: ?Sized = [u8]> {
    subscriber: Subscriber<T>,
    /// Messages that the task may still get before other tasks run.
    turn: u32,
    /// The stream has returned its last item.
    #[cfg(feature = "stream")]
    is_over: bool,
}

impl<T: ?Sized> AsyncSubscriber<T> {
    /// Takes a subscriber, and starts its thread.
    ///
    /// Opening the subscriber blocks while another participant opens or closes the same channel,
    /// milliseconds as a rule; [`Subscriber::open`] says when it is longer.
    ///
    /// # Errors
    ///
    /// If the system has no descriptor or thread left, or in a forked child.
    pub fn new(mut subscriber: Subscriber<T>) -> io::Result<Self> {
        subscriber.start_watch()?;
        Ok(Self {
            subscriber,
            turn: TURN_MAX,
            #[cfg(feature = "stream")]
            is_over: false,
        })
    }

    /// The subscriber, for what does not wait.
    #[must_use]
    pub fn get_ref(&self) -> &Subscriber<T> {
        &self.subscriber
    }

    /// The subscriber, to receive without waiting. Its calls that wait block the thread.
    pub fn get_mut(&mut self) -> &mut Subscriber<T> {
        &mut self.subscriber
    }

    /// The subscriber; its thread stays until it is closed.
    #[must_use]
    pub fn into_inner(self) -> Subscriber<T> {
        self.subscriber
    }

    /// Waits until a receiving call would find something: a message, an error or the end of the
    /// stream. Once the end of the stream was reported, it waits for the next publisher.
    ///
    /// It consumes the message returned last.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`].
    pub async fn ready(&mut self) -> Result<(), ReceiveError> {
        let subscriber = &mut self.subscriber;
        poll_fn(|context| {
            subscriber.begin()?;
            subscriber.found_new_lanes()?;
            // Before the check: later changes wake the task.
            subscriber.wake_at_change(context.waker());
            if !would_find(&subscriber.slow_state, &subscriber.lanes) {
                return Poll::Pending;
            }
            // If it is not a message, the next call that finds none checks for other changes.
            subscriber.empty_calls = CHECKS_NEXT;
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// The next frame. The waker is kept only if there is none.
    fn poll_frame(&mut self, context: &Context<'_>) -> Poll<Result<(usize, Frame), ReceiveError>> {
        if self.turn == 0 {
            self.turn = TURN_MAX;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut found = self.subscriber.next_frame();
        if matches!(found, Ok(None)) {
            self.subscriber.wake_at_change(context.waker());
            // Messages may have come before the waker was kept.
            found = self.subscriber.next_frame();
        }
        match found.transpose() {
            Some(found) => {
                self.turn -= 1;
                Poll::Ready(found)
            }
            None => {
                self.turn = TURN_MAX;
                Poll::Pending
            }
        }
    }
}

impl AsyncSubscriber {
    /// The next message, a view of the ring; waits for it.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`]; `Closed` is the end of the stream. It is returned again until a later
    /// publisher comes: wait for one with [`AsyncSubscriber::ready`].
    pub async fn receive(&mut self) -> Result<Message<'_>, ReceiveError> {
        let (lane, frame) = poll_fn(|context| self.poll_frame(context)).await?;
        Ok(self.subscriber.message(lane, &frame))
    }
}

impl<T: Plain> AsyncSubscriber<T> {
    /// The next value, a view of the ring; waits for it.
    ///
    /// # Errors
    ///
    /// As [`Subscriber::poll`] of typed channels; `Closed` is the end of the stream.
    pub async fn receive(&mut self) -> Result<Typed<'_, T>, ReceiveError> {
        let (lane, frame) = poll_fn(|context| self.poll_frame(context)).await?;
        Typed::new(self.subscriber.message(lane, &frame))
    }
}

#[cfg(feature = "stream")]
mod stream {
    use super::{AsyncSubscriber, Context, Frame, Plain, Poll, ReceiveError, Typed};
    use crate::message::OwnedMessage;
    use core::pin::Pin;
    use futures_core::stream::{FusedStream, Stream};

    impl<T: ?Sized> AsyncSubscriber<T> {
        fn poll_item<I>(
            &mut self,
            context: &Context<'_>,
            copied: impl FnOnce(&Self, usize, &Frame) -> Result<I, ReceiveError>,
        ) -> Poll<Option<Result<I, ReceiveError>>> {
            if self.is_over {
                return Poll::Ready(None);
            }
            self.poll_frame(context).map(|found| {
                let item = found.and_then(|(lane, frame)| copied(self, lane, &frame));
                self.is_over = item.as_ref().is_err_and(ReceiveError::is_final);
                match item {
                    Err(ReceiveError::Closed) => None,
                    item => Some(item),
                }
            })
        }
    }

    /// Copies of the messages, as of [`Subscriber::iter`](crate::Subscriber::iter).
    ///
    /// The methods of a `Stream`, such as `map` and `try_next`, are those of the crate
    /// `futures-util`.
    ///
    /// ```
    /// use futures_util::TryStreamExt;
    /// use olivine::{AsyncSubscriber, Publisher, Subscriber};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let subscriber = Subscriber::open("inproc://streamed")?;
    /// let mut messages = AsyncSubscriber::new(subscriber)?;
    /// let mut publisher = Publisher::open("inproc://streamed")?;
    /// for text in ["bid 101", "ask 103", "trade 102"] {
    ///     publisher.publish(text)?;
    /// }
    /// publisher.close()?;
    ///
    /// let first = messages.try_next().await?.expect("three messages");
    /// assert_eq!(&*first, b"bid 101");
    /// // The stream ends when the last publisher has closed; an error is `Err`.
    /// let lengths: Vec<usize> = messages.map_ok(|message| message.len()).try_collect().await?;
    /// assert_eq!(lengths, [7, 9]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    impl Stream for AsyncSubscriber {
        type Item = Result<OwnedMessage, ReceiveError>;

        fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.get_mut().poll_item(context, |this, lane, frame| {
                Ok(this.subscriber.message(lane, frame).to_owned_message())
            })
        }
    }

    /// Copies of the values, as of [`Subscriber::iter`](crate::Subscriber::iter).
    impl<T: Plain> Stream for AsyncSubscriber<T> {
        type Item = Result<T, ReceiveError>;

        fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.get_mut().poll_item(context, |this, lane, frame| {
                Ok(Typed::<T>::new(this.subscriber.message(lane, frame))?.read())
            })
        }
    }

    impl FusedStream for AsyncSubscriber {
        fn is_terminated(&self) -> bool {
            self.is_over
        }
    }

    impl<T: Plain> FusedStream for AsyncSubscriber<T> {
        fn is_terminated(&self) -> bool {
            self.is_over
        }
    }
}
