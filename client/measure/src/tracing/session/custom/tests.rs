//! Do the files say what the vendors' lists say, in the form that Windows reads?

use super::*;
use crate::selection::parse_list;
use crate::tracing::session::ProfileSource;
use crate::tracing::session::plan::resolve;
use roxmltree::{Document, Node};
use shared_types::ProfileInterface;

const SKYLAKE: &str = include_str!("../../../../../events/data/events/skylake.csv");
const GOLDEN_COVE: &str =
    include_str!("../../../../../events/data/events/alderlake_goldencove.csv");
const GRACEMONT: &str = include_str!("../../../../../events/data/events/alderlake_gracemont.csv");
const ZEN_4: &str = include_str!("../../../../../events/data/events/amdzen4.csv");
/// Bit 21 of a select, any thread, as [`Processor::select_bits`] has it.
const ANY_THREAD: u32 = 1 << 5;

fn catalog(processors: &[Processor]) -> Catalog {
    Catalog::new(Vec::new(), ProfileInterface::Emon as u32, processors)
}

fn intel(model: u16, counter_mask: u32) -> Processor {
    Processor { vendor: *b"GenuineIntel", family: 6, model, counter_mask, ..Processor::default() }
}

fn skylake() -> Catalog {
    catalog(&[Processor { select_bits: ANY_THREAD, ..intel(0x5E, 0xF) }])
}

fn raptor_lake() -> Catalog {
    let core = |core_type, kind, counter_mask| Processor {
        core_type,
        cpu_type: kind,
        native_model: 1,
        ..intel(0xB7, counter_mask)
    };
    catalog(&[core(0x40, 0, 0xFF), core(0x20, 1, 0x3F)])
}

fn zen_4() -> Catalog {
    let vendor = *b"AuthenticAMD";
    catalog(&[Processor { vendor, family: 25, model: 0x61, ..intel(0x61, 0x3F) }])
}

fn file(catalog: &Catalog, form: Form) -> String {
    CustomSources::new(catalog, form, |_| true).expect("sources").to_string()
}

/// Event, unit, interval, counter mask, invert, any thread, edge.
type Fields = [u64; 7];

/// What a reader finds in a file.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    /// Architecture, family and model.
    processor: (String, u64, u64),
    sources: BTreeMap<String, Fields>,
}

/// Reads a registry file as strictly as its format allows: CRLF, the signature, keys after a blank
/// line, each key below one that was there before, double words of eight digits, and comments.
fn read_reg(text: &str) -> Vec<Read> {
    const ROOT: &str = r"[HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\WMI\ProfileSource";
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(lines[..2], ["Windows Registry Editor Version 5.00", ""]);
    let mut keys: Vec<(&str, BTreeMap<&str, u64>)> = Vec::new();
    for pair in lines[1..].windows(2).filter(|pair| !pair[1].is_empty()) {
        let [before, line] = pair else { panic!() };
        if let Some(path) = line.strip_prefix(ROOT) {
            assert!(before.is_empty() || before.starts_with(';'), "{line}");
            keys.push((path.strip_suffix(']').expect(line), BTreeMap::new()));
        } else if let Some(value) = line.strip_prefix('"') {
            let (name, digits) = value.split_once("\"=dword:").expect(line);
            assert_eq!(digits.len(), 8, "{line}");
            let value = u64::from_str_radix(digits, 16).expect(line);
            let (_, values) = keys.last_mut().expect("a key before its values");
            assert_eq!(values.insert(name, value), None, "{line}");
        } else {
            assert!(line.starts_with("; "), "{line}");
        }
    }
    assert_eq!(keys.remove(0), ("", BTreeMap::new()), "the root comes first");
    let mut groups: Vec<(&str, Read)> = Vec::new();
    for (path, mut values) in keys {
        let mut take = |name: &str| values.remove(name);
        match *path.split('\\').collect::<Vec<_>>() {
            ["", group] => {
                let architecture = take("Architecture").expect(path).to_string();
                let (family, model) = (take("Family").expect(path), take("Model").expect(path));
                let processor = (architecture, family, model);
                groups.push((group, Read { processor, sources: BTreeMap::new() }));
            }
            ["", group, source] => {
                let (last, read) = groups.last_mut().expect("a group before its sources");
                assert_eq!(*last, group);
                let extended = ["CMask", "CMaskInvert", "AnyThread", "EdgeDetect"]
                    .map(|name| take(name).inspect(|value| assert_ne!(*value, 0)).unwrap_or(0));
                let fields = [take("Event").expect(path), take("Unit").expect(path)];
                let [counter_mask, invert, any, edge] = extended;
                let interval = take("Interval").unwrap_or(0);
                let fields = [fields[0], fields[1], interval, counter_mask, invert, any, edge];
                assert_eq!(read.sources.insert(source.to_owned(), fields), None, "{path}");
            }
            _ => panic!("{path}"),
        }
        assert!(values.is_empty(), "{path}: {values:?}");
    }
    groups.into_iter().map(|(_, read)| read).collect()
}

/// The elements that a file has, with the attributes that they may have (WPRControlProfiles.xsd).
const ELEMENTS: [(&str, &[&str]); 22] = [
    ("WindowsPerformanceRecorder", &["Version"]),
    ("Profiles", &[]),
    ("SystemCollector", &["Id", "Name"]),
    ("BufferSize", &["Value"]),
    ("Buffers", &["Value"]),
    ("SystemProvider", &["Id"]),
    ("Keywords", &[]),
    ("Keyword", &["Value"]),
    ("MicroArchitecturalConfig", &["Id", "Base", "Strict"]),
    ("ProfileSources", &["Architecture", "Family", "Model", "Stepping", "Description"]),
    (
        "ProfileSource",
        &["Name", "Event", "Unit", "Interval", "ExtendedBits", "AllowsHalt", "Persist"],
    ),
    ("HardwareCounter", &["Id", "Base", "Strict"]),
    ("MicroArchitecturalConfigId", &["Value"]),
    ("Counters", &[]),
    ("Counter", &["Value"]),
    ("Events", &[]),
    ("Event", &["Value"]),
    ("Profile", &["Id", "Name", "DetailLevel", "LoggingMode", "Description"]),
    ("Collectors", &[]),
    ("SystemCollectorId", &["Value"]),
    ("SystemProviderId", &["Value"]),
    ("HardwareCounterId", &["Value"]),
];

fn names<'a>(node: Node<'a, '_>) -> Vec<&'a str> {
    node.children().filter(Node::is_element).map(|child| child.tag_name().name()).collect()
}

fn only<'a, 'b>(node: Node<'a, 'b>, name: &str) -> Node<'a, 'b> {
    let mut all = node.descendants().filter(|one| one.has_tag_name(name));
    let first = all.next().unwrap_or_else(|| panic!("no {name}"));
    assert!(all.next().is_none(), "{name}");
    first
}

fn attribute<'a>(node: Node<'a, '_>, name: &str) -> &'a str {
    node.attribute(name).unwrap_or_else(|| panic!("{node:?} has no {name}"))
}

/// A number of the pattern `(0[xX])?[a-fA-F0-9]+`.
fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect(text)
}

/// Reads a recording profile by the rules of WPRControlProfiles.xsd.
fn read_wprp(text: &str) -> Vec<Read> {
    let document = Document::parse(text).expect("XML");
    let root = document.root_element();
    for node in root.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        let (_, allowed) = ELEMENTS.iter().find(|(one, _)| *one == name).expect(name);
        for attribute in node.attributes() {
            assert!(allowed.contains(&attribute.name()), "{name} {}", attribute.name());
        }
        if let Some(id) = node.attribute("Id") {
            assert!(!id.contains([':', ' ']), "{id}");
        }
    }
    assert_eq!(
        (root.tag_name().name(), attribute(root, "Version")),
        ("WindowsPerformanceRecorder", "1.0")
    );
    assert_eq!(names(root), ["Profiles"]);
    let order = [
        "SystemCollector",
        "SystemProvider",
        "MicroArchitecturalConfig",
        "HardwareCounter",
        "Profile",
    ];
    assert_eq!(names(only(root, "Profiles")), order);
    let keywords = only(root, "Keywords").children().filter(Node::is_element);
    assert!(keywords.map(|one| attribute(one, "Value")).any(|one| one == "CSwitch"));

    let hardware = only(root, "HardwareCounter");
    assert_eq!(names(hardware), ["MicroArchitecturalConfigId", "Counters", "Events"]);
    let profile = only(root, "Profile");
    let [name, detail, mode] =
        ["Name", "DetailLevel", "LoggingMode"].map(|one| attribute(profile, one));
    assert_eq!(attribute(profile, "Id"), format!("{name}.{detail}.{mode}"));
    assert_eq!(names(only(root, "SystemCollectorId")), ["SystemProviderId", "HardwareCounterId"]);
    for reference in
        ["MicroArchitecturalConfigId", "SystemCollectorId", "SystemProviderId", "HardwareCounterId"]
    {
        let named = only(root, reference.trim_end_matches("Id"));
        assert_eq!(attribute(only(root, reference), "Value"), attribute(named, "Id"));
    }

    let groups: Vec<Read> = only(root, "MicroArchitecturalConfig")
        .children()
        .filter(Node::is_element)
        .map(group)
        .collect();
    let counted = only(hardware, "Counters").children().filter(Node::is_element);
    let counted: Vec<&str> = counted.map(|one| attribute(one, "Value")).collect();
    assert!((1..=4).contains(&counted.len()), "{counted:?}");
    assert!(counted.iter().all(|name| groups.iter().any(|one| one.sources.contains_key(*name))));
    groups
}

fn group(node: Node<'_, '_>) -> Read {
    let number = |name: &str| attribute(node, name).parse().expect(name);
    let architecture = attribute(node, "Architecture").to_owned();
    let mut sources = BTreeMap::new();
    for source in node.children().filter(Node::is_element) {
        let [event, unit] = ["Event", "Unit"].map(|name| hexadecimal(attribute(source, name)));
        let interval = source.attribute("Interval").map_or(0, hexadecimal);
        let bits = source.attribute("ExtendedBits").unwrap_or("00000000");
        assert_eq!(bits.len(), 8, "{bits}");
        let [counter_mask, invert, any, edge] =
            [0, 2, 4, 6].map(|at| bits[at..at + 2].parse().expect(bits));
        let fields = [event, unit, interval, counter_mask, invert, any, edge];
        let name = attribute(source, "Name").to_owned();
        assert_eq!(sources.insert(name, fields), None, "{source:?}");
    }
    Read { processor: (architecture, number("Family"), number("Model")), sources }
}

/// The rows of a vendor's list that a form can express, and how many it cannot: an extra MSR, a
/// fixed counter, an event alone, codes and masks of more than eight bits, counters other than the
/// first four, and what `others` excludes of the fields.
fn expected(list: &str, others: fn(&Fields) -> bool) -> (BTreeMap<String, Fields>, usize) {
    let (mut sources, mut excluded) = (BTreeMap::new(), 0);
    for row in csv::Reader::from_reader(list.as_bytes()).records().map(|row| row.expect("a row")) {
        let cell = |index| row.get(index).expect("a cell");
        let number = |index: usize| match cell(index).strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).expect("a number"),
            None => cell(index).parse().unwrap_or(0),
        };
        let (code, mask, period) = (number(1), number(2), number(9));
        let interval = if period == 0 { 0 } else { period.max(4096) };
        let fields = [code, mask, interval, number(5), number(6), number(8), number(7)];
        let first_four = cell(3).is_empty() || number(3) & 0xF == 0xF;
        let [fixed, msr, alone] =
            [4, 10, 13].map(|index| !matches!(cell(index), "" | "0")).map(usize::from);
        // Fixed counter 0 has the number 0.
        let fixed = fixed + usize::from(cell(4) == "0");
        if fixed + msr + alone == 0
            && code <= 0xFF
            && mask <= 0xFF
            && first_four
            && !others(&fields)
        {
            sources.insert(cell(0).to_owned(), fields);
        } else {
            excluded += 1;
        }
    }
    (sources, excluded)
}

fn read(architecture: &str, family: u64, model: u64, sources: BTreeMap<String, Fields>) -> Read {
    Read { processor: (architecture.to_owned(), family, model), sources }
}

/// Those of a second core type whose names the first does not have.
fn without(
    mut sources: BTreeMap<String, Fields>,
    first: &BTreeMap<String, Fields>,
) -> BTreeMap<String, Fields> {
    sources.retain(|name, _| !first.contains_key(name));
    sources
}

#[test]
fn a_registry_file_has_the_vendors_rows() {
    let (skylake_rows, excluded) = expected(SKYLAKE, |_| false);
    assert_eq!(skylake_rows["LONGEST_LAT_CACHE.MISS"], [0x2E, 0x41, 100_003, 0, 0, 0, 0]);
    assert_eq!(skylake_rows["CYCLE_ACTIVITY.STALLS_L2_MISS"], [0xA3, 5, 2_000_003, 5, 0, 0, 0]);
    assert_eq!(skylake_rows["HW_INTERRUPTS.RECEIVED"][2], 4096, "Windows' shortest interval");
    let catalog = skylake();
    let sources = CustomSources::new(&catalog, Form::Registry, |_| true).expect("sources");
    let summary = sources.summary();
    let counts = format!("{} events written, {excluded} left out: ", skylake_rows.len());
    assert!(summary.starts_with(&counts), "{summary}");
    assert_eq!(read_reg(&sources.to_string()), [read("2", 6, 0x5E, skylake_rows)]);

    let [cove, mont] = [GOLDEN_COVE, GRACEMONT].map(|list| expected(list, |_| false).0);
    let mont = without(mont, &cove);
    assert!(!mont.is_empty());
    let groups = [cove, mont].map(|sources| read("2", 6, 0xB7, sources));
    assert_eq!(read_reg(&file(&raptor_lake(), Form::Registry)), groups);
}

/// The event that takes two counters.
const FLOPS: u64 = 0x003;

#[test]
fn a_recording_profile_has_the_vendors_rows() {
    let wide = |fields: &Fields| fields[3] >= 10;
    let profile = |catalog: &Catalog| read_wprp(&file(catalog, Form::RecordingProfile));
    let (sources, _) = expected(SKYLAKE, wide);
    assert!(!sources.contains_key("CYCLE_ACTIVITY.CYCLES_MEM_ANY"), "its counter mask is 16");
    assert_eq!(profile(&skylake()), [read("INTEL", 6, 0x5E, sources)]);

    let [cove, mont] = [GOLDEN_COVE, GRACEMONT].map(|list| expected(list, wide).0);
    let mont = without(mont, &cove);
    let groups = [cove, mont].map(|sources| read("INTEL", 6, 0xB7, sources));
    assert_eq!(profile(&raptor_lake()), groups);

    let (sources, excluded) = expected(ZEN_4, |fields| fields[0] == FLOPS || fields[3..] != [0; 4]);
    assert_eq!(sources["ex_ret_instr"], [0xC0, 0, 0, 0, 0, 0, 0]);
    assert_ne!(excluded, 0, "events of more than eight bits");
    assert_eq!(profile(&zen_4()), [read("AMD", 25, 0x61, sources)]);
}

/// Cores that differ in what they can count, and not in their events.
#[test]
fn two_cpu_types_of_one_table_are_one_group() {
    let core = |kind, counter_mask| Processor { cpu_type: kind, ..intel(0x5E, counter_mask) };
    let two = catalog(&[core(0, 0xFF), core(1, 0xF)]);
    let one = catalog(&[core(0, 0xFF)]);
    assert_eq!(read_reg(&file(&two, Form::Registry)), read_reg(&file(&one, Form::Registry)));
    let profile = Form::RecordingProfile;
    assert_eq!(read_wprp(&file(&two, profile)), read_wprp(&file(&one, profile)));
}

#[test]
fn amds_number_in_the_registry_is_in_no_document() {
    let catalog = zen_4();
    let refused = CustomSources::new(&catalog, Form::Registry, |_| true).expect_err("AMD");
    assert!(refused.to_string().contains("AMD's architecture"), "{refused}");
}

#[test]
fn names_of_a_users_list_cannot_leave_their_place() {
    let list = tempfile::NamedTempFile::new().expect("a file");
    let names = [r"A\\B", "A]", "A\\\"B", "A--><B", "A\\r\\n[HKEY_USERS]", "FINE.ONE"];
    let rows =
        names.map(|name| format!(r#"{{"EventCode":"0x3c","UMask":"0","EventName":"{name}"}}"#));
    std::fs::write(list.path(), format!("[{}]", rows.join(","))).expect("written");
    let catalog = catalog(&[intel(0xFFFF, 0xF)]).with_event_file(list.path()).expect("a list");
    let groups = read_reg(&file(&catalog, Form::Registry));
    let profile = read_wprp(&file(&catalog, Form::RecordingProfile));
    let sources = |groups: Vec<Read>| groups.into_iter().map(|one| one.sources).collect::<Vec<_>>();
    let fine = BTreeMap::from([("FINE.ONE".to_owned(), [0x3C, 0, 0, 0, 0, 0, 0])]);
    assert_eq!((sources(groups), sources(profile)), (vec![fine.clone()], vec![fine]));
}

/// After the restart Windows lists them after its own, from 73 on (Arm's listing).
#[test]
fn tracing_finds_each_source_by_its_name() {
    for catalog in [skylake(), raptor_lake(), zen_4()] {
        let sources = CustomSources::new(&catalog, Form::RecordingProfile, |_| true);
        let sources = sources.expect("sources");
        let events = sources.groups.iter().flat_map(|group| &group.events);
        let windows = ["Timer", "TotalIssues", "BranchInstructions", "CacheMisses", "DcacheMisses"];
        let names = windows.into_iter().chain(events.map(|event| event.name.as_str()));
        let source = |(name, id): (&str, u32)| ProfileSource {
            id,
            name: name.to_owned(),
            min_interval: 4096,
            max_interval: 2_147_483_647,
            interval: 65_536,
        };
        let list: Vec<ProfileSource> = names.zip((0..5).chain(73..)).map(source).collect();
        for source in &list {
            let mut items = Vec::new();
            parse_list(&source.name.to_lowercase(), &mut items).expect(&source.name);
            let found = resolve(&items, &list).expect(&source.name);
            assert_eq!((found[0].source, &found[0].name), (source.id, &source.name));
        }
    }
}
