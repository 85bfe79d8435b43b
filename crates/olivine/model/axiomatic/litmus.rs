//! Litmus programs as text: the format is described in `README.md`.

mod parse;

use std::collections::BTreeMap;

/// How strongly an access or a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Order {
    /// A plain access: a race on it is an error.
    Plain,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    SeqCst,
}

impl Order {
    pub(crate) fn acquires(self) -> bool {
        matches!(self, Self::Acquire | Self::AcqRel | Self::SeqCst)
    }

    pub(crate) fn releases(self) -> bool {
        matches!(self, Self::Release | Self::AcqRel | Self::SeqCst)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Relaxed => "rlx",
            Self::Acquire => "acq",
            Self::Release => "rel",
            Self::AcqRel => "acqrel",
            Self::SeqCst => "sc",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        let all = [
            Self::Plain,
            Self::Relaxed,
            Self::Acquire,
            Self::Release,
            Self::AcqRel,
            Self::SeqCst,
        ];
        all.into_iter().find(|order| order.name() == word)
    }
}

/// The change of a line in a variant of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Change {
    Order(Order),
    /// The line is left out.
    Gone,
}

impl Change {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Order(order) => order.name(),
            Self::Gone => "gone",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "gone" => Some(Self::Gone),
            _ => Order::parse(word).map(Self::Order),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modify {
    Swap,
    Or,
    And,
    Add,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Store {
        place: usize,
        value: Expression,
    },
    Load {
        into: usize,
        place: usize,
    },
    /// A read-modify-write; `into` gets the old value.
    Modify {
        how: Modify,
        into: usize,
        place: usize,
        value: Expression,
    },
    /// A read-modify-write if `place` has the expected value, else a relaxed load.
    Exchange {
        into: usize,
        place: usize,
        expected: Expression,
        value: Expression,
    },
    Fence,
    /// Orders the compiler, and separates the places of a heavy barrier's fences.
    Light,
    /// `membarrier`: a full fence here and one in each other thread.
    Heavy,
    /// An instruction barrier of ARM.
    Isb,
    Set {
        into: usize,
        value: Expression,
    },
    If {
        condition: Expression,
        then: Vec<Line>,
        otherwise: Vec<Line>,
    },
    Stop,
}

/// One line of a thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) label: Option<String>,
    pub(crate) action: Action,
    pub(crate) order: Option<Order>,
    /// A register that the address depends on. The address is always the same.
    pub(crate) address: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Number(i64),
    Register(usize),
    /// The last value of a place; in conditions about the end only.
    Place(usize),
    /// 1 if the thread completed all its lines.
    Done(usize),
    Not(Box<Self>),
    Binary(&'static str, Box<Self>, Box<Self>),
}

impl Expression {
    /// The sum of the numbers that it adds.
    fn added(&self) -> i64 {
        match self {
            Self::Binary(sign, left, right) => {
                let number = |side: &Self| match side {
                    Self::Number(number) if *sign == "+" => *number,
                    _ => side.added(),
                };
                number(left) + number(right)
            }
            _ => 0,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
    /// It may die anywhere.
    pub(crate) dies: bool,
    /// The thread after whose end or death this one begins.
    pub(crate) after: Option<usize>,
}

/// A change of a published program, with the published verdicts.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) changes: BTreeMap<String, Change>,
    /// Model and whether it allows the outcome.
    pub(crate) verdicts: Vec<(String, bool)>,
    /// Model and number of executions that another checker finds.
    pub(crate) counts: Vec<(String, u64)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Litmus {
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) edges: Vec<String>,
    pub(crate) places: Vec<String>,
    pub(crate) initial: Vec<i64>,
    pub(crate) registers: Vec<String>,
    pub(crate) threads: Vec<Thread>,
    /// What must not happen.
    pub(crate) forbid: Option<Expression>,
    /// What must be possible, or the program shows nothing.
    pub(crate) reach: Vec<(String, Expression)>,
    /// Names of mutants in the sources, each a change of one label.
    pub(crate) mutants: Vec<(String, String, Change)>,
    /// Orderings that are stronger than these models need, with the reason.
    pub(crate) keep: Vec<(String, Change, String)>,
    /// Labels in the sources: file and text.
    pub(crate) sources: Vec<(String, String, String)>,
    pub(crate) cases: Vec<Case>,
    /// Mutants that remove or add lines: their names precede the lines.
    pub(crate) structural: Vec<String>,
    /// The program shows that an outcome is possible which other programs forbid.
    pub(crate) allowed: bool,
}

/// More than any program stores: marks a computed value.
const UNKNOWN: i64 = 1 << 31;

impl Litmus {
    /// Every line with a label, in order.
    pub(crate) fn labelled(&self) -> impl Iterator<Item = &Line> {
        self.lines().into_iter().filter(|line| line.label.is_some())
    }

    /// Number of lines that store.
    pub(crate) fn stores(&self) -> usize {
        let lines = self.lines().into_iter();
        let stores = |line: &&Line| {
            let action = &line.action;
            matches!(
                action,
                Action::Store { .. } | Action::Modify { .. } | Action::Exchange { .. }
            )
        };
        lines.filter(stores).count()
    }

    /// Upper bound of the values in `place`: each addition runs once.
    pub(crate) fn most(&self, place: usize) -> i64 {
        let number = |value: &Expression| match value {
            Expression::Number(number) => Some(*number),
            _ => None,
        };
        let (mut most, mut added) = (self.initial[place], 0);
        for line in self.lines() {
            match &line.action {
                Action::Modify {
                    how,
                    place: at,
                    value,
                    ..
                } if *at == place => match how {
                    Modify::Add | Modify::Or => added += number(value).unwrap_or(UNKNOWN),
                    Modify::Swap => most = most.max(number(value).unwrap_or(UNKNOWN)),
                    Modify::And => {}
                },
                Action::Store { place: at, value } if *at == place => {
                    most = most.max(number(value).unwrap_or(UNKNOWN));
                }
                Action::Exchange {
                    place: at, value, ..
                } if *at == place => match number(value) {
                    Some(number) => most = most.max(number),
                    // Of what it has read it is a part, and what it adds.
                    None => added += value.added(),
                },
                _ => {}
            }
        }
        most + added
    }

    /// Every line of every thread, in order.
    pub(crate) fn lines(&self) -> Vec<&Line> {
        fn walk<'a>(lines: &'a [Line], found: &mut Vec<&'a Line>) {
            for line in lines {
                found.push(line);
                if let Action::If {
                    then, otherwise, ..
                } = &line.action
                {
                    walk(then, found);
                    walk(otherwise, found);
                }
            }
        }
        let mut found = Vec::new();
        for thread in &self.threads {
            walk(&thread.lines, &mut found);
        }
        found
    }

    /// The first line with this label.
    pub(crate) fn line_of(&self, label: &str) -> Option<&Line> {
        self.labelled()
            .find(|line| line.label.as_deref() == Some(label))
    }

    fn labels_named(&self) -> Vec<String> {
        let cases = self.cases.iter().flat_map(|case| case.changes.keys());
        let mutants = self.mutants.iter().map(|(_, label, _)| label);
        cases.chain(mutants).cloned().collect()
    }

    /// The same program with some labelled lines changed.
    pub(crate) fn changed(&self, changes: &BTreeMap<String, Change>) -> Self {
        fn apply(lines: &mut Vec<Line>, changes: &BTreeMap<String, Change>) {
            let change = |line: &Line| changes.get(line.label.as_deref()?).copied();
            lines.retain(|line| change(line) != Some(Change::Gone));
            for line in lines {
                if let Some(Change::Order(order)) = change(line) {
                    let old = line.order.map_or("", Order::name);
                    let end = line.text.rfind(old).unwrap_or(line.text.len());
                    line.text.replace_range(end..end + old.len(), order.name());
                    line.order = Some(order);
                }
                if let Action::If {
                    then, otherwise, ..
                } = &mut line.action
                {
                    apply(then, changes);
                    apply(otherwise, changes);
                }
            }
        }
        let mut changed = self.clone();
        for thread in &mut changed.threads {
            apply(&mut thread.lines, changes);
        }
        changed
    }
}
