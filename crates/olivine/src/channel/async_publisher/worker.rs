//! The thread behind an asynchronous publisher: it waits with the publisher, and gives it back.

use super::super::own_thread::OwnThread;
use super::super::publisher::{Ending, Publisher};
use super::super::waiting::{EndWait, wake_task};
use crate::error::NotSent;
use crate::fork::ForkPage;
use crate::message::{Outgoing, Position};
use core::any::Any;
use core::future::poll_fn;
use core::mem::ManuallyDrop;
use core::task::{Context, Poll, Waker};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What the thread does with the publisher.
pub(super) enum Task {
    /// Waits until a message of this length has room.
    Room {
        length: usize,
        topic: Option<String>,
    },
    /// Closes it; as failed, for a reason.
    End { failure: Option<String> },
}

impl Task {
    pub(super) fn room(room: Outgoing<'_, usize>) -> Self {
        Self::Room {
            length: room.body,
            topic: room.label.topic.map(str::to_owned),
        }
    }

    fn run<T: ?Sized>(
        &self,
        publisher: &mut Publisher<T>,
        end_wait: &EndWait,
    ) -> Result<Position, NotSent> {
        match self {
            Self::Room { length, topic } => {
                crate::points::pass("room.wait");
                publisher.await_room_parked(*length, topic.as_deref(), end_wait)?;
                Ok(publisher.cursor())
            }
            Self::End { failure: None } => publisher.end(&Ending::Closed),
            Self::End {
                failure: Some(reason),
            } => publisher.end(&Ending::Failed(reason)),
        }
    }
}

/// What the thread gives back: the publisher, and the result of the task or its panic.
pub(super) type Returned<T> = (Publisher<T>, thread::Result<Result<Position, NotSent>>);

struct Handover<T: ?Sized> {
    returned: Option<Returned<T>>,
    waker: Option<Waker>,
}

struct Shared<T: ?Sized> {
    handover: Mutex<Handover<T>>,
    end_wait: EndWait,
}

impl<T: ?Sized> Shared<T> {
    fn handover(&self) -> MutexGuard<'_, Handover<T>> {
        self.handover.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: does tasks until the handle is dropped.
    fn serve(&self, tasks: &Receiver<(Publisher<T>, Task)>) {
        for (mut publisher, task) in tasks {
            let run = || task.run(&mut publisher, &self.end_wait);
            // A panic is a bug of this crate. The task gets it, and its publisher, which a panic
            // leaves in order as it does in any other thread.
            let result = catch_unwind(AssertUnwindSafe(run));
            let waker = {
                let mut handover = self.handover();
                handover.returned = Some((publisher, result));
                handover.waker.take()
            };
            if let Some(waker) = waker {
                wake_task(waker);
            }
        }
    }
}

/// A thread that does tasks with a publisher.
pub(super) struct Worker<T: ?Sized> {
    /// Both are `None` after the end.
    tasks: Option<Sender<(Publisher<T>, Task)>>,
    thread: Option<OwnThread>,
    shared: Arc<Shared<T>>,
    page: ForkPage,
}

impl<T: ?Sized + 'static> Worker<T> {
    /// # Errors
    ///
    /// If the system has no thread or memory left.
    pub(super) fn start() -> io::Result<Self> {
        let (tasks, received) = mpsc::channel();
        let shared = Arc::new(Shared {
            handover: Mutex::new(Handover {
                returned: None,
                waker: None,
            }),
            end_wait: EndWait::default(),
        });
        let served = Arc::clone(&shared);
        let thread = OwnThread::start("olivine-room", move || served.serve(&received))?;
        Ok(Self {
            tasks: Some(tasks),
            thread: Some(thread),
            shared,
            page: ForkPage::new()?,
        })
    }
}

impl<T: ?Sized> Worker<T> {
    /// Whether this is still the process that started the thread.
    pub(super) fn is_ours(&self) -> bool {
        self.page.is_ours()
    }

    pub(super) fn run(&self, publisher: Publisher<T>, task: Task) {
        self.shared.end_wait.begin();
        let tasks = self.tasks.as_ref();
        let sent = tasks.map(|tasks| tasks.send((publisher, task)).map_err(Box::new));
        if let Some(Err(unsent)) = sent {
            // The thread has ended: a bug of this crate, which the task gets as a panic.
            let mpsc::SendError((publisher, _)) = *unsent;
            let panic: Box<dyn Any + Send> = Box::new("the thread of its publisher has ended");
            self.shared.handover().returned = Some((publisher, Err(panic)));
        }
    }

    /// Ends a wait for room, if the thread is in one.
    pub(super) fn end_wait(&self) {
        if self.is_ours() {
            self.shared.end_wait.end();
        }
    }

    /// What the thread gives back.
    ///
    /// # Errors
    ///
    /// As [`Worker::poll_returned`].
    pub(super) async fn returned(&self) -> Result<Returned<T>, NotSent> {
        poll_fn(|context| self.poll_returned(context)).await
    }

    /// What the thread gives back, once it does; keeps the waker until then.
    ///
    /// # Errors
    ///
    /// [`NotSent::Forked`] in a forked child, which may be a copy of this task.
    pub(super) fn poll_returned(
        &self,
        context: &Context<'_>,
    ) -> Poll<Result<Returned<T>, NotSent>> {
        // Before the lock: the parent's thread may have held it.
        if !self.is_ours() {
            return Poll::Ready(Err(NotSent::Forked));
        }
        let mut handover = self.shared.handover();
        match handover.returned.take() {
            Some(returned) => Poll::Ready(Ok(returned)),
            None => {
                handover.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Ends the wait and the thread. What the thread had, if it had the publisher.
    ///
    /// In a forked child, where the thread does not exist, it touches nothing that the thread could
    /// have held.
    pub(super) fn stop(&mut self) -> Option<Returned<T>> {
        let (tasks, thread) = (self.tasks.take(), self.thread.take());
        if !self.is_ours() {
            let _ = ManuallyDrop::new((tasks, thread));
            return None;
        }
        self.end_wait();
        drop(tasks);
        // A waker may drop the handle in the thread. Then the thread has given everything back, and
        // ends after this.
        if let Some(thread) = thread {
            thread.join();
        }
        self.shared.handover().returned.take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::pin::pin;

    #[test]
    fn task_for_a_thread_that_has_ended_panics_and_returns_the_publisher() {
        let mut worker = Worker::start().unwrap();
        let (tasks, received) = mpsc::channel();
        drop(received);
        worker.tasks = Some(tasks);
        let publisher = Publisher::open("inproc://ended-thread").unwrap();
        worker.run(publisher, Task::End { failure: None });
        let returned = pin!(worker.returned()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok((_, Err(panic)))) = returned else {
            panic!("it waits for a thread that has ended");
        };
        let text = panic.downcast_ref::<&str>().unwrap();
        assert!(text.contains("has ended"), "{text}");
    }
}
