//! Formulas over events, as the vendors write them: arithmetic, `min`, `max`, `d_ratio`, a choice
//! by a comparison or by whether threads share their core, and event names.
//!
//! A value is a range: an estimate is known only to a bound, and the formula propagates it.

use super::NAME_BYTES_MAX;
use halprof_measure::float::float;
use halprof_profile::budget::FORMULA_TOKENS;
use std::collections::HashSet;
use std::ops::{Add, Div, Mul, Sub};

/// The deepest nesting that is accepted.
const DEPTH_MAX: usize = 100;
/// The range of a value of which nothing is known.
const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
/// True where both threads of a core are enabled.
const SMT_ON: &str = "smt_on";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Formula(Node);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    Name(String),
    Threads,
    Two(Operator, Box<[Node; 2]>),
    /// Value if true, condition, value otherwise.
    If(Box<[Node; 3]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// A division whose result is 0 if the divisor is 0.
    Ratio,
    Least,
    Most,
    Less,
    Greater,
}

/// A value, and its possible error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    /// The best guess.
    pub(crate) value: f64,
    /// The smallest and the largest that it may be.
    pub(crate) range: (f64, f64),
}

impl Value {
    pub(crate) const fn exact(value: f64) -> Self {
        Self { value, range: (value, value) }
    }

    /// A count: exact unless it was scaled, and unbounded if it was scaled without a known bound.
    pub(crate) fn of_count(value: u128, scaled: bool, error: Option<f64>) -> Self {
        let value = float(value);
        if scaled {
            Self::estimated(value, error.unwrap_or(f64::INFINITY))
        } else {
            Self::exact(value)
        }
    }

    /// A value with an error of up to `error`, and never below 0.
    pub(crate) const fn estimated(value: f64, error: f64) -> Self {
        Self { value, range: ((value - error).max(0.0), value + error) }
    }

    /// The possible error; `None` if the value is exact.
    pub(crate) fn error(&self) -> Option<f64> {
        let (least, most) = self.range;
        let off = (most - self.value).max(self.value - least);
        (off > 0.0).then_some(off)
    }

    fn each(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        let ((a, b), (c, d)) = (self.range, other.range);
        let corners = [of(a, c), of(a, d), of(b, c), of(b, d)];
        Self {
            value: of(self.value, other.value),
            range: (
                corners.into_iter().fold(f64::INFINITY, f64::min),
                corners.into_iter().fold(f64::NEG_INFINITY, f64::max),
            ),
        }
    }
}

impl Formula {
    /// Parses a formula whose names have no dash.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::parse_with(text, &|_| false)
    }

    /// Parses a formula; the error says what is wrong with it. A `-` inside a name that `is_dashed`
    /// knows is part of the name.
    pub(crate) fn parse_with(
        text: &str,
        is_dashed: &impl Fn(&str) -> bool,
    ) -> Result<Self, String> {
        let tokens = tokens(text, is_dashed)?;
        let mut reader = Reader { tokens: &tokens, at: 0, depth: 0 };
        let node = reader.expression()?;
        match reader.peek() {
            None => Ok(Self(node)),
            Some(token) => Err(format!("`{token}` is not expected")),
        }
    }

    /// The names in it that this machine would evaluate, each once, in their order; `smt`: both
    /// threads of a core are enabled.
    pub(crate) fn names(&self, smt: bool) -> Vec<&str> {
        let mut names = Vec::new();
        self.0.collect(smt, &mut names);
        each_once(names)
    }

    /// Whether its value is another one where threads share cores.
    pub(crate) fn depends_on_threads(&self) -> bool {
        self.0.depends_on_threads()
    }

    /// The names in the first divisor that is 0; none if no divisor is.
    pub(crate) fn zero_divisor(
        &self,
        smt: bool,
        value: &impl Fn(&str) -> Option<Value>,
    ) -> Vec<&str> {
        let mut names = Vec::new();
        if let Some(divisor) = self.0.zero_divisor(smt, value) {
            divisor.collect(smt, &mut names);
        }
        each_once(names)
    }

    /// Substitutes other formulas for names.
    pub(crate) fn replaced(&self, of: &impl Fn(&str) -> Option<Self>) -> Self {
        Self(self.0.replaced(of, 0))
    }

    /// The value, if every name has one; `None` if one is missing, and for a division by 0.
    pub(crate) fn value(&self, smt: bool, of: &impl Fn(&str) -> Option<Value>) -> Option<Value> {
        let value = self.0.value(smt, of)?;
        value.value.is_finite().then_some(value)
    }
}

fn each_once(mut names: Vec<&str>) -> Vec<&str> {
    let mut known = HashSet::new();
    names.retain(|&name| known.insert(name));
    names
}

impl Node {
    /// Adds each name as often as it occurs.
    fn collect<'a>(&'a self, smt: bool, names: &mut Vec<&'a str>) {
        match self {
            Self::Number(_) | Self::Threads => {}
            Self::Name(name) => names.push(name),
            Self::Two(_, parts) => parts.iter().for_each(|part| part.collect(smt, names)),
            Self::If(parts) => {
                let [then, condition, otherwise] = parts.as_ref();
                if *condition == Self::Threads {
                    let one = if smt { then } else { otherwise };
                    return one.collect(smt, names);
                }
                parts.iter().for_each(|part| part.collect(smt, names));
            }
        }
    }

    fn depends_on_threads(&self) -> bool {
        match self {
            Self::Number(_) | Self::Name(_) => false,
            Self::Threads => true,
            Self::Two(_, parts) => parts.iter().any(Self::depends_on_threads),
            Self::If(parts) => parts.iter().any(Self::depends_on_threads),
        }
    }

    fn zero_divisor(&self, smt: bool, value: &impl Fn(&str) -> Option<Value>) -> Option<&Self> {
        match self {
            Self::Number(_) | Self::Threads | Self::Name(_) => None,
            Self::Two(operator, parts) => {
                let [left, right] = parts.as_ref();
                let is_divisor = *operator == Operator::Divide
                    && right.value(smt, value).is_some_and(|one| one.value == 0.0);
                let inner =
                    || [left, right].into_iter().find_map(|one| one.zero_divisor(smt, value));
                if is_divisor { Some(right) } else { inner() }
            }
            Self::If(parts) => parts.iter().find_map(|part| part.zero_divisor(smt, value)),
        }
    }

    fn replaced(&self, of: &impl Fn(&str) -> Option<Formula>, depth: usize) -> Self {
        let inner = |part: &Self| part.replaced(of, depth + 1);
        match self {
            Self::Name(name) if depth < DEPTH_MAX => match of(name) {
                Some(Formula(node)) => node.replaced(of, depth + 1),
                None => self.clone(),
            },
            Self::Number(_) | Self::Threads | Self::Name(_) => self.clone(),
            Self::Two(operator, parts) => {
                let [left, right] = parts.as_ref();
                Self::Two(*operator, Box::new([inner(left), inner(right)]))
            }
            Self::If(parts) => {
                let [then, condition, otherwise] = parts.as_ref();
                Self::If(Box::new([inner(then), inner(condition), inner(otherwise)]))
            }
        }
    }

    fn value(&self, smt: bool, of: &impl Fn(&str) -> Option<Value>) -> Option<Value> {
        match self {
            Self::Number(number) => Some(Value::exact(*number)),
            Self::Threads => Some(Value::exact(f64::from(u8::from(smt)))),
            Self::Name(name) => of(name),
            Self::Two(operator, parts) => {
                let [left, right] = parts.as_ref();
                operator.of(left.value(smt, of)?, right.value(smt, of)?)
            }
            Self::If(parts) => {
                let [then, condition, otherwise] = parts.as_ref();
                let holds = condition.value(smt, of)?.value != 0.0;
                if holds { then } else { otherwise }.value(smt, of)
            }
        }
    }
}

impl Operator {
    fn of(self, left: Value, right: Value) -> Option<Value> {
        let truth = |holds: bool| Value::exact(f64::from(u8::from(holds)));
        Some(match self {
            Self::Add => left.each(right, f64::add),
            Self::Subtract => left.each(right, f64::sub),
            Self::Multiply => left.each(right, f64::mul),
            Self::Ratio if right.range == (0.0, 0.0) => Value::exact(0.0),
            Self::Ratio if right.value == 0.0 => Value { value: 0.0, range: ANY },
            Self::Divide if right.value == 0.0 => return None,
            // The divisor may be 0, so nothing is known about the quotient.
            Self::Divide | Self::Ratio if right.range.0 <= 0.0 && right.range.1 >= 0.0 => {
                Value { value: left.value / right.value, range: ANY }
            }
            Self::Divide | Self::Ratio => left.each(right, f64::div),
            Self::Least => left.each(right, f64::min),
            Self::Most => left.each(right, f64::max),
            Self::Less => truth(left.value < right.value),
            Self::Greater => truth(left.value > right.value),
        })
    }
}

/// Splits a formula into numbers, names and signs. perf's `cpu@NAME,cmask=0x6@` is one name, and so
/// is the longest that `is_dashed` knows; a filter such as `:u` belongs to the name before it.
fn tokens<'a>(text: &'a str, is_dashed: &impl Fn(&str) -> bool) -> Result<Vec<&'a str>, String> {
    const SIGNS: [char; 9] = ['(', ')', '+', '-', '*', '/', ',', '<', '>'];
    let mut tokens = Vec::new();
    let fits = |one: char| one.is_ascii_alphanumeric() || matches!(one, '_' | '.' | ':');
    let run = |text: &str| text.find(|one| !fits(one)).unwrap_or(text.len());
    let filter = |text: &str| if text.starts_with(':') { run(text) } else { 0 };
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if SIGNS.contains(&first) {
            1
        } else if rest.starts_with("cpu@") {
            let inside = rest.get("cpu@".len()..).unwrap_or_default();
            let end = inside.find('@').ok_or("a `cpu@` without its second `@`")?;
            let length = "cpu@".len() + end + 1;
            length + filter(rest.get(length..).unwrap_or_default())
        } else {
            match dashed(rest, is_dashed) {
                Some(length) => length + filter(rest.get(length..).unwrap_or_default()),
                None => run(rest),
            }
        };
        if length == 0 {
            return Err(format!("`{first}` means nothing in a formula"));
        }
        if tokens.len() == FORMULA_TOKENS {
            return Err(format!("it has more than {FORMULA_TOKENS} names, numbers and signs"));
        }
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

/// The length of the longest dashed name with which a text begins, if there is one.
fn dashed(text: &str, is_dashed: &impl Fn(&str) -> bool) -> Option<usize> {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    let bytes = text.as_bytes().iter().take(NAME_BYTES_MAX + 1);
    let end = bytes.take_while(|byte| fits(byte)).count();
    // A name ends before a dash, or where it can have no more letters.
    let run = text.get(..end)?;
    let dashes = run.rmatch_indices('-').map(|(at, _)| at);
    let mut ends = std::iter::once(end).chain(dashes);
    ends.find(|&end| run.get(..end).is_some_and(is_dashed))
}

/// A formula with other names, where `name` has them.
pub(crate) fn respelled(
    text: &str,
    is_dashed: &impl Fn(&str) -> bool,
    name: impl Fn(&str) -> Option<String>,
) -> String {
    let mut respelled = String::new();
    let mut rest = text;
    for token in tokens(text, is_dashed).unwrap_or_default() {
        if let Some((space, after)) = rest.split_once(token) {
            respelled += space;
            respelled += &name(token).unwrap_or_else(|| token.to_owned());
            rest = after;
        }
    }
    respelled + rest
}

/// The operators between operands; the later ones bind tighter.
const BINDING: [[(&str, Operator); 2]; 3] = [
    [("<", Operator::Less), (">", Operator::Greater)],
    [("+", Operator::Add), ("-", Operator::Subtract)],
    [("*", Operator::Multiply), ("/", Operator::Divide)],
];

struct Reader<'a> {
    tokens: &'a [&'a str],
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn take(&mut self, token: &str) -> bool {
        let there = self.peek() == Some(token);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) {
            return Ok(());
        }
        let next = self.peek().unwrap_or("the end");
        Err(format!("`{token}` is expected where `{next}` stands"))
    }

    /// `A if B else C`, or a comparison.
    fn expression(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("it is nested too deep".to_owned());
        }
        let then = self.operation(0)?;
        let node = if self.take("if") {
            let condition = self.operation(0)?;
            self.expect("else")?;
            let otherwise = self.expression()?;
            Node::If(Box::new([then, condition, otherwise]))
        } else {
            then
        };
        self.depth -= 1;
        Ok(node)
    }

    /// Operands that are joined by the operators of a level of [`BINDING`], from left to right.
    fn operation(&mut self, level: usize) -> Result<Node, String> {
        let Some(operators) = BINDING.get(level) else {
            return self.atom();
        };
        let mut node = self.operation(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.take(sign)) {
            let right = self.operation(level + 1)?;
            node = Node::Two(*operator, Box::new([node, right]));
        }
        Ok(node)
    }

    fn atom(&mut self) -> Result<Node, String> {
        if self.take("(") {
            let node = self.expression()?;
            self.expect(")")?;
            return Ok(node);
        }
        if self.peek() == Some("-") {
            // Each second one is undone, so that no run of them is deep.
            let mut is_negative = false;
            while self.take("-") {
                is_negative = !is_negative;
            }
            let node = self.atom()?;
            let negative =
                |node| Node::Two(Operator::Subtract, Box::new([Node::Number(0.0), node]));
            return Ok(if is_negative { negative(node) } else { node });
        }
        let token = self.peek().ok_or("it ends too early")?;
        self.at += 1;
        let function = match token {
            "min" => Some(Operator::Least),
            "max" => Some(Operator::Most),
            "d_ratio" => Some(Operator::Ratio),
            _ => None,
        };
        if let Some(operator) = function {
            self.expect("(")?;
            let left = self.expression()?;
            self.expect(",")?;
            let right = self.expression()?;
            self.expect(")")?;
            return Ok(Node::Two(operator, Box::new([left, right])));
        }
        if token.starts_with(|first: char| first.is_ascii_digit()) {
            let number = token.parse::<f64>().ok().filter(|number| number.is_finite());
            let number = number.ok_or_else(|| format!("`{token}` is not a number"))?;
            return Ok(Node::Number(number));
        }
        if !token.starts_with(|first: char| first.is_ascii_alphabetic())
            || token == "else"
            || token == "if"
        {
            return Err(format!("`{token}` is not expected"));
        }
        if token == SMT_ON {
            return Ok(Node::Threads);
        }
        Ok(Node::Name(token.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, smt: bool) -> Option<f64> {
        let of = |name: &str| match name {
            "A.B" => Some(Value::exact(12.0)),
            "a.b:c1" => Some(Value::exact(5.0)),
            "cpu@x.y,cmask=0x6@" => Some(Value::exact(7.0)),
            "ZERO" => Some(Value::exact(0.0)),
            _ => None,
        };
        Formula::parse(text).expect(text).value(smt, &of).map(|value| value.value)
    }

    #[test]
    fn a_formula_is_worth_what_arithmetic_says() {
        for (text, wanted) in [
            ("1 + 2 * 3", Some(7.0)),
            ("(1 + 2) * 3", Some(9.0)),
            ("10 - 4 - 3", Some(3.0)),
            ("12 / 2 / 3", Some(2.0)),
            ("-3 + 5", Some(2.0)),
            ("--3 - -(---(2))", Some(1.0)),
            ("100 * ( A.B / ( ( 4 ) * A.B ) )", Some(25.0)),
            ("a.b:c1 + cpu@x.y,cmask=0x6@", Some(12.0)),
            ("min( A.B , 3 ) + max(1,2)", Some(5.0)),
            ("d_ratio(A.B, ZERO) + d_ratio(A.B, 4)", Some(3.0)),
            ("A.B / ZERO", None),
            ("MISSING + 1", None),
            ("( 1 if ( A.B > 1.8 ) else MISSING )", Some(1.0)),
            ("1 if A.B < 3 else 2 if A.B > 20 else 4", Some(4.0)),
            // Comparisons are strict.
            ("(1 < 2) + (2 > 1)", Some(2.0)),
            ("(1 < 1) + (2 < 1) + (1 > 1) + (1 > 2)", Some(0.0)),
        ] {
            assert_eq!(value(text, false), wanted, "{text}");
        }
        assert_eq!(value("( A.B / 2 ) if smt_on else A.B", true), Some(6.0));
        assert_eq!(value("( A.B / 2 ) if smt_on else A.B", false), Some(12.0));
    }

    #[test]
    fn a_dash_belongs_to_the_names_that_have_it() {
        let names = |text: &str| {
            let is_dashed = |name: &str| ["l1-misses", "l1-misses-all"].contains(&name);
            let formula = Formula::parse_with(text, &is_dashed).expect(text);
            formula.names(false).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        for (text, wanted) in [
            ("l1-misses / cycles", &["l1-misses", "cycles"][..]),
            ("l1-misses:u-l1-misses-all", &["l1-misses:u", "l1-misses-all"]),
            ("l1-missesx - 2", &["l1", "missesx"]),
            ("l1-misses.c1 - 2", &["l1", "misses.c1"]),
            ("cycles-instructions", &["cycles", "instructions"]),
            ("cpu@a.b,cmask=1@:k * 2", &["cpu@a.b,cmask=1@:k"]),
        ] {
            assert_eq!(names(text), wanted, "{text}");
        }
    }

    /// Nesting is bounded, and what stands side by side is not nested.
    #[test]
    fn what_is_no_formula_is_refused() {
        // An expression without parentheses has a depth of 1.
        let nested = |depth| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        let texts = "|1 +|(1|1)|1 2|min(1)|min 1|if|else|1 + if|1 if 2|A $ B|1.2.3|cpu@x|* 3";
        for text in texts.split('|').chain([&*nested(100)]) {
            assert!(Formula::parse(text).is_err(), "{text}");
        }
        for text in [nested(99), ["(1)"; 200].join("+")] {
            assert!(Formula::parse(&text).is_ok(), "{text}");
        }
    }

    /// The longest formulas of each kind fit on a small part of a stack, which on Windows has 2 MiB; none
    /// is longer.
    #[test]
    fn a_formula_is_no_longer_than_any_stack_holds() {
        // What begins it, what is repeated and of how many tokens that is, and what ends it.
        let kinds = [
            ("", "A+", 2, "A"),
            ("", "-", 1, "A"),
            ("", "A/", 2, "A"),
            ("", "1<", 2, "1"),
            ("A", "*-B", 3, ""),
            ("", "(A)-", 4, "1"),
        ];
        let check = move || {
            let of = |name: &str| (name == "A").then_some(Value::exact(1.0));
            for (start, part, tokens, end) in kinds {
                let text = |times: usize| format!("{start}{}{end}", part.repeat(times));
                let most = (FORMULA_TOKENS - 1) / tokens;
                let formula = Formula::parse(&text(most)).expect(part);
                let _ = (formula.value(false, &of), formula.zero_divisor(false, &of));
                assert!(formula.names(false).len() <= 2, "{part}");
                drop(formula.replaced(&|_| None));
                for more in [most + 1, 100_000] {
                    let why = Formula::parse(&text(more)).expect_err(part);
                    assert!(why.contains(&FORMULA_TOKENS.to_string()), "{why}");
                }
            }
        };
        let small = std::thread::Builder::new().stack_size(2 << 20).spawn(check);
        small.expect("a thread").join().expect("it has room");
    }

    /// However many names and dashes there are, a name is looked for in a bounded number of places.
    #[test]
    fn names_are_looked_for_in_proportion_to_the_formula() {
        let looked = std::cell::Cell::new(0_usize);
        let is_dashed = |_: &str| {
            looked.set(looked.get() + 1);
            false
        };
        let _ = Formula::parse_with(&"a-".repeat(100_000), &is_dashed);
        assert!(looked.get() <= FORMULA_TOKENS * NAME_BYTES_MAX, "{}", looked.get());
    }

    #[test]
    fn names_are_replaced_in_what_replaces_them() {
        let formula = |text: &str| Formula::parse(text).expect(text);
        let of = |name: &str| match name {
            "A" => Some(formula("B + 1")),
            "B" => Some(formula("C")),
            "ITSELF" => Some(formula("ITSELF")),
            _ => None,
        };
        assert_eq!(formula("A * 2").replaced(&of), formula("(C + 1) * 2"));
        // A metric that names itself is replaced once.
        assert_eq!(formula("ITSELF").replaced(&of), formula("ITSELF"));
    }

    #[test]
    fn only_what_is_looked_at_is_wanted() {
        let formula = Formula::parse("( A / 2 if smt_on else B ) + C").expect("a formula");
        let names = |smt| formula.names(smt).into_iter().collect::<Vec<_>>();
        assert_eq!((names(true), names(false)), (vec!["A", "C"], vec!["B", "C"]));
    }

    /// The bound contains every value that the parts may have.
    #[test]
    fn a_bound_is_carried_on() {
        let of = |name: &str| match name {
            "X" => Some(Value::estimated(10.0, 2.0)),
            "Y" => Some(Value::estimated(4.0, 1.0)),
            _ => None,
        };
        let formula = Formula::parse("1 - X / (Y * 5)").expect("a formula");
        let value = formula.value(false, &of).expect("a value");
        assert_eq!((value.value, value.range), (0.5, (1.0 - 12.0 / 15.0, 1.0 - 8.0 / 25.0)));
        assert!((value.error().expect("an estimate") - 0.3).abs() < 1e-12);
        assert_eq!(Value::exact(1.0).error(), None);
        let of = |name: &str| match name {
            "X" => Some(Value::exact(10.0)),
            _ => Some(Value::estimated(0.0, 1.0)),
        };
        let formula = Formula::parse("d_ratio(X, ZERO)").expect("a formula");
        let value = formula.value(false, &of).expect("a value");
        // That the divisor is 0 is only an estimate.
        assert_eq!(value.error(), Some(f64::INFINITY));
        let of = |name: &str| match name {
            "X" => Some(Value::estimated(10.0, 2.0)),
            _ => Some(Value::estimated(4.0, 5.0)),
        };
        let open = (f64::NEG_INFINITY, f64::INFINITY);
        for (text, quotient) in [("X / Y", 2.5), ("X / (5 - Y)", 10.0)] {
            let value = Formula::parse(text).expect(text).value(false, &of).expect(text);
            assert_eq!((value.value, value.range), (quotient, open), "{text}");
        }
    }
}
