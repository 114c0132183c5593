//! Who signed the driver's file, which decides whether Windows needs test signing to load it.

use object::LittleEndian as LE;
use object::read::pe::PeFile64;

/// Who signed an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// The file itself is not signed; its catalog may be.
    None,
    /// Microsoft, by attestation or certification: Windows loads it anywhere.
    Microsoft,
    /// Somebody else: Windows loads it only with test signing on.
    Other,
}

/// IMAGE_DIRECTORY_ENTRY_SECURITY: the location of the certificates. It is the only directory whose
/// address is an offset in the file.
const CERTIFICATES: usize = 4;

/// A name that is in every certificate with which Microsoft signs others' drivers.
const PUBLISHER: &[u8] = b"Microsoft Windows Hardware Compatibility Publisher";

impl Signature {
    /// Finds the signer of an image; `None` if it is no 64-bit image.
    ///
    /// It only looks for a name and verifies nothing: this is for advice. Windows verifies.
    #[must_use]
    pub fn of(image: &[u8]) -> Option<Self> {
        let file = PeFile64::parse(image).ok()?;
        let Some(directory) = file.data_directory(CERTIFICATES) else {
            return Some(Self::None);
        };
        let start = directory.virtual_address.get(LE) as usize;
        let end = start.checked_add(directory.size.get(LE) as usize)?;
        let certificates = image.get(start..end)?;
        if certificates.is_empty() {
            return Some(Self::None);
        }
        let named = certificates
            .windows(PUBLISHER.len())
            .any(|part| part == PUBLISHER);
        Some(if named { Self::Microsoft } else { Self::Other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PE32+ image of headers only, followed by these certificates.
    fn image(certificates: &[u8]) -> Vec<u8> {
        const HEADERS: usize = 64 + 4 + 20 + 240;
        let mut image = vec![0; HEADERS];
        let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"MZ");
        put(0x3C, &64u32.to_le_bytes());
        put(64, b"PE\0\0");
        put(68, &0x8664u16.to_le_bytes());
        put(84, &240u16.to_le_bytes());
        put(88, &0x20Bu16.to_le_bytes());
        put(88 + 108, &16u32.to_le_bytes());
        let directory = 88 + 112 + 8 * CERTIFICATES;
        if !certificates.is_empty() {
            put(directory, &(HEADERS as u32).to_le_bytes());
            put(directory + 4, &(certificates.len() as u32).to_le_bytes());
        }
        [image.as_slice(), certificates].concat()
    }

    #[test]
    fn the_publisher_decides() {
        let microsoft = [b"0\x82.. ".as_slice(), PUBLISHER, b" .."].concat();
        for (certificates, signature) in [
            (b"".as_slice(), Signature::None),
            (b"0\x82.. halprof test ..", Signature::Other),
            (&microsoft, Signature::Microsoft),
        ] {
            assert_eq!(Signature::of(&image(certificates)), Some(signature));
        }
    }

    #[test]
    fn what_is_no_image_and_what_ends_early_is_not_read() {
        assert_eq!(Signature::of(b""), None);
        let whole = image(b"a certificate");
        for length in 0..whole.len() {
            assert_eq!(Signature::of(&whole[..length]), None, "{length} bytes");
        }
    }
}
