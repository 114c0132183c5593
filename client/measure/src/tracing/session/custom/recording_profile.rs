//! The recording profile: the sources, and a session that counts the first of them.
//!
//! The order of elements and their attributes are those of WPRControlProfiles.xsd.

use super::{CustomSources, Group, extended_bits, interval, is_amd};
use std::fmt::{self, Formatter, Write};

const USE: [&str; 5] = [
    "The vendor's events of this processor for Windows Performance Recorder (Windows 10 1903 and later).",
    "As an administrator: `wpr -profiles FILE` checks this file, `wpr -start FILE` begins to count at",
    "context switches, and `wpr -stop RESULT.etl` writes what was counted.",
    "It counts what <Counters> lists: the first events, until you name others (at most four).",
    "Strict: it is refused with 0x800700aa where somebody else has a counter.",
];
/// A session of Windows' own logger, with what names threads and code, around the sources and the
/// names of those that are counted. Without an encoding, because PowerShell's `>` makes UTF-16 of it.
const TEMPLATE: &str = include_str!("recording_profile.wprp");

pub(super) fn write(sources: &CustomSources<'_>, f: &mut Formatter<'_>) -> fmt::Result {
    let (mut groups, mut counters) = (String::new(), String::new());
    for group in &sources.groups {
        if !group.events.is_empty() {
            group.write(&mut groups)?;
        }
        groups += &comment(&group.exclusions());
    }
    for name in sources.counted() {
        writeln!(counters, "        <Counter Value=\"{name}\"/>")?;
    }
    let remarks = comment(&sources.remarks(&USE));
    let file = TEMPLATE.replace("{remarks}", &remarks).replace("{sources}", &groups);
    f.write_str(&file.replace("{counters}", &counters))
}

fn comment(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("<!-- {} -->\n", lines.join("\n     ")) }
}

impl Group<'_> {
    fn write(&self, f: &mut impl Write) -> fmt::Result {
        let processor = &self.cpu_type.processor;
        let architecture = if is_amd(self.cpu_type) { "AMD" } else { "INTEL" };
        writeln!(
            f,
            r#"      <ProfileSources Architecture="{architecture}" Family="{}" Model="{}" Description="{}">"#,
            processor.family,
            processor.model,
            self.title()
        )?;
        for event in &self.events {
            let (name, code, unit) = (&event.name, event.code, event.unit_mask);
            write!(
                f,
                r#"        <ProfileSource Name="{name}" Event="{code:#04x}" Unit="{unit:#04x}""#
            )?;
            if let Some(interval) = interval(event) {
                write!(f, r#" Interval="{interval:#x}""#)?;
            }
            let [counter_mask, invert, any_thread, edge] = extended_bits(event);
            let bits = format!("{counter_mask:02}{invert:02}{any_thread:02}{edge:02}");
            if extended_bits(event) != [0; 4] {
                write!(f, r#" ExtendedBits="{bits}""#)?;
            }
            f.write_str("/>\n")?;
        }
        writeln!(f, "      </ProfileSources>")
    }
}
