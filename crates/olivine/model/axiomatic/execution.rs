//! Executions of a program: the write that each read sees, and the order of the writes of each
//! place.

use crate::litmus::{Litmus, Order};
use crate::relation::Relation;
use crate::trace::{self, Event, Kind, Trace};

/// One candidate: events and the relations that the axioms speak about.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) events: Vec<Event>,
    /// Program order.
    pub(crate) po: Relation,
    /// Order between threads that a death or a `membarrier` adds.
    pub(crate) sync: Relation,
    /// From the write to each read that sees it.
    pub(crate) rf: Relation,
    /// Order of the writes of each place.
    pub(crate) co: Relation,
    pub(crate) rmw: Relation,
    pub(crate) registers: Vec<Option<i64>>,
    pub(crate) done: Vec<bool>,
    /// The last value of each place.
    pub(crate) last: Vec<i64>,
}

/// The thread number of initial writes.
pub(crate) const NO_THREAD: usize = usize::MAX;

impl Execution {
    pub(crate) fn size(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn is(&self, event: usize, kind: Kind) -> bool {
        self.events[event].kind == kind
    }

    pub(crate) fn is_access(&self, event: usize) -> bool {
        matches!(self.events[event].kind, Kind::Read | Kind::Write)
    }

    pub(crate) fn same_place(&self, a: usize, b: usize) -> bool {
        self.is_access(a) && self.is_access(b) && self.events[a].place == self.events[b].place
    }

    /// Whether every model has `a` before `b` where both use one place.
    fn ordered(&self, a: usize, b: usize) -> bool {
        self.po.has(a, b) || self.sync.has(a, b)
    }

    /// From each read to the writes that come after the write that it sees.
    pub(crate) fn fr(&self) -> Relation {
        let mut fr = self.rf.inverse().then(&self.co);
        for event in 0..self.size() {
            if fr.has(event, event) {
                fr = fr.minus(&Relation::of(self.size(), |a, b| a == b));
            }
        }
        fr
    }

    /// Pairs of different threads.
    pub(crate) fn external(&self, relation: &Relation) -> Relation {
        let other = Relation::of(self.size(), |a, b| {
            self.events[a].thread != self.events[b].thread
        });
        relation.both(&other)
    }

    /// The value of `condition` at the end of this execution.
    pub(crate) fn holds(&self, condition: &crate::litmus::Expression) -> bool {
        use crate::litmus::Expression;
        let leaf = |leaf: &Expression| match leaf {
            Expression::Register(at) => self.registers[*at].unwrap_or(trace::UNSET),
            Expression::Place(at) => self.last[*at],
            Expression::Done(thread) => i64::from(self.done[*thread]),
            _ => trace::UNSET,
        };
        trace::value(condition, &leaf) != 0
    }
}

/// Calls `see` with every candidate of `litmus` in which each single place is coherent: reads see
/// no write that a later one hides, and no write comes between the halves of a read-modify-write.
pub(crate) fn candidates(litmus: &Litmus, see: &mut impl FnMut(&Execution)) {
    let domain = trace::domain(litmus);
    let threads: Vec<Vec<Trace>> = (0..litmus.threads.len())
        .map(|number| {
            let runs = trace::runs(litmus, number, &domain);
            trace::with_deaths(&litmus.threads[number], runs)
        })
        .collect();
    let mut chosen = vec![0; threads.len()];
    loop {
        let traces: Vec<&Trace> = threads.iter().zip(&chosen).map(|(t, n)| &t[*n]).collect();
        if every_read_has_a_write(litmus, &traces) {
            for strikes in strikes(litmus, &traces) {
                of_traces(litmus, &traces, &strikes, see);
            }
        }
        if !advance(&mut chosen, |thread| threads[thread].len()) {
            return;
        }
    }
}

/// Counts `digits` up; `false` after the last.
pub(crate) fn advance(digits: &mut [usize], base: impl Fn(usize) -> usize) -> bool {
    for (at, digit) in digits.iter_mut().enumerate() {
        *digit += 1;
        if *digit < base(at) {
            return true;
        }
        *digit = 0;
    }
    false
}

fn every_read_has_a_write(litmus: &Litmus, traces: &[&Trace]) -> bool {
    let events = || traces.iter().flat_map(|trace| &trace.events);
    events().filter(|e| e.kind == Kind::Read).all(|read| {
        litmus.initial[read.place] == read.value
            || events().any(|write| {
                write.kind == Kind::Write && write.place == read.place && write.value == read.value
            })
    })
}

/// A fence that heavy barrier `nth` of thread `by` puts into thread `into`, between two light
/// barriers. It comes after the events up to `after` and before those from `before` on.
#[derive(Clone, Copy, Debug)]
struct Strike {
    by: usize,
    nth: usize,
    into: usize,
    after: usize,
    before: usize,
}

/// Every choice of places of heavy barriers' fences in the other threads that run at the same time.
fn strikes(litmus: &Litmus, traces: &[&Trace]) -> Vec<Vec<Strike>> {
    let apart = |a: usize, b: usize| {
        litmus.threads[a].after == Some(b) || litmus.threads[b].after == Some(a)
    };
    let mut all = vec![Vec::new()];
    for (by, trace) in traces.iter().enumerate() {
        let count = trace
            .events
            .iter()
            .filter(|e| e.kind == Kind::HeavyBegins)
            .count();
        for nth in 0..count {
            for (into, other) in traces
                .iter()
                .enumerate()
                .filter(|(into, _)| *into != by && !apart(*into, by))
            {
                let slots = slots(other).into_iter().map(|(after, before)| Strike {
                    by,
                    nth,
                    into,
                    after,
                    before,
                });
                let slots: Vec<Strike> = slots.collect();
                all = all
                    .iter()
                    .flat_map(|chosen| {
                        slots.iter().map(move |slot| {
                            let mut chosen = chosen.clone();
                            chosen.push(*slot);
                            chosen
                        })
                    })
                    .collect();
            }
        }
    }
    all
}

/// The gaps of a thread: the number of events that surely come before a fence there, and the first
/// that surely comes after it. Only light barriers and fences order accesses for the compiler.
fn slots(trace: &Trace) -> Vec<(usize, usize)> {
    let mut points = trace.lights.clone();
    let strong = |e: &Event| {
        e.kind == Kind::HeavyBegins || e.kind == Kind::Fence && e.order == Order::SeqCst
    };
    let fences = trace.events.iter().enumerate().filter(|(_, e)| strong(e));
    points.extend(fences.map(|(at, _)| at));
    points.sort_unstable();
    points.dedup();
    let ends = points.iter().copied().chain([trace.events.len()]);
    // Before the first point no event surely comes before the fence; after the last none comes
    // after it.
    std::iter::once(0)
        .chain(points.iter().copied())
        .zip(ends)
        .collect()
}

fn of_traces(
    litmus: &Litmus,
    traces: &[&Trace],
    strikes: &[Strike],
    see: &mut impl FnMut(&Execution),
) {
    let mut execution = frame(litmus, traces, strikes);
    let mut options = Vec::new();
    for place in 0..litmus.places.len() {
        let found = of_place(&execution, place);
        if found.is_empty() {
            return;
        }
        options.push(found);
    }
    let mut chosen = vec![0; options.len()];
    loop {
        execution.rf = Relation::new(execution.size());
        execution.co = Relation::new(execution.size());
        for (place, n) in chosen.iter().enumerate() {
            let option = &options[place][*n];
            for (write, read) in &option.rf {
                execution.rf.add(*write, *read);
            }
            for (at, first) in option.co.iter().enumerate() {
                for second in &option.co[at + 1..] {
                    execution.co.add(*first, *second);
                }
            }
            let last = option.co.last().copied().unwrap_or(place);
            execution.last[place] = execution.events[last].value;
        }
        see(&execution);
        if !advance(&mut chosen, |place| options[place].len()) {
            return;
        }
    }
}

/// Events, program order and order between threads; reads have no writes yet.
fn frame(litmus: &Litmus, traces: &[&Trace], strikes: &[Strike]) -> Execution {
    let mut events: Vec<Event> = Vec::new();
    for (place, value) in litmus.initial.iter().enumerate() {
        events.push(Event {
            kind: Kind::Write,
            thread: NO_THREAD,
            place,
            value: *value,
            order: Order::Relaxed,
            modifies: false,
            address: 0,
            data: 0,
            control: 0,
            text: format!("init {}={value}", litmus.places[place]),
        });
    }
    let initial = events.len();
    let mut starts = Vec::new();
    for trace in traces {
        let start = events.len();
        starts.push(start);
        events.extend(trace.events.iter().cloned().map(|mut event| {
            // Read numbers change to those of the whole execution.
            event.address <<= start;
            event.data <<= start;
            event.control <<= start;
            event
        }));
    }
    let own = events.len();
    for strike in strikes {
        let mut event = events[0].clone();
        event.kind = Kind::Struck;
        event.thread = strike.into;
        event.order = Order::SeqCst;
        event.text = format!(
            "(full fence: membarrier of {})",
            litmus.threads[strike.by].name
        );
        events.push(event);
    }
    let size = events.len();
    let mut po = Relation::of(size, |a, b| {
        (a < initial && b >= initial)
            || (a >= initial && a < b && b < own && events[a].thread == events[b].thread)
    });
    let mut sync = Relation::new(size);
    for (at, strike) in strikes.iter().enumerate() {
        let (fence, start) = (own + at, starts[strike.into]);
        let end = start + traces[strike.into].events.len();
        (start..start + strike.after).for_each(|event| po.add(event, fence));
        (start + strike.before..end).for_each(|event| po.add(fence, event));
        let calls = |kind| {
            let from = starts[strike.by]..starts[strike.by] + traces[strike.by].events.len();
            from.filter(|event| events[*event].kind == kind)
                .nth(strike.nth)
        };
        if let (Some(begins), Some(ends)) = (calls(Kind::HeavyBegins), calls(Kind::HeavyEnds)) {
            sync.add(begins, fence);
            sync.add(fence, ends);
        }
    }
    for (successor, thread) in litmus.threads.iter().enumerate() {
        // The kernel releases the dead thread's lock after its last store.
        let Some(dead) = thread.after else { continue };
        for from in 0..size {
            for to in 0..size {
                if events[from].thread == dead && events[to].thread == successor {
                    sync.add(from, to);
                }
            }
        }
    }
    let rmw = Relation::of(size, |a, b| {
        b == a + 1 && events[b].modifies && events[b].kind == Kind::Write
    });
    let registers = (0..litmus.registers.len())
        .map(|register| traces.iter().find_map(|trace| trace.registers[register]))
        .collect();
    Execution {
        events,
        po,
        sync,
        rf: Relation::new(size),
        co: Relation::new(size),
        rmw,
        registers,
        done: traces.iter().map(|trace| trace.done).collect(),
        last: litmus.initial.clone(),
    }
}

/// One possible behaviour of a place.
struct Way {
    co: Vec<usize>,
    rf: Vec<(usize, usize)>,
}

/// Every order of the writes of `place`, with every choice of writes for its reads.
fn of_place(execution: &Execution, place: usize) -> Vec<Way> {
    let here = |kind| {
        let all = 0..execution.size();
        all.filter(move |at| execution.is(*at, kind) && execution.events[*at].place == place)
    };
    let (writes, reads): (Vec<_>, Vec<_>) =
        (here(Kind::Write).collect(), here(Kind::Read).collect());
    let mut found = Vec::new();
    let mut order = vec![writes[0]];
    orders(execution, &writes, &mut order, &mut |order| {
        let rank = |write: usize| order.iter().position(|w| *w == write).unwrap_or(usize::MAX);
        let mut seen: Vec<(usize, usize)> = Vec::new();
        sources(execution, order, &rank, &reads, &mut seen, &mut found);
    });
    found
}

/// Every order of `writes` that keeps the order within and between threads.
fn orders(
    execution: &Execution,
    writes: &[usize],
    order: &mut Vec<usize>,
    see: &mut impl FnMut(&[usize]),
) {
    if order.len() == writes.len() {
        see(order);
        return;
    }
    for next in writes {
        let earlier = |other: &usize| execution.ordered(*other, *next) && !order.contains(other);
        if !order.contains(next) && !writes.iter().any(earlier) {
            order.push(*next);
            orders(execution, writes, order, see);
            order.pop();
        }
    }
}

/// Every choice of writes for the rest of `reads`.
fn sources(
    execution: &Execution,
    order: &[usize],
    rank: &impl Fn(usize) -> usize,
    reads: &[usize],
    seen: &mut Vec<(usize, usize)>,
    found: &mut Vec<Way>,
) {
    let Some(read) = reads.get(seen.len()).copied() else {
        found.push(Way {
            co: order.to_vec(),
            rf: seen.clone(),
        });
        return;
    };
    for write in order.iter().copied() {
        if execution.events[write].value != execution.events[read].value {
            continue;
        }
        let fits = order.iter().all(|other| {
            if execution.ordered(*other, read) {
                rank(*other) <= rank(write)
            } else if execution.ordered(read, *other) {
                rank(write) < rank(*other)
            } else {
                true
            }
        });
        let monotone = seen
            .iter()
            .all(|(earlier, by)| !execution.ordered(*by, read) || rank(*earlier) <= rank(write));
        // No write between the halves of a read-modify-write.
        let own = order.iter().find(|other| execution.rmw.has(read, **other));
        let atomic = own.is_none_or(|own| rank(*own) == rank(write) + 1);
        if fits && monotone && atomic {
            seen.push((write, read));
            sources(execution, order, rank, reads, seen, found);
            seen.pop();
        }
    }
}
