//! Is every form of naming sources and processors parsed as intended, and everything else refused?

use super::*;
use crate::Source;
use crate::catalog::Catalog;
use proptest::prelude::*;
use shared_types::ProfileInterface;

fn list(text: &str) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    parse_list(text, &mut items).map(|()| items)
}

fn resolve(
    items: &[Item],
    sources: &[Source],
    interface: ProfileInterface,
) -> Result<Vec<EventSpec>> {
    Catalog::new(sources.to_vec(), interface as u32, &[]).resolve(items)
}

fn source(id: u32, name: &'static str, symbol: &'static str) -> Source {
    Source { id, name, symbol, ..Source::default() }
}

fn sources() -> Vec<Source> {
    vec![
        source(0, "Timer", "ProfileTime"),
        source(2, "TotalIssues", "ProfileTotalIssues"),
        source(0x0F, "2Issue", "Profile2Issue"),
        source(0x1B, "UnhaltedReferenceCycles", "ProfileUnhaltedReferenceCycles"),
    ]
}

#[test]
fn every_form_of_naming_finds_its_source() {
    for (text, id) in [
        ("TotalIssues", 2),
        ("totalissues", 2),
        ("ProfileTotalIssues", 2),
        ("PROFILETOTALISSUES", 2),
        ("Timer", 0),
        ("ProfileTimer", 0),
        ("ProfileTime", 0),
        ("Time", 0),
        ("0x1B", 0x1B),
        ("0X1b", 0x1B),
        ("27", 0x1B),
        ("2Issue", 0x0F),
        ("2", 2),
        ("0", 0),
    ] {
        let events =
            resolve(&list(text).expect(text), &sources(), ProfileInterface::Emon).expect(text);
        assert_eq!(events[0].common().source, id, "{text}");
    }
}

#[test]
fn names_that_are_not_there_are_told() {
    for text in ["Nonsense", "0x999", "3", "Profile", "rXYZ", "Total Issues", "Pröfile"] {
        let error =
            resolve(&list(text).expect(text), &sources(), ProfileInterface::Emon).expect_err(text);
        assert_eq!(error.code(), "source-unknown", "{text}");
    }
}

#[test]
fn filters_are_kept_and_shown_as_given() {
    for (text, filter, label) in [
        ("TotalIssues", 3, "TotalIssues"),
        ("0x2:u", 1, "TotalIssues:u"),
        ("totalissues:K", 2, "TotalIssues:k"),
        ("ProfileTotalIssues:uk", 3, "TotalIssues:uk"),
    ] {
        let events =
            resolve(&list(text).expect(text), &sources(), ProfileInterface::Emon).expect(text);
        assert_eq!((events[0].common().filter, events[0].label.as_str()), (filter, label));
    }
}

#[test]
fn user_and_kernel_bits_of_a_raw_select_are_its_filter() {
    use ProfileInterface::{Emon, NetBurst};
    for (text, interface, raw, filter) in [
        ("rC0", Emon, 0xC0, 3),
        ("R01c2", Emon, 0x1C2, 3),
        ("r100C0", Emon, 0x1_00C0, 1),
        ("r200C0:k", Emon, 0x2_00C0, 2),
        ("r30041:uk", Emon, 0x3_0041, 3),
        ("rC0:u", Emon, 0xC0, 1),
        ("r10F0000C0", Emon, 0x1_0F00_00C0, 3),
        ("r5000010604", NetBurst, 0x50_0001_0604, 1),
    ] {
        let events = resolve(&list(text).expect(text), &[], interface).expect(text);
        assert_eq!((events[0].common().raw, events[0].common().filter), (raw, filter), "{text}");
        assert_eq!(events[0].label, text);
    }
    let contradiction = list("r100C0:k").expect("a list");
    let error = resolve(&contradiction, &[], Emon).expect_err("contradicts itself");
    assert_eq!(error.code(), "usage");
    assert!(list("r10000000000000000").is_err());
}

#[test]
fn groups_are_numbered() {
    let groups = |text: &str| -> Vec<u16> {
        list(text).expect(text).iter().map(|item| item.group).collect()
    };
    assert_eq!(groups("A,{B,C},D,{E}"), [0, 1, 1, 0, 2]);
    assert_eq!(groups(" { A , B } , C:u "), [1, 1, 0]);
    let mut items = list("{A,B}").expect("a group");
    parse_group("C,D", &mut items).expect("another");
    assert_eq!(items[3].group, 2);
}

#[test]
fn a_filter_after_a_group_is_of_each_source_in_it() {
    let items = list("C,{A,B:1000}:u,D").expect("a group");
    let items: Vec<_> =
        items.iter().map(|item| (&*item.requested, item.filter, item.period, item.group)).collect();
    let wanted = [
        ("C", None, None, 0),
        ("A:u", Some(1), None, 1),
        ("B:1000:u", Some(1), Some(1000), 1),
        ("D", None, None, 0),
    ];
    assert_eq!(items, wanted);
}

#[test]
fn periods_stand_beside_filters() {
    let items = list("A:1000:u,B:k:0x10,C").expect("periods");
    let periods: Vec<_> = items.iter().map(|item| (item.period, item.filter)).collect();
    assert_eq!(periods, [(Some(1000), Some(1)), (Some(16), Some(2)), (None, None)]);
}

#[test]
fn what_is_no_list_is_bad_usage() {
    for text in [
        "",
        ",",
        "A,",
        ",A",
        "A,,B",
        "{A",
        "A}",
        "{A,{B}}",
        "{}",
        "A:",
        "A:x",
        "A:u:k",
        ":u",
        "A:1:2",
        "A:0",
        "A:-1",
        "A:0x",
        "A:18446744073709551616",
    ] {
        let error = list(text).expect_err(text);
        assert_eq!(error.code(), "usage", "{text}");
    }
    assert!(parse_group("A,{B}", &mut Vec::new()).is_err());
}

#[test]
fn processors_are_ranges() {
    for (text, all) in [
        ("0", vec![0]),
        ("0-3,8", vec![0, 1, 2, 3, 8]),
        ("8,1-2,2", vec![1, 2, 8]),
        (" 3 - 4 ", vec![3, 4]),
    ] {
        assert_eq!(parse_processors(text).expect(text), all);
    }
    for text in ["", "-", "1-", "-1", "3-1", "a", "0x1", "1,,2", "4294967296", "+1"] {
        assert_eq!(parse_processors(text).expect_err(text).code(), "usage", "{text}");
    }
    assert!(parse_processors("0-4294967295").expect("bounded").len() < 3000);
}

#[test]
fn what_stands_after_a_group_is_named() {
    for (text, wanted) in [
        ("{A}B", "`B` after a group"),
        ("{A,B:k}:u", "`B` has two filters"),
        ("{A,B}:x", "`:x` is neither"),
    ] {
        let error = list(text).expect_err(text).to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_answered(text in ".{0,40}") {
        let _ = list(&text);
        let _ = parse_processors(&text);
    }

    #[test]
    fn processors_survive_the_way_there_and_back(set in proptest::collection::btree_set(0u32..2048, 1..60)) {
        let text = format_processors(set.iter().copied());
        prop_assert_eq!(parse_processors(&text).expect("own format"), set.into_iter().collect::<Vec<_>>());
    }
}
