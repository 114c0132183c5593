//! Is all given or nothing, and does taking it back leave alone what is another's?

use super::*;
use std::collections::{BTreeMap, BTreeSet};

const ANN: &str = "S-1-5-21-1-2-3-1001";
const BEN: &str = "S-1-5-21-1-2-3-1002";
/// An account of Entra ID.
const EVE: &str = "S-1-12-1-1-2-3-4";
/// Performance Monitor Users, a group.
const MONITORS: &str = "S-1-5-32-558";
/// SYSTEM, which has an entry by default.
const SYSTEM: &str = "S-1-5-18";

/// A Windows by Microsoft's pages: a right that is there is given again without an error, a member of
/// a group is refused a second time (`ERROR_MEMBER_IN_ALIAS`), EventAccessControl adds an entry behind
/// the others, or in place of all, also of the default's, and EventAccessRemove leaves those alone.
#[derive(Default)]
struct Fake {
    privileged: BTreeSet<String>,
    members: BTreeSet<String>,
    lists: BTreeMap<u128, Vec<Access>>,
    /// The call that fails.
    refused: Option<&'static str>,
}

impl Fake {
    fn call(&self, name: &str) -> std::result::Result<(), u32> {
        if self.refused == Some(name) { Err(5) } else { Ok(()) }
    }

    fn given_to(&self, sid: &str) -> usize {
        let sets = [&self.privileged, &self.members].into_iter();
        let lists = self.lists.values();
        sets.filter(|set| set.contains(sid)).count()
            + lists.filter(|list| list.iter().any(|access| access.sid == sid)).count()
    }
}

impl Calls for Fake {
    fn account(&mut self, name: &str) -> std::result::Result<Account, u32> {
        let accounts = [("Ann", ANN), ("Ben", BEN), ("Eve", EVE)];
        let found = accounts.iter().find(|(known, _)| *known == name).ok_or(1332_u32)?;
        Ok(Account { name: format!("PC\\{}", found.0), sid: found.1.to_owned() })
    }

    fn has_privilege(&mut self, sid: &str) -> std::result::Result<bool, u32> {
        Ok(self.privileged.contains(sid))
    }

    fn set_privilege(&mut self, sid: &str, given: bool) -> std::result::Result<(), u32> {
        self.call("privilege")?;
        if given {
            self.privileged.insert(sid.to_owned());
        } else {
            self.privileged.remove(sid);
        }
        Ok(())
    }

    fn is_member(&mut self, sid: &str) -> std::result::Result<bool, u32> {
        Ok(self.members.contains(sid))
    }

    fn set_member(&mut self, sid: &str, given: bool) -> std::result::Result<(), u32> {
        self.call("member")?;
        let changed =
            if given { self.members.insert(sid.to_owned()) } else { self.members.remove(sid) };
        if changed { Ok(()) } else { Err(if given { 1378 } else { 1377 }) }
    }

    fn access(&mut self, guid: u128) -> std::result::Result<Vec<Access>, u32> {
        Ok(self.lists.get(&guid).cloned().unwrap_or_else(by_default))
    }

    fn add_access(&mut self, guid: u128, access: &Access) -> std::result::Result<(), u32> {
        self.call(if guid == SESSION_GUID { "session" } else { "kernel" })?;
        assert_ne!(access.kind, AccessKind::Other, "there is no call for it");
        self.lists.entry(guid).or_insert_with(by_default).push(access.clone());
        Ok(())
    }

    fn set_access(&mut self, guid: u128, access: &Access) -> std::result::Result<(), u32> {
        self.call("reset")?;
        assert_ne!(access.kind, AccessKind::Other, "there is no call for it");
        self.lists.insert(guid, vec![access.clone()]);
        Ok(())
    }

    fn reset_access(&mut self, guid: u128) -> std::result::Result<(), u32> {
        self.call("reset")?;
        self.lists.remove(&guid);
        Ok(())
    }
}

fn access(kind: AccessKind, sid: &str, mask: u32) -> Access {
    Access { sid: sid.to_owned(), mask, kind }
}

fn by_default() -> Vec<Access> {
    vec![access(AccessKind::Allows, SYSTEM, 0x1FFF)]
}

fn changed_of(changed: &Changed) -> Vec<bool> {
    changed.rights.iter().map(|right| right.changed).collect()
}

#[test]
fn what_is_given_is_taken_back_and_what_others_have_stays() {
    let mut fake = Fake::default();
    let given = give(&mut fake, "Ann").expect("given");
    assert_eq!((given.sid.as_str(), changed_of(&given)), (ANN, vec![true; 4]));
    let again = give(&mut fake, "Ann").expect("given before");
    assert_eq!(changed_of(&again), [false; 4]);
    give(&mut fake, "Ben").expect("given");
    // The numbers of Microsoft's pages of EventAccessControl.
    let masks = fake.lists.values().flatten().filter(|access| access.sid == ANN);
    assert_eq!(masks.map(|access| access.mask).collect::<Vec<_>>(), [0x41, 0x80]);
    assert_eq!(
        Grant::ALL.map(|grant| has(&mut fake, grant, ANN)),
        [Some(true); 4],
        "each is shown"
    );
    let taken = take(&mut fake, "Ann").expect("taken");
    assert_eq!(changed_of(&taken), [true; 4]);
    assert_eq!((fake.given_to(ANN), fake.given_to(BEN)), (0, 4));
    let again = take(&mut fake, "Ann").expect("taken before");
    assert_eq!(changed_of(&again), [false; 4]);
}

#[test]
fn what_windows_refuses_leaves_nothing_given() {
    for refused in ["privilege", "member", "session", "kernel"] {
        let mut fake = Fake { refused: Some(refused), ..Fake::default() };
        let error = give(&mut fake, "Ann").expect_err(refused).to_string();
        assert!(error.contains("Win32 error 5"), "{error}");
        assert_eq!(fake.given_to(ANN), 0, "{refused}");
    }
    // One that stays does not keep the others.
    let mut fake = Fake::default();
    give(&mut fake, "Ann").expect("given");
    fake.refused = Some("reset");
    assert!(take(&mut fake, "Ann").is_err());
    assert_eq!(fake.given_to(ANN), 2, "the two lists");
    let error = give(&mut fake, "Zoe").expect_err("there is none").to_string();
    assert!(error.contains("`Zoe`"), "{error}");
}

/// Ann had been given the right and the group before. An `install --tracing` that fails leaves her both.
#[test]
fn what_an_account_had_before_a_failure_it_has_after_it() {
    for refused in ["session", "kernel"] {
        let mut fake = Fake { refused: Some(refused), ..Fake::default() };
        fake.privileged.insert(ANN.to_owned());
        fake.members.insert(ANN.to_owned());
        assert!(give(&mut fake, "Ann").is_err());
        assert_eq!(fake.given_to(ANN), 2, "{refused}");
    }
}

/// An administrator has denied Ben the kernel's events, and given a group and an account of Entra ID
/// what they need. Neither taking Ann's rights nor failing to give them changes any of that.
#[test]
fn what_others_have_put_into_a_list_stays_there_in_its_order() {
    use AccessKind::{Allows, Denies};
    for failing in [None, Some("kernel")] {
        let mut fake = Fake::default();
        let lists = [
            (
                SESSION_GUID,
                vec![
                    access(Denies, BEN, 0x40),
                    access(Allows, SYSTEM, 0x1FFF),
                    access(Allows, MONITORS, 0x41),
                    access(Allows, ANN, 0x01),
                ],
            ),
            (
                KERNEL_EVENTS_GUID,
                vec![
                    access(Denies, BEN, 0x80),
                    access(Allows, EVE, 0x80),
                    access(Denies, ANN, 0x10),
                    access(Allows, SYSTEM, 0x1FFF),
                ],
            ),
        ];
        let before = BTreeMap::from(lists);
        fake.lists = before.clone();
        fake.refused = failing;
        let given = give(&mut fake, "Ann");
        assert_eq!(given.is_err(), failing.is_some());
        if given.is_ok() {
            assert_ne!(fake.lists, before);
            take(&mut fake, "Ann").expect("taken");
        }
        assert_eq!(fake.lists, before, "{failing:?}");
    }
    // What halprof gave to accounts stays too.
    let mut fake = Fake::default();
    for name in ["Eve", "Ann", "Ben"] {
        give(&mut fake, name).expect("given");
    }
    take(&mut fake, "Ann").expect("taken");
    assert_eq!([EVE, ANN, BEN].map(|sid| fake.given_to(sid)), [4, 0, 4]);
}

/// Windows may have merged two entries of an account.
#[test]
fn of_an_entry_with_more_only_what_was_given_is_taken() {
    let mut fake = Fake::default();
    fake.lists.insert(SESSION_GUID, vec![access(AccessKind::Allows, ANN, 0x0243)]);
    take(&mut fake, "Ann").expect("taken");
    assert_eq!(fake.lists[&SESSION_GUID], [access(AccessKind::Allows, ANN, 0x0202)]);
}

#[test]
fn a_list_that_could_not_be_put_back_is_not_touched() {
    let other = access(AccessKind::Other, "", 0);
    let mut fake = Fake::default();
    fake.lists.insert(KERNEL_EVENTS_GUID, [by_default(), vec![other.clone()]].concat());
    let before = fake.lists.clone();
    let error = give(&mut fake, "Ann").expect_err("it could never be taken").to_string();
    assert!(error.contains("kernel's events"), "{error}");
    assert_eq!(
        (fake.given_to(ANN), &fake.lists[&KERNEL_EVENTS_GUID]),
        (0, &before[&KERNEL_EVENTS_GUID])
    );
    // Somebody has made it since the rights were given.
    let mut fake = Fake::default();
    give(&mut fake, "Ann").expect("given");
    fake.lists.entry(KERNEL_EVENTS_GUID).or_default().push(other);
    let before = fake.lists[&KERNEL_EVENTS_GUID].clone();
    take(&mut fake, "Ann").expect_err("it could not be put back");
    assert_eq!(fake.lists[&KERNEL_EVENTS_GUID], before);
    assert_eq!(fake.given_to(ANN), 1, "the others are taken");
}
