//! Text of bounded length on the wire.

use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// UTF-8 text of at most `N` bytes, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// The text, cut at the last whole character that fits.
    pub fn new(text: &str) -> Self {
        let mut end = text.len().min(N);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = [0; N];
        if let (Some(to), Some(from)) = (bytes.get_mut(..end), text.as_bytes().get(..end)) {
            to.copy_from_slice(from);
        }
        Self(bytes)
    }

    /// The text up to the first zero or the first byte that is not UTF-8.
    pub fn as_str(&self) -> &str {
        let length = self.0.iter().position(|&byte| byte == 0).unwrap_or(N);
        let text = self.0.get(..length).unwrap_or_default();
        match core::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(text.get(..error.valid_up_to()).unwrap_or_default())
                .unwrap_or_default(),
        }
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
