//! Does the live view work on a real terminal, and leave it as it was?

use crate::cli::support::{program, signal, skipped};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// An instruction in every cycle of 1 GHz, a branch in every fourth, on every processor.
const WORKLOAD: &str = "instructions=1000000,cycles=1000000,branches=250000,processors=all";
/// What the shell does after the view has ended: it prints the exit status and the terminal's
/// state.
const AFTERWARDS: &str = "echo status $?; stty -a; echo all was said; sleep 60";
const MACHINE: &str = "skylake,processors=2";

/// What is awaited comes at once, or on a busy machine within this time.
const SOON: Duration = Duration::from_secs(60);

/// A terminal of its own, provided by tmux.
struct Terminal {
    folder: TempDir,
}

impl Terminal {
    /// Runs a shell command on a terminal of 100 columns and 30 rows; `None`, with a message, if
    /// tmux is missing and not required.
    fn new(command: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        if let Err(error) = Command::new("tmux").arg("-V").output() {
            skipped(&format!("tmux: {error}"));
            return None;
        }
        let terminal = Self { folder };
        let size = ["-x", "100", "-y", "30"];
        let start = [&["-u", "-f", "/dev/null", "new-session", "-d"], &size[..], &[command]];
        let output = terminal.tmux(&start.concat());
        assert!(output.status.success(), "{output:?}");
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = program("tmux");
        command.arg("-S").arg(self.folder.path().join("socket"));
        command.args(arguments).output().expect("tmux")
    }

    fn press(&self, keys: &[&str]) {
        let output = self.tmux(&[&["send-keys"], keys].concat());
        assert!(output.status.success(), "{output:?}");
    }

    /// The content of the screen; with `-e`, including its colours.
    fn screen(&self, options: &[&str]) -> String {
        let output = self.tmux(&[&["capture-pane", "-p"], options].concat());
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Waits until the screen is as wanted; returns it.
    fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + SOON;
        loop {
            let screen = self.screen(&[]);
            if wanted(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "never {what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The screen after the view has ended with status 0.
    fn ended(&self) -> String {
        let after = self.until("ended", |screen| screen.contains("all was said"));
        assert!(after.contains("status 0"), "{after}");
        after
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn top(options: &str) -> String {
    let tool = env!("CARGO_BIN_EXE_halprof");
    format!("'{tool}' --machine {MACHINE} top -I 50 --workload {WORKLOAD} {options}")
}

/// Whether a source has a row that begins with this rate.
fn shows(screen: &str, source: &str, rate: &str) -> bool {
    let mut lines = screen.lines().map(str::trim);
    lines.any(|line| line.starts_with(rate) && line.ends_with(source))
}

/// Whether a screen with its escape sequences sets any foreground colour.
fn is_coloured(screen: &str) -> bool {
    let sequences = screen.split("\u{1b}[").skip(1);
    let mut parameters = sequences.filter_map(|rest| Some(rest.split_once('m')?.0));
    parameters.any(|all| all.split(';').any(|one| matches!(one, "33" | "36" | "38")))
}

#[test]
fn it_is_watched_and_steered_on_a_terminal() {
    let command = format!("{}; {AFTERWARDS}", top("-e BranchInstructions,TotalIssues"));
    let Some(terminal) = Terminal::new(&command) else { return };
    // Two processors of 1 GHz.
    let screen = terminal.until("the rates of the workload", |screen| {
        shows(screen, "TotalIssues", "2.000 G") && shows(screen, "BranchInstructions", "500.0 M")
    });
    assert!(screen.starts_with("MODELLED "), "{screen}");
    assert!(is_coloured(&terminal.screen(&["-e"])));
    terminal.until("a trace", |screen| screen.contains("\u{2588}\u{2588}"));

    // What each key does is proved by the tests of the view and of its state.
    terminal.press(&["s"]);
    terminal.until("sorted by rate", |screen| screen.contains(" by rate/s, "));
    terminal.press(&["Space"]);
    terminal.until("paused", |screen| screen.contains(" PAUSED "));
    terminal.press(&["Space"]);
    terminal.until("going on", |screen| !screen.contains(" PAUSED "));

    terminal.tmux(&["resize-window", "-x", "20", "-y", "5"]);
    terminal.until("small", |screen| screen.lines().count() == 5 && screen.contains("2.000 G"));
    terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    terminal.until("large again", |screen| screen.contains("? help"));

    terminal.press(&["q"]);
    let after = terminal.ended();
    // The alternate screen is gone, and the terminal reads lines and echoes them.
    assert!(!after.contains("MODELLED") && after.contains("modelled machine"), "{after}");
    let words: Vec<&str> = after.split_whitespace().collect();
    for setting in ["icanon", "echo", "isig", "icrnl", "opost"] {
        assert!(words.contains(&setting), "{setting}: {after}");
    }
}

#[test]
fn it_ends_by_ctrl_c_by_a_signal_and_by_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let process = folder.path().join("process");
    for how in ["C-c", "kill", "time"] {
        let limit = if how == "time" { "-d 1" } else { "" };
        let own = format!("echo \\$\\$ > '{}'; exec {}", process.display(), top(limit));
        let command = format!("export NO_COLOR=1; sh -c \"{own}\"; {AFTERWARDS}");
        let Some(terminal) = Terminal::new(&command) else { return };
        terminal.until("drawn", |screen| screen.starts_with("MODELLED "));
        assert!(!is_coloured(&terminal.screen(&["-e"])), "{how}");
        match how {
            "C-c" => terminal.press(&["C-c"]),
            "kill" => {
                let process = std::fs::read_to_string(&process).expect("a number");
                signal("TERM", process.trim());
            }
            _ => {}
        }
        let after = terminal.ended();
        assert!(after.contains(" icanon"), "{how}: {after}");
    }
}

/// The window is closed while the view runs in it.
#[test]
#[cfg(target_os = "linux")]
fn it_ends_with_its_terminal() {
    let Some(terminal) = Terminal::new(&format!("exec {}", top(""))) else { return };
    terminal.until("drawn", |screen| screen.starts_with("MODELLED "));
    let process = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]).stdout;
    let process = String::from_utf8(process).expect("a number");
    let stat = format!("/proc/{}/stat", process.trim());
    assert!(std::fs::read_to_string(&stat).expect("it runs").contains("(halprof)"));
    drop(terminal);
    let end = Instant::now() + SOON;
    // It is gone, or a zombie.
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < end, "it still runs");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn functions_are_watched_on_a_terminal() {
    let command =
        format!("{}; {AFTERWARDS}", top("--by process,symbol -e TotalCycles,TotalIssues:k"));
    let Some(terminal) = Terminal::new(&command) else { return };
    // The workload runs in user mode alone.
    let screen = terminal.until("a share", |screen| {
        screen.contains("100.00 %") && screen.contains("modelled.exe (4096)")
    });
    assert!(screen.starts_with("MODELLED "), "{screen}");
    assert!(screen.contains(" samples in ") && screen.contains(", 0 lost"), "{screen}");
    // One source is named too, with its period.
    assert!(screen.contains("\nTotalCycles, period "), "{screen}");
    let moving = |screen: &str| screen.lines().nth(1).map(str::to_owned);
    let before = moving(&screen);
    terminal.until("the next interval", |screen| moving(screen) != before);
    terminal.press(&["q"]);
    terminal.ended();
}
