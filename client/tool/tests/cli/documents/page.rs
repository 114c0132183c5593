//! The commands of a page of Markdown, with what the page states of them.
//!
//! Commands stand in indented or fenced blocks, and in the text as `halprof ...`. Every one of them is
//! run. What keeps one from running as it stands is said in the page itself, in a comment that no reader
//! sees, `<!-- test MARK -->`. A mark on a line of its own is for the next block or paragraph, one within
//! a line for that line:
//!
//! | mark | says |
//! |---|---|
//! | `unrun: REASON` | these are not run, but the tool must know their options |
//! | ``unrun `PREFIX`: REASON`` | the same of the lines that begin so |
//! | `elsewhere: FILE` | that test runs them |
//! | `file: NAME` | the block is this file |
//! | `ends: 0 1` | the exit statuses, one for each command; otherwise all end with 0 |
//! | ``varies `PATTERN`: REASON`` | what matches may differ; `#` in it stands for a number |
//!
//! These are for all that follows in the page:
//!
//! | mark | says |
//! |---|---|
//! | `first: COMMAND` | runs the command here, to make the files that the page reads |
//! | `with: WORD = TEXT; ...` | what stands for a word in the commands |
//! | `needs: FILE` | a file of `../shared`; what follows runs only where it is |

/// A command, with where it stands and what is said of it.
#[derive(Debug, Default)]
pub(super) struct Command {
    /// Counted from 0.
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) status: i32,
    /// Is only its command line checked?
    pub(super) unrun: bool,
    pub(super) stated: Option<Stated>,
}

/// Output that a page states.
#[derive(Debug)]
pub(super) struct Stated {
    /// The lines of the page.
    pub(super) lines: std::ops::Range<usize>,
    pub(super) text: Vec<String>,
    /// What stands before each line in the page.
    pub(super) indent: &'static str,
    pub(super) varies: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Step {
    Run(Command),
    File {
        name: String,
        text: String,
    },
    With(Vec<(String, String)>),
    Needs(String),
    /// Another test runs these.
    Elsewhere(String),
}

#[derive(Clone, Debug, Default)]
struct Marks {
    unrun: Option<String>,
    elsewhere: Option<String>,
    file: Option<String>,
    ends: Vec<i32>,
    varies: Vec<String>,
}

const INDENT: &str = "    ";

/// How pages call the tool. All are `halprof` to a shell in which the tests run it.
pub(super) const CALLS: [&str; 4] = ["halprof ", "halprof.exe ", r".\halprof.exe ", "cargo run "];

pub(super) fn steps(page: &str) -> Result<Vec<Step>, String> {
    let mut reader = Reader { lines: page.lines().collect(), ..Reader::default() };
    while reader.at < reader.lines.len() {
        let line = reader.at + 1;
        reader.next().map_err(|error| format!("line {line}: {error}"))?;
    }
    Ok(reader.steps)
}

#[derive(Default)]
struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
    /// What was said of the block or paragraph that comes next.
    marks: Marks,
    steps: Vec<Step>,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<(), String> {
        let line = self.lines[self.at];
        if line.starts_with("<!-- test ") && line.ends_with("-->") {
            let mut marks = std::mem::take(&mut self.marks);
            for mark in marks_of(line) {
                self.mark(mark, &mut marks)?;
            }
            self.marks = marks;
            self.at += 1;
            return Ok(());
        }
        if line.is_empty() {
            self.at += 1;
            return Ok(());
        }
        let marks = std::mem::take(&mut self.marks);
        if let Some(language) = line.strip_prefix("```") {
            let end = (self.at + 1..self.lines.len()).find(|line| self.lines[*line] == "```");
            let end = end.ok_or("a fence without an end")?;
            self.block(self.at + 1..end, "", language, marks)?;
            self.at = end + 1;
        } else if line.starts_with(INDENT) {
            let mut end = self.at;
            for at in self.at..self.lines.len() {
                match self.lines[at] {
                    "" => {}
                    line if line.starts_with(INDENT) => end = at + 1,
                    _ => break,
                }
            }
            self.block(self.at..end, INDENT, "", marks)?;
            self.at = end;
        } else {
            // A paragraph; what follows a heading is not of it.
            let ends = |line: &str| line.is_empty() || line.starts_with("```");
            let heading = line.starts_with('#');
            loop {
                self.sentence(self.at, marks.clone())?;
                self.at += 1;
                if heading || self.lines.get(self.at).is_none_or(|line| ends(line)) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn mark(&mut self, mark: &str, marks: &mut Marks) -> Result<(), String> {
        let (key, value) = mark.split_once(':').ok_or("a mark without a colon")?;
        let value = value.trim();
        let (key, quoted) = match key.split_once('`') {
            None => (key, ""),
            Some((key, quoted)) => (key.trim(), quoted.trim_end_matches('`')),
        };
        if value.is_empty() {
            return Err(format!("`{key}` says nothing"));
        }
        let all = |text: &str| text.split(';').map(replacement).collect::<Result<_, String>>();
        match key {
            "unrun" => marks.unrun = Some(quoted.to_owned()),
            "elsewhere" => marks.elsewhere = Some(value.to_owned()),
            "file" => marks.file = Some(value.to_owned()),
            "varies" => marks.varies.push(quoted.to_owned()),
            "ends" => {
                let statuses = value.split_whitespace().map(str::parse);
                marks.ends = statuses.collect::<Result<_, _>>().map_err(|_| "a status")?;
            }
            "first" => self.steps.push(Step::Run(Command {
                line: self.at,
                text: value.to_owned(),
                ..Command::default()
            })),
            "with" => self.steps.push(Step::With(all(value)?)),
            "needs" => self.steps.push(Step::Needs(value.to_owned())),
            _ => return Err(format!("no mark is called `{key}`")),
        }
        Ok(())
    }

    /// The commands within a line of text.
    fn sentence(&mut self, line: usize, mut marks: Marks) -> Result<(), String> {
        let text = self.lines[line];
        let begins =
            text.trim_start_matches(|one: char| one.is_ascii_digit() || " -*.".contains(one));
        if begins.starts_with("<!--") {
            return Err("Markdown shows a line that begins with a comment as it stands".to_owned());
        }
        for mark in marks_of(text) {
            self.mark(mark, &mut marks)?;
        }
        let quoted = without_marks(text);
        let quoted = quoted.split('`').skip(1).step_by(2);
        let call = |text: &&str| CALLS[..3].iter().any(|call| text.starts_with(call));
        let commands = quoted.filter(call).map(|text| (line, text.replace("\\|", "|"), None));
        let commands: Vec<_> = commands.collect();
        self.commands(commands, marks)
    }

    fn block(
        &mut self,
        lines: std::ops::Range<usize>,
        indent: &'static str,
        language: &str,
        marks: Marks,
    ) -> Result<(), String> {
        let all = self.lines[lines.clone()].iter();
        let all: Vec<&str> = all.map(|line| line.strip_prefix(indent).unwrap_or(line)).collect();
        if let Some(name) = marks.file {
            self.steps.push(Step::File { name, text: all.join("\n") + "\n" });
            return Ok(());
        }
        let shows = |prefix: &str| all.iter().any(|line| line.starts_with(prefix));
        let shell = match language {
            "" | "sh" | "console" => true,
            "text" => shows("halprof ") || shows("$ "),
            _ => false,
        };
        if !shell {
            return Ok(());
        }
        let numbered = all.iter().enumerate().map(|(at, line)| (lines.start + at, *line));
        let mut commands: Vec<(usize, String, Option<Stated>)> = Vec::new();
        if shows("$ ") {
            for (at, line) in numbered {
                if let Some(command) = line.strip_prefix("$ ") {
                    let stated = Stated {
                        lines: at + 1..at + 1,
                        text: Vec::new(),
                        indent,
                        varies: marks.varies.clone(),
                    };
                    commands.push((at, command.to_owned(), Some(stated)));
                    continue;
                }
                let last = commands.last_mut().and_then(|(_, _, stated)| stated.as_mut());
                let stated = last.ok_or("output before its command")?;
                stated.text.push(line.to_owned());
                stated.lines.end = at + 1;
            }
            for stated in commands.iter_mut().filter_map(|(_, _, stated)| stated.as_mut()) {
                while stated.text.pop_if(|line| line.is_empty()).is_some() {
                    stated.lines.end -= 1;
                }
            }
        } else {
            let lines = numbered.filter(|(_, line)| !line.is_empty());
            commands.extend(lines.map(|(at, line)| (at, uncommented(line), None)));
        }
        self.commands(commands, marks)
    }

    fn commands(
        &mut self,
        commands: Vec<(usize, String, Option<Stated>)>,
        marks: Marks,
    ) -> Result<(), String> {
        if commands.is_empty() {
            return Ok(());
        }
        if let Some(test) = marks.elsewhere {
            self.steps.push(Step::Elsewhere(test));
            return Ok(());
        }
        if !marks.ends.is_empty() && marks.ends.len() != commands.len() {
            return Err(format!("{} commands, {} statuses", commands.len(), marks.ends.len()));
        }
        let mut ends = marks.ends.iter().copied();
        for (line, text, stated) in commands {
            let unrun = marks.unrun.as_ref().is_some_and(|prefix| text.starts_with(prefix));
            let status = ends.next().unwrap_or(0);
            self.steps.push(Step::Run(Command { line, text, status, unrun, stated }));
        }
        Ok(())
    }
}

fn marks_of(line: &str) -> impl Iterator<Item = &str> {
    let marks = line.split("<!-- test ").skip(1);
    marks.filter_map(|rest| rest.split_once("-->")).map(|(mark, _)| mark.trim())
}

fn without_marks(line: &str) -> String {
    let mut parts = line.split("<!-- ");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.filter_map(|part| part.split_once("-->")).map(|(_, rest)| rest);
    first + &rest.collect::<String>()
}

fn replacement(text: &str) -> Result<(String, String), String> {
    let (word, text) = text.split_once('=').ok_or("`with` takes WORD = TEXT")?;
    Ok((word.trim().to_owned(), text.trim().to_owned()))
}

/// A line without what a page says beside it in a second column.
fn uncommented(line: &str) -> String {
    let mut quoted = None;
    for (at, character) in line.char_indices() {
        match (character, quoted) {
            ('"' | '\'', None) => quoted = Some(character),
            (_, Some(quote)) if quote == character => quoted = None,
            (' ', None) if line[at..].starts_with("  ") => return line[..at].to_owned(),
            _ => {}
        }
    }
    line.to_owned()
}
