//! The text below the options in help: examples, and what does not fit into an option's own text.
//!
//! A test takes every line that begins with `halprof` for a command line.

use crate::output::table::Width;
use clap::Command;

/// The commands by what they are for, those that most need first.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Measure", &["stat", "record", "top", "timeline", "simulate", "rdpmc"]),
    ("Read", &["report", "annotate", "script", "export", "convert"]),
    ("Look up", &["list", "explain", "check", "info", "machines", "registers"]),
    ("Install", &["doctor", "install", "uninstall", "start", "stop", "completions"]),
];

/// Lets the help of the tool show the commands in groups, which clap has for options alone.
pub(crate) fn with_groups(command: Command, width: Width) -> Command {
    let heading = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut template = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (group, names) in GROUPS {
        template += &format!("\n{heading}{group}:{heading:#}\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let about = width.prose(15, &about);
            template += &format!("  {literal}{name:<11}{literal:#}  {about}\n");
        }
    }
    let command = command.override_usage("halprof [OPTIONS] <COMMAND>");
    let command = command.help_template(template + "\n{all-args}{after-help}");
    command.mut_subcommands(|one| one.hide(true))
}

/// The same text with each paragraph in one line, which breaks where the terminal ends. Lines that begin
/// with a blank, such as examples, stand as they are.
pub(crate) fn flowing(text: &str) -> String {
    let mut flowing = String::new();
    let mut in_paragraph = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        flowing.push_str(match (in_paragraph, is_prose) {
            (true, true) => " ",
            _ if flowing.is_empty() => "",
            _ => "\n",
        });
        flowing += line;
        in_paragraph = is_prose;
    }
    flowing
}

pub(crate) const HALPROF: &str = "\
Examples:
  halprof stat -e TotalIssues,CacheMisses -- app.exe     count while a program runs
  halprof record -e TotalCycles -- app.exe               sample a program
  halprof report halprof.rec                             summarize what was recorded
  halprof --machine zen4 stat                            count on a model of a processor
  halprof doctor                                         find out why something does not work

`halprof help COMMAND` shows the options and examples of a command, and `halprof help workload` says
what `--workload` takes. `@FILE` reads arguments from FILE, one per line, unless a file is called
`@FILE`.";

pub(crate) const INFO: &str = "\
Examples:
  halprof info
  halprof --json info
  halprof info --machine hyperv-guest-intel";

pub(crate) const DOCTOR: &str = "\
Examples:
  halprof doctor
  halprof doctor --prove         do the counters tell the truth? about half a minute
  halprof doctor --prove=all     the same on every processor
  halprof doctor --prove --machine etw   the same by Windows' own tracing

`--prove` counts five runs of a loop whose instructions are known, and answers three questions for
each processor, each with agrees, disagrees or cannot-tell:
  instructions   the count is within 0.01 % of what the loop has, in user mode; by tracing it is
                 never below that and at most 2 % above, because interrupts are in it
  clock          cycles a second are from a quarter to 1.5 times the time-stamp counter's rate
  repeats        the cycles of equal runs are within 1 % of each other (median)
What is printed names no user and no folder, so it can be sent as it is. The status is 4 if anything
disagrees.";

pub(crate) const LIST: &str = "\
Examples:
  halprof list                   what can be counted here
  halprof list --all -v          every source, and why some cannot be counted
  halprof list --metrics         metrics that can be computed from the counters here
  halprof list --event-format reg > events.reg";

pub(crate) const CHECK: &str = "\
Examples:
  halprof check -e TotalIssues,TotalCycles,CacheMisses
  halprof check -g TotalIssues,TotalCycles";

/// What `halprof help workload` prints.
pub(crate) const WORKLOAD: &str = "\
Workloads (modelled machines only):
  instructions=N cycles=N branches=N branch-misses=N ref-cycles=N llc-references=N
  llc-misses=N l1d-accesses=N l1d-misses=N l1i-fetches=N l1i-misses=N
  fp-operations=N                how many events happen
  user=80                        percent of them in user mode [default: 100]
  processors=0-3+8               where it runs, with the whole amount on each; `all` [default: 0]
  code=START-END                 the addresses at which it runs
  image=FILE function=NAME       the program and the function whose code it runs
  seed=N                         vary the rates over time; totals stay exact
  programs=70+30                 percentages of programs that take turns on each processor
  short=A+L                      short.exe runs for L nanoseconds, from A nanoseconds on
  skid=N                         interrupts come N steps late
  drift=P+P+...                  percent of its cycles that it has in one run after the other
  Default: 100 million instructions in 150 million cycles on each processor, 90 % user, in a small
  program that has functions, code and source. It runs again until `--duration` is over; a
  `--workload` never does.
  A workload without any amount has the default ones. Events of issue slots have amounts too, where
  they are counted.";

pub(crate) const STAT: &str = "\
Examples:
  halprof stat                                   the default counts and metrics, until Ctrl-C
  halprof stat -e TotalIssues:u,CacheMisses -d 5
  halprof stat -M ipc,branch-mpki -- app.exe --fast
  halprof stat -I 100 --csv -o counts.csv -d 10
  halprof stat -r 10 --trim -e TotalCycles -- app.exe
  halprof stat -r 10 --diff base.json --fail-above 2 -- app.exe
  halprof stat -r 10 --against old.exe --fail-above 2 -- new.exe --fast
  halprof stat --from trace.etl --by thread -M ipc

Metric files (--metric-file FILE) are TOML:
  [[metric]]
  id = \"stall-share\"
  name = \"cycles stalled\"
  unit = \"%\"
  formula = \"100 * r01A2 / cycles\"   sources or quantities, each with :u or :k";

pub(crate) const RECORD: &str = "\
Periods:
  -e SOURCE:PERIOD takes one sample every PERIOD events (ProfileTime: units of 100 ns).
  Modes come before or after it: -e TotalCycles:100000:u
  Without a PERIOD, cycles and instructions take about 1,000 samples a second, other sources their
  default. Each period is then drawn from a narrow band around that mean, or around the one that
  --rate needs, so that samples do not fall into step with the program's loops.

Examples:
  halprof record -- app.exe
  halprof record -e TotalCycles:u,CacheMisses -o app.rec -- app.exe
  halprof record --rate 1000 -d 10
  halprof record -M ipc,branch-mpki -d 10        then: halprof report -M ipc,branch-mpki
  halprof record --branches -e BranchInstructions:u -- app.exe";

pub(crate) const REPORT: &str = "\
Examples:
  halprof report halprof.rec
  halprof report halprof.rec --by process,symbol --rows 50
  halprof report halprof.rec -M ipc --by symbol
  halprof report halprof.rec --by core
  halprof report halprof.rec --by edge,line --sort mispredicted
  halprof report halprof.rec --module \"nt*\" --by address --csv
  halprof report before.rec --diff after.rec --by symbol
  halprof report a1.rec a2.rec a3.rec --diff b1.rec b2.rec b3.rec --fail-above 5

`--diff` compares events: the totals, then each row, with the ratio and its 95 % bound. A row is
`more` or `fewer` only beyond chance: 97 of 100 comparisons of identical runs show none. `same`
excludes a change of more than 5 %. With fewer than three files on a side, that side's bound is of
sampling alone, and does not say how much runs vary. With one file on a side, the whole and rows
with bounds below 1 % are `unclear`: runs of one program usually differ by about as much.
`--fail-above` takes at least two files on each side.";

pub(crate) const SCRIPT: &str = "\
Examples:
  halprof script halprof.rec
  halprof script halprof.rec --process app.exe --time 1-2
  halprof script halprof.rec --csv > samples.csv";

pub(crate) const ANNOTATE: &str = "\
Examples:
  halprof annotate halprof.rec
  halprof annotate halprof.rec \"Solver::step\" --source-dir src --symbol-path build";

pub(crate) const SIMULATE: &str = "\
Examples:
  halprof simulate --range solve -- app.exe
  halprof simulate --range \"Solver::step\" --by line -- app.exe input.txt
  halprof simulate --range main+64 --machine zen4 --csv -- app.exe
  halprof simulate --range 'libc.so.6!qsort' --calls -- ./app
  halprof simulate --range solve --diff base.json --fail-above 1 -- app.exe

With `--fail-above` the status is 1 if anything got worse by more than that; if the program fails, the
status is the program's.

Executions, branches taken and memory accesses are counted, not sampled. Columns with a star are
modelled: they are misses of caches that are empty at the start of the range. Calls out of the range
run at full speed. No driver is needed.";

pub(crate) const TIMELINE: &str = "\
Examples:
  halprof timeline -- app.exe                    record marks, and show them
  halprof timeline -o app.rec -- app.exe input.txt
  halprof timeline app.rec --channel \"req*\" --rows 100
  halprof timeline app.rec --ticks 10us          a row for each channel, a column for each tick
  halprof timeline app.rec --between begin,end
  halprof timeline app.rec --csv > marks.csv

A program makes marks with halprof's library, in Rust, C or Python: mark(channel, value) stores the
time without a system call. The programs that it starts may make marks too. Without a recorder, a
mark costs a test and a branch. No driver is needed; `halprof record` records marks beside samples.";

pub(crate) const CONVERT: &str = "\
The recording keeps samples with their call stacks, processes, modules, methods of .NET and
JavaScript, and the sums of the counts of each thread. It leaves out context switches, which
`report --off-cpu` needs, and `stat --from` for a part of the time or of the processors. It also
leaves out samples of idle threads, except for their number, and all other events.

Examples:
  halprof convert trace.etl -o trace.rec
  halprof report trace.rec";

pub(crate) const EXPORT: &str = "\
Examples:
  halprof export halprof.rec --open              a page, in the browser
  halprof export trace.etl -o trace.html
  halprof export halprof.rec --format firefox --source TotalCycles
  halprof export halprof.rec --format folded -o -
  halprof export halprof.rec --format perf-script --symbol-path build";

pub(crate) const TOP: &str = "\
Examples:
  halprof top -e TotalIssues,TotalCycles,CacheMisses
  halprof top --once
  halprof top --by process,symbol                functions, by the samples in them
  halprof top --by symbol -e CacheMisses:10000 --once
  halprof top --by processor -I 500              rates on each processor";

pub(crate) const INSTALL: &str = "\
Examples:
  halprof install                          the driver, from the package's folder
  halprof install --tracing --user PC\\Ann  no driver: Ann may measure by `--machine etw` unelevated

`--tracing` gives the user right \"Profile system performance\", membership of Performance Log Users,
and access to halprof's session and to the kernel's events. The account has them from the next sign-in
on. Whoever has them sees the addresses and command lines of all programs.";

pub(crate) const RDPMC: &str = "\
Examples:
  halprof rdpmc -- app.exe       while a program runs, whose exit status is passed on
  halprof rdpmc hold             until Ctrl-C
  halprof rdpmc status           whether it is allowed, and by whom

RDPMC is allowed for every program on the machine. Under a hypervisor this is refused.";

pub(crate) const EXPLAIN: &str = "\
Examples:
  halprof explain                        list the codes
  halprof explain counters-reserved      an error code
  halprof explain CacheMisses            a source on this machine";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Arguments;
    use clap::Arg;
    use std::collections::BTreeSet;

    #[test]
    fn a_paragraph_breaks_where_the_terminal_ends() {
        let text = "Examples:\n  a\n  b  c\n\nOne\ntwo\nthree:\n  d\n";
        assert_eq!(flowing(text), "Examples:\n  a\n  b  c\n\nOne two three:\n  d");
        assert_eq!(flowing(""), "");
    }

    #[test]
    fn each_command_is_in_one_group() {
        let command = Arguments::definition();
        let mut commands: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        commands.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, commands);
    }

    #[test]
    fn options_are_few_and_differ_by_more_than_an_s() {
        let mut tool = Arguments::definition();
        tool.build();
        let options = |command: &Command| -> Vec<(String, bool)> {
            let own = command.get_arguments().filter(|one| !one.is_positional());
            let own = own.filter(|one| !one.is_hide_set());
            let named = |one: &Arg| Some((one.get_long()?.to_owned(), is_rare(one)));
            own.filter_map(named).collect()
        };
        let mut all: BTreeSet<String> = options(&tool).into_iter().map(|(name, _)| name).collect();
        for command in tool.get_subcommands() {
            let own = options(command);
            let often = own.iter().filter(|(_, is_rare)| !is_rare).count();
            assert!(
                often <= 20,
                "{}: {often} options before \"Rarely needed\"",
                command.get_name()
            );
            for (name, _) in &own {
                let plural = format!("{name}s");
                assert!(!own.iter().any(|(other, _)| *other == plural), "--{name} and --{plural}");
            }
            all.extend(own.into_iter().map(|(name, _)| name));
        }
        assert!(all.len() <= 80, "{} options: {all:?}", all.len());
    }

    fn is_rare(option: &Arg) -> bool {
        option.get_help_heading() == Some("Rarely needed")
    }

    /// The shortest period of a source that counts events.
    const SHORTEST: u64 = 4_096;

    #[test]
    fn every_example_is_a_command_line() {
        let all = [
            HALPROF, INFO, LIST, CHECK, STAT, RECORD, REPORT, SCRIPT, ANNOTATE, SIMULATE, EXPORT,
            CONVERT, TOP, TIMELINE, EXPLAIN,
        ];
        let lines = all.iter().flat_map(|text| text.lines());
        let commands: Vec<&str> =
            lines.filter_map(|line| line.strip_prefix("  halprof ")).collect();
        assert!(commands.len() > 30, "{commands:?}");
        for command in commands {
            // A description may follow the command.
            let command = command.split("  ").next().unwrap_or_default();
            let command = command.split(" > ").next().unwrap_or_default();
            let words = command.split_whitespace().map(|word| word.trim_matches('"'));
            let words: Vec<&str> = words.collect();
            let mut fields = words.iter().flat_map(|word| word.split([',', ':']).skip(1));
            let too_short = fields.find(|field| field.parse().is_ok_and(|n: u64| n < SHORTEST));
            assert_eq!(too_short, None, "{command}: a longer period would be used");
            let parsed = Arguments::parse_from(["halprof"].iter().chain(&words));
            assert!(parsed.is_ok(), "{command}: {parsed:?}");
        }
    }
}
