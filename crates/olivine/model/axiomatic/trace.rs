//! The runs of one thread: every sequence of events, for every value that its loads may return.

use crate::litmus::{Action, Expression, Line, Litmus, Modify, Order, Thread};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Fence,
    Isb,
    /// The call of `membarrier` begins; the fences in other threads come after it.
    HeavyBegins,
    /// It returns; the fences in other threads came before it.
    HeavyEnds,
    /// The fence that another thread's `membarrier` puts into this one.
    Struck,
}

/// One event. Dependencies are bits: the numbers of reads in the same trace.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) thread: usize,
    pub(crate) place: usize,
    pub(crate) value: i64,
    pub(crate) order: Order,
    /// Half of a read-modify-write: the write's read is the event before it.
    pub(crate) modifies: bool,
    pub(crate) address: u64,
    pub(crate) data: u64,
    pub(crate) control: u64,
    pub(crate) text: String,
}

/// One run of a thread.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) events: Vec<Event>,
    /// Number of events before each light barrier.
    pub(crate) lights: Vec<usize>,
    /// The registers at the end; `None` if never set.
    pub(crate) registers: Vec<Option<i64>>,
    /// The thread did not die.
    pub(crate) done: bool,
}

/// The value of an unset register: no program stores this number.
pub(crate) const UNSET: i64 = i64::MIN;

/// Value of an expression; `leaf` gives those of registers, places and threads.
pub(crate) fn value(expression: &Expression, leaf: &impl Fn(&Expression) -> i64) -> i64 {
    match expression {
        Expression::Number(number) => *number,
        Expression::Not(inner) => i64::from(value(inner, leaf) == 0),
        Expression::Binary(sign, left, right) => {
            let (left, right) = (value(left, leaf), value(right, leaf));
            match *sign {
                "||" => i64::from(left != 0 || right != 0),
                "&&" => i64::from(left != 0 && right != 0),
                "==" => i64::from(left == right),
                "!=" => i64::from(left != right),
                "<=" => i64::from(left <= right),
                ">=" => i64::from(left >= right),
                "<" => i64::from(left < right),
                ">" => i64::from(left > right),
                "+" => left.wrapping_add(right),
                "&" => left & right,
                _ => left.wrapping_sub(right),
            }
        }
        other => leaf(other),
    }
}

#[derive(Clone)]
struct State<'a> {
    trace: Trace,
    /// Reads that each register depends on.
    origins: Vec<u64>,
    control: u64,
    /// Lines still to run, the next one last.
    rest: Vec<&'a Line>,
}

impl<'a> State<'a> {
    fn value(&self, expression: &Expression) -> (i64, u64) {
        let register = |leaf: &Expression| match leaf {
            Expression::Register(at) => self.trace.registers[*at].unwrap_or(UNSET),
            _ => UNSET,
        };
        (value(expression, &register), self.origin(expression))
    }

    fn origin(&self, expression: &Expression) -> u64 {
        match expression {
            Expression::Register(at) => self.origins[*at],
            Expression::Not(inner) => self.origin(inner),
            Expression::Binary(_, left, right) => self.origin(left) | self.origin(right),
            _ => 0,
        }
    }

    fn push(&mut self, thread: usize, kind: Kind, line: &Line) -> &mut Event {
        let address = line.address.map_or(0, |register| self.origins[register]);
        self.trace.events.push(Event {
            kind,
            thread,
            place: usize::MAX,
            value: 0,
            order: line.order.unwrap_or(Order::Relaxed),
            modifies: false,
            address,
            data: 0,
            control: self.control,
            text: line.text.clone(),
        });
        let last = self.trace.events.len() - 1;
        &mut self.trace.events[last]
    }

    fn set(&mut self, register: usize, value: i64, origin: u64) {
        self.trace.registers[register] = Some(value);
        self.origins[register] = origin;
    }

    fn read(&mut self, thread: usize, line: &Line, place: usize, into: usize, value: i64) {
        let bit = 1 << self.trace.events.len();
        let event = self.push(thread, Kind::Read, line);
        (event.place, event.value) = (place, value);
        self.set(into, value, bit);
    }

    fn enter(&mut self, lines: &'a [Line]) {
        self.rest.extend(lines.iter().rev());
    }
}

/// Every run of thread `number`. A load of a place may return any value of its `domain`.
pub(crate) fn runs(litmus: &Litmus, number: usize, domain: &[Vec<i64>]) -> Vec<Trace> {
    let mut first = State {
        trace: Trace {
            events: Vec::new(),
            lights: Vec::new(),
            registers: vec![None; litmus.registers.len()],
            done: true,
        },
        origins: vec![0; litmus.registers.len()],
        control: 0,
        rest: Vec::new(),
    };
    first.enter(&litmus.threads[number].lines);
    let (mut open, mut done) = (vec![first], Vec::new());
    while let Some(state) = open.pop() {
        step(state, number, domain, &mut open, &mut done);
    }
    done
}

/// Runs one line; pushes the possible next states.
fn step<'a>(
    mut state: State<'a>,
    thread: usize,
    domain: &[Vec<i64>],
    open: &mut Vec<State<'a>>,
    done: &mut Vec<Trace>,
) {
    let Some(line) = state.rest.pop() else {
        done.push(state.trace);
        return;
    };
    match &line.action {
        Action::Store { place, value } => {
            let (value, data) = state.value(value);
            let event = state.push(thread, Kind::Write, line);
            (event.place, event.value, event.data) = (*place, value, data);
        }
        Action::Load { into, place } => {
            for value in &domain[*place] {
                let mut state = state.clone();
                state.read(thread, line, *place, *into, *value);
                open.push(state);
            }
            return;
        }
        Action::Modify {
            how,
            into,
            place,
            value,
        } => {
            let (operand, origin) = state.value(value);
            for before in &domain[*place] {
                let mut state = state.clone();
                let bit = 1 << state.trace.events.len();
                state.read(thread, line, *place, *into, *before);
                let after = match how {
                    Modify::Swap => operand,
                    Modify::Or => before | operand,
                    Modify::And => before & operand,
                    Modify::Add => before + operand,
                };
                let read = if *how == Modify::Swap { 0 } else { bit };
                let event = state.push(thread, Kind::Write, line);
                (event.place, event.value) = (*place, after);
                (event.data, event.modifies) = (origin | read, true);
                open.push(state);
            }
            return;
        }
        Action::Exchange {
            into,
            place,
            expected,
            value,
        } => {
            let (expected, _) = state.value(expected);
            let (new, origin) = state.value(value);
            for before in &domain[*place] {
                let mut state = state.clone();
                state.read(thread, line, *place, *into, *before);
                if *before == expected {
                    let event = state.push(thread, Kind::Write, line);
                    (event.place, event.value) = (*place, new);
                    (event.data, event.modifies) = (origin, true);
                } else if let Some(read) = state.trace.events.last_mut() {
                    read.order = Order::Relaxed;
                }
                open.push(state);
            }
            return;
        }
        Action::Fence => {
            state.push(thread, Kind::Fence, line);
        }
        Action::Isb => {
            state.push(thread, Kind::Isb, line);
        }
        Action::Light => state.trace.lights.push(state.trace.events.len()),
        Action::Heavy => {
            state.push(thread, Kind::HeavyBegins, line).order = Order::SeqCst;
            state.push(thread, Kind::HeavyEnds, line).order = Order::SeqCst;
        }
        Action::Set { into, value } => {
            let (value, origin) = state.value(value);
            state.set(*into, value, origin);
        }
        Action::If {
            condition,
            then,
            otherwise,
        } => {
            let (holds, origin) = state.value(condition);
            state.control |= origin;
            state.enter(if holds != 0 { then } else { otherwise });
        }
        Action::Stop => state.rest.clear(),
    }
    open.push(state);
}

/// The possible values of each place: the initial one and every value that some run stores. Each
/// store runs once, so at most as many steps as stores are needed.
pub(crate) fn domain(litmus: &Litmus) -> Vec<Vec<i64>> {
    let mut domain: Vec<Vec<i64>> = litmus.initial.iter().map(|value| vec![*value]).collect();
    for _ in 0..litmus.stores() {
        let mut grown = domain.clone();
        for number in 0..litmus.threads.len() {
            for trace in runs(litmus, number, &domain) {
                for event in trace.events.iter().filter(|e| e.kind == Kind::Write) {
                    let possible = event.value <= litmus.most(event.place);
                    if possible && !grown[event.place].contains(&event.value) {
                        grown[event.place].push(event.value);
                    }
                }
            }
        }
        if grown == domain {
            break;
        }
        domain = grown;
    }
    domain
}

/// The runs of a thread; if it may die, also every set of stores that a death can leave.
pub(crate) fn with_deaths(thread: &Thread, runs: Vec<Trace>) -> Vec<Trace> {
    if !thread.dies {
        return runs;
    }
    let mut all = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for run in runs {
        for cut in deaths(&run) {
            // Runs that differ only after the death leave the same stores.
            if seen.insert(format!("{:?}{:?}{}", cut.events, cut.lights, cut.done)) {
                all.push(cut);
            }
        }
    }
    all
}

/// Every part of a run that a death can leave. Stores that the compiler must not swap keep their
/// order.
fn deaths(run: &Trace) -> Vec<Trace> {
    let events = &run.events;
    let stores: Vec<usize> = (0..events.len())
        .filter(|at| events[*at].kind == Kind::Write)
        .collect();
    let ordered = |first: usize, second: usize| {
        let release =
            events[second].order.releases() || events[first].place == events[second].place;
        let fence = events[first..second].iter().any(|between| {
            let full = matches!(between.kind, Kind::HeavyBegins | Kind::HeavyEnds);
            full || between.kind == Kind::Fence && between.order.releases()
        });
        let light = run
            .lights
            .iter()
            .any(|light| (first + 1..=second).contains(light));
        // The read of an acquiring read-modify-write comes before all later events.
        let acquire = events[first].modifies && events[first].order.acquires();
        release || fence || light || acquire
    };
    let mut cuts = Vec::new();
    for left in 0..1_u64 << stores.len() {
        let is_left = |n: usize| left >> n & 1 == 1;
        let closed = (0..stores.len()).all(|second| {
            !is_left(second)
                || (0..second)
                    .all(|first| is_left(first) || !ordered(stores[first], stores[second]))
        });
        if !closed {
            continue;
        }
        if (0..stores.len()).all(is_left) {
            cuts.push(run.clone());
        }
        // Dead before the end, even if all stores were done.
        cuts.push(cut(run, |at| {
            stores
                .iter()
                .position(|store| *store == at)
                .is_some_and(is_left)
        }));
    }
    cuts
}

/// The run with only the stores in `left`, and the events before them.
fn cut(run: &Trace, left: impl Fn(usize) -> bool) -> Trace {
    let events = &run.events;
    let last = (0..events.len()).rev().find(|at| left(*at));
    let keeps = |at: usize| {
        let before = last.is_some_and(|last| at < last);
        match events[at].kind {
            Kind::Write => left(at),
            // The read of a read-modify-write stays with its write.
            Kind::Read => match events.get(at + 1) {
                Some(next) if next.kind == Kind::Write && next.modifies => left(at + 1),
                _ => before,
            },
            _ => before,
        }
    };
    let kept: Vec<usize> = (0..events.len()).filter(|at| keeps(*at)).collect();
    let moved = |bits: u64| {
        let places = kept.iter().enumerate();
        places.fold(0, |new, (to, from)| new | (bits >> from & 1) << to)
    };
    let event = |at: &usize| {
        let mut event = events[*at].clone();
        event.address = moved(event.address);
        event.data = moved(event.data);
        event.control = moved(event.control);
        event
    };
    let lights = run.lights.iter();
    Trace {
        events: kept.iter().map(event).collect(),
        lights: lights
            .map(|light| kept.iter().filter(|at| *at < light).count())
            .collect(),
        registers: vec![None; run.registers.len()],
        done: false,
    }
}
