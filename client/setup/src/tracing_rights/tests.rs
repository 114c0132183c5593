//! Is all given or nothing, and does taking it back leave alone what is another's?

use super::*;
use std::collections::{BTreeMap, BTreeSet};

const ANN: &str = "S-1-5-21-1-2-3-1001";
const BEN: &str = "S-1-5-21-1-2-3-1002";
/// SYSTEM, which has an entry by default.
const SYSTEM: &str = "S-1-5-18";

/// A Windows by Microsoft's pages: a right that is there is given again without an error, a member of
/// a group is refused a second time (`ERROR_MEMBER_IN_ALIAS`), and EventAccessRemove takes every entry
/// of a list but the default's.
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
        let accounts = [("Ann", ANN), ("Ben", BEN)];
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
        let system = Access { sid: SYSTEM.to_owned(), mask: 0x1FFF };
        let list = self.lists.get(&guid).cloned().unwrap_or_default();
        Ok(std::iter::once(system).chain(list).collect())
    }

    fn add_access(&mut self, guid: u128, access: &Access) -> std::result::Result<(), u32> {
        self.call(if guid == SESSION_GUID { "session" } else { "kernel" })?;
        self.lists.entry(guid).or_default().push(access.clone());
        Ok(())
    }

    fn reset_access(&mut self, guid: u128) -> std::result::Result<(), u32> {
        self.call("reset")?;
        self.lists.remove(&guid);
        Ok(())
    }
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
    let error = give(&mut fake, "Eve").expect_err("there is none").to_string();
    assert!(error.contains("`Eve`"), "{error}");
}
