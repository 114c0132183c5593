//! Names of functions, of modules and of others to look for.

use super::identity::file_name;
use super::{Frame, FunctionName};
use std::fmt;
use std::sync::Arc;

/// A name to look for, in which `*` stands for any text. Case is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    typed: String,
    /// The typed text in small letters.
    wanted: String,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

impl Pattern {
    /// A pattern as the user typed it.
    pub fn new(text: &str) -> Self {
        let typed = text.trim().to_owned();
        Self { wanted: typed.to_lowercase(), typed }
    }

    /// The text that the user typed.
    pub(crate) fn typed(&self) -> &str {
        &self.typed
    }

    /// Whether it matches a name.
    pub fn matches(&self, name: &str) -> bool {
        glob(&self.wanted, &name.to_lowercase())
    }

    /// Whether it matches a module: by its name, by a path from which it was loaded, or by the end of
    /// such a path.
    pub fn matches_module(&self, name: &str, paths: &[Arc<str>]) -> bool {
        self.matches(name) || paths.iter().any(|path| self.matches_path(path))
    }

    fn matches_path(&self, path: &str) -> bool {
        let [pattern, path] =
            [&*self.wanted, path].map(|text| text.to_lowercase().replace('\\', "/"));
        glob(&pattern, &path) || glob(&format!("*/{pattern}"), &path)
    }
}

/// How a name means a function, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meaning {
    /// The whole name was typed, or a name with `*`.
    Whole,
    /// The name was typed without its arguments, or also without those of templates.
    WithoutArguments,
    /// The end of the name was typed, after a `::` or a `.` of a class.
    Suffix,
}

/// A function to look for as a user types it: `MODULE!SYMBOL`, with or without its arguments, or the
/// end of its name; `*` stands for any text. Case and blanks are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionPattern {
    text: String,
    name: FunctionText,
    /// The module before a `!`, and the function after it.
    in_module: Option<(Pattern, FunctionText)>,
    /// The pattern does not mean a function if it means it in a worse way than this.
    pub(crate) worst: Meaning,
}

impl fmt::Display for FunctionPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FunctionPattern {
    /// A function as the user typed it.
    pub fn new(text: &str) -> Self {
        let in_module = text.split_once('!');
        Self {
            text: text.trim().to_owned(),
            name: FunctionText::new(text),
            in_module: in_module
                .map(|(module, own)| (Pattern::new(module), FunctionText::new(own))),
            worst: Meaning::Suffix,
        }
    }

    /// How it means a function of a module, which was loaded from these paths; `None` if it does not.
    pub fn meaning(&self, module: &str, paths: &[Arc<str>], symbol: &str) -> Option<Meaning> {
        let name = FunctionName::of(symbol);
        let in_module = self.in_module.as_ref().filter(|(pattern, _)| {
            // Debuggers name a module without its extension, and without its folder.
            let stem = module.rsplit_once('.').map_or(module, |(stem, _)| stem);
            pattern.matches_module(module, paths)
                || pattern.matches(stem)
                || file_name(stem).is_some_and(|own| pattern.matches(own))
        });
        let in_module = in_module.and_then(|(_, own)| own.meaning(symbol, &name));
        let meanings = [in_module, self.name.meaning(symbol, &name)];
        meanings.into_iter().flatten().min()
    }

    /// How it means a function with several names. The name that it means best decides.
    pub fn best_meaning<'a>(
        &self,
        module: &str,
        paths: &[Arc<str>],
        names: impl Iterator<Item = &'a Arc<str>>,
    ) -> Option<Meaning> {
        names.filter_map(|name| self.meaning(module, paths, name)).min()
    }

    /// Whether it means a function.
    pub fn matches(&self, module: &str, paths: &[Arc<str>], symbol: &str) -> bool {
        self.meaning(module, paths, symbol).is_some_and(|meaning| meaning <= self.worst)
    }

    /// Limits the pattern to the functions of `all` that it means best, and returns these.
    pub fn settle<T>(
        &mut self,
        all: impl IntoIterator<Item = T>,
        meaning: impl Fn(&Self, &T) -> Option<Meaning>,
    ) -> Vec<T> {
        let meant = all.into_iter().filter_map(|one| Some((meaning(self, &one)?, one)));
        let meant: Vec<(Meaning, T)> = meant.collect();
        let Some(best) = meant.iter().map(|&(meaning, _)| meaning).min() else {
            return Vec::new();
        };
        self.worst = best;
        meant.into_iter().filter(|&(meaning, _)| meaning == best).map(|(_, one)| one).collect()
    }
}

/// A function's name to look for, in small letters and without blanks: demanglers differ in these.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FunctionText(String);

impl FunctionText {
    /// An `…`, where a table has left something out, stands for any text.
    fn new(text: &str) -> Self {
        Self(comparable(text).replace('…', "*"))
    }

    fn meaning(&self, symbol: &str, name: &FunctionName<'_>) -> Option<Meaning> {
        let Self(wanted) = self;
        if wanted.is_empty() {
            return None;
        }
        if wanted.contains('*') {
            // Each form is looked through from star to star, so there are few.
            let own = name.shorter().last();
            let forms = [symbol, name.without_arguments()].into_iter().map(Into::into);
            let forms = forms.chain([name.without_templates()]).chain(own);
            return forms
                .into_iter()
                .any(|form| glob(wanted, &comparable(&form)))
                .then_some(Meaning::Whole);
        }
        let is = |form: &str| is_alike(wanted, form);
        if is(symbol) {
            Some(Meaning::Whole)
        } else if is(name.without_arguments()) || is(&name.without_templates()) {
            Some(Meaning::WithoutArguments)
        } else {
            name.suffixes().any(|suffix| is(&suffix)).then_some(Meaning::Suffix)
        }
    }
}

fn comparable(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect()
}

/// Whether a name is `wanted`, which is [`comparable`]. Stops at the first letter that differs.
fn is_alike(wanted: &str, name: &str) -> bool {
    let letters = name.chars().filter(|letter| !letter.is_whitespace());
    letters.flat_map(char::to_lowercase).eq(wanted.chars())
}

/// Greedy matching from star to star, which looks at each byte of the name a bounded number of
/// times.
fn glob(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

/// A function that has samples.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionNames {
    pub module: Arc<str>,
    /// The name under which it is shown.
    pub symbol: Arc<str>,
    /// Other names of its code: aliases, and functions that the linker folded into it.
    pub also: Arc<[Arc<str>]>,
    /// Where its module was loaded from.
    pub paths: Vec<Arc<str>>,
}

impl FunctionNames {
    /// Whether it is the function of a frame.
    pub(crate) fn is_of(&self, frame: &Frame) -> bool {
        Some(&self.symbol) == frame.symbol.as_ref()
            && self.module == frame.module
            && self.also == frame.also
    }

    /// How a pattern means it. The name that the pattern means best decides.
    pub fn meaning(&self, pattern: &FunctionPattern) -> Option<Meaning> {
        let names = std::iter::once(&self.symbol).chain(&*self.also);
        pattern.best_meaning(&self.module, &self.paths, names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_stars() {
        for (pattern, name, matches) in [
            ("main", "main", true),
            ("MAIN", "main", true),
            ("main", "mainly", false),
            ("nt*", "ntoskrnl.exe", true),
            ("*.exe", "ntoskrnl.exe", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            // Each part is looked for behind the one before.
            ("*ab*ab*", "ab", false),
            ("*ab*ab*", "xabxab", true),
            ("*a", "a", true),
            ("a*a", "a", false),
            ("*", "", true),
            ("", "", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(name), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn a_function_as_it_is_shown_or_by_a_part_of_that() {
        use Meaning::{Suffix, Whole, WithoutArguments};
        const STEP: &str = "ns::Solver<double, 3>::step(int)";
        const DATE: &str = "System.DateTime.GetDatePart(int32)";
        for (typed, module, symbol, meaning) in [
            ("pO1!matmul", "pO1", "matmul", Some(Whole)),
            ("po1!MATMUL", "pO1", "matmul", Some(Whole)),
            ("other!matmul", "pO1", "matmul", None),
            ("plugin!f", r"A\plugin.dll", "f", Some(Whole)),
            (r"A\plugin!f", r"A\plugin.dll", "f", Some(Whole)),
            ("in!f", r"A\plugin.dll", "f", None),
            ("matmul", "pO1", "matmul", Some(Whole)),
            ("mat", "pO1", "matmul", None),
            ("", "pO1", "matmul", None),
            ("mscorlib.dll!System.DateTime.GetDatePart(int32)", "mscorlib.dll", DATE, Some(Whole)),
            ("mscorlib!GetDatePart", "mscorlib.dll", DATE, Some(Suffix)),
            ("System.DateTime.GetDatePart", "mscorlib.dll", DATE, Some(WithoutArguments)),
            ("DateTime.GetDatePart(int32)", "mscorlib.dll", DATE, Some(Suffix)),
            ("Time.GetDatePart", "mscorlib.dll", DATE, None),
            (STEP, "a", STEP, Some(Whole)),
            ("ns::Solver<double,3>::step(int)", "a", STEP, Some(Whole)),
            ("ns::Solver<double, 3>::step", "a", STEP, Some(WithoutArguments)),
            ("ns::Solver::step", "a", STEP, Some(WithoutArguments)),
            ("Solver::step", "a", STEP, Some(Suffix)),
            ("Solver<double, 3>::step(int)", "a", STEP, Some(Suffix)),
            ("step(int)", "a", STEP, Some(Suffix)),
            ("step", "a", STEP, Some(Suffix)),
            ("step(double)", "a", STEP, None),
            ("ep", "a", STEP, None),
            // As a table without room has shown it.
            ("ns::Sol…step(int)", "a", STEP, Some(Whole)),
            ("*step*", "a", STEP, Some(Whole)),
            ("a!*", "a", STEP, Some(Whole)),
            ("b!*", "a", STEP, None),
            ("cold", "a", "work.cold", None),
            ("123", "a", "work.llvm.123", None),
            ("work.cold", "a", "work.cold", Some(Whole)),
            ("A::operator()", "a", "A::operator()", Some(Whole)),
            ("operator()", "a", "A::operator()(int)", Some(Suffix)),
            ("sort", "a", "void std::sort<int*>(int*, int*)", Some(Suffix)),
            ("std::sort", "a", "void std::sort<int*>(int*, int*)", Some(WithoutArguments)),
            // Only a name with a module is split at its `!`.
            ("operator!", "a", "A::operator!()", Some(Suffix)),
        ] {
            let pattern = FunctionPattern::new(typed);
            assert_eq!(pattern.meaning(module, &[], symbol), meaning, "{typed} {symbol}");
        }
    }

    #[test]
    fn only_where_no_name_is_exact_its_end_is() {
        let all = ["step", "ns::step(int)", "ns::step(double)", "stepper"];
        let settled = |typed: &str| {
            let mut pattern = FunctionPattern::new(typed);
            let meaning = |pattern: &FunctionPattern, name: &&str| pattern.meaning("a", &[], name);
            let meant = pattern.settle(all, meaning);
            let matched = all.into_iter().filter(|name| pattern.matches("a", &[], name));
            assert_eq!(matched.collect::<Vec<_>>(), meant, "{typed}");
            meant
        };
        assert_eq!(settled("step"), ["step"]);
        assert_eq!(settled("ns::step"), all[1..3]);
        assert_eq!(settled("step(int)"), all[1..2]);
        assert_eq!(settled("step*"), all);
        assert!(settled("none").is_empty());
    }

    #[test]
    fn a_module_by_its_path_or_the_end_of_that() {
        let paths = [r"C:\app\A\plugin.dll".into()];
        for (typed, matches) in [
            ("plugin.dll", true),
            (r"A\plugin.dll", true),
            ("app/a/PLUGIN.dll", true),
            (r"C:\app\A\plugin.dll", true),
            ("*plugin*", true),
            (r"B\plugin.dll", false),
            ("in.dll", false),
            ("plugin", false),
        ] {
            let pattern = Pattern::new(typed);
            assert_eq!(pattern.matches_module("plugin.dll", &paths), matches, "{typed}");
        }
    }
}
