//! Reads names by Itanium's rules (Itanium C++ ABI, "Mangling") before `cpp_demangle` does.
//!
//! `cpp_demangle` tries one form after the other. Where the last letter of a name makes each of them
//! fail, every level of nesting is read twice, and a name of a hundred letters takes years. A name that
//! it can read to the end costs it few tries. This reader decides by the next letters alone what
//! follows, so its time grows with the length of the name; it refuses whatever `cpp_demangle` does not
//! read.
//!
//! Two constructs that `cpp_demangle` does not know are rewritten with what it knows: dependent names as
//! GCC mangles them, and the parameters that Clang writes before some template arguments.

use std::borrow::Cow;

/// The deepest nesting, which is `cpp_demangle`'s own limit of recursion.
const DEPTH: usize = 96;

/// How many template parameters with arguments a conversion operator's type may name. Both readers read
/// such arguments twice, since only what follows tells whose they are.
const READ_TWICE: u8 = 4;

/// Operators of one, two and three operands.
const OPERATORS: [&str; 3] = [
    "dl da ps ng ad de co nt pp mm",
    "pl mi ml dv rm an or eo aS pL mI mL dV rM aN oR eO ls rs lS rS eq ne lt gt le ge ss aa oo cm pm pt cl ix",
    "nw na qu",
];

/// The name as `cpp_demangle` reads it to its end; `None` if it does not.
pub(super) fn readable(name: &str) -> Option<Cow<'_, str>> {
    let own = name.strip_prefix("_Z").or_else(|| name.strip_prefix("__Z"))?;
    let mut reader = Reader {
        rest: own.as_bytes(),
        candidates: Vec::new(),
        in_dropped: false,
        edits: Vec::new(),
        depth: DEPTH,
        in_conversion: false,
        read_twice: READ_TWICE,
    };
    reader.encoding()?;
    reader.clones()?;
    if !reader.rest.is_empty() {
        return None;
    }
    if reader.edits.is_empty() {
        return Some(name.into());
    }
    let mut text = name.to_owned();
    for edit in reader.edits.iter().rev() {
        text.replace_range(name.len() - edit.before..name.len() - edit.after, &edit.text);
    }
    Some(text.into())
}

/// Each method reads one form of the ABI's grammar, and is named after that form. `None` ends all
/// reading: no method tries another form.
#[derive(Clone)]
struct Reader<'a> {
    rest: &'a [u8],
    /// Whether `cpp_demangle` counts each part of the name that `S_` and its like may refer to by now.
    candidates: Vec<bool>,
    /// In a part that is dropped.
    in_dropped: bool,
    /// What is rewritten, in order.
    edits: Vec<Edit>,
    /// How many levels deeper the name may nest.
    depth: usize,
    /// In the type of a conversion operator.
    in_conversion: bool,
    read_twice: u8,
}

/// The text that replaces a part of the name, whose ends are counted from the end of the name.
#[derive(Clone)]
struct Edit {
    before: usize,
    after: usize,
    text: String,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn takes(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text.as_bytes());
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take(&mut self, text: &str) -> Option<()> {
        self.takes(text).then_some(())
    }

    fn take_one_of(&mut self, letters: &[u8]) -> bool {
        let found = self.peek().is_some_and(|letter| letters.contains(&letter));
        self.rest = &self.rest[usize::from(found)..];
        found
    }

    fn take_while(&mut self, is_wanted: impl Fn(&u8) -> bool) -> &[u8] {
        let end = self.rest.iter().position(|byte| !is_wanted(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn starts_with_digit(&self) -> bool {
        self.peek().is_some_and(|byte| byte.is_ascii_digit())
    }

    /// A part that later ones may refer to ends here.
    fn candidate(&mut self) {
        self.candidates.push(!self.in_dropped);
    }

    /// Replaces what was read since `before` bytes were left.
    fn replace(&mut self, before: usize, text: impl Into<String>) {
        self.edits.push(Edit { before, after: self.rest.len(), text: text.into() });
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.depth = self.depth.checked_sub(1)?;
        read(self)?;
        self.depth += 1;
        Some(())
    }

    /// Reads forms up to a letter with which none of them begins.
    fn each_until(&mut self, end: u8, read: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        while self.peek()? != end {
            read(self)?;
        }
        Some(())
    }

    fn number(&mut self) -> Option<usize> {
        number(self.take_while(u8::is_ascii_digit), 10)
    }

    fn optional_number(&mut self) -> Option<()> {
        if self.starts_with_digit() {
            self.number()?;
        }
        Some(())
    }

    fn signed_number(&mut self) -> Option<()> {
        self.takes("n");
        self.number().map(drop)
    }

    /// What compilers append for a copy or a part of a function: `.isra.0`, `.cold`.
    fn clones(&mut self) -> Option<()> {
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'$' | b'_');
        let mut is_first = true;
        while self.takes(".") {
            if self.starts_with_digit() && !is_first {
                self.number()?;
            } else if self.take_while(is_letter).is_empty() {
                return None;
            }
            is_first = false;
        }
        Some(())
    }

    fn encoding(&mut self) -> Option<()> {
        self.nested(|reader| {
            if matches!(reader.peek()?, b'T' | b'G') {
                return reader.special_name();
            }
            reader.name()?;
            while reader.peek().is_some_and(|byte| !matches!(byte, b'E' | b'.')) {
                reader.type_()?;
            }
            Some(())
        })
    }

    fn special_name(&mut self) -> Option<()> {
        let (kind, rest) = self.rest.split_first_chunk::<2>()?;
        self.rest = rest;
        match kind {
            b"TV" | b"TT" | b"TI" | b"TS" | b"TF" => self.type_(),
            b"TH" | b"TW" | b"GV" => self.name(),
            b"TC" => {
                self.type_()?;
                self.number()?;
                self.take("_")?;
                self.type_()
            }
            b"Th" | b"Tv" => {
                self.call_offset(kind[1])?;
                self.encoding()
            }
            b"Tc" => {
                for _ in 0..2 {
                    let (&kind, rest) = self.rest.split_first()?;
                    self.rest = rest;
                    self.call_offset(kind)?;
                }
                self.encoding()
            }
            b"GR" => {
                self.name()?;
                self.take_while(|&byte| is_base_36(byte));
                self.take("_")
            }
            b"GT" => {
                self.rest = &self.rest[usize::from(!self.rest.is_empty())..];
                self.encoding()
            }
            _ => None,
        }
    }

    fn call_offset(&mut self, kind: u8) -> Option<()> {
        self.signed_number()?;
        if kind == b'v' {
            self.take("_")?;
            self.signed_number()?;
        } else if kind != b'h' {
            return None;
        }
        self.take("_")
    }

    fn name(&mut self) -> Option<()> {
        self.nested(|reader| match reader.peek()? {
            b'N' => reader.nested_name(),
            b'Z' => reader.local_name(),
            b'S' if !reader.rest.starts_with(b"St") => {
                reader.substitution()?;
                reader.template_args()
            }
            _ => {
                reader.takes("St");
                reader.unqualified_name()?;
                if reader.peek() == Some(b'I') {
                    reader.candidate();
                    reader.template_args()?;
                }
                Some(())
            }
        })
    }

    fn nested_name(&mut self) -> Option<()> {
        self.take("N")?;
        if !self.takes("H") {
            self.cv_qualifiers();
            self.take_one_of(b"RO");
        }
        let mut is_first = true;
        // A type or a substitution that nothing follows is no name.
        let mut is_name = false;
        loop {
            match self.peek()? {
                b'E' if is_name => return self.take("E"),
                b'S' if is_first => {
                    self.substitution()?;
                    is_first = false;
                    continue;
                }
                b'T' if is_first => self.template_param()?,
                b'D' if is_first && matches!(self.rest.get(1), Some(b't' | b'T')) => {
                    self.decltype()?;
                }
                b'I' if !is_first => {
                    self.template_args()?;
                    is_name = true;
                }
                b'E' | b'S' | b'T' | b'I' => return None,
                letter => {
                    self.unqualified_name()?;
                    is_name = true;
                    if !is_first && matches!(letter, b'0'..=b'9' | b'L') && self.takes("M") {
                        // The member that follows is the name.
                        self.candidate();
                        is_name = false;
                        continue;
                    }
                }
            }
            is_first = false;
            if self.peek() != Some(b'E') {
                self.candidate();
            }
        }
    }

    fn local_name(&mut self) -> Option<()> {
        self.take("Z")?;
        self.encoding()?;
        self.take("E")?;
        if self.takes("d") {
            self.optional_number()?;
            self.take("_")?;
            return self.name();
        }
        if !self.takes("s") {
            self.name()?;
        }
        self.discriminator()
    }

    fn discriminator(&mut self) -> Option<()> {
        if self.takes("__") {
            return (self.number()? >= 10).then_some(()).and_then(|()| self.take("_"));
        }
        if self.takes("_") {
            return self.take_one_of(b"0123456789").then_some(());
        }
        Some(())
    }

    fn unqualified_name(&mut self) -> Option<()> {
        if self.takes("on") {
            self.operator_name()?;
            return self.abi_tags();
        }
        match self.peek()? {
            b'0'..=b'9' => self.source_name()?,
            b'C' => {
                self.take("C")?;
                let inherits = self.takes("I");
                self.take_one_of(b"1234").then_some(())?;
                if inherits {
                    self.type_()?;
                }
            }
            b'D' => {
                self.take("D")?;
                self.take_one_of(b"0124").then_some(())?;
            }
            b'L' => {
                self.take("L")?;
                self.source_name()?;
                self.discriminator()?;
            }
            b'U' => {
                if self.takes("Ul") {
                    if !self.takes("v") {
                        self.type_()?;
                        self.each_until(b'E', Self::type_)?;
                    }
                    self.take("E")?;
                } else {
                    self.take("Ut")?;
                }
                self.optional_number()?;
                self.take("_")?;
            }
            _ => self.operator_name()?,
        }
        self.abi_tags()
    }

    fn abi_tags(&mut self) -> Option<()> {
        while self.takes("B") {
            self.source_name()?;
        }
        Some(())
    }

    fn source_name(&mut self) -> Option<()> {
        let length = self.number().filter(|&length| length > 0)?;
        let (name, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"$_.".contains(byte);
        name.iter().all(is_letter).then_some(())
    }

    fn operator_name(&mut self) -> Option<()> {
        if self.operator().is_some() {
            return Some(());
        }
        if self.takes("cv") {
            let outer = std::mem::replace(&mut self.in_conversion, true);
            self.type_()?;
            self.in_conversion = outer;
            return Some(());
        }
        if !self.takes("li") {
            self.take("v")?;
            self.take_one_of(b"0123456789").then_some(())?;
        }
        self.source_name()
    }

    /// The operator's number of operands.
    fn operator(&mut self) -> Option<usize> {
        let (letters, rest) = self.rest.split_first_chunk::<2>()?;
        let has = |known: &&str| known.split(' ').any(|known| known.as_bytes() == letters);
        let operands = 1 + OPERATORS.iter().position(has)?;
        self.rest = rest;
        Some(operands)
    }

    fn cv_qualifiers(&mut self) -> bool {
        let [r, v, k] = ["r", "V", "K"].map(|letter| self.takes(letter));
        r || v || k
    }

    fn template_param(&mut self) -> Option<()> {
        self.take("T")?;
        self.optional_number()?;
        self.take("_")
    }

    fn substitution(&mut self) -> Option<()> {
        self.take("S")?;
        if self.take_one_of(b"tabsiod") {
            return Some(());
        }
        let before = self.rest.len();
        let digits = self.take_while(|&byte| is_base_36(byte));
        let index = if digits.is_empty() { 0 } else { number(digits, 36)?.checked_add(1)? };
        let is_counted = *self.candidates.get(index)?;
        let uncounted = self.candidates[..index].iter().filter(|&&counts| !counts).count();
        if !self.in_dropped && !is_counted {
            return None;
        }
        if uncounted > 0 {
            self.replace(before, sequence_id(index - uncounted));
        }
        self.take("_")
    }

    fn type_(&mut self) -> Option<()> {
        self.nested(|reader| {
            if reader.builtin_type()? {
                return Some(());
            }
            if !reader.compound_type()? {
                reader.candidate();
            }
            Some(())
        })
    }

    fn builtin_type(&mut self) -> Option<bool> {
        if self.take_one_of(b"vwbcahstijlmxynofdegz") || self.takes("DF16b") {
            return Some(true);
        }
        if self.takes("u") {
            return self.source_name().map(|()| true);
        }
        if self.takes("DF") {
            self.number()?;
            return (self.takes("x") || self.takes("_")).then_some(true);
        }
        if self.takes("DB") || self.takes("DU") {
            if !self.starts_with_digit() {
                return self.expression().map(|()| true);
            }
            self.number()?;
            return self.take("_").map(|()| true);
        }
        let is_two = matches!(self.rest, [b'D', second, ..] if b"defhisuacn".contains(second));
        self.rest = &self.rest[2 * usize::from(is_two)..];
        Some(is_two)
    }

    /// Reads a type that is no builtin one, and tells whether it is a part that came before.
    fn compound_type(&mut self) -> Option<bool> {
        if self.cv_qualifiers() {
            let of_function = self.starts_function();
            (if of_function { self.function_type() } else { self.type_() })?;
            return Some(false);
        }
        match self.peek()? {
            b'S' if !self.rest.starts_with(b"St") => {
                self.substitution()?;
                if self.peek() != Some(b'I') {
                    return Some(true);
                }
                self.template_args()?;
            }
            b'S' | b'N' | b'Z' | b'0'..=b'9' | b'L' => self.name()?,
            b'U' => {
                self.take("U")?;
                self.source_name()?;
                if self.peek() == Some(b'I') {
                    self.template_args()?;
                }
                self.type_()?;
            }
            b'T' if matches!(self.rest.get(1), Some(b's' | b'u' | b'e')) => {
                self.rest = &self.rest[2..];
                self.name()?;
            }
            b'T' => self.type_of_template_param()?,
            b'A' => {
                self.take("A")?;
                if self.starts_with_digit() {
                    self.number()?;
                } else if self.peek() != Some(b'_') {
                    self.expression()?;
                }
                self.take("_")?;
                self.type_()?;
            }
            b'M' => {
                self.take("M")?;
                self.type_()?;
                self.type_()?;
            }
            // A digit or an `I` would make a constructor of it.
            b'C' if matches!(self.rest.get(1), Some(b'0'..=b'9' | b'I')) => return None,
            b'P' | b'R' | b'O' | b'C' | b'G' => {
                self.rest = &self.rest[1..];
                self.type_()?;
            }
            _ if self.starts_function() => self.function_type()?,
            _ if self.takes("Dp") => self.type_()?,
            _ if self.takes("Dv") => {
                if self.starts_with_digit() {
                    self.number()?;
                } else {
                    self.expression()?;
                }
                self.take("_")?;
                self.type_()?;
            }
            _ => self.decltype()?,
        }
        Some(false)
    }

    fn type_of_template_param(&mut self) -> Option<()> {
        self.template_param()?;
        if self.peek() != Some(b'I') {
            return Some(());
        }
        if self.in_conversion {
            self.read_twice = self.read_twice.checked_sub(1)?;
            let mut ahead = self.clone();
            ahead.template_args()?;
            if ahead.peek() != Some(b'I') {
                // The arguments are those of the operator itself.
                return Some(());
            }
        }
        self.candidate();
        self.template_args()
    }

    fn starts_function(&self) -> bool {
        matches!(self.rest, [b'F', ..] | [b'D', b'o' | b'O' | b'x', ..])
    }

    fn function_type(&mut self) -> Option<()> {
        if self.takes("DO") {
            self.expression()?;
            self.take("E")?;
        } else {
            self.takes("Do");
        }
        self.takes("Dx");
        self.take("F")?;
        self.takes("Y");
        self.type_()?;
        while !self.takes("E") {
            if self.takes("RE") || self.takes("OE") {
                break;
            }
            self.type_()?;
        }
        Some(())
    }

    fn decltype(&mut self) -> Option<()> {
        (self.takes("Dt") || self.takes("DT")).then_some(())?;
        self.expression()?;
        self.take("E")
    }

    fn template_args(&mut self) -> Option<()> {
        self.take("I")?;
        self.template_arg()?;
        self.each_until(b'E', Self::template_arg)?;
        self.take("E")
    }

    fn template_arg(&mut self) -> Option<()> {
        self.nested(|reader| match reader.peek()? {
            b'X' => {
                reader.take("X")?;
                reader.expression()?;
                reader.take("E")
            }
            b'L' => reader.expr_primary(),
            b'T' if reader.rest.starts_with(b"Tn") => {
                reader.type_of_parameter()?;
                reader.template_arg()
            }
            b'I' | b'J' => {
                reader.rest = &reader.rest[1..];
                reader.each_until(b'E', Self::template_arg)?;
                reader.take("E")
            }
            _ => reader.type_(),
        })
    }

    /// Drops the type of the parameter that the argument is for. Clang writes it where the type depends
    /// on other parameters.
    fn type_of_parameter(&mut self) -> Option<()> {
        let before = self.rest.len();
        let edits = self.edits.len();
        let outer = std::mem::replace(&mut self.in_dropped, true);
        self.take("Tn")?;
        self.type_()?;
        self.in_dropped = outer;
        self.edits.truncate(edits);
        self.replace(before, "");
        Some(())
    }

    fn expr_primary(&mut self) -> Option<()> {
        self.take("L")?;
        if self.takes("_Z") {
            self.encoding()?;
        } else {
            self.type_()?;
            self.take_while(|&byte| byte != b'E');
        }
        self.take("E")
    }

    fn expression(&mut self) -> Option<()> {
        self.nested(Self::any_expression)
    }

    fn expressions(&mut self) -> Option<()> {
        self.each_until(b'E', Self::expression)?;
        self.take("E")
    }

    fn any_expression(&mut self) -> Option<()> {
        if self.takes("pp_") || self.takes("mm_") {
            return self.expression();
        }
        match self.rest {
            [b'T', ..] => return self.template_param(),
            [b'L', ..] => return self.expr_primary(),
            [b'0'..=b'9', ..] => return self.unresolved_name(),
            [b'f', b'p', ..] | [b'f', b'L', b'0'..=b'9', ..] => return self.function_param(),
            [b'n', b'w' | b'a', ..] | [b'd', b'l' | b'a', ..] => return self.new_or_delete(),
            _ => {}
        }
        let whole = self.rest;
        let (letters, rest) = whole.split_first_chunk::<2>()?;
        self.rest = rest;
        match letters {
            b"cl" => {
                self.expression()?;
                self.expressions()
            }
            b"cv" => {
                self.type_()?;
                if self.takes("_") { self.expressions() } else { self.expression() }
            }
            b"tl" => {
                self.type_()?;
                self.expressions()
            }
            b"il" => self.expressions(),
            b"dc" | b"sc" | b"cc" | b"rc" => {
                self.type_()?;
                self.expression()
            }
            b"ti" | b"st" | b"at" => self.type_(),
            b"te" | b"sz" | b"az" | b"nx" | b"sp" | b"tw" => self.expression(),
            b"so" => {
                self.type_()?;
                self.expression()?;
                if self.peek() != Some(b'E') {
                    self.signed_number()?;
                }
                self.take("E")
            }
            b"dt" | b"pt" => {
                self.expression()?;
                self.unqualified_name()?;
                if self.peek() == Some(b'I') { self.template_args() } else { Some(()) }
            }
            b"ds" => {
                self.expression()?;
                self.expression()
            }
            b"sZ" if self.peek() == Some(b'T') => self.template_param(),
            b"sZ" => self.function_param(),
            b"sP" => {
                self.each_until(b'E', Self::template_arg)?;
                self.take("E")
            }
            b"fl" | b"fr" | b"fL" | b"fR" => {
                (self.operator()? == 2).then_some(())?;
                self.expression()?;
                if letters[1].is_ascii_uppercase() { self.expression() } else { Some(()) }
            }
            b"tr" => Some(()),
            b"gs" if matches!(self.rest, [b'n', b'w' | b'a', ..] | [b'd', b'l' | b'a', ..]) => {
                self.new_or_delete()
            }
            b"gs" | b"sr" | b"on" | b"dn" => {
                self.rest = whole;
                self.unresolved_name()
            }
            _ => {
                self.rest = whole;
                let operands = self.operator()?;
                (0..operands).try_for_each(|_| self.expression())
            }
        }
    }

    fn new_or_delete(&mut self) -> Option<()> {
        if self.takes("dl") || self.takes("da") {
            return self.expression();
        }
        self.rest = &self.rest[2..];
        self.each_until(b'_', Self::expression)?;
        self.take("_")?;
        self.type_()?;
        if self.takes("pi") { self.expressions() } else { self.take("E") }
    }

    fn function_param(&mut self) -> Option<()> {
        self.take("f")?;
        if self.takes("L") {
            self.number()?;
        }
        self.take("p")?;
        self.cv_qualifiers();
        if self.takes("T") {
            return Some(());
        }
        self.optional_number()?;
        self.take("_")
    }

    fn unresolved_name(&mut self) -> Option<()> {
        let is_global = self.takes("gs");
        if !self.takes("sr") {
            return self.base_unresolved_name();
        }
        if !is_global && self.has_type_of_gcc() {
            return self.dependent_name_of_gcc();
        }
        if !is_global && !self.starts_with_digit() {
            let has_levels = self.takes("N");
            self.unresolved_type()?;
            if !has_levels {
                return self.base_unresolved_name();
            }
        }
        self.simple_id()?;
        self.each_until(b'E', Self::simple_id)?;
        self.take("E")?;
        self.base_unresolved_name()
    }

    fn has_type_of_gcc(&self) -> bool {
        matches!(self.rest, [b'S', b't', ..] | [b'N', b'0'..=b'9', ..] | [b'N', b'S', b't', ..])
    }

    /// Reads a name in a dependent scope. GCC writes the scope as a type, `St` or `N` before the names
    /// and the arguments, and counts each of them as a candidate; the ABI, as `srN St` and levels or as
    /// levels alone, of which it counts none.
    fn dependent_name_of_gcc(&mut self) -> Option<()> {
        let before = self.rest.len();
        let is_nested = self.takes("N");
        match (is_nested, self.takes("St")) {
            (true, false) => self.replace(before, ""),
            (false, _) => self.replace(before, "NSt"),
            (true, true) => {}
        }
        loop {
            self.source_name()?;
            self.candidates.push(false);
            if self.peek() == Some(b'I') {
                self.template_args()?;
                self.candidates.push(false);
            }
            if !is_nested {
                self.replace(self.rest.len(), "E");
                break;
            }
            if self.takes("E") {
                break;
            }
        }
        self.base_unresolved_name()
    }

    fn unresolved_type(&mut self) -> Option<()> {
        match self.peek()? {
            b'S' => return self.substitution(),
            b'T' => {
                self.template_param()?;
                if self.peek() == Some(b'I') {
                    self.template_args()?;
                }
            }
            _ => self.decltype()?,
        }
        self.candidate();
        Some(())
    }

    fn simple_id(&mut self) -> Option<()> {
        self.source_name()?;
        if self.peek() == Some(b'I') { self.template_args() } else { Some(()) }
    }

    fn base_unresolved_name(&mut self) -> Option<()> {
        if self.takes("on") {
            self.operator_name()?;
            return if self.peek() == Some(b'I') { self.template_args() } else { Some(()) };
        }
        if self.takes("dn") && !self.starts_with_digit() {
            return self.unresolved_type();
        }
        self.simple_id()
    }
}

fn is_base_36(byte: u8) -> bool {
    byte.is_ascii_digit() || byte.is_ascii_uppercase()
}

/// The letters between `S` and `_`: none for the first part, then 0, 1 and so on to the base of 36.
fn sequence_id(index: usize) -> String {
    let mut left = index.checked_sub(1);
    let mut digits = Vec::new();
    while let Some(number) = left {
        let digit = char::from_digit((number % 36) as u32, 36).unwrap_or_default();
        digits.push(digit.to_ascii_uppercase());
        left = Some(number / 36).filter(|&more| more != 0);
    }
    digits.iter().rev().collect()
}

/// A number without zeros in front.
fn number(digits: &[u8], radix: u32) -> Option<usize> {
    if digits.len() > 1 && digits[0] == b'0' {
        return None;
    }
    usize::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::MANGLED;
    use crate::symbols::demangle::Demangler;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// Names as GCC 12 and Clang 19 mangle them, and a few by hand for the rest of the grammar.
    const NAMES: &str = "_Z2a1IiE1IIXstT_EES1_ _Z2a2IiE1IIXatT_EES1_ _Z2a3IiEDTnw_T_pifp_EES0_ _Z2a4IiEDTdlfp_EPT_ \
        _Z2a5IiEDTgsdafp_EPT_ _Z2a6I1VIiEEDtdtfp_1mET_ _Z2a7I1VIiEEDtptfp_1mEPT_ _Z2a8IiEDTpp_fp_ET_ \
        _Z2a8IiEDTppfp_ET_ _Z2b1IJiiEE1IIXsZT_EEDpT_ _Z2b2IJiiEEDTfrplfp_EDpT_ \
        _Z2b3IJiiEEDTfRplfp_Li1EEDpT_ _Z2b4IiEDTsclfp_ET_ _Z2b5IiEDTtlT_fp_EES0_ _Z2b6IiEDTcvT_fp_ES0_ \
        _Z2b8IiEDTqufp_fp_fp_ET_ _Z2b9IiE1IIXnxcvT__EEES1_ _Z2c1IiEDTcldttefp_4nameEET_ \
        _Z2c2IiEDTtwfp_ET_ _Z2c3I1VIiEEDTdsfp_fp0_ET_MS3_i _Z2c4I1VIiEEDTcldtfp_coT_EET_ \
        _Z2c6IiiEvPAstT0__iRA3_T_PVKS0_ _Z2c7M1VIiEiMS0_KFviREPFizE _Z2c8DnnDsDu \
        _Z2c91PIXadL_Z1gEEE1FIXadL_Z2fnvEEES_ILPi0EE _Z2d1PDoFvvE _Z2d2ILb1EEvPDOT_EFvvE _Z2d3Dv4_i \
        _Z2d4Cd _Z2e11VIiE _Z2e2i _Z3b22IJiiEEDTflplfp_EDpT_ _Z3b33IJiiEEDTfLplLi1Efp_EDpT_ \
        _Z6taggedB1xv _ZGR3ref_ _ZGVZL5localvE1a _ZL5localv _ZN12_GLOBAL__N_13hidEv _ZN1A1fEv _ZN1AC2Ei \
        _ZN1AD0Ev _ZN1AD2Ev _ZN1B1fEv _ZN1BC1Ev _ZN1BCI11AEi _ZN1VIiEcvPiEv _ZN1VIiEcvT_I1IILi1EEEEv \
        _ZN1VIiEcvT_IdEEv _ZNK3$_2clEv _ZNKUlvE_clEv _ZTH1t _ZTI1A _ZTS1A _ZTT1B _ZTV1A _ZTV1B _ZTW1t \
        _ZTch0_v0_n40_N1B1fEv _ZTcv0_n32_v0_n40_N1B1fEv _ZTv0_n24_N1BD0Ev \
        _ZZ2c3I1VIiEEDTdsfp_fp0_ET_MS3_iE1q _ZZ2e11VIiEENK3$_0clEv _ZZ2e11VIiEENKUlvE_clEv \
        _ZZL5localvE1a _ZZL5localvEN1L1xEv _ZZL5localvENK3$_0clIiEEDaiT_ \
        _ZZL5localvENKUliT_E_clIiEEDaiS_ _ZdlPvm _Zli3_kme _ZNSt6vectorIiSaIiEE9push_backERKi \
        _ZN3fooILin5ELb1EE3barEv.isra.0.cold _ZN1aIJEE1bEDpT_ _Z1fSs _ZN2ns4typeIS0_E6memberMUlvE_E \
        _ZZ1fvEd0_NKUlvE_clEv _ZThn16_N1A1fEv _ZTC1B0_1A _ZGR1a0_ \
        _Z1fDF16_DU5_DB7_u3fooU3barIiEi _Z1fIXgsonplIiEEEvv _Z1fIXsrNT_1aIiEE1bEEvv \
        _Z1fIXsZfp_EXsPiEEEvv _Z1fIXso1aLi1E4EEEvv _Z1fTs1aCiGi _ZNH1a1fEi _Zv17twiddlei \
        _Z1fIXcvi_Li1ELi2EEEXilLi1EEEEvv _ZL3foov";

    #[test]
    fn each_form_is_read() {
        for name in NAMES.split_whitespace() {
            assert_eq!(readable(name).as_deref(), Some(name));
            assert!(cpp_demangle::Symbol::new(name).is_ok(), "{name}");
        }
    }

    /// Whatever one letter makes of these names is refused, or `cpp_demangle` reads it to the end.
    #[test]
    fn what_is_read_here_is_read_there() {
        const LETTERS: &[u8] = b"ACDEFIJKLMNOPRSTUXZdilnsv_019.";
        let mut read = 0;
        for name in NAMES.split_whitespace() {
            for at in 2..name.len() {
                let (start, end) = (&name[..at], &name[at + 1..]);
                let changed =
                    LETTERS.iter().map(|&letter| format!("{start}{}{end}", letter as char));
                for name in changed.chain([format!("{start}{end}"), start.to_owned()]) {
                    if let Some(form) = readable(&name) {
                        assert!(cpp_demangle::Symbol::new(&*form).is_ok(), "{name}");
                        read += 1;
                    }
                }
            }
        }
        assert!(read > 5_000, "{read}");
    }

    /// `cpp_demangle` would read some of these for years.
    #[test]
    fn nesting_that_does_not_end_is_refused_at_once() {
        const LEVELS: [(&str, &str); 12] = [
            ("_Z1fIX", "dl"),
            ("_Z1fIX", "gsda"),
            ("_Z1fIX", "nw"),
            ("_Z1f", "St1aI"),
            ("_Z1f", "1aIL"),
            ("_Z", "cvT_I"),
            ("_ZNK", "cvT_I"),
            ("_Z1aIX", "LDT"),
            ("_Z1f", "P"),
            ("_Z1f", "Z1aE"),
            ("_Z1fI", "J"),
            ("_Z", "GTt"),
        ];
        let (done, all_done) = mpsc::channel();
        thread::spawn(move || {
            let names = LEVELS.map(|(start, level)| {
                format!("{start}{}!", level.repeat((MANGLED - start.len() - 1) / level.len()))
            });
            let shown = names.each_ref().map(|name| Demangler::of(0).shown(name));
            done.send((names, shown)).expect("the test waits");
        });
        let (names, shown) =
            all_done.recv_timeout(Duration::from_mins(1)).expect("this takes a millisecond");
        assert!(names.iter().zip(&shown).all(|(name, shown)| **shown == **name), "{shown:?}");
        // Names that are well formed, and deeper than any that is demangled.
        for (start, level, end) in
            [("_Z1f", "P", "v"), ("_ZN1acv", "T_I", "i"), ("_Z1fIX", "dl", "Li1EEEvv")]
        {
            let name = format!("{start}{}{end}", level.repeat(DEPTH));
            assert_eq!(readable(&name), None);
        }
    }

    /// As `c++filt` shows them.
    #[test]
    fn what_cpp_demangle_does_not_know_is_rewritten() {
        for (mangled, name) in [
            (
                "_ZSt4swapIiENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EESt21is_move\
                 _constructibleIS4_ESt18is_move_assignableIS4_EEE5valueEvE4typeERS4_SE_",
                "std::enable_if<std::__and_<std::__not_<std::__is_tuple_like<int> >, \
                 std::is_move_constructible<int>, std::is_move_assignable<int> >::value, void>::type \
                 std::swap<int>(int&, int&)",
            ),
            (
                "_Z2f3IiENSt9enable_ifIXsrN2ns6is_fooIT_E2inIS3_EE5valueEiE4typeES3_",
                "std::enable_if<ns::is_foo<int>::in<int>::value, int>::type f3<int>(int)",
            ),
            (
                "_Z2f5IiEDTplcl7declvalIT_EEclsrSt14numeric_limitsIS0_E3maxEES0_",
                "decltype (((declval<int>)())+((std::numeric_limits<int>::max)())) f5<int>(int)",
            ),
            (
                "_ZN4llvm15callDefaultCtorINS_8CFIFixupETnNSt9enable_ifIXtlSt24is_default_constructibleIT_\
                 EEEbE4typeELb1EEEPNS_4PassEv",
                "llvm::Pass* llvm::callDefaultCtor<llvm::CFIFixup, true>()",
            ),
        ] {
            assert_eq!(*Demangler::of(0).shown(mangled), *name);
        }
        // These refer to parts that the other form does not count.
        let refers = "_Z2f4IiENSt9enable_ifIXaasrSt7is_sameIT_iE5valuesrN2ns6is_fooIS2_EE5value\
            ENS5_IS1_IS2_S2_EEEE4typeES2_S3_S6_";
        let dropped = "_Z2f6IiTnNSt9enable_ifIXsr3std7is_sameIT_iEE5valueEiE4typeELi0EEiS1_";
        assert_eq!([readable(refers), readable(dropped)], [None, None]);
        assert_eq!([0, 1, 36, 37, 73].map(sequence_id), ["", "0", "Z", "10", "20"]);
    }
}
