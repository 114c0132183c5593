//! Is every form of naming sources and processors parsed as intended, and everything else refused?

use super::*;
use proptest::prelude::*;

fn list(text: &str) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    parse_list(text, &mut items).map(|()| items)
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
    let many = |groups| list(&vec!["{A}"; groups].join(","));
    assert_eq!(many(65_535).expect("as many as there are numbers")[65_534].group, 65_535);
    assert_eq!(many(65_536).expect_err("one more").code(), "usage");
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
    let texts = ", A, ,A A,,B {A A} {A,{B}} {} A: A:x A:u:k :u A:1:2 A:0 A:-1 A:0x \
        A:18446744073709551616 r10000000000000000";
    for text in texts.split_whitespace().chain([""]) {
        assert_eq!(list(text).expect_err(text).code(), "usage", "{text}");
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
    for (text, wanted) in [("{A}B", "`B`"), ("{A,B:k}:u", "`B`"), ("{A,B}:x", "`:x`")] {
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
