//! The part of the crate `windows` that wdk-build calls, on a machine without a registry.
//!
//! Source: the public API of that crate, version 0.62, <https://docs.rs/windows>.

#![allow(dead_code, missing_docs, non_camel_case_types, non_snake_case)]

/// Names as the Windows API takes them.
pub mod core {
    /// A string of Windows, ended by a zero.
    #[derive(Clone, Copy)]
    pub struct PCSTR(pub *const u8);

    /// A literal as [`PCSTR`].
    #[macro_export]
    macro_rules! s {
        ($text:literal) => {
            $crate::core::PCSTR(concat!($text, "\0").as_ptr())
        };
    }
    pub use crate::s;
}

pub mod Win32 {
    pub mod System {
        /// A registry without any key.
        pub mod Registry {
            use crate::core::PCSTR;

            #[derive(Clone, Copy, Default)]
            pub struct HKEY(usize);

            #[derive(Clone, Copy)]
            pub struct Access(());

            pub const HKEY_LOCAL_MACHINE: HKEY = HKEY(1);
            pub const KEY_READ: Access = Access(());
            pub const RRF_RT_REG_SZ: Access = Access(());

            /// An answer of the registry.
            pub struct WIN32_ERROR(u32);

            const ERROR_FILE_NOT_FOUND: WIN32_ERROR = WIN32_ERROR(2);

            impl WIN32_ERROR {
                pub fn is_ok(&self) -> bool {
                    self.0 == 0
                }

                pub fn ok(self) -> Result<(), u32> {
                    Err(self.0)
                }
            }

            /// # Safety
            /// Nothing is asked for.
            pub unsafe fn RegOpenKeyExA(
                _key: HKEY,
                _subkey: PCSTR,
                _options: Option<u32>,
                _access: Access,
                _opened: *mut HKEY,
            ) -> WIN32_ERROR {
                ERROR_FILE_NOT_FOUND
            }

            /// # Safety
            /// Nothing is asked for.
            pub unsafe fn RegGetValueA(
                _key: HKEY,
                _subkey: Option<PCSTR>,
                _value: PCSTR,
                _flags: Access,
                _type: Option<*mut u32>,
                _data: Option<*mut core::ffi::c_void>,
                _size: Option<*mut u32>,
            ) -> WIN32_ERROR {
                ERROR_FILE_NOT_FOUND
            }

            /// # Safety
            /// Nothing is asked for.
            pub unsafe fn RegCloseKey(_key: HKEY) -> WIN32_ERROR {
                ERROR_FILE_NOT_FOUND
            }
        }
    }
}
