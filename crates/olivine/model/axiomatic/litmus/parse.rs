//! Reading a litmus program.

use super::{Action, Case, Change, Expression, Line, Litmus, Modify, Order, Thread};
use std::collections::BTreeMap;

type Parsed<T> = Result<T, String>;

impl Litmus {
    /// Reads a program; with `mutant` it includes the lines that this mutant adds, without those
    /// that it removes.
    pub(crate) fn parse(file: &str, text: &str, mutant: Option<&str>) -> Parsed<Self> {
        let mut litmus = Self {
            file: file.to_owned(),
            ..Self::default()
        };
        let mut body: Vec<(usize, String)> = Vec::new();
        let lines = text.lines().enumerate().map(|(at, line)| {
            let line = line.trim();
            (at + 1, if line.starts_with("//") { "" } else { line })
        });
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let told = litmus.line(line, mutant, &mut body, number);
            told.map_err(|error| format!("{file}:{number}: {error}"))?;
        }
        litmus.finish_thread(&mut body)?;
        for wanted in litmus.labels_named() {
            if litmus.line_of(&wanted).is_none() && mutant.is_none() {
                return Err(format!("{file}: no line is labelled '{wanted}'"));
            }
        }
        Ok(litmus)
    }

    fn line(
        &mut self,
        line: &str,
        mutant: Option<&str>,
        body: &mut Vec<(usize, String)>,
        number: usize,
    ) -> Parsed<()> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "title" => rest.clone_into(&mut self.title),
            "edge" => self
                .edges
                .extend(rest.split_whitespace().map(str::to_owned)),
            "allowed" => self.allowed = true,
            "init" => {
                for pair in rest.split_whitespace() {
                    let (place, value) = pair.split_once('=').ok_or("init wants PLACE=VALUE")?;
                    self.places.push(place.to_owned());
                    self.initial.push(value.parse().map_err(|_| "no number")?);
                }
            }
            "thread" => {
                self.finish_thread(body)?;
                let words: Vec<_> = rest.split_whitespace().collect();
                let after = match words.iter().position(|word| *word == "after") {
                    Some(at) => Some(self.thread(words.get(at + 1).ok_or("after which thread?")?)?),
                    None => None,
                };
                self.threads.push(Thread {
                    name: (*words.first().ok_or("a thread has a name")?).to_owned(),
                    lines: Vec::new(),
                    dies: words.contains(&"dies"),
                    after,
                });
            }
            "forbid" | "exists" => {
                self.finish_thread(body)?;
                self.forbid = Some(self.expression(rest)?);
            }
            "reach" => {
                self.finish_thread(body)?;
                let condition = self.expression(rest)?;
                self.reach.push((rest.to_owned(), condition));
            }
            "mutant" => {
                let words: Vec<_> = rest.split_whitespace().collect();
                let [name, label, change] = words[..] else {
                    return Err("mutant NAME LABEL ORDER".into());
                };
                let change = Change::parse(change).ok_or("no order")?;
                self.mutants.push((name.into(), label.into(), change));
            }
            "keep" => {
                let (what, why) = rest.split_once(" because ").ok_or("keep … because …")?;
                let (label, change) = what.split_once(' ').ok_or("keep LABEL ORDER because")?;
                let change = Change::parse(change).ok_or("no order")?;
                self.keep.push((label.into(), change, why.into()));
            }
            "source" => {
                let (label, rest) = rest.split_once(' ').ok_or("source LABEL FILE TEXT")?;
                let (path, text) = rest.split_once(' ').ok_or("source LABEL FILE TEXT")?;
                self.sources
                    .push((label.into(), path.into(), text.trim().into()));
            }
            "case" => self.case(rest)?,
            _ => {
                if self.threads.is_empty() {
                    return Err(format!("'{word}' before the first thread"));
                }
                if let Some(line) = self.in_mutant(line, mutant)? {
                    body.push((number, line));
                }
            }
        }
        Ok(())
    }

    /// The line in this mutant, if it contains it.
    fn in_mutant(&mut self, line: &str, mutant: Option<&str>) -> Parsed<Option<String>> {
        let Some(rest) = line.strip_prefix('[') else {
            return Ok(Some(line.to_owned()));
        };
        let (name, rest) = rest.split_once(']').ok_or("[MUTANT] or [!MUTANT]")?;
        let (there, name) = match name.strip_prefix('!') {
            Some(name) => (mutant != Some(name), name),
            None => (mutant == Some(name), name),
        };
        if !self.structural.iter().any(|known| known == name) {
            self.structural.push(name.to_owned());
        }
        Ok(there.then(|| rest.trim().to_owned()))
    }

    /// `NAME: LABEL=ORDER …: MODEL VERDICT …`
    fn case(&mut self, rest: &str) -> Parsed<()> {
        let parts: Vec<_> = rest.split(':').map(str::trim).collect();
        let [name, changes, verdicts] = parts[..] else {
            return Err("case NAME: LABEL=ORDER …: MODEL VERDICT …".into());
        };
        let mut case = Case {
            name: name.to_owned(),
            changes: BTreeMap::new(),
            verdicts: Vec::new(),
            counts: Vec::new(),
        };
        for change in changes.split_whitespace() {
            let (label, order) = change.split_once('=').ok_or("LABEL=ORDER")?;
            let order = Change::parse(order).ok_or("no order")?;
            case.changes.insert(label.to_owned(), order);
        }
        let words: Vec<_> = verdicts.split_whitespace().collect();
        for pair in words.chunks(2) {
            match pair {
                [model, "allowed"] => case.verdicts.push(((*model).to_owned(), true)),
                [model, "forbidden"] => case.verdicts.push(((*model).to_owned(), false)),
                [model, count] => {
                    let count = count
                        .parse()
                        .map_err(|_| "allowed, forbidden or a number")?;
                    case.counts.push(((*model).to_owned(), count));
                }
                _ => return Err("a case ends with models and verdicts".into()),
            }
        }
        self.cases.push(case);
        Ok(())
    }

    fn thread(&self, name: &str) -> Parsed<usize> {
        let found = self.threads.iter().position(|thread| thread.name == name);
        found.ok_or_else(|| format!("no thread is called '{name}'"))
    }

    fn finish_thread(&mut self, body: &mut Vec<(usize, String)>) -> Parsed<()> {
        if body.is_empty() {
            return Ok(());
        }
        let lines = std::mem::take(body);
        let mut at = 0;
        let block = self.block(&lines, &mut at)?;
        if at < lines.len() {
            return Err(format!("{}:{}: an end too many", self.file, lines[at].0));
        }
        if let Some(thread) = self.threads.last_mut() {
            thread.lines = block;
        }
        Ok(())
    }

    fn block(&mut self, lines: &[(usize, String)], at: &mut usize) -> Parsed<Vec<Line>> {
        let mut block = Vec::new();
        while let Some((number, text)) = lines.get(*at) {
            if text == "end" || text == "else" {
                break;
            }
            *at += 1;
            if let Some(condition) = text.strip_prefix("if ") {
                let condition = self.expression(condition)?;
                let then = self.block(lines, at)?;
                let mut otherwise = Vec::new();
                if lines.get(*at).is_some_and(|(_, text)| text == "else") {
                    *at += 1;
                    otherwise = self.block(lines, at)?;
                }
                if lines.get(*at).is_none_or(|(_, text)| text != "end") {
                    return Err(format!("{}:{number}: if without end", self.file));
                }
                *at += 1;
                block.push(Line {
                    text: text.clone(),
                    label: None,
                    action: Action::If {
                        condition,
                        then,
                        otherwise,
                    },
                    order: None,
                    address: None,
                });
            } else {
                let line = self.statement(text);
                block.push(line.map_err(|error| format!("{}:{number}: {error}", self.file))?);
            }
        }
        Ok(block)
    }

    fn statement(&mut self, text: &str) -> Parsed<Line> {
        let (label, rest) = match text.split_once(':') {
            Some((label, rest)) => (Some(label.trim().to_owned()), rest.trim()),
            None => (None, text),
        };
        let mut words: Vec<&str> = rest.split_whitespace().collect();
        let mut address = None;
        if let [.., "addr", register] = words[..] {
            address = Some(self.register(register));
            words.truncate(words.len() - 2);
        }
        let mut order = None;
        let (action, ordered) = match words[..] {
            ["store", place, ref value @ .., last] if !value.is_empty() => {
                order = Order::parse(last);
                let value = self.expression(&value.join(" "))?;
                let place = self.place(place)?;
                (Action::Store { place, value }, true)
            }
            [into, "=", "load", place, last] => {
                order = Order::parse(last);
                let (into, place) = (self.register(into), self.place(place)?);
                (Action::Load { into, place }, true)
            }
            [
                into,
                "=",
                how @ ("swap" | "or" | "and" | "add"),
                place,
                value,
                last,
            ] => {
                order = Order::parse(last);
                let how = match how {
                    "swap" => Modify::Swap,
                    "or" => Modify::Or,
                    "and" => Modify::And,
                    _ => Modify::Add,
                };
                let value = self.expression(value)?;
                let action = Action::Modify {
                    how,
                    into: self.register(into),
                    place: self.place(place)?,
                    value,
                };
                (action, true)
            }
            [into, "=", "cas", place, expected, value, last] => {
                order = Order::parse(last);
                let (expected, value) = (self.expression(expected)?, self.expression(value)?);
                let action = Action::Exchange {
                    into: self.register(into),
                    place: self.place(place)?,
                    expected,
                    value,
                };
                (action, true)
            }
            ["fence", last] => {
                order = Order::parse(last);
                (Action::Fence, true)
            }
            ["light"] => (Action::Light, false),
            ["heavy"] => (Action::Heavy, false),
            ["isb"] => (Action::Isb, false),
            ["stop"] => (Action::Stop, false),
            [into, "=", ref value @ ..] if !value.is_empty() => {
                let value = self.expression(&value.join(" "))?;
                let into = self.register(into);
                (Action::Set { into, value }, false)
            }
            _ => return Err(format!("'{text}' is not a statement")),
        };
        if ordered && order.is_none() {
            return Err(format!("'{text}' ends with no order"));
        }
        let strong = order.is_some_and(|order| order > Order::Relaxed);
        if label.is_none() && strong {
            return Err(format!("'{text}' orders, so it needs a label"));
        }
        Ok(Line {
            text: rest.to_owned(),
            label,
            action,
            order,
            address,
        })
    }

    fn place(&self, name: &str) -> Parsed<usize> {
        let found = self.places.iter().position(|place| place == name);
        found.ok_or_else(|| format!("'{name}' has no initial value"))
    }

    fn register(&mut self, name: &str) -> usize {
        if let Some(found) = self.registers.iter().position(|known| known == name) {
            return found;
        }
        self.registers.push(name.to_owned());
        self.registers.len() - 1
    }

    fn expression(&self, text: &str) -> Parsed<Expression> {
        let mut tokens = Tokens::new(text);
        let parsed = self.level(&mut tokens, 0)?;
        match tokens.peek() {
            None => Ok(parsed),
            Some(rest) => Err(format!("'{rest}' is too much in '{text}'")),
        }
    }

    fn level(&self, tokens: &mut Tokens, level: usize) -> Parsed<Expression> {
        const LEVELS: [&[&str]; 5] = [
            &["||"],
            &["&&"],
            &["==", "!=", "<=", ">=", "<", ">"],
            &["+", "-"],
            &["&"],
        ];
        let Some(signs) = LEVELS.get(level) else {
            return self.operand(tokens);
        };
        let mut left = self.level(tokens, level + 1)?;
        while let Some(sign) = signs.iter().find(|sign| tokens.peek() == Some(**sign)) {
            tokens.next();
            let right = self.level(tokens, level + 1)?;
            left = Expression::Binary(sign, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn operand(&self, tokens: &mut Tokens) -> Parsed<Expression> {
        let word = tokens.next().ok_or("an expression ends too early")?;
        if word == "!" {
            return Ok(Expression::Not(Box::new(self.operand(tokens)?)));
        }
        if word == "(" {
            let inner = self.level(tokens, 0)?;
            return match tokens.next().as_deref() {
                Some(")") => Ok(inner),
                _ => Err("a bracket is not closed".into()),
            };
        }
        if let Ok(number) = word.parse() {
            return Ok(Expression::Number(number));
        }
        if let Some(thread) = word.strip_suffix(".done") {
            return Ok(Expression::Done(self.thread(thread)?));
        }
        if let Some(place) = self.places.iter().position(|place| *place == word) {
            return Ok(Expression::Place(place));
        }
        let register = self.registers.iter().position(|known| *known == word);
        let register =
            register.ok_or_else(|| format!("'{word}' is neither a register nor a place"))?;
        Ok(Expression::Register(register))
    }
}

/// Words and signs of an expression.
struct Tokens {
    words: Vec<String>,
    at: usize,
}

impl Tokens {
    fn new(text: &str) -> Self {
        let mut words: Vec<String> = Vec::new();
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        for c in text.chars() {
            let Some(last) = words.last_mut() else {
                words.push(c.to_string());
                continue;
            };
            let pair = format!("{last}{c}");
            let joined = ["==", "!=", "<=", ">=", "&&", "||"].contains(&pair.as_str());
            if joined || (last.chars().all(is_word) && is_word(c)) {
                last.push(c);
            } else {
                words.push(c.to_string());
            }
        }
        words.retain(|word| !word.trim().is_empty());
        Self { words, at: 0 }
    }

    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(String::as_str)
    }

    fn next(&mut self) -> Option<String> {
        self.at += 1;
        self.words.get(self.at - 1).cloned()
    }
}
