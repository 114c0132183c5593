//! A list of events as Intel publishes it, the JSON of the perfmon repository, for processors that
//! are newer than the tables.

use super::{Event, OFFCORE_RSP_0};
use crate::error::{Error, Result};
use crate::text_file;
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const FILE_BYTES_MAX: u64 = 64 << 20;
const HINT: &str = "It is a core event list of https://github.com/intel/perfmon, such as SKL/events/skylake_core.json.";

/// Since 2022 the lists have a header; before, they held the events alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Document {
    Headed {
        #[serde(rename = "Events")]
        events: Vec<ListedEvent>,
    },
    Bare(Vec<ListedEvent>),
}

/// One event; every value is text.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedEvent {
    event_name: String,
    event_code: String,
    #[serde(rename = "UMask")]
    unit_mask: String,
    #[serde(default, rename = "UMaskExt")]
    unit_mask_2: String,
    #[serde(default)]
    brief_description: String,
    #[serde(default)]
    counter: String,
    #[serde(default)]
    sample_after_value: String,
    #[serde(default, rename = "MSRIndex")]
    msr: String,
    #[serde(default)]
    taken_alone: String,
    #[serde(default)]
    counter_mask: String,
    #[serde(default)]
    invert: String,
    #[serde(default)]
    any_thread: String,
    #[serde(default)]
    edge_detect: String,
    #[serde(default)]
    errata: String,
    #[serde(default)]
    deprecated: String,
    /// The unit that an uncore event belongs to.
    #[serde(default)]
    unit: String,
    #[serde(default)]
    offcore: String,
}

/// Reads the events of a file. Uncore events and those that need OFFCORE_RSP are left out.
pub(crate) fn read(path: &Path) -> Result<Vec<Event>> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| Error::reading(path, error))?;
    let mut limited = file.take(FILE_BYTES_MAX);
    limited.read_to_end(&mut bytes).map_err(|error| Error::reading(path, error))?;
    let bad = |why: String| Error::bad_file(path, format!("is not a list of events: {why}"), HINT);
    let text = text_file::decode(bytes).map_err(|error| bad(error.to_string()))?;
    let document: Document = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let (Document::Headed { events } | Document::Bare(events)) = document;
    let core =
        events.iter().filter(|row| row.unit.is_empty() && matches!(row.offcore.as_str(), "" | "0"));
    let event = |row: &ListedEvent| {
        event(row)
            .ok_or_else(|| bad(format!("`{}` has a field that is not a number", row.event_name)))
    };
    let mut events = core.map(event).collect::<Result<Vec<Event>>>()?;
    events.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(events)
}

fn event(row: &ListedEvent) -> Option<Event> {
    let flag = |text: &str| text == "1";
    // An event with two codes, such as OFFCORE_RESPONSE, separates them by commas.
    let first = |text: &str| number(text.split(',').next().unwrap_or_default());
    let (counters, fixed) = counters(&row.counter)?;
    let unit_mask = first(&row.unit_mask)? & 0xFF | (first(&row.unit_mask_2)? & 0xFF) << 8;
    let msr = match row.event_name.as_str() {
        "OFFCORE_RESPONSE" => OFFCORE_RSP_0.into(),
        _ => first(&row.msr)?,
    };
    let errata = row.errata.trim();
    Some(Event {
        name: row.event_name.clone(),
        code: u16::try_from(first(&row.event_code)?).ok()?,
        unit_mask: unit_mask as u16,
        counters,
        fixed,
        counter_mask: u8::try_from(first(&row.counter_mask)?).ok()?,
        invert: flag(&row.invert),
        edge: flag(&row.edge_detect),
        any_thread: flag(&row.any_thread),
        period: first(&row.sample_after_value)?,
        msr: u32::try_from(msr).ok().filter(|msr| *msr != 0),
        alone: flag(&row.taken_alone),
        deprecated: flag(&row.deprecated),
        // Intel's lists have the word `null` where there are none.
        errata: if errata == "null" { "" } else { errata }.to_owned(),
        description: row.brief_description.clone(),
    })
}

/// `0,1,2,3` or `Fixed counter 0`: the mask of general counters, or the fixed counter.
fn counters(text: &str) -> Option<(Option<u32>, Option<u8>)> {
    let text = text.trim().to_ascii_lowercase();
    if let Some(index) = text.strip_prefix("fixed counter") {
        return Some((None, Some(index.trim().parse().ok()?)));
    }
    if text.is_empty() {
        return Some((None, None));
    }
    let mut mask = 0;
    for index in text.split(',') {
        mask |= 1u32.checked_shl(index.trim().parse().ok()?)?;
    }
    Some((Some(mask), None))
}

/// Decimal, hexadecimal after `0x`, or an empty text, which is 0.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.is_empty() => Some(0),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<Event>> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        read(file.path())
    }

    const EVENT: &str = r#"{"EventCode":"0xd1","UMask":"0x20","EventName":"MEM.MISS","BriefDescription":"Loads that missed.","Counter":"0,1,2,3","SampleAfterValue":"50021","MSRIndex":"0","TakenAlone":"1","CounterMask":"2","Invert":"1","AnyThread":"0","EdgeDetect":"1","Errata":"null","Deprecated":"0"}"#;

    #[test]
    fn intels_form_is_read_with_and_without_its_head() {
        let headed = format!(r#"{{"Header":{{"Copyright":"x"}},"Events":[{EVENT}]}}"#);
        for text in [headed.clone(), format!("[{EVENT}]"), format!("\u{feff}{headed}")] {
            let events = read_text(&text).expect("a list");
            let [event] = events.as_slice() else { panic!("{events:?}") };
            assert_eq!(event.select(), 0x0284_20D1);
            assert_eq!((event.counters, event.fixed, event.alone), (Some(0xF), None, true));
            assert_eq!((event.msr, event.errata.as_str(), event.period), (None, "", 50021));
            assert_eq!(event.description, "Loads that missed.");
        }
    }

    #[test]
    fn fixed_counters_second_masks_and_what_is_not_the_cores() {
        let text = r#"[{"EventCode":"0x00","UMask":"0x01","EventName":"A","Counter":"Fixed counter 0"},
            {"EventCode":"0xb7,0xbb","UMask":"0x01","EventName":"B","Offcore":"1"},
            {"EventCode":"0x01","UMask":"0x02","EventName":"C","Unit":"CBO"},
            {"EventCode":"0xa5","UMask":"0x02","UMaskExt":"0x03","EventName":"D","Counter":"0","MSRIndex":"0x3F7"}]"#;
        let events = read_text(text).expect("a list");
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["A", "D"]);
        assert_eq!((events[0].fixed, events[0].counters), (Some(0), None));
        assert_eq!((events[1].select(), events[1].msr), (0x0300_0000_02A5, Some(0x3F7)));
    }

    #[test]
    fn an_event_of_the_off_core_response_needs_its_register() {
        let text = EVENT.replace("0xd1", "0xB7, 0xBB").replace("MEM.MISS", "OFFCORE_RESPONSE");
        let events = read_text(&format!("[{text}]")).expect("a list");
        assert_eq!((events[0].code, events[0].msr), (0xB7, Some(0x1A6)));
    }

    #[test]
    fn a_file_that_is_no_event_list_is_refused() {
        for text in [
            "",
            "{}",
            "[1]",
            r#"[{"EventName":"A"}]"#,
            r#"[{"EventCode":"x","UMask":"0","EventName":"A"}]"#,
        ] {
            assert_eq!(read_text(text).expect_err(text).code(), "bad-file", "{text}");
        }
    }
}
