//! The recording profile: the sources, and a session that counts the first of them.
//!
//! The order of elements and their attributes are those of WPRControlProfiles.xsd.

use super::{CustomSources, Group, extended_bits, interval, is_amd};
use std::fmt::{self, Formatter};

const USE: [&str; 5] = [
    "The vendor's events of this processor for Windows Performance Recorder (Windows 10 1903 and later).",
    "As an administrator: `wpr -profiles FILE` checks this file, `wpr -start FILE` begins to count at",
    "context switches, and `wpr -stop RESULT.etl` writes what was counted.",
    "It counts what <Counters> lists: the first events, until you name others (at most four).",
    "Strict: it is refused with 0x800700aa where somebody else has a counter.",
];
/// What is before the sources: a session of Windows' own logger, with what names threads and code.
const COLLECTOR: &str = r#"<WindowsPerformanceRecorder Version="1.0">
  <Profiles>
    <SystemCollector Id="SystemCollector" Name="NT Kernel Logger">
      <BufferSize Value="1024"/>
      <Buffers Value="64"/>
    </SystemCollector>
    <SystemProvider Id="SystemProvider">
      <Keywords>
        <Keyword Value="ProcessThread"/>
        <Keyword Value="Loader"/>
        <Keyword Value="CSwitch"/>
      </Keywords>
    </SystemProvider>
    <MicroArchitecturalConfig Id="VendorEvents">
"#;
/// What is between the sources and the names of those that are counted.
const COUNTERS: &str = r#"    </MicroArchitecturalConfig>
    <HardwareCounter Id="HardwareCounter" Strict="true">
      <MicroArchitecturalConfigId Value="VendorEvents"/>
      <Counters>
"#;
const PROFILE: &str = r#"      </Counters>
      <Events>
        <Event Value="CSwitch"/>
      </Events>
    </HardwareCounter>
    <Profile Id="Counts.Verbose.File" Name="Counts" DetailLevel="Verbose" LoggingMode="File" Description="Counts of the vendor's events">
      <Collectors>
        <SystemCollectorId Value="SystemCollector">
          <SystemProviderId Value="SystemProvider"/>
          <HardwareCounterId Value="HardwareCounter"/>
        </SystemCollectorId>
      </Collectors>
    </Profile>
  </Profiles>
</WindowsPerformanceRecorder>
"#;

pub(super) fn write(sources: &CustomSources<'_>, f: &mut Formatter<'_>) -> fmt::Result {
    // Without an encoding, because PowerShell's `>` makes UTF-16 of it.
    writeln!(f, "<?xml version=\"1.0\"?>")?;
    write_comment(f, &sources.remarks(&USE))?;
    f.write_str(COLLECTOR)?;
    for group in &sources.groups {
        if !group.events.is_empty() {
            group.write(f)?;
        }
        write_comment(f, &group.exclusions())?;
    }
    f.write_str(COUNTERS)?;
    for name in sources.counted() {
        writeln!(f, "        <Counter Value=\"{name}\"/>")?;
    }
    f.write_str(PROFILE)
}

fn write_comment(f: &mut Formatter<'_>, lines: &[String]) -> fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(f, "<!-- {} -->", lines.join("\n     "))
}

impl Group<'_> {
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
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
