//! The text of a file in UTF-8, or in UTF-16 as `>` of Windows PowerShell 5 writes it.

use std::io;
use std::string::FromUtf8Error;

/// Decodes a file's bytes.
///
/// # Errors
/// The bytes are neither.
pub fn decode(mut bytes: Vec<u8>) -> Result<String, FromUtf8Error> {
    const UTF_8: &[u8] = b"\xEF\xBB\xBF";
    if let Some(utf16) = bytes.strip_prefix(b"\xFF\xFE") {
        let units = utf16.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        return Ok(char::decode_utf16(units).map(|one| one.unwrap_or('\u{FFFD}')).collect());
    }
    if bytes.starts_with(UTF_8) {
        bytes.drain(..UTF_8.len());
    }
    String::from_utf8(bytes)
}

/// Decodes a file's bytes; the error is one of reading the file.
///
/// # Errors
/// The bytes are neither.
pub fn decode_or_invalid(bytes: Vec<u8>) -> io::Result<String> {
    decode(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_shell_writes_is_read() {
        for bytes in [&b"a\xC3\xA4"[..], b"\xEF\xBB\xBFa\xC3\xA4", b"\xFF\xFEa\0\xE4\0"] {
            assert_eq!(decode(bytes.to_vec()).as_deref(), Ok("a\u{E4}"), "{bytes:?}");
        }
        assert!(decode(b"\xC3".to_vec()).is_err());
    }
}
