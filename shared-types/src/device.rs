//! The device's names, used by the driver, the install file, the tool and the tests.
//!
//! `driver.inx` cannot use Rust constants; a test compares it with this file.

/// A GUID, with the fields of guiddef.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guid(pub u32, pub u16, pub u16, pub [u8; 8]);

/// The device interface: GUID_DEVINTERFACE_HALPROF, {9c110037-78fb-4895-b39c-c035038058bf}.
/// The tool opens the device by it.
pub const INTERFACE: Guid =
    Guid(0x9c110037, 0x78fb, 0x4895, [0xb3, 0x9c, 0xc0, 0x35, 0x03, 0x80, 0x58, 0xbf]);

/// The device's name in the NT namespace.
pub const NT_NAME: &str = r"\Device\halprof";
/// The symbolic link to the device, by which people and debuggers open it: `\\.\halprof`.
pub const LINK_NAME: &str = r"\DosDevices\halprof";

/// The hardware id of the root-enumerated device node.
pub const HARDWARE_ID: &str = r"Root\halprof";

/// The driver's service, which the install file adds.
pub const SERVICE: &str = "halprof";

/// The security descriptor: only SYSTEM and Administrators may open the device.
pub const SECURITY: &str = "D:P(A;;GA;;;SY)(A;;GA;;;BA)";

/// ASCII text as UTF-16 for Windows, without a terminating zero; make `N` one larger to get one.
///
/// # Panics
/// If the text is longer than `N` or not ASCII; in a constant, this happens at compile time.
pub const fn utf16<const N: usize>(text: &str) -> [u16; N] {
    assert!(text.is_ascii() && text.len() <= N, "ASCII of N at most");
    let mut wide = [0; N];
    let mut rest = text.as_bytes();
    let mut index = 0;
    while let [first, others @ ..] = rest {
        wide[index] = *first as u16;
        rest = others;
        index += 1;
    }
    wide
}

const _: () = {
    let wide: [u16; 12] = utf16(HARDWARE_ID);
    assert!(wide[0] == b'R' as u16 && wide[4] == b'\\' as u16 && wide[11] == b'f' as u16);
    let terminated: [u16; 13] = utf16(HARDWARE_ID);
    assert!(terminated[12] == 0);
};
