//! The registry file: a key for each group and for each source, of double words.

use super::{CustomSources, Group, extended_bits, interval};
use std::fmt::{self, Formatter};

/// Where Windows looks for custom sources when it starts.
const ROOT: &str = r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\WMI\ProfileSource";
/// The value of Intel's architecture, as Microsoft's Generate-PmuRegFile.ps1 (MSO-Scripts) writes
/// it; no document lists the values.
const INTEL: u64 = 2;
/// The values of [`extended_bits`], which are absent where they are 0.
const EXTENDED: [&str; 4] = ["CMask", "CMaskInvert", "AnyThread", "EdgeDetect"];
const USE: [&str; 3] = [
    "The vendor's events of this processor as sources of Windows' own tracing.",
    "Open this file with regedit as an administrator, then restart Windows: `wpr -pmcsources` and",
    "other tools list the events. To undo it, delete the keys under ProfileSource and restart.",
];

pub(super) fn write(sources: &CustomSources<'_>, f: &mut Formatter<'_>) -> fmt::Result {
    let mut lines = vec!["Windows Registry Editor Version 5.00".to_owned(), String::new()];
    let comment = |line: String| format!("; {line}");
    lines.extend(sources.remarks(&USE).into_iter().map(comment));
    lines.extend([String::new(), format!("[{ROOT}]"), String::new()]);
    for group in &sources.groups {
        if !group.events.is_empty() {
            group.append_to(&mut lines);
        }
        lines.extend(group.exclusions().into_iter().map(comment));
    }
    // regedit reads lines that end as Windows' do.
    lines.iter().try_for_each(|line| write!(f, "{line}\r\n"))
}

impl Group<'_> {
    fn append_to(&self, lines: &mut Vec<String>) {
        let (processor, name) = (&self.cpu_type.processor, self.name());
        lines.push(format!("; {}", self.title()));
        let (family, model) = (processor.family.into(), processor.model.into());
        let values = [("Architecture", INTEL), ("Family", family), ("Model", model)];
        append_key(lines, &name, &values);
        for event in &self.events {
            let mut values =
                vec![("Event", event.code.into()), ("Unit", u64::from(event.unit_mask))];
            values.extend(interval(event).map(|interval| ("Interval", interval)));
            let extended = EXTENDED.into_iter().zip(extended_bits(event).map(u64::from));
            values.extend(extended.filter(|(_, value)| *value != 0));
            append_key(lines, &format!(r"{name}\{}", event.name), &values);
        }
    }
}

fn append_key(lines: &mut Vec<String>, key: &str, values: &[(&str, u64)]) {
    lines.push(format!(r"[{ROOT}\{key}]"));
    lines.extend(values.iter().map(|(name, value)| format!("\"{name}\"=dword:{value:08x}")));
    lines.push(String::new());
}
