//! The rights of accounts: the user right, the group and the access control of Windows' own tracing.

use super::library::Library;
use super::wide;
use crate::tracing_rights::{Access, AccessKind, Account, Calls, TracingRights};
use std::ffi::c_void;
use std::ptr;
use windows_sys::Win32::Foundation::{
    ERROR_CALL_NOT_IMPLEMENTED, ERROR_FILE_NOT_FOUND, ERROR_INSUFFICIENT_BUFFER,
    ERROR_MEMBER_IN_ALIAS, ERROR_MEMBER_NOT_IN_ALIAS, ERROR_NOT_SUPPORTED, ERROR_SUCCESS, FALSE,
    GetLastError, HANDLE, HLOCAL, LUID, LocalFree, NTSTATUS, TRUE,
};
use windows_sys::Win32::NetworkManagement::NetManagement::{
    LOCALGROUP_MEMBERS_INFO_0, MAX_PREFERRED_LENGTH,
};
use windows_sys::Win32::Security::Authentication::Identity::{
    LSA_HANDLE, LSA_OBJECT_ATTRIBUTES, LSA_UNICODE_STRING, LsaAddAccountRights, LsaClose,
    LsaEnumerateAccountRights, LsaFreeMemory, LsaNtStatusToWinError, LsaOpenPolicy,
    LsaRemoveAccountRights, POLICY_CREATE_ACCOUNT, POLICY_LOOKUP_NAMES,
};
use windows_sys::Win32::Security::Authorization::{ConvertSidToStringSidW, ConvertStringSidToSidW};
use windows_sys::Win32::Security::{
    ACCESS_ALLOWED_ACE, ACE_HEADER, ACL, CheckTokenMembership, GetAce, GetSecurityDescriptorDacl,
    GetTokenInformation, LUID_AND_ATTRIBUTES, LookupAccountNameW, LookupAccountSidW,
    LookupPrivilegeValueW, PSECURITY_DESCRIPTOR, PSID, TOKEN_PRIVILEGES, TOKEN_USER,
    TokenPrivileges, TokenUser,
};
use windows_sys::Win32::System::Diagnostics::Etw::{EventSecurityAddDACL, EventSecuritySetDACL};
use windows_sys::core::{BOOL, GUID};

const PRIVILEGE: &str = "SeSystemProfilePrivilege";
/// Performance Log Users, whose name is in Windows' language.
const GROUP: &str = "S-1-5-32-559";
/// GetCurrentProcessToken (processthreadsapi.h): a pseudo handle, which needs no closing.
const PROCESS_TOKEN: HANDLE = -4_isize as HANDLE;
/// ACCESS_ALLOWED_ACE_TYPE and ACCESS_DENIED_ACE_TYPE (winnt.h).
const ALLOWED: u8 = 0;
const DENIED: u8 = 1;

type Answer<T> = Result<T, u32>;

/// Windows, for [`crate::tracing_rights`].
#[derive(Debug)]
pub struct Rights;

/// The rights of the account of this process; `None` if Windows does not say whose it is.
pub(super) fn of_this_process() -> Option<TracingRights> {
    let sid = own_sid()?;
    let in_force = has_group() && has_privilege();
    Some(TracingRights::of(&mut Rights, &sid, in_force))
}

impl Calls for Rights {
    fn account(&mut self, name: &str) -> Answer<Account> {
        let account = wide::terminated(name);
        // A SID has at most 68 bytes (SECURITY_MAX_SID_SIZE, winnt.h).
        let (mut sid, mut domain) = ([0_u64; 16], [0_u16; 256]);
        let (mut sid_length, mut domain_length) = (size_of_val(&sid) as u32, domain.len() as u32);
        let mut kind = 0;
        // SAFETY: the name ends with a zero; `sid` is aligned for a SID and, like `domain`, valid for
        // writes of the length given; the lengths and the kind are valid for writes.
        let done = unsafe {
            LookupAccountNameW(
                ptr::null(),
                account.as_ptr(),
                sid.as_mut_ptr().cast(),
                &raw mut sid_length,
                domain.as_mut_ptr(),
                &raw mut domain_length,
                &raw mut kind,
            )
        };
        succeeded(done)?;
        // The name may have been given without its domain.
        let bare = name.rsplit('\\').next().unwrap_or(name);
        let name = format!(r"{}\{bare}", wide::text(&domain));
        // SAFETY: the lookup has written a SID.
        let sid = unsafe { text_of(sid.as_mut_ptr().cast()) };
        Ok(Account { name, sid: sid.ok_or(ERROR_CALL_NOT_IMPLEMENTED)? })
    }

    fn has_privilege(&mut self, sid: &str) -> Answer<bool> {
        let (sid, policy) = (Sid::parse(sid)?, Policy::open(POLICY_LOOKUP_NAMES)?);
        let (mut rights, mut count) = (ptr::null_mut(), 0);
        // SAFETY: the policy is open, the SID is valid, and both others are valid for writes.
        let status =
            unsafe { LsaEnumerateAccountRights(policy.0, sid.0, &raw mut rights, &raw mut count) };
        match lsa(status) {
            // The account has no right of its own.
            Err(ERROR_FILE_NOT_FOUND) => return Ok(false),
            other => other?,
        }
        if rights.is_null() {
            return Ok(false);
        }
        // SAFETY: the list has `count` texts.
        let names = unsafe { std::slice::from_raw_parts(rights, count as usize) };
        let has = names.iter().any(|name| {
            let length = usize::from(name.Length) / 2;
            // SAFETY: a text is as long, in bytes, as it says.
            let units = unsafe { std::slice::from_raw_parts(name.Buffer, length) };
            String::from_utf16_lossy(units) == PRIVILEGE
        });
        // SAFETY: the enumeration has allocated it.
        unsafe { LsaFreeMemory(rights.cast()) };
        Ok(has)
    }

    fn set_privilege(&mut self, sid: &str, given: bool) -> Answer<()> {
        let sid = Sid::parse(sid)?;
        // An account without a right of its own is not in the policy yet: LsaAddAccountRights
        // creates it.
        let policy = Policy::open(POLICY_LOOKUP_NAMES | POLICY_CREATE_ACCOUNT)?;
        let mut name = wide::terminated(PRIVILEGE);
        let bytes = 2 * (name.len() - 1) as u16;
        let right = LSA_UNICODE_STRING {
            Length: bytes,
            MaximumLength: bytes + 2,
            Buffer: name.as_mut_ptr(),
        };
        let status = if given {
            // SAFETY: the policy is open, the SID is valid, and `right` is one text, which is read.
            unsafe { LsaAddAccountRights(policy.0, sid.0, &raw const right, 1) }
        } else {
            // SAFETY: the same.
            unsafe { LsaRemoveAccountRights(policy.0, sid.0, false, &raw const right, 1) }
        };
        lsa(status)
    }

    fn is_member(&mut self, sid: &str) -> Answer<bool> {
        type GetMembers = unsafe extern "system" fn(
            *const u16,
            *const u16,
            u32,
            *mut *mut LOCALGROUP_MEMBERS_INFO_0,
            u32,
            *mut u32,
            *mut u32,
            *mut usize,
        ) -> u32;
        type Free = unsafe extern "system" fn(*const c_void) -> u32;
        // SAFETY: this is the type of the function (lmaccess.h).
        let get: GetMembers = unsafe { function(NETWORK, c"NetLocalGroupGetMembers") }?;
        // SAFETY: this is the type of the function (lmapibuf.h).
        let free: Free = unsafe { function(NETWORK, c"NetApiBufferFree") }?;
        let group = group_name()?;
        let (mut buffer, mut count, mut total) = (ptr::null_mut(), 0, 0);
        // SAFETY: null means this machine and one call for all; the name ends with a zero; the others
        // are valid for writes.
        let error = unsafe {
            get(
                ptr::null(),
                group.as_ptr(),
                0,
                &raw mut buffer,
                MAX_PREFERRED_LENGTH,
                &raw mut count,
                &raw mut total,
                ptr::null_mut(),
            )
        };
        status(error)?;
        if buffer.is_null() {
            return Ok(false);
        }
        // SAFETY: the buffer has `count` entries.
        let members = unsafe { std::slice::from_raw_parts(buffer, count as usize) };
        let is_member = members.iter().any(|member| {
            // SAFETY: each entry has a valid SID.
            unsafe { text_of(member.lgrmi0_sid) }.as_deref() == Some(sid)
        });
        // SAFETY: the function has allocated it.
        unsafe { free(buffer.cast()) };
        Ok(is_member)
    }

    fn set_member(&mut self, sid: &str, given: bool) -> Answer<()> {
        type SetMembers =
            unsafe extern "system" fn(*const u16, *const u16, u32, *const u8, u32) -> u32;
        let name = if given { c"NetLocalGroupAddMembers" } else { c"NetLocalGroupDelMembers" };
        // SAFETY: this is the type of both functions (lmaccess.h).
        let set: SetMembers = unsafe { function(NETWORK, name)? };
        let (sid, group) = (Sid::parse(sid)?, group_name()?);
        let member = LOCALGROUP_MEMBERS_INFO_0 { lgrmi0_sid: sid.0 };
        // SAFETY: null means this machine; the name ends with a zero; there is one entry with a valid
        // SID.
        let error = unsafe { set(ptr::null(), group.as_ptr(), 0, (&raw const member).cast(), 1) };
        match error {
            // Somebody else has done it since it was asked for.
            ERROR_MEMBER_IN_ALIAS | ERROR_MEMBER_NOT_IN_ALIAS => Ok(()),
            error => status(error),
        }
    }

    fn access(&mut self, guid: u128) -> Answer<Vec<Access>> {
        type Query = unsafe extern "system" fn(*const GUID, PSECURITY_DESCRIPTOR, *mut u32) -> u32;
        // SAFETY: this is the type of the function (evntcons.h).
        let query: Query = unsafe { function(TRACING, c"EventAccessQuery")? };
        let guid = GUID::from_u128(guid);
        let mut descriptor = vec![0_u64; 64];
        loop {
            let mut length = size_of_val(descriptor.as_slice()) as u32;
            // SAFETY: the descriptor is valid for writes of the length given, and aligned.
            let error =
                unsafe { query(&raw const guid, descriptor.as_mut_ptr().cast(), &raw mut length) };
            match error {
                // 64 KiB: the size of an access control list is a number of 16 bits (ACL.AclSize,
                // winnt.h).
                ERROR_INSUFFICIENT_BUFFER if descriptor.len() < 8192 => {
                    descriptor.resize(descriptor.len() * 2, 0);
                }
                // Nothing was set.
                ERROR_FILE_NOT_FOUND => return Ok(Vec::new()),
                error => {
                    status(error)?;
                    // SAFETY: Windows has written a security descriptor.
                    return unsafe { entries(descriptor.as_mut_ptr().cast()) };
                }
            }
        }
    }

    fn add_access(&mut self, guid: u128, access: &Access) -> Answer<()> {
        control(guid, EventSecurityAddDACL, access)
    }

    fn set_access(&mut self, guid: u128, access: &Access) -> Answer<()> {
        control(guid, EventSecuritySetDACL, access)
    }

    fn reset_access(&mut self, guid: u128) -> Answer<()> {
        type Remove = unsafe extern "system" fn(*const GUID) -> u32;
        // SAFETY: this is the type of the function (evntcons.h).
        let remove: Remove = unsafe { function(TRACING, c"EventAccessRemove")? };
        let guid = GUID::from_u128(guid);
        // SAFETY: the identifier is valid for reads.
        match unsafe { remove(&raw const guid) } {
            ERROR_FILE_NOT_FOUND => Ok(()),
            error => status(error),
        }
    }
}

/// EventAccessControl.
fn control(guid: u128, operation: i32, access: &Access) -> Answer<()> {
    type Control = unsafe extern "system" fn(*const GUID, u32, PSID, u32, bool) -> u32;
    let allows = match access.kind {
        AccessKind::Allows => true,
        AccessKind::Denies => false,
        AccessKind::Other => return Err(ERROR_NOT_SUPPORTED),
    };
    // SAFETY: this is the type of the function (evntcons.h).
    let control: Control = unsafe { function(TRACING, c"EventAccessControl")? };
    let (guid, sid) = (GUID::from_u128(guid), Sid::parse(&access.sid)?);
    // SAFETY: the identifier and the SID are valid for reads.
    let error =
        unsafe { control(&raw const guid, operation.cast_unsigned(), sid.0, access.mask, allows) };
    status(error)
}

const NETWORK: &str = "netapi32.dll";
const TRACING: &str = "advapi32.dll";

/// A function that is not imported: Wine lacks those of tracing, and netapi32.dll could lie beside the
/// tool.
///
/// # Safety
/// `F` is the type of a pointer to the function of this name.
unsafe fn function<F: Copy>(library: &str, name: &std::ffi::CStr) -> Answer<F> {
    let library = Library::load(library).map_err(|_| ERROR_CALL_NOT_IMPLEMENTED)?;
    // SAFETY: the caller vouches for the type.
    unsafe { library.function(name) }.map_err(|_| ERROR_CALL_NOT_IMPLEMENTED)
}

/// A security identifier that Windows has allocated.
struct Sid(PSID);

impl Sid {
    fn parse(text: &str) -> Answer<Self> {
        let text = wide::terminated(text);
        let mut sid = ptr::null_mut();
        // SAFETY: the text ends with a zero, and `sid` is valid for a write.
        succeeded(unsafe { ConvertStringSidToSidW(text.as_ptr(), &raw mut sid) })?;
        Ok(Self(sid))
    }
}

impl Drop for Sid {
    fn drop(&mut self) {
        // SAFETY: the conversion has allocated it, for LocalFree, and nothing uses it after this.
        unsafe { LocalFree(self.0.cast::<c_void>() as HLOCAL) };
    }
}

/// The policy of this machine.
struct Policy(LSA_HANDLE);

impl Policy {
    fn open(access: i32) -> Answer<Self> {
        let attributes = LSA_OBJECT_ATTRIBUTES::default();
        let mut policy = LSA_HANDLE::default();
        // SAFETY: null means this machine; the attributes are all zeros, as they have to be; `policy` is
        // valid for a write.
        let status = unsafe {
            LsaOpenPolicy(
                ptr::null(),
                &raw const attributes,
                access.cast_unsigned(),
                &raw mut policy,
            )
        };
        lsa(status).map(|()| Self(policy))
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and nothing uses it after this.
        unsafe { LsaClose(self.0) };
    }
}

/// The name of the group in Windows' language, with its terminating zero.
fn group_name() -> Answer<Vec<u16>> {
    let sid = Sid::parse(GROUP)?;
    let (mut name, mut domain) = ([0_u16; 256], [0_u16; 256]);
    let (mut name_length, mut domain_length) = (name.len() as u32, domain.len() as u32);
    let mut kind = 0;
    // SAFETY: the SID is valid; both texts are valid for writes of the lengths given, and the lengths and
    // the kind for writes.
    let done = unsafe {
        LookupAccountSidW(
            ptr::null(),
            sid.0,
            name.as_mut_ptr(),
            &raw mut name_length,
            domain.as_mut_ptr(),
            &raw mut domain_length,
            &raw mut kind,
        )
    };
    succeeded(done)?;
    Ok(wide::terminated(wide::text(&name)))
}

/// A SID as text.
///
/// # Safety
/// The SID is valid.
unsafe fn text_of(sid: PSID) -> Option<String> {
    let mut text = ptr::null_mut();
    // SAFETY: the caller guarantees the SID, and `text` is valid for a write.
    let done = unsafe { ConvertSidToStringSidW(sid, &raw mut text) };
    if done == FALSE {
        return None;
    }
    // SAFETY: the conversion has made a text with a zero at its end.
    let copy = unsafe { wide::at(text) };
    // SAFETY: the conversion has allocated it, for LocalFree.
    unsafe { LocalFree(text.cast::<c_void>() as HLOCAL) };
    Some(copy)
}

/// Everything in the list of a security descriptor. A descriptor without one allows everything to
/// everybody, which no entry says.
///
/// # Safety
/// The descriptor is valid.
unsafe fn entries(descriptor: PSECURITY_DESCRIPTOR) -> Answer<Vec<Access>> {
    let (mut present, mut defaulted) = (FALSE, FALSE);
    let mut list: *mut ACL = ptr::null_mut();
    // SAFETY: the caller guarantees the descriptor, and the others are valid for writes.
    let done = unsafe {
        GetSecurityDescriptorDacl(descriptor, &raw mut present, &raw mut list, &raw mut defaulted)
    };
    succeeded(done)?;
    let other = || Access { sid: String::new(), mask: 0, kind: AccessKind::Other };
    if present == FALSE || list.is_null() {
        return Ok(vec![other()]);
    }
    // SAFETY: the list is part of the descriptor.
    let count = unsafe { (*list).AceCount };
    let mut accesses = Vec::new();
    for index in 0..u32::from(count) {
        let mut entry = ptr::null_mut();
        // SAFETY: the list is valid, and `entry` is valid for a write.
        succeeded(unsafe { GetAce(list, index, &raw mut entry) })?;
        // SAFETY: every entry begins with a header.
        let header = unsafe { *entry.cast::<ACE_HEADER>() };
        let kind = match (header.AceType, header.AceFlags) {
            (ALLOWED, 0) => AccessKind::Allows,
            (DENIED, 0) => AccessKind::Denies,
            _ => {
                accesses.push(other());
                continue;
            }
        };
        // ACCESS_DENIED_ACE has the same fields (winnt.h).
        let entry = entry.cast::<ACCESS_ALLOWED_ACE>();
        // SAFETY: an entry of these types has a mask.
        let mask = unsafe { (*entry).Mask };
        // SAFETY: and a SID from `SidStart` on.
        let start = unsafe { &raw mut (*entry).SidStart };
        // SAFETY: it is valid, as the list is.
        let sid = unsafe { text_of(start.cast()) };
        accesses.push(sid.map_or_else(other, |sid| Access { sid, mask, kind }));
    }
    Ok(accesses)
}

/// The SID of the account of this process.
fn own_sid() -> Option<String> {
    let mut user = [0_u64; 16];
    token_information(TokenUser, &mut user)?;
    // SAFETY: Windows has written TOKEN_USER, and the buffer is aligned for it.
    let user = unsafe { &*user.as_ptr().cast::<TOKEN_USER>() };
    // SAFETY: its SID follows it in the same buffer.
    unsafe { text_of(user.User.Sid) }
}

/// Whether the token of this process has the group in force.
fn has_group() -> bool {
    let Ok(sid) = Sid::parse(GROUP) else { return false };
    let mut is_member: BOOL = FALSE;
    // SAFETY: null means the token of this thread or process, the SID is valid, and `is_member` is valid
    // for a write.
    let done = unsafe { CheckTokenMembership(ptr::null_mut(), sid.0, &raw mut is_member) };
    done == TRUE && is_member == TRUE
}

/// Whether the token of this process has the privilege, enabled or not.
fn has_privilege() -> bool {
    let name = wide::terminated(PRIVILEGE);
    let mut luid = LUID::default();
    // SAFETY: the name ends with a zero, `luid` is valid for a write, and null means this machine.
    if unsafe { LookupPrivilegeValueW(ptr::null(), name.as_ptr(), &raw mut luid) } == FALSE {
        return false;
    }
    let mut privileges = [0_u64; 256];
    if token_information(TokenPrivileges, &mut privileges).is_none() {
        return false;
    }
    let list = privileges.as_ptr().cast::<TOKEN_PRIVILEGES>();
    // SAFETY: Windows has written TOKEN_PRIVILEGES, and the buffer is aligned for it.
    let count = unsafe { (*list).PrivilegeCount };
    // SAFETY: the same.
    let first = unsafe { &raw const (*list).Privileges };
    // SAFETY: there are as many entries as the count says.
    let entries =
        unsafe { std::slice::from_raw_parts(first.cast::<LUID_AND_ATTRIBUTES>(), count as usize) };
    let is = |entry: &LUID_AND_ATTRIBUTES| {
        (entry.Luid.LowPart, entry.Luid.HighPart) == (luid.LowPart, luid.HighPart)
    };
    entries.iter().any(is)
}

/// What the token of this process says, if it has room.
fn token_information(class: i32, buffer: &mut [u64]) -> Option<()> {
    let mut returned = 0;
    // SAFETY: the pseudo handle is always open, `buffer` is valid for writes of the length given, and
    // `returned` for a write.
    let done = unsafe {
        GetTokenInformation(
            PROCESS_TOKEN,
            class,
            buffer.as_mut_ptr().cast(),
            size_of_val(buffer) as u32,
            &raw mut returned,
        )
    };
    (done != FALSE).then_some(())
}

fn lsa(status: NTSTATUS) -> Answer<()> {
    // SAFETY: takes a number.
    self::status(unsafe { LsaNtStatusToWinError(status) })
}

const fn status(error: u32) -> Answer<()> {
    match error {
        ERROR_SUCCESS => Ok(()),
        error => Err(error),
    }
}

fn succeeded(done: BOOL) -> Answer<()> {
    if done == FALSE {
        // SAFETY: takes no argument.
        return Err(unsafe { GetLastError() });
    }
    Ok(())
}
