//! The key that seals recordings, in the registry: there nobody else can read it, or put a key where
//! it will be, as one could in a folder that all users may write to.

use super::wide;
use std::ptr;
use windows_sys::Win32::Foundation::{ERROR_SUCCESS, FALSE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{PSECURITY_DESCRIPTOR, SECURITY_ATTRIBUTES};
use windows_sys::Win32::System::Registry::{
    HKEY, HKEY_CURRENT_USER, HKEY_LOCAL_MACHINE, KEY_QUERY_VALUE, KEY_SET_VALUE, REG_BINARY,
    REG_OPTION_NON_VOLATILE, RRF_RT_REG_BINARY, RegCloseKey, RegCreateKeyExW, RegGetValueW,
    RegSetValueExW,
};

/// As many as HMAC-SHA-256 returns: fewer are discouraged (RFC 2104, 3).
const BYTES: usize = 32;
const PATH: &str = r"SOFTWARE\halprof";
const NAME: &str = "RecordingKey";
/// All access for SYSTEM and administrators, and nothing inherited.
const ADMINISTRATORS: &str = "D:P(A;;KA;;;SY)(A;;KA;;;BA)";

/// The key that administrators share or, for any other user, the user's. `new` becomes it if there
/// is none yet.
pub fn kept(new: &[u8; BYTES]) -> Option<[u8; BYTES]> {
    let shared = Descriptor::parse(ADMINISTRATORS)
        .and_then(|access| OpenKey::open(HKEY_LOCAL_MACHINE, Some(&access)));
    // Only the user may write below this one, and only the user and administrators may read.
    let key = shared.or_else(|| OpenKey::open(HKEY_CURRENT_USER, None))?;
    key.read().or_else(|| {
        key.write(new);
        key.read()
    })
}

struct Descriptor(PSECURITY_DESCRIPTOR);

impl Descriptor {
    fn parse(text: &str) -> Option<Self> {
        let text = wide::terminated(text);
        let mut descriptor = ptr::null_mut();
        // SAFETY: the text ends with a zero, `descriptor` is valid for a write, and the length is
        // not requested.
        let done = unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                ptr::null_mut(),
            )
        };
        (done != FALSE).then_some(Self(descriptor))
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the conversion has allocated it, for LocalFree.
        unsafe { LocalFree(self.0) };
    }
}

/// A key of the registry, open for reading and writing values.
struct OpenKey(HKEY);

impl OpenKey {
    /// Creates it with this access if it does not exist.
    fn open(below: HKEY, access: Option<&Descriptor>) -> Option<Self> {
        let path = wide::terminated(PATH);
        let attributes = SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: access.map_or(ptr::null_mut(), |access| access.0),
            bInheritHandle: FALSE,
        };
        let mut key = ptr::null_mut();
        // SAFETY: the path ends with a zero, `attributes` is valid for reads, `key` for a write; no
        // class is given, and whether it existed is not requested.
        let error = unsafe {
            RegCreateKeyExW(
                below,
                path.as_ptr(),
                0,
                ptr::null(),
                REG_OPTION_NON_VOLATILE,
                KEY_QUERY_VALUE | KEY_SET_VALUE,
                &raw const attributes,
                &raw mut key,
                ptr::null_mut(),
            )
        };
        (error == ERROR_SUCCESS).then_some(Self(key))
    }

    fn read(&self) -> Option<[u8; BYTES]> {
        let name = wide::terminated(NAME);
        let mut value = [0; BYTES];
        let mut length = BYTES as u32;
        // SAFETY: the key is open, the name ends with a zero, the type is not requested, `value` is
        // valid for writes of `length` bytes, and `length` for a write.
        let error = unsafe {
            RegGetValueW(
                self.0,
                ptr::null(),
                name.as_ptr(),
                RRF_RT_REG_BINARY,
                ptr::null_mut(),
                value.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        (error == ERROR_SUCCESS && length as usize == BYTES).then_some(value)
    }

    fn write(&self, value: &[u8; BYTES]) {
        let name = wide::terminated(NAME);
        // Whether it worked shows when it is read.
        // SAFETY: the key is open, the name ends with a zero, and `value` is valid for reads of the
        // length given.
        unsafe {
            RegSetValueExW(self.0, name.as_ptr(), 0, REG_BINARY, value.as_ptr(), BYTES as u32)
        };
    }
}

impl Drop for OpenKey {
    fn drop(&mut self) {
        // SAFETY: the key is open, and nobody uses it any more.
        unsafe { RegCloseKey(self.0) };
    }
}
