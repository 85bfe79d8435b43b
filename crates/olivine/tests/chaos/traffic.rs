//! Publishers on threads of their own, and the loop that receives what they send.

use crate::checker::{Checker, SHORTEST, message};
use crate::common::{Patience, Random, until};
use olivine::{Publisher, ReceiveError, Subscriber};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for a message without a look around.
pub(crate) const LOOK: Duration = Duration::from_millis(2);
/// Nothing arrives for so long: the stream hangs. By a clock that stands still while this process
/// does not run.
pub(crate) const HUNG: Duration = Duration::from_secs(20);

/// What a publisher says of itself.
enum Said {
    Opened,
    Closed(u32, Result<(), String>),
}

/// Publishers of a run. Each closes only when it is told to.
pub(crate) struct Publishers {
    count: u64,
    said: Receiver<Said>,
    closes: Vec<Option<Sender<()>>>,
    threads: Vec<JoinHandle<()>>,
    /// Told to close, and not done with it.
    closing: usize,
}

impl Publishers {
    /// Starts one publisher for each URI, which publishes `count` messages of up to `longest`
    /// bytes; returns once all are open.
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
            let (close, is_told) = channel();
            let (say, mut random) = (say.clone(), Random(random.next()));
            publishers.closes.push(Some(close));
            publishers.threads.push(std::thread::spawn(move || {
                let mut handle = Publisher::open(&uri).expect("a publisher");
                say.send(Said::Opened).expect("a listener");
                for number in 0..count {
                    // Most are short, as in life; some are as long as can be.
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
                // Told to close, or given up.
                let _ = is_told.recv();
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

    /// Says what is published and not closed yet.
    fn declare(&self, checker: &mut Checker) {
        for publisher in 0..self.closes.len() {
            checker.sent(u32::try_from(publisher).unwrap(), self.count);
        }
    }

    /// The publishers of which everything arrived and which were not told to close yet.
    fn done(&self, checker: &Checker) -> Vec<u32> {
        let open = (0_u32..)
            .zip(&self.closes)
            .filter(|(_, close)| close.is_some());
        open.map(|(publisher, _)| publisher)
            .filter(|publisher| checker.arrived(*publisher) == self.count)
            .collect()
    }

    /// Tells a publisher to close.
    fn close(&mut self, publisher: u32) {
        let close = self.closes[publisher as usize].take();
        close.expect("it is open").send(()).expect("a publisher");
        self.closing += 1;
    }

    /// How many have closed since the last look.
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
        // One that failed was not told to close.
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
            // One that waits for room for ever is left behind: the run has failed already.
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

/// What a scene does while messages arrive.
pub(crate) trait Plan {
    /// Called between messages with the number that arrived so far, and every now and then.
    fn look(&mut self, received: u64, checker: &mut Checker);
    /// A publisher of which everything arrived is about to close; afterwards, it has.
    fn before_close(&mut self);
    /// See [`Plan::before_close`].
    fn after_close(&mut self);
    /// Whether an end while publishers live may be told: they are not all known there yet.
    fn may_end_early(&self) -> bool {
        false
    }
}

/// What looking for a message came to.
#[derive(Debug)]
pub(crate) enum Got {
    Nothing,
    Message(Vec<u8>),
    /// The receiver was killed and started again: the message that it had in hand may come again.
    Restarted,
    /// The end of the stream.
    Closed,
    Failed(String),
}

/// Where messages arrive.
pub(crate) trait Receive {
    /// The next one, if it comes soon; `received` have come so far.
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

/// Receives everything that `publishers` send until the end is told, something fails, or nothing
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
            // Told before the publisher says that it has closed: nothing is wrong with that.
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
        left = left.saturating_sub(between.min(Patience::STEP_MAX));
        if left.is_zero() {
            checker.hung();
            return checker;
        }
    }
}
