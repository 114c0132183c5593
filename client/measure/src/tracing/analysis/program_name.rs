//! Names of programs, where an event has one in a code page that it does not name.
//!
//! The event of a process has its image's name in 8-bit characters, with `?` where the code page has
//! no such letter. The paths of images and the command line are UTF-16, so they have the name as it
//! is.

use halprof_etw::payload::process::Process;

/// Replaces a letter that the code page lacks. No file's name may have it.
const SUBSTITUTE: char = '?';

/// Whether a name may be another one than its letters say.
pub(super) fn is_doubtful(name: &str) -> bool {
    !name.is_ascii() || name.contains(SUBSTITUTE)
}

/// The name of a process's program: that of the command line if the event's own is doubtful and the
/// command line begins with a name that it may stand for.
pub(super) fn of_event(event: &Process) -> String {
    let own = &event.image;
    if !is_doubtful(own) {
        return own.clone();
    }
    of_path(own, program(&event.command_line)).unwrap_or_else(|| own.clone())
}

/// The file's name in a path, if a doubtful name may stand for it.
///
/// A byte below 0x80 may be half a letter in Chinese, Japanese and Korean code pages, but not before
/// the first byte above: what comes before that is compared.
pub(super) fn of_path(doubtful: &str, path: &str) -> Option<String> {
    let file = path.rsplit(['\\', '/']).next()?;
    let is_sure = |char: char| char.is_ascii() && char != SUBSTITUTE;
    let known = &doubtful[..doubtful.find(|char| !is_sure(char))?];
    let (same, rest) = file.split_at_checked(known.len())?;
    let begins_alike = same.eq_ignore_ascii_case(known) && !rest.starts_with(is_sure);
    let extension = |name: &str| name.rsplit_once('.').map(|(_, extension)| extension.to_owned());
    let ending = extension(doubtful).filter(|ending| ending.is_ascii());
    match (ending, extension(file)) {
        _ if rest.is_empty() || !begins_alike => None,
        (Some(own), Some(other)) if own.eq_ignore_ascii_case(&other) => Some(file.to_owned()),
        // A prompt starts a program by its name alone.
        (Some(own), None) => Some(format!("{file}.{own}")),
        (None, None) => Some(file.to_owned()),
        _ => None,
    }
}

/// What a command line begins with.
fn program(command_line: &str) -> &str {
    let line = command_line.trim_start();
    match line.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => line.split([' ', '\t']).next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halprof_etw::payload::Change;

    #[test]
    fn a_doubtful_name_is_that_of_the_command_line_which_it_may_stand_for() {
        for (image, command_line, expected) in [
            ("gr\u{fffd}\u{fffd}e.exe", r#""C:\x\größe.exe" /go"#, "größe.exe"),
            ("gr\u{fffd}\u{fffd}e.exe", r"C:\x\größe.exe /go", "größe.exe"),
            ("gr\u{fffd}\u{fffd}e.exe", "GRÖSSE", "GRÖSSE.exe"),
            ("??????.exe", "привет", "привет.exe"),
            // Half a letter of code page 932 looks like ASCII.
            ("\u{fffd}`.exe", r#""C:\x\チ.exe""#, "チ.exe"),
            // Two letters of code page 936 are one of UTF-8.
            ("联通.exe", "鑱旈€.exe", "鑱旈€.exe"),
            ("größe.exe", "größe.exe", "größe.exe"),
            // Another program's name, and names that say no more.
            ("gr\u{fffd}\u{fffd}e.exe", "cmd.exe /c größe.exe", "gr\u{fffd}\u{fffd}e.exe"),
            ("gr\u{fffd}\u{fffd}e.exe", "größe.com", "gr\u{fffd}\u{fffd}e.exe"),
            ("gr\u{fffd}\u{fffd}e.exe", "green.exe", "gr\u{fffd}\u{fffd}e.exe"),
            ("gr\u{fffd}\u{fffd}e.exe", "", "gr\u{fffd}\u{fffd}e.exe"),
            ("plain.exe", "größe.exe", "plain.exe"),
        ] {
            let mut event = Process::new(Change::Start, 8, image);
            command_line.clone_into(&mut event.command_line);
            assert_eq!(of_event(&event), expected, "{image} by {command_line}");
        }
    }
}
