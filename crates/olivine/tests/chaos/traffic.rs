//! Publishers on separate threads, and the receive loop.

use crate::checker::{Checker, SHORTEST, message};
use crate::common::{Deadline, Random, until};
use olivine::{Publisher, ReceiveError, Subscriber};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for a message without other work.
pub(crate) const LOOK: Duration = Duration::from_millis(2);
/// Without messages for this time, the stream hangs. By a clock that stops while this process does
/// not run.
pub(crate) const HUNG: Duration = Duration::from_secs(20);

/// What a publisher reports.
enum Said {
    Opened,
    Closed(u32, Result<(), String>),
}

/// Publishers of a run. Each closes only on request.
pub(crate) struct Publishers {
    count: u64,
    said: Receiver<Said>,
    closes: Vec<Option<Sender<()>>>,
    threads: Vec<JoinHandle<()>>,
    /// Asked to close, and still closing.
    closing: usize,
}

impl Publishers {
    /// Starts one publisher for each URI, which publishes `count` messages of up to `longest`
    /// bytes. Returns once all are open.
    pub(crate) fn start(uris: &[String], count: u64, longest: u64, random: &mut Random) -> Self {
        let (say, said) = channel();
        let mut publishers = Self {
            count,
            said,
            closes: Vec::new(),
            threads: Vec::new(),
            closing: 0,
        };
        for (publisher, uri) in (0_u32..).zip(uris.iter().cloned()) {
            let (close, is_closed) = channel();
            let (say, mut random) = (say.clone(), Random(random.next()));
            publishers.closes.push(Some(close));
            publishers.threads.push(std::thread::spawn(move || {
                let mut handle = Publisher::open(&uri).expect("a publisher");
                say.send(Said::Opened).expect("a listener");
                for number in 0..count {
                    // Most are short, as usual; some are as long as possible.
                    let most = if random.below(16) == 0 {
                        longest
                    } else {
                        longest.min(64)
                    };
                    let length = usize::try_from(random.below(most)).unwrap().max(SHORTEST);
                    if let Err(error) = handle.publish(&message(publisher, number, length)) {
                        let refused = format!("message {number} of {length} bytes: {error:?}");
                        let _ = say.send(Said::Closed(publisher, Err(refused)));
                        return;
                    }
                }
                // Asked to close, or abandoned.
                let _ = is_closed.recv();
                let closed = handle
                    .close()
                    .map(|_| ())
                    .map_err(|error| error.to_string());
                let _ = say.send(Said::Closed(publisher, closed));
            }));
        }
        let mut opened = 0;
        until("publishers open", || {
            opened += publishers.said.try_iter().count();
            opened == uris.len()
        });
        publishers
    }

    /// Reports what is published and not closed yet.
    fn declare(&self, checker: &mut Checker) {
        for publisher in 0..self.closes.len() {
            checker.sent(u32::try_from(publisher).unwrap(), self.count);
        }
    }

    /// Publishers whose messages all arrived and which were not asked to close yet.
    fn done(&self, checker: &Checker) -> Vec<u32> {
        let open = (0_u32..)
            .zip(&self.closes)
            .filter(|(_, close)| close.is_some());
        open.map(|(publisher, _)| publisher)
            .filter(|publisher| checker.arrived(*publisher) == self.count)
            .collect()
    }

    /// Asks a publisher to close.
    fn close(&mut self, publisher: u32) {
        let close = self.closes[publisher as usize].take();
        close.expect("it is open").send(()).expect("a publisher");
        self.closing += 1;
    }

    /// Number of publishers that closed since the last call.
    fn have_closed(&mut self, checker: &mut Checker) -> usize {
        let mut closed = 0;
        for said in self.said.try_iter() {
            if let Said::Closed(publisher, outcome) = said {
                checker.closed(publisher);
                if let Err(error) = outcome {
                    checker.failed(format!("publisher {publisher}: {error}"));
                }
                closed += 1;
            }
        }
        // A failed publisher was not asked to close.
        self.closing = self.closing.saturating_sub(closed);
        closed
    }

    fn all_closed(&self) -> bool {
        self.closing == 0 && self.closes.iter().all(Option::is_none)
    }
}

impl Drop for Publishers {
    fn drop(&mut self) {
        self.closes.clear();
        for thread in self.threads.drain(..) {
            // A publisher that waits for room forever is left running: the run has failed already.
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

/// The actions of a scene while messages arrive.
pub(crate) trait Plan {
    /// Called between messages with the number received so far, and periodically.
    fn look(&mut self, received: u64, checker: &mut Checker);
    /// A publisher whose messages all arrived is about to close; afterwards, it has closed.
    fn before_close(&mut self);
    /// See [`Plan::before_close`].
    fn after_close(&mut self);
    /// Whether the end may be reported while publishers are open: not all of them may be known yet.
    fn may_end_early(&self) -> bool {
        false
    }
}

/// Result of a receive attempt.
#[derive(Debug)]
pub(crate) enum Got {
    Nothing,
    Message(Vec<u8>),
    /// The receiver was killed and started again: the message that it was handling may come again.
    Restarted,
    /// The end of the stream.
    Closed,
    Failed(String),
}

/// The receiving end.
pub(crate) trait Receive {
    /// The next message, if it comes soon; `received` came so far.
    fn next(&mut self, received: u64) -> Got;
}

impl Receive for Subscriber {
    fn next(&mut self, _received: u64) -> Got {
        match self.receive_timeout(LOOK) {
            Ok(Some(bytes)) => Got::Message(bytes.to_vec()),
            Ok(None) => Got::Nothing,
            Err(ReceiveError::Closed) => Got::Closed,
            Err(error) => Got::Failed(format!("{error:?}")),
        }
    }
}

/// Receives everything from `publishers` until the end is reported, an error occurs, or nothing
/// comes for `hung`.
pub(crate) fn receive_all(
    publishers: &mut Publishers,
    receiver: &mut impl Receive,
    plan: &mut impl Plan,
    hung: Duration,
) -> Checker {
    let mut checker = Checker::default();
    publishers.declare(&mut checker);
    let (mut left, mut looked) = (hung, Instant::now());
    loop {
        plan.look(checker.received(), &mut checker);
        if publishers.have_closed(&mut checker) > 0 {
            plan.after_close();
            left = hung;
        }
        // One at a time.
        if publishers.closing == 0
            && let Some(publisher) = publishers.done(&checker).first()
        {
            plan.before_close();
            publishers.close(*publisher);
        }
        match receiver.next(checker.received()) {
            Got::Message(bytes) => {
                checker.take(&bytes);
                left = hung;
            }
            Got::Nothing => {}
            Got::Restarted => checker.receiver_killed(),
            Got::Closed if publishers.all_closed() => {
                checker.ended();
                return checker;
            }
            // Reported before the publisher says that it has closed: this is correct.
            Got::Closed if plan.may_end_early() || publishers.closing > 0 => {
                std::thread::park_timeout(LOOK);
            }
            Got::Closed => {
                checker.ended();
                return checker;
            }
            Got::Failed(why) => checker.failed(why),
        }
        if checker.has_failed() {
            return checker;
        }
        let between = looked.elapsed();
        looked += between;
        left = left.saturating_sub(between.min(Deadline::STEP_MAX));
        if left.is_zero() {
            checker.hung();
            return checker;
        }
    }
}
