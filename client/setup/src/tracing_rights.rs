//! Gives an account the rights to measure by Windows' own tracing without elevation, and takes them
//! back.
//!
//! No function here calls Windows: what is given and in which order is decided here, and the foreign
//! functions are behind [`Calls`]. Nothing of it has run on a Windows. Sources: Microsoft's pages of
//! EventAccessControl and EventAccessRemove (evntcons.h) and of the user right "Profile system
//! performance"; solidean's shaped-core does the same by a script.

use crate::{Error, Result};
use halprof_measure::Error as Measure;
use halprof_measure::tracing::session::SESSION_GUID;
use schemars::JsonSchema;
use serde::Serialize;

/// SystemTraceControlGuid (evntrace.h): the kernel's events.
const KERNEL_EVENTS_GUID: u128 = 0x9e814aad_3204_11d2_9a82_006008a86939;

/// WMIGUID_QUERY and TRACELOG_CREATE_ONDISK (evntcons.h): to ask for a session, and to start and stop
/// one that writes a file.
const QUERY_AND_CREATE: u32 = 0x01 | 0x40;
/// TRACELOG_GUID_ENABLE (evntcons.h).
const ENABLE: u32 = 0x80;

/// What an account needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The user right SeSystemProfilePrivilege.
    Privilege,
    /// Membership of the group Performance Log Users.
    Group,
    /// Control of halprof's session.
    Session,
    KernelEvents,
}

impl Grant {
    /// All of them, in the order in which they are given.
    pub const ALL: [Self; 4] = [Self::Privilege, Self::Group, Self::Session, Self::KernelEvents];

    /// What it is, as a noun.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Privilege => {
                "the user right \"Profile system performance\" (SeSystemProfilePrivilege)"
            }
            Self::Group => "membership of Performance Log Users (S-1-5-32-559)",
            Self::Session => "control of halprof's session",
            Self::KernelEvents => "the kernel's events (SystemTraceControlGuid)",
        }
    }

    /// The session or provider that it gives access to, and which access.
    const fn access(self) -> Option<(u128, u32)> {
        match self {
            Self::Session => Some((SESSION_GUID, QUERY_AND_CREATE)),
            Self::KernelEvents => Some((KERNEL_EVENTS_GUID, ENABLE)),
            Self::Privilege | Self::Group => None,
        }
    }
}

/// An account of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its full name, such as `PC\Ann`.
    pub name: String,
    /// Its security identifier, such as `S-1-5-21-1-2-3-1001`.
    pub sid: String,
}

/// An entry of an access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whom, by security identifier.
    pub sid: String,
    /// What.
    pub mask: u32,
    /// Whether that is allowed or denied.
    pub kind: AccessKind,
}

/// What an entry of an access control list does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// It allows (ACCESS_ALLOWED_ACE without flags).
    Allows,
    /// It denies (ACCESS_DENIED_ACE without flags).
    Denies,
    /// Something that EventAccessControl cannot make: an entry of another type, or one with flags.
    Other,
}

/// What Windows is called for. Each error is a Win32 error.
pub trait Calls {
    fn account(&mut self, name: &str) -> std::result::Result<Account, u32>;
    fn has_privilege(&mut self, sid: &str) -> std::result::Result<bool, u32>;
    fn set_privilege(&mut self, sid: &str, given: bool) -> std::result::Result<(), u32>;
    fn is_member(&mut self, sid: &str) -> std::result::Result<bool, u32>;
    fn set_member(&mut self, sid: &str, given: bool) -> std::result::Result<(), u32>;
    /// All entries of the list of a session or provider, in their order (EventAccessQuery); Windows'
    /// default where nothing was set.
    fn access(&mut self, guid: u128) -> std::result::Result<Vec<Access>, u32>;
    /// EventAccessControl with EventSecurityAddDACL: one more entry, which allows or denies.
    fn add_access(&mut self, guid: u128, access: &Access) -> std::result::Result<(), u32>;
    /// EventAccessControl with EventSecuritySetDACL: this entry in place of all.
    fn set_access(&mut self, guid: u128, access: &Access) -> std::result::Result<(), u32>;
    /// EventAccessRemove: from then on Windows' default is in force.
    fn reset_access(&mut self, guid: u128) -> std::result::Result<(), u32>;
}

/// Why a right was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The Win32 error.
    Windows(u32),
    /// The list has an entry that could not be put back.
    CannotPutBack,
    /// Windows took the list, and not each of its entries again.
    Lost(u32),
}

impl From<u32> for Why {
    fn from(error: u32) -> Self {
        Self::Windows(error)
    }
}

/// What an account was given, or what was taken from it.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Changed {
    /// The account's full name.
    pub account: String,
    /// Its security identifier.
    pub sid: String,
    /// Each right, in the order in which it was changed.
    pub rights: Vec<ChangedRight>,
}

/// A right that was given or taken.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ChangedRight {
    /// What it is.
    pub right: String,
    /// Whether there was anything to change.
    pub changed: bool,
}

/// Gives an account what it needs. If Windows refuses one right, those before it are taken back.
pub fn give(calls: &mut dyn Calls, name: &str) -> Result<Changed> {
    let account = find(calls, name)?;
    let mut given = Vec::new();
    for grant in Grant::ALL {
        match set(calls, grant, &account, true) {
            Ok(changed) => given.push((grant, changed)),
            Err(error) => {
                for (grant, _) in given.into_iter().rev().filter(|(_, changed)| *changed) {
                    // The first error says what is in the way.
                    let _ = set(calls, grant, &account, false);
                }
                return Err(refused("given", grant, &account, error));
            }
        }
    }
    Ok(changed(account, given))
}

/// Takes back what [`give`] gave. What others have been given stays. If Windows refuses one right, the
/// others are taken all the same.
pub fn take(calls: &mut dyn Calls, name: &str) -> Result<Changed> {
    let account = find(calls, name)?;
    let mut taken = Vec::new();
    let mut first_error = None;
    for grant in Grant::ALL.into_iter().rev() {
        match set(calls, grant, &account, false) {
            Ok(changed) => taken.push((grant, changed)),
            Err(error) => {
                first_error.get_or_insert_with(|| refused("taken back", grant, &account, error));
            }
        }
    }
    first_error.map_or_else(|| Ok(changed(account, taken)), Err)
}

/// Whether an account has a right; `None` if Windows does not say.
pub fn has(calls: &mut dyn Calls, grant: Grant, sid: &str) -> Option<bool> {
    let has = match grant.access() {
        None if grant == Grant::Privilege => calls.has_privilege(sid),
        None => calls.is_member(sid),
        Some((guid, mask)) => calls.access(guid).map(|list| allows(&list, sid, mask)),
    };
    has.ok()
}

/// Whether an entry of the account's own allows all of it, and none denies any.
fn allows(list: &[Access], sid: &str, mask: u32) -> bool {
    let own = |kind| list.iter().filter(move |one| one.sid == sid && one.kind == kind);
    own(AccessKind::Allows).any(|one| one.mask & mask == mask)
        && !own(AccessKind::Denies).any(|one| one.mask & mask != 0)
}

/// The list without what [`give`] added for an account: its own entry or, if there is none, these
/// rights in others of its. `None` if it has nothing of it.
fn without(list: &[Access], sid: &str, mask: u32) -> Option<Vec<Access>> {
    let is_own = |one: &Access| one.sid == sid && one.kind == AccessKind::Allows;
    let mut left = list.to_vec();
    if let Some(at) = left.iter().rposition(|one| is_own(one) && one.mask == mask) {
        left.remove(at);
        return Some(left);
    }
    for one in left.iter_mut().filter(|one| is_own(one)) {
        one.mask &= !mask;
    }
    left.retain(|one| !is_own(one) || one.mask != 0);
    (left != list).then_some(left)
}

/// Returns whether there was anything to change.
fn set(
    calls: &mut dyn Calls,
    grant: Grant,
    account: &Account,
    given: bool,
) -> std::result::Result<bool, Why> {
    let sid = &account.sid;
    let Some((guid, mask)) = grant.access() else {
        let is_privilege = grant == Grant::Privilege;
        let has = if is_privilege { calls.has_privilege(sid) } else { calls.is_member(sid) }?;
        if has != given {
            let set = if is_privilege { Calls::set_privilege } else { Calls::set_member };
            set(calls, sid, given)?;
        }
        return Ok(has != given);
    };
    let list = calls.access(guid)?;
    let changed =
        if given { (!allows(&list, sid, mask)).then(Vec::new) } else { without(&list, sid, mask) };
    let Some(left) = changed else { return Ok(false) };
    // Windows takes an entry out only with all others, so that what is given where they could not be
    // put back could never be taken.
    if list.iter().any(|access| access.kind == AccessKind::Other) {
        return Err(Why::CannotPutBack);
    }
    if given {
        let access = Access { sid: sid.clone(), mask, kind: AccessKind::Allows };
        calls.add_access(guid, &access)?;
        return Ok(true);
    }
    // The entries of Windows' default are among them. Their order stays: the first that speaks of a
    // right decides.
    let Some((first, others)) = left.split_first() else {
        calls.reset_access(guid)?;
        return Ok(true);
    };
    calls.set_access(guid, first)?;
    for access in others {
        calls.add_access(guid, access).map_err(Why::Lost)?;
    }
    Ok(true)
}

fn changed(account: Account, rights: Vec<(Grant, bool)>) -> Changed {
    let rights = rights.into_iter();
    let rights =
        rights.map(|(grant, changed)| ChangedRight { right: grant.name().to_owned(), changed });
    Changed { account: account.name, sid: account.sid, rights: rights.collect() }
}

fn find(calls: &mut dyn Calls, name: &str) -> Result<Account> {
    calls.account(name).map_err(|error| {
        Error::Measure(Measure::unavailable(
            format!("Windows finds no account called `{name}` (Win32 error {error})"),
            "Give the name as `whoami` prints it in a prompt of that account.",
        ))
    })
}

fn refused(done: &str, grant: Grant, account: &Account, why: Why) -> Error {
    let (reason, hint) = match why {
        Why::Windows(error) => (
            format!("Win32 error {error}"),
            "A domain's policy may keep accounts' rights: ask who administers this machine.",
        ),
        Why::CannotPutBack => (
            "somebody has put an entry into its access control list that halprof could not put back"
                .to_owned(),
            "Change the list with the tool that made the entry; nothing of it has been changed.",
        ),
        Why::Lost(error) => (
            format!("Windows did not take back all entries of its access control list: Win32 error {error}"),
            "Have who administers this machine look at the list (`EventAccessQuery`).",
        ),
    };
    Error::Measure(Measure::unavailable(
        format!("{} could not be {done} to or from {}: {reason}", grant.name(), account.name),
        hint,
    ))
}

/// Whether this process's account may trace without elevation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingRights {
    /// What the account has been given, in the order of [`Grant::ALL`]; `None` where Windows does not
    /// say.
    pub given: [Option<bool>; 4],
    /// Whether the right and the group are in this process's token.
    pub in_force: bool,
}

impl TracingRights {
    /// Asks for the rights of an account.
    pub fn of(calls: &mut dyn Calls, sid: &str, in_force: bool) -> Self {
        Self { given: Grant::ALL.map(|grant| has(calls, grant, sid)), in_force }
    }
}

#[cfg(test)]
mod tests;
